//! Calls a tool of a server of the Model Context Protocol, through a scripted model.
//!
//! ```text
//! cargo run -p harness-mcp-examples --bin mcp_client -- add '{"a": 17, "b": 23}' target/debug/mcp_server
//! cargo run -p harness-mcp-examples --bin mcp_client -- add '{"a": 17, "b": 23}' http://127.0.0.1:8080/mcp
//! ```
//!
//! If the server asks the user for values, they are asked for at the terminal, if there is one. The program
//! trusts the hints of the server, because the model calls only the tool of the command line. Exit codes: 0 the
//! tool has answered, 1 the call failed or did not run, 2 wrong arguments.

#[path = "../program.rs"]
mod program;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use harness::{
    Agent, CallOutcome, Event, Message, ToolContent,
    mcp::McpServer,
    policy::visible,
    testing::{ScriptedProvider, reply},
};
use serde_json::Value;

const USAGE: &str = "\
mcp_client TOOL ARGUMENTS SERVER..: calls a tool of a server, and prints what it answers
ARGUMENTS is a JSON object; SERVER is an address (http://..) or a command with its arguments.";

#[tokio::main]
async fn main() -> ExitCode {
    program::ended(run().await)
}

async fn run() -> anyhow::Result<ExitCode> {
    if program::helps(USAGE)? {
        return Ok(ExitCode::SUCCESS);
    }
    let given = program::arguments()?;
    let [tool, arguments, server, more @ ..] = given.as_slice() else {
        return Err(program::wrong("expected `mcp_client TOOL ARGUMENTS SERVER..`"));
    };
    let arguments: Value = serde_json::from_str(arguments)
        .map_err(|err| program::wrong(format!("`{arguments}` is not JSON: {err}")))?;
    if !arguments.is_object() {
        return Err(program::wrong(format!("`{arguments}` is no JSON object")));
    }
    // A server may take long to start, or never answer. `eprintln!` panics where the output is closed.
    let _ = writeln!(io::stderr(), "Connecting to `{}` ..", visible(server));
    let builder = match server.starts_with("http://") || server.starts_with("https://") {
        true => McpServer::url(server),
        false => McpServer::command(server, more.to_vec()),
    };
    #[cfg(unix)]
    let builder = builder.form_at_terminal(harness::policy::TerminalForm::default());
    let server = builder.name("server").trust_hints().connect().await?;
    let answered = ask(&server, tool, arguments).await;
    server.close().await;
    writeln!(io::stdout(), "{}", answered?)?;
    Ok(ExitCode::SUCCESS)
}

/// Has the model call the tool, and returns the result.
///
/// # Errors
/// Fails with the result if the call failed or did not run.
async fn ask(server: &McpServer, tool: &str, arguments: Value) -> anyhow::Result<String> {
    let called = format!("server__{tool}");
    let model = ScriptedProvider::answering(move |request| match request.results().next() {
        None => reply().call(&called, arguments.clone()),
        Some(result) => {
            let parts: Vec<String> = result.content().iter().map(words).collect();
            reply().text(parts.join("\n"))
        }
    });
    let agent = Agent::builder(model).tools(server.tools()).build()?;
    let shows = |event: Event<'_>| {
        if let Event::ToolProgress { message, .. } = event {
            let _ = writeln!(io::stderr(), "{}", visible(message));
        }
    };
    let reply = agent.run("Call it.").on_event(shows).await?;
    let mut results = reply.transcript().messages().iter().flat_map(Message::results);
    let ran = results.next().is_some_and(|result| result.outcome() == CallOutcome::Succeeded);
    anyhow::ensure!(ran, "{}", reply.text());
    Ok(reply.text().to_owned())
}

fn words(part: &ToolContent) -> String {
    match part {
        ToolContent::Text(text) => text.clone(),
        ToolContent::Json(value) => value.to_string(),
        other => format!("{other:?}"),
    }
}
