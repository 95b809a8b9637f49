//! What is added up: one charge for each fact that costs something, and the sums of them.

use std::sync::Arc;

use super::Spent;
use crate::{models::Money, provider::Usage};

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

impl Sum {
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
