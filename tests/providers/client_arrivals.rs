//! Responses in place of a model's answer, over a real socket: every error names the response, the
//! address and the way out, and nothing is retried if that cannot help.

use std::sync::Arc;

use harness::{
    AnthropicProvider, ChatCompletionsProvider, Error, ErrorKind, Message, OpenAIProvider,
    Provider, Transcript,
    policy::RetryPolicy,
    provider::{Effort, Request, Settings, accumulate},
    testing::{Answer, LoopbackServer, anthropic, chat, responses},
};
use harness_test_support::refusing::RefusingPort;
use serde_json::{Value, json};

async fn ask(provider: &dyn Provider) -> Result<String, Error> {
    let mut transcript = Transcript::default();
    transcript.push(Message::user("Oslo?"))?;
    let answer = accumulate(provider.stream(Request::new(&transcript)?)).await?;
    Ok(answer.message.map(|message| message.text()).unwrap_or_default())
}

/// Tries three times, at once.
fn at_once() -> RetryPolicy {
    RetryPolicy { base: std::time::Duration::ZERO, ..RetryPolicy::default() }
}

/// One provider for each wire, at this address.
fn providers(url: &str) -> [(&'static str, Arc<dyn Provider>); 3] {
    let anthropic = AnthropicProvider::builder().api_key("sk-secret-1").base_url(url);
    let openai = OpenAIProvider::builder().api_key("sk-secret-1").base_url(url);
    let local = ChatCompletionsProvider::builder().api_key("sk-secret-1").base_url(url).model("m");
    [
        ("/v1/messages", Arc::new(anthropic.build().unwrap().with_retry(at_once()))),
        ("/v1/responses", Arc::new(openai.build().unwrap().with_retry(at_once()))),
        ("/v1/chat/completions", Arc::new(local.build().unwrap().with_retry(at_once()))),
    ]
}

#[tokio::test]
async fn an_error_without_status_and_code_is_told_with_its_address() {
    for (body, words) in [
        (json!({"detail": "not here"}), "not here"),
        (json!({"error": {"message": "no such model"}}), "no such model"),
    ] {
        for wire in 0..3 {
            let body = body.clone();
            let answering = LoopbackServer::answering(move |_| Answer::json(200, &body));
            let server = answering.await.unwrap();
            let (path, provider) = providers(&server.url())[wire].clone();
            let err = ask(&*provider).await.unwrap_err();
            assert_eq!(err.to_string(), format!("{words} ({}{path})", server.url()));
            assert_eq!((err.kind(), err.status()), (ErrorKind::Api, None));
        }
    }
}

#[tokio::test]
async fn what_is_no_answer_is_told_with_its_address_and_not_asked_for_again() {
    let page = "<!doctype html><html><head><title>Welcome</title></head><body>It works!</body>";
    let squeezed = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xcb, 0x48];
    let table: Vec<(Answer, &str)> = vec![
        (
            Answer::bytes(200, "text/html; charset=utf-8", page),
            "`text/html; charset=utf-8` that begins with \"Welcome It works!\"",
        ),
        // The label alone does not make a stream.
        (
            Answer::sse(page),
            "`text/event-stream; charset=utf-8` that begins with \"Welcome It works!\"",
        ),
        (Answer::sse("upstream: connection refused"), "begins with \"upstream: connection refused"),
        (Answer::json(200, &json!({"status": "ok"})), "begins with \"{\"status\":\"ok\"}\""),
        (Answer::bytes(200, "application/json", page), "that begins with \"Welcome It works!\""),
        (Answer::empty(204), "answered 204 with an empty body"),
        (Answer::empty(200), "answered 200 with an empty body"),
        (Answer::sse(""), "answered 200 with an empty body"),
        (Answer::sse("\n\n\n"), "answered 200 with an empty body"),
        (
            Answer::sse(squeezed).header("content-encoding", "gzip"),
            "compressed (`gzip`), although the request accepts none",
        ),
        (Answer::bytes(200, "application/octet-stream", squeezed), "octet-stream` that begins"),
        (
            Answer::bytes(200, "text/plain", "your key is sk-secret-1"),
            "that begins with \"your key is [secret]\"",
        ),
    ];
    for (answer, words) in table {
        for wire in 0..3 {
            let answer = answer.clone();
            let server = LoopbackServer::answering(move |_| answer.clone()).await.unwrap();
            let (path, provider) = providers(&server.url())[wire].clone();
            let err = ask(&*provider).await.unwrap_err();
            let shown = err.to_string();
            assert_eq!(err.kind(), ErrorKind::Protocol, "{shown}");
            assert!(shown.contains(words), "{words}: {shown}");
            assert!(shown.contains(&format!("{}{path}", server.url())), "{shown}");
            assert!(!shown.contains("sk-secret"), "{shown}");
            assert_eq!(server.requests().len(), 1, "sent again: {shown}");
            assert_eq!(server.requests()[0].header("accept-encoding"), Some("identity"));
        }
    }
}

