//! State behind a trait, by an alias.
//!
//! - at `State<Db>`: such as `Arc<dyn Trait + Send + Sync>`

use harness::{State, tool};

type Db = dyn Fn() -> u8 + Send + Sync;
/// Does it.
#[tool(side_effects = "none")]
fn f(db: State<Db>) -> u8 { db() }

fn main() {}
