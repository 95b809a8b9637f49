//! What a front end may learn of an event.

use serde_json::{Map, Value, json};

use harness_agent::Event;
use harness_core::{
    message::{ToolCall, ToolContent, ToolResult},
    policy::BudgetUsage,
};

/// The members of events that may be shown. What is not here stays with the program: causes of failures, which may name its
/// servers (the `reason` for which a run has no answer names none); why a cost is not known, and what was spent; what a vendor wants back; faults of answers, which are words
/// for the model; and the values that tools return for the program.
const SHOWN: &[(&str, &[&str])] = &[
    ("turn_started", &["turn"]),
    ("retrying", &["attempt", "of", "wait_ms"]),
    ("falling_back", &[]),
    ("discarded", &[]),
    ("text", &["text"]),
    ("citation", &["citation"]),
    ("image", &["image"]),
    ("audio", &["audio"]),
    ("reasoning", &["text"]),
    ("tool_call_start", &["call", "tool"]),
    ("tool_call_delta", &["call", "json"]),
    ("tool_denied", &["call", "reason"]),
    ("tool_queued", &["call"]),
    ("tool_call", &["call"]),
    ("tool_progress", &["call", "message"]),
    ("tool_result", &["call", "result", "elapsed_ms"]),
    ("tool_dropped", &["call"]),
    ("tool_ended", &["tool", "result"]),
    ("tools_found", &["tools"]),
    ("answer_rejected", &["by"]),
    ("limit_near", &["limit", "scope", "detail"]),
    ("limit_unknown", &["limit", "scope"]),
    ("context_cleared", &["results", "arguments", "before", "after"]),
    ("compacting", &[]),
    ("context_compacted", &["messages", "before", "after"]),
    ("compaction_failed", &[]),
    ("turn_ended", &["turn", "stop", "usage"]),
    ("run_ended", &["outcome", "usage", "spent", "reason"]),
];

/// The part of the [JSON of an event](harness_agent::EventBuf) that a front end may learn; `None` if it may learn nothing. It
/// has no data of vendors, of results only what the model reads, no costs, and of failures only the
/// [`reason`](harness_agent::Event::RunEnded) for which a run has no answer. A call that waits is shown with the question and the
/// `id` for the [answer](super::ClientAnswer).
pub fn public_event(event: Event<'_>) -> Option<Value> {
    match event {
        Event::OfAgent { path, event } => {
            let event = public_event(event.as_event())?;
            Some(json!({"type": "of_agent", "path": path, "event": event}))
        }
        Event::ToolWaits { call, wait } => {
            let wait = super::answers::ShownWait::of(call, wait).json;
            Some(json!({"type": "tool_waits", "call": public_call(call), "wait": wait}))
        }
        Event::RunStarted { said } => {
            let said = said.map(|said| json!({"id": said.id(), "text": said.text()}));
            Some(json!({"type": "run_started", "said": said}))
        }
        Event::Steered { message } => {
            let message = json!({"id": message.id(), "text": message.text()});
            Some(json!({"type": "steered", "message": message}))
        }
        event => shown_members(event),
    }
}

/// The same, without the model's reasoning if the client may not see it.
pub(crate) fn shown_event(event: Event<'_>, without_reasoning: bool) -> Option<Value> {
    fn is_reasoning(event: Event<'_>) -> bool {
        match event {
            Event::OfAgent { event, .. } => is_reasoning(event.as_event()),
            event => matches!(event, Event::Reasoning(_)),
        }
    }
    let is_hidden = without_reasoning && is_reasoning(event);
    if is_hidden { None } else { public_event(event) }
}

fn shown_members(event: Event<'_>) -> Option<Value> {
    let Ok(Value::Object(members)) = serde_json::to_value(event) else { return None };
    let kind = members.get("type")?.as_str()?;
    let (_, shown) = SHOWN.iter().find(|(name, _)| *name == kind)?;
    let mut public = Map::new();
    public.insert("type".into(), json!(kind));
    for name in *shown {
        let Some(value) = members.get(*name) else { continue };
        let value = match (*name, event) {
            ("result", Event::ToolResult { result, .. } | Event::ToolEnded { result, .. }) => {
                json!({"outcome": result.outcome(), "output": output(result)})
            }
            ("call", Event::ToolCall(call) | Event::ToolQueued(call))
            | (
                "call",
                Event::ToolResult { call, .. }
                | Event::ToolDropped { call }
                | Event::ToolDenied { call, .. },
            ) => public_call(call),
            ("spent", Event::RunEnded { spent, .. }) => public_spent(spent),
            _ => value.clone(),
        };
        public.insert((*name).to_owned(), value);
    }
    Some(Value::Object(public))
}

/// What a run has spent, without its cost.
pub(crate) fn public_spent(spent: &BudgetUsage) -> Value {
    let BudgetUsage { turns, tool_calls, usage, usage_is_whole, cost: _, known_cost: _ } = spent;
    json!({"turns": turns, "tool_calls": tool_calls, "usage": usage, "usage_is_whole": usage_is_whole})
}

fn public_call(call: &ToolCall) -> Value {
    json!({"id": call.id(), "name": call.name(), "arguments": call.arguments()})
}

/// What the model reads of a result: the value if it is a single one, and else the text.
pub(crate) fn output(result: &ToolResult) -> Value {
    match result.content() {
        [ToolContent::Json(value)] => value.clone(),
        _ => Value::String(result.to_text()),
    }
}

/// The arguments of a call as a value. What cannot be read is the text that the model wrote.
pub(crate) fn input(call: &ToolCall) -> Value {
    match call.arguments() {
        "" => json!({}),
        text => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
    }
}
