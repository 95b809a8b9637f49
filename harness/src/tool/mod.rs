//! What can be done: tools, what they declare, what they are given, what they hand over, and the
//! registry that calls them.

mod cap;
mod context;
mod dispatch;
mod error;
mod limits;
mod output;
mod registry;
mod schema;
mod side_effects;
#[expect(clippy::module_inception, reason = "the file is named after the one type in it")]
mod tool;

pub(crate) use self::cap::cut;
pub use tokio_util::sync::CancellationToken;

pub use self::{
    context::{Progress, State, ToolContext},
    error::{ToolError, ToolFailure},
    limits::ToolLimits,
    output::ToolOutput,
    registry::ToolRegistry,
    schema::ToolSchema,
    side_effects::{SideEffect, SideEffects},
    tool::{Tool, ToolFuture},
};
