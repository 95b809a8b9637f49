//! A map with keys that are lists is returned.

use harness::tool;

use std::collections::{BTreeMap, HashMap};
/// Does it.
#[tool(side_effects = "none")]
fn f() -> Result<HashMap<(i32, i32), u8>, String> { Ok(HashMap::new()) }
/// Does it.
#[tool(side_effects = "none")]
fn g() -> Vec<BTreeMap<Vec<u8>, u8>> { Vec::new() }

fn main() {}
