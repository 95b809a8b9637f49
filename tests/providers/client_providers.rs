//! OpenAI's provider and the one for Chat Completions, over a real socket: which addresses they
//! ask, with which headers, and how they read answers.

use std::time::Duration;

use async_openai::types::{
    chat::{CreateChatCompletionRequestArgs, ReasoningEffort},
    responses::CreateResponseArgs,
};
use futures_util::StreamExt as _;
use harness::{
    AnthropicProvider, ChatCompletionsProvider, Error, ErrorKind, Message, OpenAIProvider,
    Provider, StopReason, StreamEvent, Transcript,
    client::Timeouts,
    policy::RetryPolicy,
    provider::{Effort, ProviderResponse, Request, ResponseSizeLimits, Settings, accumulate},
    testing::{Answer, LoopbackServer},
    wire::chat::ThinkTags,
};
use serde_json::json;

use crate::decoded::{named, unnamed};

async fn ask(provider: &impl Provider) -> Result<ProviderResponse, Error> {
    let mut transcript = Transcript::default();
    transcript.push(Message::user("Oslo?"))?;
    accumulate(provider.stream(Request::new(&transcript)?)).await
}

fn responses_body() -> String {
    named(&[
        json!({"type": "response.created", "response": {"id": "resp_1", "model": "m"}}),
        json!({"type": "response.output_text.delta", "output_index": 0, "delta": "Cold."}),
        json!({"type": "response.completed", "response": {"status": "completed",
            "usage": {"input_tokens": 3, "output_tokens": 2}}}),
    ])
}

