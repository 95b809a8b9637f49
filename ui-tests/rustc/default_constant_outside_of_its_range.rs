//! Defaults and ranges that are constants.
//!
//! - at `LOW..=1`: the range LOW..=1 is empty
//! - at `LOW..5`: the range LOW..5 is empty
//! - at `3`: the default of `c` is outside of its range LOW..=HIGH
//! - at `LOW`: the default of `d` is outside of its range 1..=3
//! - at `0`: the default of `e` is outside of its range SHARE..1
//! - at `HIGH`: the default of `f` is outside of its range LOW..HIGH

use harness::tool;

const LOW: i64 = 5;
const HIGH: i64 = 9;
const SHARE: f64 = 0.5;
/// Does it.
#[tool(side_effects = "none")]
fn f(/// A
 #[param(range(LOW..=1))] a: i64, /// B
 #[param(range(LOW..5))] b: i64, /// C
 #[param(range(LOW..=HIGH), default = 3)] c: i64, /// D
 #[param(range(1..=3), default = LOW)] d: i64, /// E
 #[param(range(SHARE..1), default = 0)] e: f64, /// F
 #[param(range(LOW..HIGH), default = HIGH)] f: i64) -> f64 {
    (a + b + c + d + f) as f64 + e
}

fn main() {}
