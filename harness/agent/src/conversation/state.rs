//! The state of a conversation: the fold of its facts, what it has spent, its journal and its trace. It does no I/O of its own.

use std::{collections::HashSet, mem, sync::Arc, time::Duration};

use harness_schema::SchemaCache;

use super::{
    durable::{DurableState, is_answer},
    observed::CallWaitTimes,
};
use crate::{
    Action, Agent, Grant, Machine,
    agent::OnWaiting,
    approval::ApprovalPolicy,
    compaction::gauge::{ContextGauge, ReducedMaxTokens},
    machine::{
        ContextView,
        folding::{for_each_fact, unreadable},
    },
    run::{
        clock::RunClock,
        options::{RunOptions, RunTools, offered},
        tool_search::{OfferedTools, tokens_of},
    },
};
use harness_core::{
    context::FileLimits,
    error::{Error, ErrorKind},
    journal::{ClearedResult, Decision, Envelope, Fact},
    message::{Message, ToolCall, Transcript},
    policy::{AgentSums, Budget, Guardrails, Limits, RunGuard, TaintTracker},
    provider::{ContextMeter, EncodedPrefix, ToolChoice, Usage},
    tool::{READ_RESULT, SharedValues, ToolRegistry},
    trace::Tracer,
};

/// The state of a conversation, which its runs share.
pub(crate) struct ConversationState {
    pub(crate) agent: Agent,
    pub(crate) machine: Machine,
    pub(crate) guard: RunGuard,
    /// What all runs of the conversation have spent and may spend.
    pub(crate) budget: Budget,
    /// How long the run has gone on.
    pub(crate) clock: RunClock,
    /// The connection to the journal, if the conversation has one.
    pub(crate) durable: Option<DurableState>,
    /// Answers that only the machine has taken in, since it is not known whether they are written.
    pub(crate) unwritten: Vec<Envelope>,
    /// Whether the last run waited, and no fact says yet that it goes on.
    pub(crate) has_waited: bool,
    /// Whether the conversation was opened in the middle of a run and nothing has happened since.
    pub(crate) only_looked_at: bool,
    pub(crate) tracer: Tracer,
    pub(crate) usage: Usage,
    /// The part of the conversation that the provider has already encoded.
    pub(crate) sent: EncodedPrefix,
    /// The sizes of the messages. Each is counted once.
    pub(crate) gauge: ContextGauge,
    /// How many tokens the answer to the next request may have, if the last one was refused for that.
    pub(crate) reduced_max_tokens: Option<ReducedMaxTokens>,
    /// Whether a vendor has refused a request since its answer might not fit.
    pub(crate) is_strict: bool,
    /// What a request may have, as far as its server has said so.
    pub(crate) file_limits: FileLimits,
    /// The files that were left out since the last answer, as they were sent before.
    pub(crate) files_before: Vec<ClearedResult>,
    /// The tools as the model gets them, if it has found some by searching.
    pub(crate) offered_tools: Option<Arc<OfferedTools>>,
    /// What a person has allowed for the rest of the conversation.
    pub(crate) grants: Vec<Grant>,
    /// The numbers of late ends that are recorded here: of calls that were stopped and went on.
    pub(crate) recorded_ends: HashSet<u64>,
    /// What the conversation has read.
    pub(crate) taint: TaintTracker,
    /// The values that the conversation shares with its tools.
    pub(crate) values: Option<SharedValues>,
    /// The options of the current run.
    pub(crate) options: Option<Box<RunOptions>>,
    /// The start time of each waiting call.
    pub(crate) wait_times: CallWaitTimes,
    /// Calls that were open when the conversation was opened. Their decisions were made elsewhere,
    /// perhaps by other rules.
    pub(crate) calls_from_previous_process: HashSet<String>,
    /// What the agents of open calls have spent.
    pub(crate) agents: AgentSums,
    /// Facts about calls that no watcher has been told of yet.
    pub(crate) unannounced: Vec<Fact>,
}

impl ConversationState {
    pub(crate) fn new(agent: Agent) -> Self {
        let chat = Self::uncounted(agent);
        chat.budget.within(&chat.agent.budget());
        chat
    }

