//! A service for front ends: `useChat` of the AI SDK, clients of AG-UI, and a page of its own. Keys come from the environment, as
//! `provider_from_env` reads them; without a key, a scripted model answers.
//!
//! ```sh
//! cargo run -p harness-service -- --listen 127.0.0.1:3000 --journal chats.sqlite
//! # In a browser: http://127.0.0.1:3000. Say "weather in Oslo", "count to 40", "book a table" or "remove the notes".
//! ```
//!
//! Exit codes: 0 stopped by Ctrl-C, 1 failed, 2 wrong arguments.

mod access;
mod handlers;
mod model;
#[path = "../program.rs"]
mod program;

use std::{
    io::{self, Write as _},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use harness::{
    agent::Chats,
    journal::{Journal, PostgresJournal, SqliteJournal},
    trace::Trace,
};
use tokio::{sync::Semaphore, time::timeout};

use crate::{
    access::Users,
    handlers::{MOST_RUNS, Service, app},
};

const USAGE: &str = "\
service [--listen ADDRESS] [--journal FILE|postgres://..] [--trace FILE]: conversations for a page, useChat and AG-UI
ADDRESS is 127.0.0.1:3000 and FILE is chats.sqlite unless given; --trace records what each run did, and the page shows it.
SERVICE_TOKENS=NAME:TOKEN,.. lets only these users in, who send `Authorization: Bearer TOKEN`; without it, only this machine is served.
GET / is the page. POST /api/chat takes what useChat sends, GET /api/chat/NAME has its messages and GET /api/chat/NAME/stream the
run that goes on; POST /api/chat/NAME/stop stops it. POST /api/ag-ui takes a RunAgentInput.
PROVIDER=anthropic, openai, chat_completions or local with its key asks a real model; without a key a scripted one answers.";

#[tokio::main]
async fn main() -> ExitCode {
    program::ended(run().await)
}

async fn run() -> anyhow::Result<ExitCode> {
    if program::helps(USAGE)? {
        return Ok(ExitCode::SUCCESS);
    }
    let (mut address, mut place) = ("127.0.0.1:3000".to_owned(), "chats.sqlite".to_owned());
    let mut trace_file = String::new();
    let mut given = program::arguments()?.into_iter();
    while let Some(name) = given.next() {
        let value = match name.as_str() {
            "--listen" => &mut address,
            "--journal" => &mut place,
            "--trace" => &mut trace_file,
            _ => return Err(program::wrong(format!("`{name}` is unknown; see `--help`"))),
        };
        *value = given.next().ok_or_else(|| program::wrong(format!("`{name}` needs a value")))?;
    }
    let users = match std::env::var("SERVICE_TOKENS") {
        Ok(text) => {
            Users::read(&text).map_err(|why| program::wrong(format!("SERVICE_TOKENS: {why}")))?
        }
        Err(_) => Users::default(),
    };
    // The port first: nothing else is of use without it.
    let listener = match tokio::net::TcpListener::bind(&address).await {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            return Err(program::wrong(format!("`{address}` is no address: {error}")));
        }
        bound => bound.with_context(|| {
            format!("cannot listen at {address}; `--listen ADDRESS` takes another address or port")
        })?,
    };
    let local = listener.local_addr()?;
    if users.is_empty() && !local.ip().is_loopback() {
        return Err(program::wrong(format!(
            "others can reach {local}: set SERVICE_TOKENS, or listen at 127.0.0.1"
        )));
    }
    let mut trace = Trace::default();
    if !trace_file.is_empty() {
        trace = trace.to_file(&trace_file)?;
    }
    let (agent, price, why) = model::agent(trace)?;
    let journal: Arc<dyn Journal> = match place.starts_with("postgres") && place.contains("://") {
        true => Arc::new(PostgresJournal::connect(place).await?),
        false => Arc::new(SqliteJournal::open(&place).await?),
    };
    let chats = Chats::new(&agent, &journal);
    let service = Service {
        chats: chats.clone(),
        inbox: agent.inbox(&journal),
        journal,
        price,
        runs: Arc::new(Semaphore::new(MOST_RUNS)),
        trace: (!trace_file.is_empty()).then(|| trace_file.into()),
    };
    if let Some(why) = why {
        writeln!(io::stdout(), "a scripted model answers: {why}")?;
    }
    writeln!(io::stdout(), "http://{local}")?;
    serve(listener, service, chats, users).await?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(
    listener: tokio::net::TcpListener,
    service: Service,
    chats: Chats,
    users: Users,
) -> anyhow::Result<()> {
    let begun = tokio::spawn(service.clone().continue_runs());
    let server = axum::serve(listener, app(service, users));
    let stopped = async move {
        let _ = tokio::signal::ctrl_c().await;
        begun.abort();
        // It ends all streams, and thereby their connections.
        chats.close().await;
    };
    // A browser that reads slowly, or not at all, delays the end for at most half a minute, or until the second Ctrl-C.
    let patience = async {
        let _ = tokio::signal::ctrl_c().await;
        let _ = timeout(Duration::from_secs(30), tokio::signal::ctrl_c()).await;
    };
    tokio::select! {
        served = server.with_graceful_shutdown(stopped).into_future() => Ok(served?),
        () = patience => Ok(()),
    }
}
