//! Known secrets appear nowhere, whatever a server answers and whatever a tool returns.

use std::{
    collections::BTreeSet,
    error::Error as _,
    fmt::Debug,
    io::{self, Write},
    ops::Range,
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use harness::{
    Agent, AnthropicProvider, CallOutcome, CancellationToken, ChatCompletionsProvider,
    FallbackProvider, Message, OpenAIProvider, Permissions, Provider, RetryPolicy, RetryProvider,
    State, Stopped, StreamEvent, Tool, ToolContent, ToolContext, ToolError, Transcript,
    agent::AgentBuilder,
    journal::{Fact, Journal as _},
    policy::ThrottledProvider,
    provider::{EventStream, Request, Settings, accumulate},
    secret::Secrets,
    testing::{
        Answer, Chaos, ChaosProvider, LoopbackServer, ScriptedProvider, anthropic, chat, reply,
        responses,
    },
    tool,
    tool::ToolFuture,
    tools,
    trace::{self, Trace},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::kept::{CHAT, entries, recorded};
use crate::probe::{READ, WRITE};

/// It has what JSON, URLs and headers spell in ways of their own.
const KEY: &str = "sk-live-0123/4567+89abCDef\"hIjKlMnOpQrSt==";

const PASSWORD: &str = "Corr3ct-h0rse/battery";

/// So much of a secret may be nowhere: a part is as good as the whole.
const PIECE: usize = 10;

#[track_caller]
fn clean(what: &str, text: &str) {
    let json = |text: &str| serde_json::to_string(text).expect("JSON").trim_matches('"').to_owned();
    for secret in [KEY, PASSWORD] {
        for at in (0..=secret.len() - PIECE).step_by(3) {
            let piece = &secret[at..at + PIECE];
            for form in [piece.to_owned(), json(piece), json(&json(piece)), percent(piece)] {
                assert!(!text.contains(&form), "{what}: `{form}` is in {text}");
            }
        }
    }
    assert!(!text.contains(&basic()[..20]), "{what}: {text}");
}

fn percent(text: &str) -> String {
    let encoded = |byte: u8| match byte {
        b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(encoded).collect()
}

/// What a client sends for the user and password of an address.
fn basic() -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(format!("ann:{PASSWORD}"))
}

fn printed(value: &impl Debug) -> String {
    format!("{value:?}\n{value:#?}")
}

fn told(error: &dyn std::error::Error) -> String {
    let mut text = format!("{error}\n{}", printed(&error));
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(&format!("\n{source}\n{}", printed(&source)));
        next = source.source();
    }
    text
}

/// What was written, for who reads it afterwards.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("unpoisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Everything that can be seen of a run, by where it is seen.
struct Seen {
    texts: Vec<(&'static str, String)>,
    facts: Vec<Fact>,
    /// What was kept whole of large results.
    kept: Vec<String>,
    stopped: Option<Stopped>,
}

impl Seen {
    #[track_caller]
    fn clean(&self, what: &str) {
        for (place, text) in &self.texts {
            clean(&format!("{what}, {place}"), text);
        }
    }
}

async fn run(builder: AgentBuilder) -> Seen {
    let paper = Paper::default();
    let trace = Trace::default().to_writer(paper.clone());
    let agent = builder.trace(trace.clone()).build().expect("an agent");
    let mut shown = vec![("the agent", printed(&agent))];
    let (mut chat, journal) = recorded(&agent);
    let mut events = String::new();
    let ended = chat.send("Go.").on_event(|event| events.push_str(&printed(&event))).await;
    assert!(trace.flush(Duration::from_secs(30)), "{:?}", trace.problem());
    let written = String::from_utf8(paper.0.lock().expect("unpoisoned").clone()).expect("UTF-8");
    let read = trace::read(&written).expect("events");
    let facts = entries(&journal);
    let saved: Vec<String> =
        facts.iter().map(|fact| serde_json::to_string(fact).expect("JSON")).collect();
    shown.push(("events", events));
    shown.push(("facts", format!("{}\n{}", saved.join("\n"), printed(&facts))));
    shown.push(("lines of the trace", written));
    shown.push(("trace as text", trace::pretty(&read)));
    shown.push(("trace as a page", trace::page(&read)));
    shown.push(("trace in memory", printed(&read)));
    let stopped = ended.err();
    if let Some(stopped) = &stopped {
        shown.push(("why it stopped", told(stopped)));
        shown.push(("the error", told(stopped.error().expect("an error"))));
    }
    let mut kept = Vec::new();
    for name in saved.join("\n").split("is kept as `").skip(1) {
        let name = name.split('`').next().expect("a name");
        let chunk = journal.read_spill(CHAT, name, 0).await.expect("it is read");
        kept.push(String::from_utf8(chunk.expect("it is there")).expect("a text"));
    }
    Seen { texts: shown, facts, kept, stopped }
}

/// A provider of each wire that asks this server, with secrets in all places where there can be one.
fn providers(server: &LoopbackServer) -> Vec<Box<dyn Provider>> {
    let url = server.url().replace("http://", &format!("http://ann:{}@", percent(PASSWORD)));
    let url = format!("{url}?token={}", percent(KEY));
    let (once, url) = (RetryPolicy::none(), &url);
    let anthropic = AnthropicProvider::builder().api_key(KEY).base_url(url).model("m").build();
    let openai = OpenAIProvider::builder().api_key(KEY).base_url(url).model("m").build();
    let local = ChatCompletionsProvider::builder().api_key(KEY).base_url(url).model("m").build();
    vec![
        Box::new(anthropic.unwrap().with_retry(once)),
        Box::new(openai.unwrap().with_retry(once)),
        Box::new(local.unwrap().with_retry(once)),
    ]
}

/// Every way in which a server can repeat the key to somebody who asked it, for each wire.
fn echoes() -> Vec<(&'static str, Answer)> {
    let words = format!("the key `{KEY}` of ?token={} is not known", percent(KEY));
    let error = json!({"error": {"message": &words, "type": "auth", "code": "no_key"}});
    let slashes = error.to_string().replace('/', "\\/");
    let long = format!("{{{} {KEY}", "x".repeat(80));
    vec![
        ("a message", Answer::json(401, &error)),
        ("a message with escaped slashes", Answer::bytes(401, "application/json", slashes)),
        ("a code", Answer::json(400, &json!({"error": {"message": "no", "code": KEY}}))),
        (
            "a type",
            Answer::json(400, &json!({"type": "error", "error": {"type": KEY, "message": "n"}})),
        ),
        ("an id", Answer::json(400, &json!({"error": {"message": "no"}, "request_id": KEY}))),
        ("an object for a message", Answer::json(403, &json!({"error": {"got": [KEY]}}))),
        ("plain text", Answer::bytes(502, "text/plain", words.clone())),
        (
            "the end of what is quoted",
            Answer::bytes(502, "text/plain", format!("{} {KEY}", "w ".repeat(140))),
        ),
        ("a page", Answer::bytes(502, "text/html", format!("<h1>{words}</h1><p>{}</p>", basic()))),
        (
            "a page of which only the beginning is read",
            Answer::bytes(502, "text/html", format!("<p class=\"{}\">{KEY}", "x".repeat(4070))),
        ),
        (
            "headers",
            Answer::json(
                401,
                &json!({"authorization": format!("Basic {}", basic()), "detail": PASSWORD}),
            ),
        ),
        ("a header", Answer::empty(503).header("x-request-id", KEY).header("retry-after", "1")),
        (
            "a place to go to",
            Answer::empty(302).header("location", format!("http://a.test/?k={KEY}")),
        ),
        ("a stream that is none", Answer::sse(format!("data: {long}\n\n"))),
        ("an event that is none", Answer::sse(format!("event: error\ndata: {words}\n\n"))),
        ("an error in a stream", Answer::sse(format!("event: error\ndata: {error}\n\n"))),
        ("a success that is an error", Answer::json(200, &error)),
        ("a success that is a page", Answer::bytes(200, "text/html", words)),
        ("an id, and nothing else", Answer::sse("").header("x-request-id", KEY)),
    ]
}

#[tokio::test]
async fn a_server_that_repeats_the_key_gives_it_to_nobody() {
    for at in 0..3 {
        for (what, answer) in echoes() {
            let server = LoopbackServer::start([answer.clone(), answer]).await.unwrap();
            let provider = providers(&server).remove(at);
            let what = format!("{} says it in {what}", provider.name());
            clean(&what, &printed(provider.secrets()));
            // Without an agent, which cleans what any provider says.
            let mut transcript = Transcript::default();
            transcript.push(Message::user("Go.")).unwrap();
            let asked = provider.stream(Request::new(&transcript).unwrap());
            clean(&what, &told(&accumulate(asked).await.expect_err("it is an error")));
            let seen = run(Agent::builder(provider)).await;
            assert!(seen.stopped.is_some(), "{what}: it is an error");
            assert!(seen.facts.iter().any(|fact| matches!(fact, Fact::Interrupted { .. })));
            seen.clean(&what);
        }
    }
}

#[tokio::test]
async fn errors_of_each_wires_own_shape_hold_no_key() {
    let words = format!("no key {KEY}");
    let bodies: [Vec<Answer>; 3] = [
        vec![
            anthropic::error(401, "authentication_error", &words),
            anthropic::body().text("I").error(KEY, &words).answer(),
        ],
        vec![
            responses::error(401, KEY, &words),
            responses::body().text("I").failed("server_error", &words).answer(),
            responses::body().text("I").error("server_error", &words).answer(),
        ],
        vec![chat::body().text("I").error(KEY, &words).answer()],
    ];
    for (at, answers) in bodies.into_iter().enumerate() {
        for answer in answers {
            let server = LoopbackServer::start([answer]).await.unwrap();
            let seen = run(Agent::builder(providers(&server).remove(at))).await;
            let error = seen.stopped.as_ref().and_then(Stopped::error).expect("an error");
            assert!(error.message().contains("no key [secret]"), "{error:?}");
            seen.clean(&format!("wire {at}"));
        }
    }
}

/// The model's words are what it said: they stay, and only the trace hides the key in them. The name
/// of the model is the server's word.
#[tokio::test]
async fn the_words_of_a_model_are_facts_and_the_trace_hides_the_key_in_them() {
    let words = format!("The key is {KEY}.");
    let answers = [
        anthropic::body().text(&words).model(KEY).id(KEY).answer(),
        responses::body().text(&words).model(KEY).id(KEY).answer(),
        chat::body().text(&words).model(KEY).id(KEY).answer(),
    ];
    for (at, answer) in answers.into_iter().enumerate() {
        let server = LoopbackServer::start([answer]).await.unwrap();
        let seen = run(Agent::builder(providers(&server).remove(at))).await;
        let Some(Fact::ModelReplied { message: Some(message), model, .. }) = seen.facts.last()
        else {
            panic!("{:?}", seen.facts)
        };
        assert_eq!((message.text(), model.as_str()), (words.clone(), "[secret]"));
        for (place, text) in seen.texts.iter().filter(|(place, _)| place.contains("trace")) {
            clean(place, text);
            assert!(text.contains("[secret]"), "{place}: {text}");
        }
    }
}

/// One provider's server shows what another one's client knows.
#[tokio::test]
async fn providers_around_providers_hand_on_what_they_know() {
    let words = format!("no key {KEY}");
    let error = || Answer::json(500, &json!({"error": {"message": &words}}));
    let first = LoopbackServer::start([error(), error()]).await.unwrap();
    let second = LoopbackServer::start([error()]).await.unwrap();
    let quick = RetryPolicy { attempts: 3, base: Duration::ZERO, ..RetryPolicy::default() };
    let knows = providers(&first).remove(1);
    let knows = RetryProvider::new(ThrottledProvider::new(knows, 1), quick);
    let other =
        ChatCompletionsProvider::builder().base_url(second.url()).api_key("another-0123456789");
    let both =
        FallbackProvider::new(other.build().unwrap().with_retry(RetryPolicy::none())).or(knows);
    let both = ChaosProvider::new(Arc::new(both), Chaos::seeded(1).rate(0.0));
    assert_eq!(both.secrets().hide(&format!("{KEY} another-0123456789")), "[secret] [secret]");
    let seen = run(Agent::builder(both)).await;
    seen.clean("a chain");
    let events = &seen.texts.iter().find(|(place, _)| *place == "events").expect("events").1;
    assert!(events.contains("FallingBack") && events.contains("Retrying"), "{events}");
    assert!(events.contains("no key [secret]"), "{events}");
}

#[tokio::test]
async fn nothing_that_is_printed_of_a_provider_is_secret() {
    // Written wrong: the slash in the password ends the name of the server.
    let wrong = format!("https://ann:{PASSWORD}@a.test/v1?code={}", percent(KEY));
    let url = format!("https://ann:{}@a.test/v1?code={}", percent(PASSWORD), percent(KEY));
    let mut settings = Settings::default();
    let tools = json!([{"type": "mcp", "authorization": format!("Bearer {PASSWORD}")}]);
    settings.extra.insert("tools".into(), tools.clone());
    macro_rules! builder {
        ($provider:ident) => {
            builder!($provider, &url)
        };
        ($provider:ident, $url:expr) => {
            $provider::builder()
                .api_key(KEY)
                .base_url($url)
                .header("x-api-key", KEY.replace('"', ""))
                .header("Cookie", PASSWORD)
                .settings(settings.clone())
                .extra("more", json!({"token": KEY}))
        };
    }
    let printed = [
        printed(&builder!(AnthropicProvider, &wrong)),
        printed(&builder!(OpenAIProvider, &wrong)),
        printed(&builder!(ChatCompletionsProvider, &wrong)),
        printed(&builder!(AnthropicProvider).build().unwrap()),
        printed(&builder!(OpenAIProvider).build().unwrap()),
        printed(&builder!(ChatCompletionsProvider).build().unwrap()),
        printed(&settings),
        printed(
            &Agent::builder(builder!(ChatCompletionsProvider).build().unwrap()).secret(PASSWORD),
        ),
    ];
    for text in &printed {
        clean("printed", text);
        assert!(!text.contains("ann"), "{text}");
    }
    for text in &printed[..6] {
        assert!(text.contains("https://[secret]@a.test/v1"), "the rest is there: {text}");
    }
    clean("refused", &told(&builder!(OpenAIProvider, &wrong).build().unwrap_err()));
    let known = builder!(OpenAIProvider).build().unwrap();
    let words = format!("{KEY} {PASSWORD} {} {}", percent(KEY), basic());
    assert!(known.secrets().hide(&words).starts_with("[secret] [secret] [secret] [secret]"));
}

#[tokio::test]
async fn a_header_that_cannot_be_sent_is_refused_without_its_value() {
    let refused = [
        told(&OpenAIProvider::builder().api_key(format!("{KEY}\n")).build().unwrap_err()),
        told(
            &ChatCompletionsProvider::builder()
                .header("x-api-key", format!("{KEY}\n"))
                .base_url("http://127.0.0.1")
                .build()
                .unwrap_err(),
        ),
    ];
    refused.iter().for_each(|text| clean("refused", text));
    // A server that is not there, and an address that is none.
    for url in ["http://ann:{}@127.0.0.1:9", "ann:{}@nowhere", "http://[::{}"] {
        let url = url.replace("{}", PASSWORD);
        let provider = ChatCompletionsProvider::builder().base_url(url).api_key(KEY).build();
        match provider {
            Ok(provider) => run(Agent::builder(provider)).await.clean("not reached"),
            Err(err) => clean("not built", &told(&err)),
        }
    }
}

type Does = fn(ToolContext) -> ToolFuture;

/// A tool that says the key in this way.
fn leaks(name: &'static str, does: Does) -> Tool {
    let schema = json!({"type": "object"});
    Tool::new(name, "Says it.", schema, READ, move |context, _| does(context))
}

fn leaking() -> Vec<Tool> {
    vec![
        leaks("text", |_| Box::pin(async { Ok(format!("API_KEY={KEY}").into()) })),
        leaks("value", |_| {
            let value = json!({"env": [{"name": "API_KEY", "value": KEY}], "n": 1});
            Box::pin(async move { Ok(ToolContent::Json(value).into()) })
        }),
        leaks("error", |_| Box::pin(async { Err(ToolError::new(format!("{KEY} is refused"))) })),
        leaks("faults", |_| {
            let lines = vec![format!("`a`: {KEY}"), format!("`b`: {PASSWORD}")];
            Box::pin(async { Err(ToolError::BadArguments(lines)) })
        }),
        leaks("panic", |_| Box::pin(async { panic!("{KEY} was not expected") })),
        leaks("reports", |context| {
            context.progress().report(format!("using {KEY}"));
            // Half of it is on each side of where a long report is cut.
            let (before, after) = ("a".repeat(2030), "b".repeat(10_000));
            context.progress().report(format!("{before}{KEY}{after}"));
            Box::pin(async {
                tokio::task::yield_now().await;
                Ok("done".into())
            })
        }),
        leaks("cut", |_| {
            let text = format!("{}{KEY}{}", "a".repeat(480), "b".repeat(10_000));
            Box::pin(async { Ok(text.into()) })
        }),
    ]
}

#[tokio::test]
async fn a_tool_that_shows_the_programs_key_shows_it_to_nobody() {
    let names = ["text", "value", "error", "faults", "panic", "reports", "cut", "denied", KEY];
    let all = names.iter().enumerate().fold(reply(), |said, (at, name)| {
        said.call_with_id(format!("call_{at}"), *name, json!({"n": at}))
    });
    let broken = format!("{{\"a\": {}{KEY}", "\"x\", ".repeat(2000));
    let all = all.begin_call("call_broken", "text").arguments(&broken).end_call();
    let model = ScriptedProvider::new([all, reply().text("Done.")]);
    let limits = harness::ToolLimits::default().output(1000);
    let denied = leaks("denied", |_| Box::pin(async { Ok("it ran".into()) }));
    let builder = Agent::builder(model.clone())
        .tools(leaking().into_iter().chain([denied]))
        .tool_limits(limits)
        .permissions(Permissions::default().deny("denied", format!("not with {KEY}")))
        .secret(KEY)
        .secret(PASSWORD);
    let seen = run(builder).await;
    model.assert_finished();
    let results: Vec<String> = model.requests()[1].results().map(|it| it.to_text()).collect();
    assert_eq!(results.len(), names.len() + 1);
    for (result, name) in results.iter().zip(names) {
        clean(name, result);
        assert!(name == "reports" || name == "cut" || result.contains("[secret]"), "{result}");
    }
    assert_eq!(results[0], "API_KEY=[secret]");
    assert_eq!(results[1], r#"{"env":[{"name":"API_KEY","value":"[secret]"}],"n":1}"#);
    clean("broken arguments", &results[9]);
    assert!(seen.kept.len() > 1, "{:?}", seen.kept);
    seen.kept.iter().for_each(|kept| clean("what was kept whole", kept));
    for (place, text) in &seen.texts {
        match *place {
            // What the model wrote is not changed: the name and the arguments of its calls.
            "facts" | "events" => {
                for fact in &seen.facts {
                    let Fact::CallFinished { result, .. } = fact else { continue };
                    clean(place, &printed(result));
                }
                let written = text.matches("API_KEY=[secret]").count();
                assert!(written > 0 && !text.contains(&format!("API_KEY={KEY}")), "{place}");
                assert!(!text.contains(&format!("using {KEY}")), "{place}");
                assert!(!text.contains(&format!("aa{}", &KEY[..PIECE])), "{place}");
            }
            _ => clean(place, text),
        }
    }
}

#[tokio::test]
async fn what_a_stopped_tool_had_put_out_holds_no_key() {
    let token = CancellationToken::new();
    let stop = token.clone();
    let schema = json!({"type": "object"});
    let tool = Tool::new("work", "Works.", schema, WRITE, move |context, _| {
        let stop = stop.clone();
        Box::pin(async move {
            context.on_stop(|| format!("using {KEY}\n{}", "x".repeat(100_000)));
            stop.cancel();
            std::future::pending().await
        })
    });
    let model = ScriptedProvider::new([reply().call("work", json!({}))]);
    let agent = Agent::builder(model).tools([tool]).secret(KEY).build().expect("an agent");
    let stopped = agent.run("Go.").cancel_with(token).await.expect_err("stopped");
    let last = stopped.transcript().messages().last().expect("results");
    let result = last.results().next().expect("a result");
    assert_eq!(result.outcome(), CallOutcome::InDoubt);
    clean("output so far", &result.to_text());
    assert!(result.to_text().contains("using [secret]"), "{}", result.to_text());
    assert!(result.to_text().len() < 66 * 1024, "and it is within the limit");
}

/// The command is stopped within a line that has most of the key.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_a_stopped_command_had_put_out_holds_no_part_of_a_key() {
    let most = KEY.strip_suffix(&KEY[KEY.len() - 2..]).expect("most of it");
    let command = format!("printf 'using {most}'; printf 'and {most}' >&2; sleep 1000");
    let arguments = json!({"command": command, "timeout_seconds": 1});
    let model = ScriptedProvider::new([reply().call("bash", arguments), reply().text("Hm.")]);
    let agent = Agent::builder(model).tools(tools![harness::toolbox::bash]).secret(KEY);
    let agent = agent.permissions(Permissions::allow_all()).build().expect("an agent");
    let told = agent.run("Go.").await.expect("an answer");
    let result = told.transcript().messages().iter().flat_map(|it| it.results()).next();
    let text = result.expect("a result").to_text();
    assert!(text.contains("using [secret]…") && text.contains("and [secret]…"), "{text}");
}

#[derive(Default)]
struct Door {
    /// Whether somebody waits at it, and whether it is open.
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

/// Does not listen to anybody, and fails when the door opens.
#[tool(side_effects = "write")]
fn linger(door: State<Arc<Door>>) -> Result<String, ToolError> {
    let mut state = door.state.lock().expect("unpoisoned");
    state.0 = true;
    drop(door.changed.wait_while(state, |state| !state.1).expect("unpoisoned"));
    // Half of the key is on each side of where a long text is cut.
    let (before, after) = ("a".repeat(32_750), "b".repeat(100_000));
    Err(ToolError::new(format!("{before}{KEY}{after}")))
}

#[tokio::test]
async fn the_late_end_of_a_stopped_call_holds_no_key_and_is_within_the_limit() {
    let model = ScriptedProvider::new([reply().call("linger", json!({})), reply().text("Done.")]);
    let door = Arc::new(Door::default());
    let agent = Agent::builder(model.clone()).tools(tools![linger]).state(Arc::clone(&door));
    let limits = harness::ToolLimits::default().output(1000);
    let agent = agent.tool_limits(limits).secret(KEY).build().expect("an agent");
    let mut chat = agent.chat();
    let token = CancellationToken::new();
    let stop = async {
        while !door.state.lock().expect("unpoisoned").0 {
            tokio::task::yield_now().await;
        }
        token.cancel();
    };
    let run = chat.send("Go.").cancel_with(token.clone()).into_future();
    let (stopped, ()) = tokio::join!(run, stop);
    stopped.expect_err("it was stopped");
    door.state.lock().expect("unpoisoned").1 = true;
    door.changed.notify_all();
    while !chat.still_running().is_empty() {
        tokio::task::yield_now().await;
    }
    let mut told = String::new();
    let run = chat.send("And now?").on_event(|event| told.push_str(&printed(&event)));
    run.await.expect("an answer");
    let asked = model.requests().last().expect("a request").last_text();
    assert!(asked.contains("were cut here") && asked.len() < 1_800, "{} bytes", asked.len());
    clean("what the model reads", &asked);
    assert!(told.contains("ToolEnded"), "{told}");
    clean("events", &told);
}

/// A provider that is not ours, and whose errors hold what it knows.
struct Careless(Secrets);

impl Provider for Careless {
    fn name(&self) -> &str {
        "careless"
    }

    fn model(&self) -> &str {
        "m"
    }

    fn stream<'a>(&'a self, _: Request<'a>) -> EventStream<'a> {
        let cause = io::Error::other(format!("refused {KEY}"));
        let later = harness::Error::new(harness::ErrorKind::Connect, format!("again {KEY}"));
        let error = harness::Error::new(harness::ErrorKind::Api, format!("with {KEY}"))
            .with_source(harness::Error::new(harness::ErrorKind::Api, KEY).with_source(cause))
            .with_note(format!("gave up on {KEY}"))
            .with_provider(KEY)
            .with_later(later);
        let again = StreamEvent::Discarded { cause: format!("with {KEY}") };
        Box::pin(futures_util::stream::iter([Ok(again), Err(error)]))
    }

    fn secrets(&self) -> &Secrets {
        &self.0
    }
}

#[tokio::test]
async fn an_error_of_any_provider_is_cleaned_with_its_sources_and_those_after_it() {
    let seen = run(Agent::builder(Careless(Secrets::default().with(KEY)))).await;
    seen.clean("careless");
    let error = seen.stopped.as_ref().and_then(Stopped::error).expect("an error");
    assert_eq!(
        error.to_string(),
        "[secret]: with [secret]; then again [secret]; gave up on [secret]"
    );
    let cause = error.source().and_then(|source| source.source()).expect("a cause of the cause");
    assert_eq!(cause.to_string(), "refused [secret]");
    // What holds no secret keeps its type.
    let cause = io::Error::other("refused");
    let model =
        ScriptedProvider::new([reply()
            .error(harness::Error::new(harness::ErrorKind::Connect, "no").with_source(cause))]);
    let seen = run(Agent::builder(model).secret(KEY)).await;
    let error = seen.stopped.as_ref().and_then(Stopped::error).expect("an error");
    assert!(error.source().is_some_and(|source| source.is::<io::Error>()));
}

#[test]
fn a_secret_that_would_be_found_in_every_word_is_refused() {
    let build = |value: &str| Agent::builder(ScriptedProvider::new([])).secret(value).build();
    for short in ["abc", " x ", "secret", "[secret]"] {
        let err = build(short).expect_err("it is too short").to_string();
        assert!(err.contains("AgentBuilder::secret") && err.contains("four bytes"), "{err}");
    }
    for fine in ["", "  ", "pass", "hunter2"] {
        assert!(build(fine).is_ok(), "{fine:?}");
    }
}

/// Marks each byte that belongs to one of these words. The search is simple and slow: it checks the
/// fast one.
fn covered(text: &str, words: &BTreeSet<String>) -> Vec<bool> {
    let mut covered = vec![false; text.len()];
    for word in words {
        for at in 0..text.len() {
            if text.as_bytes()[at..].starts_with(word.as_bytes()) {
                covered[at..at + word.len()].fill(true);
            }
        }
    }
    covered
}

fn ranges(covered: &[bool]) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for at in (0..covered.len()).filter(|at| covered[*at]) {
        match ranges.last_mut() {
            Some(last) if last.end == at => last.end += 1,
            _ => ranges.push(at..at + 1),
        }
    }
    ranges
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::times(600), failure_persistence: None, ..ProptestConfig::default() })]

    /// Words that overlap, hold one another, begin alike and end alike: every byte of each of them
    /// is gone, and no other byte is.
    #[test]
    fn all_of_every_secret_goes_and_nothing_else(
        words in prop::collection::btree_set("[abé]{4,9}", 0..8),
        text in "[abé ]{0,60}",
    ) {
        let secrets = words.iter().fold(Secrets::default(), Secrets::with);
        // Encoded for an address it is another word.
        let mut words = words;
        words.retain(|word| word.len() >= 4);
        let mut left = String::new();
        let mut from = 0;
        for range in ranges(&covered(&text, &words)) {
            left.push_str(&text[from..range.start]);
            left.push_str("[secret]");
            from = range.end;
        }
        left.push_str(&text[from..]);
        prop_assert_eq!(secrets.hide(&text), left);
    }

    /// However a secret stands in a text, no form of it is left.
    #[test]
    fn no_form_of_a_secret_is_left(secret in "[ -~]{8,40}", before in "[ -~]{0,9}", after in "[ -~]{0,9}") {
        let secret = secret.trim();
        prop_assume!(secret.len() >= 4 && !"[secret]".contains(secret));
        let secrets = Secrets::default().with(secret);
        let json = serde_json::to_string(secret).expect("JSON");
        let json = &json[1..json.len() - 1];
        for form in [secret, json, &json.replace('/', "\\/"), &percent(secret)] {
            let hidden = secrets.hide(&format!("{before}{form}{after}")).into_owned();
            prop_assert!(hidden.contains("[secret]"), "{hidden}");
            prop_assert!(hidden.len() <= before.len() + after.len() + 8, "{hidden}");
        }
    }
}

