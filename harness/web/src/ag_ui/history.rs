//! The messages of a client of AG-UI, folded from the events of its runs.

use serde_json::{Value, json};

use crate::request::text;
use harness_core::message::Message;

/// What a client has read.
#[derive(Clone, Debug, Default)]
pub(super) struct AgUiMessages(Vec<Value>);

impl AgUiMessages {
    /// A run begins, with what the user has said.
    pub(super) fn begin_run(&mut self, said: Option<&Message>) {
        let said =
            said.map(|said| json!({"id": said.id(), "role": "user", "content": said.text()}));
        self.0.extend(said);
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

/// Adds words to a member of an object.
fn append(to: Option<&mut Value>, name: &str, words: &str) {
    if let Some(Value::String(text)) = to.and_then(|to| to.get_mut(name)) {
        text.push_str(words);
    }
}
