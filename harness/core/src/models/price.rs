//! The price of tokens.

use std::fmt;

use crate::provider::Usage;

/// The prices of one million tokens of each kind, in one currency.
///
/// ```
/// use harness::{Usage, models::Price};
///
/// // Prompts of more than 200,000 tokens cost twice as much, and so do their answers.
/// let price = Price::new(3.0, 15.0).cached(0.3, 3.75).long(200_000, Price::new(6.0, 30.0));
/// let usage = Usage { input: Some(100_000), output: Some(2_000), ..Usage::default() };
/// assert_eq!(price.of(&usage), Some(0.33));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// The price of request tokens that were not cached.
    pub input: f64,
    /// The price of request tokens that were read from the vendor's cache.
    pub cache_read: f64,
    /// The price of request tokens that were written to the vendor's cache.
    pub cache_write: f64,
    /// The price of answer tokens, including thinking.
    pub output: f64,
    /// The prices for long prompts, if they differ.
    pub long: Option<LongPrompt>,
}

/// The prices of one million tokens of each kind for long prompts. For a request with a long prompt, these prices apply
/// to all tokens of the request and its answer, not only to the tokens above the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LongPrompt {
    /// The limit in tokens: these prices apply to prompts with more tokens, cached tokens included.
    pub above: u64,
    /// The price of request tokens that were not cached.
    pub input: f64,
    /// The price of request tokens that were read from the vendor's cache.
    pub cache_read: f64,
    /// The price of request tokens that were written to the vendor's cache.
    pub cache_write: f64,
    /// The price of answer tokens, including thinking.
    pub output: f64,
}

/// A price from the columns of a table row: request tokens, cache reads, cache writes, answer
/// tokens.
pub(super) const fn price([input, cache_read, cache_write, output]: [f64; 4]) -> Price {
    Price { input, cache_read, cache_write, output, long: None }
}

impl Price {
    /// A price without cache discounts or surcharges.
    pub const fn new(input: f64, output: f64) -> Self {
        price([input, input, input, output])
    }

    /// Sets the prices of cache reads and cache writes.
    #[must_use]
    pub const fn cached(mut self, read: f64, write: f64) -> Self {
        (self.cache_read, self.cache_write) = (read, write);
        self
    }

    /// Sets the prices for requests whose prompt has more tokens than `above`.
    #[must_use]
    pub const fn long(mut self, above: u64, price: Self) -> Self {
        let Self { input, cache_read, cache_write, output, long: _ } = price;
        self.long = Some(LongPrompt { above, input, cache_read, cache_write, output });
        self
    }

    /// The price of one answer. `None` if the number of request tokens or answer tokens is unknown,
    /// or if a price is negative or not finite.
    pub fn of(&self, usage: &Usage) -> Option<f64> {
        self.money(usage).map(Money::to_f64)
    }

    /// The price of one answer, as in [`of`](Self::of), but exact. Sums of exact prices are not
    /// rounded.
    pub(crate) fn money(&self, usage: &Usage) -> Option<Money> {
        let told = usage.input.is_some() && usage.output.is_some();
        (told && self.is_known()).then(|| self.at_least(usage))
    }

    /// Whether all prices are finite and not negative. If not, the cost of the model counts as
    /// unknown.
    #[doc(hidden)]
    pub fn is_known(&self) -> bool {
        let Self { input, cache_read, cache_write, output, long } = *self;
        let long = long
            .map_or([0.0; 4], |long| [long.input, long.cache_read, long.cache_write, long.output]);
        let all = [[input, cache_read, cache_write, output], long];
        all.iter().flatten().all(|price| price.is_finite() && *price >= 0.0)
    }

    /// The price of an answer's tokens, as far as their number is known.
    pub(crate) fn at_least(&self, usage: &Usage) -> Money {
        let sent = usage.input.unwrap_or(0);
        let read = usage.cache_read.unwrap_or(0);
        let written = usage.cache_write.unwrap_or(0);
        let fresh = sent.saturating_sub(read).saturating_sub(written);
        let rates = match self.long {
            Some(long) if sent > long.above => {
                [long.input, long.cache_read, long.cache_write, long.output]
            }
            Some(_) | None => [self.input, self.cache_read, self.cache_write, self.output],
        };
        let tokens = [fresh, read, written, usage.output.unwrap_or(0)];
        let parts = tokens
            .into_iter()
            .zip(rates)
            .map(|(tokens, rate)| u128::from(tokens).saturating_mul(u128::from(millionths(rate))));
        Money(parts.fold(0, u128::saturating_add))
    }
}

