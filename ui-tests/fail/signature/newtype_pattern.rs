//! A pattern that takes state apart.

use harness::{State, tool};

struct Db;
/// Does it.
#[tool(side_effects = "read")]
fn f(State(db): State<Db>) { let _ = db; }

fn main() {}
