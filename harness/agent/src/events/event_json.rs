//! Events that own their values, and the JSON form of events.

use std::{fmt, sync::Arc, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Map, Value};

use super::event::{AgentCall, Event};
use crate::Outcome;
use harness_core::{
    journal::{AnswerCheck, LimitKind, LimitScope, Wait},
    message::{Citation, Media, Message, ToolCall, ToolResult},
    policy::BudgetUsage,
    provider::{StopReason, Usage},
};

/// An [`Event`] that owns its values, so it can be kept. To match on the event, use
/// [`as_event`](Self::as_event).
///
/// As JSON, an event is an object. Its member `type` is the name of the event in snake case, and the other
/// members have the names of the event's fields. Durations are whole milliseconds (`wait_ms`, `elapsed_ms`), so
/// an event that was read back may differ from the original by less than a millisecond. Events of the type
/// `text` and `reasoning` have their text in the member `text`. A result has the same form as in a transcript.
///
/// If this version does not know the type of an event, or cannot read one of its values, the event is read as
/// [`Event::Unknown`] with all its members. So an older program can read the events of a newer program. Reading
/// fails only if the JSON is not an object with a `type` that is a string.
///
/// ```
/// use harness::agent::{Event, EventBuf};
///
/// let event = Event::Text("Hello.").into_owned();
/// let json = serde_json::to_string(&event)?;
/// assert_eq!(json, r#"{"type":"text","text":"Hello."}"#);
/// assert_eq!(serde_json::from_str::<EventBuf>(&json)?, event);
///
/// let later: EventBuf = serde_json::from_str(r#"{"type":"thunder","distance":3}"#)?;
/// assert!(matches!(later.as_event(), Event::Unknown { kind: "thunder", .. }));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct EventBuf(EventForm);

impl EventBuf {
    /// The event in a form for `match`.
    pub fn as_event(&self) -> Event<'_> {
        self.0.event()
    }

    /// An event that this version cannot read. Its `type` must be a string.
    pub(crate) fn unknown(json: Map<String, Value>) -> Self {
        Self(EventForm::Unknown(Arc::new(json)))
    }

    /// Appends the next piece of text if it belongs to the same kind of event and to the same agent or call.
    /// Returns whether the piece was appended.
    pub(crate) fn join(&mut self, next: Event<'_>) -> bool {
        match (&mut self.0, next) {
            (EventForm::OfAgent { path, event }, Event::OfAgent { path: of, event: more }) => {
                **path == *of && Arc::make_mut(event).join(more.as_event())
            }
            (EventForm::Text { text }, Event::Text(more))
            | (EventForm::Reasoning { text }, Event::Reasoning(more)) => {
                text.push_str(more);
                true
            }
            (
                EventForm::ToolCallDelta { call, json },
                Event::ToolCallDelta { call: of, json: more },
            ) if **call == *of => {
                json.push_str(more);
                true
            }
            _ => false,
        }
    }

    /// The piece of text, reasoning or arguments in the event. `None` for other events.
    pub(crate) fn words(&self) -> Option<&str> {
        match &self.0 {
            EventForm::Text { text: words }
            | EventForm::Reasoning { text: words }
            | EventForm::ToolCallDelta { json: words, .. } => Some(words),
            EventForm::OfAgent { event, .. } => event.words(),
            _ => None,
        }
    }

    /// A copy of the event whose text begins at this byte.
    pub(crate) fn words_from(&self, byte: usize) -> Option<Self> {
        match &self.0 {
            EventForm::Text { text } => Some(Event::Text(text.get(byte..)?).into_owned()),
            EventForm::Reasoning { text } => Some(Event::Reasoning(text.get(byte..)?).into_owned()),
            EventForm::ToolCallDelta { call, json } => {
                Some(Event::ToolCallDelta { call, json: json.get(byte..)? }.into_owned())
            }
            EventForm::OfAgent { path, event } => {
                let event = Arc::new(event.words_from(byte)?);
                Some(Self(EventForm::OfAgent { path: path.clone(), event }))
            }
            _ => None,
        }
    }
}

