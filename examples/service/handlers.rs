//! The routes: conversations for `useChat`, for clients of AG-UI, and for the page.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
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
use futures_util::{FutureExt as _, Stream, StreamExt as _, stream};
use harness::{
    Error, ErrorKind,
    agent::{ChatRun, ChatWatcher, Chats, Event, Inbox, Numbered, WhenBusy},
    journal::{ConversationQuery, Journal, Metadata},
    models::Price,
    trace::{self, Happened},
    web::{ClientInput, ClientRequest, ag_ui, answer_waiting, ui_message},
};
use serde_json::{Value, json};
use tokio::{sync::Semaphore, time::timeout};

use crate::access::{User, Users, check};

/// How many bytes the body of a request may have.
const LARGEST_BODY: usize = 4 << 20;

/// How many runs may go on at once.
pub(crate) const MOST_RUNS: usize = 64;

/// A stream without events says this often that it is there, so that a connection that broke is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How large the file of traces may be for the page of a trace.
const LARGEST_TRACE: u64 = 64 << 20;

/// The conversations, and what the handlers need beside them.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) chats: Chats,
    pub(crate) inbox: Inbox,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) price: Option<Price>,
    pub(crate) runs: Arc<Semaphore>,
    /// The file with the traces of the runs.
    pub(crate) trace: Option<Arc<str>>,
}

type Failed = (StatusCode, String);
type Answer = Result<Response, Failed>;

pub(crate) fn app(service: Service, users: Users) -> Router {
    let api = Router::new()
        .route("/chats", get(list))
        .route("/chat", post(say))
        .route("/chat/{id}", get(messages))
        .route("/chat/{id}/stream", get(watch))
        .route("/chat/{id}/stop", post(stop))
        .route("/chat/{id}/trace", get(trace_page))
        .route("/ag-ui", post(run_agent))
        .route("/ag-ui/{id}", get(connect_agent))
        .layer(from_fn_with_state(users, check))
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .with_state(service);
    let page = Router::new()
        .route("/", get(async || file("page.html")))
        .route("/page/{name}", get(async |name: Path<String>| file(&name)));
    page.nest("/api", api)
}

