//! Members of a request that a server refuses by their names.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use harness::{
    Agent, AnthropicProvider, ChatCompletionsProvider, Event, OpenAIProvider, Provider,
    SideEffects, Stopped, Tool,
    policy::RetryPolicy,
    provider::{Effort, PromptCache, Settings},
    testing::{Answer, LoopbackServer, ReceivedRequest, anthropic, chat, responses},
};
use serde_json::{Value, json};

fn said(status: u16, message: &str) -> Answer {
    Answer::json(status, &json!({"error": {"message": message, "type": "invalid_request_error"}}))
}

fn look() -> Tool {
    let schema = json!({"type": "object", "properties": {"at": {"type": "string"}}});
    Tool::new("look", "Looks.", schema, SideEffects::NONE, |_, _| {
        Box::pin(async { Ok("seen".into()) })
    })
}

/// A server that refuses requests as `refuse` says, and answers all others on its wire.
async fn server(refuse: impl Fn(&Value) -> Option<Answer> + Send + 'static) -> LoopbackServer {
    let decide = move |request: &ReceivedRequest| {
        let body = request.json();
        match refuse(&body) {
            Some(refusal) => refusal,
            None if request.path().ends_with("/messages") => {
                anthropic::body().text("Yes.").answer()
            }
            None if request.path().ends_with("/responses") => {
                responses::body().text("Yes.").answer()
            }
            None => chat::body().text("Yes.").answer(),
        }
    };
    LoopbackServer::answering(decide).await.expect("a server")
}

fn to_chat(server: &LoopbackServer) -> ChatCompletionsProvider {
    let builder = ChatCompletionsProvider::builder().base_url(server.url()).model("m");
    builder.build().expect("a provider").with_retry(RetryPolicy::none())
}

fn to_responses(server: &LoopbackServer, model: &str) -> OpenAIProvider {
    let builder = OpenAIProvider::builder().base_url(server.url()).api_key("k").model(model);
    builder.build().expect("a provider").with_retry(RetryPolicy::none())
}

fn to_messages(server: &LoopbackServer, model: &str) -> AnthropicProvider {
    let builder = AnthropicProvider::builder().base_url(server.url()).api_key("k").model(model);
    builder.build().expect("a provider").with_retry(RetryPolicy::none())
}

/// Two messages of one conversation, and the members that were dropped meanwhile.
async fn talk(provider: impl Provider + 'static) -> (Result<(), Stopped>, Vec<String>) {
    let dropped = Arc::new(Mutex::new(Vec::new()));
    let agent =
        Agent::builder(provider).system("Be short.").tools([look()]).build().expect("an agent");
    let mut chat = agent.chat();
    let mut result = Ok(());
    for words in ["One?", "Two?"] {
        let seen = Arc::clone(&dropped);
        let sent = chat.send(words).on_event(move |event| match event {
            Event::ParameterDropped { parameter, cause } => {
                assert!(!cause.is_empty());
                seen.lock().unwrap().push(parameter.to_owned());
            }
            Event::Retrying { .. } => panic!("a refusal is no failed try"),
            _ => {}
        });
        result = result.and(sent.await.map(drop));
    }
    let dropped = dropped.lock().unwrap().clone();
    (result, dropped)
}

fn bodies(server: &LoopbackServer) -> Vec<Value> {
    server.requests().iter().map(ReceivedRequest::json).collect()
}

