//! Lets only one action of a conversation run at a time in this process.
//!
//! If the connection to the engine breaks, the engine continues the run in a worker, possibly in this process. The old
//! action is dropped, but only when its task returns to the runtime. Until then it may still have effects, so the new
//! action must wait.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::sync::Mutex as ConversationLock;

/// The locks of the conversations that have an action in this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConversationLocks(Arc<Mutex<HashMap<String, Weak<ConversationLock<()>>>>>);

impl ConversationLocks {
    /// The lock that an action in this conversation must hold.
    pub(crate) fn of(&self, conversation: &str) -> Arc<ConversationLock<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = turns.get(conversation).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::default();
        turns.insert(conversation.to_owned(), Arc::downgrade(&turn));
        turn
    }
}
