//! One budget of a tree: its limits, what was spent below it, and what it stands within.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use tokio::time::Instant;

use super::{Guardrails, Limits, sum::Sum};
use crate::journal::LimitScope;

pub(super) struct Node {
    /// In the order in which they were made. Whoever holds several at once takes them in this
    /// order.
    pub(super) id: u64,
    pub(super) scope: LimitScope,
    state: Mutex<State>,
}

pub(super) struct State {
    /// What the program has set.
    pub(super) said: Limits,
    /// What holds: of a run also what nobody has set.
    pub(super) limits: Limits,
    /// All that it stands within, each once, the nearest first.
    pub(super) above: Vec<Arc<Node>>,
    pub(super) sum: Sum,
    /// Calls that are set aside and have not started.
    pub(super) aside: u32,
    /// Requests that are on their way, here and below.
    pub(super) asking: u32,
    pub(super) run: Option<RunPart>,
}

/// What only the budget of a run has.
pub(super) struct RunPart {
    pub(super) rails: Arc<Guardrails>,
    /// Answers of its own model.
    pub(super) turns: u32,
    /// Whether its own model is being asked.
    pub(super) asking: bool,
    pub(super) ends: Option<Instant>,
}

impl RunPart {
    pub(super) fn new(rails: Arc<Guardrails>) -> Self {
        Self { rails, turns: 0, asking: false, ends: None }
    }
}

impl Node {
    pub(super) fn new(scope: LimitScope, said: Limits, run: Option<RunPart>) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut state = State {
            said: Limits::new(),
            limits: Limits::new(),
            above: Vec::new(),
            sum: Sum::default(),
            aside: 0,
            asking: 0,
            run,
        };
        state.limit(&said);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { id, scope, state: Mutex::new(state) })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Sets limits; what they leave open stays as it was.
    pub(super) fn limit(&mut self, limits: &Limits) {
        self.said = limits.over(&self.said);
        self.limits = match self.run {
            Some(_) => self.said.over(&Limits::of_a_run()),
            None => self.said.clone(),
        };
    }

    pub(super) fn stands_within(&self, node: &Arc<Node>) -> bool {
        self.above.iter().any(|above| Arc::ptr_eq(above, node))
    }
}
