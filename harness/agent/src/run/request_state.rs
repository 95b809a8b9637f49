//! State that is kept between the requests of a conversation.

use std::sync::Arc;

use super::{
    sent_prefix::{SentPrefix, behind_prefix},
    tool_search::OfferedTools,
};
use crate::{
    Machine,
    compaction::gauge::{ContextGauge, ReducedMaxTokens},
};
use harness_core::{
    context::FileLimits,
    journal::ClearedResult,
    provider::{ContextMeter, EncodedPrefix, Request, ToolSearches},
    tool::{TOOL_SEARCH, ToolRegistry},
};

/// State that earlier requests of a conversation leave for the next request.
pub(crate) struct RequestState {
    /// The part of the conversation that the provider has already encoded.
    pub(crate) sent: EncodedPrefix,
    /// The sizes of the messages. Each message is counted once.
    pub(crate) gauge: ContextGauge,
    /// A lowered token limit for the next answer, after a server refused a request whose answer might not
    /// fit.
    pub(crate) reduced_max_tokens: Option<ReducedMaxTokens>,
    /// Whether a vendor has refused a request of this conversation because its answer might not fit.
    pub(crate) is_strict: bool,
    /// The limits on files in a request, as far as the server has stated them.
    pub(crate) file_limits: FileLimits,
    /// The entries with which results and messages were sent before they lost files since the last answer.
    pub(crate) files_before: Vec<ClearedResult>,
    /// The tools that the model gets. `None` if the model has found no tools by searching.
    pub(crate) offered_tools: Option<Arc<OfferedTools>>,
    /// The prefix of requests, if the model's reasoning is bound to a prefix.
    pub(crate) prefix: Option<Arc<SentPrefix>>,
    /// The text of the server's error, while a request is sent again without additions because the server may have
    /// refused them.
    pub(crate) refused_additions: Option<String>,
}

impl RequestState {
    /// The state before the first request. `meter` has the size of the system prompt and the tools.
    pub(crate) fn new(meter: ContextMeter) -> Self {
        Self {
            sent: EncodedPrefix::new(),
            gauge: ContextGauge::new(meter),
            reduced_max_tokens: None,
            is_strict: false,
            file_limits: FileLimits::default(),
            files_before: Vec::new(),
            offered_tools: None,
            prefix: None,
            refused_additions: None,
        }
    }

    /// Resets what is valid only for one run. The found tools are reset because the run may offer other tools.
    /// The lowered limit on the answer and the refusal of additions are reset because the earlier run may have been
    /// dropped before or during its next request.
    pub(crate) fn begin_run(&mut self) {
        (self.offered_tools, self.reduced_max_tokens) = (None, None);
        self.refused_additions = None;
    }
}

/// Adds the state of the conversation to a request: the offered and the found tools, and how much reasoning is
/// sent. If the model's reasoning is bound to a prefix, the instructions and the tools of that prefix are used.
pub(crate) fn with_conversation<'a>(
    request: Request<'a>,
    machine: &'a Machine,
    (tools, offered): (&'a ToolRegistry, Option<&'a OfferedTools>),
    prefix: Option<&'a SentPrefix>,
) -> Request<'a> {
    let found = match prefix {
        // Found tools are sent as before, even if this run offers no search.
        Some(SentPrefix { before_searches: Some(count), schemas, .. }) => {
            let found = machine.found_now().by_tool(Some(TOOL_SEARCH), tools.searched());
            found.without(schemas.get(..*count).unwrap_or_default())
        }
        Some(_) => ToolSearches::default(),
        None => machine.found_now().by_tool(tools.search(), tools.searched()),
    };
    behind_prefix(request, (tools, offered), prefix)
        .with_thinking_from(machine.thinking_from())
        .with_open_turn(machine.open_turn())
        .with_found(found)
}
