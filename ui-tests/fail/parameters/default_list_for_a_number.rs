//! A list for a number, and one for a map.

use harness::tool;

use std::collections::BTreeMap;
/// Does it.
#[tool(side_effects = "none")]
fn f(/// A
 #[param(default = [1])] a: u32, /// B
 #[param(default = [])] b: BTreeMap<String, u8>) -> usize { a as usize + b.len() }

fn main() {}
