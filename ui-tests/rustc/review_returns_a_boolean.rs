//! A review that returns something else.
//!
//! - at `each_host`: a review is an ordinary function that takes the decoded arguments

use harness::{message::Arguments, tool};

fn each_host(_: &Arguments) -> bool { true }
/// Reads a page.
#[tool(side_effects = "network", review = each_host)]
fn fetch() -> String { String::new() }

fn main() {}
