//! Random failures: their rate, their kinds and their seed. `chaos_provider` applies the failures
//! to a provider, and `server/damage` applies them to answers of the loopback server.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::Answer;

/// A kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// One of the statuses 500, 502, 503, 504 and 529.
    ServerError,
    /// Status 429 without a retry time.
    RateLimit,
    /// Status 429 with a retry time.
    RateLimitWithHint,
    /// The connection is refused, or is closed before the client or the server sends data.
    Refused,
    /// The server sends nothing, so the request ends with a timeout.
    StallAtFirst,
    /// The server stops sending in the middle of the answer, so the request ends with a timeout.
    StallMidway,
    /// The answer ends too early. The connection breaks, or the end looks like a regular one.
    Cut,
    /// The answer contains bytes that are not valid in the protocol.
    Garbage,
    /// The answer contains an event twice.
    Duplicate,
}

impl Fault {
    /// All kinds of failures.
    pub const ALL: [Self; 9] = [
        Self::ServerError,
        Self::RateLimit,
        Self::RateLimitWithHint,
        Self::Refused,
        Self::StallAtFirst,
        Self::StallMidway,
        Self::Cut,
        Self::Garbage,
        Self::Duplicate,
    ];
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ServerError => "5xx",
            Self::RateLimit => "429",
            Self::RateLimitWithHint => "429 with a hint",
            Self::Refused => "refused",
            Self::StallAtFirst => "stall at first",
            Self::StallMidway => "stall midway",
            Self::Cut => "cut",
            Self::Garbage => "garbage",
            Self::Duplicate => "duplicate",
        })
    }
}

/// Random failures from a seed: the same requests in the same order get the same failures. Clones
/// share the random source and the counts.
///
/// Use this with a [`ChaosProvider`](super::ChaosProvider) around a provider, or in a
/// [`LoopbackServer`](super::LoopbackServer) to damage the answers:
///
/// ```
/// use harness::testing::{Chaos, Fault, LoopbackServer, anthropic};
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let chaos = Chaos::seeded(7).rate(0.2).only([Fault::Cut, Fault::ServerError]);
/// let faults = chaos.clone();
/// let server =
///     LoopbackServer::answering(move |_| faults.spoil(anthropic::body().text("Hello"))).await?;
/// // .. send many requests ..
/// println!("{:?}", chaos.injected());
/// # drop(server);
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Chaos(Arc<Mutex<ChaosState>>);

struct ChaosState {
    random: fastrand::Rng,
    rate: f64,
    kinds: Vec<Fault>,
    hint: Duration,
    asked: u64,
    injected: BTreeMap<Fault, u64>,
}

impl Chaos {
    /// Creates failures of all kinds, in one fifth of the answers.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(ChaosState {
            random: fastrand::Rng::with_seed(seed),
            rate: 0.2,
            kinds: Fault::ALL.to_vec(),
            hint: Duration::from_secs(1),
            asked: 0,
            injected: BTreeMap::new(),
        })))
    }

    /// Sets the share of answers that fail, from 0 (none) to 1 (all).
    #[must_use]
    pub fn rate(self, rate: f64) -> Self {
        self.state().rate = rate;
        self
    }

    /// Restricts the failures to these kinds. A kind listed twice is twice as frequent.
    #[must_use]
    pub fn only(self, kinds: impl IntoIterator<Item = Fault>) -> Self {
        self.state().kinds = kinds.into_iter().collect();
        self
    }

    /// Sets the retry delay that a failure with status 429 requests. The default is 1 s.
    #[must_use]
    pub fn hint(self, wait: Duration) -> Self {
        self.state().hint = wait;
        self
    }

    /// The number of failures so far, by kind.
    pub fn injected(&self) -> BTreeMap<Fault, u64> {
        self.state().injected.clone()
    }

    /// The number of answers so far, with and without a failure.
    pub fn request_count(&self) -> u64 {
        self.state().asked
    }

    /// Returns the answer with or without a random failure. Use this for the answers of a
    /// [`LoopbackServer`](super::LoopbackServer).
    pub fn spoil(&self, answer: impl Into<Answer>) -> Answer {
        let answer = answer.into();
        match self.draw() {
            Some((fault, mut random)) => answer.spoiled(fault, self.wait(), &mut random),
            None => answer,
        }
    }

    /// Decides whether the next answer fails. Returns the failure, and a random source for its
    /// details.
    pub(super) fn draw(&self) -> Option<(Fault, fastrand::Rng)> {
        let mut state = self.state();
        state.asked += 1;
        if state.random.f64() >= state.rate {
            return None;
        }
        let ChaosState { random, kinds, .. } = &mut *state;
        let fault = *random.choice(kinds.iter())?;
        *state.injected.entry(fault).or_default() += 1;
        Some((fault, state.random.fork()))
    }

    pub(super) fn wait(&self) -> Duration {
        self.state().hint
    }

    fn state(&self) -> MutexGuard<'_, ChaosState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Chaos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Chaos")
            .field("rate", &state.rate)
            .field("kinds", &state.kinds)
            .field("asked", &state.asked)
            .field("injected", &state.injected)
            .finish_non_exhaustive()
    }
}
