//! Finds the parts of a value whose JSON a model would misunderstand. A number that JSON does not have is written as
//! `null` by `serde_json`, and would look like a missing value. An error in a `Result` would look like an ordinary
//! value. If a map has keys that are not strings, the error of `serde_json` does not name the faulty map.

use serde::{
    Serialize, Serializer,
    ser::{self, SerializeMap as _},
};
use serde_json::Value;

/// The JSON of a value for the model.
pub(super) struct SerializedOutput {
    /// The JSON of the whole value, with the faulty parts.
    pub(super) json: Value,
    /// All parts that are errors, or numbers that JSON does not have.
    pub(super) failed: Vec<FaultyPart>,
}

/// A faulty part: its position as a JSON pointer, and its fault as text.
#[derive(Debug, PartialEq)]
pub(super) struct FaultyPart {
    pub(super) pointer: String,
    pub(super) words: String,
}

/// The JSON of a value, with its faulty parts.
///
/// # Errors
/// Fails if the value cannot be serialized, for example because a map in it has keys that are not strings.
pub(super) fn to_json<T: Serialize>(value: &T) -> Result<SerializedOutput, String> {
    let json = match serde_json::to_value(value) {
        Ok(json) => json,
        Err(err) => {
            let found = value.serialize(FaultSearch).err();
            return Err(found.map_or_else(|| err.to_string(), |SerializeError(fault)| fault));
        }
    };
    if !is_suspect(&json) {
        return Ok(SerializedOutput { json, failed: Vec::new() });
    }
    match value.serialize(FaultSearch) {
        Ok(failed) => Ok(SerializedOutput { json, failed }),
        Err(SerializeError(fault)) => Err(fault),
    }
}

/// The JSON of a value, if the JSON represents the whole value. The value may contain errors, but no numbers that JSON
/// does not have.
///
/// # Errors
/// Fails like [`to_json`]. Also fails if the value contains a number that JSON does not have; the text names the
/// position of the number.
pub(in crate::tool) fn faithful_json<T: Serialize>(value: &T) -> Result<Value, String> {
    let SerializedOutput { json, failed } = to_json(value)?;
    match failed.iter().find(|failed| json.pointer(&failed.pointer) == Some(&Value::Null)) {
        None => Ok(json),
        Some(FaultyPart { pointer, words }) if pointer.is_empty() => Err(words.clone()),
        Some(FaultyPart { pointer, words }) => Err(format!("at `{pointer}`: {words}")),
    }
}

