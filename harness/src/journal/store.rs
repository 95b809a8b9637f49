//! What a store of conversations does: facts are appended after so many others, or refused.

use std::{any::Any, fmt, pin::Pin, sync::Arc};

use super::{Conversations, Envelope, Listing, Metadata};
use crate::error::{Error, ErrorKind};

/// What a call of a [`Journal`] comes to.
pub type JournalFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// A store of conversations, each of which is a list of facts.
///
/// [`MemoryJournal`](super::MemoryJournal) keeps them for as long as the process lives.
/// `SqliteJournal` and `PostgresJournal` stand behind the features `sqlite` and `postgres`.
/// `testing::journal_conformance` tests an implementation of your own.
///
/// A conversation is named by the program: 1 to 512 bytes of text without control characters, see
/// [`check_id`]. Its facts have the numbers 0, 1, 2 and so on.
///
/// Every call may be made at the same time as any other, also from other processes, and its future
/// may be dropped at any time: what it does is done as a whole or not at all, and then may have been
/// done or not.
pub trait Journal: Send + Sync {
    /// What keeps the conversations, for those who watch a program: the `db.system.name` of
    /// OpenTelemetry, such as `sqlite` or `postgresql`, or a word of your own.
    fn system(&self) -> &str {
        "other"
    }

    /// Reads the facts of a conversation from this number on, in order. There are none of a
    /// conversation that does not exist.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`] if they cannot be read.
    fn read<'a>(&'a self, conversation: &'a str, from: u64) -> JournalFuture<'a, Vec<Envelope>>;

    /// Appends facts to a conversation that has exactly `after` of them now, all or none, and makes
    /// the conversation if it does not exist. When it returns, they survive whatever this journal
    /// promises to survive.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Conflict`], and appends nothing, if the conversation has another
    /// number of facts. Any other error leaves open whether the facts were appended, and whoever
    /// called reads them back to know.
    fn append<'a>(
        &'a self,
        conversation: &'a str,
        after: u64,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, ()>;

    /// Holds a conversation for this process until the [`Hold`] is dropped, or the process ends in
    /// any way. It is a courtesy to others, who learn at once that the conversation is in use; what
    /// keeps two processes apart is [`append`](Self::append).
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Busy`] if it is held, here or in a process that lives.
    fn hold<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, Hold>;

    /// Replaces what the program knows of a conversation, and makes the conversation, without facts,
    /// if it does not exist.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`] if it cannot be written.
    fn describe<'a>(
        &'a self,
        conversation: &'a str,
        metadata: &'a Metadata,
    ) -> JournalFuture<'a, ()>;

    /// Lists conversations, the one that changed last first.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`] if they cannot be read, and with
    /// [`ErrorKind::Configuration`] if the listing goes on from a page that this journal did not give.
    fn list<'a>(&'a self, listing: &'a Listing) -> JournalFuture<'a, Conversations>;

    /// Deletes a conversation with its facts and metadata, and all whose
    /// [`parent`](Metadata::parent) it is, with theirs. Conversations that were forked from it keep
    /// what they share with it. Says whether it was there.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Busy`] if it, or one below it, is held, and with
    /// [`ErrorKind::Journal`] if it cannot be deleted; nothing is deleted then.
    fn delete<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, bool>;

    /// Begins the conversation `to` with the first `facts` facts of `from`. Unless a journal does
    /// better, they are copied.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Conflict`] if `to` has facts already, and with
    /// [`ErrorKind::Configuration`] if `from` has fewer than `facts`.
    fn fork<'a>(&'a self, from: &'a str, facts: u64, to: &'a str) -> JournalFuture<'a, ()> {
        Box::pin(async move {
            check_id(to)?;
            let mut shared = self.read(from, 0).await?;
            let there = shared.len() as u64;
            if there < facts {
                return Err(too_few(from, there, facts));
            }
            shared.truncate(usize::try_from(facts).unwrap_or(usize::MAX));
            self.append(to, 0, &shared).await
        })
    }

    /// Whether large results are kept here, by the three calls below. One that says no is a journal
    /// all the same: large results are cut. Whoever says yes deletes them with their conversation, also those
    /// of which no fact tells, and gives a fork those of what it was forked from, whichever of
    /// the two is deleted.
    fn keeps_spills(&self) -> bool {
        false
    }

    /// Keeps a chunk of a large result, in the place of one that has the same number. Chunks of a result are
    /// written in order, from 0 on, and have at most 256 KiB each. They need not be on disk when this
    /// returns, but when the next [`append`](Self::append) to the conversation does.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Conflict`] if the conversation does not exist, with
    /// [`ErrorKind::Configuration`] if no results are kept here, and with [`ErrorKind::Journal`] if it cannot
    /// be written.
    fn write_spill<'a>(
        &'a self,
        conversation: &'a str,
        name: &'a str,
        chunk: u64,
        bytes: &'a [u8],
    ) -> JournalFuture<'a, ()> {
        let _ = (conversation, name, chunk, bytes);
        Box::pin(async {
            Err(Error::new(
                ErrorKind::Configuration,
                "this journal keeps no large results: `Journal::keeps_spills` says so",
            ))
        })
    }

    /// Reads a chunk of a large result of this conversation. There is none of a name that is not known in it, and
    /// none behind the last.
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

    /// Deletes a large result of this conversation, as when not all of it could be written. Forks
    /// that have it keep it.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`] if it cannot be deleted.
    fn delete_spill<'a>(&'a self, conversation: &'a str, name: &'a str) -> JournalFuture<'a, ()> {
        let _ = (conversation, name);
        Box::pin(async { Ok(()) })
    }
}

