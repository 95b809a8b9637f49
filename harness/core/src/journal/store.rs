//! The trait of a journal. A writer can append facts only directly after the last fact that it has read.

use std::{any::Any, fmt, pin::Pin, sync::Arc};

use super::{
    ConversationPage, ConversationQuery, Envelope, Head, Incarnation, Metadata, StoredFacts,
};
use crate::error::{Error, ErrorKind};

/// The future of a [`Journal`] method.
pub type JournalFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// A store of conversations. Each conversation is a list of facts.
///
/// [`MemoryJournal`](super::MemoryJournal) keeps conversations until the process ends. `SqliteJournal` and
/// `PostgresJournal` need the features `sqlite` and `postgres`. Test your own implementation with
/// `testing::journal_conformance`.
///
/// The program chooses the name of each conversation: 1 to 512 bytes of text without control characters, see
/// [`check_id`]. Calls that would create or hold a conversation fail with [`ErrorKind::Configuration`] for any other
/// name. Facts are numbered from 0.
///
/// All methods may be called concurrently, also from several processes. A future may be dropped at any time: its
/// operation is then either complete or has no effect.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a journal",
    label = "not a journal",
    note = "`&SqliteJournal::open(\"chats.db\").await?` (feature `sqlite`) is a journal in a file, and `&MemoryJournal::new()` one in memory"
)]
pub trait Journal: Send + Sync {
    /// The name of the storage system for monitoring: the `db.system.name` of OpenTelemetry, such as `sqlite` or
    /// `postgresql`, or a name of your own.
    fn system(&self) -> &str {
        "other"
    }

    /// Reads the facts of a conversation in order, from number `from` on, and the current [`Head`]. A conversation that
    /// does not exist has no facts.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`] if the facts cannot be read.
    fn read<'a>(&'a self, conversation: &'a str, from: u64) -> JournalFuture<'a, StoredFacts>;

    /// Appends facts to a conversation whose current head is exactly `after` ([`Head::is_end_of`]). Either all facts
    /// are appended or none. With the default head, the conversation is created. Returns the new head. When the call
    /// has returned, the facts survive every failure that this journal protects against.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Conflict`], and appends nothing, if the conversation has another head, because it was
    /// continued, deleted, created again, or restored from a backup. After any other error, it is unknown whether the
    /// facts were appended: the caller has to read the conversation again.
    fn append<'a>(
        &'a self,
        conversation: &'a str,
        after: Head,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, Head>;

    /// Holds a conversation for this process until the [`Lease`] is dropped or the process ends in any way. A hold
    /// shows other processes at once that the conversation is in use. A hold is not a lock: only the check in
    /// [`append`](Self::append) keeps two processes from overwriting each other.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Busy`] if this process or another living process holds the conversation.
    fn hold<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, Lease>;

