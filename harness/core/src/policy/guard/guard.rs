//! Enforces the limits of a run, as a fold over its facts. The guard only decides: the run loop asks the guard before
//! each step. The guard has no clock, so the run loop enforces the time limit.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
};

use super::{
    Budget, Guardrails,
    budget_limits::{self, BudgetChain, NO_TOKENS},
    repeats::{CountedResult, HashedCall, RepeatCounter, is_warned, with_call_note, with_note},
    sum::{Charge, UnknownAmounts, spent_by_agents, unknown_spent},
};
use crate::{
    journal::{
        Awaited, Decision, Fact, InterruptCause, LimitKind, LimitScope, RecordedLimits,
        SummaryRequest, Wait,
    },
    message::{CallOutcome, Message, ToolCall, ToolResult},
    models::{Models, Money, Price},
    provider::Usage,
    secret::beginning,
};

/// A limit that a run has reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitReached {
    /// The limit.
    pub limit: LimitKind,
    /// Whether the limit belongs to the run, its conversation, its agent or an outer budget.
    pub scope: LimitScope,
    /// The used amount, as text for a person.
    pub detail: String,
}

impl From<LimitReached> for InterruptCause {
    fn from(LimitReached { limit, scope, detail }: LimitReached) -> Self {
        Self::Limit { limit, scope, detail }
    }
}

/// A warning to the program before a limit ends the run. Each warning comes once in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum LimitWarning {
    /// At least 80 percent of a limit are used.
    Near(LimitReached),
    /// A limit is set but cannot be enforced, because the used amount is unknown.
    Unknown(LimitReached),
}

/// A model and its price from the last look-up.
struct PricedModel {
    provider: String,
    model: String,
    asked: Option<String>,
    price: Option<Price>,
}

/// A call of the last answer, and how it ended. `end` is `None` while the call is open.
struct OfAnswer {
    call: HashedCall,
    end: Option<CallEnd>,
}

enum CallEnd {
    Denied,
    Finished(CallOutcome, Option<CountedResult>),
}

/// Enforces the limits of a run: a fold over the run's facts, together with the budgets that the run charges. A
/// message of the user begins a new run and resets all counts.
#[doc(hidden)]
pub struct RunGuard {
    rails: Arc<Guardrails>,
    models: Arc<Models>,
    budget: Budget,
    chain: BudgetChain,
    /// What the run itself has spent, without the spending of agents that its calls run.
    own: Charge,
    /// The number of calls in a row that failed or were denied.
    failed_calls: u32,
    /// Whether a request to the model is in progress.
    asking: bool,
    /// The last price look-up of this run.
    known: Option<Box<PricedModel>>,
    /// The last price look-up before this run, as a cache. An interrupted answer of this run is not charged at this
    /// price.
    known_before: Option<Box<PricedModel>>,
    /// The number of calls that the run has reserved and that have not started.
    aside: u32,
    /// The calls of the last answer, in order.
    calls: Vec<OfAnswer>,
    /// The index in `calls` of each call, by call id.
    places: HashMap<String, usize>,
    /// The number of `calls` that have no result yet.
    open: usize,
    /// The calls of the last answer that have started and are counted.
    started: HashSet<String>,
    repeats: RepeatCounter,
    /// The warnings that were already given, each with the id of its budget (`None` for a guardrail).
    warned: Vec<(Option<u64>, LimitKind)>,
}

impl RunGuard {
    /// Creates a guard with these guardrails and the limits of this budget and of all budgets around it. The guardrails
    /// may be shared.
    pub fn new(
        rails: impl Into<Arc<Guardrails>>,
        models: impl Into<Arc<Models>>,
        budget: Budget,
    ) -> Self {
        Self {
            rails: rails.into(),
            models: models.into(),
            chain: budget.start_run(),
            budget,
            own: Charge::default(),
            failed_calls: 0,
            asking: false,
            known: None,
            known_before: None,
            aside: 0,
            calls: Vec::new(),
            places: HashMap::new(),
            open: 0,
            started: HashSet::new(),
            repeats: RepeatCounter::default(),
            warned: Vec::new(),
        }
    }

