//! Reads JSON with the limits of the strictest readers. If this reader accepts a text, all JSON readers accept the text
//! and read the same value.

use std::{collections::HashSet, fmt, marker::PhantomData};

use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};

/// The maximum nesting depth. Many JSON readers have a limit of 128. The maximum here is lower, because requests
/// contain these values inside other values.
const DEPTH: usize = 100;

/// The maximum number of values: lists, objects, and their elements. A value can take as little as two bytes of text,
/// but needs a hundred bytes of memory or more.
pub const MAX_VALUES: usize = 100_000;

/// The beginning of the names by which `serde_json` marks values in another form, if any package of a program turns on
/// its `raw_value` or `arbitrary_precision`. It reads an object whose first member has such a name as another value, or
/// not at all.
const PRIVATE_NAME: &str = "$serde_json::private::";

/// Reads a value. Refuses a text with too many values, with too deep a nesting, or with an object that has two members
/// of one name or a private name of `serde_json`.
pub(super) fn read(json: &str) -> serde_json::Result<Value> {
    whole(json)
}

/// Why some readers would refuse the text of this value or read another value from it, as the end of a sentence. `None`
/// if all readers read this value.
#[doc(hidden)]
pub fn unreadable_reason(value: &Value) -> Option<&'static str> {
    if is_deeper(value, DEPTH) {
        Some("is nested too deep")
    } else if has_private_name(value) {
        Some("has a member with a private name of the JSON reader")
    } else {
        None
    }
}

fn has_private_name(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_private_name),
        Value::Object(members) => members
            .iter()
            .any(|(name, member)| name.starts_with(PRIVATE_NAME) || has_private_name(member)),
        _ => false,
    }
}

/// Whether a value is nested deeper than `levels`.
pub(crate) fn is_deeper(value: &Value, levels: usize) -> bool {
    match (value, levels.checked_sub(1)) {
        (Value::Array(_) | Value::Object(_), None) => true,
        (Value::Array(items), Some(left)) => items.iter().any(|item| is_deeper(item, left)),
        (Value::Object(members), Some(left)) => {
            members.values().any(|member| is_deeper(member, left))
        }
        _ => false,
    }
}

/// Counts the values in a JSON text (lists, objects, and their elements) without parsing the text. For a text that is
/// not JSON, the number has no meaning.
pub fn count_values(json: &[u8]) -> usize {
    let (mut values, mut in_text) = (0_usize, false);
    let mut rest = json.iter();
    while let Some(byte) = rest.next() {
        match byte {
            b'\\' if in_text => {
                rest.next();
            }
            b'"' => in_text = !in_text,
            b',' | b'[' | b'{' if !in_text => values = values.saturating_add(1),
            _ => {}
        }
    }
    values
}

/// Whether every JSON reader accepts this text and reads the same value.
pub fn is_strict(json: &str) -> bool {
    whole::<()>(json).is_ok()
}

fn whole<B: StrictValue>(json: &str) -> serde_json::Result<B> {
    if count_values(json.as_bytes()) > MAX_VALUES {
        let why = format_args!("there are more than {MAX_VALUES} values");
        return Err(Error::custom(why));
    }
    let mut reader = serde_json::Deserializer::from_str(json);
    let value = StrictSeed { depth: 0, made: PhantomData }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// The result type of the reader: `Value` builds the value, `()` only checks the text.
trait StrictValue: Sized {
    /// The members of an object that have been read so far.
    type Members: Default;

    fn scalar(value: impl FnOnce() -> Value) -> Self;
    fn list(items: Vec<Self>) -> Self;
    fn object(members: Self::Members) -> Self;
    fn has_member(members: &Self::Members, name: &str) -> bool;
    fn insert(members: &mut Self::Members, name: String, value: Self);
}

impl StrictValue for Value {
    type Members = Map<String, Self>;

    fn scalar(value: impl FnOnce() -> Value) -> Self {
        value()
    }

    fn list(items: Vec<Self>) -> Self {
        Self::Array(items)
    }

    fn object(members: Self::Members) -> Self {
        Self::Object(members)
    }

    fn has_member(members: &Self::Members, name: &str) -> bool {
        members.contains_key(name)
    }

    fn insert(members: &mut Self::Members, name: String, value: Self) {
        members.insert(name, value);
    }
}

impl StrictValue for () {
    type Members = HashSet<String>;

    fn scalar(_: impl FnOnce() -> Value) -> Self {}

    fn list(_: Vec<Self>) -> Self {}

    fn object(_: Self::Members) -> Self {}

    fn has_member(members: &Self::Members, name: &str) -> bool {
        members.contains(name)
    }

    fn insert(members: &mut Self::Members, name: String, (): Self) {
        members.insert(name);
    }
}

struct StrictSeed<B> {
    depth: usize,
    made: PhantomData<B>,
}

impl<B> StrictSeed<B> {
    fn inner<E: Error>(&self) -> Result<Self, E> {
        let depth = self.depth.saturating_add(1);
        match depth <= DEPTH {
            true => Ok(Self { depth, made: PhantomData }),
            false => {
                Err(E::custom(format_args!("the values are nested deeper than {DEPTH} levels")))
            }
        }
    }

    fn again(&self) -> Self {
        Self { depth: self.depth, made: PhantomData }
    }
}

impl<'de, B: StrictValue> DeserializeSeed<'de> for StrictSeed<B> {
    type Value = B;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<B, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de, B: StrictValue> Visitor<'de> for StrictSeed<B> {
    type Value = B;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<B, E> {
        Ok(B::scalar(|| Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<B, E> {
        Ok(B::scalar(|| Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<B, E> {
        Ok(B::scalar(|| value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<B, E> {
        Ok(B::scalar(|| value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<B, E> {
        Ok(B::scalar(|| Number::from_f64(value).map_or(Value::Null, Value::Number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<B, E> {
        Ok(B::scalar(|| value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<B, E> {
        Ok(B::scalar(|| Value::String(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<B, A::Error> {
        let inner = self.inner()?;
        let mut read = Vec::new();
        while let Some(item) = items.next_element_seed(inner.again())? {
            read.push(item);
        }
        Ok(B::list(read))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<B, A::Error> {
        let inner = self.inner()?;
        let mut read = B::Members::default();
        while let Some(name) = members.next_key::<String>()? {
            if B::has_member(&read, &name) {
                members.next_value::<IgnoredAny>()?;
                let name: String = name.chars().take(100).collect();
                return Err(A::Error::custom(format_args!(
                    "an object names the member `{name}` twice; write it once"
                )));
            }
            if name.starts_with(PRIVATE_NAME) {
                return Err(A::Error::custom(
                    "an object has a member with a private name of the JSON reader; use another name",
                ));
            }
            let value = members.next_value_seed(inner.again())?;
            B::insert(&mut read, name, value);
        }
        Ok(B::object(read))
    }
}
