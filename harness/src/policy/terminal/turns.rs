//! The turns at a terminal: one question at a time, in the order in which they came, whoever asks and by whatever
//! name the terminal was opened.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::Instant,
};

use tokio::sync::OwnedMutexGuard;

use super::{device::Identity, talk::Talk};

/// What is known about the question before.
#[derive(Debug, Default)]
pub(super) struct Before {
    /// The talk of the question, if it was withdrawn while it was on the screen: a key that is meant for it may
    /// still arrive. As long as the talk keeps the terminal open, the system gives its device number to no other
    /// terminal.
    pub(super) taken_back: Option<Arc<Talk>>,
    /// The conversation that asked it.
    pub(super) conversation: Option<String>,
    /// When it was answered or withdrawn.
    pub(super) ended: Option<Instant>,
}

/// The turn to ask at one terminal. Dropping it lets the next question ask.
pub(super) type Turn = OwnedMutexGuard<Before>;

/// All terminals at which this process has asked. Their number is limited by the number of device numbers.
static TERMINALS: LazyLock<Mutex<HashMap<Identity, Arc<tokio::sync::Mutex<Before>>>>> =
    LazyLock::new(Mutex::default);

/// Waits until it is this question's turn, in the order of arrival. Dropping the future leaves the queue.
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
