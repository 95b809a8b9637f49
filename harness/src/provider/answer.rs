//! What a provider is told of an answer that has to fit a schema.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema::{NotStrict, StrictForm, ToolSchema};

/// How a model is told what its answer has to be, and held to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AnswerWay {
    /// By the vendor: the request has the schema as the form of the answer.
    Schema,
    /// By a tool that only takes the answer.
    Tool,
    /// By words after the message of the user.
    Words,
}

impl fmt::Display for AnswerWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Schema => "schema",
            Self::Tool => "tool",
            Self::Words => "words",
        })
    }
}

/// What the answer to a [`Request`](super::Request) has to be, and who has asked for it.
///
/// A provider chooses the way in which the model is told, and [says](Self::told_by) which one it is. If that is
/// [a tool](AnswerWay::Tool), it adds [`tool`](Self::tool) to those of the request and hands the call on as any other: the
/// agent reads its arguments as the words of the answer.
#[derive(Debug)]
pub struct AnswerSchema {
    tool: ToolSchema,
    message: usize,
    way: Mutex<Option<AnswerWay>>,
}

impl AnswerSchema {
    /// An answer that fits this schema of an object, to the message of this number. `name` is none of the names
    /// of the tools.
    pub fn new(name: impl Into<String>, schema: Value, message: usize) -> Self {
        let description = "Gives the final answer. Call it once, by itself, when nothing is left to be done, and \
                           say nothing after it."
            .to_owned();
        let name = name.into();
        let tool = ToolSchema { name, description, input_schema: schema };
        Self { tool, message, way: Mutex::new(None) }
    }

    /// A tool whose arguments are the answer: its name, and the schema of the answer as that of its arguments.
    pub fn tool(&self) -> &ToolSchema {
        &self.tool
    }

    /// The JSON Schema of the answer: always an object.
    pub fn schema(&self) -> &Value {
        &self.tool.input_schema
    }

    /// The number of the user's message, among those of the request, that asks for the answer.
    pub fn message(&self) -> usize {
        self.message
    }

    /// The schema in words, for a model that is told it so.
    pub fn in_words(&self) -> String {
        in_words(&self.tool.input_schema)
    }

    /// Says how the model is told. The last word counts.
    pub fn told_by(&self, way: AnswerWay) {
        *self.way.lock().unwrap_or_else(PoisonError::into_inner) = Some(way);
    }

    /// How the model was told, if a provider has said it.
    pub fn way(&self) -> Option<AnswerWay> {
        *self.way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The form to which the vendor can hold the model, if these tools are held to theirs, too.
    pub(crate) fn strict(&self, form: StrictForm, held: &[ToolSchema]) -> Result<Value, NotStrict> {
        let all: Vec<ToolSchema> = held.iter().chain([&self.tool]).cloned().collect();
        let last = form.of_all(&all).pop();
        last.unwrap_or_else(|| self.tool.strict(form))
    }
}

/// What a model is told of the schema of its answer where nothing else tells it.
pub(crate) fn in_words(schema: &Value) -> String {
    format!(
        "Answer with one JSON value and nothing else. It has to fit this JSON Schema:\n{schema}"
    )
}
