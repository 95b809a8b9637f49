//! A parameter of an own type without a description.
//!
//! - at `query`: parameter `query` has no description

use harness::tool;

#[derive(serde::Deserialize, schemars::JsonSchema)] struct Query { text: String }
/// Searches.
#[tool(side_effects = "read")]
fn search(query: Query) -> String { query.text }

fn main() {}
