//! What a running tool is given by the program that hosts it.

use std::{
    any::Any,
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    Place, Places, Review, Reviewed, State, ToolError, asking::Asking, cap::cut, places::Seat,
    spill::Spills, state::Values, threads::CallIdentity,
};
use crate::{
    message::ToolCall,
    secret::Secrets,
    unwind::{caught, dropped},
};

/// What a running tool is given: which call it serves, when it must stop, where to report, and
/// the program's shared values. A clone is cheap and belongs to the same call.
///
/// Two values are there without the program: what is left of the run's limits, as
/// `State<`[`Budget`](crate::policy::Budget)`>`, and what was said up to the call, as
/// `State<`[`Transcript`](crate::Transcript)`>`. The transcript is given only to a tool that takes it as a
/// parameter, or says by [`Tool::needs_state`](super::Tool::needs_state) that it asks for it. It ends with the answer that
/// asks for the call, so calls of such a tool do not start before that answer is complete.
///
/// ```
/// use harness::{
///     Agent, State, ToolContext, Transcript,
///     policy::Budget,
///     testing::{ScriptedProvider, reply},
///     tool, tools,
/// };
/// use serde_json::json;
///
/// /// Says what it knows.
/// #[tool(side_effects = "none")]
/// fn know(context: &ToolContext, budget: State<Budget>, transcript: State<Transcript>) -> String {
///     let calls = budget.left().tool_calls;
///     format!("{}, {calls:?} calls left, {} messages", context.name(), transcript.messages().len())
/// }
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let model = ScriptedProvider::answering(|request| match request.results().next() {
///     Some(result) => reply().text(result.to_text()),
///     None => reply().call("know", json!({})),
/// });
/// let limits = harness::Limits::new().tool_calls(5);
/// let agent = Agent::builder(model).tools(tools![know]).build()?;
/// let told = agent.run("What do you know?").limits(limits).await?;
/// assert_eq!(told.text(), "know, Some(4) calls left, 2 messages");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ToolContext {
    call_id: Arc<str>,
    call: Option<Arc<ToolCall>>,
    idempotency_key: Arc<str>,
    output: Arc<Mutex<Telling>>,
    cancellation: CancellationToken,
    deadline: Option<Instant>,
    progress: Progress,
    reviewed: Option<Arc<Reviewed>>,
    identity: Option<Arc<CallIdentity>>,
    answered: Option<Arc<Answered>>,
    values: Values,
    /// The run that it is a call of, for the agents that the tool runs.
    host: Option<Arc<dyn Any + Send + Sync>>,
    /// Its place among the calls of its tool, if somebody has seen to that.
    seat: Option<Seat>,
    /// The places of which the call, or one that it is inside of, has one.
    inside_of: Vec<Places>,
    /// Which try of the call it is.
    attempt: u32,
    /// For how long agents of the call have waited for a person.
    asking: Asking,
    /// Where large results of its conversation are kept.
    spills: Option<Spills>,
}

impl ToolContext {
    /// A context for the call of this id, without deadline and shared values.
    pub fn new(call_id: impl Into<String>) -> Self {
        let call_id: Arc<str> = call_id.into().into();
        Self {
            idempotency_key: Arc::clone(&call_id),
            call_id,
            call: None,
            output: Arc::default(),
            cancellation: CancellationToken::new(),
            deadline: None,
            progress: Progress::default(),
            reviewed: None,
            identity: None,
            answered: None,
            values: Values::default(),
            host: None,
            seat: None,
            inside_of: Vec::new(),
            attempt: 1,
            asking: Asking::default(),
            spills: None,
        }
    }

    /// The same context for another call, with reports of its own.
    #[must_use]
    pub(crate) fn for_call(&self, call: &ToolCall) -> Self {
        let call_id: Arc<str> = call.id().into();
        Self {
            idempotency_key: Arc::clone(&call_id),
            call_id,
            call: Some(Arc::new(call.clone())),
            output: Arc::default(),
            reviewed: None,
            identity: None,
            answered: None,
            host: None,
            seat: None,
            inside_of: Vec::new(),
            attempt: 1,
            asking: Asking::default(),
            progress: Progress { log: Arc::default(), ..self.progress.clone() },
            ..self.clone()
        }
    }

    /// Adds a value that tools take as [`State<T>`]; there is one of each type.
    #[must_use]
    pub fn with<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.values.insert(Arc::new(value));
        self
    }

    /// Adds these values, each in place of another one of its type.
    pub(crate) fn with_values(mut self, values: &Values) -> Self {
        self.values.extend(values);
        self
    }

    pub(crate) fn values(&self) -> &Values {
        &self.values
    }

    /// Says which run it is a call of.
    pub(crate) fn with_host(mut self, host: Arc<dyn Any + Send + Sync>) -> Self {
        self.host = Some(host);
        self
    }

    /// Says where large results of its conversation are kept.
    pub(crate) fn with_spills(mut self, spills: Option<Spills>) -> Self {
        self.spills = spills;
        self
    }

    /// Where large results of its conversation are kept, if they are.
    pub(super) fn spills(&self) -> Option<&Spills> {
        self.spills.as_ref()
    }

    /// Says which try of the call it is.
    pub(crate) fn tried(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// Which try of the call it is, counted from 1.
    pub(crate) fn attempt(&self) -> u32 {
        self.attempt
    }

    /// For how long agents of the call have waited for a person: that counts in no limit of time.
    pub(crate) fn asking(&self) -> &Asking {
        &self.asking
    }

    /// The run that it is a call of, if that is known.
    pub(crate) fn host<H: Send + Sync + 'static>(&self) -> Option<Arc<H>> {
        Arc::clone(self.host.as_ref()?).downcast().ok()
    }

    /// Says that the call has this place, or needs none.
    pub(crate) fn seated(mut self, place: Option<&Place>) -> Self {
        self.seat = Some(Seat::of(place));
        self
    }

    /// Adds that the call, or one that it is inside of, has one of these places before its tool runs.
    pub(crate) fn inside_of<'p>(mut self, places: impl IntoIterator<Item = &'p Places>) -> Self {
        self.inside_of.extend(places.into_iter().cloned());
        self
    }

    /// The places of which the call, or one that it is inside of, has one.
    pub(crate) fn has_places(&self) -> &[Places] {
        &self.inside_of
    }

    /// The place that it has.
    pub(super) fn place(&self) -> Option<Place> {
        self.seat.as_ref()?.place()
    }

    /// Sets the key under which a service knows the call again when it is repeated.
    #[must_use]
    pub fn with_idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = key.into().into();
        self
    }

    /// Stops the tool when this token is cancelled.
    #[must_use]
    pub fn with_cancellation(mut self, token: CancellationToken) -> Self {
        self.cancellation = token;
        self
    }

    /// Sets when the tool is stopped.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Option<Instant>) -> Self {
        self.deadline = deadline;
        self
    }

    /// Says on which review a person decided about the call.
    #[must_use]
    pub fn with_review(self, review: Option<Review>) -> Self {
        self.with_reviewed(review.map(Reviewed::seen).map(Arc::new))
    }

    /// Says on which review the call was decided.
    #[must_use]
    pub(crate) fn with_reviewed(mut self, reviewed: Option<Arc<Reviewed>>) -> Self {
        self.reviewed = reviewed;
        self
    }

    /// Hands each report to `watch` as it comes.
    #[must_use]
    pub fn with_watch(mut self, watch: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.progress.watch = Some(Arc::new(watch));
        self
    }

    /// The id of the call that the tool serves.
    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// The call that the tool serves: its id, the tool's name and the arguments as the model wrote them.
    /// `None` in a context that was made by [`new`](Self::new) without a call.
    pub fn call(&self) -> Option<&ToolCall> {
        self.call.as_deref()
    }

    /// The name of the tool, as the model has called it; empty in a context that was made by
    /// [`new`](Self::new) without a call.
    pub fn name(&self) -> &str {
        self.call().map_or("", ToolCall::name)
    }

    /// Says which call it is that the tool serves, for a program that calls a tool itself.
    #[must_use]
    pub fn with_call(mut self, call: ToolCall) -> Self {
        self.call_id = call.id().into();
        self.idempotency_key = Arc::clone(&self.call_id);
        self.call = Some(Arc::new(call));
        self
    }

    /// A key that is the same for every try of this call, also after the program was started
    /// again, and different for every other call: for services that take one.
    pub fn idempotency_key(&self) -> &str {
        &self.idempotency_key
    }

    /// Sets what no report of the tool may say.
    pub(crate) fn with_secrets(mut self, secrets: Secrets) -> Self {
        self.progress.secrets = secrets;
        self
    }

    pub(super) fn secrets(&self) -> &Secrets {
        &self.progress.secrets
    }

    /// Says which call it is, and in which conversation.
    #[must_use]
    pub(crate) fn with_identity(mut self, identity: Option<CallIdentity>) -> Self {
        self.identity = identity.map(Arc::new);
        self
    }

    /// Gives the answer to what the tool has asked before.
    #[must_use]
    pub(crate) fn with_answered(mut self, answered: Option<Arc<Answered>>) -> Self {
        self.answered = answered;
        self
    }

    /// The answer to what the tool has asked by [`ToolError::asks`], if it has.
    pub fn answered(&self) -> Option<&Answered> {
        self.answered.as_deref()
    }

    pub(crate) fn identity(&self) -> Option<&CallIdentity> {
        self.identity.as_deref()
    }

    /// Whether the call was decided on a review.
    pub(super) fn is_reviewed(&self) -> bool {
        self.reviewed.is_some()
    }

    /// Compares a review that was made just now, such as of the file that the tool has opened, with
    /// the one on which the call was decided. Where nobody decided, since the program calls the tool
    /// itself, nothing is compared.
    ///
    /// # Errors
    /// Fails if the call must not run: the new review refuses it, asks for another reason than the
    /// old one, or shows something else than what a person was shown.
    pub fn recheck(&self, now: &Review) -> Result<(), ToolError> {
        let differs = self.reviewed.as_ref().and_then(|then| then.differs(now));
        match differs {
            None => Ok(()),
            Some(why) => Err(ToolError::new(format!("the call did not run: {why}"))),
        }
    }

    /// Says how to learn what the tool has put out so far, for the case that the call is stopped:
    /// the model is then told of it. A call that runs to its end hands over its result as usual.
    pub fn on_stop(&self, output_so_far: impl Fn() -> String + Send + Sync + 'static) {
        let telling = Telling(Some(Arc::new(output_so_far)));
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *output, telling);
        // What it replaces is the program's own code, and is dropped without the lock.
        drop(output);
        drop(before);
    }

    /// What the tool has put out so far, if it has said how to learn that. If finding it out
    /// panics, that is what is told.
    pub fn output_so_far(&self) -> Option<String> {
        // The tool's code runs without the lock, since it may use this context itself.
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let text = caught(|| output.0.as_ref().map(|so_far| so_far())).transpose()?;
        let text = text.unwrap_or_else(|panicked| format!("(finding it out {panicked})"));
        Some(text).filter(|text| !text.is_empty())
    }

    /// Cancelled when the tool is to stop.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }

    /// When the tool is stopped, if there is a limit.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// How long the tool may still run, if there is a limit.
    pub fn time_left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Where to say how far the tool has come.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// What was reported so far, in order: the last 1,000 reports.
    pub fn progress_log(&self) -> Vec<String> {
        let log = self.progress.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.iter().cloned().collect()
    }

    /// The program's shared value of this type, if there is one.
    pub fn state<T: Send + Sync + 'static>(&self) -> Option<State<T>> {
        self.values.get()
    }
}

