//! Tools that are described outside of the program and whose description may change.

use super::Tool;
#[cfg(feature = "mcp")]
use super::tool::Body;

impl Tool {
    /// Sets the hash of a description that comes from outside of the program. What a person allows holds only for
    /// the tool as it is described now.
    #[cfg(feature = "mcp")]
    pub(crate) fn defined_as(mut self, definition: &str) -> Self {
        self.definition = Some(definition.into());
        self
    }

    /// Sets the title that comes from outside of the program, if it is one line of visible text. Another one is
    /// ignored.
    #[cfg(feature = "mcp")]
    pub(crate) fn titled(self, title: Option<String>) -> Self {
        match title.filter(|title| super::title::is_plain(title)) {
            Some(title) => self.with_title(title),
            None => self,
        }
    }

    /// The hash of the description that comes from outside of the program; `None` for a tool of the program itself.
    pub(crate) fn definition(&self) -> Option<&str> {
        self.definition.as_deref()
    }

    /// The size of the compiled patterns in the schema of its arguments, in KiB.
    #[cfg(feature = "mcp")]
    pub(crate) fn pattern_size(&self) -> usize {
        match &self.body {
            Body::Declared { .. } => 0,
            Body::Made(made) => made.checker().map_or(0, crate::schema::Checker::pattern_size),
        }
    }
}
