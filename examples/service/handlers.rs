//! The routes: conversations for `useChat`, for clients of AG-UI, and for the page.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::{
    Extension, Json, Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, Path, Query, State},
    http::{HeaderMap, StatusCode, header},
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures_util::{Stream, StreamExt as _, stream};
use harness::{
    Error, ErrorKind,
    agent::{ChatRun, Chats, Inbox, Numbered, WhenBusy},
    journal::{ConversationQuery, Journal, Metadata},
    trace::{self, Happened},
    web::{ClientInput, ClientRequest, RunsSoFar, ag_ui, resume_answered, ui_message as ui},
};
use serde_json::json;
use tokio::{sync::Mutex, time::timeout};

use crate::{
    access::{User, Users, check},
    limits::{Failed, LARGEST_BODY, LARGEST_TRACE, MOST_COUNTED, RUNS, TRACES},
};

/// A stream without events says this often that it is there, so that a connection that broke is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The conversations, and what the handlers need beside them.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) chats: Chats,
    pub(crate) inbox: Inbox,
    pub(crate) journal: Arc<dyn Journal>,
    /// How many calls of conversations wait, each as of a number of facts.
    pub(crate) waiting: Arc<Mutex<HashMap<String, (u64, usize)>>>,
    /// The file with the traces of the runs.
    pub(crate) trace: Option<Arc<str>>,
}

type By = Extension<User>;
type Id = Path<String>;
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
        // An agent in a call has a conversation below that of the call, in which only the call speaks.
        if request.conversation.contains('/') {
            return Err(wrong(StatusCode::BAD_REQUEST, "the id of a conversation has no `/`"));
        }
        let id = user.conversation(&request.conversation);
        // What waits for a run that goes on takes no place of another one.
        let place = if self.chats.is_busy(&id) { None } else { Some(RUNS.take()?) };
        let (run, answers) = match request.input {
            ClientInput::Message(message) => {
                let title = message.text().chars().take(80).collect::<String>();
                let mut about = Metadata::new().title(title);
                about.owner = user.name().map(str::to_owned);
                let facts = self.journal.read(&id, u64::MAX).await.map_err(failed)?.head.facts;
                let run = self.chats.send(&id, message).when_busy(WhenBusy::Refuse);
                (if facts == 0 { run.describe(about) } else { run }, Vec::new())
            }
            ClientInput::Answers(answers) => (self.chats.resume(&id), answers),
            _ => return Err(wrong(StatusCode::BAD_REQUEST, "it says nothing")),
        };
        // The run keeps its place to its end.
        let run = run.with(move |run| run.state(place.or_else(|| RUNS.take().ok())));
        let begun = match answers.is_empty() {
            true => run.await,
            false => resume_answered(run, &self.inbox, &id, &answers, user.name()).await,
        };
        begun.map_err(failed)
    }

    /// Continues the runs that were going on when the process before this one ended, in the conversations that changed last.
    pub(crate) async fn continue_runs(self) -> Result<(), Error> {
        let page = self.journal.list(&ConversationQuery::new().limit(1000)).await?;
        // Those of agents in calls go on with their callers.
        for info in page.conversations.iter().filter(|info| info.metadata.parent.is_none()) {
            let goes_on = self.inbox.can_continue(&info.id).await;
            // If one cannot be read, the others go on.
            let told = |error: &Error| eprintln!("`{}` cannot be read: {error}", info.id);
            if goes_on.inspect_err(told).unwrap_or(false) {
                let place = RUNS.free.acquire().await;
                // It fails if somebody else has continued it meanwhile, here or in another process.
                let run = self.chats.resume(&info.id).when_busy(WhenBusy::Refuse);
                let _ = run.with(|run| run.state(place)).await;
            }
        }
        Ok(())
    }

    /// How many calls of a conversation and its agents wait. As long as it has this number of facts, it is not read again.
    async fn waits(&self, id: &str, facts: u64) -> usize {
        let known = self.waiting.lock().await.get(id).filter(|known| known.0 == facts).copied();
        if let Some((_, count)) = known {
            return count;
        }
        // A conversation that cannot be read now is read again with the next list.
        let Ok(all) = self.inbox.waiting_with_agents(id).await else { return 0 };
        let mut waiting = self.waiting.lock().await;
        if waiting.len() >= MOST_COUNTED {
            waiting.clear();
        }
        waiting.insert(id.to_owned(), (facts, all.len()));
        all.len()
    }
}

