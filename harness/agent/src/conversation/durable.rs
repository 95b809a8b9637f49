//! The facts of a conversation in a journal: how many are written, and the pending facts, which are not written
//! yet.

use std::{
    mem,
    sync::{Arc, OnceLock},
};

use crate::Machine;
use harness_core::{
    error::{Error, ErrorKind},
    journal::{
        Decider, Decision, Envelope, Fact, Head, Incarnation, Journal, JournalFuture, Lease,
        Metadata, StoredFacts, WriterId,
    },
    unwind::{Panicked, Shielded, caught},
};

/// The highest number of attempts at an append. A new attempt follows if some facts were written.
const TRIES: u32 = 3;

/// The connection of a conversation to its journal.
pub(crate) struct DurableState {
    /// `None` if another driver takes the facts from `pending`.
    journal: Option<Arc<dyn Journal>>,
    id: Arc<str>,
    /// The writer id in the facts of this chat. Another chat of this process may write equal facts in the same
    /// millisecond: the id distinguishes them.
    life: WriterId,
    /// The head of the conversation in the journal, when this process last wrote or read it.
    head: Head,
    /// The incarnation, which distinguishes this conversation from earlier and later conversations of the same
    /// name. Set when the first fact is written. The stores for large results share this value.
    incarnation: Arc<OnceLock<Incarnation>>,
    /// Facts that are not written yet.
    pending: Vec<Envelope>,
    /// Whether the journal may already have some of the pending facts, because an append failed or its future
    /// was dropped.
    unknown: bool,
    /// Whether [`describe`](Self::describe) may have created the conversation, because that call failed or its
    /// future was dropped.
    may_have_created: bool,
    /// Why no more facts can be written: another owner has continued the conversation.
    lost: Option<String>,
    /// Whether the trace still has to report that another owner has continued the conversation.
    untold: bool,
    /// Whether facts of the current write were found in the journal when the journal was read back.
    read_back: bool,
    /// The lease that keeps other processes from opening the conversation until this value is dropped.
    _hold: Option<Lease>,
}

/// A conversation in its journal.
#[derive(Clone)]
pub(crate) struct InJournal {
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) id: Arc<str>,
    /// The incarnation, which distinguishes the conversation from earlier and later ones of the same name. Set
    /// with the first fact.
    pub(crate) incarnation: Arc<OnceLock<Incarnation>>,
}

/// The result of a write.
pub(crate) enum WriteOutcome {
    /// All pending facts are in the journal.
    All,
    /// Nothing was written, because other writers have answered calls of the conversation. The value holds the
    /// facts of these writers, which come before the pending facts.
    Behind(Vec<Envelope>),
}

impl DurableState {
    pub(crate) fn new(
        journal: Arc<dyn Journal>,
        id: Arc<str>,
        head: Head,
        hold: Option<Lease>,
    ) -> Self {
        let mut durable = Self {
            journal: Some(journal),
            _hold: hold,
            ..Self::collecting(id, WriterId::random())
        };
        durable.set_head(head);
        durable
    }

    /// A state without a journal, which collects facts until another driver takes them.
    pub(crate) fn collecting(id: Arc<str>, life: WriterId) -> Self {
        Self {
            journal: None,
            id,
            life,
            head: Head::default(),
            incarnation: Arc::default(),
            pending: Vec::new(),
            unknown: false,
            may_have_created: false,
            lost: None,
            untold: false,
            read_back: false,
            _hold: None,
        }
    }

    pub(crate) fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// The conversation in its journal. `None` without a journal.
    pub(crate) fn in_journal(&self) -> Option<InJournal> {
        let (journal, id) = (Arc::clone(self.journal.as_ref()?), Arc::clone(&self.id));
        Some(InJournal { journal, id, incarnation: Arc::clone(&self.incarnation) })
    }

    /// The incarnation of the conversation. Empty until the incarnation is known.
    pub(crate) fn incarnation(&self) -> &Arc<OnceLock<Incarnation>> {
        &self.incarnation
    }

    fn set_head(&mut self, head: Head) {
        self.head = head;
        if let Some(incarnation) = head.incarnation {
            let _ = self.incarnation.set(incarnation);
        }
    }

    /// Adds a fact to the facts that have to be written. `elapsed` is the time of the run so far in
    /// milliseconds.
    pub(crate) fn add(&mut self, fact: &Fact, elapsed: u64) -> Result<(), Error> {
        match Envelope::of(fact, elapsed) {
            Ok(mut envelope) => {
                envelope.life = self.life;
                self.pending.push(envelope);
            }
            // Later facts must not be written without this fact, so nothing more is written.
            Err(error) => {
                self.lost = Some(error.to_string());
                return Err(error);
            }
        }
        Ok(())
    }

    /// Whether there are facts to write.
    pub(crate) fn is_behind(&self) -> bool {
        self.journal.is_some() && !self.pending.is_empty()
    }

    /// The number of facts in the journal when this process last wrote or read it.
    pub(crate) fn written(&self) -> u64 {
        self.head.facts
    }

    pub(crate) fn head(&self) -> Head {
        self.head
    }