#[tokio::test]
async fn an_answer_under_a_wrong_label_is_read() {
    let bodies = [
        anthropic::body().text("Cold.").to_string(),
        responses::body().text("Cold.").to_string(),
        chat::body().text("Cold.").to_string(),
    ];
    for (wire, body) in bodies.into_iter().enumerate() {
        for label in ["text/plain", "application/octet-stream", "application/json", "text/html"] {
            // In pieces of one byte, too: the first ones do not tell what it is.
            let begins = ["", "\u{feff}", "\r\n\r\n", ": wait\n\n"];
            let begins = if label == "application/json" { &begins[..] } else { &begins[..1] };
            for begin in begins {
                let body = format!("{begin}{body}");
                let pause = std::time::Duration::ZERO;
                let whole = Answer::bytes(200, label, body);
                for answer in [whole.clone(), whole.chunked().in_pieces(7, pause)] {
                    let server = LoopbackServer::start([answer]).await.unwrap();
                    let (_, provider) = providers(&server.url())[wire].clone();
                    let said = ask(&*provider).await;
                    assert_eq!(said.as_deref().ok(), Some("Cold."), "{label}, {begin:?}: {said:?}");
                }
            }
        }
    }
    // One piece where a stream was asked for, under the label of a stream.
    let whole = json!({"id": "c", "object": "chat.completion", "model": "m", "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Cold."}}
    ]});
    let server = LoopbackServer::start([Answer::sse(whole.to_string())]).await.unwrap();
    let (_, provider) = providers(&server.url())[2].clone();
    assert_eq!(ask(&*provider).await.unwrap(), "Cold.");
}

#[tokio::test]
async fn errors_of_the_network_name_the_address_and_the_cause_after_every_try() {
    let refusing = RefusingPort::bind();
    let port = refusing.number();
    let url = format!("http://ann:pass@127.0.0.1:{port}?token=abcdefgh");
    for (path, provider) in providers(&url) {
        let err = ask(&*provider).await.unwrap_err();
        let shown = err.to_string();
        assert_eq!(err.kind(), ErrorKind::Connect);
        assert_eq!(err.later().len(), 2, "{shown}");
        let place = format!("127.0.0.1:{port}{path}?[secret])");
        assert!(shown.contains("was not reached: Connection refused"), "{shown}");
        assert_eq!(shown.matches(&place).count(), 1, "equal failures are told once: {shown}");
        assert!(shown.contains(" (3 times); gave up after 3 tries"), "{shown}");
        assert!(err.url().is_some_and(|url| url.contains(&port.to_string())), "{err:?}");
        assert!(!format!("{err:?}{shown}").contains("pass@"), "{err:?}");
        assert!(!format!("{err:?}{shown}").contains("abcdefgh"), "{err:?}");
    }
    let bodies = [
        anthropic::body().text("Cold.").to_string(),
        responses::body().text("Cold.").to_string(),
        chat::body().text("Cold.").to_string(),
    ];
    for (wire, body) in bodies.into_iter().enumerate() {
        // Before the answer begins, and in its middle.
        let middle = body.len() - 20;
        let closing = [
            (Answer::sse(body.clone()).reset_at(harness::testing::Point::BeforeHead), "broke"),
            (Answer::sse(body.clone()).reset_at(middle), "before the answer was complete"),
        ];
        for (answer, words) in closing {
            let server = LoopbackServer::answering(move |_| answer.clone()).await.unwrap();
            let (path, provider) = providers(&server.url())[wire].clone();
            let err = ask(&*provider).await.unwrap_err().to_string();
            assert!(err.contains(words), "{words}: {err}");
            assert!(err.contains(&format!("{}{path}", server.url())), "{err}");
        }
    }
}

