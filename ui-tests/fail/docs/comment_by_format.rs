//! A comment that is made while the program runs, and a constant: rustc refuses both.

use harness::tool;

#[doc = format!("Finds {}.", "text")]
#[tool(side_effects = "read")]
fn find() -> usize { 0 }

const ABOUT: &str = "Finds text.";
#[doc = ABOUT]
#[tool(side_effects = "read")]
fn find_again() -> usize { find() }

fn main() {}
