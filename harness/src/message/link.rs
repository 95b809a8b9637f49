//! The address of something that a tool has found and does not hand over.

use serde::{Deserialize, Serialize};

/// The address of something that a tool has found and does not hand over, such as a resource of a server.
/// The model reads where it is and what is said of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Link {
    uri: String,
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mime: Option<String>,
}

impl Link {
    /// A link to this address, under this name.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: name.into(), description: None, mime: None }
    }

    /// Adds what is behind it, in words.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Adds the media type of what is behind it.
    #[must_use]
    pub fn with_mime(mut self, mime: impl Into<String>) -> Self {
        self.mime = Some(mime.into());
        self
    }

    /// The address.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is behind it, in words.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// The media type of what is behind it.
    pub fn mime(&self) -> Option<&str> {
        self.mime.as_deref()
    }

    /// What the model reads of it.
    pub(super) fn to_text(&self) -> String {
        let Self { uri, name, description, mime } = self;
        let mime = mime.as_deref().map(|mime| format!(", {mime}")).unwrap_or_default();
        let words = description.as_deref().map(|words| format!(" {words}")).unwrap_or_default();
        format!("[A link to `{name}`{mime}: {uri}]{words}")
    }
}
