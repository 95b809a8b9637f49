//! A conversation that continues.

use std::{collections::HashSet, fmt, mem, sync::Arc, time::Duration};

use super::{
    durable::{DurableState, is_answer},
    observed::CallWaitTimes,
};
use crate::{
    Action, Agent, Grant, Machine, Provenance, Run,
    approval::ApprovalPolicy,
    compaction::window::{ContextGauge, ReducedMaxTokens},
    machine::folding::{for_each_fact, unreadable},
    run::{clock::RunClock, options::RunOptions, tool_search::OfferedTools},
};
use harness_core::{
    context::FileLimits,
    error::{Error, ErrorKind},
    journal::{ClearedResult, Envelope, Fact},
    message::{Message, Transcript},
    policy::{AgentSums, Budget, Guardrails, Limits, RunGuard, TaintTracker},
    provider::{EncodedPrefix, Usage},
    tool::{SharedValues, StillRunning, still_running_in},
    trace::Tracer,
};

/// A conversation that continues from one message to the next.
///
/// Whatever happens to a run (an error, a cancellation, a dropped future, a panic), the transcript
/// can be sent afterwards and states correctly what became of each call.
///
/// ```
/// use harness::{Agent, testing::{ScriptedProvider, reply}};
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let model = ScriptedProvider::new([reply().text("Noted."), reply().text("It is 42.")]);
/// let agent = Agent::builder(model).build()?;
/// let mut chat = agent.chat();
/// chat.send("My favourite number is 42.").await?;
/// let reply = chat.send("What is it?").await?;
/// assert_eq!(reply.text(), "It is 42.");
/// assert_eq!(chat.transcript().messages().len(), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Chat {
    pub(crate) agent: Agent,
    pub(crate) machine: Machine,
    pub(crate) guard: RunGuard,
    /// What all runs of the conversation have spent and may spend.
    budget: Budget,
    /// How long the run has gone on.
    pub(crate) clock: RunClock,
    /// The connection to the journal, if the conversation has one.
    pub(crate) durable: Option<DurableState>,
    /// Answers that only the machine has taken in, since it is not known whether they are written.
    pub(crate) unwritten: Vec<Envelope>,
    /// Whether the last run waited, and no fact says yet that it goes on.
    pub(crate) has_waited: bool,
    /// Whether the conversation was opened in the middle of a run and nothing has happened since.
    pub(crate) only_looked_at: bool,
    pub(crate) tracer: Tracer,
    pub(crate) usage: Usage,
    /// The part of the conversation that the provider has already encoded.
    pub(crate) sent: EncodedPrefix,
    /// The sizes of the messages. Each is counted once.
    pub(crate) gauge: ContextGauge,
    /// How many tokens the answer to the next request may have, if the last one was refused for that.
    pub(crate) reduced_max_tokens: Option<ReducedMaxTokens>,
    /// Whether a vendor has refused a request since its answer might not fit.
    pub(crate) is_strict: bool,
    /// What a request may have, as far as its server has said so.
    pub(crate) file_limits: FileLimits,
    /// The files that were left out since the last answer, as they were sent before.
    pub(crate) files_before: Vec<ClearedResult>,
    /// The tools as the model gets them, if it has found some by searching.
    pub(crate) offered_tools: Option<Arc<OfferedTools>>,
    /// What a person has allowed for the rest of the conversation.
    pub(crate) grants: Vec<Grant>,
    /// The numbers of late ends that are recorded here: of calls that were stopped and went on.
    pub(crate) recorded_ends: HashSet<u64>,
    /// What the conversation has read.
    pub(crate) taint: TaintTracker,
    /// The values that the conversation shares with its tools.
    pub(crate) values: Option<SharedValues>,
    /// The options of the current run.
    pub(crate) options: Option<Box<RunOptions>>,
    /// The start time of each waiting call.
    pub(crate) wait_times: CallWaitTimes,
    /// Calls that were open when the conversation was opened. Their decisions were made elsewhere,
    /// perhaps by other rules.
    pub(crate) calls_from_previous_process: HashSet<String>,
    /// What the agents of open calls have spent.
    pub(crate) agents: AgentSums,
    /// Facts about calls that no watcher has been told of yet.
    pub(crate) unannounced: Vec<Fact>,
}

