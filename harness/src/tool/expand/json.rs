//! A default in JSON, if its type can say it.

use std::mem::discriminant;

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::schema::schema_of_type;

/// Asks a value for its JSON: the method with the bound is found before the one of [`ByName`].
#[derive(Debug)]
pub struct JsonOf<'a, T>(pub &'a T);

impl<T: Serialize> JsonOf<'_, T> {
    /// The JSON of the value.
    pub fn json(&self) -> Option<Value> {
        serde_json::to_value(self.0).ok()
    }
}

/// What [`JsonOf`] says of a value that cannot be written as JSON: that of an enum has a name,
/// which is the one of the schema that is read as this variant; of others the schema is silent.
pub trait ByName {
    /// The name.
    fn json(&self) -> Option<Value>;
}

impl<T: DeserializeOwned + JsonSchema> ByName for JsonOf<'_, T> {
    fn json(&self) -> Option<Value> {
        let schema = schema_of_type::<T>();
        let names = schema.get("enum")?.as_array()?;
        let is_it = |name: &&Value| {
            let read = T::deserialize((*name).clone());
            name.is_string() && read.is_ok_and(|read| discriminant(&read) == discriminant(self.0))
        };
        let mut found = names.iter().filter(is_it);
        let name = found.next()?;
        found.next().is_none().then(|| name.clone())
    }
}

/// A literal in JSON; `()` is `null`.
pub fn value(literal: impl Into<Value>) -> Value {
    literal.into()
}

/// A list of literals in JSON.
pub fn list<const N: usize>(items: [Value; N]) -> Value {
    Value::Array(items.into())
}