#[test]
fn an_address_that_cannot_be_asked_is_refused_when_the_provider_is_built() {
    let table = [
        ("127.0.0.1:11434", "the base URL `127.0.0.1:11434/"),
        ("localhost:11434/v1", "has no scheme: write `https://` or `http://`"),
        ("api.example.com/v1", "has no scheme"),
        ("ftp://example.com/v1", "not the URL of an HTTP server"),
        ("http://", "names no server"),
        ("https://a b.example.com/v1", "the base URL cannot be read: "),
        ("", "has no scheme"),
        ("ann:sk-secret-1@example.com", "has no scheme"),
        // Nothing behind the `#` would be asked for, and a password may hold one.
        ("http://127.0.0.1:9/v1#top", "holds a `#`"),
        ("http://127.0.0.1:9?version=1#", "holds a `#`"),
        ("http://ann:12#sk-secret-1@example.com", "holds a `#`"),
        ("http://127.0.0.1:0/v1", "has the port 0"),
        ("http:///v1", "names no server"),
        ("https:///", "names no server"),
    ];
    for (url, words) in table {
        let built: [Result<(), Error>; 3] = [
            AnthropicProvider::builder().api_key("k").base_url(url).build().map(drop),
            OpenAIProvider::builder().api_key("k").base_url(url).build().map(drop),
            ChatCompletionsProvider::builder().base_url(url).model("m").build().map(drop),
        ];
        for built in built {
            let err = built.unwrap_err();
            assert!(err.is_configuration());
            assert!(err.message().contains(words), "{url:?}: {err}");
            assert!(!err.to_string().contains("sk-secret-1"), "{err}");
        }
    }
}

#[tokio::test]
async fn a_key_of_which_the_body_holds_the_beginning_is_not_shown() {
    let body = "no such key: sk-secret-1";
    for status in [200, 401] {
        for cut in body.len() - 5..=body.len() {
            let answer = Answer::bytes(status, "text/plain", body).with_length().cut_at(cut);
            let server = LoopbackServer::answering(move |_| answer.clone()).await.unwrap();
            for (_, provider) in providers(&server.url()) {
                let shown = ask(&*provider).await.unwrap_err().to_string();
                assert!(shown.contains("no such key: [secret]"), "{status}, {cut}: {shown}");
                assert!(!shown.contains("sk-se"), "{status}, {cut}: {shown}");
            }
        }
    }
}

#[tokio::test]
async fn an_error_that_is_compressed_is_told_as_one() {
    let squeezed = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xcb, 0x48];
    for (status, tries) in [(400, 1), (401, 1), (429, 3), (500, 3)] {
        let answer = Answer::bytes(status, "application/json", squeezed)
            .header("content-encoding", "gzip")
            .header("retry-after-ms", "1");
        let server = LoopbackServer::answering(move |_| answer.clone()).await.unwrap();
        let (_, provider) = providers(&server.url())[0].clone();
        let err = ask(&*provider).await.unwrap_err();
        assert_eq!((err.kind(), err.status()), (ErrorKind::Api, Some(status)));
        assert!(err.message().contains("compressed (`gzip`)"), "{err}");
        assert_eq!(server.requests().len(), tries);
    }
}

#[tokio::test]
async fn json_that_is_no_answer_is_told_whatever_it_is() {
    for body in
        ["{}", "[]", "[1]", "{\"a\":", "null", "\"x\"", "{\"choices\":[]}", "{\"error\":{}}"]
    {
        let answer = Answer::bytes(200, "application/json", body);
        let server = LoopbackServer::answering(move |_| answer.clone()).await.unwrap();
        for (path, provider) in providers(&server.url()) {
            let err = ask(&*provider).await.unwrap_err();
            let shown = err.to_string();
            assert_eq!(err.kind(), ErrorKind::Protocol, "{body}: {shown}");
            let words = format!("answered 200 with `application/json` that begins with \"{body}\"");
            assert!(shown.contains(&words), "{body}: {shown}");
            assert!(shown.contains(&format!("{}{path}", server.url())), "{shown}");
        }
        assert_eq!(server.requests().len(), 3, "asked again for {body}");
    }
}

#[tokio::test]
async fn an_error_that_says_nothing_is_none() {
    let empty = json!({"message": "", "type": "", "param": "", "code": null});
    for error in [json!({}), json!(""), json!(false), json!([]), json!(null), empty] {
        let message = json!({"role": "assistant", "content": "Cold."});
        let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
        let whole = json!({"id": "c", "choices": [choice], "error": error});
        let body = format!("data: {whole}\n\ndata: [DONE]\n\n");
        for answer in [Answer::json(200, &whole), Answer::sse(body)] {
            let server = LoopbackServer::start([answer]).await.unwrap();
            let (_, provider) = providers(&server.url())[2].clone();
            assert_eq!(ask(&*provider).await.unwrap(), "Cold.", "{error}");
        }
    }
}

