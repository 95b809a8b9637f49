//! On an impl block, which survives.

use harness::tool;

struct Files;
#[tool(side_effects = "read")]
impl Files { fn read(&self) -> String { String::new() } }
fn f(f: Files) -> String { f.read() }

fn main() {}
