//! Tools that the model has found with a search.

use std::collections::HashSet;

use harness_schema::ToolSchema;

/// The tools that one search has found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct FoundTools {
    /// The id of the call that searched.
    pub call: String,
    pub tools: Vec<String>,
    /// The index of the transcript's message that contains the result of the call.
    pub place: usize,
}

/// The searches whose results are sent in a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct ToolSearches<'a> {
    all: &'a [FoundTools],
    /// Results in messages before this index of the transcript are not sent.
    from: usize,
    /// The name of the search tool, if the request offers this tool to the model.
    search: Option<&'a str>,
    /// The names of the tools that the search tool can find.
    searched: Option<&'a HashSet<String>>,
    /// The tools that the model had before it searched.
    had: &'a [ToolSchema],
}

impl<'a> ToolSearches<'a> {
    /// Creates the list of the searches so far. Only results in messages from the index `from` on are sent.
    pub fn new(all: &'a [FoundTools], from: usize) -> Self {
        Self { all, from, ..Self::default() }
    }

    /// Sets the name of the search tool, and the names of the tools that it can find.
    pub fn by_tool(
        mut self,
        search: Option<&'a str>,
        searched: Option<&'a HashSet<String>>,
    ) -> Self {
        (self.search, self.searched) = (search, searched);
        self
    }

    /// Sets the tools that the model had before it searched. Their definitions stay where they are, even if a search
    /// finds them.
    #[must_use]
    pub fn without(mut self, had: &'a [ToolSchema]) -> Self {
        self.had = had;
        self
    }

    /// Whether the model can get this tool only by a search. The model may have found the tool already.
    pub fn is_searched(self, tool: &str) -> bool {
        self.searched.is_some_and(|names| names.contains(tool))
    }

    /// The name of the search tool, if the request offers this tool to the model.
    pub fn search(self) -> Option<&'a str> {
        self.search
    }

    fn sent(self) -> impl Iterator<Item = &'a FoundTools> {
        self.all.iter().filter(move |found| found.place >= self.from)
    }

    /// The tools that this call has found; `None` if its result is not sent.
    pub fn by(self, call: &str) -> Option<&'a [String]> {
        self.sent().find(|found| found.call == call).map(|found| found.tools.as_slice())
    }

    /// Whether the request contains a result that lists this tool as found. `false` if the model had the tool
    /// [before](Self::without).
    pub fn has(self, tool: &str) -> bool {
        self.sent().any(|found| found.tools.iter().any(|known| known == tool))
            && !self.had.iter().any(|had| had.name == tool)
    }
}
