//! Conversations whose facts a test can read.

use futures_util::FutureExt as _;
use harness::{
    Agent, Chat, Error,
    journal::{Envelope, Fact, Head, Journal, JournalFuture, MemoryJournal},
};

/// The name of the conversation.
pub const CHAT: &str = "chat";

/// The methods of a journal that hand on to another one, which is in the field `at`.
#[macro_export]
macro_rules! hands_on {
    ($at:tt: $($method:ident)*) => { $($crate::kept::hands_on!(@ $method $at);)* };
    (@ read $at:tt) => {
        fn read<'a>(
            &'a self,
            id: &'a str,
            from: u64,
        ) -> harness::journal::JournalFuture<'a, harness::journal::StoredFacts> {
            self.$at.read(id, from)
        }
    };
    (@ append $at:tt) => {
        fn append<'a>(
            &'a self,
            id: &'a str,
            after: harness::journal::Head,
            facts: &'a [harness::journal::Envelope],
        ) -> harness::journal::JournalFuture<'a, harness::journal::Head> {
            self.$at.append(id, after, facts)
        }
    };
    (@ hold $at:tt) => {
        fn hold<'a>(
            &'a self,
            id: &'a str,
        ) -> harness::journal::JournalFuture<'a, harness::journal::Lease> {
            self.$at.hold(id)
        }
    };
    (@ rest $at:tt) => {
        fn describe<'a>(
            &'a self,
            id: &'a str,
            metadata: &'a harness::journal::Metadata,
        ) -> harness::journal::JournalFuture<'a, ()> {
            self.$at.describe(id, metadata)
        }
        fn list<'a>(
            &'a self,
            listing: &'a harness::journal::ConversationQuery,
        ) -> harness::journal::JournalFuture<'a, harness::journal::ConversationPage> {
            self.$at.list(listing)
        }
        fn delete<'a>(&'a self, id: &'a str) -> harness::journal::JournalFuture<'a, bool> {
            self.$at.delete(id)
        }
    };
}
pub use hands_on;

/// A conversation, and the journal that keeps it.
pub fn recorded(agent: &Agent) -> (Chat, MemoryJournal) {
    let journal = MemoryJournal::new();
    (kept_in(agent, &journal), journal)
}

/// A conversation that this journal keeps.
pub fn kept_in<J: Journal + Clone + 'static>(agent: &Agent, journal: &J) -> Chat {
    let opened = agent.open(journal, CHAT).now_or_never();
    opened.expect("a journal in memory answers at once").expect("a new conversation")
}

/// The facts of the conversation, as far as they are written.
pub fn entries(journal: &MemoryJournal) -> Vec<Fact> {
    let read = journal.read(CHAT, 0).now_or_never();
    let read = read.expect("a journal in memory answers at once").expect("facts");
    read.facts.iter().map(|fact| fact.fact().expect("a fact")).collect()
}

/// A journal in memory that hands the facts of each append to a function first, which may refuse them.
pub struct Watched<F> {
    journal: MemoryJournal,
    watch: F,
}

impl<F: Clone> Clone for Watched<F> {
    fn clone(&self) -> Self {
        Self { journal: self.journal.clone(), watch: self.watch.clone() }
    }
}

impl<F: Fn(&[Fact]) -> Result<(), Error> + Clone + Send + Sync> Watched<F> {
    pub fn new(watch: F) -> Self {
        Self { journal: MemoryJournal::new(), watch }
    }
}

impl<F: Fn(&[Fact]) -> Result<(), Error> + Clone + Send + Sync> Journal for Watched<F> {
    hands_on!(journal: read);

    fn append<'a>(
        &'a self,
        conversation: &'a str,
        after: Head,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, Head> {
        let entries: Vec<Fact> = facts.iter().map(|fact| fact.fact().expect("a fact")).collect();
        match (self.watch)(&entries) {
            Ok(()) => self.journal.append(conversation, after, facts),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    hands_on!(journal: hold rest);
}
