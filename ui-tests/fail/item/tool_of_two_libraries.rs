//! The attribute of another library that is called alike.

use harness::tool;

/// Reads.
#[tool(side_effects = "read")]
#[rmcp::tool]
fn read() {}

fn main() {}
