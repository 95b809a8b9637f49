//! The messages of a page, folded from the chunks of its runs as the client of `ai` does it.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::encode::file_part;
use crate::request::text;
use harness_core::message::{Block, Message};

/// What a page has read.
#[derive(Debug, Default)]
pub(super) struct PageMessages {
    messages: Vec<Value>,
    /// Where the texts of the current run are among the parts of the last message, by their ids.
    open: HashMap<String, usize>,
    /// The arguments of calls as far as they are written.
    inputs: HashMap<String, String>,
}

impl PageMessages {
    /// A run begins, with what the user has said.
    pub(super) fn begin_run(&mut self, said: Option<&Message>) {
        self.open.clear();
        self.inputs.clear();
        let Some(said) = said else { return };
        let part = |block: &Block| match block {
            Block::Text(words) => Some(json!({"type": "text", "text": words.text()})),
            Block::Image(media) | Block::Audio(media) | Block::Document(media) => file_part(media),
            _ => None,
        };
        let parts: Vec<Value> = said.blocks().iter().filter_map(part).collect();
        self.messages.push(json!({"id": said.id(), "role": "user", "parts": parts}));
    }

    pub(super) fn into_messages(self) -> Vec<Value> {
        self.messages
    }

    pub(super) fn apply(&mut self, mut chunk: Value) {
        let Some(kind) = text(&chunk, "type").map(str::to_owned) else { return };
        let id = text(&chunk, "id").unwrap_or_default().to_owned();
        let call = text(&chunk, "toolCallId").unwrap_or_default().to_owned();
        let mut take = |name: &str| chunk.get_mut(name).map(Value::take).unwrap_or_default();
        match kind.as_str() {
            "start" => self.start(&take("messageId")),
            "start-step" => self.push(json!({"type": "step-start"})),
            "reset-step" => self.reset_step(),
            "text-start" | "reasoning-start" => {
                let kind = kind.trim_end_matches("-start");
                let at = self.parts().map_or(0, |parts| parts.len());
                let mut part = json!({"type": kind, "text": "", "state": "streaming"});
                if let Some(part) = part.as_object_mut().filter(|_| kind == "reasoning") {
                    part.insert("id".into(), json!(id));
                }
                self.push(part);
                self.open.insert(id, at);
            }
            "text-delta" | "reasoning-delta" => {
                if let Some(Value::String(words)) = self.open(&id).and_then(|it| it.get_mut("text"))
                {
                    words.push_str(take("delta").as_str().unwrap_or_default());
                }
            }
            "text-end" | "reasoning-end" => {
                if let Some(part) = self.open(&id) {
                    part.insert("state".into(), json!("done"));
                }
            }
            "tool-input-start" => {
                self.inputs.insert(call.clone(), String::new());
                let part = json!({"type": format!("tool-{}", take("toolName").as_str().unwrap_or_default())});
                self.change_call(&call, part, "input-streaming");
            }
            "tool-input-delta" => {
                let input = self.inputs.entry(call.clone()).or_default();
                input.push_str(take("inputTextDelta").as_str().unwrap_or_default());
                // What is not whole was cut off with the answer.
                if let Ok(input) = serde_json::from_str::<Value>(input) {
                    self.change_call(&call, json!({"input": input}), "input-streaming");
                }
            }
            "tool-input-available" => {
                let kind = format!("tool-{}", take("toolName").as_str().unwrap_or_default());
                let part = json!({"type": kind, "input": take("input")});
                self.change_call(&call, part, "input-available");
            }
            "tool-approval-request" => {
                let mut approval = Map::from_iter([("id".to_owned(), take("approvalId"))]);
                if let reason @ Value::String(_) = take("reason") {
                    approval.insert("requestReason".into(), reason);
                }
                let part = json!({"approval": approval});
                self.change_call(&call, part, "approval-requested");
            }
            "tool-output-available" => {
                self.change_call(&call, json!({"output": take("output")}), "output-available");
            }
            "tool-output-error" => {
                self.change_call(&call, json!({"errorText": take("errorText")}), "output-error");
            }
            "tool-output-denied" => self.change_call(&call, json!({}), "output-denied"),
            "source-url" | "source-document" | "file" => self.push(chunk),
            "finish" => {
                let metadata = take("messageMetadata");
                if let Some(message) = self.messages.last_mut().and_then(Value::as_object_mut) {
                    message.insert("metadata".into(), metadata);
                }
            }
            "data-withdrawn" => {
                self.withdraw(&chunk);
                self.data(chunk);
            }
            _ if kind.starts_with("data-") && take("transient").is_null() => self.data(chunk),
            _ => {}
        }
    }

