//! A provider that bounds the number of requests in flight, and slows down when the server asks for it.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::StreamExt as _;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, sleep, sleep_until},
};

use super::{pace::RateLimiter, retry::refusal};
use crate::provider::{EventStream, Provider, Request, StreamEvent, stream_events};

/// A provider that bounds how many requests are in flight at the same time, for all clones together. If the server
/// refuses a request because there are too many (429, or overloaded), no request starts until the time that it
/// asked for is over. From then on requests start one after the other, with a gap that shrinks as answers come.
///
/// A clone is the same provider: give one to each agent. A call that waits for its retry holds no place, whether
/// the provider inside retries by itself, as the ready ones do, or a [`RetryProvider`](super::RetryProvider) around
/// this one does: each attempt waits for a place.
///
/// ```
/// use harness::{Agent, policy::ThrottledProvider, testing::ScriptedProvider};
///
/// # fn main() -> Result<(), harness::Error> {
/// // In a program: `AnthropicProvider::from_env()?`.
/// let shared = ThrottledProvider::new(ScriptedProvider::new([]), 8);
/// let agents: Vec<Agent> = (0..50)
///     .map(|_| Agent::builder(shared.clone()).build())
///     .collect::<Result<_, _>>()?;
/// # let _ = agents;
/// # Ok(())
/// # }
/// ```
pub struct ThrottledProvider<P>(Arc<ThrottleState<P>>);

struct ThrottleState<P> {
    provider: P,
    at_once: usize,
    places: Semaphore,
    pace: Mutex<RateLimiter>,
}

impl<P: Provider> ThrottledProvider<P> {
    /// Creates a provider that asks this one, with at most `at_once` requests in flight; 0 counts as 1.
    pub fn new(provider: P, at_once: usize) -> Self {
        let at_once = at_once.clamp(1, Semaphore::MAX_PERMITS);
        let pace = Mutex::new(RateLimiter::new(Instant::now()));
        Self(Arc::new(ThrottleState { provider, at_once, places: Semaphore::new(at_once), pace }))
    }

    /// The number of requests that are in flight or that hold a place and wait for their start.
    pub fn in_flight(&self) -> usize {
        self.0.at_once.saturating_sub(self.0.places.available_permits())
    }
}

impl<P> ThrottleState<P> {
    fn pace(&self) -> MutexGuard<'_, RateLimiter> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place, and then for a start. If the server refuses another request meanwhile, it waits for
    /// another start.
    async fn enter(&self, request: &Request<'_>) -> ThrottlePermit<'_> {
        let came = Instant::now();
        // The semaphore is never closed; if it were, there would be no bound to keep.
        let permit = self.places.acquire().await.ok();
        loop {
            let start = self.pace().next_start(Instant::now());
            sleep_until(start).await;
            let now = Instant::now();
            if self.pace().is_still_free(now) {
                request.was_in_line(now.duration_since(came));
                return ThrottlePermit { started: now, _permit: permit };
            }
        }
    }
}

/// A request in flight.
struct ThrottlePermit<'a> {
    started: Instant,
    _permit: Option<SemaphorePermit<'a>>,
}

impl<P: Provider> Provider for ThrottledProvider<P> {
    fn name(&self) -> &str {
        self.0.provider.name()
    }

    fn model(&self) -> &str {
        self.0.provider.model()
    }

    fn inner(&self) -> Option<&dyn Provider> {
        Some(&self.0.provider)
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        stream_events(move |speaker| async move {
            let shared = &*self.0;
            let mut place = shared.enter(&request).await;
            let mut stream = shared.provider.stream(request.clone());
            let mut answered = false;
            loop {
                let item = match answered {
                    false => stream.next().await,
                    true => {
                        let passed = speaker.pass_on(stream).await;
                        stream = passed.stream;
                        passed.item
                    }
                };
                let refused = |asked| shared.pace().refused(place.started, Instant::now(), asked);
                match item {
                    None => return,
                    Some(Err(error)) => {
                        if let Some(asked) = refusal(&error) {
                            refused(asked);
                        }
                        speaker.send(Err(error)).await;
                    }
                    // The provider inside retries by itself. A call that waits is not in flight.
                    Some(Ok(event @ StreamEvent::Retrying { refused: asked, wait, .. })) => {
                        if let Some(asked) = asked {
                            refused(asked);
                        }
                        answered = false;
                        drop(place);
                        // The provider counts its wait from now, too. It is asked for the next event only after its
                        // wait is over and a place is free.
                        let over = sleep(wait);
                        speaker.send(Ok(event)).await;
                        over.await;
                        place = shared.enter(&request).await;
                    }
                    Some(Ok(event)) => {
                        if !answered && event.is_said() {
                            answered = true;
                            shared.pace().answered();
                        }
                        speaker.send(Ok(event)).await;
                    }
                }
            }
        })
    }
}

impl<P> Clone for ThrottledProvider<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P: Provider> fmt::Debug for ThrottledProvider<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottledProvider")
            .field("provider", &self.name())
            .field("model", &self.model())
            .field("in_flight", &self.in_flight())
            .field("at_once", &self.0.at_once)
            .finish_non_exhaustive()
    }
}
