//! A review that takes the text.
//!
//! - at `each_host`: this is not a `fn(&Arguments) -> Review`

use harness::{tool, tool::Review};

fn each_host(_: &str) -> Review { Review::pass() }
/// Reads a page.
#[tool(side_effects = "network", review = each_host)]
fn fetch() -> String { String::new() }

fn main() {}
