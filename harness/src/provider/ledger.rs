//! What failures have cost: a run, and one call in it. It decides nothing; see `policy` for what is
//! made of it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::Request;

/// What failures have cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Tries that failed.
    pub attempts: u32,
    /// Time that they took, and that was waited after them.
    pub time: Duration,
}

/// What one run has lost to failures: one record for all its turns and all its providers.
///
/// An agent makes one for each run and hands it down with every [`Request`]. A clone is the same
/// record.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Record>);

#[derive(Debug, Default)]
struct Record {
    lost: Mutex<Lost>,
    /// Of a call that several providers may answer: what each of them has lost.
    members: Mutex<Vec<Ledger>>,
    /// How long the call has waited for its turn, whoever of them it waited for.
    in_line: Arc<Mutex<Duration>>,
}

impl Ledger {
    /// What failures have cost so far.
    pub fn lost(&self) -> Lost {
        *self.0.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down tries that failed, and time that was lost.
    pub fn add(&self, attempts: u32, time: Duration) {
        let mut lost = self.0.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.attempts = lost.attempts.saturating_add(attempts);
        lost.time = lost.time.saturating_add(time);
    }

    /// The record of the member with this number. It is the same one whenever it is asked for, so
    /// that a call which comes back to a member goes on counting where it was.
    pub(super) fn member(&self, number: usize) -> Self {
        let mut members = self.0.members.lock().unwrap_or_else(PoisonError::into_inner);
        if members.len() <= number {
            members.resize_with(number.saturating_add(1), || {
                let in_line = Arc::clone(&self.0.in_line);
                Self(Arc::new(Record { in_line, ..Record::default() }))
            });
        }
        members.get(number).cloned().unwrap_or_default()
    }

    pub(super) fn in_line(&self) -> Duration {
        *self.0.in_line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down time that was waited for a turn. It is not lost to a failure.
    pub(super) fn was_in_line(&self, time: Duration) {
        let mut in_line = self.0.in_line.lock().unwrap_or_else(PoisonError::into_inner);
        *in_line = in_line.saturating_add(time);
    }
}

/// One try, as the layer that makes it sees it. What the layers below have written into the run's
/// record already is not written there again.
pub(crate) struct Attempt<'r> {
    request: &'r Request<'r>,
    before: Lost,
    in_line: Duration,
    begun: Instant,
}

impl<'r> Attempt<'r> {
    pub(crate) fn begin(request: &'r Request<'_>) -> Self {
        let before = request.ledger().map(Ledger::lost).unwrap_or_default();
        Self { request, before, in_line: request.call().in_line(), begun: Instant::now() }
    }

    /// Writes down that it failed, and says how long it took; the time in line does not count.
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
