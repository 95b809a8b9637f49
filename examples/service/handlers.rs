//! The routes: conversations for `useChat`, for clients of AG-UI, and for the page.

use std::{sync::Arc, time::Duration};

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
    trace,
    web::{
        ClientInput, ClientRequest,
        ag_ui::{self, AgUiStream},
        answer_waiting,
        ui_message::{self, UiMessageStream},
    },
};
use serde::Deserialize;
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

type Answer = Result<Response, Failed>;

pub(crate) fn app(service: Service, users: Users) -> Router {
    let api = Router::new()
        .route("/chats", get(list))
        .route("/chat", post(say))
        .route("/chat/{id}", get(messages))
        .route("/chat/{id}/stream", get(watch))
        .route("/chat/{id}/stop", post(stop))
        .route("/chat/{id}/resume", post(resume))
        .route("/chat/{id}/trace", get(trace_page))
        .route("/ag-ui", post(run_agent))
        .route("/ag-ui/{id}", get(connect_agent))
        .layer(from_fn_with_state(users, check))
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .with_state(service);
    Router::new()
        .nest("/api", api)
        .route("/", get(async || page("page.html")))
        .route("/page/{name}", get(async |name: Path<String>| page(&name)))
}

/// The page and what it loads. Nothing comes from elsewhere, and no text of a model can add a script.
fn page(name: &str) -> Response {
    let (kind, text) = match name {
        "page.html" => ("text/html; charset=utf-8", include_str!("page/page.html")),
        "page.css" => ("text/css", include_str!("page/page.css")),
        "page.js" => ("text/javascript", include_str!("page/page.js")),
        "conversation.js" => ("text/javascript", include_str!("page/conversation.js")),
        "marked.esm.js" => ("text/javascript", include_str!("page/shipped/marked.esm.js")),
        "purify.es.mjs" => ("text/javascript", include_str!("page/shipped/purify.es.mjs")),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                  base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
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
    /// Begins the run of what a client says.
    async fn run(&self, user: &User, request: ClientRequest) -> Result<(String, ChatRun), Failed> {
        let id = user.conversation(&request.conversation);
        let run = match request.input {
            ClientInput::Message(message) => {
                let text = message.text();
                let run = self.chats.send(&id, message).when_busy(WhenBusy::Refuse);
                match self.journal.read(&id, u64::MAX).await?.head.facts {
                    0 => {
                        let title: String = text.chars().take(80).collect();
                        let about = Metadata::new().title(title);
                        run.describe(match user.name() {
                            Some(name) => about.owner(name),
                            None => about,
                        })
                    }
                    _ => run,
                }
            }
            ClientInput::Answers(answers) => {
                if answer_waiting(&self.inbox, &id, &answers, user.name()).await? == 0 {
                    return Err(Failed(
                        StatusCode::CONFLICT,
                        "no call waits for this answer".into(),
                    ));
                }
                // Behind a run that goes on, so that an answer that comes during it is not left.
                self.chats.resume(&id)
            }
            _ => return Err(Failed(StatusCode::BAD_REQUEST, "it says nothing".into())),
        };
        let permit = Arc::clone(&self.runs).try_acquire_owned().map_err(|_| {
            Failed(StatusCode::SERVICE_UNAVAILABLE, "too many runs go on: try again later".into())
        })?;
        // The run keeps it to its end.
        Ok((id, run.with(|run| run.state(permit)).await?))
    }

    /// An encoder that goes on after the chunk that a page has seen.
    fn ui(&self, seen: Option<&str>) -> UiMessageStream {
        let stream = seen.map_or_else(UiMessageStream::new, UiMessageStream::after);
        self.price.map_or(stream.clone(), |price| stream.with_price(price))
    }

    fn ag_ui(&self, conversation: &str, run: &str) -> AgUiStream {
        let stream = AgUiStream::new(conversation, run);
        self.price.map_or(stream.clone(), |price| stream.with_price(price))
    }

    /// A watcher, and the runs before the one with which it begins.
    async fn open(&self, id: &str) -> Result<(ChatWatcher, Vec<Numbered>), Failed> {
        let watcher = self.chats.watch(id).await?;
        let earlier = watcher.earlier().await?;
        Ok((watcher, earlier))
    }

    /// Continues the runs that were going on when the process before this one ended, those of the last day.
    pub(crate) async fn continue_runs(self) -> Result<(), Error> {
        let mut query = ConversationQuery::new();
        loop {
            let page = self.journal.list(&query).await?;
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            let day_ago =
                now.unwrap_or_default().saturating_sub(Duration::from_secs(86_400)).as_millis();
            for info in &page.conversations {
                if u128::from(info.updated_at) < day_ago {
                    return Ok(());
                }
                let stands = self.inbox.look(&info.id).await?;
                if info.metadata.parent.is_none()
                    && stands.is_going()
                    && stands.waiting().next().is_none()
                {
                    let permit = Arc::clone(&self.runs).acquire_owned().await;
                    // Somebody else may have continued it meanwhile, here or in another process.
                    let resume = self.chats.resume(&info.id).when_busy(WhenBusy::Refuse);
                    let _ = resume.with(|run| run.state(permit)).await;
                }
            }
            if page.next.is_none() {
                return Ok(());
            }
            query = query.after(&page);
        }
    }
}

#[derive(Deserialize)]
struct Listing {
    after: Option<String>,
}

async fn list(service: State<Service>, user: Extension<User>, page: Query<Listing>) -> Answer {
    let mut query = ConversationQuery::new();
    query.owner = user.name().map(str::to_owned);
    query.after.clone_from(&page.after);
    let page = service.journal.list(&query).await?;
    let own = page.conversations.iter().filter(|info| info.metadata.parent.is_none());
    let conversations: Vec<Value> = own
        .filter_map(|info| {
            Some(json!({
                "id": user.own_name(&info.id)?,
                "title": info.metadata.title,
                "updatedAt": info.updated_at,
                "busy": service.chats.is_busy(&info.id),
            }))
        })
        .collect();
    Ok(Json(json!({"conversations": conversations, "next": page.next})).into_response())
}

/// What `DefaultChatTransport` sends.
async fn say(
    service: State<Service>,
    user: Extension<User>,
    head: HeaderMap,
    body: Bytes,
) -> Answer {
    is_json(&head)?;
    let (_, run) = service.run(&user, ui_message::decode_request(&body)?).await?;
    let mut encoder = service.ui(None);
    let encode = move |event: &Numbered| (encoder.encode(event), encoder.has_ended());
    Ok(events(ui_message::HEADERS, run, encode))
}

/// The messages for a page that is loaded again. Of a run that goes on there is only what the user has said: the rest is its stream.
async fn messages(service: State<Service>, user: Extension<User>, id: Path<String>) -> Answer {
    let id = user.conversation(&id);
    let (mut watcher, mut events) = service.open(&id).await?;
    let goes_on = service.chats.is_busy(&id);
    while let Some(Some(event)) = watcher.next().now_or_never() {
        if !goes_on || matches!(event.event.as_event(), Event::RunStarted { .. }) {
            events.push(event);
        }
    }
    let messages = service.ui(None).messages(&events);
    Ok(Json(json!({"messages": messages, "busy": goes_on})).into_response())
}

#[derive(Deserialize)]
struct Watching {
    /// Whether the stream begins with the messages so far, and goes on with each later run.
    #[serde(default)]
    follow: bool,
}

/// The run that goes on, from its beginning or after `Last-Event-ID`, as `useChat` asks for it after a reload.
async fn watch(
    service: State<Service>,
    user: Extension<User>,
    id: Path<String>,
    how: Query<Watching>,
    head: HeaderMap,
) -> Answer {
    let id = user.conversation(&id);
    if how.follow {
        return follow(&service, &id).await;
    }
    if !service.chats.is_busy(&id) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let seen = head.get("last-event-id").and_then(|id| id.to_str().ok());
    let mut encoder = service.ui(seen);
    let encode = move |event: &Numbered| (encoder.encode(event), encoder.has_ended());
    Ok(events(ui_message::HEADERS, service.chats.watch(&id).await?, encode))
}

async fn follow(service: &Service, id: &str) -> Answer {
    let (watcher, earlier) = service.open(id).await?;
    let history = json!({
        "type": "data-history",
        "data": {"messages": service.ui(None).messages(&earlier), "trace": service.trace.is_some()},
    });
    let new = service.ui(None);
    let mut encoder = new.clone();
    let encode = move |event: &Numbered| {
        if matches!(event.event.as_event(), Event::RunStarted { .. }) {
            encoder = new.clone();
        }
        (encoder.encode(event), false)
    };
    Ok(events_after(format!("data: {history}\n\n"), ui_message::HEADERS, watcher, encode))
}

async fn stop(service: State<Service>, user: Extension<User>, id: Path<String>) -> StatusCode {
    match service.chats.stop(user.conversation(&id)) {
        true => StatusCode::NO_CONTENT,
        false => StatusCode::NOT_FOUND,
    }
}

/// Continues a run that was stopped, has failed or has reached a limit.
async fn resume(service: State<Service>, user: Extension<User>, id: Path<String>) -> Answer {
    let permit = Arc::clone(&service.runs).try_acquire_owned();
    let permit =
        permit.map_err(|_| Failed(StatusCode::SERVICE_UNAVAILABLE, "too many runs".into()))?;
    let run = service.chats.resume(user.conversation(&id)).when_busy(WhenBusy::Refuse);
    let _ = run.with(|run| run.state(permit)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// What `HttpAgent` sends.
async fn run_agent(
    service: State<Service>,
    user: Extension<User>,
    head: HeaderMap,
    body: Bytes,
) -> Answer {
    is_json(&head)?;
    let request = ag_ui::decode_request(&body)?;
    let name = request.run.clone().unwrap_or_default();
    let mut encoder = service.ag_ui(&request.conversation, &name);
    let (_, run) = service.run(&user, request).await?;
    let encode = move |event: &Numbered| (encoder.encode(event), encoder.has_ended());
    Ok(events(ag_ui::HEADERS, run, encode))
}

/// The conversation so far and its last run, for a client of AG-UI that begins anew.
async fn connect_agent(service: State<Service>, user: Extension<User>, id: Path<String>) -> Answer {
    let name = user.conversation(&id);
    let (mut watcher, earlier) = service.open(&name).await?;
    let mut encoder = service.ag_ui(&id, "last").with_history(&earlier);
    let goes_on = service.chats.is_busy(&name);
    let mut begin = String::new();
    while let Some(Some(event)) = watcher.next().now_or_never() {
        begin += &encoder.encode(&event);
    }
    if !goes_on || encoder.has_ended() {
        return Ok((ag_ui::HEADERS, begin).into_response());
    }
    let encode = move |event: &Numbered| (encoder.encode(event), encoder.has_ended());
    Ok(events_after(begin, ag_ui::HEADERS, watcher, encode))
}

/// The trace of the runs of a conversation, as a page.
async fn trace_page(service: State<Service>, user: Extension<User>, id: Path<String>) -> Answer {
    let none = || Failed(StatusCode::NOT_FOUND, "there is no trace: see `--trace`".into());
    let (file, id) = (service.trace.clone().ok_or_else(none)?, user.conversation(&id));
    let read = tokio::task::spawn_blocking(move || {
        let length = std::fs::metadata(&*file).ok()?.len();
        let text = (length <= LARGEST_TRACE).then(|| std::fs::read_to_string(&*file).ok())??;
        let mut events = trace::read(&text).ok()?;
        let of_chat = events.iter().filter(|event| {
            matches!(&event.what, trace::Happened::RunStarted { journaled, .. } if journaled.as_ref() == Some(&id))
        });
        let runs: std::collections::HashSet<String> =
            of_chat.map(|event| event.run.clone()).collect();
        events.retain(|event| runs.contains(&event.run));
        Some(trace::page(&events))
    });
    let page = read.await.ok().flatten().ok_or_else(none)?;
    let policy = "default-src 'none'; style-src 'unsafe-inline'; sandbox";
    let head = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, policy),
    ];
    Ok((head, page).into_response())
}

/// Another site in the same browser cannot send this type without being asked first.
fn is_json(head: &HeaderMap) -> Result<(), Failed> {
    match head
        .get(header::CONTENT_TYPE)
        .is_some_and(|it| it.as_bytes().starts_with(b"application/json"))
    {
        true => Ok(()),
        false => Err(Failed(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send application/json".into())),
    }
}

/// A response with what becomes of events.
fn events<const N: usize>(
    head: [(&'static str, &'static str); N],
    events: impl Stream<Item = Numbered> + Send + Unpin + 'static,
    encode: impl FnMut(&Numbered) -> (String, bool) + Send + 'static,
) -> Response {
    events_after(String::new(), head, events, encode)
}

/// The same behind a text. It ends with the events, or when one is the last. A page that reads slowly slows nobody down.
fn events_after<const N: usize>(
    begin: String,
    head: [(&'static str, &'static str); N],
    events: impl Stream<Item = Numbered> + Send + Unpin + 'static,
    encode: impl FnMut(&Numbered) -> (String, bool) + Send + 'static,
) -> Response {
    let state = (events, encode, Some(begin), false);
    let texts = stream::unfold(state, async |(mut events, mut encode, begin, ended)| {
        let (text, ended) = match (begin, ended) {
            (_, true) => return None,
            (Some(begin), _) => (begin, false),
            _ => match timeout(KEEP_ALIVE, events.next()).await {
                Ok(event) => encode(&event?),
                Err(_) => (":\n\n".to_owned(), false),
            },
        };
        Some((Ok::<_, Error>(text), (events, encode, None, ended)))
    });
    (head, Body::from_stream(texts)).into_response()
}

/// An error as a response.
pub(crate) struct Failed(StatusCode, String);

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::Busy | ErrorKind::Conflict => StatusCode::CONFLICT,
            ErrorKind::Configuration | ErrorKind::Transcript => StatusCode::BAD_REQUEST,
            ErrorKind::Closed => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self(status, error.to_string())
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        (self.0, self.1).into_response()
    }
}
