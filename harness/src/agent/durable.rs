//! The facts of a conversation that a journal keeps: those that are written, and those that wait for
//! the next moment at which they must be.

use std::{mem, sync::Arc};

use crate::{
    error::{Error, ErrorKind},
    journal::{Decider, Decision, Entry, Envelope, Hold, Journal, Life},
    unwind::{Shielded, caught},
};

/// How often an append is tried again of which a part was written meanwhile.
const TRIES: u32 = 3;

/// How a conversation stands in its journal.
pub(super) struct Durable {
    /// There is none where another driver takes the facts.
    journal: Option<Arc<dyn Journal>>,
    id: Arc<str>,
    /// The facts of this chat carry it, so that they are not taken for those of another chat of this
    /// process that writes the same in the same millisecond.
    life: Life,
    /// How many facts the journal has, as far as is known here.
    written: u64,
    /// Facts that are not written yet.
    pending: Vec<Envelope>,
    /// Whether some of them were on their way when nobody waited for the answer any more, or when it
    /// was an error: they may be written or not.
    unknown: bool,
    /// Why nothing can be written any more: somebody else has gone on with the conversation.
    lost: Option<String>,
    /// Whether nobody was told of that yet.
    untold: bool,
    /// Whether facts of the write that goes on were found in the journal when it was read back.
    read_back: bool,
    /// Nobody else opens it meanwhile.
    _hold: Option<Hold>,
}

/// What became of a write.
pub(super) enum Written {
    /// All that waited is in the journal.
    All,
    /// Somebody else has answered questions of the conversation meanwhile. Nothing was written, and
    /// these facts come first.
    Behind(Vec<Envelope>),
}

impl Durable {
    pub(super) fn new(
        journal: Arc<dyn Journal>,
        id: Arc<str>,
        written: u64,
        hold: Option<Hold>,
    ) -> Self {
        Self {
            journal: Some(journal),
            written,
            _hold: hold,
            ..Self::collecting(id, Life::random())
        }
    }

    /// Collects the facts for another driver, which takes them.
    pub(super) fn collecting(id: Arc<str>, life: Life) -> Self {
        Self {
            journal: None,
            id,
            life,
            written: 0,
            pending: Vec::new(),
            unknown: false,
            lost: None,
            untold: false,
            read_back: false,
            _hold: None,
        }
    }

    pub(super) fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// A fact waits to be written.
    pub(super) fn add(&mut self, entry: &Entry, elapsed: u64) -> Result<(), Error> {
        match Envelope::of(entry, elapsed) {
            Ok(envelope) => self.pending.push(Envelope { life: self.life, ..envelope }),
            // What comes after it must not be written without it.
            Err(error) => {
                self.lost = Some(error.to_string());
                return Err(error);
            }
        }
        Ok(())
    }

    /// Whether there is something to write.
    pub(super) fn is_behind(&self) -> bool {
        self.journal.is_some() && !self.pending.is_empty()
    }

    /// How many facts are written, as far as is known here.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// How many facts there are, written or not.
    pub(super) fn count(&self) -> u64 {
        self.written.saturating_add(self.pending.len() as u64)
    }

    /// Facts that others have written meanwhile.
    pub(super) async fn news(&mut self) -> Result<Vec<Envelope>, Error> {
        let Some(journal) = &self.journal else { return Ok(Vec::new()) };
        let read = guarded(|| journal.read(&self.id, self.written)).await?;
        Ok(self.own_first(read))
    }

    /// Others have written these facts, and the conversation knows them now.
    pub(super) fn knows(&mut self, facts: usize) {
        self.written = self.written.saturating_add(facts as u64);
    }