impl Event<'_> {
    /// Copies the event into an owned value.
    ///
    /// ```
    /// use harness::{Agent, testing::{ScriptedProvider, reply}};
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let agent = Agent::builder(ScriptedProvider::new([reply().text("Hello.")])).build()?;
    /// let mut kept = Vec::new();
    /// agent.run("Say hello.").on_event(|event| kept.push(event.into_owned())).await?;
    /// assert!(kept.len() > 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_owned(self) -> EventBuf {
        EventBuf(EventForm::of(self))
    }
}

impl fmt::Debug for EventBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_event().fmt(f)
    }
}

impl Serialize for Event<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.into_owned().serialize(to)
    }
}

impl Serialize for EventBuf {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de> Deserialize<'de> for EventBuf {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let form = EventForm::deserialize(from)?;
        match &form {
            EventForm::Unknown(json) if json.get("type").is_none_or(|kind| !kind.is_string()) => {
                Err(D::Error::custom("an event has a member `type` that is a text; here is none"))
            }
            _ => Ok(Self(form)),
        }
    }
}

/// The form in which an event is kept and serialized.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum EventForm {
    RunStarted {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said: Option<Arc<Message>>,
    },
    TurnStarted {
        turn: u32,
    },
    Retrying {
        attempt: u32,
        of: u32,
        #[serde(rename = "wait_ms", with = "millis")]
        wait: Duration,
        cause: String,
    },
    FallingBack {
        from: String,
        to: String,
        cause: String,
    },
    ParameterDropped {
        parameter: String,
        cause: String,
    },
    Discarded {
        cause: String,
    },
    Text {
        text: String,
    },
    Citation {
        citation: Arc<Citation>,
    },
    Image {
        image: Arc<Media>,
    },
    Audio {
        audio: Arc<Media>,
    },
    Reasoning {
        text: String,
    },
    ToolCallStart {
        call: String,
        tool: String,
    },
    ToolCallDelta {
        call: String,
        json: String,
    },
    ToolDenied {
        call: Arc<ToolCall>,
        reason: String,
    },
    ToolQueued {
        call: Arc<ToolCall>,
    },
    ToolCall {
        call: Arc<ToolCall>,
    },
    ToolWaits {
        call: Arc<ToolCall>,
        wait: Arc<Wait>,
    },
    ToolProgress {
        call: String,
        message: String,
    },
    ToolResult {
        call: Arc<ToolCall>,
        result: Arc<ToolResult>,
        #[serde(rename = "elapsed_ms", with = "millis")]
        elapsed: Duration,
    },
    ToolDropped {
        call: Arc<ToolCall>,
    },
    ToolEnded {
        tool: String,
        result: Arc<ToolResult>,
    },
    ToolsFound {
        call: Arc<ToolCall>,
        tools: Arc<[String]>,
    },
    Steered {
        message: Arc<Message>,
    },
    AnswerRejected {
        by: AnswerCheck,
        faults: Arc<[String]>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Arc<Message>>,
    },
    LimitNear {
        limit: LimitKind,
        scope: LimitScope,
        detail: String,
    },
    LimitUnknown {
        limit: LimitKind,
        scope: LimitScope,
        detail: String,
    },
    PrefixChanged {
        change: String,
        appended: bool,
        left_out: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refusal: Option<String>,
    },
    ContextCleared {
        results: usize,
        #[serde(default)]
        arguments: usize,
        before: u64,
        after: u64,
    },
    Compacting {},
    ContextCompacted {
        messages: usize,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        vendor: bool,
        before: u64,
        after: u64,
    },
    CompactionFailed {
        cause: String,
    },
    VendorSummaryRefused {
        cause: String,
    },
    TurnEnded {
        turn: u32,
        stop: StopReason,
        usage: Arc<Usage>,
    },
    OfAgent {
        path: Arc<[AgentCall]>,
        event: Arc<EventBuf>,
    },
    RunEnded {
        outcome: Outcome,
        usage: Arc<Usage>,
        #[serde(default)]
        spent: Arc<BudgetUsage>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    #[serde(untagged)]
    Unknown(Arc<Map<String, Value>>),
}

