//! It takes another type than the tool does.
//!
//! - at `was_paid`: expected function signature `fn(u64, &ToolContext) -> _`

use harness::{ToolContext, tool, tool::Reconciled};

fn was_paid(_: u32, _: &ToolContext) -> Reconciled { Reconciled::NotHappened }
/// Pays.
#[tool(side_effects = "network", reconcile = was_paid)]
fn pay(/** How much */ cents: u64, context: &ToolContext) -> String { let _ = (cents, context); String::new() }

fn main() { let _ = ToolContext::new("call_1"); let _: Reconciled = Reconciled::NotHappened; }
