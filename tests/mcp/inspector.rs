//! The protocol's inspector, as a client that is not ours. `HARNESS_MCP_NPM` names a folder in which
//! `npm install @modelcontextprotocol/inspector` was run; without it these tests say that they skip.

use std::{path::PathBuf, process::Output};

use harness::{ToolLimits, mcp::McpService, tool, tools};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{Scripted, served_http::Served};

/// Adds two numbers.
#[tool(side_effects = "none", title = "Sum")]
fn add(/** One */ a: i64, /** Another */ b: i64) -> i64 {
    a + b
}

/// The inspector with these arguments, if it is there. It is started in a folder in which no program lies.
fn inspector(folder: &Scripted, arguments: &[&str]) -> Option<Command> {
    let Some(npm) = std::env::var_os("HARNESS_MCP_NPM") else {
        eprintln!("skipped: HARNESS_MCP_NPM names no folder with the inspector");
        return None;
    };
    let script = PathBuf::from(npm).join("node_modules/.bin/mcp-inspector-cli");
    if !script.exists() {
        eprintln!("skipped: {} is not there", script.display());
        return None;
    }
    let mut command = Command::new(script);
    command.args(arguments).current_dir(folder.folder.path()).kill_on_drop(true);
    Some(command)
}

/// What it prints, which is the result.
async fn result(command: Command) -> Value {
    let mut command = command;
    let Output { status, stdout, stderr } = command.output().await.expect("the inspector");
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{status}: {stderr}");
    serde_json::from_slice(&stdout).unwrap_or_else(|err| panic!("{err}: {stderr}"))
}
