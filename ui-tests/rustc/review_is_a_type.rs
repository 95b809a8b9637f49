//! A type in place of a review.
//!
//! - at `Review`: expected value, found struct `Review`

use harness::{message::Arguments, tool, tool::Review};

fn each_host(_: &Arguments) -> Review { Review::pass() }
/// Reads a page.
#[tool(side_effects = "network", review = Review)]
fn fetch() -> String { String::new() }

fn main() {}
