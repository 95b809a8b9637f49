//! A provider that tries again: it does what its policy says, and shows every wait.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

use super::{
    RetryPolicy,
    relay::{Failure, relay},
    retry::{GiveUp, RetryVerdict},
};
use crate::{
    error::Error,
    provider::{Attempt, EventStream, Ledger, Provider, Request, StreamEvent, speak},
};

/// A provider that asks another one, and asks again when that fails in a way that passes.
///
/// Only the opening of a call is repeated: once an event of the answer has been handed out, a
/// failure is passed on as it is (see [`RetryPolicy::after_output`] for the exception). Each wait
/// is shown as [`StreamEvent::Retrying`] before it begins, and dropping the stream ends it at once.
///
/// When it gives up, the error is the first failure, with [all later ones](crate::Error::later)
/// and why it gave up.
///
/// ```
/// use harness::{Agent, policy::{RetryPolicy, RetryProvider}, testing::{ScriptedProvider, reply}};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?
/// # .block_on(async {
/// let model = ScriptedProvider::new([reply().overloaded(), reply().text("Here I am.")]);
/// let provider = RetryProvider::new(model, RetryPolicy::default());
/// let reply = Agent::builder(provider).build()?.run("Are you there?").await?;
/// assert_eq!(reply.text(), "Here I am.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RetryProvider<P> {
    inner: P,
    policy: RetryPolicy,
    chance: Mutex<fastrand::Rng>,
}

impl<P: Provider> RetryProvider<P> {
    /// A provider that asks this one, as often as the policy allows.
    pub fn new(inner: P, policy: RetryPolicy) -> Self {
        Self { inner, policy, chance: Mutex::new(fastrand::Rng::new()) }
    }

    /// Draws the spread of waits from this seed, so that they can be foretold.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.chance = Mutex::new(fastrand::Rng::with_seed(seed));
        self
    }

    fn draw(&self) -> f64 {
        self.chance.lock().unwrap_or_else(PoisonError::into_inner).f64()
    }
}

impl<P: Provider> Provider for RetryProvider<P> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn model(&self) -> &str {
        self.inner.model()
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        speak(move |speaker| async move {
            let own = Ledger::default();
            let ledger = request.ledger().unwrap_or(&own);
            let request = request.with_ledger(Some(ledger));
            let mut first: Option<Error> = None;
            for retries in 0_u32.. {
                let attempt = Attempt::begin(ledger);
                let tried = relay(self.inner.stream(request), None, &speaker).await;
                let Err(Failure { error, said }) = tried else { return };
                if said && !self.policy.after_output {
                    return speaker.say(Err(error)).await;
                }
                attempt.failed();
                let spent = ledger.spent();
                let verdict = self.policy.decide(retries, &error, spent, self.draw());
                let cause = error.to_string();
                let failed = match first.take() {
                    None => error,
                    Some(first) => first.followed_by(error),
                };
                let wait = match verdict {
                    RetryVerdict::Wait(wait) => wait,
                    RetryVerdict::GiveUp(GiveUp::Lasting) => {
                        return speaker.say(Err(failed)).await;
                    }
                    RetryVerdict::GiveUp(why) => {
                        return speaker.say(Err(failed.with_note(why.to_string()))).await;
                    }
                };
                first = Some(failed);
                if said {
                    let cause = cause.clone();
                    speaker.say(Ok(StreamEvent::Discarded { cause })).await;
                }
                let (attempt, of) = (spent.attempts.saturating_add(1), self.policy.attempts);
                speaker.say(Ok(StreamEvent::Retrying { attempt, of, wait, cause })).await;
                tokio::time::sleep(wait).await;
                ledger.add(0, wait);
            }
        })
    }
}

impl<P: Provider> fmt::Debug for RetryProvider<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryProvider")
            .field("provider", &self.inner.name())
            .field("model", &self.inner.model())
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