    fn start(&mut self, id: &Value) {
        let last = self.messages.last();
        if id.is_string() || last.is_none_or(|last| text(last, "role") != Some("assistant")) {
            let id = id.as_str().unwrap_or("answer");
            self.messages.push(json!({"id": id, "role": "assistant", "parts": []}));
        }
    }

    fn parts(&mut self) -> Option<&mut Vec<Value>> {
        self.messages.last_mut()?.get_mut("parts")?.as_array_mut()
    }

    fn push(&mut self, part: Value) {
        if let Some(parts) = self.parts() {
            parts.push(part);
        }
    }

    fn reset_step(&mut self) {
        if let Some(parts) = self.parts() {
            let step = parts.iter().rposition(|part| text(part, "type") == Some("step-start"));
            parts.truncate(step.map_or(0, |step| step.saturating_add(1)));
        }
    }

    /// The text with this id that is being written.
    fn open(&mut self, id: &str) -> Option<&mut Map<String, Value>> {
        let at = *self.open.get(id)?;
        self.parts()?.get_mut(at)?.as_object_mut()
    }

    /// Changes the part of a call, or adds it.
    fn change_call(&mut self, call: &str, members: Value, state: &str) {
        let Some(parts) = self.parts() else { return };
        let known = parts.iter().position(|part| text(part, "toolCallId") == Some(call));
        if known.is_none() {
            parts.push(json!({"toolCallId": call}));
        }
        let part = known.unwrap_or_else(|| parts.len().saturating_sub(1));
        let part = parts.get_mut(part).and_then(Value::as_object_mut);
        if let (Some(part), Value::Object(members)) = (part, members) {
            part.extend(members);
            part.insert("state".into(), json!(state));
        }
    }

    /// Ends a call of an earlier message, and the calls of its agents.
    fn withdraw(&mut self, chunk: &Value) {
        let Some(data) = chunk.get("data") else { return };
        let call = text(data, "call").unwrap_or_default();
        let reason = text(data, "text").unwrap_or_default();
        let is_open = |part: &Value| {
            let id = text(part, "toolCallId").and_then(|id| id.strip_prefix(call));
            let state = text(part, "state").unwrap_or_default();
            id.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                && (state.starts_with("input-") || state == "approval-requested")
        };
        let parts = self.messages.iter_mut().filter_map(|it| it.get_mut("parts")?.as_array_mut());
        for part in parts.flatten().filter(|part| is_open(part)).filter_map(Value::as_object_mut) {
            part.remove("approval");
            let is_it = part.get("toolCallId").and_then(Value::as_str) == Some(call);
            let (state, member, value) = match data.get("output").filter(|_| is_it) {
                Some(output) => ("output-available", "output", output.clone()),
                None => ("output-error", "errorText", json!(reason)),
            };
            part.insert("state".into(), json!(state));
            part.insert(member.into(), value);
        }
    }

    /// Data with an id takes the place of earlier data with it.
    fn data(&mut self, chunk: Value) {
        let Some(parts) = self.parts() else { return };
        let id = chunk.get("id");
        let same = |part: &&mut Value| {
            id.is_some() && part.get("id") == id && part.get("type") == chunk.get("type")
        };
        match parts.iter_mut().find(same) {
            Some(part) => *part = chunk,
            None => parts.push(chunk),
        }
    }
}
