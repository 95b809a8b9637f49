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

/// A provider, a system prompt and tools, ready to run. A clone is one pointer; any number of
/// conversations can run at the same time.
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

/// The type of the hook that gets each waiting call, together with the name of its conversation.
pub(super) type OnWaiting = dyn Fn(&str, &OpenCall) + Send + Sync;

#[derive(Clone)]
struct AgentInner {
    provider: Arc<dyn Provider>,
    system: Option<String>,
    tools: ToolRegistry,
    context: ToolContext,
    /// The types of the values that each run has to bring.
    per_run: Vec<StateType>,
    permissions: Arc<Permissions>,
    approver: Option<Arc<dyn Approver>>,
    on_waiting: Option<Arc<OnWaiting>>,
    starts_early: bool,
    /// Shared with every conversation.
    guardrails: Arc<Guardrails>,
    models: Arc<Models>,
    /// What each run may spend, unless the run sets limits of its own.
    run_limits: Limits,
    prefix_policy: PrefixPolicy,
    /// What all conversations of the agent together have spent and may spend.
    budget: Budget,
    trace: Trace,
    secrets: Secrets,
    /// Holds the size of what every request begins with: the system prompt and the tools.
    meter: ContextMeter,
    /// When the context is cleared and summarized.
    window: Window,
    /// How many tokens the model's window has. Empty until it is looked up.
    known_window: OnceLock<Option<u64>>,
    /// Whether large results are kept whole where a journal or a folder can keep them.
    spills: bool,
    spill_folder: Option<PathBuf>,
    /// The same agent with the tool `read_result`. It is made at the first use.
    reading: OnceLock<Agent>,
}

impl Agent {
    /// Begins the builder of an agent that asks this provider.
    pub fn builder(provider: impl Provider + 'static) -> AgentBuilder {
        AgentBuilder::new(Arc::new(provider))
    }

    /// The tools, in the order in which the model gets them.
    pub fn tools(&self) -> &ToolRegistry {
        &self.0.tools
    }

    /// What all conversations of this agent have spent so far and what is left of [its
    /// limits](AgentBuilder::limits). Agents that its tools call are included.
    pub fn budget(&self) -> Budget {
        self.0.budget.clone()
    }

    /// The provider that the agent asks.
    pub fn provider(&self) -> &dyn Provider {
        &*self.0.provider
    }

    /// The provider's name and its model. Both come from the provider's own code, which may panic.
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

    /// The types of the values that each run has to bring.
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

    pub(super) fn trace(&self) -> &Trace {
        &self.0.trace
    }

    /// The values that must not be shown: those of the provider and those that the program has
    /// added.
    pub(super) fn secrets(&self) -> &Secrets {
        &self.0.secrets
    }

    /// Whether large results are kept whole where a journal or a folder can keep them.
    pub(super) fn spills(&self) -> bool {
        self.0.spills
    }

    /// The folder for large results of conversations whose journal does not keep them.
    pub(super) fn spill_folder(&self) -> Option<&PathBuf> {
        self.0.spill_folder.as_ref()
    }

    /// The same agent with the tool `read_result`. An agent that has this tool, or no tools, is
    /// returned unchanged.
    pub(super) fn reading_results(&self) -> Self {
        let tools = &self.0.tools;
        if tools.tools().is_empty() || tools.get(READ_RESULT).is_some() {
            return self.clone();
        }
        let made = || {
            let mut inner = AgentInner::clone(&self.0);
            // The check above has ruled out that another tool has this name.
            inner.tools = inner.tools.reading_results().unwrap_or_else(|_| self.0.tools.clone());
            inner.meter = ContextMeter::new(inner.system.as_deref(), inner.tools.schemas());
            Self(Arc::new(inner))
        };
        self.0.reading.get_or_init(made).clone()
    }

    /// When the context is cleared and summarized.
    pub(super) fn window(&self) -> &Window {
        &self.0.window
    }

    /// How many tokens the model's window has. Empty until it is looked up.
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

    /// The same agent with another provider and with each tool replaced. The checks of `build` are
    /// not repeated, so each new tool must declare the same as the one that it replaces.
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

