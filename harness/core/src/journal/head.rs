//! The end of a conversation as somebody has read it. A journal compares it with what is stored
//! before it appends, so nobody continues what they have not read.

use std::hash::{BuildHasher as _, RandomState};

use serde::{Deserialize, Serialize};

use super::{Envelope, WriterId};

/// Tells a conversation from all others that have the same name before or after it. A journal gives
/// each conversation a random number when it creates it, and keeps it until the conversation is
/// deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Incarnation(pub u64);

impl Incarnation {
    /// A new random number, for a conversation that is created now.
    pub fn random() -> Self {
        // The keys of this hash are random numbers of the operating system.
        Self(RandomState::new().hash_one(fastrand::u64(..)))
    }
}

/// The end of a conversation: which conversation it is, how many facts it has, and who wrote the
/// last one. Two conversations with equal heads have the same facts, because a writer writes each
/// number only once.
///
/// [`Journal::read`](super::Journal::read) and [`Journal::append`](super::Journal::append) return
/// it, and an append names the one that it comes after. The default is the head of a conversation
/// that does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Head {
    /// Which conversation it is. `None` if it does not exist.
    pub incarnation: Option<Incarnation>,
    /// How many facts it has.
    pub facts: u64,
    /// The writer of the last fact.
    pub writer: Option<WriterId>,
}

impl Head {
    /// The head of this conversation with this number of facts, the last of which has this writer.
    pub fn new(incarnation: Incarnation, facts: u64, writer: Option<WriterId>) -> Self {
        Self { incarnation: Some(incarnation), facts, writer }
    }

    /// The head after these facts were appended.
    #[must_use]
    pub fn after(self, facts: &[Envelope]) -> Self {
        Self {
            facts: self.facts.saturating_add(facts.len() as u64),
            writer: facts.last().map_or(self.writer, |last| Some(last.life)),
            ..self
        }
    }

    /// Whether facts that come after this head may be appended to a conversation that ends `there`:
    /// it is the same conversation, and nobody has continued it. A conversation that somebody has
    /// found missing must still be missing: one that was created since then, even without facts, is
    /// that of somebody else.
    pub fn is_end_of(&self, there: &Self) -> bool {
        self == there
    }
}

/// The facts of a conversation, and where they end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredFacts {
    /// The end of the conversation.
    pub head: Head,
    /// Its facts, from the number on that was asked for.
    pub facts: Vec<Envelope>,
}

impl StoredFacts {
    /// The last facts of a conversation that ends there.
    pub fn new(head: Head, facts: Vec<Envelope>) -> Self {
        Self { head, facts }
    }

    /// The head that the conversation had after its first `count` facts. `None` if the fact before
    /// was not read or does not exist.
    pub fn head_at(&self, count: u64) -> Option<Head> {
        let start = Head { facts: 0, writer: None, ..self.head };
        let Some(last) = count.checked_sub(1) else { return Some(start) };
        let first = self.head.facts.checked_sub(self.facts.len() as u64)?;
        let last = self.facts.get(usize::try_from(last.checked_sub(first)?).ok()?)?;
        Some(Head { facts: count, writer: Some(last.life), ..self.head })
    }
}
