//! Events that own their values, and the JSON form of events.

use std::{borrow::Cow, fmt, ops::Deref, sync::Arc, time::Duration};

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
pub struct EventBuf(EventForm<'static>);

impl EventBuf {
    /// The event in a form for `match`.
    pub fn as_event(&self) -> Event<'_> {
        self.0.event()
    }

    /// An event that this version cannot read. Its `type` must be a string.
    pub(crate) fn unknown(json: Map<String, Value>) -> Self {
        Self(EventForm::Unknown(BorrowedOrShared::Shared(Arc::new(json))))
    }

    /// Appends the next piece of text if it belongs to the same kind of event and to the same agent or call.
    /// Returns whether the piece was appended.
    pub(crate) fn join(&mut self, next: Event<'_>) -> bool {
        match (&mut self.0, next) {
            (
                EventForm::OfAgent { path, event: BorrowedOrShared::Shared(event) },
                Event::OfAgent { path: of, event: more },
            ) => **path == *of && Arc::make_mut(event).join(more.as_event()),
            (EventForm::Text { text }, Event::Text(more))
            | (EventForm::Reasoning { text }, Event::Reasoning(more)) => {
                text.to_mut().push_str(more);
                true
            }
            (
                EventForm::ToolCallDelta { call, json },
                Event::ToolCallDelta { call: of, json: more },
            ) if **call == *of => {
                json.to_mut().push_str(more);
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
                let event = BorrowedOrShared::Shared(Arc::new(event.words_from(byte)?));
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
        EventBuf(EventForm::of(self).into_static())
    }
}

impl fmt::Debug for EventBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_event().fmt(f)
    }
}

impl Serialize for Event<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        EventForm::of(*self).serialize(to)
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

/// A value that is borrowed or shared.
enum BorrowedOrShared<'a, T> {
    Lent(&'a T),
    Shared(Arc<T>),
}

impl<T: Clone> BorrowedOrShared<'_, T> {
    fn into_static(self) -> BorrowedOrShared<'static, T> {
        match self {
            Self::Lent(value) => BorrowedOrShared::Shared(Arc::new(value.clone())),
            Self::Shared(value) => BorrowedOrShared::Shared(value),
        }
    }
}

impl<T: Default> Default for BorrowedOrShared<'_, T> {
    fn default() -> Self {
        Self::Shared(Arc::default())
    }
}

impl<T> Deref for BorrowedOrShared<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Lent(value) => value,
            Self::Shared(value) => value,
        }
    }
}

impl<T> Clone for BorrowedOrShared<'_, T> {
    fn clone(&self) -> Self {
        match self {
            Self::Lent(value) => Self::Lent(value),
            Self::Shared(value) => Self::Shared(Arc::clone(value)),
        }
    }
}

impl<T: PartialEq> PartialEq for BorrowedOrShared<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Serialize> Serialize for BorrowedOrShared<'_, T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        T::serialize(self, to)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for BorrowedOrShared<'_, T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Self::Shared(Arc::new(T::deserialize(from)?)))
    }
}

