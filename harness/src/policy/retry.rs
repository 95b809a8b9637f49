//! Whether a failed try is made again, and after which wait: a decision, without clock or chance of
//! its own. `retry_provider` does what it says.

use std::{fmt, time::Duration};

use crate::{
    error::{Error, ErrorKind},
    provider::Spent,
};

/// When a failed call is tried again, and when no more.
///
/// Tried again is what passes by itself: the statuses 408, 409, 429, 500, 502, 503, 504 and 529
/// (and 520 to 524, with which a proxy says that it did not reach the server), connections that
/// are refused or broken, clocks that run out, and an overload that is reported inside a stream
/// before it has said anything. Not tried again are bad requests, keys, missing models, and money
/// that is gone. The vendor's own verdict (`x-should-retry`) wins over all of that.
///
/// The wait is what the server asks for; if it asks for nothing, `base`, doubled with each try up to
/// `max`. With `jitter` it is spread, so that many who failed together do not come back together:
/// from nothing up to the doubled wait, or from the server's wait up to half as much again, for
/// less than it asked for would be refused.
///
/// Attempts and budget are those of a whole run: all turns and all layers count together.
///
/// ```
/// use std::time::Duration;
///
/// use harness::{Error, ErrorKind, policy::{RetryPolicy, RetryVerdict}, provider::Spent};
///
/// let policy = RetryPolicy { attempts: 3, ..RetryPolicy::default() };
/// let busy = Error::new(ErrorKind::Api, "Overloaded").with_status(529);
/// let spent = Spent { attempts: 1, time: Duration::from_secs(2) };
/// // A chance of a half, before the first try again: half of the base.
/// let half = Duration::from_millis(500);
/// assert_eq!(policy.decide(0, &busy, spent, 0.5), RetryVerdict::Wait(half));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Tries that may fail in one run, the last one included. Default 5.
    pub attempts: u32,
    /// Time that one run may lose to failed tries and to waits after them. Default 120 s.
    ///
    /// A try is not cut short by it; what it took counts when it has failed.
    pub budget: Duration,
    /// The wait before the first try again. Default 1 s.
    pub base: Duration,
    /// The longest wait that doubling leads to. Default 30 s.
    pub max: Duration,
    /// Whether waits are spread. Default yes.
    pub jitter: bool,
    /// Whether an answer that broke off in the middle is begun again. What was shown of it is then
    /// taken back with [`StreamEvent::Discarded`](crate::StreamEvent::Discarded). Default no: the
    /// run ends, with what there is.
    pub after_output: bool,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 5,
            budget: Duration::from_secs(120),
            base: Duration::from_secs(1),
            max: Duration::from_secs(30),
            jitter: true,
            after_output: false,
        }
    }
}

/// What is done about a failed try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryVerdict {
    /// It is made again after this wait.
    Wait(Duration),
    /// It is not made again.
    GiveUp(GiveUp),
}

/// Why a failed try is not made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GiveUp {
    /// The same request would fail in the same way.
    Lasting,
    /// As many tries of this run have failed as may fail.
    NoAttemptLeft {
        /// How many.
        of: u32,
    },
    /// The wait is longer than what is left of the run's time for failures.
    NoTimeLeft {
        /// The wait.
        wait: Duration,
        /// Whether the server asked for it.
        asked: bool,
        /// What is left.
        left: Duration,
        /// What there was.
        budget: Duration,
    },
}

impl RetryPolicy {
    /// Decides about a failed try. `retries` is how often this call has been tried again already,
    /// `spent` what the whole run has lost, this try included, and `chance` is drawn from 0 up to,
    /// but not, 1.
    pub fn decide(&self, retries: u32, error: &Error, spent: Spent, chance: f64) -> RetryVerdict {
        // An answer that broke off before it said anything is a connection that broke.
        let passes = error.is_retryable() || error.last().kind() == ErrorKind::Interrupted;
        if !passes {
            return RetryVerdict::GiveUp(GiveUp::Lasting);
        }
        if spent.attempts >= self.attempts {
            return RetryVerdict::GiveUp(GiveUp::NoAttemptLeft { of: self.attempts });
        }
        // To come back at once is not what a server means that asks for no time at all.
        let asked = error.retry_after().filter(|wait| !wait.is_zero());
        let wait = asked.unwrap_or_else(|| {
            let doubled = self.base.saturating_mul(2_u32.saturating_pow(retries));
            self.spread(doubled.min(self.max), chance)
        });
        let left = self.budget.saturating_sub(spent.time);
        if wait > left {
            let (asked, budget) = (asked.is_some(), self.budget);
            return RetryVerdict::GiveUp(GiveUp::NoTimeLeft { wait, asked, left, budget });
        }
        RetryVerdict::Wait(match asked {
            Some(asked) if self.jitter => {
                asked.saturating_add(self.spread(asked / 2, chance)).min(left)
            }
            Some(_) | None => wait,
        })
    }

    fn spread(&self, wait: Duration, chance: f64) -> Duration {
        match self.jitter {
            true => wait.mul_f64(chance.clamp(0.0, 1.0)),
            false => wait,
        }
    }
}

impl fmt::Display for GiveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lasting => f.write_str("the same request would fail in the same way"),
            Self::NoAttemptLeft { of: 1 } => f.write_str("not tried again: one try was allowed"),
            Self::NoAttemptLeft { of } => {
                write!(f, "gave up: {of} tries of this run have failed, and no more are allowed")
            }
            Self::NoTimeLeft { wait, asked, left, budget } => {
                let who = if *asked { "the server asks to wait" } else { "the next wait would be" };
                write!(
                    f,
                    "gave up: {who} {wait:.1?}, and of the {budget:.1?} that this run may lose \
                     to failures {left:.1?} are left"
                )
            }
        }
    }
}
