//! Whether the arguments of two calls are the same. Servers send a call twice: once in pieces and once
//! more whole, or the same call under two numbers.

use serde_json::{Map, Value};

use crate::message::{Arguments, Fingerprint};

/// What tells arguments from others, whatever their spelling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Print {
    hash: Fingerprint,
    /// Whether the object stands in a JSON string. No tool takes it like that, but a repeat may be
    /// spelled so.
    is_wrapped: bool,
}

impl Print {
    /// That of these arguments; `None` if they are not JSON, or broke off.
    pub(super) fn of(arguments: &str) -> Option<Self> {
        if let Ok(decoded) = Arguments::decode(arguments) {
            return Some(Self { hash: decoded.fingerprint("object"), is_wrapped: false });
        }
        let value: Value = serde_json::from_str(arguments).ok()?;
        if let Value::String(inner) = &value
            && inner.trim_start().starts_with('{')
            && let Ok(decoded) = Arguments::decode(inner)
        {
            return Some(Self { hash: decoded.fingerprint("object"), is_wrapped: true });
        }
        let value = Arguments::from(Map::from_iter([(String::new(), value)]));
        Some(Self { hash: value.fingerprint("value"), is_wrapped: false })
    }

    /// Whether a call with these arguments repeats one with those.
    pub(super) fn repeats(self, earlier: Self) -> bool {
        self.hash == earlier.hash && (self.is_wrapped || !earlier.is_wrapped)
    }
}

/// Whether arguments that broke off are a part of others, from their beginning on.
pub(super) fn is_part(arguments: &str, of: &str) -> bool {
    let mut whole = of.chars().filter(|char| !char.is_whitespace());
    arguments.chars().filter(|char| !char.is_whitespace()).all(|char| whole.next() == Some(char))
}
