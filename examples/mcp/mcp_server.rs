//! Serves tools of a program to other programs, by the Model Context Protocol.
//!
//!     cargo run -p harness-mcp-examples --bin mcp_server
//!     cargo run -p harness-mcp-examples --bin mcp_server -- --listen 127.0.0.1:8080
//!
//! Without an address it serves the program that starts it, over standard input and output. Exit codes: 0 the
//! client has closed the connection, 1 failed, 2 wrong arguments.

#[path = "../program.rs"]
mod program;
mod served;

use std::{process::ExitCode, time::Duration};

use harness::{Progress, ToolContext, mcp::McpService, tool, tools};

const USAGE: &str =
    "mcp_server [--listen 127.0.0.1:PORT]: serves a few tools, over pipes or at /mcp";

/// Adds two numbers.
#[tool(side_effects = "none", title = "Sum")]
fn add(
    /** One */
    a: i64,
    /** Another */
    b: i64,
) -> Option<i64> {
    a.checked_add(b)
}

/// Counts slowly and says how far it is.
#[tool(side_effects = "none")]
async fn count(
    /// How far
    #[param(range(1..=100))]
    to: u32,
    progress: Progress,
    context: &ToolContext,
) -> String {
    for number in 1..=to {
        if context.cancellation().is_cancelled() {
            return format!("Stopped at {number}.");
        }
        progress.report(format!("{number} of {to}"));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    format!("Counted to {to}.")
}

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
    let service = McpService::new(tools![add, count]).name("sums", env!("CARGO_PKG_VERSION"));
    match given.as_slice() {
        [] => service.serve_stdio().await?,
        ["--listen", address] => served::over_http(service, address).await?,
        _ => {
            return Err(program::wrong(format!("expected nothing or `--listen ADDRESS`; {USAGE}")));
        }
    }
    Ok(ExitCode::SUCCESS)
}
