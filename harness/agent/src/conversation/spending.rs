//! What a conversation has spent and may spend, and how long its run has taken.

use std::{mem, sync::Arc};

use crate::{Agent, run::clock::RunClock};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{Fact, RecordedLimits},
    models::Models,
    policy::{AgentSums, Budget, BudgetUsage, Guardrails, Limits, RunGuard},
    provider::Usage,
};

/// The spending and the clock of the run before a run.
pub(crate) type SpendingBefore = (Option<Box<RunGuard>>, Option<Box<BudgetUsage>>, RunClock);

/// The spending of a conversation and its runs.
pub(crate) struct ConversationSpending {
    /// Enforces the limits of the current run, or of the last run if it can be continued.
    guard: Option<Box<RunGuard>>,
    /// What the run had spent before it was resumed with limits of its own, which count from zero.
    before_resume: Option<Box<BudgetUsage>>,
    rails: Arc<Guardrails>,
    models: Arc<Models>,
    /// What all runs of the conversation have spent and may spend.
    pub(crate) budget: Budget,
    /// How long the run has taken.
    pub(crate) clock: RunClock,
    /// The tokens of all runs.
    pub(crate) usage: Usage,
    /// What the agents of open calls have spent.
    pub(crate) agents: AgentSums,
    /// Whether the facts that are read now belong to a run that another run has followed.
    pub(crate) is_past: bool,
}

impl ConversationSpending {
    /// The spending of a new conversation of this agent. The agent's spending includes this value only after
    /// [`count_for`](Self::count_for).
    pub(crate) fn new(agent: &Agent) -> Self {
        Self {
            guard: None,
            before_resume: None,
            rails: Arc::clone(agent.guardrails()),
            models: Arc::clone(agent.models()),
            budget: Budget::of_conversation(),
            clock: RunClock::default(),
            usage: Usage::default(),
            agents: AgentSums::default(),
            is_past: false,
        }
    }

    /// Adds all later spending of the conversation to the agent's spending.
    pub(crate) fn count_for(&mut self, agent: &Agent) {
        self.budget.within(&agent.budget());
        if let Some(guard) = &mut self.guard {
            guard.budget().within(&self.budget);
            guard.resume();
        }
    }

    /// The guard of the current or last run. Without one, a guard with nothing spent.
    pub(crate) fn guard(&mut self) -> &mut RunGuard {
        let Self { guard, rails, models, budget, .. } = self;
        guard.get_or_insert_with(|| {
            let budget = Budget::of_run(budget, Limits::new(), Arc::clone(rails));
            Box::new(RunGuard::new(Arc::clone(rails), Arc::clone(models), budget))
        })
    }

    /// The budget of the current or last run. Without one, the budget of the conversation.
    pub(crate) fn run_budget(&self) -> Budget {
        self.guard.as_ref().map_or(&self.budget, |guard| guard.budget()).clone()
    }

    /// What the current or last run has spent from its message on, with the agents in its calls.
    pub(crate) fn spent_by_run(&self) -> BudgetUsage {
        let spent =
            self.guard.as_ref().map_or_else(BudgetUsage::nothing, |guard| guard.budget().spent());
        self.before_resume.as_ref().map_or(spent, |before| before.plus(&spent))
    }

    /// Frees what only the last run has needed, after a run that cannot be continued.
    pub(crate) fn rest(&mut self) {
        (self.guard, self.before_resume) = (None, None);
    }

    /// The cost of the current or last run. `None` if it is unknown.
    pub(crate) fn cost(&self) -> Option<f64> {
        self.guard.as_ref().map_or(Some(0.0), |guard| guard.cost())
    }

    /// Applies a fact that was read from a journal, and that the machine has applied.
    pub(crate) fn read_fact(&mut self, agent: &Agent, fact: &Fact, is_asking: bool) {
        match fact {
            Fact::UserSaid { limits, .. } => {
                self.before_resume = None;
                self.read_run(agent, limits.as_deref());
            }
            Fact::Resumed { limits: Some(limits), .. } => {
                self.before_resume = Some(Box::new(self.spent_by_run()));
                self.read_run(agent, Some(limits));
            }
            // An answer that breaks off has the price of the model that was asked.
            Fact::Interrupted { asked: true, .. } => {
                let (provider, model) = agent.provider_and_model();
                self.guard().look_up_price(provider, model);
            }
            _ => {}
        }
        self.apply(fact, is_asking);
        self.guard().charge_agents(fact);
    }

