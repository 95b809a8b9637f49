//! Makes AG-UI events of the events of a run.

use std::{collections::BTreeSet, iter};

use serde_json::{Value, json};

use super::history::AgUiMessages;
use crate::{
    answers::ShownWait,
    event_stream::EventStream,
    public_event::{input, public_spent, shown_event},
    request::text,
};
use harness_agent::{AgentCall, Event, Numbered, Outcome};
use harness_core::{
    journal::Wait,
    message::{Message, ToolCall},
    policy::BudgetUsage,
    provider::Usage,
};

/// The head of a response with this stream.
pub const HEADERS: [(&str, &str); 3] = [
    ("content-type", "text/event-stream"),
    ("cache-control", "no-cache"),
    // A proxy that collects the response would hold up the words.
    ("x-accel-buffering", "no"),
];

/// Encodes the events of one run as server-sent events of AG-UI.
///
/// Give it all events of the run, from its beginning. After the end of the run it has [ended](Self::has_ended) and encodes nothing
/// more. A call is shown when its arguments are complete.
#[derive(Clone, Debug)]
pub struct AgUiStream {
    thread: String,
    run: String,
    stream: EventStream,
    without_reasoning: bool,
    with_cost: bool,
    /// The runs whose messages the client gets when the run begins.
    history: Option<Vec<Numbered>>,
    /// The calls that a client has which got the messages.
    known: Option<BTreeSet<String>>,
    /// The calls that the client shows, if its request names them.
    client_calls: Option<BTreeSet<String>>,
    state: RunState,
}

/// What the client has of the run.
#[derive(Clone, Debug, Default)]
struct RunState {
    /// The message that is being written.
    open: Option<(MessageKind, String)>,
    count: u64,
    step: Option<String>,
    /// The messages and calls of the current step.
    messages: Vec<String>,
    calls: BTreeSet<String>,
    results: BTreeSet<String>,
    /// The message that has the calls of the current step.
    answer: Option<String>,
    /// The agents that have had a turn in this run, or begun in it, by their calls. The run's own is without a call.
    agents: BTreeSet<String>,
    begun: bool,
    interrupts: Vec<Value>,
    ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageKind {
    Text,
    Reasoning,
}

impl MessageKind {
    /// The names of the events that begin, continue and end a message.
    fn events(
        self,
    ) -> (&'static [(&'static str, &'static str)], &'static str, &'static [&'static str]) {
        match self {
            Self::Text => (
                &[("TEXT_MESSAGE_START", "assistant")],
                "TEXT_MESSAGE_CONTENT",
                &["TEXT_MESSAGE_END"],
            ),
            Self::Reasoning => (
                &[("REASONING_START", ""), ("REASONING_MESSAGE_START", "reasoning")],
                "REASONING_MESSAGE_CONTENT",
                &["REASONING_MESSAGE_END", "REASONING_END"],
            ),
        }
    }
}

impl AgUiStream {
    /// A stream of a run. `thread` and `run` are the client's names for the conversation and the run: those of its
    /// [request](crate::ClientRequest).
    pub fn new(thread: impl Into<String>, run: impl Into<String>) -> Self {
        Self {
            thread: thread.into(),
            run: run.into(),
            stream: EventStream::default(),
            without_reasoning: false,
            with_cost: false,
            history: None,
            known: None,
            client_calls: None,
            state: RunState::default(),
        }
    }

    /// Leaves out the model's reasoning.
    #[must_use]
    pub fn without_reasoning(mut self) -> Self {
        self.without_reasoning = true;
        self
    }

    /// Tells what the run has cost, as `cost` in the result of `RUN_FINISHED`: the cost of
    /// [what the run has spent](harness_agent::Event::RunEnded), with agents in calls. It is null if the cost is not known.
    #[must_use]
    pub fn with_cost(mut self) -> Self {
        self.with_cost = true;
        self
    }