#[tokio::test]
async fn a_redirect_says_where_to() {
    for status in [301, 302, 307, 308] {
        let answer =
            Answer::empty(status).header("location", "https://api.example.com/v1?key=abcdefgh");
        let server = LoopbackServer::answering(move |_| answer.clone()).await.unwrap();
        for (path, provider) in providers(&server.url()) {
            let err = ask(&*provider).await.unwrap_err();
            assert_eq!((err.kind(), err.status()), (ErrorKind::Api, Some(status)));
            let shown = err.to_string();
            assert!(
                shown.contains("redirects to `https://api.example.com/v1?[secret]`"),
                "{shown}"
            );
            assert!(shown.contains("set the base URL"), "{shown}");
            assert!(shown.contains(path), "{shown}");
        }
        assert_eq!(server.requests().len(), 3, "nothing is sent again");
    }
}

#[tokio::test]
async fn errors_of_google_and_of_routers_are_read() {
    let google = json!([{"error": {
        "code": 429,
        "message": "Resource has been exhausted.",
        "status": "RESOURCE_EXHAUSTED",
        "details": [
            {"@type": "type.googleapis.com/google.rpc.Help", "links": []},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "48s"}
        ]
    }}]);
    let once = RetryPolicy::none();
    // As the body of a refusal, as that of a success, and as an event.
    for answer in [
        Answer::json(429, &google),
        Answer::json(200, &google),
        Answer::sse(format!("data: {google}\n\n")),
    ] {
        let server = LoopbackServer::start([answer]).await.unwrap();
        let provider = ChatCompletionsProvider::builder().base_url(server.url()).model("gemini-3");
        let err = ask(&provider.build().unwrap().with_retry(once)).await.unwrap_err();
        assert_eq!(err.message(), "Resource has been exhausted.");
        assert_eq!((err.status(), err.code()), (Some(429), Some("RESOURCE_EXHAUSTED")));
        assert_eq!(err.retry_after().map(|wait| wait.as_secs()), Some(48));
        assert!(err.is_retryable());
    }

    let inner = json!({"error": {"message": "This model's maximum context length is 262144 tokens.",
        "type": "Bad Request", "code": 400}});
    let router = json!({"error": {"message": "Provider returned error", "code": 400,
        "metadata": {"raw": inner.to_string(), "provider_name": "Nvidia"}}});
    let mut as_object = router.clone();
    as_object["error"]["metadata"]["raw"] = inner;
    for router in [router, as_object] {
        let server = LoopbackServer::start([Answer::json(400, &router)]).await.unwrap();
        let provider =
            ChatCompletionsProvider::builder().base_url(server.url()).model("m").build().unwrap();
        let err = ask(&provider.with_retry(once)).await.unwrap_err();
        assert_eq!(
            err.message(),
            "Provider returned error: This model's maximum context length is 262144 tokens."
        );
        assert!(err.is_context_full(), "{err}");
    }
}

#[tokio::test]
async fn a_full_context_is_known_by_the_words_of_each_server() {
    let table = [
        ("Bedrock", "Input is too long for requested model."),
        (
            "Cerebras",
            "Please reduce the length of the messages or completion. Current length is 9016 while limit is 8192",
        ),
        (
            "Cohere",
            "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292",
        ),
        ("DashScope", "Range of input length should be [1, 30720]"),
        ("GitHub", "prompt token count of 151241 exceeds the limit of 128000"),
        ("Groq", "Please reduce the length of the messages or completion."),
        (
            "LM Studio",
            "Trying to keep the first 9015 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough.",
        ),
        ("LM Studio", "tokens to keep from initial prompt is greater than the context length"),
        ("MiniMax", "invalid params, context window exceeds limit"),
        (
            "Mistral",
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768",
        ),
        ("Moonshot", "Your request exceeded model token limit: 262144"),
        ("Ollama", "the input length exceeds the context length"),
        (
            "SGLang",
            "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
        ),
        (
            "Together",
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000",
        ),
        ("TGI", "Input validation error: `inputs` must have less than 4095 tokens. Given: 5000"),
        (
            "Vertex",
            "Unable to submit request because the input token count is 32825 but model only supports up to 32768.",
        ),
        ("SGLang", "Input length (9000 tokens) exceeds the maximum allowed length (8191 tokens)."),
        (
            "llama.cpp",
            "input (9001 tokens) is larger than the max context size (8192 tokens). skipping",
        ),
        ("vLLM", "max_tokens=38000 cannot be greater than max_model_len=32768."),
        (
            "vLLM",
            "You passed 9000 input tokens and requested 500 output tokens. However, the model's context length is only 8000 tokens",
        ),
        (
            "vLLM",
            "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
        ),
        (
            "xAI",
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        ),
        ("Zhipu", "Prompt exceeds max length"),
    ];
    for (who, words) in table {
        let body = json!({"error": {"message": words, "type": "invalid_request_error"}});
        let server = LoopbackServer::start([Answer::json(400, &body)]).await.unwrap();
        let provider = ChatCompletionsProvider::builder().base_url(server.url()).model("m");
        let err = ask(&provider.build().unwrap()).await.unwrap_err();
        assert_eq!(err.kind(), ErrorKind::ContextFull, "{who}: {err}");
        // A limit of the rate says much the same, and passes.
        let limited = Answer::json(429, &body);
        let server = LoopbackServer::start([limited]).await.unwrap();
        let provider = ChatCompletionsProvider::builder().base_url(server.url()).model("m");
        let provider = provider.build().unwrap().with_retry(RetryPolicy::none());
        assert_eq!(ask(&provider).await.unwrap_err().kind(), ErrorKind::Api, "{who}");
    }
}

