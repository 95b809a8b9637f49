//! The parts that a message is made of.

use serde::{Deserialize, Serialize};

use super::{Citation, Media, MediaKind, ToolResult, VendorData};

/// One part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Block {
    /// Words.
    Text(TextBlock),
    /// A picture: PNG, JPEG, GIF or WebP, which all vendors take.
    Image(Media),
    /// Sound.
    Audio(Media),
    /// A document, such as a PDF file, or a file of text.
    Document(Media),
    /// The model asks for a tool.
    ToolCall(ToolCall),
    /// What became of a call.
    ToolResult(ToolResult),
    /// The model thinks.
    Reasoning(ReasoningBlock),
    /// Something of one vendor that means nothing elsewhere, such as a search that the vendor
    /// ran itself. It keeps its place, goes back to that vendor, and is left out for others.
    ///
    /// Beside the sound of an answer on Chat Completions, which is [`Audio`](Self::Audio), stands one of the
    /// wire `chat`: `{"audio": {"id": "..", "transcript": "..", "expires_at": ..}}`. The transcript is among
    /// the words of the answer, and these alone go back.
    Vendor(VendorData),
}

impl Block {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextBlock::new(text))
    }

    /// The file that it holds, and what it is for.
    pub(crate) fn media(&self) -> Option<(MediaKind, &Media)> {
        match self {
            Self::Image(media) => Some((MediaKind::Image, media)),
            Self::Audio(media) => Some((MediaKind::Audio, media)),
            Self::Document(media) => Some((MediaKind::Document, media)),
            Self::Text(_)
            | Self::ToolCall(_)
            | Self::ToolResult(_)
            | Self::Reasoning(_)
            | Self::Vendor(_) => None,
        }
    }

    /// Whether all of it is known to the first format of saved messages.
    pub(super) fn is_of_the_first_format(&self) -> bool {
        match self {
            Self::Image(media) => media.is_of_the_first_format(),
            Self::Audio(_) | Self::Document(_) => false,
            Self::ToolResult(result) => result.is_of_the_first_format(),
            Self::Text(_) | Self::ToolCall(_) | Self::Reasoning(_) | Self::Vendor(_) => true,
        }
    }
}

/// Words, their sources, and what the vendor wants back with them (a phase, an item's id).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextBlock {
    text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    citations: Vec<Citation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vendor: Option<VendorData>,
}

impl TextBlock {
    /// Words without vendor data.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), citations: Vec::new(), vendor: None }
    }

    /// Adds the sources of the words.
    #[must_use]
    pub fn with_citations(mut self, citations: impl IntoIterator<Item = Citation>) -> Self {
        self.citations.extend(citations);
        self
    }

    /// Adds what the vendor wants back.
    #[must_use]
    pub fn with_vendor(mut self, vendor: Option<VendorData>) -> Self {
        self.vendor = vendor;
        self
    }

    /// The words.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The sources of the words, in the order in which the vendor names them.
    pub fn citations(&self) -> &[Citation] {
        &self.citations
    }

    /// What the vendor wants back.
    pub fn vendor(&self) -> Option<&VendorData> {
        self.vendor.as_ref()
    }
}

/// The model's thinking: the words it shows, if any, and the proof that the vendor wants back.
///
/// The words may be empty while the proof is not: vendors hide thinking and still bind to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasoningBlock {
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vendor: Option<VendorData>,
}

impl ReasoningBlock {
    /// Thinking, with the vendor's proof if there is one.
    pub fn new(text: impl Into<String>, vendor: Option<VendorData>) -> Self {
        Self { text: text.into(), vendor }
    }

    /// The words shown, often a summary; may be empty.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What the vendor wants back, unaltered.
    pub fn vendor(&self) -> Option<&VendorData> {
        self.vendor.as_ref()
    }
}

/// The model asks for a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    id: String,
    name: String,
    arguments: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vendor: Option<VendorData>,
}

impl ToolCall {
    /// A call. `arguments` is the JSON text exactly as the model wrote it, right or wrong.
    pub fn new(
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        Self { id: id.into(), name: name.into(), arguments: arguments.into(), vendor: None }
    }

    /// Adds what the vendor wants back.
    #[must_use]
    pub fn with_vendor(mut self, vendor: Option<VendorData>) -> Self {
        self.vendor = vendor;
        self
    }

    /// The id that the result refers to; unique in its message.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The tool's name, as the model gave it: it may not exist.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The JSON text of the arguments, exactly as the model wrote it. Empty means none.
    pub fn arguments(&self) -> &str {
        &self.arguments
    }

    /// What the vendor wants back.
    pub fn vendor(&self) -> Option<&VendorData> {
        self.vendor.as_ref()
    }
}
