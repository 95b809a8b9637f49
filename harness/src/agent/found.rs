//! The tools that the model is told of once it has searched for them.

use std::{collections::HashSet, sync::Arc};

use super::{Chat, Event, run::Run};
use crate::{
    context::percent,
    error::Error,
    journal::Entry,
    message::{CallOutcome, ToolCall, ToolResult},
    provider::ContextMeter,
    schema::{Forms, ToolSchema},
    tool::{FEW_TOOLS, TOOL_SEARCH, Tool, ToolRegistry, ToolSearch},
};

/// The window of a model that nobody knows, for the question whether its tools are many.
const WINDOW: u64 = 128_000;

fn tokens_of<'a>(tools: impl Iterator<Item = &'a Tool>) -> u64 {
    tools.map(|tool| ContextMeter::new(None, std::slice::from_ref(tool.schema())).tools()).sum()
}

/// The tools that have to be searched for: if all together need more than their share of the window, those of servers, and
/// the program's own, too, if they are more than a quarter of the share. A few tools never are, unless the program says so.
pub(super) fn searched(
    tools: &ToolRegistry,
    policy: &ToolSearch,
    window: Option<u64>,
) -> HashSet<String> {
    let Some(share) = policy.percent() else { return HashSet::new() };
    let share = percent(window.unwrap_or(WINDOW), share);
    let stays = |tool: &&Tool| policy.is_always(tool.name()) || tools.is_built_in(tool.name());
    let others = || tools.tools().iter().filter(|tool| !stays(tool));
    if tokens_of(tools.tools().iter()) <= share {
        return HashSet::new();
    }
    let own_are_few = tokens_of(others().filter(|tool| !tool.is_of_a_server())) <= share / 4;
    let deferred = others().filter(|tool| tool.is_of_a_server() || !own_are_few);
    let names: HashSet<String> = deferred.map(|tool| tool.name().to_owned()).collect();
    if names.len() <= FEW_TOOLS && share > 0 { HashSet::new() } else { names }
}

/// What the model is told of the tools, with those that it has found.
#[derive(Debug)]
pub(super) struct Told {
    /// How many searches there were, and by which tools.
    of: (usize, usize),
    pub(super) schemas: Vec<ToolSchema>,
    pub(super) forms: Forms,
}

impl Chat {
    /// What the model is told of the tools now, if it has found some.
    pub(super) fn told(&mut self) -> Option<Arc<Told>> {
        let found = self.machine.found();
        if found.is_empty() {
            return None;
        }
        let tools = self.tools();
        // Each run may have its own.
        let of = (found.len(), std::ptr::from_ref(tools).addr());
        if let Some(told) = self.told.as_ref().filter(|told| told.of == of) {
            return Some(Arc::clone(told));
        }
        let mut schemas = tools.schemas().to_vec();
        let names = found.iter().flat_map(|found| &found.tools);
        // One that is gone is not offered any more.
        let more = names.filter(|name| tools.is_searched(name)).filter_map(|name| tools.get(name));
        schemas.extend(more.map(|tool| tool.schema().clone()));
        let told = Arc::new(Told { of, schemas, forms: Forms::default() });
        self.told = Some(Arc::clone(&told));
        Some(told)
    }

    /// Counts what every request begins with: the tools that were found, too.
    pub(super) fn meter(&self) -> ContextMeter {
        let tools = self.agent.tools();
        let names = self.machine.found().iter().flat_map(|found| &found.tools);
        let found = names.filter(|name| tools.is_searched(name)).filter_map(|name| tools.get(name));
        self.agent.meter().with_tools(tokens_of(found))
    }
}

impl Run<'_> {
    /// Keeps what a search has found that was not found before, before its result is a fact.
    pub(super) fn finds(&mut self, call: &ToolCall, result: &ToolResult) -> Result<(), Error> {
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
        self.chat.record(&Entry::ToolsFound { call: call.id().to_owned(), tools })
    }
}