    /// Charges the amount that a fact states for agents. Use this only for facts that are read from a journal:
    /// agents that run in this process charge each of their own facts.
    pub fn charge_agents(&self, fact: &Fact) {
        if let Some((_, spent)) = spent_by_agents(fact) {
            self.chain.charge(&Charge::of_agents(spent), 0);
        }
    }

    /// The guardrails of the run.
    pub fn guardrails(&self) -> &Guardrails {
        &self.rails
    }

    /// The budget of the run. Other code may read it during the run.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The limits of the run, as plain data.
    pub fn run_limits(&self) -> RecordedLimits {
        self.budget.limits().of_run(&self.rails)
    }

    /// Called when the run resumes: the run may now be within other budgets than before.
    pub fn resume(&mut self) {
        self.chain = self.budget.start_run();
        self.chain.turns(self.own.turns);
    }

    /// Called when this run continues the open calls of the run `before`. These calls are already
    /// counted.
    pub fn resume_from(&mut self, before: &Self) {
        self.started.clone_from(&before.started);
    }

    /// Called when this run follows the run `before` of the same agent. Takes over the last price look-up
    /// of `before`.
    pub fn continue_after(&mut self, before: &mut Self) {
        self.known_before = before.known.take().or(before.known_before.take());
    }

    /// The cost of the run's own turns so far; `None` if it is unknown.
    pub fn cost(&self) -> Option<f64> {
        self.own.cost().map(Money::to_f64)
    }

    /// Called when a request to the model starts. Releases calls that are still reserved.
    pub fn begin_request(&mut self) {
        self.give_back();
        self.is_asking(true);
    }

    /// Called when the run is over.
    pub fn ended(&mut self) {
        self.give_back();
        self.is_asking(false);
    }

    /// Applies a fact.
    pub fn apply(&mut self, fact: &Fact) {
        self.charge_fact(fact);
        match fact {
            Fact::ModelReplied { message, .. } => {
                self.repeats.turn();
                self.asked_for(message.as_ref());
            }
            Fact::Interrupted { message, .. } => self.asked_for(message.as_ref()),
            Fact::CallFinished { result, .. } | Fact::CallSettled { result, .. } => {
                self.finished(result);
            }
            Fact::CallDecided { call, decision: Decision::Deny { .. } } => {
                self.end_call(call, CallEnd::Denied);
            }
            _ => {}
        }
    }

    /// Charges a fact, and does nothing else. This suffices for the facts of a run that another run has followed:
    /// nothing but its charges counts any more.
    pub fn charge_fact(&mut self, fact: &Fact) {
        self.is_asking(false);
        // Resuming does not reset what was spent. Otherwise a run that is resumed after each failure would never reach
        // its limits.
        if let Fact::UserSaid { .. } = fact {
            self.started.clear();
        }
        if let Fact::UserSaid { .. } | Fact::Resumed { limits: Some(_), .. } = fact {
            self.own = Charge::default();
            self.failed_calls = 0;
            self.calls.clear();
            self.places.clear();
            self.open = 0;
            self.repeats = RepeatCounter::default();
            self.warned.clear();
        }
        let charge = self.charge_of(fact);
        self.charge(&charge);
        self.chain.turns(self.own.turns);
        if let Fact::ModelReplied { message: Some(_), .. }
        | Fact::Interrupted { message: Some(_), .. } = fact
        {
            self.started.clear();
        }
    }

    /// Charges an unknown cost, for a request that was in progress when its process ended.
    pub fn request_was_lost(&mut self) {
        self.charge(&Charge::of_agents(&unknown_spent(REQUEST_LOST)));
    }

