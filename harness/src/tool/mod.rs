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
pub(crate) mod review;
mod schema;
mod search;
mod side_effects;
mod strict;
mod threads;
#[expect(clippy::module_inception, reason = "the file is named after the one type in it")]
mod tool;
mod validate;

pub(crate) use self::{
    dispatch::{GRACE, RUNS_ON},
    threads::{CallIdentity, LateEnd, ended_in, equal_still_running, runs_on, still_running_in},
};
pub use tokio_util::sync::CancellationToken;

#[cfg(feature = "collect")]
pub use self::collect::collected_tools;
pub(crate) use self::review::Reviewed;
pub use self::{
    context::{Progress, State, ToolContext},
    def::ToolDef,
    error::{ToolError, ToolFailure},
    limits::ToolLimits,
    output::ToolOutput,
    registry::ToolRegistry,
    review::{Preview, Review, Scope},
    schema::ToolSchema,
    side_effects::{SideEffect, SideEffects},
    strict::NotStrict,
    threads::{StillRunning, still_running},
    tool::{Tool, ToolFuture},
};
