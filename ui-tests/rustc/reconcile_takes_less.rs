//! A function that finds out what became of a call, without the parameters of the tool.
//!
//! - at `was_paid`: expected function that takes 2 arguments

use harness::{ToolContext, tool, tool::Reconciled};

fn was_paid(_: u64) -> Reconciled { Reconciled::NotHappened }
/// Pays.
#[tool(side_effects = "network", reconcile = was_paid)]
fn pay(/** How much */ cents: u64, context: &ToolContext) -> String { let _ = (cents, context); String::new() }

fn main() { let _ = ToolContext::new("call_1"); let _: Reconciled = Reconciled::NotHappened; }
