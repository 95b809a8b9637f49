//! Writes the tools of a request of the Messages API: in the list of tools, at the position of a tool search, and in
//! the middle of the conversation.

use harness_schema::{EncodedSchema, SchemaForm, StrictForm, ToolSchema};

use crate::wire::json::{comma, key, member, raw, room_for};
use harness_core::provider::{BodyDraft, PrefixAddition, Request, ToolSearches};

use super::encode::breakpoint;

/// The tools whose definitions the vendor reads at the position of the search that found them.
pub(super) struct DeferredTools<'a> {
    found: ToolSearches<'a>,
    pub(super) tools: Vec<&'a str>,
}

impl<'a> DeferredTools<'a> {
    /// Collects the found tools that this request still has: the vendor refuses a result that names any other tool. The
    /// vendor also requires at least one tool that no search has found. If the choice of a tool (`wanted`) names a
    /// found tool, no tool is deferred.
    pub(super) fn of(request: &Request<'a>, defers: bool, wanted: &[&str]) -> Self {
        let found = request.found();
        let is_named = wanted.iter().any(|name| found.has(name));
        let all = request.tools().iter().filter(|_| defers && !is_named).map(|tool| &*tool.name);
        let mut tools: Vec<&str> = all.filter(|tool| found.has(tool)).collect();
        if tools.len() == request.tools().len() {
            tools.clear();
        }
        Self { found, tools }
    }

    fn has(&self, tool: &str) -> bool {
        self.tools.contains(&tool)
    }

    /// The deferred tools that this call has found.
    pub(super) fn by(&self, call: &str) -> Vec<&'a str> {
        if self.tools.is_empty() {
            return Vec::new();
        }
        let found = self.found.by(call).into_iter().flatten();
        found.map(String::as_str).filter(|tool| self.has(tool)).collect()
    }

    /// A key for encoded messages: two keys differ if the deferred tools make the bytes of a message differ.
    pub(super) fn form(&self) -> String {
        if self.tools.is_empty() {
            String::new()
        } else {
            format!(" found {}", self.tools.join(","))
        }
    }
}

/// Writes the list of tools.
pub(super) fn tools(
    out: &mut BodyDraft,
    request: &Request<'_>,
    strict: bool,
    found: &DeferredTools<'_>,
    mark: Option<&str>,
) {
    // The cache mark goes to the last tool that is not deferred, because deferred tools cannot have one.
    let last = request.tools().iter().rposition(|tool| !found.has(&tool.name));
    let parameters = request.parameters(schema_form(strict));
    room_for(out, request.tools(), &parameters);
    for (at, (tool, EncodedSchema { json, strict })) in
        request.tools().iter().zip(&*parameters).enumerate()
    {
        comma(out);
        definition(out, tool, (json, *strict));
        if found.has(&tool.name) {
            raw(out, r#","defer_loading":true"#);
        }
        breakpoint(out, mark.filter(|_| Some(at) == last));
        out.push(b'}');
    }
}

fn schema_form(strict: bool) -> SchemaForm {
    match strict {
        true => SchemaForm::Held(StrictForm::Anthropic),
        false => SchemaForm::Plain(StrictForm::Anthropic),
    }
}

/// Writes the definition of a tool, without the closing brace.
fn definition(out: &mut BodyDraft, tool: &ToolSchema, (parameters, strict): (&str, bool)) {
    out.push(b'{');
    member(out, "name", &tool.name);
    member(out, "description", &tool.description);
    key(out, "input_schema");
    raw(out, parameters);
    if strict {
        raw(out, r#","strict":true"#);
    }
}

/// Whether this request defines tools in the middle of the conversation. Such a request needs the vendor's beta.
pub(crate) fn adds_tools(request: &Request<'_>) -> bool {
    request.additions().iter().any(|it| !it.tools.is_empty())
}

/// Writes added instructions and tools as a system message after the message to which they belong.
///
/// Source: <https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages>.
pub(super) fn addition(out: &mut BodyDraft, addition: &PrefixAddition, strict: bool) {
    let PrefixAddition { system, tools, .. } = addition;
    comma(out);
    raw(out, r#"{"role":"system","content":["#);
    if let Some(system) = system {
        raw(out, r#"{"type":"text""#);
        member(out, "text", system);
        out.push(b'}');
    }
    let parameters = schema_form(strict).of(tools);
    for (tool, EncodedSchema { json, strict }) in tools.iter().zip(&*parameters) {
        comma(out);
        raw(out, r#"{"type":"tool_addition","tool":{"type":"tool_definition","definition":"#);
        definition(out, tool, (json, *strict));
        raw(out, "}}}");
    }
    raw(out, "]}");
}
