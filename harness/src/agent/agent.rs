//! An agent: a provider, a system prompt and tools, ready to run.

use std::{
    any::TypeId,
    fmt,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use super::{Chat, OpenCall, Outcome, Reply, Sending, Stopped, found::searched, outcome::Remains};
use crate::{
    context::Window,
    error::{Error, ErrorKind},
    message::{Message, Transcript},
    models::Models,
    policy::{Approver, Budget, Guardrails, Limits, Permissions},
    provider::{ContextMeter, Provider},
    secret::{Secrets, is_findable},
    tool::{
        Folder, READ_RESULT, StateType, TOOL_SEARCH, Tool, ToolContext, ToolLimits, ToolList,
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
pub struct Agent(Arc<Inner>);

/// What is told of a call that waits, with the name of its conversation.
pub(super) type OnWaiting = dyn Fn(&str, &OpenCall) + Send + Sync;

#[derive(Clone)]
struct Inner {
    provider: Arc<dyn Provider>,
    system: Option<String>,
    tools: ToolRegistry,
    context: ToolContext,
    /// The values that each run brings.
    per_run: Vec<StateType>,
    permissions: Arc<Permissions>,
    approver: Option<Arc<dyn Approver>>,
    on_waiting: Option<Arc<OnWaiting>>,
    starts_early: bool,
    /// Shared with every conversation.
    guardrails: Arc<Guardrails>,
    models: Arc<Models>,
    /// What each run may spend unless the run says otherwise.
    run_limits: Limits,
    /// What all conversations together have spent and may spend.
    budget: Budget,
    trace: Trace,
    secrets: Secrets,
    /// Has counted what every request begins with.
    meter: ContextMeter,
    /// When what is sent is made smaller.
    window: Window,
    /// How many tokens the window of the model has, once it was looked up.
    known_window: OnceLock<Option<u64>>,
    /// Whether large results are kept, if there is where.
    spills: bool,
    spill_folder: Option<PathBuf>,
    /// The same agent with the tool that reads them, once it is asked for.
    reading: OnceLock<Agent>,
}

impl Agent {
    /// Begins an agent that asks this provider.
    pub fn builder(provider: impl Provider + 'static) -> AgentBuilder {
        AgentBuilder::new(Arc::new(provider))
    }

    /// Runs one task to its end, in a conversation of its own. Nothing happens before the result
    /// is awaited.
    pub fn run(&self, message: impl Into<Message>) -> Sending<'static> {
        Sending::owned(self.chat(), message.into())
    }

    /// Runs one task to its end and blocks this thread meanwhile: for scripts without a runtime.
    ///
    /// # Errors
    /// Fails as [`run`](Self::run) does, and at once when called from inside a runtime, whose
    /// thread it would block.
    pub fn run_blocking(&self, message: impl Into<Message>) -> Result<Reply, Stopped> {
        let failed =
            |error: Error| Stopped::new(Outcome::Failed, Some(error), None, Remains::default());
        if tokio::runtime::Handle::try_current().is_ok() {
            return Err(failed(Error::new(
                ErrorKind::Configuration,
                "`run_blocking` was called inside a running runtime, whose thread it would block; \
                 use `agent.run(..).await` there",
            )));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|err| {
            failed(Error::new(ErrorKind::Configuration, "no runtime could be started").because(err))
        })?;
        let ended = runtime.block_on(async { self.run(message).await });
        // A tool on a thread of its own may not have ended; it is listed in `tool::still_running`.
        runtime.shutdown_background();
        ended
    }

    /// Begins a conversation that continues from one message to the next.
    pub fn chat(&self) -> Chat {
        Chat::new(self.clone())
    }

    /// Begins a conversation that continues a given one. A call in it that has no result is
    /// answered with *in doubt*, since its record is lost.
    pub fn chat_from(&self, transcript: Transcript) -> Chat {
        Chat::given(self.clone(), transcript)
    }

    /// The tools, in the order in which the model is told of them.
    pub fn tools(&self) -> &ToolRegistry {
        &self.0.tools
    }

    /// What all conversations of this agent have spent so far, with all that the agents have spent
    /// that its tools call, and what is left of [its limits](AgentBuilder::limits).
    pub fn budget(&self) -> Budget {
        self.0.budget.clone()
    }

    /// Who answers.
    pub fn provider(&self) -> &dyn Provider {
        &*self.0.provider
    }

    /// The name and the model of who answers, which the provider's own code tells.
    pub(super) fn answers(&self) -> (&str, &str) {
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

    /// The values that each run brings.
    pub(super) fn per_run(&self) -> &[StateType] {
        &self.0.per_run
    }

    pub(super) fn guardrails(&self) -> &Arc<Guardrails> {
        &self.0.guardrails
    }

    pub(super) fn models(&self) -> &Arc<Models> {
        &self.0.models
    }

    pub(super) fn run_limits(&self) -> &Limits {
        &self.0.run_limits
    }

    pub(super) fn trace(&self) -> &Trace {
        &self.0.trace
    }

    /// What must not be shown: what the provider knows and what the program has added.
    pub(super) fn secrets(&self) -> &Secrets {
        &self.0.secrets
    }

    /// Whether large results are kept, if there is where.
    pub(super) fn spills(&self) -> bool {
        self.0.spills
    }

    /// The folder in which they are kept where no journal keeps them.
    pub(super) fn spill_folder(&self) -> Option<&PathBuf> {
        self.0.spill_folder.as_ref()
    }

    /// The same agent with the tool that reads large results, unless it has it, or has no tools.
    pub(super) fn reading_results(&self) -> Self {
        let tools = &self.0.tools;
        if tools.tools().is_empty() || tools.get(READ_RESULT).is_some() {
            return self.clone();
        }
        let made = || {
            let mut inner = Inner::clone(&self.0);
            // It has been seen that no other tool has this name.
            inner.tools = inner.tools.reading_results().unwrap_or_else(|_| self.0.tools.clone());
            inner.meter = ContextMeter::new(inner.system.as_deref(), inner.tools.schemas());
            Self(Arc::new(inner))
        };
        self.0.reading.get_or_init(made).clone()
    }

    /// When what is sent is made smaller.
    pub(super) fn window(&self) -> &Window {
        &self.0.window
    }

    /// How many tokens the window of the model has, once it was looked up.
    pub(super) fn known_window(&self) -> &OnceLock<Option<u64>> {
        &self.0.known_window
    }

    pub(super) fn meter(&self) -> ContextMeter {
        self.0.meter
    }

    pub(super) fn starts_early(&self) -> bool {
        self.0.starts_early
    }

    pub(super) fn context(&self) -> &ToolContext {
        &self.0.context
    }

    /// The same agent with another tool in the place of each of its own, and with another provider.
    /// What it has checked when it was built still holds, so the tools must declare the same.
    #[cfg(feature = "testing")]
    pub(crate) fn with_others_in_place(
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

    /// What is wrong with the values that a run brings, if one that was announced is missing.
    pub(super) fn check_state(&self, has: impl Fn(TypeId) -> bool) -> Result<(), Error> {
        let missing = self.0.per_run.iter().filter(|needed| !has(needed.id()));
        let missing: Vec<String> = missing.map(|needed| format!("`{}`", needed.name())).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Configuration,
            format!(
                "this run brings no {}, which the agent was told that each run brings (by \
                 `AgentBuilder::state_per_run`). Give it to the run, by `agent.run(..).state(..)` or \
                 `chat.send(..).state(..)`, or to all runs of the conversation, by `chat.state(..)`",
                missing.join(" and no ")
            ),
        ))
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.tools().tools().iter().map(Tool::name).collect();
        f.debug_struct("Agent")
            .field("provider", &self.answers().0)
            .field("model", &self.answers().1)
            .field("tools", &names)
            .finish_non_exhaustive()
    }
}

/// An agent in the making.
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
        }
    }

    /// Sets the system prompt. It stays the same for all conversations: models bind their
    /// thinking to it, and vendors cache it.
    pub fn system(mut self, system: impl Into<String>) -> Self {
        self.system = Some(system.into());
        self
    }

    /// Adds tools; the model is told of them in this order.
    pub fn tools(mut self, tools: impl ToolList) -> Self {
        self.tools.extend(tools.into_tools());
        self
    }

    /// Sets how long a call may take, how often it is tried, and how much it may say.
    pub fn tool_limits(mut self, limits: ToolLimits) -> Self {
        self.tool_limits = limits;
        self
    }

    /// Shares a value with the tools, which take it as a parameter [`State<T>`](crate::State), in
    /// all runs. There is one of each type: a second one takes the place of the first. A conversation can
    /// have another one in its place ([`Chat::state`]), and so can a run ([`Sending::state`]).
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.context = self.context.with(value);
        self
    }

    /// Announces that each run brings a value of this type with [`Sending::state`], or its conversation
    /// with [`Chat::state`], for tools that take it as a parameter [`State<T>`](crate::State): the user
    /// whom the run serves, for one. A run without it fails before anything is sent.
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

    /// Sets which calls may run. Unless set, the declared side effects decide: see
    /// [`Permissions`].
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = permissions;
        self
    }

    /// Sets who is asked before a call runs that a person must approve. Without one, such a call is
    /// denied.
    pub fn approver(mut self, approver: impl Approver + 'static) -> Self {
        self.approver = Some(Arc::new(approver));
        self
    }

    /// Sets what is told of calls that wait, such as a queue or a mailbox: when a run of a conversation in
    /// a journal has ended as [`Outcome::Waiting`](crate::Outcome::Waiting), and that is written, `hook`
    /// gets the name of the conversation and each call that waits. A call that still waits after a
    /// [`Chat::resume`] is told again, with the same
    /// [`idempotency_key`](super::OpenCall::idempotency_key); one whose process ends right after the write
    /// is told by the next `resume`. The run waits for `hook`, so it must not block; a panic in it is
    /// passed over.
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

    /// Sets whether calls that only read may start while the model is still speaking; they do,
    /// unless this says otherwise. A call without arguments, of a tool that takes some, waits for the end
    /// of the answer, since some servers send `{}` first and the arguments after it.
    pub fn early_start(mut self, on: bool) -> Self {
        self.starts_early = on;
        self
    }

    /// Sets how many turns each run may have, how long it may go on and whether it may go in circles:
    /// see [`Guardrails`].
    pub fn guardrails(mut self, guardrails: Guardrails) -> Self {
        self.guardrails = guardrails;
        self
    }

    /// Sets what all conversations of this agent may spend together, with all that the agents spend
    /// that its tools call: see [`Limits`]. Nothing limits them unless this is set. What each run
    /// may spend is set by [`run_limits`](Self::run_limits).
    ///
    /// The sum is kept in memory: it begins with zero in each process, also where conversations are opened
    /// in a [journal](crate::journal).
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits.over(&self.limits);
        self
    }

    /// Sets what each run may spend, unless the run says otherwise by
    /// [`Sending::limits`]: see [`Limits`]. What is left open stays as it is, which is 100 calls of
    /// tools, 5,000,000 tokens sent and 500,000 said.
    pub fn run_limits(mut self, limits: Limits) -> Self {
        self.run_limits = limits.over(&self.run_limits);
        self
    }

    /// Sets what is known of the models. Unless set, it is the library's table. The agent takes from it what
    /// tokens cost. What else an entry says, such as its window, is for the program to ask; providers
    /// write their requests by the library's own table.
    pub fn models(mut self, models: Models) -> Self {
        self.models = models;
        self
    }

    /// Sets where traces of the runs go and what must not be in them. Unless set, each is kept
    /// in memory with the reply.
    pub fn trace(mut self, trace: Trace) -> Self {
        self.trace = trace;
        self
    }

    /// Adds a value that must not be shown, such as a password that the tools use. Wherever a tool
    /// puts it into a result or an error, the model reads `[secret]`, and so does whoever reads an
    /// error, an event or a trace. Keys of the provider are known without it. An empty value is
    /// ignored; with one of fewer than four bytes, or one that is part of the text `[secret]`,
    /// [`build`](Self::build) fails.
    ///
    /// What the user or the model itself writes is not changed: if the model puts the value into the
    /// arguments of a call or into its answer, it stands in the conversation, in the events and in the
    /// text of the reply, and only the trace hides it.
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

    /// Sets whether results that are larger than [`ToolLimits::output`] are kept whole; they are, unless this says
    /// otherwise, where the conversation is in a [journal](crate::journal) that
    /// [keeps them](crate::journal::Journal::keeps_spills), and else in the
    /// [folder](Self::spill_folder) that is set. The model reads the beginning and the end of such a result and by which
    /// name the whole is kept, and reads more by the tool `read_result`, which each request then offers, if
    /// there are other tools. Elsewhere, what is cut is gone.
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

    /// Sets the folder into which large results go where no journal keeps them: see [`spills`](Self::spills). It is made
    /// and tried when the agent is [built](Self::build). Each conversation has a folder in it, for the
    /// program's user alone, with a file for each result; it is found again by a conversation that goes on from the
    /// same transcript. The library deletes nothing there: the program does when it likes.
    pub fn spill_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.spill_folder = Some(folder.into());
        self
    }

    /// Sets when what is sent is made smaller: old results of tools that only read are cleared, and then the oldest part
    /// of a conversation is summed up. That is done where the window of the model is known, unless this says otherwise:
    /// see [`Window`] and the module [`context`](crate::context).
    pub fn window(mut self, window: Window) -> Self {
        self.window = window;
        self
    }

    /// Sets when the model is told of tools only once it has searched for them: if they need more than a tenth of the
    /// model's window (of 128,000 tokens, if nobody knows it), unless this says otherwise. Then it has a tool `tool_search`, and is told of
    /// the tools that it finds from its next turn on. The guide tells more: `guide/mcp.md`, "Many tools".
    pub fn tool_search(mut self, search: ToolSearch) -> Self {
        self.tool_search = search;
        self
    }

    /// Makes the agent.
    ///
    /// # Errors
    /// Fails if the folder for large results cannot be written or a tool has the name `read_result`, unless they are
    /// [not kept](Self::spills), if two tools have one name, if one of them is not right (see [`ToolRegistry::add`] and
    /// [`ToolRegistry::check`]), if one takes a [`State<T>`](crate::State) that is neither given nor
    /// announced, if a value is both given and announced, if no turn is allowed, if a part of the [window](Self::window)
    /// is none, or if a secret is too short to be found.
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
        } = self;
        let spill_folder = spill_folder.filter(|_| spills);
        if guardrails.allows_nothing() {
            return Err(Error::new(
                ErrorKind::Configuration,
                "`Guardrails::turns(0)` lets the model say nothing; set at least 1",
            ));
        }
        run_limits.check().and(limits.check()).and(window.check())?;
        let secrets = known(provider.secrets(), &secrets)?;
        let mut tools =
            ToolRegistry::new(tools)?.with_limits(tool_limits).with_secrets(secrets.clone());
        if spills && tools.get(READ_RESULT).is_some() {
            let text = format!(
                "a tool is named `{READ_RESULT}`, and so is the one by which models read large results. Give \
                 it another name, or turn the other one off by `AgentBuilder::spills(false)`"
            );
            return Err(Error::new(ErrorKind::Configuration, text));
        }
        if let Some(folder) = &spill_folder {
            Folder::prepare(folder)?;
            if !tools.tools().is_empty() {
                tools = tools.reading_results()?;
            }
        }
        // Schemas are made by the program's own types.
        caught(|| tools.check()).unwrap_or_else(|panicked| {
            let text = format!("the schema of a tool's parameter {panicked}");
            Err(Error::new(ErrorKind::Configuration, text))
        })?;
        permissions.check_names(&tools)?;
        if let Some(both) = per_run.iter().find(|announced| context.values().has(announced.id())) {
            let text = format!(
                "`{}` is both given to the agent and announced for each run. Leave out \
                 `state_per_run` if a run may do without its own, or `state` if it may not",
                both.name()
            );
            return Err(Error::new(ErrorKind::Configuration, text));
        }
        // Both are there in every run.
        let own = [TypeId::of::<Budget>(), TypeId::of::<Transcript>()];
        let announced = |needed: &StateType| {
            own.contains(&needed.id())
                || per_run.iter().any(|announced| announced.id() == needed.id())
        };
        tools.check_state(context.values(), announced)?;
        tool_search.check(|name| tools.get(name).is_some())?;
        let of_model = || caught(|| models.find(provider.name(), provider.model()).window);
        let window_tokens = window.set_tokens().or_else(|| of_model().unwrap_or_default());
        let names = searched(&tools, &tool_search, window_tokens);
        if !names.is_empty() {
            if tools.get(TOOL_SEARCH).is_some() {
                let text = format!(
                    "a tool is named `{TOOL_SEARCH}`, and so is the one by which models find the others, since there are \
                     many. Give it another name, or turn the other one off by `AgentBuilder::tool_search(ToolSearch::off())`"
                );
                return Err(Error::new(ErrorKind::Configuration, text));
            }
            tools = tools.searching(&names)?;
        }
        let meter = ContextMeter::new(system.as_deref(), tools.schemas());
        Ok(Agent(Arc::new(Inner {
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

/// What the provider knows, with what the program adds.
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
