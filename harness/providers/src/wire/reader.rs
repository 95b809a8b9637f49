//! Reads the JSON of a vendor in one pass. This reader is several times faster than `serde_json`, and the types of the
//! wires are compiled for this reader alone. `serde_json` reads the rare values: unusual numbers and deeply nested
//! values.
//!
//! The result must equal the result of `serde_json`. So the reader checks the syntax of skipped values too.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor},
    forward_to_deserialize_any,
};
use serde_json::Number;

use super::json_walk::JsonWalk;

/// Reads the value in `json`.
pub(super) fn from_str<'de, T: Deserialize<'de>>(json: &'de str) -> serde_json::Result<T> {
    let mut reader = JsonReader { walk: JsonWalk::new(json.as_bytes()) };
    match T::deserialize(&mut reader) {
        Ok(value) if reader.walk.end().is_some() => Ok(value),
        Ok(_) | Err(GivenUp) => Err(why_not(json)),
    }
}

/// The reason why this JSON was not read.
#[cold]
fn why_not(json: &str) -> serde_json::Error {
    match serde_json::from_slice::<IgnoredAny>(json.as_bytes()) {
        Err(err) => err,
        Ok(_) => serde_json::Error::custom(GivenUp),
    }
}

/// The error of this reader: the JSON is invalid or has another form than the type.
#[derive(Debug)]
struct GivenUp;

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the JSON is of another type, or a member occurs twice")
    }
}

impl std::error::Error for GivenUp {}

impl serde::de::Error for GivenUp {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

/// A value: all of it, or that a list or an object begins.
enum JsonValue<'de> {
    Text(Cow<'de, str>),
    Whole(u64),
    Negative(i64),
    Float(f64),
    Bool(bool),
    Null,
    List,
    Object,
}

/// The types that are read do not nest themselves, so that the depth needs no limit here.
struct JsonReader<'de> {
    walk: JsonWalk<'de>,
}

impl<'de> JsonReader<'de> {
    /// Begins the list or object that ends with the byte `end`.
    fn open(&mut self, end: u8) -> NestedReader<'_, 'de> {
        self.walk.step(1);
        NestedReader { reader: self, end, is_first: true }
    }

    fn close(&mut self, end: u8) -> Result<(), GivenUp> {
        self.walk.expect(end).ok_or(GivenUp)
    }

    fn object<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, GivenUp> {
        let value = visitor.visit_map(self.open(b'}'))?;
        self.close(b'}')?;
        Ok(value)
    }

    /// Reads the next value up to its end, or only finds out that it is a list or an object.
    fn next(&mut self) -> Result<JsonValue<'de>, GivenUp> {
        Ok(match self.walk.next().ok_or(GivenUp)? {
            b'"' => JsonValue::Text(self.walk.text().ok_or(GivenUp)?),
            b'{' => JsonValue::Object,
            b'[' => JsonValue::List,
            b'n' => {
                self.literal("null")?;
                JsonValue::Null
            }
            b't' => {
                self.literal("true")?;
                JsonValue::Bool(true)
            }
            b'f' => {
                self.literal("false")?;
                JsonValue::Bool(false)
            }
            _ => {
                let before = self.walk;
                match self.walk.number() {
                    Some(number) => JsonValue::Whole(number),
                    None => {
                        self.walk = before;
                        self.unusual_number()?
                    }
                }
            }
        })
    }

    fn literal(&mut self, word: &str) -> Result<(), GivenUp> {
        self.walk.literal(word).ok_or(GivenUp)
    }

    /// Reads a number that is not a non-negative integer.
    #[cold]
    fn unusual_number(&mut self) -> Result<JsonValue<'de>, GivenUp> {
        let number = text(self.walk.value().ok_or(GivenUp)?)?;
        let number: Number = number.parse().map_err(|_| GivenUp)?;
        match number.as_i64() {
            Some(number) => Ok(JsonValue::Negative(number)),
            None => number.as_f64().map(JsonValue::Float).ok_or(GivenUp),
        }
    }

    fn skip(&mut self) -> Result<(), GivenUp> {
        let before = self.walk;
        if self.walk.skip().is_some() {
            return Ok(());
        }
        self.walk = before;
        self.skip_deep()
    }

    /// Skips a value that is nested deeper than [`JsonWalk::skip`] allows.
    #[cold]
    fn skip_deep(&mut self) -> Result<(), GivenUp> {
        let mut values = serde_json::Deserializer::from_slice(self.walk.rest()).into_iter();
        let Some(Ok(IgnoredAny)) = values.next() else { return Err(GivenUp) };
        self.walk.step(values.byte_offset());
        Ok(())
    }
}

fn text(bytes: &[u8]) -> Result<&str, GivenUp> {
    std::str::from_utf8(bytes).map_err(|_| GivenUp)
}

