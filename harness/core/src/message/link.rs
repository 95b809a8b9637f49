//! A link to something that a tool found but does not return.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::safe_text::{address, in_line};

/// A link to something that a tool found but does not return, such as a resource of an MCP server.
/// The model reads the address and the description.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
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

    /// Adds a description of the target.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Adds the media type of the target.
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

    /// The description of the target.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// The media type of the target.
    pub fn mime(&self) -> Option<&str> {
        self.mime.as_deref()
    }

    /// The link as text for the model.
    pub(super) fn to_text(&self) -> String {
        let Self { uri, name, description, mime } = self;
        let mime = mime.as_deref().map(|mime| format!(", {}", in_line(mime))).unwrap_or_default();
        let words = description.as_deref().map(|words| format!(" {words}")).unwrap_or_default();
        let (name, uri) = (in_line(name), in_line(uri));
        format!("[A link to `{name}`{mime}: {uri}]{words}")
    }
}

/// Leaves out the parts of the address that may be secret (user, password, query, fragment).
impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { uri, name, description, mime } = self;
        let mut shown = f.debug_struct("Link");
        shown.field("uri", &address(uri)).field("name", name);
        shown.field("description", description).field("mime", mime).finish()
    }
}
