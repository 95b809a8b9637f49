//! What holds the limits of a run: a fold over its facts. It decides and never acts; the loop asks
//! it before each step. It knows no clock: the time limit is held where the clock is.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
};

use super::{
    Budget, Guardrails,
    chain::{self, Chain, NO_TOKENS},
    repeats::{Came, Repeats, with_note},
    sum::{Charge, Sum, Unknown, spent_by_agents},
};
use crate::{
    journal::{Decision, Entry, Limit, LimitScope, RunLimits, SummaryRequest},
    message::{CallOutcome, Message, ToolCall, ToolResult},
    models::{Models, Money, Price},
    provider::Usage,
    secret::beginning,
};

/// A limit that a run has reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitReached {
    /// Which.
    pub limit: Limit,
    /// Whose.
    pub scope: LimitScope,
    /// How, in words for a person.
    pub detail: String,
}

/// What the program should know before a limit ends the run. Each comes once in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Warning {
    /// Four fifths of a limit are used.
    Near(LimitReached),
    /// A limit is set and cannot be held, because nobody says how much is used.
    Unknown(LimitReached),
}

/// The price of a model.
struct Known {
    provider: String,
    model: String,
    asked: Option<String>,
    price: Option<Price>,
}

/// A call of the last answer, and what came of it.
struct OfAnswer {
    call: ToolCall,
    end: Option<End>,
}

/// What came of a call.
enum End {
    Denied,
    Finished(CallOutcome, Option<Came>),
}

/// Holds the limits of a run: the fold of its facts, and the budgets that it stands within. A
/// message of the user begins a run and, with it, all that is of the run alone.
pub(crate) struct Guard {
    rails: Arc<Guardrails>,
    models: Arc<Models>,
    budget: Budget,
    chain: Chain,
    /// What the run itself has spent, without all that is below it.
    own: Sum,
    /// Calls in a row that have failed or were denied.
    failed_calls: u32,
    /// Whether the model is being asked.
    asking: bool,
    /// What was looked up last.
    known: Option<Known>,
    /// Calls that the run has set aside.
    aside: u32,
    /// The calls of the last answer, in order.
    calls: Vec<OfAnswer>,
    /// Where each of them is.
    places: HashMap<String, usize>,
    /// How many of them have no result yet.
    open: usize,
    /// Calls of the last answer that have started, and are counted.
    started: HashSet<String>,
    repeats: Repeats,
    /// Limits that the program was warned of, and whose.
    warned: Vec<(Option<u64>, Limit)>,
}

impl Guard {
    /// Holds these limits, which may be shared, and those of this budget and all around it.
    pub(crate) fn new(
        rails: impl Into<Arc<Guardrails>>,
        models: impl Into<Arc<Models>>,
        budget: Budget,
    ) -> Self {
        Self {
            rails: rails.into(),
            models: models.into(),
            chain: budget.begun(),
            budget,
            own: Sum::default(),
            failed_calls: 0,
            asking: false,
            known: None,
            aside: 0,
            calls: Vec::new(),
            places: HashMap::new(),
            open: 0,
            started: HashSet::new(),
            repeats: Repeats::default(),
            warned: Vec::new(),
        }
    }

    /// Counts what a fact that was read says of agents: while they run, each of their facts is counted.
    pub(crate) fn charge_agents(&self, entry: &Entry) {
        if let Some((_, spent)) = spent_by_agents(entry) {
            self.chain.charge(&Charge::of_agents(spent), 0);
        }
    }

    /// The limits of the run alone.
    pub(crate) fn guardrails(&self) -> &Guardrails {
        &self.rails
    }

    /// What is spent and left, for others to look at while the run goes on.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// What limits the run, as plain data.
    pub(crate) fn run_limits(&self) -> RunLimits {
        self.budget.limits().of_run(&self.rails)
    }

    /// The run goes on: it may stand within other budgets than before.
    pub(crate) fn goes_on(&mut self) {
        self.chain = self.budget.begun();
        self.chain.turns(self.own.turns);
    }

