//! Servers at an address that answer with events: what is passed over, and what ends a call.

use std::{sync::atomic::Ordering, time::Duration};

use harness::{ToolError, ToolOutput};

use super::{
    call,
    http::{Server, until},
    text,
};

const OWN: &str =
    r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"done"}]}}"#;

/// What a call comes to whose stream stays open. It is sent once.
async fn answered(way: String) -> Result<ToolOutput, ToolError> {
    let way: &'static str = way.leak();
    let server = Server::start(way);
    let it = server.connect().await;
    let tool = it.tools().remove(0);
    let answer = tokio::time::timeout(Duration::from_secs(20), call(&tool)).await;
    assert_eq!(server.calls(), 1, "{way}");
    answer.unwrap_or_else(|_| panic!("{way}: no end"))
}

/// It answers nothing, whatever its parameters are.
#[tokio::test]
async fn a_notification_that_cannot_be_read_does_not_end_the_call() {
    for told in [
        r#"{"jsonrpc":"2.0","method":"notifications/vendor/x","params":[1,2]}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":7}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"notifications/progress","params":7}"#,
        r#"[{"jsonrpc":"2.0","method":"notifications/vendor/x","params":[1,2]}]"#,
    ] {
        let answer = answered(format!("event {told}\n\ndata: {OWN}")).await;
        assert_eq!(text(answer), "done", "{told}");
    }
    for no_message in [
        r#"{"method":"notifications/vendor/x","params":[1,2]}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/vendor/x","error":7}"#,
    ] {
        let err = answered(format!("event {no_message}")).await.expect_err(no_message);
        assert!(err.is_in_doubt(), "{no_message}: {err}");
    }
}

const ODD: [&str; 10] = [
    "\n\ndata\n\ndata: OWN",
    "OWN\nretry: abc",
    "OWN\nretry: 99999999999999999999",
    "OWN\nretry: -1\nretry",
    "OWN\nid\nevent",
    "OWN\nother: x\nother\n more",
    "OWN\nid: 1\nid: 2\nretry: 1\nretry: 2\nevent: ping\nevent: message",
    "OWN\nid: a\u{0}b",
    "OWN\n: \u{7f}\n:",
    "\n\n{}\n\ndata: OWN",
];

/// Source: <https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>.
#[tokio::test]
async fn odd_fields_of_an_event_are_read_as_the_standard_says() {
    for odd in ODD {
        for way in ["event", "resumes"] {
            let answer = answered(format!("{way} {}", odd.replace("OWN", OWN))).await;
            assert_eq!(text(answer), "done", "{way} {odd:?}");
        }
    }
}

#[tokio::test]
async fn an_event_that_cannot_be_read_ends_the_call_also_if_its_stream_was_taken_up_again() {
    let long = format!(r#"{{"jsonrpc":"2.0","id":ID,"result":"{}"}}"#, "x".repeat(17 << 20));
    for (data, said) in [
        ("garbage", "no message of JSON-RPC"),
        (
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}"#,
            "an error without an id: no",
        ),
        (r#"{"jsonrpc":"2.0","id":[ID],"result":{}}"#, "which request it answers"),
        (r#"{"id":ID,"result":{}}"#, "no message of JSON-RPC"),
        (&long, "more than 16 MiB"),
    ] {
        let err = answered(format!("resumes {data}")).await.expect_err(said);
        assert!(err.is_in_doubt() && err.to_string().contains(said), "{said}: {err}");
    }
}

/// The first request for the rest of the stream settles it.
#[tokio::test]
async fn a_stream_that_the_server_does_not_continue_ends_the_call() {
    for status in ["400", "401", "403", "404", "410"] {
        let err = answered(format!("resumes-not {status}")).await.expect_err(status);
        let said = format!("refuses to continue it: HTTP {status}");
        assert!(err.is_in_doubt() && err.to_string().contains(&said), "{status}: {err}");
    }
}

/// awslabs/mcp#3295, modelcontextprotocol/rust-sdk#849, modelcontextprotocol/java-sdk#748.
#[tokio::test]
async fn a_session_begins_whatever_answers_the_message_that_it_has_begun() {
    for answer in [
        "200 OK|application/json|null",
        "200 OK|application/json|",
        r#"200 OK|application/json|{"jsonrpc":"2.0","id":null,"result":{}}"#,
        "200 OK|text/html|<html></html>",
        "200 OK|text/event-stream|",
        "202 Accepted|text/plain|Accepted",
        "204 No Content|text/plain|",
    ] {
        let server = Server::start(format!("begins {answer}").leak());
        let it = server.connect().await;
        assert_eq!(text(call(&it.tools()[0]).await), "done", "{answer}");
    }
}

/// render-oss/render-mcp-server#26.
#[tokio::test]
async fn calls_go_on_although_a_server_ends_its_own_stream_and_refuses_another_one() {
    for status in ["400", "404", "409", "500"] {
        let server = Server::start(format!("listens-once {status}").leak());
        let it = server.connect().await;
        until(|| server.answers.load(Ordering::SeqCst) > 1).await;
        assert_eq!(text(call(&it.tools()[0]).await), "done", "{status}");
        assert_eq!(text(call(&it.tools()[0]).await), "done", "{status}");
        it.close().await;
    }
}
