//! Types without some of their generic arguments: one error at each.
//!
//! - at `HashMap`: struct takes at least 2 generic arguments but 1 generic argument was supplied
//! - at `Result`: enum takes 2 generic arguments but 1 generic argument was supplied
//! - at `Vec`: missing generics for struct `Vec`
//! - at `Vec`: missing generics for struct `Vec`
//! - at `Own`: missing generics for struct `Own`

use std::collections::HashMap;

use harness::{tool, toolset};

/// Does it.
#[tool(side_effects = "none")]
fn f(/// A
 a: HashMap<String>) -> Result<String> { Ok(a.len().to_string()) }
/// Does it.
#[tool(side_effects = "none")]
fn g(/// A
 a: &Vec) -> Result<Vec, String> { Ok(a.to_vec()) }
struct Own<T>(T);
struct S;
#[toolset]
impl S {
/// Does it.
#[tool(side_effects = "none")]
fn h(&self) -> Own { Own(1) }
}

fn main() {}
