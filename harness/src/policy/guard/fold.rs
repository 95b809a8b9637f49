//! What holds the limits: a fold over the facts of a run. It decides and never acts; the loop asks
//! it before each step. It knows no clock: the time limit is held where the clock is.

use std::{collections::HashMap, sync::Arc};

use super::{
    Budget, Guardrails, Spent,
    repeats::{Repeats, with_note},
};
use crate::{
    journal::{Decision, Entry, Limit},
    message::{CallOutcome, Message, ToolCall, ToolResult},
    provider::Usage,
};

/// How much of a limit is used when the program is warned, in parts of a hundred.
const NEAR: u64 = 80;

/// Why tokens are not known.
const NO_TOKENS: &str = "the provider does not say how many tokens it used";

/// A limit that a run has reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitReached {
    /// Which.
    pub limit: Limit,
    /// How, in words for a person.
    pub detail: String,
}

/// What the program should know before a limit ends the run. Each comes once in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// Four fifths of a limit are used.
    Near(LimitReached),
    /// A limit is set and cannot be held, because nobody says how much is used.
    Unknown(LimitReached),
}

/// Holds the limits of a run: the fold of its facts. A message of the user begins a run and, with
/// it, everything anew.
///
/// ```
/// use harness::{Message, journal::{Entry, Limit}, policy::{Guard, Guardrails}};
///
/// let mut guard = Guard::new(Guardrails::default().turns(0));
/// guard.apply(&Entry::UserSaid { message: Message::user("Hello") });
/// assert_eq!(guard.before_turn().unwrap().limit, Limit::Turns);
/// ```
#[derive(Clone, Debug)]
pub struct Guard {
    rails: Arc<Guardrails>,
    spent: Spent,
    /// Whether the model is being asked.
    asking: bool,
    /// The calls of the last answer.
    calls: HashMap<String, ToolCall>,
    /// How many of them have no result yet.
    open: usize,
    repeats: Repeats,
    /// Limits that the program was warned of.
    warned: Vec<Limit>,
    /// Whether an answer came without the tokens sent, and without those said.
    untold: (bool, bool),
    /// Why the cost is not known.
    unpriced: Option<String>,
    budget: Budget,
}

impl Guard {
    /// Holds these limits, which may be shared.
    pub fn new(rails: impl Into<Arc<Guardrails>>) -> Self {
        let rails = rails.into();
        Self {
            spent: Spent::NOTHING,
            asking: false,
            calls: HashMap::new(),
            open: 0,
            repeats: Repeats::default(),
            warned: Vec::new(),
            untold: (false, false),
            unpriced: None,
            budget: Budget::new(Arc::clone(&rails)),
            rails,
        }
    }

    /// The limits.
    pub fn guardrails(&self) -> &Guardrails {
        &self.rails
    }

    /// What is spent and left, for others to look at while the run goes on.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// What the run has cost so far, if that is known.
    pub fn cost(&self) -> Option<f64> {
        self.spent.cost
    }

    /// The model is asked now: what is left does not wait for its answer.
    pub(crate) fn asked(&mut self) {
        self.asking = true;
        self.budget.set(self.spent, self.asking);
    }

    /// Takes a fact.
    pub fn apply(&mut self, entry: &Entry) {
        self.asking = false;
        match entry {
            Entry::UserSaid { .. } | Entry::Resumed { .. } => {
                self.spent = Spent::NOTHING;
                self.calls.clear();
                self.open = 0;
                self.repeats = Repeats::default();
                self.warned.clear();
                self.untold = (false, false);
                self.unpriced = None;
            }
            Entry::ModelReplied { message, usage, model, .. } => {
                self.answered(message.as_ref());
                self.spend(usage, model);
            }
            Entry::Interrupted { message, usage, cause } => {
                self.asked_for(message.as_ref());
                self.spent.usage.add(usage);
                // An answer that was cut off has cost more than was told of it.
                if self.open == 0 && !cause.is_unasked() {
                    self.spent.usage_is_whole = false;
                    self.spent.cost = None;
                }
            }
            Entry::CallStarted { .. } => {
                self.spent.tool_calls = self.spent.tool_calls.saturating_add(1);
            }
            Entry::CallFinished { result } => self.finished(result),
            Entry::CallDecided { decision: Decision::Deny { .. }, .. } => {
                self.open = self.open.saturating_sub(1);
                self.spent.failed_calls = self.spent.failed_calls.saturating_add(1);
            }
            Entry::Given { .. } | Entry::CallDecided { decision: Decision::Allow { .. }, .. } => {}
        }
        self.budget.set(self.spent, self.asking);
    }