type Asked = Query<HashMap<String, String>>;

async fn list(service: State<Service>, user: By, asked: Asked) -> Answer {
    let mut query = ConversationQuery::new();
    query.owner = user.name().map(str::to_owned);
    query.after = asked.get("after").cloned();
    let page = service.journal.list(&query).await.map_err(failed)?;
    let mut list = Vec::new();
    for info in page.conversations.iter().filter(|info| info.metadata.parent.is_none()) {
        let Some(id) = user.own_name(&info.id) else { continue };
        let (busy, title) = (service.chats.is_busy(&info.id), &info.metadata.title);
        let (waits, at) = (service.waits(&info.id, info.facts).await, info.updated_at);
        list.push(json!({"id": id, "title": title, "updatedAt": at, "busy": busy, "waits": waits}));
    }
    Ok(Json(json!({"conversations": list, "next": page.next})).into_response())
}

/// What `DefaultChatTransport` sends.
async fn say(service: State<Service>, user: By, body: Bytes) -> Answer {
    let request = ui::decode_request(&body).map_err(unread)?;
    let place = user.stream()?;
    let run = service.begin(&user, request).await?;
    let mut encoder = ui::UiMessageStream::new().with_cost();
    events(ui::HEADERS, place, None, run, move |it| (encoder.encode(it), encoder.has_ended()))
}

/// The messages for a page that is loaded again. Of a run that goes on they have what the user has said: the rest is its stream.
async fn messages(service: State<Service>, user: By, id: Id) -> Answer {
    let id = user.conversation(&id);
    let (runs, _) = RunsSoFar::read(&service.chats, &id).await.map_err(failed)?;
    let last = runs.last.iter().take(if runs.goes_on { 1 } else { usize::MAX });
    let stream = ui::UiMessageStream::new().with_cost();
    let messages = stream.messages(runs.earlier.iter().chain(last));
    Ok(Json(json!({"messages": messages, "busy": runs.goes_on})).into_response())
}

/// The run that goes on, from its beginning or after `Last-Event-ID`, as `useChat` asks for it after a reload. With `follow`, the
/// stream begins with the messages so far and the last run, and goes on with each later one.
async fn watch(service: State<Service>, user: By, id: Id, asked: Asked, head: HeaderMap) -> Answer {
    let id = user.conversation(&id);
    let follows = asked.contains_key("follow");
    if !follows && !service.chats.is_busy(&id) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let place = user.stream()?;
    let (runs, watcher) = RunsSoFar::read(&service.chats, &id).await.map_err(failed)?;
    let all = stream::iter(runs.last).chain(watcher);
    let (begin, mut encoder) = if follows {
        let new = ui::UiMessageStream::new().with_cost();
        let messages = new.clone().messages(&runs.earlier);
        let history = json!({"messages": messages, "trace": service.trace.is_some()});
        let begin = json!({"type": "data-history", "data": history});
        (Some(format!("data: {begin}\n\n")), new.of_all_runs())
    } else {
        let seen = head.get("last-event-id").and_then(|id| id.to_str().ok()).unwrap_or_default();
        let rest = ui::UiMessageStream::after(seen).with_cost();
        (None, rest.with_beginning(&runs.earlier))
    };
    events(ui::HEADERS, place, begin, all, move |it| (encoder.encode(it), encoder.has_ended()))
}

async fn stop(service: State<Service>, user: By, id: Id) -> StatusCode {
    let stopped = service.chats.stop(user.conversation(&id));
    if stopped { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND }
}

