//! All budgets that a run charges: its own budget first, then the budgets around it. Every amount counts in each
//! budget, and a limit of any budget stops the run.

use std::sync::{Arc, MutexGuard};

use super::{
    LimitReached,
    node::{BudgetNode, BudgetState},
    sum::Charge,
};
use crate::{
    journal::{LimitKind, LimitScope},
    models::Money,
};

/// The program gets a warning when this percentage of a limit is used.
const NEAR: u64 = 80;

pub(super) const NO_TOKENS: &str = "the provider does not say how many tokens it used";

pub(super) struct BudgetChain {
    /// The budgets of the run, of its conversation and of its agent, and then the budgets around them.
    nodes: Vec<Arc<BudgetNode>>,
    /// The indexes of `nodes` in the order in which several nodes are locked. All code uses this order, which prevents
    /// deadlocks.
    by_id: Vec<usize>,
}

/// A limit about which the program gets a warning, because the limit is nearly reached or cannot be enforced.
pub(super) struct NoticedLimit {
    pub(super) node: u64,
    pub(super) is_near: bool,
    pub(super) reached: LimitReached,
}

impl BudgetChain {
    pub(super) fn new(nodes: Vec<Arc<BudgetNode>>) -> Self {
        let id = |at: usize| nodes.get(at).map(|node| node.id);
        let mut by_id = Vec::with_capacity(nodes.len());
        for at in 0..nodes.len() {
            by_id.insert(by_id.partition_point(|other| id(*other) < id(at)), at);
        }
        Self { nodes, by_id }
    }

    /// The scope of `node` for this run: the run, its conversation, its agent, or an outer budget.
    fn scope(&self, node: &Arc<BudgetNode>) -> LimitScope {
        let own = self.nodes.iter().take(3).any(|own| Arc::ptr_eq(own, node));
        if own { node.scope } else { LimitScope::Outer }
    }

    /// Adds the cost of a fact to all budgets. `were_aside` is the number of the fact's calls that were already
    /// reserved.
    pub(super) fn charge(&self, charge: &Charge, were_aside: u32) {
        for node in &self.nodes {
            let mut state = node.lock();
            state.sum.add(charge);
            state.aside = state.aside.saturating_sub(were_aside);
        }
    }

    /// Marks a request to the run's model as in progress or as finished.
    pub(super) fn asking(&self, on_its_way: bool) {
        for (at, node) in self.nodes.iter().enumerate() {
            let mut state = node.lock();
            state.asking = match on_its_way {
                true => state.asking.saturating_add(1),
                false => state.asking.saturating_sub(1),
            };
            if let (0, Some(run)) = (at, &mut state.run) {
                run.asking = on_its_way;
            }
        }
    }

    /// Sets the number of turns of the run's own model.
    pub(super) fn turns(&self, turns: u32) {
        if let Some(node) = self.nodes.first()
            && let Some(run) = &mut node.lock().run
        {
            run.turns = turns;
        }
    }