impl Chat {
    pub(crate) fn new(agent: Agent) -> Self {
        let chat = Self::uncounted(agent);
        chat.budget.within(&chat.agent.budget());
        chat
    }

    /// A conversation whose spending does not count for its agent.
    fn uncounted(agent: Agent) -> Self {
        let budget = Budget::of_conversation();
        // Nothing is spent until a run begins.
        let idle = Budget::of_run(&budget, Limits::new(), Arc::clone(agent.guardrails()));
        let guard = guard(&agent, Arc::clone(agent.guardrails()), idle);
        let tracer = Tracer::new(agent.trace());
        let gauge = ContextGauge::new(agent.meter());
        Self {
            agent,
            machine: Machine::new(),
            guard,
            budget,
            clock: RunClock::default(),
            durable: None,
            has_waited: false,
            only_looked_at: false,
            tracer,
            usage: Usage::default(),
            sent: EncodedPrefix::new(),
            gauge,
            offered_tools: None,
            grants: Vec::new(),
            unwritten: Vec::new(),
            reduced_max_tokens: None,
            is_strict: false,
            file_limits: FileLimits::default(),
            files_before: Vec::new(),
            recorded_ends: HashSet::new(),
            taint: TaintTracker::default(),
            values: None,
            options: None,
            wait_times: CallWaitTimes::default(),
            calls_from_previous_process: HashSet::new(),
            agents: AgentSums::default(),
            unannounced: Vec::new(),
        }
    }

    /// The conversation that these facts make. What was spent in them does not count for the agent
    /// of this process; what is spent later does.
    pub(crate) fn read(agent: Agent, facts: &[Envelope]) -> Result<Self, Error> {
        let mut reading = ChatReader::new(agent);
        facts.iter().try_for_each(|envelope| reading.take(envelope))?;
        reading.chat.count_for_agent();
        Ok(reading.chat)
    }

    /// From now on, what the conversation spends counts for its agent.
    pub(crate) fn count_for_agent(&mut self) {
        self.budget.within(&self.agent.budget());
        self.guard.budget().within(&self.budget);
        self.guard.resume();
    }

    /// The conversation that these facts make, and whether no process was working on it: its last run
    /// had ended as waiting, and since then only answers were added. What is spent later does not count for the
    /// agent, either. Other tasks of the same thread get their turn meanwhile.
    pub(crate) async fn read_in_parts(
        agent: Agent,
        facts: &[Envelope],
    ) -> Result<(Self, bool), Error> {
        let mut reading = ChatReader::new(agent);
        for_each_fact(facts.iter(), |envelope| reading.take(envelope)).await?;
        Ok((reading.chat, reading.waited == Some(true)))
    }

    pub(crate) fn read_fact(&mut self, fact: &Fact, envelope: &Envelope) -> Result<(), Error> {
        let begins = match fact {
            Fact::UserSaid { limits, .. } => Some(limits.as_deref()),
            Fact::Resumed { limits: Some(limits), .. } => Some(Some(&**limits)),
            _ => None,
        };
        if let Some(limits) = begins {
            let (rails, limits) = match limits {
                Some(limits) => {
                    (Arc::new(Guardrails::said_of_run(limits)), Limits::said_of_run(limits))
                }
                None => (Arc::clone(self.agent.guardrails()), self.agent.run_limits().clone()),
            };
            let budget = Budget::of_run(&self.budget, limits, Arc::clone(&rails));
            let mut before = mem::replace(&mut self.guard, guard(&self.agent, rails, budget));
            self.guard.continue_after(&mut before);
        }
        self.fold(fact)?;
        self.guard.charge_agents(fact);
        self.wait_times.note(fact, || envelope.at);
        self.clock.set_elapsed(Duration::from_millis(envelope.elapsed));
        Ok(())
    }

    pub(crate) fn given(agent: Agent, mut transcript: Transcript) -> Self {
        transcript.settle();
        let mut chat = Self::new(agent);
        // Neither step can fail: the transcript was settled above, and it is the first fact.
        let _ = chat.record(&Fact::Given { transcript });
        chat
    }

