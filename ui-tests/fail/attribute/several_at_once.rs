//! Several mistakes, all reported.

use harness::tool;

#[tool(side_effects = "raed", nmae = "x")]
fn read_file(path: String) -> String { path }

fn main() {}
