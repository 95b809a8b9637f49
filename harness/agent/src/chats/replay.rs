//! Makes the events of past runs from their facts. Each text is one event. Events that no fact records are
//! missing.

use std::{collections::HashMap, mem, sync::Arc, time::Duration};

use crate::{
    Action, Agent, Event, EventBuf, Inbox, Machine, Numbered, Outcome,
    conversation::{inbox::WaitingCallWithPath, spending::ConversationSpending},
    events::{announcements::announce_fact, numbered::run_name},
    machine::folding::{AT_ONCE, USER_SAID, for_each_fact, unreadable},
    run::prefix::changed,
    watcher_texts::reason,
};
use harness_core::{
    error::Error,
    journal::{Envelope, Fact, InterruptCause, LimitScope},
    message::{Block, Message, ToolCall, ToolResult},
};

/// The name of a run that has no end in the replayed facts, and the number of events made for the run.
pub(super) type UnendedRun = (Arc<str>, u64);

pub(super) struct ReplayedEvents {
    pub(super) events: Vec<Numbered>,
    pub(super) unended: Option<UnendedRun>,
}

/// Makes events from the facts of a conversation, beginning with the fact number `from`. `unended` is a run that began
/// before this fact and has not ended there: its remaining events come first. `followed` means that a later run exists,
/// so all replayed runs have ended.
///
/// Yields to other tasks between parts of the facts.
pub(super) async fn replay(
    agent: &Agent,
    facts: &[Envelope],
    from: usize,
    unended: Option<UnendedRun>,
    followed: bool,
) -> Result<ReplayedEvents, Error> {
    let mut replay = FactReplay::new(agent.clone());
    let (from, mut unended) = (from.min(facts.len()), Some(unended));
    let take = |(number, envelope): (usize, &Envelope)| {
        if number >= from
            && let Some(unended) = unended.take()
        {
            (replay.shown, replay.run) = (true, unended);
        }
        let fold = envelope.fact().and_then(|fact| replay.apply_fact(&fact, envelope.at));
        fold.map_err(|err| unreadable(number, err))
    };
    for_each_fact(facts.iter().enumerate(), take).await?;
    if let Some(unended) = unended {
        (replay.shown, replay.run) = (true, unended);
    }
    replay.add_end();
    if followed {
        replay.add_missing_end();
    }
    Ok(ReplayedEvents { events: replay.events, unended: replay.run })
}

/// Adds the waiting calls of agents that run in calls. The facts of these calls are in other conversations. The
/// events come before the end of the run.
pub(super) async fn add_waiting_agents(
    inbox: &Inbox,
    conversation: &str,
    events: &mut Vec<Numbered>,
) {
    let is_waiting = |last: &mut Numbered| {
        matches!(last.event.as_event(), Event::RunEnded { outcome: Outcome::Waiting, .. })
    };
    let Some(mut end) = events.pop_if(is_waiting) else { return };
    // If the conversation of an agent cannot be read, the events stay unchanged.
    let all = inbox.waiting_with_paths(conversation).await.unwrap_or_default();
    for event in all.iter().filter_map(WaitingCallWithPath::event) {
        events.push(Numbered::new(&end.run, end.number, event));
        end.number = end.number.saturating_add(1);
    }
    events.push(end);
}

/// The number of the first fact of the last run: the last message of the user, or 0 without such a message.
/// Yields to other tasks between parts of the facts.
pub(super) async fn last_run(facts: &[Envelope]) -> usize {
    let begins = |envelope: &Envelope| {
        envelope.name().is_none_or(|name| name == USER_SAID)
            && matches!(envelope.fact(), Ok(Fact::UserSaid { .. }))
    };
    let mut before = facts.len();
    for part in facts.rchunks(AT_ONCE) {
        before = before.saturating_sub(part.len());
        if let Some(at) = part.iter().rposition(begins) {
            return before.saturating_add(at);
        }
        tokio::task::yield_now().await;
    }
    0
}

/// Makes events from the facts of a conversation, one fact after the other.
pub(crate) struct FactReplay {
    /// The agent whose prices apply.
    agent: Agent,
    machine: Machine,
    spending: ConversationSpending,
    events: Vec<Numbered>,
    /// Whether the replay makes events from the current facts.
    shown: bool,
    /// The run to which new events belong.
    run: Option<UnendedRun>,
    turn: u32,
    calls: HashMap<String, (ToolCall, Option<u64>)>,
    /// The results of calls that were open until the user said something new. They are events of the new run.
    withdrawn: Vec<(ToolCall, ToolResult)>,
    /// The text for a person about the failure that has interrupted the run.
    failure: Option<String>,
    /// The scope of the limit that has interrupted the run.
    limit: Option<LimitScope>,
}

