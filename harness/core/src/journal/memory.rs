//! A journal in memory, which lasts until the process ends.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    ConversationInfo, ConversationPage, ConversationQuery, Envelope, Head, Incarnation, Journal,
    JournalFuture, Lease, Metadata, StoredFacts,
    envelope::now,
    store::{busy, check_base, check_id, conflict, foreign_page, unknown},
};
use crate::error::Error;

/// Keeps conversations in memory, for tests and for programs that need no stored conversations.
/// Clones share the same conversations.
#[derive(Clone, Default)]
pub struct MemoryJournal {
    shared: Arc<Mutex<MemoryState>>,
}

#[derive(Default)]
struct MemoryState {
    conversations: HashMap<String, StoredConversation>,
    held: HashSet<String>,
    /// The number of changes so far.
    changes: u64,
    /// The changes by number, each with the name of its conversation. A listing has this order. Only the last change of
    /// a conversation counts; the others are removed when they are most of the list.
    by_change: Vec<(u64, Arc<str>)>,
}

struct StoredConversation {
    name: Arc<str>,
    incarnation: Incarnation,
    metadata: Metadata,
    facts: Vec<Envelope>,
    /// Large results by name, each in chunks. Forks share the chunks.
    spills: HashMap<String, SpillChunks>,
    created_at: u64,
    updated_at: u64,
    changed: u64,
}

/// The chunks of a large result, in the order of their numbers.
type SpillChunks = Arc<Mutex<Vec<(u64, Vec<u8>)>>>;

impl MemoryJournal {
    /// A journal without conversations.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, MemoryState> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn chunks(spill: &SpillChunks) -> MutexGuard<'_, Vec<(u64, Vec<u8>)>> {
    spill.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StoredConversation {
    /// The head that the conversation had after its first `count` facts.
    fn head_at(&self, count: usize) -> Head {
        Head::new(self.incarnation, 0, None).after(self.facts.get(..count).unwrap_or(&self.facts))
    }
}

impl MemoryState {
    /// Creates the conversation if it is missing, marks it as changed now, and returns it.
    fn changed(&mut self, conversation: &str) -> &mut StoredConversation {
        self.forget_old_changes();
        self.changes = self.changes.saturating_add(1);
        let made = || StoredConversation {
            name: conversation.into(),
            incarnation: Incarnation::random(),
            metadata: Metadata::default(),
            facts: Vec::new(),
            spills: HashMap::new(),
            created_at: now(),
            updated_at: 0,
            changed: 0,
        };
        let kept = self.conversations.entry(conversation.to_owned()).or_insert_with(made);
        self.by_change.push((self.changes, Arc::clone(&kept.name)));
        kept.changed = self.changes;
        kept.updated_at = now();
        kept
    }

    /// Removes changes that are not the last of their conversation, if most changes are not.
    fn forget_old_changes(&mut self) {
        if self.by_change.len() / 2 > self.conversations.len() {
            let Self { conversations, by_change, .. } = self;
            by_change.retain(|(change, name)| {
                conversations.get(&**name).is_some_and(|kept| kept.changed == *change)
            });
        }
    }

    fn head(&self, conversation: &str) -> Head {
        self.conversations
            .get(conversation)
            .map(|kept| kept.head_at(kept.facts.len()))
            .unwrap_or_default()
    }

    /// The conversation of this name, if it still has this incarnation.
    fn same(
        &mut self,
        conversation: &str,
        incarnation: Incarnation,
    ) -> Option<&mut StoredConversation> {
        let kept = self.conversations.get_mut(conversation);
        kept.filter(|kept| kept.incarnation == incarnation)
    }

    /// The names of the conversation and of all its direct and indirect children.
    fn family(&self, conversation: &str) -> Vec<String> {
        let mut family = vec![conversation.to_owned()];
        let mut known: HashSet<String> = family.iter().cloned().collect();
        let mut at = 0;
        while let Some(parent) = family.get(at).cloned() {
            for (id, kept) in &self.conversations {
                if kept.metadata.parent.as_ref() == Some(&parent) && known.insert(id.clone()) {
                    family.push(id.clone());
                }
            }
            at += 1;
        }
        family
    }

