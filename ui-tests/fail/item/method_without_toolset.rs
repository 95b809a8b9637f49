//! A method outside of a toolset.

use harness::tool;

struct Files;
impl Files {
    /// Reads.
    #[tool(side_effects = "read")]
    fn read(&self, /// Path of the file
            path: String) -> String { path }
}

fn main() {}
