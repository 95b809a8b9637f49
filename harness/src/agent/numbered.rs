//! An event with its place: in which run, and after how many others.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Map, Value};

use super::EventBuf;

/// An event of a run with its number, as it goes to another process or into a browser.
///
/// As JSON it is the [event's object](EventBuf) with `v`, the [version](Self::VERSION) of the form, `run` and
/// `number`. Members that are not known are passed over.
///
/// ```
/// use harness::agent::{Event, Numbered};
///
/// let json = r#"{"v":1,"run":"run_7","number":3,"type":"text","text":"Hello."}"#;
/// let numbered: Numbered = serde_json::from_str(json)?;
/// assert!(matches!(numbered.event.as_event(), Event::Text("Hello.")));
/// assert_eq!(serde_json::to_string(&numbered)?, json);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Numbered {
    /// The name of the run: another one each time that a run begins, goes on, or is read again from its
    /// facts.
    pub run: Arc<str>,
    /// Counts the events of the run from 1. If neighbouring words were joined, it is the number of the last
    /// event of them.
    pub number: u64,
    /// What happened.
    pub event: EventBuf,
}

impl Numbered {
    /// The version of the form as JSON. It grows when a reader of the form before would misunderstand it, and
    /// not when kinds of events or members are added.
    pub const VERSION: u32 = 1;

    /// An event of the run itself.
    pub(super) fn new(run: &Arc<str>, number: u64, event: EventBuf) -> Self {
        Self { run: Arc::clone(run), number, event }
    }
}

/// A name for a run.
pub(super) fn run_name() -> Arc<str> {
    format!("run_{:032x}", fastrand::u128(..)).into()
}

#[derive(Serialize)]
struct Written<'a> {
    v: u32,
    run: &'a str,
    number: u64,
    #[serde(flatten)]
    event: &'a EventBuf,
}

impl Serialize for Numbered {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { run, number, event } = self;
        Written { v: Self::VERSION, run, number: *number, event }.serialize(to)
    }
}

#[derive(Deserialize)]
struct Place {
    run: Arc<str>,
    number: u64,
}

impl<'de> Deserialize<'de> for Numbered {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut event = Map::deserialize(from)?;
        event.remove("v");
        let place: Map<String, Value> =
            ["run", "number"].into_iter().filter_map(|name| event.remove_entry(name)).collect();
        let Place { run, number } =
            serde_json::from_value(Value::Object(place)).map_err(D::Error::custom)?;
        let event = serde_json::from_value(Value::Object(event)).map_err(D::Error::custom)?;
        Ok(Self { run, number, event })
    }
}
