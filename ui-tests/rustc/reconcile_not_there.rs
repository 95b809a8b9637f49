//! It is not there.
//!
//! - at `was_paid`: cannot find value `was_paid`

use harness::{ToolContext, tool, tool::Reconciled};

fn another() -> Reconciled { Reconciled::NotHappened }
/// Pays.
#[tool(side_effects = "network", reconcile = was_paid)]
fn pay(/** How much */ cents: u64, context: &ToolContext) -> String { let _ = (cents, context); String::new() }

fn main() { let _ = ToolContext::new("call_1"); let _: Reconciled = Reconciled::NotHappened; }
