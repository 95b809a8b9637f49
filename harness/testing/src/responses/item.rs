//! One output item and its events, from `output_item.added` to `output_item.done`.

use serde_json::{Value, json};

use crate::{deltas, events::set};

/// The progress of an item.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum ItemStatus {
    InProgress,
    Completed,
    Incomplete,
}

impl ItemStatus {
    fn word(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Incomplete => "incomplete",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum OutputItem {
    Text(String),
    Refusal(String),
    Call { call_id: String, name: String, arguments: String },
    Reasoning { summary: Vec<String>, encrypted: String },
    Whole(Value),
}

impl OutputItem {
    fn id(&self, index: usize) -> String {
        match self {
            Self::Text(_) | Self::Refusal(_) => format!("msg_{index}"),
            Self::Call { .. } => format!("fc_{index}"),
            Self::Reasoning { .. } => format!("rs_{index}"),
            Self::Whole(item) => {
                item.get("id").and_then(Value::as_str).unwrap_or_default().to_owned()
            }
        }
    }

    /// The complete JSON of the item at this index.
    pub(super) fn at(&self, index: usize, status: ItemStatus) -> Value {
        let (id, status) = (self.id(index), status.word());
        match self {
            Self::Text(text) => message(&id, status, &[text_part(text)]),
            Self::Refusal(text) => message(&id, status, &[refusal_part(text)]),
            Self::Call { call_id, name, arguments } => json!({
                "id": id,
                "type": "function_call",
                "status": status,
                "arguments": arguments,
                "call_id": call_id,
                "name": name,
            }),
            Self::Reasoning { summary, encrypted } => {
                let parts: Vec<Value> = summary.iter().map(|text| summary_part(text)).collect();
                json!({
                    "id": id,
                    "type": "reasoning",
                    "encrypted_content": encrypted,
                    "summary": parts,
                })
            }
            Self::Whole(item) => item.clone(),
        }
    }

    /// The JSON of the item in its first event, `output_item.added`.
    fn added(&self, index: usize) -> Value {
        let id = self.id(index);
        match self {
            Self::Text(_) | Self::Refusal(_) => message(&id, ItemStatus::InProgress.word(), &[]),
            Self::Call { call_id, name, .. } => {
                let (call_id, name) = (call_id.clone(), name.clone());
                Self::Call { call_id, name, arguments: String::new() }
                    .at(index, ItemStatus::InProgress)
            }
            Self::Reasoning { encrypted, .. } => {
                let half = encrypted.chars().take(encrypted.chars().count() / 2).collect();
                Self::Reasoning { summary: Vec::new(), encrypted: half }
                    .at(index, ItemStatus::InProgress)
            }
            Self::Whole(item) => item.clone(),
        }
    }

    /// The events of the item. An item in progress has no final event.
    pub(super) fn events(&self, index: usize, status: ItemStatus) -> Vec<Value> {
        let id = self.id(index);
        let ends = status != ItemStatus::InProgress;
        let mut events = vec![json!({
            "type": "response.output_item.added",
            "output_index": index,
            "item": self.added(index),
        })];
        events.extend(match self {
            Self::Text(text) => text_events(&id, index, text, ends),
            Self::Refusal(text) => refusal_events(&id, index, text, ends),
            Self::Call { arguments, .. } => call_events(&id, index, arguments, ends),
            Self::Reasoning { summary, .. } => summary_events(&id, index, summary),
            Self::Whole(_) => Vec::new(),
        });
        if ends {
            events.push(json!({
                "type": "response.output_item.done",
                "output_index": index,
                "item": self.at(index, status),
            }));
        }
        events
    }
}

/// Padding in deltas. The vendor adds padding so that the length of a delta does not reveal the
/// length of its text.
const OBFUSCATION: &str = "x7Qp2Lm";

fn message(id: &str, status: &str, content: &[Value]) -> Value {
    json!({
        "id": id,
        "type": "message",
        "status": status,
        "content": content,
        "role": "assistant",
    })
}

fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "annotations": [], "logprobs": [], "text": text})
}

fn refusal_part(text: &str) -> Value {
    json!({"type": "refusal", "refusal": text})
}

fn summary_part(text: &str) -> Value {
    json!({"type": "summary_text", "text": text})
}

/// An event about the single content part of a message.
fn part_event(kind: &str, id: &str, index: usize, fields: &[(&str, Value)]) -> Value {
    let mut event = json!({"type": kind, "item_id": id, "output_index": index, "content_index": 0});
    for (field, value) in fields {
        set(&mut event, field, value.clone());
    }
    event
}

fn text_events(id: &str, index: usize, text: &str, ends: bool) -> Vec<Value> {
    let event = |kind: &str, fields: &[(&str, Value)]| part_event(kind, id, index, fields);
    let mut events = vec![event("response.content_part.added", &[("part", text_part(""))])];
    events.extend(deltas::of_words(text).into_iter().map(|delta| {
        let fields =
            [("delta", delta.into()), ("logprobs", json!([])), ("obfuscation", OBFUSCATION.into())];
        event("response.output_text.delta", &fields)
    }));
    if ends {
        let whole = [("text", text.into()), ("logprobs", json!([]))];
        events.push(event("response.output_text.done", &whole));
        events.push(event("response.content_part.done", &[("part", text_part(text))]));
    }
    events
}

fn refusal_events(id: &str, index: usize, text: &str, ends: bool) -> Vec<Value> {
    let event = |kind: &str, fields: &[(&str, Value)]| part_event(kind, id, index, fields);
    let mut events = vec![event("response.content_part.added", &[("part", refusal_part(""))])];
    events.extend(deltas::of_words(text).into_iter().map(|delta| {
        let fields = [("delta", delta.into()), ("obfuscation", OBFUSCATION.into())];
        event("response.refusal.delta", &fields)
    }));
    if ends {
        events.push(event("response.refusal.done", &[("refusal", text.into())]));
        events.push(event("response.content_part.done", &[("part", refusal_part(text))]));
    }
    events
}

fn call_events(id: &str, index: usize, arguments: &str, ends: bool) -> Vec<Value> {
    let deltas = deltas::of_json(arguments).into_iter().map(|delta| {
        json!({
            "type": "response.function_call_arguments.delta",
            "item_id": id,
            "output_index": index,
            "delta": delta,
            "obfuscation": OBFUSCATION,
        })
    });
    let done = json!({
        "type": "response.function_call_arguments.done",
        "item_id": id,
        "output_index": index,
        "arguments": arguments,
    });
    deltas.chain(ends.then_some(done)).collect()
}

fn summary_events(id: &str, index: usize, summary: &[String]) -> Vec<Value> {
    let mut events = Vec::new();
    for (part, text) in summary.iter().enumerate() {
        let event = |kind: &str, field: &str, value: Value| {
            let kind = format!("response.reasoning_summary_{kind}");
            let mut event = json!({
                "type": kind,
                "item_id": id,
                "output_index": index,
                "summary_index": part,
            });
            set(&mut event, field, value);
            event
        };
        events.push(event("part.added", "part", summary_part("")));
        for delta in deltas::of_words(text) {
            let mut delta = event("text.delta", "delta", delta.into());
            set(&mut delta, "obfuscation", OBFUSCATION);
            events.push(delta);
        }
        events.push(event("text.done", "text", text.as_str().into()));
        events.push(event("part.done", "part", summary_part(text)));
    }
    events
}
