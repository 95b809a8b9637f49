//! A conversation in a journal: opening it, writing it, and answering its calls between runs.

use std::sync::Arc;

use super::{
    durable::{DurableState, WriteOutcome, guarded},
    observed::{append_failed, appending, held, holding, trace_answer},
    spilling::LargeResultStore,
};
use crate::{
    Action, Agent, Chat, Machine, OpenCall, Settlement,
    approval::{CallResolution, open_calls},
    machine::folding::{fold_facts, for_each_fact},
    subagent::agents_below::check_parents,
};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{
        Awaited, Envelope, Fact, Head, Journal, Metadata, StoredFacts, SummaryRequest, WriterId,
        check_id, conflict, too_few,
    },
    message::Transcript,
    policy::Approval,
    trace::{AppendOutcome, Tracer},
    unwind::caught,
};

impl Agent {
    /// Opens a conversation of a journal, or begins it. From now on, what happens is written into
    /// the journal: before a call starts that changes something, before the model is asked, and
    /// before the run returns.
    ///
    /// If a run was going on when its process ended, [`Chat::resume`] continues in the middle of
    /// it; a new message of the user ends it first. See [`journal`](harness_core::journal).
    ///
    /// ```
    /// use harness::{Agent, journal::MemoryJournal, testing::{ScriptedProvider, reply}};
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let model = ScriptedProvider::new([reply().text("Noted."), reply().text("It is 42.")]);
    /// let agent = Agent::builder(model).build()?;
    /// let journal = MemoryJournal::new();
    /// let mut chat = agent.open(&journal, "chat-17").await?;
    /// chat.send("My favourite number is 42.").await?;
    /// drop(chat);
    ///
    /// let mut chat = agent.open(&journal, "chat-17").await?;
    /// assert_eq!(chat.send("What is it?").await?.text(), "It is 42.");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Busy`] if the conversation is open here or in another process that
    /// is alive, with [`ErrorKind::Journal`] if it cannot be read, for example because a later
    /// version of the library has written it, and with [`ErrorKind::Configuration`] if the name is
    /// not valid. Nothing is changed then.
    pub async fn open<J>(&self, journal: &J, conversation: impl AsRef<str>) -> Result<Chat, Error>
    where
        J: Journal + Clone + 'static,
    {
        self.open_in(Arc::new(journal.clone()), conversation.as_ref()).await
    }

    /// Opens a conversation of a shared journal.
    pub(crate) async fn open_in(
        &self,
        journal: Arc<dyn Journal>,
        conversation: &str,
    ) -> Result<Chat, Error> {
        check_id(conversation)?;
        let id: Arc<str> = conversation.into();
        let mut tracer = Tracer::new(self.trace());
        tracer.begin_operation(|| holding(&*journal, &id));
        let hold = guarded(|| journal.hold(&id)).await;
        held(&mut tracer, &hold);
        let hold = hold?;
        let StoredFacts { head, facts, .. } = guarded(|| journal.read(&id, 0)).await?;
        let read = Chat::read_in_parts(self.within(&*journal), &facts).await;
        let (mut chat, has_waited) = read?;
        chat.count_agents(&journal, &id).await?;
        chat.count_for_agent();
        chat.tracer = tracer;
        chat.durable = Some(DurableState::new(journal, id, head, Some(hold)));
        chat.tracer.add_open_calls(chat.machine.open_calls());
        chat.trace_answers(&facts);
        chat.calls_from_previous_process =
            chat.machine.open_calls().map(|call| call.id().to_owned()).collect();
        let doubtful = chat.doubtful();
        let is_cut_off = is_run_unfinished(&chat.machine) && !has_waited;
        let lost = chat.machine.compacting().map(lost_compaction);
        chat.has_waited = chat.machine.is_going() && !is_cut_off;
        let reopened = (is_cut_off || !doubtful.is_empty()).then_some(Fact::Reopened { doubtful });
        for fact in lost.into_iter().chain(reopened) {
            chat.record(&fact)?;
            chat.only_looked_at = true;
        }
        Ok(chat)
    }

