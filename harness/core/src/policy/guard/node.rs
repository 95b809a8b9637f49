//! The state of a budget: its limits, what was spent within it, and the budgets around it.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use tokio::time::Instant;

use super::{Guardrails, Limits, sum::Charge};
use crate::journal::LimitScope;

pub(super) struct BudgetNode {
    /// The number of this node in the order of creation. Code that locks several nodes locks them in this order, so
    /// that no deadlock is possible.
    pub(super) id: u64,
    pub(super) scope: LimitScope,
    state: Mutex<BudgetState>,
}

pub(super) struct BudgetState {
    /// The limits that the program has set for this budget.
    pub(super) said: Limits,
    /// All outer budgets of this budget without duplicates, the nearest first.
    pub(super) above: Vec<Arc<BudgetNode>>,
    pub(super) sum: Charge,
    /// The number of calls that are reserved and have not started.
    pub(super) aside: u32,
    /// The number of requests in progress, of this budget and of all budgets within it.
    pub(super) asking: u32,
    pub(super) run: Option<RunPart>,
}

/// The state that only the budget of a run has.
pub(super) struct RunPart {
    pub(super) rails: Arc<Guardrails>,
    /// The number of turns of the run's own model.
    pub(super) turns: u32,
    /// Whether a request to the run's own model is in progress.
    pub(super) asking: bool,
    pub(super) ends: Option<Instant>,
}

impl RunPart {
    pub(super) fn new(rails: Arc<Guardrails>) -> Self {
        Self { rails, turns: 0, asking: false, ends: None }
    }
}

impl BudgetNode {
    pub(super) fn new(scope: LimitScope, said: Limits, run: Option<RunPart>) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let state = BudgetState {
            said,
            above: Vec::new(),
            sum: Charge::default(),
            aside: 0,
            asking: 0,
            run,
        };
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { id, scope, state: Mutex::new(state) })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, BudgetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BudgetState {
    /// Sets limits. Limits that `limits` leaves open keep their values.
    pub(super) fn limit(&mut self, limits: &Limits) {
        self.said = limits.over(&self.said);
    }

    /// The limits that apply. For a run, they include the defaults.
    pub(super) fn limits(&self) -> Limits {
        match self.run {
            Some(_) => self.said.over(&Limits::of_a_run()),
            None => self.said.clone(),
        }
    }

    pub(super) fn is_within(&self, node: &Arc<BudgetNode>) -> bool {
        self.above.iter().any(|above| Arc::ptr_eq(above, node))
    }
}
