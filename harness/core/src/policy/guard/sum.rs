//! Amounts of spending: a charge for each fact that costs something, and sums of charges.

use std::{collections::HashMap, sync::Arc};

use super::BudgetUsage;
use crate::{
    journal::{CallSpent, Fact},
    models::Money,
    provider::Usage,
};

/// What a fact has cost, or the sum of such charges, whatever their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Charge {
    pub(super) turns: u32,
    pub(super) tool_calls: u32,
    pub(super) usage: Usage,
    /// The cost of those tokens whose number and price are known.
    pub(super) money: Money,
    pub(super) unknown: UnknownAmounts,
}

/// Which amounts of a charge or a sum are unknown.
#[derive(Clone, Debug, Default)]
pub(super) struct UnknownAmounts {
    /// An answer broke off, and has cost more than was reported.
    pub(super) broke_off: bool,
    /// An answer did not report the tokens sent.
    pub(super) input: bool,
    /// An answer did not report the generated tokens.
    pub(super) output: bool,
    /// Why the cost of an answer is unknown; `None` if it is known.
    pub(super) cost: Option<Arc<str>>,
}

impl Charge {
    /// The charge for the agents that a call ran.
    pub(super) fn of_agents(spent: &CallSpent) -> Self {
        Self {
            turns: spent.turns,
            tool_calls: spent.tool_calls,
            usage: spent.usage,
            money: Money::of_units(spent.cost),
            unknown: UnknownAmounts {
                broke_off: spent.broke_off,
                input: spent.unknown_input,
                output: spent.unknown_output,
                cost: spent.unknown_cost.as_deref().map(Arc::from),
            },
        }
    }

    /// The sum minus `part`, as plain data; `None` if nothing is left.
    pub(super) fn beyond(&self, part: &CallSpent) -> Option<Box<CallSpent>> {
        let Self { turns, tool_calls, usage, money, unknown } = self;
        let rest = CallSpent {
            turns: turns.saturating_sub(part.turns),
            tool_calls: tool_calls.saturating_sub(part.tool_calls),
            usage: usage.without(&part.usage),
            cost: money.minus(Money::of_units(part.cost)).units(),
            broke_off: unknown.broke_off && !part.broke_off,
            unknown_input: unknown.input && !part.unknown_input,
            unknown_output: unknown.output && !part.unknown_output,
            unknown_cost: match part.unknown_cost {
                Some(_) => None,
                None => unknown.cost.as_deref().map(str::to_owned),
            },
            ..CallSpent::default()
        };
        let is_nothing = rest.usage.is_nothing()
            && CallSpent { usage: Usage::default(), ..rest.clone() } == CallSpent::default();
        (!is_nothing).then(|| Box::new(rest))
    }

    pub(super) fn add(&mut self, charge: &Charge) {
        let Self { turns, tool_calls, usage, money, unknown } = charge;
        self.turns = self.turns.saturating_add(*turns);
        self.tool_calls = self.tool_calls.saturating_add(*tool_calls);
        self.usage.add(usage);
        self.money = self.money.plus(*money);
        let UnknownAmounts { broke_off, input, output, cost } = unknown;
        self.unknown.broke_off |= broke_off;
        self.unknown.input |= input;
        self.unknown.output |= output;
        if self.unknown.cost.is_none() {
            self.unknown.cost.clone_from(cost);
        }
    }

    /// The cost; `None` if a part of it is unknown.
    pub(super) fn cost(&self) -> Option<Money> {
        let known = self.unknown.cost.is_none() && !self.unknown.broke_off;
        known.then_some(self.money)
    }

    pub(super) fn spent(&self) -> BudgetUsage {
        let UnknownAmounts { broke_off, input, output, cost: _ } = &self.unknown;
        BudgetUsage {
            turns: self.turns,
            tool_calls: self.tool_calls,
            usage: self.usage,
            usage_is_whole: !(*broke_off || *input || *output),
            cost: self.cost().map(Money::to_f64),
            known_cost: self.money.to_f64(),
        }
    }
}

/// The amount that a fact states for the agents of a call, with the id of the call.
pub(super) fn spent_by_agents(fact: &Fact) -> Option<(&str, &CallSpent)> {
    match fact {
        Fact::CallFinished { result, spent: Some(spent) }
        | Fact::CallSettled { result, spent: Some(spent), .. } => Some((result.call_id(), spent)),
        Fact::CallWaits { call, wait } => Some((call, wait.spent.as_deref()?)),
        Fact::CallCleared { call, spent } => Some((call, spent.as_deref()?)),
        _ => None,
    }
}

