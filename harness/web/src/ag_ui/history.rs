//! The messages of a client of AG-UI, folded from the events of its runs.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::request::text;
use harness_core::message::{Block, Media, Message};

/// What a client has read.
#[derive(Clone, Debug, Default)]
pub(super) struct AgUiMessages(Vec<Value>);

impl AgUiMessages {
    /// Adds what the user has said.
    pub(super) fn say(&mut self, said: &Message) {
        let is_text = |block: &Block| matches!(block, Block::Text(_));
        let content = match said.blocks().iter().all(is_text) {
            true => json!(said.text()),
            false => said.blocks().iter().filter_map(part).collect(),
        };
        self.0.push(json!({"id": said.id(), "role": "user", "content": content}));
    }

    /// The ids of all calls.
    pub(super) fn calls(&self) -> BTreeSet<String> {
        let calls = self.0.iter().filter_map(|message| message.get("toolCalls")?.as_array());
        calls.flatten().filter_map(|call| text(call, "id").map(str::to_owned)).collect()
    }

    pub(super) fn into_messages(self) -> Vec<Value> {
        self.0
    }

    pub(super) fn apply(&mut self, event: &Value) {
        let member = |name: &str| text(event, name).unwrap_or_default();
        match member("type") {
            "TEXT_MESSAGE_START" | "REASONING_MESSAGE_START" => {
                let (id, role) = (member("messageId"), member("role"));
                self.0.push(json!({"id": id, "role": role, "content": ""}));
            }
            "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT" => {
                append(self.message(member("messageId")), "content", member("delta"));
            }
            "TOOL_CALL_START" => {
                let parent = member("parentMessageId");
                if self.message(parent).is_none() {
                    self.0.push(json!({"id": parent, "role": "assistant"}));
                }
                let function = json!({"name": member("toolCallName"), "arguments": ""});
                let call =
                    json!({"id": member("toolCallId"), "type": "function", "function": function});
                let Some(message) = self.message(parent).and_then(Value::as_object_mut) else {
                    return;
                };
                let calls = message.entry("toolCalls").or_insert_with(|| json!([]));
                if let Some(calls) = calls.as_array_mut() {
                    calls.push(call);
                }
            }
            "TOOL_CALL_ARGS" => {
                let calls = self
                    .0
                    .iter_mut()
                    .rev()
                    .filter_map(|it| it.get_mut("toolCalls")?.as_array_mut());
                let call =
                    calls.flatten().find(|call| text(call, "id") == Some(member("toolCallId")));
                append(
                    call.and_then(|call| call.get_mut("function")),
                    "arguments",
                    member("delta"),
                );
            }
            "TOOL_CALL_RESULT" => self.0.push(json!({
                "id": member("messageId"),
                "role": "tool",
                "toolCallId": member("toolCallId"),
                "content": member("content"),
            })),
            _ => {}
        }
    }

    fn message(&mut self, id: &str) -> Option<&mut Value> {
        self.0.iter_mut().rev().find(|message| text(message, "id") == Some(id))
    }
}

/// A part of a message of the user, if the client can open it.
fn part(block: &Block) -> Option<Value> {
    let (kind, media) = match block {
        Block::Text(words) => return Some(json!({"type": "text", "text": words.text()})),
        Block::Image(media) => ("image", media),
        Block::Audio(media) => ("audio", media),
        Block::Document(media) => ("document", media),
        _ => return None,
    };
    Some(json!({"type": kind, "source": source(media)?}))
}

fn source(media: &Media) -> Option<Value> {
    let mime = media.mime().unwrap_or("application/octet-stream");
    let inline =
        media.base64().map(|data| json!({"type": "data", "value": data, "mimeType": mime}));
    inline.or_else(|| {
        let mut source = json!({"type": "url", "value": media.url()?});
        if let Some((source, mime)) = source.as_object_mut().zip(media.mime()) {
            source.insert("mimeType".into(), json!(mime));
        }
        Some(source)
    })
}

/// Adds words to a member of an object.
fn append(to: Option<&mut Value>, name: &str, words: &str) {
    if let Some(Value::String(text)) = to.and_then(|to| to.get_mut(name)) {
        text.push_str(words);
    }
}