    /// How many facts there are, written or pending.
    pub(crate) fn count(&self) -> u64 {
        self.head.facts.saturating_add(self.pending.len() as u64)
    }

    /// Reads the facts that other writers have written meanwhile.
    pub(crate) async fn read_external_facts(&mut self) -> Result<Vec<Envelope>, Error> {
        let Some(journal) = self.journal.clone() else { return Ok(Vec::new()) };
        let Some(read) = self.read_on(&*journal).await? else { return Err(self.mark_lost()) };
        Ok(self.remove_written(&read))
    }

    /// Reads the facts after the last fact that this process knows. Returns `None` if the journal does not have
    /// the known facts any more.
    async fn read_on(&self, journal: &dyn Journal) -> Result<Option<StoredFacts>, Error> {
        // Reading begins with the last known fact, to check that the journal still has this fact.
        let from = self.head.facts.saturating_sub(1);
        let mut read = guarded(|| journal.read(&self.id, from)).await?;
        if self.head.incarnation.is_some() && read.head_at(self.head.facts) != Some(self.head) {
            return Ok(None);
        }
        let known = usize::from(self.head.facts > 0).min(read.facts.len());
        drop(read.facts.drain(..known));
        Ok(Some(read))
    }

    /// Adds facts that other writers have written to the known facts. The caller has already applied them.
    pub(crate) fn add_known(&mut self, facts: &[Envelope]) {
        self.set_head(self.head.after(facts));
    }

    /// Writes the pending facts. If the future is dropped, no fact is lost: the next call finds out which facts
    /// were written.
    pub(crate) async fn write(&mut self) -> Result<WriteOutcome, Error> {
        if let Some(why) = &self.lost {
            return Err(Error::new(ErrorKind::Conflict, why.clone()));
        }
        let Some(journal) = self.journal.clone() else { return Ok(WriteOutcome::All) };
        if self.unknown {
            let Some(there) = self.read_on(&*journal).await? else { return Err(self.mark_lost()) };
            self.unknown = false;
            let others = self.remove_written(&there);
            if !others.is_empty() {
                return self.behind(others);
            }
        }
        if self.pending.is_empty() {
            return Ok(WriteOutcome::All);
        }
        // An earlier append may complete during this append, so there may be several attempts. After each
        // attempt, the journal is read to find out which facts were written.
        for _ in 0..TRIES {
            self.unknown = true;
            let append = guarded(|| journal.append(&self.id, self.head, &self.pending)).await;
            let error = match append {
                Ok(head) => {
                    self.unknown = false;
                    self.pending.clear();
                    self.set_head(head);
                    return Ok(WriteOutcome::All);
                }
                Err(error) => error,
            };
            // If a network repeats an append, the journal refuses the repetition. So a conflict does not prove
            // that nothing was written.
            let there = match self.read_on(&*journal).await {
                Ok(Some(there)) => there,
                Ok(None) => return Err(self.mark_lost()),
                // It is not known whether the conflict is with another writer.
                Err(unread) if error.is_conflict() => return Err(unread),
                Err(_) => return Err(error),
            };
            self.unknown = false;
            let before = self.pending.len();
            let others = self.remove_written(&there);
            if !others.is_empty() {
                return self.behind(others);
            }
            if self.pending.is_empty() {
                return Ok(WriteOutcome::All);
            }
            if self.has_created(&there) {
                continue;
            }
            if self.pending.len() == before {
                // Nothing was written, and the journal has no fact that conflicts.
                return Err(if error.is_conflict() { self.mark_lost() } else { error });
            }
        }
        Err(Error::new(
            ErrorKind::Journal,
            "the journal refuses facts that come right after those it has",
        ))
    }

    /// Removes the pending facts that are in the journal. Returns the facts that other writers have written.
    fn remove_written(&mut self, there: &StoredFacts) -> Vec<Envelope> {
        let pairs = self.pending.iter().zip(&there.facts);
        let own = pairs.take_while(|(own, there)| own == there).count();
        self.read_back |= own > 0;
        let written: Vec<Envelope> = self.pending.drain(..own).collect();
        if own > 0 {
            let incarnation = there.head.incarnation;
            self.set_head(Head { incarnation, ..self.head }.after(&written));
        }
        there.facts.iter().skip(own).cloned().collect()
    }

    /// Accepts facts of other writers only if they answer calls that waited. Any other fact means that another
    /// owner has continued the conversation.
    fn behind(&mut self, others: Vec<Envelope>) -> Result<WriteOutcome, Error> {
        for envelope in &others {
            let is_answer = envelope.fact().is_ok_and(|fact| is_answer(&fact));
            if !is_answer {
                return Err(self.mark_lost());
            }
        }
        Ok(WriteOutcome::Behind(others))
    }

    /// Replaces the metadata of the conversation. If the conversation does not exist, the journal creates it.
    pub(crate) async fn describe(&mut self, metadata: &Metadata) -> Result<(), Error> {
        let Some(journal) = self.journal.clone() else { return Ok(()) };
        self.may_have_created |= self.head.incarnation.is_none();
        guarded(|| journal.describe(&self.id, metadata)).await?;
        if !self.may_have_created {
            return Ok(());
        }
        let there = guarded(|| journal.read(&self.id, u64::MAX)).await?;
        if self.has_created(&there) {
            return Ok(());
        }
        Err(self.mark_lost())
    }