    /// A conversation whose spending does not count for its agent.
    fn uncounted(agent: Agent) -> Self {
        let budget = Budget::of_conversation();
        // Nothing is spent until a run begins.
        let idle = Budget::of_run(&budget, Limits::new(), Arc::clone(agent.guardrails()));
        let guard = guard(&agent, Arc::clone(agent.guardrails()), idle);
        let tracer = Tracer::new(agent.trace());
        let gauge = ContextGauge::new(agent.meter());
        Self {
            agent,
            machine: Machine::new(),
            guard,
            budget,
            clock: RunClock::default(),
            durable: None,
            has_waited: false,
            only_looked_at: false,
            tracer,
            usage: Usage::default(),
            sent: EncodedPrefix::new(),
            gauge,
            offered_tools: None,
            grants: Vec::new(),
            unwritten: Vec::new(),
            reduced_max_tokens: None,
            is_strict: false,
            file_limits: FileLimits::default(),
            files_before: Vec::new(),
            recorded_ends: HashSet::new(),
            taint: TaintTracker::default(),
            values: None,
            options: None,
            wait_times: CallWaitTimes::default(),
            calls_from_previous_process: HashSet::new(),
            agents: AgentSums::default(),
            unannounced: Vec::new(),
        }
    }

    /// The conversation that these facts make. What was spent in them does not count for the agent
    /// of this process; what is spent later does.
    pub(crate) fn read(agent: Agent, facts: &[Envelope]) -> Result<Self, Error> {
        let mut reading = ChatReader::new(agent);
        facts.iter().try_for_each(|envelope| reading.take(envelope))?;
        reading.chat.count_for_agent();
        Ok(reading.chat)
    }

    /// From now on, what the conversation spends counts for its agent.
    pub(crate) fn count_for_agent(&mut self) {
        self.budget.within(&self.agent.budget());
        self.guard.budget().within(&self.budget);
        self.guard.resume();
    }

    /// The conversation that these facts make, and whether no process was working on it: its last run
    /// had ended as waiting, and since then only answers were added. What is spent later does not count for the
    /// agent, either. Other tasks of the same thread get their turn meanwhile.
    pub(crate) async fn read_in_parts(
        agent: Agent,
        facts: &[Envelope],
    ) -> Result<(Self, bool), Error> {
        let mut reading = ChatReader::new(agent);
        for_each_fact(facts.iter(), |envelope| reading.take(envelope)).await?;
        Ok((reading.chat, reading.waited == Some(true)))
    }

    pub(crate) fn read_fact(&mut self, fact: &Fact, envelope: &Envelope) -> Result<(), Error> {
        let begins = match fact {
            Fact::UserSaid { limits, .. } => Some(limits.as_deref()),
            Fact::Resumed { limits: Some(limits), .. } => Some(Some(&**limits)),
            _ => None,
        };
        if let Some(limits) = begins {
            let (rails, limits) = match limits {
                Some(limits) => {
                    (Arc::new(Guardrails::said_of_run(limits)), Limits::said_of_run(limits))
                }
                None => (Arc::clone(self.agent.guardrails()), self.agent.run_limits().clone()),
            };
            let budget = Budget::of_run(&self.budget, limits, Arc::clone(&rails));
            let mut before = mem::replace(&mut self.guard, guard(&self.agent, rails, budget));
            self.guard.continue_after(&mut before);
        }
        self.fold(fact)?;
        self.guard.charge_agents(fact);
        self.wait_times.note(fact, || envelope.at);
        self.clock.set_elapsed(Duration::from_millis(envelope.elapsed));
        Ok(())
    }

    pub(crate) fn given(agent: Agent, mut transcript: Transcript) -> Self {
        transcript.settle();
        let mut chat = Self::new(agent);
        // Neither step can fail: the transcript was settled above, and it is the first fact.
        let _ = chat.record(&Fact::Given { transcript });
        chat
    }

    /// The budget for a new run.
    pub(crate) fn budget_of_run(&self) -> Budget {
        let rails = Arc::clone(self.agent.guardrails());
        Budget::of_run(&self.budget, self.agent.run_limits().clone(), rails)
    }