/// The refusal of a member, in the forms of servers.
fn forms(name: &str) -> Vec<Answer> {
    let detail = json!([{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted", "input": {}}]);
    let error = |error: Value| Answer::json(400, &json!({ "error": error }));
    let text = |status: u16, text: String| Answer::json(status, &json!(text));
    vec![
        said(400, &format!("Unrecognized request argument supplied: {name}")),
        said(400, &format!("{name}: Extra inputs are not permitted")),
        said(400, &format!("property '{name}' is unsupported, did you mean 'stop'?")),
        said(400, &format!("Unsupported parameter: '{name}' is not supported with this model.")),
        said(400, &format!("{name} is not supported with this model")),
        said(400, &format!("json: unknown field \"{name}\"")),
        said(
            422,
            &format!(
                "Failed to deserialize the JSON body into the target type: unknown field `{name}`, expected one of `model`, `messages` at line 1 column 20"
            ),
        ),
        said(500, &format!("Completions.create() got an unexpected keyword argument '{name}'")),
        said(400, &format!("Additional properties are not allowed ('{name}' was unexpected)")),
        error(
            json!({"message": format!("Unknown parameter: '{name}'."), "param": name, "code": "unknown_parameter"}),
        ),
        error(
            json!({"message": "This is not supported with this model.", "param": name, "code": null}),
        ),
        Answer::json(422, &json!({ "detail": detail })),
        Answer::json(
            422,
            &json!({"object": "error", "message": {"detail": detail}, "type": "invalid_request_error"}),
        ),
        Answer::json(
            400,
            &json!({"object": "error", "message": format!("[{{'type': 'extra_forbidden', 'loc': ('body', '{name}'), 'msg': 'Extra inputs are not permitted'}}]"), "code": 400}),
        ),
        Answer::json(
            400,
            &json!({"code": "Client specified an invalid argument", "error": format!("Argument not supported on this model: {name}")}),
        ),
        Answer::json(
            400,
            &json!([{"error": {"code": 400, "message": format!("Invalid JSON payload received. Unknown name \"{name}\": Cannot find field."), "status": "INVALID_ARGUMENT"}}]),
        ),
        Answer::json(
            400,
            &json!({"message": format!("Malformed input request: #: extraneous key [{name}] is not permitted, please reformat your input and try again.")}),
        ),
        text(400, format!("unknown field `{name}`")),
        Answer::sse(format!(
            "data: {{\"error\":{{\"code\":400,\"message\":\"Unsupported parameter: {name}\"}}}}\n\n"
        )),
    ]
}

#[tokio::test]
async fn a_member_that_is_refused_in_any_form_is_left_out_from_then_on() {
    for (at, form) in forms("stream_options").into_iter().enumerate() {
        let server = server(move |body| body.get("stream_options").map(|_| form.clone())).await;
        let (result, dropped) = talk(to_chat(&server)).await;
        result.unwrap_or_else(|err| panic!("form {at}: {err}"));
        assert_eq!(dropped, ["stream_options"], "form {at}");
        let has: Vec<bool> =
            bodies(&server).iter().map(|body| body.get("stream_options").is_some()).collect();
        assert_eq!(has, [true, false, false], "form {at}");
    }
    for (at, form) in forms("store").into_iter().enumerate() {
        let server = server(move |body| body.get("store").map(|_| form.clone())).await;
        let (result, dropped) = talk(to_responses(&server, "m")).await;
        result.unwrap_or_else(|err| panic!("form {at}: {err}"));
        assert_eq!(dropped, ["store"], "form {at}");
        assert_eq!(server.requests().len(), 3, "form {at}");
    }
}

#[tokio::test]
async fn members_that_are_refused_one_after_the_other_are_all_left_out() {
    let server = server(|body| {
        let tool = &body["tools"][0];
        if body.get("include").is_some() {
            let error = json!({"message": "Encrypted content is not supported with this model.", "param": "include"});
            return Some(Answer::json(400, &json!({ "error": error })));
        }
        if tool.get("strict").is_some() {
            return Some(said(400, "Unknown parameter: 'tools[0].strict'."));
        }
        body.get("store").map(|_| said(400, "Unsupported parameter: store"))
    })
    .await;
    let (result, dropped) = talk(to_responses(&server, "m")).await;
    result.expect("answers");
    assert_eq!(dropped, ["include", "strict", "store"]);
    assert_eq!(server.requests().len(), 5);
}

#[tokio::test]
async fn a_mark_for_the_whole_request_becomes_one_of_its_last_block() {
    let refuse = |body: &Value| {
        body.get("cache_control")
            .map(|_| said(400, "cache_control: Extra inputs are not permitted"))
    };
    let first = server(refuse).await;
    let (result, dropped) = talk(to_messages(&first, "claude-sonnet-4-6")).await;
    result.expect("answers");
    assert_eq!(dropped, ["cache_control"]);
    // Bedrock and Vertex are known to refuse it.
    let second = server(refuse).await;
    for model in ["us.anthropic.claude-sonnet-4-6-v1:0", "claude-sonnet-4-6@20260201"] {
        let (result, dropped) = talk(to_messages(&second, model)).await;
        result.expect("answers");
        assert!(dropped.is_empty(), "{dropped:?}");
    }
    for body in bodies(&first).iter().skip(1).chain(&bodies(&second)) {
        let messages = body["messages"].as_array().unwrap();
        let marks: Vec<bool> =
            messages.iter().map(|it| it["content"][0].get("cache_control").is_some()).collect();
        let (last, others) = marks.split_last().unwrap();
        assert!(*last && !others.contains(&true), "{body}");
        assert!(
            body["tools"][0].get("cache_control").is_some() && body.get("cache_control").is_none()
        );
    }
}

#[tokio::test]
async fn a_server_without_any_marks_gets_none() {
    let server = server(|body| {
        let has = |place: &str| body.pointer(place).is_some();
        if has("/cache_control") {
            return Some(said(400, "cache_control: Extra inputs are not permitted"));
        }
        has("/system/0/cache_control")
            .then(|| said(400, "Malformed input request: #/system/0: extraneous key [cache_control] is not permitted"))
    })
    .await;
    let (result, dropped) = talk(to_messages(&server, "claude-sonnet-4-6")).await;
    result.expect("answers");
    assert_eq!(dropped, ["cache_control", "cache_control"]);
    assert!(!server.requests().last().unwrap().text().contains("cache_control"));
}

/// Pydantic names the member alone.
#[tokio::test]
async fn marks_that_are_refused_without_their_place_are_all_left_out() {
    for (model, times) in
        [("us.anthropic.claude-sonnet-4-6-v1:0", 1), ("claude-sonnet-4-6", 2), ("m", 2)]
    {
        let server = server(|body| {
            let has = body.to_string().contains("cache_control");
            has.then(|| said(400, "cache_control: Extra inputs are not permitted"))
        })
        .await;
        let (result, dropped) = talk(to_messages(&server, model)).await;
        result.unwrap_or_else(|err| panic!("{model}: {err}"));
        assert_eq!(dropped, vec!["cache_control"; times], "{model}");
        assert_eq!(server.requests().len(), times + 2, "{model}");
    }
}

#[tokio::test]
async fn a_limit_whose_value_is_refused_is_the_programs_own() {
    for words in [
        "Invalid value for 'max_tokens': must be at most 4096.",
        "Unsupported value: 'max_tokens' does not support 77777 with this model.",
    ] {
        let server = server(move |body| body.get("max_tokens").map(|_| said(400, words))).await;
        let builder = ChatCompletionsProvider::builder().base_url(server.url()).model("m");
        let provider = builder.max_tokens(77_777).build().unwrap();
        let (result, dropped) = talk(provider.with_retry(RetryPolicy::none())).await;
        let told = result.unwrap_err().error().unwrap().to_string();
        assert!(told.contains("`Settings::max_tokens`"), "{told}");
        assert!(dropped.is_empty());
        assert!(bodies(&server).iter().all(|body| body["max_tokens"] == 77_777));
    }
}

#[tokio::test]
async fn the_limit_is_sent_under_the_name_that_the_server_takes() {
    for (old, refused, taken) in [
        (false, "max_tokens", "max_completion_tokens"),
        (true, "max_completion_tokens", "max_tokens"),
    ] {
        let server = server(move |body| {
            let words = format!("Unsupported parameter: '{refused}' is not supported with this model. Use '{taken}' instead.");
            body.get(refused).map(|_| said(400, &words))
        })
        .await;
        let builder = ChatCompletionsProvider::builder().base_url(server.url()).model("m");
        let builder = builder.max_tokens(77).max_completion_tokens(old);
        let (result, _) = talk(builder.build().unwrap().with_retry(RetryPolicy::none())).await;
        result.expect("answers");
        let bodies = bodies(&server);
        assert_eq!(bodies.len(), 3);
        assert!(bodies.iter().skip(1).all(|body| body[taken] == 77 && body.get(refused).is_none()));
    }
}

/// What the program has asked for is not left out: the error names the setting, and nothing is sent again.
#[tokio::test]
async fn what_the_program_wants_is_an_error_with_the_name_of_its_setting() {
    let table = [
        (
            "reasoning_effort",
            Settings { effort: Some(Effort::High), ..Settings::default() },
            "Settings::effort",
        ),
        (
            "temperature",
            Settings { temperature: Some(0.5), ..Settings::default() },
            "Settings::temperature",
        ),
        (
            "parallel_tool_calls",
            Settings { parallel_calls: Some(false), ..Settings::default() },
            "Settings::parallel_calls",
        ),
        ("user", Settings { user: Some("u".into()), ..Settings::default() }, "Settings::user"),
        ("tools", Settings::default(), "the tools of the agent"),
    ];
    for (name, settings, setting) in table {
        for form in forms(name) {
            let server = server(move |body| body.get(name).map(|_| form.clone())).await;
            let builder = ChatCompletionsProvider::builder().base_url(server.url()).model("m");
            let builder = builder.settings(settings.clone());
            let provider = builder.build().unwrap().with_retry(RetryPolicy::none());
            let agent = Agent::builder(provider).tools([look()]).build().unwrap();
            let stopped = agent.run("Go.").await.expect_err("a refusal");
            let words = stopped.error().unwrap().to_string();
            assert!(words.contains(setting), "{name}: {words}");
            assert_eq!(server.requests().len(), 1, "{words}");
        }
    }
    let strict = Settings { strict_tools: Some(true), ..Settings::default() };
    let refuse = |body: &Value| {
        let is = body["tools"][0]["strict"] == true;
        is.then(|| said(400, "tools.0.custom.strict: Extra inputs are not permitted"))
    };
    let server = server(refuse).await;
    let builder = AnthropicProvider::builder().base_url(server.url()).api_key("k");
    let provider = builder.model("claude-sonnet-4-6").settings(strict).build().unwrap();
    let (result, dropped) = talk(provider).await;
    let words = result.unwrap_err().error().unwrap().to_string();
    assert!(words.contains("Settings::strict_tools"), "{words}");
    assert!(dropped.is_empty());
}

/// A cache that is off is not left on.
#[tokio::test]
async fn a_cache_that_cannot_be_turned_off_is_an_error() {
    for form in forms("prompt_cache_options") {
        let server =
            server(move |body| body.get("prompt_cache_options").map(|_| form.clone())).await;
        let off = Settings { prompt_cache: Some(PromptCache::Off), ..Settings::default() };
        let builder = OpenAIProvider::builder().base_url(server.url()).api_key("k");
        let provider = builder.model("gpt-5.6").settings(off).build().unwrap();
        let (result, dropped) = talk(provider.with_retry(RetryPolicy::none())).await;
        let told = result.unwrap_err().error().unwrap().to_string();
        assert!(told.contains("`Settings::prompt_cache`"), "{told}");
        assert!(dropped.is_empty());
        assert_eq!(server.requests().len(), 2, "one for each message of the user");
    }
}

#[tokio::test]
async fn a_member_of_extra_is_the_programs_own() {
    let server =
        server(|body| body.get("store").map(|_| said(400, "Unknown parameter: 'store'."))).await;
    let builder = OpenAIProvider::builder().base_url(server.url()).api_key("k").model("m");
    let provider = builder.extra("store", true).build().unwrap().with_retry(RetryPolicy::none());
    let (result, dropped) = talk(provider).await;
    let words = result.unwrap_err().error().unwrap().to_string();
    assert!(words.contains(".extra(\"store\", ..)"), "{words}");
    assert!(dropped.is_empty());
    assert_eq!(server.requests().len(), 2, "one for each message of the user");
}

/// A refusal that comes again without the member was about something else.
#[tokio::test]
async fn what_did_not_help_is_forgotten() {
    let server = server(|_| Some(said(400, "Unknown parameter: 'stream_options'."))).await;
    let (result, dropped) = talk(to_chat(&server)).await;
    result.expect_err("a refusal");
    assert!(dropped.is_empty());
    let has: Vec<bool> =
        bodies(&server).iter().map(|body| body.get("stream_options").is_some()).collect();
    assert_eq!(has, [true, false, true, false]);
}

/// Gateways add an id and a time to each refusal.
#[tokio::test]
async fn what_did_not_help_is_forgotten_whatever_else_the_server_says() {
    let number = AtomicUsize::new(1);
    let server = server(move |_| {
        let number = number.fetch_add(7_919, Ordering::Relaxed);
        let words = format!(
            "tools[0].parameters: property 'store' is unsupported at {number}s (request id: {number:x}-a{number})"
        );
        Some(said(400, &words))
    })
    .await;
    let (result, dropped) = talk(to_responses(&server, "m")).await;
    result.expect_err("a refusal");
    assert!(dropped.is_empty());
    let has: Vec<bool> = bodies(&server).iter().map(|body| body.get("store").is_some()).collect();
    assert_eq!(has, [true, false, true, false]);
}

#[tokio::test]
async fn other_errors_change_nothing() {
    for (status, words) in [
        (400, "stream_options.include_usage must be a boolean"),
        (403, "Unknown parameter: 'stream_options'."),
        (400, "Unknown model `m`"),
        (400, "prompt is too long: 212000 tokens > 200000 maximum; unknown field `stream_options`"),
    ] {
        let server = server(move |_| Some(said(status, words))).await;
        let (result, dropped) = talk(to_chat(&server)).await;
        result.expect_err("a refusal");
        assert!(dropped.is_empty());
        assert!(bodies(&server).iter().all(|body| body.get("stream_options").is_some()), "{words}");
    }
}

/// Members go only where they change something.
#[tokio::test]
async fn requests_have_what_their_server_needs() {
    let server = server(|_| None).await;
    for model in ["gpt-4o", "gpt-4.1-mini", "m"] {
        talk(to_responses(&server, model)).await.0.expect("answers");
    }
    talk(to_messages(&server, "claude-sonnet-4-6")).await.0.expect("answers");
    talk(to_chat(&server)).await.0.expect("answers");
    for request in server.requests() {
        let (path, body) = (request.path().to_owned(), request.json());
        let is_responses = path.ends_with("/responses");
        let strict =
            body["tools"][0].get("strict").or_else(|| body["tools"][0]["function"].get("strict"));
        assert_eq!(strict, is_responses.then_some(&json!(false)), "{path}");
        assert_eq!(body.get("include").is_some(), is_responses && body["model"] == "m", "{body}");
    }
}
