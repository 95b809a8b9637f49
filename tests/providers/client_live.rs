//! Real servers, if some are running: set `HARNESS_LIVE` to the address of a server on this machine
//! with all three protocols, such as llama.cpp's, and `HARNESS_LIVE_MODEL` to its model if it needs
//! one. Otherwise these tests print that they are skipped.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::StreamExt as _;
use harness::{
    Agent, AnthropicProvider, Block, CallOutcome, ChatCompletionsProvider, Error, ErrorKind, Link,
    Media, Message, OpenAIProvider, Outcome, Provider, Role, StopReason, StreamEvent, ToolContent,
    ToolResult, Transcript,
    context::Window,
    models::{Model, Models},
    policy::{RetryPolicy, RetryProvider},
    provider::{ProviderResponse, Request, Settings, ToolChoice, accumulate},
    tool::ToolSchema,
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

fn server() -> Option<String> {
    let url = std::env::var("HARNESS_LIVE").ok().filter(|url| !url.is_empty());
    if url.is_none() {
        eprintln!("skipped: `HARNESS_LIVE` names no server");
    }
    url
}

fn providers(url: &str) -> Vec<Box<dyn Provider>> {
    providers_of(url, 120)
}

/// Providers whose answers have at most `max` tokens.
fn providers_of(url: &str, max: u32) -> Vec<Box<dyn Provider>> {
    let model = std::env::var("HARNESS_LIVE_MODEL").unwrap_or_else(|_| "default".to_owned());
    let key = "sk-live";
    let words_alone = Model { images: Some(false), ..Model::default() };
    let models = Models::default().with(&*model, words_alone);
    vec![
        Box::new(
            AnthropicProvider::builder()
                .api_key(key)
                .base_url(url)
                .model(&model)
                .max_tokens(max)
                .models(models.clone())
                .build()
                .unwrap(),
        ),
        Box::new(
            OpenAIProvider::builder()
                .api_key(key)
                .base_url(url)
                .model(&model)
                .max_tokens(max)
                .models(models.clone())
                .build()
                .unwrap(),
        ),
        Box::new(
            ChatCompletionsProvider::builder()
                .api_key(key)
                .base_url(url)
                .model(&model)
                .max_tokens(max)
                .models(models.clone())
                .build()
                .unwrap(),
        ),
    ]
}

fn tools() -> [ToolSchema; 1] {
    [ToolSchema {
        name: "get_weather".to_owned(),
        description: "Says the weather.".to_owned(),
        input_schema: json!({"type": "object", "required": ["city", "days"], "properties": {
            "city": {"type": "string"}, "days": {"type": "integer"}}}),
    }]
}

async fn ask(
    provider: &dyn Provider,
    transcript: &Transcript,
    settings: &Settings,
) -> Result<ProviderResponse, Error> {
    let tools = tools();
    let request = Request::new(transcript)?.with_tools(&tools).with_settings(Some(settings));
    accumulate(provider.stream(request.with_system(Some("Be brief.")))).await
}

#[tokio::test]
async fn a_conversation_with_calls_goes_on_and_moves_between_all_providers() {
    let Some(url) = server() else { return };
    let providers = providers(&url);
    let forced = Settings { tool_choice: Some(ToolChoice::Required), ..Settings::default() };
    let mut transcript = Transcript::default();
    for (turn, provider) in providers.iter().chain(&providers).enumerate() {
        transcript.push(Message::user(format!("Weather, question {turn}?"))).unwrap();
        let settings = if turn % 2 == 0 { forced.clone() } else { Settings::default() };
        let answer = ask(provider, &transcript, &settings)
            .await
            .unwrap_or_else(|err| panic!("turn {turn} with {}: {err:?}", provider.name()));
        eprintln!("{}: {:?} {:?}", provider.name(), answer.stop, answer.usage);
        assert!(answer.usage.input.is_some() && answer.usage.output.is_some());
        let Some(message) = answer.message else { continue };
        let calls: Vec<_> = message.calls().cloned().collect();
        if answer.stop == StopReason::ToolCalls {
            assert!(!calls.is_empty());
        }
        transcript.push(message).unwrap();
        if !calls.is_empty() {
            let results = calls.iter().map(|call| {
                Block::ToolResult(ToolResult::new(
                    call.id(),
                    CallOutcome::Succeeded,
                    ["rain".into()],
                ))
            });
            transcript.push(Message::new(Role::Tool, results)).unwrap();
        }
    }
}

/// The model of the server reads words alone: all that it cannot take is words, also in results.
#[tokio::test]
async fn files_of_every_kind_are_taken_as_words() {
    let Some(url) = server() else { return };
    let pdf = || Media::from_bytes("application/pdf", b"%PDF-1.7 ..").with_name("a.pdf");
    let (png, wav) = (b"\x89PNG\r\n\x1a\n".as_slice(), b"RIFF\0\0\0\0WAVE".as_slice());
    let all = || {
        let notes = Media::from_text("text/plain", "It rains.").with_uri("res://notes");
        [notes, pdf(), Media::from_bytes("image/png", png), Media::from_bytes("audio/wav", wav)]
    };
    for provider in providers(&url) {
        let mut transcript = Transcript::default();
        transcript.push(Message::new(Role::User, all().map(Block::from))).unwrap();
        let settings = Settings::default();
        let err = ask(&*provider, &transcript, &settings).await.unwrap_err();
        assert!(err.is_content(), "{err}");
        transcript.push(Message::user("Weather?")).unwrap();
        let forced = Settings { tool_choice: Some(ToolChoice::Required), ..settings.clone() };
        let answer = ask(&*provider, &transcript, &forced).await.unwrap();
        let message = answer.message.unwrap();
        let calls: Vec<_> = message.calls().cloned().collect();
        transcript.push(message).unwrap();
        if !calls.is_empty() {
            let results = calls.iter().map(|call| {
                let link = ToolContent::from(Link::new("res://more", "more"));
                let parts = all().map(ToolContent::from).into_iter().chain([link]);
                Block::ToolResult(ToolResult::new(call.id(), CallOutcome::Succeeded, parts))
            });
            transcript.push(Message::new(Role::Tool, results)).unwrap();
            ask(&*provider, &transcript, &settings).await.unwrap();
        }
        eprintln!("{}: {} calls", provider.name(), calls.len());
    }
}

/// A proxy before the server that closes each connection after one answer, and does not say so.
async fn proxy(to: String) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            let server = TcpStream::connect(&to).await.unwrap();
            tokio::spawn(async move {
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let sending = tokio::spawn(async move {
                    let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
                });
                let mut came = Vec::new();
                // The last chunk of an answer in chunks.
                while !came.ends_with(b"\r\n0\r\n\r\n") {
                    let before = came.len();
                    if !matches!(from_server.read_buf(&mut came).await, Ok(1..)) {
                        break;
                    }
                    let _ = to_client.write_all(&came[before..]).await;
                }
                sending.abort();
            });
        }
    });
    (url, connections)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_that_closes_after_each_answer_costs_no_failure() {
    let Some(url) = server() else { return };
    let (url, connections) = proxy(url.replace("http://", "")).await;
    let once = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
    let providers = providers(&url);
    let providers: Vec<_> = providers.into_iter().map(|it| RetryProvider::new(it, once)).collect();
    let short = Settings { max_tokens: Some(8), ..Settings::default() };
    let mut transcript = Transcript::default();
    transcript.push(Message::user("Oslo?")).unwrap();
    let mut failures = Vec::new();
    for send in 0..200 {
        let provider = &providers[send % providers.len()];
        if let Err(err) = ask(provider, &transcript, &short).await {
            failures.push(format!("send {send}: {err}"));
        }
    }
    let connections = connections.load(Ordering::SeqCst);
    eprintln!("{} failures of 200 sends, {connections} connections", failures.len());
    assert!(failures.is_empty() && connections == 200, "{connections}: {failures:#?}");
}

