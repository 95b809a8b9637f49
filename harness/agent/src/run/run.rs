//! A run before it starts: its watcher, its stop tokens, and its options.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::{
    driver::RunDriver,
    input::RunInput,
    options::{RunOptions, offered},
    reply::{Reply, RunRecord, Stopped},
    steering::Steering,
    stop_signals::StopTokens,
};
use crate::{
    Event, Outcome,
    conversation::state::ConversationState,
    events::watcher::RunWatcher,
    output::spec::OutputSpec,
    subagent::{
        child_run::{ChildRun, ChildState},
        host::effects_of,
    },
};
use harness_core::{
    message::Message,
    policy::{Approver, Budget, Limits, Permissions},
    provider::Settings,
    stop::OnCancel,
    tool::ToolContext,
};

/// The work on one message of the user, until the answer. Await the run to get the reply.
///
/// If rustc says *no method named `text` found for struct `Run`*, or that `?` cannot be applied to it, the
/// `.await` is missing:
/// `chat.send("..").await?.text()`.
///
/// ```
/// use harness::{Agent, agent::Event, testing::{ScriptedProvider, reply}};
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let agent = Agent::builder(ScriptedProvider::new([reply().text("Hello.")])).build()?;
/// let mut shown = String::new();
/// agent
///     .run("Say hello.")
///     .on_event(|event| {
///         if let Event::Text(text) = event {
///             shown.push_str(text);
///         }
///     })
///     .await?;
/// assert_eq!(shown, "Hello.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is sent before it is awaited"]
pub struct Run<'a> {
    state: StateRef<'a>,
    begins: PreparedRun<'a>,
    /// The call of another run that starts this run, if there is one.
    call: Option<Box<ChildRun>>,
}

enum StateRef<'a> {
    Borrowed(&'a mut ConversationState),
    Owned(Box<ConversationState>),
}

impl StateRef<'_> {
    fn is_owned(&self) -> bool {
        matches!(self, Self::Owned(_))
    }

    fn state(&mut self) -> &mut ConversationState {
        match self {
            Self::Borrowed(state) => state,
            Self::Owned(state) => state,
        }
    }
}

impl Run<'static> {
    pub(crate) fn owned(state: ConversationState, message: Message) -> Self {
        Self::new(StateRef::Owned(Box::new(state)), RunInput::Say(message.renewed()))
    }
}

impl<'a> Run<'a> {
    pub(crate) fn borrowed(state: &'a mut ConversationState, message: Message) -> Self {
        Self::new(StateRef::Borrowed(state), RunInput::Say(message.renewed()))
    }

    pub(crate) fn resuming(state: &'a mut ConversationState) -> Self {
        Self::new(StateRef::Borrowed(state), RunInput::Resume)
    }

    fn new(mut state: StateRef<'a>, input: RunInput) -> Self {
        let anew = matches!(input, RunInput::Say(_));
        let budget = match (&mut state, anew) {
            (StateRef::Borrowed(state), true) => state.spending.budget_of_run(&state.agent),
            (StateRef::Borrowed(state), false) => state.spending.budget_of_last_run(),
            (StateRef::Owned(state), _) => state.spending.budget_of_run(&state.agent),
        };
        let begins = PreparedRun {
            input,
            watch: RunWatcher::default(),
            stops: StopTokens::default(),
            tool_time: None,
            budget,
            anew,
            options: None,
        };
        Self { state, begins, call: None }
    }

