//! The two routes that `useChat` needs.

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{Html, IntoResponse as _, Response},
    routing::{get, post},
};
use futures_util::{Stream, StreamExt as _, stream};
use harness::{
    Error, ErrorKind,
    agent::{Chats, Inbox, Numbered},
    web::{
        ClientInput, answer_waiting,
        ui_message::{HEADERS, UiMessageStream, decode_request},
    },
};

/// The conversations, and the calls that wait in them.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) chats: Chats,
    pub(crate) inbox: Inbox,
}

pub(crate) fn app(service: Service) -> Router {
    Router::new()
        .route("/", get(async || Html(include_str!("page.html"))))
        .route("/api/chat", post(say))
        .route("/api/chat/{id}/stream", get(watch))
        .route("/api/chat/{id}/stop", post(stop))
        .with_state(service)
}

async fn say(service: State<Service>, head: HeaderMap, body: Bytes) -> Response {
    // Another site in the same browser cannot send this type without being asked first.
    if head.get("content-type").is_none_or(|it| !it.as_bytes().starts_with(b"application/json")) {
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, "send application/json").into_response();
    }
    run(&service, &body).await.unwrap_or_else(|error| failed(&error))
}

async fn run(service: &Service, body: &[u8]) -> Result<Response, Error> {
    // A service with users checks here whether this one may use the conversation.
    let request = decode_request(body)?;
    let id = request.conversation;
    let sending = match request.input {
        ClientInput::Message(message) => service.chats.send(id, message),
        ClientInput::Answers(answers) => {
            if answer_waiting(&service.inbox, &id, &answers, None).await? == 0 {
                return Ok((StatusCode::CONFLICT, "no call waits for this answer").into_response());
            }
            service.chats.resume(id)
        }
        _ => return Ok(StatusCode::BAD_REQUEST.into_response()),
    };
    Ok(events(UiMessageStream::new(), sending.await?))
}

async fn watch(service: State<Service>, Path(id): Path<String>, head: HeaderMap) -> Response {
    if !service.chats.is_busy(&id) {
        return StatusCode::NO_CONTENT.into_response();
    }
    let seen = head.get("last-event-id").and_then(|id| id.to_str().ok());
    match service.chats.watch(&id).await {
        Ok(watcher) => {
            events(seen.map_or_else(UiMessageStream::new, UiMessageStream::after), watcher)
        }
        Err(error) => failed(&error),
    }
}

async fn stop(service: State<Service>, Path(id): Path<String>) -> StatusCode {
    if service.chats.stop(&id) { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND }
}

/// A response with the events of one run.
fn events(
    encoder: UiMessageStream,
    events: impl Stream<Item = Numbered> + Send + Unpin + 'static,
) -> Response {
    let texts = stream::unfold((encoder, events), async |(mut encoder, mut events)| {
        if encoder.has_ended() {
            return None;
        }
        let text = encoder.encode(&events.next().await?);
        Some((Ok::<_, Error>(text), (encoder, events)))
    });
    (HEADERS, Body::from_stream(texts)).into_response()
}

fn failed(error: &Error) -> Response {
    let status = match error.kind() {
        ErrorKind::Busy => StatusCode::CONFLICT,
        ErrorKind::Configuration | ErrorKind::Transcript => StatusCode::BAD_REQUEST,
        ErrorKind::Closed => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, error.to_string()).into_response()
}
