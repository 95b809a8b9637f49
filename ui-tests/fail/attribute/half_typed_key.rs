//! Half-typed: a part of a key.

use harness::{tool, tools};

/// Does it.
#[tool(side_eff)]
fn f() {}
fn g() { f(); let _ = tools![f]; }

fn main() {}
