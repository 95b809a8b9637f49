//! The name of a file in place of a journal. rustc reports each bound of `open` at three places.
//!
//! - at `agent.open("chats.db", "chat")`: `&SqliteJournal::open("chats.db").await?`
//! - at `agent.open("chats.db", "chat")`: `str: Clone`
//! - at `"chats.db"`: `&SqliteJournal::open("chats.db").await?`
//! - at `"chats.db"`: `str: Clone`
//! - at `await`: `&SqliteJournal::open("chats.db").await?`
//! - at `await`: `str: Clone`

use harness::{Agent, Chat, Error};

async fn open(agent: &Agent) -> Result<Chat, Error> { agent.open("chats.db", "chat").await }

fn main() {}
