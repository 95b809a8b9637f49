//! State behind a trait: it has no size.

use harness::{State, tool};

trait Db: Send + Sync { fn get(&self) -> String; }
/// Does it.
#[tool(side_effects = "read")]
fn f(db: State<dyn Db>, other: &State<dyn Db + Send + Sync>) -> String { db.get() + &other.get() }

fn main() {}
