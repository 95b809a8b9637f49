//! A tool with the name of a module that is imported.
//!
//! - at `time`: found module `time`
//! - at `#[tool(side_effects = "none")]`: a_taken_name_needs_handle_equals

use harness::tool;

use std::time;
/// Does it.
#[tool(side_effects = "none")]
fn time() -> time::Duration { time::Duration::ZERO }

fn main() {}
