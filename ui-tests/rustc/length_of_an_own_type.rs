//! A length of a type of one's own, and of a map.
//!
//! - at `City`: `City` has no length
//! - at `Scores`: has no length

use harness::tool;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct City(String);
type Scores = std::collections::HashMap<String, u8>;
/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 #[param(length(1..=3))] x: City) -> String { x.0 }
/// Does it.
#[tool(side_effects = "none")]
fn g(/// X
 #[param(length(1..=3))] x: Scores) -> usize { x.len() }

fn main() {}