    /// Fails if a value that was announced by `state_per_run` is missing.
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

    /// How many tokens the window has by the program's setting or by the table of models.
    pub(crate) fn window_tokens(&self) -> Option<u64> {
        let look_up = || {
            let (name, model) = self.provider_and_model();
            self.models().find(name, model).window
        };
        self.window().set_tokens().or_else(|| *self.known_window().get_or_init(look_up))
    }

    /// The window in tokens for a conversation: the smaller one of what is known of the model and what its vendor has stated
    /// in this conversation.
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

    /// Sets the system prompt. It stays the same in all conversations, since models bind their
    /// thinking to it and vendors cache it.
    pub fn system(mut self, system: impl Into<String>) -> Self {
        self.system = Some(system.into());
        self
    }

    /// Adds tools. The model gets them in this order.
    pub fn tools(mut self, tools: impl ToolList) -> Self {
        self.tools.extend(tools.into_tools());
        self
    }

    /// Sets how long a call may take, how often it is tried, and how long its result may be.
    pub fn tool_limits(mut self, limits: ToolLimits) -> Self {
        self.tool_limits = limits;
        self
    }

    /// Shares a value with the tools in all runs. A tool takes it as a parameter
    /// [`State<T>`](harness_core::tool::State). There is one value of each type: a second one replaces the
    /// first. A conversation can replace it by [`Chat::state`](crate::Chat::state), and a run by [`Run::state`](crate::Run::state).
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.context = self.context.with(value);
        self
    }

    /// Announces that each run brings a value of this type, such as the user whom the run serves.
    /// The value comes from [`Run::state`](crate::Run::state) or, for a whole conversation, from [`Chat::state`](crate::Chat::state),
    /// and tools take it as a parameter [`State<T>`](harness_core::tool::State). A run without it fails before
    /// anything is sent.
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

    /// Sets which calls may run. Unless this is set, the declared side effects of each tool decide:
    /// see [`Permissions`].
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = permissions;
        self
    }

    /// Sets who is asked before a call runs that needs a person's approval. Without an approver,
    /// such a call is denied.
    pub fn approver(mut self, approver: impl Approver + 'static) -> Self {
        self.approver = Some(Arc::new(approver));
        self
    }

    /// Sets a hook that is told of waiting calls, for example to put them into a queue. When a run
    /// of a conversation in a journal has ended as [`Outcome::Waiting`](crate::Outcome::Waiting)
    /// and its end is written, `hook` gets the name of the conversation and each call that waits. A
    /// call that still waits after a [`Chat::resume`](crate::Chat::resume) is passed to `hook` again, with the same
    /// [`idempotency_key`](super::OpenCall::idempotency_key). If the process ends right after the
    /// write, the next `resume` passes the call to `hook`. The run waits for `hook`, so it must not
    /// block. A panic in it is ignored.
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

    /// Sets whether calls that only read may start while the model is still answering. The default
    /// is `true`. A call without arguments, of a tool that takes some, always waits for the end of
    /// the answer, since some servers send `{}` first and the arguments later.
    pub fn early_start(mut self, on: bool) -> Self {
        self.starts_early = on;
        self
    }

    /// Sets how many turns a run may have, how long it may take and whether it may repeat itself:
    /// see [`Guardrails`].
    pub fn guardrails(mut self, guardrails: Guardrails) -> Self {
        self.guardrails = guardrails;
        self
    }

    /// Sets what all conversations of this agent may spend together, including the agents that its
    /// tools call: see [`Limits`]. There is no such limit unless this is set. What each run may
    /// spend is set by [`run_limits`](Self::run_limits).
    ///
    /// The sum is kept in memory. It begins at zero in each process, also for conversations that
    /// are opened in a [journal](harness_core::journal).
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits.over(&self.limits);
        self
    }

    /// Sets what each run may spend, unless the run sets its own limits by [`Run::limits`](crate::Run::limits): see
    /// [`Limits`]. A limit that is left open keeps its value. The defaults are 100 tool calls,
    /// 5,000,000 tokens of input and 500,000 tokens of output.
    pub fn run_limits(mut self, limits: Limits) -> Self {
        self.run_limits = limits.over(&self.run_limits);
        self
    }

    /// Sets the table of models. Unless this is set, it is the library's own table. The agent takes
    /// from it what tokens cost and how many tokens a model's window has. Other parts of an entry
    /// are for the program's use. Providers write their requests by the library's own table.
    pub fn models(mut self, models: Models) -> Self {
        self.models = models;
        self
    }

    /// Sets where traces of the runs go and what they must not contain. Unless this is set, each
    /// trace is kept in memory with the reply.
    pub fn trace(mut self, trace: Trace) -> Self {
        self.trace = trace;
        self
    }

    /// Adds a value that must not be shown, such as a password that the tools use. Where a tool
    /// puts it into a result or an error, `[secret]` takes its place for the model and in errors,
    /// events and traces. The provider's own keys are hidden without this. An empty value is
    /// ignored. With a value of fewer than four bytes, or one that is part of the text `[secret]`,
    /// [`build`](Self::build) fails.
    ///
    /// What the user or the model writes is not changed: if the model puts the value into the
    /// arguments of a call or into its answer, then the conversation, the events and the text of
    /// the reply contain it, and only the trace hides it.
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

    /// Sets whether results that are larger than [`ToolLimits::output`] are kept whole. The default
    /// is `true`. They are kept in the conversation's [journal](harness_core::journal) if it [keeps
    /// them](harness_core::journal::Journal::can_keep_spills), else in the [folder](Self::spill_folder) that
    /// is set. If there is neither, what is cut off is lost. The model reads the beginning and the
    /// end of such a result and the name under which the whole is kept. It reads the rest by the
    /// tool `read_result`, which each request then offers if the agent has other tools.
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

    /// Sets the folder for large results of conversations whose journal does not keep them: see
    /// [`spills`](Self::spills). [`build`](Self::build) creates the folder and checks that it can
    /// be written. Each conversation has a subfolder that only the program's user can read, with
    /// one file for each result. A conversation that continues the same transcript finds it again.
    /// The library never deletes anything there; the program may do so at any time.
    pub fn spill_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.spill_folder = Some(folder.into());
        self
    }

    /// Sets when the context is made smaller: first, old results of tools that only read are
    /// cleared, then the oldest part of the conversation is summarized. By default this is done if
    /// the size of the model's window is known. See [`Window`] and the module
    /// [`context`](harness_core::context).
    pub fn window(mut self, window: Window) -> Self {
        self.window = window;
        self
    }

    /// Sets when the model has to search for tools. By default it has to if the tools need more
    /// than a tenth of the model's window (of 128,000 tokens if its size is not known), or are more
    /// than a request [may have](harness_core::models::Model::request_tools). The model
    /// then has the tool `tool_search`, and gets the tools that it finds from its next turn on. See
    /// `guide/mcp.md`, "Many tools".
    pub fn tool_search(mut self, search: ToolSearch) -> Self {
        self.tool_search = search;
        self
    }

    /// Sets what conversations do that began with other definitions of tools: see [`PrefixPolicy`].
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
    /// - a tool takes a [`State<T>`](harness_core::tool::State) that is neither given nor announced, or a value
    ///   is both given and announced,
    /// - the permissions name a tool with a misspelled or impossible name,
    /// - the guardrails allow no turn, or a limit, a share of the [window](Self::window) or of the
    ///   tool search is out of range, or the tool search always offers a tool that the agent does
    ///   not have,
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
        // Schemas are made by the program's own types, whose code may panic.
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
            trace: trace.knowing(&secrets),
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

/// Fails if a tool takes a value that the agent does not have and that no run has to bring, and if a value is announced that
/// the agent has.
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
    // The library puts values of both types into every run.
    let own = [TypeId::of::<Budget>(), TypeId::of::<Transcript>()];
    let announced = |needed: &StateType| {
        own.contains(&needed.id()) || per_run.iter().any(|announced| announced.id() == needed.id())
    };
    tools.check_state(context.values(), announced)
}

/// The tools, of which those with these names have to be searched for.
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

/// The secrets of the provider together with those that the program has added.
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
