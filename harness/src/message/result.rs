//! What became of a call, and what a tool hands over.

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::strict::is_too_deep;

/// What became of a call. Each has a text of its own for the model, so that the model never
/// believes of a call that ran that it did not.
///
/// The results are in the transcript of a [`Reply`](crate::Reply) and of a
/// [`Stopped`](crate::Stopped). This finds the calls after which somebody should look at what they did:
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
#[non_exhaustive]
pub enum CallOutcome {
    /// It ran to its end and handed over a value.
    Succeeded,
    /// It ran to its end, or was refused before its start, and the content says why it failed.
    Failed,
    /// It was not allowed. It did not run.
    Denied,
    /// The run was stopped first. It did not run.
    NotStarted,
    /// It was stopped while it ran. It only reads, so nothing has changed.
    StoppedReading,
    /// It was stopped while it ran, or nobody knows how far it came: it may have partly run.
    InDoubt,
    /// It was told to stop and had not ended when the run went on. The result in the transcript stays
    /// so; when the call has ended, the model reads that with the next message or results, and the
    /// program gets [`Event::ToolEnded`](crate::Event::ToolEnded). What runs at this moment is
    /// told by [`Chat::still_running`](crate::Chat::still_running).
    StillRunning,
}

impl CallOutcome {
    /// Whether the model is told that the call went wrong.
    pub fn is_error(self) -> bool {
        self != Self::Succeeded
    }
}

/// What a tool hands over: words, a value, or a picture.
///
/// It is not `Serialize` by itself: any serialisable value may be returned from a tool and is then
/// handed over as JSON, and a picture must not go that way.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ToolContent {
    /// Words.
    Text(String),
    /// A value; the model sees it as JSON text.
    Json(Value),
    /// A picture.
    Image {
        /// Media type, such as `image/png`.
        mime: String,
        /// The bytes of the file.
        data: Vec<u8>,
    },
}

impl ToolContent {
    /// What the model reads of it, or nothing for a picture.
    pub fn to_text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Json(value) => Some(value.to_string()),
            Self::Image { .. } => None,
        }
    }

    /// The room that it takes where it is written down; of a value that is not known.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Json(_) => 0,
            Self::Image { data, .. } => data.len().div_ceil(3) * 4,
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

/// The answer to one call. A clone shares the content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    call_id: String,
    outcome: CallOutcome,
    #[serde(with = "saved")]
    content: Arc<[ToolContent]>,
}

impl ToolResult {
    /// The answer to the call of this id.
    pub fn new(
        call_id: impl Into<String>,
        outcome: CallOutcome,
        content: impl IntoIterator<Item = ToolContent>,
    ) -> Self {
        // A value that could not be read back is kept as its text, which is what the model reads of it.
        let kept = content.into_iter().map(|part| match part {
            ToolContent::Json(value) if is_too_deep(&value) => ToolContent::Text(value.to_string()),
            part => part,
        });
        Self { call_id: call_id.into(), outcome, content: kept.collect() }
    }

    /// The call that it answers.
    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// What became of the call.
    pub fn outcome(&self) -> CallOutcome {
        self.outcome
    }

    /// Whether the model is told that the call went wrong.
    pub fn is_error(&self) -> bool {
        self.outcome.is_error()
    }

    /// What the tool handed over, or why it could not.
    pub fn content(&self) -> &[ToolContent] {
        &self.content
    }

    /// All that the model can read of it, its parts on lines of their own.
    pub fn to_text(&self) -> String {
        self.as_text().into_owned()
    }

    /// The same, and no copy where it is one text.
    pub(crate) fn as_text(&self) -> Cow<'_, str> {
        if let [ToolContent::Text(text)] = &*self.content {
            return Cow::Borrowed(text);
        }
        let parts: Vec<String> = self.content.iter().filter_map(ToolContent::to_text).collect();
        Cow::Owned(parts.join("\n"))
    }
}

/// Content as it is written down: pictures in base64.
mod saved {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
    use serde_json::Value;

    use super::ToolContent;
    use crate::message::Image;

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Saved {
        Text(String),
        Json(Value),
        Image(Image),
    }

    pub(super) fn serialize<S: Serializer>(
        content: &Arc<[ToolContent]>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(content.iter().map(|part| match part {
            ToolContent::Text(text) => Saved::Text(text.clone()),
            ToolContent::Json(value) => Saved::Json(value.clone()),
            ToolContent::Image { mime, data } => Saved::Image(Image::from_bytes(mime, data)),
        }))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Arc<[ToolContent]>, D::Error> {
        let saved = Vec::<Saved>::deserialize(from)?;
        let content = saved.into_iter().map(|part| match part {
            Saved::Text(text) => Ok(ToolContent::Text(text)),
            Saved::Json(value) => Ok(ToolContent::Json(value)),
            Saved::Image(image) => match (image.bytes().map_err(D::Error::custom)?, image) {
                (Some(data), Image::Data { mime, .. }) => Ok(ToolContent::Image { mime, data }),
                _ => Err(D::Error::custom("the image of a tool result has no data")),
            },
        });
        content.collect()
    }
}