    /// Names the calls that the client shows: those of its [request](crate::ClientRequest). A resumed run then shows each
    /// other call before it waits or ends. Without them, a call of the run before that was still queued has no
    /// `TOOL_CALL_START`.
    #[must_use]
    pub fn with_client_calls(mut self, calls: impl IntoIterator<Item = String>) -> Self {
        self.client_calls = Some(calls.into_iter().collect());
        self
    }

    /// Begins the stream with a `MESSAGES_SNAPSHOT` for a client that connects without a message, for example after a reload. It has the
    /// messages of these runs, the [earlier](harness_agent::ChatWatcher::earlier) ones of a watcher, and what the user says in
    /// this one. The rest of the run comes as in every stream, so calls that wait are interrupts at its end.
    #[must_use]
    pub fn with_history<'a>(mut self, earlier: impl IntoIterator<Item = &'a Numbered>) -> Self {
        self.history.get_or_insert_default().extend(earlier.into_iter().cloned());
        self
    }

    /// The messages of a client that has read these runs.
    fn messages(&self, runs: &[Numbered]) -> AgUiMessages {
        let settings = Self {
            without_reasoning: self.without_reasoning,
            ..Self::new(self.thread.as_str(), self.run.as_str())
        };
        let mut messages = AgUiMessages::default();
        let mut stream = settings.clone();
        for event in runs {
            match event.event.as_event() {
                Event::RunStarted { said } => {
                    stream = Self { known: Some(messages.calls()), ..settings.clone() };
                    said.into_iter().for_each(|said| messages.say(said));
                }
                Event::Steered { message } => {
                    messages.say(message);
                    continue;
                }
                _ => {}
            }
            stream.read(event);
            stream.stream.take_values().for_each(|value| messages.apply(&value));
        }
        messages
    }

    /// Encodes the next event. The text is empty if the client learns nothing of it.
    pub fn encode(&mut self, event: &Numbered) -> String {
        self.read(event);
        self.stream.take()
    }

    fn read(&mut self, event: &Numbered) {
        if !self.state.ended {
            self.stream.begin(event);
            self.event(event.event.as_event());
        }
    }

    /// Whether the run has ended.
    pub fn has_ended(&self) -> bool {
        self.state.ended
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::RunStarted { said } => {
                let (thread, run) = (&self.thread, &self.run);
                // For the client, a run that continues the one before its end is the same run.
                if !std::mem::replace(&mut self.state.begun, true) {
                    self.stream
                        .chunk(json!({"type": "RUN_STARTED", "threadId": thread, "runId": run}));
                }
                if let Some(earlier) = self.history.take() {
                    let mut messages = self.messages(&earlier);
                    said.into_iter().for_each(|said| messages.say(said));
                    self.known = Some(messages.calls());
                    let messages = messages.into_messages();
                    self.stream.chunk(json!({"type": "MESSAGES_SNAPSHOT", "messages": messages}));
                }
            }
            Event::TurnStarted { turn } => {
                self.end_step();
                self.state.agents.insert(String::new());
                let step = format!("turn {turn}");
                self.stream.chunk(json!({"type": "STEP_STARTED", "stepName": step}));
                self.state.step = Some(step);
            }
            Event::Discarded { .. } => self.take_back(),
            Event::Text(words) => self.words(MessageKind::Text, words),
            Event::Reasoning(_) if self.without_reasoning => {}
            Event::Reasoning(words) => self.words(MessageKind::Reasoning, words),
            // The call is shown when it is complete.
            Event::ToolCallStart { .. } | Event::ToolCallDelta { .. } => {}
            Event::Steered { message } => {
                // A client that has read the run from its beginning may have sent it.
                if self.known.is_some() {
                    self.said(message);
                }
                self.custom(event);
            }
            Event::OfAgent { path, event: inner } => {
                if !self.call(path, inner.as_event()) {
                    self.custom(event);
                }
            }
            Event::RunEnded { outcome, usage, spent, reason } => {
                self.finish(outcome, usage, spent, reason);
            }
            _ => {
                if !self.call(&[], event) {
                    self.custom(event);
                }
            }
        }
    }

    fn end_step(&mut self) {
        self.close_message();
        self.forget_step();
        if let Some(step) = self.state.step.take() {
            self.stream.chunk(json!({"type": "STEP_FINISHED", "stepName": step}));
        }
    }

    fn forget_step(&mut self) {
        let RunState { messages, calls, results, answer, .. } = &mut self.state;
        messages.clear();
        calls.clear();
        results.clear();
        *answer = None;
    }

    fn take_back(&mut self) {
        self.close_message();
        let messages = std::mem::take(&mut self.state.messages);
        let calls = std::mem::take(&mut self.state.calls);
        self.forget_step();
        let value = json!({"messages": messages, "calls": calls});
        self.stream.chunk(json!({"type": "CUSTOM", "name": "discarded", "value": value}));
    }

    /// An id that no other message of the conversation has.
    fn new_id(&mut self) -> String {
        self.state.count += 1;
        format!("{}-{}", self.stream.run(), self.state.count)
    }

    fn words(&mut self, kind: MessageKind, words: &str) {
        let (start, content, _) = kind.events();
        if self.state.open.as_ref().is_none_or(|(open, _)| *open != kind) {
            self.close_message();
            let id = self.new_id();
            for (name, role) in start {
                self.stream.chunk(match role.is_empty() {
                    true => json!({"type": name, "messageId": id}),
                    false => json!({"type": name, "messageId": id, "role": role}),
                });
            }
            self.state.messages.push(id.clone());
            if kind == MessageKind::Text {
                self.state.answer = Some(id.clone());
            }
            self.state.open = Some((kind, id));
        }
        if let Some((_, id)) = &self.state.open {
            self.stream
                .words(words, |words| json!({"type": content, "messageId": id, "delta": words}));
        }
    }

    /// A message of the user.
    fn said(&mut self, message: &Message) {
        self.close_message();
        let (id, words) = (message.id(), message.text());
        self.stream.chunk(json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": "user"}));
        if !words.is_empty() {
            self.stream
                .chunk(json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": words}));
        }
        self.stream.chunk(json!({"type": "TEXT_MESSAGE_END", "messageId": id}));
    }

    fn close_message(&mut self) {
        if let Some((kind, id)) = self.state.open.take() {
            for name in kind.events().2 {
                self.stream.chunk(json!({"type": name, "messageId": id}));
            }
        }
    }

    /// Encodes an event of a call, of the run or of an agent behind this path. Returns whether it is one.
    fn call(&mut self, path: &[AgentCall], event: Event<'_>) -> bool {
        let agent = path.iter().map(|step| &*step.call).collect::<Vec<_>>().join("/");
        let (Event::ToolCall(of)
        | Event::ToolWaits { call: of, .. }
        | Event::ToolDenied { call: of, .. }
        | Event::ToolResult { call: of, .. }) = event
        else {
            if matches!(event, Event::TurnStarted { .. }) {
                self.state.agents.insert(agent);
            }
            return false;
        };
        let id = if agent.is_empty() { of.id().to_owned() } else { format!("{agent}/{}", of.id()) };
        if self.is_new(&agent, &id) {
            self.show(&id, of);
        }
        // What it has waited for before, it waits for no more, and with its end its agents wait for nothing.
        let has_ended = matches!(event, Event::ToolDenied { .. } | Event::ToolResult { .. });
        self.state.interrupts.retain(|interrupt| {
            let rest = text(interrupt, "toolCallId").and_then(|of| of.strip_prefix(&*id));
            !rest.is_some_and(|rest| rest.is_empty() || (has_ended && rest.starts_with('/')))
        });
        match event {
            Event::ToolWaits { call, wait } => self.add_wait(&id, call, wait),
            Event::ToolDenied { reason, .. } => self.result(&id, reason),
            Event::ToolResult { result, .. } => self.result(&id, &result.to_text()),
            _ => {}
        }
        true
    }

    /// Whether the client does not have this call of an agent from a run before.
    fn is_new(&self, agent: &str, id: &str) -> bool {
        let mut agents =
            iter::successors(Some(agent), |it| it.rsplit_once('/').map(|(above, _)| above));
        agents.any(|agent| self.state.agents.contains(agent))
            // Without the messages, the client has read the runs before.
            || [&self.known, &self.client_calls]
                .into_iter()
                .any(|known| known.as_ref().is_some_and(|known| !known.contains(id)))
    }

    fn show(&mut self, id: &str, call: &ToolCall) {
        if !self.state.calls.insert(id.to_owned()) {
            return;
        }
        self.state.agents.insert(id.to_owned());
        self.close_message();
        let message = match self.state.answer.take() {
            Some(message) => message,
            None => self.new_id(),
        };
        self.stream.chunk(json!({
            "type": "TOOL_CALL_START",
            "toolCallId": id,
            "toolCallName": call.name(),
            "parentMessageId": message,
        }));
        self.state.answer = Some(message);
        let arguments = if call.arguments().is_empty() { "{}" } else { call.arguments() };
        self.stream.chunk(json!({"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": arguments}));
        self.stream.chunk(json!({"type": "TOOL_CALL_END", "toolCallId": id}));
    }

    fn add_wait(&mut self, id: &str, call: &ToolCall, wait: &Wait) {
        let mut shown = ShownWait::of(call, wait);
        let Some(interrupt) = shown.id else { return };
        let schema = match shown.is_approval {
            true => Some(json!({
                "type": "object",
                "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
                "required": ["approved"],
            })),
            false => shown.json.get("form").filter(|form| form.is_object()).cloned(),
        };
        shown.json.insert("call".into(), json!(id));
        shown.json.insert("arguments".into(), input(call));
        let reason = if shown.is_approval { "tool_call" } else { "input_required" };
        let members = [
            ("message", shown.question.map(Value::String)),
            ("responseSchema", schema),
            ("metadata", Some(Value::Object(shown.json))),
        ];
        let mut all = json!({"id": interrupt, "reason": reason, "toolCallId": id});
        if let Some(all) = all.as_object_mut() {
            all.extend(members.into_iter().filter_map(|(name, it)| Some((name.to_owned(), it?))));
        }
        self.state.interrupts.push(all);
    }

    fn result(&mut self, id: &str, text: &str) {
        // A call that was denied may have a result, too.
        if !self.state.results.insert(id.to_owned()) {
            return;
        }
        self.close_message();
        let message = self.new_id();
        self.stream.chunk(json!({
            "type": "TOOL_CALL_RESULT",
            "messageId": message,
            "toolCallId": id,
            "content": text,
            "role": "tool",
        }));
    }

    fn custom(&mut self, event: Event<'_>) {
        if let Some(value) = shown_event(event, self.without_reasoning) {
            let name = text(&value, "type").unwrap_or_default();
            self.stream.passing(json!({"type": "CUSTOM", "name": name, "value": value}));
        }
    }

    fn finish(
        &mut self,
        outcome: Outcome,
        usage: &Usage,
        spent: &BudgetUsage,
        reason: Option<&str>,
    ) {
        self.end_step();
        self.state.ended = true;
        if outcome == Outcome::Failed {
            let message = reason.map_or_else(|| outcome.to_string(), str::to_owned);
            self.stream.chunk(json!({"type": "RUN_ERROR", "message": message}));
            return;
        }
        let interrupts = std::mem::take(&mut self.state.interrupts);
        let ends = match outcome {
            Outcome::Waiting if !interrupts.is_empty() => {
                json!({"type": "interrupt", "interrupts": interrupts})
            }
            Outcome::Cancelled => json!({"type": "cancelled"}),
            _ => json!({"type": "success"}),
        };
        let mut result = json!({"outcome": outcome, "usage": usage, "spent": public_spent(spent)});
        if let Some(result) = result.as_object_mut().filter(|_| self.with_cost) {
            result.insert("cost".into(), json!(spent.cost));
        }
        if let Some((result, text)) = result.as_object_mut().zip(reason) {
            result.insert("reason".into(), json!(text));
        }
        self.stream.chunk(json!({
            "type": "RUN_FINISHED",
            "threadId": self.thread,
            "runId": self.run,
            "outcome": ends,
            "result": result,
        }));
    }
}
