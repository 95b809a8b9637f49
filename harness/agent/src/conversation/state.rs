//! The state of a conversation: what follows from its facts, its spending, its options and its trace. This file
//! does no I/O: `journaling` writes the facts.

use std::{sync::Arc, time::Duration};

use harness_schema::SchemaCache;

use super::{
    durable::{DurableState, is_answer},
    observed::CallWaitTimes,
    spending::ConversationSpending,
};
use crate::{
    Action, Agent, Grant, Machine,
    agent::OnWaiting,
    approval::{ApprovalPolicy, ApprovalState},
    compaction::gauge::ContextGauge,
    machine::{
        ContextView,
        folding::{USER_SAID, for_each_fact, unreadable},
    },
    run::{
        options::{RunOptions, RunTools, offered},
        request_state::RequestState,
        tool_search::{OfferedTools, tokens_of},
    },
};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{Decision, Envelope, Fact},
    message::{Message, ToolCall, Transcript},
    policy::Budget,
    provider::{ContextMeter, ContextTokens, ToolChoice},
    tool::{READ_RESULT, SharedValues, ToolRegistry},
    trace::Tracer,
};

/// The state of a conversation, which its runs share.
pub(crate) struct ConversationState {
    pub(crate) agent: Agent,
    pub(crate) machine: Machine,
    pub(crate) spending: ConversationSpending,
    /// The connection to the journal, if the conversation has one.
    pub(crate) durable: Option<Box<DurableState>>,
    /// Answers that the machine has applied. The journal may lack these answers, because the write may have
    /// failed.
    pub(crate) unwritten: Vec<Envelope>,
    /// Whether the last run waited, and no later fact continues that run.
    pub(crate) has_waited: bool,
    /// Whether the conversation was opened in the middle of a run and nothing has happened since.
    pub(crate) only_looked_at: bool,
    pub(crate) tracer: Tracer,
    pub(crate) requests: RequestState,
    pub(crate) approvals: ApprovalState,
    /// The numbers of the late ends that this conversation has recorded. A late end is the end of a call that
    /// was stopped but went on.
    pub(crate) recorded_ends: Vec<u64>,
    /// The values that the conversation shares with its tools.
    pub(crate) values: Option<SharedValues>,
    pub(crate) options: Option<Box<RunOptions>>,
    /// The start time of each waiting call.
    pub(crate) wait_times: CallWaitTimes,
    /// Facts about calls for which the watchers have not received an event yet.
    pub(crate) unannounced: Vec<Fact>,
}

impl ConversationState {
    pub(crate) fn new(agent: Agent) -> Self {
        let state = Self::uncounted(agent);
        state.spending.budget.within(&state.agent.budget());
        state
    }

    /// A conversation whose spending does not count for its agent.
    fn uncounted(agent: Agent) -> Self {
        let (spending, tracer) = (ConversationSpending::new(&agent), Tracer::new(agent.trace()));
        let requests = RequestState::new(agent.meter());
        Self {
            agent,
            machine: Machine::new(),
            spending,
            durable: None,
            unwritten: Vec::new(),
            has_waited: false,
            only_looked_at: false,
            tracer,
            requests,
            approvals: ApprovalState::default(),
            recorded_ends: Vec::new(),
            values: None,
            options: None,
            wait_times: CallWaitTimes::default(),
            unannounced: Vec::new(),
        }
    }

    /// Makes a conversation from these facts. The agent's spending in this process includes only the later
    /// spending of the conversation.
    pub(crate) fn read(agent: Agent, facts: &[Envelope]) -> Result<Self, Error> {
        let mut reading = StateReader::new(agent, facts);
        facts.iter().try_for_each(|envelope| reading.take(envelope))?;
        reading.state.count_for_agent();
        Ok(reading.state)
    }

    /// Adds all later spending of the conversation to the agent's spending.
    pub(crate) fn count_for_agent(&mut self) {
        self.spending.count_for(&self.agent);
    }

