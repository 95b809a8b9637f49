//! An agent that is run by a call of another agent's run: what it gets from that run, where its
//! conversation is kept, and what it returns.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{
    agent_names::{conversations_below, name_of_agent},
    suspended_child::SuspendedChild,
};
use crate::{
    Action, AgentCall, Chat, Outcome, Stopped,
    agent::OnWaiting,
    conversation::durable::guarded,
    output::answer_check::{OutputSpec, without_schema},
    run::{
        driver::RunDriver,
        options::CallerRules,
        progress::{AgentRequest, PauseGuard, ProgressSender},
        run::RunInput,
    },
};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{CallSpent, Fact, Incarnation, Journal, Metadata, Source, Sources},
    message::{CallOutcome, Message, ToolCall, ToolResult},
    policy::{Approver, Budget, rest_of},
    tool::{ConcurrencyLimit, HumanWait, HumanWaitGuard, SideEffects, ToolContext},
};

/// The approver, with the name that tells this person from others.
pub(crate) type NamedApprover = (Option<String>, Arc<dyn Approver>);

/// The conversation of a run in its journal.
struct ParentChat {
    name: Arc<str>,
    journal: Arc<dyn Journal>,
    /// Which conversation of this name it is.
    incarnation: Arc<OnceLock<Incarnation>>,
}

impl ParentChat {
    /// Fails if the journal does not have this conversation any more.
    async fn check(&self) -> Result<(), Error> {
        // Only the head is needed, and no fact has this number.
        let there = guarded(|| self.journal.read(&self.name, u64::MAX)).await?.head.incarnation;
        if there.is_some() && there == self.incarnation.get().copied() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "the conversation `{}` was deleted while a call of it ran, so the agent of the call did not run",
                self.name
            ),
        ))
    }
}

/// What the calls of a run pass on to their agents.
pub(crate) struct ParentRun {
    /// The conversation, if a journal keeps it.
    kept: Option<ParentChat>,
    budget: Budget,
    progress_sender: ProgressSender,
    approver: Option<NamedApprover>,
    on_waiting: Option<Arc<OnWaiting>>,
    /// The call that has started this run.
    above: Option<Arc<SubagentHost>>,
    /// Places that are held by a call that the run is part of.
    places: Vec<ConcurrencyLimit>,
    /// Whether somebody watches its events.
    is_watched: bool,
    /// How many levels of agents may still be nested below it.
    depth: Option<u32>,
    /// How many agents it may still run.
    left: Mutex<Option<u32>>,
    /// The name of the run in traces.
    traced: OnceLock<String>,
    /// The call in which an agent's call was denied, if that ends this run, too.
    denied: Mutex<Option<String>>,
}

impl ParentRun {
    /// For a run of this conversation that begins now.
    pub(crate) fn of(chat: &Chat, progress_sender: ProgressSender, is_watched: bool) -> Self {
        let above = chat.options.as_ref().and_then(|options| options.caller.clone());
        let caller = above.as_ref().map(|site| &site.caller);
        let rails = chat.agent.guardrails();
        let below = caller.and_then(|caller| caller.depth).map(|depth| depth.saturating_sub(1));
        let depth = [rails.depth_of_agents(), below].into_iter().flatten().min();
        let kept = chat.durable.as_ref().and_then(|it| {
            let (name, journal) = (Arc::clone(it.id()), Arc::clone(it.journal()?));
            Some(ParentChat { name, journal, incarnation: Arc::clone(it.incarnation()) })
        });
        let approver = chat.approval_policy(&chat.agent).approver();
        Self {
            kept,
            budget: chat.guard.budget().clone(),
            progress_sender,
            approver: approver.map(|(who, it)| (who.map(str::to_owned), Arc::clone(it))),
            on_waiting: chat.waiting_hook().cloned(),
            is_watched: is_watched || caller.is_some_and(|caller| caller.is_watched),
            depth,
            left: Mutex::new(rails.agents_of_run()),
            traced: OnceLock::new(),
            denied: Mutex::default(),
            places: chat.options.as_ref().map(|options| options.places.clone()).unwrap_or_default(),
            above,
        }
    }