    /// Begins a conversation of a journal with the given transcript. Each call in it that has no
    /// result gets the outcome *in doubt*, since nothing records how it ended.
    ///
    /// # Errors
    /// Fails as [`open`](Self::open) does, with [`ErrorKind::Conflict`] if the conversation has
    /// begun, and as [`Chat::save`] does if the transcript cannot be written.
    pub async fn import<J>(
        &self,
        journal: &J,
        conversation: impl AsRef<str>,
        mut transcript: Transcript,
    ) -> Result<Chat, Error>
    where
        J: Journal + Clone + 'static,
    {
        let mut chat = self.open(journal, conversation.as_ref()).await?;
        if !chat.machine.is_untouched() {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "the conversation `{}` has begun: import into a new one",
                    conversation.as_ref()
                ),
            ));
        }
        transcript.settle();
        chat.record(&Fact::Given { transcript })?;
        chat.save().await?;
        Ok(chat)
    }

    /// Answers calls that wait, in any conversation of a journal, even if another process has it
    /// open.
    pub fn inbox<J: Journal + Clone + 'static>(&self, journal: &J) -> Inbox {
        Inbox { agent: self.clone(), journal: Arc::new(journal.clone()) }
    }
}

impl Chat {
    /// The name of the conversation in its journal.
    pub fn conversation(&self) -> Option<&str> {
        self.durable.as_ref().map(|durable| &**durable.id())
    }

    /// Whether [`resume`](Self::resume) has something to continue: a run was going on when its
    /// process ended, calls wait, or the last run ended without an answer. If not, the conversation
    /// is new or the model has answered.
    pub fn can_resume(&self) -> bool {
        self.machine.is_going() || self.machine.resumption().is_ok()
    }

    /// The calls that wait for a decision, a result or an answer, in order. When each has one,
    /// [`resume`](Self::resume) continues the run. If the user says something instead, calls that
    /// wait for a decision do not run, and those that wait for a result or an answer are in doubt.
    pub fn waiting(&self) -> Vec<OpenCall> {
        waiting(&self.machine, self.conversation())
    }

    /// Passes the waiting calls to the program's hook, after it is written that they wait.
    pub(crate) fn tell_waiting(&self) {
        let told = self.waiting_hook().zip(self.conversation());
        let Some((hook, conversation)) = told else { return };
        let nobody_has_to = |open: &OpenCall| {
            let wait = open.wait.as_ref();
            wait.is_some_and(|it| matches!(it.awaited, Awaited::Agent { cut_off: true, .. }))
        };
        for open in self.waiting().into_iter().filter(|open| !nobody_has_to(open)) {
            let _ = caught(|| hook(conversation, &open));
        }
    }

    /// The calls whose outcome is not known, in order: the process that ran them has ended, and
    /// they may not run again. If you can find out what became of one, record it by
    /// [`settle`](Self::settle). With [`resume`](Self::resume), a tool that can find it out
    /// ([`reconcile`](macro@harness_core::tool)) is asked. The model is told that the others are in doubt.
    pub fn in_doubt(&self) -> Vec<OpenCall> {
        in_doubt(&self.machine, self.conversation())
    }

    /// Records a decision about a call that waits for one. The decision is written when this
    /// returns. [`resume`](Self::resume) continues the run.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::NotWaiting`], and changes nothing, if no call waits for this
    /// approval or it comes too late. Fails with [`ErrorKind::Journal`] if the journal cannot be
    /// read, and changes nothing, or if the decision cannot be written: then the call is not among those that
    /// [wait](Self::waiting), and the next run tries again, unless an [`Inbox`] has answered the call meanwhile: that answer
    /// counts then. Fails with [`ErrorKind::Conflict`] if another owner
    /// has continued the conversation.
    pub async fn decide(&mut self, approval: Approval) -> Result<(), Error> {
        self.catch_up_before_change().await?;
        self.resolve_call(&CallResolution::Decide(approval)).await
    }

