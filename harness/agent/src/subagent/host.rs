//! The connection between a run and the agents in its calls: the data that an agent gets from the run, and
//! the reports that the run gets from the agent.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::oneshot;

use super::suspended_child::SuspendedChild;
use crate::{
    AgentCall,
    agent::OnWaiting,
    conversation::durable::{InJournal, guarded},
    run::progress::{AgentRequest, PauseGuard, ProgressSender},
};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{CallSpent, Fact, Incarnation, Source, Sources},
    message::{ToolCall, ToolResult},
    policy::{Approver, Budget, Permissions, rest_of},
    tool::{ConcurrencyLimit, HumanWait, HumanWaitGuard, SideEffects, ToolRegistry},
};

/// The approver, and the name of the person if known.
pub(crate) type NamedApprover = (Option<String>, Arc<dyn Approver>);

impl InJournal {
    /// Whether the journal has this incarnation of a conversation.
    pub(super) async fn has(
        &self,
        name: &str,
        incarnation: Option<Incarnation>,
    ) -> Result<bool, Error> {
        // Only the head is needed: no fact has this number, so no fact is read.
        let there = guarded(|| self.journal.read(name, u64::MAX)).await?.head.incarnation;
        Ok(there.is_some() && there == incarnation)
    }

    /// Fails if the journal does not have this conversation any more.
    pub(super) async fn check(&self) -> Result<(), Error> {
        if self.has(&self.id, self.incarnation.get().copied()).await? {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "the conversation `{}` was deleted while a call of it ran, so the agent of the call did not run",
                self.id
            ),
        ))
    }
}

/// The data of a run that the agents in its calls need.
pub(crate) struct ParentRun {
    /// The conversation of the run, if it is in a journal.
    pub(super) kept: Option<InJournal>,
    pub(super) budget: Budget,
    pub(super) progress_sender: ProgressSender,
    pub(super) approver: Option<NamedApprover>,
    pub(super) on_waiting: Option<Arc<OnWaiting>>,
    /// The call that has started this run. `None` if no call has started it.
    pub(super) above: Option<Arc<SubagentHost>>,
    /// The concurrency limits that already count the call which started this run.
    pub(super) places: Vec<ConcurrencyLimit>,
    /// Whether the events of this run or of an outer run have a receiver.
    pub(super) is_watched: bool,
    /// How many levels of agents may still be nested below this run. `None` means no limit.
    pub(super) depth: Option<u32>,
    /// How many agents this run may still start. `None` means no limit.
    pub(super) left: Mutex<Option<u32>>,
    /// The name of the run in traces.
    pub(super) traced: OnceLock<String>,
    /// The id of the call whose agent has ended with a denial that also ends this run.
    pub(super) denied: Mutex<Option<String>>,
}

impl ParentRun {
    pub(crate) fn progress_sender(&self) -> ProgressSender {
        self.progress_sender.clone()
    }

    /// The concurrency limits that already count the call which started this run.
    pub(crate) fn places(&self) -> &[ConcurrencyLimit] {
        &self.places
    }

    /// Takes the id of the call whose agent has ended with a denial that also ends this run.
    pub(crate) fn take_denied_call(&self) -> Option<String> {
        self.denied.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Sets the name of the run in traces.
    pub(crate) fn is_traced_as(&self, run: &str) {
        if !run.is_empty() {
            let _ = self.traced.set(run.to_owned());
        }
    }
}

/// The host of the agents that one call starts. The host holds that call and the run that made the call.
pub(crate) struct SubagentHost {
    pub(crate) caller: Arc<ParentRun>,
    pub(crate) call: ToolCall,
    /// The id of the message to which the model has replied with the call.
    pub(crate) message: String,
    effects: SideEffects,
    /// The permissions that apply in the run, and the sources that its conversation had read before the call.
    rules: CallerRules,
    /// Whether the call's tool is an agent. Such a tool reads nothing itself.
    is_agent: bool,
    /// The number of the tool's last attempt, and how many agents that attempt has run so far.
    runs: Mutex<(u32, u32)>,
    /// What the call's agents spend in this process.
    budget: OnceLock<Budget>,
    /// The part of `budget` for agents whose conversations are in a journal.
    kept_budget: OnceLock<Budget>,
    /// How long the call's agents have waited: for a person, or for the write of the fact that the call has
    /// started.
    asking: HumanWait,
    /// Whether the call has begun, but no fact in the journal records this. A call may begin while the model
    /// is still answering.
    is_unwritten: AtomicBool,
    /// Whether a fact in the journal says that the call runs agents whose conversations are in no journal.
    runs_unkept: AtomicBool,
    state: Mutex<SubagentState>,
}

#[derive(Default)]
pub(super) struct SubagentState {
    /// The spending of earlier processes that is counted already, for agents whose conversations are in a
    /// journal.
    pub(super) counted: CallSpent,
    /// The part of the budget's spending that facts of this run have recorded.
    pub(super) recorded: CallSpent,
    /// The agents that can continue later, one entry for each conversation.
    pub(super) suspended: Vec<SuspendedChild>,
    /// The names of the conversations that were opened in this process.
    pub(super) opened: HashSet<String>,
    /// The sources that the conversations of the call's agents have read.
    pub(super) read: Sources,
}

impl SubagentHost {
    pub(crate) fn new(
        caller: &Arc<ParentRun>,
        call: &ToolCall,
        effects: SideEffects,
        rules: CallerRules,
        counted: CallSpent,
        asking: HumanWait,
        is_unwritten: bool,
    ) -> Self {
        Self {
            caller: Arc::clone(caller),
            call: call.clone(),
            message: String::new(),
            effects,
            rules,
            is_agent: false,
            runs: Mutex::default(),
            budget: OnceLock::new(),
            kept_budget: OnceLock::new(),
            asking,
            is_unwritten: is_unwritten.into(),
            runs_unkept: false.into(),
            state: Mutex::new(SubagentState { counted, ..SubagentState::default() }),
        }
    }

