//! A conversation that continues.

use std::{collections::HashSet, fmt, mem, sync::Arc, time::Duration};

use super::{
    Agent, Grant, Machine, Sending, answers::unreadable, circumstances::Circumstances,
    clock::RunClock, durable::Durable, found::Told, observed::Waits, permit::Asking, window::Gauge,
};
use crate::{
    error::Error,
    journal::{Entry, Envelope},
    message::{Message, Transcript},
    policy::{AgentSums, Budget, Exposed, Guard, Guardrails, Limits},
    provider::{Sent, Usage},
    tool::{StillRunning, Values, still_running_in},
    trace::Tracer,
};

/// A conversation that continues from one message to the next.
///
/// Whatever happens to a run (an error, a cancellation, a dropped future, a panic), its
/// transcript can be sent and tells the truth about each call.
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
    pub(super) agent: Agent,
    pub(super) machine: Machine,
    pub(super) guard: Guard,
    /// What all runs of the conversation have spent and may spend.
    budget: Budget,
    /// For how long the run has gone on.
    pub(super) clock: RunClock,
    /// How it stands in its journal, if it has one.
    pub(super) durable: Option<Durable>,
    /// Whether nothing has happened since it was opened in the middle of a run.
    pub(super) only_looked_at: bool,
    pub(super) tracer: Tracer,
    pub(super) usage: Usage,
    /// What the provider has written of the conversation already.
    pub(super) sent: Sent,
    /// What the messages amount to, each counted once.
    pub(super) gauge: Gauge,
    /// What the model is told of the tools, if it has found some.
    pub(super) told: Option<Arc<Told>>,
    /// What a person has allowed for the rest of the conversation.
    pub(super) grants: Vec<Grant>,
    /// Ends of calls that had been stopped of which it has heard.
    pub(super) heard_ends: HashSet<u64>,
    /// What the conversation has read, where a policy asks for it.
    pub(super) exposed: Exposed,
    /// What the conversation shares with its tools.
    pub(super) values: Option<Values>,
    /// What the run that goes on has brought.
    pub(super) own: Option<Box<Circumstances>>,
    /// Since when calls wait.
    pub(super) waits: Waits,
    /// Calls that were open when it was opened: what was decided about them was decided elsewhere, by
    /// other rules perhaps.
    pub(super) inherited: HashSet<String>,
    /// What the agents have spent that open calls run.
    pub(super) agents: AgentSums,
}

impl Chat {
    pub(super) fn new(agent: Agent) -> Self {
        let chat = Self::apart(agent);
        chat.budget.within(&chat.agent.budget());
        chat
    }

    /// A conversation that is not part of what its agent has spent.
    fn apart(agent: Agent) -> Self {
        let budget = Budget::of_conversation();
        // Until a run begins, nothing is spent.
        let idle = Budget::of_run(&budget, Limits::new(), Arc::clone(agent.guardrails()));
        let guard = guard(&agent, Arc::clone(agent.guardrails()), idle);
        let tracer = Tracer::new(agent.trace());
        let gauge = Gauge::new(agent.meter());
        Self {
            agent,
            machine: Machine::new(),
            guard,
            budget,
            clock: RunClock::default(),
            durable: None,
            only_looked_at: false,
            tracer,
            usage: Usage::default(),
            sent: Sent::new(),
            gauge,
            told: None,
            grants: Vec::new(),
            heard_ends: HashSet::new(),
            exposed: Exposed::default(),
            values: None,
            own: None,
            waits: Waits::default(),
            inherited: HashSet::new(),
            agents: AgentSums::default(),
        }
    }

    /// The conversation that these facts make. What was spent in them is no part of what its agent
    /// has spent in this process.
    pub(super) fn read(agent: Agent, facts: &[Envelope]) -> Result<Self, Error> {
        let mut chat = Self::read_apart(agent, facts)?;
        chat.counts_for_its_agent();
        Ok(chat)
    }

    /// What is spent from now on is part of what its agent spends.
    pub(super) fn counts_for_its_agent(&mut self) {
        self.budget.within(&self.agent.budget());
        self.guard.budget().within(&self.budget);
        self.guard.goes_on();
    }

    /// The same, and what is spent from now on is no part of that either.
    pub(super) fn read_apart(agent: Agent, facts: &[Envelope]) -> Result<Self, Error> {
        let mut chat = Self::apart(agent);
        for (number, envelope) in facts.iter().enumerate() {
            let folded = envelope.entry().and_then(|entry| chat.read_fact(&entry, envelope));
            folded.map_err(|err| unreadable(number, err))?;
        }
        Ok(chat)
    }

