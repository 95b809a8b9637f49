//! What the reasoning in a request is bound to besides instructions and tools, and additions after earlier messages.

use serde_json::Value;

use super::answer::{OutputPlan, ServerSupport};
use harness_core::{
    message::Message,
    provider::{PrefixAddition, ReasoningBinding, Request, Settings},
};

/// The binding of the reasoning in this request. `format_counts`: the reasoning is also bound to the vendor's mode for
/// answers with a schema.
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
    if let Some(plan) = OutputPlan::of(request, settings, server) {
        form.extend(plan.tool().map(|tool| format!("tool {}", tool.input_schema)));
        let format = plan.format.as_ref().filter(|_| format_counts);
        form.extend(format.map(|(schema, _)| format!("format {schema}")));
    }
    ReasoningBinding::bound().with_form(form.join("\n"))
}

/// The instructions and tools that are sent directly after this message.
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

/// The tools that the model may call; `None` if it may call all sent tools.
pub(super) fn allowed(request: &Request<'_>, value: impl Fn(&str) -> Value) -> Option<Vec<Value>> {
    let hidden = request.hidden_tools();
    if hidden.is_empty() {
        return None;
    }
    let added = request.additions().iter().flat_map(|it| &it.tools);
    let mut names: Vec<&str> = Vec::new();
    for tool in request.tools().iter().chain(added) {
        if !hidden.contains(&tool.name) && !names.contains(&&*tool.name) {
            names.push(&tool.name);
        }
    }
    Some(names.into_iter().map(value).collect())
}
