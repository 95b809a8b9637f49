//! One reply of a script: the model's answer in one turn, and its failures.

use std::{collections::VecDeque, fmt, time::Duration};

use serde_json::{Value, json};

use super::{Gate, RecordedRequest, deltas};
use harness_core::{
    context::form,
    error::{Error, ErrorKind},
    message::VendorData,
    provider::{StopReason, StreamEvent, Usage, VendorPart},
};

/// Begins a reply. Add the reply's parts in order.
///
/// ```
/// use harness::testing::reply;
/// use serde_json::json;
///
/// let both = reply()
///     .reasoning("Two cities, two calls.")
///     .text("Let me look at both.")
///     .call("weather", json!({"city": "Oslo"}))
///     .call("weather", json!({"city": "Rome"}))
///     .tokens(120, 40);
/// # let _ = both;
/// ```
pub fn reply() -> ScriptedReply {
    ScriptedReply { steps: Vec::new(), stop: None, usage: None }
}

/// Begins a reply with a summary of the conversation, in the form that the library requests. Use this to answer a
/// request for which [`is_summary_request`](RecordedRequest::is_summary_request) is true.
///
/// Each line of `lines` becomes an entry under the first of the five headings, the goals. The other headings get no
/// entries. If `lines` is empty, the first heading also gets no entries.
///
/// ```
/// use harness::{
///     Agent,
///     context::Window,
///     testing::{ScriptedProvider, reply, summary},
/// };
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let model = ScriptedProvider::answering(|request| match request.is_summary_request() {
///     true => summary("The user counts birds."),
///     false => reply().text("Noted. ".repeat(100)),
/// });
/// let agent = Agent::builder(model.clone()).window(Window::new().tokens(2_000)).build()?;
/// let mut chat = agent.chat();
/// while chat.context().summed_up == 0 {
///     chat.send("One more heron.").await?;
/// }
/// let sent = chat.sent().messages();
/// assert!(sent.iter().any(|message| message.text().contains("- The user counts birds.")));
/// assert_eq!(model.requests().iter().filter(|request| request.is_summary_request()).count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn summary(lines: impl AsRef<str>) -> ScriptedReply {
    reply().text(form(lines.as_ref()))
}

/// Computes a reply from the request when the request arrives.
///
/// ```
/// use harness::testing::{ScriptedProvider, reply, reply_to};
///
/// let echo = ScriptedProvider::new([
///     reply_to(|request| reply().text(request.last_text().to_uppercase())),
/// ]);
/// # let _ = echo;
/// ```
pub fn reply_to(
    decide: impl FnOnce(&RecordedRequest) -> ScriptedReply + Send + 'static,
) -> ScriptedReply {
    let mut reply = reply();
    reply.steps.push(ReplyStep::Decide(Box::new(decide)));
    reply
}

/// The model's answer in one turn, and its failures. Begin a reply with [`reply`].
///
/// By default, the answer is complete and its usage is unknown. The default stop reason is
/// [`StopReason::ToolCalls`] for an answer with calls, and otherwise [`StopReason::Complete`].
/// Text, thinking and arguments are split into several deltas. Parts after an
/// [`error`](Self::error), a [`cut`](Self::cut) or a [`stall`](Self::stall) are never sent.
pub struct ScriptedReply {
    steps: Vec<ReplyStep>,
    stop: Option<StopReason>,
    usage: Option<Usage>,
}

enum ReplyStep {
    Started,
    Text(String),
    Reasoning(String),
    Signature(String),
    CallStart { id: Option<String>, name: String },
    Arguments(String),
    CallEnd,
    Event(StreamEvent),
    Decide(Box<dyn FnOnce(&RecordedRequest) -> ScriptedReply + Send>),
    Pause(Duration),
    Wait(Gate),
    Error(Error),
    Cut,
    Stall,
}

impl ScriptedReply {
    /// Adds text, split into several deltas. Consecutive texts belong to the same block.
    #[must_use]
    pub fn text(self, text: impl AsRef<str>) -> Self {
        self.text_in(deltas::of_words(text.as_ref()))
    }

    /// Adds text in exactly these deltas.
    #[must_use]
    pub fn text_in(self, deltas: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.with(deltas.into_iter().map(|delta| ReplyStep::Text(delta.into())))
    }

    /// Adds thinking without a signature, split into several deltas.
    #[must_use]
    pub fn reasoning(self, text: impl AsRef<str>) -> Self {
        self.with(deltas::of_words(text.as_ref()).into_iter().map(ReplyStep::Reasoning))
    }

    /// Adds thinking with a signature. The agent must send the signature back with the thinking.
    /// `text` may be empty: vendors also sign hidden thinking.
    ///
    /// The signature is vendor data of the wire `scripted`: `{"signature": ..}`.
    #[must_use]
    pub fn signed_reasoning(self, text: impl AsRef<str>, signature: impl Into<String>) -> Self {
        self.reasoning(text).with([ReplyStep::Signature(signature.into())])
    }

    /// Adds a call with a generated id. Ids count through the whole script: `call_1`, `call_2` and
    /// so on.
    #[must_use]
    pub fn call(self, name: impl Into<String>, arguments: Value) -> Self {
        self.call_text(name, arguments.to_string())
    }

    /// Adds a call with this id.
    #[must_use]
    pub fn call_with_id(
        self,
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: Value,
    ) -> Self {
        self.begin_call(id, name).arguments(arguments.to_string()).end_call()
    }

    /// Adds a call with a generated id and this argument text, which may be invalid JSON.
    #[must_use]
    pub fn call_text(self, name: impl Into<String>, arguments: impl AsRef<str>) -> Self {
        self.with([ReplyStep::CallStart { id: None, name: name.into() }])
            .arguments(arguments)
            .end_call()
    }

    /// Begins a call that is sent slowly or never completed. Continue with
    /// [`arguments`](Self::arguments), pauses and gates, and [`end_call`](Self::end_call). An empty
    /// id simulates a vendor that sends no id.
    #[must_use]
    pub fn begin_call(self, id: impl Into<String>, name: impl Into<String>) -> Self {
        self.with([ReplyStep::CallStart { id: Some(id.into()), name: name.into() }])
    }

    /// Adds a part of the arguments of the last call, split into several deltas.
    #[must_use]
    pub fn arguments(self, text: impl AsRef<str>) -> Self {
        self.with(deltas::of_json(text.as_ref()).into_iter().map(ReplyStep::Arguments))
    }

    /// Ends the last call.
    #[must_use]
    pub fn end_call(self) -> Self {
        self.with([ReplyStep::CallEnd])
    }

    /// Adds an event unchanged. Use this for events that no other method adds.
    #[must_use]
    pub fn event(self, event: StreamEvent) -> Self {
        self.with([ReplyStep::Event(event)])
    }

    /// Sends [`StreamEvent::Started`] at this point. By default, the first part sends the event.
    #[must_use]
    pub fn started(self) -> Self {
        self.with([ReplyStep::Started])
    }

    /// Sets the stop reason.
    #[must_use]
    pub fn stop(mut self, stop: StopReason) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Sets the token counts at the end of the answer.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Sets the input and output token counts at the end of the answer.
    #[must_use]
    pub fn tokens(self, input: u64, output: u64) -> Self {
        self.usage(Usage { input: Some(input), output: Some(output), ..Usage::default() })
    }

    /// Pauses on tokio's clock. With paused time, this takes no real time.
    #[must_use]
    pub fn pause(self, time: Duration) -> Self {
        self.with([ReplyStep::Pause(time)])
    }

    /// Waits until the test opens the gate.
    #[must_use]
    pub fn wait_for(self, gate: &Gate) -> Self {
        self.with([ReplyStep::Wait(gate.clone())])
    }

    /// Fails at this point. Before any other part, the request fails without events. After other
    /// parts, the answer fails in the middle.
    #[must_use]
    pub fn error(self, error: Error) -> Self {
        self.with([ReplyStep::Error(error)])
    }

    /// Fails at this point with status 529, like an overloaded service. Providers retry this failure.
    #[must_use]
    pub fn overloaded(self) -> Self {
        self.error(
            Error::new(ErrorKind::Api, "Overloaded").with_status(529).with_code("overloaded_error"),
        )
    }

    /// Ends the stream of an incomplete answer at this point, as if the connection were closed.
    #[must_use]
    pub fn cut(self) -> Self {
        self.with([ReplyStep::Cut])
    }

    /// Sends nothing more and never ends. Use this to test cancellation, dropping and timeouts.
    #[must_use]
    pub fn stall(self) -> Self {
        self.with([ReplyStep::Stall])
    }

    fn with(mut self, steps: impl IntoIterator<Item = ReplyStep>) -> Self {
        self.steps.extend(steps);
        self
    }

    /// The actions of the reply for this request, in order.
    pub(super) fn into_acts(self, cast: &mut ReplyContext<'_>) -> VecDeque<ReplyAction> {
        let (steps, stop, usage) = self.decided(cast.request);
        let mut acts = ReplyActions::default();
        let mut called = false;
        for step in steps {
            match step {
                ReplyStep::Started => acts.start(cast),
                ReplyStep::Text(text) => {
                    let block = acts.block(ReplyBlockKind::Text);
                    acts.say(cast, StreamEvent::TextDelta { block, text });
                }
                ReplyStep::Reasoning(text) => {
                    let block = acts.block(ReplyBlockKind::Reasoning);
                    acts.say(cast, StreamEvent::ReasoningDelta { block, text });
                }
                ReplyStep::Signature(signature) => {
                    let block = acts.block(ReplyBlockKind::Reasoning);
                    let json = json!({"signature": signature}).to_string();
                    match VendorData::new("scripted", json) {
                        Ok(data) => {
                            let part = VendorPart::Reasoning;
                            acts.say(cast, StreamEvent::Vendor { block, part, data });
                        }
                        Err(err) => {
                            acts.queue.push_back(ReplyAction::Fail(err));
                            return acts.queue;
                        }
                    }
                    // Thinking after a signature begins a new block with its own signature.
                    acts.last = None;
                }
                ReplyStep::CallStart { id, name } => {
                    called = true;
                    let id = id.unwrap_or_else(|| (cast.new_id)());
                    let block = acts.block(ReplyBlockKind::Call);
                    acts.say(cast, StreamEvent::ToolCallStart { block, id, name });
                }
                ReplyStep::Arguments(json) => {
                    let block = acts.next.saturating_sub(1);
                    acts.say(cast, StreamEvent::ToolCallDelta { block, json });
                }
                ReplyStep::CallEnd => {
                    let block = acts.next.saturating_sub(1);
                    acts.say(cast, StreamEvent::ToolCallEnd { block });
                }
                ReplyStep::Event(event) => {
                    called |= matches!(event, StreamEvent::ToolCallStart { .. });
                    acts.started |= matches!(event, StreamEvent::Started { .. });
                    acts.say(cast, event);
                }
                // `decided` has already replaced all `Decide` steps.
                ReplyStep::Decide(_) => {}
                ReplyStep::Pause(time) => acts.queue.push_back(ReplyAction::Pause(time)),
                ReplyStep::Wait(gate) => acts.queue.push_back(ReplyAction::Wait(gate)),
                ReplyStep::Error(err) => {
                    acts.queue.push_back(ReplyAction::Fail(err));
                    return acts.queue;
                }
                ReplyStep::Cut => return acts.queue,
                ReplyStep::Stall => {
                    acts.queue.push_back(ReplyAction::Stall);
                    return acts.queue;
                }
            }
        }
        let by_itself = if called { StopReason::ToolCalls } else { StopReason::Complete };
        let stop = stop.unwrap_or(by_itself);
        acts.say(cast, StreamEvent::Completed { stop, usage: Box::new(usage.unwrap_or_default()) });
        acts.queue
    }

    /// Replaces each `Decide` step by the computed steps. The stop reason and the usage of a
    /// computed reply have precedence.
    fn decided(
        self,
        request: &RecordedRequest,
    ) -> (Vec<ReplyStep>, Option<StopReason>, Option<Usage>) {
        let Self { steps: written, mut stop, mut usage } = self;
        let mut steps = Vec::with_capacity(written.len());
        for step in written {
            if let ReplyStep::Decide(decide) = step {
                let (more, its_stop, its_usage) = decide(request).decided(request);
                steps.extend(more);
                stop = its_stop.or(stop);
                usage = its_usage.or(usage);
            } else {
                steps.push(step);
            }
        }
        (steps, stop, usage)
    }
}

/// The data that a reply needs from the script.
pub(super) struct ReplyContext<'a> {
    pub(super) request: &'a RecordedRequest,
    pub(super) answer_id: String,
    pub(super) model: &'a str,
    pub(super) new_id: &'a mut dyn FnMut() -> String,
}

