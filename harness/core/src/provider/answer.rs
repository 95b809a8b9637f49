//! The schema of a typed answer, in the form that a provider gets.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

use harness_schema::{NotStrict, StrictForm, ToolSchema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a model gets the schema of its answer, and how the schema is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputMode {
    /// The vendor enforces the schema: the request contains it as the format of the answer.
    Schema,
    /// The model calls a tool whose arguments are the answer.
    Tool,
    /// A text after the user's message contains the schema.
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

/// The purpose of a request with a schema for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestPurpose {
    /// The request continues a conversation, so the model may also do something else, such as call a tool.
    Conversation,
    /// The request asks only for the answer.
    Answer,
    /// The request asks only for the answer. An earlier request asked for the same answer, but the model's answer did
    /// not match the schema.
    AnswerAgain,
}

/// The schema that the answer to a [`Request`](super::Request) has to match, and the index of the user message to which
/// the answer belongs.
///
/// The provider chooses how the model gets the schema, and [records](Self::told_by) the choice. With
/// [`OutputMode::Tool`], the provider adds [`tool`](Self::tool) to the tools of the request, and emits the call of this
/// tool like any other call. The agent takes the arguments of this call as the text of the answer.
#[derive(Debug)]
pub struct OutputSchema {
    tool: ToolSchema,
    message: usize,
    about: RequestPurpose,
    is_only_by_tool: bool,
    way: Mutex<Option<OutputMode>>,
}

impl OutputSchema {
    /// Creates the schema of the answer to the message with the index `message`. `schema` must describe an object, and
    /// `name` must differ from the names of the tools.
    pub fn new(name: impl Into<String>, schema: Value, message: usize) -> Self {
        let description = "Gives the final answer. Call it once, by itself, when nothing is left to be done, and \
                           say nothing after it."
            .to_owned();
        let name = name.into();
        let tool = ToolSchema { name, description, input_schema: schema };
        let (about, way) = (RequestPurpose::Conversation, Mutex::new(None));
        Self { tool, message, about, is_only_by_tool: false, way }
    }

    /// Requests the answer through [the tool](OutputMode::Tool), even if the vendor has a format for typed answers.
    /// The vendor's format would change the part of the request before the messages. Earlier reasoning is
    /// [bound](super::ReasoningBinding) to this part.
    #[must_use]
    pub fn only_by_tool(mut self) -> Self {
        self.is_only_by_tool = true;
        self
    }

    /// Whether the answer must be requested through the tool.
    pub fn is_only_by_tool(&self) -> bool {
        self.is_only_by_tool
    }

    /// Sets the purpose of a request that asks only for this answer. If the vendor is not known to enforce schemas,
    /// the provider forces a call of the answer tool. For some servers, the provider forces the call only with the
    /// purpose [`AnswerAgain`](RequestPurpose::AnswerAgain).
    #[doc(hidden)]
    pub fn forced(mut self, about: RequestPurpose) -> Self {
        self.about = about;
        self
    }

    /// The purpose of the request with this schema.
    pub fn about(&self) -> RequestPurpose {
        self.about
    }

    /// A tool whose arguments are the answer. The tool has the given name, and the schema of the answer as its
    /// input schema.
    pub fn tool(&self) -> &ToolSchema {
        &self.tool
    }

    /// The JSON Schema of the answer, which always describes an object.
    pub fn schema(&self) -> &Value {
        &self.tool.input_schema
    }

    /// The index of the user message to which the answer belongs, among the messages of the request.
    pub fn message(&self) -> usize {
        self.message
    }

    /// The instruction with the schema, for a model that gets the schema as text.
    pub fn in_words(&self) -> String {
        in_words(&self.tool.input_schema)
    }

    /// Records how the model gets the schema. A later call replaces the record.
    pub fn told_by(&self, way: OutputMode) {
        *self.way.lock().unwrap_or_else(PoisonError::into_inner) = Some(way);
    }

    /// How the model gets the schema; `None` if no provider has recorded it.
    pub fn way(&self) -> Option<OutputMode> {
        *self.way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The schema in the form that the vendor can enforce. `held` are the tools of the same request whose schemas the
    /// vendor also enforces.
    ///
    /// # Errors
    /// Fails if this form cannot express the schema.
    pub fn strict(&self, form: StrictForm, held: &[ToolSchema]) -> Result<Value, NotStrict> {
        let all: Vec<ToolSchema> = held.iter().chain([&self.tool]).cloned().collect();
        let last = form.of_all(&all).pop();
        last.unwrap_or_else(|| self.tool.strict(form))
    }
}

/// The instruction for a model that gets the schema of its answer only as text.
#[doc(hidden)]
pub fn in_words(schema: &Value) -> String {
    format!(
        "Answer with one JSON value and nothing else. It has to fit this JSON Schema:\n{schema}"
    )
}
