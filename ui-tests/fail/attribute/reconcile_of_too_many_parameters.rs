//! More parameters than there are rules for.

use harness::{tool, tool::Reconciled};

fn was_paid(_: u64) -> Reconciled { Reconciled::NotHappened }

/// Pays.
#[tool(side_effects = "network", reconcile = was_paid)]
fn pay(/** a */ a: u64, /** b */ b: u64, /** c */ c: u64, /** d */ d: u64, /** e */ e: u64, /** f */ f: u64, /** g */ g: u64, /** h */ h: u64, /** i */ i: u64, /** j */ j: u64, /** k */ k: u64, /** l */ l: u64, /** m */ m: u64, /** n */ n: u64, /** o */ o: u64, /** p */ p: u64) { let _ = [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]; }

fn main() { was_paid(1); }
