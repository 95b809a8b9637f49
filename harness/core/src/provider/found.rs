//! Tools that the model has found with a search.

use std::collections::HashSet;

/// The tools that one search has found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct FoundTools {
    /// The id of the call.
    pub call: String,
    pub tools: Vec<String>,
    /// The index of the transcript's message that contains the result of the call.
    pub place: usize,
}

/// The searches whose results are sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct ToolSearches<'a> {
    all: &'a [FoundTools],
    /// The results in messages of the transcript before this index are not sent.
    from: usize,
    /// The name of the tool that searches, if the model is offered it.
    search: Option<&'a str>,
    /// The names of the tools that it can find.
    searched: Option<&'a HashSet<String>>,
}

impl<'a> ToolSearches<'a> {
    /// The searches `all` so far, the first of which belongs to the message at `from`.
    pub fn new(all: &'a [FoundTools], from: usize) -> Self {
        Self { all, from, ..Self::default() }
    }

    /// With the name of the tool that searches, which the model is offered, and those of the tools that it can find.
    pub fn by_tool(
        mut self,
        search: Option<&'a str>,
        searched: Option<&'a HashSet<String>>,
    ) -> Self {
        (self.search, self.searched) = (search, searched);
        self
    }

    /// Whether the model has to search for this tool. It may have found it.
    pub fn is_searched(self, tool: &str) -> bool {
        self.searched.is_some_and(|names| names.contains(tool))
    }

    /// The name of the tool that searches, if the model is offered it.
    pub fn search(self) -> Option<&'a str> {
        self.search
    }

    fn sent(self) -> impl Iterator<Item = &'a FoundTools> {
        self.all.iter().filter(move |found| found.place >= self.from)
    }

    /// The tools that this call has found.
    pub fn by(self, call: &str) -> Option<&'a [String]> {
        self.sent().find(|found| found.call == call).map(|found| found.tools.as_slice())
    }

    /// Whether a result that is sent says that this tool was found.
    pub fn has(self, tool: &str) -> bool {
        self.sent().any(|found| found.tools.iter().any(|known| known == tool))
    }
}
