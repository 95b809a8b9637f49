//! A web server with conversations by their names. Keys come from the environment, as
//! `provider_from_env` reads them; without any, a script answers.
//!
//! ```sh
//! cargo run -p harness-web-example
//! curl -N http://127.0.0.1:3000/chats/17 -d 'Hello'          # the run goes on if this ends
//! curl -N http://127.0.0.1:3000/chats/17?stops=true -d 'Hello'  # the run stops with it
//! curl -N http://127.0.0.1:3000/chats/17                     # watches, from the beginning of the last run
//! curl -N http://127.0.0.1:3000/chats/17 -H 'Last-Event-ID: run_../12'  # goes on after that event
//! curl -X DELETE http://127.0.0.1:3000/chats/17              # stops the run
//! ```

mod handlers;

use std::time::Duration;

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use harness::{
    Agent, Error, ErrorKind,
    agent::Chats,
    journal::MemoryJournal,
    provider_from_env,
    testing::{ScriptedProvider, reply},
};
use tokio::time::timeout;

/// What a handler answers.
type Answer = Result<Response, Failed>;

/// What a tab says of itself.
#[derive(serde::Deserialize)]
struct Tab {
    /// Whether the run stops when the tab is closed, and nobody else watches.
    #[serde(default)]
    stops: bool,
}

/// An error as a response.
struct Failed(Error);

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let status = match self.0.kind() {
            ErrorKind::Busy => StatusCode::CONFLICT,
            ErrorKind::Configuration => StatusCode::BAD_REQUEST,
            ErrorKind::Closed => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, self.0.to_string()).into_response()
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let agent = match provider_from_env() {
        Ok(provider) => Agent::builder(provider).build()?,
        Err(error) => {
            println!("a script answers: {error}");
            Agent::builder(script()).build()?
        }
    };
    // In a program whose conversations outlive it: `SqliteJournal` or `PostgresJournal`.
    let chats = Chats::new(&agent, &MemoryJournal::new());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("http://{}/chats/17", listener.local_addr()?);
    let server = axum::serve(listener, handlers::app(chats.clone()));
    let stopped = async move {
        let _ = tokio::signal::ctrl_c().await;
        // All streams come to their end, and with them the connections.
        chats.close().await;
    };
    // A browser that reads slowly, or not at all, holds up the end for half a minute, or until the second
    // Ctrl-C.
    let patience = async {
        let _ = tokio::signal::ctrl_c().await;
        let _ = timeout(Duration::from_secs(30), tokio::signal::ctrl_c()).await;
    };
    tokio::select! {
        served = server.with_graceful_shutdown(stopped).into_future() => Ok(served?),
        () = patience => Ok(()),
    }
}

/// Says slowly what it heard.
fn script() -> ScriptedProvider {
    ScriptedProvider::answering(|request| {
        let words = format!("You say \"{}\", and I am a script.", request.last_text());
        let pieces = words.split_inclusive(' ').map(str::to_owned).collect::<Vec<_>>();
        pieces
            .into_iter()
            .fold(reply(), |reply, piece| reply.text_in([piece]).pause(Duration::from_millis(100)))
    })
}

#[cfg(test)]
mod tests;