    /// Sends a message of the user and runs until the model has answered. Nothing happens before
    /// the returned value is awaited.
    ///
    /// Dropping the future stops the run. The transcript keeps what was said until then and states
    /// what became of each call.
    pub fn send(&mut self, message: impl Into<Message>) -> Run<'_> {
        Run::borrowed(self, message.into())
    }

    /// Continues a run that was stopped, or whose process has ended, after its last complete fact.
    /// Results of tools are kept, and the model is asked again. In a conversation in a
    /// [journal](harness_core::journal), the calls that had not started, that may be repeated, or that
    /// have been answered meanwhile are finished first. If the model's answer broke off in the
    /// middle, the model is told so and continues there. Await the returned value for the reply.
    ///
    /// What the run has spent so far still counts, so a run that has reached a limit can do no more
    /// of what is limited. Give it [new limits](Run::limits) to count from zero.
    ///
    /// The run fails at once, with [`ErrorKind::Transcript`](harness_core::error::ErrorKind) and without a
    /// change, if there is nothing to continue: nothing was said yet, or the model has answered.
    ///
    /// ```
    /// use harness::{Agent, testing::{ScriptedProvider, reply}};
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let model = ScriptedProvider::new([
    ///     reply().text("Once upon a").cut(),
    ///     reply().text("time, there was a crab."),
    /// ]);
    /// let mut chat = Agent::builder(model).build()?.chat();
    /// let stopped = chat.send("Tell me a story.").await.unwrap_err();
    /// assert_eq!(stopped.text(), "Once upon a\n\n[interrupted]");
    /// assert_eq!(chat.resume().await?.text(), "time, there was a crab.");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn resume(&mut self) -> Run<'_> {
        Run::resuming(self)
    }

    /// What was said so far. It is always valid to send.
    pub fn transcript(&self) -> &Transcript {
        self.machine.transcript()
    }

    /// Where the message of the transcript with this id came from: provider, model and tokens. `None` for a message
    /// that no provider has answered in this conversation: see [`Machine::provenance`].
    pub fn provenance(&self, message: &str) -> Option<&Provenance> {
        self.machine.provenance(message)
    }

    /// The tokens of all runs of this conversation; a lower bound if the tokens of some answers are
    /// not known. Agents that tools call are not included: they are part of
    /// [`budget`](Self::budget).
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Sets what all runs of the conversation may spend together, including the agents that its
    /// tools call: see [`Limits`]. What was spent before counts. A limit that is left open keeps
    /// its value. A conversation has no such limits unless they are set.
    ///
    /// ```
    /// use harness::{Agent, Limits, journal::LimitScope, testing::{ScriptedProvider, reply}};
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let model = ScriptedProvider::answering(|_| reply().text("Yes.").tokens(600, 1));
    /// let mut chat = Agent::builder(model).build()?.chat();
    /// chat.limits(Limits::new().input_tokens(1_000));
    /// chat.send("One?").await?;
    /// chat.send("Two?").await?;
    /// let stopped = chat.send("Three?").await.unwrap_err();
    /// assert_eq!(stopped.limit().unwrap().scope, LimitScope::Conversation);
    /// chat.limits(Limits::new().input_tokens(2_000));
    /// assert_eq!(chat.resume().await?.text(), "Yes.");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn limits(&mut self, limits: Limits) -> &mut Self {
        self.budget.limit(&limits);
        self
    }

    /// Shares a value with the tools in all runs of the conversation. A tool takes it as a
    /// parameter [`State<T>`](harness_core::tool::State). The value replaces the agent's value of the same type,
    /// and a run can replace it by [`Run::state`]. It is not written to a journal: set it again
    /// after a conversation was opened again or forked.
    ///
    /// ```
    /// use harness::{Agent, State, testing::{ScriptedProvider, reply}, tool, tools};
    ///
    /// struct User(&'static str);
    ///
    /// /// Says who asks.
    /// #[tool(side_effects = "read")]
    /// fn who(user: State<User>) -> String {
    ///     user.0.to_owned()
    /// }
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let model = ScriptedProvider::new([
    ///     reply().call("who", serde_json::json!({})),
    ///     reply().text("You are Ada."),
    /// ]);
    /// let agent =
    ///     Agent::builder(model.clone()).tools(tools![who]).state_per_run::<User>().build()?;
    /// let mut chat = agent.chat();
    /// chat.state(User("Ada"));
    /// chat.send("Who am I?").await?;
    /// assert_eq!(model.requests()[1].last_text(), "Ada");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn state<T: Send + Sync + 'static>(&mut self, value: T) -> &mut Self {
        self.values.get_or_insert_default().insert(Arc::new(value));
        self
    }

    /// What all runs of the conversation have spent so far and what is left of its limits. Agents
    /// that its tools call are included. The returned value can be kept and read while a run goes
    /// on. For a single run, see [`Run::budget`] and [`Reply::spent`](crate::Reply::spent).
    pub fn budget(&self) -> Budget {
        self.budget.clone()
    }

    /// The budget for a new run.
    pub(crate) fn budget_of_run(&self) -> Budget {
        let rails = Arc::clone(self.agent.guardrails());
        Budget::of_run(&self.budget, self.agent.run_limits().clone(), rails)
    }

    /// The error if a limit of the conversation, of the agent or of the program forbids to ask the model outside of a
    /// run.
    pub(crate) fn may_ask(&self) -> Result<(), Error> {
        let rails = Arc::clone(self.agent.guardrails());
        let budget = Budget::of_run(&self.budget, Limits::new(), Arc::clone(&rails));
        let (provider, model) = self.agent.provider_and_model();
        match guard(&self.agent, rails, budget).before_turn(provider, model) {
            Some(reached) => {
                let text = format!(
                    "the model was not asked, since a limit is reached: {}",
                    reached.detail
                );
                Err(Error::new(ErrorKind::Limit, text))
            }
            None => Ok(()),
        }
    }

    /// The budget of the stopped run, for a run that continues it.
    pub(crate) fn budget_of_last_run(&self) -> Budget {
        self.guard.budget().clone()
    }

    /// A budget for the stopped run that counts from zero.
    pub(crate) fn budget_anew(&self, last: &Budget) -> Budget {
        let rails = Arc::clone(self.agent.guardrails());
        last.anew(self.agent.run_limits().clone(), rails)
    }

    /// Begins a run with this budget, or continues the last run with the budget that it has.
    /// Returns the guard and the clock of the run before if this run does not continue it.
    pub(crate) fn begin_run(&mut self, budget: Budget, anew: bool) -> Option<(RunGuard, RunClock)> {
        if !anew {
            self.guard.resume();
            return None;
        }
        let mut guard = guard(&self.agent, Arc::clone(self.agent.guardrails()), budget);
        guard.resume_from(&self.guard);
        Some((mem::replace(&mut self.guard, guard), mem::take(&mut self.clock)))
    }

    /// What a person has allowed by *always* in this conversation, in the order of the answers.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// Withdraws what a person has allowed by *always*. From now on, each call of this scope is
    /// asked about again, also a call that was allowed by the grant and has not started. If a call
    /// had started in a process that is gone, and the grant let it run again, it is now [in
    /// doubt](Self::in_doubt). Returns whether there was such a grant. A conversation in a journal
    /// writes the change with the next run, or at once by [`save`](Self::save). If the process ends
    /// before that, the change is lost.
    pub fn revoke(&mut self, grant: &Grant) -> bool {
        if !self.grants.contains(grant) {
            return false;
        }
        let (call, scope) = (grant.call.clone(), grant.scope.clone());
        let allowed = self.machine.calls_of_grant(&call, &scope);
        let revoked = self.record(&Fact::GrantRevoked { call, scope });
        let undecided = |call| self.record(&Fact::CallUndecided { call });
        revoked.and_then(|()| allowed.into_iter().try_for_each(undecided)).is_ok()
    }

    /// The calls of this conversation that were told to stop, could not be stopped, and still run.
    /// When one has ended, the next run reports it by [`Event::ToolEnded`](crate::Event::ToolEnded)
    /// and tells the model.
    pub fn still_running(&self) -> Vec<StillRunning> {
        still_running_in(self.id())
    }

    /// What a decision about a call of this conversation is based on.
    pub(crate) fn approval_policy<'a>(&'a self, agent: &'a Agent) -> ApprovalPolicy<'a> {
        ApprovalPolicy {
            agent,
            options: self.options.as_deref(),
            grants: &self.grants,
            read: self.taint.sources(),
            conversation: self.name(),
            in_journal: self.is_in_journal(),
        }
    }

    /// Whether the conversation is kept in a journal, and not by another driver.
    pub(crate) fn is_in_journal(&self) -> bool {
        self.durable.as_ref().is_some_and(|durable| durable.journal().is_some())
    }

    /// The conversation's name in its journal. Without a journal, it is the conversation's id.
    pub(crate) fn name(&self) -> &str {
        self.durable.as_ref().map_or(self.id(), |durable| durable.id())
    }

    /// The id of the conversation: the id of its first message.
    pub(crate) fn id(&self) -> &str {
        self.machine.id()
    }

    /// The agent that answers.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Applies a fact. It is written to the journal at the next moment at which it has to be.
    pub(crate) fn record(&mut self, fact: &Fact) -> Result<(), Error> {
        self.fold(fact)?;
        self.only_looked_at = false;
        self.tell(fact);
        if self.durable.is_none() {
            return Ok(());
        }
        let elapsed = self.elapsed();
        let Some(durable) = &mut self.durable else { return Ok(()) };
        durable.add(fact, elapsed)
    }

    /// For how long the run has gone on, in milliseconds.
    pub(crate) fn elapsed(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Applies a fact to the machine and to everything else that is derived from the facts.
    pub(crate) fn fold(&mut self, fact: &Fact) -> Result<(), Error> {
        self.machine.apply(fact)?;
        self.fold_beside_machine(fact);
        Ok(())
    }

    /// Applies a fact to everything that is derived from the facts, except to the machine.
    pub(crate) fn fold_beside_machine(&mut self, fact: &Fact) {
        self.guard.apply(fact);
        if matches!(fact, Fact::Reopened { .. }) && self.machine.is_asking() {
            self.guard.request_was_lost();
        }
        if self.taint.apply(fact) {
            self.report_sources_to_caller();
        }
        self.agents.apply(fact);
        match fact {
            Fact::ModelReplied { usage, .. } | Fact::Interrupted { usage, .. } => {
                self.usage.add(usage);
            }
            Fact::CallDecided { call, decision } => {
                self.grants.extend(Grant::of(call, decision));
            }
            Fact::ContextCleared { .. } | Fact::ToolsFound { .. } => self.reset_estimate(),
            Fact::ContextCompacted { request, .. } => {
                self.usage.add(&request.usage);
                self.reset_estimate();
            }
            Fact::CompactionFailed { request, .. } => self.usage.add(&request.usage),
            Fact::GrantRevoked { call, scope } => {
                self.grants.retain(|kept| kept.call != *call || kept.scope != *scope);
            }
            _ => {}
        }
    }
}

/// A conversation whose facts are read.
struct ChatReader {
    chat: Chat,
    read: usize,
    /// Whether the run waited before the answers that were read last, if there are some.
    waited: Option<bool>,
}

impl ChatReader {
    fn new(agent: Agent) -> Self {
        Self { chat: Chat::uncounted(agent), read: 0, waited: None }
    }

    fn take(&mut self, envelope: &Envelope) -> Result<(), Error> {
        let Self { chat, read, waited } = self;
        let folded = envelope.fact().and_then(|fact| {
            let before = || chat.machine.next() == Action::AwaitAnswers;
            *waited = is_answer(&fact).then(|| waited.unwrap_or_else(before));
            chat.read_fact(&fact, envelope)
        });
        folded.map_err(|err| unreadable(*read, err))?;
        *read = read.saturating_add(1);
        Ok(())
    }
}

/// The guard that holds the limits of a run with this budget.
fn guard(agent: &Agent, rails: Arc<Guardrails>, budget: Budget) -> RunGuard {
    RunGuard::new(rails, Arc::clone(agent.models()), budget)
}

impl fmt::Debug for Chat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chat")
            .field("agent", &self.agent)
            .field("messages", &self.transcript().messages().len())
            .finish_non_exhaustive()
    }
}
