//! The timers of calls that wait for an answer until a deadline.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use harness::agent::{OpenCall, Steps};
use restate_sdk::prelude::*;

use crate::driver::ConversationsClient;

/// Sets a timer on the engine for each of these calls.
pub(crate) fn begin(ctx: &ObjectContext<'_>, dates: impl Iterator<Item = (String, u64)>) {
    for (call, until) in dates {
        let client = ctx.object_client::<ConversationsClient>(ctx.key());
        client.expired(Json((call, until))).send_after(left(until));
    }
}

/// The calls that wait until a deadline, with their ids and deadlines.
pub(crate) fn dates(steps: &Steps) -> Vec<(String, u64)> {
    let dated = |open: OpenCall| Some((open.call.id().to_owned(), deadline_of(&open)?));
    steps.waiting().into_iter().filter_map(dated).collect()
}

pub(crate) fn deadline_of(open: &OpenCall) -> Option<u64> {
    open.wait.as_ref()?.until
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn left(until: u64) -> Duration {
    Duration::from_millis(until).saturating_sub(now())
}

/// How long to wait before a timer that could not begin is tried again. The wait is as long as the timer is already
/// late, but at least a second and at most an hour.
pub(crate) fn again(until: u64) -> Duration {
    let late = now().saturating_sub(Duration::from_millis(until));
    late.clamp(Duration::from_secs(1), Duration::from_secs(60 * 60))
}
