//! Decides whether a failed attempt is retried, and after which wait. It has no clock and no random source of its
//! own; `retry_provider` carries out the decision.

use std::{fmt, time::Duration};

use super::RetryStatuses;
use crate::{
    error::{Error, ErrorKind},
    provider::RetryCost,
};

/// Decides when a failed call is retried and when the library gives up.
///
/// The ready providers (`AnthropicProvider`, `OpenAIProvider`,
/// `ChatCompletionsProvider`) follow the default policy unless they are given
/// another one with `with_retry`. The default does what the vendors' own SDKs do: two retries, waits that double,
/// and the server's own wait if it asks for one. [`RetryProvider`](super::RetryProvider) gives a policy to any
/// provider.
///
/// Failures that may pass by themselves are retried: the statuses 408, 409, 429 and those from 500 on (except 501
/// and 505, with which a server says that it does not support the request), connections that are refused or broken,
/// timeouts, and an overload that is reported inside a stream before any output. Bad requests, refused keys,
/// missing models and used-up quotas are not retried. `statuses` changes which statuses are retried. The vendor's own
/// verdict (`x-should-retry`) overrides all of that.
///
/// If a connection breaks after the request was sent, it is unknown whether the server has read the request. It is
/// retried all the same, as the SDKs do: a question to a model changes nothing, but it may be paid for twice.
///
/// The wait is the time that the server asks for. If it asks for none, the wait is `base`, doubled with each
/// attempt up to `max`. With `jitter` the wait is spread, so that many clients that failed together do not come
/// back together: from zero up to the doubled wait, or from the server's wait up to one and a half times this wait,
/// since a request before the server's wait is over would be refused.
///
/// There are two bounds. `attempts` and `time` bound one call: one question to one provider. Each turn of a run is
/// a call of its own, and so is each member of a [`FallbackProvider`](super::FallbackProvider). `run` bounds what
/// all calls of a run may lose together. An error that was returned since a bound was reached
/// [says so](Error::is_retry_budget_exhausted). [`run`](Self::run) calls any async function of the program under the
/// policy.
///
/// If a provider with a policy wraps another one with a policy, only the outer policy holds, and the inner provider
/// makes one attempt.
///
/// ```
/// use std::time::Duration;
///
/// use harness::{Error, ErrorKind, policy::{RetryPolicy, RetryVerdict}, provider::RetryCost};
///
/// let policy = RetryPolicy { attempts: 5, ..RetryPolicy::default() };
/// let busy = Error::new(ErrorKind::Api, "Overloaded").with_status(529);
/// let lost = RetryCost { attempts: 1, time: Duration::from_secs(2) };
/// // With a chance of 0.5, the wait before the first retry is half of the base.
/// let half = Duration::from_millis(500);
/// assert_eq!(policy.decide(&busy, lost, lost, 0.5), RetryVerdict::Wait(half));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The attempts of one call, the first one included. Default 3; 0 counts as 1.
    pub attempts: u32,
    /// The time that one call may lose to failed attempts and to the waits after them. Default 120 s.
    ///
    /// It does not cut an attempt short; the time of an attempt counts once it has failed.
    pub time: Duration,
    /// How much all calls of a run together may lose to failures.
    pub run: RetryBudget,
    /// The HTTP statuses that are retried.
    pub statuses: RetryStatuses,
    /// The wait before the first retry. Default 1 s.
    pub base: Duration,
    /// The longest wait that doubling leads to. Default 30 s.
    pub max: Duration,
    /// Whether waits are spread. Default yes.
    pub jitter: bool,
    /// Whether an answer that broke off in the middle is begun again. What was shown of it is then withdrawn with
    /// [`StreamEvent::Discarded`](crate::provider::StreamEvent::Discarded). Default no: the run ends with the partial answer.
    pub after_output: bool,
    /// Whether a ready provider replaces a kept-alive connection that breaks before an answer has begun: the
    /// request is sent once more over a new connection, at once, and this is neither counted nor shown. Servers
    /// close kept-alive connections after a while, and now and then a request meets one that is being closed.
    /// Default yes. A new connection that breaks is a failed attempt.
    pub reconnect: bool,
}

