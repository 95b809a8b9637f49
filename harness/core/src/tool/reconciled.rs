//! Whether a call happened that had started in a process which is gone.

use std::pin::Pin;

use serde::{Deserialize, Serialize};

use super::{ToolError, ToolOutput};

/// The future that finds out whether a call happened.
pub type ReconcileFuture = Pin<Box<dyn Future<Output = Result<Reconciled, ToolError>> + Send>>;

/// Whether a call happened that had started in a process which is gone: see [`#[tool(reconcile =
/// ..)]`](macro@crate::tool). `T` is the type that the tool returns.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reconciled<T = ToolOutput> {
    /// The call happened, and this is its result.
    Happened(T),
    /// Nothing of the call has happened, so it can run now.
    NotHappened,
}

/// Why a tool failed to find out whether a call happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReconcileFault {
    /// The tool returned an error.
    Failed,
    /// The tool panicked.
    Panicked,
    /// The tool took too long.
    TimedOut,
    /// The arguments of the call do not fit the tool as it is now, so the tool was not asked.
    Arguments,
}

/// Why it is unknown whether a call happened although its tool was asked: the kind of the failure, and its text,
/// from which secrets have not been removed.
pub type ReconcileFailure = (ReconcileFault, String);