    fn list(&self, listing: &ConversationQuery) -> Result<ConversationPage, Error> {
        let before = match &listing.after {
            None => u64::MAX,
            Some(cursor) => cursor.parse().map_err(|_| foreign_page(cursor))?,
        };
        let is_wanted = |kept: &StoredConversation| {
            (listing.owner.is_none() || kept.metadata.owner == listing.owner)
                && (listing.parent.is_none() || kept.metadata.parent == listing.parent)
        };
        let end = self.by_change.partition_point(|(change, _)| *change < before);
        let changes = self.by_change.get(..end).unwrap_or_default();
        let mut wanted = changes.iter().rev().filter_map(|(change, name)| {
            let kept = self.conversations.get(&**name)?;
            (kept.changed == *change && is_wanted(kept)).then_some(kept)
        });
        let mut page = Vec::new();
        let mut next = None;
        while let Some(kept) = wanted.next() {
            let (facts, metadata) = (kept.facts.len() as u64, kept.metadata.clone());
            let name = &*kept.name;
            page.push(ConversationInfo::new(
                name,
                metadata,
                facts,
                kept.created_at,
                kept.updated_at,
            ));
            if page.len() == listing.page_size() {
                next = wanted.next().map(|_| kept.changed.to_string());
                break;
            }
        }
        Ok(ConversationPage::new(page, next))
    }
}

/// The lease of a conversation. Dropping this value ends the lease.
struct MemoryLease {
    journal: MemoryJournal,
    conversation: String,
}

impl Drop for MemoryLease {
    fn drop(&mut self) {
        self.journal.lock().held.remove(&self.conversation);
    }
}

impl Journal for MemoryJournal {
    fn system(&self) -> &str {
        "memory"
    }

    fn read<'a>(&'a self, conversation: &'a str, from: u64) -> JournalFuture<'a, StoredFacts> {
        Box::pin(async move {
            let shared = self.lock();
            let Some(kept) = shared.conversations.get(conversation) else {
                return Ok(StoredFacts::default());
            };
            let from = usize::try_from(from).unwrap_or(usize::MAX);
            let facts = kept.facts.get(from..).unwrap_or_default().to_vec();
            Ok(StoredFacts::new(kept.head_at(kept.facts.len()), facts))
        })
    }

    fn append<'a>(
        &'a self,
        conversation: &'a str,
        after: Head,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, Head> {
        Box::pin(async move {
            check_id(conversation)?;
            let mut shared = self.lock();
            let there = shared.head(conversation);
            if !after.is_end_of(&there) {
                return Err(conflict(conversation, after, there));
            }
            let kept = shared.changed(conversation);
            kept.facts.extend_from_slice(facts);
            Ok(kept.head_at(kept.facts.len()))
        })
    }

    fn hold<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, Lease> {
        Box::pin(async move {
            check_id(conversation)?;
            if !self.lock().held.insert(conversation.to_owned()) {
                return Err(busy(conversation));
            }
            let (journal, conversation) = (self.clone(), conversation.to_owned());
            Ok(Lease::new(MemoryLease { journal, conversation }))
        })
    }

