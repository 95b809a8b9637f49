//! The decoded arguments of a call. Code that decides about a call, displays a call or compares calls uses the decoded
//! arguments rather than the model's text, because the same value can be written in many ways.

use std::{fmt, ops::Deref};

use hmac_sha256::Hash as Sha256;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Map, Number, Value, error::Category};

use super::{ToolCall, strict};
use crate::error::{Error, ErrorKind};

/// The decoded arguments of a call, in the order in which the model wrote them.
///
/// No object in the arguments has two members with the same name. [`decode`](Self::decode) refuses duplicate members,
/// because JSON readers disagree on which member counts.
///
/// ```
/// use harness::{ToolCall, message::Arguments};
///
/// let spaced = ToolCall::new("call_1", "bash", r#"{ "command": "\u006cs" }"#);
/// let plain = ToolCall::new("call_2", "bash", r#"{"command":"ls"}"#);
/// assert_eq!(spaced.decoded()?, plain.decoded()?);
/// assert_eq!(spaced.decoded()?.get("command").and_then(|it| it.as_str()), Some("ls"));
///
/// let twice = ToolCall::new("call_3", "bash", r#"{"command": "ls", "command": "rm -rf /"}"#);
/// assert!(twice.decoded().unwrap_err().to_string().contains("`command` twice"));
/// # Ok::<(), harness::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Arguments(Map<String, Value>);

impl Arguments {
    /// Decodes the text of arguments. An empty text and `null` mean no arguments.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] if the text is not a JSON object, if an object has two members of one name or
    /// a name that begins with `$serde_json::private::`, if the nesting is deeper than 100 levels (many JSON readers
    /// refuse more), or if the text has more than 100,000 values (lists, objects, and their elements). The error gives
    /// the position and does not repeat the text.
    pub fn decode(text: &str) -> Result<Self, Error> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let value = strict::read(text).map_err(|err| match err.classify() {
            Category::Data => unreadable(format!("are refused: {err}")),
            Category::Io | Category::Syntax | Category::Eof => {
                unreadable(format!("are not valid JSON ({err})"))
            }
        })?;
        match value {
            Value::Null => Ok(Self::default()),
            Value::Object(members) => Ok(Self(members)),
            Value::Bool(_) => Err(unreadable("must be a JSON object, not a boolean")),
            Value::Number(_) => Err(unreadable("must be a JSON object, not a number")),
            Value::String(_) => Err(unreadable("must be a JSON object, not a string")),
            Value::Array(_) => Err(unreadable("must be a JSON object, not an array")),
        }
    }

    /// A hash of the tool's name and these arguments, equal in every process. The order of members in objects and the
    /// format of numbers do not matter: 1.0 and 1 have the same hash.
    pub fn fingerprint(&self, tool: &str) -> Fingerprint {
        let mut canonical = Vec::new();
        write_canonical(&Value::from(tool), &mut canonical);
        write_object(&self.0, &mut canonical);
        Fingerprint(Sha256::hash(&canonical))
    }

    /// The members of the top-level object.
    pub fn into_map(self) -> Map<String, Value> {
        self.0
    }
}

