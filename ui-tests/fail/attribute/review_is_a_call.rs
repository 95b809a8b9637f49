//! A review that is called where it is named.

use harness::{message::Arguments, tool, tool::Review};

fn each_host(_: &Arguments) -> Review { Review::pass() }

/// Reads a page.
#[tool(side_effects = "network", review = each_host())]
fn fetch() -> String { String::new() }

fn main() { each_host(&Arguments::default()); }
