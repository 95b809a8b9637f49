//! It returns something else.
//!
//! - at `was_paid`: it returns a `harness::tool::Reconciled`

use harness::{ToolContext, tool, tool::Reconciled};

async fn was_paid(_: u64, _: &ToolContext) -> bool { true }
/// Pays.
#[tool(side_effects = "network", reconcile = was_paid)]
fn pay(/** How much */ cents: u64, context: &ToolContext) -> String { let _ = (cents, context); String::new() }

fn main() { let _ = ToolContext::new("call_1"); let _: Reconciled = Reconciled::NotHappened; }
