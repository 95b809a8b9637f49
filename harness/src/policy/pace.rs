//! When the next request may start, after a server has refused one for coming too soon. It reads
//! no clock: the time is given.

use std::time::Duration;

use tokio::time::Instant;

/// The gap between two starts after the first refusal, and the longest there is.
const GAPS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// How long nobody starts after a refusal, if the server does not say.
const PAUSE: Duration = Duration::from_secs(1);

/// The longest that a server may close the door for all.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The pace of all requests to one server. Until it refuses one, there is none.
#[derive(Debug)]
pub(super) struct Pace {
    /// Between one start and the next.
    gap: Duration,
    /// The earliest start that nobody has been given yet.
    next: Instant,
    /// Nobody starts before this, whatever was given before.
    closed_until: Instant,
    /// When the last refusal was taken to heart.
    slowed: Option<Instant>,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Self { gap: Duration::ZERO, next: now, closed_until: now, slowed: None }
    }

    /// Gives out the next start.
    pub(super) fn next_start(&mut self, now: Instant) -> Instant {
        let start = self.next.max(now);
        self.next = start + self.gap;
        start
    }

    /// Whether a start that was given out still holds now that it has come.
    pub(super) fn holds(&self, now: Instant) -> bool {
        self.closed_until <= now
    }

    /// A request that started then was refused, and the server asked for this much time; for none if
    /// it did not say. Those that had started before the pace was last slowed tell nothing new.
    pub(super) fn refused(&mut self, started: Instant, now: Instant, asked: Duration) {
        let known = self.slowed.is_some_and(|slowed| started < slowed);
        if !known {
            self.gap = (self.gap * 2).clamp(GAPS.0, GAPS.1);
            self.slowed = Some(now);
        }
        let asked = Some(asked.min(LONGEST)).filter(|wait| !wait.is_zero());
        if known && asked.is_none() {
            return;
        }
        let until = now + asked.unwrap_or(PAUSE);
        if until > self.closed_until {
            self.closed_until = until;
            self.next = self.next.max(until);
        }
    }

    /// A request was answered: the gap closes by an eighth.
    pub(super) fn answered(&mut self) {
        self.gap = self.gap * 7 / 8;
        if self.gap < Duration::from_millis(1) {
            self.gap = Duration::ZERO;
        }
    }
}