    pub(crate) fn progress_sender(&self) -> ProgressSender {
        self.progress_sender.clone()
    }

    /// Places that are held by a call that the run is part of.
    pub(crate) fn places(&self) -> &[ConcurrencyLimit] {
        &self.places
    }

    /// Takes the call in which an agent's call was denied, if that ends this run, too.
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

/// One call of a run, for the agents that it runs.
pub(crate) struct SubagentHost {
    caller: Arc<ParentRun>,
    call: ToolCall,
    /// The id of the message that the model has answered with the call.
    message: String,
    effects: SideEffects,
    /// The permissions that apply in the run, and what its conversation had read before the call.
    rules: CallerRules,
    /// Whether its tool is an agent, which reads nothing itself.
    is_agent: bool,
    /// The number of the tool's last attempt, and how many agents that attempt has run so far.
    runs: Mutex<(u32, u32)>,
    /// What its agents spend in this process.
    budget: OnceLock<Budget>,
    /// How long its agents have waited for a person, or until the call was written.
    asking: HumanWait,
    /// Whether it has begun without a fact in the journal, perhaps while the model is still
    /// answering.
    is_unwritten: AtomicBool,
    /// Whether it is written that it runs agents whose conversations are in no journal.
    runs_unkept: AtomicBool,
    state: Mutex<SubagentState>,
}

#[derive(Default)]
struct SubagentState {
    /// What its agents have spent in earlier processes and is counted already.
    counted: Option<Box<CallSpent>>,
    /// What facts of this run have recorded of it.
    recorded: Option<Box<CallSpent>>,
    /// The conversation of an agent that waits for somebody, and the outcome of a call that passes its error on.
    waits: Option<(String, CallOutcome)>,
    /// The agent that could not continue, if there is one.
    cut_off: Option<SuspendedChild>,
    /// The conversations that were opened in this process.
    opened: HashSet<String>,
    /// What the conversations of its agents have read.
    read: Sources,
}

impl SubagentHost {
    pub(crate) fn new(
        caller: &Arc<ParentRun>,
        call: &ToolCall,
        effects: SideEffects,
        rules: CallerRules,
        counted: Option<Box<CallSpent>>,
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
            asking,
            is_unwritten: is_unwritten.into(),
            runs_unkept: false.into(),
            state: Mutex::new(SubagentState { counted, ..SubagentState::default() }),
        }
    }

    /// Sets whether its tool is an agent.
    pub(crate) fn of_agent(mut self, is_agent: bool) -> Self {
        self.is_agent = is_agent;
        self
    }

    /// Sets the id of the message that the model has answered with the call.
    pub(crate) fn with_message_id(mut self, message: &str) -> Self {
        self.message = message.to_owned();
        self
    }

    fn state(&self) -> MutexGuard<'_, SubagentState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The budget for its agents: a part of the run's budget.
    pub(crate) fn budget(&self) -> &Budget {
        self.budget.get_or_init(|| Budget::of_call(&self.caller.budget))
    }

    pub(crate) fn rules(&self) -> &CallerRules {
        &self.rules
    }

    /// What the call has read, if it runs agents. What the caller had read before is left out.
    pub(crate) fn source(&self) -> Option<Source> {
        let read = self.state().read.clone();
        let effects = if self.is_agent { SideEffects::NONE } else { self.effects };
        let source = Source::new(self.call.name(), effects).around(&read);
        (self.is_agent || !source.inside.is_empty()).then_some(source)
    }

    /// What its caller had read before the call, and what the tool itself may have read, if it is no agent.
    fn known_before_call(&self) -> Sources {
        let mut knew = self.rules.read.clone();
        if !self.is_agent {
            knew.add(&Source::new(self.call.name(), self.effects));
        }
        knew
    }

    /// What the call knows now: also what its agents have read so far.
    pub(crate) fn known_sources(&self) -> Sources {
        let mut knows = self.known_before_call();
        knows.add_all(self.state().read.all());
        knows
    }

    /// Counts what the conversation of one of its agents has read, here and in the calls that led here: words of an
    /// agent can reach its caller at any time, also when it is stopped.
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