impl FactReplay {
    pub(crate) fn new(agent: Agent) -> Self {
        Self {
            machine: Machine::default(),
            spending: ConversationSpending::new(&agent),
            agent,
            events: Vec::new(),
            shown: false,
            run: None,
            turn: 0,
            calls: HashMap::new(),
            withdrawn: Vec::new(),
            failure: None,
            limit: None,
        }
    }

    /// The events of the next fact. Events between two runs belong to a run that was resumed.
    pub(crate) fn events_of(&mut self, envelope: &Envelope) -> Result<Vec<EventBuf>, Error> {
        self.shown = true;
        self.run.get_or_insert_with(|| (run_name(), 0));
        self.apply_fact(&envelope.fact()?, envelope.at)?;
        Ok(self.take_events())
    }

    /// The end of the run, if the facts so far contain it.
    pub(crate) fn end(&mut self) -> Option<EventBuf> {
        self.add_end();
        self.take_events().pop()
    }

    fn take_events(&mut self) -> Vec<EventBuf> {
        self.events.drain(..).map(|numbered| numbered.event).collect()
    }

    fn tell(&mut self, event: Event<'_>) {
        if !self.shown {
            return;
        }
        let Some((run, number)) = &mut self.run else { return };
        *number = number.saturating_add(1);
        self.events.push(Numbered::new(run, *number, event.into_owned()));
    }

    /// Adds the end of the run if the facts contain that end.
    fn add_end(&mut self) {
        let outcome = match self.machine.next() {
            Action::Finish(outcome) => outcome,
            Action::AwaitAnswers => Outcome::Waiting,
            // The next facts may belong to the same run.
            _ => return,
        };
        self.tell_end(outcome);
    }

    /// Adds the end of a run that has no end in the facts. A later run exists, so the run must have ended.
    fn add_missing_end(&mut self) {
        self.tell_end(Outcome::Cancelled);
    }

    fn tell_end(&mut self, outcome: Outcome) {
        let (usage, spent) = (self.machine.usage(), self.spending.spent_by_run());
        let failure = self.failure.as_deref().filter(|_| outcome == Outcome::Failed);
        let reason = reason(outcome, self.limit, failure);
        let (usage, spent, reason) = (&usage, &spent, reason.as_deref());
        self.tell(Event::RunEnded { outcome, usage, spent, reason });
        self.run = None;
    }

    fn begin_run(&mut self, said: Option<&Message>) {
        self.add_end();
        self.add_missing_end();
        if self.shown {
            self.run = Some((run_name(), 0));
        }
        (self.turn, self.failure, self.limit) = (0, None, None);
        self.tell(Event::RunStarted { said });
        for (call, result) in mem::take(&mut self.withdrawn) {
            let elapsed = Duration::ZERO;
            self.tell(Event::ToolResult { call: &call, result: &result, elapsed });
        }
    }

    /// Notes the result of a call that does not run, because the run has waited or has stopped. Returns whether the
    /// fact is one.
    fn withdraw(&mut self, fact: &Fact) -> bool {
        let Fact::CallFinished { result, .. } = fact else { return false };
        let id = result.call_id();
        let has_waited =
            matches!(self.machine.next(), Action::AwaitAnswers) || !self.withdrawn.is_empty();
        let has_begun = self.calls.get(id).is_some_and(|(_, since)| since.is_some());
        let call = match has_waited || !has_begun {
            true => self.machine.call_state(id).map(|state| &state.call),
            false => self.machine.waiting_call(id),
        };
        let Some(call) = call.cloned() else { return false };
        if has_waited {
            // Only a new message of the user comes next.
            self.add_end();
            self.withdrawn.push((call, result.clone()));
        } else {
            let elapsed = Duration::ZERO;
            self.tell(Event::ToolResult { call: &call, result, elapsed });
        }
        true
    }

    fn add_message(&mut self, message: &Message) {
        for block in message.blocks() {
            match block {
                Block::Text(text) => {
                    self.tell(Event::Text(text.text()));
                    for citation in text.citations() {
                        self.tell(Event::Citation(citation));
                    }
                }
                Block::Reasoning(thought) if !thought.text().is_empty() => {
                    self.tell(Event::Reasoning(thought.text()));
                }
                Block::Image(image) => self.tell(Event::Image(image)),
                Block::Audio(audio) => self.tell(Event::Audio(audio)),
                Block::ToolCall(call) => {
                    self.calls.insert(call.id().to_owned(), (call.clone(), None));
                    self.tell(Event::ToolCallStart { call: call.id(), tool: call.name() });
                    if !call.arguments().is_empty() {
                        let json = call.arguments();
                        self.tell(Event::ToolCallDelta { call: call.id(), json });
                    }
                }
                _ => {}
            }
        }
    }

