//! The routes of the page and of `useChat`, for conversations whose runs are on the engine.

use std::{
    collections::HashMap,
    future::Future,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};

use axum::{
    Extension, Json, Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, Path, Query, State},
    http::{HeaderMap, StatusCode, header},
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures_util::{StreamExt as _, stream};
use harness::{
    Agent, Error, Message,
    agent::{Event, LiveEvents, LiveWatcher, Numbered, OpenCall, Steps},
    journal::{Awaited, Envelope, Fact},
    models::Price,
    web::{ClientAnswer, ClientDecision, ClientInput, ui_message},
};
use harness_restate::{Client, ClientError, Conversation, Conversations, listen};
use restate_sdk::prelude::{Endpoint, HttpServer};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::access::{User, Users, check};

/// How many bytes the body of a request may have.
const LARGEST_BODY: usize = 4 << 20;

/// How often the engine is asked for the facts of a conversation that somebody watches. Runs of this process are seen at
/// once; these are the runs of other workers.
const OFTEN: Duration = Duration::from_millis(250);

/// A stream without events says after so many of these times that it is there.
const KEEP_ALIVE: u32 = 60;

/// Where everything is.
pub(crate) struct Addresses {
    /// Where browsers reach this program.
    pub(crate) pages: SocketAddr,
    /// Where the engine reaches this program.
    pub(crate) worker: SocketAddr,
    /// Where the engine takes requests.
    pub(crate) ingress: String,
    /// Where the engine answers operators: it alone can list conversations.
    pub(crate) admin: String,
}

/// Serves the page, and is a worker of the engine. `each_run` is that of [`Conversations::each_run`].
pub(crate) async fn serve(
    agent: Agent,
    price: Option<Price>,
    users: Users,
    at: Addresses,
    each_run: impl Fn(&str, &str, Steps) -> Steps + Send + Sync + 'static,
) -> Result<(), Box<dyn std::error::Error>> {
    let (client, watched) = (Client::new(&at.ingress)?, Arc::default());
    let query = format!("{}/query", at.admin.trim_end_matches('/'));
    let service = Service { client, query, http: reqwest::Client::new(), price, watched };
    let here = service.clone();
    let worker = Conversations::new(agent, &at.ingress)?.each_run(move |name, kind, steps| {
        let watched = here.watched(name);
        // As a value of the run, it is there as long as the run is in this process.
        each_run(name, kind, steps.report_to(&watched.live).state(watched))
    });
    let worker =
        HttpServer::new(Endpoint::builder().bind(worker).build()).serve(listen(at.worker)?);
    let pages = axum::serve(listen(at.pages)?, app(service, users)).into_future();
    tokio::select! {
        () = worker => Err(io::Error::other("the worker has ended").into()),
        served = pages => Ok(served?),
    }
}

#[derive(Clone)]
struct Service {
    client: Client,
    query: String,
    http: reqwest::Client,
    price: Option<Price>,
    /// The conversations that run in this process, or that somebody watches here.
    watched: Arc<Mutex<HashMap<String, Weak<Watched>>>>,
}

/// A conversation that runs in this process, or that somebody watches here.
#[derive(Default)]
struct Watched {
    live: Arc<LiveEvents>,
    read: tokio::sync::Mutex<ReadFacts>,
}

/// What was read from the engine.
#[derive(Default)]
struct ReadFacts {
    next: u32,
    count: usize,
    at: Option<Instant>,
    busy: bool,
}

impl Watched {
    /// Reads the new facts, unless that was done within `age`. Returns whether a run goes on.
    async fn read(&self, chat: &Conversation, age: Duration) -> Result<bool, Failed> {
        let mut read = self.read.lock().await;
        if read.at.is_none_or(|at| at.elapsed() >= age) {
            let new = chat.facts(read.next).await.map_err(of_engine)?;
            self.live.apply(read.count, &new.facts).map_err(failed)?;
            let count = read.count + new.facts.len();
            let (next, busy) = (new.next, new.run.is_some());
            *read = ReadFacts { next, count, at: Some(Instant::now()), busy };
        }
        Ok(read.busy)
    }
}

/// Somebody who watches a conversation.
struct Tab {
    chat: Conversation,
    watched: Arc<Watched>,
    watcher: LiveWatcher,
    /// Whether a run went on when this began.
    busy: bool,
}

