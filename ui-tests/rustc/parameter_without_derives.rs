//! A parameter type without the derives.
//!
//! - at `Query`: `Query` cannot be a tool parameter

use harness::tool;

struct Query { text: String }
/// Searches.
#[tool(side_effects = "read")]
fn search(/// The query
          query: Query) -> String { query.text }

fn main() {}