    /// Makes a conversation from these facts. Also returns whether no process works on the conversation: the
    /// last run waits, and all later facts are answers. The agent's spending never includes the spending of
    /// this conversation. Yields to other tasks between parts of the facts.
    pub(crate) async fn read_in_parts(
        agent: Agent,
        facts: &[Envelope],
    ) -> Result<(Self, bool), Error> {
        let mut reading = StateReader::new(agent, facts);
        for_each_fact(facts.iter(), |envelope| reading.take(envelope)).await?;
        Ok((reading.state, reading.waited == Some(true)))
    }

    pub(crate) fn read_fact(&mut self, fact: &Fact, envelope: &Envelope) -> Result<(), Error> {
        self.machine.apply(fact)?;
        self.spending.read_fact(&self.agent, fact, self.machine.is_asking());
        self.fold_approvals(fact);
        self.wait_times.note(fact, || envelope.at);
        self.spending.clock.set_elapsed(Duration::from_millis(envelope.elapsed));
        Ok(())
    }

    pub(crate) fn given(agent: Agent, mut transcript: Transcript) -> Self {
        transcript.settle();
        let mut state = Self::new(agent);
        // `record` cannot fail: `Given` is the first fact, and every call of the transcript has a result now.
        let _ = state.record(&Fact::Given { transcript });
        state
    }

    /// The inputs of a decision about a call of this conversation.
    pub(crate) fn approval_policy<'a>(&'a self, agent: &'a Agent) -> ApprovalPolicy<'a> {
        ApprovalPolicy {
            agent,
            options: self.options.as_deref(),
            grants: &self.approvals.grants,
            read: self.approvals.taint.sources(),
            conversation: self.name(),
            in_journal: self.is_in_journal(),
        }
    }

    /// Whether the conversation is in a journal. False if another driver takes the facts.
    pub(crate) fn is_in_journal(&self) -> bool {
        self.durable.as_ref().is_some_and(|durable| durable.journal().is_some())
    }

    /// The conversation's name in its journal. Without a journal, the conversation's id.
    pub(crate) fn name(&self) -> &str {
        self.durable.as_ref().map_or(self.id(), |durable| durable.id())
    }

    /// The id of the conversation: the id of its first message.
    pub(crate) fn id(&self) -> &str {
        self.machine.id()
    }

    /// Applies a fact and adds it to the pending facts. The driver decides when to write the pending facts.
    pub(crate) fn record(&mut self, fact: &Fact) -> Result<(), Error> {
        self.fold(fact)?;
        self.only_looked_at = false;
        self.tell(fact);
        if self.durable.is_none() {
            return Ok(());
        }
        let elapsed = self.spending.elapsed();
        let Some(durable) = &mut self.durable else { return Ok(()) };
        durable.add(fact, elapsed)
    }

    /// Applies a fact to the machine and to everything else that is derived from the facts.
    pub(crate) fn fold(&mut self, fact: &Fact) -> Result<(), Error> {
        let is_cleared = matches!(fact, Fact::ContextCleared { .. });
        let past = is_cleared.then(|| self.sent_view().messages().clone());
        self.machine.apply(fact)?;
        self.fold_beside_machine(fact);
        if let Some(past) = past {
            let mut gauge = self.requests.gauge;
            gauge.replace(&past, self.sent_view());
            self.requests.gauge = gauge;
        }
        Ok(())
    }

    /// Applies a fact to everything that is derived from the facts, except to the machine.
    pub(crate) fn fold_beside_machine(&mut self, fact: &Fact) {
        self.spending.apply(fact, self.machine.is_asking());
        self.fold_approvals(fact);
    }

    /// Applies a fact to the decisions, the sources that were read, and the estimate.
    fn fold_approvals(&mut self, fact: &Fact) {
        if self.approvals.apply(fact) {
            self.report_sources_to_caller();
        }
        if let Fact::ToolsFound { .. } | Fact::ContextCompacted { .. } = fact {
            self.reset_estimate();
        }
    }

