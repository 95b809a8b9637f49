//! A call that is repeated in any case.

use harness::{tool, tool::Reconciled};

fn was_paid(_: u64) -> Reconciled { Reconciled::NotHappened }

/// Pays.
#[tool(side_effects = "network", idempotent, reconcile = was_paid)]
fn pay(/** How much */ cents: u64) { let _ = cents; }

fn main() { was_paid(1); }
