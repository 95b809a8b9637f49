//! For how long a run has gone on, in all processes together and without the time in which it waited
//! for a person.

use std::time::Duration;

use tokio::time::Instant;

/// The time of one run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RunClock {
    /// Until the run went on here.
    before: Duration,
    since: Option<Instant>,
}

impl RunClock {
    /// It had gone on for so long when a fact was written.
    pub(super) fn was(&mut self, elapsed: Duration) {
        *self = Self { before: elapsed, since: None };
    }

    /// It goes on now.
    pub(super) fn starts(&mut self) {
        *self = Self { before: self.elapsed(), since: Some(Instant::now()) };
    }

    /// It stands still.
    pub(super) fn stops(&mut self) {
        *self = Self { before: self.elapsed(), since: None };
    }

    /// Does not count this time: the run waited for a person.
    pub(super) fn postpone(&mut self, time: Duration) {
        self.since = self.since.and_then(|since| since.checked_add(time));
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.before.saturating_add(self.since.map(|since| since.elapsed()).unwrap_or_default())
    }
}