    pub(crate) fn set_options(&mut self, options: Option<Box<RunOptions>>) {
        if options.as_ref().is_some_and(|options| options.tools.is_some()) {
            // The tools of this run may have the same address as the tools of an earlier run, so the cached
            // prefix cannot be used.
            self.requests.prefix = None;
        }
        self.options = options;
        self.requests.begin_run();
        self.report_sources_to_caller();
    }

    /// If this run is inside a tool call, reports to the caller's run which sources the conversation has read.
    pub(crate) fn report_sources_to_caller(&self) {
        if let Some(caller) = self.options.as_ref().and_then(|options| options.caller.as_ref()) {
            caller.add_sources(self.approvals.taint.sources());
        }
    }

    /// If this run is inside a tool call, records the sources that the caller has read: the task may contain
    /// content of these sources.
    pub(crate) fn record_sources_of_caller(&mut self) -> Result<(), Error> {
        let Some(caller) = self.options.as_ref().and_then(|options| options.caller.as_ref()) else {
            return Ok(());
        };
        let sources = caller.known_sources().beyond(self.approvals.taint.sources()).all().to_vec();
        match sources.is_empty() {
            true => Ok(()),
            false => self.record(&Fact::SourcesRead { call: None, sources }),
        }
    }

    /// The tools that the model can call in this run.
    pub(crate) fn tools(&self) -> &ToolRegistry {
        offered(&self.agent, self.options.as_deref())
    }

