//! Who may ask at a terminal: one question at a time, in the order in which they came, whoever asks
//! and by whatever name the terminal was opened.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use tokio::sync::OwnedMutexGuard;

use super::talk::{Identity, Talk};

/// What is known of the question before.
#[derive(Debug, Default)]
pub(super) struct Before {
    /// The talk about it, if it was taken back while it was on the screen: a key may be on its way that
    /// is meant for it. As long as the terminal is held open by it, the system gives its number to no
    /// other one.
    pub(super) taken_back: Option<Arc<Talk>>,
    /// Which conversation asked it.
    pub(super) conversation: Option<String>,
}

/// The turn to ask at one terminal. Whoever drops it lets the next one ask.
pub(super) type Turn = OwnedMutexGuard<Before>;

/// All terminals at which this process has asked: as many as there are numbers of terminals at most.
static TERMINALS: LazyLock<Mutex<HashMap<Identity, Arc<tokio::sync::Mutex<Before>>>>> =
    LazyLock::new(Mutex::default);

/// Waits until it is this question's turn. Whoever waits longest is next; dropping the future gives
/// up the place.
pub(super) async fn turn_at(terminal: Identity) -> Turn {
    queue_of(terminal).lock_owned().await
}

fn queue_of(terminal: Identity) -> Arc<tokio::sync::Mutex<Before>> {
    let mut terminals = TERMINALS.lock().unwrap_or_else(PoisonError::into_inner);
    for queue in terminals.values() {
        let Ok(mut before) = queue.try_lock() else { continue };
        before.taken_back.take_if(|talk| talk.is_gone());
    }
    Arc::clone(terminals.entry(terminal).or_default())
}
