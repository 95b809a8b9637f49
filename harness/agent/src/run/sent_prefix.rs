//! The instructions and tools to which a model's reasoning is bound, as they are sent.

use harness_schema::{SchemaCache, ToolSchema};
use serde_json::{Map, Value};

use super::tool_search::OfferedTools;
use harness_core::{
    provider::{PrefixAddition, Request},
    tool::ToolRegistry,
};

/// What a conversation does when the program that goes on with it has other instructions or tools than before, and the
/// model's [reasoning is bound](harness_core::provider::ReasoningBinding) to them. Changed instructions and changed arguments
/// always take effect with the next request, and a tool that is gone never runs.
///
/// What changes is sent behind the messages so far, if the vendor has a form for that. If not, the change takes the place of
/// what came first, earlier reasoning is not sent any more, and [`Event::PrefixChanged`](crate::Event::PrefixChanged) says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PrefixPolicy {
    /// A definition of a tool of which only the wording has changed is sent as the conversation began with it, until a
    /// summary replaces the beginning. A tool that is gone, or is not offered in a run, is sent too, and its calls fail.
    #[default]
    Keep,
    /// The model reads each definition as the program has it now. Another wording counts as a change.
    Follow,
}

/// What comes before the messages of a request, and what is sent behind some of them.
#[derive(Debug)]
pub(crate) struct SentPrefix {
    /// What this was made for: the address of the offered tools, the number of searches, and the version of the prefix.
    pub(crate) of: (usize, usize, u64),
    pub(crate) form: String,
    /// The tool by which the model gives the typed answer that is wanted.
    pub(crate) answer_tool: Option<ToolSchema>,
    pub(crate) system: Option<String>,
    pub(crate) schemas: Vec<ToolSchema>,
    pub(crate) forms: SchemaCache,
    pub(crate) additions: Vec<PrefixAddition>,
    /// The tools that are sent and not offered.
    pub(crate) hidden: Vec<String>,
}

/// The request with its tools: those that are offered, if the model's reasoning is not bound. If it is, with the
/// instructions and tools to which it is bound.
pub(crate) fn behind_prefix<'a>(
    request: Request<'a>,
    (tools, more): (&'a ToolRegistry, Option<&'a OfferedTools>),
    prefix: Option<&'a SentPrefix>,
) -> Request<'a> {
    if let Some(SentPrefix { system, schemas, forms, additions, hidden, .. }) = prefix {
        let request = request.with_system(system.as_deref()).with_tools(schemas).with_forms(forms);
        return request.with_additions(additions).with_hidden_tools(hidden);
    }
    let (schemas, forms) = match more {
        Some(more) => (&*more.schemas, &more.forms),
        None => (tools.schemas(), tools.forms()),
    };
    request.with_tools(schemas).with_forms(forms)
}

/// Whether a model that has read one of these definitions can call by the other one.
pub(crate) fn is_same_but_for_words(one: &ToolSchema, other: &ToolSchema) -> bool {
    let without = |schema: &Value| {
        let mut schema = schema.clone();
        remove_words(&mut schema);
        schema
    };
    without(&one.input_schema) == without(&other.input_schema)
}

/// Removes what a schema says to a reader alone.
fn remove_words(schema: &mut Value) {
    const WORDS: [&str; 4] = ["description", "title", "examples", "$comment"];
    const VALUES: [&str; 3] = ["const", "enum", "default"];
    const NAMED: [&str; 5] =
        ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(remove_words),
        Value::Object(members) => {
            members.retain(|name, _| !WORDS.contains(&&**name));
            for (name, value) in members {
                match value {
                    _ if VALUES.contains(&&**name) => {}
                    Value::Object(named) if NAMED.contains(&&**name) => remove_in_all(named),
                    value => remove_words(value),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn remove_in_all(named: &mut Map<String, Value>) {
    named.values_mut().for_each(remove_words);
}
