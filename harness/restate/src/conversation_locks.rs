//! One action of a conversation at a time in this process.
//!
//! If the connection to the engine breaks, the engine continues a run elsewhere, and that may be here. The call that was
//! running is dropped, but not before it returns to the runtime. Until then nobody can find out whether it happens.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::sync::Mutex as ConversationLock;

/// The conversations in which an action is done here.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConversationLocks(Arc<Mutex<HashMap<String, Weak<ConversationLock<()>>>>>);

impl ConversationLocks {
    /// What an action in this conversation has to hold.
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