    /// Calls `watch` with every event as it happens. `watch` replaces the function of an earlier call of this
    /// method.
    pub fn on_event<'b>(self, watch: impl FnMut(Event<'_>) + Send + 'b) -> Run<'b>
    where
        'a: 'b,
    {
        let mut run: Run<'b> = self;
        run.begins.watch = RunWatcher::new(watch);
        run
    }

    /// Calls `first` with every event, before the function of [`on_event`](Self::on_event).
    pub(crate) fn with_first_watcher<'b>(self, first: impl FnMut(Event<'_>) + Send + 'b) -> Run<'b>
    where
        'a: 'b,
    {
        let mut run: Run<'b> = self;
        run.begins.watch = run.begins.watch.after(first);
        run
    }

    /// Adds messages for this run, besides those of the run's own [`steering`](Self::steering).
    pub(crate) fn with_steering(mut self, steering: &Steering) -> Self {
        self.options().handed_on = Some(steering.clone());
        self
    }

    /// Returns a token that also stops the run. The token of [`cancel_with`](Self::cancel_with) still works.
    pub(crate) fn with_stop_token(mut self) -> (Self, CancellationToken) {
        let stop = self.begins.stops.now.child_token();
        self.begins.stops.now = stop.clone();
        (self, stop)
    }

    /// Lets the run pause after some events, so that the receiver can read them before the run continues.
    pub(crate) fn with_pauses(mut self) -> Self {
        self.begins.watch = self.begins.watch.with_pauses();
        self
    }

    /// Sets how long each tool call of this run may take, including retries and waits. The limits of the tool
    /// and the agent's [`ToolLimits`](harness_core::tool::ToolLimits) also apply.
    pub fn tool_time(mut self, limit: Duration) -> Self {
        self.begins.tool_time = Some(limit);
        self
    }

    /// Shares a value with the tools of this run, such as the user whom the run serves. A tool takes the value
    /// as a parameter [`State<T>`](harness_core::tool::State). The value replaces a value of the same type of
    /// the [conversation](crate::Chat::state) or the [agent](crate::AgentBuilder::state). See
    /// [`AgentBuilder::state_per_run`](crate::AgentBuilder::state_per_run). The value is not written to a
    /// journal: set it again for a run that is [resumed](crate::Chat::resume).
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.options().values.insert(Arc::new(value));
        self
    }

    /// Sets the settings of this run's requests, such as the temperature. A setting that is not set in
    /// `settings` keeps the provider's value. The settings are not written to a journal: set them again for a
    /// run that is [resumed](crate::Chat::resume).
    ///
    /// Settings that change the beginning of a request cause a cache miss at the vendor. A value in
    /// [`extra`](Settings::extra) with a name such as `authorization` is hidden in the provider's errors, like
    /// the provider's own keys.
    ///
    /// ```
    /// use harness::{
    ///     Agent,
    ///     provider::{Effort, Settings},
    ///     testing::{ScriptedProvider, reply},
    /// };
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let model = ScriptedProvider::new([reply().text("Let me think.")]);
    /// let agent = Agent::builder(model.clone()).build()?;
    /// let hard = Settings { effort: Some(Effort::High), ..Settings::default() };
    /// agent.run("Is P equal to NP?").settings(hard.clone()).await?;
    /// assert_eq!(model.requests()[0].settings(), Some(&hard));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn settings(mut self, settings: Settings) -> Self {
        self.options().settings = Some(settings);
        self
    }

    /// Adds permissions for this run to the permissions of the [agent](crate::AgentBuilder::permissions). A call
    /// is denied if the run's or the agent's permissions deny it. A call needs a person's approval if the run's
    /// or the agent's permissions require an approval. If either of them allows a call, the call's side effects
    /// alone do not make an approval necessary: see [`Permissions`]. So set the rules for all users on the
    /// agent, and the additional rules for one user on the run.
    ///
    /// The permissions are not written to a journal: set them again for a run that is
    /// [resumed](crate::Chat::resume). The new permissions then check again a call that was allowed but has
    /// not started.
    ///
    /// ```
    /// use harness::{
    ///     Agent, CallOutcome, Permissions,
    ///     testing::{ScriptedProvider, reply},
    ///     tool, tools,
    /// };
    /// use serde_json::json;
    ///
    /// /// Closes an account.
    /// #[tool(side_effects = "mutate")]
    /// fn close(/** Whose */ name: String) -> String {
    ///     format!("{name} is closed")
    /// }
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let model = ScriptedProvider::answering(|request| match request.results().next() {
    ///     Some(result) => reply().text(result.to_text()),
    ///     None => reply().call("close", json!({"name": "ada"})),
    /// });
    /// let agent = Agent::builder(model).tools(tools![close]).build()?;
    /// let admin = agent.run("Close ada.").permissions(Permissions::default().allow("close"));
    /// assert_eq!(admin.await?.text(), "ada is closed");
    /// let guest = agent.run("Close ada.").await?;
    /// assert!(guest.text().contains("was not allowed"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.options().permissions = Some(Arc::new(permissions));
        self
    }

    /// Sets the approver of this run, in place of the agent's [approver](crate::AgentBuilder::approver).
    /// `person` is a name that distinguishes this person from other people in the same conversation, in all
    /// processes. An *always* of this person holds only in runs with the same `person`. An *always* of the
    /// agent's own approver holds only in runs without an approver of their own.
    ///
    /// The approver is not written to a journal: set it again for a run that is [resumed](crate::Chat::resume).
    /// A decision about one call holds even if a later run has another approver, unless the permissions deny
    /// the call.
    ///
    /// ```
    /// use harness::{
    ///     Agent,
    ///     policy::ApprovalRequest,
    ///     testing::{ScriptedProvider, reply},
    ///     tool, tools,
    /// };
    /// use serde_json::json;
    ///
    /// /// Sends a letter.
    /// #[tool(side_effects = "mutate")]
    /// fn letter(/** To whom */ to: String) -> String {
    ///     format!("sent to {to}")
    /// }
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let model = ScriptedProvider::answering(|request| match request.results().next() {
    ///     Some(result) => reply().text(result.to_text()),
    ///     None => reply().call("letter", json!({"to": "Bob"})),
    /// });
    /// let agent = Agent::builder(model).tools(tools![letter]).build()?;
    /// let mut chat = agent.chat();
    /// let ada = |question: ApprovalRequest| async move { question.always() };
    /// let eve = |question: ApprovalRequest| async move { question.no("not in my name") };
    /// assert_eq!(chat.send("Write.").approver("ada", ada).await?.text(), "sent to Bob");
    /// let denied = chat.send("Write.").approver("eve", eve).await?;
    /// assert!(denied.text().contains("not in my name"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn approver(
        mut self,
        person: impl Into<String>,
        approver: impl Approver + 'static,
    ) -> Self {
        self.options().approver = Some((person.into(), Arc::new(approver)));
        self
    }

    /// Offers only these of the agent's tools in this run, in the agent's order. A call of another tool does not
    /// run: its result says that the tool is not offered now. If no tool has one of the names, the run fails
    /// before any request is sent. The choice is not written to a journal: a run that is
    /// [resumed](crate::Chat::resume) without this method offers all tools.
    ///
    /// A model that [binds its reasoning](harness_core::models::Model::binds_reasoning) gets the same tools as
    /// before, so that its earlier reasoning stays valid. OpenAI is told by `allowed_tools` which of them may be
    /// called. For other models, requests begin with these tools alone, so another choice than before causes a
    /// cache miss at the vendor: the whole conversation is read once at the full price. To change from turn to
    /// turn which tools may be called, [deny](Permissions::deny) the calls instead. To forbid all calls, set
    /// [`ToolChoice::Forbidden`](harness_core::provider::ToolChoice::Forbidden). Both leave the tools unchanged.
    ///
    /// ```
    /// use harness::{Agent, testing::{ScriptedProvider, reply}, tool, tools};
    ///
    /// /// Looks something up.
    /// #[tool(side_effects = "read")]
    /// fn look(/** What */ what: String) -> String {
    ///     what
    /// }
    ///
    /// /// Writes something down.
    /// #[tool(side_effects = "write")]
    /// fn write(/** What */ what: String) -> String {
    ///     what
    /// }
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let model = ScriptedProvider::new([reply().text("Nothing found.")]);
    /// let agent = Agent::builder(model.clone()).tools(tools![look, write]).build()?;
    /// agent.run("Where is it?").only_tools(["look"]).await?;
    /// assert_eq!(model.requests()[0].tool_names(), ["look"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn only_tools(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let Self { state, begins, .. } = &mut self;
        begins.options.get_or_insert_default().offer(&state.state().agent, &names);
        self
    }

    /// Makes this a run inside the call of a tool, like the run of an agent that is [a
    /// tool](crate::Agent::as_tool). The spending of this run counts for the caller's run, and a stop of the
    /// caller's run also stops this run. The caller's permissions and approver apply to the calls of this
    /// run. An approver of this run is used only if the caller has none. The watcher of the caller gets the
    /// events of this run. If the caller's conversation is in a journal, a run of
    /// [`Agent::run`](crate::Agent::run) gets a conversation named `<caller>/<call id>`. If the program has
    /// made `context` itself, only the cancellation of that context applies.
    ///
    /// The tool has to declare all side effects that the agent's tools declare. Otherwise the run fails and
    /// sends no request. If the process ends and the call is repeated, the agent continues where it stopped. So
    /// a tool that runs several agents has to start them in the same order and with the same messages each
    /// time.
    ///
    /// If a call of the agent waits for a later decision or answer, the run ends as [`Outcome::Waiting`]. Return
    /// this error from the tool. Then the tool's call also waits, and is repeated from its beginning when there
    /// is an answer. The same holds for an agent whose conversation is open elsewhere
    /// ([`ErrorKind::Busy`](harness_core::error::ErrorKind::Busy)) or whose journal failed. If the tool returns
    /// an error of its own, the text of that error has to contain the text of the run's error. Otherwise the
    /// call fails and does not wait, unless the tool only reads or is
    /// [idempotent](harness_core::tool::Tool::idempotent).
    ///
    /// ```
    /// use harness::{
    ///     Agent, State, ToolContext, ToolError,
    ///     testing::{ScriptedProvider, reply},
    ///     tool, tools,
    /// };
    /// use serde_json::json;
    ///
    /// /// Looks something up, at length.
    /// #[tool(side_effects = "read")]
    /// async fn research(
    ///     /** What is asked */ question: String,
    ///     researcher: State<Agent>,
    ///     context: ToolContext,
    /// ) -> Result<String, ToolError> {
    ///     let task = format!("Find out, with two sources: {question}");
    ///     Ok(researcher.run(task).in_call(&context).await?.text().to_owned())
    /// }
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let reader = ScriptedProvider::new([reply().text("It is 42.").tokens(4_000, 20)]);
    /// let model = ScriptedProvider::new([
    ///     reply().call("research", json!({"question": "What is it?"})).tokens(100, 10),
    ///     reply().text("42.").tokens(150, 5),
    /// ]);
    /// let researcher = Agent::builder(reader).build()?;
    /// let agent = Agent::builder(model).tools(tools![research]).state(researcher).build()?;
    /// let reply = agent.run("What is the answer?").await?;
    /// assert_eq!(reply.usage().input, Some(250), "this agent's own turns");
    /// assert_eq!(reply.spent().usage.input, Some(4_250), "with all that its tools have spent");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn in_call(mut self, context: &ToolContext) -> Self {
        let call = ChildRun::of(context, self.state.is_owned());
        let agent = self.state.state().agent.clone();
        let options = self.options();
        for announced in agent.per_run() {
            options.values.take_over(announced.id(), context.values());
        }
        options.caller = call.site().cloned();
        options.places = context.held_limits().to_vec();
        if let Some(budget) = call.budget() {
            self.begins.budget.within(budget);
        }
        self.call = Some(Box::new(call));
        self
    }

    /// Sets the wanted form of the answer.
    pub(crate) fn with_output_spec(mut self, mut output_spec: OutputSpec) -> Self {
        let before = self.options().output_spec.take();
        output_spec.verifier = output_spec.verifier.or(before.and_then(|before| before.verifier));
        let Self { state, begins, .. } = &mut self;
        if let RunInput::Say(message) = &mut begins.input {
            *message = output_spec.with_schema_text(message, state.state().agent.provider());
        }
        self.options().output_spec = Some(output_spec);
        self
    }

    fn options(&mut self) -> &mut RunOptions {
        self.begins.options.get_or_insert_default()
    }

    /// Sets what this run may spend, including the agents that its tools run: see [`Limits`]. A limit that is
    /// not set in `limits` keeps the agent's value for [each run](crate::AgentBuilder::run_limits). The
    /// number of turns is set for all runs of an agent, by
    /// [`AgentBuilder::guardrails`](crate::AgentBuilder::guardrails).
    ///
    /// If a run is [resumed](crate::Chat::resume) without this method, its earlier spending still counts. With
    /// new limits, even with `Limits::new()`, everything that limits the run counts from zero, including its
    /// turns and its time.
    ///
    /// ```
    /// use harness::{Agent, Limits, Outcome, journal::LimitKind, testing::{ScriptedProvider, reply}};
    /// use serde_json::json;
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let model = ScriptedProvider::new([reply().call("look", json!({})).tokens(900, 20)]);
    /// let agent = Agent::builder(model).build()?;
    /// let stopped = agent.run("Go.").limits(Limits::new().input_tokens(500)).await.unwrap_err();
    /// assert_eq!(stopped.outcome(), Outcome::Limit(LimitKind::InputTokens));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn limits(mut self, limits: Limits) -> Self {
        if !self.begins.anew {
            if let StateRef::Borrowed(state) = &self.state {
                self.begins.budget = state.spending.budget_anew(&state.agent, &self.begins.budget);
            }
            self.begins.anew = true;
        }
        self.begins.budget.limit(&limits);
        self
    }

    /// Makes the run also spend from a budget that the program has made. (The run of an agent in a tool call
    /// gets its caller's budget by [`in_call`](Self::in_call).) The spending of the run counts for this
    /// budget, too. The run stops when this budget is used up. It also stops when an outer budget is used up,
    /// if that budget was connected to this budget before this method is called. So connect outer budgets
    /// first. For several budgets, call this method several times. See [`Budget`].
    pub fn within(self, budget: &Budget) -> Self {
        self.begins.budget.within(budget);
        self
    }

    /// The spending of the run and of the agents in its calls, and the rest of its limits and of its outer
    /// budgets. The program can read the returned value while the run goes on.
    pub fn budget(&self) -> Budget {
        self.begins.budget.clone()
    }

    /// Lets the user send messages while the run goes on: see [`Steering`]. The value is not written to a
    /// journal: set it again for a run that is [resumed](crate::Chat::resume).
    pub fn steering(mut self, steering: &Steering) -> Self {
        self.options().steering = Some(steering.clone());
        self
    }

    /// Stops the run when this token is cancelled. The run then ends as
    /// [`Outcome::Cancelled`](crate::Outcome::Cancelled), and keeps its messages so far.
    pub fn cancel_with(mut self, token: CancellationToken) -> Self {
        self.begins.stops.now = token;
        self
    }

    /// Stops the run after the current turn when this token is cancelled: the model completes its answer, its
    /// calls run to their ends, and no further request is sent to the model.
    pub fn stop_after_turn(mut self, token: CancellationToken) -> Self {
        self.begins.stops.after_turn = token;
        self
    }
}

