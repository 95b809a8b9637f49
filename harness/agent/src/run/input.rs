//! The input with which a run begins.

use harness_core::message::Message;

/// The input with which a run begins.
#[derive(Debug)]
pub(crate) enum RunInput {
    /// A message of the user.
    Say(Message),
    /// The continuation of a run that had stopped.
    Resume,
}
