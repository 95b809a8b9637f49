//! Time limits in other spellings: what is proposed is one.

use harness::tool;

/// Does it.
#[tool(side_effects = "none", timeout = "0,5s")]
fn decimal_comma() {}

/// Does it.
#[tool(side_effects = "none", timeout = ".5s")]
fn leading_point() {}

/// Does it.
#[tool(side_effects = "none", timeout = "1_500ms")]
fn thousands() {}

/// Does it.
#[tool(side_effects = "none", timeout = "1,500ms")]
fn thousands_by_comma() {}

/// Does it.
#[tool(side_effects = "none", timeout = "+5s")]
fn plus() {}

/// Does it.
#[tool(side_effects = "none", timeout = "1h,30m")]
fn two_limits() {}

/// Does it.
#[tool(side_effects = "none", timeout = "1h 30")]
fn last_without_unit() {}

/// Does it.
#[tool(side_effects = "none", timeout = "30 seconds")]
fn spelled_out() {}

/// Does it.
#[tool(side_effects = "none", timeout = "10S")]
fn capital() {}

/// Does it.
#[tool(side_effects = "none", timeout = "1:30")]
fn clock() {}

/// Does it.
#[tool(side_effects = "none", timeout = "1.2.3s")]
fn two_points() {}

/// Does it.
#[tool(side_effects = "none", timeout = "5 ms.")]
fn point_at_the_end() {}

fn main() {}
