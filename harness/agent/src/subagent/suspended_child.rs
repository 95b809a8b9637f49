//! An agent in a call that could not continue, because its conversation is open elsewhere or the
//! journal failed. Its call stays open, and decisions below it are kept.

use harness_core::error::{Error, ErrorKind};

/// An agent that could not continue, but can later.
pub(crate) struct SuspendedChild {
    pub(crate) conversation: String,
    pub(crate) error: Error,
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
pub(crate) fn is_transient(error: &Error, is_lost: bool) -> bool {
    is_lost || matches!(error.kind(), ErrorKind::Busy | ErrorKind::Journal)
}
