//! The context of a running tool call: its id, its stop token and deadline, its progress reports and the shared values.

use std::{
    any::Any,
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    ConcurrencyLimit, ConcurrencyPermit, Review, Reviewed, SideEffects, State, Tool, ToolError,
    ToolRegistry, concurrency_limit::WeakPermit, detached_threads::CallIdentity,
    human_wait::HumanWait, large_results::LargeResults, state::SharedValues, truncate::cut,
};
use crate::{
    error::Error,
    message::{Arguments, ToolCall},
    secret::Secrets,
    unwind::{caught, dropped},
};

/// The context that a running tool gets: which call it serves, when it must stop, where to report progress, and the
/// program's shared values. A clone is cheap and belongs to the same call.
///
/// Two values are available without any setup: the remaining limits of the run, as
/// `State<`[`Budget`](crate::policy::Budget)`>`, and the conversation up to the call, as
/// `State<`[`Transcript`](crate::message::Transcript)`>`. Only a tool that takes the transcript as a parameter, or that
/// declares it with [`Tool::needs_state`](super::Tool::needs_state), gets the transcript. The transcript ends with the
/// model's answer that contains the call. So a call of this tool starts only after the model has completed its answer.
///
/// ```
/// use harness::{
///     Agent, State, ToolContext, Transcript,
///     policy::Budget,
///     testing::{ScriptedProvider, reply},
///     tool, tools,
/// };
/// use serde_json::json;
///
/// /// Says what it knows.
/// #[tool(side_effects = "none")]
/// fn know(context: &ToolContext, budget: State<Budget>, transcript: State<Transcript>) -> String {
///     let calls = budget.left().tool_calls;
///     format!("{}, {calls:?} calls left, {} messages", context.name(), transcript.messages().len())
/// }
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let model = ScriptedProvider::answering(|request| match request.results().next() {
///     Some(result) => reply().text(result.to_text()),
///     None => reply().call("know", json!({})),
/// });
/// let limits = harness::Limits::new().tool_calls(5);
/// let agent = Agent::builder(model).tools(tools![know]).build()?;
/// let told = agent.run("What do you know?").limits(limits).await?;
/// assert_eq!(told.text(), "know, Some(4) calls left, 2 messages");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ToolContext {
    call_id: Arc<str>,
    call: Option<Arc<ToolCall>>,
    idempotency_key: Arc<str>,
    output: Arc<Mutex<PartialOutput>>,
    cancellation: CancellationToken,
    deadline: Option<Instant>,
    progress: Progress,
    reviewed: Option<Arc<Reviewed>>,
    /// The arguments that a person has seen and allowed; `None` if no person decided.
    bound: Option<Arc<Arguments>>,
    /// Whether the call was refused because of its arguments, so that its tool must not run.
    runs_nothing: bool,
    identity: Option<Arc<CallIdentity>>,
    answered: Option<Arc<Answered>>,
    values: SharedValues,
    /// The run to which the call belongs. If the tool runs an agent, the agent uses this value.
    host: Option<Arc<dyn Any + Send + Sync>>,
    /// The permit that this call holds for its tool's concurrency limit. `None` if the caller has not set a permit.
    permit: Option<WeakPermit>,
    /// The concurrency limits for which this call or an outer call holds a permit.
    inside_limits: Vec<ConcurrencyLimit>,
    /// The number of this attempt of the call, starting at 1.
    attempt: u32,
    /// How long the agents inside of this call have waited for a person.
    human_wait: HumanWait,
    /// The store for large results of the conversation; `None` if large results are cut.
    spills: Option<LargeResults>,
    /// How many bytes of a result the model reads; `None` outside of a conversation.
    readable: Option<usize>,
    /// The tools of the call's run.
    tools: Arc<Vec<Tool>>,
}

/// What a tool can read about another tool of the same agent: see [`ToolContext::tools`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ToolInfo<'a> {
    /// The name by which the model calls the tool.
    pub name: &'a str,
    /// The description that the model reads.
    pub description: &'a str,
    /// The side effects that the tool declares.
    pub side_effects: SideEffects,
}

impl ToolContext {
    /// Creates a context for the call with this id, without a deadline and without shared values.
    pub fn new(call_id: impl Into<String>) -> Self {
        let call_id: Arc<str> = call_id.into().into();
        Self {
            idempotency_key: Arc::clone(&call_id),
            call_id,
            call: None,
            output: Arc::default(),
            cancellation: CancellationToken::new(),
            deadline: None,
            progress: Progress::default(),
            reviewed: None,
            bound: None,
            runs_nothing: false,
            identity: None,
            answered: None,
            values: SharedValues::default(),
            host: None,
            permit: None,
            inside_limits: Vec::new(),
            attempt: 1,
            human_wait: HumanWait::default(),
            spills: None,
            readable: None,
            tools: Arc::default(),
        }
    }

