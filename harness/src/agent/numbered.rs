//! An event with its place: in which run, and after how many others.

use std::{num::NonZeroU32, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Map, Value};

use super::{Event, EventBuf};

/// An event of a run with its number, as it goes to another process or into a browser.
///
/// As JSON it is the [event's object](EventBuf) with `v`, the [version](Self::VERSION) of the form, `run` and
/// `number`. Members that are not known are passed over. An event
/// of a later version is read as [`Event::Unknown`] with all its members, and written with its version.
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
    v: u32,
}

impl Numbered {
    /// The version of the form as JSON. It grows when a reader of the form before would misunderstand it, and
    /// not when kinds of events or members are added.
    pub const VERSION: u32 = 1;

    /// What tells the event from all others, as the `id` of a server-sent event: a browser that connects again
    /// sends that of the last event as `Last-Event-ID`
    /// ([HTML, 9.2](https://html.spec.whatwg.org/multipage/server-sent-events.html)), from which
    /// [`ChatWatcher::after`](super::ChatWatcher::after) goes on.
    pub fn id(&self) -> String {
        format!("{}/{}", self.run, self.number)
    }

    /// An event of the run itself.
    pub(super) fn new(run: &Arc<str>, number: u64, event: EventBuf) -> Self {
        Self { run: Arc::clone(run), number, event, v: Self::VERSION }
    }
}

/// A name for a run.
pub(super) fn run_name() -> Arc<str> {
    format!("run_{:032x}", fastrand::u128(..)).into()
}

/// The members that are not of the event.
const PLACE: [&str; 3] = ["v", "run", "number"];

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
        let Self { run, number, event, v } = self;
        let event = match event.as_event() {
            Event::Unknown { json, .. } if PLACE.iter().any(|name| json.contains_key(*name)) => {
                let mut json = json.clone();
                json.retain(|name, _| !PLACE.contains(&name.as_str()));
                &EventBuf::unknown(json)
            }
            _ => event,
        };
        Written { v: *v, run, number: *number, event }.serialize(to)
    }
}

#[derive(Deserialize)]
struct Place {
    #[serde(default = "first")]
    v: NonZeroU32,
    run: Arc<str>,
    number: u64,
}

/// The version of an object that names none.
fn first() -> NonZeroU32 {
    NonZeroU32::MIN
}

impl<'de> Deserialize<'de> for Numbered {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut event = Map::deserialize(from)?;
        let place: Map<String, Value> =
            PLACE.into_iter().filter_map(|name| event.remove_entry(name)).collect();
        let Place { v, run, number } =
            serde_json::from_value(Value::Object(place)).map_err(D::Error::custom)?;
        let later = v.get() > Self::VERSION && event.get("type").is_some_and(Value::is_string);
        let event = match later {
            // It may mean something else by the same members.
            true => EventBuf::unknown(event),
            false => serde_json::from_value(Value::Object(event)).map_err(D::Error::custom)?,
        };
        Ok(Self { run, number, event, v: v.get() })
    }
}
