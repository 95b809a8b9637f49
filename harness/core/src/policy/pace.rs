//! Decides when the next request may start after a server has refused a request because of a rate limit. This
//! module reads no clock: the caller passes the time.

use std::time::Duration;

use tokio::time::Instant;

/// The first and the longest gap between the starts of two requests. The first gap applies after the first refusal.
const GAPS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// The time after a refusal in which no request starts, if the server does not state a time itself.
const PAUSE: Duration = Duration::from_secs(1);

/// The longest time for which a server's answer can stop all requests.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The pace of all requests to one server. The gap is zero until the server refuses a request.
#[derive(Debug)]
pub(super) struct RateLimiter {
    /// The minimum time between the starts of two requests.
    gap: Duration,
    /// The earliest start time that is not reserved yet.
    next: Instant,
    /// No request starts before this time, even if an earlier start time is reserved.
    closed_until: Instant,
    /// When the gap last grew.
    slowed: Option<Instant>,
}

impl RateLimiter {
    pub(super) fn new(now: Instant) -> Self {
        Self { gap: Duration::ZERO, next: now, closed_until: now, slowed: None }
    }

    /// Reserves the next start time and returns it.
    pub(super) fn next_start(&mut self, now: Instant) -> Instant {
        let start = self.next.max(now);
        self.next = start + self.gap;
        start
    }

    /// Whether a request may start now, at its reserved start time. `false` if the server has refused another request
    /// since the reservation.
    pub(super) fn is_still_free(&self, now: Instant) -> bool {
        self.closed_until <= now
    }

    /// Records that the server refused a request that started at `started`. `asked` is the time for which the server
    /// wants no requests, or zero if it stated no time. For a request that started before the gap last grew, the gap
    /// does not grow again.
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

    /// Records that a request was answered: the gap shrinks by an eighth.
    pub(super) fn answered(&mut self) {
        self.gap = self.gap * 7 / 8;
        if self.gap < Duration::from_millis(1) {
            self.gap = Duration::ZERO;
        }
    }
}
