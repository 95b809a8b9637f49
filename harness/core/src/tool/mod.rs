//! Tools: their declarations, the context of a running call, results, and the registry that runs calls.

#[cfg(feature = "collect")]
#[doc(hidden)]
pub mod collect;
mod concurrency_limit;
mod context;
mod def;
mod definition;
mod detached_threads;
mod dispatch;
mod error;
pub(crate) mod expand;
mod human_wait;
mod large_results;
mod limits;
mod off_loop;
mod output;
mod reconciled;
mod registry;
#[doc(hidden)]
pub mod review;
mod search;
mod shrink;
mod side_effects;
mod state;
mod title;
#[expect(clippy::module_inception, reason = "the file is named after the one type in it")]
mod tool;
mod truncate;

#[doc(hidden)]
pub use self::{
    concurrency_limit::{ConcurrencyLimit, ConcurrencyPermit},
    detached_threads::{
        CallIdentity, LateEnd, ended_in, equal_still_running, is_still_running, mark_reported,
        still_running_in,
    },
    dispatch::{RUNS_ON, ReconcileOutcome},
    human_wait::{HumanWait, HumanWaitGuard},
    large_results::{
        COPIED, LargeResults, READ_RESULT, SpillFolder, SpillFuture, SpillStore, WithArguments,
    },
    reconciled::ReconcileFailure,
    search::{FEW_TOOLS, TOOL_SEARCH},
    state::StateType,
};
pub use self::{
    dispatch::{DispatchOutcome, GRACE},
    state::SharedValues,
};
pub(crate) use self::{
    large_results::{LEFT_OUT, NOT_KEPT, name_of_arguments},
    tool::fault_of_name,
};
pub use tokio_util::sync::CancellationToken;

#[cfg(feature = "collect")]
pub use self::collect::collected_tools;
#[doc(hidden)]
pub use self::truncate::cut;
pub use self::{
    context::{Answered, Progress, ToolContext, ToolInfo},
    def::ToolDef,
    detached_threads::{StillRunning, still_running},
    error::{Asks, ToolError, ToolFailure},
    limits::ToolLimits,
    output::ToolOutput,
    reconciled::{ReconcileFault, ReconcileFuture, Reconciled},
    registry::{ToolList, ToolRegistry},
    review::{Preview, Review, Reviewed, Scope},
    search::ToolSearch,
    side_effects::{SideEffect, SideEffects},
    state::State,
    tool::{Tool, ToolFuture},
};
#[doc(inline)]
pub use harness_schema::StrictForm;
#[doc(inline)]
pub use harness_schema::ToolSchema;
#[doc(inline)]
pub use harness_schema::{NotStrict, Unchecked};