    /// The cost of a fact, computed from this fact and the facts before it.
    fn charge_of(&mut self, fact: &Fact) -> Charge {
        match fact {
            Fact::ModelReplied { usage, provider, model, asked_model, .. } => {
                let mut charge =
                    self.charge_of_answer(usage, provider, model, asked_model.as_deref());
                charge.turns = 1;
                charge
            }
            // The request for a summary is not a turn of the run.
            Fact::ContextCompacted { request, .. } | Fact::CompactionFailed { request, .. } => {
                let SummaryRequest { usage, provider, model, asked_model, broke_off, .. } =
                    &**request;
                let mut charge =
                    self.charge_of_answer(usage, provider, model, asked_model.as_deref());
                charge.unknown.broke_off = *broke_off;
                charge
            }
            // An answer that broke off is a turn, too. Otherwise a run that is resumed after every interruption would
            // never end.
            Fact::Interrupted { usage, asked, .. } => {
                // An interrupted answer has cost more than was reported.
                let unknown = UnknownAmounts { broke_off: *asked, ..UnknownAmounts::default() };
                let price = self.known.as_ref().and_then(|known| known.price);
                let money = at_least(price, usage);
                Charge {
                    turns: u32::from(*asked),
                    usage: *usage,
                    money,
                    unknown,
                    ..Charge::default()
                }
            }
            // A call that starts again (with its external answer, or after its process ended) is not counted twice.
            Fact::CallStarted { call }
            // A call whose result the program supplies never starts, so such a call counts when it begins to wait.
            | Fact::CallWaits { call, wait: Wait { awaited: Awaited::Result, .. } } => {
                let is_new = self.started.insert(call.clone());
                Charge { tool_calls: is_new.into(), ..Charge::default() }
            }
            // The process may have ended while the model answered, so a reopened run counts one more turn. Otherwise
            // a run that ends its process each time would never reach its limits.
            Fact::Reopened { .. } => Charge { turns: 1, ..Charge::default() },
            _ => Charge::default(),
        }
    }

    fn charge_of_answer(
        &mut self,
        usage: &Usage,
        provider: &str,
        model: &str,
        asked_model: Option<&str>,
    ) -> Charge {
        let price = self.price(provider, model, asked_model);
        let untold = usage.input.is_none() || usage.output.is_none();
        let why = match (price, untold) {
            (None, _) => Some(no_price(provider, model).into()),
            (Some(_), true) => Some(NO_TOKENS.into()),
            (Some(_), false) => None,
        };
        let unknown = UnknownAmounts {
            broke_off: false,
            input: usage.input.is_none(),
            output: usage.output.is_none(),
            cost: why,
        };
        Charge { usage: *usage, money: at_least(price, usage), unknown, ..Charge::default() }
    }

    /// The limit that forbids a request to this model of this provider; `None` if the request may be sent.
    pub fn before_turn(&mut self, provider: &str, model: &str) -> Option<LimitReached> {
        let rails = &*self.rails;
        if let Some(limit) = rails.turns.filter(|limit| self.own.turns >= *limit) {
            return reached(LimitKind::Turns, format!("the model was asked {limit} times"));
        }
        if let Some(over) = self.chain.overspent() {
            return Some(over);
        }
        if let Some(limit) = rails.failed_calls.filter(|limit| self.failed_calls >= *limit) {
            let failed = self.failed_calls;
            let detail = format!("{failed} calls failed in a row, and at most {limit} may");
            return reached(LimitKind::FailedCalls, detail);
        }
        let repeated = self.repeats.most().zip(rails.repetitions);
        if let Some((most, _)) = repeated.filter(|(most, limit)| most.turns >= *limit) {
            // The model may have invented this name, so the error shows only its beginning.
            let tool = beginning(&most.tool, 100);
            let detail = format!("`{tool}` gave the same result {} times", most.turns);
            return reached(LimitKind::Repetitions, detail);
        }
        let repeated = self.repeats.most_made().zip(rails.repeated_calls);
        if let Some((most, _)) = repeated.filter(|(most, limit)| most.turns >= *limit) {
            let tool = beginning(&most.tool, 100);
            let detail = format!(
                "`{tool}` was called with the same arguments in {} turns, with no new call in between; \
                 `Guardrails::polling` allows that to a tool which waits for something",
                most.turns
            );
            return reached(LimitKind::Repetitions, detail);
        }
        match self.price(provider, model, None) {
            Some(_) => None,
            None => self.chain.limit_on_unknown_cost(&no_price(provider, model)),
        }
    }

    /// Looks up the price of the model that will be asked. An answer that breaks off is charged with it.
    pub fn look_up_price(&mut self, provider: &str, model: &str) {
        self.price(provider, model, None);
    }

