//! The conversations of a manager, and the list of its conversations without a run.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{runtime::Handle, sync::watch as count, task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

use super::slot::ChatSlot;
use crate::Agent;
use harness_core::{
    error::{Error, ErrorKind},
    journal::Journal,
    unwind::caught,
};

pub(super) struct ChatsInner {
    pub(super) agent: Agent,
    pub(super) journal: Arc<dyn Journal>,
    pub(super) idle_after: Duration,
    pub(super) most_idle: usize,
    pub(super) slots: Mutex<ChatSlots>,
    /// The tasks of all conversations. They are stopped when the manager is dropped.
    pub(super) tasks: Mutex<JoinSet<()>>,
    pub(super) closing: CancellationToken,
    /// How many conversations have a task.
    pub(super) count: Arc<count::Sender<usize>>,
}

impl ChatsInner {
    pub(super) fn lock(&self) -> MutexGuard<'_, ChatSlots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records whether a conversation is open without a run. If there are too many such conversations, the task
    /// of the longest idle conversation closes that conversation.
    pub(super) fn is_idle(&self, slot: &Arc<ChatSlot>, idle: bool) {
        let mut slots = self.lock();
        let mut state = slot.lock();
        match (state.idle, idle) {
            (None, true) => {
                slots.counted = slots.counted.saturating_add(1);
                state.idle = Some(slots.counted);
                let counted = slots.counted;
                slots.idle.push_back((counted, Arc::clone(slot)));
            }
            (Some(at), false) => {
                state.idle = None;
                slots.remove_idle(at);
            }
            (None, false) | (Some(_), true) => return,
        }
        drop(state);
        if slots.idle.len() > self.most_idle
            && let Some((_, longest)) = slots.idle.pop_front()
        {
            let mut state = longest.lock();
            state.idle = None;
            state.leave = true;
            longest.work.notify_one();
        }
    }

    /// Removes a conversation that has no task, no watchers and no messages.
    pub(super) fn forget(&self, slot: &Arc<ChatSlot>) {
        let mut slots = self.lock();
        let mut state = slot.lock();
        if !state.serving
            && let Some(at) = state.idle.take()
        {
            slots.remove_idle(at);
        }
        let is_same = |kept: &Arc<ChatSlot>| Arc::ptr_eq(kept, slot);
        if state.is_unused() && slots.by_id.get(&slot.id).is_some_and(is_same) {
            slots.by_id.remove(&slot.id);
        }
    }
}

impl Drop for ChatsInner {
    fn drop(&mut self) {
        let slots = self.slots.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.closing.cancel();
        slots.close().iter().for_each(|slot| slot.wake());
        self.tasks.get_mut().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

#[derive(Default)]
pub(super) struct ChatSlots {
    pub(super) by_id: HashMap<Arc<str>, Arc<ChatSlot>>,
    /// The open conversations without a run, the longest idle conversation first.
    idle: VecDeque<(u64, Arc<ChatSlot>)>,
    pub(super) counted: u64,
}

impl ChatSlots {
    /// Closes the conversations without a task. A task closes its own conversation when the task ends. Returns
    /// all conversations. The caller has to wake the watchers of these conversations.
    pub(super) fn close(&self) -> Vec<Arc<ChatSlot>> {
        for slot in self.by_id.values() {
            let mut state = slot.lock();
            state.closed |= !state.serving;
        }
        self.by_id.values().cloned().collect()
    }

    fn remove_idle(&mut self, counted: u64) {
        if let Ok(at) = self.idle.binary_search_by_key(&counted, |(other, _)| *other) {
            self.idle.remove(at);
        }
    }

    pub(super) fn slot(&mut self, id: &str) -> Arc<ChatSlot> {
        match self.by_id.entry(id.into()) {
            Entry::Occupied(slot) => Arc::clone(slot.get()),
            Entry::Vacant(place) => Arc::clone(place.insert(ChatSlot::new(id))),
        }
    }
}

/// The current tokio runtime. Fails if there is no runtime, or if the runtime has no timer.
pub(super) fn runtime() -> Result<Handle, Error> {
    let runtime = Handle::try_current().ok();
    let has_timer = || caught(|| drop(sleep(Duration::ZERO))).is_ok();
    runtime.filter(|_| has_timer()).ok_or_else(|| {
        Error::new(
            ErrorKind::Configuration,
            "a conversation is served by a task of a tokio runtime that has a timer, and here is none: call it \
             in a runtime that was built with `enable_all()`",
        )
    })
}

pub(super) fn closed() -> Error {
    Error::new(
        ErrorKind::Closed,
        "the conversations were closed in this process: the message was not added. It can be said in another one",
    )
}
