//! The limits of a run: what it may spend, and how often it may repeat itself. The guard that enforces the limits is
//! a fold over all facts of the run, so no spending is missed.

mod budget;
mod budget_limits;
#[expect(clippy::module_inception, reason = "the file is named after the one type in it")]
mod guard;
mod guardrails;
mod limits;
mod node;
mod repeats;
mod sum;

pub use self::{
    budget::{Budget, BudgetRemaining, BudgetUsage},
    guard::LimitReached,
    guardrails::Guardrails,
    limits::Limits,
};
#[doc(hidden)]
pub use self::{
    guard::{LimitWarning, RunGuard},
    sum::{AgentSums, rest_of, unknown_spent},
};
