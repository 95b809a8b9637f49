//! An agent that a call runs. The agent's run has ended, but can continue later. So the call stays open, and
//! decisions in the agent's conversation are kept.

use super::child_run::left_in_doubt;
use crate::Stopped;
use harness_core::{
    error::{Error, ErrorKind},
    message::{CallOutcome, ToolResult},
};

/// An agent that a call has run and that can continue later.
pub(crate) struct SuspendedChild {
    pub(crate) conversation: String,
    /// Why the agent could not continue. `None` if the agent waits for something outside of its run.
    pub(crate) error: Option<Error>,
    /// The beginning of the run's error. A call whose result contains this text has returned the error.
    text: String,
    /// Whether calls of the run may have partly run.
    in_doubt: bool,
}

/// How many characters of an error are compared. Later characters can be cut off in a result.
const COMPARED: usize = 160;

impl SuspendedChild {
    /// The entry for an agent that waits for something outside of its run.
    pub(crate) fn waiting(stopped: &Stopped, conversation: &str) -> Self {
        let text = stopped.reason_for_caller();
        // Notices of the library can follow the first line in a result, so only that line is compared.
        let text = text.lines().next().unwrap_or_default().chars().take(COMPARED).collect();
        let in_doubt = left_in_doubt(stopped);
        Self { conversation: conversation.to_owned(), error: None, text, in_doubt }
    }

    /// The entry for an agent whose run was ended or prevented by an error. Returns `None` if the agent
    /// cannot continue later. `is_lost`: whether another owner has continued the conversation.
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

    /// Whether the call of this agent begins again after this result. A repeatable call begins again after
    /// each failure. Any other call begins again only if its result contains the agent's error, because
    /// otherwise the tool may have handled the error.
    pub(super) fn explains(&self, result: &ToolResult, is_repeatable: bool) -> bool {
        let passes_on = || result.to_text().contains(&self.text);
        match result.outcome() {
            CallOutcome::Failed => is_repeatable || passes_on(),
            CallOutcome::InDoubt => self.in_doubt && passes_on(),
            _ => false,
        }
    }
}

/// Whether an agent whose run was ended by this error can continue later.
pub(crate) fn is_transient(error: &Error, is_lost: bool) -> bool {
    is_lost || matches!(error.kind(), ErrorKind::Busy | ErrorKind::Journal)
}
