//! Windows of a few thousand tokens, on servers of which nothing is known: how a summary is requested there.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use harness::{
    Agent, AnthropicProvider, ChatCompletionsProvider, ErrorKind, Event, FallbackProvider,
    OpenAIProvider, Provider,
    context::Window,
    provider::{Effort, Settings},
    testing::{Answer, LoopbackServer, anthropic, chat, responses},
};
use serde_json::{Value, json};

use crate::{summaries::summary, wire_providers::WIRES};

const WINDOW: u64 = 2_048;

/// A model that is in no table.
fn unknown(wire: &str, url: &str) -> Box<dyn Provider> {
    let (key, model) = ("k", "tiny");
    match wire {
        "anthropic" => Box::new(
            AnthropicProvider::builder().api_key(key).base_url(url).model(model).build().unwrap(),
        ),
        "responses" => Box::new(
            OpenAIProvider::builder().api_key(key).base_url(url).model(model).build().unwrap(),
        ),
        _ => {
            Box::new(ChatCompletionsProvider::builder().base_url(url).model(model).build().unwrap())
        }
    }
}

fn says(wire: &str, text: &str, tokens: u64) -> Answer {
    match wire {
        "anthropic" => anthropic::body().text(text).usage(tokens, 40).answer(),
        "responses" => responses::body().text(text).usage(tokens, 40).answer(),
        _ => chat::body().text(text).usage(tokens, 40).answer(),
    }
}

