//! Two tools of one name in a list.
//!
//! - at `tools![search_a, search_b]`: two tools in this list are both named `search`

use harness::{ToolRegistry, tool, tools};

/// A.
#[tool(side_effects = "none", name = "search")]
fn search_a() -> i64 { 1 }
/// B.
#[tool(side_effects = "none", name = "search")]
fn search_b() -> i64 { 1 }
fn registry() -> ToolRegistry { ToolRegistry::new(tools![search_a, search_b]).unwrap() }

fn main() {}
