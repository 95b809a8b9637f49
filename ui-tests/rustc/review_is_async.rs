//! A review that waits.
//!
//! - at `each_host`: it is not `async`: it may block

use harness::{message::Arguments, tool, tool::Review};

async fn each_host(_: &Arguments) -> Review { Review::pass() }
/// Reads a page.
#[tool(side_effects = "network", review = each_host)]
fn fetch() -> String { String::new() }

fn main() {}
