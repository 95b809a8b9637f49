//! A type in place of a function.
//!
//! - at `Reconciled`: expected value, found

use harness::{ToolContext, tool, tool::Reconciled};

fn another() -> Reconciled { Reconciled::NotHappened }
/// Pays.
#[tool(side_effects = "network", reconcile = Reconciled)]
fn pay(/** How much */ cents: u64, context: &ToolContext) -> String { let _ = (cents, context); String::new() }

fn main() { let _ = ToolContext::new("call_1"); let _: Reconciled = Reconciled::NotHappened; }
