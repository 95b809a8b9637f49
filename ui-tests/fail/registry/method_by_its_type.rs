//! A method in a list, by its type.

use harness::{tools, toolset};

struct Notes;
#[toolset]
impl Notes {
    /// Reads.
    #[tool(side_effects = "read")]
    fn read(&self) -> i64 { 3 }
}
fn list() -> Vec<harness::Tool> { tools![Notes::read] }

fn main() { let _ = list(); }
