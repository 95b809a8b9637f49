//! A service for front ends that use the AI SDK (`useChat`), with conversations in a file. A scripted model answers, so that it
//! runs without a key.
//!
//! ```sh
//! cargo run -p harness-service -- --listen 127.0.0.1:3000 --journal chats.sqlite
//! # In a browser: http://127.0.0.1:3000. Say "weather in Oslo", "count to 40" or "remove the notes".
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
use harness::{
    Agent, agent::Chats, journal::SqliteJournal, policy::ApprovalRequest, testing, tool, tools,
};
use serde_json::json;
use testing::{RecordedRequest, ScriptedProvider, ScriptedReply, reply};

use crate::handlers::{Service, app};

const USAGE: &str = "\
service [--listen ADDRESS] [--journal FILE]: conversations for useChat; 127.0.0.1:3000 and chats.sqlite unless given
GET / is a page for a browser. POST /api/chat takes what useChat sends, GET /api/chat/NAME/stream watches the run that goes on.";

/// Looks up the weather.
#[tool(side_effects = "read")]
fn weather(
    /** The city */
    city: String,
) -> String {
    format!("{city}: 7 degrees, rain")
}

/// Removes all notes.
#[tool(side_effects = "mutate")]
fn remove_notes() -> String {
    "The notes are removed.".to_owned()
}

#[tokio::main]
async fn main() -> ExitCode {
    program::ended(run().await)
}

async fn run() -> anyhow::Result<ExitCode> {
    if program::helps(USAGE)? {
        return Ok(ExitCode::SUCCESS);
    }
    let (mut address, mut file) = ("127.0.0.1:3000".to_owned(), "chats.sqlite".to_owned());
    let mut given = program::arguments()?.into_iter();
    while let Some(name) = given.next() {
        let place = match name.as_str() {
            "--listen" => &mut address,
            "--journal" => &mut file,
            _ => return Err(program::wrong(format!("`{name}` is unknown; see `--help`"))),
        };
        *place = given.next().ok_or_else(|| program::wrong(format!("`{name}` needs a value")))?;
    }
    let listener = tokio::net::TcpListener::bind(&address).await.with_context(|| {
        format!("cannot listen at {address}; `--listen ADDRESS` takes another address or port")
    })?;
    let journal = SqliteJournal::open(&file).await?;
    // A call that needs a person waits until the page sends the answer, if need be in another life of this program.
    let later = |question: ApprovalRequest| async move { question.later(None) };
    let agent = Agent::builder(ScriptedProvider::answering(answer))
        .tools(tools![weather, remove_notes])
        .approver(later)
        .build()?;
    let chats = Chats::new(&agent, &journal);
    writeln!(io::stdout(), "http://{}", listener.local_addr()?)?;
    let service = Service { chats: chats.clone(), inbox: agent.inbox(&journal) };
    let stopped = async move {
        let _ = tokio::signal::ctrl_c().await;
        // It ends all streams, and thereby their connections.
        chats.close().await;
    };
    axum::serve(listener, app(service)).with_graceful_shutdown(stopped).await?;
    Ok(ExitCode::SUCCESS)
}

/// What the scripted model says.
fn answer(request: &RecordedRequest) -> ScriptedReply {
    let messages = request.messages();
    let last = messages.last();
    if let Some(result) = last.and_then(|message| message.results().next()) {
        return reply().text(format!("I have it. {}", result.to_text()));
    }
    let said = last.map(harness::Message::text).unwrap_or_default();
    if let Some((_, city)) = said.split_once("weather in ") {
        return reply().text("I look. ").call("weather", json!({"city": city}));
    }
    if let Some(to) = said.strip_prefix("count to ").and_then(|to| to.parse::<u32>().ok()) {
        let numbers = (1..=to.min(1000)).map(|number| format!("{number} "));
        return numbers.fold(reply(), |reply, number| {
            reply.text_in([number]).pause(Duration::from_millis(200))
        });
    }
    if said == "remove the notes" {
        return reply().call("remove_notes", json!({}));
    }
    reply().text("I know the weather, count, and remove notes.")
}