    /// Records the outcome of a call that waits for a result or an answer, or that is in doubt. It
    /// is written when this returns. [`resume`](Self::resume) continues the run.
    ///
    /// # Errors
    /// Fails as [`decide`](Self::decide) does. Also fails with [`ErrorKind::Transcript`] if the
    /// answer to a tool's question is nested too deep.
    pub async fn settle(&mut self, settlement: Settlement) -> Result<(), Error> {
        self.catch_up_before_change().await?;
        self.resolve_call(&CallResolution::Settle(settlement)).await
    }

    /// Begins another conversation of the same journal with the first `facts` facts of this one.
    /// Results are kept, and no call runs again. In the new conversation, a call that was open at
    /// that fact counts as not started, or as in doubt if it had started. An *always* that was withdrawn later is
    /// withdrawn in the new conversation, too. The owner, title and tags
    /// of this conversation are not copied: [describe](harness_core::journal::Journal::describe) the new
    /// one.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Configuration`] if this conversation is not in a journal or has
    /// fewer facts, or if the name is not valid; with [`ErrorKind::Conflict`] if the other
    /// conversation has begun; with [`ErrorKind::Busy`] if it is open elsewhere; and with
    /// [`ErrorKind::Journal`] if the journal fails or a fact cannot be read.
    pub async fn fork(&mut self, conversation: impl AsRef<str>, facts: u64) -> Result<Self, Error> {
        self.save().await?;
        let count = self.facts();
        let durable = self.durable.as_ref().and_then(|it| Some((it, it.journal()?)));
        let Some((durable, journal)) = durable else {
            return Err(Error::new(
                ErrorKind::Configuration,
                "the conversation is in no journal: open it with `agent.open(&journal, ..)`, or go on \
                 from its transcript with `agent.chat_from(..)`",
            ));
        };
        let (journal, id) = (Arc::clone(journal), conversation.as_ref());
        check_id(id)?;
        // The fact that this conversation was opened in the middle of a run is not written yet.
        let facts = match self.only_looked_at && facts == count {
            true => durable.written(),
            false => facts,
        };
        let (shared, rest) = match facts == durable.written() && !self.machine.is_calling() {
            true => (durable.head(), parting(&self.machine, self.elapsed())?),
            false => split_fork((durable.id(), durable.head()), facts, &journal).await?,
        };
        let forked = match guarded(|| journal.fork(durable.id(), shared, id)).await {
            Ok(forked) => forked,
            Err(error) => after_failed_fork(shared, id, &journal, error).await?,
        };
        let from = durable.id().to_string();
        if !rest.is_empty() {
            self.tracer.begin_operation(|| appending(&*journal, id, &rest));
            let appended = guarded(|| journal.append(id, forked, &rest)).await;
            let mut appended = appended.map(drop);
            let mut outcome = AppendOutcome::Written;
            if appended.is_err() {
                // The way to the journal may have repeated it, or have lost the answer to it.
                let there = guarded(|| journal.read(id, shared.facts)).await;
                if there.is_ok_and(|there| there.facts == rest) {
                    (appended, outcome) = (Ok(()), AppendOutcome::ReadBack);
                }
            }
            match &appended {
                Ok(()) => self.tracer.appended(outcome, None),
                Err(error) => append_failed(&mut self.tracer, error),
            }
            appended?;
        }
        let mut fork = self.agent.open(&journal, id).await?;
        fork.tracer.forked(&from, facts);
        Ok(fork)
    }

