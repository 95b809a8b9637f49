//! A tool: the name, description and schema that the model gets, what the tool declares, and the code that runs its
//! calls.

use std::{
    any::{Any, TypeId},
    borrow::Cow,
    fmt,
    pin::Pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use harness_schema::{SchemaChecker, ToolSchema, Unchecked, UnusableSchema, ValueFault};
use serde_json::{Map, Value};
use tokio::runtime::Handle;

use super::{
    ConcurrencyLimit, SideEffects, ToolContext, ToolDef, ToolError, ToolOutput, ToolRegistry,
    expand::call::{DeclaredCall, MethodReceiver, SharedReceiver},
    limits::check_depth,
    off_loop::off_loop,
    reconciled::{ReconcileFailure, ReconcileFault, ReconcileFuture},
    review::{HandmadeReview, Review},
    state::StateType,
    title,
};
use crate::{
    message::{Arguments, Fingerprint, same},
    unwind::{Panicked, caught},
};

/// The future of a running call.
pub type ToolFuture = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send>>;

type ReconcileFn = dyn Fn(ToolContext, Map<String, Value>) -> ReconcileFuture + Send + Sync;

type RunFn = dyn Fn(ToolContext, Map<String, Value>) -> ToolFuture + Send + Sync;

/// A tool: the name, description and schema that the model gets, what the tool declares, and the code that runs its
/// calls. A clone is cheap.
///
/// `#[tool]` creates a tool from a function. For what the macro cannot express, create a tool with [`new`](Self::new):
///
/// ```
/// use harness::{SideEffects, Tool, ToolContext};
/// use serde_json::json;
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let schema = json!({"type": "object", "properties": {"word": {"type": "string"}}});
/// let shout = Tool::new("shout", "Says it loudly.", schema, SideEffects::NONE, |_, arguments| {
///     Box::pin(async move {
///         let word = arguments.get("word").and_then(|word| word.as_str()).unwrap_or("?");
///         Ok(word.to_uppercase().into())
///     })
/// });
/// let said = shout.call(&ToolContext::new("call_1"), json!({"word": "hi"})).await?;
/// assert_eq!(said, "HI".into());
/// # Ok::<(), harness::ToolError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Tool {
    pub(super) body: ToolBody,
    idempotent: bool,
    time_limit: Option<Duration>,
    review: Option<HandmadeReview>,
    title: Option<Cow<'static, str>>,
    output_schema: Option<Arc<Value>>,
    reconcile: Option<Arc<ReconcileFn>>,
    /// Whether the program supplies the results of the calls.
    external: bool,
    /// The types of the shared values that the tool needs, in addition to the parameters that `#[tool]` has found.
    needs: Vec<StateType>,
    /// The agent that the calls run; `None` if the calls run no agent.
    agent: Option<InnerAgent>,
    /// The concurrency limit that was set on this value; `None` if none was set.
    concurrency: Option<ConcurrencyLimit>,
    /// The hash of a description that comes from outside of the program, for example from a server.
    pub(super) definition: Option<Arc<str>>,
}

/// An agent that the calls of a tool run.
#[derive(Clone)]
struct InnerAgent {
    agent: Arc<dyn Any + Send + Sync>,
    /// The names of the agent's tools, and of the tools of all agents that the agent's tools run.
    tools: Arc<[String]>,
}

#[derive(Clone)]
pub(super) enum ToolBody {
    /// Created by `#[tool]`. A method also has its receiver: the value whose method is called.
    Declared { def: &'static ToolDef, receiver: Option<MethodReceiver> },
    /// Created by [`Tool::new`].
    Made(Arc<HandmadeTool>),
}

pub(super) struct HandmadeTool {
    schema: ToolSchema,
    side_effects: SideEffects,
    run: Arc<RunFn>,
    /// Whether an argument has a default.
    pub(super) has_defaults: bool,
    /// Checks the arguments against the schema. The checker is created at its first use.
    checker: OnceLock<Result<SchemaChecker, UnusableSchema>>,
}

impl HandmadeTool {
    /// Checks the arguments against the schema. Returns the arguments after two changes: optional members that are
    /// `null` are removed if the schema does not accept `null`, and numbers such as 3.0 become integers if the schema
    /// requires integers.
    fn read(&self, arguments: Map<String, Value>) -> Result<Map<String, Value>, ToolError> {
        let checker = self.checker().map_err(ToolError::new)?;
        let mut read = checker.read(Value::Object(arguments)).map_err(|(_, faults)| {
            ToolError::BadArguments(faults.iter().map(ValueFault::line).collect())
        })?;
        checker.integers(&mut read);
        match read {
            Value::Object(arguments) => Ok(arguments),
            _ => Ok(Map::new()),
        }
    }