impl Tab {
    /// The next event; `None` if nothing has happened for a while.
    async fn next(&mut self) -> Option<Numbered> {
        for _ in 0..KEEP_ALIVE {
            if let Ok(event) = timeout(OFTEN, self.watcher.next()).await {
                return Some(event);
            }
            // While the engine is not reached, nothing is new.
            let _ = self.watched.read(&self.chat, OFTEN).await;
        }
        None
    }
}

type Failed = (StatusCode, String);
type Answer = Result<Response, Failed>;
type Asked = Query<HashMap<String, String>>;

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

/// The page of `examples/service`.
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
    fn watched(&self, name: &str) -> Arc<Watched> {
        let mut all = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watched) = all.get(name).and_then(Weak::upgrade) {
            return watched;
        }
        all.retain(|_, watched| watched.strong_count() > 0);
        let watched = Arc::new(Watched::default());
        all.insert(name.to_owned(), Arc::downgrade(&watched));
        watched
    }

    /// Opens a conversation with all facts that the engine has.
    async fn open(&self, name: &str) -> Result<Tab, Failed> {
        let (chat, watched) = (self.client.conversation(name).map_err(failed)?, self.watched(name));
        let busy = watched.read(&chat, Duration::ZERO).await?;
        let watcher = watched.live.watch();
        Ok(Tab { chat, watched, watcher, busy })
    }

    fn ui(&self) -> ui_message::UiMessageStream {
        let stream = ui_message::UiMessageStream::new();
        self.price.map_or(stream.clone(), |price| stream.with_price(price))
    }
}

/// What `DefaultChatTransport` sends. The engine has stored it before this answers, so its run begins even if this process
/// ends now.
async fn say(service: State<Service>, user: Extension<User>, body: Bytes) -> Answer {
    let request = ui_message::decode_request(&body).map_err(failed)?;
    let mut tab = service.open(&user.conversation(&request.conversation)).await?;
    // The run of an answer may go on already; otherwise it is the next one.
    while !tab.watched.live.is_going() && tab.watcher.try_next().is_some() {}
    match request.input {
        ClientInput::Message(_) if tab.busy => {
            return Err((StatusCode::CONFLICT, "a run goes on: wait, or stop it".into()));
        }
        ClientInput::Message(message) => start(&tab.chat, message).await?,
        ClientInput::Answers(answers) if answers.is_empty() => resume(&tab.chat).await?,
        ClientInput::Answers(answers) => decide(&tab.chat, &answers, user.name()).await?,
        _ => return Err((StatusCode::BAD_REQUEST, "it says nothing".into())),
    }
    let mut encoder = service.ui();
    let encode = move |event: &Numbered| (encoder.encode(event), encoder.has_ended());
    Ok(events(String::new(), tab, encode))
}

async fn start(chat: &Conversation, message: Message) -> Result<(), Failed> {
    let key = message.id().to_owned();
    chat.start(message, &key).await.map(drop).map_err(of_engine)
}

/// Continues a run that was stopped or has failed.
async fn resume(chat: &Conversation) -> Result<(), Failed> {
    let chat = chat.clone();
    let mut resumed = tokio::spawn(async move { chat.resume().await });
    // What cannot be resumed is refused at once.
    match timeout(OFTEN, &mut resumed).await {
        Ok(Ok(ended)) => ended.map(drop).map_err(of_engine),
        Ok(Err(_)) => Err((StatusCode::INTERNAL_SERVER_ERROR, "it has failed".into())),
        Err(_) => Ok(()),
    }
}