    /// Replaces what the program has stored about the conversation: its owner, title and tags. It
    /// does what [`Journal::describe`] does, also in a conversation that does not exist yet: the
    /// journal then creates it, and only this method tells the chat which one it is. Its first
    /// message is refused if somebody else has created it.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Configuration`] if the conversation is not in a journal, and as
    /// [`save`](Self::save) does.
    pub async fn describe(&mut self, metadata: &Metadata) -> Result<(), Error> {
        self.save().await?;
        let Some(durable) = self.durable.as_mut().filter(|it| it.journal().is_some()) else {
            return Err(Error::new(
                ErrorKind::Configuration,
                "the conversation is in no journal that could describe it: open it with `agent.open(&journal, ..)`",
            ));
        };
        let described = durable.describe(metadata).await;
        self.trace_loss();
        described
    }

    /// How many facts the conversation has, including those that are not written yet: the number
    /// that [`fork`](Self::fork) takes.
    pub fn facts(&self) -> u64 {
        self.durable.as_ref().map_or(0, DurableState::count)
    }

    /// How many of its facts are written, as far as is known here.
    pub(crate) fn written(&self) -> u64 {
        self.durable.as_ref().map_or(0, DurableState::written)
    }

    /// Writes all facts that are not written yet, and reads what others have answered meanwhile.
    pub(crate) async fn catch_up(&mut self) -> Result<(), Error> {
        self.write_down().await?;
        self.take_external_answers().await
    }

    /// The same for a change that may be refused. If the conversation was only opened so far, that
    /// fact is written with the change.
    pub(crate) async fn catch_up_before_change(&mut self) -> Result<(), Error> {
        self.save().await?;
        self.take_external_answers().await
    }

    /// Writes all facts into the journal that are not there yet. The end of a run is written before
    /// the run returns, so this is useful after the future of a run was dropped; otherwise its
    /// facts are written with the next run. If the conversation was only opened, in the middle of a
    /// run, nothing is written yet.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`] if the facts cannot be written, and with
    /// [`ErrorKind::Conflict`] if another owner has continued the conversation.
    pub async fn save(&mut self) -> Result<(), Error> {
        match self.only_looked_at {
            true => Ok(()),
            false => self.write_down().await,
        }
    }

    pub(crate) async fn write_down(&mut self) -> Result<(), Error> {
        if !self.is_behind() {
            return Ok(());
        }
        self.note_append();
        let written = self.write_all().await.map(|()| true);
        self.append_ended(written.as_ref().copied());
        written.map(|_| ())
    }

    async fn write_all(&mut self) -> Result<(), Error> {
        loop {
            let Some(durable) = self.durable.as_mut().filter(|durable| durable.is_behind()) else {
                return Ok(());
            };
            match durable.write().await? {
                WriteOutcome::All => return Ok(()),
                WriteOutcome::Behind(facts) => self.apply_external(facts).await?,
            }
        }
    }

    /// Whether some facts are not written yet.
    pub(crate) fn is_behind(&self) -> bool {
        self.durable.as_ref().is_some_and(DurableState::is_behind)
    }

    /// Whether another owner has continued the conversation, so that nothing can be written here.
    pub(crate) fn is_lost(&self) -> bool {
        self.durable.as_ref().is_some_and(DurableState::is_lost)
    }

    /// A question of a call that had run in several processes may be answered here, where its tool
    /// no longer repeats. Such a call is in doubt, and its outcome has to be found out.
    pub(crate) fn doubt_answered(&mut self) -> Result<(), Error> {
        let doubtful = self.doubtful();
        match doubtful.is_empty() {
            true => Ok(()),
            false => self.record(&Fact::Reopened { doubtful }),
        }
    }
}

