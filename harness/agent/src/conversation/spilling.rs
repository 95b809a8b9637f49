//! The store for large results of a conversation: its journal, or the program's folder.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use super::{
    durable::{InJournal, guarded},
    state::ConversationState,
};
use crate::{Agent, Machine, compaction::context_usage::window_tokens};
use harness_core::{
    error::Error,
    journal::{Head, Incarnation, Journal, unknown},
    message::{Message, Transcript},
    tool::{LargeResults, SpillFolder, SpillFuture, SpillStore, WithArguments},
    unwind::caught,
};

/// The optional store for large results of a run, and the number of bytes of a large result that the model
/// gets.
pub(crate) struct LargeResultStore {
    place: Option<LargeResultPlace>,
    limit: usize,
    /// The size of the window for which `limit` was calculated.
    window: Option<u64>,
    /// The number of messages with which the conversation began. If these messages come from another
    /// conversation, the arguments of some of their calls may be missing.
    given: usize,
}

enum LargeResultPlace {
    Journal(InJournal),
    Folder(PathBuf),
}

impl LargeResultStore {
    pub(crate) fn of(state: &ConversationState) -> Self {
        let kept = state.durable.as_ref().and_then(|durable| durable.in_journal());
        Self::new(&state.agent, kept, window_tokens(state), state.machine.began_with())
    }

    fn new(agent: &Agent, kept: Option<InJournal>, window: Option<u64>, given: usize) -> Self {
        let journal = kept.filter(|kept| can_keep_results(&*kept.journal));
        let place = match (agent.spills(), journal, agent.spill_folder()) {
            (false, _, _) | (true, None, None) => None,
            (true, Some(kept), _) => Some(LargeResultPlace::Journal(kept)),
            (true, None, Some(folder)) => Some(LargeResultPlace::Folder(folder.clone())),
        };
        let limit = agent.tools().limits().output_in(window, place.is_some());
        Self { place, limit, window, given }
    }

    /// Calculates the limit again, because the vendor may have stated the size of the window since the run
    /// began.
    pub(crate) fn update_limit(&mut self, state: &ConversationState) {
        let window = window_tokens(state);
        if self.window != window {
            self.window = window;
            self.limit = state.agent.tools().limits().output_in(window, self.place.is_some());
        }
    }

    /// The store for the answer to a call of a conversation that this process has not opened.
    pub(crate) fn of_unopened(
        agent: &Agent,
        journal: &Arc<dyn Journal>,
        (id, head): (&str, Head),
        machine: &Machine,
    ) -> Self {
        let incarnation = Arc::new(head.incarnation.map(OnceLock::from).unwrap_or_default());
        let kept = InJournal { journal: Arc::clone(journal), id: id.into(), incarnation };
        Self::new(agent, Some(kept), agent.window_in(machine), machine.began_with())
    }

    /// How many bytes of a large result the model gets.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// The store for a call in this conversation. In a folder, the first message identifies the conversation,
    /// because that message stays the same if a program continues the transcript. Only the store for a call
    /// that `reads` results shares the transcript. While the transcript is shared, adding a message copies the
    /// transcript.
    pub(crate) fn for_call(
        &self,
        transcript: &Transcript,
        reads: bool,
    ) -> (Option<LargeResults>, usize) {
        let first = || transcript.messages().first().map_or("", Message::id);
        let kept = self.place.as_ref().map(|place| match place {
            LargeResultPlace::Journal(kept) => self.spills(kept.clone(), transcript, reads),
            LargeResultPlace::Folder(folder) => {
                self.spills(SpillFolder::of(folder, first()), transcript, reads)
            }
        });
        (kept, self.limit)
    }

    fn spills(
        &self,
        store: impl SpillStore + 'static,
        transcript: &Transcript,
        reads: bool,
    ) -> LargeResults {
        if !reads {
            return LargeResults::new(store, self.limit);
        }
        let said = transcript.messages().clone();
        LargeResults::new(WithArguments::new(store, said, self.given), self.limit)
    }
}

/// A copy of the agent for a conversation in this journal. If the journal can store large results, the copy has
/// the tool `read_result`.
pub(crate) fn with_large_results(agent: &Agent, journal: &dyn Journal) -> Agent {
    match agent.spills() && can_keep_results(journal) {
        true => agent.reading_results(),
        false => agent.clone(),
    }
}

/// Whether the journal can store large results. The journal is code of the program, which may panic.
fn can_keep_results(journal: &dyn Journal) -> bool {
    caught(|| journal.can_keep_spills()).unwrap_or(false)
}

impl InJournal {
    /// The incarnation, which is known, because no result is written before the first fact.
    fn incarnation(&self) -> Result<Incarnation, Error> {
        self.incarnation.get().copied().ok_or_else(|| unknown(&self.id))
    }
}

impl SpillStore for InJournal {
    fn write<'a>(&'a self, name: &'a str, chunk: u64, bytes: &'a [u8]) -> SpillFuture<'a, ()> {
        Box::pin(async move {
            let of = self.incarnation()?;
            guarded(|| self.journal.write_spill(&self.id, of, name, chunk, bytes)).await
        })
    }

    fn read<'a>(&'a self, name: &'a str, chunk: u64) -> SpillFuture<'a, Option<Vec<u8>>> {
        Box::pin(guarded(move || self.journal.read_spill(&self.id, name, chunk)))
    }

    fn delete<'a>(&'a self, name: &'a str) -> SpillFuture<'a, ()> {
        Box::pin(async move {
            let of = self.incarnation()?;
            guarded(|| self.journal.delete_spill(&self.id, of, name)).await
        })
    }
}
