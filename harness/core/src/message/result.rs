//! The outcome of a call, and the values that a tool returns.

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Link, Media, MediaKind, strict::unreadable_reason};
use crate::error::{Error, ErrorKind};

/// The outcome of a call. The model reads a different text for each outcome, so that the model knows whether the call
/// ran.
///
/// The transcript of a `Reply` or a `Stopped` contains the results. This example finds the calls whose effects a person
/// should check:
///
/// ```
/// use harness::{Agent, CallOutcome, testing::{ScriptedProvider, reply}, tool, tools};
///
/// /// Writes a line.
/// #[tool(side_effects = "write")]
/// fn append(/** The line */ line: &str) -> usize {
///     line.find('!').expect("a line that is loud enough")
/// }
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let model = ScriptedProvider::new([
///     reply().call("append", serde_json::json!({"line": "Hello."})),
///     reply().text("I do not know whether it is written."),
/// ]);
/// let reply = Agent::builder(model).tools(tools![append]).build()?.run("Say hello.").await?;
/// let results = reply.transcript().messages().iter().flat_map(|message| message.results());
/// let doubtful = results.filter(|result| {
///     matches!(result.outcome(), CallOutcome::InDoubt | CallOutcome::StillRunning)
/// });
/// assert_eq!(Vec::from_iter(doubtful.map(|result| result.call_id())), ["call_1"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// The call ran to its end and returned a value.
    Succeeded,
    /// The call ran to its end with an error, or was refused before it started. The content gives the reason.
    Failed,
    /// The call was not permitted and did not run.
    Denied,
    /// The run was stopped before the call started, so the call did not run.
    NotStarted,
    /// The call was stopped while it ran. The tool only reads, so nothing has changed.
    StoppedReading,
    /// The call was stopped while it ran, or its progress is unknown. The call may have partly run.
    InDoubt,
    /// The library asked the call to stop, but the call had not ended when the run continued. The result in the
    /// transcript keeps this outcome. When the call ends, the program gets `Event::ToolEnded`, and the library
    /// informs the model with the next message or results. `Chat::still_running` lists the calls that are still
    /// running.
    StillRunning,
}

impl CallOutcome {
    /// Whether the result is sent to the model as an error.
    pub fn is_error(self) -> bool {
        self != Self::Succeeded
    }
}

/// A part of a tool's return value: text, a value, a file, or a link.
///
/// `ToolContent` does not implement `Serialize`: a tool may return any serializable value as JSON, and a picture must
/// not become JSON.
///
/// If the model or the protocol does not accept a file, the request contains a line of text in place of the file.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolContent {
    /// Text.
    Text(String),
    /// A value, which the model reads as JSON text.
    Json(Value),
    /// A picture.
    Image(Media),
    /// Audio.
    Audio(Media),
    /// A document or a text file, such as an embedded resource. The text of a text file is treated like any other text:
    /// secrets are removed, and the text is cut to the limit.
    Document(Media),
    /// A link to something that the tool does not return itself.
    Link(Link),
}

impl ToolContent {
    /// The text for the model, or `None` for a file that is not text.
    pub fn to_text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Json(value) => Some(value.to_string()),
            Self::Document(media) => media.to_text(),
            Self::Link(link) => Some(link.to_text()),
            Self::Image(_) | Self::Audio(_) => None,
        }
    }

    /// The file in this part and its kind; `None` for a part without a file.
    pub fn media(&self) -> Option<(MediaKind, &Media)> {
        match self {
            Self::Image(media) => Some((MediaKind::Image, media)),
            Self::Audio(media) => Some((MediaKind::Audio, media)),
            Self::Document(media) => Some((MediaKind::Document, media)),
            Self::Text(_) | Self::Json(_) | Self::Link(_) => None,
        }
    }

    /// The approximate size of the saved form, in bytes. JSON values and links count as 0.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Json(_) | Self::Link(_) => 0,
            Self::Image(media) | Self::Audio(media) | Self::Document(media) => media.room(),
        }
    }
}

