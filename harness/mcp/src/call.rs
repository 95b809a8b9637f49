//! One call of a server's tool. The call is sent at most once and can be stopped. A call whose result is lost is in
//! doubt.

use std::sync::Arc;

use harness_schema::SchemaChecker;
use rmcp::{
    model::{CallToolRequest, CallToolRequestParams, ClientRequest, ServerResult},
    service::{PeerRequestOptions, ServiceError},
    transport::streamable_http_client::StreamableHttpError,
};
use serde_json::{Map, Value};

use super::{
    content,
    oauth::Authorization,
    pending_elicitations::PendingElicitations,
    server_connection::ServerConnection,
    session::ClientSession,
    stdout_filter::{LOST, UNREAD},
    tool_list::{self, failure_reason},
};
use harness_core::{
    message::ToolContent,
    tls,
    tool::{ToolContext, ToolError, ToolOutput},
};

/// The maximum number of times that a server may ask for input before it runs a call.
const ROUNDS: usize = 8;

/// A tool of a server, as the agent calls it.
#[derive(Debug)]
pub(super) struct RemoteTool {
    pub(super) connection: Arc<ServerConnection>,
    /// The server's own name for the tool.
    pub(super) name: String,
    /// A hash of the server's definition of the tool.
    pub(super) definition: String,
    /// Checks the structured content of results; `None` if the tool declares no schema for this content.
    pub(super) output: Option<Arc<SchemaChecker>>,
}

/// Returns `task` for a result without a type that announces a task in the form of version 2025-11-25. `None` for any
/// other result.
///
/// Source: <https://modelcontextprotocol.io/specification/2025-11-25/schema#createtaskresult>.
fn task_result_type(result: &Value) -> Option<String> {
    let has_words = ["content", "structuredContent"].iter().any(|name| result.get(name).is_some());
    let is_task = result.get("task").is_some_and(|task| task.get("taskId").is_some());
    (is_task && !has_words).then(|| "task".to_owned())
}

impl RemoteTool {
    pub(super) async fn call(
        &self,
        context: &ToolContext,
        arguments: Map<String, Value>,
    ) -> Result<ToolOutput, ToolError> {
        let connection = &self.connection;
        let unsent = |err| ToolError::new(format!("the call was not sent: {err}"));
        let running = connection.elicitation.enter_call();
        let session = connection.session().await.map_err(unsent)?;
        self.check(&session)?;
        let mut params = CallToolRequestParams::new(self.name.clone()).with_arguments(arguments);
        let mut rounds = 0;
        if let Some(answered) = context.answered()
            && let Some(wanted) = PendingElicitations::with_answer(
                &self.definition,
                &answered.token,
                &answered.answer,
            )?
        {
            rounds = wanted.rounds;
            wanted.restore_count(&running);
            (params.input_responses, params.request_state) =
                wanted.ask(&connection.elicitation, &running).await?;
        }
        // The call is sent again only if the server has asked for input, which means that the server has not run the
        // call.
        loop {
            let answer = self.send(&session, context, params.clone()).await?;
            connection.answered();
            let wanted = match answer {
                ServerResult::InputRequiredResult(wanted) => wanted,
                answer => return self.read(answer),
            };
            rounds += 1;
            let wanted = match rounds > ROUNDS {
                true => Err(format!("has asked {ROUNDS} times and asks again")),
                false => PendingElicitations::of(&self.definition, wanted, rounds),
            };
            let wanted = wanted.map_err(|why| {
                let server = &connection.name;
                ToolError::new(format!("the MCP server `{server}` {why}; it has not run the call"))
            })?;
            (params.input_responses, params.request_state) =
                wanted.ask(&connection.elicitation, &running).await?;
        }
    }

    /// Checks that the session still has the tool with the same definition, because a restarted server may have other
    /// tools.
    fn check(&self, session: &ClientSession) -> Result<(), ToolError> {
        let why = match session.describes(&self.name, &self.definition) {
            Some(true) => return Ok(()),
            Some(false) => "describes it differently than before",
            None => "does not have it any more",
        };
        let (tool, server) = (&self.name, &self.connection.name);
        Err(ToolError::new(format!(
            "the call of `{tool}` was not sent: the MCP server `{server}` {why}; the program has to load its tools again"
        )))
    }

    /// Sends the call once, and waits for the server's response.
    async fn send(
        &self,
        session: &ClientSession,
        context: &ToolContext,
        params: CallToolRequestParams,
    ) -> Result<ServerResult, ToolError> {
        if context.cancellation().is_cancelled() {
            return Err(ToolError::new("the call was stopped before it was sent"));
        }
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let mut waiting = session.begin_request();
        let sent =
            session.peer().send_request_with_option(request, PeerRequestOptions::no_options());
        let handle = sent.await.map_err(|_| {
            session.lose();
            let server = &self.connection.name;
            ToolError::new(format!("the call was not sent: the MCP server `{server}` is gone"))
        })?;
        waiting.sent(&handle.id);
        let watching = session.handler().reports.watch(&handle.progress_token, context.progress());
        let answer = tokio::select! {
            answer = handle.await_response() => answer,
            () = context.cancellation().cancelled() => {
                let server = &self.connection.name;
                return Err(ToolError::in_doubt(format!("the MCP server `{server}` was told to stop the call")));
            }
        };
        drop(watching);
        waiting.ended();
        match answer {
            Ok(answer) => Ok(answer),
            Err(err) => Err(self.lost(session, &err).await),
        }
    }

