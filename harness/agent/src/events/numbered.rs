//! An event with the name of its run and its number.

use std::{num::NonZeroU32, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Map, Value};

use super::{event::Event, event_json::EventBuf};

/// An event of a run with its number. This is the form in which events are sent to another process or to a
/// browser.
///
/// As JSON it is the [event's object](EventBuf) with three more members: `v`, the [version](Self::VERSION) of
/// the form, `run` and `number`. Unknown members are ignored. An event of a later version is read as
/// [`Event::Unknown`] with all its members, and keeps its version when it is written.
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
    /// The name of the run. A run gets a new name each time it begins, is resumed, or is replayed from its
    /// facts.
    pub run: Arc<str>,
    /// The number of the event in the run, from 1. If neighbouring pieces of text were joined, this is the
    /// number of the last piece.
    pub number: u64,
    /// The event without its number.
    pub event: EventBuf,
    v: u32,
}

impl Numbered {
    /// The version of the JSON form. The version increases only if readers of the earlier form would misread
    /// the new form. New kinds of events and new members do not change the version.
    pub const VERSION: u32 = 1;

    /// A unique id of the event, for the `id` of a server-sent event. A browser that connects again sends the
    /// id of the last event as `Last-Event-ID` ([HTML,
    /// 9.2](https://html.spec.whatwg.org/multipage/server-sent-events.html)).
    /// [`ChatWatcher::after`](crate::ChatWatcher::after) continues after that event.
    pub fn id(&self) -> String {
        format!("{}/{}", self.run, self.number)
    }

    /// An event with its number, in the current version of the form.
    pub(crate) fn new(run: &Arc<str>, number: u64, event: EventBuf) -> Self {
        Self { run: Arc::clone(run), number, event, v: Self::VERSION }
    }
}

/// A new random name for a run.
pub(crate) fn run_name() -> Arc<str> {
    format!("run_{:032x}", fastrand::u128(..)).into()
}

/// The members that [`Numbered`] adds to the members of the event.
const PLACE: [&str; 3] = ["v", "run", "number"];

#[derive(Serialize)]
struct NumberedJson<'a> {
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
        NumberedJson { v: *v, run, number: *number, event }.serialize(to)
    }
}

#[derive(Deserialize)]
struct EventPosition {
    #[serde(default = "first")]
    v: NonZeroU32,
    run: Arc<str>,
    number: u64,
}

/// The version of an object without a member `v`.
fn first() -> NonZeroU32 {
    NonZeroU32::MIN
}

impl<'de> Deserialize<'de> for Numbered {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut event = Map::deserialize(from)?;
        let place: Map<String, Value> =
            PLACE.into_iter().filter_map(|name| event.remove_entry(name)).collect();
        let EventPosition { v, run, number } =
            serde_json::from_value(Value::Object(place)).map_err(D::Error::custom)?;
        let later = v.get() > Self::VERSION && event.get("type").is_some_and(Value::is_string);
        let event = match later {
            // In a later version, the same members may have another meaning.
            true => EventBuf::unknown(event),
            false => serde_json::from_value(Value::Object(event)).map_err(D::Error::custom)?,
        };
        Ok(Self { run, number, event, v: v.get() })
    }
}
