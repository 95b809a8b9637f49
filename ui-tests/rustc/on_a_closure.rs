//! On a closure.
//!
//! - at `#[tool(side_effects = "none")]`: custom attributes cannot be applied to statements
//! - at `let`: not on a `let` statement

use harness::tool;

fn f() {
    #[tool(side_effects = "none")]
    let _add = |a: i64, b: i64| a + b;
}

fn main() {}