    /// A run goes on with the calls that are open of this one, and with limits of its own.
    pub(crate) fn goes_on_from(&mut self, before: &Self) {
        self.started.clone_from(&before.started);
    }

    /// What the run's own turns have cost so far, if that is known.
    pub(crate) fn cost(&self) -> Option<f64> {
        self.own.cost().map(Money::to_f64)
    }

    /// The model is asked now: what is left does not wait for its answer.
    pub(crate) fn asked(&mut self) {
        self.give_back();
        self.is_asking(true);
    }

    /// The run is over.
    pub(crate) fn ended(&mut self) {
        self.give_back();
        self.is_asking(false);
    }

    /// Takes a fact.
    pub(crate) fn apply(&mut self, entry: &Entry) {
        self.is_asking(false);
        // Going on does not begin anew what was spent: a run that is started again whenever it fails
        // comes to its limits.
        if let Entry::UserSaid { .. } = entry {
            self.started.clear();
        }
        if let Entry::UserSaid { .. } | Entry::Resumed { limits: Some(_), .. } = entry {
            self.own = Sum::default();
            self.failed_calls = 0;
            self.calls.clear();
            self.places.clear();
            self.open = 0;
            self.repeats = Repeats::default();
            self.warned.clear();
        }
        let charge = self.charge_of(entry);
        self.charge(&charge);
        self.chain.turns(self.own.turns);
        match entry {
            Entry::ModelReplied { message, .. } => {
                self.repeats.turn();
                self.asked_for(message.as_ref());
            }
            Entry::Interrupted { message, .. } => self.asked_for(message.as_ref()),
            Entry::CallFinished { result, .. } | Entry::CallSettled { result, .. } => {
                self.finished(result);
            }
            Entry::CallDecided { call, decision: Decision::Deny { .. } } => {
                self.comes(call, End::Denied);
            }
            Entry::Given { .. }
            | Entry::CallEnded { .. }
            | Entry::UserSaid { .. }
            | Entry::Resumed { .. }
            | Entry::Steered { .. }
            | Entry::AnswerWanted { .. }
            | Entry::AnswerAccepted {}
            | Entry::AnswerRejected { .. }
            | Entry::Reopened { .. }
            | Entry::Forked {}
            | Entry::CallWaits { .. }
            | Entry::CallAnswered { .. }
            | Entry::CallUndecided { .. }
            | Entry::CallCleared { .. }
            | Entry::GrantRevoked { .. }
            | Entry::ToolsFound { .. }
            | Entry::ContextCleared { .. }
            | Entry::ContextCompacted { .. }
            | Entry::CompactionFailed { .. }
            | Entry::VendorSummaryRefused { .. }
            | Entry::ContextOverflowed { .. }
            | Entry::ContextPinned { .. }
            | Entry::CallStarted { .. }
            | Entry::CallDecided { decision: Decision::Allow { .. }, .. } => {}
        }
    }

