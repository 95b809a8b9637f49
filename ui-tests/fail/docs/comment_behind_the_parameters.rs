//! Comments behind the parameters and not above them: each describes the next one, and the last describes nothing.

use harness::{tool, toolset};

/// Lists files.
#[tool(side_effects = "read")]
fn list(
    path: String, /// Path of the folder
    limit: u8, /// How many
) -> usize { path.len().min(limit.into()) }

struct Files;
#[toolset]
impl Files {
    /// Lists files.
    #[tool(side_effects = "read")]
    fn list(
        &self,
        limit: u8, /// How many
    ) -> u8 { limit }
}

fn main() { let _ = list(String::new(), 1); }
