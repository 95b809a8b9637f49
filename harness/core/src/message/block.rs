//! The blocks of a message.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Citation, Media, MediaKind, ToolResult, VendorData};

/// One block of a message.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Text.
    Text(TextBlock),
    /// A picture: PNG, JPEG, GIF or WebP, the formats that all vendors accept.
    Image(Media),
    /// Audio.
    Audio(Media),
    /// A document, such as a PDF file or a text file.
    Document(Media),
    /// A tool call by the model.
    ToolCall(ToolCall),
    /// The result of a call.
    ToolResult(ToolResult),
    /// Thinking by the model.
    Reasoning(ReasoningBlock),
    /// Data that only one vendor understands, such as a search that the vendor executed. The block keeps its position.
    /// Requests to this vendor contain the block; requests to other vendors omit it.
    ///
    /// On Chat Completions, an audio answer is an [`Audio`](Self::Audio) block followed by a
    /// `Vendor` block for the wire `chat`:
    /// `{"audio": {"id": "..", "transcript": "..", "expires_at": ..}}`. The transcript is also part
    /// of the answer's text, and only the text is sent back.
    Vendor(VendorData),
}

impl Block {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextBlock::new(text))
    }

    /// The file in this block and its kind; `None` for a block without a file.
    pub fn media(&self) -> Option<(MediaKind, &Media)> {
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
}

/// Text with its cited sources, and the vendor data that must be sent back with the text, such as
/// an item's id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextBlock {
    text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    citations: Vec<Citation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vendor: Option<VendorData>,
}

impl TextBlock {
    /// Text without vendor data.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), citations: Vec::new(), vendor: None }
    }

    /// Adds the sources that the text cites.
    #[must_use]
    pub fn with_citations(mut self, citations: impl IntoIterator<Item = Citation>) -> Self {
        self.citations.extend(citations);
        self
    }

    /// Adds the vendor data that must be sent back with the text.
    #[must_use]
    pub fn with_vendor(mut self, vendor: Option<VendorData>) -> Self {
        self.vendor = vendor;
        self
    }

    /// The text alone, without citations and vendor data.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The sources of the text, in the vendor's order.
    pub fn citations(&self) -> &[Citation] {
        &self.citations
    }

    /// The vendor data that must be sent back with the text.
    pub fn vendor(&self) -> Option<&VendorData> {
        self.vendor.as_ref()
    }
}

/// The model's thinking: the visible text, if any, and the signature that the vendor requires back.
///
/// The text may be empty although there is a signature: some vendors hide the thinking and still
/// require the signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasoningBlock {
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vendor: Option<VendorData>,
}

impl ReasoningBlock {
    /// Thinking, with the vendor's signature if there is one.
    pub fn new(text: impl Into<String>, vendor: Option<VendorData>) -> Self {
        Self { text: text.into(), vendor }
    }

    /// The visible text, which is often a summary and may be empty.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The vendor data, such as a signature, that must be sent back unchanged.
    pub fn vendor(&self) -> Option<&VendorData> {
        self.vendor.as_ref()
    }
}

/// A tool call by the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    id: Arc<str>,
    name: Arc<str>,
    arguments: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vendor: Option<VendorData>,
}

impl ToolCall {
    /// A call. `arguments` is the JSON text exactly as the model wrote it, valid or not.
    pub fn new(id: impl AsRef<str>, name: impl AsRef<str>, arguments: impl AsRef<str>) -> Self {
        let shared = |text: &str| Arc::from(text);
        Self {
            id: shared(id.as_ref()),
            name: shared(name.as_ref()),
            arguments: shared(arguments.as_ref()),
            vendor: None,
        }
    }

    /// Adds the vendor data that must be sent back with the call.
    #[must_use]
    pub fn with_vendor(mut self, vendor: Option<VendorData>) -> Self {
        self.vendor = vendor;
        self
    }

    /// The id by which the result refers to this call. Unique within one message.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The tool's name as the model wrote it. There may be no such tool.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The JSON text of the arguments, exactly as the model wrote it. An empty text means no
    /// arguments.
    pub fn arguments(&self) -> &str {
        &self.arguments
    }

    /// The vendor data that must be sent back with the call.
    pub fn vendor(&self) -> Option<&VendorData> {
        self.vendor.as_ref()
    }
}
