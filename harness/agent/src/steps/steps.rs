//! Runs the loop one action at a time, for drivers outside of the library. An example is an engine that
//! stores the facts of each action and continues on another machine.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    Action, Agent, Answer, Machine, OpenCall, Settlement,
    approval::{CallResolution, ResolvedCall, doubtful_calls, in_doubt, waiting},
    compaction::window::edit_context,
    conversation::{durable::DurableState, spilling::LargeResultStore, state::ConversationState},
    events::watcher::RunWatcher,
    output::{
        answer_check::{check_answer, check_output_options, check_output_spec},
        spec::OutputSpec,
        typed::answered,
        verifier::{AnswerVerifier, verifier_of_text},
    },
    run::{
        driver::RunDriver,
        input::RunInput,
        kept_places::KeptPlaces,
        step::{RunStep, next_step},
    },
    steps::live::LiveEvents,
};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{Envelope, Fact, InterruptCause, WriterId, now},
    message::{Message, ToolCall, Transcript},
    policy::{Approval, Limits},
    provider::Usage,
    tool::{SharedValues, ToolList},
    trace::new_run,
};

/// A conversation whose actions are done by another driver, one at a time. An example is an engine that
/// stores the facts of each action and continues on another machine if this machine fails.
///
/// An action returns facts, which can be stored as JSON. The facts take effect only when they are passed to
/// [`apply`](Self::apply). So a driver can apply stored facts later without doing the action again. The
/// [`next`](Self::next) action depends only on the facts, so a replay has the same actions. Limits,
/// permissions and tools are used only when an action is done. The library's own driver uses the same code.
///
/// An engine repeats an action whose facts it has not stored. Read-only calls start and run in one action,
/// and may be repeated. A call with side effects starts in one action and runs in the next one. The call runs
/// only once, and only in the `Steps` that returned the fact of its start: make new `Steps` for each replay.
/// In all other `Steps`, the action returns the fact that the conversation was
/// [reopened](harness_core::journal::Fact::Reopened). Then the call runs again if it is idempotent. If not,
/// its tool [finds out](macro@harness_core::tool) the outcome, or the call is in doubt. The library cannot
/// see a call that still runs on another machine. So an engine must be sure that an action has stopped before
/// it repeats the action elsewhere.
///
/// If another process has decided about a call, this agent's permissions check the call again before it starts.
/// If these permissions deny the call, it does not run. If these permissions require an approval, a person is
/// asked, unless a person has already approved this call.
///
/// ```
/// use harness::{
///     Agent, Outcome,
///     agent::Action,
///     journal::Envelope,
///     testing::{ScriptedProvider, reply},
/// };
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let agent = Agent::builder(ScriptedProvider::new([reply().text("Hello.")])).build()?;
/// // What the engine has kept, such as the lines of a file: none the first time.
/// let mut kept: Vec<String> = Vec::new();
/// let mut steps = agent.steps("chat-17", Vec::new())?;
/// let outcome = loop {
///     let facts = match steps.next() {
///         Action::AwaitUser => steps.say("Say hello.".into()).await?,
///         // Calls wait: see `waiting`, `decided` and `settled`.
///         Action::AwaitAnswers => break Outcome::Waiting,
///         Action::Finish(outcome) => break outcome,
///         _ => steps.act().await?,
///     };
///     // Kept before they are applied.
///     kept.push(serde_json::to_string(&facts)?);
///     steps.apply(facts)?;
/// };
/// assert_eq!(outcome, Outcome::Answered);
///
/// // In another process, whatever action the first one has died in: the same loop goes on after this.
/// let mut steps = agent.steps("chat-17", Vec::new())?;
/// for line in &kept {
///     steps.apply(serde_json::from_str::<Vec<Envelope>>(line)?)?;
/// }
/// assert_eq!(steps.next(), Action::Finish(Outcome::Answered));
/// assert_eq!(steps.transcript().messages().last().unwrap().text(), "Hello.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Steps {
    agent: Agent,
    name: Arc<str>,
    /// The writer id of the facts that these steps return. Only calls whose start has this writer id run
    /// here.
    life: WriterId,
    facts: Arc<Vec<Envelope>>,
    machine: Machine,
    /// For each call without a result: the number of the fact that records its start, and the writer of that
    /// fact.
    starts: HashMap<String, StartFact>,
    /// The start facts of the calls that these steps have run.
    begun: StartedCalls,
    /// The open calls that these steps have decided. Other calls may have been decided by other rules.
    decided: HashSet<String>,
    /// Concurrency permits of calls that have started and do not run yet.
    kept: KeptPlaces,
    values: SharedValues,
    limits: Option<Limits>,
    pub(crate) output_spec: Option<OutputSpec>,
    /// Who gets the events of actions and facts.
    live: Option<Arc<LiveEvents>>,
    /// The name of the run in which the actions are traced.
    traced: Arc<str>,
}