    /// Sets whether the call's tool is an agent.
    pub(crate) fn of_agent(mut self, is_agent: bool) -> Self {
        self.is_agent = is_agent;
        self
    }

    /// Sets the id of the message to which the model has replied with the call.
    pub(crate) fn with_message_id(mut self, message: &str) -> Self {
        self.message = message.to_owned();
        self
    }

    pub(super) fn state(&self) -> MutexGuard<'_, SubagentState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The budget of the agents that this call runs. This budget is a part of the budget of the run that made
    /// the call.
    pub(crate) fn budget(&self) -> &Budget {
        self.budget.get_or_init(|| Budget::of_agents(&self.caller.budget))
    }

    /// The part of [`budget`](Self::budget) for agents whose conversations are in a journal.
    pub(super) fn kept_budget(&self) -> &Budget {
        self.kept_budget.get_or_init(|| Budget::of_agents(self.budget()))
    }

    pub(crate) fn rules(&self) -> &CallerRules {
        &self.rules
    }

    /// The sources that the call's agents have read, without the sources that the caller had read before the
    /// call.
    pub(crate) fn source(&self) -> Option<Source> {
        let read = self.state().read.clone();
        let effects = if self.is_agent { SideEffects::NONE } else { self.effects };
        let source = Source::new(self.call.name(), effects).around(&read);
        (self.is_agent || !source.inside.is_empty()).then_some(source)
    }

    /// The sources that the caller had read before the call, and the tool itself unless it is an agent.
    fn known_before_call(&self) -> Sources {
        let mut knew = self.rules.read.clone();
        if !self.is_agent {
            knew.add(&Source::new(self.call.name(), self.effects));
        }
        knew
    }

    /// The sources whose text the call may contain now, including the sources that its agents have read so far.
    pub(crate) fn known_sources(&self) -> Sources {
        let mut knows = self.known_before_call();
        knows.add_all(self.state().read.all());
        knows
    }

    /// Adds the sources of an agent's conversation to this call and to all outer calls. This happens at once,
    /// because the agent's text can reach the caller at any time, even after a stop of the agent.
    pub(crate) fn add_sources(&self, sources: &Sources) {
        let new = sources.beyond(&self.known_before_call());
        if !self.state().read.add_all(new.all()) {
            return;
        }
        if let (Some(above), Some(source)) = (&self.caller.above, self.source()) {
            let mut read = Sources::default();
            read.add(&source);
            above.add_sources(&read);
        }
    }

    /// The approver of the caller's run.
    pub(crate) fn approver(&self) -> Option<(Option<&str>, &Arc<dyn Approver>)> {
        self.caller.approver.as_ref().map(|(who, approver)| (who.as_deref(), approver))
    }

    pub(crate) fn on_waiting(&self) -> Option<&Arc<OnWaiting>> {
        self.caller.on_waiting.as_ref()
    }

    /// The fact that this call has started a run. `None` if the conversation of the call is not in a journal.
    pub(crate) fn started_run_fact(&self) -> Option<Fact> {
        let conversation = self.caller.kept.as_ref()?.id.to_string();
        let (call, message) = (self.call.id().to_owned(), Some(self.message.clone()));
        Some(Fact::CalledBy { conversation, call, message })
    }

    /// The names of the tools whose calls lead to the agent, the outermost first.
    pub(crate) fn tool_names(&self) -> Vec<String> {
        let mut names =
            self.caller.above.as_ref().map(|above| above.tool_names()).unwrap_or_default();
        names.push(self.call.name().to_owned());
        names
    }

    /// The spending of the call's agents that no fact of this run has recorded yet. Marks this spending as
    /// recorded.
    pub(crate) fn unrecorded_spending(&self) -> Option<Box<CallSpent>> {
        let mut spent = self.budget.get()?.call_spent()?;
        spent.kept = self.kept_budget.get().and_then(Budget::call_spent);
        let mut state = self.state();
        let rest = rest_of([&*spent], &state.recorded);
        state.recorded = *spent;
        rest
    }

    /// Records whether the agent of this conversation can continue later. `None` means that the agent cannot.
    pub(super) fn set_suspended(&self, conversation: &str, child: Option<SuspendedChild>) {
        let mut state = self.state();
        state.suspended.retain(|other| other.conversation != conversation);
        state.suspended.extend(child);
    }