    /// Replaces the metadata of a conversation. A missing conversation is created without facts.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`] if the metadata cannot be written.
    fn describe<'a>(
        &'a self,
        conversation: &'a str,
        metadata: &'a Metadata,
    ) -> JournalFuture<'a, ()>;

    /// Lists conversations, most recently changed first.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`] if the conversations cannot be read, and with [`ErrorKind::Configuration`] if
    /// `listing` continues a page of another journal.
    fn list<'a>(&'a self, listing: &'a ConversationQuery) -> JournalFuture<'a, ConversationPage>;

    /// Deletes a conversation with its facts and metadata, and all its direct and indirect children
    /// ([`parent`](Metadata::parent)). Forks of a deleted conversation keep the shared facts. Returns whether the
    /// conversation existed.
    ///
    /// Do not delete an agent's conversation alone while the call that runs the agent is open. After a crash during
    /// that call, `resume` would start the agent again from the beginning.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Busy`] if one of these conversations is held, and with [`ErrorKind::Journal`] if they
    /// cannot be deleted. In both cases nothing is deleted.
    fn delete<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, bool>;

    /// Creates the conversation `to` with the facts of `from` up to the head `at`. `at` must be the current head of
    /// `from` or an earlier head ([`StoredFacts::head_at`]). Returns the head of `to`. The default implementation
    /// copies the facts.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Conflict`] if `to` already has facts or `from` never had the head `at`, and with
    /// [`ErrorKind::Configuration`] if `from` has fewer facts than `at`.
    fn fork<'a>(&'a self, from: &'a str, at: Head, to: &'a str) -> JournalFuture<'a, Head> {
        Box::pin(async move {
            check_id(to)?;
            let mut base = self.read(from, 0).await?;
            check_base(from, at, base.head, base.head_at(at.facts))?;
            base.facts.truncate(usize::try_from(at.facts).unwrap_or(usize::MAX));
            let there = self.read(to, u64::MAX).await?.head;
            match there.facts {
                0 => self.append(to, there, &base.facts).await,
                _ => Err(conflict(to, Head::default(), there)),
            }
        })
    }

    /// Whether this journal stores large results. If not, large results are truncated. A journal that returns `true`
    /// deletes the large results of a conversation with the conversation, including large results that no fact names.
    /// A fork gets the large results of its original, and keeps them if the original is deleted. The original keeps
    /// its large results if the fork is deleted.
    fn can_keep_spills(&self) -> bool {
        false
    }

    /// Stores a chunk of a large result. The result belongs to exactly this incarnation of the conversation. An
    /// existing chunk with the same number is replaced. Chunks have at most 256 KiB and are written in order, from
    /// number 0. A chunk need not be durable when this call returns, but must be durable when the next
    /// [`append`](Self::append) to the conversation returns.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Conflict`] if this incarnation of the conversation no longer exists, with
    /// [`ErrorKind::Configuration`] if this journal does not store large results, and with [`ErrorKind::Journal`] if
    /// the chunk cannot be written.
    fn write_spill<'a>(
        &'a self,
        conversation: &'a str,
        incarnation: Incarnation,
        name: &'a str,
        chunk: u64,
        bytes: &'a [u8],
    ) -> JournalFuture<'a, ()> {
        let _ = (conversation, incarnation, name, chunk, bytes);
        Box::pin(async {
            Err(Error::new(
                ErrorKind::Configuration,
                "this journal keeps no large results: `Journal::can_keep_spills` says so",
            ))
        })
    }

    /// Reads a chunk of a large result. Returns `None` after the last chunk, and if the conversation has no large
    /// result of this name.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`] if the chunk cannot be read.
    fn read_spill<'a>(
        &'a self,
        conversation: &'a str,
        name: &'a str,
        chunk: u64,
    ) -> JournalFuture<'a, Option<Vec<u8>>> {
        let _ = (conversation, name, chunk);
        Box::pin(async { Ok(None) })
    }

    /// Deletes a large result of this incarnation of the conversation, for example because the result could not be
    /// written completely. Forks keep their copies, and a later conversation of the same name is not affected.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`] if the large result cannot be deleted.
    fn delete_spill<'a>(
        &'a self,
        conversation: &'a str,
        incarnation: Incarnation,
        name: &'a str,
    ) -> JournalFuture<'a, ()> {
        let _ = (conversation, incarnation, name);
        Box::pin(async { Ok(()) })
    }
}

/// Holds a conversation for as long as this value exists: see [`Journal::hold`].
pub struct Lease {
    _guard: Box<dyn Any + Send + Sync>,
}

impl Lease {
    /// A hold that ends when `guard` is dropped.
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self { _guard: Box::new(guard) }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lease")
    }
}

/// Checks the name of a conversation: 1 to 512 bytes of text without control characters.
///
/// # Errors
/// Fails with [`ErrorKind::Configuration`] if the name is not valid. The error gives the reason.
pub fn check_id(conversation: &str) -> Result<(), Error> {
    let fault = match conversation.len() {
        0 => "is empty",
        513.. => "is longer than 512 bytes",
        _ if conversation.chars().any(char::is_control) => "has a control character",
        _ => return Ok(()),
    };
    Err(Error::new(
        ErrorKind::Configuration,
        format!(
            "the name of a conversation {fault}; give it 1 to 512 bytes of text without control \
             characters"
        ),
    ))
}

/// The error if an [`append`](Journal::append) expects the head `after`, but the stored head is
/// `there`.
pub fn conflict(conversation: &str, after: Head, there: Head) -> Error {
    let why = if after == Head::default() {
        "it was created meanwhile"
    } else if there.incarnation.is_none() || there.facts < after.facts {
        "it was deleted meanwhile, or its journal was set back to an earlier state"
    } else if after.incarnation.is_some() && after.incarnation != there.incarnation {
        "it was deleted and begun anew meanwhile"
    } else {
        "somebody else has continued it"
    };
    Error::new(
        ErrorKind::Conflict,
        format!(
            "the conversation `{conversation}` has {} facts, but the new facts were to come after \
             {}: {why}. Open it again",
            there.facts, after.facts
        ),
    )
}

