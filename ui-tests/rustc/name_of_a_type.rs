//! Tools with the name of a type, of a trait, and a handle that is taken.
//!
//! - at `#[tool(side_effects = "none", handle = Find)]`: a_taken_name_needs_handle_equals
//! - at `#[tool(side_effects = "none")]`: a_taken_name_needs_handle_equals

use harness::tool;

struct Find {}
/// Does it.
#[tool(side_effects = "none", handle = Find)]
fn find() -> i64 { 3 }
#[allow(non_camel_case_types)]
enum count {}
/// Does it.
#[tool(side_effects = "none")]
pub fn count() -> i64 { 3 }

fn main() {}