    /// Takes a suspended agent of the call, if this result leaves the call open. Prefers a waiting agent to
    /// an agent with an error. `is_repeatable`: whether the call may run any number of times.
    pub(crate) fn take_suspended(
        &self,
        result: &ToolResult,
        is_repeatable: bool,
    ) -> Option<SuspendedChild> {
        let mut state = self.state();
        let all = state.suspended.iter().enumerate();
        let explaining = all.filter(|(_, child)| child.explains(result, is_repeatable));
        let index = explaining.min_by_key(|(_, child)| child.error.is_some())?.0;
        Some(state.suspended.swap_remove(index))
    }

    /// Whether the denial of an agent's call also ends the runs that have started the agent.
    pub(crate) fn must_stop_on_denial(&self) -> bool {
        self.rules.permissions.iter().any(|permissions| permissions.stops_on_denial())
    }

    /// The sender for the events of the call's agents, if the events have a receiver.
    pub(crate) fn listener(&self) -> Option<(ProgressSender, AgentCall)> {
        let call = AgentCall { tool: self.call.name().into(), call: self.call.id().into() };
        self.caller.is_watched.then(|| (self.caller.progress_sender.clone(), call))
    }

    /// The name of the run in traces, and the id of the call.
    pub(crate) fn trace_ids(&self) -> Option<(&str, &str)> {
        Some((self.caller.traced.get()?, self.call.id()))
    }

    /// Stops the clocks of this call and its run, and of all outer calls and runs, while a person is asked.
    /// Dropping the returned guards starts the clocks again.
    pub(crate) fn pause(&self) -> Vec<(PauseGuard, HumanWaitGuard)> {
        let mut all = self.caller.above.as_ref().map(|above| above.pause()).unwrap_or_default();
        all.push((self.caller.progress_sender.pause(), self.asking.begin()));
        all
    }

    /// Counts an agent with these side effects. Fails if the agent is not allowed to run.
    pub(crate) fn admit(&self, effects: SideEffects) -> Result<(), Error> {
        let refused = |why: String| Err(Error::new(ErrorKind::Configuration, why));
        if !self.effects.has_all(effects) {
            let tool = self.call.name();
            return refused(format!(
                "the tool `{tool}` declares `{}`, and the agent that it runs has tools with `{effects}`: \
                 the agent did not run. Declare all of them on the tool, or let the agent run with fewer \
                 tools, by `only_tools`",
                self.effects
            ));
        }
        if self.caller.depth == Some(0) {
            return refused(
                "agents are already nested as deep as they may be: the agent did not run. \
                 `Guardrails::agent_depth` allows more"
                    .to_owned(),
            );
        }
        let mut left = self.caller.left.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *left {
            None => Ok(()),
            Some(0) => refused(
                "the run has already used all the agents that it may: the agent did not run. \
                 `Guardrails::agents` allows more"
                    .to_owned(),
            ),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }

    /// Waits until the model's answer is complete and the start of the call is written, because an agent
    /// costs money and its conversation is named after the call. If the agent's conversation is in no
    /// journal, another fact records the agent, because its cost is lost if the process ends. Returns `false`
    /// if the agent must not begin.
    pub(crate) async fn is_written(&self, is_kept: bool) -> bool {
        let is_unkept = !is_kept && self.caller.kept.is_some();
        let is_untold = is_unkept && !self.runs_unkept.load(Ordering::Acquire);
        if !self.is_unwritten.load(Ordering::Acquire) && !is_untold {
            return true;
        }
        let _no_time = self.asking.begin();
        let (permission, permitted) = oneshot::channel();
        let unkept = is_untold.then(|| self.call.id().to_owned());
        self.caller.progress_sender.request_agent(AgentRequest { unkept, permission });
        if permitted.await.is_err() {
            return false;
        }
        self.is_unwritten.store(false, Ordering::Release);
        self.runs_unkept.fetch_or(is_untold, Ordering::AcqRel);
        true
    }

    /// The number of the next agent in this attempt of the tool, from 0.
    pub(crate) fn next_number(&self, attempt: u32) -> u32 {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if runs.0 != attempt {
            *runs = (attempt, 0);
        }
        let number = runs.1;
        runs.1 = number.saturating_add(1);
        number
    }

    /// Whether one of the call's agents was started or continued in this process.
    pub(crate) fn has_entered(&self) -> bool {
        !self.state().opened.is_empty()
    }
}

/// The data of a run that is needed for decisions about the calls of its agents.
pub(crate) struct CallerRules {
    /// The permissions that apply in the run, including the permissions of the runs that have started it.
    pub(crate) permissions: Vec<Arc<Permissions>>,
    /// The sources that the conversation of the run has read.
    pub(crate) read: Sources,
}

/// All side effects that these tools declare.
pub(crate) fn effects_of(tools: &ToolRegistry) -> SideEffects {
    tools.tools().iter().fold(SideEffects::NONE, |all, tool| all.union(tool.side_effects()))
}
