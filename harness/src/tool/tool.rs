//! One tool: what the model is told of it, what it declares, and the code that runs.

use std::{
    any::{Any, TypeId},
    borrow::Cow,
    fmt,
    pin::Pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::runtime::Handle;

use super::{
    Places, SideEffects, ToolContext, ToolDef, ToolError, ToolOutput, ToolRegistry,
    expand::{
        call::{Call, OnDrop, Receiver, Shared},
        declared::ParamDef,
    },
    review::{Review, Reviewer},
    state::StateType,
    title,
};
use crate::{
    message::{Arguments, Fingerprint, ToolCall, same},
    schema::{Checker, Fault, ToolSchema, Unchecked, Unusable},
    unwind::{Panicked, caught},
};

/// A call that runs.
pub type ToolFuture = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send>>;

/// Finds out what became of a call.
pub type ReconcileFuture = Pin<Box<dyn Future<Output = Result<Reconciled, ToolError>> + Send>>;

/// What became of a call that had started in a process which is gone: see
/// [`#[tool(reconcile = ..)]`](macro@crate::tool). `T` is what the tool returns.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reconciled<T = ToolOutput> {
    /// It happened, and this is its result.
    Happened(T),
    /// Nothing of it has happened, so that it can run now.
    NotHappened,
}

/// How a tool failed to find out what became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReconcileFault {
    /// It said so by an error.
    Failed,
    /// It panicked.
    Panicked,
    /// It took too long.
    TimedOut,
    /// The arguments of the call do not fit the tool as it is now, so it was not asked.
    Arguments,
}

/// Why it is not known what became of a call whose tool was asked: how that failed, and the words
/// of it, which are not cleaned of secrets.
pub(crate) type Unfound = (ReconcileFault, String);

type Reconcile = dyn Fn(ToolContext, Map<String, Value>) -> ReconcileFuture + Send + Sync;

type Run = dyn Fn(ToolContext, Map<String, Value>) -> ToolFuture + Send + Sync;

/// A tool: what the model is told of it, what it declares, and the code that runs. A clone is one
/// pointer.
///
/// `#[tool]` makes one of a function. By hand, for what a macro cannot express:
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
    body: Body,
    idempotent: bool,
    time_limit: Option<Duration>,
    review: Option<Reviewer>,
    title: Option<Cow<'static, str>>,
    output_schema: Option<Arc<Value>>,
    reconcile: Option<Arc<Reconcile>>,
    /// Whether the program gives the results of its calls.
    external: bool,
    /// Which shared values it needs, beside those that `#[tool]` has found.
    needs: Vec<StateType>,
    /// The agent that its calls run, if they run one.
    agent: Option<Inside>,
    /// How many of its calls run at the same time, if the program has said it of this one.
    places: Option<Places>,
    /// What somebody outside of the program has said of it, as a hash.
    pub(super) definition: Option<Arc<str>>,
}

/// An agent that the calls of a tool run.
#[derive(Clone)]
struct Inside {
    agent: Arc<dyn Any + Send + Sync>,
    /// The names of its tools, and of those of the agents below it.
    tools: Arc<[String]>,
}

#[derive(Clone)]
enum Body {
    /// Made by `#[tool]`; a method has its value beside it.
    Declared { def: &'static ToolDef, receiver: Option<Receiver> },
    /// Made by hand.
    Made(Arc<Made>),
}

struct Made {
    schema: ToolSchema,
    side_effects: SideEffects,
    run: Arc<Run>,
    /// Made when it is first asked for.
    checker: OnceLock<Result<Checker, Unusable>>,
}

impl Made {
    /// The arguments as the schema says them.
    fn read(&self, arguments: Map<String, Value>) -> Result<Map<String, Value>, ToolError> {
        let checker = self.checker().map_err(ToolError::new)?;
        let mut read = checker.read(Value::Object(arguments)).map_err(|(_, faults)| {
            ToolError::BadArguments(faults.iter().map(Fault::line).collect())
        })?;
        checker.integers(&mut read);
        match read {
            Value::Object(arguments) => Ok(arguments),
            _ => Ok(Map::new()),
        }
    }

