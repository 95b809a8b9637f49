//! A plain function in a list.
//!
//! - at `helper`: found function `helper`

use harness::{ToolRegistry, tools};

fn helper() -> i64 { 1 }
fn registry() -> ToolRegistry { ToolRegistry::new(tools![helper]).unwrap() }

fn main() {}
