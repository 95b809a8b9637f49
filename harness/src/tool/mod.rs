//! Tools: what they declare, what they are given when they run, what they return, and the registry that calls them.

mod asking;
mod cap;
#[cfg(feature = "collect")]
pub(crate) mod collect;
mod context;
mod def;
mod definition;
mod dispatch;
mod error;
pub(crate) mod expand;
mod limits;
mod output;
mod places;
mod registry;
pub(crate) mod review;
mod search;
mod shrink;
mod side_effects;
mod spill;
mod state;
mod threads;
mod title;
#[expect(clippy::module_inception, reason = "the file is named after the one type in it")]
mod tool;

pub(crate) use self::{
    asking::{Asked, Asking},
    dispatch::{Dispatched, Found, GRACE, RUNS_ON},
    places::{Place, Places},
    search::{FEW_TOOLS, TOOL_SEARCH},
    spill::{
        COPIED, Folder, LEFT_OUT, NOT_KEPT, READ_RESULT, SpillFuture, SpillStore, Spills,
        WithArguments, name_of_arguments,
    },
    state::{StateType, Values},
    threads::{
        CallIdentity, LateEnd, ended_in, equal_still_running, runs_on, still_running_in, was_told,
    },
    tool::{Unfound, fault_of_name},
};
pub use tokio_util::sync::CancellationToken;

pub(crate) use self::cap::cut;
#[cfg(feature = "collect")]
pub use self::collect::collected_tools;
pub use self::{
    context::{Answered, Progress, ToolContext, ToolInfo},
    def::ToolDef,
    error::{Asks, ToolError, ToolFailure},
    limits::ToolLimits,
    output::ToolOutput,
    registry::{ToolList, ToolRegistry},
    review::{Preview, Review, Reviewed, Scope},
    search::ToolSearch,
    side_effects::{SideEffect, SideEffects},
    state::State,
    threads::{StillRunning, still_running},
    tool::{ReconcileFault, ReconcileFuture, Reconciled, Tool, ToolFuture},
};
#[doc = include_str!("../../guide/strict.md")]
#[doc(inline)]
pub use harness_schema::StrictForm;
#[doc = include_str!("../../guide/schema.md")]
#[doc(inline)]
pub use harness_schema::ToolSchema;
#[doc(inline)]
pub use harness_schema::{NotStrict, Unchecked};
