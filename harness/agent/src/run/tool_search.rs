//! The tools that the model gets after it has searched for them.

use std::{collections::HashSet, sync::Arc};

use harness_schema::{SchemaCache, ToolSchema};

use super::driver::RunDriver;
use crate::{Chat, Event};
use harness_core::{
    context::percent,
    error::Error,
    journal::Fact,
    message::{CallOutcome, ToolCall, ToolResult},
    provider::ContextMeter,
    tool::{FEW_TOOLS, TOOL_SEARCH, Tool, ToolRegistry, ToolSearch},
};

/// The size of a window that is not known, used to decide whether the tools are too many.
const WINDOW: u64 = 128_000;

fn tokens_of<'a>(tools: impl Iterator<Item = &'a Tool>) -> u64 {
    tools.map(|tool| ContextMeter::new(None, std::slice::from_ref(tool.schema())).tools()).sum()
}

/// The tools that have to be searched for. If all tools together need more than their share of the
/// window, or are more than a request may have, these are the tools of servers, and also the
/// program's own if they need more than a quarter of the share, or are still too many. A small
/// number of tools is never searched for, unless the program says so or they are too many.
pub(crate) fn deferred_tools(
    tools: &ToolRegistry,
    policy: &ToolSearch,
    window: Option<u64>,
    most: Option<u32>,
) -> HashSet<String> {
    let Some(share) = policy.percent() else { return HashSet::new() };
    let share = percent(window.unwrap_or(WINDOW), share);
    let fits =
        |tools: usize| most.is_none_or(|most| u32::try_from(tools).is_ok_and(|it| it <= most));
    let all_fit = fits(tools.tools().len());
    let stays = |tool: &&Tool| policy.is_always(tool.name()) || tools.is_built_in(tool.name());
    let others = || tools.tools().iter().filter(|tool| !stays(tool));
    if tokens_of(tools.tools().iter()) <= share && all_fit {
        return HashSet::new();
    }
    let of_servers = others().filter(|tool| tool.is_of_a_server()).count();
    // The search itself is a tool, too.
    let own_are_few = tokens_of(others().filter(|tool| !tool.is_of_a_server())) <= share / 4
        && fits(tools.tools().len() - of_servers + 1);
    let deferred = others().filter(|tool| tool.is_of_a_server() || !own_are_few);
    let names: HashSet<String> = deferred.map(|tool| tool.name().to_owned()).collect();
    if names.len() <= FEW_TOOLS && share > 0 && all_fit { HashSet::new() } else { names }
}

/// The tools as the model gets them, including those that it has found.
#[derive(Debug)]
pub(crate) struct OfferedTools {
    /// What this was made for: the number of searches, and the address of the offered tools.
    of: (usize, usize),
    pub(crate) schemas: Vec<ToolSchema>,
    pub(crate) forms: SchemaCache,
}

impl Chat {
    /// The tools as the model gets them now, if it has found some.
    pub(crate) fn offered_tools(&mut self) -> Option<Arc<OfferedTools>> {
        let found = self.machine.found();
        if found.is_empty() {
            return None;
        }
        let tools = self.tools();
        // Each run may have its own tools.
        let of = (found.len(), std::ptr::from_ref(tools).addr());
        if let Some(offered) = self.offered_tools.as_ref().filter(|offered| offered.of == of) {
            return Some(Arc::clone(offered));
        }
        let mut schemas = tools.schemas().to_vec();
        let names = found.iter().flat_map(|found| &found.tools);
        // A tool that does not exist any more is not offered.
        let more = names.filter(|name| tools.is_searched(name)).filter_map(|name| tools.get(name));
        schemas.extend(more.map(|tool| tool.schema().clone()));
        let offered = Arc::new(OfferedTools { of, schemas, forms: SchemaCache::default() });
        self.offered_tools = Some(Arc::clone(&offered));
        Some(offered)
    }

    /// The size of what every request begins with, including the tools that were found.
    pub(crate) fn meter(&self) -> ContextMeter {
        let tools = self.agent.tools();
        let names = self.machine.found().iter().flat_map(|found| &found.tools);
        let found = names.filter(|name| tools.is_searched(name)).filter_map(|name| tools.get(name));
        self.agent.meter().with_tools(tokens_of(found))
    }
}

impl RunDriver<'_> {
    /// Records the tools that a search has newly found, before its result is recorded.
    pub(crate) fn record_found_tools(
        &mut self,
        call: &ToolCall,
        result: &ToolResult,
    ) -> Result<(), Error> {
        if call.name() != TOOL_SEARCH || result.outcome() != CallOutcome::Succeeded {
            return Ok(());
        }
        let Ok(arguments) = call.decoded() else { return Ok(()) };
        let mut tools = self.chat.tools().find(arguments.into_map());
        let known = self.chat.machine.found();
        tools.retain(|tool| !known.iter().any(|found| found.tools.contains(tool)));
        if tools.is_empty() {
            return Ok(());
        }
        self.emit(Event::ToolsFound { call, tools: &tools });
        self.chat.record(&Fact::ToolsFound { call: call.id().to_owned(), tools })
    }
}
