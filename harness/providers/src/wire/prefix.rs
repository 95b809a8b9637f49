//! Finds the settings that a model's reasoning depends on, in addition to the instructions and tools. Also finds the
//! instructions and tools that a request adds after earlier messages.

use harness_schema::ToolSchema;
use serde_json::Value;

use super::answer::{self, OutputPlan, ServerSupport};
use harness_core::{
    message::Message,
    provider::{PrefixAddition, ReasoningBinding, Request, Settings},
};

/// The settings that the reasoning in this request depends on. `format_counts`: the reasoning also depends on the
/// schema of the answer in the vendor's own mode.
pub(super) fn binding(
    request: &Request<'_>,
    settings: &Settings,
    server: &ServerSupport,
    format_counts: bool,
) -> ReasoningBinding {
    let mut form = Vec::new();
    if settings.strict_tools == Some(true) {
        form.push("strict".to_owned());
    }
    for name in ["system", "instructions", "tools"] {
        form.extend(settings.extra.get(name).map(|value| format!("{name} {value}")));
    }
    let plan = OutputPlan::of(request, settings, server);
    let format = plan.as_ref().and_then(|plan| plan.format.as_ref()).filter(|_| format_counts);
    form.extend(format.map(|(schema, _)| format!("format {schema}")));
    form.push(answer::form(plan.as_ref()));
    form.retain(|part| !part.is_empty());
    let tool = plan.as_ref().and_then(OutputPlan::tool).cloned();
    ReasoningBinding::bound().with_form(form.join("\n")).with_answer_tool(tool)
}

/// The instructions and tools that the request adds directly after this message.
pub(super) fn behind<'a>(request: &Request<'a>, message: &Message) -> Option<&'a PrefixAddition> {
    request.additions().iter().find(|it| it.after == message.id())
}

/// A text that changes whenever the additions change the bytes of the messages.
pub(super) fn form(request: &Request<'_>, strict: bool) -> String {
    let all: Vec<String> = request
        .additions()
        .iter()
        .map(|it| format!("{} {:?} {}", it.after, it.system, it.tools.len()))
        .collect();
    if all.is_empty() { String::new() } else { format!(" added {strict} {}", all.join(",")) }
}

/// Whether this tool is not in the request's list, because it is added after a message.
pub(super) fn is_added(request: &Request<'_>, name: &str) -> bool {
    let has = |tools: &[ToolSchema]| tools.iter().any(|tool| tool.name == name);
    !has(request.tools()) && request.additions().iter().any(|added| has(&added.tools))
}

/// The tools that the model may call. `None` if the model may call all tools of the request. Also `None` if the model
/// may call a tool that was added after a message, because a request cannot name such a tool here.
pub(super) fn allowed(request: &Request<'_>, value: impl Fn(&str) -> Value) -> Option<Vec<Value>> {
    let hidden = request.hidden_tools();
    let mut added = request.additions().iter().flat_map(|it| &it.tools);
    let is_new = |it: &ToolSchema| !hidden.contains(&it.name) && is_added(request, &it.name);
    if hidden.is_empty() || added.any(is_new) {
        return None;
    }
    let tools = request.tools().iter().filter(|tool| !hidden.contains(&tool.name));
    Some(tools.map(|tool| value(&tool.name)).collect())
}
