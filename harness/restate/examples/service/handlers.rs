//! The routes of the page and of `useChat`, for conversations whose runs are on the engine.

use std::{collections::HashMap, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Extension, Json, Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, Path, Query, State},
    http::{StatusCode, header},
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use harness::{
    Agent, Error,
    agent::{Event, Numbered, OpenCall, Steps},
    journal::{Awaited, Envelope, Fact},
    web::{ClientAnswer, ClientDecision, ClientInput, ui_message, ui_message::UiMessageStream},
};
use harness_restate::{Client, ClientError, Conversation, Conversations, listen};
use restate_sdk::prelude::{Endpoint, HttpServer};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    access::{User, Users, check},
    limits::{LARGEST_BODY, STREAMS},
    live::{LiveChats, Tab},
};

/// How long an answer takes to count, unless another one came first.
const SOON: Duration = Duration::from_secs(1);

/// Where everything is.
pub(crate) struct Addresses {
    /// Where browsers reach this program.
    pub(crate) pages: SocketAddr,
    /// Where the engine reaches this program.
    pub(crate) worker: SocketAddr,
    /// Where the engine takes requests.
    pub(crate) ingress: String,
    /// Where the engine answers operators, who alone can list conversations.
    pub(crate) admin: String,
}

#[derive(Clone)]
struct Service {
    chats: Arc<LiveChats>,
    admin: String,
    http: reqwest::Client,
}

/// Serves the page, and is a worker of the engine. `given` is what each run gets, as in [`Conversations::each_run`].
pub(crate) async fn serve(
    agent: Agent,
    users: Users,
    at: Addresses,
    given: impl Fn(&str, &str, Steps) -> Steps + Send + Sync + 'static,
) -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::new(&at.ingress)?;
    let chats = Arc::new(LiveChats { agent: agent.clone(), client, all: Default::default() });
    let here = Arc::clone(&chats);
    let worker = Conversations::new(agent, &at.ingress)?.each_run(move |name, kind, steps| {
        let chat = here.of(name);
        // A run keeps its values, so the conversation is there as long as it runs in this process.
        given(name, kind, steps.report_to(&chat.live).state(chat))
    });
    let worker = HttpServer::new(Endpoint::builder().bind(worker).build());
    let service = Service { chats, admin: at.admin, http: reqwest::Client::new() };
    let (pages, engine) = (listen(at.pages)?, listen(at.worker)?);
    println!("http://{}", pages.local_addr()?);
    tokio::select! {
        served = axum::serve(pages, app(service, users)) => Ok(served?),
        // It ends at Ctrl-C.
        () = worker.serve(engine) => Ok(()),
    }
}

pub(crate) type Failed = (StatusCode, String);
type Answer = Result<Response, Failed>;

fn app(service: Service, users: Users) -> Router {
    let api = Router::new()
        .route("/chats", get(list))
        .route("/chat", post(say))
        .route("/chat/{id}", get(messages))
        .route("/chat/{id}/stream", get(watch))
        .route("/chat/{id}/stop", post(stop))
        .layer(from_fn_with_state(users, check))
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .with_state(service);
    let page = Router::new()
        .route("/", get(async || file("page.html")))
        .route("/page/{name}", get(async |name: Path<String>| file(&name)));
    page.nest("/api", api)
}

