//! A provider that limits the number of requests in flight, and slows down when the server refuses requests.

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

/// A provider that limits how many requests are in flight at the same time, for all clones together. If the server
/// refuses a request because of its rate or an overload (such as 429), no request starts for the time that the server
/// asks for. Later requests start with a gap between them. Each answer makes the gap shorter.
///
/// All clones share one limit: give a clone to each agent. A call that waits for its retry does not count as in flight.
/// The wrapped provider may retry by itself, as the ready providers do. A [`RetryProvider`](super::RetryProvider) may
/// also wrap this provider: each attempt then waits for a free slot.
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
    /// Creates a provider that sends requests to `provider`. At most `at_once` requests are in flight; 0 counts as 1.
    pub fn new(provider: P, at_once: usize) -> Self {
        let at_once = at_once.clamp(1, Semaphore::MAX_PERMITS);
        let pace = Mutex::new(RateLimiter::new(Instant::now()));
        Self(Arc::new(ThrottleState { provider, at_once, places: Semaphore::new(at_once), pace }))
    }

    /// The number of requests that are in flight, or that have a slot and wait for their start time.
    pub fn in_flight(&self) -> usize {
        self.0.at_once.saturating_sub(self.0.places.available_permits())
    }
}

impl<P> ThrottleState<P> {
    fn pace(&self) -> MutexGuard<'_, RateLimiter> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a free slot, and then for a start time. If the server refuses another request meanwhile, waits for a
    /// new start time.
    async fn enter(&self, request: &Request<'_>) -> ThrottlePermit<'_> {
        let came = Instant::now();
        // `acquire` cannot fail, because this semaphore is never closed.
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

/// A request in flight. Dropping this value frees its slot.
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
                    // The wrapped provider retries by itself. A call that waits for a retry is not in flight.
                    Some(Ok(event @ StreamEvent::Retrying { refused: asked, wait, .. })) => {
                        if let Some(asked) = asked {
                            refused(asked);
                        }
                        answered = false;
                        drop(place);
                        // The wrapped provider's wait also begins now. The loop polls that provider again only after
                        // the wait, once a slot is free.
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