    fn describe<'a>(
        &'a self,
        conversation: &'a str,
        metadata: &'a Metadata,
    ) -> JournalFuture<'a, ()> {
        Box::pin(async move {
            check_id(conversation)?;
            self.lock().changed(conversation).metadata = metadata.clone();
            Ok(())
        })
    }

    fn list<'a>(&'a self, listing: &'a ConversationQuery) -> JournalFuture<'a, ConversationPage> {
        Box::pin(async move { self.lock().list(listing) })
    }

    fn delete<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, bool> {
        Box::pin(async move {
            let mut shared = self.lock();
            let family = shared.family(conversation);
            if let Some(held) = family.iter().find(|id| shared.held.contains(*id)) {
                return Err(busy(held));
            }
            let was_there = shared.conversations.contains_key(conversation);
            for id in family {
                shared.conversations.remove(&id);
            }
            Ok(was_there)
        })
    }

    fn fork<'a>(&'a self, from: &'a str, at: Head, to: &'a str) -> JournalFuture<'a, Head> {
        Box::pin(async move {
            check_id(to)?;
            let mut shared = self.lock();
            let wanted = usize::try_from(at.facts).unwrap_or(usize::MAX);
            let base = shared.conversations.get(from);
            check_base(from, at, shared.head(from), base.map(|base| base.head_at(wanted)))?;
            let kept = base.and_then(|base| base.facts.get(..wanted)).unwrap_or_default().to_vec();
            let spills = base.map(|base| base.spills.clone()).unwrap_or_default();
            let there = shared.head(to);
            if there.facts > 0 {
                return Err(conflict(to, Head::default(), there));
            }
            let fork = shared.changed(to);
            fork.facts = kept;
            fork.spills.extend(spills);
            Ok(fork.head_at(wanted))
        })
    }

    fn can_keep_spills(&self) -> bool {
        true
    }

    fn write_spill<'a>(
        &'a self,
        conversation: &'a str,
        incarnation: Incarnation,
        name: &'a str,
        chunk: u64,
        bytes: &'a [u8],
    ) -> JournalFuture<'a, ()> {
        Box::pin(async move {
            let mut shared = self.lock();
            let kept = shared.same(conversation, incarnation);
            let kept = kept.ok_or_else(|| unknown(conversation))?;
            let spill = kept.spills.entry(name.to_owned()).or_default();
            let mut chunks = chunks(spill);
            let at = chunks.partition_point(|(number, _)| *number < chunk);
            match chunks.get_mut(at).filter(|(number, _)| *number == chunk) {
                Some((_, there)) => *there = bytes.to_vec(),
                None => chunks.insert(at, (chunk, bytes.to_vec())),
            }
            Ok(())
        })
    }

    fn read_spill<'a>(
        &'a self,
        conversation: &'a str,
        name: &'a str,
        chunk: u64,
    ) -> JournalFuture<'a, Option<Vec<u8>>> {
        Box::pin(async move {
            let shared = self.lock();
            let kept = shared.conversations.get(conversation);
            let spill = kept.and_then(|kept| kept.spills.get(name));
            Ok(spill.and_then(|spill| {
                let chunks = chunks(spill);
                let at = chunks.partition_point(|(number, _)| *number < chunk);
                let (number, bytes) = chunks.get(at)?;
                (*number == chunk).then(|| bytes.clone())
            }))
        })
    }

    fn delete_spill<'a>(
        &'a self,
        conversation: &'a str,
        incarnation: Incarnation,
        name: &'a str,
    ) -> JournalFuture<'a, ()> {
        Box::pin(async move {
            if let Some(kept) = self.lock().same(conversation, incarnation) {
                kept.spills.remove(name);
            }
            Ok(())
        })
    }
}

impl fmt::Debug for MemoryJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conversations = self.lock().conversations.len();
        f.debug_struct("MemoryJournal").field("conversations", &conversations).finish()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::MemoryJournal;
    use crate::journal::{ConversationQuery, Journal as _, Metadata};

    #[test]
    fn a_listing_has_the_last_changed_first_however_many_changes_there_were() {
        let journal = MemoryJournal::new();
        let describe = |name: &str| {
            journal.describe(name, &Metadata::default()).now_or_never().unwrap().unwrap();
        };
        for _ in 0..100 {
            ["a", "b", "c"].into_iter().for_each(describe);
        }
        describe("b");
        assert!(journal.delete("a").now_or_never().unwrap().unwrap());
        let page = journal.list(&ConversationQuery::default()).now_or_never().unwrap().unwrap();
        let names: Vec<&str> = page.conversations.iter().map(|it| it.id.as_str()).collect();
        assert_eq!(names, ["b", "c"]);
        assert!(journal.lock().by_change.len() < 10);
    }
}