impl ToolCall {
    /// The arguments, decoded. See [`Arguments::decode`].
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`], as from [`Arguments::decode`].
    pub fn decoded(&self) -> Result<Arguments, Error> {
        Arguments::decode(self.arguments())
    }

    /// A hash of the tool's name and the decoded arguments, so that two texts of the same arguments have the same hash.
    /// If decoding fails, the undecoded text is hashed.
    pub fn fingerprint(&self) -> Fingerprint {
        self.decoded().unwrap_or_else(|_| raw(self.arguments())).fingerprint(self.name())
    }
}

/// Wraps an undecodable text in arguments with one member. The member has an empty name, which no argument of a tool
/// has.
fn raw(text: &str) -> Arguments {
    Arguments([(String::new(), Value::from(text))].into_iter().collect())
}

impl Deref for Arguments {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl From<Map<String, Value>> for Arguments {
    fn from(members: Map<String, Value>) -> Self {
        Self(members)
    }
}

impl fmt::Display for Arguments {
    /// Writes the arguments as one line of JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(&self.0).map_err(|_| fmt::Error)?)
    }
}

fn unreadable(what: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Protocol, format!("the arguments {what}"))
}

/// The SHA-256 hash of a tool's name and its decoded arguments. The text form and the JSON form
/// have 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or_default();
        let digits = self.0.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
        f.write_str(&digits.collect::<String>())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let wrong = || D::Error::custom("a fingerprint has 64 hexadecimal digits");
        if text.len() != 64 || !text.is_ascii() {
            return Err(wrong());
        }
        let mut hash = [0; 32];
        for (byte, at) in hash.iter_mut().zip((0..).step_by(2)) {
            let digits = text.get(at..at + 2).ok_or_else(wrong)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(Self(hash))
    }
}

/// Whether two values are equal, apart from the order of members and the format of numbers.
#[doc(hidden)]
pub fn same(one: &Value, other: &Value) -> bool {
    let bytes = |value| {
        let mut canonical = Vec::new();
        write_canonical(value, &mut canonical);
        canonical
    };
    bytes(one) == bytes(other)
}

/// Writes a value with the members of each object sorted by name, so that equal values have equal bytes. The recursion
/// is bounded, because the JSON reader limits the nesting.
fn write_canonical(value: &Value, to: &mut Vec<u8>) {
    match value {
        Value::Array(items) => {
            to.push(b'[');
            for item in items {
                write_canonical(item, to);
                to.push(b',');
            }
            to.push(b']');
        }
        Value::Object(members) => write_object(members, to),
        Value::Number(number) => match whole(number) {
            Some(whole) => to.extend_from_slice(whole.to_string().as_bytes()),
            None => to.extend_from_slice(number.to_string().as_bytes()),
        },
        Value::Null | Value::Bool(_) | Value::String(_) => {
            to.extend_from_slice(value.to_string().as_bytes());
        }
    }
}

/// The integer value of a float without a fraction. JSON Schema treats 3.0 as an integer, and models write such floats.
#[expect(clippy::cast_possible_truncation, reason = "the number is whole and within the range")]
fn whole(number: &Number) -> Option<i64> {
    let float = number.as_f64().filter(|_| number.is_f64())?;
    (float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0).then_some(float as i64)
}

fn write_object(members: &Map<String, Value>, to: &mut Vec<u8>) {
    to.push(b'{');
    for (name, value) in sorted_members(members) {
        write_canonical(&Value::from(name.as_str()), to);
        to.push(b':');
        write_canonical(value, to);
        to.push(b',');
    }
    to.push(b'}');
}

/// The members of an object, sorted by name.
pub(crate) fn sorted_members(members: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut sorted: Vec<_> = members.iter().collect();
    sort_by_name(&mut sorted);
    sorted
}

/// The names of the members of two objects, sorted, each once.
pub(crate) fn sorted_names<'a>(
    one: &'a Map<String, Value>,
    other: &'a Map<String, Value>,
) -> Vec<&'a String> {
    let mut members: Vec<_> = one.iter().collect();
    members.extend(other);
    sort_by_name(&mut members);
    members.dedup_by_key(|(name, _)| *name);
    members.into_iter().map(|(name, _)| name).collect()
}

fn sort_by_name(members: &mut [(&String, &Value)]) {
    members.sort_unstable_by_key(|(name, _)| *name);
}

/// Whether a text means no arguments: an empty text, `null`, or an object without members.
pub fn are_none(arguments: &str) -> bool {
    matches!(arguments.trim(), "" | "null") || is_empty_object(arguments)
}

/// Whether a text is an object without members. Some servers send an empty object before the actual arguments of a
/// call.
pub fn is_empty_object(json: &str) -> bool {
    let inner = json.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    inner.is_some_and(|inner| inner.trim().is_empty())
}
