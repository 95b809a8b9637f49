//! A function named with the type of a block, where there is no block.

use harness::{tool, tool::Reconciled};

fn was_paid(_: u64) -> Reconciled { Reconciled::NotHappened }

/// Pays.
#[tool(side_effects = "network", reconcile = Self::was_paid)]
fn pay(/** How much */ cents: u64) { let _ = cents; }

fn main() { was_paid(1); }