/// The number of a fact, and its writer.
type StartFact = (usize, WriterId);

/// For each call that was run: the number of its start fact, and whether the call still runs.
type StartedCalls = Arc<Mutex<HashMap<usize, bool>>>;

impl Agent {
    /// Begins a conversation whose actions are done by another driver. `facts` are the conversation's facts
    /// so far.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`](harness_core::error::ErrorKind::Journal) if a fact cannot be read or
    /// cannot follow the facts before it.
    pub fn steps(
        &self,
        conversation: impl Into<Arc<str>>,
        facts: Vec<Envelope>,
    ) -> Result<Steps, Error> {
        let mut steps = Steps {
            agent: self.clone(),
            name: conversation.into(),
            life: WriterId::random(),
            facts: Arc::default(),
            machine: Machine::new(),
            starts: HashMap::new(),
            begun: StartedCalls::default(),
            decided: HashSet::new(),
            kept: KeptPlaces::default(),
            values: SharedValues::default(),
            limits: None,
            output_spec: None,
            live: None,
            traced: new_run().into(),
        };
        steps.apply(facts).map_err(|err| {
            let number = steps.facts.len();
            let what = format!("fact {number} of the conversation cannot be read");
            Error::new(ErrorKind::Journal, format!("{what}: {err}")).with_source(err)
        })?;
        Ok(steps)
    }
}

