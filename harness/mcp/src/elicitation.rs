//! Passes questions of a server to a person: one at a time, only while a call runs, and only a limited number for each
//! call.

use std::{collections::BTreeMap, fmt, pin::Pin, sync::Arc};

use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Map, Value};
use tokio::sync::{Mutex, watch};

use harness_core::unwind::Shielded;

/// The maximum number of questions to a person for one call.
pub(super) const QUESTIONS: usize = 8;

/// A form that a server asks a person to fill in: see [`on_elicitation`](super::McpServerBuilder::on_elicitation).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct McpElicitation {
    /// The name that the program gave to the server.
    pub server: String,
    /// The server's text for the person.
    pub message: String,
    /// JSON Schema of the values to fill in: an object whose properties are strings, numbers, booleans and choices.
    pub schema: Value,
}

/// The answer of a person to a [`McpElicitation`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum McpElicitationAnswer {
    /// The values of the filled-in form.
    Accept(Map<String, Value>),
    /// The person does not give the values.
    Decline,
    /// The person closed the form without an answer.
    Cancel,
    /// The answer will be given later, perhaps in another process. If the server has ended the call with the question
    /// (`input_required`), the call waits, and the run ends as `Outcome::Waiting`. Give the answer with
    /// `OpenCall::answered`: the object that the form describes, or `null` to decline. If the server waits for the
    /// answer while the call runs, the question is cancelled.
    Later,
}

/// The outcome of a question to a person.
pub(super) enum ElicitationOutcome {
    Now(ElicitResult),
    /// The answer to this form will be given later.
    Later(McpElicitation),
}

/// The function of the program that asks a person.
pub(super) type OnElicitation = dyn Fn(McpElicitation) -> Pin<Box<dyn Future<Output = McpElicitationAnswer> + Send>>
    + Send
    + Sync;

/// Passes a server's questions to the program's function, if there is one.
#[derive(Clone)]
pub(super) struct ElicitationHandler {
    server: String,
    on_elicitation: Option<Arc<OnElicitation>>,
    asked: Arc<ElicitationState>,
}

struct ElicitationState {
    /// Locked while a person is asked.
    turn: Mutex<()>,
    calls: watch::Sender<ElicitationCounts>,
}

/// The running calls of one server, each with the number of its questions so far.
#[derive(Default)]
struct ElicitationCounts {
    running: BTreeMap<u64, usize>,
    begun: u64,
}

impl ElicitationCounts {
    /// Counts a question for this call. If `call` is `None`, counts the question for the running call with the fewest
    /// questions. Returns whether the server may ask the question.
    fn count(&mut self, call: Option<u64>) -> bool {
        let asked = match call {
            Some(call) => self.running.get_mut(&call),
            None => self.running.values_mut().min(),
        };
        let Some(asked) = asked.filter(|asked| **asked < QUESTIONS) else { return false };
        *asked += 1;
        true
    }
}

impl fmt::Debug for ElicitationHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ElicitationHandler")
            .field("is_available", &self.is_available())
            .finish_non_exhaustive()
    }
}

impl ElicitationHandler {
    pub(super) fn new(server: &str, on_elicitation: Option<Arc<OnElicitation>>) -> Self {
        let asked = ElicitationState { turn: Mutex::default(), calls: watch::Sender::default() };
        Self { server: server.to_owned(), on_elicitation, asked: Arc::new(asked) }
    }

    /// Whether the program has a function for questions.
    pub(super) fn is_available(&self) -> bool {
        self.on_elicitation.is_some()
    }

    /// Registers a running call. The server may ask questions until the returned value is dropped.
    pub(super) fn enter_call(&self) -> ElicitingCall {
        let mut call = 0;
        self.asked.calls.send_modify(|calls| {
            call = calls.begun;
            calls.begun += 1;
            calls.running.insert(call, 0);
        });
        ElicitingCall { asked: Arc::clone(&self.asked), call }
    }

    /// Answers a question while its call continues. If the person chooses to answer later, the question is cancelled.
    pub(super) async fn answer(&self, request: ElicitRequestParams) -> ElicitResult {
        match self.ask(request, None).await {
            ElicitationOutcome::Now(answer) => answer,
            ElicitationOutcome::Later(_) => ElicitResult::new(ElicitationAction::Cancel),
        }
    }

    /// Asks the person a question. `running` is the call for which the server asks; `None` if unknown. The result is a
    /// refusal if no person can be asked, or if the call already had the maximum number of questions. The result is a
    /// cancellation if all calls have ended meanwhile, or if the program's function panics.
    pub(super) async fn ask(
        &self,
        request: ElicitRequestParams,
        running: Option<&ElicitingCall>,
    ) -> ElicitationOutcome {
        let declined = ElicitResult::new(ElicitationAction::Decline);
        let (
            Some(hook),
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. },
        ) = (&self.on_elicitation, request)
        else {
            return ElicitationOutcome::Now(declined);
        };
        let Ok(schema) = serde_json::to_value(&requested_schema) else {
            return ElicitationOutcome::Now(declined);
        };
        let mut calls = self.asked.calls.subscribe();
        let may = self
            .asked
            .calls
            .send_if_modified(|calls| calls.count(running.map(|running| running.call)));
        if !may {
            return ElicitationOutcome::Now(declined);
        }
        let form = McpElicitation { server: self.server.clone(), message, schema };
        let shown = form.clone();
        let asking = async {
            let _turn = self.asked.turn.lock().await;
            Shielded::new(async move { hook(shown).await }).await
        };
        let answer = tokio::select! {
            answer = asking => answer,
            // `wait_for` fails only without a sender, and this value holds the sender.
            _ = calls.wait_for(|calls| calls.running.is_empty()) => Ok(McpElicitationAnswer::Cancel),
        };
        ElicitationOutcome::Now(match answer {
            Ok(McpElicitationAnswer::Accept(filled)) => accepted(filled),
            Ok(McpElicitationAnswer::Decline) => declined,
            Ok(McpElicitationAnswer::Later) => return ElicitationOutcome::Later(form),
            Ok(McpElicitationAnswer::Cancel) | Err(_) => {
                ElicitResult::new(ElicitationAction::Cancel)
            }
        })
    }
}

/// The response to the server for a filled-in form.
pub(super) fn accepted(filled: Map<String, Value>) -> ElicitResult {
    ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(filled))
}

/// A running call. The server may ask questions for the call until this value is dropped.
pub(super) struct ElicitingCall {
    asked: Arc<ElicitationState>,
    call: u64,
}

impl ElicitingCall {
    /// The number of questions asked for the call.
    pub(super) fn questions(&self) -> usize {
        self.asked.calls.borrow().running.get(&self.call).copied().unwrap_or_default()
    }

    /// Sets the number of questions that were asked for the call before it was continued.
    pub(super) fn set_questions(&self, questions: usize) {
        self.asked.calls.send_modify(|calls| {
            calls.running.insert(self.call, questions);
        });
    }
}

impl Drop for ElicitingCall {
    fn drop(&mut self) {
        self.asked.calls.send_modify(|calls| {
            calls.running.remove(&self.call);
        });
    }
}
