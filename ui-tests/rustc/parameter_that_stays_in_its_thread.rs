//! Arguments that cannot change their thread: one error at each.
//!
//! - at `Query`: `Query` cannot be a tool parameter
//! - at `&Query`: `Query` cannot be a tool parameter
//! - at `State<std::rc::Rc<u8>>`: `State<Rc<u8>>` cannot be a tool parameter

use harness::{State, tool};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Query { text: std::rc::Rc<str> }
/// Does it.
#[tool(side_effects = "none")]
async fn f(/// A
 a: Query) -> usize { std::future::ready(()).await; a.text.len() }
/// Does it.
#[tool(side_effects = "none")]
fn g(/// A
 a: &Query) -> usize { a.text.len() }
/// Does it.
#[tool(side_effects = "none")]
fn h(a: State<std::rc::Rc<u8>>) -> u8 { **a }

fn main() {}