    /// Writes what waits. Dropping the future loses nothing: what became of it is found out by the
    /// next call.
    pub(super) async fn write(&mut self) -> Result<Written, Error> {
        if let Some(why) = &self.lost {
            return Err(Error::new(ErrorKind::Conflict, why.clone()));
        }
        let Some(journal) = self.journal.clone() else { return Ok(Written::All) };
        if self.unknown {
            let there = guarded(|| journal.read(&self.id, self.written)).await?;
            self.unknown = false;
            let others = self.own_first(there);
            if !others.is_empty() {
                return self.behind(others);
            }
        }
        if self.pending.is_empty() {
            return Ok(Written::All);
        }
        // An append that was on its way may come through while the next one is, so it is tried more
        // than once; what was written is found out each time.
        for _ in 0..TRIES {
            self.unknown = true;
            let append = guarded(|| journal.append(&self.id, self.written, &self.pending));
            let Err(error) = append.await else {
                self.unknown = false;
                self.wrote(self.pending.len());
                return Ok(Written::All);
            };
            // An append that is repeated on its way is refused the second time, so a refusal does
            // not say that nothing was written.
            let there = match guarded(|| journal.read(&self.id, self.written)).await {
                Ok(there) => there,
                // Whether somebody else has written is not known.
                Err(unread) if error.is_conflict() => return Err(unread),
                Err(_) => return Err(error),
            };
            self.unknown = false;
            let before = self.pending.len();
            let others = self.own_first(there);
            if !others.is_empty() {
                return self.behind(others);
            }
            if self.pending.is_empty() {
                return Ok(Written::All);
            }
            if self.pending.len() == before {
                // There are fewer facts than there were: the conversation was deleted.
                return Err(if error.is_conflict() { self.lose() } else { error });
            }
        }
        Err(Error::new(ErrorKind::Journal, "the journal refuses facts that follow what it has"))
    }

    /// Takes off what waits here and was written after all; what is left was written by others.
    fn own_first(&mut self, there: Vec<Envelope>) -> Vec<Envelope> {
        let own = self.pending.iter().zip(&there).take_while(|(own, there)| own == there).count();
        self.read_back |= own > 0;
        self.wrote(own);
        there.into_iter().skip(own).collect()
    }

    fn wrote(&mut self, facts: usize) {
        drop(self.pending.drain(..facts));
        self.written = self.written.saturating_add(facts as u64);
    }

    /// What others have written may be answers that were waited for, and nothing else.
    fn behind(&mut self, others: Vec<Envelope>) -> Result<Written, Error> {
        for envelope in &others {
            let is_answer = envelope.entry().is_ok_and(|entry| is_answer(&entry));
            if !is_answer {
                return Err(self.lose());
            }
        }
        Ok(Written::Behind(others))
    }

    /// Somebody else has gone on with the conversation.
    pub(super) fn lose(&mut self) -> Error {
        let why = format!(
            "somebody else has gone on with the conversation `{}`: what was said here since then is \
             not kept. Open it again",
            self.id
        );
        self.lost = Some(why.clone());
        self.untold = true;
        Error::new(ErrorKind::Conflict, why)
    }

    /// A write begins.
    pub(super) fn begins(&mut self) {
        self.read_back = false;
    }

    /// Whether facts of the last write were found in the journal when it was read back.
    pub(super) fn was_read_back(&self) -> bool {
        self.read_back
    }

    /// Why the conversation was lost to somebody else, once.
    pub(super) fn loss(&mut self) -> Option<String> {
        mem::take(&mut self.untold).then(|| self.lost.clone()).flatten()
    }

    /// Whether nothing can be written any more.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// The facts that wait.
    pub(super) fn pending(&self) -> &[Envelope] {
        &self.pending
    }

    /// Takes the facts that wait, for another driver.
    pub(super) fn take_pending(&mut self) -> Vec<Envelope> {
        mem::take(&mut self.pending)
    }

    pub(super) fn journal(&self) -> Option<&Arc<dyn Journal>> {
        self.journal.as_ref()
    }
}

/// Whether a fact answers what a call waited for: such facts are written from outside of the run.
pub(super) fn is_answer(entry: &Entry) -> bool {
    match entry {
        Entry::CallDecided { decision, .. } => {
            let (Decision::Allow { by, .. } | Decision::Deny { by, .. }) = decision;
            matches!(by, Decider::Person { .. } | Decider::Expired)
        }
        Entry::CallAnswered { .. } | Entry::CallSettled { .. } => true,
        _ => false,
    }
}

/// A journal is the program's own code: a panic in it is a failure.
pub(super) async fn guarded<'a, T>(
    call: impl FnOnce() -> crate::journal::JournalFuture<'a, T>,
) -> Result<T, Error> {
    let failed = |panicked| Error::new(ErrorKind::Journal, format!("the journal {panicked}"));
    let future = caught(call).map_err(failed)?;
    Shielded::new(future).await.map_err(failed)?
}
