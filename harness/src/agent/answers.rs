//! A conversation in a journal: read, written, answered from outside of a run.

use std::sync::Arc;

use super::{
    Action, Agent, Chat, Machine, OpenCall, Settlement,
    caller::is_heard,
    calling::idempotency_key,
    durable::{Durable, Written, guarded, is_answer},
    observed::{append_failed, appending, held, holding, tell_answer},
    open_call::{decided, expired, is_over, settled, waits},
};
use crate::{
    error::{Error, ErrorKind},
    journal::{Awaited, Entry, Envelope, Journal, Life, Wait, check_id, too_few},
    message::{ToolCall, Transcript},
    policy::Approval,
    trace::{AppendOutcome, Tracer},
    unwind::caught,
};

impl Agent {
    /// Opens a conversation of a journal, or begins it. What is said from now on is written into the
    /// journal: before a call starts that changes something, before the model is asked, and before the
    /// run returns.
    ///
    /// If a run was going on when its process ended, [`Chat::resume`] goes on in the middle of it; a
    /// new message of the user ends it first. See [`journal`](crate::journal).
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
    /// lives, and with [`ErrorKind::Journal`] if it cannot be read, as when a later version of the
    /// library has written it. Nothing is changed then.
    pub async fn open<J>(&self, journal: &J, conversation: impl AsRef<str>) -> Result<Chat, Error>
    where
        J: Journal + Clone + 'static,
    {
        self.open_in(Arc::new(journal.clone()), conversation.as_ref()).await
    }

    /// Opens a conversation of a journal that is shared.
    pub(super) async fn open_in(
        &self,
        journal: Arc<dyn Journal>,
        conversation: &str,
    ) -> Result<Chat, Error> {
        check_id(conversation)?;
        let id: Arc<str> = conversation.into();
        let mut tracer = Tracer::new(self.trace());
        tracer.asks(|| holding(&*journal, &id));
        let hold = guarded(|| journal.hold(&id)).await;
        held(&mut tracer, &hold);
        let hold = hold?;
        let facts = guarded(|| journal.read(&id, 0)).await?;
        let mut chat = Chat::read_apart(self.within(&*journal), &facts)?;
        chat.counts_agents(&journal, &id).await;
        chat.counts_for_its_agent();
        chat.tracer = tracer;
        chat.durable = Some(Durable::new(journal, id, facts.len() as u64, Some(hold)));
        chat.tracer.meets(chat.machine.open_calls());
        chat.tell_answers(&facts);
        chat.inherited = chat.machine.open_calls().map(|call| call.id().to_owned()).collect();
        let doubtful = chat.doubtful();
        let is_cut_off = was_going_on(&chat.machine) && !has_waited(&facts)?;
        if is_cut_off || !doubtful.is_empty() {
            chat.record(&Entry::Reopened { doubtful })?;
            chat.only_looked_at = true;
        }
        Ok(chat)
    }

    /// Begins a conversation of a journal with what was said elsewhere. A call in it that has no
    /// result is answered with *in doubt*, since its record is lost.
    ///
    /// # Errors
    /// Fails as [`open`](Self::open) does, and with [`ErrorKind::Conflict`] if the conversation has
    /// begun.
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
        chat.record(&Entry::Given { transcript })?;
        chat.save().await?;
        Ok(chat)
    }

    /// Answers calls that wait, in any conversation of a journal, whoever has it open.
    pub fn inbox<J: Journal + Clone + 'static>(&self, journal: &J) -> Inbox {
        Inbox { agent: self.clone(), journal: Arc::new(journal.clone()) }
    }
}

impl Chat {
    /// The name of the conversation in its journal.
    pub fn conversation(&self) -> Option<&str> {
        self.durable.as_ref().map(|durable| &**durable.id())
    }

    /// Whether [`resume`](Self::resume) has something to go on with: a run was going on when its process
    /// ended, calls wait, or the last run came to no answer. If not, the conversation is new or the model
    /// has answered.
    pub fn can_resume(&self) -> bool {
        self.machine.is_going() || self.machine.resumption().is_ok()
    }

    /// The calls that wait for a decision, a result or an answer, in order. When each has one,
    /// [`resume`](Self::resume) goes on. If the user says something instead, calls that wait to be
    /// decided do not run, and those that wait for a result or an answer are in doubt.
    pub fn waiting(&self) -> Vec<OpenCall> {
        waiting(&self.machine, self.conversation())
    }

