//! What is known for the next request of a conversation.

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
    provider::{ContextMeter, EncodedPrefix, Request},
    tool::ToolRegistry,
};

/// What earlier requests of a conversation have prepared or shown for the next one.
pub(crate) struct RequestState {
    /// The part of the conversation that the provider has already encoded.
    pub(crate) sent: EncodedPrefix,
    /// The sizes of the messages. Each is counted once.
    pub(crate) gauge: ContextGauge,
    /// How many tokens the answer to the next request may have, if the last one was refused for that.
    pub(crate) reduced_max_tokens: Option<ReducedMaxTokens>,
    /// Whether a vendor has refused a request since its answer might not fit.
    pub(crate) is_strict: bool,
    /// What a request may have, as far as its server has said so.
    pub(crate) file_limits: FileLimits,
    /// The files that were left out since the last answer, as they were sent before.
    pub(crate) files_before: Vec<ClearedResult>,
    /// The tools as the model gets them, if it has found some by searching.
    pub(crate) offered_tools: Option<Arc<OfferedTools>>,
    /// What comes before the messages, if the model's reasoning is bound to it.
    pub(crate) prefix: Option<Arc<SentPrefix>>,
    /// Whether the server has refused what was sent behind messages.
    pub(crate) must_not_append: bool,
}

impl RequestState {
    /// Before the first request, which begins with what `meter` holds.
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
            must_not_append: false,
        }
    }

    /// Forgets what another run may set otherwise: it may offer other tools and ask for another length, and an earlier
    /// run may have been dropped.
    pub(crate) fn begin_run(&mut self) {
        (self.offered_tools, self.reduced_max_tokens) = (None, None);
    }
}

/// Adds what the conversation says about its messages, and the tools with those that were found; or else what the model's
/// reasoning is bound to, with its instructions.
pub(crate) fn with_conversation<'a>(
    request: Request<'a>,
    machine: &'a Machine,
    (tools, offered): (&'a ToolRegistry, Option<&'a OfferedTools>),
    prefix: Option<&'a SentPrefix>,
) -> Request<'a> {
    behind_prefix(request, (tools, offered), prefix)
        .with_thinking_from(machine.thinking_from())
        .with_open_turn(machine.open_turn())
        .with_found(machine.found_now().by_tool(tools.search(), tools.searched()))
}