impl Steps {
    /// Shares a value with the tools, as [`Run::state`](crate::Run::state) does. The value is not part of the
    /// facts: set it on the steps of each replay.
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.values.insert(Arc::new(value));
        self
    }

    /// Sets the limits of a run that begins here, as [`Run::limits`](crate::Run::limits) does. A run that is
    /// resumed here counts from zero. The limits are part of the facts with which the run begins.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Requests the answer of a run that begins here as a value of the type `T`, as
    /// [`Run::answer`](crate::Run::answer) does. A run that is resumed here checks its answers against `T`.
    /// The first facts of a run contain the schema, and steps without a type check answers against that
    /// schema. [`answered`](Self::answered) returns the value.
    #[must_use]
    pub fn answer<T: Answer>(mut self) -> Self {
        let verifier = self.output_spec.take().and_then(|output_spec| output_spec.verifier);
        self.output_spec = Some(OutputSpec { verifier, ..OutputSpec::of::<T>() });
        self
    }

    /// Adds a function of the program that checks the answers, as [`Run::verify`](crate::Run::verify) does.
    /// The function gets the answer as text, even if the answer has a type. The function is not part of the
    /// facts: set it on the steps of each replay. The check of an answer is an action of its own. An engine
    /// repeats the check if it has not stored the facts of that action.
    #[must_use]
    pub fn verify<F, V, O, E>(mut self, most: u32, verify: F) -> Self
    where
        F: Fn(String) -> V + Send + Sync + 'static,
        V: Future<Output = Result<O, E>> + Send + 'static,
        E: fmt::Display,
    {
        let output_spec = self.output_spec.get_or_insert_default();
        output_spec.verifier = Some((most, verifier_of_text(verify)));
        self
    }

    /// Passes events to the watchers in this process: those of each [action](Self::act) while it goes on, and
    /// those of all [applied](Self::apply) facts. See [`LiveEvents`].
    #[must_use]
    pub fn report_to(mut self, live: &Arc<LiveEvents>) -> Self {
        live.apply_known(&self.facts);
        self.live = Some(Arc::clone(live));
        self
    }

    /// The facts so far.
    pub fn facts(&self) -> &[Envelope] {
        &self.facts
    }

    /// All messages so far.
    pub fn transcript(&self) -> &Transcript {
        self.machine.transcript()
    }

    /// The calls that wait for a decision, a result or an answer, in order. Answer a call by
    /// [`decided`](Self::decided) or [`settled`](Self::settled).
    pub fn waiting(&self) -> Vec<OpenCall> {
        waiting(&self.machine, Some(&self.name))
    }

    /// The calls whose outcome is not known, in order. The next [action](Self::act) lets their tools find out
    /// the outcomes, or records that the calls are in doubt. Before that action, the program can
    /// [record](Self::settled) an outcome itself.
    pub fn in_doubt(&self) -> Vec<OpenCall> {
        in_doubt(&self.machine, Some(&self.name))
    }

    /// Applies facts. Apply the facts of an action only once: most facts are refused the second time, but a
    /// message of the user may be added twice.
    ///
    /// # Errors
    /// Fails if a fact cannot be read, or cannot follow the facts before it. The facts before the failed fact
    /// have taken effect.
    pub fn apply(&mut self, facts: Vec<Envelope>) -> Result<(), Error> {
        for envelope in facts {
            let fact = envelope.fact()?;
            let was_asked = |call: &str| self.machine.undecided(call).is_some();
            let own = matches!(&fact, Fact::CallDecided { call, .. } if was_asked(call))
                && envelope.life == self.life;
            self.machine.apply(&fact)?;
            match fact {
                Fact::CallStarted { call } => {
                    self.starts.insert(call, (self.facts.len(), envelope.life));
                }
                Fact::CallDecided { call, .. } if own => {
                    self.decided.insert(call);
                }
                Fact::CallUndecided { call } => {
                    self.decided.remove(&call);
                }
                // The started calls whose execution has not begun will never run.
                Fact::Interrupted { .. } => self.kept.all().clear(),
                _ => {}
            }
            if !self.machine.is_calling() {
                self.starts.clear();
                self.decided.clear();
                self.kept.all().clear();
            }
            Arc::make_mut(&mut self.facts).push(envelope);
        }
        if let Some(live) = &self.live {
            live.apply_known(&self.facts);
        }
        Ok(())
    }

    /// Returns the next action, which follows from the facts alone:
    /// - [`AwaitUser`](Action::AwaitUser) and [`Finish`](Action::Finish): nothing, until the user
    ///   [sends](Self::say) a message or the run is [resumed](Self::resume),
    /// - [`AwaitAnswers`](Action::AwaitAnswers): nothing, until the [waiting](Self::waiting) calls are
    ///   answered,
    /// - all other actions: call [`act`](Self::act). That method may do another action than this one, for
    ///   example end the run at a limit.
    pub fn next(&self) -> Action {
        self.machine.next()
    }

    /// Begins a run with a message of the user. Open calls of the previous run do not run any more.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Busy`](harness_core::error::ErrorKind::Busy) while calls run in an
    /// [action](Self::act), with [`ErrorKind::Transcript`](harness_core::error::ErrorKind::Transcript) if the
    /// message is empty, with [`ErrorKind::Configuration`](harness_core::error::ErrorKind::Configuration) if the
    /// agent or these steps are not set up for a run, and with
    /// [`ErrorKind::Journal`](harness_core::error::ErrorKind::Journal) if the facts cannot be read in this
    /// process.
    pub fn say(
        &self,
        message: Message,
    ) -> impl Future<Output = Result<Vec<Envelope>, Error>> + Send + use<> {
        let message = message.renewed();
        let output_spec = self.output_spec.as_ref();
        let told = output_spec
            .map(|output_spec| output_spec.with_schema_text(&message, self.agent.provider()));
        self.open(RunInput::Say(told.unwrap_or(message)))
    }

    /// Continues a run that had stopped.
    ///
    /// # Errors
    /// Fails as [`say`](Self::say) does, and with
    /// [`ErrorKind::Transcript`](harness_core::error::ErrorKind::Transcript) if there is nothing to continue.
    pub fn resume(&self) -> impl Future<Output = Result<Vec<Envelope>, Error>> + Send + use<> {
        self.open(RunInput::Resume)
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    fn open(
        &self,
        input: RunInput,
    ) -> impl Future<Output = Result<Vec<Envelope>, Error>> + Send + use<> {
        let (snapshot, values, limits) =
            (self.snapshot(), self.values.clone(), self.limits.clone());
        let begun = Arc::clone(&self.begun);
        async move {
            // The outcome of a running call is known only when the call has ended.
            let runs =
                begun.lock().unwrap_or_else(PoisonError::into_inner).values().any(|runs| *runs);
            if runs {
                return Err(still_run());
            }
            let mut state = snapshot.chat_in_parts().await?;
            let is_said = matches!(input, RunInput::Say(_));
            let anew = is_said || limits.is_some();
            if anew {
                let budget = match is_said {
                    true => state.spending.budget_of_run(&state.agent),
                    false => {
                        let last = state.spending.budget_of_last_run();
                        state.spending.budget_anew(&state.agent, &last)
                    }
                };
                if let Some(limits) = limits {
                    budget.limit(&limits);
                }
                state.spending.begin_run(&state.agent, budget, true, !is_said);
            }
            // The results of these calls will not come, since other steps have started the calls.
            if state.machine.started().next().is_some() {
                let doubtful = doubtful_calls(&state);
                state.record(&Fact::Reopened { doubtful })?;
            }
            state.values = Some(values);
            let mut run = RunDriver::for_one_action(&mut state);
            run.begin_with(input, anew).await?;
            drop(run);
            Ok(collect_facts(state))
        }
    }

    /// Does the [`next`](Self::next) action to its end: sends a request to the model, decides about calls,
    /// starts or runs calls, finds out outcomes, or records the results of calls that will not run. A failure
    /// is recorded as a fact, too, and the run then ends as [`Outcome::Failed`](crate::Outcome::Failed). The
    /// result is empty if the run is over or waits for an answer from outside.
    ///
    /// Nothing happens before the future is awaited. The future borrows nothing, so an engine that has already
    /// stored the facts of this action can drop it. If the future is dropped after it was polled, see
    /// [`give_up`](Self::give_up).
    ///
    /// # Errors
    /// In these cases the action does nothing. It fails with
    /// [`ErrorKind::Journal`](harness_core::error::ErrorKind::Journal) if the facts cannot be read in this
    /// process. It fails with [`ErrorKind::Configuration`](harness_core::error::ErrorKind::Configuration) if
    /// an [announced](crate::AgentBuilder::state_per_run) value is missing, or if these steps request another
    /// type of answer than the beginning of the run. It fails with
    /// [`ErrorKind::Busy`](harness_core::error::ErrorKind::Busy) while calls run in another future of the
    /// same action. It fails with [`ErrorKind::Transcript`](harness_core::error::ErrorKind::Transcript) at
    /// [`AwaitUser`](Action::AwaitUser), where no run has begun.
    pub fn act(&self) -> impl Future<Output = Result<Vec<Envelope>, Error>> + Send + use<> {
        let (snapshot, kept) = (self.snapshot(), self.kept.clone());
        let (life, begun, values) = (self.life, Arc::clone(&self.begun), self.values.clone());
        let started = self.machine.started().map(|call| self.starts.get(call.id()).copied());
        let started: Vec<Option<StartFact>> = started.collect();
        let idle = self.machine.next() == Action::AwaitUser;
        let (live, facts) = (self.live.clone(), self.facts.len());
        async move {
            if idle {
                return Err(Error::new(
                    ErrorKind::Transcript,
                    "no run has begun: `say` begins one",
                ));
            }
            let mut state = snapshot.chat_in_parts().await?;
            state.values = Some(values);
            let does_nothing = |next: Action| {
                matches!(next, Action::Settle | Action::Finish(_) | Action::AwaitAnswers)
            };
            if !does_nothing(state.machine.next()) {
                state.check_options()?;
            }
            if state.machine.next() == Action::CheckAnswer {
                check_output_spec(&state)?;
                check_output_options(&state)?;
            }
            let owned = match state.machine.next() {
                Action::AwaitResults => claim_calls(started, life, &begun)?,
                _ => None,
            };
            let watch = live.map_or_else(RunWatcher::default, |live| {
                RunWatcher::default().after(move |event| live.report(life, facts, event))
            });
            let mut run = RunDriver::for_watched_action(&mut state, watch);
            run.calls.calls_from_previous_process =
                run.state.approvals.calls_from_previous_process.clone();
            run.calls.kept = kept;
            if let Err(error) = do_action(&mut run, owned.is_some()).await {
                run.interrupt(Some(error))?;
            }
            drop(run);
            Ok(collect_facts(state))
        }
    }

    /// Stops the run before an action has begun, for example because the driver has to stop. The next action
    /// records the outcomes of the open calls.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Transcript`](harness_core::error::ErrorKind::Transcript) if no run goes on.
    pub fn stop(&self, cause: InterruptCause) -> Result<Vec<Envelope>, Error> {
        let (message, usage, asked) = (None, Usage::default(), false);
        self.record_change(Fact::Interrupted { message, usage, cause, asked })
    }

    /// Stops the run during an action whose facts are lost, for example because the driver has to stop. A
    /// request that may have been sent to the model counts as a turn. The next action records an outcome for
    /// each call that may have run: *in doubt*, or
    /// [`StoppedReading`](harness_core::message::CallOutcome::StoppedReading) if the call only reads.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Transcript`](harness_core::error::ErrorKind::Transcript) if no run goes on.
    pub fn give_up(&self, cause: InterruptCause) -> Result<Vec<Envelope>, Error> {
        let next = self.machine.next();
        let mut state = self.snapshot().chat()?;
        // Read-only calls start and run in one action, without an earlier fact of their start.
        if let Action::RunCalls(calls) = &next
            && all_read(&self.machine, calls)
        {
            for call in calls {
                state.record(&Fact::CallStarted { call: call.id().to_owned() })?;
            }
        }
        let (message, usage, asked) = (None, Usage::default(), next == Action::CallProvider);
        state.record(&Fact::Interrupted { message, usage, cause, asked })?;
        Ok(collect_facts(state))
    }

    /// Shortens the facts of an action for a driver that cannot store all of them. Returns the first facts,
    /// as many as fit, and then the fact that the run failed because of `why`. The tokens of the removed
    /// facts still count. `fits` gets the first facts of the action, and returns whether the driver can store
    /// them.
    ///
    /// # Errors
    /// Fails if a fact cannot be read or cannot follow the facts before it. Fails with
    /// [`ErrorKind::Transcript`](harness_core::error::ErrorKind::Transcript) if no run goes on.
    pub fn cut_short(
        &self,
        mut facts: Vec<Envelope>,
        why: impl Into<String>,
        fits: impl Fn(&[Envelope]) -> bool,
    ) -> Result<Vec<Envelope>, Error> {
        let (mut usage, mut asked) = (Usage::default(), false);
        while !fits(&facts)
            && let Some(large) = facts.pop()
        {
            let used = match large.fact()? {
                Fact::ModelReplied { usage, .. } => {
                    asked = true;
                    usage
                }
                Fact::Interrupted { usage, asked: was_asked, .. } => {
                    asked |= was_asked;
                    usage
                }
                Fact::ContextCompacted { request, .. } | Fact::CompactionFailed { request, .. } => {
                    request.usage
                }
                // The usage of the agents that the call has run.
                Fact::CallFinished { spent: Some(spent), .. } => spent.usage,
                _ => continue,
            };
            usage.add(&used);
        }
        let mut snapshot = self.snapshot();
        Arc::make_mut(&mut snapshot.facts).extend(facts.iter().cloned());
        let mut state = snapshot.chat()?;
        let cause = InterruptCause::Failure { error: why.into(), public_text: None };
        state.record(&Fact::Interrupted { message: None, usage, cause, asked })?;
        facts.extend(collect_facts(state));
        Ok(facts)
    }

    /// Adds a message of the user while the run goes on. The model gets the message with the next request. If
    /// the model has just answered, the run continues, and its limits still count. While calls are open, the
    /// message is refused and nothing changes: keep the message and add it later.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Transcript`](harness_core::error::ErrorKind::Transcript) while calls wait for
    /// results, and while an answer is paused. Fails with the same kind if no run goes on, unless the last run
    /// has ended with an answer.
    pub fn steer(&self, message: impl Into<Message>) -> Result<Vec<Envelope>, Error> {
        let message = message.into().renewed();
        message.check_sendable()?;
        self.record_change(Fact::Steered { message })
    }

    /// Records a decision about a call that waits for a decision.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::NotWaiting`] if no call waits for this approval, if the deadline has passed, or
    /// if the run was stopped: the calls of a stopped run do not run any more.
    pub fn decided(&self, approval: Approval) -> Result<Vec<Envelope>, Error> {
        self.resolve_now(&CallResolution::Decide(approval))
    }

    /// Records the outcome of a call that is in doubt or waits for a result or an answer. This method checks
    /// the outcome at once. The returned future stores a large result and returns the facts.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::NotWaiting`] if the call does not wait for this outcome or the deadline has
    /// passed. An answer to a tool's question also fails after the run was stopped. The method fails with
    /// [`ErrorKind::Transcript`](harness_core::error::ErrorKind::Transcript) if the answer is nested too deep
    /// or a name in it begins with `$serde_json::private::`.
    pub fn settled(
        &self,
        settlement: Settlement,
    ) -> Result<impl Future<Output = Result<Vec<Envelope>, Error>> + Send + use<>, Error> {
        let resolution = CallResolution::Settle(settlement);
        let (resolved, snapshot) =
            (resolution.resolve(&self.machine, self.agent.tools())?, self.snapshot());
        Ok(async move {
            let mut state = snapshot.chat_in_parts().await?;
            let spilling = LargeResultStore::of(&state);
            let fact = resolved.into_fact(&state.machine, state.agent.tools(), &spilling).await;
            state.record(&fact)?;
            Ok(collect_facts(state))
        })
    }

    /// Records that the deadline of a waiting call has passed without an answer, by the clock of the driver.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::NotWaiting`] if no call with this id waits.
    pub fn expired(&self, call: &str) -> Result<Vec<Envelope>, Error> {
        self.resolve_now(&CallResolution::Expire(call.to_owned()))
    }

    /// The facts of a resolution that needs no store for large results.
    fn resolve_now(&self, resolution: &CallResolution) -> Result<Vec<Envelope>, Error> {
        match resolution.resolve(&self.machine, self.agent.tools())? {
            ResolvedCall::Fact(fact) => self.record_change(fact),
            ResolvedCall::Result { result, who } => {
                self.record_change(Fact::CallSettled { result, who, at: now(), spent: None })
            }
        }
    }

    /// The facts of a change that is not an action.
    fn record_change(&self, fact: Fact) -> Result<Vec<Envelope>, Error> {
        let mut state = self.snapshot().chat()?;
        state.record(&fact)?;
        Ok(collect_facts(state))
    }

    fn snapshot(&self) -> ChatSnapshot {
        let Self { agent, name, life, facts, traced, output_spec, .. } = self;
        let output_spec = output_spec.clone();
        let (agent, name, facts) = (agent.clone(), Arc::clone(name), Arc::clone(facts));
        let open = self.machine.open_calls().map(ToolCall::id);
        let elsewhere = open.filter(|call| !self.decided.contains(*call)).map(str::to_owned);
        let elsewhere = elsewhere.collect();
        ChatSnapshot {
            agent,
            name,
            life: *life,
            facts,
            traced: Arc::clone(traced),
            elsewhere,
            output_spec,
        }
    }

    /// Adds tools of the program that check the answers, as [`Run::verify_by`](crate::Run::verify_by) does. The
    /// tools are not part of the facts: set them on the steps of each replay.
    #[must_use]
    pub fn verify_by(mut self, most: u32, tools: impl ToolList) -> Self {
        self.output_spec.get_or_insert_default().verifier =
            Some((most, AnswerVerifier::tools(tools)));
        self
    }

    /// The last answer as a value: see [`Chat::answered`](crate::Chat::answered).
    ///
    /// # Errors
    /// Fails as [`Chat::answered`](crate::Chat::answered) does.
    pub fn answered<T: Answer>(&self) -> Result<T, Error> {
        answered(self.machine())
    }
}