/// Records the answers to calls that wait. An answer counts for the question that was shown, and once.
async fn decide(
    chat: &Conversation,
    answers: &[ClientAnswer],
    who: Option<&str>,
) -> Result<(), Failed> {
    let mut count = 0;
    for open in chat.open().await.map_err(of_engine)? {
        let id = id_of(&open);
        let Some(answer) = answers.iter().find(|answer| id == Some(answer.id.as_str())) else {
            continue;
        };
        let who = who.unwrap_or("the user");
        let sent = match (&answer.decision, open.question()) {
            (ClientDecision::Approve, Some(question)) => chat.decide(question.yes().by(who)).await,
            (ClientDecision::Deny { reason }, Some(question)) => {
                let reason = reason.as_deref().unwrap_or("The user does not allow the call.");
                chat.decide(question.no(reason).by(who)).await
            }
            (ClientDecision::Answer(value), None) => {
                chat.settle(open.answered(value.clone()).by(who)).await
            }
            _ => continue,
        };
        match sent {
            Ok(_) => count += 1,
            // Another tab has answered first.
            Err(ClientError::Refused(_)) => {}
            Err(error) => return Err(of_engine(error)),
        }
    }
    match count {
        0 => Err((StatusCode::CONFLICT, "no call waits for this answer".into())),
        _ => Ok(()),
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
    let mut tab = service.open(&user.conversation(&id)).await?;
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
    asked: Asked,
) -> Answer {
    let tab = service.open(&user.conversation(&id)).await?;
    let (follows, earlier) = (asked.contains_key("follow"), tab.watcher.earlier());
    if !follows {
        if !tab.busy {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
        let mut encoder = service.ui().with_beginning(&earlier);
        let encode = move |event: &Numbered| (encoder.encode(event), encoder.has_ended());
        return Ok(events(String::new(), tab, encode));
    }
    let new = service.ui();
    let history = json!({"messages": new.clone().messages(&earlier)});
    let begin = format!("data: {}\n\n", json!({"type": "data-history", "data": history}));
    let mut encoder = new.clone();
    let encode = move |event: &Numbered| {
        if matches!(event.event.as_event(), Event::RunStarted { .. }) {
            encoder = new.clone();
        }
        (encoder.encode(event), false)
    };
    Ok(events(begin, tab, encode))
}

async fn stop(service: State<Service>, user: Extension<User>, id: Path<String>) -> Answer {
    let tab = service.open(&user.conversation(&id)).await?;
    // A stop would count for the next run.
    if !tab.busy {
        return Ok(StatusCode::NOT_FOUND.into_response());
    }
    tab.chat.stop().await.map_err(of_engine)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The conversations, as an operator of the engine sees them.
async fn list(service: State<Service>, user: Extension<User>) -> Answer {
    let sql = "SELECT service_key, key, value_utf8 FROM state WHERE service_name = 'Conversations' \
               AND key IN ('facts 00000000', 'run') ORDER BY service_key LIMIT 2000";
    let request = service.http.post(&service.query).header("accept", "application/json");
    let answered = request.json(&json!({"query": sql})).send().await;
    let rows: Value = match answered {
        Ok(response) => response.json().await.unwrap_or_default(),
        Err(error) => return Err(of_engine(error.into())),
    };
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
    let list =
        all.into_iter().map(|(id, (title, busy))| json!({"id": id, "title": title, "busy": busy}));
    Ok(Json(json!({"conversations": list.collect::<Vec<_>>(), "next": null})).into_response())
}

fn title_of(facts: &str) -> String {
    let facts: Vec<Envelope> = serde_json::from_str(facts).unwrap_or_default();
    let said = facts.iter().find_map(|envelope| match envelope.fact() {
        Ok(Fact::UserSaid { message, .. }) => Some(message.text().chars().take(80).collect()),
        _ => None,
    });
    said.unwrap_or_default()
}

/// A response with a text and then what becomes of events, until one is the last.
fn events(
    begin: String,
    tab: Tab,
    encode: impl FnMut(&Numbered) -> (String, bool) + Send + 'static,
) -> Response {
    let more = stream::unfold((tab, encode, false), async |(mut tab, mut encode, ended)| {
        if ended {
            return None;
        }
        let event = tab.next().await;
        let (text, ended) = event.map_or((":\n\n".to_owned(), false), |event| encode(&event));
        Some((text, (tab, encode, ended)))
    });
    let texts = stream::iter([begin]).chain(more).map(Ok::<_, Error>);
    (ui_message::HEADERS, Body::from_stream(texts)).into_response()
}

/// An error of the library as a response.
fn failed(error: Error) -> Failed {
    (StatusCode::BAD_REQUEST, error.to_string())
}

/// An error of the engine as a response. What only the program should know stays here.
fn of_engine(error: ClientError) -> Failed {
    match error {
        ClientError::Refused(why) => (StatusCode::CONFLICT, why),
        ClientError::Failed { status: 413, message } => (StatusCode::PAYLOAD_TOO_LARGE, message),
        other => {
            eprintln!("{other}");
            (StatusCode::BAD_GATEWAY, "the engine did not answer".into())
        }
    }
}