    /// Whether [`describe`](Self::describe) may have created the conversation in the journal, which has no
    /// facts yet. If so, this value uses that conversation from now on.
    fn has_created(&mut self, there: &StoredFacts) -> bool {
        let is_own =
            self.may_have_created && there.head.incarnation.is_some() && there.head.facts == 0;
        if is_own {
            self.may_have_created = false;
            self.set_head(there.head);
        }
        is_own
    }

    /// Records that another owner has continued the conversation.
    pub(crate) fn mark_lost(&mut self) -> Error {
        let id = &self.id;
        let why = match self.head.incarnation {
            Some(_) => format!(
                "somebody else has continued the conversation `{id}`, or has deleted it or set it back: what \
                 was said here since then is not kept. Open it again"
            ),
            None => format!(
                "the conversation `{id}` did not exist when it was opened here, and somebody has created it since then: \
                 what was said here is not kept. Open it again. To describe a conversation that is open, use `Chat::describe`; with `Chats`, `ChatRunBuilder::describe`"
            ),
        };
        self.lost = Some(why.clone());
        self.untold = true;
        Error::new(ErrorKind::Conflict, why)
    }

    /// Begins a write: resets [`was_read_back`](Self::was_read_back).
    pub(crate) fn begin_write(&mut self) {
        self.read_back = false;
    }

    /// Whether facts of the last write were found in the journal when the journal was read back.
    pub(crate) fn was_read_back(&self) -> bool {
        self.read_back
    }

    /// Returns why no more facts can be written, if the trace does not have the reason yet. Later calls return
    /// `None`.
    pub(crate) fn take_loss(&mut self) -> Option<String> {
        mem::take(&mut self.untold).then(|| self.lost.clone()).flatten()
    }

    /// Whether no more facts can be written, because another owner has continued the conversation.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    pub(crate) fn pending(&self) -> &[Envelope] {
        &self.pending
    }

    /// Applies the pending facts to `machine`, which has already applied the facts in the journal. A pending
    /// answer to a call is dropped if the journal already has another answer to that call.
    ///
    /// # Errors
    /// Fails, and changes nothing, if the pending facts cannot follow the facts in the journal. For example, a
    /// later pending fact may depend on a dropped answer.
    pub(crate) fn apply_pending(&mut self, mut machine: Machine) -> Result<Machine, Error> {
        let facts = self.pending.iter().map(Envelope::fact).collect::<Result<Vec<_>, _>>()?;
        let says_no_more = facts.iter().all(|fact| is_answer(fact) || is_beside_runs(fact));
        let mut stays = Vec::with_capacity(facts.len());
        for fact in &facts {
            let applied = machine.apply(fact);
            let gives_way = applied.is_err() && says_no_more && is_answer(fact);
            stays.push(!gives_way);
            if !gives_way {
                applied?;
            }
        }
        let mut stays = stays.into_iter();
        self.pending.retain(|_| stays.next() != Some(false));
        Ok(machine)
    }

    /// Takes the pending facts, for another driver.
    pub(crate) fn take_pending(&mut self) -> Vec<Envelope> {
        mem::take(&mut self.pending)
    }

    pub(crate) fn journal(&self) -> Option<&Arc<dyn Journal>> {
        self.journal.as_ref()
    }
}

/// Whether a fact answers a call that waited. Such facts may be written from outside of the run.
pub(crate) fn is_answer(fact: &Fact) -> bool {
    match fact {
        Fact::CallDecided { decision, .. } => {
            let (Decision::Allow { by, .. } | Decision::Deny { by, .. }) = decision;
            matches!(by, Decider::Person { .. } | Decider::Expired)
        }
        Fact::CallAnswered { .. } | Fact::CallSettled { .. } => true,
        _ => false,
    }
}

/// Whether a fact stays valid if a pending answer before it is dropped.
fn is_beside_runs(fact: &Fact) -> bool {
    matches!(
        fact,
        Fact::ContextPinned { .. }
            | Fact::GrantRevoked { .. }
            | Fact::CallUndecided { .. }
            | Fact::Reopened { .. }
    )
}

/// Calls the journal. The journal is code of the program, so a panic in it becomes an error.
pub(crate) async fn guarded<'a, T>(
    call: impl FnOnce() -> JournalFuture<'a, T>,
) -> Result<T, Error> {
    shielded(caught(call)).await
}

/// Awaits the call of a journal. Separate from [`guarded`], so that it is compiled once for each type of result and
/// not for each call.
async fn shielded<T>(call: Result<JournalFuture<'_, T>, Panicked>) -> Result<T, Error> {
    let failed =
        |panicked: Panicked| Error::new(ErrorKind::Journal, format!("the journal {panicked}"));
    Shielded::new(call.map_err(failed)?).await.map_err(failed)?
}
