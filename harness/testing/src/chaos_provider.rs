//! A provider with random failures, without a socket.

use std::{fmt, time::Duration};

use futures_util::StreamExt as _;

use super::{Chaos, Fault};
use harness_core::{
    error::{Error, ErrorKind},
    provider::{EventSender, EventStream, Provider, Request, StreamEvent, stream_events},
};

/// The statuses of a server that is down or overloaded.
pub(super) const SERVER_ERRORS: [u16; 5] = [500, 502, 503, 504, 529];

/// The time until a stalled answer fails, like the timeout of a real provider.
const SILENCE: Duration = Duration::from_secs(30);

/// Wraps a provider and adds random failures, like those of a network.
///
/// ```
/// use harness::{
///     Agent,
///     policy::{RetryPolicy, RetryProvider},
///     testing::{Chaos, ChaosProvider, Fault, ScriptedProvider, reply},
/// };
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?
/// # .block_on(async {
/// let model = ScriptedProvider::answering(|_| reply().text("Here I am."));
/// let chaos = Chaos::seeded(7).rate(0.5).only([Fault::ServerError, Fault::StallAtFirst]);
/// let provider = RetryProvider::new(
///     ChaosProvider::new(model, chaos.clone()),
///     RetryPolicy { attempts: 20, ..RetryPolicy::default() },
/// );
/// let agent = Agent::builder(provider).build()?;
/// for _ in 0..20 {
///     assert_eq!(agent.run("Are you there?").await?.text(), "Here I am.");
/// }
/// assert_eq!(chaos.request_count() - chaos.injected().values().sum::<u64>(), 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ChaosProvider<P> {
    inner: P,
    chaos: Chaos,
}

impl<P: Provider> ChaosProvider<P> {
    /// Wraps a provider. `chaos` decides which answers fail, and how.
    pub fn new(inner: P, chaos: Chaos) -> Self {
        Self { inner, chaos }
    }

    /// The error of a request that fails before its first event, or `None` for a later failure.
    async fn refusal(&self, fault: Fault, random: &mut fastrand::Rng) -> Option<Error> {
        let api = |status| Error::new(ErrorKind::Api, "chaos").with_status(status);
        match fault {
            Fault::ServerError => {
                Some(api(random.choice(SERVER_ERRORS).unwrap_or(500)).with_code("api_error"))
            }
            Fault::RateLimit => Some(api(429).with_code("rate_limit_error")),
            Fault::RateLimitWithHint => {
                Some(api(429).with_code("rate_limit_error").with_retry_after(self.chaos.wait()))
            }
            Fault::Refused => Some(Error::new(ErrorKind::Connect, "the connection was refused")),
            Fault::StallAtFirst => Some(silent("the server said nothing").await),
            Fault::StallMidway | Fault::Cut | Fault::Garbage | Fault::Duplicate => None,
        }
    }

    /// Passes on `events` events and then fails. In a shorter stream, the failure replaces the last
    /// event.
    async fn begin(
        &self,
        mut stream: EventStream<'_>,
        fault: Fault,
        mut events: usize,
        speaker: &EventSender<'_>,
    ) {
        while let Some(item) = stream.next().await {
            let last = matches!(item, Ok(StreamEvent::Completed { .. }) | Err(_));
            if events > 0 && !last {
                events -= 1;
                speaker.send(item).await;
                continue;
            }
            let failure = match fault {
                Fault::Duplicate => {
                    if let Ok(event) = &item {
                        speaker.send(Ok(event.clone())).await;
                    }
                    speaker.send(item).await;
                    break;
                }
                Fault::Garbage => Error::new(ErrorKind::Protocol, "an event cannot be understood"),
                Fault::StallMidway => silent("the answer stopped coming: no event").await,
                Fault::Cut
                | Fault::ServerError
                | Fault::RateLimit
                | Fault::RateLimitWithHint
                | Fault::Refused
                | Fault::StallAtFirst => {
                    Error::new(ErrorKind::CutOff, "the connection broke in the middle")
                }
            };
            return speaker.send(Err(failure)).await;
        }
        while let Some(item) = stream.next().await {
            speaker.send(item).await;
        }
    }
}

impl<P: Provider> Provider for ChaosProvider<P> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn model(&self) -> &str {
        self.inner.model()
    }

    fn inner(&self) -> Option<&dyn Provider> {
        Some(&self.inner)
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        stream_events(move |speaker| async move {
            let mut stream = self.inner.stream(request);
            let Some((fault, mut random)) = self.chaos.draw() else {
                while let Some(item) = stream.next().await {
                    speaker.send(item).await;
                }
                return;
            };
            match self.refusal(fault, &mut random).await {
                Some(error) => speaker.send(Err(error)).await,
                None => self.begin(stream, fault, random.usize(..8), &speaker).await,
            }
        })
    }
}

impl<P: Provider> fmt::Debug for ChaosProvider<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChaosProvider")
            .field("provider", &self.inner.name())
            .field("model", &self.inner.model())
            .field("chaos", &self.chaos)
            .finish_non_exhaustive()
    }
}

async fn silent(words: &str) -> Error {
    tokio::time::sleep(SILENCE).await;
    Error::new(ErrorKind::Timeout, format!("{words} for {SILENCE:?}"))
}