    /// Handles a fact that begins a run, or continues it with new limits. The run gets the limits in the fact.
    /// If the fact has no limits, the run gets the agent's limits.
    fn read_run(&mut self, agent: &Agent, limits: Option<&RecordedLimits>) {
        let (rails, limits) = match limits {
            Some(limits) => {
                (Arc::new(Guardrails::said_of_run(limits)), Limits::said_of_run(limits))
            }
            None => (Arc::clone(agent.guardrails()), agent.run_limits().clone()),
        };
        let budget = Budget::of_run(&self.budget, limits, Arc::clone(&rails));
        let before = self.guard.replace(Box::new(guard(agent, rails, budget)));
        if let (Some(guard), Some(mut before)) = (&mut self.guard, before) {
            if self.before_resume.is_some() {
                guard.resume_from(&before);
            }
            guard.continue_after(&mut before);
        }
    }

    /// The budget for a new run.
    pub(crate) fn budget_of_run(&self, agent: &Agent) -> Budget {
        let rails = Arc::clone(agent.guardrails());
        Budget::of_run(&self.budget, agent.run_limits().clone(), rails)
    }

    /// The budget of the stopped run, for a run that continues it.
    pub(crate) fn budget_of_last_run(&mut self) -> Budget {
        self.guard().budget().clone()
    }

    /// A budget for a run that continues the stopped run and counts from zero.
    pub(crate) fn budget_anew(&self, agent: &Agent, last: &Budget) -> Budget {
        let rails = Arc::clone(agent.guardrails());
        last.anew(agent.run_limits().clone(), rails)
    }

    /// Fails if a limit of the conversation, of the agent or of the program forbids a request to the model
    /// outside of a run.
    pub(crate) fn may_ask(&self, agent: &Agent) -> Result<(), Error> {
        let rails = Arc::clone(agent.guardrails());
        let budget = Budget::of_run(&self.budget, Limits::new(), Arc::clone(&rails));
        let (provider, model) = agent.provider_and_model();
        match guard(agent, rails, budget).before_turn(provider, model) {
            Some(reached) => {
                let text = format!(
                    "the model was not asked, since a limit is reached: {}",
                    reached.detail
                );
                Err(Error::new(ErrorKind::Limit, text))
            }
            None => Ok(()),
        }
    }

    /// If `anew` is true, begins a new run with this budget, or with `resumes` continues the last run with this budget,
    /// and returns the spending and the clock of the last run. Otherwise continues the last run with its own budget.
    pub(crate) fn begin_run(
        &mut self,
        agent: &Agent,
        budget: Budget,
        anew: bool,
        resumes: bool,
    ) -> Option<SpendingBefore> {
        if !anew {
            self.guard().resume();
            return None;
        }
        let spent = resumes.then(|| Box::new(self.spent_by_run()));
        let mut guard = Box::new(guard(agent, Arc::clone(agent.guardrails()), budget));
        if let Some(before) = &self.guard {
            guard.resume_from(before);
        }
        let before_resume = mem::replace(&mut self.before_resume, spent);
        Some((self.guard.replace(guard), before_resume, mem::take(&mut self.clock)))
    }

    /// Restores the spending and the clock of the last run, because the new run has not begun.
    pub(crate) fn restore(&mut self, (guard, before_resume, clock): SpendingBefore) {
        (self.guard, self.before_resume, self.clock) = (guard, before_resume, clock);
    }

    /// How long the run has taken, in milliseconds.
    pub(crate) fn elapsed(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Applies a fact. `is_asking` is true if the machine waits for an answer of the model after this fact.
    pub(crate) fn apply(&mut self, fact: &Fact, is_asking: bool) {
        let is_past = self.is_past;
        let guard = self.guard();
        match is_past {
            true => guard.charge_fact(fact),
            false => guard.apply(fact),
        }
        if matches!(fact, Fact::Reopened { .. }) && is_asking {
            guard.request_was_lost();
        }
        self.agents.apply(fact);
        match fact {
            Fact::ModelReplied { usage, .. } | Fact::Interrupted { usage, .. } => {
                self.usage.add(usage);
            }
            Fact::ContextCompacted { request, .. } | Fact::CompactionFailed { request, .. } => {
                self.usage.add(&request.usage);
            }
            _ => {}
        }
    }
}

/// The guard that enforces the limits of a run with this budget.
fn guard(agent: &Agent, rails: Arc<Guardrails>, budget: Budget) -> RunGuard {
    RunGuard::new(rails, Arc::clone(agent.models()), budget)
}
