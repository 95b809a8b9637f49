//! The schema that an answer has to fit, for a provider.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

use harness_schema::{NotStrict, StrictForm, ToolSchema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a model is told the schema of its answer, and held to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputMode {
    /// By the vendor: the request contains the schema as the format of the answer.
    Schema,
    /// By a tool whose arguments are the answer.
    Tool,
    /// By text after the user's message.
    Words,
}

impl fmt::Display for OutputMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Schema => "schema",
            Self::Tool => "tool",
            Self::Words => "words",
        })
    }
}

/// What a request with a schema for its answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestPurpose {
    /// The request continues a conversation, so the model may also do something else, such as call a tool.
    Conversation,
    /// The request is for nothing but the answer.
    Answer,
    /// The request is for nothing but the answer, and an earlier request for it got no answer that fits.
    AnswerAgain,
}

/// The schema that the answer to a [`Request`](super::Request) has to fit, and the message that
/// asks for it.
///
/// A provider chooses how the model is told, and [reports](Self::told_by) its choice. For [a
/// tool](OutputMode::Tool), it adds [`tool`](Self::tool) to the tools of the request and emits the
/// call like any other: the agent takes its arguments as the text of the answer.
#[derive(Debug)]
pub struct OutputSchema {
    tool: ToolSchema,
    message: usize,
    about: RequestPurpose,
    is_only_by_tool: bool,
    way: Mutex<Option<OutputMode>>,
}

impl OutputSchema {
    /// Creates the schema of the answer to the message with this index. `schema` must be that of an object, and `name`
    /// must differ from the names of the tools.
    pub fn new(name: impl Into<String>, schema: Value, message: usize) -> Self {
        let description = "Gives the final answer. Call it once, by itself, when nothing is left to be done, and \
                           say nothing after it."
            .to_owned();
        let name = name.into();
        let tool = ToolSchema { name, description, input_schema: schema };
        let (about, way) = (RequestPurpose::Conversation, Mutex::new(None));
        Self { tool, message, about, is_only_by_tool: false, way }
    }

    /// Lets the model be told by [the tool](OutputMode::Tool), even if the vendor has another way: that way would change
    /// what comes before the messages, to which earlier reasoning is [bound](super::ReasoningBinding).
    #[must_use]
    pub fn only_by_tool(mut self) -> Self {
        self.is_only_by_tool = true;
        self
    }

    /// Whether the model has to be told by the tool.
    pub fn is_only_by_tool(&self) -> bool {
        self.is_only_by_tool
    }

    /// Sets what the request is for, if it is for nothing but this answer. Where it is not known that the vendor holds
    /// its model to a schema, the model has to call the tool for the answer, at the latest if it is asked
    /// [again](RequestPurpose::AnswerAgain).
    #[doc(hidden)]
    pub fn forced(mut self, about: RequestPurpose) -> Self {
        self.about = about;
        self
    }

    /// What the request with this schema is for.
    pub fn about(&self) -> RequestPurpose {
        self.about
    }

    /// A tool whose arguments are the answer: it has the given name and the schema of the answer.
    pub fn tool(&self) -> &ToolSchema {
        &self.tool
    }

    /// The JSON Schema of the answer, always that of an object.
    pub fn schema(&self) -> &Value {
        &self.tool.input_schema
    }

    /// The index, among the messages of the request, of the user message that asks for the answer.
    pub fn message(&self) -> usize {
        self.message
    }

    /// The instruction with the schema, for a model that is told by text.
    pub fn in_words(&self) -> String {
        in_words(&self.tool.input_schema)
    }

    /// Records how the model is told. A later call replaces an earlier one.
    pub fn told_by(&self, way: OutputMode) {
        *self.way.lock().unwrap_or_else(PoisonError::into_inner) = Some(way);
    }

    /// How the model was told, if a provider has recorded it.
    pub fn way(&self) -> Option<OutputMode> {
        *self.way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The schema in the form to which the vendor can hold the model, if these tools are held to
    /// their schemas, too.
    ///
    /// # Errors
    /// Fails if the form has no schema with this meaning.
    pub fn strict(&self, form: StrictForm, held: &[ToolSchema]) -> Result<Value, NotStrict> {
        let all: Vec<ToolSchema> = held.iter().chain([&self.tool]).cloned().collect();
        let last = form.of_all(&all).pop();
        last.unwrap_or_else(|| self.tool.strict(form))
    }
}

/// The instruction for the model where only text tells it the schema of its answer.
#[doc(hidden)]
pub fn in_words(schema: &Value) -> String {
    format!(
        "Answer with one JSON value and nothing else. It has to fit this JSON Schema:\n{schema}"
    )
}
