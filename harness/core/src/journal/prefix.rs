//! The part of a request before the messages.

use serde::{Deserialize, Serialize};

use crate::tool::ToolSchema;

/// The part of a request before the messages: the instructions and the tool definitions. If this part changes, newer
/// models refuse or drop their earlier reasoning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Prefix {
    /// The system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The tools, in the order in which they are sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSchema>,
    /// Further content that the provider puts before the messages: see
    /// [`ReasoningBinding::form`](crate::provider::ReasoningBinding::form).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub form: String,
}

impl Prefix {
    /// A prefix of these instructions and tools.
    pub fn new(system: Option<String>, tools: Vec<ToolSchema>, form: String) -> Self {
        Self { system, tools, form }
    }
}
