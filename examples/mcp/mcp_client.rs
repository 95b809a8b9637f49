//! Uses a tool of a server of the Model Context Protocol. A scripted model calls it.
//!
//! ```text
//! cargo run -p harness-mcp-examples --bin mcp_client -- add '{"a": 17, "b": 23}' target/debug/mcp_server
//! cargo run -p harness-mcp-examples --bin mcp_client -- add '{"a": 17, "b": 23}' http://127.0.0.1:8080/mcp
//! ```
//!
//! What the server asks a person is asked at the terminal, if there is one. The hints of the server are believed here, since the model asks only for what was given. Exit codes: 0 answered, 1
//! failed, 2 not set up.

#[path = "../program.rs"]
mod program;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use harness::{
    Agent, ToolContent,
    mcp::McpServer,
    testing::{ScriptedProvider, reply},
};
use serde_json::Value;

const USAGE: &str = "mcp_client TOOL ARGUMENTS SERVER..: calls a tool of a server, which is a command or an address";

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
        return Err(program::wrong(format!(
            "expected a tool, its arguments and a server; {USAGE}"
        )));
    };
    let arguments: Value = serde_json::from_str(arguments)
        .map_err(|err| program::wrong(format!("the arguments are no JSON: {err}")))?;
    let builder = match server.starts_with("http://") || server.starts_with("https://") {
        true => McpServer::url(server),
        false => McpServer::command(server, more.to_vec()),
    };
    #[cfg(unix)]
    let builder = builder.form_at_terminal(harness::policy::TerminalForm::default());
    let server = builder.named("server").trust_hints().connect().await?;
    let answered = ask(&server, tool, arguments).await;
    server.close().await;
    writeln!(io::stdout(), "{}", answered?)?;
    Ok(ExitCode::SUCCESS)
}

/// What the model has read of its call.
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
    Ok(agent.run("Call it.").await?.text().to_owned())
}

fn words(part: &ToolContent) -> String {
    match part {
        ToolContent::Text(text) => text.clone(),
        ToolContent::Json(value) => value.to_string(),
        other => format!("{other:?}"),
    }
}
