//! Its future stays in its thread.
//!
//! - at `was_paid`: with a future that is `Send`

use harness::{ToolContext, tool, tool::Reconciled};

async fn was_paid(_: u64, _: &ToolContext) -> Reconciled {
    let here = std::rc::Rc::new(1);
    tokio::task::yield_now().await;
    drop(here);
    Reconciled::NotHappened
}
/// Pays.
#[tool(side_effects = "network", reconcile = was_paid)]
fn pay(/** How much */ cents: u64, context: &ToolContext) -> String { let _ = (cents, context); String::new() }

fn main() { let _ = ToolContext::new("call_1"); let _: Reconciled = Reconciled::NotHappened; }