/// Words, the call that was wanted, and another one in which the model is cut off.
fn babbles(wire: &str, arguments: &Value) -> Answer {
    let (id, name, rest) = ("call_2", "summary", r#"{"goals": ["and"#);
    match wire {
        "anthropic" => anthropic::body()
            .text("Hm. ")
            .call("call_1", name, arguments.clone())
            .call_text(id, name, rest)
            .stop("max_tokens")
            .answer(),
        "responses" => responses::body()
            .text("Hm. ")
            .call("call_1", name, arguments.clone())
            .call_text(id, name, rest)
            .incomplete("max_output_tokens")
            .answer(),
        _ => chat::body()
            .text("Hm. ")
            .call("call_1", name, arguments.clone())
            .call_text(id, name, rest)
            .stop("length")
            .answer(),
    }
}

fn lists(line: &str) -> Value {
    let keys = ["goals", "decisions", "open_work", "names_and_ids", "tried_and_failed"];
    keys.into_iter()
        .map(|key| (key.to_owned(), json!([line])))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

type Summed = Arc<Mutex<Vec<Value>>>;

/// A server that answers each request for a summary by `sums`, and keeps the request. It counts a token for three bytes of
/// what is said.
async fn server(
    wire: &'static str,
    sums: impl Fn(&Value) -> Answer + Send + Sync + 'static,
) -> (LoopbackServer, Summed) {
    let summed = Summed::default();
    let seen = Arc::clone(&summed);
    let server = LoopbackServer::answering(move |request| {
        let body = request.json();
        let said = body.get("messages").or_else(|| body.get("input")).unwrap().to_string();
        if !said.contains("Sum it up now") {
            return says(wire, "Noted.", said.len() as u64 / 3);
        }
        seen.lock().unwrap().push(body.clone());
        sums(&body)
    });
    (server.await.unwrap(), summed)
}

/// Twelve turns of 250 tokens each, by the count of the server.
async fn turns(wire: &str, server: &LoopbackServer, settings: Settings) -> String {
    let agent = Agent::builder(unknown(wire, &server.url())).window(Window::new().tokens(WINDOW));
    let mut chat = agent.build().unwrap().chat();
    for turn in 0..12 {
        let said = format!("{turn}: {}", "words ".repeat(110));
        chat.send(said).settings(settings.clone()).await.unwrap_or_else(|stopped| {
            panic!("{wire}, {turn}: {stopped}: {:?}", stopped.error().map(ToString::to_string))
        });
    }
    chat.sent().messages().iter().map(|message| message.text()).collect()
}

/// The model is held to the form with its lengths, and what is requested fits the window together with its answer.
#[tokio::test]
async fn a_summary_is_held_to_its_form_and_fits_a_small_window() {
    for wire in WIRES {
        let (server, summed) = server(wire, move |body| match body.get("tool_choice") {
            Some(_) => babbles(wire, &lists("teal otter")),
            // A model that thinks until it is cut off.
            None => chat::body().reasoning("reasoning_content", "Hm. ").stop("length").answer(),
        })
        .await;
        let settings = Settings { max_tokens: Some(500), ..Settings::default() };
        let sent = turns(wire, &server, settings).await;
        assert!(sent.contains("- teal otter") && !sent.contains("Hm. "), "{wire}: {sent}");
        let summed = summed.lock().unwrap();
        for body in &*summed {
            let names = ["max_tokens", "max_output_tokens"];
            let most = names.iter().find_map(|name| body.get(name)?.as_u64());
            let bytes = body.to_string();
            let tokens = bytes.len() as u64 / 3 + most.expect("a limit");
            assert!(tokens <= WINDOW, "{wire}: {tokens}: {bytes}");
            assert!(
                bytes.contains(r#""maxLength":"#) && bytes.contains(r#""maxItems":"#),
                "{wire}: {bytes}"
            );
            assert!(!bytes.contains("Call no tool"), "{wire}: {bytes}");
        }
        let choices: Vec<Option<&Value>> =
            summed.iter().map(|body| body.get("tool_choice")).collect();
        match wire {
            "anthropic" => {
                let one = json!({"type": "any", "disable_parallel_tool_use": true});
                assert!(choices.iter().all(|choice| *choice == Some(&one)), "{choices:?}");
            }
            "responses" => {
                assert!(
                    choices.iter().all(|choice| *choice == Some(&json!("required"))),
                    "{choices:?}"
                );
                let one = |body: &Value| body.get("parallel_tool_calls") == Some(&json!(false));
                assert!(summed.iter().all(one));
            }
            // The mode is the better known way there, and the call is the second one.
            _ => {
                let pairs = choices.chunks(2);
                let is_pair = |pair: &[Option<&Value>]| matches!(pair, [None, Some(choice)] if *choice == "required");
                assert!(!choices.is_empty() && pairs.clone().all(is_pair), "{choices:?}");
                assert!(summed.iter().step_by(2).all(|body| body.get("response_format").is_some()));
            }
        }
    }
}

/// Vendors refuse a forced call of a model that thinks: it is not forced then.
#[tokio::test]
async fn a_model_that_thinks_is_not_made_to_call() {
    for wire in WIRES {
        let (server, summed) = server(wire, move |_| says(wire, &summary("teal otter"), 400)).await;
        let settings = Settings { effort: Some(Effort::Low), ..Settings::default() };
        let sent = turns(wire, &server, settings).await;
        assert!(sent.contains("- teal otter"), "{wire}: {sent}");
        let summed = summed.lock().unwrap();
        assert!(
            !summed.is_empty() && summed.iter().all(|body| body.get("tool_choice").is_none()),
            "{wire}"
        );
    }
}

/// If a server refuses the forced call or the lengths of the schema, this and all later summaries are requested in words.
#[tokio::test]
async fn what_a_server_refuses_of_a_summary_is_asked_in_another_way() {
    for wire in WIRES {
        let (server, summed) = server(wire, move |body| {
            let refused = if body.get("tools").is_some() {
                "tool_choice: only `auto` is possible"
            } else if body.get("response_format").is_some() {
                "response_format: the keyword maxLength is not supported"
            } else {
                return says(wire, &summary("teal otter"), 400);
            };
            Answer::json(
                400,
                &json!({"error": {"type": "invalid_request_error", "message": refused}}),
            )
        })
        .await;
        let sent = turns(wire, &server, Settings::default()).await;
        assert!(sent.contains("- teal otter"), "{wire}: {sent}");
        let summed = summed.lock().unwrap();
        let held =
            |body: &&Value| body.get("tools").is_some() || body.get("response_format").is_some();
        let refused = summed.iter().filter(held).count();
        assert_eq!(refused, if wire == "chat" { 2 } else { 1 }, "{wire}: each way is refused once");
        assert!(summed.len() > refused + 1, "{wire}: {}", summed.len());
    }
}

/// Whatever stands around it, the call that is whole is the summary, and a call without an end is none.
#[tokio::test]
async fn the_call_that_is_whole_is_the_summary() {
    let (old, whole) = (lists("old heron").to_string(), lists("teal otter").to_string());
    let partial = r#"{"goals": ["magpie"], "dec"#;
    let quotes = summary("old heron");
    // What is said before the calls, their names and arguments, why it ends, and whether there is a summary.
    let shapes = [
        (old.as_str(), vec![("summary", partial)], "tool_use", false),
        (old.as_str(), vec![("summary", partial)], "max_tokens", false),
        (quotes.as_str(), vec![("summary", &*whole)], "tool_use", true),
        ("Hm.", vec![("summary", &*whole), ("summary", &*old)], "tool_use", true),
        ("Hm.", vec![("summary", &*whole), ("summary", partial)], "tool_use", true),
        ("Hm.", vec![("look", "{}"), ("summary", &*whole)], "tool_use", true),
        ("Hm.", vec![("summary", "{}"), ("summary", &*whole)], "end_turn", true),
        ("Hm.", vec![("summary", &*whole)], "refusal", false),
    ];
    for (text, calls, stop, is_summary) in shapes {
        let told: Vec<(String, String)> =
            calls.iter().map(|(name, json)| ((*name).to_owned(), (*json).to_owned())).collect();
        let (text, shape) = (text.to_owned(), format!("{text}, {calls:?}, {stop}"));
        let (server, _) = server("anthropic", move |_| {
            let body = anthropic::body().text(&text);
            let calls = told.iter().enumerate();
            let body = calls.fold(body, |body, (at, (name, json))| {
                body.call_text(&format!("call_{at}"), name, json)
            });
            body.stop(stop).answer()
        })
        .await;
        let agent = Agent::builder(unknown("anthropic", &server.url()));
        let agent = agent.window(Window::new().tokens(WINDOW)).build().unwrap();
        let mut chat = agent.chat();
        for turn in 0..4 {
            chat.send(format!("{turn}: {}", "words ".repeat(110))).await.unwrap();
        }
        let summed = chat.compact().await;
        assert_eq!(summed.is_ok(), is_summary, "{shape}: {summed:?}");
        let sent: String = chat.sent().messages().iter().map(|message| message.text()).collect();
        assert_eq!(sent.contains("- teal otter"), is_summary, "{shape}: {sent}");
        assert!(!sent.contains("heron") && !sent.contains("magpie"), "{shape}: {sent}");
    }
}

/// If a server refuses only the forced call of the second request, later first requests still use its mode.
#[tokio::test]
async fn the_first_way_is_not_given_up_for_the_second_one() {
    let (server, summed) = server("chat", |body| {
        if body.get("tools").is_some() {
            let why = json!({"error": {"message": "tool_choice: only `auto` is possible"}});
            return Answer::json(400, &why);
        }
        match body.get("response_format") {
            Some(_) => chat::body().text("Hm.").stop("length").answer(),
            None => says("chat", &summary("teal otter"), 400),
        }
    })
    .await;
    turns("chat", &server, Settings::default()).await;
    let summed = summed.lock().unwrap();
    let held = summed.iter().filter(|body| body.get("response_format").is_some()).count();
    let forced = summed.iter().filter(|body| body.get("tools").is_some()).count();
    assert!(held > 1 && forced == 1, "{held} and {forced} of {}", summed.len());
}

/// A system prompt has its part of a small window.
#[tokio::test]
async fn a_summary_fits_beside_a_system_prompt() {
    let (server, summed) =
        server("anthropic", |_| says("anthropic", &summary("teal otter"), 400)).await;
    let agent = Agent::builder(unknown("anthropic", &server.url())).system("rules ".repeat(200));
    let agent = agent.window(Window::new().tokens(WINDOW)).build().unwrap();
    let mut chat = agent.chat();
    for turn in 0..9 {
        let settings = Settings { max_tokens: Some(100), ..Settings::default() };
        let said = format!("{turn}: {}", "words ".repeat(110));
        chat.send(said).settings(settings).await.unwrap();
    }
    let body = summed.lock().unwrap().first().cloned().expect("a summary");
    let most = body.get("max_tokens").and_then(Value::as_u64).expect("a limit");
    let tokens = body.to_string().len() as u64 / 4 + most;
    assert!(tokens <= WINDOW, "{tokens}: {body}");
}

/// A server that refuses what does not fit together with its answer gets what fits, and a `max_tokens` that fits stays.
#[tokio::test]
async fn an_answer_is_allowed_what_the_window_has_left() {
    for (wire, max_tokens) in WIRES.into_iter().flat_map(|wire| [(wire, 1_200), (wire, 100_000)]) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let server = LoopbackServer::answering(move |request| {
            let body = request.json();
            let names = ["max_tokens", "max_output_tokens"];
            let most = names.iter().find_map(|name| body.get(name)?.as_u64()).expect("a limit");
            let tokens = body.to_string().len() as u64 / 4;
            if tokens + most > WINDOW {
                let refused = format!(
                    "This model's maximum context length is {WINDOW} tokens. However, you requested {} tokens ({tokens} \
                     in the messages, {most} in the completion).",
                    tokens + most
                );
                seen.lock().unwrap().push((tokens, most, true));
                let error = json!({"type": "invalid_request_error", "message": refused});
                return Answer::json(400, &json!({ "error": error }));
            }
            seen.lock().unwrap().push((tokens, most, false));
            let text = if body.to_string().contains("Sum it up now") {
                summary("teal otter")
            } else {
                "Noted.".to_owned()
            };
            says(wire, &text, tokens)
        })
        .await
        .unwrap();
        let settings = Settings { max_tokens: Some(max_tokens), ..Settings::default() };
        let sent = turns(wire, &server, settings).await;
        assert!(sent.contains("- teal otter"), "{wire}: {sent}");
        let asked = asked.lock().unwrap();
        assert!(asked.iter().all(|(.., refused)| !refused), "{wire}, {max_tokens}: {asked:?}");
        let first = asked.first().expect("a request").1;
        match max_tokens {
            1_200 => assert_eq!(first, 1_200, "{wire}"),
            _ => assert!((1_500..WINDOW).contains(&first), "{wire}: {first}"),
        }
        // No answer is kept shorter than it has to be.
        assert!(asked.iter().all(|(tokens, most, _)| tokens + most > WINDOW / 2), "{asked:?}");
    }
}

/// Where a request for a summary cannot fit, none is sent, and the error has the sizes.
#[tokio::test]
async fn a_window_too_small_for_a_summary_is_said_before_one_is_requested() {
    let (server, summed) =
        server("anthropic", |_| says("anthropic", &summary("teal otter"), 400)).await;
    let agent = Agent::builder(unknown("anthropic", &server.url()));
    let agent = agent.window(Window::new().tokens(700)).build().unwrap();
    let mut chat = agent.chat();
    let mut turn = 0;
    let stopped = loop {
        turn += 1;
        assert!(turn < 12, "the window never gets full");
        if let Err(stopped) = chat.send(format!("{turn}: {}", "words ".repeat(50))).await {
            break stopped;
        }
    };
    let error = stopped.error().expect("an error");
    assert_eq!(error.kind(), ErrorKind::ContextFull, "{error}");
    let words = "a window of 700 tokens is too small to summarize the conversation";
    assert!(error.to_string().contains(words), "{error}");
    assert!(summed.lock().unwrap().is_empty());
    let error = chat.compact().await.unwrap_err();
    assert!(error.to_string().contains(words), "{error}");
    assert!(summed.lock().unwrap().is_empty());
    assert!(chat.transcript().messages().iter().any(|message| message.text().starts_with("1: ")));
}

/// A request as the server has it.
#[derive(Clone, Copy, Debug)]
struct Asked {
    most: u64,
    is_refused: bool,
    sums_up: bool,
}

type Log = Arc<Mutex<Vec<Asked>>>;

/// How vLLM words a refusal.
#[derive(Clone, Copy, Debug)]
enum Counts {
    /// It has counted the whole request.
    All,
    /// It has stopped counting at the first token that did not fit.
    Part,
}

/// A server with this window in the words of vLLM, which counts a token for so many bytes. It lies in the request with this
/// number.
async fn strict(
    window: u64,
    bytes: u64,
    counts: Counts,
    lies: Option<(usize, &'static str)>,
) -> (LoopbackServer, Log) {
    let asked = Log::default();
    let seen = Arc::clone(&asked);
    let server = LoopbackServer::answering(move |request| {
        let body = request.json();
        let wire = match body.get("input") {
            Some(_) => "responses",
            None if request.path().ends_with("/messages") => "anthropic",
            None => "chat",
        };
        let names = ["max_tokens", "max_output_tokens"];
        let most = names.iter().find_map(|name| body.get(name)?.as_u64());
        let most = most.unwrap_or(1);
        let tokens = body.to_string().len() as u64 / bytes;
        let mut seen = seen.lock().unwrap();
        let lie = lies.filter(|(at, _)| *at == seen.len()).map(|(_, lie)| lie.to_owned());
        let refused = lie.or_else(|| {
            let (at_least, tokens) = match counts {
                Counts::All => ("", tokens),
                Counts::Part => ("at least ", tokens.min((window + 1).saturating_sub(most))),
            };
            if most > window {
                return Some(format!(
                    "max_tokens={most} cannot be greater than max_model_len={window}. Please request fewer output tokens."
                ));
            }
            (tokens + most > window).then(|| {
                format!(
                    "This model's maximum context length is {window} tokens. However, you requested {most} output tokens and \
                     your prompt contains {at_least}{tokens} input tokens, for a total of {at_least}{} tokens.",
                    tokens + most
                )
            })
        });
        let sums_up = body.to_string().contains("Sum it up now");
        seen.push(Asked { most, is_refused: refused.is_some(), sums_up });
        if let Some(refused) = refused {
            let error = json!({"type": "invalid_request_error", "message": refused});
            return Answer::json(400, &json!({ "error": error }));
        }
        let text = if sums_up { summary("teal otter") } else { "Noted.".to_owned() };
        says(wire, &text, tokens)
    });
    (server.await.unwrap(), asked)
}

/// Sends so many messages of so many words, and gives the number of those that were answered.
async fn answered(agent: Agent, max_tokens: Option<u32>, (turns, words): (u32, usize)) -> u32 {
    let mut chat = agent.chat();
    let mut answered = 0;
    for turn in 0..turns {
        let settings = Settings { max_tokens, ..Settings::default() };
        let said = format!("{turn}: {}", "words ".repeat(words));
        answered += u32::from(chat.send(said).settings(settings).await.is_ok());
    }
    answered
}

/// Whatever the estimate is worth, a server that names the sizes is asked once more with what fits, and no more than once.
#[tokio::test]
async fn a_refusal_with_both_sizes_is_answered_with_the_tokens_that_fit() {
    for (wire, bytes, window) in WIRES.into_iter().flat_map(|wire| {
        [(4, None), (3, None), (3, Some(4_096)), (5, Some(4_096))].map(|(b, w)| (wire, b, w))
    }) {
        let (server, asked) = strict(4_096, bytes, Counts::All, None).await;
        let mut agent = Agent::builder(unknown(wire, &server.url()));
        if let Some(tokens) = window {
            agent = agent.window(Window::new().tokens(tokens));
        }
        let done = answered(agent.build().unwrap(), Some(3_500), (20, 110)).await;
        let asked = asked.lock().unwrap();
        assert_eq!(done, 20, "{wire}, {bytes}, {window:?}: {asked:?}");
        let in_a_row = asked.windows(3).any(|three| three.iter().all(|asked| asked.is_refused));
        assert!(!in_a_row, "{wire}, {bytes}, {window:?}: {asked:?}");
    }
}

/// A server that counts a request only once its `max_tokens` is below the window is asked with what fits then.
#[tokio::test]
async fn a_size_that_is_counted_at_last_is_used() {
    for wire in WIRES {
        let (server, asked) = strict(4_096, 3, Counts::All, None).await;
        let agent = Agent::builder(unknown(wire, &server.url())).build().unwrap();
        let done = answered(agent, Some(38_000), (1, 1_230)).await;
        let asked = asked.lock().unwrap();
        assert_eq!(done, 1, "{wire}: {asked:?}");
        let refused: Vec<bool> = asked.iter().map(|asked| asked.is_refused).collect();
        assert_eq!(refused, [true, true, false], "{wire}: {asked:?}");
    }
}

/// A server that does not say how large the request is gets less and less, until it fits.
#[tokio::test]
async fn a_refusal_with_a_lower_bound_is_answered_with_fewer_tokens() {
    let known = [None, Some(8_000)];
    for (wire, max_tokens, window) in WIRES.into_iter().flat_map(|wire| {
        known.into_iter().flat_map(move |window| {
            [Some(500), Some(6_000), Some(100_000)].map(|most| (wire, most, window))
        })
    }) {
        let sizes: &[u64] = match (max_tokens, crate::step(2)) {
            (_, 1) => &[3, 4],
            (Some(500), _) => &[4],
            _ => &[3],
        };
        for &bytes in sizes {
            let (server, asked) = strict(8_000, bytes, Counts::Part, None).await;
            let mut agent = Agent::builder(unknown(wire, &server.url()));
            if let Some(tokens) = window {
                agent = agent.window(Window::new().tokens(tokens));
            }
            let done = answered(agent.build().unwrap(), max_tokens, (30, 300)).await;
            let asked = asked.lock().unwrap();
            let shown = format!("{wire}, {max_tokens:?}, {window:?}, {bytes}: {asked:?}");
            assert_eq!(done, 30, "{shown}");
            assert!(asked.iter().any(|asked| asked.sums_up && !asked.is_refused), "{shown}");
        }
    }
}

/// The default of a wire that always sends a `max_tokens` is lowered after a refusal, and before one for a summary.
#[tokio::test]
async fn a_default_that_does_not_fit_is_lowered() {
    for (window, counts) in [8_000, 16_000]
        .into_iter()
        .flat_map(|window| [Counts::All, Counts::Part].map(|counts| (window, counts)))
    {
        let (server, asked) = strict(window, 4, counts, None).await;
        let agent = Agent::builder(unknown("anthropic", &server.url()));
        let agent = agent.window(Window::new().tokens(window)).build().unwrap();
        let done = answered(agent, None, (40, 400)).await;
        let asked = asked.lock().unwrap();
        assert_eq!(done, 40, "{window}, {counts:?}: {asked:?}");
        assert!(asked.iter().any(|asked| asked.sums_up), "{window}, {counts:?}: {asked:?}");
        // The first refusal is enough, if the size of the window is right.
        let refused = asked.iter().filter(|asked| asked.is_refused).count();
        assert_eq!(refused, 1, "{window}, {counts:?}: {asked:?}");
    }
}

#[tokio::test]
async fn a_summary_by_hand_fits_a_small_window_without_a_setting() {
    let (server, asked) = strict(WINDOW, 4, Counts::All, None).await;
    let agent = Agent::builder(unknown("anthropic", &server.url()));
    let mut chat = agent.window(Window::new().tokens(WINDOW)).build().unwrap().chat();
    for turn in 0..4 {
        chat.send(format!("{turn}: {}", "words ".repeat(150))).await.unwrap();
    }
    let context = chat.compact().await.unwrap();
    assert!(context.summed_up > 0);
    // The window of the server is much smaller than the program says: after a refusal, a smaller request for a summary follows.
    let agent = Agent::builder(unknown("anthropic", &server.url()));
    let mut chat = agent.window(Window::new().tokens(200_000)).build().unwrap().chat();
    for turn in 0..4 {
        chat.send(format!("{turn}: {}", "words ".repeat(150))).await.unwrap();
    }
    chat.compact().await.unwrap();
    // The size of a window that nobody has named is not made up.
    let agent = Agent::builder(unknown("anthropic", &server.url())).build().unwrap();
    let mut chat = agent.chat();
    chat.send("Hello.").await.unwrap();
    let error = chat.compact().await.unwrap_err();
    assert!(!error.to_string().contains("a window of"), "{error}");
    let asked = asked.lock().unwrap();
    let first = asked.iter().find(|asked| asked.sums_up).expect("a summary");
    assert!(!first.is_refused, "{asked:?}");
}

/// If a later member of a fallback has refused the request, it is asked again with the lower `max_tokens`, too.
#[tokio::test]
async fn a_fallback_gets_the_tokens_that_fit() {
    for wire in WIRES {
        let down = LoopbackServer::answering(|_| Answer::json(503, &json!({"error": {}})));
        let down = down.await.unwrap();
        let (server, asked) = strict(4_096, 4, Counts::All, None).await;
        let first = FallbackProvider::new(unknown(wire, &down.url()));
        let providers = first.or(unknown(wire, &server.url()));
        let agent = Agent::builder(providers).build().unwrap();
        let done = answered(agent, Some(6_000), (4, 100)).await;
        assert_eq!(done, 4, "{wire}: {:?}", asked.lock().unwrap());
    }
}

/// A program is told that the model is asked again, and a larger value is never sent than it has set.
#[tokio::test]
async fn a_lowered_answer_is_told_and_none_is_raised() {
    let lie = "This model's maximum context length is 1000000 tokens. However, you requested 9 output tokens and your \
               prompt contains 5 input tokens";
    for (wire, window) in WIRES.into_iter().flat_map(|wire| [(wire, None), (wire, Some(8_000))]) {
        let (server, asked) = strict(200_000, 4, Counts::All, Some((1, lie))).await;
        let mut agent = Agent::builder(unknown(wire, &server.url()));
        if let Some(tokens) = window {
            agent = agent.window(Window::new().tokens(tokens));
        }
        let mut chat = agent.build().unwrap().chat();
        let settings = Settings { max_tokens: Some(7_500), ..Settings::default() };
        let mut retries = Vec::new();
        for _ in 0..3 {
            let sent = chat.send("Go on.").settings(settings.clone()).on_event(|event| {
                if let Event::Retrying { wait, cause, .. } = event {
                    retries.push((wait, cause.contains("1000000 tokens")));
                }
            });
            sent.await.unwrap();
        }
        assert_eq!(retries, [(Duration::ZERO, true)], "{wire}, {window:?}");
        let asked = asked.lock().unwrap();
        let first = asked.first().expect("a request").most;
        assert!(first <= 7_500 && asked.iter().all(|asked| asked.most <= first), "{asked:?}");
    }
}

/// A budget for thinking that the program has set stays below `max_tokens`.
#[tokio::test]
async fn an_answer_is_not_lowered_below_its_budget_for_thinking() {
    let (server, asked) = strict(8_000, 4, Counts::All, None).await;
    let agent = Agent::builder(unknown("anthropic", &server.url())).build().unwrap();
    let extra = json!({"thinking": {"type": "enabled", "budget_tokens": 2_000}});
    let extra = extra.as_object().unwrap().clone();
    let settings = Settings { max_tokens: Some(64_000), extra, ..Settings::default() };
    agent.run("words ".repeat(1_000)).settings(settings.clone()).await.unwrap();
    let most = asked.lock().unwrap().last().expect("a request").most;
    assert!((2_001..8_000).contains(&most), "{most}");
    let settings = Settings { max_tokens: Some(7_000), ..settings };
    agent.run("words ".repeat(4_500)).settings(settings).await.unwrap_err();
    let most = asked.lock().unwrap().last().expect("a request").most;
    assert_eq!(most, 2_001);
}

/// One wrong size in a refusal shortens no later answer and ends no later run.
#[tokio::test]
async fn a_size_that_is_wrong_shortens_no_later_answer() {
    let lies = [
        "This model's maximum context length is 100 tokens.",
        "This model's maximum context length is 7 tokens. However, you requested 9 output tokens and your prompt contains 5 \
         input tokens",
        "input length and `max_tokens` exceed context limit: 5 + 3 > 0",
        "This model's maximum context length is 1000 tokens, however you requested 1297 tokens (97 in your prompt; 1200 \
         for the completion)",
    ];
    for (wire, lie) in WIRES.into_iter().flat_map(|wire| lies.map(|lie| (wire, lie))) {
        let (server, asked) = strict(8_000, 4, Counts::All, Some((3, lie))).await;
        let agent = Agent::builder(unknown(wire, &server.url()));
        let agent = agent.window(Window::new().tokens(8_000)).build().unwrap();
        let done = answered(agent, Some(2_000), (20, 110)).await;
        let asked = asked.lock().unwrap();
        assert!(done >= 19, "{wire}, {lie}: {done}: {asked:?}");
        // Requests for summaries have a lower one.
        let later = asked.iter().skip(5).filter(|asked| asked.most == 2_000).count();
        assert!(later >= 14, "{wire}, {lie}: {later}: {asked:?}");
    }
}

/// A refusal that names sizes which are many times the real ones ends the run in which it comes, and no later one.
#[tokio::test]
async fn sizes_that_are_far_too_large_end_one_run_alone() {
    let lies = [
        "This model's maximum context length is 500000 tokens. However, you requested 500 output tokens and your prompt \
         contains at least 499501 input tokens, for a total of at least 500001 tokens.",
        "This model's maximum context length is 500000 tokens. However, you requested 500 output tokens and your prompt \
         contains 600000 input tokens, for a total of 600500 tokens.",
    ];
    for (wire, lie) in WIRES.into_iter().flat_map(|wire| lies.map(|lie| (wire, lie))) {
        let (server, asked) = strict(4_096, 4, Counts::Part, Some((10, lie))).await;
        let agent = Agent::builder(unknown(wire, &server.url())).build().unwrap();
        let done = answered(agent, Some(500), (20, 170)).await;
        assert!(done >= 19, "{wire}, {lie}: {done}: {:?}", asked.lock().unwrap());
    }
}

/// No request has a `max_tokens` that no vendor takes.
#[tokio::test]
async fn a_request_asks_for_a_number_of_tokens_that_vendors_take() {
    for tokens in [1, 10, 15, 255] {
        let (server, asked) = strict(20_000, 4, Counts::All, None).await;
        let agent = Agent::builder(unknown("anthropic", &server.url()));
        let agent = agent.window(Window::new().tokens(tokens)).build().unwrap();
        let settings = Settings { max_tokens: Some(500), ..Settings::default() };
        let _ = agent.run("Hello.").settings(settings).await;
        let asked = asked.lock().unwrap();
        let most = asked.first().expect("a request").most;
        assert!(most >= 16, "{tokens}: {most}");
    }
}