/// One action while a reply is streamed.
pub(super) enum ReplyAction {
    Say(StreamEvent),
    Pause(Duration),
    Wait(Gate),
    Fail(Error),
    Stall,
}

#[derive(Clone, Copy, PartialEq)]
enum ReplyBlockKind {
    Text,
    Reasoning,
    Call,
}

#[derive(Default)]
struct ReplyActions {
    queue: VecDeque<ReplyAction>,
    started: bool,
    /// The index of the next block.
    next: u32,
    /// The kind of the last block, if more parts can still be added to the block.
    last: Option<ReplyBlockKind>,
}

impl ReplyActions {
    fn start(&mut self, cast: &ReplyContext<'_>) {
        if !self.started {
            self.started = true;
            let (id, model) = (Some(cast.answer_id.clone()), Some(cast.model.to_owned()));
            self.queue.push_back(ReplyAction::Say(StreamEvent::Started { id, model }));
        }
    }

    fn say(&mut self, cast: &ReplyContext<'_>, event: StreamEvent) {
        self.start(cast);
        self.queue.push_back(ReplyAction::Say(event));
    }

    /// The index of the block for a part of this kind: the last block if it has the same kind, otherwise a new block.
    fn block(&mut self, kind: ReplyBlockKind) -> u32 {
        if kind == ReplyBlockKind::Call || self.last != Some(kind) {
            self.last = Some(kind);
            self.next += 1;
        }
        self.next.saturating_sub(1)
    }
}