/// The form in which an event is kept and serialized.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum EventForm<'a> {
    RunStarted {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said: Option<BorrowedOrShared<'a, Message>>,
    },
    TurnStarted {
        turn: u32,
    },
    Retrying {
        attempt: u32,
        of: u32,
        #[serde(rename = "wait_ms", with = "millis")]
        wait: Duration,
        cause: Cow<'a, str>,
    },
    FallingBack {
        from: Cow<'a, str>,
        to: Cow<'a, str>,
        cause: Cow<'a, str>,
    },
    ParameterDropped {
        parameter: Cow<'a, str>,
        cause: Cow<'a, str>,
    },
    Discarded {
        cause: Cow<'a, str>,
    },
    Text {
        text: Cow<'a, str>,
    },
    Citation {
        citation: BorrowedOrShared<'a, Citation>,
    },
    Image {
        image: BorrowedOrShared<'a, Media>,
    },
    Audio {
        audio: BorrowedOrShared<'a, Media>,
    },
    Reasoning {
        text: Cow<'a, str>,
    },
    ToolCallStart {
        call: Cow<'a, str>,
        tool: Cow<'a, str>,
    },
    ToolCallDelta {
        call: Cow<'a, str>,
        json: Cow<'a, str>,
    },
    ToolDenied {
        call: BorrowedOrShared<'a, ToolCall>,
        reason: Cow<'a, str>,
    },
    ToolQueued {
        call: BorrowedOrShared<'a, ToolCall>,
    },
    ToolCall {
        call: BorrowedOrShared<'a, ToolCall>,
    },
    ToolWaits {
        call: BorrowedOrShared<'a, ToolCall>,
        wait: BorrowedOrShared<'a, Wait>,
    },
    ToolProgress {
        call: Cow<'a, str>,
        message: Cow<'a, str>,
    },
    ToolResult {
        call: BorrowedOrShared<'a, ToolCall>,
        result: BorrowedOrShared<'a, ToolResult>,
        #[serde(rename = "elapsed_ms", with = "millis")]
        elapsed: Duration,
    },
    ToolDropped {
        call: BorrowedOrShared<'a, ToolCall>,
    },
    ToolEnded {
        tool: Cow<'a, str>,
        result: BorrowedOrShared<'a, ToolResult>,
    },
    ToolsFound {
        call: BorrowedOrShared<'a, ToolCall>,
        tools: Cow<'a, [String]>,
    },
    Steered {
        message: BorrowedOrShared<'a, Message>,
    },
    AnswerRejected {
        by: AnswerCheck,
        faults: Cow<'a, [String]>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<BorrowedOrShared<'a, Message>>,
    },
    LimitNear {
        limit: LimitKind,
        scope: LimitScope,
        detail: Cow<'a, str>,
    },
    LimitUnknown {
        limit: LimitKind,
        scope: LimitScope,
        detail: Cow<'a, str>,
    },
    PrefixChanged {
        change: Cow<'a, str>,
        appended: bool,
        left_out: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refusal: Option<Cow<'a, str>>,
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
        cause: Cow<'a, str>,
    },
    VendorSummaryRefused {
        cause: Cow<'a, str>,
    },
    TurnEnded {
        turn: u32,
        stop: StopReason,
        usage: BorrowedOrShared<'a, Usage>,
    },
    OfAgent {
        path: Cow<'a, [AgentCall]>,
        event: BorrowedOrShared<'a, EventBuf>,
    },
    RunEnded {
        outcome: Outcome,
        usage: BorrowedOrShared<'a, Usage>,
        #[serde(default)]
        spent: BorrowedOrShared<'a, BudgetUsage>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Cow<'a, str>>,
    },
    #[serde(untagged)]
    Unknown(BorrowedOrShared<'a, Map<String, Value>>),
}

impl<'a> EventForm<'a> {
    /// The form of an event, with borrowed values.
    fn of(event: Event<'a>) -> Self {
        use BorrowedOrShared::Lent;
        let text = |text: &'a str| Cow::Borrowed(text);
        match event {
            Event::RunStarted { said } => Self::RunStarted { said: said.map(Lent) },
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
            Event::Citation(citation) => Self::Citation { citation: Lent(citation) },
            Event::Image(image) => Self::Image { image: Lent(image) },
            Event::Audio(audio) => Self::Audio { audio: Lent(audio) },
            Event::Reasoning(words) => Self::Reasoning { text: text(words) },
            Event::ToolCallStart { call, tool } => {
                Self::ToolCallStart { call: text(call), tool: text(tool) }
            }
            Event::ToolCallDelta { call, json } => {
                Self::ToolCallDelta { call: text(call), json: text(json) }
            }
            Event::ToolDenied { call, reason } => {
                Self::ToolDenied { call: Lent(call), reason: text(reason) }
            }
            Event::ToolQueued(call) => Self::ToolQueued { call: Lent(call) },
            Event::ToolCall(call) => Self::ToolCall { call: Lent(call) },
            Event::ToolWaits { call, wait } => {
                Self::ToolWaits { call: Lent(call), wait: Lent(wait) }
            }
            Event::ToolProgress { call, message } => {
                Self::ToolProgress { call: text(call), message: text(message) }
            }
            Event::ToolResult { call, result, elapsed } => {
                Self::ToolResult { call: Lent(call), result: Lent(result), elapsed }
            }
            Event::ToolDropped { call } => Self::ToolDropped { call: Lent(call) },
            Event::ToolEnded { tool, result } => {
                Self::ToolEnded { tool: text(tool), result: Lent(result) }
            }
            Event::ToolsFound { call, tools } => {
                Self::ToolsFound { call: Lent(call), tools: Cow::Borrowed(tools) }
            }
            Event::PrefixChanged { change, appended, left_out, refusal } => {
                let (change, refusal) = (text(change), refusal.map(text));
                Self::PrefixChanged { change, appended, left_out, refusal }
            }
            Event::Steered { message } => Self::Steered { message: Lent(message) },
            Event::AnswerRejected { by, faults, message } => {
                let faults = Cow::Borrowed(faults);
                Self::AnswerRejected { by, faults, message: message.map(Lent) }
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
                Self::TurnEnded { turn, stop, usage: Lent(usage) }
            }
            Event::OfAgent { path, event } => {
                Self::OfAgent { path: Cow::Borrowed(path), event: Lent(event) }
            }
            Event::RunEnded { outcome, usage, spent, reason } => {
                let (usage, spent, reason) = (Lent(usage), Lent(spent), reason.map(text));
                Self::RunEnded { outcome, usage, spent, reason }
            }
            Event::Unknown { kind: _, json } => Self::Unknown(Lent(json)),
        }
    }

