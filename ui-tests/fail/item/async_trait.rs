//! The attribute for traits, on a function and on a toolset.

use harness::{tool, toolset};

/// Waits.
#[tool(side_effects = "none")]
#[async_trait::async_trait]
async fn wait() -> u8 { 1 }

struct Waiter;
#[toolset]
#[async_trait]
impl Waiter {
    /// Waits.
    #[tool(side_effects = "none")]
    async fn wait(&self) -> u8 { 1 }
}

fn main() {}
