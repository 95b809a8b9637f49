//! Finds what JSON cannot write in a value: a number, for which `serde_json` puts `null`, so that the
//! model would read that there is nothing; and a map whose keys are no strings, of which it does not
//! say where it is.

use serde::{
    Serialize, Serializer,
    ser::{self, SerializeMap as _},
};
use serde_json::Value;

/// The JSON of a value, or why it has none.
///
/// # Errors
/// Fails if the value refuses to be written, and if a number in it is infinite or none at all.
pub(super) fn to_json<T: Serialize>(value: &T) -> Result<Value, String> {
    let json = match serde_json::to_value(value) {
        Ok(json) => json,
        Err(err) => {
            let found = value.serialize(Search).err();
            return Err(found.map_or_else(|| err.to_string(), |Found(fault)| fault));
        }
    };
    // Only where there is a `null` can there be such a number.
    if has_null(&json)
        && let Err(Found(fault)) = value.serialize(Search)
    {
        return Err(fault);
    }
    Ok(json)
}

fn has_null(json: &Value) -> bool {
    match json {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(map) => map.values().any(has_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Reads a value as JSON would, and stops at the first number that JSON does not have.
struct Search;

/// Where that number is, and what it is.
#[derive(Debug)]
struct Found(String);

impl Found {
    fn number(number: f64) -> Result<(), Self> {
        let name = if number.is_nan() {
            "NaN"
        } else if number.is_infinite() && number.is_sign_positive() {
            "infinite"
        } else if number.is_infinite() {
            "minus infinity"
        } else {
            return Ok(());
        };
        Err(Self(format!("it is {name}, which JSON does not have")))
    }

    /// The same, seen from one step further out.
    fn below(self, step: &str) -> Self {
        let step = step.replace('~', "~0").replace('/', "~1");
        let (pointer, fault) = match self.0.strip_prefix("at `") {
            Some(rest) => rest.split_once("`: ").unwrap_or(("", rest)),
            None => ("", self.0.as_str()),
        };
        Self(format!("at `/{step}{pointer}`: {fault}"))
    }
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Found {}

impl ser::Error for Found {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// What is inside of a list or an object, and how far it was read.
#[derive(Default)]
struct Parts {
    index: usize,
    key: String,
}

impl Parts {
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Found> {
        let read = value.serialize(Search);
        let index = self.index;
        self.index += 1;
        read.map_err(|found| found.below(&index.to_string()))
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Found> {
        value.serialize(Search).map_err(|found| found.below(name))
    }
}

/// Parts of the content of a variant, which JSON writes below the variant's name.
struct Below(&'static str, Parts);

macro_rules! finite {
    ($($method:ident: $ty:ty),* $(,)?) => {$(
        fn $method(self, _: $ty) -> Result<(), Found> {
            Ok(())
        }
    )*};
}

impl Serializer for Search {
    type Ok = ();
    type Error = Found;
    type SerializeSeq = Parts;
    type SerializeTuple = Parts;
    type SerializeTupleStruct = Parts;
    type SerializeTupleVariant = Below;
    type SerializeMap = Parts;
    type SerializeStruct = Parts;
    type SerializeStructVariant = Below;

    finite! {
        serialize_bool: bool, serialize_char: char, serialize_str: &str, serialize_bytes: &[u8],
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_i128: i128, serialize_u8: u8, serialize_u16: u16, serialize_u32: u32,
        serialize_u64: u64, serialize_u128: u128, serialize_unit_struct: &'static str,
    }

    fn serialize_f32(self, number: f32) -> Result<(), Found> {
        Found::number(number.into())
    }

    fn serialize_f64(self, number: f64) -> Result<(), Found> {
        Found::number(number)
    }

    fn serialize_none(self) -> Result<(), Found> {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Found> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Found> {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result<(), Found> {
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Found> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Found> {
        value.serialize(self).map_err(|found| found.below(variant))
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Parts, Found> {
        Ok(Parts::default())
    }

    fn serialize_tuple(self, _: usize) -> Result<Parts, Found> {
        Ok(Parts::default())
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Parts, Found> {
        Ok(Parts::default())
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Below, Found> {
        Ok(Below(variant, Parts::default()))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Parts, Found> {
        Ok(Parts::default())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Parts, Found> {
        Ok(Parts::default())
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Below, Found> {
        Ok(Below(variant, Parts::default()))
    }
}

/// A map with nothing but this key.
struct Entry<'a, K: ?Sized>(&'a K);

impl<K: Serialize + ?Sized> Serialize for Entry<'_, K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(self.0, &())?;
        map.end()
    }
}

/// The traits of what is inside: each item, and an end at which nothing is left to say.
macro_rules! parts {
    ($($trait:ident::$method:ident),*) => {$(
        impl ser::$trait for Parts {
            type Ok = ();
            type Error = Found;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Found> {
                self.item(value)
            }

            fn end(self) -> Result<(), Found> {
                Ok(())
            }
        }
    )*};
}
parts!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field
);

impl ser::SerializeTupleVariant for Below {
    type Ok = ();
    type Error = Found;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Found> {
        self.1.item(value).map_err(|found| found.below(self.0))
    }

    fn end(self) -> Result<(), Found> {
        Ok(())
    }
}

impl ser::SerializeMap for Parts {
    type Ok = ();
    type Error = Found;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Found> {
        let entry = serde_json::to_value(Entry(key)).map_err(|err| {
            Found(format!(
                "the keys of a JSON object are strings, and this map has others ({err}); \
                           return a list of entries"
            ))
        })?;
        self.key = entry.as_object().and_then(|map| map.keys().next().cloned()).unwrap_or_default();
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Found> {
        let key = std::mem::take(&mut self.key);
        self.field(&key, value)
    }

    fn end(self) -> Result<(), Found> {
        Ok(())
    }
}

impl ser::SerializeStruct for Parts {
    type Ok = ();
    type Error = Found;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Found> {
        self.field(name, value)
    }

    fn end(self) -> Result<(), Found> {
        Ok(())
    }
}

impl ser::SerializeStructVariant for Below {
    type Ok = ();
    type Error = Found;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Found> {
        self.1.field(name, value).map_err(|found| found.below(self.0))
    }

    fn end(self) -> Result<(), Found> {
        Ok(())
    }
}