    /// What a fact has cost, told from it and from those before.
    fn charge_of(&mut self, entry: &Entry) -> Charge {
        match entry {
            Entry::ModelReplied { usage, provider, model, asked_model, .. } => {
                let mut charge =
                    self.charge_of_answer(usage, provider, model, asked_model.as_deref());
                charge.turns = 1;
                charge
            }
            // No turn of the run: the model has answered nothing of it.
            Entry::ContextCompacted { request, .. } | Entry::CompactionFailed { request, .. } => {
                let SummaryRequest { usage, provider, model, asked_model, broke_off, .. } =
                    &**request;
                let mut charge =
                    self.charge_of_answer(usage, provider, model, asked_model.as_deref());
                charge.unknown.broke_off = *broke_off;
                charge
            }
            // A run that is resumed whenever its model breaks off would have no end if only complete
            // answers were turns.
            Entry::Interrupted { usage, asked, .. } => {
                // An answer that was cut off has cost more than was told of it.
                let unknown = Unknown { broke_off: *asked, ..Unknown::default() };
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
            // One that begins again, with its answer or after its process has ended, is the same call.
            Entry::CallStarted { call } => {
                let is_new = self.started.insert(call.clone());
                Charge { tool_calls: is_new.into(), ..Charge::default() }
            }
            // What was being done when the process ended may have been an answer of the model. A run
            // that ends its process each time would have no end otherwise.
            Entry::Reopened { .. } => Charge { turns: 1, ..Charge::default() },
            Entry::Given { .. }
            | Entry::UserSaid { .. }
            | Entry::Resumed { .. }
            | Entry::Steered { .. }
            | Entry::AnswerWanted { .. }
            | Entry::AnswerAccepted {}
            | Entry::AnswerRejected { .. }
            | Entry::Forked {}
            | Entry::CallDecided { .. }
            | Entry::CallWaits { .. }
            | Entry::CallAnswered { .. }
            | Entry::CallUndecided { .. }
            | Entry::CallCleared { .. }
            | Entry::GrantRevoked { .. }
            | Entry::ToolsFound { .. }
            | Entry::ContextCleared { .. }
            | Entry::VendorSummaryRefused { .. }
            | Entry::ContextOverflowed { .. }
            | Entry::ContextPinned { .. }
            | Entry::CallEnded { .. }
            | Entry::CallSettled { .. }
            | Entry::CallFinished { .. } => Charge::default(),
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
        let unknown = Unknown {
            broke_off: false,
            input: usage.input.is_none(),
            output: usage.output.is_none(),
            cost: why,
        };
        Charge { usage: *usage, money: at_least(price, usage), unknown, ..Charge::default() }
    }

    /// The limit that forbids to ask this model of this provider, if one does.
    pub(crate) fn before_turn(&mut self, provider: &str, model: &str) -> Option<LimitReached> {
        let rails = &*self.rails;
        if let Some(limit) = rails.turns.filter(|limit| self.own.turns >= *limit) {
            return reached(Limit::Turns, format!("the model was asked {limit} times"));
        }
        if let Some(over) = self.chain.overspent() {
            return Some(over);
        }
        if let Some(limit) = rails.failed_calls.filter(|limit| self.failed_calls >= *limit) {
            let failed = self.failed_calls;
            let detail = format!("{failed} calls failed in a row, {limit} may");
            return reached(Limit::FailedCalls, detail);
        }
        let repeated = self.repeats.most().zip(rails.repetitions);
        if let Some((most, _)) = repeated.filter(|(most, limit)| most.turns >= *limit) {
            // The model may have made the name up.
            let tool = beginning(&most.tool, 100);
            let detail = format!("`{tool}` said the same {} times", most.turns);
            return reached(Limit::Repetitions, detail);
        }
        match self.price(provider, model, None) {
            Some(_) => None,
            None => self.chain.refuses_unknown_cost(&no_price(provider, model)),
        }
    }

    /// The limit that forbids to go on with calls, if one does: each process that has ended meanwhile
    /// counts as a turn, so that calls that end theirs do not run for ever.
    pub(crate) fn before_going_on(&self) -> Option<LimitReached> {
        let limit = self.rails.turns.filter(|limit| self.own.turns > *limit)?;
        let detail = format!(
            "the model was asked, or the process of the run has ended, {} times; {limit} may",
            self.own.turns
        );
        reached(Limit::Turns, detail)
    }

    /// The limit that forbids to run so many calls, if one does: then none of them may. Else they
    /// are set aside, so that nobody else takes them.
    pub(crate) fn before_calls(&mut self, calls: usize) -> Option<LimitReached> {
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        let more = calls.saturating_sub(self.aside);
        if let Err(over) = self.chain.set_aside(more, calls, self.aside) {
            return Some(over);
        }
        self.aside = self.aside.saturating_add(more);
        self.chain.overspent()
    }

    /// The limit that forbids to run these calls, of which some may have started before, if one does.
    /// Those that were decided about elsewhere were not set aside here.
    pub(crate) fn before_running(&mut self, calls: &[ToolCall]) -> Option<LimitReached> {
        let new = calls.iter().filter(|call| !self.started.contains(call.id())).count();
        let are_aside = u32::try_from(new).is_ok_and(|new| new <= self.aside);
        if are_aside { None } else { self.before_calls(new) }
    }

    /// How many of so many calls of one answer run: the first ones.
    pub(crate) fn of_one_answer(&self, calls: usize) -> usize {
        let most =
            self.rails.calls_per_turn.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
        most.map_or(calls, |most| calls.min(most))
    }

    /// Whether a call may start before the answer is complete that asks for it and, so far, for
    /// this many: if it is one of those that run at all, and as many as can run of one answer are
    /// left. Then it is set aside. What else forbids calls was asked before that answer.
    pub(crate) fn starts_early(&mut self, so_far: usize) -> bool {
        if self.of_one_answer(so_far) != so_far {
            return false;
        }
        // Without a limit of calls, as many are left as anybody may ask for.
        let most = self.rails.calls_per_turn.unwrap_or(u32::MAX);
        let may = self.chain.set_aside(1, most, self.aside).is_ok();
        self.aside = self.aside.saturating_add(may.into());
        may
    }

    /// A call that started early was not wanted in the end. It has run, so it counts, though it is
    /// no fact of the conversation.
    pub(crate) fn dropped(&mut self) {
        self.charge(&Charge { tool_calls: 1, ..Charge::default() });
    }

    /// The result as the model shall read it: with a warning if it was heard too often.
    pub(crate) fn noted(&self, call: &ToolCall, result: ToolResult) -> ToolResult {
        let Some(limit) = self.rails.repetitions else { return result };
        let turns = self.repeats.turns_with(call, &result);
        if turns >= 2 && turns.saturating_add(1) == limit { with_note(&result) } else { result }
    }

    /// What the program should know now; each only once.
    pub(crate) fn warnings(&mut self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let counts = [
            (Limit::Turns, self.own.turns, self.rails.turns),
            (Limit::FailedCalls, self.failed_calls, self.rails.failed_calls),
        ];
        for (limit, used, allowed) in counts {
            let Some(allowed) = allowed else { continue };
            let percent = chain::percent(used.into(), allowed.into());
            if chain::is_near(percent) && self.is_new(None, limit) {
                let detail = chain::near(limit, "", percent);
                warnings.push(Warning::Near(LimitReached {
                    limit,
                    scope: LimitScope::Run,
                    detail,
                }));
            }
        }
        for noticed in self.chain.noticed() {
            if self.is_new(Some(noticed.node), noticed.reached.limit) {
                warnings.push(match noticed.is_near {
                    true => Warning::Near(noticed.reached),
                    false => Warning::Unknown(noticed.reached),
                });
            }
        }
        warnings
    }

    /// What the tokens of this model cost at this provider, also if another one was asked. Mostly it is
    /// the same one again.
    fn price(&mut self, provider: &str, model: &str, asked: Option<&str>) -> Option<Price> {
        if let Some(known) = &self.known
            && (known.provider.as_str(), known.model.as_str()) == (provider, model)
            && known.asked.as_deref() == asked
        {
            return known.price;
        }
        let price = self.models.price(provider, model, asked);
        let asked = asked.map(str::to_owned);
        self.known = Some(Known { provider: provider.into(), model: model.into(), asked, price });
        price
    }

    /// Whether the program was not warned of it yet; now it is.
    fn is_new(&mut self, node: Option<u64>, limit: Limit) -> bool {
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

    /// Counts it here and in all budgets. Calls that start were set aside before, if the loop asked.
    fn charge(&mut self, charge: &Charge) {
        let were_aside = charge.tool_calls.min(self.aside);
        self.aside = self.aside.saturating_sub(were_aside);
        self.own.add(charge);
        self.chain.charge(charge, were_aside);
    }

    /// Calls that were set aside and did not start are left to others.
    fn give_back(&mut self) {
        self.chain.give_back(std::mem::take(&mut self.aside));
    }

    /// The calls of a message wait for their results.
    fn asked_for(&mut self, message: Option<&Message>) {
        let Some(message) = message else { return };
        let calls = message.calls().map(|call| OfAnswer { call: call.clone(), end: None });
        self.calls = calls.collect();
        let ids = self.calls.iter().map(|it| it.call.id().to_owned());
        self.places = ids.zip(0..).collect();
        self.open = self.calls.len();
        self.started.clear();
    }

    fn finished(&mut self, result: &ToolResult) {
        let place = self.places.get(result.call_id()).and_then(|place| self.calls.get(*place));
        let came = place.filter(|it| !self.rails.polling.contains(it.call.name()));
        let came = came.and_then(|it| Came::of(&it.call, result));
        self.comes(result.call_id(), End::Finished(result.outcome(), came));
    }

    /// A call has ended. What came of the calls of one answer is counted when each of them has, in their
    /// order: in which order they end is chance.
    fn comes(&mut self, call: &str, end: End) {
        let place = self.places.get(call).and_then(|place| self.calls.get_mut(*place));
        let Some(place) = place else { return self.counts(end) };
        if place.end.replace(end).is_none() {
            self.open = self.open.saturating_sub(1);
        }
        if self.open == 0 {
            let ends: Vec<End> = self.calls.iter_mut().filter_map(|it| it.end.take()).collect();
            ends.into_iter().for_each(|end| self.counts(end));
        }
    }

    fn counts(&mut self, end: End) {
        let (outcome, came) = match end {
            End::Denied => (CallOutcome::Failed, None),
            End::Finished(outcome, came) => (outcome, came),
        };
        match outcome {
            CallOutcome::Succeeded => self.failed_calls = 0,
            CallOutcome::Failed
            | CallOutcome::StoppedReading
            | CallOutcome::InDoubt
            | CallOutcome::StillRunning => {
                self.failed_calls = self.failed_calls.saturating_add(1);
            }
            // A denial is counted as one.
            CallOutcome::Denied | CallOutcome::NotStarted => {}
        }
        if let Some(came) = came {
            self.repeats.apply(came);
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("rails", &self.rails)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

/// What was set aside is left to others, however the run ended.
impl Drop for Guard {
    fn drop(&mut self) {
        self.ended();
    }
}

fn reached(limit: Limit, detail: String) -> Option<LimitReached> {
    Some(LimitReached { limit, scope: LimitScope::Run, detail })
}

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
        journal::{Decider, InterruptCause, Repeat},
        message::{Block, ToolContent},
        policy::Limits,
        provider::StopReason,
        tool::{SideEffect, SideEffects},
    };

    fn spent(facts: &[Entry]) -> super::super::Spent {
        let budget = Budget::new(Limits::new());
        let mut guard = Guard::new(Guardrails::none(), Models::default(), budget);
        facts.iter().for_each(|fact| guard.apply(fact));
        guard.budget().spent()
    }

    #[test]
    fn facts_that_are_read_again_have_cost_the_same() {
        let call = ToolCall::new("a", "look", "{}");
        let replied = |block: Block, input| Entry::ModelReplied {
            message: Some(Message::assistant([block])),
            stop: StopReason::Complete,
            usage: Usage { input: Some(input), output: Some(1), ..Usage::default() },
            provider: "anthropic".to_owned(),
            model: "claude-sonnet-5".to_owned(),
            asked_model: None,
        };
        let facts = [
            Entry::UserSaid { message: Message::user("Go."), limits: None },
            replied(Block::ToolCall(call.clone()), 10),
            Entry::CallDecided {
                call: "a".to_owned(),
                decision: Decision::Allow {
                    side_effects: SideEffects::of(&[SideEffect::Read]),
                    repeat: Repeat::Read,
                    by: Decider::SideEffects,
                    reviewed: None,
                },
            },
            Entry::CallStarted { call: "a".to_owned() },
            Entry::CallFinished {
                result: ToolResult::new("a", CallOutcome::Succeeded, [ToolContent::from("It is.")]),
                spent: None,
            },
            replied(Block::text("Done."), 20),
            Entry::Interrupted {
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

        let written = serde_json::to_string(&facts).expect("JSON");
        let read: Vec<Entry> = serde_json::from_str(&written).expect("the same");
        assert_eq!(spent(&read), told);
    }
}
