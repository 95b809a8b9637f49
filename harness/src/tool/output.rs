//! What a tool hands over when it has done its work.

use crate::message::ToolContent;

/// What a tool hands over: no, one or several parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    content: Vec<ToolContent>,
}

impl ToolOutput {
    /// Nothing but the fact that it is done.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// The parts, in order.
    pub fn content(&self) -> &[ToolContent] {
        &self.content
    }

    /// The parts, in order.
    pub(crate) fn into_content(self) -> Vec<ToolContent> {
        self.content
    }
}

impl<C: Into<ToolContent>> From<C> for ToolOutput {
    fn from(content: C) -> Self {
        Self { content: vec![content.into()] }
    }
}

impl From<Vec<ToolContent>> for ToolOutput {
    fn from(content: Vec<ToolContent>) -> Self {
        Self { content }
    }
}
