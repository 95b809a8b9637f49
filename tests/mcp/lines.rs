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
{"level":"error","id":ID,"error":"disk full"}
{"id":ID,"result":"saved"}
{"method":"GET","path":"/x","id":ID,"result":200}
{"jsonrpc":"2.0","id":ID,"message":"request started"}
{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"done"}]}}"#;
    let server = started(&scripted, way).await;
    assert_eq!(text(soon("the call", call(&server.tools()[0])).await), "done");
}

#[tokio::test]
async fn logs_in_json_do_not_end_the_beginning_of_a_session() {
    for at in ["initialize", "tools/list"] {
        for line in [
            r#"{"id":ID,"error":"disk full"}"#,
            r#"{"id":ID,"result":"x","level":"info"}"#,
            r#"{"jsonrpc":"2.0","id":ID,"direction":"in"}"#,
        ] {
            let scripted = Scripted::new();
            let way = format!("logs-at {at}:{line}");
            let server = soon(&way, started(&scripted, &way)).await;
            assert_eq!(text(soon(&way, call(&server.tools()[0])).await), "ran in life 1", "{way}");
        }
    }
}

/// It may be a log or an answer that was not written to its end.
#[tokio::test]
async fn a_line_with_the_number_of_a_call_ends_each_such_call_if_nothing_else_comes() {
    for line in [r#"{"jsonrpc":"2.0","id":ID}"#, r#"{"id":ID,"result":{"content":[]}}"#] {
        let scripted = Scripted::new();
        let server = started(&scripted, &format!("writes:{line}")).await;
        let tool = server.tools().remove(0);
        let (one, two) = soon(line, async { tokio::join!(call(&tool), call(&tool)) }).await;
        for err in [one, two].map(|answer| answer.expect_err(line)) {
            assert!(
                err.is_in_doubt() && err.to_string().contains("no message of"),
                "{line}: {err}"
            );
        }
    }
}

const REPLIES: [&str; 5] = [
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}"#,
    r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"}}"#,
    r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
    r#"{"jsonrpc":"2.0","result":null}"#,
    r#"{"jsonrpc":"2.0","id":undefined,"result":{}}"#,
];

#[tokio::test]
async fn a_reply_to_a_message_without_an_id_does_not_end_the_only_request() {
    for order in ["first", "last"] {
        for line in REPLIES {
            let way = format!("replies-{order}:{line}");
            let scripted = Scripted::new();
            let server = soon(&way, started(&scripted, &way)).await;
            let tool = server.tools().remove(0);
            assert_eq!(text(soon(&way, call(&tool)).await), "ran in life 1", "{way}");
            // The answer to a ping of the server is replied to as well.
            let pinged = soon(&way, call_with(&tool, json!({"a": 2}))).await;
            assert_eq!(text(pinged), "after a ping", "{way}");
            tokio::select! {
                _ = call_with(&tool, json!({"a": 4})) => panic!("it is never answered"),
                () = scripted.until("the call", |it| it.count("call") == 2) => {}
            }
            let told = |it: &Scripted| it.count("notifications/cancelled") == 1;
            scripted.until("the cancellation", told).await;
            assert_eq!(text(soon(&way, call(&tool)).await), "ran in life 1", "{way}");
        }
    }
}

#[tokio::test]
async fn one_reply_more_than_there_are_such_messages_ends_the_only_request() {
    for (line, said) in [
        (REPLIES[0], "an error without an id: Method not found (code -32601)"),
        (REPLIES[1], "an error without an id: Method not found (code -32601)"),
        (REPLIES[2], "it does not say which request it answers"),
        (REPLIES[4], "it does not say which request it answers"),
    ] {
        let way = format!("replies-first:{line}");
        let scripted = Scripted::new();
        let server = started(&scripted, &way).await;
        let tool = server.tools().remove(0);
        // A call that was stopped is no longer one of several that may be meant.
        tokio::select! {
            _ = call_with(&tool, json!({"a": 4})) => panic!("it is never answered"),
            () = scripted.until("the call", |it| it.count("call") == 1) => {}
        }
        let told = |it: &Scripted| it.count("notifications/cancelled") == 1;
        scripted.until("the cancellation", told).await;
        assert_eq!(text(soon(&way, call(&tool)).await), "ran in life 1", "{way}");
        let err = soon(&way, call_with(&tool, json!({"a": 3}))).await.expect_err(&way);
        assert!(err.is_in_doubt() && err.to_string().contains(said), "{way}: {err}");
    }
}

#[tokio::test]
async fn an_answer_whose_id_is_none_ends_the_only_request_at_once() {
    for id in ["[7]", "[ID]", "{}", "true", "7.5", "+7", "07", "undefined", "None"] {
        let way = format!(r#"writes:{{"jsonrpc":"2.0","id":{id},"result":{{"content":[]}}}}"#);
        let scripted = Scripted::new();
        let server = started(&scripted, &way).await;
        let err = soon(id, call(&server.tools()[0])).await.expect_err(id);
        let said = "it does not say which request it answers";
        assert!(err.is_in_doubt() && err.to_string().contains(said), "{id}: {err}");
    }
}

#[tokio::test]
async fn of_a_list_the_answer_with_the_id_of_the_call_is_taken() {
    let own = r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"done"}]}}"#;
    let without = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}"#;
    for list in [format!("[{without},{own}]"), format!("[7,{{}},{own}]")] {
        let scripted = Scripted::new();
        let server = started(&scripted, &format!("writes:{list}")).await;
        assert_eq!(text(soon(&list, call(&server.tools()[0])).await), "done", "{list}");
    }
}
