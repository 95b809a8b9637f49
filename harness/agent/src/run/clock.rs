//! The time that a run has taken, in all processes together. Time in which the run waited for a person does not
//! count.

use std::time::Duration;

use tokio::time::Instant;

/// The time of one run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunClock {
    /// The time that the run had taken before this process continued it, or before the clock was last stopped.
    before: Duration,
    since: Option<Instant>,
}

impl RunClock {
    /// Sets the time that was stored with a fact.
    pub(crate) fn set_elapsed(&mut self, elapsed: Duration) {
        *self = Self { before: elapsed, since: None };
    }

    pub(crate) fn start(&mut self) {
        *self = Self { before: self.elapsed(), since: Some(Instant::now()) };
    }

    pub(crate) fn stop(&mut self) {
        *self = Self { before: self.elapsed(), since: None };
    }

    /// Excludes `time`, in which the run waited for a person.
    pub(crate) fn postpone(&mut self, time: Duration) {
        self.since = self.since.and_then(|since| since.checked_add(time));
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.before.saturating_add(self.since.map(|since| since.elapsed()).unwrap_or_default())
    }
}
