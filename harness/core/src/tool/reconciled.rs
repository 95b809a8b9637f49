//! The result of finding out whether a call from an earlier process has happened.

use std::pin::Pin;

use serde::{Deserialize, Serialize};

use super::{ToolError, ToolOutput};

/// The future that finds out whether a call happened.
pub type ReconcileFuture = Pin<Box<dyn Future<Output = Result<Reconciled, ToolError>> + Send>>;

/// Whether a call from an earlier process has happened: see [`#[tool(reconcile = ..)]`](macro@crate::tool). `T` is the
/// return type of the tool.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reconciled<T = ToolOutput> {
    /// The call happened. Contains its result.
    Happened(T),
    /// Nothing of the call has happened, so the call can run now.
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
    /// The arguments of the call do not fit the current tool, so the tool's reconcile function was not called.
    Arguments,
}

/// Why it is still unknown whether a call happened: the kind of the failure, and its text. Secrets have not been
/// removed from the text.
pub type ReconcileFailure = (ReconcileFault, String);
