//! What can be done: tools, what they declare, what they are given, what they hand over, and the
//! registry that calls them.

pub(crate) mod call;
mod cap;
#[cfg(feature = "collect")]
pub(crate) mod collect;
mod context;
pub(crate) mod def;
mod dispatch;
mod error;
mod fault;
mod finite;
pub(crate) mod json;
mod keys;
mod limits;
pub(crate) mod literal;
mod nearest;
mod output;
pub(crate) mod param;
pub(crate) mod range;
mod registry;
pub(crate) mod returned;
mod schema;
mod side_effects;
mod strict;
#[expect(clippy::module_inception, reason = "the file is named after the one type in it")]
mod tool;
mod validate;

pub(crate) use self::{cap::cut, dispatch::GRACE};
pub use tokio_util::sync::CancellationToken;

#[cfg(feature = "collect")]
pub use self::collect::collected_tools;
pub use self::{
    context::{Progress, State, ToolContext},
    def::ToolDef,
    error::{ToolError, ToolFailure},
    limits::ToolLimits,
    output::ToolOutput,
    registry::ToolRegistry,
    schema::ToolSchema,
    side_effects::{SideEffect, SideEffects},
    strict::NotStrict,
    tool::{Tool, ToolFuture},
};