    /// Tells the program of the calls that wait, now that it is written that they do.
    pub(super) fn tell_waiting(&self) {
        let told = self.tells_waiting().zip(self.conversation());
        let Some((hook, conversation)) = told else { return };
        let nobody_has_to = |open: &OpenCall| {
            let wait = open.wait.as_ref();
            wait.is_some_and(|it| matches!(it.awaited, Awaited::Agent { cut_off: true, .. }))
        };
        for open in self.waiting().into_iter().filter(|open| !nobody_has_to(open)) {
            let _ = caught(|| hook(conversation, &open));
        }
    }

    /// The calls of which nobody knows how they ended, in order: the process that ran them has ended,
    /// and they may not run again. Say what became of one by [`settle`](Self::settle), if you can find
    /// out. With [`resume`](Self::resume), a tool that can find it out
    /// ([`reconcile`](macro@crate::tool)) is asked, and the model is told of the others that they are in
    /// doubt.
    pub fn in_doubt(&self) -> Vec<OpenCall> {
        in_doubt(&self.machine, self.conversation())
    }

    /// Decides about a call that waits for it. The decision is written when this returns;
    /// [`resume`](Self::resume) goes on.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::NotWaiting`], and changes nothing, if no call waits for this approval, or it
    /// comes too late. Fails with [`ErrorKind::Journal`] if it cannot be written; then the next run tries
    /// again.
    pub async fn decide(&mut self, approval: Approval) -> Result<(), Error> {
        self.hear().await?;
        let fact = decided(&self.machine, approval)?;
        self.record(&fact)?;
        self.save().await
    }

    /// Says what became of a call that waits for a result or an answer, or is in doubt. It is written
    /// when this returns; [`resume`](Self::resume) goes on.
    ///
    /// # Errors
    /// As those of [`decide`](Self::decide).
    pub async fn settle(&mut self, settlement: Settlement) -> Result<(), Error> {
        self.hear().await?;
        let fact = settled(&self.machine, self.agent.tools(), settlement)?;
        self.record(&fact)?;
        self.save().await
    }