/// What `HttpAgent` sends.
async fn run_agent(service: State<Service>, user: By, body: Bytes) -> Answer {
    let request = ag_ui::decode_request(&body).map_err(unread)?;
    let run = request.run.as_deref().unwrap_or_default();
    let encoder = ag_ui::AgUiStream::new(&request.conversation, run);
    let mut encoder = encoder.with_client_calls(request.calls.clone()).with_cost();
    let place = user.stream()?;
    let run = service.begin(&user, request).await?;
    events(ag_ui::HEADERS, place, None, run, move |it| (encoder.encode(it), encoder.has_ended()))
}

/// The conversation so far and its last run, for a client of AG-UI that begins anew.
async fn connect_agent(service: State<Service>, user: By, id: Id) -> Answer {
    let place = user.stream()?;
    let name = user.conversation(&id);
    let (runs, watcher) = RunsSoFar::read(&service.chats, &name).await.map_err(failed)?;
    let encoder = ag_ui::AgUiStream::new(&*id, "last").with_cost();
    let mut encoder = encoder.with_history(&runs.earlier);
    let rest = stream::iter(runs.goes_on.then_some(watcher)).flatten();
    let all = stream::iter(runs.last).chain(rest);
    events(ag_ui::HEADERS, place, None, all, move |it| (encoder.encode(it), encoder.has_ended()))
}

/// The trace of the runs of a conversation, as a page.
async fn trace_page(service: State<Service>, user: By, id: Id) -> Answer {
    let none = || wrong(StatusCode::NOT_FOUND, "there is no trace: see `--trace`");
    let (file, id) = (service.trace.clone().ok_or_else(none)?, user.conversation(&id));
    let place = TRACES.take()?;
    if std::fs::metadata(&*file).is_ok_and(|file| file.len() > LARGEST_TRACE) {
        let what = format!("the file of traces has more than {LARGEST_TRACE} bytes");
        return Err((StatusCode::INSUFFICIENT_STORAGE, what));
    }
    let read = tokio::task::spawn_blocking(move || {
        // It is being read, also when the client is gone.
        let _place = place;
        let mut events = trace::read(&std::fs::read_to_string(&*file).ok()?).ok()?;
        let named = |what: &Happened| matches!(what, Happened::RunStarted { journaled: Some(name), .. } if *name == id);
        let of_chat = events.iter().filter(|event| named(&event.what));
        let runs: std::collections::HashSet<_> = of_chat.map(|event| event.run.clone()).collect();
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
    place: impl Send + 'static,
    begin: Option<String>,
    events: impl Stream<Item = Numbered> + Send + 'static,
    encode: impl FnMut(&Numbered) -> (String, bool) + Send + 'static,
) -> Answer {
    let state = (events.boxed(), encode, Some(place));
    let more = stream::unfold(state, async |(mut events, mut encode, place)| {
        let place = place?;
        let (text, ended) = match timeout(KEEP_ALIVE, events.next()).await {
            Ok(event) => encode(&event?),
            Err(_) => (":\n\n".to_owned(), false),
        };
        Some((text, (events, encode, (!ended).then_some(place))))
    });
    let texts = stream::iter(begin).chain(more).map(Ok::<_, Error>);
    Ok((head, Body::from_stream(texts)).into_response())
}

fn wrong(status: StatusCode, what: &str) -> Failed {
    (status, what.to_owned())
}

/// An error of the library as a response.
fn failed(error: Error) -> Failed {
    let status = match error.kind() {
        ErrorKind::Busy | ErrorKind::Conflict | ErrorKind::NotWaiting => StatusCode::CONFLICT,
        ErrorKind::Configuration | ErrorKind::Transcript => StatusCode::BAD_REQUEST,
        ErrorKind::Closed => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    // The text of the error is for the people who run the service.
    (status, error.public_text())
}

/// A request that cannot be read. Its text is for the page.
fn unread(error: Error) -> Failed {
    wrong(StatusCode::BAD_REQUEST, error.message())
}