impl EventForm {
    /// The form of an event, with copies of its values.
    fn of(event: Event<'_>) -> Self {
        fn shared<T: Clone>(value: &T) -> Arc<T> {
            Arc::new(value.clone())
        }
        let text = str::to_owned;
        match event {
            Event::RunStarted { said } => Self::RunStarted { said: said.map(shared) },
            Event::TurnStarted { turn } => Self::TurnStarted { turn },
            Event::Retrying { attempt, of, wait, cause } => {
                Self::Retrying { attempt, of, wait, cause: text(cause) }
            }
            Event::FallingBack { from, to, cause } => {
                Self::FallingBack { from: text(from), to: text(to), cause: text(cause) }
            }
            Event::ParameterDropped { parameter, cause } => {
                Self::ParameterDropped { parameter: text(parameter), cause: text(cause) }
            }
            Event::Discarded { cause } => Self::Discarded { cause: text(cause) },
            Event::Text(words) => Self::Text { text: text(words) },
            Event::Citation(citation) => Self::Citation { citation: shared(citation) },
            Event::Image(image) => Self::Image { image: shared(image) },
            Event::Audio(audio) => Self::Audio { audio: shared(audio) },
            Event::Reasoning(words) => Self::Reasoning { text: text(words) },
            Event::ToolCallStart { call, tool } => {
                Self::ToolCallStart { call: text(call), tool: text(tool) }
            }
            Event::ToolCallDelta { call, json } => {
                Self::ToolCallDelta { call: text(call), json: text(json) }
            }
            Event::ToolDenied { call, reason } => {
                Self::ToolDenied { call: shared(call), reason: text(reason) }
            }
            Event::ToolQueued(call) => Self::ToolQueued { call: shared(call) },
            Event::ToolCall(call) => Self::ToolCall { call: shared(call) },
            Event::ToolWaits { call, wait } => {
                Self::ToolWaits { call: shared(call), wait: shared(wait) }
            }
            Event::ToolProgress { call, message } => {
                Self::ToolProgress { call: text(call), message: text(message) }
            }
            Event::ToolResult { call, result, elapsed } => {
                Self::ToolResult { call: shared(call), result: shared(result), elapsed }
            }
            Event::ToolDropped { call } => Self::ToolDropped { call: shared(call) },
            Event::ToolEnded { tool, result } => {
                Self::ToolEnded { tool: text(tool), result: shared(result) }
            }
            Event::ToolsFound { call, tools } => {
                Self::ToolsFound { call: shared(call), tools: Arc::from(tools) }
            }
            Event::PrefixChanged { change, appended, left_out, refusal } => {
                let (change, refusal) = (text(change), refusal.map(text));
                Self::PrefixChanged { change, appended, left_out, refusal }
            }
            Event::Steered { message } => Self::Steered { message: shared(message) },
            Event::AnswerRejected { by, faults, message } => {
                let faults = Arc::from(faults);
                Self::AnswerRejected { by, faults, message: message.map(shared) }
            }
            Event::LimitNear { limit, scope, detail } => {
                Self::LimitNear { limit, scope, detail: text(detail) }
            }
            Event::LimitUnknown { limit, scope, detail } => {
                Self::LimitUnknown { limit, scope, detail: text(detail) }
            }
            Event::ContextCleared { results, arguments, before, after } => {
                Self::ContextCleared { results, arguments, before, after }
            }
            Event::Compacting => Self::Compacting {},
            Event::ContextCompacted { messages, vendor, before, after } => {
                Self::ContextCompacted { messages, vendor, before, after }
            }
            Event::CompactionFailed { cause } => Self::CompactionFailed { cause: text(cause) },
            Event::VendorSummaryRefused { cause } => {
                Self::VendorSummaryRefused { cause: text(cause) }
            }
            Event::TurnEnded { turn, stop, usage } => {
                Self::TurnEnded { turn, stop, usage: shared(usage) }
            }
            Event::OfAgent { path, event } => {
                Self::OfAgent { path: Arc::from(path), event: shared(event) }
            }
            Event::RunEnded { outcome, usage, spent, reason } => {
                let (usage, spent, reason) = (shared(usage), shared(spent), reason.map(text));
                Self::RunEnded { outcome, usage, spent, reason }
            }
            Event::Unknown { kind: _, json } => Self::Unknown(shared(json)),
        }
    }

