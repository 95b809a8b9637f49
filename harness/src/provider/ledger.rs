//! What a run has lost to failures. It decides nothing; see `policy` for what is made of it.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// What failures have cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Tries that failed.
    pub attempts: u32,
    /// Time that they took, and that was waited after them.
    pub time: Duration,
}

/// What one run has lost to failures: one record for all its turns and for every layer of
/// providers around providers, so that retries inside retries cannot multiply.
///
/// An agent makes one for each run and hands it down with every [`Request`](super::Request).
#[derive(Debug, Default)]
pub struct Ledger(Mutex<Spent>);

impl Ledger {
    /// What failures have cost so far.
    pub fn spent(&self) -> Spent {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down tries that failed, and time that was lost.
    pub fn add(&self, attempts: u32, time: Duration) {
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spent.attempts = spent.attempts.saturating_add(attempts);
        spent.time = spent.time.saturating_add(time);
    }
}

/// One try, as the layer that makes it sees it. What the layers below have written down already
/// is not written down again.
pub(crate) struct Attempt<'a> {
    ledger: &'a Ledger,
    before: Spent,
    begun: Instant,
}

impl<'a> Attempt<'a> {
    pub(crate) fn begin(ledger: &'a Ledger) -> Self {
        Self { ledger, before: ledger.spent(), begun: Instant::now() }
    }

    /// Writes down that it failed.
    pub(crate) fn failed(self) {
        let Self { ledger, before, begun } = self;
        let now = ledger.spent();
        let below = now.time.saturating_sub(before.time);
        let attempts = u32::from(now.attempts == before.attempts);
        ledger.add(attempts, begun.elapsed().saturating_sub(below));
    }
}