    /// The approver of the run.
    pub(crate) fn approver(&self) -> Option<(Option<&str>, &Arc<dyn Approver>)> {
        self.caller.approver.as_ref().map(|(who, approver)| (who.as_deref(), approver))
    }

    pub(crate) fn on_waiting(&self) -> Option<&Arc<OnWaiting>> {
        self.caller.on_waiting.as_ref()
    }

    /// The fact that this call has started a run, if the conversation of the call is kept.
    pub(crate) fn started_run_fact(&self) -> Option<Fact> {
        let conversation = self.caller.kept.as_ref()?.name.to_string();
        let (call, message) = (self.call.id().to_owned(), Some(self.message.clone()));
        Some(Fact::CalledBy { conversation, call, message })
    }

    /// The names of the tools that led here, the outermost first.
    pub(crate) fn tool_names(&self) -> Vec<String> {
        let mut names =
            self.caller.above.as_ref().map(|above| above.tool_names()).unwrap_or_default();
        names.push(self.call.name().to_owned());
        names
    }

    /// What its agents have spent that no fact of this run has recorded yet.
    pub(crate) fn unrecorded_spending(&self) -> Option<Box<CallSpent>> {
        let budget = self.budget.get()?;
        let mut state = self.state();
        let rest = budget.spent_beyond(state.recorded.as_deref());
        state.recorded = budget.spent_beyond(None);
        rest
    }

    /// The conversation of an agent of the call that waits for somebody, and the outcome of a call that passes its error on.
    pub(crate) fn awaited_conversation(&self) -> Option<(String, CallOutcome)> {
        self.state().waits.clone()
    }

    /// Takes the agent of the call that could not continue.
    pub(crate) fn cut_off(&self) -> Option<SuspendedChild> {
        self.state().cut_off.take()
    }

    /// Whether a denial of an agent's call ends the runs above it.
    fn must_stop_on_denial(&self) -> bool {
        self.rules.permissions.iter().any(|permissions| permissions.stops_on_denial())
    }

    /// Where the run receives the events of its agents, if somebody watches them.
    pub(crate) fn listener(&self) -> Option<(ProgressSender, AgentCall)> {
        let call = AgentCall { tool: self.call.name().into(), call: self.call.id().into() };
        self.caller.is_watched.then(|| (self.caller.progress_sender.clone(), call))
    }

    /// The name of the run in traces, and the id of the call.
    pub(crate) fn trace_ids(&self) -> Option<(&str, &str)> {
        Some((self.caller.traced.get()?, self.call.id()))
    }

    /// A person is asked until the returned value is dropped. That time does not count in the runs
    /// above and in the calls that led here.
    pub(crate) fn pause(&self) -> Vec<(PauseGuard, HumanWaitGuard)> {
        let mut all = self.caller.above.as_ref().map(|above| above.pause()).unwrap_or_default();
        all.push((self.caller.progress_sender.pause(), self.asking.begin()));
        all
    }