impl From<&str> for ToolContent {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for ToolContent {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Link> for ToolContent {
    fn from(link: Link) -> Self {
        Self::Link(link)
    }
}

/// The result of one call. A clone shares the content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    call_id: String,
    outcome: CallOutcome,
    #[serde(with = "saved")]
    content: Arc<[ToolContent]>,
    /// The part of the result that the program gets and the model does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Arc<ProgramValue>>,
    /// The names under which the full texts of the cut parts are stored. The names are not read from the content,
    /// because a tool's text could forge a name.
    #[serde(default, skip_serializing_if = "is_empty")]
    wholes: Arc<[String]>,
}

/// The part of a result that is for the program.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[doc(hidden)]
pub enum ProgramValue {
    /// A value for the program.
    Json(Value),
    /// The reason why there is no value, as text.
    LeftOut(String),
}

impl ToolResult {
    /// The result of the call with this id.
    pub fn new(
        call_id: impl Into<String>,
        outcome: CallOutcome,
        content: impl IntoIterator<Item = ToolContent>,
    ) -> Self {
        // A value that could not be read back is stored as its JSON text. The model reads the same text for a value and
        // for its JSON text.
        let kept = content.into_iter().map(|part| match part {
            ToolContent::Json(value) if unreadable_reason(&value).is_some() => {
                ToolContent::Text(value.to_string())
            }
            part => part,
        });
        let (value, wholes) = (None, Arc::default());
        Self { call_id: call_id.into(), outcome, content: kept.collect(), value, wholes }
    }

    /// The same result with the names under which the full texts of its cut parts are stored.
    #[doc(hidden)]
    pub fn kept_as(mut self, wholes: Vec<String>) -> Self {
        self.wholes = wholes.into();
        self
    }

    /// The names under which the full texts of the cut parts are stored.
    pub(crate) fn wholes(&self) -> &[String] {
        &self.wholes
    }

    /// Adds the value for the program, which is never sent to a model: see
    /// [`ToolOutput::with_value`](crate::tool::ToolOutput::with_value).
    #[must_use]
    pub fn with_value(self, value: Value) -> Self {
        self.with_kept(Some(ProgramValue::Json(value)))
    }

    #[doc(hidden)]
    pub fn with_kept(mut self, kept: Option<ProgramValue>) -> Self {
        let kept = kept.map(|kept| match kept {
            ProgramValue::Json(value) => match unreadable_reason(&value) {
                Some(why) => ProgramValue::LeftOut(format!("it {why}")),
                None => ProgramValue::Json(value),
            },
            kept @ ProgramValue::LeftOut(_) => kept,
        });
        self.value = kept.map(Arc::new);
        self
    }

    /// The same result with another outcome and another content for the model. The value for the program and the names
    /// of the stored full texts stay.
    #[doc(hidden)]
    pub fn said_as(
        &self,
        outcome: CallOutcome,
        content: impl IntoIterator<Item = ToolContent>,
    ) -> Self {
        let (value, wholes) = (self.value.clone(), self.wholes.clone());
        Self { value, wholes, ..Self::new(self.call_id(), outcome, content) }
    }

    /// The id of the call.
    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// The outcome of the call.
    pub fn outcome(&self) -> CallOutcome {
        self.outcome
    }

    /// Whether the result is sent to the model as an error.
    pub fn is_error(&self) -> bool {
        self.outcome.is_error()
    }

    /// The content for the model: the tool's return value, or the reason for a failure.
    pub fn content(&self) -> &[ToolContent] {
        &self.content
    }

    /// The value for the program. `None` if the tool added no value with
    /// [`ToolOutput::with_value`](crate::tool::ToolOutput::with_value).
    pub fn value(&self) -> Option<&Value> {
        match self.value.as_deref() {
            Some(ProgramValue::Json(value)) => Some(value),
            Some(ProgramValue::LeftOut(_)) | None => None,
        }
    }