/// The page of the service without the engine.
fn file(name: &str) -> Response {
    macro_rules! page {
        ($name:literal) => {
            include_str!(concat!("../../../../examples/service/page/", $name))
        };
    }
    let (kind, text) = match name {
        "page.html" => ("text/html; charset=utf-8", page!("page.html")),
        "page.css" => ("text/css", page!("page.css")),
        "page.js" => ("text/javascript", page!("page.js")),
        "conversation.js" => ("text/javascript", page!("conversation.js")),
        "marked.esm.js" => ("text/javascript", page!("shipped/marked.esm.js")),
        "purify.es.mjs" => ("text/javascript", page!("shipped/purify.es.mjs")),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                  img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let head = [(header::CONTENT_TYPE, kind), (header::CONTENT_SECURITY_POLICY, policy)];
    (head, [(header::X_CONTENT_TYPE_OPTIONS, "nosniff")], text).into_response()
}

impl Service {
    async fn open(&self, user: &User, id: &str) -> Result<Tab, Failed> {
        self.chats.open(&user.conversation(id)).await.map_err(failed)
    }

    fn ui(&self) -> UiMessageStream {
        UiMessageStream::new().with_cost()
    }
}

/// What `DefaultChatTransport` sends. The engine has it before this answers, so the run goes on even if this process ends now.
async fn say(service: State<Service>, user: Extension<User>, body: Bytes) -> Answer {
    let wrong = |error: Error| (StatusCode::BAD_REQUEST, error.to_string());
    let request = ui_message::decode_request(&body).map_err(wrong)?;
    let mut tab = service.open(&user, &request.conversation).await?;
    // The run of an answer may go on already. Otherwise the next run is the one of this request.
    tab.skip_ended();
    match request.input {
        ClientInput::Message(_) if tab.busy => {
            return Err((StatusCode::CONFLICT, "a run goes on: wait, or stop it".into()));
        }
        ClientInput::Message(message) => {
            let key = message.id().to_owned();
            tab.chat.start(message, &key).await.map_err(failed)?;
        }
        ClientInput::Answers(answers) if answers.is_empty() => {
            // It returns at the end of the run. What cannot be resumed begins no run.
            let chat = tab.chat.clone();
            tokio::spawn(async move { chat.resume().await });
        }
        ClientInput::Answers(answers) => decide(&tab.chat, &answers, user.name()).await?,
        _ => return Err((StatusCode::BAD_REQUEST, "it says nothing".into())),
    }
    run(tab, service.ui())
}

/// Records the answers to calls that wait. An answer counts for the question that was shown, and once.
async fn decide(
    chat: &Conversation,
    answers: &[ClientAnswer],
    who: Option<&str>,
) -> Result<(), Failed> {
    let (who, mut count) = (who.unwrap_or("the user"), 0);
    for open in chat.open().await.map_err(failed)? {
        let id = id_of(&open);
        let answer = answers.iter().find(|answer| id == Some(answer.id.as_str()));
        let sent = match (answer.map(|answer| &answer.decision), open.question()) {
            (Some(ClientDecision::Approve), Some(question)) => {
                chat.decide(question.yes().by(who)).boxed()
            }
            (Some(ClientDecision::Deny { reason }), Some(question)) => {
                let reason = reason.as_deref().unwrap_or("The user does not allow the call.");
                chat.decide(question.no(reason).by(who)).boxed()
            }
            (Some(ClientDecision::Answer(value)), None) => {
                chat.settle(open.answered(value.clone()).by(who)).boxed()
            }
            (Some(ClientDecision::Deny { .. }), None) => {
                chat.settle(open.answered(Value::Null).by(who)).boxed()
            }
            _ => continue,
        };
        match first(chat, id, sent).await {
            Ok(_) => count += 1,
            // Another tab has answered first.
            Err(ClientError::Refused(_)) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    let none = (StatusCode::CONFLICT, "this answer came too late: nothing waits for it any more".to_owned());
    if count > 0 { Ok(()) } else { Err(none) }
}

/// What becomes of an answer. The engine refuses it behind the run that another answer has continued, so where the call does not
/// wait any more, it is refused here.
async fn first(
    chat: &Conversation,
    id: Option<&str>,
    mut sent: BoxFuture<'_, Result<String, ClientError>>,
) -> Result<String, ClientError> {
    loop {
        if let Ok(counts) = timeout(SOON, &mut sent).await {
            return counts;
        }
        if !chat.open().await?.iter().any(|open| id_of(open) == id) {
            // This answer may be the one that counted.
            let late = Err(ClientError::Refused("another answer came first".into()));
            return timeout(SOON, sent).await.unwrap_or(late);
        }
    }
}

/// The id by which a page answers what a call waits for.
fn id_of(open: &OpenCall) -> Option<&str> {
    let wait = open.wait.as_ref()?;
    match &wait.awaited {
        Awaited::Approval { question, .. } => question.get("nonce")?.as_str(),
        Awaited::Answer { .. } => wait.nonce.as_deref(),
        _ => None,
    }
}

/// The messages for a page that is loaded again. Of a run that goes on they have what the user has said: the rest is its stream.
async fn messages(service: State<Service>, user: Extension<User>, id: Path<String>) -> Answer {
    let mut tab = service.open(&user, &id).await?;
    let mut events = tab.watcher.earlier();
    while let Some(event) = tab.watcher.try_next() {
        if !tab.busy || matches!(event.event.as_event(), Event::RunStarted { .. }) {
            events.push(event);
        }
    }
    let messages = service.ui().messages(&events);
    Ok(Json(json!({"messages": messages, "busy": tab.busy})).into_response())
}

/// The run that goes on, from its beginning. With `follow`, the messages so far, the last run and each later one.
async fn watch(
    service: State<Service>,
    user: Extension<User>,
    id: Path<String>,
    asked: Query<HashMap<String, String>>,
) -> Answer {
    let tab = service.open(&user, &id).await?;
    let (new, earlier) = (service.ui(), tab.watcher.earlier());
    if asked.contains_key("follow") {
        let place = STREAMS.take()?;
        let history = json!({"messages": new.clone().messages(&earlier)});
        let begin = format!("data: {}\n\n", json!({"type": "data-history", "data": history}));
        let mut encoder = new.of_all_runs();
        let more = tab.encoded(place, move |event| (encoder.encode(event), false));
        let texts = stream::once(async { begin }).chain(more).map(Ok::<_, Error>);
        return Ok((ui_message::HEADERS, Body::from_stream(texts)).into_response());
    }
    match tab.busy {
        true => run(tab, new.with_beginning(&earlier)),
        false => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}

/// The stream of one run.
fn run(tab: Tab, mut encoder: UiMessageStream) -> Answer {
    let place = STREAMS.take()?;
    let encode = move |event: &Numbered| (encoder.encode(event), encoder.has_ended());
    let texts = tab.encoded(place, encode).map(Ok::<_, Error>);
    Ok((ui_message::HEADERS, Body::from_stream(texts)).into_response())
}

async fn stop(service: State<Service>, user: Extension<User>, id: Path<String>) -> Answer {
    let tab = service.open(&user, &id).await?;
    if !tab.busy {
        // It would count for the next run.
        return Ok(StatusCode::NOT_FOUND.into_response());
    }
    tab.chat.stop().await.map_err(failed)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The conversations, as an operator of the engine sees them.
async fn list(service: State<Service>, user: Extension<User>) -> Answer {
    let sql = "SELECT service_key, key, value_utf8 FROM state WHERE service_name = 'Conversations' \
               AND key IN ('facts 00000000', 'run') ORDER BY service_key LIMIT 2000";
    let query = format!("{}/query", service.admin.trim_end_matches('/'));
    let query = service.http.post(query).header("accept", "application/json");
    let answered = query.json(&json!({"query": sql})).send().await;
    let answered = answered.map_err(|error| failed(error.into()))?;
    let rows: Value = answered.json().await.map_err(|error| failed(error.into()))?;
    let mut all: HashMap<&str, (String, bool)> = HashMap::new();
    for row in rows["rows"].as_array().into_iter().flatten() {
        let text = |name: &str| row[name].as_str().unwrap_or_default();
        let Some(id) = user.own_name(text("service_key")) else { continue };
        let (title, busy) = all.entry(id).or_default();
        match text("key") {
            "run" => *busy = text("value_utf8").contains("\"run\":\""),
            _ => *title = title_of(text("value_utf8")),
        }
    }
    let list = all.into_iter();
    let list = list.map(|(id, (title, busy))| json!({"id": id, "title": title, "busy": busy}));
    Ok(Json(json!({"conversations": list.collect::<Vec<_>>(), "next": null})).into_response())
}

/// What the user has said first.
fn title_of(facts: &str) -> String {
    let facts: Vec<Envelope> = serde_json::from_str(facts).unwrap_or_default();
    let said = facts.iter().find_map(|envelope| match envelope.fact() {
        Ok(Fact::UserSaid { message, .. }) => Some(message.text().chars().take(80).collect()),
        _ => None,
    });
    said.unwrap_or_default()
}

/// An error of the engine as a response.
fn failed(error: ClientError) -> Failed {
    match error {
        ClientError::Refused(_) => {
            (StatusCode::CONFLICT, "the conversation has changed meanwhile: load it again".into())
        }
        ClientError::Failed { status: 400, .. } => {
            (StatusCode::BAD_REQUEST, "the service does not take this".into())
        }
        error => {
            // The cause may name what only the program should know.
            eprintln!("{error}");
            (StatusCode::BAD_GATEWAY, "the engine did not answer".into())
        }
    }
}
