//! A comment and an attribute on what the model never sees.

use harness::toolset;

struct Notes;
#[toolset]
impl Notes {
    /// Reads.
    #[tool(side_effects = "read")]
    fn read(/// The notes
            &self) -> i64 { 3 }
    /// Lists.
    #[tool(side_effects = "read")]
    fn list(#[param(default = 3)] &self) -> i64 { 3 }
}

fn main() { let _ = std::sync::Arc::new(Notes).tools(); }
