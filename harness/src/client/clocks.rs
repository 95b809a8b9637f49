//! How long a provider may keep us waiting.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::{Error, ErrorKind};

/// How long a provider may keep us waiting in one try, at each of the points where it can. Each has
/// an error of its own: [`ErrorKind::Timeout`](crate::ErrorKind::Timeout), with words that name the
/// clock. It is tried again if the policy's time allows it: see
/// [`RetryPolicy::time`](crate::RetryPolicy::time).
///
/// Comments and pings do not count as events, for a server that has lost its model still sends
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// To reach the server. Default 10 s.
    pub connect: Duration,
    /// From the question to the first event; a long prompt takes its time. Default 5 min.
    pub first_event: Duration,
    /// From one event to the next. Default 2 min.
    pub between_events: Duration,
    /// From the question to the end of the answer. Default 1 h: a long answer that keeps coming is
    /// a good one, so this only ends one that never would.
    pub whole_call: Duration,
}

impl Default for Clocks {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_event: Duration::from_secs(300),
            between_events: Duration::from_secs(120),
            whole_call: Duration::from_secs(3600),
        }
    }
}

impl Clocks {
    /// The error of the clock that ran out, when so many events had come.
    pub(super) fn ran_out(&self, whole: Instant, heard: u64) -> Error {
        let Self { connect: _, first_event, between_events, whole_call } = self;
        let words = match heard {
            _ if Instant::now() >= whole => {
                format!("the answer was not complete after {whole_call:?}")
            }
            0 => format!("the server said nothing for {first_event:?}"),
            _ => format!("the answer stopped coming: no event for {between_events:?}"),
        };
        Error::new(ErrorKind::Timeout, words)
    }
}

/// The moment when this time is over.
pub(super) fn after(time: Duration) -> Instant {
    from(Instant::now(), time)
}

/// The moment when this time is over, counted from `begin`. A time without end is one that nobody
/// lives to see.
pub(super) fn from(begin: Instant, time: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    begin + time.min(CENTURY)
}
