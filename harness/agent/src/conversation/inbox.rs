//! The [`Inbox`]: answers calls of conversations that are not opened here.

use std::{collections::HashSet, sync::Arc};

use super::{
    durable::guarded,
    observed::{append_failed, appending, trace_answer},
    spilling::LargeResultStore,
};
use crate::{
    Agent, AgentCall, Event, EventBuf, Machine, OpenCall, Settlement,
    approval::{CallResolution, waiting},
    machine::folding::fold_facts,
    subagent::{
        agent_names::agents_of_call,
        agents_below::{can_continue, check_parents},
    },
};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{Awaited, Envelope, Head, Journal, StoredFacts, WriterId, check_id, conflict},
    policy::Approval,
    trace::{AppendOutcome, Tracer},
};

/// Answers waiting calls in the conversations of a journal, from any process, even if a conversation is open
/// elsewhere. [`Agent::inbox`] makes an inbox.
///
/// An inbox does not lock a conversation. An answer is one fact, and the inbox appends this fact only if the
/// call still waits. The process that has the conversation open reads the fact with the next run.
#[derive(Clone)]
pub struct Inbox {
    pub(crate) agent: Agent,
    pub(crate) journal: Arc<dyn Journal>,
}

/// A waiting call of a conversation, or of an agent that a call of the conversation runs.
pub(crate) struct WaitingCallWithPath {
    pub(crate) conversation: String,
    /// The calls that lead to the agent. Empty for a call of the conversation itself.
    pub(crate) path: Vec<AgentCall>,
    pub(crate) open: OpenCall,
}

impl WaitingCallWithPath {
    /// The event that the call waits. `None` for a call of the conversation itself.
    pub(crate) fn event(&self) -> Option<EventBuf> {
        let Self { path, open: OpenCall { call, wait, .. }, .. } = self;
        let wait = wait.as_ref().filter(|_| !path.is_empty())?.without_token();
        let event = Event::ToolWaits { call, wait: &wait }.into_owned();
        Some(Event::OfAgent { path, event: &event }.into_owned())
    }
}

/// How many times the library tries to write an answer, if other writers write into the conversation first.
const ANSWERS: u32 = 16;

impl Inbox {
    /// The waiting calls of a conversation, in order. Calls whose deadline has passed are included. Calls in
    /// doubt are listed only by [`Chat::in_doubt`](crate::Chat::in_doubt). If the conversation belongs to an
    /// [agent in a call](Agent::as_tool), the list is empty after that call has a result or was stopped.
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

    /// The waiting calls of a conversation, and the waiting calls of the agents that these calls run, at any
    /// depth. A call that waits for its agent is not listed itself. Each call comes with the name of its
    /// conversation. Pass that name to [`decide`](Self::decide) or [`settle`](Self::settle).
    ///
    /// # Errors
    /// Fails as [`waiting`](Self::waiting) does.
    pub async fn waiting_with_agents(
        &self,
        conversation: &str,
    ) -> Result<Vec<(String, OpenCall)>, Error> {
        let all = self.waiting_with_paths(conversation).await?;
        Ok(all.into_iter().map(|it| (it.conversation, it.open)).collect())
    }

    /// The calls of `waiting_with_agents`, each with the calls that lead to the agent.
    pub(crate) async fn waiting_with_paths(
        &self,
        conversation: &str,
    ) -> Result<Vec<WaitingCallWithPath>, Error> {
        let mut found = Vec::new();
        let mut conversations = vec![(conversation.to_owned(), Vec::new())];
        let mut seen = HashSet::new();
        while let Some((conversation, path)) = conversations.pop() {
            if !seen.insert(conversation.clone()) {
                continue;
            }
            for open in self.waiting(&conversation).await? {
                let awaited = open.wait.as_ref().map(|wait| &wait.awaited);
                let Some(Awaited::Agent { conversation: named, .. }) = awaited else {
                    let (conversation, path) = (conversation.clone(), path.clone());
                    found.push(WaitingCallWithPath { conversation, path, open });
                    continue;
                };
                let mut path: Vec<AgentCall> = path.clone();
                let (tool, call) = (open.call.name().into(), open.call.id().into());
                path.push(AgentCall { tool, call });
                let others = agents_of_call(&*self.journal, &conversation, open.call.id()).await?;
                let all = others.into_iter().chain([named.clone()]);
                conversations.extend(all.map(|name| (name, path.clone())));
            }
        }
        Ok(found)
    }