/// The answer to what a tool has asked by [`ToolError::asks`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Answered {
    /// What the tool wanted back.
    pub token: Value,
    /// The answer.
    pub answer: Value,
}

impl Answered {
    pub(crate) fn new(token: Value, answer: Value) -> Self {
        Self { token, answer }
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("call_id", &self.call_id)
            .field("cancelled", &self.cancellation.is_cancelled())
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// How to learn what a tool has put out so far, which may panic also when it is dropped.
#[derive(Clone, Default)]
struct Telling(Option<Arc<OutputSoFar>>);

impl Drop for Telling {
    fn drop(&mut self) {
        dropped(self.0.take());
    }
}

/// Tells what a tool has put out so far.
type OutputSoFar = dyn Fn() -> String + Send + Sync;

/// Reads each report as it comes.
type Watch = dyn Fn(&str) + Send + Sync;

/// Bytes of one report, at most.
const LONGEST_REPORT: usize = 4 * 1024;

/// How many reports of a call are kept.
const KEPT_REPORTS: usize = 1_000;

/// Where a tool says how far it has come.
#[derive(Clone, Default)]
pub struct Progress {
    log: Arc<Mutex<VecDeque<String>>>,
    watch: Option<Arc<Watch>>,
    secrets: Secrets,
}

impl Progress {
    /// Says how far it has come, in words for a person. Report as often as you like: who watches
    /// hears of each call at most ten times a second, and always of its last report.
    pub fn report(&self, message: impl Into<String>) {
        let message = message.into();
        // In this order: half a secret would not be known as one.
        let message = self.secrets.hide(&message);
        let message = match message.len() > LONGEST_REPORT {
            true => cut(&message, LONGEST_REPORT, ""),
            false => message.into_owned(),
        };
        if let Some(watch) = &self.watch {
            watch(&message);
        }
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.len() == KEPT_REPORTS {
            log.pop_front();
        }
        log.push_back(message);
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").finish_non_exhaustive()
    }
}
