//! The timeouts of a provider.

use std::time::Duration;

use tokio::time::Instant;

use harness_core::error::{Error, ErrorKind};

/// The timeouts of one try. An expired timeout is an [`ErrorKind::Timeout`](harness_core::error::ErrorKind::Timeout)
/// whose message names the timeout. The request is tried again if the policy allows it: see
/// [`RetryPolicy::time`](harness_core::policy::RetryPolicy::time).
///
/// Comments and pings do not count as events, because a server sends them even if its model has crashed. Before the
/// first event, however, a comment restarts the timeout, because local servers send comments while their model reads a
/// long prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// The time to connect to the server. Default 10 s.
    pub connect: Duration,
    /// The time from the request, or from the server's last comment, to the first event. Long prompts take longer.
    /// Default 5 min.
    pub first_event: Duration,
    /// The time from one event to the next. Default 2 min.
    pub between_events: Duration,
    /// The time from the request to the end of the answer. Default 1 h, which stops only answers that would never end.
    pub whole_call: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_event: Duration::from_secs(300),
            between_events: Duration::from_secs(120),
            whole_call: Duration::from_secs(3600),
        }
    }
}

impl Timeouts {
    /// The error of the timeout that expired after `heard` events. `whole` is the deadline for the whole answer.
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

/// The moment `time` after now.
pub(super) fn after(time: Duration) -> Instant {
    from(Instant::now(), time)
}

/// The moment `time` after `begin`. `time` is limited to a century.
pub(super) fn from(begin: Instant, time: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    begin + time.min(CENTURY)
}
