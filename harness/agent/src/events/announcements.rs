//! Events about calls that were decided, set waiting or answered: the same for every source, whether the fact was written in
//! the run, by somebody else meanwhile, or before the run.

use std::{mem, time::Duration};

use crate::{Chat, Event, run::driver::RunDriver};
use harness_core::{
    journal::{Decision, Fact},
    message::{Message, ToolCall},
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

impl Chat {
    /// Keeps a fact for the watchers of the run, or of the next one.
    pub(crate) fn keep_for_watchers(&mut self, fact: &Fact) {
        let is_news = matches!(
            fact,
            Fact::CallDecided { decision: Decision::Deny { .. }, .. }
                | Fact::CallWaits { .. }
                | Fact::CallSettled { .. }
        );
        if is_news {
            self.unannounced.push(fact.clone());
        }
    }

    /// The last call of this id.
    fn call(&self, id: &str) -> Option<&ToolCall> {
        let messages = self.transcript().messages().iter().rev();
        messages.flat_map(Message::calls).find(|call| call.id() == id)
    }
}

impl RunDriver<'_> {
    /// Tells the watchers what has happened to calls.
    pub(crate) fn announce(&mut self) {
        for fact in mem::take(&mut self.chat.unannounced) {
            let call = fact.call_id().and_then(|id| self.chat.call(id));
            if let Some(call) = call {
                announce_fact(call, &fact, Duration::ZERO, |event| self.watch.tell(event));
            }
        }
    }
}
