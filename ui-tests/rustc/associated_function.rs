//! An associated function outside of a toolset.
//!
//! - at `#[tool(side_effects = "read")]`: methods_need_toolset_on_the_impl_block

use harness::tool;

struct Files;
impl Files {
    /// Reads.
    #[tool(side_effects = "read")]
    fn read(/// Path of the file
            path: String) -> String { path }
}

fn main() {}
