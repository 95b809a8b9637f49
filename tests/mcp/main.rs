//! Tools of servers that speak the Model Context Protocol: what a call comes to, whatever the server does.

mod answers;
mod approved;
mod bounds;
mod content;
mod hostile;
mod http;
mod http_beside;
mod http_events;
mod inspector;
mod later;
mod lines;
mod many;
mod newer;
mod newer_http;
mod npm;
#[cfg(feature = "mcp-oauth")]
mod oauth;
mod offers;
mod served;
mod served_beside;
mod served_child;
mod served_http;
mod served_lost;
mod served_odd;
mod stdio;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use harness::{Tool, ToolContext, ToolError, ToolOutput, mcp::McpServerBuilder};
use harness_test_support::measured;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A scripted server and what it has noted.
struct Scripted {
    folder: TempDir,
}

impl Scripted {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// The server that behaves in this way.
    fn server(&self, way: &str) -> McpServerBuilder {
        let program = env!("CARGO_BIN_EXE_scripted-mcp-server");
        let log = self.path().display().to_string();
        harness::mcp::McpServer::command(program, [way.to_owned(), log]).name("it")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path()).unwrap_or_default()
    }

    /// How often it has noted this.
    fn count(&self, line: &str) -> usize {
        self.log().lines().filter(|noted| *noted == line).count()
    }

    /// The processes that it was and has started.
    fn pids(&self) -> Vec<u32> {
        let log = self.log();
        let pids = log.lines().filter_map(|line| line.strip_prefix("pid ")?.parse().ok());
        pids.collect()
    }

    /// Waits until this holds.
    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        for _ in 0..1000 {
            if holds(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{what} did not come to be: {}", self.log());
    }

    async fn until_none_lives(&self) {
        self.until("the end of all processes", |this| !this.pids().into_iter().any(lives)).await;
    }
}

/// Whether there is a process of this number that has not ended.
fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|stat| {
        !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z')
    })
}

async fn call(tool: &Tool) -> Result<ToolOutput, ToolError> {
    call_with(tool, json!({"a": 1})).await
}

async fn call_with(tool: &Tool, arguments: Value) -> Result<ToolOutput, ToolError> {
    tool.call(&ToolContext::new("call_1"), arguments).await
}

fn text(output: Result<ToolOutput, ToolError>) -> String {
    let output = output.expect("an output");
    let texts: Vec<String> =
        output.content().iter().filter_map(harness::ToolContent::to_text).collect();
    texts.join("\n")
}
