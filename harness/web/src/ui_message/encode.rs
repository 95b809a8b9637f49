//! Makes chunks of the UI message stream of events.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::history::PageMessages;
use crate::{
    answers::ShownWait,
    event_stream::EventStream,
    public_event::{input, output, public_event, public_spent, shown_event},
    request::text,
};
use harness_agent::{AgentCall, Event, Numbered, Outcome};
use harness_core::{
    journal::Wait,
    message::{CallOutcome, Citation, Media, Message, ToolCall, ToolResult},
    policy::BudgetUsage,
    provider::Usage,
};

/// The head of a response with this stream.
pub const HEADERS: [(&str, &str); 4] = [
    ("content-type", "text/event-stream"),
    ("cache-control", "no-cache"),
    ("x-vercel-ai-ui-message-stream", "v1"),
    // A proxy that collects the response would hold up the words.
    ("x-accel-buffering", "no"),
];

/// Encodes the events of one run as server-sent events of the UI message stream.
///
/// Give it all events of the run, from its beginning. After the end of the run it has [ended](Self::has_ended) and encodes nothing
/// more, so a watcher of a conversation can be left then.
#[derive(Clone, Debug, Default)]
pub struct UiMessageStream {
    stream: EventStream,
    without_reasoning: bool,
    version_6: bool,
    all_runs: bool,
    with_cost: bool,
    /// The events of the answer that a resumed run continues.
    beginning: Vec<Numbered>,
    state: MessageState,
}

/// What the client has of the message.
#[derive(Clone, Debug, Default)]
struct MessageState {
    /// The part that is being written, and its id.
    open: Option<(WordsKind, String)>,
    /// Whether it is what came before the run.
    is_before: bool,
    /// How many parts have been given an id.
    parts: u64,
    in_step: bool,
    /// The calls that the current step shows.
    calls: HashMap<String, CallProgress>,
    /// Whether the message has begun and the model has not: what ends now are calls of earlier messages.
    has_no_turn: bool,
    /// Whether the run has begun. The end of one that could not begin says nothing of what the message has cost.
    has_begun: bool,
    ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WordsKind {
    Text,
    Reasoning,
}

impl WordsKind {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Reasoning => "reasoning",
        }
    }
}

/// How much of a call is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallProgress {
    Writing,
    Complete,
    Waiting,
    Ended,
}

impl UiMessageStream {
    /// A stream from the beginning of the run.
    pub fn new() -> Self {
        Self::default()
    }

    /// The rest of a stream, after the chunk with this `id` (`Last-Event-ID`). An id of another run begins with the run.
    /// `DefaultChatTransport` itself reads the whole run again after a reload, so it has no use for this.
    pub fn after(id: &str) -> Self {
        Self { stream: EventStream::after(id), ..Self::default() }
    }

    /// Leaves out the model's reasoning.
    #[must_use]
    pub fn without_reasoning(mut self) -> Self {
        self.without_reasoning = true;
        self
    }

    /// Sends only chunks that version 6 of `ai` knows. It has none that takes words back: if an answer breaks off and starts
    /// again, the page gets `data-discarded` with the ids of the parts and calls of the current step, which are void.
    #[must_use]
    pub fn for_version_6(mut self) -> Self {
        self.version_6 = true;
        self
    }