/// How much all calls of a run together may lose to failures: a number of attempts, and a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryBudget {
    /// The number of attempts that may fail. Default 100.
    pub tries: u32,
    /// The time that failed attempts, and the waits after them, may take in all. Default 30 min.
    pub time: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 3,
            time: Duration::from_secs(120),
            run: RetryBudget::default(),
            statuses: RetryStatuses::default(),
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

/// The decision about a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryVerdict {
    /// It is retried after this wait.
    Wait(Duration),
    /// It is not retried.
    GiveUp(GiveUp),
}

/// Why a failed attempt is not retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GiveUp {
    /// The same request would fail in the same way.
    Lasting,
    /// As many attempts have failed as may fail.
    NoAttemptLeft {
        /// The number of attempts that may fail.
        of: u32,
        /// Whose bound it is.
        scope: RetryScope,
    },
    /// The wait is longer than the time that is left for failures.
    NoTimeLeft {
        /// The wait.
        wait: Duration,
        /// Whether the server asked for this wait.
        asked: bool,
        /// The time that is left.
        left: Duration,
        /// The whole time for failures.
        of: Duration,
        /// Whose bound it is.
        scope: RetryScope,
    },
}

/// The owner of the bound that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryScope {
    /// One call.
    Call,
    /// The whole run.
    Run,
}

impl RetryPolicy {
    /// A policy that sends nothing twice: no retry, and no new connection for one that breaks.
    pub fn none() -> Self {
        Self { attempts: 1, after_output: false, reconnect: false, ..Self::default() }
    }

    /// Decides about a failed attempt. `call` is what its call has lost, and `run` what the whole run has lost,
    /// this attempt included in both; `chance` is a random number from 0 up to, but not including, 1.
    pub fn decide(
        &self,
        error: &Error,
        call: RetryCost,
        run: RetryCost,
        chance: f64,
    ) -> RetryVerdict {
        use RetryScope::{Call, Run};
        // An answer that broke off before any output is treated like a broken connection.
        let last = error.last();
        let passes = last.passes_with(|status| self.statuses.contains(status))
            || last.kind() == ErrorKind::CutOff;
        if !passes {
            return RetryVerdict::GiveUp(GiveUp::Lasting);
        }
        for (lost, of, scope) in [(call, self.attempts.max(1), Call), (run, self.run.tries, Run)] {
            if lost.attempts >= of {
                return RetryVerdict::GiveUp(GiveUp::NoAttemptLeft { of, scope });
            }
        }
        // A server that asks for a wait of zero does not mean an immediate retry.
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

    /// The number of attempts that a call may make in all. `call` is what the call has lost so far, and `run` what its
    /// run has lost.
    pub(super) fn tries(&self, call: RetryCost, run: RetryCost) -> u32 {
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

/// The time for which a server wants no requests, if the error says that it is overloaded or rate limited; zero if
/// it does not say how long.
pub(super) fn refusal(error: &Error) -> Option<Duration> {
    let last = error.last();
    let code = last.code().unwrap_or_default();
    let refused = error.is_retryable()
        && (matches!(last.status(), Some(429 | 529))
            || ["rate_limit", "overloaded", "slow_down"].iter().any(|word| code.contains(word)));
    refused.then(|| error.retry_after().unwrap_or_default())
}

impl GiveUp {
    /// The error of a call that ends for this reason.
    pub(super) fn into_error(self, failed: Error) -> Error {
        match self {
            // A policy without retries has no budget that could be used up.
            Self::Lasting | Self::NoAttemptLeft { of: 1, scope: RetryScope::Call } => failed,
            Self::NoAttemptLeft { .. } | Self::NoTimeLeft { .. } => {
                failed.with_note(self.to_string()).with_retry_budget_exhausted()
            }
        }
    }
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