    /// Copies this context for another call. The copy has its own progress reports.
    #[must_use]
    #[doc(hidden)]
    pub fn for_call(&self, call: &ToolCall) -> Self {
        let call_id: Arc<str> = call.id().into();
        Self {
            idempotency_key: Arc::clone(&call_id),
            call_id,
            call: Some(Arc::new(call.clone())),
            output: Arc::default(),
            reviewed: None,
            bound: None,
            runs_nothing: false,
            identity: None,
            answered: None,
            host: None,
            permit: None,
            inside_limits: Vec::new(),
            attempt: 1,
            human_wait: HumanWait::default(),
            progress: Progress { log: Arc::default(), ..self.progress.clone() },
            ..self.clone()
        }
    }

    /// Adds a value that tools take as [`State<T>`]. An earlier value of the same type is replaced.
    #[must_use]
    pub fn with<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.values.insert(Arc::new(value));
        self
    }

    /// Adds these values. Earlier values of the same types are replaced.
    pub fn with_values(mut self, values: &SharedValues) -> Self {
        self.values.extend(values);
        self
    }

    #[doc(hidden)]
    pub fn values(&self) -> &SharedValues {
        &self.values
    }

    /// Sets the run of the call.
    #[doc(hidden)]
    pub fn with_host(mut self, host: Arc<dyn Any + Send + Sync>) -> Self {
        self.host = Some(host);
        self
    }

    /// Sets the store for large results of the conversation (`None`: large results are cut), and how many bytes of a
    /// result the model reads.
    #[doc(hidden)]
    pub fn with_spills(mut self, (spills, readable): (Option<LargeResults>, usize)) -> Self {
        (self.spills, self.readable) = (spills, Some(readable));
        self
    }

    /// How many bytes of a result the model reads; `None` outside of a conversation.
    pub(super) fn readable(&self) -> Option<usize> {
        self.readable
    }

    /// The store for large results of the conversation; `None` if large results are cut.
    pub(super) fn spills(&self) -> Option<&LargeResults> {
        self.spills.as_ref()
    }

    /// Sets the tools of the call's run.
    pub fn with_tools(mut self, tools: &ToolRegistry) -> Self {
        self.tools = Arc::clone(tools.shared());
        self
    }

    /// All tools of the agent in this run, in the order in which they were added. The tool that runs is included. Empty
    /// in a context from [`new`](Self::new). A tool can list the tools but not call them: such a call would bypass the
    /// permissions, and would be missing in the facts of the run.
    ///
    /// ```
    /// use harness::{
    ///     Agent, ToolContext,
    ///     testing::{ScriptedProvider, reply},
    ///     tool, tools,
    /// };
    /// use serde_json::json;
    ///
    /// /// Lists the tools and what they do.
    /// #[tool(side_effects = "none")]
    /// fn list_tools(context: &ToolContext) -> String {
    ///     let lines = context.tools().map(|tool| format!("{}: {}", tool.name, tool.description));
    ///     lines.collect::<Vec<_>>().join("\n")
    /// }
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let model = ScriptedProvider::answering(|request| match request.results().next() {
    ///     Some(result) => reply().text(result.to_text()),
    ///     None => reply().call("list_tools", json!({})),
    /// });
    /// let agent = Agent::builder(model).tools(tools![list_tools]).build()?;
    /// let told = agent.run("What can you do?").await?;
    /// assert_eq!(told.text(), "list_tools: Lists the tools and what they do.");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tools(&self) -> impl Iterator<Item = ToolInfo<'_>> {
        self.tools.iter().map(|tool| ToolInfo {
            name: tool.name(),
            description: tool.description(),
            side_effects: tool.side_effects(),
        })
    }

    /// Sets the number of this attempt of the call.
    #[doc(hidden)]
    pub fn tried(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// The number of this attempt of the call, starting at 1.
    #[doc(hidden)]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// How long the agents inside of this call have waited for a person. This time does not count toward any time limit
    /// of the call.
    #[doc(hidden)]
    pub fn human_wait(&self) -> &HumanWait {
        &self.human_wait
    }

    /// The run of the call; `None` if no run is set, or if the run has another type than `H`.
    #[doc(hidden)]
    pub fn host<H: Send + Sync + 'static>(&self) -> Option<Arc<H>> {
        Arc::clone(self.host.as_ref()?).downcast().ok()
    }

    /// Sets the permit that the call holds; `None` if the call needs no permit.
    #[doc(hidden)]
    pub fn with_permit(mut self, permit: Option<&ConcurrencyPermit>) -> Self {
        self.permit = Some(WeakPermit::of(permit));
        self
    }

    /// Adds concurrency limits for which this call or an outer call already holds a permit.
    #[doc(hidden)]
    pub fn inside_limits<'p>(
        mut self,
        limits: impl IntoIterator<Item = &'p ConcurrencyLimit>,
    ) -> Self {
        self.inside_limits.extend(limits.into_iter().cloned());
        self
    }

    /// The concurrency limits for which this call or an outer call holds a permit.
    #[doc(hidden)]
    pub fn held_limits(&self) -> &[ConcurrencyLimit] {
        &self.inside_limits
    }

    /// The permit that the call holds; `None` if the call holds no permit.
    pub(super) fn permit(&self) -> Option<ConcurrencyPermit> {
        self.permit.as_ref()?.permit()
    }

    /// Sets the key by which a service detects a repeated call.
    #[must_use]
    pub fn with_idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = key.into().into();
        self
    }

    /// Sets the token whose cancellation stops the tool.
    #[must_use]
    pub fn with_cancellation(mut self, token: CancellationToken) -> Self {
        self.cancellation = token;
        self
    }

    /// Sets the deadline at which the tool is stopped; `None` removes the deadline.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Option<Instant>) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets the review that a person saw when deciding about the call.
    #[must_use]
    pub fn with_review(self, review: Option<Review>) -> Self {
        self.with_reviewed(review.map(Reviewed::seen).map(Arc::new))
    }

    /// Sets the review on which the decision about the call was based.
    #[must_use]
    #[doc(hidden)]
    pub fn with_reviewed(mut self, reviewed: Option<Arc<Reviewed>>) -> Self {
        self.reviewed = reviewed;
        self
    }

    /// Sets the arguments that a person has seen and allowed. The tool runs with exactly these arguments.
    #[must_use]
    #[doc(hidden)]
    pub fn with_bound(mut self, arguments: Option<Arguments>) -> Self {
        self.bound = arguments.map(Arc::new);
        self
    }

    /// Sets whether the call was refused because of its arguments, so that its tool must not run.
    #[must_use]
    #[doc(hidden)]
    pub fn running_nothing(mut self, runs_nothing: bool) -> Self {
        self.runs_nothing = runs_nothing;
        self
    }

    /// Whether the tool must not run. The result of the call then only lists the faults of its arguments.
    pub(super) fn is_only_refused(&self) -> bool {
        self.runs_nothing
    }

    /// The arguments with which this tool runs. If a person has allowed the call, returns exactly the arguments that
    /// the person allowed. Otherwise, returns the model's arguments, plus the defaults of missing arguments.
    ///
    /// # Errors
    /// Fails like [`ToolCall::decoded`].
    pub(super) fn arguments_of(&self, call: &ToolCall, tool: &Tool) -> Result<Arguments, Error> {
        match &self.bound {
            Some(bound) => Ok((**bound).clone()),
            None => tool.arguments_of(call),
        }
    }

    /// Sets a function that receives each progress report at once.
    #[must_use]
    pub fn with_watch(mut self, watch: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.progress.watch = Some(Arc::new(watch));
        self
    }

    /// The id of the call that the tool serves.
    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// The call that the tool serves, with its id, the tool's name and the arguments as the model wrote them. `None` in
    /// a context from [`new`](Self::new), unless [`with_call`](Self::with_call) has set the call.
    pub fn call(&self) -> Option<&ToolCall> {
        self.call.as_deref()
    }

    /// The name by which the model called the tool. Empty if the context has no call.
    pub fn name(&self) -> &str {
        self.call().map_or("", ToolCall::name)
    }

    /// Sets the call that the tool serves, for a program that calls a tool by itself. The call's id becomes the
    /// idempotency key.
    #[must_use]
    pub fn with_call(mut self, call: ToolCall) -> Self {
        self.call_id = call.id().into();
        self.idempotency_key = Arc::clone(&self.call_id);
        self.call = Some(Arc::new(call));
        self
    }

    /// A key that is the same for every attempt of this call, also after a restart of the program, and different for
    /// every other call. Pass this key to services that accept an idempotency key.
    pub fn idempotency_key(&self) -> &str {
        &self.idempotency_key
    }

    /// Sets the secrets that are removed from the tool's progress reports.
    pub fn with_secrets(mut self, secrets: Secrets) -> Self {
        self.progress.secrets = secrets;
        self
    }

    pub(super) fn secrets(&self) -> &Secrets {
        &self.progress.secrets
    }

    /// Sets the conversation, id and tool that identify this call.
    #[must_use]
    #[doc(hidden)]
    pub fn with_identity(mut self, identity: Option<CallIdentity>) -> Self {
        self.identity = identity.map(Arc::new);
        self
    }

    /// Sets the answer to the tool's earlier question.
    #[must_use]
    pub fn with_answered(mut self, answered: Option<Arc<Answered>>) -> Self {
        self.answered = answered;
        self
    }

    /// The answer to the question that the tool asked with [`ToolError::asks`]; `None` if the tool has not asked, or
    /// has no answer yet.
    pub fn answered(&self) -> Option<&Answered> {
        self.answered.as_deref()
    }

    #[doc(hidden)]
    pub fn identity(&self) -> Option<&CallIdentity> {
        self.identity.as_deref()
    }

    /// Whether the decision about the call was based on a review.
    pub(super) fn is_reviewed(&self) -> bool {
        self.reviewed.is_some()
    }

    /// Compares the new review `now` with the review on which the decision about the call was based. For example, the
    /// tool may review a file again that it has just opened. A call without an earlier review (for example if the
    /// program itself calls the tool) may always run.
    ///
    /// # Errors
    /// Fails if the call must not run: the new review refuses the call, requires a decision for a reason that the
    /// earlier review did not give, names another folder, or shows another preview than the person saw.
    pub fn recheck(&self, now: &Review) -> Result<(), ToolError> {
        let then = self.reviewed.as_ref();
        let differs = then.and_then(|then| then.differs(&now.without_secrets(self.secrets())));
        match differs {
            None => Ok(()),
            Some(why) => Err(ToolError::new(format!("the call did not run: {why}"))),
        }
    }

    /// Sets a function that returns the tool's output so far. If the library stops the call, the model reads this
    /// output. A call that completes returns its result as usual.
    pub fn on_stop(&self, output_so_far: impl Fn() -> String + Send + Sync + 'static) {
        let telling = PartialOutput(Some(Arc::new(output_so_far)));
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *output, telling);
        // Dropping the replaced function runs code of the program, so the lock is released first.
        drop(output);
        drop(before);
    }

    /// The tool's output so far, from the function that the tool has set with [`on_stop`](Self::on_stop). If the
    /// function panics, the text reports the panic. `None` if no function is set, or the output is empty.
    pub fn output_so_far(&self) -> Option<String> {
        // The function runs without the lock, because the function may use this context.
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let text = caught(|| output.0.as_ref().map(|so_far| so_far())).transpose()?;
        let text = text
            .unwrap_or_else(|panicked| format!("(the function for the output so far {panicked})"));
        Some(text).filter(|text| !text.is_empty())
    }

    /// The token that is cancelled when the tool has to stop.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }

    /// The deadline at which the tool is stopped; `None` without a limit.
    #[doc(hidden)]
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The time until the deadline; `None` without a limit.
    pub fn time_left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// The receiver of the tool's progress reports.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The progress reports so far, in order. Only the last 1,000 are kept.
    pub fn progress_log(&self) -> Vec<String> {
        let log = self.progress.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.iter().cloned().collect()
    }

    /// The program's shared value of this type; `None` if the program shares no such value.
    pub fn state<T: Send + Sync + 'static>(&self) -> Option<State<T>> {
        self.values.get()
    }
}

