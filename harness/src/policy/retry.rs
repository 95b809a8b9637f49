//! Whether a failed try is made again, and after which wait: a decision, without clock or chance of
//! its own. `retry_provider` does what it says.

use std::{fmt, time::Duration};

use crate::{
    error::{Error, ErrorKind},
    provider::Lost,
};

/// When a failed call is tried again, and when no more.
///
/// The ready providers ([`AnthropicProvider`](crate::AnthropicProvider),
/// [`OpenAIProvider`](crate::OpenAIProvider), [`ChatCompletionsProvider`](crate::ChatCompletionsProvider)) follow the
/// default policy unless they are given another one with `with_retry`. It is what the vendors' own
/// SDKs do: two retries, waits that double, the server's own wait where it asks for one.
/// [`RetryProvider`](super::RetryProvider) gives a policy to any provider.
///
/// Tried again is what passes by itself: the statuses 408, 409, 429 and those from 500 on (but 501
/// and 505, with which a server says that it cannot do such a thing), connections that are refused
/// or broken, clocks that run out, and an overload that is reported inside a stream before it has
/// said anything. Not tried again are bad requests, keys, missing models, and money that is gone.
/// The vendor's own verdict (`x-should-retry`) wins over all of that.
///
/// A connection that breaks after the request was sent leaves open whether the server has read it.
/// It is tried again all the same, as the SDKs do: a question to a model changes nothing, but it may
/// be paid for twice.
///
/// The wait is what the server asks for; if it asks for nothing, `base`, doubled with each try up to
/// `max`. With `jitter` it is spread, so that many who failed together do not come back together:
/// from nothing up to the doubled wait, or from the server's wait up to half as much again, for
/// less than it asked for would be refused.
///
/// There are two bounds. `attempts` and `time` are those of one call: one question to one provider.
/// Each turn of a run is a call of its own, and so is each member of a
/// [`FallbackProvider`](super::FallbackProvider). `run` is what all calls of a run may lose together.
///
/// If a provider with a policy wraps another one with a policy, only the outer policy holds, and the
/// inner provider makes one try.
///
/// ```
/// use std::time::Duration;
///
/// use harness::{Error, ErrorKind, policy::{RetryPolicy, RetryVerdict}, provider::Lost};
///
/// let policy = RetryPolicy { attempts: 5, ..RetryPolicy::default() };
/// let busy = Error::new(ErrorKind::Api, "Overloaded").with_status(529);
/// let lost = Lost { attempts: 1, time: Duration::from_secs(2) };
/// // A chance of a half, before the first try again: half of the base.
/// let half = Duration::from_millis(500);
/// assert_eq!(policy.decide(&busy, lost, lost, 0.5), RetryVerdict::Wait(half));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Tries of one call, the first one included. Default 3; 0 counts as 1.
    pub attempts: u32,
    /// Time that one call may lose to failed tries and to waits after them. Default 120 s.
    ///
    /// A try is not cut short by it; what it took counts when it has failed.
    pub time: Duration,
    /// What all calls of a run may lose together.
    pub run: RetryBudget,
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
    /// Whether a ready provider replaces a connection that it had kept, if that breaks before an
    /// answer has begun: the request goes out once more over a new connection, at once, and it
    /// neither counts nor shows. Servers close connections that they have kept for a while, and now
    /// and then a request meets one that is being closed. Default yes. A new connection that breaks
    /// is a failed try.
    pub reconnect: bool,
}

/// What all calls of a run may lose to failures together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryBudget {
    /// Tries that may fail. Default 100.
    pub tries: u32,
    /// Time that may be lost to them and to the waits after them. Default 30 min.
    pub time: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 3,
            time: Duration::from_secs(120),
            run: RetryBudget::default(),
            base: Duration::from_secs(1),
            max: Duration::from_secs(30),
            jitter: true,
            after_output: false,
            reconnect: true,
        }
    }
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { tries: 100, time: Duration::from_secs(30 * 60) }
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
    /// As many tries have failed as may fail.
    NoAttemptLeft {
        /// How many.
        of: u32,
        /// Of what.
        scope: RetryScope,
    },
    /// The wait is longer than what is left of the time for failures.
    NoTimeLeft {
        /// The wait.
        wait: Duration,
        /// Whether the server asked for it.
        asked: bool,
        /// What is left.
        left: Duration,
        /// What there was.
        of: Duration,
        /// Of what.
        scope: RetryScope,
    },
}

