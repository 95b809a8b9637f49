//! The parameter may be described in the file, which is only known to rustc.

use harness::tool;

#[doc = include_str!("described_in_a_file.rs")]
#[tool(side_effects = "read")]
fn find(path: String) -> usize { path.len() }

fn main() {}