/// An amount that is wholly unknown for this reason.
#[doc(hidden)]
pub fn unknown_spent(why: &str) -> CallSpent {
    CallSpent {
        broke_off: true,
        unknown_input: true,
        unknown_output: true,
        unknown_cost: Some(why.to_owned()),
        ..CallSpent::default()
    }
}

/// What the agents of open calls have spent: the amounts in facts, and amounts from an earlier process that ended
/// before it wrote a fact.
#[derive(Debug, Default)]
#[doc(hidden)]
pub struct AgentSums {
    calls: HashMap<String, AgentsOfCall>,
}

/// What the agents of one open call have spent.
#[derive(Debug, Default)]
struct AgentsOfCall {
    /// The amount that facts state for agents whose conversations the journal keeps.
    said: Option<Box<CallSpent>>,
    untold: Option<Box<CallSpent>>,
    /// Whether the call has agents whose conversations are in no journal, and no fact states the spending of these
    /// agents yet.
    unkept: bool,
}

impl AgentSums {
    /// Applies a fact.
    pub fn apply(&mut self, fact: &Fact) {
        match fact {
            Fact::CallFinished { result, .. } | Fact::CallSettled { result, .. } => {
                self.calls.remove(result.call_id());
            }
            Fact::UnkeptAgentStarted { call } => self.of(call).unkept = true,
            Fact::CallWaits { call, wait } => self.states(call, wait.spent.as_deref()),
            Fact::CallCleared { call, spent: Some(spent) } => self.states(call, Some(spent)),
            _ => {}
        }
    }

    fn of(&mut self, call: &str) -> &mut AgentsOfCall {
        self.calls.entry(call.to_owned()).or_default()
    }

    /// Records the amount that a fact states for a call that is still open.
    fn states(&mut self, call: &str, spent: Option<&CallSpent>) {
        let agents = self.of(call);
        agents.unkept = false;
        let Some(spent) = spent else { return };
        agents.untold = None;
        if let Some(sum) = sum_of([agents.said.as_deref(), spent.kept.as_deref()]) {
            agents.said = Some(sum);
        }
    }

    /// Whether a call has agents whose conversations are in no journal, and no fact states the spending of
    /// these agents yet.
    pub fn has_unkept_agents(&self, call: &str) -> bool {
        self.calls.get(call).is_some_and(|agents| agents.unkept)
    }

    /// The amounts that are already counted for a call's agents with conversations in the journal. The caller
    /// reads these conversations again, and then subtracts these amounts.
    pub fn counted(&self, call: &str) -> CallSpent {
        let Some(agents) = self.calls.get(call) else { return CallSpent::default() };
        let untold = agents.untold.as_ref().and_then(|untold| untold.kept.as_deref());
        sum_of([agents.said.as_deref(), untold]).map(|sum| *sum).unwrap_or_default()
    }

    /// Records an amount that agents spent in an ended process and that no fact states yet.
    pub fn add_unstated(&mut self, call: &str, spent: CallSpent) {
        self.of(call).untold = Some(Box::new(spent));
    }

    /// The amount that the next fact of a call has to state for its agents. `here` is the amount that the agents have
    /// spent in this process.
    pub fn take_unstated(
        &self,
        call: &str,
        here: Option<Box<CallSpent>>,
    ) -> Option<Box<CallSpent>> {
        let untold = self.calls.get(call).and_then(|agents| agents.untold.as_deref());
        sum_of([untold, here.as_deref()])
    }
}

/// The sum of these amounts. `None` if it is nothing.
fn sum_of(amounts: [Option<&CallSpent>; 2]) -> Option<Box<CallSpent>> {
    rest_of(amounts.into_iter().flatten(), &CallSpent::default())
}

/// The sum of all amounts in `whole`, minus `part`. `None` if nothing is left.
#[doc(hidden)]
pub fn rest_of<'a>(
    whole: impl IntoIterator<Item = &'a CallSpent>,
    part: &CallSpent,
) -> Option<Box<CallSpent>> {
    let (mut sum, mut kept) = (Charge::default(), Charge::default());
    for spent in whole {
        sum.add(&Charge::of_agents(spent));
        spent.kept.iter().for_each(|spent| kept.add(&Charge::of_agents(spent)));
    }
    let mut rest = sum.beyond(part)?;
    rest.kept = kept.beyond(part.kept.as_deref().unwrap_or(&CallSpent::default()));
    Some(rest)
}