/// A copy of the conversation for one action. The new facts take effect in [`Steps`] only when the driver
/// applies them.
struct ChatSnapshot {
    agent: Agent,
    name: Arc<str>,
    life: WriterId,
    facts: Arc<Vec<Envelope>>,
    traced: Arc<str>,
    /// The open calls about which another process has decided.
    elsewhere: HashSet<String>,
    output_spec: Option<OutputSpec>,
}

impl ChatSnapshot {
    fn chat(self) -> Result<ConversationState, Error> {
        let state = ConversationState::read(self.agent.clone(), &self.facts)?;
        Ok(self.of_action(state))
    }

    /// Does the same as [`chat`](Self::chat), but yields to other tasks of the thread while it folds the facts.
    async fn chat_in_parts(self) -> Result<ConversationState, Error> {
        let (mut state, _) =
            ConversationState::read_in_parts(self.agent.clone(), &self.facts).await?;
        state.count_for_agent();
        Ok(self.of_action(state))
    }

    fn of_action(self, mut state: ConversationState) -> ConversationState {
        state.approvals.calls_from_previous_process = self.elsewhere;
        if let Some(output_spec) = self.output_spec {
            state.options.get_or_insert_default().output_spec = Some(output_spec);
        }
        state.durable = Some(Box::new(DurableState::collecting(self.name, self.life)));
        state.tracer.within(&self.traced);
        state.tracer.add_open_calls(state.machine.open_calls());
        state
    }
}

