//! What the model is told of a tool.

use serde_json::Value;

/// What the model is told of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSchema {
    /// The name by which the model calls it.
    pub name: String,
    /// When and how to use it.
    pub description: String,
    /// JSON Schema (draft 2020-12) of the arguments: always an object.
    pub input_schema: Value,
}
