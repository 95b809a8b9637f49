//! A server for `useChat` and `HttpAgent` on loopback, with as little of its own as one can have.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use futures_util::{Stream, StreamExt as _};
use harness::{
    Agent, Provider,
    agent::{ChatRun, Chats, Inbox, Numbered},
    journal::MemoryJournal,
    policy::ApprovalRequest,
    tool::ToolList,
    web::{
        ClientInput, ClientRequest,
        ag_ui::{self, AgUiStream},
        resume_answered,
        ui_message::{self, UiMessageStream},
    },
};
use tokio::sync::Notify;

/// What serves, and what it serves.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) chats: Chats,
    pub(crate) inbox: Inbox,
    /// That somebody watches a run.
    pub(crate) watched: Arc<Notify>,
}

impl Server {
    /// Serves an agent whose calls wait for approvals.
    pub(crate) async fn start(provider: impl Provider + 'static, tools: impl ToolList) -> Self {
        let later = |question: ApprovalRequest| async move { question.later(None) };
        let agent = Agent::builder(provider).tools(tools).approver(later).build().unwrap();
        let journal = MemoryJournal::new();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (chats, inbox) = (Chats::new(&agent, &journal), agent.inbox(&journal));
        let server = Self { address, chats, inbox, watched: Arc::default() };
        let app = Router::new()
            .route("/api/chat", post(say))
            .route("/api/chat/{id}/stream", get(watch))
            .route("/ag-ui", post(run_agent))
            .with_state(server.clone());
        tokio::spawn(axum::serve(listener, app).into_future());
        server
    }

    pub(crate) fn api(&self) -> String {
        format!("http://{}/api/chat", self.address)
    }
}

async fn say(State(server): State<Server>, body: Bytes) -> Response {
    let request = match ui_message::decode_request(&body) {
        Ok(request) => request,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let mut encoder = UiMessageStream::new();
    match run(&server, request).await {
        Some(run) => {
            stream(ui_message::HEADERS, run, move |it| (encoder.encode(it), encoder.has_ended()))
        }
        None => (StatusCode::CONFLICT, "nothing waits for it").into_response(),
    }
}

async fn run_agent(State(server): State<Server>, body: Bytes) -> Response {
    let request = match ag_ui::decode_request(&body) {
        Ok(request) => request,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let mut encoder = AgUiStream::new(&request.conversation, request.run.clone().unwrap());
    match run(&server, request).await {
        Some(run) => {
            stream(ag_ui::HEADERS, run, move |it| (encoder.encode(it), encoder.has_ended()))
        }
        None => (StatusCode::CONFLICT, "nothing waits for it").into_response(),
    }
}

/// The run of what a client says. `None` if it has answered nothing.
async fn run(server: &Server, request: ClientRequest) -> Option<ChatRun> {
    let id = request.conversation;
    let run = match request.input {
        ClientInput::Message(message) => server.chats.send(id, message),
        ClientInput::Answers(answers) => {
            let run = server.chats.resume(&id);
            return resume_answered(run, &server.inbox, &id, &answers, None).await.ok();
        }
        _ => unreachable!("no other input yet"),
    };
    Some(run.await.unwrap())
}

async fn watch(State(server): State<Server>, Path(id): Path<String>, head: HeaderMap) -> Response {
    if !server.chats.is_busy(&id) {
        return StatusCode::NO_CONTENT.into_response();
    }
    server.watched.notify_one();
    let seen = head.get("last-event-id").map(|id| id.to_str().unwrap());
    let watcher = server.chats.watch(&id).await.unwrap();
    let earlier = watcher.earlier().await.unwrap();
    let encoder = seen.map_or_else(UiMessageStream::new, UiMessageStream::after);
    let mut encoder = encoder.with_beginning(&earlier);
    stream(ui_message::HEADERS, watcher, move |it| (encoder.encode(it), encoder.has_ended()))
}

/// A response with what becomes of events, until the end of a run.
fn stream<const N: usize>(
    headers: [(&'static str, &'static str); N],
    events: impl Stream<Item = Numbered> + Send + Unpin + 'static,
    encode: impl FnMut(&Numbered) -> (String, bool) + Send + 'static,
) -> Response {
    let state = (encode, events, false);
    let lines = futures_util::stream::unfold(state, async |(mut encode, mut events, ended)| {
        if ended {
            return None;
        }
        let (text, ended) = encode(&events.next().await?);
        Some((Ok::<_, std::convert::Infallible>(text), (encode, events, ended)))
    });
    (headers, Body::from_stream(lines)).into_response()
}