    /// The error if a limit of the conversation, of the agent or of the program forbids to ask the model outside of a
    /// run.
    pub(crate) fn may_ask(&self) -> Result<(), Error> {
        let rails = Arc::clone(self.agent.guardrails());
        let budget = Budget::of_run(&self.budget, Limits::new(), Arc::clone(&rails));
        let (provider, model) = self.agent.provider_and_model();
        match guard(&self.agent, rails, budget).before_turn(provider, model) {
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

    /// The budget of the stopped run, for a run that continues it.
    pub(crate) fn budget_of_last_run(&self) -> Budget {
        self.guard.budget().clone()
    }

    /// A budget for the stopped run that counts from zero.
    pub(crate) fn budget_anew(&self, last: &Budget) -> Budget {
        let rails = Arc::clone(self.agent.guardrails());
        last.anew(self.agent.run_limits().clone(), rails)
    }

    /// Begins a run with this budget, or continues the last run with the budget that it has.
    /// Returns the guard and the clock of the run before if this run does not continue it.
    pub(crate) fn begin_run(&mut self, budget: Budget, anew: bool) -> Option<(RunGuard, RunClock)> {
        if !anew {
            self.guard.resume();
            return None;
        }
        let mut guard = guard(&self.agent, Arc::clone(self.agent.guardrails()), budget);
        guard.resume_from(&self.guard);
        Some((mem::replace(&mut self.guard, guard), mem::take(&mut self.clock)))
    }

    /// What a decision about a call of this conversation is based on.
    pub(crate) fn approval_policy<'a>(&'a self, agent: &'a Agent) -> ApprovalPolicy<'a> {
        ApprovalPolicy {
            agent,
            options: self.options.as_deref(),
            grants: &self.grants,
            read: self.taint.sources(),
            conversation: self.name(),
            in_journal: self.is_in_journal(),
        }
    }

    /// Whether the conversation is kept in a journal, and not by another driver.
    pub(crate) fn is_in_journal(&self) -> bool {
        self.durable.as_ref().is_some_and(|durable| durable.journal().is_some())
    }

    /// The conversation's name in its journal. Without a journal, it is the conversation's id.
    pub(crate) fn name(&self) -> &str {
        self.durable.as_ref().map_or(self.id(), |durable| durable.id())
    }

    /// The id of the conversation: the id of its first message.
    pub(crate) fn id(&self) -> &str {
        self.machine.id()
    }

    /// Applies a fact. It is written to the journal at the next moment at which it has to be.
    pub(crate) fn record(&mut self, fact: &Fact) -> Result<(), Error> {
        self.fold(fact)?;
        self.only_looked_at = false;
        self.tell(fact);
        if self.durable.is_none() {
            return Ok(());
        }
        let elapsed = self.elapsed();
        let Some(durable) = &mut self.durable else { return Ok(()) };
        durable.add(fact, elapsed)
    }

    /// For how long the run has gone on, in milliseconds.
    pub(crate) fn elapsed(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Applies a fact to the machine and to everything else that is derived from the facts.
    pub(crate) fn fold(&mut self, fact: &Fact) -> Result<(), Error> {
        self.machine.apply(fact)?;
        self.fold_beside_machine(fact);
        Ok(())
    }

    /// Applies a fact to everything that is derived from the facts, except to the machine.
    pub(crate) fn fold_beside_machine(&mut self, fact: &Fact) {
        self.guard.apply(fact);
        if matches!(fact, Fact::Reopened { .. }) && self.machine.is_asking() {
            self.guard.request_was_lost();
        }
        if self.taint.apply(fact) {
            self.report_sources_to_caller();
        }
        self.agents.apply(fact);
        match fact {
            Fact::ModelReplied { usage, .. } | Fact::Interrupted { usage, .. } => {
                self.usage.add(usage);
            }
            Fact::CallDecided { call, decision } => {
                self.grants.extend(Grant::of(call, decision));
            }
            Fact::ContextCleared { .. } | Fact::ToolsFound { .. } => self.reset_estimate(),
            Fact::ContextCompacted { request, .. } => {
                self.usage.add(&request.usage);
                self.reset_estimate();
            }
            Fact::CompactionFailed { request, .. } => self.usage.add(&request.usage),
            Fact::GrantRevoked { call, scope } => {
                self.grants.retain(|kept| kept.call != *call || kept.scope != *scope);
            }
            _ => {}
        }
    }

    /// Sets the options of the current run.
    pub(crate) fn set_options(&mut self, options: Option<Box<RunOptions>>) {
        self.options = options;
        // The run may offer other tools and ask for another length, and an earlier one may have been dropped.
        (self.offered_tools, self.reduced_max_tokens) = (None, None);
        self.report_sources_to_caller();
    }

    /// Tells the call that this run is part of what the conversation has read.
    pub(crate) fn report_sources_to_caller(&self) {
        if let Some(caller) = self.options.as_ref().and_then(|options| options.caller.as_ref()) {
            caller.add_sources(self.taint.sources());
        }
    }

    /// Records what the call that gives this run its task may know: the task may repeat it.
    pub(crate) fn record_sources_of_caller(&mut self) -> Result<(), Error> {
        let Some(caller) = self.options.as_ref().and_then(|options| options.caller.as_ref()) else {
            return Ok(());
        };
        let sources = caller.known_sources().beyond(self.taint.sources()).all().to_vec();
        match sources.is_empty() {
            true => Ok(()),
            false => self.record(&Fact::SourcesRead { call: None, sources }),
        }
    }

    /// The tools that the model gets in this run, and that can run in it.
    pub(crate) fn tools(&self) -> &ToolRegistry {
        offered(&self.agent, self.options.as_deref())
    }

    /// The same tools, in a value that can be kept.
    pub(crate) fn offered(&self) -> RunTools {
        let only = self.options.as_ref().and_then(|options| options.tools.clone());
        RunTools { agent: self.agent.clone(), only }
    }

    /// Fails if the run cannot begin with its options.
    pub(crate) fn check_options(&mut self) -> Result<(), Error> {
        if let Some(fault) = self.options.as_mut().and_then(|options| options.fault.take()) {
            return Err(fault);
        }
        if let Some(permissions) =
            self.options.as_ref().and_then(|options| options.permissions.as_ref())
        {
            permissions.check_names(self.agent.tools())?;
        }
        let settings = self.options.as_ref().and_then(|options| options.settings.as_ref());
        if let Some(ToolChoice::Tool(name)) = settings.and_then(|it| it.tool_choice.as_ref())
            && self.tools().is_searched(name)
            && !self.machine.found().iter().any(|found| found.tools.contains(name))
        {
            let why = format!(
                "`Settings::tool_choice` names `{name}`, which the model gets only after it has searched for it; \
                 name it in `ToolSearch::always`, or offer it by `only_tools`"
            );
            return Err(Error::new(ErrorKind::Configuration, why));
        }
        self.guard.budget().check()?;
        let brought = self.options.as_ref().map(|options| &options.values);
        let given = [brought, self.values.as_ref()];
        self.agent.check_state(|id| given.iter().flatten().any(|values| values.has(id)))
    }

    /// Whether a call that is denied ends the run.
    pub(crate) fn must_stop_on_denial(&self) -> bool {
        let sides = self.options.iter().flat_map(|options| options.sides());
        std::iter::once(self.agent.permissions()).chain(sides).any(|it| it.stops_on_denial())
    }

    /// What is sent to the agent's model.
    pub(crate) fn sent_view(&self) -> ContextView<'_> {
        let (provider, model) = self.agent.provider_and_model();
        self.machine.sent_view_for(provider, model)
    }

    /// Resets the estimate, because what is sent has changed.
    pub(crate) fn reset_estimate(&mut self) {
        self.gauge = ContextGauge::new(self.meter());
    }

    /// The tools as the model gets them now, if it has found some.
    pub(crate) fn offered_tools(&mut self) -> Option<Arc<OfferedTools>> {
        let found = self.machine.found();
        if found.is_empty() {
            return None;
        }
        let tools = self.tools();
        // Each run may have its own tools.
        let of = (found.len(), std::ptr::from_ref(tools).addr());
        if let Some(offered) = self.offered_tools.as_ref().filter(|offered| offered.of == of) {
            return Some(Arc::clone(offered));
        }
        let mut schemas = tools.schemas().to_vec();
        let names = found.iter().flat_map(|found| &found.tools);
        // A tool that does not exist any more is not offered.
        let more = names.filter(|name| tools.is_searched(name)).filter_map(|name| tools.get(name));
        schemas.extend(more.map(|tool| tool.schema().clone()));
        let offered = Arc::new(OfferedTools { of, schemas, forms: SchemaCache::default() });
        self.offered_tools = Some(Arc::clone(&offered));
        Some(offered)
    }

    /// The size of what every request begins with, including the tools that were found.
    pub(crate) fn meter(&self) -> ContextMeter {
        let tools = self.agent.tools();
        let names = self.machine.found().iter().flat_map(|found| &found.tools);
        let found = names.filter(|name| tools.is_searched(name)).filter_map(|name| tools.get(name));
        self.agent.meter().with_tools(tokens_of(found))
    }

    /// Changes to the agent for the journal that the conversation has got before anything was said.
    pub(crate) fn continue_as(&mut self, agent: Agent) {
        self.agent = agent;
        self.offered_tools = None;
        self.reset_estimate();
        let reads = self.agent.tools().get(READ_RESULT).is_some();
        if let Some(options) = self.options.as_mut().filter(|_| reads)
            && let Some(Ok(tools)) = options.tools.as_deref().map(|it| it.clone().reading_results())
        {
            options.tools = Some(Arc::new(tools));
        }
    }

    /// Keeps a fact for the watchers of the run, or of the next one.
    pub(crate) fn keep_for_watchers(&mut self, fact: &Fact) {
        let is_news = matches!(
            fact,
            Fact::CallDecided { decision: Decision::Deny { .. }, .. }
                | Fact::CallWaits { .. }
                | Fact::CallSettled { .. }
        );
        if is_news {
            self.unannounced.push(fact.clone());
        }
    }

    /// The last call of this id.
    pub(crate) fn call(&self, id: &str) -> Option<&ToolCall> {
        let messages = self.transcript().messages().iter().rev();
        messages.flat_map(Message::calls).find(|call| call.id() == id)
    }

    /// The hook for waiting calls: the agent's own, or else that of the runs above it.
    pub(crate) fn waiting_hook(&self) -> Option<&Arc<OnWaiting>> {
        let caller = || self.options.as_ref()?.caller.as_ref()?.on_waiting();
        self.agent.on_waiting().or_else(caller)
    }

    /// What was said so far.
    pub(crate) fn transcript(&self) -> &Transcript {
        self.machine.transcript()
    }

    /// What all runs of the conversation have spent, and what is left.
    pub(crate) fn budget(&self) -> Budget {
        self.budget.clone()
    }

    /// Withdraws a grant. Returns whether there was one.
    pub(crate) fn revoke(&mut self, grant: &Grant) -> bool {
        if !self.grants.contains(grant) {
            return false;
        }
        let (call, scope) = (grant.call.clone(), grant.scope.clone());
        let allowed = self.machine.calls_of_grant(&call, &scope);
        let revoked = self.record(&Fact::GrantRevoked { call, scope });
        let undecided = |call| self.record(&Fact::CallUndecided { call });
        revoked.and_then(|()| allowed.into_iter().try_for_each(undecided)).is_ok()
    }
}

/// The guard that holds the limits of a run with this budget.
fn guard(agent: &Agent, rails: Arc<Guardrails>, budget: Budget) -> RunGuard {
    RunGuard::new(rails, Arc::clone(agent.models()), budget)
}

/// A conversation whose facts are read.
struct ChatReader {
    chat: ConversationState,
    read: usize,
    /// Whether the run waited before the answers that were read last, if there are some.
    waited: Option<bool>,
}

impl ChatReader {
    fn new(agent: Agent) -> Self {
        Self { chat: ConversationState::uncounted(agent), read: 0, waited: None }
    }

    fn take(&mut self, envelope: &Envelope) -> Result<(), Error> {
        let Self { chat, read, waited } = self;
        let folded = envelope.fact().and_then(|fact| {
            let before = || chat.machine.next() == Action::AwaitAnswers;
            *waited = is_answer(&fact).then(|| waited.unwrap_or_else(before));
            chat.read_fact(&fact, envelope)
        });
        folded.map_err(|err| unreadable(*read, err))?;
        *read = read.saturating_add(1);
        Ok(())
    }
}