    /// Converts the result to a type of the program. The source is the [`value`](Self::value). Without a value, the
    /// source is the content, which must be exactly one JSON value or one text. If the text was longer than
    /// [`ToolLimits::output`](crate::tool::ToolLimits::output), the source is the text that the model has read: cut in
    /// the middle, with a note. A value from `with_value` is never cut.
    ///
    /// # Errors
    /// [`ErrorKind::Transcript`] if the call did not succeed; if there is no value and the content has several parts or
    /// a file; if the value was left out because it was larger than
    /// [`ToolLimits::value`](crate::tool::ToolLimits::value) , was nested too deep or had a private name of
    /// `serde_json`; or if the value does not fit the type.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let wrong = |what: String| {
            let place = format!("the result of the call `{}`", self.call_id);
            Error::new(ErrorKind::Transcript, format!("{place} {what}"))
        };
        if self.is_error() {
            let became = serde_json::to_value(self.outcome).unwrap_or_default();
            return Err(wrong(format!("has no value: its outcome is {became}")));
        }
        let read = |value: &Value, way_out: &str| {
            T::deserialize(value).map_err(|err| {
                wrong(format!("does not fit `{}`: {err}{way_out}", std::any::type_name::<T>()))
                    .with_source(err)
            })
        };
        let of_text = |text: &str| match text.contains(CUT) {
            true => {
                "; it was cut for the model: `ToolOutput::with_value` adds a value for the program"
            }
            false => "; the tool returned a text, which can be read as a `String`",
        };
        match (self.value.as_deref(), &*self.content) {
            (Some(ProgramValue::Json(value)), _) => read(value, ""),
            (Some(ProgramValue::LeftOut(why)), _) => Err(wrong(format!("has no value for the program: {why}"))),
            (None, [ToolContent::Json(value)]) => read(value, ""),
            (None, [ToolContent::Text(text)]) => read(&Value::String(text.clone()), of_text(text)),
            (None, []) => read(&Value::Null, "; the tool returned nothing"),
            (None, _) => Err(wrong(
                "has no value for the program: the tool returned files or several parts; let it add \
                 one with `ToolOutput::with_value`"
                    .to_owned(),
            )),
        }
    }

    /// All text for the model. Each part begins on a new line.
    pub fn to_text(&self) -> String {
        self.as_text().into_owned()
    }

    /// The same as [`to_text`](Self::to_text). A single text is borrowed instead of copied.
    #[doc(hidden)]
    pub fn as_text(&self) -> Cow<'_, str> {
        if let [ToolContent::Text(text)] = &*self.content {
            return Cow::Borrowed(text);
        }
        let parts: Vec<String> = self.content.iter().filter_map(ToolContent::to_text).collect();
        Cow::Owned(parts.join("\n"))
    }
}

/// The end of the note that replaces the removed middle of a text. The note begins with the number of removed bytes.
pub const CUT: &str = " bytes were cut here";

fn is_empty(names: &Arc<[String]>) -> bool {
    names.is_empty()
}

/// Serializes the content of a result.
mod saved {
    use std::{borrow::Cow, sync::Arc};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::Value;

    use super::ToolContent;
    use crate::message::{Link, Media};

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Saved<'a> {
        Text(Cow<'a, str>),
        Json(Cow<'a, Value>),
        Image(Media),
        Audio(Media),
        Document(Media),
        Link(Cow<'a, Link>),
    }

    pub(super) fn serialize<S: Serializer>(
        content: &Arc<[ToolContent]>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(content.iter().map(|part| match part {
            ToolContent::Text(text) => Saved::Text(Cow::Borrowed(text)),
            ToolContent::Json(value) => Saved::Json(Cow::Borrowed(value)),
            ToolContent::Image(media) => Saved::Image(media.clone()),
            ToolContent::Audio(media) => Saved::Audio(media.clone()),
            ToolContent::Document(media) => Saved::Document(media.clone()),
            ToolContent::Link(link) => Saved::Link(Cow::Borrowed(link)),
        }))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Arc<[ToolContent]>, D::Error> {
        let saved = Vec::<Saved<'static>>::deserialize(from)?;
        let content = saved.into_iter().map(|part| match part {
            Saved::Text(text) => ToolContent::Text(text.into_owned()),
            Saved::Json(value) => ToolContent::Json(value.into_owned()),
            Saved::Image(media) => ToolContent::Image(media),
            Saved::Audio(media) => ToolContent::Audio(media),
            Saved::Document(media) => ToolContent::Document(media),
            Saved::Link(link) => ToolContent::Link(link.into_owned()),
        });
        Ok(content.collect())
    }
}
