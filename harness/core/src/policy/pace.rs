//! Decides when the next request may start after a server has refused one for coming too soon. It reads no clock:
//! the caller passes the time.

use std::time::Duration;

use tokio::time::Instant;

/// The gap between two starts after the first refusal, and the longest gap.
const GAPS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// The time for which no request starts after a refusal, if the server does not ask for a time.
const PAUSE: Duration = Duration::from_secs(1);

/// The longest time for which a server can stop all requests.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The pace of all requests to one server. Until the server refuses a request, there is no gap.
#[derive(Debug)]
pub(super) struct RateLimiter {
    /// The time between one start and the next.
    gap: Duration,
    /// The earliest start that has not been given out.
    next: Instant,
    /// No request starts before this time, even if an earlier start was given out.
    closed_until: Instant,
    /// When the pace was last slowed.
    slowed: Option<Instant>,
}

impl RateLimiter {
    pub(super) fn new(now: Instant) -> Self {
        Self { gap: Duration::ZERO, next: now, closed_until: now, slowed: None }
    }

    /// Gives out the next start.
    pub(super) fn next_start(&mut self, now: Instant) -> Instant {
        let start = self.next.max(now);
        self.next = start + self.gap;
        start
    }

    /// Whether a start that was given out may be used now that its time has come.
    pub(super) fn is_still_free(&self, now: Instant) -> bool {
        self.closed_until <= now
    }

    /// Called when a request that started at `started` was refused. `asked` is the time for which the server wants
    /// no requests, or zero if it did not say. A request that had started before the pace was last slowed does not
    /// slow it again.
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

    /// Called when a request was answered: the gap shrinks by an eighth.
    pub(super) fn answered(&mut self) {
        self.gap = self.gap * 7 / 8;
        if self.gap < Duration::from_millis(1) {
            self.gap = Duration::ZERO;
        }
    }
}
