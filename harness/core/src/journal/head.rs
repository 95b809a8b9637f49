//! The end of a conversation, as a reader last saw it. A journal appends facts only if this end equals the stored
//! end. So no writer continues facts that it has not read.

use std::hash::{BuildHasher as _, RandomState};

use serde::{Deserialize, Serialize};

use super::{Envelope, WriterId};

/// Distinguishes a conversation from earlier and later conversations of the same name. A journal
/// creates this random number together with the conversation and keeps it until the conversation is
/// deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Incarnation(pub u64);

impl Incarnation {
    /// A new random number, for a conversation that is being created.
    pub fn random() -> Self {
        // `RandomState` takes its keys from the random numbers of the operating system.
        Self(RandomState::new().hash_one(fastrand::u64(..)))
    }
}

/// The end of a conversation: its incarnation, the number of its facts, and the writer of the last
/// fact. Two conversations with equal heads have the same facts, because a writer writes each fact
/// number only once.
///
/// [`Journal::read`](super::Journal::read) and [`Journal::append`](super::Journal::append) return
/// the head, and an append names the head that it follows. The default value is the head of a
/// conversation that does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Head {
    /// The incarnation of the conversation. `None` if the conversation does not exist.
    pub incarnation: Option<Incarnation>,
    /// The number of facts.
    pub facts: u64,
    /// The writer of the last fact.
    pub writer: Option<WriterId>,
}

impl Head {
    /// The head of a conversation with `facts` facts. `writer` wrote the last of these facts.
    pub fn new(incarnation: Incarnation, facts: u64, writer: Option<WriterId>) -> Self {
        Self { incarnation: Some(incarnation), facts, writer }
    }

    /// The head after appending these facts.
    #[must_use]
    pub fn after(self, facts: &[Envelope]) -> Self {
        Self {
            facts: self.facts.saturating_add(facts.len() as u64),
            writer: facts.last().map_or(self.writer, |last| Some(last.life)),
            ..self
        }
    }

    /// Whether a journal with the stored head `there` may append facts after this head. Both heads must be equal. If
    /// this is the head of a missing conversation, the conversation must still be missing: a conversation with this
    /// name but without facts may belong to another writer.
    pub fn is_end_of(&self, there: &Self) -> bool {
        self == there
    }
}

/// Facts of a conversation, and the head of the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredFacts {
    /// The head of the conversation.
    pub head: Head,
    /// The facts, from the requested number to the end.
    pub facts: Vec<Envelope>,
}

impl StoredFacts {
    /// The last facts of a conversation with this head.
    pub fn new(head: Head, facts: Vec<Envelope>) -> Self {
        Self { head, facts }
    }

    /// The head that the conversation had after its first `count` facts. `None` if fact number
    /// `count - 1` is not among these facts.
    pub fn head_at(&self, count: u64) -> Option<Head> {
        let start = Head { facts: 0, writer: None, ..self.head };
        let Some(last) = count.checked_sub(1) else { return Some(start) };
        let first = self.head.facts.checked_sub(self.facts.len() as u64)?;
        let last = self.facts.get(usize::try_from(last.checked_sub(first)?).ok()?)?;
        Some(Head { facts: count, writer: Some(last.life), ..self.head })
    }
}