    /// The limit that forbids a resumed run to continue with its calls; `None` if the run may continue. Each end of
    /// the process during a run counts as a turn. So a call that ends its process each time is not repeated forever.
    pub fn before_going_on(&self) -> Option<LimitReached> {
        let limit = self.rails.turns.filter(|limit| self.own.turns > *limit)?;
        let detail = format!(
            "the model was asked, or the process of the run has ended, {} times, and the limit is {limit}",
            self.own.turns
        );
        reached(LimitKind::Turns, detail)
    }

    /// Reserves the next `calls` calls, so that no other run uses up the limit, and returns `None`. If a limit
    /// forbids the calls, returns the limit. Then no call may run.
    pub fn before_calls(&mut self, calls: usize) -> Option<LimitReached> {
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        let more = calls.saturating_sub(self.aside);
        if let Err(over) = self.chain.set_aside(more, calls, self.aside) {
            return Some(over);
        }
        self.aside = self.aside.saturating_add(more);
        self.chain.overspent()
    }

    /// The limit that forbids these calls; `None` if the calls may run. Some of the calls may already have started.
    /// Calls that another process decided have no reservation in this process yet, so this function reserves them.
    pub fn before_running(&mut self, calls: &[ToolCall]) -> Option<LimitReached> {
        let new = calls.iter().filter(|call| !self.started.contains(call.id())).count();
        let are_aside = u32::try_from(new).is_ok_and(|new| new <= self.aside);
        if are_aside { None } else { self.before_calls(new) }
    }

    /// How many of the `calls` calls of one answer may run. If this number is smaller than `calls`, the first calls
    /// run.
    pub fn of_one_answer(&self, calls: usize) -> usize {
        let most =
            self.rails.calls_per_turn.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
        most.map_or(calls, |most| calls.min(most))
    }

    /// Whether a call may start before its answer is complete. `so_far` is the number of the answer's calls until now,
    /// including this call. The call may start on two conditions: all `so_far` calls may run, and at least as many
    /// calls are left as one answer can have. If so, the call is reserved. All other limits were checked before the
    /// request.
    pub fn can_start_early(&mut self, so_far: usize) -> bool {
        if self.of_one_answer(so_far) != so_far {
            return false;
        }
        // Without a limit of calls per answer, an answer can have any number of calls. Then no limited number of
        // remaining calls is enough.
        let most = self.rails.calls_per_turn.unwrap_or(u32::MAX);
        let may = self.chain.set_aside(1, most, self.aside).is_ok();
        self.aside = self.aside.saturating_add(may.into());
        may
    }

    /// Charges a call that started early but is missing in the final answer. The call has run, but no fact records
    /// the call.
    pub fn dropped(&mut self) {
        self.charge(&Charge { tool_calls: 1, ..Charge::default() });
    }

    /// The result as the model reads it. A note is added if the model has had this result, or made this call, too
    /// often.
    pub fn noted(&self, call: &ToolCall, result: ToolResult) -> ToolResult {
        let known = self.places.get(call.id()).and_then(|place| self.calls.get(*place));
        let unknown;
        let call = match known {
            Some(known) => &known.call,
            None => {
                unknown = HashedCall::of(call.clone());
                &unknown
            }
        };
        let turns = self.repeats.turns_with(call, &result);
        let is_next = |limit: u32| turns >= 2 && turns.saturating_add(1) == limit;
        if self.rails.repetitions.is_some_and(is_next) {
            return with_note(&result);
        }
        let turns = self.repeats.turns_of(call);
        match self.rails.repeated_calls.is_some_and(|limit| is_warned(turns, limit)) {
            true => with_call_note(&result),
            false => result,
        }
    }

