//! A review that is not there.
//!
//! - at `each_host`: cannot find value `each_host`

use harness::{message::Arguments, tool, tool::Review};

fn another(_: &Arguments) -> Review { Review::pass() }
/// Reads a page.
#[tool(side_effects = "network", review = each_host)]
fn fetch() -> String { String::new() }

fn main() {}
