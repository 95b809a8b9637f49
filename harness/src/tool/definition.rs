//! Tools that somebody outside of the program describes, and may describe differently another time.

use super::Tool;

impl Tool {
    /// Says that somebody outside of the program describes it in a way of which this is the hash: what a person
    /// allows holds for the tool as it is described now.
    #[cfg(feature = "mcp")]
    pub(crate) fn defined_as(mut self, definition: &str) -> Self {
        self.definition = Some(definition.into());
        self
    }

    /// Says what somebody outside of the program calls it, if it is one line that looks as it is.
    #[cfg(feature = "mcp")]
    pub(crate) fn titled(self, title: Option<String>) -> Self {
        match title.filter(|title| super::title::is_plain(title)) {
            Some(title) => self.with_title(title),
            None => self,
        }
    }

    /// A hash of what somebody outside of the program says of it, if somebody does.
    pub(crate) fn definition(&self) -> Option<&str> {
        self.definition.as_deref()
    }
}