    /// Counts an agent with these side effects, or refuses it.
    fn admit(&self, effects: SideEffects) -> Result<(), Error> {
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

    /// Waits until the model's answer is complete and the start of the call is written: an agent
    /// costs money, and its conversation is named after the call. If the agent's conversation is not kept, what it costs
    /// would be lost with the process, so it is written that there is such an agent.
    async fn is_written(&self, is_kept: bool) -> bool {
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

    /// The number of the next agent in this attempt of the tool.
    fn next_number(&self, attempt: u32) -> u32 {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if runs.0 != attempt {
            *runs = (attempt, 0);
        }
        let number = runs.1;
        runs.1 = number.saturating_add(1);
        number
    }

    /// Whether one of its agents was entered in this process.
    pub(crate) fn has_entered(&self) -> bool {
        !self.state().opened.is_empty()
    }

    /// Counts what an opened agent has spent in earlier processes. What it has spent in this
    /// process, in an earlier attempt of the tool, was counted at that time.
    fn count_spent(&self, name: &str, chat: &Chat) {
        self.add_sources(chat.taint.sources());
        let mut state = self.state();
        if !state.opened.insert(name.to_owned()) {
            return;
        }
        let Some(spent) = chat.budget().spent_beyond(None) else { return };
        let none = CallSpent::default();
        let new = rest_of([&*spent], state.counted.as_deref().unwrap_or(&none));
        state.counted = state.counted.take().and_then(|counted| rest_of([&*counted], &spent));
        drop(state);
        if let Some(new) = new {
            self.budget().charge_agents(&new);
        }
    }
}

/// A run that a call has started.
pub(crate) struct ChildRun {
    /// The call, if it belongs to a run.
    site: Option<Arc<SubagentHost>>,
    /// The number of the agent among those of the call.
    number: u32,
    pub(crate) stop: CancellationToken,
}

/// The state of the conversation of a call's agent.
pub(crate) enum ChildState {
    /// Nothing was said in it.
    New,
    /// The agent was working when its process ended.
    Interrupted(Box<Chat>),
    /// The agent has answered, or a denial has ended its run, and its caller has not learned of it.
    Finished(Box<Chat>, Outcome),
}

impl ChildRun {
    pub(crate) fn of(context: &ToolContext) -> Self {
        let site = context.host::<SubagentHost>();
        let number = site.as_ref().map_or(0, |site| site.next_number(context.attempt()));
        Self { site, number, stop: context.cancellation().clone() }
    }

    pub(crate) fn site(&self) -> Option<&Arc<SubagentHost>> {
        self.site.as_ref()
    }

    /// Waits until an agent may begin, whose conversation is named after the call if the call `tool_names` it. Returns `false` if
    /// the call was told to stop.
    pub(crate) async fn may_begin(&self, names: bool) -> bool {
        let Some(site) = &self.site else { return !self.stop.is_cancelled() };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => false,
            is_written = site.is_written(names) => is_written,
        }
    }

    /// The name of the agent's conversation, and its parent, if the caller's conversation is in a
    /// journal.
    fn conversation_in_journal(&self) -> Option<(String, &ParentChat)> {
        let site = self.site.as_ref()?;
        let parent = site.caller.kept.as_ref()?;
        Some((name_of_agent(&parent.name, site.call.id(), self.number), parent))
    }

    /// Counts an agent with these side effects that runs in a chat of its own.
    ///
    /// # Errors
    /// Fails if the agent may not run.
    pub(crate) fn admit(&self, effects: SideEffects) -> Result<(), Error> {
        self.site.as_ref().map_or(Ok(()), |site| site.admit(effects))
    }

    /// Begins the conversation, or opens it in its present state.
    ///
    /// # Errors
    /// Fails if the agent may not run, or if its conversation cannot be opened.
    pub(crate) async fn open_or_begin(
        &self,
        chat: &mut Chat,
        effects: SideEffects,
        begins: (&RunInput, Option<&OutputSpec>),
    ) -> Result<ChildState, Error> {
        let entered = self.enter(chat, effects, begins).await;
        if let Err(error) = &entered
            && let (Some(site), Some((name, _))) = (&self.site, self.conversation_in_journal())
        {
            site.state().cut_off = SuspendedChild::by(error, false, &name);
        }
        entered
    }

    async fn enter(
        &self,
        chat: &mut Chat,
        effects: SideEffects,
        (input, output_spec): (&RunInput, Option<&OutputSpec>),
    ) -> Result<ChildState, Error> {
        let Some(site) = &self.site else { return Ok(ChildState::New) };
        site.admit(effects)?;
        let Some((name, parent)) = self.conversation_in_journal() else {
            return Ok(ChildState::New);
        };
        parent.check().await?;
        let ParentChat { name: parent, journal, .. } = parent;
        let mut opened = chat.agent.open(journal, &name).await?;
        let Some(first) = opened.transcript().messages().first() else {
            site.count_spent(&name, &opened);
            opened.describe(&Metadata::new().parent(&**parent)).await?;
            (chat.durable, chat.tracer) = (opened.durable.take(), opened.tracer);
            chat.continue_as(opened.agent);
            return Ok(ChildState::New);
        };
        // The caller's conversation may have been deleted and begun anew under its name.
        let is_of_call = opened.machine.is_called_by(&site.message);
        if !is_of_call || !conversations_below(&**journal, parent).await?.contains(&name) {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "there is a conversation `{name}` already that is not one of the agents of `{parent}`, \
                     so the agent did not run"
                ),
            ));
        }
        site.count_spent(&name, &opened);
        // The words for the schema are the library's own, and a schema whose descriptions have changed is the same.
        let (wanted, before) =
            (output_spec.and_then(|it| it.schema.as_ref()), opened.machine.wanted());
        let before = without_schema(first, before.and_then(|it| it.schema.as_ref()));
        let is_same = |said: &Message| without_schema(said, wanted) == before;
        if !matches!(input, RunInput::Say(said) if is_same(said)) {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "the conversation `{name}` has begun with another message than the one that the call \
                     gives its agent now, so the agent did not go on. A tool must run its agents in the \
                     same order, with the same messages, each time that a call is repeated"
                ),
            ));
        }
        Ok(match opened.machine.next() {
            Action::Finish(ended @ (Outcome::Answered | Outcome::Denied)) => {
                ChildState::Finished(Box::new(opened), ended)
            }
            _ => ChildState::Interrupted(Box::new(opened)),
        })
    }

    /// Handles the end of the run of this conversation. If calls of it wait, then the caller's call
    /// waits for them, too, if both conversations can be opened again.
    pub(crate) fn handle_run_end(&self, stopped: &Stopped, chat: &Chat, is_kept: bool) {
        if let Some(site) = self.site.as_ref().filter(|site| site.must_stop_on_denial())
            && stopped.outcome() == Outcome::Denied
        {
            let mut denied = site.caller.denied.lock().unwrap_or_else(PoisonError::into_inner);
            *denied = Some(site.call.id().to_owned());
        }
        let Some(site) = self.site.as_ref().filter(|site| site.caller.kept.is_some()) else {
            return;
        };
        let Some(name) = chat.conversation().filter(|_| chat.is_in_journal()) else { return };
        if stopped.outcome() == Outcome::Waiting {
            let outcome = match left_in_doubt(stopped) {
                true => CallOutcome::InDoubt,
                false => CallOutcome::Failed,
            };
            site.state().waits = Some((name.to_owned(), outcome));
        }
        if let Some(error) = stopped.error().filter(|_| is_kept) {
            site.state().cut_off = SuspendedChild::by(error, chat.is_lost(), name);
        }
    }
}

