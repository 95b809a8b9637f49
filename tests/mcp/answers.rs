//! What a server says in place of a result: only a whole result says that a call has run.

use harness::ToolError;
use serde_json::{Value, json};

use super::{Scripted, call, text};

/// What a call comes to that is answered with this, in the older version and in the newer one. It is sent once.
async fn answered(result: &Value) -> Vec<Result<String, ToolError>> {
    let mut all = Vec::new();
    for version in ["", "newer-"] {
        let scripted = Scripted::new();
        let server = scripted.server(&format!("{version}answers:{result}")).connect().await;
        let server = server.expect("a server");
        let said = call(&server.tools()[0]).await;
        assert_eq!(scripted.count("call"), 1, "{version}{result}");
        all.push(said.map(|output| text(Ok(output))));
    }
    all
}

#[tokio::test]
async fn a_server_that_wants_something_first_has_not_run_the_call_however_it_says_so() {
    let form = |method: &str, field: Value| {
        let schema = json!({"type": "object", "properties": {"name": field}});
        let params = json!({"mode": "form", "message": "Who?", "requestedSchema": schema});
        json!({"who": {"method": method, "params": params}})
    };
    for wanted in [
        json!({}),
        json!({"inputRequests": []}),
        json!({"requestState": 7}),
        json!({"inputRequests": form("elicitation/create", json!({"type": "object"}))}),
        json!({"inputRequests": form("smells/create", json!({"type": "string"}))}),
        json!({"content": [{"type": "text", "text": "done"}], "inputRequests": []}),
    ] {
        let mut result = wanted;
        result["resultType"] = json!("input_required");
        for said in answered(&result).await {
            let err = said.expect_err("no result");
            assert!(!err.is_in_doubt(), "{result}: {err}");
            assert!(err.to_string().contains("has not run the call"), "{result}: {err}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_no_whole_result_leaves_the_call_in_doubt() {
    let task = json!({"taskId": "t", "status": "working", "createdAt": "2026-07-28T10:30:00Z",
        "lastUpdatedAt": "2026-07-28T10:30:00Z", "ttlMs": 1000, "resultType": "task"});
    let words = json!([{"type": "text", "text": "half of it"}]);
    for (result, said) in [
        (task, "may still run"),
        (json!({"resultType": "task", "task": {"taskId": "t"}}), "may still run"),
        (json!({"task": {"taskId": "t", "status": "working"}}), "may still run"),
        (json!({"resultType": "partial"}), "`partial`"),
        (json!({"resultType": "partial", "content": words}), "`partial`"),
        (json!({"resultType": 7, "content": words}), "`7`"),
        // Another result's members are all that is read of these, and the call may have failed.
        (json!({"messages": [], "content": words, "isError": true}), "another request"),
        (json!({"tools": [], "content": words, "isError": true}), "another request"),
        (json!({"action": "accept", "content": {}}), "another request"),
    ] {
        for answer in answered(&result).await {
            let err = answer.expect_err("no result");
            assert!(err.is_in_doubt(), "{result}: {err}");
            assert!(err.to_string().contains(said), "{result}: {err}");
        }
    }
}

#[tokio::test]
async fn a_whole_result_is_one_with_and_without_its_type() {
    let words = json!([{"type": "text", "text": "all of it"}]);
    for (result, said) in [
        (json!({"content": words}), "all of it"),
        (json!({"resultType": "complete", "content": words}), "all of it"),
        (json!({"resultType": null, "content": words}), "all of it"),
        (json!({"resultType": "complete"}), ""),
        (json!({}), ""),
    ] {
        for answer in answered(&result).await {
            assert_eq!(answer.expect("a result"), said, "{result}");
        }
    }
}

/// ggml-org/llama.cpp#26410, urbanogardun/things3-mcp#4, nicobailon/pi-mcp-adapter#588.
#[tokio::test]
async fn nothing_that_a_result_says_is_lost_whatever_its_form() {
    let words = |text: Value| json!({"type": "text", "text": text});
    for (result, said) in [
        (
            json!({"content": [], "structuredContent": {"n": 9_007_199_254_740_993_u64}}),
            "9007199254740993",
        ),
        (json!({"structuredContent": [1, 2]}), "[1,2]"),
        (json!({"toolResult": {"weather": "fine"}}), "fine"),
        (json!({"content": "all of it"}), "all of it"),
        (json!({"content": words(json!("all of it"))}), "all of it"),
        (json!({"content": [words(json!({"weather": "fine"}))]}), r#"{"weather":"fine"}"#),
        (json!({"content": [words(json!(["fine", 7]))]}), r#"["fine",7]"#),
        (json!({"content": [words(json!(42))]}), "42"),
        (json!({"content": [{"type": "text", "content": "all of it"}]}), "`text`"),
        (json!({"content": ["all of it"]}), "all of it"),
    ] {
        for answer in answered(&result).await {
            let told = answer.unwrap_or_else(|err| panic!("{result}: {err}"));
            assert!(told.contains(said), "{result}: {told}");
        }
    }
}

/// HexSleeves/tailscale-mcp#101, IBM/mcp-context-forge#4042.
#[tokio::test]
async fn a_failure_has_its_words_whatever_else_its_result_has() {
    let words = json!([{"type": "text", "text": "no such row"}]);
    for result in [
        json!({"isError": true, "content": words, "structuredContent": {"n": "no number"}}),
        json!({"isError": true, "content": words, "structuredContent": null}),
        json!({"isError": true, "content": words[0]}),
        json!({"isError": true, "content": [], "structuredContent": {"why": "no such row"}}),
    ] {
        for answer in answered(&result).await {
            let err = answer.expect_err("a failure");
            assert!(
                err.to_string().contains("no such row") && !err.is_in_doubt(),
                "{result}: {err}"
            );
        }
    }
}
