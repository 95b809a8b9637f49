//! Agents that are run by calls of other agents.

pub(crate) mod agent_names;
pub(crate) mod agents_below;
pub(crate) mod as_tool;
pub(crate) mod child_run;
pub(crate) mod host;
pub(crate) mod suspended_child;
