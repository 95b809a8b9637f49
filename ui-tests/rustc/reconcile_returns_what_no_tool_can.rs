//! It holds a result that no tool can return.
//!
//! - at `was_paid`: whose `Happened` holds what the tool returns

use harness::{ToolContext, tool, tool::Reconciled};

struct Odd;
fn was_paid(_: u64, _: &ToolContext) -> Reconciled<Odd> { Reconciled::NotHappened }
/// Pays.
#[tool(side_effects = "network", reconcile = was_paid)]
fn pay(/** How much */ cents: u64, context: &ToolContext) -> String { let _ = (cents, context); String::new() }

fn main() { let _ = ToolContext::new("call_1"); let _: Reconciled = Reconciled::NotHappened; }
