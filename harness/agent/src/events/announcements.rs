//! Events about calls that were decided or answered, or that began to wait. A fact causes the same event if the
//! run writes it, if another process writes it, or if it was written before the run.

use std::time::Duration;

use super::event::Event;
use harness_core::{
    journal::{Decision, Fact},
    message::ToolCall,
};

/// Calls `tell` with the event for this fact about a call, if there is one.
pub(crate) fn announce_fact(
    call: &ToolCall,
    fact: &Fact,
    elapsed: Duration,
    mut tell: impl FnMut(Event<'_>),
) {
    match fact {
        Fact::CallDecided { decision: Decision::Deny { reason, .. }, .. } => {
            tell(Event::ToolDenied { call, reason });
        }
        Fact::CallWaits { wait, .. } => {
            // The token is only for the tool, and events may be sent to a browser.
            tell(Event::ToolWaits { call, wait: &wait.without_token() });
        }
        Fact::CallSettled { result, .. } => tell(Event::ToolResult { call, result, elapsed }),
        _ => {}
    }
}
