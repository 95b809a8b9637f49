//! A type of one's own with a `Cell` deep inside of it.
//!
//! - at `Vec<Outer>`: what calls share and change is taken as `State<T>`

use std::cell::Cell;

use harness::tool;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Inner { hits: Cell<u32> }
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Outer { inner: Option<Inner> }
/// Does it.
#[tool(side_effects = "none")]
fn f(/// X
 x: Vec<Outer>) -> usize { x.iter().filter_map(|x| x.inner.as_ref()).map(|x| x.hits.get() as usize).sum() }

fn main() {}
