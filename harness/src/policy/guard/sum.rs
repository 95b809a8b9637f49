//! What is added up: one charge for each fact that costs something, and the sums of them.

use std::{collections::HashMap, sync::Arc};

use super::Spent;
use crate::{
    journal::{CallSpent, Entry},
    models::Money,
    provider::Usage,
};

/// What one fact has cost.
#[derive(Clone, Debug, Default)]
pub(super) struct Charge {
    pub(super) turns: u32,
    pub(super) tool_calls: u32,
    pub(super) usage: Usage,
    /// What its known tokens cost.
    pub(super) money: Money,
    pub(super) unknown: Unknown,
}

/// What is not known of a charge, or of a sum.
#[derive(Clone, Debug, Default)]
pub(super) struct Unknown {
    /// An answer broke off, and has cost more than was told.
    pub(super) broke_off: bool,
    /// An answer came without the tokens sent.
    pub(super) input: bool,
    /// An answer came without the tokens said.
    pub(super) output: bool,
    /// Why nobody knows what an answer has cost.
    pub(super) cost: Option<Arc<str>>,
}

/// All charges so far. The order in which they were added makes no difference.
#[derive(Clone, Debug, Default)]
pub(super) struct Sum {
    pub(super) turns: u32,
    pub(super) tool_calls: u32,
    pub(super) usage: Usage,
    pub(super) money: Money,
    pub(super) unknown: Unknown,
}

impl Charge {
    /// What the agents have cost that a call ran.
    pub(super) fn of_agents(spent: &CallSpent) -> Self {
        Self {
            turns: spent.turns,
            tool_calls: spent.tool_calls,
            usage: spent.usage,
            money: Money::of_units(spent.cost),
            unknown: Unknown {
                broke_off: spent.broke_off,
                input: spent.unknown_input,
                output: spent.unknown_output,
                cost: spent.unknown_cost.as_deref().map(Arc::from),
            },
        }
    }
}

impl Sum {
    /// The same as plain data, without this part of it; nothing if that is all.
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
        let Charge { turns, tool_calls, usage, money, unknown } = charge;
        self.turns = self.turns.saturating_add(*turns);
        self.tool_calls = self.tool_calls.saturating_add(*tool_calls);
        self.usage.add(usage);
        self.money = self.money.plus(*money);
        let Unknown { broke_off, input, output, cost } = unknown;
        self.unknown.broke_off |= broke_off;
        self.unknown.input |= input;
        self.unknown.output |= output;
        if self.unknown.cost.is_none() {
            self.unknown.cost.clone_from(cost);
        }
    }

    /// What it cost, if all of it is known.
    pub(super) fn cost(&self) -> Option<Money> {
        let known = self.unknown.cost.is_none() && !self.unknown.broke_off;
        known.then_some(self.money)
    }

    pub(super) fn spent(&self) -> Spent {
        let Unknown { broke_off, input, output, cost: _ } = &self.unknown;
        Spent {
            turns: self.turns,
            tool_calls: self.tool_calls,
            usage: self.usage,
            usage_is_whole: !(*broke_off || *input || *output),
            cost: self.cost().map(Money::to_f64),
            known_cost: self.money.to_f64(),
        }
    }
}

/// What a fact says that the agents of a call have spent.
pub(super) fn spent_by_agents(entry: &Entry) -> Option<(&str, &CallSpent)> {
    match entry {
        Entry::CallFinished { result, spent: Some(spent) } => Some((result.call_id(), spent)),
        Entry::CallWaits { call, wait } => Some((call, wait.spent.as_deref()?)),
        _ => None,
    }
}

/// What the agents of open calls have spent: what the facts say of it, and what no fact says yet since the
/// process in which it was spent is gone.
#[derive(Debug, Default)]
pub(crate) struct AgentSums {
    said: HashMap<String, Sum>,
    untold: HashMap<String, CallSpent>,
}

impl AgentSums {
    /// Takes a fact.
    pub(crate) fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::CallFinished { result, .. } | Entry::CallSettled { result, .. } => {
                self.said.remove(result.call_id());
                self.untold.remove(result.call_id());
            }
            entry => {
                let Some((call, spent)) = spent_by_agents(entry) else { return };
                self.said.entry(call.to_owned()).or_default().add(&Charge::of_agents(spent));
                self.untold.remove(call);
            }
        }
    }

    /// What was counted of the agents of a call, here and in all processes before.
    pub(crate) fn counted(&self, call: &str) -> Option<Box<CallSpent>> {
        let mut sum = self.said.get(call).cloned().unwrap_or_default();
        let untold = self.untold.get(call);
        untold.iter().for_each(|untold| sum.add(&Charge::of_agents(untold)));
        sum.beyond(&CallSpent::default())
    }

    /// What was spent in a process that is gone is counted, and no fact says so yet.
    pub(crate) fn counts(&mut self, call: &str, spent: CallSpent) {
        self.untold.insert(call.to_owned(), spent);
    }

    /// What the next fact of a call says of its agents, which have spent this in this process.
    pub(crate) fn told(&self, call: &str, here: Option<Box<CallSpent>>) -> Option<Box<CallSpent>> {
        let Some(before) = self.untold.get(call) else { return here };
        let mut sum = Sum::default();
        sum.add(&Charge::of_agents(before));
        here.iter().for_each(|here| sum.add(&Charge::of_agents(here)));
        sum.beyond(&CallSpent::default())
    }
}

/// What was spent in all of these together beyond a part of it; nothing if that is all.
pub(crate) fn rest_of<'a>(
    whole: impl IntoIterator<Item = &'a CallSpent>,
    part: &CallSpent,
) -> Option<Box<CallSpent>> {
    let mut sum = Sum::default();
    whole.into_iter().for_each(|spent| sum.add(&Charge::of_agents(spent)));
    sum.beyond(part)
}
