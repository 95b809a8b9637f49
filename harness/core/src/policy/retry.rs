//! Decides whether a failed attempt is retried, and after which wait. The decision uses no clock and no random source:
//! the caller passes the times and a random number. `retry_provider` carries out the decision.

use std::{fmt, time::Duration};

use super::RetryStatuses;
use crate::{
    error::{Error, ErrorKind},
    provider::RetryCost,
};

/// Decides when a failed call is retried and when the library gives up.
///
/// The ready providers (`AnthropicProvider`, `OpenAIProvider`, `ChatCompletionsProvider`) follow the default policy;
/// `with_retry` sets another one. The default does what the vendors' own SDKs do: two retries, with waits that double,
/// or with the wait that the server asks for. [`RetryProvider`](super::RetryProvider) adds a policy to any provider.
///
/// Transient failures are retried: the statuses 408, 409, 429 and all statuses from 500 on (except 501 and 505, which
/// mean that the server does not support the request), connections that are refused or broken, timeouts, and an
/// overload that is reported inside a stream before any output. Bad requests, refused keys, missing models and used-up
/// quotas are not retried. `statuses` changes which statuses are retried. The vendor's own verdict (`x-should-retry`)
/// overrides all these rules.
///
/// If a connection breaks after the request was sent, it is unknown whether the server has read the request. The
/// request is retried all the same, as in the vendors' SDKs: a request to a model changes no state, but it may be paid
/// for twice.
///
/// If the server asks for a wait, that wait is used. Otherwise the wait is `base`, doubled with each attempt up to
/// `max`. With `jitter` the wait is random, so that many clients that failed together do not retry together. The random
/// wait lies between zero and the doubled wait. If the server asks for a wait, the random wait lies between the
/// server's wait and one and a half times that wait, because the server would refuse an earlier request.
///
/// Two bounds limit the retries. `attempts` and `time` bound one call: one request to one provider. Each turn of a run
/// is a separate call, and so is the request to each member of a [`FallbackProvider`](super::FallbackProvider). `run`
/// bounds how much all calls of a run together may lose to failures. If the library returns an error because a bound
/// was reached, [`Error::is_retry_budget_exhausted`] returns `true`. [`run`](Self::run) calls any async function of the
/// program under the policy.
///
/// If a provider with a policy wraps another provider with a policy, only the outer policy applies, and the inner
/// provider makes one attempt.
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
    /// The maximum number of attempts of one call, including the first one. Default 3; 0 counts as 1.
    pub attempts: u32,
    /// The time that one call may lose to failed attempts and to the waits after them. Default 120 s.
    ///
    /// This bound does not cut an attempt short: the time of an attempt counts once the attempt has failed.
    pub time: Duration,
    /// How many attempts and how much time all calls of a run together may lose to failures.
    pub run: RetryBudget,
    /// The HTTP statuses that are retried.
    pub statuses: RetryStatuses,
    /// The wait before the first retry, before jitter. Default 1 s.
    pub base: Duration,
    /// The longest wait that doubling produces. Default 30 s.
    pub max: Duration,
    /// Whether waits are randomized. Default `true`.
    pub jitter: bool,
    /// Whether an answer that broke off after its first output is requested again. The output so far is then withdrawn
    /// with [`StreamEvent::Discarded`](crate::provider::StreamEvent::Discarded). Default `false`: the run ends with the
    /// partial answer.
    pub after_output: bool,
    /// Whether a ready provider replaces a kept-alive connection that breaks before an answer has begun. The provider
    /// then sends the request again at once over a new connection. The broken connection is no failed attempt, and no
    /// event reports it. Reason: a server may close a kept-alive connection at the moment when a request is sent on
    /// it. Default `true`. If the new connection breaks, the attempt has failed.
    pub reconnect: bool,
}

/// How many attempts and how much time all calls of a run together may lose to failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryBudget {
    /// The maximum number of failed attempts. Default 100.
    pub tries: u32,
    /// The total time that failed attempts and the waits after them may take. Default 30 min.
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
    /// The attempt is retried after this wait.
    Wait(Duration),
    /// The attempt is not retried.
    GiveUp(GiveUp),
}

/// Why a failed attempt is not retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GiveUp {
    /// The failure is not transient: the same request would fail again.
    Lasting,
    /// The maximum number of failed attempts is reached.
    NoAttemptLeft {
        /// The maximum number of failed attempts.
        of: u32,
        /// Whether the bound applies to the call or to the run.
        scope: RetryScope,
    },
    /// The next wait is longer than the time that failures may still take.
    NoTimeLeft {
        /// The next wait.
        wait: Duration,
        /// Whether the server asked for this wait.
        asked: bool,
        /// The time left for failures.
        left: Duration,
        /// The bound: the total time that failures may take.
        of: Duration,
        /// Whether the bound applies to the call or to the run.
        scope: RetryScope,
    },
}

/// Whether a bound applies to one call or to the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryScope {
    /// One call: one request to one provider, with its retries.
    Call,
    /// All calls of the run together.
    Run,
}

impl RetryPolicy {
    /// A policy that sends no request twice: it neither retries nor replaces a broken connection.
    pub fn none() -> Self {
        Self { attempts: 1, after_output: false, reconnect: false, ..Self::default() }
    }

    /// Decides about a failed attempt. `call` is the cost of this call's failures, and `run` is the cost of all
    /// failures of the run. Both include this attempt. `chance` is a random number from 0 (included) to 1 (excluded).
    pub fn decide(
        &self,
        error: &Error,
        call: RetryCost,
        run: RetryCost,
        chance: f64,
    ) -> RetryVerdict {
        use RetryScope::{Call, Run};
        // An answer that was cut off before any output counts as a broken connection.
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
        // Servers that send a wait of zero do not mean an immediate retry.
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

    /// The highest number of attempts that a call can reach within the bounds. `call` is the cost of the call's
    /// failures so far, and `run` is the cost of all failures of the run.
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

/// The time for which an overloaded or rate-limiting server wants no requests; zero if the error states no time. `None`
/// if the error has another cause.
pub(super) fn refusal(error: &Error) -> Option<Duration> {
    let last = error.last();
    let code = last.code().unwrap_or_default();
    let refused = error.is_retryable()
        && (matches!(last.status(), Some(429 | 529))
            || ["rate_limit", "overloaded", "slow_down"].iter().any(|word| code.contains(word)));
    refused.then(|| error.retry_after().unwrap_or_default())
}

impl GiveUp {
    /// Makes the error of a call that ends for this reason. `failed` is the error of the failed attempts.
    pub(super) fn into_error(self, failed: Error) -> Error {
        match self {
            // With one allowed attempt there are no retries, so no retry budget is exhausted.
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
