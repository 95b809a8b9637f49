//! Runs the calls of clients: each request runs its tool at most once.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolRequestParams, CallToolResponse, ProtocolVersion},
    service::RequestContext,
};
use serde_json::Value;

use super::{
    call_result::{answer, failed, stopped},
    progress::CallProgress,
    service_handler::ServiceState,
    sessions::ClientStreams,
    tool_questions::{QuestionReply, ToolQuestion},
};
use harness_core::{
    message::{CallOutcome, ToolCall},
    tool::{Answered, DispatchOutcome, GRACE, Tool, ToolContext},
};

/// The maximum number of questions that a tool may ask in one call.
const ROUNDS: usize = 8;

/// A parsed request for a call.
struct CallRequest {
    name: String,
    arguments: Value,
    context: RequestContext<RoleServer>,
}

impl<H> ServiceState<H> {
    pub(super) async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Ok(_place) = self.calls.try_acquire() else {
            return Ok(failed(format!(
                "the call did not run: {} calls run already, as many as this server runs at the same time; \
                 try again later",
                self.at_once
            )));
        };
        let CallToolRequestParams { name, arguments, input_responses, request_state, .. } = request;
        let Some(tool) = self.registry.get(&name) else {
            return Ok(failed(format!("there is no tool `{name}`")));
        };
        let arguments = Value::Object(arguments.unwrap_or_default());
        let request = CallRequest { name: name.into_owned(), arguments, context };
        let (mut id, mut answered) = (None, None);
        if let Some(state) = &request_state {
            let asked = self.seal.open(state, &request.name, &request.arguments)?;
            match asked.read_reply(input_responses.unwrap_or_default().remove(asked.key())) {
                QuestionReply::Answer(given) => answered = Some(given),
                QuestionReply::No(why) => return Ok(failed(why)),
                QuestionReply::Again(asked) => return self.require(&asked, &request),
            }
            id = Some(asked.call);
        }
        // Tools use this id as the idempotency key of the call. Different sessions use the same request ids, so this id
        // is random.
        let id = id.unwrap_or_else(|| format!("mcp_{:032x}", fastrand::u128(..)));
        for _ in 0..ROUNDS {
            let begins = AtomicBool::new(false);
            let run = self.run(tool, &id, &request, answered.take(), &begins);
            let Some(dispatched) = self.until_cancelled(&request.context, run).await else {
                let why =
                    "the call did not run: the client has cancelled it, or was away for too long";
                return Ok(match begins.into_inner() {
                    true => stopped(tool),
                    false => failed(why.to_owned()),
                });
            };
            let (question, form, token) = match dispatched {
                DispatchOutcome::Result(result) => return Ok(answer(tool, &result, self.result)),
                DispatchOutcome::Waits { question, form, token } => (question, form, token),
            };
            let asked = ToolQuestion { call: id.clone(), question, form, token };
            if !can_elicit(&request.context) {
                return Ok(failed(format!(
                    "the tool asks a question before it goes on, and the client says that nobody can answer it: {}",
                    asked.question
                )));
            }
            if is_new(&request.context) {
                return self.require(&asked, &request);
            }
            let answer = asked.ask(&request.context.peer, self.asking);
            match self.until_cancelled(&request.context, answer).await {
                None => {
                    let why = "the client has cancelled the call, or was away for too long, while its question waited \
                               for an answer; the call did not go on";
                    return Ok(failed(why.to_owned()));
                }
                Some(QuestionReply::Answer(given)) => answered = Some(given),
                Some(QuestionReply::No(why)) => return Ok(failed(why)),
                Some(QuestionReply::Again(asked)) => {
                    return Ok(failed(format!("the answer does not fit: {}", asked.question)));
                }
            }
        }
        Ok(failed(format!("the tool has asked {ROUNDS} times and asks again, so it was stopped")))
    }

    /// Ends the call with a question. The client answers the question in a second call.
    fn require(
        &self,
        asked: &ToolQuestion,
        request: &CallRequest,
    ) -> Result<CallToolResponse, ErrorData> {
        let state = self.seal.close(asked, &request.name, &request.arguments)?;
        match asked.required(state) {
            Ok(required) => Ok(required.into()),
            Err(why) => Ok(failed(why)),
        }
    }

    /// Runs the tool and passes on its progress. `begins` is set directly before the tool may run.
    async fn run(
        &self,
        tool: &Tool,
        id: &str,
        request: &CallRequest,
        answered: Option<Answered>,
        begins: &AtomicBool,
    ) -> DispatchOutcome {
        let call = ToolCall::new(id, request.name.as_str(), request.arguments.to_string());
        if let Some(refused) = refused(tool, &call).await {
            return DispatchOutcome::Result(harness_core::message::ToolResult::new(
                id,
                CallOutcome::Denied,
                [refused.into()],
            ));
        }
        begins.store(true, Ordering::Relaxed);
        let mut context = ToolContext::new(id)
            .with_call(call.clone())
            .with_values(&self.values)
            .with_tools(&self.registry)
            .with_secrets(self.registry.secrets().clone())
            .with_cancellation(request.context.ct.clone())
            .with_answered(answered.map(Arc::new));
        let Some(token) = request.context.meta.get_progress_token() else {
            return self.registry.dispatch_call(&call, &context).await;
        };
        let (mut reports, take) = CallProgress::new(request.context.peer.clone(), token);
        context = context.with_watch(take);
        let dispatched = tokio::select! {
            biased;
            dispatched = self.registry.dispatch_call(&call, &context) => dispatched,
            never = reports.pass_on() => match never {},
        };
        reports.finish().await;
        dispatched
    }

    /// Waits for the future. `None` if the call was cancelled and the tool did not end within a short time. A call is
    /// also cancelled if its client stays disconnected, because the call would keep its slot.
    async fn until_cancelled<F: Future>(
        &self,
        context: &RequestContext<RoleServer>,
        run: F,
    ) -> Option<F::Output> {
        let lost = async {
            match context.extensions.get::<ClientStreams>() {
                Some(way) => way.lost(self.resuming).await,
                None => std::future::pending().await,
            }
        };
        let late = async {
            tokio::select! {
                () = context.ct.cancelled() => {}
                () = lost => context.ct.cancel(),
            }
            tokio::time::sleep(GRACE.saturating_add(Duration::from_millis(10))).await;
        };
        tokio::select! {
            biased;
            ended = run => Some(ended),
            () = late => None,
        }
    }
}

/// The reason why the tool's own review refuses the call; `None` if the review allows the call.
async fn refused(tool: &Tool, call: &ToolCall) -> Option<String> {
    let arguments = call.decoded().ok()?;
    // Only a call with valid arguments is reviewed.
    if !tool.has_review() || tool.check(&arguments.clone().into_map()).is_err() {
        return None;
    }
    let refuses = tool.review_off_loop(&arguments).await?.refuses?;
    Some(format!("the call did not run: {refuses}"))
}

/// Whether the client can show a form to a person.
fn can_elicit(context: &RequestContext<RoleServer>) -> bool {
    let able = context.client_capabilities().and_then(|able| able.elicitation);
    // An empty capability means forms, because earlier versions had no other mode.
    able.is_some_and(|able| able.form.is_some() || able.url.is_none())
}

/// Whether the client answers questions in a second call. Other clients answer in their session.
pub(super) fn is_new(context: &RequestContext<RoleServer>) -> bool {
    let new = ProtocolVersion::V_2026_07_28;
    context.protocol_version().is_some_and(|version| version.as_str() >= new.as_str())
}
