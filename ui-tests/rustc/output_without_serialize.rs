//! A return type that is not serialisable.
//!
//! - at `Report`: `Report` cannot be returned from a tool

use harness::tool;

struct Report { text: String }
/// Reports.
#[tool(side_effects = "none")]
fn report() -> Report { Report { text: String::new() } }

fn main() {}