/// Checks that a conversation with the current head `there` can be forked at the head `at`. `found` is the head that
/// the conversation had after its first `at.facts` facts.
///
/// # Errors
/// Fails with [`ErrorKind::Conflict`] if `found` differs from `at` or the incarnation has changed, and with
/// [`ErrorKind::Configuration`] if the conversation has fewer facts than `at`.
pub fn check_base(from: &str, at: Head, there: Head, found: Option<Head>) -> Result<(), Error> {
    // A fork of a missing conversation copies no facts, so no facts of another conversation can get into the fork.
    if at == Head::default() {
        return Ok(());
    }
    if at.incarnation.is_some() && at.incarnation != there.incarnation {
        return Err(conflict(from, at, there));
    }
    if there.facts < at.facts {
        return Err(too_few(from, there.facts, at.facts));
    }
    match found == Some(at) {
        true => Ok(()),
        false => Err(conflict(from, at, there)),
    }
}

/// The error of a [`write_spill`](Journal::write_spill) to a conversation that does not exist.
pub fn unknown(conversation: &str) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!(
            "the conversation `{conversation}` does not exist, so no result of it can be kept: it was \
             deleted meanwhile, or nothing was appended to it yet"
        ),
    )
}

/// The error of a [`hold`](Journal::hold) or a [`delete`](Journal::delete) if the conversation is
/// already held.
pub fn busy(conversation: &str) -> Error {
    Error::new(
        ErrorKind::Busy,
        format!(
            "the conversation `{conversation}` is open here or in another process; it can be opened \
             or deleted when that process has closed it or has ended"
        ),
    )
}

/// The error of a [`list`](Journal::list) that continues after the page of another journal.
#[doc(hidden)]
pub fn foreign_page(cursor: &str) -> Error {
    Error::new(
        ErrorKind::Configuration,
        format!(
            "`{cursor}` is not the end of a page of this journal; continue with the `next` of a \
             page, or begin without it"
        ),
    )
}

/// The error of a [`fork`](Journal::fork) that requests more facts than the conversation has.
pub fn too_few(conversation: &str, there: u64, wanted: u64) -> Error {
    Error::new(
        ErrorKind::Configuration,
        format!(
            "the conversation `{conversation}` has only {there} facts, and a fork was to share {wanted}"
        ),
    )
}

impl<J: Journal + ?Sized> Journal for Arc<J> {
    fn system(&self) -> &str {
        (**self).system()
    }

    fn read<'a>(&'a self, conversation: &'a str, from: u64) -> JournalFuture<'a, StoredFacts> {
        (**self).read(conversation, from)
    }

    fn append<'a>(
        &'a self,
        conversation: &'a str,
        after: Head,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, Head> {
        (**self).append(conversation, after, facts)
    }

    fn hold<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, Lease> {
        (**self).hold(conversation)
    }

    fn describe<'a>(
        &'a self,
        conversation: &'a str,
        metadata: &'a Metadata,
    ) -> JournalFuture<'a, ()> {
        (**self).describe(conversation, metadata)
    }

    fn list<'a>(&'a self, listing: &'a ConversationQuery) -> JournalFuture<'a, ConversationPage> {
        (**self).list(listing)
    }

    fn delete<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, bool> {
        (**self).delete(conversation)
    }

    fn fork<'a>(&'a self, from: &'a str, at: Head, to: &'a str) -> JournalFuture<'a, Head> {
        (**self).fork(from, at, to)
    }

    fn can_keep_spills(&self) -> bool {
        (**self).can_keep_spills()
    }

    fn write_spill<'a>(
        &'a self,
        conversation: &'a str,
        incarnation: Incarnation,
        name: &'a str,
        chunk: u64,
        bytes: &'a [u8],
    ) -> JournalFuture<'a, ()> {
        (**self).write_spill(conversation, incarnation, name, chunk, bytes)
    }

    fn read_spill<'a>(
        &'a self,
        conversation: &'a str,
        name: &'a str,
        chunk: u64,
    ) -> JournalFuture<'a, Option<Vec<u8>>> {
        (**self).read_spill(conversation, name, chunk)
    }

    fn delete_spill<'a>(
        &'a self,
        conversation: &'a str,
        incarnation: Incarnation,
        name: &'a str,
    ) -> JournalFuture<'a, ()> {
        (**self).delete_spill(conversation, incarnation, name)
    }
}
