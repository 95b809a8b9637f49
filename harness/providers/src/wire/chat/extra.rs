//! The data that a server wants back with a call (`extra_content`). It is sent only to the server
//! and the model that gave it. Gemini's models give a signature of their thinking with the first
//! call of a turn, and refuse a conversation without it.

use super::WIRE;
use crate::wire::{
    json::{key, put, raw, sendable},
    names,
    tolerant::{ObjectMembers, text_of},
};
use harness_core::{message::ToolCall, provider::BodyDraft};

/// A server and its model. Data that one of them wants back is not sent to another.
///
/// ```
/// use harness::wire::chat::Origin;
///
/// let gemini = Origin::of("https://generativelanguage.googleapis.com/v1beta/openai", "gemini-3.7-flash");
/// assert_ne!(gemini, Origin::of("https://openrouter.ai/api/v1", "gemini-3.7-flash"));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Origin(u64);

impl Origin {
    /// The model with this name at this URL.
    pub fn of(address: &str, model: &str) -> Self {
        Self(names::hash(&format!("{address}\n{model}")))
    }

    fn mark(self) -> String {
        format!("{:016x}", self.0)
    }
}

/// The data that is kept of a call: its `extra_content` unchanged, and its origin.
pub(super) fn kept(extra: &str, origin: Origin) -> String {
    format!(r#"{{"extra_content":{extra},"origin":"{}"}}"#, origin.mark())
}

/// The data that is sent back to this server with this call, as JSON.
pub(super) fn of_call(call: &ToolCall, origin: Origin) -> Option<String> {
    let data = call.vendor().filter(|data| data.wire() == WIRE)?;
    let json = sendable(data.json())?;
    let members = ObjectMembers::of(&json);
    let is_ours = text_of(members.get("origin")) == origin.mark();
    members.get("extra_content").filter(|_| is_ours).map(str::to_owned)
}

/// Writes the data that is sent back with a call.
pub(super) fn write(out: &mut BodyDraft, extra: &str) {
    key(out, "extra_content");
    raw(out, extra);
}

/// Writes a signature for another model's call: the documented value with which the vendor does not
/// check it. See <https://ai.google.dev/gemini-api/docs/thought-signatures>.
pub(super) fn write_skipped(out: &mut BodyDraft, vendor: &str) {
    let proof = serde_json::json!({ "thought_signature": "skip_thought_signature_validator" });
    key(out, "extra_content");
    out.push(b'{');
    key(out, vendor);
    put(out, &proof);
    out.push(b'}');
}
