//! The JSON of a default value, for types with and without `Serialize`.

use std::mem::discriminant;

use harness_schema::schema_of_type;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Returns the JSON of a value. The compiler selects the method of `JsonOf` if the type has `Serialize`, and the method
/// of [`ByName`] otherwise.
#[derive(Debug)]
pub struct JsonOf<'a, T>(pub &'a T);

impl<T: Serialize> JsonOf<'_, T> {
    /// The JSON of the value.
    pub fn __harness_json(&self) -> Option<Value> {
        serde_json::to_value(self.0).ok()
    }
}

/// The fallback of [`JsonOf`] for a type without `Serialize`. If the value is a variant of an enum, the JSON is the
/// variant's name in the schema. Other values have no JSON.
pub trait ByName {
    /// The name of the variant; `None` if the schema does not name the value's variant.
    fn __harness_json(&self) -> Option<Value>;
}

impl<T: DeserializeOwned + JsonSchema> ByName for JsonOf<'_, T> {
    fn __harness_json(&self) -> Option<Value> {
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

/// The JSON of a literal. `()` becomes `null`.
pub fn value(literal: impl Into<Value>) -> Value {
    literal.into()
}

/// The JSON of a list of literals.
pub fn list<const N: usize>(items: [Value; N]) -> Value {
    Value::Array(items.into())
}
