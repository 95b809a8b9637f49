//! Calls of tools: which may run, who decides, how many at once and in which order, and which limits end a run.

mod approvals;
mod at_once;
mod batches;
mod budgets;
mod call_resolutions;
mod data_flow;
mod guard;
mod limits;
mod order;
mod permits;
mod side_effects;

use harness_test_support::{approvers, door, kept, probe, times};
