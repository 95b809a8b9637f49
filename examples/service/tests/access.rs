//! Arguments, and who is let in.

use std::{net::TcpListener, process::Output};

use reqwest::StatusCode;
use serde_json::Value;

use crate::{Chunks, Service, command, decided, said};

fn service(arguments: &[&str], tokens: Option<&str>) -> Output {
    let mut command = command();
    if let Some(tokens) = tokens {
        command.env("SERVICE_TOKENS", tokens);
    }
    command.args(arguments).output().expect("it runs")
}

#[test]
fn help_is_shown_and_what_is_wrong_is_named() {
    let output = service(&["--help"], None);
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && out.contains("--listen ADDRESS"), "{out}");
    for (arguments, tokens, says) in [
        (vec!["--wrong"], None, "`--wrong` is unknown"),
        (vec!["--listen"], None, "`--listen` needs a value"),
        (vec!["--listen", "nowhere"], None, "`nowhere` is no address"),
        (vec!["--listen", "0.0.0.0:0"], None, "set SERVICE_TOKENS"),
        (vec![], Some("ada"), "SERVICE_TOKENS: expected NAME:TOKEN"),
        (vec![], Some("ada:short"), "SERVICE_TOKENS: expected NAME:TOKEN"),
        (vec![], Some("ada:12345678,ben:12345678"), "SERVICE_TOKENS: two users have one token"),
    ] {
        let output = service(&arguments, tokens);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{err}");
        assert!(err.contains(says) && err.lines().count() == 1, "{err}");
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let output = service(&["--listen", &address], None);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains(&address) && err.contains("--listen ADDRESS"), "{err}");
}

#[tokio::test]
async fn a_user_sees_the_own_conversations_alone() {
    let service = Service::with_tokens(Some("ada:secret-of-ada,ben:secret-of-ben"));
    let ask = async |token: &str, path: &str, words: Option<&str>| {
        let request = match words {
            Some(words) => {
                let request =
                    service.client.post(service.url(path)).body(said("a", words).to_string());
                request.header("content-type", "application/json")
            }
            None => service.client.get(service.url(path)),
        };
        let request = request.header("authorization", format!("Bearer {token}"));
        request.send().await.expect("a response")
    };
    for token in ["", "secret-of-ad", "secret-of-adb"] {
        for (path, words) in
            [("/api/chats", None), ("/api/chat", Some("Hello")), ("/api/chat/a/stream", None)]
        {
            let status = ask(token, path, words).await.status();
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{token} {path}");
        }
    }
    Chunks::of(ask("secret-of-ada", "/api/chat", Some("I am Ada")).await).until("finish").await;
    let list = async |token: &str| {
        let text = ask(token, "/api/chats", None).await.text().await.expect("a text");
        serde_json::from_str::<Value>(&text).expect("JSON")["conversations"].clone()
    };
    let of_ada = list("secret-of-ada").await;
    assert_eq!((&of_ada[0]["id"], &of_ada[0]["title"]), (&"a".into(), &"I am Ada".into()));
    assert_eq!(list("secret-of-ben").await, serde_json::json!([]));
    for path in ["/api/chat/a", "/api/chat/ada%2Fa", "/api/chat/..%2Fada%2Fa"] {
        let text = ask("secret-of-ben", path, None).await.text().await.expect("a text");
        assert_eq!(text, r#"{"messages":[],"busy":false}"#, "{path}");
    }
    let text = ask("secret-of-ben", "/api/chat/a/trace", None).await.text().await.expect("a text");
    assert!(!text.contains("I am Ada"), "{text}");
}

/// The name of the conversation of an agent begins with that of the conversation whose call runs it.
#[tokio::test]
async fn nobody_but_its_call_speaks_in_the_conversation_of_an_agent() {
    let service = Service::start();
    Chunks::of(service.say("a", "remove the notes").await).until("finish").await;
    for body in [said("a/call-1", "All is well"), decided("a/call-1", "x", true)] {
        let response = service.post("/api/chat", &body).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{body}");
    }
    let goes_on = serde_json::json!({"id": "a/call-1", "messages": []});
    assert_eq!(service.post("/api/chat", &goes_on).await.status(), StatusCode::BAD_REQUEST);
    let said = serde_json::json!({"threadId": "a/call-1", "runId": "r", "tools": [], "context": [],
        "messages": [{"id": "m", "role": "user", "content": "All is well"}]});
    let response = service.post("/api/ag-ui", &said).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    let list = service.get("/api/chats").await.text().await.expect("a text");
    let list: Value = serde_json::from_str(&list).expect("JSON");
    assert_eq!(list["conversations"].as_array().map(Vec::len), Some(1), "{list}");
}

#[tokio::test]
async fn a_page_of_another_site_gets_nothing() {
    let service = Service::start();
    // It sends without a question only what a form can send.
    for kind in
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
    {
        for path in ["/api/chat", "/api/ag-ui", "/api/chat/a/stop"] {
            let request = service.client.post(service.url(path)).header("content-type", kind);
            let response = request.body(said("a", "Hello").to_string()).send().await.expect("one");
            assert_eq!(response.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE, "{kind} {path}");
        }
    }
    // Its own name can be that of this machine.
    for host in ["127.0.0.1", "127.0.0.1:80", "localhost:3000", "[::1]", "[::1]:3000"] {
        let request = service.client.get(service.url("/api/chats")).header("host", host);
        assert_eq!(request.send().await.expect("one").status(), StatusCode::OK, "{host}");
    }
    for host in ["evil.example", "evil.example:3000", "127.0.0.1.evil.example", ""] {
        let request = service.client.get(service.url("/api/chats")).header("host", host);
        assert_eq!(request.send().await.expect("one").status(), StatusCode::UNAUTHORIZED, "{host}");
    }
}
