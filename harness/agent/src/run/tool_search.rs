//! The tools that the model gets only after it has searched for them.

use std::collections::HashSet;

use harness_schema::{SchemaCache, ToolSchema};

use harness_core::{
    context::percent,
    provider::ContextMeter,
    tool::{FEW_TOOLS, Tool, ToolRegistry, ToolSearch},
};

/// The assumed size of a context window of unknown size, for the decision whether there are too many tools.
const WINDOW: u64 = 128_000;

pub(crate) fn tokens_of<'a>(tools: impl Iterator<Item = &'a Tool>) -> u64 {
    tools.map(|tool| ContextMeter::new(None, std::slice::from_ref(tool.schema())).tools()).sum()
}

/// The names of the tools that the model has to search for. The set is empty if all tools fit into their
/// share of the window and into one request. Otherwise the set has the tools of MCP servers. The set also has
/// the program's own tools, if these need more than a quarter of the share or are still too many for one
/// request. A small number of tools is never deferred, unless the share is 0 or a request cannot have this
/// number of tools.
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

/// The tools that the model gets, including the tools that it has found.
#[derive(Debug)]
pub(crate) struct OfferedTools {
    /// The key of this cached value: the number of searches, and the address of the tool registry.
    pub(crate) of: (usize, usize),
    pub(crate) schemas: Vec<ToolSchema>,
    pub(crate) forms: SchemaCache,
}
