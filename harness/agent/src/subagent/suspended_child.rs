//! An agent in a call that could not continue, because its conversation is open elsewhere or the
//! journal failed. Its call stays open, and decisions below it are kept.

use crate::run::driver::RunDriver;
use harness_core::{
    error::{Error, ErrorKind},
    journal::{Awaited, Fact},
    message::{CallOutcome, ToolCall, ToolResult},
};

/// An agent that could not continue, but can later.
pub(crate) struct SuspendedChild {
    conversation: String,
    error: Error,
}

impl SuspendedChild {
    /// What this error means for the caller of an agent whose run it has ended or prevented. If the
    /// conversation was lost, another owner has continued it.
    pub(crate) fn by(error: &Error, is_lost: bool, conversation: &str) -> Option<Self> {
        is_transient(error, is_lost).then(|| {
            let kind = if is_lost { ErrorKind::Busy } else { error.kind() };
            let text = format!(
                "the agent of `{conversation}` could not go on, and its call stays open, so that `resume` goes on \
                 with it: {error}"
            );
            Self { conversation: conversation.to_owned(), error: Error::new(kind, text) }
        })
    }
}

/// Whether an agent that was ended by this error can continue later.
fn is_transient(error: &Error, is_lost: bool) -> bool {
    is_lost || matches!(error.kind(), ErrorKind::Busy | ErrorKind::Journal)
}

impl RunDriver<'_> {
    /// What a call waits for if it has failed with this result because its agent waits or could not
    /// continue.
    pub(crate) fn awaited_below(
        &mut self,
        call: &ToolCall,
        result: &ToolResult,
    ) -> Option<Awaited> {
        let has_failed = result.outcome() == CallOutcome::Failed;
        let waits = self.contexts.awaited_conversation(call.id());
        if let Some((conversation, outcome)) = waits
            && (has_failed || result.outcome() == outcome)
        {
            return Some(Awaited::Agent { conversation, cut_off: false });
        }
        let SuspendedChild { conversation, error } = self.contexts.cut_off_in(call.id())?;
        if !has_failed && result.outcome() != CallOutcome::InDoubt {
            return None;
        }
        self.cut_off.get_or_insert(error);
        Some(Awaited::Agent { conversation, cut_off: true })
    }

    /// Whether the run leaves its open calls open although this error ends it: the call that has
    /// started the run will start it again.
    pub(crate) fn must_leave_calls_open(&self, error: &Error) -> bool {
        let is_kept = self.chat.options.as_ref().is_some_and(|options| options.is_kept);
        is_kept && is_transient(error, self.chat.is_lost())
    }

    /// Withdraws the start of an allowed call that has not begun after all. It is as it was before.
    pub(crate) fn undo_start(&mut self, call: &ToolCall) -> Result<(), Error> {
        let call = call.id().to_owned();
        // That it has not begun now says nothing about an attempt in a process that is gone.
        if self.chat.machine.approved(&call).is_some_and(|granted| granted.again) {
            return self.chat.record(&Fact::Reopened { doubtful: Vec::new() });
        }
        self.chat.record(&Fact::Reopened { doubtful: vec![call.clone()] })?;
        self.chat.record(&Fact::CallCleared { call, spent: None })
    }
}
