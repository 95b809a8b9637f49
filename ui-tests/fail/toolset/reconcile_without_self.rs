//! A method that finds out what became of a call, named without the type.

use harness::{tool::Reconciled, toolset};

struct Bank;

#[toolset]
impl Bank {
    fn was_paid(&self) -> Reconciled { Reconciled::NotHappened }

    /// Pays.
    #[tool(side_effects = "network", reconcile = was_paid)]
    fn pay(&self) {}
}

fn main() { Bank.was_paid(); }
