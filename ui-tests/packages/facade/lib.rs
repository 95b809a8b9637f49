//! A crate that hands `harness` on.

pub use harness;
pub use harness::{Tool, ToolContext, tool, tools, toolset};
