//! Methods that take their value in another way, without it, and that are not there.
//!
//! - at `Self::by_value`: expected function signature `fn(&S) -> _`
//! - at `Self::without`: expected function that takes 1 argument
//! - at `missing`: no function or associated item named `missing`

use harness::{tool, tool::Reconciled, toolset};

struct S;
#[toolset]
impl S {
fn by_value(self) -> Reconciled { Reconciled::NotHappened }
fn without() -> Reconciled { Reconciled::NotHappened }
/// Does it.
#[tool(side_effects = "write", reconcile = Self::by_value)]
fn a(&self) {}
/// Does it.
#[tool(side_effects = "write", reconcile = Self::without)]
fn b(&self) {}
/// Does it.
#[tool(side_effects = "write", reconcile = Self::missing)]
fn c(&self) {}
}

fn main() {}