    /// Begins the stream of a resumed run with what the answer had before, out of the [earlier](harness_agent::ChatWatcher::earlier) runs of
    /// the watcher. A page that is loaded again needs it: `useChat` lets the stream that goes on take the place of the
    /// message, while it adds the response to an answer to the message. Other runs are as without it.
    #[must_use]
    pub fn with_beginning<'a>(mut self, earlier: impl IntoIterator<Item = &'a Numbered>) -> Self {
        for event in earlier {
            if matches!(event.event.as_event(), Event::RunStarted { said: Some(_) }) {
                self.beginning.clear();
            }
            self.beginning.push(event.clone());
        }
        self
    }

    /// Encodes each run of a watcher, and not only the first one: the stream does not end by itself. For a page that also shows what
    /// other pages say; `DefaultChatTransport` reads one run.
    #[must_use]
    pub fn of_all_runs(mut self) -> Self {
        self.all_runs = true;
        self
    }

    /// Tells what each run has cost, as `cost` in the metadata of its message: the cost of
    /// [what the run has spent](harness_agent::Event::RunEnded), with agents in calls. It is null if the cost is not known.
    #[must_use]
    pub fn with_cost(mut self) -> Self {
        self.with_cost = true;
        self
    }

    /// The messages (`UIMessage[]`) that a page has which has read these runs with the settings of this stream, for a page that
    /// is loaded again. Give it the [earlier](harness_agent::ChatWatcher::earlier) runs of a watcher, and of a run that has ended the events
    /// of the watcher. A run that goes on is better sent as a stream: of it, give the first event alone, which has the
    /// message of the user.
    ///
    /// Answers of the model, calls and results are what the stream shows of them: a call that waits has the id for the
    /// answer, and nothing is in it that [`public_event`] keeps back.
    pub fn messages<'a>(self, events: impl IntoIterator<Item = &'a Numbered>) -> Vec<Value> {
        let mut page = PageMessages::default();
        let mut stream = self.clone();
        for event in events {
            if let Event::RunStarted { said } = event.event.as_event() {
                stream = self.clone();
                page.begin_run(said);
            }
            for chunk in stream.values(event) {
                page.apply(chunk);
            }
        }
        page.into_messages()
    }

    fn values(&mut self, event: &Numbered) -> impl Iterator<Item = Value> {
        self.read(event);
        self.stream.take_values()
    }

    /// Encodes the next event. The text is empty if the client learns nothing of it.
    pub fn encode(&mut self, event: &Numbered) -> String {
        self.read(event);
        self.stream.take()
    }

    fn read(&mut self, event: &Numbered) {
        let begins = matches!(event.event.as_event(), Event::RunStarted { .. });
        if !self.state.ended || (self.all_runs && begins) {
            self.stream.begin(event);
            self.event(event.event.as_event());
        }
    }

    /// Whether the run has ended.
    pub fn has_ended(&self) -> bool {
        self.state.ended && !self.all_runs
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::RunStarted { said } => {
                let beginning = std::mem::take(&mut self.beginning);
                let has_beginning = said.is_none() && !beginning.is_empty();
                self.stream.begin_before();
                if has_beginning {
                    self.replay(&beginning);
                }
                self.end_step();
                // From here on everything is as in a stream of this run alone, of which the client may have a part.
                self.state = MessageState { has_begun: true, ..MessageState::default() };
                self.stream.end_before(has_beginning.into());
                if !has_beginning {
                    self.start(event, said);
                }
            }
            Event::TurnStarted { .. } => self.begin_step(),
            Event::Discarded { .. } => self.take_back(),
            Event::Text(words) => self.words(WordsKind::Text, words),
            Event::Reasoning(_) if self.without_reasoning => {}
            Event::Reasoning(words) => self.words(WordsKind::Reasoning, words),
            Event::Citation(citation) => self.source(citation),
            Event::Image(media) | Event::Audio(media) => self.file(media),
            Event::ToolCallStart { call, tool } => {
                self.close_part();
                self.state.calls.insert(call.to_owned(), CallProgress::Writing);
                let start =
                    json!({"type": "tool-input-start", "toolCallId": call, "toolName": tool});
                self.stream.chunk(start);
            }
            Event::ToolCallDelta { call, json: piece } => {
                if self.state.calls.get(call) == Some(&CallProgress::Writing) {
                    self.stream.words(piece, |piece| {
                        json!({"type": "tool-input-delta", "toolCallId": call, "inputTextDelta": piece})
                    });
                }
            }
            Event::Steered { .. } => {
                if let Some(data) = public_event(event) {
                    self.stream.chunk(json!({"type": "data-steered", "data": data}));
                }
            }
            Event::OfAgent { path, event: inner } => {
                if !self.call(path, inner.as_event()) {
                    self.data(event);
                }
            }
            Event::RunEnded { outcome, usage, spent, reason } => {
                self.finish(outcome, usage, spent, reason);
            }
            _ => {
                if !self.call(&[], event) {
                    self.data(event);
                }
            }
        }
    }

    /// Encodes what the message had before the run.
    fn replay(&mut self, beginning: &[Numbered]) {
        self.state.is_before = true;
        for event in beginning {
            match event.event.as_event() {
                Event::RunStarted { said: None } => {}
                Event::RunStarted { said } => self.start(event.event.as_event(), said),
                Event::RunEnded { .. } => self.end_step(),
                event => self.event(event),
            }
        }
    }

    fn start(&mut self, event: Event<'_>, said: Option<&Message>) {
        // A resumed run continues the message that the client has. The id is the same in every process.
        self.stream.chunk(match said {
            Some(said) => json!({"type": "start", "messageId": format!("answer-{}", said.id())}),
            None => json!({"type": "start"}),
        });
        self.state.has_no_turn = said.is_some();
        // For the pages that have not sent it.
        self.data(event);
    }

    fn begin_step(&mut self) {
        self.end_step();
        self.state.has_no_turn = false;
        self.state.in_step = true;
        self.state.calls.clear();
        self.stream.chunk(json!({"type": "start-step"}));
    }

    fn end_step(&mut self) {
        self.close_part();
        if std::mem::take(&mut self.state.in_step) {
            self.stream.chunk(json!({"type": "finish-step"}));
        }
    }

    /// Takes back what the current step shows.
    fn take_back(&mut self) {
        self.close_part();
        let calls = std::mem::take(&mut self.state.calls);
        self.stream.chunk(match self.version_6 {
            true => {
                let mut calls: Vec<String> = calls.into_keys().collect();
                calls.sort();
                json!({"type": "data-discarded", "data": {"calls": calls}})
            }
            false => json!({"type": "reset-step"}),
        });
    }

    fn new_id(&mut self, kind: &str) -> String {
        self.state.parts += 1;
        let before = if self.state.is_before { "before-" } else { "" };
        format!("{before}{kind}-{}", self.state.parts)
    }

    fn words(&mut self, kind: WordsKind, words: &str) {
        let name = kind.name();
        if self.state.open.as_ref().is_none_or(|(open, _)| *open != kind) {
            self.close_part();
            let id = self.new_id(name);
            self.stream.chunk(json!({"type": format!("{name}-start"), "id": id}));
            self.state.open = Some((kind, id));
        }
        if let Some((_, id)) = &self.state.open {
            self.stream.words(
                words,
                |words| json!({"type": format!("{name}-delta"), "id": id, "delta": words}),
            );
        }
    }

    fn close_part(&mut self) {
        if let Some((kind, id)) = self.state.open.take() {
            self.stream.chunk(json!({"type": format!("{}-end", kind.name()), "id": id}));
        }
    }

    fn source(&mut self, citation: &Citation) {
        let id = self.new_id("source");
        let title = citation.title.as_ref().or(citation.file.as_ref());
        self.stream.chunk(match (&citation.url, title) {
            (Some(url), Some(title)) => {
                json!({"type": "source-url", "sourceId": id, "url": url, "title": title})
            }
            (Some(url), None) => json!({"type": "source-url", "sourceId": id, "url": url}),
            (None, title) => {
                let title = title.map_or("", String::as_str);
                json!({"type": "source-document", "sourceId": id, "mediaType": "text/plain", "title": title})
            }
        });
    }

    fn file(&mut self, media: &Media) {
        if let Some(part) = file_part(media) {
            self.close_part();
            self.stream.chunk(part);
        }
    }

    /// Encodes an event of a call, of the run or of an agent behind this path. Returns whether it is one.
    fn call(&mut self, path: &[AgentCall], event: Event<'_>) -> bool {
        let id = |call: &ToolCall| {
            let ids = path.iter().map(|step| &*step.call).chain([call.id()]);
            ids.collect::<Vec<_>>().join("/")
        };
        match event {
            Event::ToolCall(call) => {
                let id = id(call);
                // A call that has waited runs now, and a model may use an id again.
                let shown = self.state.calls.get(&id);
                if matches!(shown, Some(CallProgress::Waiting | CallProgress::Ended)) {
                    self.state.calls.remove(&id);
                }
                self.show(&id, call);
            }
            Event::ToolWaits { call, wait } => self.show_wait(&id(call), call, wait),
            Event::ToolDenied { call, .. } => {
                let denied = json!({"type": "tool-output-denied", "toolCallId": id(call)});
                self.end_call(&id(call), call, denied);
            }
            Event::ToolResult { call, result, .. } if self.state.has_no_turn => {
                let id = id(call);
                // The client cannot change an earlier message.
                let mut data = json!({"call": id, "tool": call.name(), "text": result.to_text()});
                // It was in doubt, and has turned out well.
                if result.outcome() == CallOutcome::Succeeded
                    && let Some(data) = data.as_object_mut()
                {
                    data.insert("output".to_owned(), output(result));
                }
                self.stream.chunk(
                    json!({"type": "data-withdrawn", "id": format!("withdrawn-{id}"), "data": data}),
                );
            }
            Event::ToolResult { call, result, .. } => {
                let id = id(call);
                self.end_call(&id, call, result_chunk(&id, result));
            }
            Event::ToolDropped { call } => {
                let id = id(call);
                if self.state.calls.contains_key(&id) {
                    let text = "The call was taken back.";
                    let dropped =
                        json!({"type": "tool-output-error", "toolCallId": id, "errorText": text});
                    self.end_call(&id, call, dropped);
                }
            }
            _ => return false,
        }
        true
    }

    /// Shows a call with all its arguments.
    fn show(&mut self, id: &str, call: &ToolCall) {
        let shown = self.state.calls.get(id).copied();
        if shown.is_none_or(|it| it == CallProgress::Writing) {
            self.state.calls.insert(id.to_owned(), CallProgress::Complete);
            self.stream.chunk(json!({
                "type": "tool-input-available",
                "toolCallId": id,
                "toolName": call.name(),
                "input": input(call),
            }));
        }
    }

    fn show_wait(&mut self, id: &str, call: &ToolCall, wait: &Wait) {
        self.show(id, call);
        self.state.calls.insert(id.to_owned(), CallProgress::Waiting);
        let wait = ShownWait::of(call, wait);
        if let Some(question) = wait.id.as_ref().filter(|_| wait.is_approval) {
            let mut request =
                json!({"type": "tool-approval-request", "approvalId": question, "toolCallId": id});
            if let Some((request, reason)) = request.as_object_mut().zip(wait.question) {
                request.insert("reason".into(), json!(reason));
            }
            self.stream.chunk(request);
        }
        let mut data = wait.json;
        data.insert("call".into(), json!(id));
        self.stream
            .chunk(json!({"type": "data-waiting", "id": format!("waiting-{id}"), "data": data}));
    }

    fn end_call(&mut self, id: &str, call: &ToolCall, chunk: Value) {
        self.show(id, call);
        let before = self.state.calls.insert(id.to_owned(), CallProgress::Ended);
        // A call that was denied has a result, too.
        if before != Some(CallProgress::Ended) {
            self.stream.chunk(chunk);
        }
    }

    /// What has no part of its own, at its time.
    fn data(&mut self, event: Event<'_>) {
        if let Some(data) = shown_event(event, self.without_reasoning) {
            let kind = text(&data, "type").unwrap_or_default().replace('_', "-");
            self.stream
                .passing(json!({"type": format!("data-{kind}"), "data": data, "transient": true}));
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
        let whole = public_spent(spent);
        // The client merges metadata, so a run without a reason or a known cost removes that of the run before.
        let mut metadata = json!({"outcome": outcome, "reason": reason});
        if let Some(metadata) = metadata.as_object_mut().filter(|_| self.state.has_begun) {
            metadata.insert("usage".into(), json!(usage));
            metadata.insert("spent".into(), whole);
            if self.with_cost {
                metadata.insert("cost".into(), json!(spent.cost));
            }
        }
        let finish = match outcome {
            Outcome::Answered => "stop",
            Outcome::Truncated => "length",
            Outcome::Refused => "content-filter",
            Outcome::Waiting => "tool-calls",
            Outcome::Failed | Outcome::Unfit => "error",
            _ => "other",
        };
        self.stream
            .chunk(json!({"type": "finish", "finishReason": finish, "messageMetadata": metadata}));
        // The client reads nothing behind an error.
        match outcome {
            Outcome::Cancelled => self.stream.chunk(json!({"type": "abort"})),
            Outcome::Failed => {
                let text = reason.map_or_else(|| outcome.to_string(), str::to_owned);
                self.stream.chunk(json!({"type": "error", "errorText": text}));
            }
            _ => {}
        }
        self.stream.done();
        self.state.ended = true;
    }
}

/// A file, if the page can open it.
pub(super) fn file_part(media: &Media) -> Option<Value> {
    let mime = media.mime().unwrap_or("application/octet-stream");
    let inline = media.base64().map(|data| format!("data:{mime};base64,{data}"));
    let url = inline.or_else(|| media.url().map(str::to_owned))?;
    Some(json!({"type": "file", "url": url, "mediaType": mime}))
}

fn result_chunk(id: &str, result: &ToolResult) -> Value {
    match result.outcome() {
        CallOutcome::Succeeded => {
            json!({"type": "tool-output-available", "toolCallId": id, "output": output(result)})
        }
        CallOutcome::Denied => json!({"type": "tool-output-denied", "toolCallId": id}),
        _ => json!({"type": "tool-output-error", "toolCallId": id, "errorText": result.to_text()}),
    }
}
