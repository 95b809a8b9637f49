//! An agent in a call whose run has ended and can continue later: the call stays open, and so do the
//! decisions in the agent's conversation.

use super::child_run::left_in_doubt;
use crate::Stopped;
use harness_core::{
    error::{Error, ErrorKind},
    message::{CallOutcome, ToolResult},
};

/// An agent of a call that can continue later.
pub(crate) struct SuspendedChild {
    pub(crate) conversation: String,
    /// Why the agent could not continue. `None` if it waits for somebody.
    pub(crate) error: Option<Error>,
    /// The beginning of the run's error, by which the result of a call is recognised that passes
    /// the error on.
    text: String,
    /// Whether calls of the run may have partly run.
    in_doubt: bool,
}

/// How many characters of an error are compared: what stands behind them can be shortened in a result.
const COMPARED: usize = 160;

impl SuspendedChild {
    /// For an agent that waits for somebody.
    pub(crate) fn waiting(stopped: &Stopped, conversation: &str) -> Self {
        let text = stopped.to_string();
        // The library adds its notices to a result behind the first line.
        let text = text.lines().next().unwrap_or_default().chars().take(COMPARED).collect();
        let in_doubt = left_in_doubt(stopped);
        Self { conversation: conversation.to_owned(), error: None, text, in_doubt }
    }

    /// For an agent whose run was ended or prevented by an error. Returns `None` if the agent cannot
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

    /// Whether the call that has run this agent and ended with this result begins again later. A
    /// call that may run any number of times does so whenever it has failed. Another one does so
    /// only if its result passes the agent's error on: otherwise its function may have done
    /// something about the error.
    pub(super) fn explains(&self, result: &ToolResult, is_repeatable: bool) -> bool {
        let passes_on = || result.to_text().contains(&self.text);
        match result.outcome() {
            CallOutcome::Failed => is_repeatable || passes_on(),
            CallOutcome::InDoubt => self.in_doubt && passes_on(),
            _ => false,
        }
    }
}

/// Whether an agent that was ended by this error can continue later.
pub(crate) fn is_transient(error: &Error, is_lost: bool) -> bool {
    is_lost || matches!(error.kind(), ErrorKind::Busy | ErrorKind::Journal)
}
