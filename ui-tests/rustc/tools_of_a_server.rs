//! The handle of a server of tools in place of its tools.
//!
//! - at `server`: by `server.tools()`

use harness::agent::AgentBuilder;

/// Stands for `McpServer`, which a feature brings.
struct Server;
fn tools(builder: AgentBuilder, server: Server) -> AgentBuilder { builder.tools(server) }

fn main() {}
