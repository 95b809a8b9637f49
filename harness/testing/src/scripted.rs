//! A provider that follows a script and records its requests.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::{StreamExt as _, stream};

use super::{
    ScriptedReply, outline,
    reply::{ReplyAction, ReplyContext},
};
use harness_core::{
    context::is_asked,
    error::{Error, ErrorKind},
    message::{Block, Message, Messages, ToolResult},
    provider::{EventStream, Provider, Request, Settings, StreamEvent},
    tool::ToolSchema,
};

/// A provider that follows a script, with one reply per request, and records every request.
///
/// Clones share the script and the records, so a test can keep one clone and give another to the agent. The first
/// stream to be polled gets the first reply.
///
/// The provider does not retry; wrap it in a [`RetryProvider`](harness_core::policy::RetryProvider) for retries. The
/// agent's guardrails apply as for any model: if a script repeats a call, the run stops at the third equal result. If
/// the results differ, the run stops at the tenth call. Vary the arguments, or give the agent
/// [`Guardrails`](harness_core::policy::Guardrails) with `repetitions(None)` and `repeated_calls(None)`.
///
/// ```
/// use harness::testing::{ScriptedProvider, reply, reply_to};
/// use serde_json::json;
///
/// let model = ScriptedProvider::new([
///     reply().overloaded(),
///     reply().text("Let me see. ").call("weather", json!({"city": "Oslo"})),
///     reply_to(|request| {
///         let weather = request.results().map(|result| result.to_text()).collect::<String>();
///         reply().text(format!("In Oslo: {weather}"))
///     }),
/// ]);
/// // agent(model.clone()).run("Oslo?").await ..
/// assert_eq!(model.requests().len(), 0);
/// ```
#[derive(Clone)]
pub struct ScriptedProvider {
    name: String,
    model: String,
    play: Arc<Mutex<ScriptState>>,
}

type DecideReply = dyn Fn(&RecordedRequest) -> ScriptedReply + Send + Sync;

#[derive(Default)]
struct ScriptState {
    left: VecDeque<ScriptedReply>,
    /// The initial number of replies in the script.
    written: usize,
    /// Computes the reply if the script has no reply left.
    always: Option<Arc<DecideReply>>,
    asked: Vec<RecordedRequest>,
    /// The number of requests for which no reply was left.
    beyond: usize,
    calls: u64,
    open: usize,
}

impl ScriptedProvider {
    /// A provider with a script of replies, one for each request.
    pub fn new(replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        let left = VecDeque::from_iter(replies);
        Self::of(ScriptState { written: left.len(), left, ..ScriptState::default() })
    }

    /// A provider without a script. Each reply is computed from its request.
    ///
    /// ```
    /// use harness::testing::{ScriptedProvider, reply};
    ///
    /// let parrot = ScriptedProvider::answering(|request| reply().text(request.last_text()));
    /// # let _ = parrot;
    /// ```
    pub fn answering(
        decide: impl Fn(&RecordedRequest) -> ScriptedReply + Send + Sync + 'static,
    ) -> Self {
        Self::of(ScriptState { always: Some(Arc::new(decide)), ..ScriptState::default() })
    }

    fn of(play: ScriptState) -> Self {
        let play = Arc::new(Mutex::new(play));
        Self { name: "scripted".to_owned(), model: "scripted".to_owned(), play }
    }

    /// Sets the provider's name, for tests with several providers.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the name of the model.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.model = model.into();
        self
    }

    /// The requests received so far, in order.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.play().asked.clone()
    }

    /// The number of streams that have started and have neither ended nor been dropped.
    pub fn open_streams(&self) -> usize {
        self.play().open
    }

    /// Checks that there was exactly one request per reply of the script.
    ///
    /// # Panics
    /// Panics if there were more requests than replies, or if replies are unused; the message lists the unused replies.
    #[track_caller]
    #[expect(clippy::panic, reason = "an assertion fails by panicking")]
    pub fn assert_finished(&self) {
        if let Some(fault) = self.play().fault() {
            panic!("{fault}");
        }
    }

    fn play(&self) -> MutexGuard<'_, ScriptState> {
        self.play.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the request, and takes the reply from the script.
    fn begin(&self, request: Request<'_>) -> OpenReply {
        let request = RecordedRequest::of(request);
        let (reply, number) = {
            let mut play = self.play();
            play.asked.push(request.clone());
            let reply = play.take();
            if reply.is_err() {
                play.beyond += 1;
            }
            play.open += 1;
            (reply, play.asked.len())
        };
        // If this call is dropped after this line, dropping `speech` decrements `open`.
        let mut speech = OpenReply { acts: VecDeque::new(), play: Arc::clone(&self.play) };
        // The lock is not held here, because `decide` may use the provider itself.
        let reply = match reply {
            Ok(ScriptedTurn::Written(reply)) => reply,
            Ok(ScriptedTurn::Decided(decide)) => decide(&request),
            Err(err) => {
                speech.acts.push_back(ReplyAction::Fail(err));
                return speech;
            }
        };
        let mut cast = ReplyContext {
            request: &request,
            answer_id: format!("scripted_{number}"),
            model: &self.model,
            new_id: &mut || {
                let mut play = self.play();
                play.calls += 1;
                format!("call_{}", play.calls)
            },
        };
        speech.acts = reply.into_acts(&mut cast);
        speech
    }
}

