//! One tool: what the model is told of it, what it declares, and the code that runs.

use std::{borrow::Cow, fmt, pin::Pin, sync::Arc, time::Duration};

use serde_json::{Map, Value};

use super::{
    SideEffects, ToolContext, ToolDef, ToolError, ToolOutput, ToolSchema,
    call::{Call, Receiver},
};

/// A call that runs.
pub type ToolFuture = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send>>;

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
}

#[derive(Clone)]
enum Body {
    /// Made by `#[tool]`; a method has its value beside it.
    Declared { def: &'static ToolDef, receiver: Option<Receiver> },
    /// Made by hand.
    Made(Arc<Made>),
}

#[derive(Clone)]
struct Made {
    schema: ToolSchema,
    side_effects: SideEffects,
    run: Arc<Run>,
}

impl Tool {
    /// A tool by hand. `input_schema` is a JSON Schema of an object; `run` gets the arguments as
    /// the model gave them.
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
        }));
        Self { body, idempotent: false, time_limit: None }
    }

    pub(super) fn declared(def: &'static ToolDef, receiver: Option<Receiver>) -> Self {
        let (idempotent, time_limit) = (def.idempotent, def.time_limit);
        Self { body: Body::Declared { def, receiver }, idempotent, time_limit }
    }

    /// Declares that a call may be repeated with the same arguments without further effect.
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

    /// What is wrong with the tool itself, for the registry to say.
    pub(super) fn problem(&self) -> Option<String> {
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
        let lines = match &self.body {
            Body::Declared { def, .. } => def.check(arguments),
            Body::Made(_) => Vec::new(),
        };
        if lines.is_empty() { Ok(()) } else { Err(lines) }
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
                let call = Call::new(context.clone(), arguments, def.params, receiver.clone());
                (def.run)(call).await
            }
            Body::Made(made) => (made.run)(context.clone(), arguments).await,
        }
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
