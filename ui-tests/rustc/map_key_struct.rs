//! Own types as keys of a map that are not read from a string.
//!
//! - at `Point`: JSON object keys are strings, so `Point` cannot be the key of a map (parameter `a`)
//! - at `Point`: (parameter `b`)
//! - at `Data`: implement `FromStr` for it

use harness::tool;

use std::collections::{BTreeMap, HashMap};
#[derive(serde::Deserialize, schemars::JsonSchema, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Point { x: i32, y: i32 }
#[derive(serde::Deserialize, schemars::JsonSchema, PartialEq, Eq, Hash)]
enum Data { A(String), B }
/// Does it.
#[tool(side_effects = "none")]
fn f(/// A
 a: HashMap<Point, u8>, /// B
 b: Option<&[BTreeMap<Box<Point>, u8>]>, /// C
 c: HashMap<Data, u8>) -> usize {
    a.len() + b.map_or(0, <[_]>::len) + c.len()
}

fn main() {}
