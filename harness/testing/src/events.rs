//! Builds and writes the JSON events of a simulated answer. This module depends on no vendor.

use std::fmt;

use serde_json::Value;

/// Sets a member of an object. Does nothing if `object` is no JSON object.
pub(super) fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    if let Value::Object(fields) = object {
        fields.insert(field.to_owned(), value.into());
    }
}

/// The `type` of an event or a block, or an empty text without a `type`.
pub(super) fn kind(object: &Value) -> &str {
    object.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// Writes server-sent events. The name of each event is its `type`.
pub(super) fn write_named(f: &mut fmt::Formatter<'_>, events: &[Value]) -> fmt::Result {
    events.iter().try_for_each(|event| write!(f, "event: {}\ndata: {event}\n\n", kind(event)))
}

/// What the bodies of all vendors have: an id, the name of a model, and the conversions into an answer and into bytes.
macro_rules! common_parts {
    ($body:ident, $of:literal) => {
        impl $body {
            #[doc = concat!("Sets the id of the ", $of, ".")]
            #[must_use]
            pub fn id(mut self, id: &str) -> Self {
                self.id = id.to_owned();
                self
            }

            /// Sets the name of the model in the answer.
            #[must_use]
            pub fn model(mut self, model: &str) -> Self {
                self.model = model.to_owned();
                self
            }
        }

        impl From<$body> for Answer {
            fn from(body: $body) -> Self {
                body.answer()
            }
        }

        impl From<$body> for Vec<u8> {
            fn from(body: $body) -> Self {
                body.to_string().into_bytes()
            }
        }
    };
}
pub(super) use common_parts;