    fn call(&self, id: &str) -> Option<ToolCall> {
        self.calls.get(id).map(|(call, _)| call.clone())
    }

    fn apply_fact(&mut self, fact: &Fact, at: u64) -> Result<(), Error> {
        match fact {
            Fact::UserSaid { message, .. } => self.begin_run(Some(message)),
            // A run that had waited goes on, so this fact begins no new run.
            Fact::Resumed { limits: None, .. } if self.machine.is_asking() => {}
            Fact::Resumed { .. } => self.begin_run(None),
            _ => {}
        }
        let is_withdrawn = self.withdraw(fact);
        self.machine.apply(fact)?;
        self.spending.read_fact(&self.agent, fact, self.machine.is_asking());
        if let Fact::Interrupted { cause, .. } = fact {
            (self.failure, self.limit) = match cause {
                InterruptCause::Failure { public_text, .. } => (public_text.clone(), None),
                InterruptCause::Limit { scope, .. } => (None, Some(*scope)),
                InterruptCause::Program | InterruptCause::Denial { .. } => (None, None),
            };
        }
        match fact {
            _ if is_withdrawn => {}
            Fact::ModelReplied { message, stop, usage, .. } => {
                self.turn = self.turn.saturating_add(1);
                self.tell(Event::TurnStarted { turn: self.turn });
                if let Some(message) = message {
                    self.add_message(message);
                }
                self.tell(Event::TurnEnded { turn: self.turn, stop: *stop, usage });
            }
            Fact::Interrupted { message: Some(message), .. } => {
                self.turn = self.turn.saturating_add(1);
                self.tell(Event::TurnStarted { turn: self.turn });
                self.add_message(message);
            }
            Fact::CallDecided { .. } | Fact::CallWaits { .. } | Fact::CallSettled { .. } => {
                let known = fact.call_id().and_then(|id| self.calls.get(id)).cloned();
                if let Some((call, since)) = known {
                    let elapsed = since.map_or(0, |since| at.saturating_sub(since));
                    let elapsed = Duration::from_millis(elapsed);
                    announce_fact(&call, fact, elapsed, |event| self.tell(event));
                }
            }
            Fact::CallStarted { call } => {
                let started = self.calls.get_mut(call).map(|(call, since)| {
                    let again = since.replace(at).is_some();
                    (call.clone(), again)
                });
                // If a call ran again after a crash, only its first start becomes an event.
                if let Some((call, false)) = started {
                    self.tell(Event::ToolCall(&call));
                }
            }
            Fact::CallFinished { result, .. } => {
                let began = self.calls.get(result.call_id()).cloned();
                if let Some((call, Some(since))) = began {
                    let elapsed = Duration::from_millis(at.saturating_sub(since));
                    self.tell(Event::ToolResult { call: &call, result, elapsed });
                }
            }
            Fact::Steered { message } => self.tell(Event::Steered { message }),
            Fact::AnswerRejected { by, faults, message } => {
                let message = message.as_ref();
                self.tell(Event::AnswerRejected { by: *by, faults, message });
            }
            Fact::ToolsFound { call, tools } => {
                if let Some(call) = self.call(call) {
                    self.tell(Event::ToolsFound { call: &call, tools });
                }
            }
            Fact::ContextCleared { results, arguments, before, after } => {
                let (results, arguments) = (results.len(), arguments.len());
                let (before, after) = (*before, *after);
                self.tell(Event::ContextCleared { results, arguments, before, after });
            }
            Fact::ContextCompacted { messages, vendor, before, after, .. } => {
                let messages = usize::try_from(*messages).unwrap_or(usize::MAX);
                let (vendor, before, after) = (vendor.is_some(), *before, *after);
                self.tell(Event::ContextCompacted { messages, vendor, before, after });
            }
            Fact::CompactionFailed { cause, stopped: false, .. } => {
                self.tell(Event::CompactionFailed { cause })
            }
            Fact::PrefixSet { .. } => {
                if let Some(event) = changed(fact) {
                    self.tell(event);
                }
            }
            Fact::VendorSummaryRefused { cause } => {
                self.tell(Event::VendorSummaryRefused { cause })
            }
            Fact::CallEnded { tool, result } => self.tell(Event::ToolEnded { tool, result }),
            _ => {}
        }
        Ok(())
    }
}