/// The calls that run in an action. Dropping this value at the end of the action marks the calls as not
/// running.
struct ActionCalls {
    starts: Vec<usize>,
    begun: StartedCalls,
}

impl Drop for ActionCalls {
    fn drop(&mut self) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        for start in &self.starts {
            begun.insert(*start, false);
        }
    }
}

/// Claims the started calls for an action. Claims all of them or none, and each call only once. Returns `None`
/// if other steps have started one of the calls, or if one of the calls was claimed before.
///
/// # Errors
/// Fails if one of the calls still runs in another future of the same action.
fn claim_calls(
    started: Vec<Option<StartFact>>,
    life: WriterId,
    all: &StartedCalls,
) -> Result<Option<ActionCalls>, Error> {
    let mut begun = all.lock().unwrap_or_else(PoisonError::into_inner);
    let here = |start: &Option<StartFact>| start.is_some_and(|(_, by)| by == life);
    let starts: Vec<usize> = started.iter().flatten().map(|(number, _)| *number).collect();
    if starts.iter().any(|start| begun.get(start) == Some(&true)) {
        return Err(still_run());
    }
    if !started.iter().all(here) || starts.iter().any(|start| begun.contains_key(start)) {
        return Ok(None);
    }
    begun.extend(starts.iter().map(|start| (*start, true)));
    drop(begun);
    Ok(Some(ActionCalls { starts, begun: Arc::clone(all) }))
}