    /// The state of a conversation, made from its facts: its messages, the usage of its last run, the calls
    /// that wait, and whether a run is [going on](Machine::is_going). This method does not open the
    /// conversation and changes nothing, so another process may have the conversation open. To find out whether
    /// the conversation is open elsewhere, use [`Agent::open`], which then fails with [`ErrorKind::Busy`]. A
    /// call that had started when its process ended is in doubt only after the conversation is opened.
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
    ///     if inbox.can_continue(&info.id).await? {
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

    /// Whether a run of a conversation [is going on](Machine::is_going), here, in another process or in one that
    /// has ended, and can do something now. A run in which everything waits for a person or for the program
    /// cannot, unless a deadline has passed. An answer counts before a run has read it, also in the conversation
    /// of an agent that a call runs. When a service starts, it resumes the conversations for which this is true.
    ///
    /// # Errors
    /// Fails as [`look`](Self::look) does.
    pub async fn can_continue(&self, conversation: &str) -> Result<bool, Error> {
        Ok(self.look(conversation).await?.is_going()
            && can_continue(&self.journal, conversation).await?)
    }

    /// Records a decision about a call that waits for a decision. The decision is in the journal when this
    /// method returns.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::NotWaiting`], and changes nothing, if no call of the conversation waits for this
    /// approval or the deadline has passed. Fails with [`ErrorKind::Conflict`] if other writers were first at
    /// each attempt, and with [`ErrorKind::Configuration`] if the name is not valid. Fails with
    /// [`ErrorKind::Journal`] if the journal fails. The decision may have been written in this case.
    pub async fn decide(&self, conversation: &str, approval: Approval) -> Result<(), Error> {
        self.resolve_call(conversation, &CallResolution::Decide(approval)).await
    }

    /// Records the outcome of a call that waits for a result or an answer. The outcome is in the journal when
    /// this method returns.
    ///
    /// # Errors
    /// Fails as [`decide`](Self::decide) does. Also fails with [`ErrorKind::Transcript`] if the
    /// answer is nested too deep or a name in it begins with `$serde_json::private::`.
    pub async fn settle(&self, conversation: &str, settlement: Settlement) -> Result<(), Error> {
        self.resolve_call(conversation, &CallResolution::Settle(settlement)).await
    }

    async fn resolve_call(
        &self,
        conversation: &str,
        resolution: &CallResolution,
    ) -> Result<(), Error> {
        check_id(conversation)?;
        // Distinguishes this answer from an equal answer that this process writes in the same millisecond.
        let life = WriterId::random();
        let mut sent: Vec<Envelope> = Vec::new();
        let mut tracer = Tracer::new(self.agent.trace());
        let (mut refused, mut made, mut read) = (None, None, None);
        for _ in 0..ANSWERS {
            let facts = guarded(|| self.journal.read(conversation, 0)).await;
            let facts = facts.inspect_err(|error| append_failed(&mut tracer, error))?;
            let StoredFacts { head, facts, .. } = facts;
            // A new conversation of the same name may have a call with the same id.
            if *read.get_or_insert(head.incarnation) != head.incarnation {
                let known = Head { incarnation: read.flatten(), ..Head::default() };
                return Err(conflict(conversation, known, head));
            }
            // An earlier append has written this answer, although that append has returned an error.
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
            // A large result is stored only once, even if the append is repeated.
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
                        // Storing a large result takes time, so it is checked again that the call still waits.
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
                // If a network repeats an append, the journal refuses the repetition. So the journal is read
                // again to find out what was written.
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
