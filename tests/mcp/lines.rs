//! Servers whose standard output has more than messages, or messages that do not say what they answer.

use std::time::Duration;

use harness::mcp::McpServer;
use serde_json::json;

use super::{Scripted, call, call_with, text};

async fn started(scripted: &Scripted, way: &str) -> McpServer {
    scripted.server(way).connect().await.unwrap_or_else(|err| panic!("{way}: {err}"))
}

/// Fails if it has not ended long before the time limit of a call.
async fn soon<T>(what: &str, ends: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), ends).await.unwrap_or_else(|_| panic!("{what}"))
}

#[tokio::test]
async fn logs_in_json_are_no_messages_and_get_no_answer() {
    let scripted = Scripted::new();
    let server = started(&scripted, "logs-in-json").await;
    let tool = server.tools().remove(0);
    for _ in 0..2 {
        assert_eq!(text(soon("the call", call(&tool)).await), "all rows");
    }
    assert_eq!(scripted.pids().len(), 1, "it was started once");
    // What was written to it before the last call was read before it.
    assert_eq!(scripted.count("answer"), 0);
}

#[tokio::test]
async fn logs_in_json_do_not_end_a_call_by_the_number_of_their_rows() {
    let scripted = Scripted::new();
    let way = r#"writes:{"level":"info","id":ID,"message":"read"}
{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"done"}]}}"#;
    let server = started(&scripted, way).await;
    assert_eq!(text(soon("the call", call(&server.tools()[0])).await), "done");
}
