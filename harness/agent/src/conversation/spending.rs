//! What a conversation has spent and may spend, and how long its run has taken.

use std::{mem, sync::Arc};

use crate::{Agent, run::clock::RunClock};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{Fact, RecordedLimits},
    policy::{AgentSums, Budget, Guardrails, Limits, RunGuard},
    provider::Usage,
};

/// The spending of a conversation and its runs.
pub(crate) struct ConversationSpending {
    /// Enforces the limits of the current or last run.
    pub(crate) guard: RunGuard,
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
        let budget = Budget::of_conversation();
        // Nothing is spent until a run begins.
        let idle = Budget::of_run(&budget, Limits::new(), Arc::clone(agent.guardrails()));
        Self {
            guard: guard(agent, Arc::clone(agent.guardrails()), idle),
            budget,
            clock: RunClock::default(),
            usage: Usage::default(),
            agents: AgentSums::default(),
            is_past: false,
        }
    }

    /// Adds all later spending of the conversation to the agent's spending.
    pub(crate) fn count_for(&mut self, agent: &Agent) {
        self.budget.within(&agent.budget());
        self.guard.budget().within(&self.budget);
        self.guard.resume();
    }

    /// Handles a fact that begins a run, or continues it with new limits. The run gets the limits in the fact.
    /// If the fact has no limits, the run gets the agent's limits.
    pub(crate) fn read_run(&mut self, agent: &Agent, limits: Option<&RecordedLimits>) {
        let (rails, limits) = match limits {
            Some(limits) => {
                (Arc::new(Guardrails::said_of_run(limits)), Limits::said_of_run(limits))
            }
            None => (Arc::clone(agent.guardrails()), agent.run_limits().clone()),
        };
        let budget = Budget::of_run(&self.budget, limits, Arc::clone(&rails));
        let mut before = mem::replace(&mut self.guard, guard(agent, rails, budget));
        self.guard.continue_after(&mut before);
    }

    /// The budget for a new run.
    pub(crate) fn budget_of_run(&self, agent: &Agent) -> Budget {
        let rails = Arc::clone(agent.guardrails());
        Budget::of_run(&self.budget, agent.run_limits().clone(), rails)
    }

    /// The budget of the stopped run, for a run that continues it.
    pub(crate) fn budget_of_last_run(&self) -> Budget {
        self.guard.budget().clone()
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

    /// If `anew` is true, begins a new run with this budget, and returns the guard and the clock of the last
    /// run. Otherwise continues the last run with its own budget.
    pub(crate) fn begin_run(
        &mut self,
        agent: &Agent,
        budget: Budget,
        anew: bool,
    ) -> Option<(RunGuard, RunClock)> {
        if !anew {
            self.guard.resume();
            return None;
        }
        let mut guard = guard(agent, Arc::clone(agent.guardrails()), budget);
        guard.resume_from(&self.guard);
        Some((mem::replace(&mut self.guard, guard), mem::take(&mut self.clock)))
    }

    /// How long the run has taken, in milliseconds.
    pub(crate) fn elapsed(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Applies a fact. `is_asking` is true if the machine waits for an answer of the model after this fact.
    pub(crate) fn apply(&mut self, fact: &Fact, is_asking: bool) {
        match self.is_past {
            true => self.guard.charge_fact(fact),
            false => self.guard.apply(fact),
        }
        if matches!(fact, Fact::Reopened { .. }) && is_asking {
            self.guard.request_was_lost();
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
