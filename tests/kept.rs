//! Conversations whose facts a test can read.

use futures_util::FutureExt as _;
use harness::{
    Agent, Chat, Error,
    journal::{
        Conversations, Entry, Envelope, Hold, Journal, JournalFuture, Listing, MemoryJournal,
        Metadata,
    },
};

/// The name of the conversation.
pub(crate) const CHAT: &str = "chat";

/// A conversation, and the journal that keeps it.
pub(crate) fn recorded(agent: &Agent) -> (Chat, MemoryJournal) {
    let journal = MemoryJournal::new();
    (kept_in(agent, &journal), journal)
}

/// A conversation that this journal keeps.
pub(crate) fn kept_in<J: Journal + Clone + 'static>(agent: &Agent, journal: &J) -> Chat {
    let opened = agent.open(journal, CHAT).now_or_never();
    opened.expect("a journal in memory answers at once").expect("a new conversation")
}

/// The facts of the conversation, as far as they are written.
pub(crate) fn entries(journal: &MemoryJournal) -> Vec<Entry> {
    let read = journal.read(CHAT, 0).now_or_never();
    let read = read.expect("a journal in memory answers at once").expect("facts");
    read.iter().map(|fact| fact.entry().expect("a fact")).collect()
}

/// A journal in memory that hands the facts of each append to a function first, which may refuse them.
pub(crate) struct Watched<F> {
    journal: MemoryJournal,
    watch: F,
}

impl<F: Clone> Clone for Watched<F> {
    fn clone(&self) -> Self {
        Self { journal: self.journal.clone(), watch: self.watch.clone() }
    }
}

impl<F: Fn(&[Entry]) -> Result<(), Error> + Clone + Send + Sync> Watched<F> {
    pub(crate) fn new(watch: F) -> Self {
        Self { journal: MemoryJournal::new(), watch }
    }
}

impl<F: Fn(&[Entry]) -> Result<(), Error> + Clone + Send + Sync> Journal for Watched<F> {
    fn read<'a>(&'a self, conversation: &'a str, from: u64) -> JournalFuture<'a, Vec<Envelope>> {
        self.journal.read(conversation, from)
    }

    fn append<'a>(
        &'a self,
        conversation: &'a str,
        after: u64,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, ()> {
        let entries: Vec<Entry> = facts.iter().map(|fact| fact.entry().expect("a fact")).collect();
        match (self.watch)(&entries) {
            Ok(()) => self.journal.append(conversation, after, facts),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn hold<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, Hold> {
        self.journal.hold(conversation)
    }

    fn describe<'a>(
        &'a self,
        conversation: &'a str,
        metadata: &'a Metadata,
    ) -> JournalFuture<'a, ()> {
        self.journal.describe(conversation, metadata)
    }

    fn list<'a>(&'a self, listing: &'a Listing) -> JournalFuture<'a, Conversations> {
        self.journal.list(listing)
    }

    fn delete<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, bool> {
        self.journal.delete(conversation)
    }
}