    fn event(&self) -> Event<'_> {
        match self {
            Self::RunStarted { said } => Event::RunStarted { said: said.as_deref() },
            Self::TurnStarted { turn } => Event::TurnStarted { turn: *turn },
            Self::Retrying { attempt, of, wait, cause } => {
                Event::Retrying { attempt: *attempt, of: *of, wait: *wait, cause }
            }
            Self::FallingBack { from, to, cause } => Event::FallingBack { from, to, cause },
            Self::ParameterDropped { parameter, cause } => {
                Event::ParameterDropped { parameter, cause }
            }
            Self::Discarded { cause } => Event::Discarded { cause },
            Self::Text { text } => Event::Text(text),
            Self::Citation { citation } => Event::Citation(citation),
            Self::Image { image } => Event::Image(image),
            Self::Audio { audio } => Event::Audio(audio),
            Self::Reasoning { text } => Event::Reasoning(text),
            Self::ToolCallStart { call, tool } => Event::ToolCallStart { call, tool },
            Self::ToolCallDelta { call, json } => Event::ToolCallDelta { call, json },
            Self::ToolDenied { call, reason } => Event::ToolDenied { call, reason },
            Self::ToolQueued { call } => Event::ToolQueued(call),
            Self::ToolCall { call } => Event::ToolCall(call),
            Self::ToolWaits { call, wait } => Event::ToolWaits { call, wait },
            Self::ToolProgress { call, message } => Event::ToolProgress { call, message },
            Self::ToolResult { call, result, elapsed } => {
                Event::ToolResult { call, result, elapsed: *elapsed }
            }
            Self::ToolDropped { call } => Event::ToolDropped { call },
            Self::ToolEnded { tool, result } => Event::ToolEnded { tool, result },
            Self::ToolsFound { call, tools } => Event::ToolsFound { call, tools },
            Self::PrefixChanged { change, appended, left_out, refusal } => {
                let (appended, left_out) = (*appended, *left_out);
                Event::PrefixChanged { change, appended, left_out, refusal: refusal.as_deref() }
            }
            Self::Steered { message } => Event::Steered { message },
            Self::AnswerRejected { by, faults, message } => {
                Event::AnswerRejected { by: *by, faults, message: message.as_deref() }
            }
            Self::LimitNear { limit, scope, detail } => {
                Event::LimitNear { limit: *limit, scope: *scope, detail }
            }
            Self::LimitUnknown { limit, scope, detail } => {
                Event::LimitUnknown { limit: *limit, scope: *scope, detail }
            }
            Self::ContextCleared { results, arguments, before, after } => Event::ContextCleared {
                results: *results,
                arguments: *arguments,
                before: *before,
                after: *after,
            },
            Self::Compacting {} => Event::Compacting,
            Self::ContextCompacted { messages, vendor, before, after } => {
                let (messages, before, after) = (*messages, *before, *after);
                Event::ContextCompacted { messages, vendor: *vendor, before, after }
            }
            Self::CompactionFailed { cause } => Event::CompactionFailed { cause },
            Self::VendorSummaryRefused { cause } => Event::VendorSummaryRefused { cause },
            Self::TurnEnded { turn, stop, usage } => {
                Event::TurnEnded { turn: *turn, stop: *stop, usage }
            }
            Self::OfAgent { path, event } => Event::OfAgent { path, event },
            Self::RunEnded { outcome, usage, spent, reason } => {
                Event::RunEnded { outcome: *outcome, usage, spent, reason: reason.as_deref() }
            }
            Self::Unknown(json) => {
                let kind = json.get("type").and_then(Value::as_str).unwrap_or_default();
                Event::Unknown { kind, json }
            }
        }
    }
}

/// Durations as whole milliseconds.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}