fn chat_body(text: &str) -> String {
    let chunk = |delta, finish: Option<&str>| json!({"id": "c1", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    unnamed(&[chunk(json!({"content": text}), None), chunk(json!({}), Some("stop"))])
        + "data: [DONE]\n\n"
}

fn openai(server: &LoopbackServer) -> harness::client::OpenAIBuilder {
    OpenAIProvider::builder().api_key("sk-secret-1").base_url(server.url()).model("gpt-test")
}

fn chat_completions(server: &LoopbackServer) -> harness::client::ChatCompletionsBuilder {
    ChatCompletionsProvider::builder().base_url(server.url()).model("qwen")
}

#[test]
fn a_provider_is_called_as_its_builder_says_or_its_vendor_or_else_its_server() {
    let chat = |url: &str| ChatCompletionsProvider::builder().base_url(url).model("m");
    let openai = |url: &str| OpenAIProvider::builder().api_key("k").base_url(url);
    let anthropic = |url: &str| AnthropicProvider::builder().api_key("k").base_url(url);
    let called = |provider: &dyn Provider| provider.name().to_owned();

    assert_eq!(called(&chat("https://api.groq.com/openai/v1").build().unwrap()), "groq");
    assert_eq!(called(&chat("https://me.openai.azure.com").build().unwrap()), "azure");
    assert_eq!(called(&chat("http://127.0.0.1:11434").build().unwrap()), "127.0.0.1:11434");
    assert_eq!(called(&chat("https://me:key@llm.a.test/v1?k=1").build().unwrap()), "llm.a.test");
    // A machine that is called like a vendor is not the vendor, whose prices it would get.
    assert_eq!(called(&chat("http://mistral/v1").build().unwrap()), "mistral:80");
    assert_eq!(called(&chat("http://127.0.0.1:11434").name("ollama").build().unwrap()), "ollama");

    assert_eq!(called(&openai("https://me.openai.azure.com").build().unwrap()), "azure");
    assert_eq!(called(&openai("http://127.0.0.1:1").build().unwrap()), "openai");
    assert_eq!(called(&openai("http://127.0.0.1:1").name("gateway").build().unwrap()), "gateway");
    assert_eq!(
        called(&anthropic("https://api.deepseek.com/anthropic").build().unwrap()),
        "deepseek"
    );
    assert_eq!(called(&anthropic("http://127.0.0.1:1").build().unwrap()), "anthropic");
}

#[tokio::test]
async fn openai_is_asked_over_responses() {
    let server = LoopbackServer::start([Answer::sse(responses_body())]).await.unwrap();
    let answer = ask(&openai(&server).build().unwrap()).await.unwrap();
    assert_eq!(answer.message.unwrap().text(), "Cold.");
    assert_eq!((answer.stop, answer.usage.input), (StopReason::Complete, Some(3)));
    let request = &server.requests()[0];
    assert_eq!((request.method(), request.path()), ("POST", "/v1/responses"));
    assert_eq!(request.header("authorization"), Some("Bearer sk-secret-1"));
    assert_eq!(request.json()["input"][0]["content"][0]["text"], "Oslo?");
}

#[tokio::test]
async fn what_was_said_is_heard_before_the_failure() {
    let chunk = |words: &str, finish: Option<&str>| {
        let choice = json!({"index": 0, "delta": {"content": words}, "finish_reason": finish});
        unnamed(&[json!({"id": "c1", "choices": [choice]})])
    };
    let said = chunk("Cold", None);
    let table = [
        // The server gives up in the event that brings the last words.
        (said.clone() + &chunk(" and", Some("error")), ErrorKind::Api),
        // The connection closes before the line after them.
        (said.clone() + chunk(" and", None).trim_end(), ErrorKind::CutOff),
        // Not before it, but without a word.
        (said + &chunk(" and", None), ErrorKind::CutOff),
    ];
    for (body, kind) in table {
        let server = LoopbackServer::start([Answer::sse(body.clone())]).await.unwrap();
        let provider = chat_completions(&server).build().unwrap();
        let mut transcript = Transcript::default();
        transcript.push(Message::user("Oslo?")).unwrap();
        let heard: Vec<_> = provider.stream(Request::new(&transcript).unwrap()).collect().await;
        let words = |event: &Result<StreamEvent, Error>| match event {
            Ok(StreamEvent::TextDelta { text, .. }) => text.clone(),
            Ok(_) => String::new(),
            Err(err) => format!(": {:?}", err.kind()),
        };
        let told: String = heard.iter().map(words).collect();
        assert_eq!(told, format!("Cold and: {kind:?}"), "{body}");
    }
}

#[tokio::test]
async fn the_servers_own_error_wins_over_a_connection_that_breaks_behind_it() {
    let body = chat_body("Cold.").replace("[DONE]\n\n", r#"{"error":{"message":"gone"}}"#);
    let body = body.replacen(r#""finish_reason":"stop""#, r#""finish_reason":null"#, 1);
    let server = LoopbackServer::start([Answer::sse(&*body).cut_at(body.len())]).await.unwrap();
    let err = ask(&chat_completions(&server).build().unwrap()).await.unwrap_err();
    assert_eq!((err.kind(), err.message()), (ErrorKind::Api, "gone"));
}

#[tokio::test]
async fn a_local_server_is_asked_over_chat_without_a_key() {
    let server = LoopbackServer::start([Answer::sse(chat_body("Cold."))]).await.unwrap();
    let answer = ask(&chat_completions(&server).build().unwrap()).await.unwrap();
    assert_eq!(answer.message.unwrap().text(), "Cold.");
    let request = &server.requests()[0];
    assert_eq!((request.path(), request.header("authorization")), ("/v1/chat/completions", None));
    assert_eq!(request.json()["messages"], json!([{"role": "user", "content": "Oslo?"}]));
}

#[tokio::test]
async fn a_hosted_server_is_asked_at_its_own_path_with_a_key_and_headers() {
    let server =
        LoopbackServer::start([Answer::sse(chat_body("<think>Hm.</think>Cold."))]).await.unwrap();
    let provider = chat_completions(&server)
        .base_url(format!("{}/api/v1", server.url()))
        .api_key("sk-secret-1")
        .header("x-title", "test")
        .think_tags(ThinkTags::Split)
        .effort(Effort::Low)
        .extra("seed", 7)
        .build()
        .unwrap();
    assert_eq!(ask(&provider).await.unwrap().message.unwrap().text(), "Cold.");
    let request = &server.requests()[0];
    assert_eq!(request.path(), "/api/v1/chat/completions");
    assert_eq!(request.header("authorization"), Some("Bearer sk-secret-1"));
    assert_eq!(request.header("x-title"), Some("test"));
    assert_eq!(
        (&request.json()["seed"], &request.json()["reasoning_effort"]),
        (&json!(7), &json!("low"))
    );
}

#[tokio::test]
async fn settings_of_one_question_win_over_the_providers_own() {
    let server = LoopbackServer::start([Answer::sse(chat_body("Cold."))]).await.unwrap();
    let provider = chat_completions(&server).max_tokens(100).effort(Effort::High).build().unwrap();
    let mut transcript = Transcript::default();
    transcript.push(Message::user("Oslo?")).unwrap();
    let own = Settings { max_tokens: Some(5), ..Settings::default() };
    let request = Request::new(&transcript).unwrap().with_settings(Some(&own));
    accumulate(provider.stream(request)).await.unwrap();
    let body = server.requests()[0].json();
    assert_eq!((&body["max_tokens"], &body["reasoning_effort"]), (&json!(5), &json!("high")));
}

#[tokio::test]
async fn a_typed_request_is_the_template_and_the_builder_wins() {
    let server = LoopbackServer::start([Answer::sse(responses_body())]).await.unwrap();
    let template = CreateResponseArgs::default()
        .model("gpt-template")
        .input("never sent")
        .temperature(0.5)
        .max_output_tokens(9_u32)
        .build()
        .unwrap();
    let provider = OpenAIProvider::builder()
        .api_key("k")
        .base_url(server.url())
        .template(&template)
        .unwrap()
        .max_tokens(100)
        .build()
        .unwrap();
    ask(&provider).await.unwrap();
    let body = server.requests()[0].json();
    assert_eq!((&body["model"], &body["temperature"]), (&json!("gpt-template"), &json!(0.5)));
    assert_eq!(body["max_output_tokens"], 100);
    assert_eq!(body["input"][0]["content"][0]["text"], "Oslo?");

    let server = LoopbackServer::start([Answer::sse(chat_body("Cold."))]).await.unwrap();
    let template = CreateChatCompletionRequestArgs::default()
        .model("template")
        .messages(Vec::new())
        .reasoning_effort(ReasoningEffort::High)
        .build()
        .unwrap();
    let provider = ChatCompletionsProvider::builder()
        .base_url(server.url())
        .template(&template)
        .unwrap()
        .build()
        .unwrap();
    ask(&provider).await.unwrap();
    let body = server.requests()[0].json();
    assert_eq!((&body["model"], &body["reasoning_effort"]), (&json!("template"), &json!("high")));
}

#[tokio::test]
async fn an_error_inside_the_stream_carries_the_id_of_the_answer() {
    let body =
        named(&[json!({"type": "error", "error": {"code": "server_error", "message": "no"}})]);
    let server =
        LoopbackServer::start([Answer::sse(body).header("x-request-id", "req_9")]).await.unwrap();
    let provider = openai(&server).build().unwrap().with_retry(RetryPolicy::none());
    let err = ask(&provider).await.unwrap_err();
    assert_eq!((err.code(), err.request_id()), (Some("server_error"), Some("req_9")));
}

#[tokio::test]
async fn errors_of_proxies_are_errors_whatever_they_call_their_body() {
    let error = r#"{"error":{"message":"upstream","type":"x","code":"500"}}"#;
    for answer in [
        Answer::bytes(500, "text/event-stream", format!("data: {error}\n\n")),
        Answer::bytes(500, "application/json", error),
        Answer::bytes(500, "text/plain", error),
    ] {
        let server = LoopbackServer::start([answer]).await.unwrap();
        let provider = chat_completions(&server).build().unwrap().with_retry(RetryPolicy::none());
        let err = ask(&provider).await.unwrap_err();
        assert_eq!(
            (err.kind(), err.status(), err.message()),
            (ErrorKind::Api, Some(500), "upstream")
        );
    }
}

#[tokio::test]
async fn an_answer_in_one_piece_is_read_although_a_stream_was_asked_for() {
    let body = json!({"object": "chat.completion", "choices": [{"message": {"content": "Cold."}, "finish_reason": "stop"}]});
    let server =
        LoopbackServer::start([Answer::json(200, &body), Answer::json(200, &json!({"hello": 1}))])
            .await
            .unwrap();
    let provider = chat_completions(&server).build().unwrap();
    assert_eq!(ask(&provider).await.unwrap().message.unwrap().text(), "Cold.");
    let err = ask(&provider).await.unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Protocol);
}

#[tokio::test]
async fn an_answer_in_one_piece_that_breaks_off_is_told_as_that() {
    let body = json!({"object": "chat.completion", "choices": [{"message": {"content": "Cold."}, "finish_reason": "stop"}]});
    let answer = || Answer::json(200, &body).header("x-request-id", "req_7");
    let clocks = Timeouts { first_event: Duration::from_millis(150), ..Timeouts::default() };
    for (answer, kind) in [
        (answer().cut_at(40), ErrorKind::CutOff),
        (answer().reset_at(40), ErrorKind::CutOff),
        (answer().stall_at(40), ErrorKind::Timeout),
    ] {
        let server = LoopbackServer::start([answer]).await.unwrap();
        let provider = chat_completions(&server).timeouts(clocks).build().unwrap();
        let err = ask(&provider.with_retry(RetryPolicy::none())).await.unwrap_err();
        assert_eq!((err.kind(), err.request_id()), (kind, Some("req_7")), "{err}");
    }
}

#[tokio::test]
async fn an_answer_over_a_limit_is_refused() {
    let small = |limits| async move {
        let server =
            LoopbackServer::start([Answer::sse(chat_body(&"x".repeat(500)))]).await.unwrap();
        ask(&chat_completions(&server).response_size_limits(limits).build().unwrap())
            .await
            .unwrap_err()
    };
    for (limits, name) in [
        (
            ResponseSizeLimits { event: 300, ..ResponseSizeLimits::default() },
            "ResponseSizeLimits::event",
        ),
        (
            ResponseSizeLimits { response: 300, ..ResponseSizeLimits::default() },
            "ResponseSizeLimits::response",
        ),
    ] {
        let err = small(limits).await;
        assert_eq!(err.kind(), ErrorKind::TooLarge);
        assert!(err.message().contains(name), "{err}");
    }
}

#[tokio::test]
async fn the_connection_is_used_again_on_every_wire() {
    let late = Duration::from_millis(20);
    let body = chat_body("Cold.");
    let at = body.find("data: [DONE]").unwrap() + "data: [DONE]\n\n".len();
    let answers = (0..3).map(|_| Answer::sse(format!("{body}: late\n\n")).pause_at(at, late));
    let server = LoopbackServer::start(answers).await.unwrap();
    let provider = chat_completions(&server).build().unwrap();
    for _ in 0..3 {
        ask(&provider).await.unwrap();
    }
    assert_eq!(server.connections(), 1, "what comes after the last word is read too");
}

#[tokio::test]
async fn a_server_that_does_not_know_the_default_model_leads_to_the_variable_and_the_method() {
    // With the variable set a model is named.
    if std::env::var_os("CHAT_COMPLETIONS_MODEL").is_some() {
        return;
    }
    let body = r#"{"error":{"message":"model \"default\" not found, try pulling it first","type":"api_error"}}"#;
    let answers = (0..2).map(|_| Answer::bytes(404, "application/json", body));
    let server = LoopbackServer::start(answers).await.unwrap();
    let unnamed = ChatCompletionsProvider::builder().base_url(server.url()).build().unwrap();
    let err = ask(&unnamed).await.unwrap_err().to_string();
    assert!(err.contains("try pulling it first"), "{err}");
    assert!(err.contains("set `CHAT_COMPLETIONS_MODEL`, or call `.model(..)`"), "{err}");
    let err = ask(&chat_completions(&server).build().unwrap()).await.unwrap_err().to_string();
    assert!(!err.contains("CHAT_COMPLETIONS_MODEL"), "this one names its model: {err}");
}

#[test]
fn a_missing_key_is_one_line_that_names_the_variable() {
    // The variable is not set where tests run; with a key it would be another test.
    if std::env::var_os("OPENAI_API_KEY").is_some() {
        return;
    }
    let err = OpenAIProvider::from_env().unwrap_err();
    assert!(err.is_configuration() && err.message().contains("`OPENAI_API_KEY`"));
    assert_eq!(err.to_string().lines().count(), 1);
}

#[test]
fn keys_never_print() {
    let openai = OpenAIProvider::builder().api_key("sk-secret-1").header("x", "sk-secret-1");
    let local = ChatCompletionsProvider::builder().base_url("http://a.test").api_key("sk-secret-1");
    let shown =
        format!("{openai:?} {:?} {local:?} {:?}", openai.clone().build(), local.clone().build());
    assert!(!shown.contains("sk-secret-1"), "{shown}");
}

/// What is installed in a process is the same for all of its tests, so this one asks a process of its own.
#[test]
fn a_program_may_choose_its_tls_library_after_it_has_built_a_provider() {
    const ALONE: &str = "HARNESS_TEST_TLS_ALONE";
    if std::env::var_os(ALONE).is_some() {
        OpenAIProvider::builder().api_key("k").build().unwrap();
        let chosen = rustls::crypto::ring::default_provider().install_default();
        assert!(chosen.is_ok(), "something was chosen for the program");
        OpenAIProvider::builder().api_key("k").build().unwrap();
        return;
    }
    let name =
        "client_providers::a_program_may_choose_its_tls_library_after_it_has_built_a_provider";
    let test = std::env::current_exe().expect("this test has a path");
    let alone = std::process::Command::new(test).args(["--exact", name]).env(ALONE, "1").output();
    let alone = alone.expect("it is started");
    let said = String::from_utf8_lossy(&alone.stdout);
    assert!(alone.status.success() && said.contains("1 passed"), "{said}");
}