/// The answer to a question that a tool asked with [`ToolError::asks`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Answered {
    /// The token that the tool set with its question.
    pub token: Value,
    /// The answer, as JSON.
    pub answer: Value,
}

impl Answered {
    #[doc(hidden)]
    pub fn new(token: Value, answer: Value) -> Self {
        Self { token, answer }
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("call_id", &self.call_id)
            .field("cancelled", &self.cancellation.is_cancelled())
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// A function that returns the tool's output so far. Dropping the function runs code of the tool, which may panic.
#[derive(Clone, Default)]
struct PartialOutput(Option<Arc<OutputSoFar>>);

impl Drop for PartialOutput {
    fn drop(&mut self) {
        dropped(self.0.take());
    }
}

type OutputSoFar = dyn Fn() -> String + Send + Sync;

/// A function that receives each progress report at once.
type ProgressWatcher = dyn Fn(&str) + Send + Sync;

/// The maximum length of a progress report, in bytes.
const LONGEST_REPORT: usize = 4 * 1024;

/// The maximum number of progress reports that are kept per call.
const KEPT_REPORTS: usize = 1_000;

/// Takes a tool's progress reports.
#[derive(Clone, Default)]
pub struct Progress {
    log: Arc<Mutex<VecDeque<String>>>,
    watch: Option<Arc<ProgressWatcher>>,
    secrets: Secrets,
}

impl Progress {
    /// Reports the tool's progress, as text for a person. The tool may report often: a watcher receives at most ten
    /// reports per second from one call, and always the last report.
    pub fn report(&self, message: impl Into<String>) {
        let message = message.into();
        // Secrets are removed before the cut, because half a secret would not be found.
        let message = self.secrets.hide(&message);
        let message = match message.len() > LONGEST_REPORT {
            true => cut(&message, LONGEST_REPORT, ""),
            false => message.into_owned(),
        };
        if let Some(watch) = &self.watch {
            watch(&message);
        }
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.len() == KEPT_REPORTS {
            log.pop_front();
        }
        log.push_back(message);
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").finish_non_exhaustive()
    }
}
