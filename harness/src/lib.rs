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

pub mod error;
pub mod message;
pub mod provider;
pub mod tool;
#[cfg(feature = "toolbox")]
pub mod toolbox;

pub use crate::{
    error::{Error, ErrorKind},
    message::{
        Block, CallOutcome, Image, Message, ReasoningBlock, Role, TextBlock, ToolCall, ToolContent,
        ToolResult, Transcript,
    },
    provider::{Provider, StopReason, StreamEvent, Usage},
    tool::{
        CancellationToken, Progress, SideEffect, SideEffects, State, Tool, ToolContext, ToolError,
        ToolOutput, ToolRegistry,
    },
};
