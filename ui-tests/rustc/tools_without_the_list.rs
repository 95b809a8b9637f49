//! Functions in place of a list of tools.
//!
//! - at `add`: is no list of tools
//! - at `[add]`: is no list of tools
//! - at `[add]`: is no list of tools
//! - at `add::tool()`: Tool` is no list of tools

use harness::{ToolRegistry, agent::AgentBuilder, tool};

/// Does it.
#[tool(side_effects = "none")]
fn add() -> i64 { 3 }
fn one(builder: AgentBuilder) -> AgentBuilder { builder.tools(add) }
fn list(builder: AgentBuilder) -> AgentBuilder { builder.tools([add]) }
fn registry() { let _ = ToolRegistry::new([add]); }
fn tool(builder: AgentBuilder) -> AgentBuilder { builder.tools(add::tool()) }

fn main() {}