    /// The limit that forbids to ask the model, if one does.
    pub fn before_turn(&self) -> Option<LimitReached> {
        let rails = &*self.rails;
        let spent = &self.spent;
        if let Some(limit) = rails.turns.filter(|limit| spent.turns >= *limit) {
            return reached(Limit::Turns, format!("the model was asked {limit} times"));
        }
        if let Some(over) = self.overspent() {
            return Some(over);
        }
        if let Some(limit) = rails.failed_calls.filter(|limit| spent.failed_calls >= *limit) {
            let failed = spent.failed_calls;
            let detail = format!("{failed} calls failed in a row, {limit} may");
            return reached(Limit::FailedCalls, detail);
        }
        let repeated = self.repeats.most().zip(rails.repetitions);
        if let Some((most, _)) = repeated.filter(|(most, limit)| most.turns >= *limit) {
            let detail = format!("`{}` said the same {} times", most.tool, most.turns);
            return reached(Limit::Repetitions, detail);
        }
        None
    }

    /// The limit that forbids to run so many calls, if one does: then none of them may.
    pub fn before_calls(&self, calls: usize) -> Option<LimitReached> {
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        let spent = self.spent.tool_calls;
        let all = spent.saturating_add(calls);
        if let Some(limit) = self.rails.tool_calls.filter(|limit| all > *limit) {
            let left = limit.saturating_sub(spent);
            let detail = format!("{calls} more were asked for, and {left} of {limit} were left");
            return reached(Limit::ToolCalls, detail);
        }
        self.overspent()
    }

    /// How many of so many calls of one answer run: the first ones.
    pub fn of_one_answer(&self, calls: usize) -> usize {
        let most =
            self.rails.calls_per_turn.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
        most.map_or(calls, |most| calls.min(most))
    }

