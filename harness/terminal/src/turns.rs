//! The turns at a terminal: one question at a time, in the order in which they came, whoever asks and by whatever
//! name the terminal was opened.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::Instant,
};

use tokio::sync::OwnedMutexGuard;

use super::{device::TerminalId, talk::TerminalTalk};

/// What is known about the question before.
#[derive(Debug, Default)]
pub(super) struct PreviousQuestion {
    /// The talk of the question, if it was withdrawn while it was on the screen: a key that is meant for it may
    /// still arrive. As long as the talk keeps the terminal open, the system gives its device number to no other
    /// terminal.
    pub(super) taken_back: Option<Arc<TerminalTalk>>,
    /// The conversation that asked it.
    pub(super) conversation: Option<String>,
    /// When it was answered or withdrawn.
    pub(super) ended: Option<Instant>,
}

/// The turn to ask at one terminal. Dropping it lets the next question ask.
pub(super) type TerminalTurn = OwnedMutexGuard<PreviousQuestion>;

/// All terminals at which this process has asked. Their number is limited by the number of device numbers.
static TERMINALS: LazyLock<Mutex<HashMap<TerminalId, Arc<tokio::sync::Mutex<PreviousQuestion>>>>> =
    LazyLock::new(Mutex::default);

/// Waits until it is this question's turn, in the order of arrival. Dropping the future leaves the queue.
pub(super) async fn turn_at(terminal: TerminalId) -> TerminalTurn {
    queue_of(terminal).lock_owned().await
}

fn queue_of(terminal: TerminalId) -> Arc<tokio::sync::Mutex<PreviousQuestion>> {
    let mut terminals = TERMINALS.lock().unwrap_or_else(PoisonError::into_inner);
    for queue in terminals.values() {
        let Ok(mut before) = queue.try_lock() else { continue };
        before.taken_back.take_if(|talk| talk.is_gone());
    }
    Arc::clone(terminals.entry(terminal).or_default())
}