    pub(super) fn read_fact(&mut self, entry: &Entry, envelope: &Envelope) -> Result<(), Error> {
        let begins = match entry {
            Entry::UserSaid { limits, .. } => Some(limits.as_deref()),
            Entry::Resumed { limits: Some(limits), .. } => Some(Some(&**limits)),
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
            self.guard = guard(&self.agent, rails, budget);
        }
        self.fold(entry)?;
        self.guard.charge_agents(entry);
        self.waits.note(entry, || envelope.at);
        self.clock.was(Duration::from_millis(envelope.elapsed));
        Ok(())
    }

    pub(super) fn given(agent: Agent, mut transcript: Transcript) -> Self {
        transcript.settle();
        let mut chat = Self::new(agent);
        // Neither can fail: the transcript was settled above, and it is the first fact.
        let _ = chat.record(&Entry::Given { transcript });
        chat
    }

    /// Says something, and runs until the model has answered. Nothing happens before the result
    /// is awaited.
    ///
    /// Dropping the future stops the run: the transcript keeps what was said until then and the
    /// truth about each call.
    pub fn send(&mut self, message: impl Into<Message>) -> Sending<'_> {
        Sending::borrowed(self, message.into())
    }

    /// Goes on with a run that was stopped, or whose process has ended, from its last complete fact:
    /// what the tools have answered stands, and the model is asked again. Of a conversation in a
    /// [journal](crate::journal), calls run first that had not started or may be repeated, and those
    /// that have their answer now. If the model's reply broke off in the middle, it is told so and
    /// continues there. Await it for the reply.
    ///
    /// What the run had spent when it stopped still counts, so a run that reached a limit reaches it
    /// again. Give it [new limits](Sending::limits) to count anew.
    ///
    /// The run fails at once, with [`ErrorKind::Transcript`](crate::ErrorKind) and without a change, if
    /// there is nothing to go on with, since nothing was said or the model has answered.
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
    pub fn resume(&mut self) -> Sending<'_> {
        Sending::resuming(self)
    }

    /// What was said so far. It can be sent.
    pub fn transcript(&self) -> &Transcript {
        self.machine.transcript()
    }

    /// Tokens of all runs of this conversation: a lower bound if some are not known. What agents
    /// have used that tools call is part of [`budget`](Self::budget), and not of this.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Sets what all runs of the conversation may spend together, with all that the agents spend
    /// that its tools call: see [`Limits`]. What was spent before counts. Limits that are left open
    /// stay as they were; nothing limits a conversation unless it is set.
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

    /// Shares a value with the tools of all runs of the conversation, which take it as a parameter
    /// [`State<T>`](crate::State). It takes the place of a value of the same type that the agent has, and
    /// a run can bring another one in its place with [`Sending::state`]. It is not written down: give it
    /// anew to a conversation that is opened again, or forked.
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

    /// What all runs of the conversation have spent so far, with all that the agents have spent
    /// that its tools call, and what is left of its limits. It can be kept and asked while a run
    /// goes on. That of one run is told by [`Sending::budget`] and
    /// [`Reply::spent`](super::Reply::spent).
    pub fn budget(&self) -> Budget {
        self.budget.clone()
    }

    /// The budget of a run that is about to be sent.
    pub(super) fn budget_of_run(&self) -> Budget {
        let rails = Arc::clone(self.agent.guardrails());
        Budget::of_run(&self.budget, self.agent.run_limits().clone(), rails)
    }

    /// The budget of the run that was stopped, to go on with.
    pub(super) fn budget_of_last_run(&self) -> Budget {
        self.guard.budget().clone()
    }

    /// A budget of the run that was stopped with nothing spent.
    pub(super) fn budget_anew(&self, last: &Budget) -> Budget {
        let rails = Arc::clone(self.agent.guardrails());
        last.anew(self.agent.run_limits().clone(), rails)
    }

    /// A run begins, with this budget, or goes on with the one that it has. Gives what held the limits
    /// of the run before, if this one does not go on with it.
    pub(super) fn begins(&mut self, budget: Budget, anew: bool) -> Option<(Guard, RunClock)> {
        if !anew {
            self.guard.goes_on();
            return None;
        }
        let mut guard = guard(&self.agent, Arc::clone(self.agent.guardrails()), budget);
        guard.goes_on_from(&self.guard);
        Some((mem::replace(&mut self.guard, guard), mem::take(&mut self.clock)))
    }

    /// What a person has allowed by *always* in this conversation, in the order of the answers.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// Takes back what a person has allowed by *always*: from now on each call of this scope is
    /// asked about again, with those that were allowed by it and have not started. A call that had
    /// started in a process which is gone and was to run again by it is [in doubt](Self::in_doubt).
    /// Says whether there was such a grant. A conversation in a journal writes it with the next run, or at once by
    /// [`save`](Self::save): without that, it is lost when the process ends.
    pub fn revoke(&mut self, grant: &Grant) -> bool {
        if !self.grants.contains(grant) {
            return false;
        }
        let (call, scope) = (grant.call.clone(), grant.scope.clone());
        let allowed = self.machine.allowed_by(&call, &scope);
        let revoked = self.record(&Entry::GrantRevoked { call, scope });
        let undecided = |call| self.record(&Entry::CallUndecided { call });
        revoked.and_then(|()| allowed.into_iter().try_for_each(undecided)).is_ok()
    }

    /// The calls of this conversation that were told to stop, cannot be stopped and still run. When
    /// one has ended, the next run says so, by [`Event::ToolEnded`](super::Event::ToolEnded) and to
    /// the model.
    pub fn still_running(&self) -> Vec<StillRunning> {
        still_running_in(self.id())
    }

    /// What the decision about a call of this conversation is made from.
    pub(super) fn asking<'a>(&'a self, agent: &'a Agent) -> Asking<'a> {
        let exposure = self.exposed.exposure();
        let (name, in_journal) = (self.name(), self.is_in_journal());
        Asking::of(agent, self.own.as_deref(), &self.grants, exposure, name, in_journal)
    }

    /// Whether it is kept in a journal, and not by another driver.
    pub(super) fn is_in_journal(&self) -> bool {
        self.durable.as_ref().is_some_and(|durable| durable.journal().is_some())
    }

    /// The name of the conversation: in its journal, or where it has none what tells it from others.
    pub(super) fn name(&self) -> &str {
        self.durable.as_ref().map_or(self.id(), |durable| durable.id())
    }

    /// What tells the conversation from others: the id of its first message.
    pub(super) fn id(&self) -> &str {
        self.machine.id()
    }

    /// The agent that answers.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Lets a fact take effect. It is written down at the next moment at which it must be.
    pub(super) fn record(&mut self, entry: &Entry) -> Result<(), Error> {
        self.fold(entry)?;
        self.only_looked_at = false;
        self.tell(entry);
        let Some(durable) = &mut self.durable else { return Ok(()) };
        let elapsed = u64::try_from(self.clock.elapsed().as_millis()).unwrap_or(u64::MAX);
        durable.add(entry, elapsed)
    }

    /// Takes a fact into all that follows from the facts.
    pub(super) fn fold(&mut self, entry: &Entry) -> Result<(), Error> {
        self.machine.apply(entry)?;
        self.fold_beside_machine(entry);
        Ok(())
    }

    /// Takes a fact into all but what was said.
    pub(super) fn fold_beside_machine(&mut self, entry: &Entry) {
        self.guard.apply(entry);
        if let Some(egress) = self.agent.permissions().egress_policy() {
            self.exposed.apply(egress, entry);
        }
        self.agents.apply(entry);
        if let Some(own) = &mut self.own {
            own.fold(entry);
        }
        match entry {
            Entry::ModelReplied { usage, .. } | Entry::Interrupted { usage, .. } => {
                self.usage.add(usage);
            }
            Entry::CallDecided { call, decision } => {
                self.grants.extend(Grant::of(call, decision));
            }
            Entry::ContextCleared { .. } | Entry::ToolsFound { .. } => self.was_moved(),
            Entry::ContextCompacted { request, .. } => {
                self.usage.add(&request.usage);
                self.was_moved();
            }
            Entry::CompactionFailed { request, .. } => self.usage.add(&request.usage),
            Entry::GrantRevoked { call, scope } => {
                self.grants.retain(|kept| kept.call != *call || kept.scope != *scope);
            }
            _ => {}
        }
    }
}

/// What holds the limits of a run with this budget.
fn guard(agent: &Agent, rails: Arc<Guardrails>, budget: Budget) -> Guard {
    Guard::new(rails, Arc::clone(agent.models()), budget)
}

impl fmt::Debug for Chat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chat")
            .field("agent", &self.agent)
            .field("messages", &self.transcript().messages().len())
            .finish_non_exhaustive()
    }
}
