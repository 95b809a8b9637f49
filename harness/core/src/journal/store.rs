//! The trait of a store of conversations. Facts are appended only to the conversation that the
//! writer has read, after the fact that it has read last.

use std::{any::Any, fmt, pin::Pin, sync::Arc};

use super::{
    ConversationPage, ConversationQuery, Envelope, Head, Incarnation, Metadata, StoredFacts,
};
use crate::error::{Error, ErrorKind};

/// The future of a call of a [`Journal`].
pub type JournalFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// A store of conversations. Each conversation is a list of facts.
///
/// [`MemoryJournal`](super::MemoryJournal) keeps them until the process ends. `SqliteJournal` and
/// `PostgresJournal` need the features `sqlite` and `postgres`. `testing::journal_conformance`
/// tests your own implementation.
///
/// The program gives each conversation its name: 1 to 512 bytes of text without control characters,
/// see [`check_id`]. A call with any other name fails with [`ErrorKind::Configuration`] where it
/// would create or hold the conversation. Facts have the numbers 0, 1, 2 and so on.
///
/// Every call may be made at the same time as any other, also from other processes. Its future may
/// be dropped at any time: the call is then either done completely or not at all.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a journal",
    label = "not a journal",
    note = "`&SqliteJournal::open(\"chats.db\").await?` (feature `sqlite`) is a journal in a file, and `&MemoryJournal::new()` one in memory"
)]
pub trait Journal: Send + Sync {
    /// The name of the storage system for monitoring: the `db.system.name` of OpenTelemetry, such
    /// as `sqlite` or `postgresql`, or a word of your own.
    fn system(&self) -> &str {
        "other"
    }

    /// Reads the facts of a conversation in order, from this number on, and the [`Head`] that the
    /// conversation has with them. A conversation that does not exist has no facts.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`] if they cannot be read.
    fn read<'a>(&'a self, conversation: &'a str, from: u64) -> JournalFuture<'a, StoredFacts>;

    /// Appends facts to a conversation that [ends](Head::is_end_of) exactly at `after` now. Either
    /// all are appended or none. After the default head, the conversation is created. Returns its
    /// new head. When the call returns, the facts survive everything that this
    /// journal promises to survive.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Conflict`], and appends nothing, if the conversation has another
    /// head: it was continued, deleted, begun anew, or set back to a backup. After any other error
    /// it is not known whether the facts were appended: the caller has to read them back.
    fn append<'a>(
        &'a self,
        conversation: &'a str,
        after: Head,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, Head>;

    /// Holds a conversation for this process until the [`Lease`] is dropped or the process ends in
    /// any way. A hold lets others learn at once that the conversation is in use. It is not a lock:
    /// only [`append`](Self::append) keeps two processes from overwriting each other.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Busy`] if the conversation is held, by this process or by another
    /// one that is alive.
    fn hold<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, Lease>;

    /// Replaces what the program has stored about a conversation. The conversation is created
    /// without facts if it does not exist.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`] if it cannot be written.
    fn describe<'a>(
        &'a self,
        conversation: &'a str,
        metadata: &'a Metadata,
    ) -> JournalFuture<'a, ()>;

    /// Lists conversations. Those that changed last come first.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`] if they cannot be read, and with
    /// [`ErrorKind::Configuration`] if the listing continues a page that is not from this journal.
    fn list<'a>(&'a self, listing: &'a ConversationQuery) -> JournalFuture<'a, ConversationPage>;

    /// Deletes a conversation with its facts and metadata, and all conversations that are part of
    /// it ([`parent`](Metadata::parent)), directly or indirectly. Conversations that were forked
    /// from it keep the facts that they share with it. Returns whether the conversation existed.
    ///
    /// Do not delete the conversation of an agent alone while the call that runs it is open: if the process ended
    /// during the call, `resume` begins the agent anew.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Busy`] if one of these conversations is held, and with
    /// [`ErrorKind::Journal`] if they cannot be deleted. Nothing is deleted then.
    fn delete<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, bool>;

    /// Creates the conversation `to` with the facts of `from` up to the head `at`, which `from` has
    /// now or had earlier ([`StoredFacts::head_at`]). Returns the head of `to`. The default
    /// implementation copies the facts.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Conflict`] if `to` has facts already or `from` never had this head,
    /// and with [`ErrorKind::Configuration`] if `from` has fewer facts.
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

    /// Whether this journal keeps large results, by the three calls below. Without that, large
    /// results are cut off. A journal that returns `true` deletes large results together with their
    /// conversation, even those that no fact names. It gives a fork the large results of the
    /// original, and each of the two keeps them if the other one is deleted.
    fn can_keep_spills(&self) -> bool {
        false
    }

    /// Stores a chunk of a large result of this conversation, and of no other one that has its name
    /// later. A chunk with the same number is replaced. The chunks of a
    /// result are written in order, from 0 on, and have at most 256 KiB each. A chunk need not be
    /// on disk when this call returns, but must be when the next [`append`](Self::append) to the
    /// conversation returns.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Conflict`] if the conversation does not exist any more, with
    /// [`ErrorKind::Configuration`] if this journal does not keep large results, and with
    /// [`ErrorKind::Journal`] if the chunk cannot be written.
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

    /// Reads a chunk of a large result of this conversation. Returns `None` if the conversation has
    /// no large result of this name, and after the last chunk.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`] if it cannot be read.
    fn read_spill<'a>(
        &'a self,
        conversation: &'a str,
        name: &'a str,
        chunk: u64,
    ) -> JournalFuture<'a, Option<Vec<u8>>> {
        let _ = (conversation, name, chunk);
        Box::pin(async { Ok(None) })
    }

    /// Deletes a large result of this conversation, for example if it could not be written
    /// completely. Forks that have it keep it, and so does another conversation that has the name
    /// now.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`] if it cannot be deleted.
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

/// Holds a conversation as long as this value exists: see [`Journal::hold`].
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
/// Fails with [`ErrorKind::Configuration`] if the name is not valid, and says why.
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

/// The error of an [`append`](Journal::append) to a conversation that has another head than the
/// facts were to come after.
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

/// Checks that a conversation whose current head is `there` can be forked at the head `at`. `found` is the head that
/// the conversation had when it had as many facts as `at`.
///
/// # Errors
/// Fails with [`ErrorKind::Conflict`] if `found` is another head than `at`, and if the conversation does not exist or
/// has fewer facts than `at`.
pub fn check_base(from: &str, at: Head, there: Head, found: Option<Head>) -> Result<(), Error> {
    // A conversation that was found missing has no facts that could be those of another one.
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

/// The error of a [`hold`](Journal::hold) or [`delete`](Journal::delete) of a conversation that is
/// held.
pub fn busy(conversation: &str) -> Error {
    Error::new(
        ErrorKind::Busy,
        format!(
            "the conversation `{conversation}` is open here or in another process; it can be opened \
             or deleted when that process has closed it or has ended"
        ),
    )
}

/// The error of a [`fork`](Journal::fork) that wants more facts than there are.
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
