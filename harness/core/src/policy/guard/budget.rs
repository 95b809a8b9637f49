//! Budgets: what was spent and what is left, for the program, for watchers and for tools.

use std::{fmt, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{
    Guardrails, Limits,
    budget_limits::BudgetChain,
    node::{BudgetNode, BudgetState, RunPart},
    sum::Charge,
};
use crate::{
    error::Error,
    journal::{CallSpent, LimitScope},
    models::Money,
    provider::Usage,
};

/// The amounts that were spent so far. The default has nothing, and does not know whether that is all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BudgetUsage {
    /// The number of turns: answers of a model, including those that broke off, and requests in progress. A run that is
    /// reopened after its process ended counts one more turn.
    pub turns: u32,
    /// The number of calls that have started.
    pub tool_calls: u32,
    /// The known number of tokens.
    pub usage: Usage,
    /// Whether the token counts are complete. `false` if an answer broke off or did not report its tokens: `usage` is
    /// then a lower bound.
    pub usage_is_whole: bool,
    /// The cost, in the currency of the prices; `None` if an answer broke off, did not report its tokens, or came
    /// from a model without a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// The cost of all tokens whose number and price are known. A cost limit applies to this amount.
    pub known_cost: f64,
}

impl BudgetUsage {
    /// Nothing was spent, and that is all.
    #[doc(hidden)]
    pub fn nothing() -> Self {
        Self { usage_is_whole: true, cost: Some(0.0), ..Self::default() }
    }

    /// The sum of both. An amount that is unknown in one of them is unknown.
    #[doc(hidden)]
    #[must_use]
    pub fn plus(&self, later: &Self) -> Self {
        let mut usage = self.usage;
        usage.add(&later.usage);
        Self {
            turns: self.turns.saturating_add(later.turns),
            tool_calls: self.tool_calls.saturating_add(later.tool_calls),
            usage,
            usage_is_whole: self.usage_is_whole && later.usage_is_whole,
            cost: self.cost.zip(later.cost).map(|(one, other)| one + other),
            known_cost: self.known_cost + later.known_cost,
        }
    }
}

/// What is left of all limits that apply. A field is `None` if there is no limit. A field for tokens or cost is also
/// `None` if the amount spent so far is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BudgetRemaining {
    /// How many more requests this run may send to the model.
    pub turns: Option<u32>,
    /// The number of calls that may still start.
    pub tool_calls: Option<u32>,
    /// The number of tokens that may still be sent.
    pub input_tokens: Option<u64>,
    /// The number of tokens that models may still generate.
    pub output_tokens: Option<u64>,
    /// The cost that may still be incurred.
    pub cost: Option<f64>,
    /// The time that this run may still take.
    pub time: Option<Duration>,
}

/// Writes what is left as text for a person or a model, such as `12 turns, 80 tool calls, 240s`.
impl fmt::Display for BudgetRemaining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { turns, tool_calls, input_tokens, output_tokens, cost, time } = self;
        let told = [
            turns.map(|left| format!("{left} turns")),
            tool_calls.map(|left| format!("{left} tool calls")),
            input_tokens.map(|left| format!("{left} input tokens")),
            output_tokens.map(|left| format!("{left} output tokens")),
            cost.map(|left| format!("{left:.4} of the cost")),
            time.map(|left| format!("{left:.0?}")),
        ];
        let told: Vec<String> = told.into_iter().flatten().collect();
        f.write_str(&if told.is_empty() { "no limit".to_owned() } else { told.join(", ") })
    }
}

/// What was spent and what is left, as of now. A run, a conversation and an agent have a budget each. A program can
/// also create a budget, for all runs that it starts `within` this budget. A clone is the same budget.
///
/// Budgets are nested: a run's budget is within its conversation's budget, and a conversation's budget is within its
/// agent's budget. Every amount counts in all these budgets at once. If a run is `within` another budget, its amounts
/// count in that budget, too. If a call runs an agent, that agent's tokens, calls and cost count in all these budgets,
/// however the agent's run ends. A tool reads what is left from the budget of its run, by a parameter `State<Budget>`.
///
/// If several agents run at the same time within one limit, each agent checks the limit before its requests and before
/// its calls. No request starts once the limit is reached, but requests in progress are answered. So tokens and cost
/// can exceed a limit by one answer of each agent. Calls cannot exceed a limit, because they are reserved before they
/// start.
#[derive(Clone)]
pub struct Budget(Arc<BudgetNode>);