/// Whose bound was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryScope {
    /// That of one call.
    Call,
    /// That of the whole run.
    Run,
}

impl RetryPolicy {
    /// Nothing is sent twice: no second try, and no new connection for one that breaks.
    pub fn none() -> Self {
        Self { attempts: 1, after_output: false, reconnect: false, ..Self::default() }
    }

    /// Decides about a failed try. `call` is what its call has lost, and `run` what the whole run
    /// has lost, this try included in both; `chance` is drawn from 0 up to, but not, 1.
    pub fn decide(&self, error: &Error, call: Lost, run: Lost, chance: f64) -> RetryVerdict {
        use RetryScope::{Call, Run};
        // An answer that broke off before it said anything is a connection that broke.
        let passes = error.is_retryable() || error.last().kind() == ErrorKind::CutOff;
        if !passes {
            return RetryVerdict::GiveUp(GiveUp::Lasting);
        }
        for (lost, of, scope) in [(call, self.attempts.max(1), Call), (run, self.run.tries, Run)] {
            if lost.attempts >= of {
                return RetryVerdict::GiveUp(GiveUp::NoAttemptLeft { of, scope });
            }
        }
        // To come back at once is not what a server means that asks for no time at all.
        let asked = error.retry_after().filter(|wait| !wait.is_zero());
        let wait = asked.unwrap_or_else(|| {
            let doubled = 2_u32.saturating_pow(call.attempts.saturating_sub(1));
            self.spread(self.base.saturating_mul(doubled).min(self.max), chance)
        });
        let mut left = Duration::MAX;
        for (lost, of, scope) in [(call, self.time, Call), (run, self.run.time, Run)] {
            let asked = asked.is_some();
            left = left.min(of.saturating_sub(lost.time));
            if wait > left {
                return RetryVerdict::GiveUp(GiveUp::NoTimeLeft { wait, asked, left, of, scope });
            }
        }
        RetryVerdict::Wait(match asked {
            Some(asked) if self.jitter => {
                asked.saturating_add(self.spread(asked / 2, chance)).min(left)
            }
            Some(_) | None => wait,
        })
    }

    /// How many tries a call may have that has lost this, in a run that has lost that.
    pub(super) fn tries(&self, call: Lost, run: Lost) -> u32 {
        let left = self.run.tries.saturating_sub(run.attempts);
        self.attempts.min(call.attempts.saturating_add(left))
    }

    fn spread(&self, wait: Duration, chance: f64) -> Duration {
        match self.jitter {
            true => wait.mul_f64(chance.clamp(0.0, 1.0)),
            false => wait,
        }
    }
}

/// How long a server wants nobody to ask, if it says by this error that it gets too much: nothing
/// at all if it does not say how long.
pub(super) fn refusal(error: &Error) -> Option<Duration> {
    let last = error.last();
    let code = last.code().unwrap_or_default();
    let refused = error.is_retryable()
        && (matches!(last.status(), Some(429 | 529))
            || ["rate_limit", "overloaded", "slow_down"].iter().any(|word| code.contains(word)));
    refused.then(|| error.retry_after().unwrap_or_default())
}

impl fmt::Display for GiveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lasting => f.write_str("the same request would fail in the same way"),
            Self::NoAttemptLeft { of: 1, scope: RetryScope::Call } => {
                f.write_str("not tried again: one try was allowed")
            }
            Self::NoAttemptLeft { of, scope: RetryScope::Call } => {
                write!(f, "gave up after {of} tries")
            }
            Self::NoAttemptLeft { of, scope: RetryScope::Run } => {
                write!(f, "gave up: {of} tries of this run have failed, and no more are allowed")
            }
            Self::NoTimeLeft { wait, asked, left, of, scope } => {
                let who = if *asked { "the server asks to wait" } else { "the next wait would be" };
                write!(
                    f,
                    "gave up: {who} {wait:.1?}, and of the {of:.1?} that this {scope} may lose \
                     to failures {left:.1?} are left"
                )
            }
        }
    }
}

impl fmt::Display for RetryScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Call => "call",
            Self::Run => "run",
        })
    }
}
