//! A literal for a type that is around a string.
//!
//! - at `"Oslo"`: the default of a parameter of the type `City` cannot be this literal

use harness::tool;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct City(String);
/// Does it.
#[tool(side_effects = "none")]
fn f(/// A
 #[param(default = "Oslo")] a: City) -> String { a.0 }

fn main() {}
