//! A journal in a folder: one file of JSON a conversation. One process uses a folder at a time.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use harness_core::{
    error::{Error, ErrorKind},
    journal::{
        ConversationInfo, ConversationPage, ConversationQuery, Envelope, Head, Incarnation,
        Journal, JournalFuture, Lease, Metadata, StoredFacts, busy, check_base, check_id, conflict,
    },
};
use serde::{Deserialize, Serialize};

/// Conversations in a folder. A clone is the same journal.
#[derive(Clone, Debug)]
pub struct FolderJournal(Arc<Mutex<Folder>>);

struct Folder {
    path: PathBuf,
    conversations: BTreeMap<String, Conversation>,
    held: BTreeSet<String>,
    changes: u64,
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Folder").field("path", &self.path).finish_non_exhaustive()
    }
}

/// What a file has.
#[derive(Clone, Serialize, Deserialize)]
struct Conversation {
    id: String,
    incarnation: Incarnation,
    metadata: Metadata,
    facts: Vec<Envelope>,
    created_at: u64,
    updated_at: u64,
    changed: u64,
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn failed(err: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::Journal, "the folder of conversations cannot be used").with_source(err)
}

impl FolderJournal {
    /// Opens the folder, which must exist.
    ///
    /// # Errors
    /// Fails if a file in it cannot be read.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        let mut conversations = BTreeMap::new();
        for file in fs::read_dir(&path).map_err(failed)? {
            let file = file.map_err(failed)?.path();
            if file.extension().is_some_and(|extension| extension == "json") {
                let text = fs::read(&file).map_err(failed)?;
                let read: Conversation = serde_json::from_slice(&text).map_err(failed)?;
                conversations.insert(read.id.clone(), read);
            }
        }
        let changes = conversations.values().map(|it| it.changed).max().unwrap_or_default();
        Ok(Self(Arc::new(Mutex::new(Folder {
            path,
            conversations,
            held: BTreeSet::new(),
            changes,
        }))))
    }

    fn lock(&self) -> MutexGuard<'_, Folder> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Conversation {
    fn head_at(&self, count: usize) -> Head {
        Head::new(self.incarnation, 0, None).after(self.facts.get(..count).unwrap_or(&self.facts))
    }
}

impl Folder {
    fn file(&self, id: &str) -> PathBuf {
        let name: String = id.bytes().map(|byte| format!("{byte:02x}")).collect();
        // Names of files are shorter than names of conversations can be.
        let (folder, name) = name.split_at(name.len().saturating_sub(200));
        let hash = folder
            .bytes()
            .fold(0_u64, |hash, byte| hash.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte));
        self.path.join(format!("{hash:x}-{name}.json"))
    }

    fn head(&self, id: &str) -> Head {
        self.conversations.get(id).map(|it| it.head_at(it.facts.len())).unwrap_or_default()
    }

    /// Changes a conversation, which is created if it does not exist. The file is whole at any instant.
    fn change(&mut self, id: &str, change: impl FnOnce(&mut Conversation)) -> Result<Head, Error> {
        let mut changed = self.conversations.get(id).cloned().unwrap_or_else(|| Conversation {
            id: id.to_owned(),
            incarnation: Incarnation::random(),
            metadata: Metadata::default(),
            facts: Vec::new(),
            created_at: now(),
            updated_at: 0,
            changed: 0,
        });
        change(&mut changed);
        self.changes += 1;
        (changed.updated_at, changed.changed) = (now(), self.changes);
        let (file, draft) = (self.file(id), self.path.join("draft"));
        fs::write(&draft, serde_json::to_vec(&changed).map_err(failed)?).map_err(failed)?;
        fs::rename(draft, file).map_err(failed)?;
        let head = changed.head_at(changed.facts.len());
        self.conversations.insert(id.to_owned(), changed);
        Ok(head)
    }

    /// The conversation and all that are part of it.
    fn family(&self, id: &str) -> Vec<String> {
        let mut family = vec![id.to_owned()];
        let mut at = 0;
        while let Some(parent) = family.get(at).cloned() {
            for (id, it) in &self.conversations {
                if it.metadata.parent.as_ref() == Some(&parent) && !family.contains(id) {
                    family.push(id.clone());
                }
            }
            at += 1;
        }
        family
    }
}

