//! A map, inside, whose keys are lists.

use harness::tool;

use std::collections::*;
/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 x: Vec<BTreeMap<Vec<u8>, i64>>) -> usize { x.len() }

fn main() {}
