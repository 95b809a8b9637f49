//! An agent: a provider, a system prompt and tools, ready to run.

use std::{
    any::TypeId,
    collections::HashSet,
    fmt,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use crate::{
    Machine, OpenCall,
    run::{sent_prefix::PrefixPolicy, tool_search::deferred_tools},
};
use harness_core::{
    context::Window,
    error::{Error, ErrorKind},
    message::Transcript,
    models::Models,
    policy::{Approver, Budget, Guardrails, Limits, Permissions},
    provider::{ContextMeter, Provider},
    secret::{Secrets, is_findable},
    tool::{
        READ_RESULT, SpillFolder, StateType, TOOL_SEARCH, Tool, ToolContext, ToolLimits, ToolList,
        ToolRegistry, ToolSearch,
    },
    trace::Trace,
    unwind::caught,
};

/// A provider, a system prompt and tools, ready to run. Clones are cheap and share everything. An agent can
/// have any number of conversations at the same time.
///
/// ```
/// use harness::{Agent, testing::{ScriptedProvider, reply}, tool, tools};
///
/// /// Adds two numbers.
/// #[tool(side_effects = "none")]
/// fn add(/** First */ a: i64, /** Second */ b: i64) -> i64 {
///     a + b
/// }
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let model = ScriptedProvider::new([
///     reply().call("add", serde_json::json!({"a": 17, "b": 23})),
///     reply().text("It is 40."),
/// ]);
/// let agent = Agent::builder(model).system("Be concise.").tools(tools![add]).build()?;
/// let reply = agent.run("What is 17 + 23?").await?;
/// assert_eq!(reply.text(), "It is 40.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Agent(Arc<AgentInner>);

/// The type of the hook [`AgentBuilder::on_waiting`]. The hook gets the name of a conversation and one of its
/// waiting calls.
pub(super) type OnWaiting = dyn Fn(&str, &OpenCall) + Send + Sync;

#[derive(Clone)]
struct AgentInner {
    provider: Arc<dyn Provider>,
    system: Option<String>,
    tools: ToolRegistry,
    context: ToolContext,
    /// The types of the state values that every run must set.
    per_run: Vec<StateType>,
    permissions: Arc<Permissions>,
    approver: Option<Arc<dyn Approver>>,
    on_waiting: Option<Arc<OnWaiting>>,
    starts_early: bool,
    /// The guardrails, shared with every conversation.
    guardrails: Arc<Guardrails>,
    models: Arc<Models>,
    /// What each run may spend. A run can set its own limits instead.
    run_limits: Limits,
    prefix_policy: PrefixPolicy,
    /// What all conversations of the agent together have spent and may still spend.
    budget: Budget,
    trace: Arc<Trace>,
    secrets: Secrets,
    /// The token count of the system prompt and the tools, which are part of every request.
    meter: ContextMeter,
    /// The context sizes at which results are cleared and the conversation is summarized.
    window: Window,
    /// The size of the model's window in tokens, set at the first lookup. `None` if the table of models lacks
    /// the size.
    known_window: OnceLock<Option<u64>>,
    /// Whether the agent stores large results in full, in a journal or a folder.
    spills: bool,
    spill_folder: Option<PathBuf>,
    /// A copy of this agent with the added tool `read_result`, made at the first use.
    reading: OnceLock<Agent>,
}

impl Agent {
    /// Begins to build an agent whose requests go to this provider.
    pub fn builder(provider: impl Provider + 'static) -> AgentBuilder {
        AgentBuilder::new(Arc::new(provider))
    }

    /// The tools, in the order in which the model gets them.
    pub fn tools(&self) -> &ToolRegistry {
        &self.0.tools
    }

    /// The spending of all conversations of this agent so far, and the rest of [its
    /// limits](AgentBuilder::limits). Includes the spending of agents that the tools run.
    pub fn budget(&self) -> Budget {
        self.0.budget.clone()
    }

    /// The provider that gets the agent's requests.
    pub fn provider(&self) -> &dyn Provider {
        &*self.0.provider
    }

    /// The names of the provider and its model. If the provider's code panics, both names are `unnamed`.
    pub(super) fn provider_and_model(&self) -> (&str, &str) {
        let told = caught(|| (self.provider().name(), self.provider().model()));
        told.unwrap_or(("unnamed", "unnamed"))
    }

    /// The system prompt.
    pub fn system(&self) -> Option<&str> {
        self.0.system.as_deref()
    }

    pub(super) fn permissions(&self) -> &Arc<Permissions> {
        &self.0.permissions
    }

    pub(super) fn approver(&self) -> Option<&Arc<dyn Approver>> {
        self.0.approver.as_ref()
    }

    pub(super) fn on_waiting(&self) -> Option<&Arc<OnWaiting>> {
        self.0.on_waiting.as_ref()
    }

    pub(super) fn per_run(&self) -> &[StateType] {
        &self.0.per_run
    }

    pub(super) fn guardrails(&self) -> &Arc<Guardrails> {
        &self.0.guardrails
    }

    pub(super) fn models(&self) -> &Arc<Models> {
        &self.0.models
    }

    pub(super) fn prefix_policy(&self) -> PrefixPolicy {
        self.0.prefix_policy
    }

    pub(super) fn run_limits(&self) -> &Limits {
        &self.0.run_limits
    }

    pub(super) fn trace(&self) -> &Arc<Trace> {
        &self.0.trace
    }

    pub(super) fn secrets(&self) -> &Secrets {
        &self.0.secrets
    }

    pub(super) fn spills(&self) -> bool {
        self.0.spills
    }

    pub(super) fn spill_folder(&self) -> Option<&PathBuf> {
        self.0.spill_folder.as_ref()
    }

    /// A copy of this agent with the added tool `read_result`. Returns the agent unchanged if it has no tools
    /// or already has `read_result`.
    pub(super) fn reading_results(&self) -> Self {
        let tools = &self.0.tools;
        if tools.tools().is_empty() || tools.get(READ_RESULT).is_some() {
            return self.clone();
        }
        let made = || {
            let mut inner = AgentInner::clone(&self.0);
            // The check above ensures that the tool's name is free, so adding the tool succeeds.
            inner.tools = inner.tools.reading_results().unwrap_or_else(|_| self.0.tools.clone());
            inner.meter = ContextMeter::new(inner.system.as_deref(), inner.tools.schemas());
            Self(Arc::new(inner))
        };
        self.0.reading.get_or_init(made).clone()
    }

    pub(super) fn window(&self) -> &Window {
        &self.0.window
    }

    pub(super) fn known_window(&self) -> &OnceLock<Option<u64>> {
        &self.0.known_window
    }

    pub(super) fn meter(&self) -> ContextMeter {
        self.0.meter
    }

    pub(super) fn can_start_early(&self) -> bool {
        self.0.starts_early
    }

    pub(super) fn context(&self) -> &ToolContext {
        &self.0.context
    }

    /// A copy of this agent with another provider and other tools. The checks of `build` are not repeated, so
    /// each new tool must have the same declaration as the old tool.
    #[doc(hidden)]
    pub fn with_others_in_place(
        mut self,
        provider: impl FnOnce(Arc<dyn Provider>) -> Arc<dyn Provider>,
        tool: impl Fn(&Tool) -> Tool,
    ) -> Result<Self, Error> {
        let inner = Arc::make_mut(&mut self.0);
        inner.reading = OnceLock::new();
        inner.known_window = OnceLock::new();
        inner.provider = provider(Arc::clone(&inner.provider));
        let tools: Vec<Tool> = inner.tools.tools().iter().map(tool).collect();
        inner.tools = ToolRegistry::new(tools)?
            .with_limits(inner.tools.limits().clone())
            .with_secrets(inner.secrets.clone());
        Ok(self)
    }

    /// Fails if `has` returns false for a type that `state_per_run` has announced.
    pub(super) fn check_state(&self, has: impl Fn(TypeId) -> bool) -> Result<(), Error> {
        let missing = self.0.per_run.iter().filter(|needed| !has(needed.id()));
        let missing: Vec<String> = missing.map(|needed| format!("`{}`", needed.name())).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Configuration,
            format!(
                "this run brings no {}, although `AgentBuilder::state_per_run` has announced it for each \
                 run. Give it to the run, by `agent.run(..).state(..)` or `chat.send(..).state(..)`, or \
                 to all runs of the conversation, by `chat.state(..)`",
                missing.join(" and no ")
            ),
        ))
    }

    /// The size of the model's window in tokens. If the program has set no size, this is the size in the table
    /// of models.
    pub(crate) fn window_tokens(&self) -> Option<u64> {
        let look_up = || {
            let (name, model) = self.provider_and_model();
            self.models().find(name, model).window
        };
        self.window().set_tokens().or_else(|| *self.known_window().get_or_init(look_up))
    }

    /// The size of the window in tokens for this conversation: the smaller of the known size and the size that
    /// the vendor has stated in the conversation.
    pub(crate) fn window_in(&self, machine: &Machine) -> Option<u64> {
        let (provider, model) = self.provider_and_model();
        let told = machine.stated_window(provider, model);
        self.window_tokens().into_iter().chain(told).min()
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.tools().tools().iter().map(Tool::name).collect();
        f.debug_struct("Agent")
            .field("provider", &self.provider_and_model().0)
            .field("model", &self.provider_and_model().1)
            .field("tools", &names)
            .finish_non_exhaustive()
    }
}

/// Builds an [`Agent`].
#[must_use = "an agent is made by `build`"]
pub struct AgentBuilder {
    provider: Arc<dyn Provider>,
    system: Option<String>,
    tools: Vec<Tool>,
    tool_limits: ToolLimits,
    context: ToolContext,
    per_run: Vec<StateType>,
    permissions: Permissions,
    approver: Option<Arc<dyn Approver>>,
    on_waiting: Option<Arc<OnWaiting>>,
    starts_early: bool,
    guardrails: Guardrails,
    models: Models,
    run_limits: Limits,
    limits: Limits,
    trace: Trace,
    secrets: Vec<String>,
    spills: bool,
    spill_folder: Option<PathBuf>,
    window: Window,
    tool_search: ToolSearch,
    prefix_policy: PrefixPolicy,
}

impl AgentBuilder {
    fn new(provider: Arc<dyn Provider>) -> Self {
        Self {
            provider,
            system: None,
            tools: Vec::new(),
            tool_limits: ToolLimits::default(),
            context: ToolContext::new(""),
            per_run: Vec::new(),
            permissions: Permissions::default(),
            approver: None,
            on_waiting: None,
            starts_early: true,
            guardrails: Guardrails::default(),
            models: Models::default(),
            run_limits: Limits::new(),
            limits: Limits::new(),
            trace: Trace::default(),
            secrets: Vec::new(),
            spills: true,
            spill_folder: None,
            window: Window::new(),
            tool_search: ToolSearch::new(),
            prefix_policy: PrefixPolicy::default(),
        }
    }

    /// Sets the system prompt. New conversations begin with this text, which vendors cache. A conversation that began
    /// with another text keeps that text at its beginning, and gets this one after its last message, if the model
    /// would reject its earlier reasoning otherwise: see the guide's page `changes.md`.
    pub fn system(mut self, system: impl Into<String>) -> Self {
        self.system = Some(system.into());
        self
    }

    /// Adds tools. The model gets them in the order in which they are added.
    pub fn tools(mut self, tools: impl ToolList) -> Self {
        self.tools.extend(tools.into_tools());
        self
    }

    /// Sets for each tool call the longest duration, the number of attempts, and the size above which its
    /// result is cut.
    pub fn tool_limits(mut self, limits: ToolLimits) -> Self {
        self.tool_limits = limits;
        self
    }

    /// Shares a value with the tools in all runs. A tool takes the value as a parameter
    /// [`State<T>`](harness_core::tool::State). The agent has one value per type: a second value of the same
    /// type replaces the first. [`Chat::state`](crate::Chat::state) replaces the value for one conversation,
    /// and [`Run::state`](crate::Run::state) for one run.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.context = self.context.with(value);
        self
    }

    /// Announces that each run sets a value of this type, such as the user whom the run serves. The run sets
    /// the value by [`Run::state`](crate::Run::state), or the program sets it for a whole conversation by
    /// [`Chat::state`](crate::Chat::state). Tools take the value as a parameter
    /// [`State<T>`](harness_core::tool::State). A run without the value fails before any request is sent.
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
    /// agent.run("Who am I?").state(User("Ada")).await?;
    /// assert_eq!(model.requests()[1].last_text(), "Ada");
    ///
    /// let stopped = agent.run("Who am I?").await.unwrap_err();
    /// assert!(stopped.to_string().contains("this run brings no `"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn state_per_run<T: Send + Sync + 'static>(mut self) -> Self {
        self.per_run.push(StateType::of::<T>());
        self
    }

    /// Sets which calls may run. By default, the declared side effects of a tool decide: see [`Permissions`].
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = permissions;
        self
    }

    /// Sets the approver. If a call needs a person's approval, the approver gets an approval request before the
    /// call runs. Without an approver, the call is denied.
    pub fn approver(mut self, approver: impl Approver + 'static) -> Self {
        self.approver = Some(Arc::new(approver));
        self
    }

    /// Sets a hook that gets waiting calls, for example to put them into a queue. The library calls the hook if
    /// the conversation is in a journal and a run ends as [`Outcome::Waiting`](crate::Outcome::Waiting). The
    /// library first writes the end of the run. Then it calls `hook` for each waiting call, with the name of the
    /// conversation. A call that still waits after a [`Chat::resume`](crate::Chat::resume) is passed to `hook`
    /// again, with the same [`idempotency_key`](super::OpenCall::idempotency_key). If the process ends between
    /// the write and the call of `hook`, the next `resume` passes the waiting calls to `hook`. The run waits
    /// until `hook` returns, so `hook` must not block. A panic in `hook` is ignored.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// use harness::{
    ///     Agent, SideEffects, Tool,
    ///     journal::MemoryJournal,
    ///     testing::{ScriptedProvider, reply},
    /// };
    /// use serde_json::json;
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let schema = json!({"type": "object", "properties": {}});
    /// let form = Tool::external("address", "Asks for an address.", schema, SideEffects::NONE);
    /// let (tell, told) = mpsc::channel();
    /// let agent = Agent::builder(ScriptedProvider::new([reply().call("address", json!({}))]))
    ///     .tools([form])
    ///     .on_waiting(move |conversation, open| {
    ///         let _ = tell.send(format!("{conversation}: {}", open.call.name()));
    ///     })
    ///     .build()?;
    /// let journal = MemoryJournal::new();
    /// agent.open(&journal, "chat-17").await?.send("Where do I live?").await.unwrap_err();
    /// assert_eq!(told.recv()?, "chat-17: address");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_waiting(mut self, hook: impl Fn(&str, &OpenCall) + Send + Sync + 'static) -> Self {
        self.on_waiting = Some(Arc::new(hook));
        self
    }

    /// Sets whether calls of read-only tools may start while the model is still answering. The default is
    /// `true`. If a tool takes arguments, a call without arguments always waits for the end of the answer: some
    /// servers send `{}` first and the arguments later.
    pub fn early_start(mut self, on: bool) -> Self {
        self.starts_early = on;
        self
    }

    /// Sets how many turns a run may have, how long a run may take, and how often a run may repeat the same
    /// calls: see [`Guardrails`].
    pub fn guardrails(mut self, guardrails: Guardrails) -> Self {
        self.guardrails = guardrails;
        self
    }

    /// Limits the total spending of all conversations of this agent: see [`Limits`]. Agents that the tools run
    /// count too. By default there is no limit. To limit each run, use [`run_limits`](Self::run_limits).
    ///
    /// The library keeps the total in memory. In each process the total begins at zero, even if the
    /// conversations are in a [journal](harness_core::journal).
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits.over(&self.limits);
        self
    }

    /// Sets what each run may spend: see [`Limits`]. A run can set its own limits by
    /// [`Run::limits`](crate::Run::limits). A limit that `limits` does not set keeps its earlier value. The
    /// defaults are 100 tool calls, 5,000,000 input tokens and 500,000 output tokens.
    pub fn run_limits(mut self, limits: Limits) -> Self {
        self.run_limits = limits.over(&self.run_limits);
        self
    }

    /// Sets the table of models. The default is the library's own table. From this table the agent takes
    /// prices, the sizes of windows, the longest answers, and the limits on tools and files in one request.
    /// Providers do not use this table: they encode requests by the library's own table.
    pub fn models(mut self, models: Models) -> Self {
        self.models = models;
        self
    }

    /// Sets where the library writes the traces of runs, and which content the traces omit. By default, each
    /// trace is kept in memory with the reply.
    pub fn trace(mut self, trace: Trace) -> Self {
        self.trace = trace;
        self
    }

    /// Adds a secret value, such as a password that the tools use. If a tool returns the value in a result or
    /// an error, the model, errors, events and traces get `[secret]` in its place. The provider's own keys are
    /// always hidden. An empty value is ignored. If a value has fewer than four bytes, or is part of the text
    /// `[secret]`, [`build`](Self::build) fails.
    ///
    /// Text of the user or of the model is not changed. If the model writes the value into the arguments of a
    /// call or into its answer, then the conversation, the events and the text of the reply contain the value,
    /// and only the trace hides it.
    ///
    /// ```
    /// use harness::{Agent, testing::{ScriptedProvider, reply}, tool, tools};
    ///
    /// /// Shows how the database is reached.
    /// #[tool(side_effects = "read")]
    /// fn settings() -> String {
    ///     "postgres://app:correct-horse@db/app".into()
    /// }
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let model = ScriptedProvider::new([
    ///     reply().call("settings", serde_json::json!({})),
    ///     reply().text("It is Postgres."),
    /// ]);
    /// let agent = Agent::builder(model.clone()).tools(tools![settings]).secret("correct-horse").build()?;
    /// agent.run("Which database is it?").await?;
    /// assert_eq!(model.requests()[1].last_text(), "postgres://app:[secret]@db/app");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn secret(mut self, value: impl Into<String>) -> Self {
        self.secrets.push(value.into());
        self
    }

    /// Sets whether the library stores results larger than [`ToolLimits::output`] in full. The default is
    /// `true`. The conversation's [journal](harness_core::journal) stores the result. If the journal
    /// [cannot](harness_core::journal::Journal::can_keep_spills) store results, the
    /// [folder](Self::spill_folder) does. Without a folder, the cut part is discarded. The model gets the
    /// beginning, the end and the name of the stored result, and reads the rest with the tool `read_result`.
    /// Each request offers this tool if the agent has other tools.
    ///
    /// ```
    /// use harness::{Agent, journal::MemoryJournal, testing::{ScriptedProvider, reply}, tool, tools};
    /// use serde_json::json;
    ///
    /// /// Counts.
    /// #[tool(side_effects = "none")]
    /// fn count(/** How far */ to: u32) -> String {
    ///     (1..=to).map(|number| format!("{number}\n")).collect()
    /// }
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let model = ScriptedProvider::answering(|request| {
    ///     let Some(result) = request.results().last() else {
    ///         return reply().call("count", json!({"to": 100_000}));
    ///     };
    ///     let text = result.to_text();
    ///     match text.split('`').nth(1) {
    ///         Some(name) => reply().call("read_result", json!({"name": name, "line": 70_000, "lines": 1})),
    ///         None => reply().text(text.lines().last().unwrap_or_default()),
    ///     }
    /// });
    /// let agent = Agent::builder(model).tools(tools![count]).build()?;
    /// let mut chat = agent.open(&MemoryJournal::new(), "chat-17").await?;
    /// assert_eq!(chat.send("What is in line 70000?").await?.text(), "70000");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spills(mut self, on: bool) -> Self {
        self.spills = on;
        self
    }

    /// Sets the folder for large results of conversations whose journal cannot store large results: see
    /// [`spills`](Self::spills). [`build`](Self::build) creates the folder and checks that it is writable. Each
    /// conversation has a subfolder that only the program's user can read, with one file for each result. A
    /// conversation that continues the same transcript uses the same subfolder. The library never deletes files
    /// in the folder. The program may delete files at any time.
    pub fn spill_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.spill_folder = Some(folder.into());
        self
    }

    /// Sets at which context sizes the library clears old results of read-only tools, and at which sizes it
    /// summarizes the oldest part of the conversation. By default the library does both if it knows the size of
    /// the model's window. See [`Window`] and the module [`context`](harness_core::context).
    pub fn window(mut self, window: Window) -> Self {
        self.window = window;
        self
    }

    /// Sets when the model has to search for tools. By default the model has to search if the tools need more
    /// than a tenth of the model's window, or if there are more tools than a request [may
    /// have](harness_core::models::Model::request_tools). If the size of the window is not known, the library
    /// assumes 128,000 tokens. A model that has to search gets the tool `tool_search`. From its next turn on,
    /// the model also gets the tools that the search has found. See `guide/mcp.md`, "Many tools".
    pub fn tool_search(mut self, search: ToolSearch) -> Self {
        self.tool_search = search;
        self
    }

    /// Sets what happens if the instructions or the tools have changed since a conversation began: see
    /// [`PrefixPolicy`].
    pub fn prefix_policy(mut self, policy: PrefixPolicy) -> Self {
        self.prefix_policy = policy;
        self
    }

    /// Builds the agent.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Configuration`] if:
    /// - two tools have the same name, or a tool is not valid (see [`ToolRegistry::add`] and
    ///   [`ToolRegistry::check`]),
    /// - a tool has the name `read_result` and large results are [kept](Self::spills), or the name
    ///   `tool_search` and the model has to [search](Self::tool_search) for tools,
    /// - the folder for large results cannot be written,
    /// - a tool takes a [`State<T>`](harness_core::tool::State) that is neither set by [`state`](Self::state)
    ///   nor announced by [`state_per_run`](Self::state_per_run), or a value is both set and announced,
    /// - the permissions contain a tool name that is misspelled or impossible,
    /// - the guardrails allow no turn,
    /// - a limit, or a share of the [window](Self::window) or of the tool search, is out of range,
    /// - the tool search must always offer a tool that the agent does not have,
    /// - a secret is too short or too common to be hidden.
    pub fn build(self) -> Result<Agent, Error> {
        let Self {
            provider,
            system,
            tools,
            tool_limits,
            context,
            per_run,
            permissions,
            approver,
            on_waiting,
            starts_early,
            guardrails,
            models,
            run_limits,
            limits,
            trace,
            secrets,
            spills,
            spill_folder,
            window,
            tool_search,
            prefix_policy,
        } = self;
        let spill_folder = spill_folder.filter(|_| spills);
        if guardrails.allows_nothing() {
            return Err(Error::new(
                ErrorKind::Configuration,
                "`Guardrails::turns(0)` allows the model no turn; set at least 1",
            ));
        }
        run_limits.check().and(limits.check()).and(window.check())?;
        let secrets = known(provider.secrets(), &secrets)?;
        #[cfg(feature = "otel")]
        let trace = trace.or_listener(harness_otel::OtelListener);
        let mut tools =
            ToolRegistry::new(tools)?.with_limits(tool_limits).with_secrets(secrets.clone());
        if spills && tools.get(READ_RESULT).is_some() {
            let text = format!(
                "a tool is named `{READ_RESULT}`, like the library's own tool for reading large results. Give \
                 it another name, or turn the library's tool off by `AgentBuilder::spills(false)`"
            );
            return Err(Error::new(ErrorKind::Configuration, text));
        }
        if let Some(folder) = &spill_folder {
            SpillFolder::prepare(folder)?;
            if !tools.tools().is_empty() {
                tools = tools.reading_results()?;
            }
        }
        // The schemas are made by code of the program's own types, which may panic.
        caught(|| tools.check()).unwrap_or_else(|panicked| {
            let text = format!("the schema of a tool's parameter {panicked}");
            Err(Error::new(ErrorKind::Configuration, text))
        })?;
        permissions.check_names(&tools)?;
        check_values(&tools, &context, &per_run)?;
        tool_search.check(|name| tools.get(name).is_some())?;
        let model = caught(|| models.find(provider.name(), provider.model())).unwrap_or_default();
        let window_tokens = window.set_tokens().or(model.window);
        let names = deferred_tools(&tools, &tool_search, window_tokens, model.request_tools);
        let tools = searching(tools, &names)?;
        let meter = ContextMeter::new(system.as_deref(), tools.schemas());
        Ok(Agent(Arc::new(AgentInner {
            provider,
            system,
            tools,
            context: context.with_secrets(secrets.clone()),
            per_run,
            permissions: Arc::new(permissions),
            approver,
            on_waiting,
            starts_early,
            guardrails: Arc::new(guardrails),
            models: Arc::new(models),
            run_limits,
            prefix_policy,
            budget: Budget::of_agent(limits),
            trace: Arc::new(trace.knowing(&secrets)),
            secrets,
            meter,
            window,
            known_window: OnceLock::new(),
            spills,
            spill_folder: spill_folder.map(|folder| std::path::absolute(&folder).unwrap_or(folder)),
            reading: OnceLock::new(),
        })))
    }
}

