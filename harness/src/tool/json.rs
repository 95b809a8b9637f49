//! A default in JSON, if its type can say it.

use serde::Serialize;
use serde_json::Value;

/// Asks a value for its JSON: the method with the bound is found before the one of [`NoJson`].
#[derive(Debug)]
pub struct JsonOf<'a, T>(pub &'a T);

impl<T: Serialize> JsonOf<'_, T> {
    /// The JSON of the value.
    pub fn json(&self) -> Option<Value> {
        serde_json::to_value(self.0).ok()
    }
}

/// What [`JsonOf`] says of a value that cannot be written as JSON: the schema is silent.
pub trait NoJson {
    /// Nothing.
    fn json(&self) -> Option<Value> {
        None
    }
}

impl<T> NoJson for JsonOf<'_, T> {}
