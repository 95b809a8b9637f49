//! Plain functions become tools that a language model calls, and an agent runs them so that it
//! can be trusted.
#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "no panic is reachable from a model, a server, a file or a user"
)]

extern crate self as harness;

#[doc(hidden)]
pub mod __private;
pub mod error;
pub mod message;
pub mod provider;
pub mod tool;
#[cfg(feature = "toolbox")]
pub mod toolbox;

pub use harness_macros::{tool, tools, toolset};

pub use crate::{
    error::{Error, ErrorKind},
    message::{
        Block, CallOutcome, Image, Message, ReasoningBlock, Role, TextBlock, ToolCall, ToolContent,
        ToolResult, Transcript,
    },
    provider::{Provider, StopReason, StreamEvent, Usage},
    tool::{
        CancellationToken, Progress, SideEffect, SideEffects, State, Tool, ToolContext, ToolDef,
        ToolError, ToolOutput, ToolRegistry,
    },
};

/// Its name is the message: it is part of what rustc says when `#[tool]` stands on a function of
/// an `impl` block that has no `#[toolset]`.
#[doc(hidden)]
#[macro_export]
macro_rules! methods_need_toolset_on_the_impl_block {
    ($($items:tt)*) => { $($items)* };
}

/// Adds a tool to those of the program, if the feature `collect` is on.
#[doc(hidden)]
#[macro_export]
macro_rules! __collect {
    ($tool:ident) => {};
}
