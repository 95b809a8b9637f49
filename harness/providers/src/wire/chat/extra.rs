//! A server's data about a call (`extra_content`), which requests with this call must contain. The library sends the
//! data only to the same server and model. Gemini's models sign the first call of a turn, and refuse a conversation
//! without the signature.

use super::WIRE;
use crate::wire::{
    json::{key, ours, put, raw},
    names,
    tolerant::{ObjectMembers, text_of},
};
use harness_core::{message::ToolCall, provider::BodyDraft};

/// Identifies a server and its model. The library sends a server's data about a call only to the same server and model.
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
    /// The origin for the model `model` at the URL `address`.
    pub fn of(address: &str, model: &str) -> Self {
        Self(names::hash(&format!("{address}\n{model}")))
    }

    fn mark(self) -> String {
        format!("{:016x}", self.0)
    }
}

/// The vendor data for a call: the unchanged `extra_content`, and the origin.
pub(super) fn kept(extra: &str, origin: Origin) -> String {
    format!(r#"{{"extra_content":{extra},"origin":"{}"}}"#, origin.mark())
}

/// The `extra_content` of this call, as JSON. `None` if the call has another origin.
pub(super) fn of_call(call: &ToolCall, origin: Origin) -> Option<String> {
    let json = ours(WIRE, call.vendor())?;
    let members = ObjectMembers::of(&json);
    let is_ours = text_of(members.get("origin")) == origin.mark();
    members.get("extra_content").filter(|_| is_ours).map(str::to_owned)
}

/// Writes the `extra_content` of a call.
pub(super) fn write(out: &mut BodyDraft, extra: &str) {
    key(out, "extra_content");
    raw(out, extra);
}

/// Writes a value in place of a signature, for a call of another model. According to the vendor's documentation, the
/// server does not check this value: see <https://ai.google.dev/gemini-api/docs/thought-signatures>.
pub(super) fn write_skipped(out: &mut BodyDraft, vendor: &str) {
    let proof = serde_json::json!({ "thought_signature": "skip_thought_signature_validator" });
    key(out, "extra_content");
    out.push(b'{');
    key(out, vendor);
    put(out, &proof);
    out.push(b'}');
}