    fn checker(&self) -> Result<&Checker, String> {
        let made = self.checker.get_or_init(|| Checker::of_arguments(&self.schema.input_schema));
        made.as_ref().map_err(|err| unusable(&self.schema.name, err))
    }
}

/// What is said of a tool whose calls cannot be checked.
pub(super) fn unusable(name: &str, err: &Unusable) -> String {
    format!("the schema of the tool `{name}` cannot be used: {err}")
}

impl Tool {
    /// A tool by hand. `input_schema` is a JSON Schema of an object; `run` gets arguments that fit
    /// all of it, at every depth: see [`ToolSchema`] for the words that are checked. Where the schema
    /// lists arguments and says nothing of others, there are no others; `"additionalProperties": true` lets
    /// others in. What is `null` and may be left out is left out.
    ///
    /// `run` hands over words as `Ok("..".into())`, a value as `Ok(ToolContent::Json(value).into())`, and an
    /// error as `Err(ToolError::new(".."))`.
    ///
    /// It cannot fail. A name that vendors do not take (they take `^[a-zA-Z0-9_-]{1,64}$`), a schema
    /// that is no object's and one that cannot be checked, because it refers to another document, are
    /// reported when a [`ToolRegistry`](super::ToolRegistry) is built of it.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        description: impl Into<Cow<'static, str>>,
        input_schema: Value,
        side_effects: SideEffects,
        run: impl Fn(ToolContext, Map<String, Value>) -> ToolFuture + Send + Sync + 'static,
    ) -> Self {
        let body = Body::Made(Arc::new(Made {
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

    /// A tool whose calls the program answers itself: a form that a person fills in, a job that runs
    /// elsewhere. A call of it that is allowed waits, and the run ends as
    /// [`Outcome::Waiting`](crate::Outcome::Waiting). Give its result with
    /// [`Chat::settle`](crate::Chat::settle) or an [`Inbox`](crate::agent::Inbox), and go on with
    /// [`Chat::resume`](crate::Chat::resume).
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
                Err(ToolError::new("the program answers calls of this tool, and nobody has run it"))
            })
        };
        let tool = Self::new(name, description, input_schema, side_effects, run);
        Self { external: true, ..tool }
    }