    pub(super) fn checker(&self) -> Result<&SchemaChecker, String> {
        let made =
            self.checker.get_or_init(|| SchemaChecker::of_arguments(&self.schema.input_schema));
        made.as_ref().map_err(|err| unusable(&self.schema.name, err))
    }
}

/// The error text for a tool whose schema cannot be used to check calls.
pub(super) fn unusable(name: &str, err: &UnusableSchema) -> String {
    format!("the schema of the tool `{name}` cannot be used: {err}")
}

impl Tool {
    /// Creates a tool without `#[tool]`. `input_schema` is a JSON Schema of an object. `run` receives arguments that
    /// match the whole schema at every depth; see [`ToolSchema`] for the keywords that are checked. If the schema lists
    /// arguments and does not set `additionalProperties`, other arguments are refused; `"additionalProperties": true`
    /// allows them. An optional argument that is `null` is removed.
    ///
    /// `run` returns a boxed future. The result of the future is `Ok("..".into())` for text,
    /// `Ok(ToolContent::Json(value).into())` for a value, and `Err(ToolError::new(".."))` for an error: see [the
    /// example](macro@crate::tool#a-tool-by-hand).
    ///
    /// This function cannot fail. Building a [`ToolRegistry`](super::ToolRegistry) with the tool reports the faults of
    /// the tool: a name that vendors do not accept (they accept `^[a-zA-Z0-9_-]{1,64}$`), a schema that does not
    /// describe an object, and a schema that cannot be checked because it refers to another document.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        description: impl Into<Cow<'static, str>>,
        input_schema: Value,
        side_effects: SideEffects,
        run: impl Fn(ToolContext, Map<String, Value>) -> ToolFuture + Send + Sync + 'static,
    ) -> Self {
        let members = input_schema.get("properties").and_then(Value::as_object);
        let has_defaults =
            members.is_some_and(|all| all.values().any(|it| it.get("default").is_some()));
        let body = ToolBody::Made(Arc::new(HandmadeTool {
            has_defaults,
            schema: ToolSchema {
                name: name.into().into_owned(),
                description: description.into().into_owned(),
                input_schema,
            },
            side_effects,
            run: Arc::new(run),
            checker: OnceLock::new(),
        }));
        Self::of(body, false, None)
    }

