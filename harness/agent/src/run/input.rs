//! What a run begins with.

use harness_core::message::Message;

/// What a run begins with.
#[derive(Debug)]
pub(crate) enum RunInput {
    /// A message of the user.
    Say(Message),
    /// A run that had stopped continues.
    Resume,
}