impl Budget {
    /// Creates a budget for the runs that the program starts `within` this budget. For example, the budget can limit
    /// all runs for one customer, whichever agents do the work.
    ///
    /// ```
    /// use harness::{Agent, Limits, Outcome, journal::LimitKind, policy::Budget, testing::{ScriptedProvider, reply}};
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let model = ScriptedProvider::answering(|_| reply().text("Yes.").tokens(600, 1));
    /// let agent = Agent::builder(model).build()?;
    /// let customer = Budget::new(Limits::new().input_tokens(1_000));
    /// agent.run("One?").within(&customer).await?;
    /// agent.run("Two?").within(&customer).await?;
    /// let stopped = agent.run("Three?").within(&customer).await.unwrap_err();
    /// assert_eq!(stopped.outcome(), Outcome::Limit(LimitKind::InputTokens));
    /// assert_eq!(customer.spent().usage.input, Some(1_200));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(limits: Limits) -> Self {
        Self::made(LimitScope::Outer, limits, None)
    }

    /// Creates the budget of an agent.
    #[doc(hidden)]
    pub fn of_agent(limits: Limits) -> Self {
        Self::made(LimitScope::Agent, limits, None)
    }

    /// Creates the budget of a conversation. At first, the budget is not within the agent's budget. So amounts that
    /// earlier processes spent are not charged to the agent's budget of this process.
    #[doc(hidden)]
    pub fn of_conversation() -> Self {
        Self::made(LimitScope::Conversation, Limits::new(), None)
    }

    /// Fails if the cost limit of this budget, or of a budget around it, is below 0 or not a number.
    #[doc(hidden)]
    pub fn check(&self) -> Result<(), Error> {
        self.nodes().iter().try_for_each(|node| node.lock().limits().check())
    }

    /// The limits of this budget, without the limits of outer budgets.
    pub(super) fn limits(&self) -> Limits {
        self.0.lock().limits()
    }

    /// Creates the budget of a run with these limits in this conversation.
    #[doc(hidden)]
    pub fn of_run(conversation: &Self, limits: Limits, rails: Arc<Guardrails>) -> Self {
        let run = RunPart::new(rails);
        let budget = Self::made(LimitScope::Run, limits, Some(run));
        budget.within(conversation);
        budget
    }

    /// Creates a budget within `outer`. For all agents that a call runs, `outer` is the budget of the run. For one of
    /// these agents, `outer` is the budget of all these agents.
    #[doc(hidden)]
    pub fn of_agents(outer: &Self) -> Self {
        let budget = Self::made(LimitScope::Outer, Limits::new(), None);
        budget.within(outer);
        budget
    }

    /// What was spent so far, as plain data; `None` if nothing was spent.
    #[doc(hidden)]
    pub fn call_spent(&self) -> Option<Box<CallSpent>> {
        self.0.lock().sum.beyond(&CallSpent::default())
    }

    /// Charges an amount that agents spent in an earlier process. The amount counts in this budget and in all budgets
    /// around it.
    #[doc(hidden)]
    pub fn charge_agents(&self, spent: &CallSpent) {
        self.start_run().charge(&Charge::of_agents(spent), 0);
    }

    /// Creates a budget for a run that starts over. The new budget is within the same outer budgets as this budget.
    #[doc(hidden)]
    pub fn anew(&self, limits: Limits, rails: Arc<Guardrails>) -> Self {
        let budget = Self::made(LimitScope::Run, limits, Some(RunPart::new(rails)));
        let above = self.0.lock().above.clone();
        budget.0.lock().above = above;
        budget
    }

    fn made(scope: LimitScope, said: Limits, run: Option<RunPart>) -> Self {
        Self(BudgetNode::new(scope, said, run))
    }

    /// What was spent so far within this budget, also by agents that calls run.
    pub fn spent(&self) -> BudgetUsage {
        let state = self.0.lock();
        let spent = state.sum.spent();
        BudgetUsage { turns: spent.turns.saturating_add(state.asking), ..spent }
    }

    /// What is left within the limits of this budget and of all budgets around it: the smallest remaining amount of
    /// each kind.
    pub fn left(&self) -> BudgetRemaining {
        let mut left = self.0.lock().left_of_run();
        let (mut calls, mut input, mut output, mut cost) = (None, None, None, None);
        for node in self.nodes() {
            let state = node.lock();
            let BudgetState { sum, aside, .. } = &*state;
            let limits = state.limits();
            let called = sum.tool_calls.saturating_add(*aside);
            let known = |used: Option<u64>| used.or((sum.turns == 0).then_some(0));
            let of_tokens =
                |limit: u64, used: Option<u64>| known(used).map(|used| limit.saturating_sub(used));
            let of_money =
                |limit| sum.cost().map(|used| Money::from_f64(limit).minus(used).to_f64());
            calls = least(calls, limits.calls().map(|limit| Some(limit.saturating_sub(called))));
            input = least(input, limits.input().map(|limit| of_tokens(limit, sum.usage.input)));
            output = least(output, limits.output().map(|limit| of_tokens(limit, sum.usage.output)));
            cost = least(cost, limits.money().map(of_money));
        }
        (left.tool_calls, left.cost) = (calls.flatten(), cost.flatten());
        (left.input_tokens, left.output_tokens) = (input.flatten(), output.flatten());
        left
    }

    /// Sets limits. Limits that `limits` leaves open keep their values.
    #[doc(hidden)]
    pub fn limit(&self, limits: &Limits) {
        self.0.lock().limit(limits);
    }

    /// Puts this budget within `outer`, and so within all budgets around `outer`.
    #[doc(hidden)]
    pub fn within(&self, outer: &Self) {
        let others = outer.nodes();
        let mut state = self.0.lock();
        if state.above.is_empty() {
            state.above.reserve_exact(others.len());
        }
        for node in others {
            if !Arc::ptr_eq(&node, &self.0) && !state.is_within(&node) {
                state.above.push(node);
            }
        }
    }

    /// Sets the deadline of the run. `None`: no deadline.
    #[doc(hidden)]
    pub fn set_deadline(&self, at: Option<Instant>) {
        if let Some(run) = &mut self.0.lock().run {
            run.ends = at;
        }
    }

    /// This budget and all budgets around it.
    fn nodes(&self) -> Vec<Arc<BudgetNode>> {
        let above = self.0.lock().above.clone();
        std::iter::once(Arc::clone(&self.0)).chain(above).collect()
    }

    /// Returns the budgets that a run charges: this budget and its current outer budgets. Outer budgets that are
    /// added later are not included.
    pub(super) fn start_run(&self) -> BudgetChain {
        BudgetChain::new(self.nodes())
    }
}

/// What is left of an amount: `None` without a limit, `Some(None)` if the amount is unknown.
type RemainingAmount<T> = Option<Option<T>>;

/// The smaller of two remaining amounts. The result is unknown if one of the amounts is unknown.
fn least<T: PartialOrd>(one: RemainingAmount<T>, other: RemainingAmount<T>) -> RemainingAmount<T> {
    match (one, other) {
        (None, rest) | (rest, None) => rest,
        (Some(None), Some(_)) | (Some(_), Some(None)) => Some(None),
        (Some(Some(one)), Some(Some(other))) => Some(Some(if one < other { one } else { other })),
    }
}

impl BudgetState {
    fn left_of_run(&self) -> BudgetRemaining {
        let Some(run) = &self.run else { return BudgetRemaining::default() };
        let turns = run.turns.saturating_add(run.asking.into());
        let time = match run.ends {
            Some(ends) => Some(ends.saturating_duration_since(Instant::now())),
            None => run.rails.time,
        };
        let turns = run.rails.turns.map(|limit| limit.saturating_sub(turns));
        BudgetRemaining { turns, time, ..BudgetRemaining::default() }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("of", &self.0.scope)
            .field("spent", &self.spent())
            .field("left", &self.left())
            .finish()
    }
}
