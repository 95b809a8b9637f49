//! A function that is not named.

use harness::{tool, tool::Reconciled};

fn was_paid(_: u64) -> Reconciled { Reconciled::NotHappened }

/// Pays.
#[tool(side_effects = "network", reconcile)]
fn pay(/** How much */ cents: u64) { let _ = cents; }

fn main() { was_paid(1); }
