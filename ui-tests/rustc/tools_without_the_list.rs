//! Functions in place of a list of tools.
//!
//! - at `add`: is not a list of tools
//! - at `[add]`: is not a list of tools
//! - at `[add]`: is not a list of tools
//! - at `add::tool()`: Tool` is not a list of tools
//! - at `[agent]`: agent.as_tool("review"

use harness::{Agent, ToolRegistry, agent::AgentBuilder, tool};

/// Does it.
#[tool(side_effects = "none")]
fn add() -> i64 { 3 }
fn one(builder: AgentBuilder) -> AgentBuilder { builder.tools(add) }
fn list(builder: AgentBuilder) -> AgentBuilder { builder.tools([add]) }
fn registry() { let _ = ToolRegistry::new([add]); }
fn tool(builder: AgentBuilder) -> AgentBuilder { builder.tools(add::tool()) }
fn agent(builder: AgentBuilder, agent: Agent) -> AgentBuilder { builder.tools([agent]) }

fn main() {}