fn still_run() -> Error {
    let what = "calls still run in another future of these steps: await that one, or drop it";
    Error::new(ErrorKind::Busy, what)
}

fn collect_facts(mut state: ConversationState) -> Vec<Envelope> {
    state.durable.as_mut().map(|durable| durable.take_pending()).unwrap_or_default()
}

/// Whether all of these calls only read.
fn all_read(machine: &Machine, calls: &[ToolCall]) -> bool {
    let granted = calls.iter().map(|call| machine.approved(call.id()));
    granted.into_iter().all(|granted| granted.is_none_or(|it| it.effects.is_read_only()))
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steps")
            .field("conversation", &self.name)
            .field("facts", &self.facts.len())
            .finish_non_exhaustive()
    }
}

/// Does one action. `owns`: whether started calls may run here.
async fn do_action(run: &mut RunDriver<'_>, owns: bool) -> Result<(), Error> {
    match next_step(run.state) {
        RunStep::Ask => {
            run.ask().await?;
            match run.state.machine.next() {
                Action::Settle | Action::Finish(_) => run.settle(),
                _ if run.calls.early.len() > 0 => run.call(&[]).await,
                _ => Ok(()),
            }
        }
        RunStep::Move(due) => Box::pin(edit_context(run, due)).await,
        RunStep::Stop(cause) => run.record_interrupt(cause),
        RunStep::Decide { calls, surplus } => {
            run.refuse(&surplus)?;
            run.decide(&calls).await
        }
        RunStep::Run(calls) => begin_calls(run, &calls).await,
        RunStep::AwaitResults if owns => {
            let calls: Vec<ToolCall> = run.state.machine.started().cloned().collect();
            run.finish_started(&calls).await
        }
        RunStep::AwaitResults => {
            let doubtful = doubtful_calls(run.state);
            run.state.record(&Fact::Reopened { doubtful })
        }
        RunStep::FindOut(calls) => match run.find_out(&calls).await? {
            Some(cause) => run.record_interrupt(cause),
            None => Ok(()),
        },
        RunStep::Check => Box::pin(check_answer(run)).await,
        RunStep::Settle => run.settle(),
        RunStep::AwaitAnswers | RunStep::Finish(_) => Ok(()),
    }
}

/// Runs the calls if all of them only read. Otherwise only records that the calls start. After the driver has
/// applied these facts, the next action runs the calls.
async fn begin_calls(run: &mut RunDriver<'_>, calls: &[ToolCall]) -> Result<(), Error> {
    if all_read(&run.state.machine, calls) {
        return run.call(calls).await;
    }
    let offered = run.state.offered();
    for call in calls {
        // The concurrency permit is acquired before a fact records the start of the call.
        let place = match run.calls.contexts.places_of(offered.tools().get(call.name())) {
            None => None,
            Some(_) if run.calls.kept.has(call.id()) => None,
            Some(places) => places.clone().acquire().await,
        };
        if run.may_start(call)? {
            run.calls.kept.keep(call.id(), place);
        }
    }
    Ok(())
}
