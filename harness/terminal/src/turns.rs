//! The turns at a terminal. One request is shown at a time, in the order of arrival. All sources of requests, and all
//! names of the same terminal, share one queue.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::Instant,
};

use tokio::sync::OwnedMutexGuard;

use super::{device::TerminalId, talk::TerminalTalk};

/// What is known about the previous request at a terminal.
#[derive(Debug, Default)]
pub(super) struct PreviousQuestion {
    /// The dialogue of the request, if it was withdrawn while it was on the screen. A key for the request may still
    /// arrive. The open dialogue keeps the system from giving the terminal's device number to another terminal.
    pub(super) taken_back: Option<Arc<TerminalTalk>>,
    /// The conversation from which the request came.
    pub(super) conversation: Option<String>,
    /// When the request was answered or withdrawn.
    pub(super) ended: Option<Instant>,
}

/// The turn at one terminal. Dropping this value gives the next request its turn.
pub(super) type TerminalTurn = OwnedMutexGuard<PreviousQuestion>;

/// All terminals that this process has used. The map stays small, because a system has a limited number of device
/// numbers.
static TERMINALS: LazyLock<Mutex<HashMap<TerminalId, Arc<tokio::sync::Mutex<PreviousQuestion>>>>> =
    LazyLock::new(Mutex::default);

/// Waits until it is this request's turn. Dropping the future leaves the queue.
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
