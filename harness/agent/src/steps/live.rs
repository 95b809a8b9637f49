//! The events of a conversation that another driver drives. Events of an action are passed on while the action
//! goes on. All other events are made from the facts that the driver has stored.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use crate::{
    Agent, Event, Numbered,
    chats::{
        log::{LogCursor, RunLog},
        replay::FactReplay,
    },
    machine::folding::unreadable,
};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{Envelope, Fact, WriterId},
};

/// The events of a conversation that is driven by [`Steps`](crate::Steps), for watchers in this process.
///
/// Use it if an engine stores the facts, and watchers must see an answer while the model writes it.
/// [`Steps::report_to`](crate::Steps::report_to) passes on the events of each action while the action goes on,
/// and then its facts. If other processes drive the conversation, too, pass the facts that the engine has stored
/// to [`apply`](Self::apply), as often as you like: facts that are known already change nothing.
///
/// A watcher gets each event once and in order, whether it comes from an action or from a fact. The facts decide:
/// if the facts of an action do not contain what the action has shown of an answer, because the action was stopped
/// or done again, an [`Event::Discarded`] takes that part back. A call that changes something is reported only
/// from its facts. Events that no fact records, such as progress, come only from actions in this process.
///
/// ```
/// use std::sync::Arc;
///
/// use harness::{
///     Agent,
///     agent::{Action, Event, LiveEvents},
///     testing::{ScriptedProvider, reply},
/// };
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let model = ScriptedProvider::new([reply().text_in(["Hel", "lo."])]);
/// let agent = Agent::builder(model).build()?;
/// let live = Arc::new(LiveEvents::new(&agent));
/// let mut watcher = live.watch();
/// let mut steps = agent.steps("chat-17", Vec::new())?.report_to(&live);
/// steps.apply(steps.say("Say hello.".into()).await?)?;
/// let facts = steps.act().await?;
///
/// // The engine has not stored the answer yet.
/// let mut shown = String::new();
/// while let Some(numbered) = watcher.try_next() {
///     if let Event::Text(text) = numbered.event.as_event() {
///         shown.push_str(text);
///     }
/// }
/// assert_eq!(shown, "Hello.");
///
/// // The facts of the answer do not show it again.
/// steps.apply(facts)?;
/// let last = watcher.next().await;
/// assert!(matches!(last.event.as_event(), Event::RunEnded { .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LiveEvents {
    state: Mutex<LiveState>,
    changed: watch::Sender<()>,
}

struct LiveState {
    replay: FactReplay,
    /// How many facts the replay has seen.
    facts: usize,
    runs: Vec<Arc<RunLog>>,
    /// The answer that an action has shown and that no fact contains yet.
    answer: Option<ShownAnswer>,
    /// The calls of the current turn whose start was reported.
    calls: HashMap<String, ReportedCall>,
}

struct ShownAnswer {
    /// The steps that did the action.
    life: WriterId,
    is_complete: bool,
}

struct ReportedCall {
    /// Whether the start was reported by an action. Then the action also reports the result.
    by_action: bool,
    has_ended: bool,
}

impl LiveEvents {
    /// No events so far. The cost of a run is computed with the prices of this agent.
    pub fn new(agent: &Agent) -> Self {
        let state = LiveState {
            replay: FactReplay::new(agent.clone()),
            facts: 0,
            runs: Vec::new(),
            answer: None,
            calls: HashMap::new(),
        };
        Self { state: Mutex::new(state), changed: watch::Sender::default() }
    }

    /// How many facts of the conversation are known.
    pub fn facts(&self) -> usize {
        self.lock().facts
    }

    /// Whether the last run has not ended and does not wait, as far as the known facts say.
    pub fn is_going(&self) -> bool {
        self.lock().current().is_some()
    }

    /// Adds the facts that follow the first `from` facts of the conversation. Known facts are skipped.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Journal`] if facts before these ones are not known, or if a fact cannot be read or
    /// cannot follow the facts before it. The facts before it have taken effect.
    pub fn apply(&self, from: usize, facts: &[Envelope]) -> Result<(), Error> {
        let mut state = self.lock();
        let Some(known) = state.facts.checked_sub(from) else {
            let what = format!("{} facts are known, and these begin at {from}", state.facts);
            return Err(Error::new(ErrorKind::Journal, what));
        };
        let new = facts.get(known..).unwrap_or_default();
        if new.is_empty() {
            return Ok(());
        }
        let applied = state.apply(new);
        drop(state);
        self.changed.send_replace(());
        applied
    }