    /// New warnings for the program. Each warning is returned only once.
    pub fn warnings(&mut self) -> Vec<LimitWarning> {
        let mut warnings = Vec::new();
        let counts = [
            (LimitKind::Turns, self.own.turns, self.rails.turns),
            (LimitKind::FailedCalls, self.failed_calls, self.rails.failed_calls),
        ];
        for (limit, used, allowed) in counts {
            let Some(allowed) = allowed else { continue };
            let percent = budget_limits::percent(used.into(), allowed.into());
            if budget_limits::is_near(percent) && self.is_new(None, limit) {
                let detail = budget_limits::near(limit, "", percent);
                warnings.push(LimitWarning::Near(LimitReached {
                    limit,
                    scope: LimitScope::Run,
                    detail,
                }));
            }
        }
        for noticed in self.chain.noticed() {
            if self.is_new(Some(noticed.node), noticed.reached.limit) {
                warnings.push(match noticed.is_near {
                    true => LimitWarning::Near(noticed.reached),
                    false => LimitWarning::Unknown(noticed.reached),
                });
            }
        }
        warnings
    }

    /// The price of this model at this provider. `asked` is the requested model if its name differs. The last price
    /// is cached, since most look-ups repeat.
    fn price(&mut self, provider: &str, model: &str, asked: Option<&str>) -> Option<Price> {
        let is_it = |known: &&PricedModel| {
            (known.provider.as_str(), known.model.as_str()) == (provider, model)
                && known.asked.as_deref() == asked
        };
        if let Some(known) = self.known.as_deref().filter(is_it) {
            return known.price;
        }
        if self.known_before.as_deref().filter(is_it).is_some() {
            self.known = self.known_before.take();
            return self.known.as_ref().and_then(|known| known.price);
        }
        let price = self.models.price(provider, model, asked);
        let asked = asked.map(str::to_owned);
        let (provider, model) = (provider.to_owned(), model.to_owned());
        self.known = Some(Box::new(PricedModel { provider, model, asked, price }));
        price
    }

    /// Whether the program has not been warned about this limit yet. Also records that the program has now been warned.
    fn is_new(&mut self, node: Option<u64>, limit: LimitKind) -> bool {
        let is_new = !self.warned.contains(&(node, limit));
        if is_new {
            self.warned.push((node, limit));
        }
        is_new
    }

    fn is_asking(&mut self, asking: bool) {
        if self.asking != asking {
            self.asking = asking;
            self.chain.asking(asking);
        }
    }

    /// Adds a charge to the run and to all budgets. If calls of the charge were reserved, their reservation ends.
    fn charge(&mut self, charge: &Charge) {
        let were_aside = charge.tool_calls.min(self.aside);
        self.aside = self.aside.saturating_sub(were_aside);
        self.own.add(charge);
        self.chain.charge(charge, were_aside);
    }

    /// Releases the reserved calls that did not start.
    fn give_back(&mut self) {
        self.chain.give_back(std::mem::take(&mut self.aside));
    }

    /// Records the calls of an answer as open.
    fn asked_for(&mut self, message: Option<&Message>) {
        let Some(message) = message else { return };
        let calls =
            message.calls().map(|call| OfAnswer { call: HashedCall::of(call.clone()), end: None });
        self.calls = calls.collect();
        self.calls.shrink_to_fit();
        let ids = self.calls.iter().map(|it| it.call.id().to_owned());
        self.places = ids.zip(0..).collect();
        self.open = self.calls.len();
    }

    fn finished(&mut self, result: &ToolResult) {
        let place = self.places.get(result.call_id()).and_then(|place| self.calls.get(*place));
        let came = place.filter(|it| !self.rails.polling.contains(it.call.name()));
        let came = came.and_then(|it| CountedResult::of(&it.call, result));
        self.end_call(result.call_id(), CallEnd::Finished(result.outcome(), came));
    }

    /// Records that a call has ended. Calls end in a random order. So the guard counts the ends only when all calls
    /// of the answer have ended, in the order of the calls.
    fn end_call(&mut self, call: &str, end: CallEnd) {
        let place = self.places.get(call).and_then(|place| self.calls.get_mut(*place));
        let Some(place) = place else { return self.count_end(end) };
        if place.end.replace(end).is_none() {
            self.open = self.open.saturating_sub(1);
        }
        if self.open == 0 {
            let ends: Vec<CallEnd> = self.calls.iter_mut().filter_map(|it| it.end.take()).collect();
            ends.into_iter().for_each(|end| self.count_end(end));
        }
    }