    /// Begins another conversation of the same journal with the first `facts` facts of this one.
    /// What was answered stands and nothing runs again. A call that was open then is told as not
    /// started in the new one, or as in doubt if it had started. The owner, title and tags of this one
    /// are not taken along: [describe](crate::journal::Journal::describe) the new one.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Configuration`] if this conversation is in no journal or has fewer
    /// facts, and with [`ErrorKind::Conflict`] if the other one has begun.
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
        // That this one was opened is no part of it yet.
        let facts = match self.only_looked_at && facts == count {
            true => durable.written(),
            false => facts,
        };
        let (shared, rest) = parted(durable.id(), facts, &journal).await?;
        guarded(|| journal.fork(durable.id(), shared, id)).await.map_err(|err| begun(id, err))?;
        let from = durable.id().to_string();
        if !rest.is_empty() {
            self.tracer.asks(|| appending(&*journal, id, &rest));
            let appended = guarded(|| journal.append(id, shared, &rest)).await;
            match &appended {
                Ok(()) => self.tracer.appended(AppendOutcome::Written, None),
                Err(error) => append_failed(&mut self.tracer, error),
            }
            appended?;
        }
        let mut fork = self.agent.open(&journal, id).await?;
        fork.tracer.forked(&from, facts);
        Ok(fork)
    }

    /// How many facts its journal has of it, with those that are still to be written: what
    /// [`fork`](Self::fork) takes.
    pub fn facts(&self) -> u64 {
        self.durable.as_ref().map_or(0, Durable::count)
    }

    /// How many of them are written, as far as is known here.
    pub(super) fn written(&self) -> u64 {
        self.durable.as_ref().map_or(0, Durable::written)
    }

    /// Brings what waits into the journal, and what others have answered meanwhile out of it.
    pub(super) async fn catch_up(&mut self) -> Result<(), Error> {
        self.write_down().await?;
        self.take_in_news().await
    }

    /// The same, of a conversation in which nothing may come of it: that it was opened is written with
    /// what is done then.
    async fn hear(&mut self) -> Result<(), Error> {
        self.save().await?;
        self.take_in_news().await
    }

    async fn take_in_news(&mut self) -> Result<(), Error> {
        if self.machine.waiting().next().is_none() {
            return Ok(());
        }
        let Some(durable) = &mut self.durable else { return Ok(()) };
        let news = durable.news().await?;
        let taken_in = self.takes_in(news).await;
        self.tell_loss();
        taken_in
    }

    /// Writes all facts into the journal that are not there yet. The end of a run is written before
    /// the run returns, so this is for a run whose future was dropped: without it, they are written with the
    /// next run. That a conversation was opened in the middle of a run is written with what is done then.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`] if they cannot be written, and with [`ErrorKind::Conflict`] if
    /// somebody else has gone on with the conversation.
    pub async fn save(&mut self) -> Result<(), Error> {
        match self.only_looked_at {
            true => Ok(()),
            false => self.write_down().await,
        }
    }

    pub(super) async fn write_down(&mut self) -> Result<(), Error> {
        if !self.is_behind() {
            return Ok(());
        }
        self.append_begins();
        let written = self.write_all().await.map(|()| true);
        self.append_ended(&written);
        written.map(|_| ())
    }

    async fn write_all(&mut self) -> Result<(), Error> {
        loop {
            let Some(durable) = self.durable.as_mut().filter(|durable| durable.is_behind()) else {
                return Ok(());
            };
            match durable.write().await? {
                Written::All => return Ok(()),
                Written::Behind(facts) => self.takes_in(facts).await?,
            }
        }
    }

    /// Whether facts wait to be written.
    pub(super) fn is_behind(&self) -> bool {
        self.durable.as_ref().is_some_and(Durable::is_behind)
    }

    /// Whether somebody else has gone on with the conversation, so that nothing can be written here.
    pub(super) fn is_lost(&self) -> bool {
        self.durable.as_ref().is_some_and(Durable::is_lost)
    }

    /// Others have answered calls that waited: these facts come before those that wait here.
    pub(super) async fn takes_in(&mut self, facts: Vec<Envelope>) -> Result<(), Error> {
        let Some(durable) = &mut self.durable else { return Ok(()) };
        if facts.is_empty() {
            return Ok(());
        }
        let entries: Result<Vec<Entry>, Error> = facts.iter().map(Envelope::entry).collect();
        let Ok(entries) = entries else { return Err(durable.lose()) };
        if !entries.iter().all(is_answer) {
            return Err(durable.lose());
        }
        if durable.is_behind() {
            let Some(journal) = durable.journal().cloned() else { return Ok(()) };
            // What waits stays where it is: nobody may wait for the answer to the end, and a journal
            // that cannot be read now can be later.
            let read = guarded(|| journal.read(durable.id(), 0)).await?;
            let again = folded(read.iter().chain(durable.pending()));
            let Ok(machine) = again else { return Err(durable.lose()) };
            durable.knows(facts.len());
            for (entry, envelope) in entries.iter().zip(&facts) {
                self.fold_beside_machine(entry);
                self.tell_news(entry, envelope.at);
            }
            self.machine = machine;
            return Ok(());
        }
        durable.knows(facts.len());
        for (entry, envelope) in entries.iter().zip(&facts) {
            if self.fold(entry).is_err() {
                let Some(durable) = &mut self.durable else { return Ok(()) };
                return Err(durable.lose());
            }
            self.tell_news(entry, envelope.at);
        }
        Ok(())
    }

    /// What a call has asked that had run in several processes may be answered where its tool no longer
    /// repeats: then it is found out what became of it.
    pub(super) fn doubt_answered(&mut self) -> Result<(), Error> {
        let doubtful = self.doubtful();
        match doubtful.is_empty() {
            true => Ok(()),
            false => self.record(&Entry::Reopened { doubtful }),
        }
    }

    /// Closes the waits whose time is over.
    pub(super) fn expire(&mut self) -> Result<(), Error> {
        let over = self.machine.waiting().filter(|(_, wait)| is_over(wait));
        let over: Vec<Entry> = over.map(|(call, wait)| expired(call, wait)).collect();
        over.iter().try_for_each(|fact| self.record(fact))
    }
}

/// Why a fork cannot begin under this name.
fn begun(conversation: &str, err: Error) -> Error {
    match err.is_conflict() {
        true => Error::new(
            ErrorKind::Conflict,
            format!("the conversation `{conversation}` has begun: fork into a new one"),
        ),
        false => err,
    }
}

