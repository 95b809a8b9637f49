//! Streams for front ends in browsers. What they come to is read by the real clients of npm: `HARNESS_WEB_NPM` names a folder in
//! which `npm install ai @ag-ui/client` has run. Without it, or without node, the tests that need them say so and pass.

mod ag_ui;
mod answers;
mod history;
mod public;
mod reloads;
mod server;
mod ui_message;

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use harness::agent::Numbered;
use serde_json::{Value, json};

/// Runs a script of this folder with a command. `None` without node or its packages.
fn node(script: &str, command: &Value) -> Option<Value> {
    let Some(npm) = std::env::var_os("HARNESS_WEB_NPM") else {
        eprintln!(
            "skipped: `HARNESS_WEB_NPM` names no folder with the packages `ai` and `@ag-ui/client`"
        );
        return None;
    };
    let own = Path::new(&npm).join("node_modules/.bin/node");
    let node = if own.exists() { own.as_os_str() } else { "node".as_ref() };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("web").join(script);
    let mut process = Command::new(node);
    process.arg(script).arg(&npm).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = match process.spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("skipped: node does not start: {error}");
            return None;
        }
    };
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(command.to_string().as_bytes()).expect("a command");
    drop(input);
    let output = child.wait_with_output().expect("an end");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    Some(serde_json::from_slice(&output.stdout).expect("JSON"))
}

/// Events of one run, of their JSON.
fn events(events: &[Value]) -> Vec<Numbered> {
    let numbered = |(at, event): (usize, &Value)| {
        let mut event = event.clone();
        event["run"] = json!("run_1");
        event["number"] = json!(at + 1);
        serde_json::from_value(event).expect("an event")
    };
    events.iter().enumerate().map(numbered).collect()
}