    /// The tools of this run, as an owned value.
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
        self.spending.guard().budget().check()?;
        let brought = self.options.as_ref().map(|options| &options.values);
        let given = [brought, self.values.as_ref()];
        self.agent.check_state(|id| given.iter().flatten().any(|values| values.has(id)))
    }

    /// Whether a denied call ends the run.
    pub(crate) fn must_stop_on_denial(&self) -> bool {
        let sides = self.options.as_deref().map(RunOptions::sides).unwrap_or_default();
        self.agent.permissions().stops_on_denial() || sides.iter().any(|it| it.stops_on_denial())
    }

    /// The messages in requests to the agent's model.
    pub(crate) fn sent_view(&self) -> ContextView<'_> {
        let (provider, model) = self.agent.provider_and_model();
        self.machine.sent_view_for(provider, model)
    }

    /// Estimates the tokens of the request that is sent now, by part.
    pub(crate) fn estimate_request(&mut self) -> ContextTokens {
        let mut gauge = self.requests.gauge;
        let tokens = gauge.estimate_request(self.sent_view());
        self.requests.gauge = gauge;
        tokens
    }

    /// Resets the estimate, because the messages that are sent have changed.
    pub(crate) fn reset_estimate(&mut self) {
        self.requests.gauge = ContextGauge::new(self.meter());
    }

    /// The tools that the model gets now. `None` means the agent's tools, because the model has found no tools
    /// by searching.
    pub(crate) fn offered_tools(&mut self) -> Option<Arc<OfferedTools>> {
        let found = self.machine.found();
        if found.is_empty() {
            return None;
        }
        let tools = self.tools();
        // Each run may have its own tools, so the cached list is valid only for the tools for which it was made.
        let of = (found.len(), std::ptr::from_ref(tools).addr());
        if let Some(offered) =
            self.requests.offered_tools.as_ref().filter(|offered| offered.of == of)
        {
            return Some(Arc::clone(offered));
        }
        let mut schemas = tools.schemas().to_vec();
        schemas.extend(self.found_schemas().into_iter().cloned());
        let offered = Arc::new(OfferedTools { of, schemas, forms: SchemaCache::default() });
        self.requests.offered_tools = Some(Arc::clone(&offered));
        Some(offered)
    }

    /// The token count of the system prompt and the tools, including the tools that the model has found.
    pub(crate) fn meter(&self) -> ContextMeter {
        let tools = self.agent.tools();
        let names = self.machine.found().iter().flat_map(|found| &found.tools);
        let found = names.filter(|name| tools.is_searched(name)).filter_map(|name| tools.get(name));
        self.agent.meter().with_tools(tokens_of(found))
    }

    /// Replaces the agent by `agent`, a copy with the tools for the conversation's journal. The conversation
    /// must have no messages.
    pub(crate) fn continue_as(&mut self, agent: Agent) {
        self.agent = agent;
        self.requests.offered_tools = None;
        self.reset_estimate();
        let reads = self.agent.tools().get(READ_RESULT).is_some();
        if let Some(options) = self.options.as_mut().filter(|_| reads)
            && let Some(Ok(tools)) = options.tools.as_deref().map(|it| it.clone().reading_results())
        {
            options.tools = Some(Arc::new(tools));
        }
    }

    /// Keeps a fact as an event for the watchers of the current or the next run.
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

    /// The last call with this id.
    pub(crate) fn call(&self, id: &str) -> Option<&ToolCall> {
        let earlier = || {
            let messages = self.transcript().messages().iter().rev();
            messages.flat_map(Message::calls).find(|call| call.id() == id)
        };
        self.machine.call_state(id).map(|state| &state.call).or_else(earlier)
    }

    /// The hook of this agent for waiting calls, or else the hook of the caller's agent.
    pub(crate) fn waiting_hook(&self) -> Option<&Arc<OnWaiting>> {
        let caller = || self.options.as_ref()?.caller.as_ref()?.on_waiting();
        self.agent.on_waiting().or_else(caller)
    }

    pub(crate) fn transcript(&self) -> &Transcript {
        self.machine.transcript()
    }

    /// What all runs of the conversation have spent and may spend.
    pub(crate) fn budget(&self) -> Budget {
        self.spending.budget.clone()
    }

    /// Withdraws a grant. Returns whether there was such a grant.
    pub(crate) fn revoke(&mut self, grant: &Grant) -> bool {
        if !self.approvals.grants.contains(grant) {
            return false;
        }
        let (call, scope) = (grant.call.clone(), grant.scope.clone());
        let allowed = self.machine.calls_of_grant(&call, &scope);
        let revoked = self.record(&Fact::GrantRevoked { call, scope });
        let undecided = |call| self.record(&Fact::CallUndecided { call });
        revoked.and_then(|()| allowed.into_iter().try_for_each(undecided)).is_ok()
    }
}

/// Reads the facts of a conversation one after the other.
struct StateReader {
    state: ConversationState,
    read: usize,
    /// The number of the first fact of the last run.
    last_run: usize,
    /// Whether the run waited before the answers at the end of the facts. `None` if the last fact is not an
    /// answer.
    waited: Option<bool>,
}

impl StateReader {
    fn new(agent: Agent, facts: &[Envelope]) -> Self {
        let begins = |envelope: &Envelope| envelope.name() == Some(USER_SAID);
        let last_run = facts.iter().rposition(begins).unwrap_or(0);
        Self { state: ConversationState::uncounted(agent), read: 0, last_run, waited: None }
    }

    fn take(&mut self, envelope: &Envelope) -> Result<(), Error> {
        let Self { state, read, last_run, waited } = self;
        state.spending.is_past = read < last_run;
        let folded = envelope.fact().and_then(|fact| {
            // The run also waits while the outcome of a call in doubt is recorded.
            let before =
                || matches!(state.machine.next(), Action::AwaitAnswers | Action::FindOut(_));
            *waited = is_answer(&fact).then(|| waited.unwrap_or_else(before));
            state.read_fact(&fact, envelope)
        });
        folded.map_err(|err| unreadable(*read, err))?;
        *read = read.saturating_add(1);
        Ok(())
    }
}