#[test]
fn a_value_is_found_as_the_usual_writers_of_json_and_urls_spell_it() {
    let value = "pä ss!w(o)r*d~'q\"u&o+t/e\\🙂%4";
    let secrets = Secrets::default().with(value);
    let table = [
        ("Rust and JavaScript", r#"pä ss!w(o)r*d~'q\"u&o+t/e\\🙂%4"#),
        ("Python", r#"p\u00e4 ss!w(o)r*d~'q\"u&o+t/e\\\ud83d\ude42%4"#),
        ("PHP", r#"p\u00e4 ss!w(o)r*d~'q\"u&o+t\/e\\\ud83d\ude42%4"#),
        ("capitals", r#"p\u00E4 ss!w(o)r*d~'q\"u&o+t/e\\\uD83D\uDE42%4"#),
        ("Go", r#"pä ss!w(o)r*d~'q\"u\u0026o+t/e\\🙂%4"#),
        ("Gson", r#"pä ss!w(o)r*d~\u0027q\"u\u0026o+t/e\\🙂%4"#),
        (".NET", r#"p\u00E4 ss!w(o)r*d~\u0027q\u0022u\u0026o\u002Bt/e\\\uD83D\uDE42%4"#),
        ("JSON in JSON", r#"pä ss!w(o)r*d~'q\\\"u&o+t/e\\\\🙂%4"#),
        ("RFC 3986", "p%C3%A4%20ss%21w%28o%29r%2Ad~%27q%22u%26o%2Bt%2Fe%5C%F0%9F%99%82%254"),
        ("encodeURIComponent", "p%C3%A4%20ss!w(o)r*d~'q%22u%26o%2Bt%2Fe%5C%F0%9F%99%82%254"),
        ("encodeURI", "p%C3%A4%20ss!w(o)r*d~'q%22u&o+t/e%5C%F0%9F%99%82%254"),
        ("a form", "p%C3%A4+ss%21w%28o%29r*d%7E%27q%22u%26o%2Bt%2Fe%5C%F0%9F%99%82%254"),
        ("quote_plus", "p%C3%A4+ss%21w%28o%29r%2Ad~%27q%22u%26o%2Bt%2Fe%5C%F0%9F%99%82%254"),
        ("a query", "p%C3%A4%20ss!w(o)r*d~%27q%22u&o+t/e\\%F0%9F%99%82%4"),
        ("small digits", "p%c3%a4%20ss!w(o)r*d~'q%22u%26o%2bt%2fe%5c%f0%9f%99%82%254"),
    ];
    for (writer, spelled) in table {
        assert_eq!(secrets.hide(&format!("<{spelled}>")), "<[secret]>", "{writer}");
    }
}

#[test]
fn a_union_knows_what_both_know() {
    let (one, two) =
        (Secrets::default().with("first-0001"), Secrets::default().with("second-0002"));
    let both = one.clone().and(&two);
    assert_eq!(both.hide("first-0001 second-0002"), "[secret] [secret]");
    assert_eq!(one.hide("first-0001 second-0002"), "[secret] second-0002", "it is not changed");
    assert!(Secrets::none().is_empty() && Secrets::default().and(Secrets::none()).is_empty());
    assert_eq!(Secrets::none().clone().and(&one).hide("first-0001"), "[secret]");
    assert!(!printed(&both).contains("first"), "{both:?}");
    let value: Value = json!("first-0001");
    assert_eq!(one.hide(&value.to_string()), "\"[secret]\"");
}
