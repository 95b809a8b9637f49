//! A `&mut` parameter.

use harness::tool;

/// Sorts.
#[tool(side_effects = "none")]
fn sort(/// Items
        items: &mut Vec<i64>) -> i64 { items.sort(); items[0] }

fn main() {}
