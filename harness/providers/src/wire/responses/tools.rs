//! Writes the tools of a request of the Responses API: in the list of tools, in the output of a search, and in the
//! middle of the conversation.

use std::collections::HashMap;

use harness_schema::{EncodedSchema, SchemaForm, StrictForm, ToolSchema};

use crate::wire::{
    json::{comma, key, member, put, raw, room_for, text},
    prefix,
};
use harness_core::provider::{BodyDraft, PrefixAddition, Request, ToolChoice, ToolSearches};

/// The tools that are sent in the output of the search that found them. Empty if the agent has no tool search, or if
/// the vendor does not support such outputs.
#[derive(Default)]
pub(super) struct LoadedTools<'a> {
    found: ToolSearches<'a>,
    /// The name of the search tool, if it is sent as the vendor's own type of tool.
    pub(super) search: Option<&'a str>,
    /// The JSON definition of each found tool, by name.
    definitions: HashMap<&'a str, String>,
}

impl<'a> LoadedTools<'a> {
    /// Collects the found tools. No tool is collected if `wanted`, the choice of a tool, names the search or a found
    /// tool, because the vendor requires that tool in the request's list.
    pub(super) fn of(request: &Request<'a>, strict: bool, defers: bool, wanted: &[&str]) -> Self {
        let found = request.found();
        let named = |name: &str| found.search() == Some(name) || found.has(name);
        let is_named = wanted.iter().any(|name| named(name));
        let search = found.search().filter(|_| defers && !is_named);
        if search.is_none() {
            return Self::default();
        }
        let parameters = request.parameters(schema_form(strict));
        let all = request.tools().iter().zip(&*parameters);
        let definitions =
            all.filter(|(tool, _)| found.has(&tool.name)).map(|(tool, parameters)| {
                let mut out = BodyDraft::default();
                function(&mut out, tool, parameters, true, true);
                (&*tool.name, String::from_utf8_lossy(out.ready()).into_owned())
            });
        Self { found, search, definitions: definitions.collect() }
    }

    /// A text that changes whenever these tools change the bytes of a message.
    pub(super) fn form(&self) -> String {
        if self.definitions.is_empty() {
            return String::new();
        }
        let mut all: Vec<&str> = self.definitions.values().map(String::as_str).collect();
        all.sort_unstable();
        format!(" found {}", all.join(","))
    }

    /// The JSON definitions of the tools that this call has found. Empty if the model had all of them: then the call and
    /// its result are sent like those of a function, because the vendor's output has no text.
    pub(super) fn by(&self, call: &str) -> Vec<&str> {
        let found = self.found.by(call).into_iter().flatten();
        found.filter_map(|name| self.definitions.get(&**name)).map(String::as_str).collect()
    }
}

fn schema_form(strict: bool) -> SchemaForm {
    if strict {
        SchemaForm::Held(StrictForm::OpenAI)
    } else {
        SchemaForm::Plain(StrictForm::OpenAI)
    }
}

/// Writes the list of tools.
pub(super) fn tools(
    out: &mut BodyDraft,
    request: &Request<'_>,
    (strict, says_strict): (bool, bool),
    loaded: &LoadedTools<'_>,
) {
    let parameters = request.parameters(schema_form(strict));
    room_for(out, request.tools(), &parameters);
    for (tool, parameters) in request.tools().iter().zip(&*parameters) {
        if loaded.search == Some(&*tool.name) {
            comma(out);
            raw(out, r#"{"type":"tool_search","execution":"client""#);
            member(out, "description", &tool.description);
            key(out, "parameters");
            raw(out, &parameters.json);
            out.push(b'}');
        } else if !loaded.definitions.contains_key(&*tool.name) {
            function(out, tool, parameters, says_strict, false);
        }
    }
}

/// Writes the definition of a tool.
fn function(
    out: &mut BodyDraft,
    tool: &ToolSchema,
    parameters: &EncodedSchema,
    says_strict: bool,
    deferred: bool,
) {
    comma(out);
    raw(out, r#"{"type":"function""#);
    member(out, "name", &tool.name);
    member(out, "description", &tool.description);
    key(out, "parameters");
    raw(out, &parameters.json);
    // Without this member, the vendor turns strict mode on and changes the schema.
    if says_strict {
        key(out, "strict");
        put(out, &parameters.strict);
    }
    if deferred {
        raw(out, r#","defer_loading":true"#);
    }
    out.push(b'}');
}

/// Writes added instructions and tools as developer items after the message to which they belong.
///
/// Source: <https://developers.openai.com/api/docs/guides/keep-prefix-unchanged>.
pub(super) fn addition(
    out: &mut BodyDraft,
    added: &PrefixAddition,
    strict: bool,
    says_strict: bool,
) {
    let PrefixAddition { system, tools, .. } = added;
    if let Some(system) = system {
        comma(out);
        raw(out, r#"{"type":"message","role":"developer","content":"#);
        text(out, system);
        out.push(b'}');
    }
    if tools.is_empty() {
        return;
    }
    comma(out);
    raw(out, r#"{"type":"additional_tools","role":"developer","tools":["#);
    let parameters = schema_form(strict).of(tools);
    for (tool, parameters) in tools.iter().zip(&*parameters) {
        function(out, tool, parameters, strict || says_strict, false);
    }
    raw(out, "]}");
}

/// The choice of tools if the model may call only some of the sent tools; otherwise `None`. The vendor refuses a choice
/// that names a search for tools or a found tool. Also `None` if the request has tools of the vendor (`has_more`), which
/// the choice would turn off.
pub(super) fn fewer(
    request: &Request<'_>,
    loaded: &LoadedTools<'_>,
    has_more: bool,
    wanted: &ToolChoice,
) -> Option<serde_json::Value> {
    if loaded.search.is_some() || has_more {
        return None;
    }
    let mode = match wanted {
        ToolChoice::Auto => "auto",
        ToolChoice::Required => "required",
        ToolChoice::Forbidden | ToolChoice::Tool(_) => return None,
    };
    let function = |name: &str| serde_json::json!({ "type": "function", "name": name });
    let tools = prefix::allowed(request, function)?;
    Some(match tools.is_empty() {
        true => "none".into(),
        false => serde_json::json!({ "type": "allowed_tools", "mode": mode, "tools": tools }),
    })
}