    fn count_end(&mut self, end: CallEnd) {
        let (outcome, came) = match end {
            CallEnd::Denied => (CallOutcome::Failed, None),
            CallEnd::Finished(outcome, came) => (outcome, came),
        };
        match outcome {
            CallOutcome::Succeeded => self.failed_calls = 0,
            CallOutcome::Failed
            | CallOutcome::StoppedReading
            | CallOutcome::InDoubt
            | CallOutcome::StillRunning => {
                self.failed_calls = self.failed_calls.saturating_add(1);
            }
            // The denial already counted as a failed call.
            CallOutcome::Denied | CallOutcome::NotStarted => {}
        }
        if let Some(came) = came {
            self.repeats.apply(came);
        }
    }
}

impl fmt::Debug for RunGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("rails", &self.rails)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

/// Releases the reserved calls, however the run ended.
impl Drop for RunGuard {
    fn drop(&mut self) {
        self.ended();
    }
}

fn reached(limit: LimitKind, detail: String) -> Option<LimitReached> {
    Some(LimitReached { limit, scope: LimitScope::Run, detail })
}

const REQUEST_LOST: &str =
    "a process ended while a model answered, so the cost of that answer is not known";

fn at_least(price: Option<Price>, usage: &Usage) -> Money {
    price.map_or(Money::NONE, |price| price.at_least(usage))
}

fn no_price(provider: &str, model: &str) -> String {
    format!(
        "`{model}` of {provider} has no price; give it one with `AgentBuilder::models`, as in \
         `Models::default().with(\"{model}\", Price::new(input, output))`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        journal::{Decider, Repeat},
        message::{Block, ToolContent},
        policy::Limits,
        provider::StopReason,
        tool::{SideEffect, SideEffects},
    };

    fn spent(facts: &[Fact]) -> super::super::BudgetUsage {
        let budget = Budget::new(Limits::new());
        let mut guard = RunGuard::new(Guardrails::none(), Models::default(), budget);
        facts.iter().for_each(|fact| guard.apply(fact));
        guard.budget().spent()
    }

    #[test]
    fn facts_that_are_read_again_have_cost_the_same() {
        let call = ToolCall::new("a", "look", "{}");
        let replied = |block: Block, input| Fact::ModelReplied {
            message: Some(Message::assistant([block])),
            stop: StopReason::Complete,
            usage: Usage { input: Some(input), output: Some(1), ..Usage::default() },
            provider: "anthropic".to_owned(),
            model: "claude-sonnet-5".to_owned(),
            asked_model: None,
        };
        let facts = [
            Fact::UserSaid { message: Message::user("Go."), limits: None },
            replied(Block::ToolCall(call.clone()), 10),
            Fact::CallDecided {
                call: "a".to_owned(),
                decision: Decision::Allow {
                    side_effects: SideEffects::of(&[SideEffect::Read]),
                    repeat: Repeat::Read,
                    by: Decider::SideEffects,
                    reviewed: None,
                    binding: None,
                },
            },
            Fact::CallStarted { call: "a".to_owned() },
            Fact::CallFinished {
                result: ToolResult::new("a", CallOutcome::Succeeded, [ToolContent::from("It is.")]),
                spent: None,
            },
            replied(Block::text("Done."), 20),
            Fact::Interrupted {
                message: None,
                usage: Usage { input: Some(5), ..Usage::default() },
                cause: InterruptCause::Program,
                asked: true,
            },
        ];
        let told = spent(&facts);
        assert_eq!((told.turns, told.tool_calls), (3, 1), "an answer that broke off is a turn");
        assert_eq!((told.usage.input, told.usage.output), (Some(35), Some(2)));
        assert!(told.known_cost > 0.0 && told.cost.is_none(), "{told:?}");

        // Of an earlier run, only the charges are read.
        let budget = Budget::new(Limits::new());
        let mut guard = RunGuard::new(Guardrails::none(), Models::default(), budget);
        facts.iter().for_each(|fact| guard.charge_fact(fact));
        assert_eq!(guard.budget().spent(), told);

        let written = serde_json::to_string(&facts).expect("JSON");
        let read: Vec<Fact> = serde_json::from_str(&written).expect("the same");
        assert_eq!(spent(&read), told);
    }
}