    /// Reserves `calls` calls in every budget. If a budget has fewer than `needed` calls left, reserves none and
    /// returns the limit. `own` is the number of calls that this run has already reserved. These calls count as
    /// left.
    pub(super) fn set_aside(&self, calls: u32, needed: u32, own: u32) -> Result<(), LimitReached> {
        let mut held: Vec<(&Arc<BudgetNode>, MutexGuard<'_, BudgetState>)> = self
            .by_id
            .iter()
            .filter_map(|at| self.nodes.get(*at))
            .map(|node| (node, node.lock()))
            .collect();
        for (node, state) in &held {
            let Some(limit) = state.limits().calls() else { continue };
            let others = state.aside.saturating_sub(own);
            let left = limit.saturating_sub(state.sum.tool_calls.saturating_add(others));
            if needed > left {
                let detail =
                    format!("{needed} more were asked for, and {left} of {limit} were left");
                return Err(self.reached(node, LimitKind::ToolCalls, detail));
            }
        }
        for (_, state) in &mut held {
            state.aside = state.aside.saturating_add(calls);
        }
        Ok(())
    }

    /// Releases reserved calls that did not start.
    pub(super) fn give_back(&self, calls: u32) {
        for node in &self.nodes {
            let mut state = node.lock();
            state.aside = state.aside.saturating_sub(calls);
        }
    }

    /// The first limit of tokens or cost that is used up.
    pub(super) fn overspent(&self) -> Option<LimitReached> {
        self.nodes.iter().find_map(|node| {
            let state = node.lock();
            let (limits, sum) = (state.limits(), &state.sum);
            let tokens = [
                (LimitKind::InputTokens, sum.usage.input, limits.input()),
                (LimitKind::OutputTokens, sum.usage.output, limits.output()),
            ];
            for (limit, used, allowed) in tokens {
                // Unreported tokens count as zero. A limit of 0 is reached even by zero tokens.
                let used = used.unwrap_or(0);
                if let Some(allowed) = allowed.filter(|allowed| used >= *allowed) {
                    let detail = format!("{used} of {allowed} were used");
                    return Some(self.reached(node, limit, detail));
                }
            }
            let allowed = limits.money().map(Money::from_f64);
            if let Some(allowed) = allowed.filter(|allowed| sum.money >= *allowed) {
                // A price has no currency, so the text assumes US dollars.
                let detail = format!(
                    "{} of {allowed} was spent, in US dollars unless the prices are in another currency",
                    sum.money
                );
                return Some(self.reached(node, LimitKind::Cost, detail));
            }
            let why = sum.unknown.cost.as_deref().filter(|_| limits.can_refuse_unknown_cost())?;
            Some(self.reached(node, LimitKind::UnknownCost, why.to_owned()))
        })
    }

    /// The limit that refuses a model of unknown cost; `None` if no budget has such a limit.
    pub(super) fn limit_on_unknown_cost(&self, why: &str) -> Option<LimitReached> {
        let mut nodes = self.nodes.iter();
        let node = nodes.find(|node| node.lock().limits().can_refuse_unknown_cost())?;
        Some(self.reached(node, LimitKind::UnknownCost, why.to_owned()))
    }

    /// The limits that are nearly reached or cannot be enforced.
    pub(super) fn noticed(&self) -> Vec<NoticedLimit> {
        let mut noticed = Vec::new();
        for node in &self.nodes {
            let state = node.lock();
            let BudgetState { said, sum, .. } = &*state;
            let limits = state.limits();
            let whose = whose(self.scope(node), node.scope);
            let count = |used: Option<u64>, allowed: Option<u64>| {
                allowed.map(|allowed| percent(used.unwrap_or(0), allowed))
            };
            let money = limits.money().map(Money::from_f64);
            // A token limit that cannot be enforced causes a warning only if the program has set it. The default limit
            // causes no warning.
            let untold = |said: bool, unknown: bool| (said && unknown).then_some(NO_TOKENS);
            let unpriced = sum.unknown.cost.as_deref().filter(|_| money.is_some());
            let amounts = [
                (
                    LimitKind::ToolCalls,
                    count(Some(sum.tool_calls.into()), limits.calls().map(u64::from)),
                    None,
                ),
                (
                    LimitKind::InputTokens,
                    count(sum.usage.input, limits.input()),
                    untold(said.input().is_some(), sum.unknown.input),
                ),
                (
                    LimitKind::OutputTokens,
                    count(sum.usage.output, limits.output()),
                    untold(said.output().is_some(), sum.unknown.output),
                ),
                (
                    LimitKind::Cost,
                    money.map(|allowed| match sum.money == Money::NONE {
                        true => 0,
                        false => sum.money.percent_of(allowed).unwrap_or(100),
                    }),
                    unpriced,
                ),
            ];
            for (limit, percent, unknown) in amounts {
                let told = match (unknown, percent) {
                    (Some(why), _) => {
                        (false, format!("the limit of {limit}{whose} cannot be held: {why}"))
                    }
                    (None, Some(percent)) if percent >= NEAR => (true, near(limit, whose, percent)),
                    (None, Some(_) | None) => continue,
                };
                let (is_near, detail) = told;
                let reached = LimitReached { limit, scope: self.scope(node), detail };
                noticed.push(NoticedLimit { node: node.id, is_near, reached });
            }
        }
        noticed
    }

    fn reached(&self, node: &Arc<BudgetNode>, limit: LimitKind, detail: String) -> LimitReached {
        let scope = self.scope(node);
        let detail = match scope {
            LimitScope::Outer => format!("{detail}: the limit{}", whose(scope, node.scope)),
            LimitScope::Run | LimitScope::Conversation | LimitScope::Agent => detail,
        };
        LimitReached { limit, scope, detail }
    }
}

/// The used share of a limit, in percent. 0 if nothing is used, even if the limit is 0.
pub(super) fn percent(used: u64, allowed: u64) -> u64 {
    match used {
        0 => 0,
        used => used.saturating_mul(100).checked_div(allowed).unwrap_or(100),
    }
}

/// Whether this share of a limit, in percent, is large enough for a warning.
pub(super) fn is_near(percent: u64) -> bool {
    percent >= NEAR
}

/// The text of a warning that a limit is nearly reached.
pub(super) fn near(limit: LimitKind, whose: &str, percent: u64) -> String {
    format!("{percent} % of the limit of {limit}{whose} are used")
}

fn whose(scope: LimitScope, of: LimitScope) -> &'static str {
    match (scope, of) {
        (LimitScope::Run, _) => "",
        (LimitScope::Conversation, _) => " of the conversation",
        (LimitScope::Agent, _) => " of the agent",
        (LimitScope::Outer, LimitScope::Run) => " of the run that called this one",
        (LimitScope::Outer, LimitScope::Conversation) => {
            " of the conversation that called this run"
        }
        (LimitScope::Outer, LimitScope::Agent) => " of the agent that called this run",
        (LimitScope::Outer, LimitScope::Outer) => " of a budget that this run stands within",
    }
}