#[tokio::test]
async fn dropping_an_answer_in_the_middle_leaves_the_server_free() {
    let Some(url) = server() else { return };
    for provider in providers(&url) {
        let mut transcript = Transcript::default();
        transcript.push(Message::user("Tell a long story.")).unwrap();
        for _ in 0..3 {
            let mut stream = provider.stream(Request::new(&transcript).unwrap());
            while let Some(event) = stream.next().await {
                let event = event.unwrap();
                if matches!(
                    event,
                    StreamEvent::TextDelta { .. } | StreamEvent::ReasoningDelta { .. }
                ) {
                    break;
                }
            }
        }
        ask(&provider, &transcript, &Settings::default()).await.unwrap();
    }
}

#[tokio::test]
async fn too_long_a_prompt_is_an_error_with_the_servers_words() {
    let Some(url) = server() else { return };
    for provider in providers(&url) {
        let mut transcript = Transcript::default();
        transcript.push(Message::user("word ".repeat(200_000))).unwrap();
        let err = ask(&provider, &transcript, &Settings::default()).await.unwrap_err();
        eprintln!("{}: {err}", provider.name());
        assert_eq!((err.kind(), err.status()), (ErrorKind::ContextFull, Some(400)));
        assert!(err.code().is_some() && !err.is_retryable());
    }
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Colour {
    Red,
    Green,
}

/// What was seen.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[expect(dead_code, reason = "only whether it is read is of interest")]
struct Seen {
    /// Its colour.
    colour: Colour,
    /// Whether it moves.
    moves: bool,
    /// Other colours.
    #[schemars(length(max = 2))]
    others: Vec<Colour>,
}

/// A server with a grammar holds even a model that knows nothing. Where it passes over the schema, the check says so.
#[tokio::test]
async fn an_answer_of_a_type_is_a_value_or_an_error_that_says_why() {
    let Some(url) = server() else { return };
    for provider in providers(&url) {
        let name = provider.name().to_owned();
        let agent = Agent::builder(provider).build().unwrap();
        let (mut fit, mut unfit, mut cut) = (0, 0, 0);
        for _ in 0..20 {
            match agent.run("What do you see?").answer::<Seen>().await {
                Ok(_) => fit += 1,
                Err(stopped) => match stopped.outcome() {
                    Outcome::Unfit => unfit += 1,
                    Outcome::Truncated => cut += 1,
                    _ => panic!("{name}: {stopped}"),
                },
            }
        }
        println!("{name}: {fit} values, {unfit} did not fit, {cut} were cut off");
    }
}

/// Fifty turns on a server whose model has a small window, which `HARNESS_LIVE_WINDOW` says (2,048 unless set): the
/// conversation never fills up. What the model says is of no account: a summary of its that is none ends a run with an error
/// that says so.
#[tokio::test]
async fn fifty_turns_fit_into_a_small_window() {
    let Some(url) = server() else { return };
    let window = std::env::var("HARNESS_LIVE_WINDOW").ok().and_then(|it| it.parse().ok());
    let window: u64 = window.unwrap_or(2_048);
    for provider in providers_of(&url, 500) {
        let name = provider.name().to_owned();
        let agent = Agent::builder(provider)
            .system("Be brief.")
            .window(Window::new().tokens(window))
            .build()
            .expect("an agent");
        let mut chat = agent.chat();
        let (mut answered, mut unsummed, mut errors) = (0, 0, Vec::new());
        for turn in 0..50 {
            let before = chat.context().used;
            match chat.send(format!("Question {turn}: what do you say to this?")).await {
                Ok(reply) => {
                    answered += 1;
                    if let Some(counted) = reply.usage().input.filter(|_| before > 400) {
                        errors.push((before + 25).abs_diff(counted) * 1_000 / counted.max(1));
                    }
                }
                Err(stopped) => {
                    let error = stopped.error().map(ToString::to_string).unwrap_or_default();
                    let is_typed = stopped.error().is_some_and(Error::is_context_full);
                    let is_cut = stopped.outcome() == Outcome::Truncated;
                    assert!(is_typed || is_cut, "{name}, {turn}: {stopped} {error}");
                    assert!(!error.contains("exceed"), "{name}, {turn}: {error}");
                    unsummed += usize::from(is_typed);
                    println!("{name}, {turn}: {stopped}: {error}");
                    // A person would begin anew here.
                    if is_typed {
                        chat = agent.chat();
                    }
                }
            }
        }
        errors.sort_unstable();
        let median = errors.get(errors.len() / 2).copied().unwrap_or(0);
        println!(
            "{name}: {answered} answered, {unsummed} not summed up; the estimate is wrong by {median} of 1,000"
        );
        assert!(answered > 0, "{name}");
    }
}