/// The body that a provider sends with these settings, and these for one request.
async fn sent(of: Settings, request: Option<Settings>) -> Value {
    let server = LoopbackServer::start([anthropic::body().text("x").answer()]).await.unwrap();
    let provider = AnthropicProvider::builder().api_key("k").base_url(server.url()).settings(of);
    let provider = provider.model("claude-sonnet-5").build().unwrap();
    let mut transcript = Transcript::default();
    transcript.push(Message::user("Oslo?")).unwrap();
    let asked = Request::new(&transcript).unwrap().with_settings(request.as_ref());
    accumulate(provider.stream(asked)).await.unwrap();
    server.requests()[0].json()
}

fn extra(members: &Value) -> Settings {
    let extra = members.as_object().unwrap().clone();
    Settings { extra, ..Settings::default() }
}

#[tokio::test]
async fn what_is_said_in_the_vendors_words_is_merged_with_what_is_there() {
    let format = json!({"output_config": {"format": {"type": "json_schema", "schema": {}}}});
    let hard = Settings { effort: Some(Effort::High), ..extra(&format) };
    let body = sent(hard.clone(), None).await;
    assert_eq!(body["output_config"]["effort"], "high");
    assert_eq!(body["output_config"]["format"]["type"], "json_schema");

    // What is given wins; `null` takes away; another `type` is another thing.
    let own = json!({
        "output_config": {"effort": "low"},
        "thinking": {"type": "disabled"},
        "metadata": {"user_id": null, "team": "a"},
    });
    let settings =
        Settings { effort: Some(Effort::High), user: Some("u1".to_owned()), ..extra(&own) };
    let body = sent(settings, None).await;
    assert_eq!(body["output_config"], json!({"effort": "low"}));
    assert_eq!(body["thinking"], json!({"type": "disabled"}));
    assert_eq!(body["metadata"], json!({"team": "a"}));
    let own = json!({"thinking": {"type": "disabled", "budget_tokens": null}});
    let body = sent(Settings { effort: Some(Effort::High), ..extra(&own) }, None).await;
    assert_eq!(body["thinking"], json!({"type": "disabled"}));

    // Between the provider's and the request's.
    let body = sent(hard, Some(extra(&json!({"output_config": {"format": {"name": "x"}}})))).await;
    assert_eq!(
        body["output_config"],
        json!({"effort": "high", "format": {"type": "json_schema", "schema": {}, "name": "x"}})
    );
    // `null` takes away what the provider says, what the request says by itself, and nothing else.
    let both = json!({"output_config": {"format": {"type": "text"}, "effort": "low"}, "metadata": {"a": 1}});
    let none = json!({"output_config": {"format": null}, "metadata": {"a": null, "b": 2}});
    let body = sent(extra(&both), Some(extra(&none))).await;
    assert_eq!(body["output_config"], json!({"effort": "low"}));
    assert_eq!(body["metadata"], json!({"b": 2}));
    let own = Settings { effort: Some(Effort::High), ..extra(&both) };
    let none =
        json!({"output_config": {"format": null, "effort": null, "never": null}, "thinking": null});
    let body = sent(own, Some(extra(&none))).await;
    assert_eq!((&body["output_config"], body.get("thinking")), (&json!({}), None));
    // Of a schema it is a part.
    let schema = json!({"type": "object", "default": null});
    let format = json!({"output_config": {"format": {"type": "json_schema", "schema": schema}}});
    for (of, request) in [(&format, &json!({})), (&json!({}), &format)] {
        let body = sent(extra(of), Some(extra(request))).await;
        assert_eq!(body["output_config"]["format"]["schema"], schema);
    }
    // A member that is no object is replaced or left out, as a whole.
    let body = sent(extra(&json!({"max_tokens": 7, "cache_control": null})), None).await;
    assert_eq!((&body["max_tokens"], body.get("cache_control")), (&json!(7), None));
}
