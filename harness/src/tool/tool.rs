//! One tool: what the model is told of it, what it declares, and the code that runs.

use std::{borrow::Cow, fmt, pin::Pin, sync::Arc, time::Duration};

use serde_json::{Map, Value};

use super::{SideEffects, ToolContext, ToolError, ToolOutput, ToolSchema};

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
pub struct Tool(Arc<Inner>);

struct Inner {
    schema: ToolSchema,
    side_effects: SideEffects,
    idempotent: bool,
    time_limit: Option<Duration>,
    run: Box<Run>,
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
        Self(Arc::new(Inner {
            schema: ToolSchema {
                name: name.into().into_owned(),
                description: description.into().into_owned(),
                input_schema,
            },
            side_effects,
            idempotent: false,
            time_limit: None,
            run: Box::new(run),
        }))
    }

    /// The name by which the model calls it.
    pub fn name(&self) -> &str {
        &self.0.schema.name
    }

    /// What the model is told of it.
    pub fn description(&self) -> &str {
        &self.0.schema.description
    }

    /// The JSON Schema of its arguments.
    pub fn input_schema(&self) -> &Value {
        &self.0.schema.input_schema
    }

    /// All that the model is told.
    pub fn schema(&self) -> &ToolSchema {
        &self.0.schema
    }

    /// What it does to the world.
    pub fn side_effects(&self) -> SideEffects {
        self.0.side_effects
    }

    /// Whether it may be repeated with the same arguments without further effect.
    pub fn is_idempotent(&self) -> bool {
        self.0.idempotent
    }

    /// How long a call may take, if the tool itself says so.
    pub fn time_limit(&self) -> Option<Duration> {
        self.0.time_limit
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
        (self.0.run)(context.clone(), arguments).await
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