/// The page and what it loads. Nothing comes from elsewhere, and no text of a model can add a script.
fn file(name: &str) -> Response {
    let (kind, text) = match name {
        "page.html" => ("text/html; charset=utf-8", include_str!("page/page.html")),
        "page.css" => ("text/css", include_str!("page/page.css")),
        "page.js" => ("text/javascript", include_str!("page/page.js")),
        "conversation.js" => ("text/javascript", include_str!("page/conversation.js")),
        "marked.esm.js" => ("text/javascript", include_str!("page/shipped/marked.esm.js")),
        "purify.es.mjs" => ("text/javascript", include_str!("page/shipped/purify.es.mjs")),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                  img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let head = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (head, text).into_response()
}

impl Service {
    /// Begins the run of what a client says, also if the client is gone meanwhile: between an answer and the run that it
    /// continues, nothing may end this.
    async fn begin(&self, user: &User, request: ClientRequest) -> Result<ChatRun, Failed> {
        let (service, user) = (self.clone(), user.clone());
        let begun = tokio::spawn(async move { service.run(&user, request).await }).await;
        begun.unwrap_or_else(|_| Err(wrong(StatusCode::INTERNAL_SERVER_ERROR, "it has failed")))
    }

    /// Begins the run of what a client says. A request without words and answers continues a run that was stopped or has failed.
    async fn run(&self, user: &User, request: ClientRequest) -> Result<ChatRun, Failed> {
        let id = user.conversation(&request.conversation);
        let permit = Arc::clone(&self.runs).try_acquire_owned();
        let permit =
            permit.map_err(|_| wrong(StatusCode::SERVICE_UNAVAILABLE, "too many runs go on"))?;
        let run = match request.input {
            ClientInput::Message(message) => {
                let title = message.text().chars().take(80).collect::<String>();
                let mut about = Metadata::new().title(title);
                about.owner = user.name().map(str::to_owned);
                let run = self.chats.send(&id, message).when_busy(WhenBusy::Refuse);
                match self.journal.read(&id, u64::MAX).await.map_err(failed)?.head.facts {
                    0 => run.describe(about),
                    _ => run,
                }
            }
            ClientInput::Answers(answers) => {
                let count = answer_waiting(&self.inbox, &id, &answers, user.name()).await;
                if count.map_err(failed)? == 0 && !answers.is_empty() {
                    return Err(wrong(StatusCode::CONFLICT, "no call waits for this answer"));
                }
                // Behind a run that goes on, which has perhaps not read the answer.
                self.chats.resume(&id)
            }
            _ => return Err(wrong(StatusCode::BAD_REQUEST, "it says nothing")),
        };
        // The run keeps the permit to its end.
        run.with(|run| run.state(permit)).await.map_err(failed)
    }

    /// Continues the runs that were going on when the process before this one ended, in the conversations that changed last.
    pub(crate) async fn continue_runs(self) -> Result<(), Error> {
        for info in self.journal.list(&ConversationQuery::new().limit(1000)).await?.conversations {
            let stands = match self.inbox.look(&info.id).await {
                Ok(stands) => stands,
                // The other conversations go on.
                Err(error) => {
                    eprintln!("`{}` cannot be read: {error}", info.id);
                    continue;
                }
            };
            let waits = stands.waiting().next().is_some();
            if info.metadata.parent.is_none() && stands.is_going() && !waits {
                let permit = Arc::clone(&self.runs).acquire_owned().await;
                // It fails if somebody else has continued it meanwhile, here or in another process.
                let run = self.chats.resume(&info.id).when_busy(WhenBusy::Refuse);
                let _ = run.with(|run| run.state(permit)).await;
            }
        }
        Ok(())
    }

    /// A watcher, and the runs before the one with which it begins.
    async fn open(&self, id: &str) -> Result<(ChatWatcher, Vec<Numbered>), Failed> {
        let watcher = self.chats.watch(id).await.map_err(failed)?;
        let earlier = watcher.earlier().await.map_err(failed)?;
        Ok((watcher, earlier))
    }

    /// An encoder that goes on after the chunk that a page has seen.
    fn ui(&self, seen: Option<&str>) -> ui_message::UiMessageStream {
        use ui_message::UiMessageStream as Stream;
        let stream = seen.map_or_else(Stream::new, Stream::after);
        self.price.map_or(stream.clone(), |price| stream.with_price(price))
    }

    fn ag_ui(&self, conversation: &str, run: &str) -> ag_ui::AgUiStream {
        let stream = ag_ui::AgUiStream::new(conversation, run);
        self.price.map_or(stream.clone(), |price| stream.with_price(price))
    }
}

type Asked = Query<HashMap<String, String>>;

async fn list(service: State<Service>, user: Extension<User>, asked: Asked) -> Answer {
    let mut query = ConversationQuery::new();
    query.owner = user.name().map(str::to_owned);
    query.after = asked.get("after").cloned();
    let page = service.journal.list(&query).await.map_err(failed)?;
    let own = page.conversations.iter().filter(|info| info.metadata.parent.is_none());
    let list = own.filter_map(|info| {
        let busy = service.chats.is_busy(&info.id);
        let (id, title) = (user.own_name(&info.id)?, &info.metadata.title);
        Some(json!({"id": id, "title": title, "updatedAt": info.updated_at, "busy": busy}))
    });
    let list: Vec<Value> = list.collect();
    Ok(Json(json!({"conversations": list, "next": page.next})).into_response())
}

/// What `DefaultChatTransport` sends.
async fn say(service: State<Service>, user: Extension<User>, body: Bytes) -> Answer {
    let request = ui_message::decode_request(&body).map_err(failed)?;
    let run = service.begin(&user, request).await?;
    let mut encoder = service.ui(None);
    let encode = move |event: &Numbered| (encoder.encode(event), encoder.has_ended());
    Ok(events(ui_message::HEADERS, String::new(), run, encode))
}

/// The messages for a page that is loaded again. Of a run that goes on they have what the user has said: the rest is its stream.
async fn messages(service: State<Service>, user: Extension<User>, id: Path<String>) -> Answer {
    let id = user.conversation(&id);
    let (mut watcher, mut events) = service.open(&id).await?;
    let busy = service.chats.is_busy(&id);
    while let Some(Some(event)) = watcher.next().now_or_never() {
        if !busy || matches!(event.event.as_event(), Event::RunStarted { .. }) {
            events.push(event);
        }
    }
    let messages = service.ui(None).messages(&events);
    Ok(Json(json!({"messages": messages, "busy": busy})).into_response())
}

/// The run that goes on, from its beginning or after `Last-Event-ID`, as `useChat` asks for it after a reload. With `follow`, the
/// stream begins with the messages so far and the last run, and goes on with each later one.
async fn watch(
    service: State<Service>,
    user: Extension<User>,
    id: Path<String>,
    asked: Asked,
    head: HeaderMap,
) -> Answer {
    let id = user.conversation(&id);
    let follows = asked.contains_key("follow");
    if !follows && !service.chats.is_busy(&id) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let (watcher, earlier) = service.open(&id).await?;
    if !follows {
        let seen = head.get("last-event-id").and_then(|id| id.to_str().ok());
        let mut encoder = service.ui(seen).with_beginning(&earlier);
        let encode = move |event: &Numbered| (encoder.encode(event), encoder.has_ended());
        return Ok(events(ui_message::HEADERS, String::new(), watcher, encode));
    }
    let new = service.ui(None);
    let messages = new.clone().messages(&earlier);
    let history = json!({"messages": messages, "trace": service.trace.is_some()});
    let begin = format!("data: {}\n\n", json!({"type": "data-history", "data": history}));
    let mut encoder = new.clone();
    let encode = move |event: &Numbered| {
        if matches!(event.event.as_event(), Event::RunStarted { .. }) {
            encoder = new.clone();
        }
        (encoder.encode(event), false)
    };
    Ok(events(ui_message::HEADERS, begin, watcher, encode))
}

async fn stop(service: State<Service>, user: Extension<User>, id: Path<String>) -> StatusCode {
    let stopped = service.chats.stop(user.conversation(&id));
    if stopped { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND }
}

/// What `HttpAgent` sends.
async fn run_agent(service: State<Service>, user: Extension<User>, body: Bytes) -> Answer {
    let request = ag_ui::decode_request(&body).map_err(failed)?;
    let run = request.run.clone().unwrap_or_default();
    let mut encoder = service.ag_ui(&request.conversation, &run);
    let run = service.begin(&user, request).await?;
    let encode = move |event: &Numbered| (encoder.encode(event), encoder.has_ended());
    Ok(events(ag_ui::HEADERS, String::new(), run, encode))
}

/// The conversation so far and its last run, for a client of AG-UI that begins anew.
async fn connect_agent(service: State<Service>, user: Extension<User>, id: Path<String>) -> Answer {
    let name = user.conversation(&id);
    let (mut watcher, earlier) = service.open(&name).await?;
    let mut encoder = service.ag_ui(&id, "last").with_history(&earlier);
    let busy = service.chats.is_busy(&name);
    let mut begin = String::new();
    while let Some(Some(event)) = watcher.next().now_or_never() {
        begin += &encoder.encode(&event);
    }
    if !busy || encoder.has_ended() {
        return Ok((ag_ui::HEADERS, begin).into_response());
    }
    let encode = move |event: &Numbered| (encoder.encode(event), encoder.has_ended());
    Ok(events(ag_ui::HEADERS, begin, watcher, encode))
}

/// The trace of the runs of a conversation, as a page.
async fn trace_page(service: State<Service>, user: Extension<User>, id: Path<String>) -> Answer {
    let none = || wrong(StatusCode::NOT_FOUND, "there is no trace: see `--trace`");
    let (file, id) = (service.trace.clone().ok_or_else(none)?, user.conversation(&id));
    let read = tokio::task::spawn_blocking(move || {
        let fits = std::fs::metadata(&*file).ok()?.len() <= LARGEST_TRACE;
        let mut events = trace::read(&fits.then(|| std::fs::read_to_string(&*file).ok())??).ok()?;
        let of_chat = events.iter().filter_map(|event| match &event.what {
            Happened::RunStarted { journaled, .. } => {
                (*journaled.as_ref()? == id).then_some(&event.run)
            }
            _ => None,
        });
        let runs: HashSet<String> = of_chat.cloned().collect();
        events.retain(|event| runs.contains(&event.run));
        Some(trace::page(&events))
    });
    let page = read.await.ok().flatten().ok_or_else(none)?;
    // The page has its own policy, by which only its viewer runs. Here it also has no origin.
    let policy = "sandbox allow-scripts";
    let kind = (header::CONTENT_TYPE, "text/html; charset=utf-8");
    Ok(([kind, (header::CONTENT_SECURITY_POLICY, policy)], page).into_response())
}

/// A response with a text and then what becomes of events. It ends with them, or when one is the last. A page that reads slowly
/// slows nobody down, and gets pieces of words joined.
fn events<const N: usize>(
    head: [(&'static str, &'static str); N],
    begin: String,
    events: impl Stream<Item = Numbered> + Send + Unpin + 'static,
    encode: impl FnMut(&Numbered) -> (String, bool) + Send + 'static,
) -> Response {
    let more = stream::unfold((events, encode, false), async |(mut events, mut encode, ended)| {
        if ended {
            return None;
        }
        let (text, ended) = match timeout(KEEP_ALIVE, events.next()).await {
            Ok(event) => encode(&event?),
            Err(_) => (":\n\n".to_owned(), false),
        };
        Some((text, (events, encode, ended)))
    });
    let texts = stream::iter([begin]).chain(more).map(Ok::<_, Error>);
    (head, Body::from_stream(texts)).into_response()
}

fn wrong(status: StatusCode, what: &str) -> Failed {
    (status, what.to_owned())
}

/// An error of the library as a response.
fn failed(error: Error) -> Failed {
    let status = match error.kind() {
        ErrorKind::Busy | ErrorKind::Conflict => StatusCode::CONFLICT,
        ErrorKind::Configuration | ErrorKind::Transcript => StatusCode::BAD_REQUEST,
        ErrorKind::Closed => StatusCode::SERVICE_UNAVAILABLE,
        // The cause may name what only the program should know.
        _ => return wrong(StatusCode::INTERNAL_SERVER_ERROR, "the service has a fault"),
    };
    (status, error.to_string())
}