impl Provider for ScriptedProvider {
    fn name(&self) -> &str {
        &self.name
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        let speech = async move { stream::unfold(self.begin(request), OpenReply::next) };
        Box::pin(stream::once(speech).flatten())
    }
}

impl fmt::Debug for ScriptedProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let play = self.play();
        f.debug_struct("ScriptedProvider")
            .field("name", &self.name)
            .field("model", &self.model)
            .field("asked", &play.asked.len())
            .field("left", &play.left)
            .finish_non_exhaustive()
    }
}

enum ScriptedTurn {
    Written(ScriptedReply),
    Decided(Arc<DecideReply>),
}

impl ScriptState {
    fn take(&mut self) -> Result<ScriptedTurn, Error> {
        if let Some(reply) = self.left.pop_front() {
            return Ok(ScriptedTurn::Written(reply));
        }
        if let Some(decide) = &self.always {
            return Ok(ScriptedTurn::Decided(Arc::clone(decide)));
        }
        let message = format!(
            "the script of the provider has {}, and this is request {}; add a reply, or find out \
             why it was asked again",
            counted(self.written),
            self.asked.len()
        );
        Err(Error::new(ErrorKind::Configuration, message))
    }

    fn fault(&self) -> Option<String> {
        if self.beyond > 0 {
            let asked = self.asked.len();
            let last = self.asked.last().map(|request| outline(request.messages()));
            return Some(format!(
                "the script of the provider has {}, but it was asked {asked} times. The last \
                 request:\n{}",
                counted(self.written),
                last.unwrap_or_default()
            ));
        }
        if self.left.is_empty() {
            return None;
        }
        let mut fault = format!(
            "the script of the provider has {}, but it was asked {} times. Never said:",
            counted(self.written),
            self.asked.len()
        );
        for (reply, number) in self.left.iter().zip(self.written - self.left.len() + 1..) {
            fault.push_str(&format!("\n  reply {number}: {reply:?}"));
        }
        Some(fault)
    }
}

fn counted(replies: usize) -> String {
    format!("{replies} {}", if replies == 1 { "reply" } else { "replies" })
}

/// A reply that is being streamed. It counts as an open stream until it is dropped.
struct OpenReply {
    acts: VecDeque<ReplyAction>,
    play: Arc<Mutex<ScriptState>>,
}

impl OpenReply {
    async fn next(mut self) -> Option<(Result<StreamEvent, Error>, Self)> {
        loop {
            match self.acts.pop_front()? {
                ReplyAction::Say(event) => return Some((Ok(event), self)),
                ReplyAction::Pause(time) => tokio::time::sleep(time).await,
                ReplyAction::Wait(gate) => gate.pass().await,
                ReplyAction::Stall => std::future::pending().await,
                // The stream ends after a failure.
                ReplyAction::Fail(err) => return Some((Err(err), self)),
            }
        }
    }
}

impl Drop for OpenReply {
    fn drop(&mut self) {
        self.play.lock().unwrap_or_else(PoisonError::into_inner).open -= 1;
    }
}

/// A request that a [`ScriptedProvider`] received.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedRequest {
    system: Option<String>,
    messages: Messages,
    tools: Vec<ToolSchema>,
    settings: Option<Settings>,
}

impl RecordedRequest {
    fn of(request: Request<'_>) -> Self {
        Self {
            system: request.system().map(str::to_owned),
            messages: request.messages().clone(),
            tools: request.tools().to_vec(),
            settings: request.settings().cloned(),
        }
    }

    /// The system prompt.
    pub fn system(&self) -> Option<&str> {
        self.system.as_deref()
    }

    /// The messages. [`outline`](super::outline()) formats them as one text that a test can compare.
    pub fn messages(&self) -> &Messages {
        &self.messages
    }

    /// The tools, in the order in which they are sent.
    pub fn tools(&self) -> &[ToolSchema] {
        &self.tools
    }

    /// The settings of this request.
    pub fn settings(&self) -> Option<&Settings> {
        self.settings.as_ref()
    }

    /// The names of the tools.
    pub fn tool_names(&self) -> Vec<&str> {
        self.tools.iter().map(|tool| tool.name.as_str()).collect()
    }

    /// The text of the last message, with one line per block: the text of the user, or the results of the tools.
    pub fn last_text(&self) -> String {
        let blocks = self.messages.last().map(Message::blocks).unwrap_or_default();
        let lines = blocks.iter().filter_map(|block| match block {
            Block::Text(text) => Some(text.text().to_owned()),
            Block::ToolResult(result) => Some(result.to_text()),
            Block::Document(media) => media.text().map(str::to_owned),
            Block::Image(_)
            | Block::Audio(_)
            | Block::ToolCall(_)
            | Block::Reasoning(_)
            | Block::Vendor(_) => None,
        });
        lines.collect::<Vec<String>>().join("\n")
    }

    /// Whether this request asks for a summary of the conversation. In later requests, the summary replaces the oldest
    /// messages: see [`context`](harness_core::context). Answer such a request with [`summary`](super::summary()).
    pub fn is_summary_request(&self) -> bool {
        self.messages.last().is_some_and(is_asked)
    }

    /// The results in the last message, in the order of the calls. A message of the user has no results.
    pub fn results(&self) -> impl Iterator<Item = &ToolResult> {
        self.messages.last().into_iter().flat_map(Message::results)
    }
}