/// A conversation that is held for as long as this lives: see [`Journal::hold`].
pub struct Hold {
    _guard: Box<dyn Any + Send + Sync>,
}

impl Hold {
    /// Lets go of the conversation when `guard` is dropped.
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self { _guard: Box::new(guard) }
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hold")
    }
}

/// Checks the name of a conversation: 1 to 512 bytes of text without control characters.
///
/// # Errors
/// Fails with [`ErrorKind::Configuration`] and says what is wrong with it.
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

/// The error of an [`append`](Journal::append) to a conversation that has another number of facts.
pub fn conflict(conversation: &str, after: u64, there: u64) -> Error {
    let why = match there < after {
        true => "it was deleted meanwhile, or its journal was set back to an earlier state",
        false => "somebody else has gone on with it",
    };
    Error::new(
        ErrorKind::Conflict,
        format!(
            "the conversation `{conversation}` has {there} facts, and these were to follow {after}: \
             {why}. Open it again"
        ),
    )
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
             or deleted when that one lets go of it or ends"
        ),
    )
}

/// The error of a [`fork`](Journal::fork) that wants more facts than there are.
pub fn too_few(conversation: &str, there: u64, wanted: u64) -> Error {
    Error::new(
        ErrorKind::Configuration,
        format!(
            "the conversation `{conversation}` has {there} facts, and {wanted} were to be shared"
        ),
    )
}

impl<J: Journal + ?Sized> Journal for Arc<J> {
    fn system(&self) -> &str {
        (**self).system()
    }

    fn read<'a>(&'a self, conversation: &'a str, from: u64) -> JournalFuture<'a, Vec<Envelope>> {
        (**self).read(conversation, from)
    }

    fn append<'a>(
        &'a self,
        conversation: &'a str,
        after: u64,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, ()> {
        (**self).append(conversation, after, facts)
    }

    fn hold<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, Hold> {
        (**self).hold(conversation)
    }

    fn describe<'a>(
        &'a self,
        conversation: &'a str,
        metadata: &'a Metadata,
    ) -> JournalFuture<'a, ()> {
        (**self).describe(conversation, metadata)
    }

    fn list<'a>(&'a self, listing: &'a Listing) -> JournalFuture<'a, Conversations> {
        (**self).list(listing)
    }

    fn delete<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, bool> {
        (**self).delete(conversation)
    }

    fn fork<'a>(&'a self, from: &'a str, facts: u64, to: &'a str) -> JournalFuture<'a, ()> {
        (**self).fork(from, facts, to)
    }

    fn keeps_spills(&self) -> bool {
        (**self).keeps_spills()
    }

    fn write_spill<'a>(
        &'a self,
        conversation: &'a str,
        name: &'a str,
        chunk: u64,
        bytes: &'a [u8],
    ) -> JournalFuture<'a, ()> {
        (**self).write_spill(conversation, name, chunk, bytes)
    }

    fn read_spill<'a>(
        &'a self,
        conversation: &'a str,
        name: &'a str,
        chunk: u64,
    ) -> JournalFuture<'a, Option<Vec<u8>>> {
        (**self).read_spill(conversation, name, chunk)
    }

    fn delete_spill<'a>(&'a self, conversation: &'a str, name: &'a str) -> JournalFuture<'a, ()> {
        (**self).delete_spill(conversation, name)
    }
}