    /// Whether a call may start before the answer is complete that asks for it and, so far, for
    /// this many: if it is one of those that run at all, and as many as can run of one answer are
    /// left. What else forbids calls was asked before that answer.
    pub fn may_start_early(&self, so_far: usize) -> bool {
        let left = |limit: u32| limit.saturating_sub(self.spent.tool_calls);
        let runs = self.of_one_answer(so_far) == so_far;
        runs && match (self.rails.tool_calls, self.rails.calls_per_turn) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(limit), Some(most)) => most <= left(limit),
        }
    }

    /// A call that started early was not wanted in the end. It has run, so it counts, though it is
    /// no fact of the conversation.
    pub fn dropped(&mut self) {
        self.spent.tool_calls = self.spent.tool_calls.saturating_add(1);
        self.budget.set(self.spent, self.asking);
    }

    /// The result as the model shall read it: with a warning if it was heard too often.
    pub fn noted(&self, call: &ToolCall, result: ToolResult) -> ToolResult {
        let Some(limit) = self.rails.repetitions else { return result };
        let turns = self.repeats.turns_with(call, &result);
        if turns >= 2 && turns.saturating_add(1) == limit { with_note(&result) } else { result }
    }

    /// What the program should know now; each only once.
    pub fn warnings(&mut self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let Self { rails, spent, warned, untold, unpriced, .. } = self;
        let used = [
            (Limit::Turns, Some(spent.turns.into()), rails.turns.map(u64::from)),
            (Limit::ToolCalls, Some(spent.tool_calls.into()), rails.tool_calls.map(u64::from)),
            (Limit::InputTokens, spent.usage.input, rails.input_tokens),
            (Limit::OutputTokens, spent.usage.output, rails.output_tokens),
            (Limit::Cost, spent.cost.map(millionths), rails.cost.map(millionths)),
            (
                Limit::FailedCalls,
                Some(spent.failed_calls.into()),
                rails.failed_calls.map(u64::from),
            ),
        ];
        for (limit, used, allowed) in used {
            let Some(allowed) = allowed else { continue };
            if warned.contains(&limit) {
                continue;
            }
            // Who has not asked for a limit need not hear that nobody can hold it.
            let wanted = || rails.wanted.contains(&limit);
            let unknown = match limit {
                Limit::InputTokens => (untold.0 && wanted()).then_some(NO_TOKENS),
                Limit::OutputTokens => (untold.1 && wanted()).then_some(NO_TOKENS),
                Limit::Cost => unpriced.as_deref(),
                Limit::Turns
                | Limit::ToolCalls
                | Limit::Time
                | Limit::FailedCalls
                | Limit::Repetitions => None,
            };
            if let Some(why) = unknown {
                warned.push(limit);
                let detail = format!("the limit of {limit} cannot be held: {why}");
                warnings.push(Warning::Unknown(LimitReached { limit, detail }));
                continue;
            }
            let used = used.unwrap_or(0);
            if used.saturating_mul(100) >= allowed.saturating_mul(NEAR) && used > 0 {
                warned.push(limit);
                let percent = used.saturating_mul(100).checked_div(allowed).unwrap_or(100);
                let detail = format!("{percent} % of the limit of {limit} are used");
                warnings.push(Warning::Near(LimitReached { limit, detail }));
            }
        }
        warnings
    }

    /// The first amount that is used up.
    fn overspent(&self) -> Option<LimitReached> {
        let (rails, spent) = (&*self.rails, &self.spent);
        let tokens = [
            (Limit::InputTokens, spent.usage.input, rails.input_tokens),
            (Limit::OutputTokens, spent.usage.output, rails.output_tokens),
        ];
        for (limit, used, allowed) in tokens {
            if let Some((used, allowed)) = used.zip(allowed).filter(|(used, most)| used >= most) {
                return reached(limit, format!("{used} of {allowed} were used"));
            }
        }
        let cost = spent.cost.zip(rails.cost).filter(|(used, most)| used >= most);
        cost.and_then(|(used, most)| {
            reached(Limit::Cost, format!("{used:.4} of {most:.4} was spent"))
        })
    }

    fn answered(&mut self, message: Option<&Message>) {
        self.spent.turns = self.spent.turns.saturating_add(1);
        self.repeats.turn();
        self.asked_for(message);
    }

    /// The calls of a message wait for their results.
    fn asked_for(&mut self, message: Option<&Message>) {
        let Some(message) = message else { return };
        self.calls = message.calls().map(|call| (call.id().to_owned(), call.clone())).collect();
        self.open = self.calls.len();
    }

    fn spend(&mut self, usage: &Usage, model: &str) {
        self.spent.usage.add(usage);
        let untold = (usage.input.is_none(), usage.output.is_none());
        self.untold = (self.untold.0 || untold.0, self.untold.1 || untold.1);
        if untold != (false, false) {
            self.spent.usage_is_whole = false;
        }
        let price = self.rails.prices.get(model);
        let cost = price.and_then(|price| price.of(usage));
        if cost.is_none() && self.unpriced.is_none() {
            self.unpriced = Some(match price {
                None => format!("`{model}` has no price; give one with `Prices::with`"),
                Some(_) => NO_TOKENS.to_owned(),
            });
        }
        self.spent.cost = self.spent.cost.zip(cost).map(|(before, more)| before + more);
    }

    fn finished(&mut self, result: &ToolResult) {
        self.open = self.open.saturating_sub(1);
        match result.outcome() {
            CallOutcome::Succeeded => self.spent.failed_calls = 0,
            CallOutcome::Failed | CallOutcome::StoppedReading | CallOutcome::InDoubt => {
                self.spent.failed_calls = self.spent.failed_calls.saturating_add(1);
            }
            // A denial was counted when it was decided.
            CallOutcome::Denied | CallOutcome::NotStarted => {}
        }
        if let Some(call) = self.calls.get(result.call_id())
            && !self.rails.polling.contains(call.name())
        {
            self.repeats.apply(call, result);
        }
    }
}

fn reached(limit: Limit, detail: String) -> Option<LimitReached> {
    Some(LimitReached { limit, detail })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float too large or below zero is cut to the nearest number, which is meant"
)]
fn millionths(cost: f64) -> u64 {
    (cost * 1e6) as u64
}