/// How many facts a fork shares with the conversation that it is made from, and those that follow in
/// one append. While the fork has only the first ones, no call of it is open: whoever finds it so, since
/// its process has ended in between, runs none that belongs to the other one.
async fn parted(
    conversation: &str,
    facts: u64,
    journal: &Arc<dyn Journal>,
) -> Result<(u64, Vec<Envelope>), Error> {
    let mut rest = guarded(|| journal.read(conversation, 0)).await?;
    let there = rest.len() as u64;
    if there < facts {
        return Err(too_few(conversation, there, facts));
    }
    rest.truncate(usize::try_from(facts).unwrap_or(usize::MAX));
    let (mut machine, mut shared) = (Machine::new(), 0);
    for (number, envelope) in (1..).zip(&rest) {
        machine.apply(&envelope.entry()?)?;
        if !machine.is_calling() {
            shared = number;
        }
    }
    let elapsed = rest.last().map_or(0, |last| last.elapsed);
    rest.drain(..shared);
    if was_going_on(&machine) {
        rest.push(Envelope::of(&Entry::Reopened { doubtful: Vec::new() }, elapsed)?);
    }
    rest.push(Envelope::of(&Entry::Forked {}, elapsed)?);
    Ok((shared as u64, rest))
}

/// Whether a run was going on when its process ended. Where calls wait for somebody outside of it,
/// nothing was.
fn was_going_on(machine: &Machine) -> bool {
    machine.is_going() && machine.next() != Action::AwaitAnswers
}

/// Whether nobody was at work on a conversation: its last run had come to wait, and all that happened since
/// is that somebody has answered.
fn has_waited(facts: &[Envelope]) -> Result<bool, Error> {
    let answers = facts.iter().rev().take_while(|fact| fact.entry().is_ok_and(|it| is_answer(&it)));
    let before = facts.len().saturating_sub(answers.count());
    let Some(waited) = facts.get(..before).filter(|waited| waited.len() < facts.len()) else {
        return Ok(false);
    };
    Ok(folded(waited.iter())?.next() == Action::AwaitAnswers)
}

pub(super) fn waiting(machine: &Machine, conversation: Option<&str>) -> Vec<OpenCall> {
    let waiting = machine.waiting().map(|(call, wait)| (call, Some(wait)));
    open_calls(machine, conversation, waiting)
}

pub(super) fn in_doubt(machine: &Machine, conversation: Option<&str>) -> Vec<OpenCall> {
    open_calls(machine, conversation, machine.in_doubt().map(|call| (call, None)))
}

fn open_calls<'a>(
    machine: &Machine,
    conversation: Option<&str>,
    calls: impl Iterator<Item = (&'a ToolCall, Option<&'a Wait>)>,
) -> Vec<OpenCall> {
    let open = |(call, wait): (&ToolCall, Option<&Wait>)| OpenCall {
        idempotency_key: idempotency_key(
            conversation,
            machine.transcript(),
            call,
            call.fingerprint(),
        ),
        call: call.clone(),
        wait: wait.cloned(),
    };
    calls.map(open).collect()
}

pub(super) fn folded<'a>(facts: impl Iterator<Item = &'a Envelope>) -> Result<Machine, Error> {
    let mut machine = Machine::new();
    for (number, envelope) in facts.enumerate() {
        let applied = envelope.entry().and_then(|entry| machine.apply(&entry));
        applied.map_err(|err| unreadable(number, err))?;
    }
    Ok(machine)
}

/// The error of a conversation with a fact that this version does not know, or that cannot be where it is.
pub(super) fn unreadable(number: usize, err: Error) -> Error {
    let what = format!("fact {number} of the conversation cannot be read");
    Error::new(ErrorKind::Journal, format!("{what}: {err}")).because(err)
}

/// Answers calls that wait in the conversations of a journal, from any process, whoever has them open.
/// Made by [`Agent::inbox`].
///
/// Nothing is held: an answer is one fact that is appended if the call still waits for it. Who has the
/// conversation open reads it with the next run.
pub struct Inbox {
    agent: Agent,
    journal: Arc<dyn Journal>,
}

/// How often an answer is tried again when others have written first.
const ANSWERS: u32 = 16;

