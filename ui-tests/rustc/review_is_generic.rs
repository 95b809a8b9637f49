//! A review of which only a part is named.
//!
//! - at `each_host`: consider specifying the generic argument

use harness::{message::Arguments, tool, tool::Review};

fn each_host<T>(_: &Arguments) -> Review { Review::pass() }
/// Reads a page.
#[tool(side_effects = "network", review = each_host)]
fn fetch() -> String { String::new() }

fn main() {}
