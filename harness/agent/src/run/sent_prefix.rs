//! The prefix of requests in its sent form, for a model that accepts its earlier reasoning only after an
//! unchanged prefix.

use harness_schema::{SchemaCache, ToolSchema};
use serde_json::{Map, Value};

use super::tool_search::OfferedTools;
use harness_core::{
    provider::{PrefixAddition, Request},
    tool::ToolRegistry,
};

/// How changed instructions and tools take effect if the model's [reasoning is
/// bound](harness_core::provider::ReasoningBinding) to them. Changed instructions and changed parameters
/// always take effect with the next request, and a tool that was removed never runs.
///
/// If the vendor's protocol supports changes, a change is sent after the messages so far. Otherwise the
/// beginning of requests changes, earlier reasoning is no longer sent, and the run emits
/// [`Event::PrefixChanged`](crate::Event::PrefixChanged).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PrefixPolicy {
    /// If only the wording of a tool's definition has changed, the old definition is sent until a summary
    /// replaces the beginning of the conversation. A tool that was removed, or is not offered in a run, is
    /// still sent, and its calls fail.
    #[default]
    Keep,
    /// The model gets the program's current definitions. A changed wording counts as a change.
    Follow,
}

/// The prefix of a request, and the additions that are sent after some of its messages.
#[derive(Debug)]
pub(crate) struct SentPrefix {
    /// The key of this cached value: the address of the tool registry, the number of searches, and the version
    /// of the prefix.
    pub(crate) of: (usize, usize, u64),
    pub(crate) form: String,
    /// The tool by which the model gives the required typed answer.
    pub(crate) answer_tool: Option<ToolSchema>,
    pub(crate) system: Option<String>,
    pub(crate) schemas: Vec<ToolSchema>,
    pub(crate) forms: SchemaCache,
    pub(crate) additions: Vec<PrefixAddition>,
    /// The tools that are sent although the run does not offer them.
    pub(crate) hidden: Vec<String>,
    /// How many of the tools the model has without a search. The others are sent at the positions of the
    /// searches. `None` if no tool is sent in this way.
    pub(crate) before_searches: Option<usize>,
}

/// Adds the offered tools to a request. If the model's reasoning is bound to a prefix, adds the instructions
/// and tools of that prefix instead.
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

/// Whether both definitions allow the same calls and differ only in their wording.
pub(crate) fn is_same_but_for_words(one: &ToolSchema, other: &ToolSchema) -> bool {
    without_words(&one.input_schema, &|_| {}) == without_words(&other.input_schema, &|_| {})
}

/// The schema without the members that are only text for a reader. `each` then changes each object of the schema,
/// from the inside out.
pub(crate) fn without_words(schema: &Value, each: &impl Fn(&mut Map<String, Value>)) -> Value {
    let mut schema = schema.clone();
    remove_words(&mut schema, each);
    schema
}

fn remove_words(schema: &mut Value, each: &impl Fn(&mut Map<String, Value>)) {
    const WORDS: [&str; 5] = ["description", "title", "examples", "$comment", "deprecated"];
    const VALUES: [&str; 3] = ["const", "enum", "default"];
    const NAMED: [&str; 5] =
        ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(|schema| remove_words(schema, each)),
        Value::Object(members) => {
            members.retain(|name, _| !WORDS.contains(&&**name));
            for (name, value) in &mut *members {
                match value {
                    _ if VALUES.contains(&&**name) => {}
                    // The keys are names of members, not keywords of the schema.
                    Value::Object(named) if NAMED.contains(&&**name) => {
                        named.values_mut().for_each(|schema| remove_words(schema, each));
                    }
                    value => remove_words(value, each),
                }
            }
            each(members);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
