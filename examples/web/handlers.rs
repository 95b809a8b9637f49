//! The handlers of named conversations for a browser.

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::{Router, response::IntoResponse, response::sse, routing::post};
use futures_util::{Stream, StreamExt as _};
use harness::agent::{Chats, Numbered};

use crate::{Answer, Failed, Tab};

pub(crate) fn app(chats: Chats) -> Router {
    Router::new().route("/chats/{id}", post(say).get(watch).delete(stop)).with_state(chats)
}

async fn say(chats: State<Chats>, id: Path<String>, tab: Query<Tab>, words: String) -> Answer {
    let run = chats.send(&*id, words);
    let run = if tab.stops { run.stop_unwatched() } else { run };
    Ok(events(run.await.map_err(Failed)?).into_response())
}

async fn watch(chats: State<Chats>, id: Path<String>, head: HeaderMap) -> Answer {
    let seen = head.get("last-event-id").and_then(|id| id.to_str().ok());
    let watcher = chats.watch(&*id).await.map_err(Failed)?;
    Ok(events(watcher.after(seen.unwrap_or_default())).into_response())
}

async fn stop(chats: State<Chats>, id: Path<String>) -> StatusCode {
    if chats.stop(&*id) { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND }
}

fn events(events: impl Stream<Item = Numbered> + Send + 'static) -> impl IntoResponse {
    let lines = events.map(|event| sse::Event::default().id(event.id()).json_data(event));
    sse::Sse::new(lines).keep_alive(sse::KeepAlive::default())
}