    fn of(body: Body, idempotent: bool, time_limit: Option<Duration>) -> Self {
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
            places: None,
            definition: None,
        }
    }

    pub(super) fn declared(def: &'static ToolDef, receiver: Option<Receiver>) -> Self {
        let (idempotent, time_limit) = (def.idempotent, def.time_limit);
        let body = Body::Declared { def, receiver };
        Self::of(body, idempotent, time_limit)
    }

    /// Declares that a call may be repeated with the same arguments without further effect. What
    /// cannot be taken back ([`SideEffect::Mutate`](super::SideEffect::Mutate)) is not repeated all the
    /// same.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Sets how long a call may take, in place of what the tool itself or the agent says.
    #[must_use]
    pub fn with_time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// Sets how many calls of the tool run at the same time in this program: over all chats and agents that have
    /// this value or a clone of it. For a function with [`#[tool(at_once = ..)]`](macro@crate::tool) the limit
    /// holds for all that is made of the function, and this takes its place.
    ///
    /// A call that finds no place [waits](crate::Event::ToolQueued) in its run, first come, first served, before
    /// it begins: nothing is written of it, its time limit does not run, and a run that is stopped meanwhile
    /// says that it has not begun. A thread that cannot be stopped keeps its place until it ends. A call
    /// inside of an agent that runs inside of a call of the same tool has the place of the outer one. Two
    /// tools with such limits whose agents call each other's tool can wait for each other: a time limit of the
    /// run ends that.
    ///
    /// Zero is refused when a registry or an agent is built of the tool.
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
        self.places = Some(Places::new(most));
        self
    }

    /// How many of its calls run at the same time, if that is limited.
    pub(crate) fn places(&self) -> Option<&Places> {
        match &self.body {
            Body::Declared { def, .. } => self.places.as_ref().or_else(|| def.places()),
            Body::Made(_) => self.places.as_ref(),
        }
    }

    /// Sets what the tool is called where people read it, such as a question for approval: one line of up to 100
    /// letters, none of them invisible. It
    /// takes the place of what was declared by `#[tool(title = "..")]`. No model reads it.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<Cow<'static, str>>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the JSON Schema of what the tool hands over: see [`output_schema`](Self::output_schema).
    #[must_use]
    pub fn with_output_schema(mut self, schema: Value) -> Self {
        self.output_schema = Some(Arc::new(schema));
        self
    }

    /// Declares that the tool asks [`ToolContext::state`] for a value of this type. An agent with the
    /// tool is then built only if the value is given to the agent or announced for each run. Of a
    /// parameter [`State<T>`](super::State) of a function with `#[tool]` this is known by itself.
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

    /// Says that its calls run this agent, which has these tools and needs these values.
    pub(crate) fn of_agent(
        mut self,
        agent: Arc<dyn Any + Send + Sync>,
        tools: &ToolRegistry,
        needs: &[StateType],
    ) -> Self {
        let all = tools.tools().iter();
        let names = all.flat_map(|tool| tool.names().map(str::to_owned));
        self.agent = Some(Inside { agent, tools: names.collect() });
        self.needs.extend_from_slice(needs);
        self
    }

    /// The agent that its calls run, if they run one.
    pub(crate) fn agent<A: 'static>(&self) -> Option<&A> {
        self.agent.as_ref()?.agent.downcast_ref()
    }

    /// Its name, and those of all tools of the agent that its calls run.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let below = self.agent.iter().flat_map(|inside| inside.tools.iter());
        std::iter::once(self.name()).chain(below.map(String::as_str))
    }

    /// Whether its calls run an agent: such a call is a conversation of its own.
    pub(crate) fn is_agent(&self) -> bool {
        self.agent.is_some()
    }

    /// Lets the tool say of each call whether a person should look at it: see [`Review`]. It takes
    /// the place of a review that was declared by `#[tool(review = ..)]`.
    #[must_use]
    pub fn with_review(
        mut self,
        review: impl Fn(&Arguments) -> Review + Send + Sync + 'static,
    ) -> Self {
        self.review = Some(Arc::new(review));
        self
    }

    /// Gives the tool a way to find out what became of a call that had started in a process which is
    /// gone, from its arguments and its [idempotency key](ToolContext::idempotency_key). A call that
    /// happened has its result, one that did not happen runs, and one of which this fails to find it
    /// out is in doubt, as without it. It must change nothing. It takes the place of what was declared by
    /// [`#[tool(reconcile = ..)]`](macro@crate::tool). A tool that is [idempotent](Self::idempotent) is
    /// called again and not asked. Why it has failed is told to the model with the result, and to a
    /// [trace](crate::trace::Happened::ReconcileFailed).
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

    /// Whether it has a way to find out what became of a call.
    pub fn can_reconcile(&self) -> bool {
        let declared = match &self.body {
            Body::Declared { def, .. } => def.reconcile.is_some(),
            Body::Made(_) => false,
        };
        self.reconcile.is_some() || declared
    }

    /// Begins to find out what became of a call.
    pub(crate) fn find_out(
        &self,
        context: ToolContext,
        arguments: Map<String, Value>,
    ) -> Result<ReconcileFuture, Unfound> {
        let none = || (ReconcileFault::Failed, "the tool has no way to find it out".to_owned());
        let panicked = |panicked: Panicked| (ReconcileFault::Panicked, panicked.to_string());
        match (&self.reconcile, &self.body) {
            (Some(reconcile), _) => caught(|| reconcile(context, arguments)).map_err(panicked),
            (None, Body::Declared { def, receiver }) => {
                let reconcile = def.reconcile.ok_or_else(none)?;
                let find_out = || {
                    let unread = |err: ToolError| (ReconcileFault::Arguments, err.to_string());
                    let arguments = def.read(arguments).map_err(unread)?;
                    Ok(reconcile(Call::new(context, arguments, def, receiver.clone())))
                };
                caught(find_out).map_err(panicked)?
            }
            (None, Body::Made(_)) => Err(none()),
        }
    }

    /// Whether the program gives the results of its calls: see [`external`](Self::external).
    pub fn is_external(&self) -> bool {
        self.external
    }

    /// Whether it says of each call whether a person should look at it.
    pub fn has_review(&self) -> bool {
        let declared = match &self.body {
            Body::Declared { def, .. } => def.review.is_some(),
            Body::Made(_) => false,
        };
        self.review.is_some() || declared
    }

    /// What the tool says of a call with these arguments; `None` if it says nothing of any. A
    /// review may block. One that panics refuses the call.
    pub fn review(&self, arguments: &Arguments) -> Option<Review> {
        let said = match (&self.review, &self.body) {
            (Some(review), _) => caught(|| review(arguments)),
            (None, Body::Declared { def, receiver }) => {
                let review = def.review?;
                caught(|| review(&Shared::of(receiver.clone()), arguments))
            }
            (None, Body::Made(_)) => return None,
        };
        Some(said.unwrap_or_else(|panicked| {
            Review::refuse(format!("the review of `{}` {panicked}", self.name()))
        }))
    }

    /// What is taken for each argument of these that is left out or `null`, where there is a default.
    pub(crate) fn defaults(&self, arguments: &Arguments) -> Arguments {
        let Some(Value::Object(properties)) = self.input_schema().get("properties") else {
            return Arguments::default();
        };
        let is_open = |name: &str| arguments.get(name).is_none_or(Value::is_null);
        let taken =
            properties.iter().filter(|(name, _)| is_open(name)).filter_map(|(name, schema)| {
                Some((name.clone(), schema.get("default").filter(|it| !it.is_null())?.clone()))
            });
        Arguments::from(taken.collect::<Map<String, Value>>())
    }

    /// A hash of what a call would do: an argument that is left out, one that is `null` and one that is
    /// the default are the same.
    pub(crate) fn sameness(&self, call: &ToolCall) -> Fingerprint {
        let Ok(arguments) = call.decoded() else { return call.fingerprint() };
        let schema = self.input_schema().get("properties");
        let default = |name: &str| schema?.get(name)?.get("default");
        let mut members = arguments.into_map();
        let says_something = |name: &str, value: &Value| {
            !value.is_null() && !default(name).is_some_and(|default| same(default, value))
        };
        members.retain(|name, value| says_something(name, value));
        Arguments::from(members).fingerprint(self.name())
    }

    /// The review of a call, on a thread for blocking work where there is a runtime. Dropping the
    /// future forgets a review that has not begun.
    pub(crate) async fn review_off_loop(&self, arguments: &Arguments) -> Option<Review> {
        if !self.has_review() {
            return None;
        }
        let (tool, arguments) = (self.clone(), arguments.clone());
        let Ok(runtime) = Handle::try_current() else { return self.review(&arguments) };
        let mut task = OnDrop::new(runtime.spawn_blocking(move || tool.review(&arguments)));
        task.ended().await.unwrap_or_else(|_| {
            Some(Review::refuse("the program is shutting down, so the call could not be reviewed"))
        })
    }

    /// The name by which the model calls it.
    pub fn name(&self) -> &str {
        match &self.body {
            Body::Declared { def, .. } => def.name,
            Body::Made(made) => &made.schema.name,
        }
    }

    /// What the model is told of it.
    pub fn description(&self) -> &str {
        match &self.body {
            Body::Declared { def, .. } => def.description.trim(),
            Body::Made(made) => &made.schema.description,
        }
    }

    /// What it is called where people read it, if that is not its name.
    pub fn title(&self) -> Option<&str> {
        let declared = match &self.body {
            Body::Declared { def, .. } => def.title,
            Body::Made(_) => None,
        };
        self.title.as_deref().or(declared)
    }

    /// The JSON Schema of what it hands over, if it is known: of a function with `#[tool]` that returns a type
    /// with `#[derive(schemars::JsonSchema)]`, or of a tool that [says](Self::with_output_schema) it. It is
    /// told wherever a protocol has a place for it. The models' protocols have none, and what a tool hands
    /// over is not checked against it.
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
        let declared = match &self.body {
            Body::Declared { def, .. } => def.output_schema(),
            Body::Made(_) => None,
        };
        self.output_schema.as_deref().or(declared)
    }

    /// The JSON Schema of its arguments.
    pub fn input_schema(&self) -> &Value {
        &self.schema().input_schema
    }

    /// All that the model is told.
    pub fn schema(&self) -> &ToolSchema {
        match &self.body {
            Body::Declared { def, .. } => def.schema(),
            Body::Made(made) => &made.schema,
        }
    }

    /// What it does to the world.
    pub fn side_effects(&self) -> SideEffects {
        match &self.body {
            Body::Declared { def, .. } => def.side_effects,
            Body::Made(made) => made.side_effects,
        }
    }

    /// Whether it may be repeated with the same arguments without further effect.
    pub fn is_idempotent(&self) -> bool {
        self.idempotent
    }

    /// How long a call may take, if the tool itself says so.
    pub fn time_limit(&self) -> Option<Duration> {
        self.time_limit
    }

    /// The types of the shared values that it needs, each as often as it is asked for.
    pub(super) fn state_types(&self) -> impl Iterator<Item = StateType> {
        let declared: &[ParamDef] = match &self.body {
            Body::Declared { def, .. } => def.params,
            Body::Made(_) => &[],
        };
        declared.iter().filter_map(|param| param.needs).chain(self.needs.iter().copied())
    }

    /// Whether it asks for a shared value of this type.
    pub(crate) fn needs<T: 'static>(&self) -> bool {
        self.state_types().any(|needed| needed.id() == TypeId::of::<T>())
    }

    /// What is wrong with a tool that was made by hand. Of one made by `#[tool]` the same was asked
    /// while compiling.
    pub(super) fn problem(&self) -> Option<String> {
        if self.places.as_ref().is_some_and(Places::are_none) {
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
        let Body::Made(made) = &self.body else { return None };
        let ToolSchema { name, input_schema, .. } = &made.schema;
        fault_of_name(name).or_else(|| {
            if self.is_agent() && made.schema.description.trim().is_empty() {
                return Some(format!(
                    "the agent that is the tool `{name}` has no description, by which a model knows when to \
                     call it: give one, as in `agent.as_tool(\"{name}\", \"Reviews code.\")`"
                ));
            }
            let is_object = input_schema.get("type").is_some_and(|kind| kind == "object");
            if is_object {
                return made.checker().err();
            }
            Some(format!(
                "the schema of the tool `{name}` is not that of an object: give it \
                 `\"type\": \"object\"`"
            ))
        })
    }

    /// How a tool like this is given another name.
    pub(super) fn how_to_name(&self) -> &'static str {
        match &self.body {
            Body::Declared { .. } => "with `#[tool(name = \"...\")]`",
            Body::Made(_) if self.is_agent() => "as in `agent.as_tool(\"...\", ..)`",
            Body::Made(_) => "as in `Tool::new(\"...\", ..)`",
        }
    }

    /// Whether somebody outside of the program offers it.
    pub(crate) fn is_of_a_server(&self) -> bool {
        self.definition.is_some()
    }

    /// What is wrong with a tool made by `#[tool]` that could not be seen while compiling.
    pub(super) fn late_problem(&self) -> Option<&'static str> {
        match &self.body {
            Body::Declared { def, .. } => def.problem(),
            Body::Made(_) => None,
        }
    }

    /// Checks the arguments and runs nothing.
    ///
    /// # Errors
    /// Fails with all that is wrong: one line each, beginning with the argument's name in
    /// backticks.
    pub fn check(&self, arguments: &Map<String, Value>) -> Result<(), Vec<String>> {
        let checked = match &self.body {
            Body::Declared { def, .. } => def.check(arguments.clone()),
            Body::Made(made) => made.read(arguments.clone()).map(drop),
        };
        checked.map_err(|err| match err {
            ToolError::BadArguments(lines) => lines,
            err => vec![err.to_string()],
        })
    }

    /// The parts of the schema that the model is told and that are not checked: a `pattern` that looks
    /// around, a word whose value is not what the standard says. Empty where all of it is checked.
    pub fn unchecked(&self) -> &[Unchecked] {
        let checker = match &self.body {
            Body::Declared { def, .. } => def.checker().ok(),
            Body::Made(made) => made.checker().ok(),
        };
        checker.map(Checker::unchecked).unwrap_or_default()
    }

    /// Calls it. Nothing happens before the future is polled; dropping it stops the tool.
    ///
    /// # Errors
    /// Fails if the arguments do not fit or the tool fails.
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
        match &self.body {
            Body::Declared { def, receiver } => {
                let arguments = def.read(arguments)?;
                let call = Call::new(context.clone(), arguments, def, receiver.clone());
                (def.run)(call).await
            }
            Body::Made(made) => {
                let arguments = made.read(arguments)?;
                (made.run)(context.clone(), arguments).await
            }
        }
    }
}

/// What is wrong with a name, for every vendor; `#[tool]` says it while compiling.
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