impl Inbox {
    /// The calls of a conversation that wait, in order, those whose time is over too. Calls in doubt are
    /// listed by [`Chat::in_doubt`] alone. In the conversation of an [agent in a call](Agent::as_tool) none waits any
    /// more once that call has its result or was stopped: the agent does not go on.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`] if the conversation cannot be read.
    pub async fn waiting(&self, conversation: &str) -> Result<Vec<OpenCall>, Error> {
        let waiting = waiting(&self.look(conversation).await?, Some(conversation));
        if waiting.is_empty() {
            return Ok(waiting);
        }
        match is_heard(&*self.journal, conversation).await {
            Ok(()) => Ok(waiting),
            Err(error) if error.kind() == ErrorKind::NotWaiting => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// How a conversation stands, read from its facts: what was said, what its last run has used, which
    /// calls wait, and whether a run is [going on](Machine::is_going). It is not opened and nothing is
    /// changed, so a process that lives may have it open and be running. Whether one does is said by
    /// [`Agent::open`], which then fails with [`ErrorKind::Busy`]. A call that had started when its
    /// process ended is in doubt only when the conversation is opened.
    ///
    /// ```
    /// use harness::{
    ///     Agent,
    ///     journal::{Journal, Listing, MemoryJournal},
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
    /// for summary in journal.list(&Listing::new()).await?.conversations {
    ///     let stands = inbox.look(&summary.id).await?;
    ///     assert_eq!(stands.transcript().messages().len(), 2);
    ///     if stands.is_going() && stands.waiting().next().is_none() {
    ///         agent.open(&journal, &summary.id).await?.resume().await?;
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`] if the conversation cannot be read.
    pub async fn look(&self, conversation: &str) -> Result<Machine, Error> {
        check_id(conversation)?;
        let facts = guarded(|| self.journal.read(conversation, 0)).await?;
        folded(facts.iter())
    }

    /// Decides about a call that waits for it. The decision is written when this returns.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::NotWaiting`], and changes nothing, if no call of the conversation waits for
    /// this approval, or it comes too late; and with [`ErrorKind::Journal`] if it is not known whether it
    /// was written.
    pub async fn decide(&self, conversation: &str, approval: Approval) -> Result<(), Error> {
        self.answer(conversation, |machine| decided(machine, approval.clone())).await
    }

    /// Says what became of a call that waits for a result or an answer. It is written when this
    /// returns.
    ///
    /// # Errors
    /// As those of [`decide`](Self::decide).
    pub async fn settle(&self, conversation: &str, settlement: Settlement) -> Result<(), Error> {
        let tools = self.agent.tools();
        self.answer(conversation, |machine| {
            // What became of a call in doubt may be being found out by whoever has opened it.
            waits(machine, &settlement)?;
            settled(machine, tools, settlement.clone())
        })
        .await
    }

    async fn answer(
        &self,
        conversation: &str,
        fact: impl Fn(&Machine) -> Result<Entry, Error>,
    ) -> Result<(), Error> {
        check_id(conversation)?;
        // Another answer of this process may say the same at the same time.
        let life = Life::random();
        let mut sent: Vec<Envelope> = Vec::new();
        let mut tracer = Tracer::new(self.agent.trace());
        let mut refused = None;
        for _ in 0..ANSWERS {
            let facts = guarded(|| self.journal.read(conversation, 0)).await;
            let facts = facts.inspect_err(|error| append_failed(&mut tracer, error))?;
            // It was written after all.
            if let Some(at) = facts.iter().position(|fact| sent.contains(fact)) {
                tracer.appended(AppendOutcome::ReadBack, None);
                let (before, written) = facts.split_at(at);
                let written = written.first().and_then(|written| written.entry().ok());
                if let (Ok(machine), Some(written)) = (folded(before.iter()), written) {
                    tell_answer(&mut tracer, &machine, before, &written);
                }
                return Ok(());
            }
            if let Some(error) = refused.take() {
                append_failed(&mut tracer, &error);
            }
            let machine = folded(facts.iter())?;
            let fact = fact(&machine)?;
            is_heard(&*self.journal, conversation).await?;
            let elapsed = facts.last().map_or(0, |last| last.elapsed);
            let envelope = [Envelope { life, ..Envelope::of(&fact, elapsed)? }];
            let after = facts.len() as u64;
            sent.extend_from_slice(&envelope);
            tracer.asks(|| appending(&*self.journal, conversation, &envelope));
            match guarded(|| self.journal.append(conversation, after, &envelope)).await {
                Ok(()) => {
                    tracer.appended(AppendOutcome::Written, None);
                    tell_answer(&mut tracer, &machine, &facts, &fact);
                    return Ok(());
                }
                // An append that is repeated on its way is refused the second time.
                Err(error) if error.is_conflict() => refused = Some(error),
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
            format!("others are always faster to write into the conversation `{conversation}`"),
        ))
    }
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").finish_non_exhaustive()
    }
}