/// Fails if a tool takes a value that the agent neither has nor announces for each run. Also fails if the agent
/// both has and announces a value.
fn check_values(
    tools: &ToolRegistry,
    context: &ToolContext,
    per_run: &[StateType],
) -> Result<(), Error> {
    if let Some(both) = per_run.iter().find(|announced| context.values().has(announced.id())) {
        let text = format!(
            "`{}` is both given to the agent and announced for each run. Leave out \
                 `state_per_run` if a run may use the agent's value, or `state` if each run needs its own",
            both.name()
        );
        return Err(Error::new(ErrorKind::Configuration, text));
    }
    // The library sets a value of each of these types in every run.
    let own = [TypeId::of::<Budget>(), TypeId::of::<Transcript>()];
    let announced = |needed: &StateType| {
        own.contains(&needed.id()) || per_run.iter().any(|announced| announced.id() == needed.id())
    };
    tools.check_state(context.values(), announced)
}

/// Marks the tools in `names` and returns all tools. The model gets a marked tool only after its search has
/// found that tool.
fn searching(tools: ToolRegistry, names: &HashSet<String>) -> Result<ToolRegistry, Error> {
    if names.is_empty() {
        return Ok(tools);
    }
    if tools.get(TOOL_SEARCH).is_some() {
        let text = format!(
            "a tool is named `{TOOL_SEARCH}`, like the library's own tool for searching among many tools. Give \
                     it another name, or turn the library's tool off by `AgentBuilder::tool_search(ToolSearch::off())`"
        );
        return Err(Error::new(ErrorKind::Configuration, text));
    }
    tools.searching(names)
}

/// The secrets of the provider, and the secrets that the program has added. Fails if an added secret is too
/// short or too common.
fn known(of_provider: &Secrets, own: &[String]) -> Result<Secrets, Error> {
    let mut own = own.iter().filter(|value| !value.trim().is_empty());
    own.try_fold(of_provider.clone(), |secrets, value| match is_findable(value) {
        true => Ok(secrets.with(value)),
        false => Err(Error::new(
            ErrorKind::Configuration,
            "a value given to `AgentBuilder::secret` is too short or too common: it would be \
             found inside ordinary words. Give the whole secret, of at least four bytes, or leave \
             it out",
        )),
    })
}

impl fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentBuilder")
            .field("provider", &self.provider.name())
            .field("tools", &self.tools)
            .finish_non_exhaustive()
    }
}