    /// The error of a call without a result. The call is in doubt, unless the server has reported an error or the call
    /// has certainly not run.
    async fn lost(&self, session: &ClientSession, err: &ServiceError) -> ToolError {
        let connection = &self.connection;
        let server = &connection.name;
        let words = connection.shown(&failure_reason(err));
        match err {
            // The server has answered, but the answer cannot be read.
            ServiceError::McpError(err) if err.code == UNREAD => connection.answered(),
            ServiceError::McpError(err) if err.code == LOST => {}
            // The server has answered with an error, so the call has failed.
            ServiceError::McpError(_) => {
                connection.answered();
                return ToolError::new(words);
            }
            ServiceError::TransportSend(sending) => match sending.error.downcast_ref() {
                Some(StreamableHttpError::<reqwest::Error>::Client(err)) if err.is_connect() => {
                    let why = format!(
                        "the call was not sent: the MCP server `{server}` cannot be reached: {words}"
                    );
                    return match tls::has_refused_certificate(err) {
                        true => ToolError::new(why),
                        false => ToolError::transient(why),
                    };
                }
                Some(StreamableHttpError::AuthRequired(_)) => {
                    return self.unauthorized(connection.authorization().is_some());
                }
                Some(StreamableHttpError::InsufficientScope(_)) => {
                    let may_help =
                        connection.authorization().is_some_and(Authorization::is_refused);
                    return self.unauthorized(may_help);
                }
                Some(StreamableHttpError::SessionExpired) => session.lose(),
                Some(_) => {}
                // A broken pipe cannot be used again.
                None => session.lose(),
            },
            _ => {}
        }
        let said = connection.last_output(session).await;
        let what = match err {
            ServiceError::McpError(err) if err.code == UNREAD => "has answered the call",
            _ => "has not answered the call",
        };
        let why = format!("the MCP server `{server}` {what}: {words}{said}");
        ToolError::in_doubt(why)
    }

    /// The error of a call that the server has refused (RFC 6750). `may_help` is true if the program will request a new
    /// token.
    fn unauthorized(&self, may_help: bool) -> ToolError {
        let server = &self.connection.name;
        let mut why = format!(
            "the MCP server `{server}` has refused the call: the program is not authorized to make it"
        );
        if may_help {
            why.push_str(
                ". By what the server says, the call did not run. It was sent once and is not sent again; the \
                 program is authorized anew before the next call, so the call may be made again",
            );
        }
        ToolError::new(why)
    }

    /// The output of an answered call. The call has run only if the result has the type `complete` or no type.
    fn read(&self, answer: ServerResult) -> Result<ToolOutput, ToolError> {
        let server = &self.connection.name;
        let is_of_a_call = matches!(
            answer,
            ServerResult::CallToolResult(_)
                | ServerResult::CreateTaskResult(_)
                | ServerResult::TaskAckResult(_)
                | ServerResult::EmptyResult(_)
                | ServerResult::CustomResult(_)
        );
        let mut value = serde_json::to_value(answer).unwrap_or_default();
        self.connection.known.hide(&mut value);
        if let Some(kind) = tool_list::unfinished(&value).or_else(|| task_result_type(&value)) {
            let shown = self.connection.shown(&kind);
            return Err(match kind.as_str() {
                "input_required" => ToolError::new(format!(
                    "the MCP server `{server}` wants something before it runs the call (`{shown}`), and does not say \
                     it in a way that this program can read; it has not run the call"
                )),
                "task" => ToolError::in_doubt(format!(
                    "the MCP server `{server}` has begun a task for the call, and this program does not wait for \
                     tasks: the call may still run"
                )),
                _ => ToolError::in_doubt(format!(
                    "the MCP server `{server}` has answered the call with a result of the type `{shown}`, which this \
                     program does not know"
                )),
            });
        }
        if !is_of_a_call {
            // The SDK has parsed the answer as the result of another request, so the other members of the answer are
            // lost. The call could also have failed.
            let said = self.connection.shown(&value.to_string());
            return Err(ToolError::in_doubt(format!(
                "the MCP server `{server}` has answered the call with the result of another request: `{said}`"
            )));
        }
        let known = ["content", "structuredContent", "isError", "resultType"];
        let is_result = value.as_object().is_some_and(|members| {
            members.is_empty() || known.iter().any(|name| members.contains_key(*name))
        });
        match is_result {
            true => content::output(&value, self.output.as_deref()),
            // The value is passed on, because the model may understand it.
            false => Ok(ToolContent::Json(value).into()),
        }
    }
}
