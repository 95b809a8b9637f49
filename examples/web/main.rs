//! A web server with named conversations. Keys come from the environment, as `provider_from_env` reads
//! them; without a key, a scripted model answers.
//!
//! ```sh
//! cargo run -p harness-web-example                           # `-- --listen 127.0.0.1:PORT` chooses the port
//! # In a browser: http://127.0.0.1:3000
//! curl -N http://127.0.0.1:3000/chats/17 -d 'Hello'          # the run continues if this client ends
//! curl -N http://127.0.0.1:3000/chats/17?stops=true -d 'Hello'  # the run stops if this client ends
//! curl -N http://127.0.0.1:3000/chats/17                     # watches, from the beginning of the last run
//! curl -N http://127.0.0.1:3000/chats/17 -H 'Last-Event-ID: run_../12'  # watches, after that event
//! curl -X DELETE http://127.0.0.1:3000/chats/17              # stops the run
//! ```
//!
//! Exit codes: 0 stopped by Ctrl-C, 1 failed, 2 wrong arguments.

mod handlers;
#[path = "../program.rs"]
mod program;

use std::{
    io::{self, Write as _},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context as _;
use axum::{
    Router,
    http::StatusCode,
    response::{Html, IntoResponse, Response},
    routing::get,
};
use harness::{
    Agent, Error, ErrorKind,
    agent::Chats,
    journal::MemoryJournal,
    provider_from_env,
    testing::{ScriptedProvider, reply},
};
use tokio::time::timeout;

/// The answer of a handler.
type Answer = Result<Response, Failed>;

/// The query of a request that sends a message.
#[derive(serde::Deserialize)]
struct Tab {
    /// Whether the run stops when this client has gone and no other one watches.
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

const USAGE: &str = "\
web [--listen ADDRESS]: a web server with named conversations; ADDRESS is 127.0.0.1:3000 unless given
GET / is a page for a browser. POST /chats/NAME sends the body to the conversation, GET watches it, DELETE stops its run.
PROVIDER=anthropic, openai, chat_completions or local with its key asks a real model; without a key a scripted one answers.";

#[tokio::main]
async fn main() -> ExitCode {
    program::ended(run().await)
}

async fn run() -> anyhow::Result<ExitCode> {
    if program::helps(USAGE)? {
        return Ok(ExitCode::SUCCESS);
    }
    let given = program::arguments()?;
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let address = match given.as_slice() {
        [] => "127.0.0.1:3000",
        ["--listen", address] => *address,
        ["--listen"] => return Err(program::wrong("`--listen` needs an ADDRESS")),
        [other] | ["--listen", _, other, ..] | [other, ..] => {
            let text = format!("`{other}` is unknown; expected `web [--listen ADDRESS]`");
            return Err(program::wrong(text));
        }
    };
    // The port first: nothing else is of use without it.
    let listener = match tokio::net::TcpListener::bind(address).await {
        Err(err) if err.kind() == io::ErrorKind::InvalidInput => {
            return Err(program::wrong(format!("`{address}` is no address: {err}")));
        }
        bound => bound.with_context(|| {
            format!("cannot listen at {address}; `--listen ADDRESS` takes another address or port")
        })?,
    };
    serve(listener).await?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(listener: tokio::net::TcpListener) -> anyhow::Result<()> {
    let agent = match provider_from_env() {
        Ok(provider) => Agent::builder(provider).build()?,
        Err(error) => {
            writeln!(io::stdout(), "a scripted model answers: {error}")?;
            Agent::builder(script()).build()?
        }
    };
    // `SqliteJournal` and `PostgresJournal` keep conversations after the program has ended.
    let chats = Chats::new(&agent, &MemoryJournal::new());
    writeln!(io::stdout(), "http://{}", listener.local_addr()?)?;
    let server = axum::serve(listener, app(chats.clone()));
    let stopped = async move {
        let _ = tokio::signal::ctrl_c().await;
        // It ends all streams, and thereby their connections.
        chats.close().await;
    };
    // A browser that reads slowly, or not at all, delays the end for at most half a minute, or until the
    // second Ctrl-C.
    let patience = async {
        let _ = tokio::signal::ctrl_c().await;
        let _ = timeout(Duration::from_secs(30), tokio::signal::ctrl_c()).await;
    };
    tokio::select! {
        served = server.with_graceful_shutdown(stopped).into_future() => Ok(served?),
        () = patience => Ok(()),
    }
}

/// The conversations, and a page for a browser.
fn app(chats: Chats) -> Router {
    handlers::app(chats).route("/", get(async || Html(include_str!("page.html"))))
}

/// A model that slowly repeats the message of the user.
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