/// Whether the value has to be searched for faults. Only a `null` can stand for a number that JSON does not have, and
/// only an object with the single member `Err` can be an error.
fn is_suspect(json: &Value) -> bool {
    match json {
        Value::Null => true,
        Value::Array(items) => items.iter().any(is_suspect),
        Value::Object(map) => {
            (map.len() == 1 && map.contains_key("Err")) || map.values().any(is_suspect)
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Serializes a value like a JSON writer, and collects the value's faults. The search stops only at a part that cannot
/// be serialized.
struct FaultSearch;

/// The position at which the value cannot be serialized, and the reason, as text.
#[derive(Debug)]
struct SerializeError(String);

/// The faulty parts of a value, or the reason why the value cannot be serialized.
type FaultSearchResult = Result<Vec<FaultyPart>, SerializeError>;

fn number(number: f64) -> FaultSearchResult {
    let name = if number.is_nan() {
        "NaN"
    } else if number.is_infinite() && number.is_sign_positive() {
        "infinite"
    } else if number.is_infinite() {
        "minus infinity"
    } else {
        return Ok(Vec::new());
    };
    Ok(vec![FaultyPart::here(format!("it is {name}, which JSON does not have"))])
}

impl SerializeError {
    /// Returns the fault with its position in the outer value. `step`, the position of this value in the outer value,
    /// is prepended to the pointer.
    fn below(self, step: &str) -> Self {
        let (pointer, fault) = match self.0.strip_prefix("at `") {
            Some(rest) => rest.split_once("`: ").unwrap_or(("", rest)),
            None => ("", self.0.as_str()),
        };
        Self(format!("at `{}`: {fault}", pointer_below(step, pointer)))
    }
}

impl FaultyPart {
    fn here(words: String) -> Self {
        Self { pointer: String::new(), words }
    }

    /// Returns the fault with its position in the outer value. `step`, the position of this value in the outer value,
    /// is prepended to the pointer.
    fn below(self, step: &str) -> Self {
        Self { pointer: pointer_below(step, &self.pointer), ..self }
    }
}

fn pointer_below(step: &str, pointer: &str) -> String {
    let step = step.replace('~', "~0").replace('/', "~1");
    format!("/{step}{pointer}")
}

impl std::fmt::Display for SerializeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SerializeError {}

impl ser::Error for SerializeError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// The search in the parts of a list or an object: the current position, and the faults so far.
#[derive(Default)]
struct PartsSearch {
    index: usize,
    key: String,
    failed: Vec<FaultyPart>,
}

impl PartsSearch {
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), SerializeError> {
        let index = self.index;
        self.index += 1;
        self.field(&index.to_string(), value)
    }

    fn field<T: Serialize + ?Sized>(
        &mut self,
        name: &str,
        value: &T,
    ) -> Result<(), SerializeError> {
        let failed = value.serialize(FaultSearch).map_err(|found| found.below(name))?;
        self.failed.extend(failed.into_iter().map(|failed| failed.below(name)));
        Ok(())
    }
}

/// The search in the content of an enum variant, which JSON writes below the variant's name.
struct VariantContentSearch(&'static str, PartsSearch);

impl VariantContentSearch {
    fn end(self) -> FaultSearchResult {
        Ok(self.1.failed.into_iter().map(|failed| failed.below(self.0)).collect())
    }
}

macro_rules! harmless {
    ($($method:ident: $ty:ty),* $(,)?) => {$(
        fn $method(self, _: $ty) -> FaultSearchResult {
            Ok(Vec::new())
        }
    )*};
}

impl Serializer for FaultSearch {
    type Ok = Vec<FaultyPart>;
    type Error = SerializeError;
    type SerializeSeq = PartsSearch;
    type SerializeTuple = PartsSearch;
    type SerializeTupleStruct = PartsSearch;
    type SerializeTupleVariant = VariantContentSearch;
    type SerializeMap = PartsSearch;
    type SerializeStruct = PartsSearch;
    type SerializeStructVariant = VariantContentSearch;

    harmless! {
        serialize_bool: bool, serialize_char: char, serialize_str: &str, serialize_bytes: &[u8],
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_i128: i128, serialize_u8: u8, serialize_u16: u16, serialize_u32: u32,
        serialize_u64: u64, serialize_u128: u128, serialize_unit_struct: &'static str,
    }

    fn serialize_f32(self, value: f32) -> FaultSearchResult {
        number(value.into())
    }

    fn serialize_f64(self, value: f64) -> FaultSearchResult {
        number(value)
    }

    fn serialize_none(self) -> FaultSearchResult {
        Ok(Vec::new())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> FaultSearchResult {
        value.serialize(self)
    }

    fn serialize_unit(self) -> FaultSearchResult {
        Ok(Vec::new())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> FaultSearchResult {
        Ok(Vec::new())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> FaultSearchResult {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> FaultSearchResult {
        // `serde` serializes the standard library's `Result` under this name. An enum of another name with a variant
        // `Err` is an ordinary value.
        if (name, variant) == ("Result", "Err") {
            return Ok(vec![FaultyPart::here(words(value)?)]);
        }
        let failed = value.serialize(self).map_err(|found| found.below(variant))?;
        Ok(failed.into_iter().map(|failed| failed.below(variant)).collect())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<PartsSearch, SerializeError> {
        Ok(PartsSearch::default())
    }

    fn serialize_tuple(self, _: usize) -> Result<PartsSearch, SerializeError> {
        Ok(PartsSearch::default())
    }

    fn serialize_tuple_struct(
        self,
        _: &'static str,
        _: usize,
    ) -> Result<PartsSearch, SerializeError> {
        Ok(PartsSearch::default())
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<VariantContentSearch, SerializeError> {
        Ok(VariantContentSearch(variant, PartsSearch::default()))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<PartsSearch, SerializeError> {
        Ok(PartsSearch::default())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<PartsSearch, SerializeError> {
        Ok(PartsSearch::default())
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<VariantContentSearch, SerializeError> {
        Ok(VariantContentSearch(variant, PartsSearch::default()))
    }
}

/// The text of an error.
fn words<T: Serialize + ?Sized>(error: &T) -> Result<String, SerializeError> {
    match serde_json::to_value(error) {
        Ok(Value::String(text)) => Ok(text),
        Ok(Value::Null) => Ok("it gave no reason".to_owned()),
        Ok(value) => Ok(value.to_string()),
        Err(err) => Err(SerializeError(err.to_string())),
    }
}

/// A map with only this key. Serializing it checks the key.
struct SingleKeyMap<'a, K: ?Sized>(&'a K);

impl<K: Serialize + ?Sized> Serialize for SingleKeyMap<'_, K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(self.0, &())?;
        map.end()
    }
}

/// Implements the traits for compound values: the trait's method adds an item, and `end` returns the faults.
macro_rules! parts {
    ($($trait:ident::$method:ident),*) => {$(
        impl ser::$trait for PartsSearch {
            type Ok = Vec<FaultyPart>;
            type Error = SerializeError;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), SerializeError> {
                self.item(value)
            }

            fn end(self) -> FaultSearchResult {
                Ok(self.failed)
            }
        }
    )*};
}
parts!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field
);

impl ser::SerializeTupleVariant for VariantContentSearch {
    type Ok = Vec<FaultyPart>;
    type Error = SerializeError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), SerializeError> {
        self.1.item(value).map_err(|found| found.below(self.0))
    }

    fn end(self) -> FaultSearchResult {
        self.end()
    }
}

impl ser::SerializeMap for PartsSearch {
    type Ok = Vec<FaultyPart>;
    type Error = SerializeError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), SerializeError> {
        let entry = serde_json::to_value(SingleKeyMap(key)).map_err(|err| {
            SerializeError(format!(
                "the keys of a JSON object are strings, and this map has others ({err}); \
                           return a list of entries"
            ))
        })?;
        self.key = entry.as_object().and_then(|map| map.keys().next().cloned()).unwrap_or_default();
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), SerializeError> {
        let key = std::mem::take(&mut self.key);
        self.field(&key, value)
    }

    fn end(self) -> FaultSearchResult {
        Ok(self.failed)
    }
}

impl ser::SerializeStruct for PartsSearch {
    type Ok = Vec<FaultyPart>;
    type Error = SerializeError;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), SerializeError> {
        self.field(name, value)
    }

    fn end(self) -> FaultSearchResult {
        Ok(self.failed)
    }
}

impl ser::SerializeStructVariant for VariantContentSearch {
    type Ok = Vec<FaultyPart>;
    type Error = SerializeError;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), SerializeError> {
        self.1.field(name, value).map_err(|found| found.below(self.0))
    }

    fn end(self) -> FaultSearchResult {
        self.end()
    }
}