/// Releases a conversation when it is dropped.
struct Held(FolderJournal, String);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.lock().held.remove(&self.1);
    }
}

impl Journal for FolderJournal {
    fn system(&self) -> &str {
        "folder"
    }

    fn read<'a>(&'a self, id: &'a str, from: u64) -> JournalFuture<'a, StoredFacts> {
        Box::pin(async move {
            let folder = self.lock();
            let facts = folder.conversations.get(id).map(|it| &*it.facts).unwrap_or_default();
            let from = usize::try_from(from).unwrap_or(usize::MAX);
            Ok(StoredFacts::new(folder.head(id), facts.get(from..).unwrap_or_default().to_vec()))
        })
    }

    fn append<'a>(
        &'a self,
        id: &'a str,
        after: Head,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, Head> {
        Box::pin(async move {
            check_id(id)?;
            let mut folder = self.lock();
            let there = folder.head(id);
            if !after.is_end_of(&there) {
                return Err(conflict(id, after, there));
            }
            folder.change(id, |it| it.facts.extend_from_slice(facts))
        })
    }

    fn hold<'a>(&'a self, id: &'a str) -> JournalFuture<'a, Lease> {
        Box::pin(async move {
            check_id(id)?;
            if !self.lock().held.insert(id.to_owned()) {
                return Err(busy(id));
            }
            Ok(Lease::new(Held(self.clone(), id.to_owned())))
        })
    }

    fn describe<'a>(&'a self, id: &'a str, metadata: &'a Metadata) -> JournalFuture<'a, ()> {
        Box::pin(async move {
            check_id(id)?;
            self.lock().change(id, |it| it.metadata = metadata.clone()).map(drop)
        })
    }

    fn list<'a>(&'a self, listing: &'a ConversationQuery) -> JournalFuture<'a, ConversationPage> {
        Box::pin(async move {
            let before = listing.after.as_ref().map(|cursor| cursor.parse::<u64>()).transpose();
            let before = before.map_err(|err| {
                let message = "continue with the `next` of a page, or begin without it";
                Error::new(ErrorKind::Configuration, message).with_source(err)
            })?;
            let folder = self.lock();
            let mut all: Vec<&Conversation> = folder
                .conversations
                .values()
                .filter(|it| listing.owner.is_none() || it.metadata.owner == listing.owner)
                .filter(|it| listing.parent.is_none() || it.metadata.parent == listing.parent)
                .filter(|it| before.is_none_or(|before| it.changed < before))
                .collect();
            all.sort_unstable_by_key(|it| std::cmp::Reverse(it.changed));
            let (page, rest) = all.split_at(listing.page_size().min(all.len()));
            let next = page.last().filter(|_| !rest.is_empty()).map(|it| it.changed.to_string());
            let page = page.iter().map(|it| {
                let (facts, metadata) = (it.facts.len() as u64, it.metadata.clone());
                ConversationInfo::new(&it.id, metadata, facts, it.created_at, it.updated_at)
            });
            Ok(ConversationPage::new(page.collect(), next))
        })
    }

    fn delete<'a>(&'a self, id: &'a str) -> JournalFuture<'a, bool> {
        Box::pin(async move {
            let mut folder = self.lock();
            let family = folder.family(id);
            if let Some(held) = family.iter().find(|id| folder.held.contains(*id)) {
                return Err(busy(held));
            }
            let was_there = folder.conversations.contains_key(id);
            for id in family {
                if folder.conversations.remove(&id).is_some() {
                    fs::remove_file(folder.file(&id)).map_err(failed)?;
                }
            }
            Ok(was_there)
        })
    }

    fn fork<'a>(&'a self, from: &'a str, at: Head, to: &'a str) -> JournalFuture<'a, Head> {
        Box::pin(async move {
            check_id(to)?;
            let mut folder = self.lock();
            let count = usize::try_from(at.facts).unwrap_or(usize::MAX);
            let base = folder.conversations.get(from);
            check_base(from, at, folder.head(from), base.map(|base| base.head_at(count)))?;
            let facts = base.and_then(|base| base.facts.get(..count)).unwrap_or_default().to_vec();
            let there = folder.head(to);
            if there.facts > 0 {
                return Err(conflict(to, Head::default(), there));
            }
            folder.change(to, |it| it.facts = facts)
        })
    }
}
