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
    /// The tools that the model has found by searching. A request contains each of these tools at the position of its
    /// search. `None` if no tool is sent in this way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<Vec<ToolSchema>>,
}

impl Prefix {
    /// A prefix of these instructions and tools.
    pub fn new(system: Option<String>, tools: Vec<ToolSchema>, form: String) -> Self {
        Self { system, tools, form, found: None }
    }

    /// Sets the tools that the model has found by searching: see [`found`](Self::found).
    #[must_use]
    pub fn with_found(mut self, found: Option<Vec<ToolSchema>>) -> Self {
        self.found = found;
        self
    }
}
