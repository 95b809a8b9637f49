//! A package that knows `harness` through a facade only, and does not say so.

use facade::tool;

/// One.
#[tool(side_effects = "none")]
fn one() -> i64 {
    1
}

fn main() {
    one();
}