impl<'de> Deserializer<'de> for &mut JsonReader<'de> {
    type Error = GivenUp;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GivenUp> {
        match self.next()? {
            JsonValue::Text(text) => TextReader(text).deserialize_any(visitor),
            JsonValue::Whole(number) => visitor.visit_u64(number),
            JsonValue::Negative(number) => visitor.visit_i64(number),
            JsonValue::Float(number) => visitor.visit_f64(number),
            JsonValue::Bool(value) => visitor.visit_bool(value),
            JsonValue::Null => visitor.visit_unit(),
            JsonValue::Object => self.object(visitor),
            JsonValue::List => {
                let value = visitor.visit_seq(self.open(b']'))?;
                self.close(b']')?;
                Ok(value)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GivenUp> {
        match self.walk.next() {
            Some(b'n') => {
                self.literal("null")?;
                visitor.visit_none()
            }
            _ => visitor.visit_some(self),
        }
    }

    /// Passes on the JSON of the next value, unchanged. The only newtype that the wires read is [`RawJson`].
    ///
    /// [`RawJson`]: super::tolerant::RawJson
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, GivenUp> {
        self.walk.next();
        let start = self.walk.place();
        self.skip()?;
        visitor.visit_borrowed_str(text(self.walk.since(start).ok_or(GivenUp)?)?)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GivenUp> {
        self.skip()?;
        visitor.visit_unit()
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GivenUp> {
        match self.walk.next() {
            Some(b'{') => self.object(visitor),
            // A list has none of the members, but is no error: the servers that send `[]` mean nothing by it.
            Some(b'[') => {
                self.skip()?;
                JsonReader { walk: JsonWalk::new(b"{}") }.object(visitor)
            }
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

impl<'de> NestedReader<'_, 'de> {
    /// The name of the next member; `None` at the end of the object.
    fn next_name(&mut self) -> Result<Option<Cow<'de, str>>, GivenUp> {
        if !self.has_another()? {
            return Ok(None);
        }
        let walk = &mut self.reader.walk;
        let before = *walk;
        if let Some(name) = walk.name() {
            return text(name).map(|name| Some(Cow::Borrowed(name)));
        }
        // The name has escapes.
        *walk = before;
        let name = walk.text().ok_or(GivenUp)?;
        walk.expect(b':').ok_or(GivenUp)?;
        Ok(Some(name))
    }

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
        match self.next_name()? {
            Some(name) => seed.deserialize(TextReader(name)).map(Some),
            None => Ok(None),
        }
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

/// Passes a text to a visitor.
struct TextReader<'de>(Cow<'de, str>);

impl<'de> Deserializer<'de> for TextReader<'de> {
    type Error = GivenUp;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GivenUp> {
        match self.0 {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::super::tolerant::{TolerantCount, TolerantList, TolerantObject, TolerantText};

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "the members are compared by their debug form")]
    struct Members<'a> {
        #[serde(borrow, default)]
        text: TolerantText<'a>,
        #[serde(default)]
        count: TolerantCount,
        #[serde(borrow, default)]
        texts: TolerantList<TolerantText<'a>>,
        #[serde(borrow, default)]
        inner: TolerantObject<Texts<'a>>,
        #[serde(borrow, default)]
        maybe: Option<TolerantText<'a>>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "the members are compared by their debug form")]
    struct Texts<'a> {
        #[serde(borrow, default)]
        text: TolerantText<'a>,
    }

    /// What was read, or that nothing was.
    fn read_by<'a>(result: serde_json::Result<Members<'a>>) -> String {
        result.map_or_else(|_| "an error".to_owned(), |value| format!("{value:?}"))
    }

    #[test]
    fn unusual_json_is_read_as_by_serde_json() {
        let deep = format!("{}1{}", "[{\"a\":".repeat(200), "}]".repeat(200));
        let values = [
            "\"a\"",
            "\"a\\n\\u00e9\\ud83d\\ude00\"",
            "\"\\ud800\"",
            "\"7\"",
            "\" 7 \"",
            "\"\"",
            "null",
            "true",
            "false",
            "tru",
            "nul",
            "0",
            "-0",
            "7",
            "-7",
            "007",
            "1.0",
            "1.5",
            "-1.5",
            "1e3",
            "1E-3",
            "1.",
            "1e",
            "1e400",
            "18446744073709551615",
            "18446744073709551616",
            "-9223372036854775808",
            "-9223372036854775809",
            "[]",
            "[1]",
            "[1,]",
            "[\"a\",null,2.5]",
            "[[],{}]",
            "{}",
            "{\"text\":\"b\"}",
            "{\"text\":1,\"text\":2}",
            "{\"t\\u0065xt\":\"b\"}",
            "{\"\\ud800\":1}",
            "{\"text\":-2}",
            "{,}",
            "{1:2}",
            &deep,
            "",
            "\u{7f}",
            "\"\t\"",
        ];
        let mut cases: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        for value in values {
            for name in ["text", "t\\u0065xt", "count", "texts", "inner", "maybe", "other"] {
                cases.push(format!("{{\"{name}\":{value}}}"));
                cases.push(format!(" {{ \"count\" : 1 , \"{name}\" : {value} }} "));
            }
            cases.push(format!("{{\"text\":{value}"));
            cases.push(format!("{{\"text\":{value}}}}}"));
        }
        for json in cases.iter().filter(|json| !json.trim_start().starts_with('[')) {
            let expected = read_by(serde_json::from_str(json));
            assert_eq!(read_by(super::from_str(json)), expected, "{json}");
        }
    }

    #[test]
    fn an_empty_list_has_no_members() {
        assert_eq!(read_by(super::from_str("[]")), read_by(super::from_str("{}")));
    }

    #[test]
    fn an_error_says_where_json_is_wrong() {
        let err = super::from_str::<Members<'_>>("{\"text\":x}").unwrap_err();
        assert_eq!((err.line(), err.column()), (1, 9));
        let err = super::from_str::<Members<'_>>("{\"text\":1,\"text\":2}").unwrap_err();
        assert_eq!(err.to_string(), "the JSON is of another type, or a member occurs twice");
    }
}
