//! Where large results of a conversation are kept: with its journal, or in the folder that the program names.

use std::{path::PathBuf, sync::Arc};

use super::{Agent, Chat, durable::guarded};
use crate::{
    journal::Journal,
    message::{Message, Transcript},
    tool::{Folder, READ_RESULT, SpillFuture, SpillStore, Spills, WithArguments},
    unwind::caught,
};

/// Where large results of a run go, if they are kept, and how many bytes of one a model reads then.
pub(super) struct Spilling(Option<(Where, usize)>);

enum Where {
    Journal(Arc<dyn Journal>, Arc<str>),
    Folder(PathBuf),
}

impl Spilling {
    pub(super) fn of(chat: &Chat) -> Self {
        let agent = &chat.agent;
        let durable = chat.durable.as_ref();
        let journal = durable.and_then(|durable| Some((durable.journal()?, durable.id())));
        let journal = journal.filter(|(journal, _)| keeps(&***journal));
        let place = match (agent.spills(), journal, agent.spill_folder()) {
            (false, _, _) | (true, None, None) => None,
            (true, Some((journal, id)), _) => {
                Some(Where::Journal(Arc::clone(journal), Arc::clone(id)))
            }
            (true, None, Some(folder)) => Some(Where::Folder(folder.clone())),
        };
        Self(place.map(|place| (place, agent.tools().limits().output_in(chat.window_tokens()))))
    }

    /// For a call of the conversation in which this was said. A folder knows it by its first message, which is the same
    /// where the conversation goes on from its transcript. Only who `reads` needs what was said: to hand it to all would
    /// make the next message copy what is shared.
    pub(super) fn for_call(&self, transcript: &Transcript, reads: bool) -> Option<Spills> {
        let first = || transcript.messages().first().map_or("", Message::id);
        let (place, limit) = self.0.as_ref()?;
        Some(match place {
            Where::Journal(journal, id) => {
                let store = InJournal(Arc::clone(journal), Arc::clone(id));
                spills(store, *limit, transcript, reads)
            }
            Where::Folder(folder) => spills(Folder::of(folder, first()), *limit, transcript, reads),
        })
    }
}

fn spills(
    store: impl SpillStore + 'static,
    limit: usize,
    transcript: &Transcript,
    reads: bool,
) -> Spills {
    match reads {
        true => Spills::new(WithArguments::new(store, transcript.messages().clone()), limit),
        false => Spills::new(store, limit),
    }
}

impl Agent {
    /// The same agent for a conversation in this journal: with the tool that reads large results, if they are kept
    /// there.
    pub(super) fn within(&self, journal: &dyn Journal) -> Self {
        match self.spills() && keeps(journal) {
            true => self.reading_results(),
            false => self.clone(),
        }
    }
}

impl Chat {
    /// The conversation has come into a journal before anything was said: its agent is the one for it.
    pub(super) fn goes_on_as(&mut self, agent: Agent) {
        self.agent = agent;
        self.told = None;
        self.was_moved();
        let reads = self.agent.tools().get(READ_RESULT).is_some();
        if let Some(own) = self.own.as_mut().filter(|_| reads)
            && let Some(Ok(tools)) = own.tools.as_deref().map(|it| it.clone().reading_results())
        {
            own.tools = Some(Arc::new(tools));
        }
    }
}

/// A journal is the program's own code.
fn keeps(journal: &dyn Journal) -> bool {
    caught(|| journal.keeps_spills()).unwrap_or(false)
}

/// The large results of a conversation in its journal.
struct InJournal(Arc<dyn Journal>, Arc<str>);

impl SpillStore for InJournal {
    fn write<'a>(&'a self, name: &'a str, chunk: u64, bytes: &'a [u8]) -> SpillFuture<'a, ()> {
        Box::pin(guarded(move || self.0.write_spill(&self.1, name, chunk, bytes)))
    }

    fn read<'a>(&'a self, name: &'a str, chunk: u64) -> SpillFuture<'a, Option<Vec<u8>>> {
        Box::pin(guarded(move || self.0.read_spill(&self.1, name, chunk)))
    }

    fn delete<'a>(&'a self, name: &'a str) -> SpillFuture<'a, ()> {
        Box::pin(guarded(move || self.0.delete_spill(&self.1, name)))
    }
}
