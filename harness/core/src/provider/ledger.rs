//! Counts what failures have cost a run and each of its calls. The code in `policy` decides about retries.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::Request;

/// What failures have cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryCost {
    /// The number of failed attempts.
    pub attempts: u32,
    /// The duration of the failed attempts, and of the waits after them.
    pub time: Duration,
}

/// What failures have cost one run: one record for all its turns and all its providers.
///
/// An agent creates one record for each run and adds it to every [`Request`]. A clone is the same record.
#[derive(Clone, Debug, Default)]
pub struct RetryAccounting(Arc<RetryRecord>);

#[derive(Debug, Default)]
struct RetryRecord {
    lost: Mutex<RetryCost>,
    /// For a call that several providers may answer: one record per provider, by index.
    members: Mutex<Vec<RetryAccounting>>,
    /// How long the call has waited in queues, at all providers together.
    in_line: Arc<Mutex<Duration>>,
}

impl RetryAccounting {
    /// What failures have cost so far.
    pub fn lost(&self) -> RetryCost {
        *self.0.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds failed attempts and lost time.
    pub fn add(&self, attempts: u32, time: Duration) {
        let mut lost = self.0.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.attempts = lost.attempts.saturating_add(attempts);
        lost.time = lost.time.saturating_add(time);
    }

    /// The record of the provider with this index. Each call of this function returns the same record, so that the
    /// count continues when a request returns to a provider.
    pub(super) fn member(&self, number: usize) -> Self {
        let mut members = self.0.members.lock().unwrap_or_else(PoisonError::into_inner);
        if members.len() <= number {
            members.resize_with(number.saturating_add(1), || {
                let in_line = Arc::clone(&self.0.in_line);
                Self(Arc::new(RetryRecord { in_line, ..RetryRecord::default() }))
            });
        }
        members.get(number).cloned().unwrap_or_default()
    }

    pub(super) fn in_line(&self) -> Duration {
        *self.0.in_line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds time that the call has waited in a queue. This time does not count as lost to failures.
    pub(super) fn was_in_line(&self, time: Duration) {
        let mut in_line = self.0.in_line.lock().unwrap_or_else(PoisonError::into_inner);
        *in_line = in_line.saturating_add(time);
    }
}

/// Measures one attempt, for the code that makes the attempt. Costs that wrapped providers have already added to the
/// run's record are not added again.
pub(crate) struct AttemptRecord<'r> {
    request: &'r Request<'r>,
    before: RetryCost,
    in_line: Duration,
    begun: Instant,
}

impl<'r> AttemptRecord<'r> {
    pub(crate) fn begin(request: &'r Request<'_>) -> Self {
        let before = request.ledger().map(RetryAccounting::lost).unwrap_or_default();
        Self { request, before, in_line: request.call().in_line(), begun: Instant::now() }
    }

    /// Records that the attempt failed, and returns its duration without the time in queues.
    pub(crate) fn failed(self) -> Duration {
        let Self { request, before, in_line, begun } = self;
        let in_line = request.call().in_line().saturating_sub(in_line);
        let took = begun.elapsed().saturating_sub(in_line);
        if let Some(run) = request.ledger() {
            let now = run.lost();
            let below = now.time.saturating_sub(before.time);
            let attempts = u32::from(now.attempts == before.attempts);
            run.add(attempts, took.saturating_sub(below));
        }
        took
    }
}
