//! A parameter type without a schema.
//!
//! - at `Vec<Query>`: `Vec<Query>` cannot be a tool parameter

use harness::tool;

#[derive(serde::Deserialize)]
struct Query { text: String }
/// Searches.
#[tool(side_effects = "read")]
fn search(/// The query
          query: Vec<Query>) -> String { query[0].text.clone() }

fn main() {}