    /// Adds facts that a machine has already accepted, from the first fact of the conversation on.
    pub(super) fn apply_known(&self, facts: &[Envelope]) {
        let _ = self.apply(0, facts);
    }

    /// Takes an event of an action of these steps, which began after this number of facts.
    pub(super) fn report(&self, life: WriterId, facts: usize, event: Event<'_>) {
        let mut state = self.lock();
        // Otherwise another process has already done this action.
        if state.facts == facts && state.report(life, event) {
            drop(state);
            self.changed.send_replace(());
        }
    }

    /// A watcher that begins with the last run.
    pub fn watch(self: &Arc<Self>) -> LiveWatcher {
        let mut changed = self.changed.subscribe();
        changed.mark_unchanged();
        let run = self.lock().runs.len().saturating_sub(1);
        LiveWatcher {
            live: Arc::clone(self),
            changed,
            first: run,
            run,
            cursor: LogCursor::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, LiveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveState {
    /// The log of the run that goes on.
    fn current(&self) -> Option<&Arc<RunLog>> {
        self.runs.last().filter(|log| !log.has_ended())
    }

    fn push(&mut self, event: Event<'_>) {
        let begins = matches!(event, Event::RunStarted { .. });
        let ends = matches!(event, Event::RunEnded { .. });
        if ends && self.current().is_none() {
            return;
        }
        let is_new = begins || self.current().is_none();
        if is_new {
            self.runs.push(RunLog::new());
        }
        let Some(log) = self.runs.last() else { return };
        if is_new && !begins {
            // A run that had waited goes on.
            log.push(Event::RunStarted { said: None });
        }
        log.push(event);
        if ends {
            log.close();
        }
    }

    /// Takes back what an action has shown of an answer.
    fn discard(&mut self) {
        if self.answer.take().is_some() {
            self.calls.clear();
            self.push(Event::Discarded { cause: "the answer was not stored" });
        }
    }

    /// Takes an event of an action. Returns whether it is new to the watchers.
    fn report(&mut self, life: WriterId, event: Event<'_>) -> bool {
        match event {
            Event::TurnStarted { .. } => {
                if self.answer.as_ref().is_some_and(|answer| answer.life != life) {
                    self.discard();
                }
                self.calls.clear();
                self.answer = Some(ShownAnswer { life, is_complete: false });
            }
            Event::TurnEnded { .. } => {
                if let Some(answer) = &mut self.answer {
                    answer.is_complete = true;
                }
            }
            Event::Discarded { .. } => self.calls.clear(),
            Event::ToolCall(call) => {
                if self.calls.contains_key(call.id()) {
                    return false;
                }
                let reported = ReportedCall { by_action: true, has_ended: false };
                self.calls.insert(call.id().to_owned(), reported);
            }
            Event::ToolResult { call, .. } => {
                // A call that does not begin has a result, too.
                let reported = self.calls.entry(call.id().to_owned());
                let reported =
                    reported.or_insert(ReportedCall { by_action: true, has_ended: false });
                if !reported.by_action || reported.has_ended {
                    return false;
                }
                reported.has_ended = true;
            }
            Event::ToolDropped { call } => drop(self.calls.remove(call.id())),
            Event::Retrying { .. }
            | Event::FallingBack { .. }
            | Event::ParameterDropped { .. }
            | Event::Text(_)
            | Event::Citation(_)
            | Event::Image(_)
            | Event::Audio(_)
            | Event::Reasoning(_)
            | Event::ToolCallStart { .. }
            | Event::ToolCallDelta { .. }
            | Event::ToolQueued(_)
            | Event::ToolProgress { .. }
            | Event::LimitNear { .. }
            | Event::LimitUnknown { .. }
            | Event::Compacting
            | Event::OfAgent { .. } => {}
            // The facts of the action have these.
            Event::RunStarted { .. }
            | Event::RunEnded { .. }
            | Event::ToolDenied { .. }
            | Event::ToolWaits { .. }
            | Event::ToolEnded { .. }
            | Event::Steered { .. }
            | Event::AnswerRejected { .. }
            | Event::ToolsFound { .. }
            | Event::ContextCleared { .. }
            | Event::ContextCompacted { .. }
            | Event::CompactionFailed { .. }
            | Event::VendorSummaryRefused { .. }
            | Event::PrefixChanged { .. }
            | Event::Unknown { .. } => return false,
        }
        self.push(event);
        true
    }

    /// Takes facts that the driver has stored: those of one action, or all that are new.
    fn apply(&mut self, facts: &[Envelope]) -> Result<(), Error> {
        let is_shown = |answer: &ShownAnswer, envelope: &Envelope| {
            envelope.life == answer.life
                && match envelope.fact() {
                    Ok(Fact::ModelReplied { .. }) => answer.is_complete,
                    Ok(Fact::Interrupted { message, .. }) => message.is_some(),
                    _ => false,
                }
        };
        let shown = self
            .answer
            .as_ref()
            .and_then(|answer| facts.iter().position(|envelope| is_shown(answer, envelope)));
        match shown {
            Some(_) => self.answer = None,
            None => self.discard(),
        }
        for (at, envelope) in facts.iter().enumerate() {
            let events = self.replay.events_of(envelope);
            let events = events.map_err(|err| unreadable(self.facts, err))?;
            self.facts = self.facts.saturating_add(1);
            if shown != Some(at) {
                events.iter().for_each(|event| self.tell(event.as_event()));
            }
        }
        if let Some(end) = self.replay.end() {
            self.push(end.as_event());
        }
        Ok(())
    }

    /// Passes on an event of a fact, unless an action has reported it.
    fn tell(&mut self, event: Event<'_>) {
        match event {
            Event::TurnStarted { .. } => self.calls.clear(),
            Event::ToolCall(call) => {
                if self.calls.contains_key(call.id()) {
                    return;
                }
                let reported = ReportedCall { by_action: false, has_ended: false };
                self.calls.insert(call.id().to_owned(), reported);
            }
            Event::ToolResult { call, .. }
                if self.calls.get(call.id()).is_some_and(|reported| reported.has_ended) =>
            {
                return;
            }
            _ => {}
        }
        self.push(event);
    }
}

/// Reads the events of [`LiveEvents`], beginning with the last run, even if that run has ended. It continues with
/// each later run. A slow watcher gets neighbouring pieces of text as one event.
pub struct LiveWatcher {
    live: Arc<LiveEvents>,
    changed: watch::Receiver<()>,
    /// The run with which the watcher began.
    first: usize,
    run: usize,
    cursor: LogCursor,
}

impl LiveWatcher {
    /// The events of the runs before the watcher's first run.
    pub fn earlier(&self) -> Vec<Numbered> {
        let runs: Vec<Arc<RunLog>> =
            self.live.lock().runs.iter().take(self.first).cloned().collect();
        let mut events = Vec::new();
        for log in runs {
            let mut cursor = LogCursor::default();
            while let Some(event) = cursor.next(&log) {
                events.push(event);
            }
        }
        events
    }

    /// The next event, if there is one now.
    pub fn try_next(&mut self) -> Option<Numbered> {
        loop {
            let log = self.live.lock().runs.get(self.run).cloned()?;
            let ended = log.has_ended();
            if let Some(next) = self.cursor.next(&log) {
                return Some(next);
            }
            if !ended {
                return None;
            }
            self.run = self.run.saturating_add(1);
            self.cursor = LogCursor::default();
        }
    }

    /// Waits for the next event. If the future is dropped, no event is lost.
    pub async fn next(&mut self) -> Numbered {
        loop {
            self.changed.mark_unchanged();
            if let Some(next) = self.try_next() {
                return next;
            }
            // It fails only if the sender is gone, and the watcher holds it.
            let _ = self.changed.changed().await;
        }
    }
}

impl fmt::Debug for LiveEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveEvents").field("facts", &self.facts()).finish_non_exhaustive()
    }
}

impl fmt::Debug for LiveWatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveWatcher").field("run", &self.run).finish_non_exhaustive()
    }
}