    /// A copy of the form with owned values.
    fn into_static(self) -> EventForm<'static> {
        fn text(text: Cow<'_, str>) -> Cow<'static, str> {
            Cow::Owned(text.into_owned())
        }
        match self {
            Self::RunStarted { said } => {
                EventForm::RunStarted { said: said.map(BorrowedOrShared::into_static) }
            }
            Self::TurnStarted { turn } => EventForm::TurnStarted { turn },
            Self::Retrying { attempt, of, wait, cause } => {
                EventForm::Retrying { attempt, of, wait, cause: text(cause) }
            }
            Self::FallingBack { from, to, cause } => {
                EventForm::FallingBack { from: text(from), to: text(to), cause: text(cause) }
            }
            Self::ParameterDropped { parameter, cause } => {
                EventForm::ParameterDropped { parameter: text(parameter), cause: text(cause) }
            }
            Self::Discarded { cause } => EventForm::Discarded { cause: text(cause) },
            Self::Text { text: words } => EventForm::Text { text: text(words) },
            Self::Citation { citation } => EventForm::Citation { citation: citation.into_static() },
            Self::Image { image } => EventForm::Image { image: image.into_static() },
            Self::Audio { audio } => EventForm::Audio { audio: audio.into_static() },
            Self::Reasoning { text: words } => EventForm::Reasoning { text: text(words) },
            Self::ToolCallStart { call, tool } => {
                EventForm::ToolCallStart { call: text(call), tool: text(tool) }
            }
            Self::ToolCallDelta { call, json } => {
                EventForm::ToolCallDelta { call: text(call), json: text(json) }
            }
            Self::ToolDenied { call, reason } => {
                EventForm::ToolDenied { call: call.into_static(), reason: text(reason) }
            }
            Self::ToolQueued { call } => EventForm::ToolQueued { call: call.into_static() },
            Self::ToolCall { call } => EventForm::ToolCall { call: call.into_static() },
            Self::ToolWaits { call, wait } => {
                EventForm::ToolWaits { call: call.into_static(), wait: wait.into_static() }
            }
            Self::ToolProgress { call, message } => {
                EventForm::ToolProgress { call: text(call), message: text(message) }
            }
            Self::ToolResult { call, result, elapsed } => EventForm::ToolResult {
                call: call.into_static(),
                result: result.into_static(),
                elapsed,
            },
            Self::ToolDropped { call } => EventForm::ToolDropped { call: call.into_static() },
            Self::ToolEnded { tool, result } => {
                EventForm::ToolEnded { tool: text(tool), result: result.into_static() }
            }
            Self::ToolsFound { call, tools } => EventForm::ToolsFound {
                call: call.into_static(),
                tools: Cow::Owned(tools.into_owned()),
            },
            Self::PrefixChanged { change, appended, left_out, refusal } => {
                let (change, refusal) = (text(change), refusal.map(text));
                EventForm::PrefixChanged { change, appended, left_out, refusal }
            }
            Self::Steered { message } => EventForm::Steered { message: message.into_static() },
            Self::AnswerRejected { by, faults, message } => {
                let faults = Cow::Owned(faults.into_owned());
                EventForm::AnswerRejected {
                    by,
                    faults,
                    message: message.map(BorrowedOrShared::into_static),
                }
            }
            Self::LimitNear { limit, scope, detail } => {
                EventForm::LimitNear { limit, scope, detail: text(detail) }
            }
            Self::LimitUnknown { limit, scope, detail } => {
                EventForm::LimitUnknown { limit, scope, detail: text(detail) }
            }
            Self::ContextCleared { results, arguments, before, after } => {
                EventForm::ContextCleared { results, arguments, before, after }
            }
            Self::Compacting {} => EventForm::Compacting {},
            Self::ContextCompacted { messages, vendor, before, after } => {
                EventForm::ContextCompacted { messages, vendor, before, after }
            }
            Self::CompactionFailed { cause } => EventForm::CompactionFailed { cause: text(cause) },
            Self::VendorSummaryRefused { cause } => {
                EventForm::VendorSummaryRefused { cause: text(cause) }
            }
            Self::TurnEnded { turn, stop, usage } => {
                EventForm::TurnEnded { turn, stop, usage: usage.into_static() }
            }
            Self::OfAgent { path, event } => EventForm::OfAgent {
                path: Cow::Owned(path.into_owned()),
                event: event.into_static(),
            },
            Self::RunEnded { outcome, usage, spent, reason } => {
                let (usage, spent) = (usage.into_static(), spent.into_static());
                EventForm::RunEnded { outcome, usage, spent, reason: reason.map(text) }
            }
            Self::Unknown(json) => EventForm::Unknown(json.into_static()),
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
