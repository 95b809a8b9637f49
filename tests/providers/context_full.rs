//! A full context window is an error kind of its own, in the words of any vendor.

use harness::{
    Agent, Error, ErrorKind, Outcome, SideEffects, Tool,
    testing::{ScriptedProvider, reply},
};
use serde_json::json;

fn api(status: u16, code: &str, message: &str) -> Error {
    Error::new(ErrorKind::Api, message).with_status(status).with_code(code)
}

#[test]
fn every_vendors_words_for_it_are_known_and_other_words_are_not() {
    let full = [
        api(400, "invalid_request_error", "prompt is too long: 212000 tokens > 200000 maximum"),
        api(400, "context_length_exceeded", "Your input exceeds the context window of this model."),
        api(
            400,
            "exceed_context_size_error",
            "request (2009 tokens) exceeds the available context",
        ),
        api(400, "invalid_request_error", "prompt too long; exceeded max context length by 19"),
        api(400, "too_many_prompt_tokens", "The total length of all messages is too long."),
        api(400, "400", "This model's maximum context length is 4096 tokens. You requested 5000."),
        Error::new(ErrorKind::Api, "failed").with_code("context_length_exceeded"),
    ];
    for error in full {
        assert!(error.is_context_full(), "{error}");
        assert_eq!(error.kind(), ErrorKind::ContextFull, "{error}");
        assert!(!error.is_retryable(), "{error}");
    }
    let other = [
        api(400, "invalid_request_error", "max_tokens: must be at least 1"),
        api(429, "rate_limit_error", "input tokens per minute: prompt is too long for your tier"),
        api(413, "request_too_large", "Request exceeds the maximum size"),
        api(529, "overloaded_error", "Overloaded"),
        Error::new(ErrorKind::TooLarge, "prompt is too long"),
    ];
    for error in other {
        assert!(!error.is_context_full(), "{error}");
    }
}

/// Four letters are a token: of what is said, of what is called and of what is answered.
#[tokio::test]
async fn calls_and_results_fill_the_window_too() {
    let schema = json!({"type": "object"});
    let look = Tool::new("look", "Looks.", schema, SideEffects::NONE, |_, _| {
        Box::pin(async { Ok("seen".repeat(500).into()) })
    });
    let model = ScriptedProvider::new([
        reply().text("Hm..").call("look", json!({"at": "here".repeat(100)})),
        reply().text("Done"),
    ]);
    let agent = Agent::builder(model).tools([look]).build().expect("an agent");
    let mut chat = agent.chat();
    let empty = chat.context().parts;
    let reply = chat.send("Go..").await.expect("an answer");
    // A word each of the user and the model, the name, the arguments, the result.
    let sent = 1 + 1 + 1 + (400 + r#"{"at":""}"#.len() as u64).div_ceil(4) + 500;
    assert_eq!((reply.context().history, reply.context().tools), (sent, empty.tools));
    assert_eq!(chat.context().parts.history, sent + 1, "and the answer");
    assert_eq!((empty.history, empty.measured), (0, false));
}

#[tokio::test]
async fn a_run_says_so_and_what_filled_the_window() {
    let model = ScriptedProvider::new([reply().error(api(
        400,
        "invalid_request_error",
        "prompt is too long: 9 tokens > 8 maximum",
    ))]);
    let agent = Agent::builder(model).system("x".repeat(4000)).build().expect("an agent");
    let stopped = agent.run("Go.").await.expect_err("no answer");
    assert_eq!(stopped.outcome(), Outcome::Failed);
    assert!(stopped.error().is_some_and(Error::is_context_full));
    let context = stopped.context();
    assert_eq!((context.system, context.history, context.measured), (1000, 1, false));
}

/// Some servers say of each request that it had no tokens at all. That is no measure of what is sent.
#[tokio::test]
async fn a_server_that_reports_no_tokens_leaves_the_estimate_as_it_is() {
    for (counted, expected) in [(0, 501), (2_000, 2_011)] {
        let model = ScriptedProvider::new([reply().text("Yes.").tokens(counted, 0)]);
        let mut chat = Agent::builder(model).build().expect("an agent").chat();
        chat.send("y".repeat(2_000)).await.expect("an answer");
        let context = chat.context();
        assert_eq!((context.used, context.parts.total()), (expected, 501), "{counted}");
    }
}