/// Splits the facts of a fork: how many it shares with the original, and those that are appended to
/// them at once. With only the shared facts, the fork has no open call. So if its process ends
/// between the two steps, the fork runs no call that belongs to the original.
async fn split_fork(
    (conversation, known): (&str, Head),
    facts: u64,
    journal: &Arc<dyn Journal>,
) -> Result<(Head, Vec<Envelope>), Error> {
    let read = guarded(|| journal.read(conversation, 0)).await?;
    if known.incarnation.is_some() && read.head_at(known.facts) != Some(known) {
        return Err(conflict(conversation, known, read.head));
    }
    if read.head.facts < facts {
        return Err(too_few(conversation, read.head.facts, facts));
    }
    let wanted = usize::try_from(facts).unwrap_or(usize::MAX);
    let (mut machine, mut shared) = (Machine::new(), 0);
    let apply = |(number, envelope): (u64, &Envelope)| {
        machine.apply(&envelope.fact()?)?;
        if !machine.is_calling() {
            shared = number;
        }
        Ok(())
    };
    for_each_fact((1..).zip(&read.facts).take(wanted), apply).await?;
    // What a person has withdrawn since then stays withdrawn.
    let mut revoked = Vec::new();
    let later = read.facts.iter().skip(wanted);
    let keep = |envelope: &Envelope| {
        let fact = envelope.fact()?;
        if let Fact::GrantRevoked { .. } = fact {
            revoked.push(fact);
        }
        Ok(())
    };
    for_each_fact(later, keep).await?;
    let base = read.head_at(shared).unwrap_or_default();
    let mut rest = read.facts;
    rest.truncate(wanted);
    let elapsed = rest.last().map_or(0, |last| last.elapsed);
    drop(rest.drain(..usize::try_from(shared).unwrap_or(usize::MAX)));
    rest.extend(parting(&machine, elapsed)?);
    for fact in revoked {
        rest.push(Envelope::of(&fact, elapsed)?);
    }
    Ok((base, rest))
}

/// The facts by which a fork leaves the original.
fn parting(machine: &Machine, elapsed: u64) -> Result<Vec<Envelope>, Error> {
    let reopened = is_run_unfinished(machine).then(|| Fact::Reopened { doubtful: Vec::new() });
    let facts = reopened.into_iter().chain([Fact::Forked {}]);
    facts.map(|fact| Envelope::of(&fact, elapsed)).collect()
}

/// What has become of a fork that has failed. The way to the journal may have repeated it or have lost the answer: then the
/// new conversation has the shared facts and no other. A fork that somebody else has completed has more.
async fn after_failed_fork(
    at: Head,
    id: &str,
    journal: &Arc<dyn Journal>,
    error: Error,
) -> Result<Head, Error> {
    let Ok(there) = guarded(|| journal.read(id, at.facts)).await.map(|read| read.head) else {
        return Err(error);
    };
    let is_there = there.incarnation.is_some() && there.incarnation != at.incarnation;
    if is_there && (there.facts, there.writer) == (at.facts, at.writer) {
        return Ok(there);
    }
    match error.is_conflict() && there.facts > 0 {
        true => Err(Error::new(
            ErrorKind::Conflict,
            format!("the conversation `{id}` has begun: fork into a new one"),
        )),
        false => Err(error),
    }
}

/// The fact that a request for a summary has ended with its process.
fn lost_compaction((provider, model): (&str, &str)) -> Fact {
    let mut request = SummaryRequest::default();
    (request.provider, request.model) = (provider.to_owned(), model.to_owned());
    request.broke_off = true;
    let cause = "the process ended before the summary had come".to_owned();
    let (request, stopped, vendor, too_large) = (Box::new(request), true, false, None);
    Fact::CompactionFailed { request, cause, stopped, vendor, too_large }
}

/// Whether a run was going on when its process ended. A run whose calls wait for somebody outside
/// of it was not.
fn is_run_unfinished(machine: &Machine) -> bool {
    machine.is_going() && machine.next() != Action::AwaitAnswers
}

pub(crate) fn waiting(machine: &Machine, conversation: Option<&str>) -> Vec<OpenCall> {
    let waiting = machine.waiting().map(|(call, wait)| (call, Some(wait)));
    open_calls(machine, conversation, waiting)
}

