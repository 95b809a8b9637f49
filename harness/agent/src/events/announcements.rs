//! Events about calls that were decided, set waiting or answered: the same for every source, whether the fact was written in
//! the run, by somebody else meanwhile, or before the run.

use std::time::Duration;

use super::event::Event;
use harness_core::{
    journal::{Decision, Fact},
    message::ToolCall,
};

/// Passes on what a watcher is told of this fact about a call.
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
            // The token is for the tool alone, and events may go to a browser.
            tell(Event::ToolWaits { call, wait: &wait.without_token() });
        }
        Fact::CallSettled { result, .. } => tell(Event::ToolResult { call, result, elapsed }),
        _ => {}
    }
}