    /// Creates a tool for which the program supplies the results, such as a form that a person fills in, or a job that
    /// runs elsewhere. An allowed call waits, and the run ends as `Outcome::Waiting`. Supply the result with
    /// `Chat::settle` or an `Inbox`, and continue with `Chat::resume`. A call whose arguments do not fit does not wait:
    /// the model reads the faults. For a call that a person has allowed, `OpenCall::allowed` contains the arguments
    /// that the person saw.
    ///
    /// ```
    /// use harness::{Agent, Outcome, SideEffect, SideEffects, Tool, testing::{ScriptedProvider, reply}};
    /// use serde_json::json;
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    /// let form = Tool::external(
    ///     "address",
    ///     "Asks the user for an address.",
    ///     schema,
    ///     SideEffects::of(&[SideEffect::Read]),
    /// );
    /// let model = ScriptedProvider::new([
    ///     reply().call("address", json!({"city": "Turin"})),
    ///     reply().text("Via Po 1 it is."),
    /// ]);
    /// let mut chat = Agent::builder(model).tools([form]).build()?.chat();
    /// let stopped = chat.send("Where do I live?").await.unwrap_err();
    /// assert_eq!(stopped.outcome(), Outcome::Waiting);
    ///
    /// let open = chat.waiting().remove(0);
    /// chat.settle(open.succeeded("Via Po 1").by("ada")).await?;
    /// assert_eq!(chat.resume().await?.text(), "Via Po 1 it is.");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn external(
        name: impl Into<Cow<'static, str>>,
        description: impl Into<Cow<'static, str>>,
        input_schema: Value,
        side_effects: SideEffects,
    ) -> Self {
        let run = |_, _| -> ToolFuture {
            Box::pin(async {
                Err(ToolError::new(
                    "the program answers calls of this tool itself, so the tool has no code to run",
                ))
            })
        };
        let tool = Self::new(name, description, input_schema, side_effects, run);
        Self { external: true, ..tool }
    }

    fn of(body: ToolBody, idempotent: bool, time_limit: Option<Duration>) -> Self {
        let (review, reconcile) = (None, None);
        Self {
            body,
            idempotent,
            time_limit,
            review,
            title: None,
            output_schema: None,
            reconcile,
            external: false,
            needs: Vec::new(),
            agent: None,
            concurrency: None,
            definition: None,
        }
    }

    pub(super) fn declared(def: &'static ToolDef, receiver: Option<MethodReceiver>) -> Self {
        let (idempotent, time_limit) = (def.idempotent, def.time_limit);
        let body = ToolBody::Declared { def, receiver };
        Self::of(body, idempotent, time_limit)
    }

    /// The declaration, if `#[tool]` has created the tool.
    fn def(&self) -> Option<&'static ToolDef> {
        match &self.body {
            ToolBody::Declared { def, .. } => Some(def),
            ToolBody::Made(_) => None,
        }
    }

    /// Declares that repeating a call with the same arguments has no further effect. A tool that declares
    /// [`SideEffect::Mutate`](super::SideEffect::Mutate) is not repeated, even if it is idempotent.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Sets the time limit of a call. This limit replaces the limit that the tool declares and the limit that the agent
    /// sets.
    #[must_use]
    pub fn with_time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// Sets how many calls of the tool may run at the same time in this program, in all chats and agents that have a
    /// clone of this tool. For a function with [`#[tool(at_once = ..)]`](macro@crate::tool), the declared limit applies
    /// to all tools that are created from the function. The limit set here replaces the declared limit for this value.
    ///
    /// A call beyond the limit waits in a queue before it starts, first come, first served. While the call waits, the
    /// library writes no fact, and the call's time limit has not begun. If the run is stopped meanwhile, the call is
    /// reported as not started. A thread that cannot be stopped counts until it ends. If a call runs an agent, calls of
    /// the same tool inside of that agent do not count again. Two tools with limits can block each other if their
    /// agents call each other's tool; a time limit of the run ends such a deadlock.
    ///
    /// Building a registry or an agent with the tool fails if the limit is zero.
    ///
    /// ```
    /// use harness::{
    ///     Agent, SideEffect, SideEffects, Tool,
    ///     testing::{ScriptedProvider, reply},
    /// };
    /// use serde_json::json;
    ///
    /// let schema = json!({"type": "object", "properties": {}});
    /// let read = SideEffects::of(&[SideEffect::Read]);
    /// let convert = Tool::new("convert", "Converts the video.", schema, read, |_, _| {
    ///     Box::pin(async { Ok("converted".into()) })
    /// });
    /// let convert = convert.at_once(2);
    /// let model = || ScriptedProvider::new([reply().text("Hello.")]);
    /// // Both agents together convert two videos at a time.
    /// let one = Agent::builder(model()).tools([convert.clone()]).build()?;
    /// let other = Agent::builder(model()).tools([convert]).build()?;
    /// # Ok::<(), harness::Error>(())
    /// ```
    #[must_use]
    pub fn at_once(mut self, most: usize) -> Self {
        self.concurrency = Some(ConcurrencyLimit::new(most));
        self
    }

    /// The concurrency limit of the tool; `None` if the tool has no limit.
    pub fn concurrency_limit(&self) -> Option<&ConcurrencyLimit> {
        self.concurrency.as_ref().or_else(|| self.def()?.concurrency_limit())
    }

    /// Sets the title for people, for example in an approval request: one line of up to 100 characters, without
    /// invisible characters. This title replaces a title that `#[tool(title = "..")]` declares. No model reads the
    /// title.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<Cow<'static, str>>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the JSON Schema of the tool's output: see [`output_schema`](Self::output_schema).
    #[must_use]
    pub fn with_output_schema(mut self, schema: Value) -> Self {
        self.output_schema = Some(Arc::new(schema));
        self
    }

    /// Declares that the tool reads a value of this type with [`ToolContext::state`]. Building an agent with the tool
    /// then fails unless the program gives the value to the agent, or announces that each run sets the value. A
    /// [`State<T>`](super::State) parameter of a function with `#[tool]` declares this automatically.
    ///
    /// ```
    /// use harness::{Agent, SideEffects, Tool, testing::{ScriptedProvider, reply}};
    /// use serde_json::json;
    ///
    /// struct Stock(u32);
    ///
    /// let schema = json!({"type": "object", "properties": {}});
    /// let count = Tool::new("count", "Counts.", schema, SideEffects::NONE, |context, _| {
    ///     let left = context.state::<Stock>().map(|stock| stock.0);
    ///     Box::pin(async move { Ok(format!("{left:?}").into()) })
    /// });
    /// let model = ScriptedProvider::new([reply().text("Ready.")]);
    /// let agent = Agent::builder(model).tools([count.needs_state::<Stock>()]);
    /// assert!(agent.build().unwrap_err().to_string().contains("`AgentBuilder::state(..)`"));
    /// ```
    #[must_use]
    pub fn needs_state<T: Send + Sync + 'static>(mut self) -> Self {
        self.needs.push(StateType::of::<T>());
        self
    }

    /// Declares the agent that the calls run, the tools of the agent, and the shared values that the agent needs.
    pub fn of_agent(
        mut self,
        agent: Arc<dyn Any + Send + Sync>,
        tools: &ToolRegistry,
        needs: &[StateType],
    ) -> Self {
        let all = tools.tools().iter();
        let names = all.flat_map(|tool| tool.names().map(str::to_owned));
        self.agent = Some(InnerAgent { agent, tools: names.collect() });
        self.needs.extend_from_slice(needs);
        self
    }

    /// The agent that the calls run; `None` if the calls run no agent, or an agent of another type than `A`.
    pub fn agent<A: 'static>(&self) -> Option<&A> {
        self.agent.as_ref()?.agent.downcast_ref()
    }

    /// The tool's name, and the names of all tools of the agent that its calls run.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let below = self.agent.as_ref().map(|inside| inside.tools.iter()).unwrap_or_default();
        std::iter::once(self.name()).chain(below.map(String::as_str))
    }

    /// Whether the calls run an agent. Each of these calls has its own conversation.
    pub fn is_agent(&self) -> bool {
        self.agent.is_some()
    }

    /// Sets a function that reviews each call before the decision whether the call may run: see [`Review`]. This
    /// function replaces a review that `#[tool(review = ..)]` declares.
    #[must_use]
    pub fn with_review(
        mut self,
        review: impl Fn(&Arguments) -> Review + Send + Sync + 'static,
    ) -> Self {
        self.review = Some(Arc::new(review));
        self
    }

    /// Sets a function that finds out whether a call from an earlier process has happened. The function gets the call's
    /// arguments and its [idempotency key](ToolContext::idempotency_key), and must not change anything. A function set
    /// here replaces a function that [`#[tool(reconcile = ..)]`](macro@crate::tool) declares.
    ///
    /// A call that happened gets the result that the function returns. A call that did not happen runs. If the function
    /// fails, the call stays in doubt. The reason of the failure is in the result that the model reads, and in the
    /// [trace](crate::trace::Happened::ReconcileFailed). Calls of an [idempotent](Self::idempotent) tool are repeated
    /// without calling the function.
    ///
    /// ```
    /// use harness::{SideEffect, SideEffects, Tool, tool::Reconciled};
    /// use serde_json::json;
    ///
    /// let schema = json!({"type": "object", "properties": {"amount": {"type": "integer"}}});
    /// let effects = SideEffects::of(&[SideEffect::Network]);
    /// let pay = Tool::new("pay", "Pays.", schema, effects, |_, _| {
    ///     Box::pin(async { Ok("paid".into()) })
    /// });
    /// let pay = pay.with_reconcile(|context, _arguments| {
    ///     Box::pin(async move {
    ///         // Asks the bank for a payment of this key.
    ///         let known = context.idempotency_key().is_empty();
    ///         Ok(if known { Reconciled::Happened("paid".into()) } else { Reconciled::NotHappened })
    ///     })
    /// });
    /// assert!(pay.can_reconcile());
    /// ```
    #[must_use]
    pub fn with_reconcile(
        mut self,
        reconcile: impl Fn(ToolContext, Map<String, Value>) -> ReconcileFuture + Send + Sync + 'static,
    ) -> Self {
        self.reconcile = Some(Arc::new(reconcile));
        self
    }

    /// Whether the tool has a function that finds out whether a call happened.
    pub fn can_reconcile(&self) -> bool {
        self.reconcile.is_some() || self.def().is_some_and(|def| def.reconcile.is_some())
    }

    /// Starts to find out whether a call happened.
    ///
    /// # Errors
    /// Fails if the tool has no reconcile function, if the function panics, or if the arguments do not fit.
    pub fn find_out(
        &self,
        context: ToolContext,
        arguments: Map<String, Value>,
    ) -> Result<ReconcileFuture, ReconcileFailure> {
        let none = || (ReconcileFault::Failed, "the tool has no way to find it out".to_owned());
        let panicked = |panicked: Panicked| (ReconcileFault::Panicked, panicked.to_string());
        match (&self.reconcile, &self.body) {
            (Some(reconcile), _) => caught(|| reconcile(context, arguments)).map_err(panicked),
            (None, ToolBody::Declared { def, receiver }) => {
                let reconcile = def.reconcile.ok_or_else(none)?;
                let find_out = || {
                    let unread = |err: ToolError| (ReconcileFault::Arguments, err.to_string());
                    let arguments = def.read(arguments).map_err(unread)?;
                    Ok(reconcile(DeclaredCall::new(context, arguments, def, receiver.clone())))
                };
                caught(find_out).map_err(panicked)?
            }
            (None, ToolBody::Made(_)) => Err(none()),
        }
    }

    /// Whether the program supplies the results of the calls: see [`external`](Self::external).
    pub fn is_external(&self) -> bool {
        self.external
    }

    /// Whether the tool reviews its calls.
    pub fn has_review(&self) -> bool {
        self.review.is_some() || self.def().is_some_and(|def| def.review.is_some())
    }

    /// The tool's review of a call with these arguments; `None` if the tool has no review. A review may block the
    /// thread. A review that panics refuses the call.
    pub fn review(&self, arguments: &Arguments) -> Option<Review> {
        let said = match (&self.review, &self.body) {
            (Some(review), _) => caught(|| review(arguments)),
            (None, ToolBody::Declared { def, receiver }) => {
                let review = def.review?;
                caught(|| review(&SharedReceiver::of(receiver.clone()), arguments))
            }
            (None, ToolBody::Made(_)) => return None,
        };
        Some(said.unwrap_or_else(|panicked| {
            Review::refuse(format!("the review of `{}` {panicked}", self.name()))
        }))
    }

    /// A hash of a call's effect, without the arguments that are `null` or equal to their default, since these have the
    /// same effect as missing arguments. `None` if there are none: then the fingerprint of the arguments is this hash.
    pub fn sameness(&self, arguments: Arguments) -> Option<Fingerprint> {
        let schema = self.input_schema().get("properties");
        let default = |name: &str| schema?.get(name)?.get("default");
        let mut members = arguments.into_map();
        let says_something = |name: &str, value: &Value| {
            !value.is_null() && !default(name).is_some_and(|default| same(default, value))
        };
        let all = members.len();
        members.retain(|name, value| says_something(name, value));
        (members.len() < all).then(|| Arguments::from(members).fingerprint(self.name()))
    }

    /// Reviews a call, on a thread for blocking work if a runtime exists. Dropping the future cancels a review that has
    /// not started.
    pub async fn review_off_loop(&self, arguments: &Arguments) -> Option<Review> {
        if !self.has_review() {
            return None;
        }
        let (tool, arguments) = (self.clone(), arguments.clone());
        let Ok(runtime) = Handle::try_current() else { return self.review(&arguments) };
        off_loop(&runtime, move || tool.review(&arguments)).await.unwrap_or_else(|_| {
            Some(Review::refuse("the program is shutting down, so the call could not be reviewed"))
        })
    }

    /// The name by which the model calls the tool.
    pub fn name(&self) -> &str {
        match &self.body {
            ToolBody::Declared { def, .. } => def.name,
            ToolBody::Made(made) => &made.schema.name,
        }
    }

    /// The description that the model reads.
    pub fn description(&self) -> &str {
        match &self.body {
            ToolBody::Declared { def, .. } => def.description.trim(),
            ToolBody::Made(made) => &made.schema.description,
        }
    }

    /// The title for people; `None` if none was set.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref().or_else(|| self.def()?.title)
    }

    /// The JSON Schema of the tool's output; `None` if it is not known. A function with `#[tool]` has this schema if
    /// its return type has `#[derive(schemars::JsonSchema)]`. For any tool, the program can [set the
    /// schema](Self::with_output_schema). The library sends the schema if a protocol has a field for it. The protocols
    /// of model vendors have no such field. The output is not checked against the schema.
    ///
    /// ```
    /// use harness::{tool, tools};
    ///
    /// #[derive(serde::Serialize, schemars::JsonSchema)]
    /// struct Weather {
    ///     celsius: f64,
    /// }
    ///
    /// /// The weather in a city.
    /// #[tool(side_effects = ["read", "network"], title = "Weather report")]
    /// async fn weather(/** The city */ city: &str) -> Result<Weather, std::io::Error> {
    ///     Ok(Weather { celsius: if city == "Oslo" { -3.0 } else { 12.5 } })
    /// }
    ///
    /// let tool = tools![weather].remove(0);
    /// let schema = tool.output_schema().expect("the type has one");
    /// assert_eq!(schema["properties"]["celsius"]["type"], "number");
    /// assert_eq!(tool.title(), Some("Weather report"));
    /// ```
    pub fn output_schema(&self) -> Option<&Value> {
        self.output_schema.as_deref().or_else(|| self.def()?.output_schema())
    }

    /// The JSON Schema of the tool's arguments.
    pub fn input_schema(&self) -> &Value {
        &self.schema().input_schema
    }

    /// The name, description and schema that the model gets.
    pub fn schema(&self) -> &ToolSchema {
        match &self.body {
            ToolBody::Declared { def, .. } => def.schema(),
            ToolBody::Made(made) => &made.schema,
        }
    }

    /// The side effects that the tool declares.
    pub fn side_effects(&self) -> SideEffects {
        match &self.body {
            ToolBody::Declared { def, .. } => def.side_effects,
            ToolBody::Made(made) => made.side_effects,
        }
    }

    /// Whether repeating a call with the same arguments has no further effect.
    pub fn is_idempotent(&self) -> bool {
        self.idempotent
    }

    /// The time limit of a call; `None` if the tool declares none.
    pub fn time_limit(&self) -> Option<Duration> {
        self.time_limit
    }

    /// The types of the shared values that the tool needs, possibly with repetitions.
    pub(super) fn state_types(&self) -> impl Iterator<Item = StateType> {
        let declared = self.def().map_or(&[][..], |def| def.params);
        declared.iter().filter_map(|param| param.needs).chain(self.needs.iter().copied())
    }

    /// Whether the tool needs a shared value of this type.
    pub fn needs<T: 'static>(&self) -> bool {
        self.state_types().any(|needed| needed.id() == TypeId::of::<T>())
    }

    /// A fault of the tool; `None` if the tool has no fault. For a tool created by `#[tool]`, this method checks only
    /// the values that can be set later, because the compiler checks the rest.
    pub(super) fn problem(&self) -> Option<String> {
        if self.concurrency.as_ref().is_some_and(ConcurrencyLimit::is_zero) {
            return Some(format!(
                "no call of the tool `{}` could ever begin, since `at_once` is 0: let at least one run, or \
                 leave the tool out",
                self.name()
            ));
        }
        if let Some(problem) =
            title::fault(self.name(), self.title(), self.output_schema.as_deref())
        {
            return Some(problem);
        }
        let ToolBody::Made(made) = &self.body else { return None };
        let ToolSchema { name, input_schema, .. } = &made.schema;
        fault_of_name(name).or_else(|| {
            if self.is_agent() && made.schema.description.trim().is_empty() {
                return Some(format!(
                    "the agent tool `{name}` has no description, and a model needs one to know when to \
                     call it: give one, as in `agent.as_tool(\"{name}\", \"Reviews code.\")`"
                ));
            }
            if input_schema.get("type").is_some_and(|kind| kind == "object") {
                return made.checker().err();
            }
            Some(format!(
                "the schema of the tool `{name}` is not that of an object: give it \
                 `\"type\": \"object\"`"
            ))
        })
    }

    /// The end of an error text, about how the program can give the tool another name.
    pub(super) fn how_to_name(&self) -> &'static str {
        match &self.body {
            ToolBody::Declared { .. } => "with `#[tool(name = \"...\")]`",
            ToolBody::Made(_) if self.is_agent() => "as in `agent.as_tool(\"...\", ..)`",
            ToolBody::Made(_) if self.is_of_a_server() => "by `McpServerBuilder::name(\"...\")`",
            ToolBody::Made(_) => "as in `Tool::new(\"...\", ..)`",
        }
    }

    /// Whether the tool comes from a server outside of the program.
    pub fn is_of_a_server(&self) -> bool {
        self.definition.is_some()
    }

    /// A fault of a tool created by `#[tool]` that could not be found at compile time.
    pub(super) fn late_problem(&self) -> Option<&'static str> {
        let ToolBody::Declared { def, .. } = &self.body else { return None };
        def.problem()
    }

    /// Checks the arguments. The tool does not run.
    ///
    /// # Errors
    /// Fails with all faults, one per line. Each line begins with the argument's name in backticks.
    pub fn check(&self, arguments: &Map<String, Value>) -> Result<(), Vec<String>> {
        check_depth(arguments)?;
        let checked = match &self.body {
            ToolBody::Declared { def, .. } => def.check(arguments.clone()),
            ToolBody::Made(made) => made.read(arguments.clone()).map(drop),
        };
        checked.map_err(|err| match err {
            ToolError::BadArguments(lines) => lines,
            err => vec![err.to_string()],
        })
    }

    /// The arguments in the form that the `run` function of [`Tool::new`] receives. `None` if the arguments do not fit,
    /// or if the tool was not created by [`Tool::new`].
    pub(crate) fn as_read(&self, arguments: Map<String, Value>) -> Option<Map<String, Value>> {
        let ToolBody::Made(made) = &self.body else { return None };
        made.read(arguments).ok()
    }

    /// The parts of the schema that are sent to the model but not checked: a `pattern` with a look-around, or a keyword
    /// with a value that the standard does not allow. Empty if the whole schema is checked.
    pub fn unchecked(&self) -> &[Unchecked] {
        let checker = match &self.body {
            ToolBody::Declared { def, .. } => def.checker().ok(),
            ToolBody::Made(made) => made.checker().ok(),
        };
        checker.map(SchemaChecker::unchecked).unwrap_or_default()
    }

    /// Calls the tool. The call starts when the future is first polled. Dropping the future stops the tool.
    ///
    /// # Errors
    /// Fails if `arguments` is neither a JSON object nor `null`, if the arguments do not fit, if the tool fails, or if
    /// the tool asks a question.
    pub async fn call(
        &self,
        context: &ToolContext,
        arguments: Value,
    ) -> Result<ToolOutput, ToolError> {
        let arguments = match arguments {
            Value::Null => Map::new(),
            Value::Object(map) => map,
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err(ToolError::BadArguments(vec![format!(
                    "the arguments must be a JSON object, not {arguments}"
                )]));
            }
        };
        check_depth(&arguments).map_err(ToolError::BadArguments)?;
        match &self.body {
            ToolBody::Declared { def, receiver } => {
                let arguments = def.read(arguments)?;
                let call = DeclaredCall::new(context.clone(), arguments, def, receiver.clone());
                (def.run)(call).await
            }
            ToolBody::Made(made) => {
                let arguments = made.read(arguments)?;
                (made.run)(context.clone(), arguments).await
            }
        }
    }
}

/// The reason why some provider would not accept this tool name; `None` if the name is valid. `#[tool]` reports a wrong
/// name at compile time.
pub(crate) fn fault_of_name(name: &str) -> Option<String> {
    let odd = name.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-'));
    let count = name.chars().count();
    match odd {
        Some(odd) => Some(format!(
            "the tool name `{name}` contains {odd:?}; providers take only ASCII letters, digits, \
             `_` and `-`"
        )),
        None if count == 0 => Some(
            "a tool has an empty name: give it one, as in `Tool::new(\"look\", ..)` or \
             `agent.as_tool(\"review\", ..)`"
                .to_owned(),
        ),
        None if count > 64 => Some(format!(
            "the tool name `{name}` is {count} characters long; providers take at most 64"
        )),
        None => None,
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("name", &self.name())
            .field("side_effects", &self.side_effects().to_string())
            .field("idempotent", &self.is_idempotent())
            .finish_non_exhaustive()
    }
}
