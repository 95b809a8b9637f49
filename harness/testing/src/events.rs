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
