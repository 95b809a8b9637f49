//! An agent in a call whose run has ended and can continue later. The call stays open, and decisions in the
//! agent's conversation are kept.

use super::child_run::left_in_doubt;
use crate::Stopped;
use harness_core::{
    error::{Error, ErrorKind},
    message::{CallOutcome, ToolResult},
};

/// An agent of a call that can continue later.
pub(crate) struct SuspendedChild {
    pub(crate) conversation: String,
    /// Why the agent could not continue. `None` if the agent waits for something outside of its run.
    pub(crate) error: Option<Error>,
    /// The text of the run's error, if calls of the run may have partly run.
    doubt: Option<String>,
}

impl SuspendedChild {
    /// The entry for an agent that waits for something outside of its run.
    pub(crate) fn waiting(stopped: &Stopped, conversation: &str) -> Self {
        let doubt = left_in_doubt(stopped).then(|| stopped.to_string());
        Self { conversation: conversation.to_owned(), error: None, doubt }
    }

    /// The entry for an agent whose run was ended or prevented by an error. Returns `None` if the agent cannot
    /// continue later. If the conversation `is_lost`, another owner has continued it.
    pub(crate) fn cut_off(stopped: &Stopped, is_lost: bool, conversation: &str) -> Option<Self> {
        let error = stopped.error().filter(|error| is_transient(error, is_lost))?;
        let kind = if is_lost { ErrorKind::Busy } else { error.kind() };
        let text = format!(
            "the agent of `{conversation}` could not go on, and its call stays open, so that `resume` goes on \
             with it: {error}"
        );
        let error = Some(Error::new(kind, text));
        Some(Self { error, ..Self::waiting(stopped, conversation) })
    }

    /// Whether the call that has run this agent and ended with this result can begin again. If the call is in
    /// doubt, it can only if its result is the agent's error: otherwise the call's own tool has reported the
    /// doubt.
    pub(super) fn explains(&self, result: &ToolResult) -> bool {
        match result.outcome() {
            CallOutcome::Failed => true,
            CallOutcome::InDoubt => {
                self.doubt.as_ref().is_some_and(|text| result.to_text().contains(text.as_str()))
            }
            _ => false,
        }
    }
}

/// Whether an agent whose run was ended by this error can continue later.
pub(crate) fn is_transient(error: &Error, is_lost: bool) -> bool {
    is_lost || matches!(error.kind(), ErrorKind::Busy | ErrorKind::Journal)
}
