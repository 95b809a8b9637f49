//! A constant in place of a function.
//!
//! - at `was_paid`: it takes the same parameters as the function of the tool

use harness::{ToolContext, tool, tool::Reconciled};

#[allow(non_upper_case_globals)]
const was_paid: bool = true;
/// Pays.
#[tool(side_effects = "network", reconcile = was_paid)]
fn pay(/** How much */ cents: u64, context: &ToolContext) -> String { let _ = (cents, context); String::new() }

fn main() { let _ = ToolContext::new("call_1"); let _: Reconciled = Reconciled::NotHappened; }