/// Converts the price of a million tokens to millionths of the currency. The same number is the
/// price of one token in units of 10^-12 of the currency.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float too large, too small or not a number becomes the nearest amount, or nothing"
)]
fn millionths(price: f64) -> u64 {
    (price * 1e6).round() as u64
}

/// An integer amount in units of 10^-12 of the currency. Integer sums do not depend on the order of
/// addition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Money(u128);

impl Money {
    /// Zero.
    pub(crate) const NONE: Self = Self(0);

    /// The amount nearest to a number; zero for negative numbers and for NaN.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "as said above, the nearest amount is meant"
    )]
    pub(crate) fn from_f64(amount: f64) -> Self {
        Self((amount * 1e12).round() as u128)
    }

    /// The number nearest to this amount.
    #[expect(clippy::cast_precision_loss, reason = "for display; sums are added up before")]
    pub(crate) fn to_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// An amount of `units` times 10^-12 of the currency.
    pub(crate) fn of_units(units: u64) -> Self {
        Self(units.into())
    }

    /// The amount in units of 10^-12 of the currency.
    pub(crate) fn units(self) -> u64 {
        u64::try_from(self.0).unwrap_or(u64::MAX)
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// This amount as a percentage of `whole`, rounded down; `None` if `whole` is zero.
    pub(crate) fn percent_of(self, whole: Self) -> Option<u64> {
        let percent = self.0.saturating_mul(100).checked_div(whole.0)?;
        Some(u64::try_from(percent).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.4}", self.to_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::{Money, Price};
    use crate::provider::Usage;

    #[test]
    fn cached_tokens_cost_what_cached_tokens_cost_and_unknown_is_not_free() {
        let price = Price::new(10.0, 100.0).cached(1.0, 20.0);
        let usage = Usage {
            input: Some(1_000_000),
            cache_read: Some(500_000),
            cache_write: Some(100_000),
            output: Some(10_000),
            reasoning: Some(9_000),
            compaction: None,
        };
        assert_eq!(price.of(&usage), Some(4.0 + 0.5 + 2.0 + 1.0));
        assert_eq!(price.of(&Usage { output: None, ..usage }), None);
        assert_eq!(price.of(&Usage::default()), None);
        assert_eq!(price.at_least(&Usage { output: None, ..usage }).to_f64(), 6.5);
    }

    #[test]
    fn a_long_prompt_changes_the_price_of_everything_and_only_above_its_length() {
        let price = Price::new(3.0, 15.0).long(200_000, Price::new(6.0, 22.5).cached(0.6, 7.5));
        let of = |input, cache_read| {
            let usage = Usage {
                input: Some(input),
                cache_read: Some(cache_read),
                output: Some(1_000_000),
                ..Usage::default()
            };
            price.of(&usage).expect("known")
        };
        assert_eq!(of(200_000, 0), 0.6 + 15.0);
        assert_eq!(of(200_001, 0), 1.200_006 + 22.5);
        assert_eq!(of(1_000_000, 1_000_000), 0.6 + 22.5, "cached tokens are part of the prompt");
    }

    #[test]
    fn a_sum_does_not_depend_on_its_order_and_bad_numbers_are_nothing() {
        let parts = [0.1, 0.2, 0.3, 0.7].map(Money::from_f64);
        let sum = parts.iter().fold(Money::NONE, |sum, part| sum.plus(*part));
        let back = parts.iter().rev().fold(Money::NONE, |sum, part| sum.plus(*part));
        assert_eq!((sum, sum.to_f64()), (back, 1.3));
        for bad in [f64::NAN, -1.0, f64::NEG_INFINITY] {
            assert_eq!(Money::from_f64(bad), Money::NONE);
            assert_eq!(
                Price::new(bad, bad).of(&Usage {
                    input: Some(9),
                    output: Some(9),
                    ..Usage::default()
                }),
                None
            );
        }
        assert!(Money::from_f64(f64::INFINITY) > Money::from_f64(1e20), "no limit at all");
    }
}
