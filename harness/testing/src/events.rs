//! Writes the events of a fake answer, and completes the JSON in them. It knows no vendor.

use std::fmt;

use serde_json::Value;

/// Adds a field to an object; any other value is left unchanged.
pub(super) fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    if let Value::Object(fields) = object {
        fields.insert(field.to_owned(), value.into());
    }
}

/// The `type` of an event or a block.
pub(super) fn kind(object: &Value) -> &str {
    object.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// Server-sent events, each with its `type` as its name.
pub(super) fn write_named(f: &mut fmt::Formatter<'_>, events: &[Value]) -> fmt::Result {
    events.iter().try_for_each(|event| write!(f, "event: {}\ndata: {event}\n\n", kind(event)))
}
