//! A tool that is one only sometimes, and whose attribute the block cannot see.

use harness::toolset;

struct Notes;
#[toolset]
impl Notes {
    /// Reads.
    #[cfg_attr(all(), tool(side_effects = "read"))]
    fn read(&self) -> i64 { 3 }
    /// Lists.
    #[cfg_attr(any(), allow(unused), harness::tool(side_effects = "read"))]
    fn list(&self) -> i64 { 3 }
}
fn tools() { let _ = std::sync::Arc::new(Notes).tools(); }

fn main() { tools(); }