/// Shows the reply in short form: `text "Let me see.", call weather {"city":"Oslo"}`.
impl fmt::Debug for ScriptedReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told: Vec<(String, String)> = Vec::new();
        for step in &self.steps {
            let (what, words) = match step {
                ReplyStep::Text(text) => ("text".to_owned(), text.as_str()),
                ReplyStep::Reasoning(text) => ("reasoning".to_owned(), text.as_str()),
                ReplyStep::Signature(_) => ("signature".to_owned(), ""),
                ReplyStep::CallStart { name, .. } => (format!("call {name}"), ""),
                ReplyStep::Arguments(json) => match told.last_mut() {
                    Some((what, all)) if what.starts_with("call ") => {
                        all.push_str(json);
                        continue;
                    }
                    _ => ("arguments".to_owned(), json.as_str()),
                },
                ReplyStep::CallEnd => continue,
                ReplyStep::Started => ("started".to_owned(), ""),
                ReplyStep::Event(event) => (format!("{event:?}"), ""),
                ReplyStep::Decide(_) => ("what it decides from the request".to_owned(), ""),
                ReplyStep::Pause(time) => (format!("pause {time:?}"), ""),
                ReplyStep::Wait(_) => ("wait for a gate".to_owned(), ""),
                ReplyStep::Error(err) => (format!("error \"{err}\""), ""),
                ReplyStep::Cut => ("cut".to_owned(), ""),
                ReplyStep::Stall => ("stall".to_owned(), ""),
            };
            match told.last_mut() {
                Some((last, all)) if !words.is_empty() && *last == what => all.push_str(words),
                _ => told.push((what, words.to_owned())),
            }
        }
        if let Some(stop) = self.stop {
            told.push((format!("stop {stop:?}"), String::new()));
        }
        for (at, (what, words)) in told.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            if words.is_empty() {
                write!(f, "{comma}{what}")?;
            } else if what.starts_with("call ") {
                write!(f, "{comma}{what} {words}")?;
            } else {
                write!(f, "{comma}{what} {words:?}")?;
            }
        }
        if told.is_empty() { f.write_str("nothing") } else { Ok(()) }
    }
}
