//! A manager of conversations by name. Each conversation is open in at most one task, however many
//! senders and watchers it has.

#[expect(clippy::module_inception, reason = "the file is named after the one type in it")]
mod chats;
pub(crate) mod log;
pub(crate) mod replay;
mod send;
mod serve;
mod slot;
mod slots;
mod watch;

pub use self::{
    chats::{Chats, ChatsBuilder},
    send::{ChatRunBuilder, WhenBusy},
    watch::{ChatRun, ChatWatcher},
};
