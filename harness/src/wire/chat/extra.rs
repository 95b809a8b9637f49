//! What a server wants back with a call (`extra_content`), and to whom it goes back: to the server and
//! the model that gave it, and to nobody else. Gemini's models give a proof of their thinking with the
//! first call of a turn, and refuse a conversation in which it is missing.

use super::WIRE;
use crate::{
    message::ToolCall,
    provider::Draft,
    wire::{
        json::{key, put, raw, sendable},
        names,
        tolerant::{Members, text_of},
    },
};

/// A server and the model that is asked there. What one of them gives to be sent back is not sent to
/// another.
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
    /// The model of this name at this address.
    pub fn of(address: &str, model: &str) -> Self {
        Self(names::hash(&format!("{address}\n{model}")))
    }

    fn mark(self) -> String {
        format!("{:016x}", self.0)
    }
}

/// What is kept of a call: `extra_content` as it came, and where it came from.
pub(super) fn kept(extra: &str, origin: Origin) -> String {
    format!(r#"{{"extra_content":{extra},"origin":"{}"}}"#, origin.mark())
}

/// What goes back with this call to this server, as JSON.
pub(super) fn of_call(call: &ToolCall, origin: Origin) -> Option<String> {
    let data = call.vendor().filter(|data| data.wire() == WIRE)?;
    let json = sendable(data.json())?;
    let members = Members::of(&json);
    let is_ours = text_of(members.get("origin")) == origin.mark();
    members.get("extra_content").filter(|_| is_ours).map(str::to_owned)
}

/// Writes what goes back with a call.
pub(super) fn write(out: &mut Draft, extra: &str) {
    key(out, "extra_content");
    raw(out, extra);
}

/// Writes the proof of a call that another model has made: the value that the vendor documents for it,
/// with which it is not checked. See <https://ai.google.dev/gemini-api/docs/thought-signatures>.
pub(super) fn write_skipped(out: &mut Draft, vendor: &str) {
    let proof = serde_json::json!({ "thought_signature": "skip_thought_signature_validator" });
    key(out, "extra_content");
    out.push(b'{');
    key(out, vendor);
    put(out, &proof);
    out.push(b'}');
}
