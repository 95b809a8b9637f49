//! Reads the JSON of an event in one pass. Nearly all events are plain: no duplicate members, no names with escapes,
//! and integers wherever a number matters. This reader is several times faster than `serde_json` for plain events. For
//! any other event, this reader fails, and `serde_json` reads the event from the beginning. So `serde_json` alone
//! decides which events are valid and which error an invalid event causes.
//!
//! For plain events, the result must equal the result of `serde_json`. So the reader checks the syntax of skipped
//! values too.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, MapAccess, SeqAccess, Visitor, value::BorrowedStrDeserializer},
    forward_to_deserialize_any,
};

use super::json_walk::JsonWalk;

/// The maximum nesting depth of lists and objects. `serde_json` reads deeper values.
const DEEPEST: u32 = 60;

/// Reads the value in `json`.
pub(super) fn from_str<'de, T: Deserialize<'de>>(json: &'de str) -> serde_json::Result<T> {
    match whole(json) {
        Ok(value) => Ok(value),
        Err(GivenUp) => serde_json::from_str(json),
    }
}

fn whole<'de, T: Deserialize<'de>>(json: &'de str) -> Result<T, GivenUp> {
    let mut reader = JsonReader { walk: JsonWalk::new(json.as_bytes()), depth: 0 };
    let value = T::deserialize(&mut reader)?;
    reader.walk.end().ok_or(GivenUp)?;
    Ok(value)
}

/// The error of this reader: the JSON is invalid or not plain.
#[derive(Debug)]
struct GivenUp;

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not plain JSON")
    }
}

impl std::error::Error for GivenUp {}

impl serde::de::Error for GivenUp {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

struct JsonReader<'de> {
    walk: JsonWalk<'de>,
    depth: u32,
}

impl<'de> JsonReader<'de> {
    /// Reads the elements or members up to the byte `end`.
    fn nested<T>(
        &mut self,
        end: u8,
        visit: impl FnOnce(NestedReader<'_, 'de>) -> Result<T, GivenUp>,
    ) -> Result<T, GivenUp> {
        self.depth = self.depth.checked_add(1).filter(|depth| *depth <= DEEPEST).ok_or(GivenUp)?;
        self.walk.step(1);
        let value = visit(NestedReader { reader: self, end, is_first: true })?;
        self.walk.expect(end).ok_or(GivenUp)?;
        self.depth = self.depth.saturating_sub(1);
        Ok(value)
    }
}

fn text(bytes: &[u8]) -> Result<&str, GivenUp> {
    std::str::from_utf8(bytes).map_err(|_| GivenUp)
}

impl<'de> Deserializer<'de> for &mut JsonReader<'de> {
    type Error = GivenUp;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GivenUp> {
        match self.walk.next() {
            Some(b'"') => match self.walk.text().ok_or(GivenUp)? {
                Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
                Cow::Owned(text) => visitor.visit_string(text),
            },
            Some(b'{') => self.nested(b'}', |members| visitor.visit_map(members)),
            Some(b'[') => self.nested(b']', |elements| visitor.visit_seq(elements)),
            Some(b'n') => {
                self.walk.literal("null").ok_or(GivenUp)?;
                visitor.visit_unit()
            }
            Some(first @ (b't' | b'f')) => {
                let word = if first == b't' { "true" } else { "false" };
                self.walk.literal(word).ok_or(GivenUp)?;
                visitor.visit_bool(first == b't')
            }
            Some(b'0'..=b'9') => visitor.visit_u64(self.walk.number().ok_or(GivenUp)?),
            _ => Err(GivenUp),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GivenUp> {
        match self.walk.next() {
            Some(b'n') => {
                self.walk.literal("null").ok_or(GivenUp)?;
                visitor.visit_none()
            }
            _ => visitor.visit_some(self),
        }
    }

    /// Reads a [`RawValue`](serde_json::value::RawValue), the only newtype that the wires read. `RawValue` expects a
    /// map with one member. The member's name is the name of the newtype, and the member's value is the JSON. If a
    /// later version of `serde_json` expects another form, this reader fails, and `serde_json` reads the event.
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, GivenUp> {
        let json = text(self.walk.value().ok_or(GivenUp)?)?;
        visitor.visit_map(RawReader { name, json })
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GivenUp> {
        self.walk.skip().ok_or(GivenUp)?;
        visitor.visit_unit()
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GivenUp> {
        match self.walk.next() {
            Some(b'{') => self.nested(b'}', |members| visitor.visit_map(members)),
            _ => Err(GivenUp),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, GivenUp> {
        self.deserialize_map(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct enum identifier
    }
}

/// Reads the elements or members of an open list or object.
struct NestedReader<'a, 'de> {
    reader: &'a mut JsonReader<'de>,
    end: u8,
    is_first: bool,
}

impl NestedReader<'_, '_> {
    /// Whether the list or object has another element or member.
    fn has_another(&mut self) -> Result<bool, GivenUp> {
        match (self.reader.walk.next(), std::mem::replace(&mut self.is_first, false)) {
            (Some(byte), _) if byte == self.end => Ok(false),
            (Some(_), true) => Ok(true),
            (Some(b','), false) => {
                self.reader.walk.step(1);
                // After a comma, the list or object must not end.
                match self.reader.walk.next() {
                    Some(byte) if byte != self.end => Ok(true),
                    _ => Err(GivenUp),
                }
            }
            _ => Err(GivenUp),
        }
    }
}

impl<'de> MapAccess<'de> for NestedReader<'_, 'de> {
    type Error = GivenUp;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, GivenUp> {
        if !self.has_another()? {
            return Ok(None);
        }
        let name = text(self.reader.walk.name().ok_or(GivenUp)?)?;
        seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, GivenUp> {
        seed.deserialize(&mut *self.reader)
    }
}

impl<'de> SeqAccess<'de> for NestedReader<'_, 'de> {
    type Error = GivenUp;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, GivenUp> {
        match self.has_another()? {
            true => seed.deserialize(&mut *self.reader).map(Some),
            false => Ok(None),
        }
    }
}

/// Passes the JSON of a value to a visitor, unchanged.
struct RawReader<'de> {
    name: &'static str,
    json: &'de str,
}

impl<'de> MapAccess<'de> for RawReader<'de> {
    type Error = GivenUp;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, GivenUp> {
        seed.deserialize(BorrowedStrDeserializer::new(self.name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, GivenUp> {
        seed.deserialize(BorrowedStrDeserializer::new(self.json))
    }
}