pub(crate) fn in_doubt(machine: &Machine, conversation: Option<&str>) -> Vec<OpenCall> {
    open_calls(machine, conversation, machine.in_doubt().map(|call| (call, None)))
}

/// Answers waiting calls in the conversations of a journal, from any process, even if a
/// conversation is open elsewhere. Made by [`Agent::inbox`].
///
/// It does not hold a conversation: an answer is one fact, which is appended if the call still
/// waits for it. The process that has the conversation open reads it with the next run.
#[derive(Clone)]
pub struct Inbox {
    agent: Agent,
    journal: Arc<dyn Journal>,
}

/// How often an answer is tried again if others have written first.
const ANSWERS: u32 = 16;

impl Inbox {
    /// The waiting calls of a conversation, in order, including those whose deadline has passed.
    /// Calls in doubt are listed only by [`Chat::in_doubt`]. In the conversation of an [agent in a
    /// call](Agent::as_tool), no call waits any more once that call has its result or was stopped:
    /// the agent does not continue.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`] if the conversation cannot be read, and with
    /// [`ErrorKind::Configuration`] if the name is not valid.
    pub async fn waiting(&self, conversation: &str) -> Result<Vec<OpenCall>, Error> {
        let machine = self.look(conversation).await?;
        let waiting = waiting(&machine, Some(conversation));
        if waiting.is_empty() {
            return Ok(waiting);
        }
        match check_parents(&*self.journal, conversation, &machine).await {
            Ok(()) => Ok(waiting),
            Err(error) if error.kind() == ErrorKind::NotWaiting => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// The state of a conversation, read from its facts: what was said, what its last run has used,
    /// which calls wait, and whether a run is [going on](Machine::is_going). The conversation is
    /// not opened and nothing is changed, so a process that is alive may have it open. To learn
    /// whether one does, use [`Agent::open`], which then fails with [`ErrorKind::Busy`]. A call
    /// that had started when its process ended is in doubt only after the conversation is opened.
    ///
    /// ```
    /// use harness::{
    ///     Agent,
    ///     journal::{Journal, ConversationQuery, MemoryJournal},
    ///     testing::{ScriptedProvider, reply},
    /// };
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let journal = MemoryJournal::new();
    /// let agent = Agent::builder(ScriptedProvider::new([reply().text("Noted.")])).build()?;
    /// agent.open(&journal, "chat-17").await?.send("My favourite number is 42.").await?;
    ///
    /// // When a service starts: which runs were going on when the one before it ended?
    /// let inbox = agent.inbox(&journal);
    /// for info in journal.list(&ConversationQuery::new()).await?.conversations {
    ///     let stands = inbox.look(&info.id).await?;
    ///     assert_eq!(stands.transcript().messages().len(), 2);
    ///     if stands.is_going() && stands.waiting().next().is_none() {
    ///         agent.open(&journal, &info.id).await?.resume().await?;
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`] if the conversation cannot be read, and with
    /// [`ErrorKind::Configuration`] if the name is not valid.
    pub async fn look(&self, conversation: &str) -> Result<Machine, Error> {
        check_id(conversation)?;
        let facts = guarded(|| self.journal.read(conversation, 0)).await?.facts;
        fold_facts(&facts).await
    }

    /// Records a decision about a call that waits for one. The decision is written when this
    /// returns.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::NotWaiting`], and changes nothing, if no call of the conversation
    /// waits for this approval or it comes too late; with [`ErrorKind::Conflict`] if others have
    /// always written first; with [`ErrorKind::Configuration`] if the name is not valid; and with
    /// [`ErrorKind::Journal`] if the journal fails, after which it is not known whether the
    /// decision was written.
    pub async fn decide(&self, conversation: &str, approval: Approval) -> Result<(), Error> {
        self.resolve_call(conversation, &CallResolution::Decide(approval)).await
    }

    /// Records the outcome of a call that waits for a result or an answer. It is written when this
    /// returns.
    ///
    /// # Errors
    /// Fails as [`decide`](Self::decide) does. Also fails with [`ErrorKind::Transcript`] if the
    /// answer is nested too deep.
    pub async fn settle(&self, conversation: &str, settlement: Settlement) -> Result<(), Error> {
        self.resolve_call(conversation, &CallResolution::Settle(settlement)).await
    }

    async fn resolve_call(
        &self,
        conversation: &str,
        resolution: &CallResolution,
    ) -> Result<(), Error> {
        check_id(conversation)?;
        // Another answer of this process may have the same content at the same time.
        let life = WriterId::random();
        let mut sent: Vec<Envelope> = Vec::new();
        let mut tracer = Tracer::new(self.agent.trace());
        let (mut refused, mut made, mut read) = (None, None, None);
        for _ in 0..ANSWERS {
            let facts = guarded(|| self.journal.read(conversation, 0)).await;
            let facts = facts.inspect_err(|error| append_failed(&mut tracer, error))?;
            let StoredFacts { head, facts, .. } = facts;
            // Another conversation of this name may have a call with the same id.
            if *read.get_or_insert(head.incarnation) != head.incarnation {
                let known = Head { incarnation: read.flatten(), ..Head::default() };
                return Err(conflict(conversation, known, head));
            }
            // An earlier append was written after all.
            if let Some(at) = facts.iter().position(|fact| sent.contains(fact)) {
                tracer.appended(AppendOutcome::ReadBack, None);
                let (before, written) = facts.split_at(at);
                let written = written.first().and_then(|written| written.fact().ok());
                if let (Ok(machine), Some(written)) = (fold_facts(before).await, written) {
                    trace_answer(&mut tracer, &machine, before, &written);
                }
                return Ok(());
            }
            if let Some(error) = refused.take() {
                append_failed(&mut tracer, &error);
            }
            let machine = fold_facts(&facts).await?;
            let Self { agent, journal, .. } = self;
            let resolved = resolution.resolve_waiting(&machine, agent.tools())?;
            let is_result = resolved.is_result();
            check_parents(&**journal, conversation, &machine).await?;
            // A large result is kept once.
            let fact = match made.take() {
                Some(made) => made,
                None => {
                    let spilling = LargeResultStore::of_unopened(
                        agent,
                        journal,
                        (conversation, head),
                        &machine,
                    );
                    let fact = resolved.into_fact(&machine, agent.tools(), &spilling).await;
                    if is_result {
                        // Time has passed while a large result was kept.
                        resolution.resolve_waiting(&machine, agent.tools())?;
                        check_parents(&**journal, conversation, &machine).await?;
                    }
                    fact
                }
            };
            let elapsed = facts.last().map_or(0, |last| last.elapsed);
            let mut envelope = [Envelope::of(&fact, elapsed)?];
            envelope[0].life = life;
            sent.extend_from_slice(&envelope);
            tracer.begin_operation(|| appending(&*self.journal, conversation, &envelope));
            match guarded(|| self.journal.append(conversation, head, &envelope)).await {
                Ok(_) => {
                    tracer.appended(AppendOutcome::Written, None);
                    trace_answer(&mut tracer, &machine, &facts, &fact);
                    return Ok(());
                }
                // If a network repeats an append, the second one is refused.
                Err(error) if error.is_conflict() => {
                    (refused, made) = (Some(error), Some(fact).filter(|_| is_result));
                }
                Err(error) => {
                    append_failed(&mut tracer, &error);
                    return Err(error);
                }
            }
        }
        if let Some(error) = refused {
            append_failed(&mut tracer, &error);
        }
        Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "the answer was not written: others wrote into the conversation `{conversation}` before \
                 each of {ANSWERS} attempts. Try again"
            ),
        ))
    }
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").finish_non_exhaustive()
    }
}
