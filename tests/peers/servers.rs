//! Servers of tools behind pipes: what one call does must not harm the next.

use std::{fs, time::Duration};

use harness::{CancellationToken, Tool, ToolContext, mcp::McpServer};
use serde_json::json;

async fn started(way: &str, log: &std::path::Path) -> McpServer {
    let program = env!("CARGO_BIN_EXE_scripted-mcp-server");
    let log = log.display().to_string();
    McpServer::command(program, [way.to_owned(), log]).name("it").connect().await.expect("a server")
}

async fn called(tool: &Tool, arguments: serde_json::Value) -> String {
    let output = tool.call(&ToolContext::new("call_1"), arguments).await.expect("an output");
    output.content().iter().filter_map(harness::ToolContent::to_text).collect()
}

/// QwenLM/qwen-code#11272.
#[tokio::test]
async fn a_server_goes_on_in_the_same_process_after_a_call_was_cancelled() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let server = started("asks-many", &log).await;
    let tool = server.tools().remove(0);
    let stop = CancellationToken::new();
    let context = ToolContext::new("call_1").with_cancellation(stop.clone());
    let noted = || fs::read_to_string(&log).unwrap_or_default();
    let stopping = async {
        while !noted().lines().any(|line| line == "call") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.cancel();
    };
    let (result, ()) = tokio::join!(tool.call(&context, json!({"a": 2})), stopping);
    assert!(result.unwrap_err().is_in_doubt());
    assert_eq!(called(&tool, json!({"a": 3})).await, "done");
    assert_eq!(noted().matches("pid ").count(), 1, "{}", noted());
    server.close().await;
}

/// ggml-org/llama.cpp#28723.
#[tokio::test]
async fn large_requests_at_once_are_answered() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = started("bad-tools", &folder.path().join("log")).await;
    let any = server.tools().into_iter().find(|tool| tool.name().contains("odd"));
    let any = any.expect("the tool that takes everything");
    let large = "x".repeat(4 << 20);
    let calls = (0..3).map(|at| called(&any, json!({"a": at, "rest": large})));
    assert_eq!(futures_util::future::join_all(calls).await, ["ran in life 1"; 3]);
    server.close().await;
}
