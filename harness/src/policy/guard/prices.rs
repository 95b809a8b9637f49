//! What tokens cost.

use std::{collections::BTreeMap, fmt};

use crate::provider::Usage;

/// The price of a million tokens of each kind, in one currency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// What is sent and was not cached.
    pub input: f64,
    /// What is sent and read from the vendor's cache.
    pub cache_read: f64,
    /// What is sent and written to the vendor's cache.
    pub cache_write: f64,
    /// What the model says, thinking included.
    pub output: f64,
}

impl Price {
    /// A price without a discount or surcharge for a cache.
    pub fn new(input: f64, output: f64) -> Self {
        Self { input, cache_read: input, cache_write: input, output }
    }

    /// Sets what cached tokens cost.
    #[must_use]
    pub fn cached(mut self, read: f64, write: f64) -> Self {
        (self.cache_read, self.cache_write) = (read, write);
        self
    }

    /// What this usage costs, or `None` if the tokens sent or said are not known.
    pub fn of(&self, usage: &Usage) -> Option<f64> {
        let (input, output) = (usage.input?, usage.output?);
        let read = usage.cache_read.unwrap_or(0);
        let written = usage.cache_write.unwrap_or(0);
        let fresh = input.saturating_sub(read).saturating_sub(written);
        let millionths = tokens(fresh) * self.input
            + tokens(read) * self.cache_read
            + tokens(written) * self.cache_write
            + tokens(output) * self.output;
        Some(millionths / 1e6)
    }
}

#[expect(clippy::cast_precision_loss, reason = "no run has more than 2^53 tokens")]
fn tokens(count: u64) -> f64 {
    count as f64
}

/// What the tokens of each model cost. A model that is not in the table has no price, and what it
/// costs is unknown, never nothing.
///
/// A name in the table stands for the model of this name and for its dated versions, such as
/// `claude-sonnet-4-5` for `claude-sonnet-4-5-20250929`; a name that ends with `*` stands for all
/// that begin so. The longest name that fits wins.
///
/// The default table has the list prices in US dollars of a few models as their vendors published
/// them in 2025. Prices change, and long prompts, batches and regions have others: give your own
/// where money matters.
///
/// ```
/// use harness::policy::{Price, Prices};
///
/// let prices = Prices::default().with("my-model", Price::new(0.5, 2.0)).with("local-*", Price::new(0.0, 0.0));
/// assert_eq!(prices.get("my-model-2026-01-31"), Some(&Price::new(0.5, 2.0)));
/// assert_eq!(prices.get("my-model-mini"), None);
/// assert!(prices.get("local-llama").is_some());
/// ```
#[derive(Clone, PartialEq)]
pub struct Prices(BTreeMap<String, Price>);

impl Default for Prices {
    fn default() -> Self {
        let anthropic =
            |input: f64, output| Price::new(input, output).cached(input / 10.0, input * 1.25);
        let openai = |input: f64, read, output| Price::new(input, output).cached(read, input);
        Self::none()
            .with("claude-opus-4-5", anthropic(5.0, 25.0))
            .with("claude-opus-4-1", anthropic(15.0, 75.0))
            .with("claude-opus-4", anthropic(15.0, 75.0))
            .with("claude-sonnet-4-5", anthropic(3.0, 15.0))
            .with("claude-sonnet-4", anthropic(3.0, 15.0))
            .with("claude-haiku-4-5", anthropic(1.0, 5.0))
            .with("gpt-5", openai(1.25, 0.125, 10.0))
            .with("gpt-5-mini", openai(0.25, 0.025, 2.0))
            .with("gpt-5-nano", openai(0.05, 0.005, 0.4))
            .with("gpt-4.1", openai(2.0, 0.5, 8.0))
            .with("gpt-4.1-mini", openai(0.4, 0.1, 1.6))
    }
}

impl Prices {
    /// An empty table.
    pub fn none() -> Self {
        Self(BTreeMap::new())
    }

    /// Adds a price, or replaces the one of this name.
    #[must_use]
    pub fn with(mut self, model: impl Into<String>, price: Price) -> Self {
        self.0.insert(model.into(), price);
        self
    }

    /// The price of this model, if it is known.
    pub fn get(&self, model: &str) -> Option<&Price> {
        let fits = |name: &str| match name.strip_suffix('*') {
            Some(start) => model.starts_with(start),
            None => model.strip_prefix(name).is_some_and(is_version),
        };
        let fitting = self.0.iter().filter(|(name, _)| fits(name));
        fitting.max_by_key(|(name, _)| name.len()).map(|(_, price)| price)
    }
}

/// Whether this is what stands after a model's name in a dated version of it.
fn is_version(rest: &str) -> bool {
    let Some(version) = rest.strip_prefix(['-', '@']) else { return rest.is_empty() };
    let digits = version.chars().filter(char::is_ascii_digit).count();
    let dated = digits == 8 && version.chars().all(|c| c.is_ascii_digit() || c == '-');
    dated || version == "latest"
}

impl fmt::Debug for Prices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.0).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{Price, Prices};
    use crate::provider::Usage;

    #[test]
    fn a_model_has_the_price_of_its_own_name_only() {
        let prices = Prices::none()
            .with("gpt-5", Price::new(1.0, 1.0))
            .with("gpt-5-mini", Price::new(2.0, 2.0))
            .with("my-*", Price::new(3.0, 3.0))
            .with("my-own", Price::new(4.0, 4.0));
        let input = |model: &str| prices.get(model).map(|price| price.input);
        let table = [
            ("gpt-5", Some(1.0)),
            ("gpt-5-2025-08-07", Some(1.0)),
            ("gpt-5-latest", Some(1.0)),
            ("gpt-5-mini", Some(2.0)),
            ("gpt-5-mini-2025-08-07", Some(2.0)),
            ("gpt-5.1", None),
            ("gpt-5-pro", None),
            ("gpt-50", None),
            ("my-own", Some(4.0)),
            ("my-own-2025-08-07", Some(4.0)),
            ("my-other", Some(3.0)),
            ("", None),
        ];
        for (model, expected) in table {
            assert_eq!(input(model), expected, "{model}");
        }
    }

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
        let cost = price.of(&usage).expect("known");
        assert!((cost - (4.0 + 0.5 + 2.0 + 1.0)).abs() < 1e-9, "{cost}");
        assert_eq!(price.of(&Usage { output: None, ..usage }), None);
        assert_eq!(price.of(&Usage::default()), None);
    }
}
