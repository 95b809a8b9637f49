//! What survives: the facts of a conversation, in the order in which they happened.

mod entry;
mod memory;

pub use self::{
    entry::{Decider, Decision, Entry, InterruptCause, Limit, LimitScope},
    memory::MemoryJournal,
};
use crate::error::Error;

/// Where facts are written down. Reading the same facts again gives the same conversation.
pub trait Journal: Send {
    /// Writes a fact down. When it returns, the fact survives whatever this journal promises to
    /// survive; a call that changes something is started only after its fact is written.
    ///
    /// # Errors
    /// Fails if the fact could not be written. The run then ends, and says so.
    fn append(&mut self, entry: &Entry) -> Result<(), Error>;
}
