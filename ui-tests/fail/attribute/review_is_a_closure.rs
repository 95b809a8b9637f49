//! A review that has no name.

use harness::{message::Arguments, tool, tool::Review};

fn each_host(_: &Arguments) -> Review { Review::pass() }

/// Reads a page.
#[tool(side_effects = "network", review = |_| Review::pass())]
fn fetch() -> String { String::new() }

fn main() { each_host(&Arguments::default()); }
