//! Agents in calls of other agents.

mod budget_trees;
mod children;
mod children_cut_off;
mod children_denied;
mod children_durable;
mod children_misused;
mod children_renewed;
mod children_stops;

use harness_test_support::{kept, probe, times};