impl RunDriver<'_> {
    /// Records the result of a call, with what its agents have spent and read.
    pub(crate) fn record_result(&mut self, result: ToolResult) -> Result<(), Error> {
        let spent = self.spent_by(result.call_id());
        let read = self.contexts.site(result.call_id()).and_then(|site| site.source());
        let read = read.map_or(Ok(()), |source| {
            let (call, sources) = (Some(result.call_id().to_owned()), vec![source]);
            self.chat.record(&Fact::SourcesRead { call, sources })
        });
        read.and(self.chat.record(&Fact::CallFinished { result, spent }))
    }

    /// What the agents of a call have spent that no fact records yet.
    pub(crate) fn spent_by(&self, call: &str) -> Option<Box<CallSpent>> {
        self.chat.agents.take_unstated(call, self.contexts.spent_by(call))
    }
}

impl Chat {
    /// The hook for waiting calls: the agent's own, or else that of the runs above it.
    pub(crate) fn waiting_hook(&self) -> Option<&Arc<OnWaiting>> {
        let caller = || self.options.as_ref()?.caller.as_ref()?.on_waiting();
        self.agent.on_waiting().or_else(caller)
    }
}

/// Whether calls of a stopped run may have partly run.
pub(crate) fn left_in_doubt(stopped: &Stopped) -> bool {
    let results = stopped.transcript().messages().iter().flat_map(Message::results);
    let mut outcomes = results.map(|result| result.outcome());
    let is_lost = |error: &Error| error.kind() == ErrorKind::Journal || error.is_conflict();
    stopped.error().is_some_and(is_lost)
        || outcomes.any(|it| matches!(it, CallOutcome::InDoubt | CallOutcome::StillRunning))
}
