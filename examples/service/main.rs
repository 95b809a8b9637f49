//! A service for front ends: `useChat` of the AI SDK, clients of AG-UI, and a page of its own. Keys come from the environment, as
//! `provider_from_env` reads them; without a key, a scripted model answers.
//!
//! ```sh
//! cargo run -p harness-service -- --listen 127.0.0.1:3000 --journal chats.sqlite
//! # In a browser: http://127.0.0.1:3000. Say "weather in Oslo", "count to 40", "book a table" or "remove the notes".
//! ```
//!
//! Exit codes: 0 stopped by Ctrl-C or SIGTERM, 1 failed, 2 wrong arguments.

mod access;
mod handlers;
mod limits;
mod model;
#[path = "../program.rs"]
mod program;

use std::io::{self, Write as _};
use std::{pin::pin, process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context as _;
use harness::{
    agent::Chats,
    journal::{Journal, PostgresJournal, SqliteJournal},
    trace::Trace,
};
use hyper_util::{rt, service::TowerToHyperService};
use tokio::{net::TcpListener, signal, sync::watch, time::sleep};

use crate::{
    access::Users,
    handlers::{Service, app},
    limits::{CONNECTIONS, LONGEST_HEAD},
};

#[tokio::main]
async fn main() -> ExitCode {
    program::ended(run().await)
}

async fn run() -> anyhow::Result<ExitCode> {
    if program::helps(include_str!("usage.txt"))? {
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
    let tokens = std::env::var("SERVICE_TOKENS").ok().map(|text| Users::read(&text)).transpose();
    let users = tokens.map_err(|why| program::wrong(format!("SERVICE_TOKENS: {why}")))?;
    let users = users.unwrap_or_default();
    // The port first: nothing else is of use without it.
    let listener = match TcpListener::bind(&address).await {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            return Err(program::wrong(format!("`{address}` is no address: {error}")));
        }
        bound => bound.with_context(|| {
            format!("cannot listen at {address}; `--listen ADDRESS` takes another address or port")
        })?,
    };
    let local = listener.local_addr()?;
    if users.0.is_empty() && !local.ip().is_loopback() {
        let what = format!("others can reach {local}: set SERVICE_TOKENS, or listen at 127.0.0.1");
        return Err(program::wrong(what));
    }
    let mut trace = Trace::default();
    if !trace_file.is_empty() {
        trace = trace.to_file(&trace_file)?;
    }
    let (agent, why) = model::agent(trace)?;
    let journal: Arc<dyn Journal> = match place.starts_with("postgres") && place.contains("://") {
        true => Arc::new(PostgresJournal::connect(place).await?),
        false => Arc::new(SqliteJournal::open(&place).await?),
    };
    let service = Service {
        chats: Chats::new(&agent, &journal),
        inbox: agent.inbox(&journal),
        journal,
        waiting: Arc::default(),
        trace: (!trace_file.is_empty()).then(|| trace_file.into()),
    };
    let why = why.map(|why| format!("a scripted model answers: {why}\n")).unwrap_or_default();
    writeln!(io::stdout(), "{why}http://{local}")?;
    serve(listener, service, users).await;
    Ok(ExitCode::SUCCESS)
}

async fn serve(listener: TcpListener, service: Service, users: Users) {
    let (begun, chats) = (tokio::spawn(service.clone().continue_runs()), service.chats.clone());
    let app = TowerToHyperService::new(app(service, users));
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(rt::TokioTimer::new()).header_read_timeout(LONGEST_HEAD);
    let (closes, closing) = watch::channel(());
    let accept = async {
        loop {
            let place = CONNECTIONS.free.acquire().await;
            // It fails if a connection broke, and if the process has too many files.
            let Ok((socket, _)) = listener.accept().await else {
                sleep(Duration::from_millis(50)).await;
                continue;
            };
            let connection = http.serve_connection(rt::TokioIo::new(socket), app.clone());
            let mut closing = closing.clone();
            tokio::spawn(async move {
                let (mut connection, _place) = (pin!(connection), place);
                tokio::select! {
                    _ = connection.as_mut() => return,
                    _ = closing.changed() => connection.as_mut().graceful_shutdown(),
                }
                let _ = connection.await;
            });
        }
    };
    tokio::select! {
        () = accept => {}
        () = stopped() => {}
    }
    begun.abort();
    // It ends all streams, and thereby their connections.
    chats.close().await;
    let _ = closes.send(());
    // A browser that reads slowly, or not at all, delays the end for at most half a minute, or until the next signal.
    tokio::select! {
        _ = CONNECTIONS.free.acquire_many(CONNECTIONS.most) => {}
        () = stopped() => {}
        () = sleep(Duration::from_secs(30)) => {}
    }
}

/// Waits until a person or a supervisor stops the program.
async fn stopped() {
    #[cfg(unix)]
    let terminated =
        async { signal::unix::signal(signal::unix::SignalKind::terminate()).ok()?.recv().await };
    #[cfg(not(unix))]
    let terminated = std::future::pending::<Option<()>>();
    tokio::select! {
        Some(()) = terminated => {}
        _ = signal::ctrl_c() => {}
    }
}
