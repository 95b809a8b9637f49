//! The tools of a value in a list, and one of its methods.

use std::sync::Arc;

use harness::{tools, toolset};

struct Notes;
#[toolset]
impl Notes {
    /// Reads.
    #[tool(side_effects = "read")]
    fn read(&self) -> i64 { 3 }
}
fn list(notes: &Arc<Notes>) -> Vec<harness::Tool> { tools![notes.tools()] }
fn one(notes: &Arc<Notes>) -> Vec<harness::Tool> { tools![notes.read] }

fn main() { let _ = (list, one); }