impl<'a> IntoFuture for Run<'a> {
    type Output = Result<Reply, Stopped>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { mut state, begins, call } = self;
        match call {
            None => Box::pin(async move {
                let (mut run, input, anew) = start_run(state.state(), begins);
                run.drive(input, anew).await
            }),
            Some(call) => Box::pin(run_in_call(state, begins, call)),
        }
    }
}

/// Runs an agent inside a call. This is a separate future, so that the futures of other runs are smaller.
async fn run_in_call(
    mut state: StateRef<'_>,
    mut begins: PreparedRun<'_>,
    call: Box<ChildRun>,
) -> Result<Reply, Stopped> {
    // If the library has asked the call to stop, this run is stopped before it begins.
    let effects = effects_of(offered(&state.state().agent, begins.options.as_deref()));
    let secrets = state.state().agent.secrets().clone();
    let refused = |error: harness_core::error::Error| {
        let error = error.cleaned(&secrets);
        Stopped::new(Outcome::Failed, Some(error), None, RunRecord::default())
    };
    if !state.is_owned() {
        call.admit(effects).map_err(refused)?;
    }
    let may_begin = Box::pin(call.may_begin()).await;
    if let (StateRef::Owned(new), true) = (&mut state, may_begin) {
        // Boxed, so that the memory of this future is freed before the run begins.
        let output_spec = begins.options.as_ref().and_then(|options| options.output_spec.as_ref());
        match Box::pin(call.open_or_begin(new, effects, (&begins.input, output_spec))).await {
            Ok(ChildState::New) => {}
            Ok(ChildState::Finished(mut state, outcome)) => {
                let ended = RunDriver::finished_reply(&mut state, outcome);
                Box::pin(call.handle_run_end(&ended, &state, true)).await;
                return ended;
            }
            Ok(ChildState::Interrupted(mut state)) => {
                (begins.input, begins.anew) = (RunInput::Resume, false);
                begins.budget = state.spending.budget_of_last_run();
                if let Some(budget) = call.budget() {
                    begins.budget.within(budget);
                }
                *new = state;
            }
            Err(error) => {
                let stopped = refused(error);
                call.handle_open_failure(&stopped);
                return Err(stopped);
            }
        }
    }
    let is_kept = matches!(&state, StateRef::Owned(new) if new.is_in_journal());
    if let Some(options) = &mut begins.options {
        options.is_kept = is_kept;
    }
    begins.stops.now = begins.stops.now.child_token();
    let now = begins.stops.now.clone();
    let _stopped = OnCancel::new(&call.stop, move || now.cancel());
    let ended = {
        let (mut run, input, anew) = start_run(state.state(), begins);
        run.drive(input, anew).await
    };
    Box::pin(call.handle_run_end(&ended, state.state(), is_kept)).await;
    ended
}

/// The parts of a [`Run`] besides its conversation.
struct PreparedRun<'a> {
    input: RunInput,
    watch: RunWatcher<'a>,
    stops: StopTokens,
    tool_time: Option<Duration>,
    budget: Budget,
    /// Whether the run counts its spending from zero.
    anew: bool,
    options: Option<Box<RunOptions>>,
}

/// The driver of the run, the run's input, and whether the run counts its spending from zero. Not a future of its own,
/// which would hold these parts a second time.
fn start_run<'a>(
    state: &'a mut ConversationState,
    begins: PreparedRun<'a>,
) -> (RunDriver<'a>, RunInput, bool) {
    let PreparedRun { input, watch, stops, tool_time, budget, anew, options } = begins;
    state.set_options(options);
    let before =
        state.spending.begin_run(&state.agent, budget, anew, matches!(input, RunInput::Resume));
    (RunDriver::new(state, watch, stops, tool_time).after(before), input, anew)
}

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("opening", &self.begins.input).finish_non_exhaustive()
    }
}
