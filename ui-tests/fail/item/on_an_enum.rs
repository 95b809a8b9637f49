//! On an enum.

use harness::tool;

#[tool(side_effects = "none")]
pub enum A { B }

fn main() {}
