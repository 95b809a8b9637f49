//! A map whose keys are no strings.

use harness::tool;

use std::collections::HashMap;
/// Plots.
#[tool(side_effects = "none")]
fn plot(/// Points
        points: HashMap<(i32, i32), String>) -> usize { points.len() }

fn main() {}
