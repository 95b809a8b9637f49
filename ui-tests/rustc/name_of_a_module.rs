//! A tool with the name of a module: the type beside it cannot have that name.
//!
//! - at `find`: found module `find`
//! - at `find`: found module `find`
//! - at `#[tool(side_effects = "none")]`: a_taken_name_needs_handle_equals

use harness::{tool, tools};

mod find {}
/// Does it.
#[tool(side_effects = "none")]
fn find() -> i64 { 3 }
fn list() -> Vec<harness::Tool> { tools![find] }

fn main() {}
