//! The protocol's inspector, as a client that is not ours. `HARNESS_MCP_NPM` names a folder in which
//! `npm install @modelcontextprotocol/inspector` was run; without it these tests say that they skip.

use std::path::PathBuf;

use harness::{mcp::McpService, tool, tools};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{Scripted, served_http::Served};

/// Adds two numbers.
#[tool(side_effects = "none", title = "Sum")]
fn add(
    /** One */
    a: i64,
    /** Another */
    b: i64,
) -> i64 {
    a + b
}

/// Where the inspector is, if it is there.
fn script() -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("HARNESS_MCP_NPM") else {
        eprintln!("skipped: HARNESS_MCP_NPM names no folder with the inspector");
        return None;
    };
    let script = PathBuf::from(folder).join("node_modules/.bin/mcp-inspector");
    if !script.exists() {
        eprintln!("skipped: {} is not there", script.display());
        return None;
    }
    Some(script)
}

/// What the inspector prints, which is the result.
async fn result(arguments: &[&str]) -> Option<Value> {
    let mut command = Command::new("node");
    command.arg(script()?).arg("--cli").args(arguments).kill_on_drop(true);
    let ended = command.output().await.expect("the inspector");
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{}: {stderr}", ended.status);
    let printed = serde_json::from_slice(&ended.stdout);
    Some(printed.unwrap_or_else(|err| panic!("{err}: {stderr}")))
}

/// The names of the tools of a list.
fn names(listed: &Value) -> Vec<&str> {
    let tools = listed["tools"].as_array().expect("tools");
    tools.iter().filter_map(|tool| tool["name"].as_str()).collect()
}

#[tokio::test]
async fn the_inspector_lists_and_calls_over_pipes() {
    let noted = Scripted::new();
    let log = noted.path().display().to_string();
    let program = [env!("CARGO_BIN_EXE_served-mcp-program"), &log];
    let ask = async |arguments: &[&str]| result(&[program.as_slice(), arguments].concat()).await;
    let Some(listed) = ask(&["--method", "tools/list"]).await else { return };
    assert_eq!(names(&listed), ["print", "much", "hang"]);
    let call = ["--method", "tools/call", "--tool-name"];
    let much = ask(&[call.as_slice(), &["much", "--tool-arg", "bytes=3"]].concat()).await;
    assert_eq!(much.expect("a result")["content"], json!([{"type": "text", "text": "xxx"}]));
    let print = ask(&[call.as_slice(), &["print"]].concat()).await;
    assert_eq!(print.expect("a result")["content"][0]["text"], "printed");
    // The input of the program ended each time.
    assert_eq!(noted.pids().len(), 3);
    noted.until_none_lives().await;
}

#[tokio::test]
async fn the_inspector_lists_and_calls_over_http() {
    let served = Served::start(McpService::new(tools![add])).await;
    let server = [served.url.as_str(), "--transport", "http"];
    let ask = async |arguments: &[&str]| result(&[server.as_slice(), arguments].concat()).await;
    let Some(listed) = ask(&["--method", "tools/list"]).await else { return };
    assert_eq!(names(&listed), ["add"]);
    assert_eq!(listed["tools"][0]["title"], "Sum");
    let call = ["--method", "tools/call", "--tool-name", "add", "--tool-arg"];
    let sum = ask(&[call.as_slice(), &["a=2", "--tool-arg", "b=3"]].concat()).await;
    assert_eq!(sum.expect("a result")["content"], json!([{"type": "text", "text": "5"}]));
    let wrong = ask(&[call.as_slice(), &["c=x"]].concat()).await.expect("a result");
    assert_eq!(wrong["isError"], true, "{wrong}");
}
