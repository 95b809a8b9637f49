//! What survives: the facts of a conversation, in the order in which they happened.
//!
//! A [`Chat`](crate::Chat) writes its facts into a [`Journal`] that
//! [`Chat::with_journal`](crate::Chat::with_journal) gives it. From the facts, a
//! [`Machine`](crate::agent::Machine) makes the conversation again, also after a process that was
//! killed:
//!
//! ```
//! use harness::{
//!     Agent,
//!     agent::Machine,
//!     journal::{Entry, MemoryJournal},
//!     testing::{ScriptedProvider, reply},
//! };
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let model = ScriptedProvider::new([reply().text("Noted."), reply().text("It is 42.")]);
//! let agent = Agent::builder(model).build()?;
//! let journal = MemoryJournal::default();
//! let mut chat = agent.chat().with_journal(journal.clone())?;
//! chat.send("My favourite number is 42.").await?;
//! let entries: Vec<Entry> = journal.entries(); // each can be kept as JSON
//!
//! let mut machine = Machine::new();
//! for entry in &entries {
//!     machine.apply(entry)?;
//! }
//! // Says of each call without a result whether it did not start, only read, or is in doubt.
//! for entry in Vec::from_iter(machine.settlement()) {
//!     machine.apply(&entry)?;
//! }
//! let mut again = agent.chat_from(machine.transcript().clone());
//! assert_eq!(again.send("What is it?").await?.text(), "It is 42.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What a person allowed by *always* holds in the process in which it was said. In the conversation that
//! is made again, each such call is asked about anew.

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
