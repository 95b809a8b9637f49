//! How a request uses the vendor's prompt cache, and what a conversation costs with it.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use harness::{
    Agent, AnthropicProvider, ChatCompletionsProvider, Message, OpenAIProvider, Provider,
    SideEffect, SideEffects, Tool, Transcript,
    context::Window,
    journal::MemoryJournal,
    models::{Models, Price},
    provider::{PromptCache, Request, Settings},
    testing::{Answer, LoopbackServer, SimulatedCache, anthropic, chat, responses},
    wire::{self, ModelCapabilities},
};
use serde_json::{Value, json};

use crate::wire_providers::WIRES;

/// The body of one question, asked of this vendor.
fn body(wire: &str, vendor: &str, model: &str, settings: &Settings) -> (String, Value) {
    let mut transcript = Transcript::default();
    transcript.push(Message::user("Hello")).unwrap();
    let first = transcript.messages().get(0).unwrap().id().to_owned();
    let request = Request::new(&transcript).unwrap().with_system(Some("Be \"brief\"."));
    let takes = ModelCapabilities::of(vendor, model, &Models::default());
    let settings = settings.clone();
    let body = match wire {
        "responses" => {
            let options = wire::responses::Options {
                settings,
                takes,
                ..wire::responses::Options::new(model)
            };
            wire::responses::encode(&request, &options)
        }
        _ => {
            let options =
                wire::chat::Options { settings, takes, ..wire::chat::Options::new(model) };
            wire::chat::encode(&request, &options)
        }
    };
    (first, serde_json::from_slice(&body.unwrap()).unwrap())
}

fn cache(prompt_cache: PromptCache) -> Settings {
    Settings { prompt_cache: Some(prompt_cache), ..Settings::default() }
}

#[test]
fn openai_gets_the_id_of_the_first_message_as_the_key_and_others_nothing() {
    for wire in ["responses", "chat"] {
        for vendor in ["openai", "azure"] {
            let (first, body) = body(wire, vendor, "gpt-5.2", &Settings::default());
            assert_eq!(body["prompt_cache_key"], json!(first));
        }
        for vendor in ["", "groq", "mistral", "xai", "openrouter"] {
            let (_, body) = body(wire, vendor, "gpt-5.2", &cache(PromptCache::Long));
            let members: Vec<_> = body.as_object().unwrap().keys().collect();
            assert!(!members.iter().any(|name| name.contains("cache")), "{vendor}: {members:?}");
        }
        let own = |key: &str| Settings { cache_key: Some(key.to_owned()), ..Settings::default() };
        for vendor in ["openai", "groq"] {
            let (_, body) = body(wire, vendor, "gpt-5.2", &own("tenant-7"));
            assert_eq!(body["prompt_cache_key"], json!("tenant-7"), "a key of the program's own");
        }
        let (_, long) = body(wire, "openai", "gpt-5.2", &own(&"k".repeat(500)));
        assert_eq!(long["prompt_cache_key"].as_str().unwrap().len(), 64);
    }
}

#[test]
fn a_lifetime_is_said_where_the_model_has_it() {
    let table = [
        ("gpt-5.2", PromptCache::Long, "prompt_cache_retention", json!("24h")),
        ("gpt-5.2", PromptCache::Short, "prompt_cache_retention", Value::Null),
        ("gpt-5.2", PromptCache::Off, "prompt_cache_key", Value::Null),
        ("gpt-4o", PromptCache::Long, "prompt_cache_retention", Value::Null),
        ("gpt-5-mini", PromptCache::Long, "prompt_cache_retention", Value::Null),
        ("gpt-5.6", PromptCache::Long, "prompt_cache_retention", Value::Null),
        ("gpt-5.6", PromptCache::Short, "prompt_cache_options", Value::Null),
        ("gpt-5.6", PromptCache::Off, "prompt_cache_options", json!({"mode": "explicit"})),
        ("gpt-6-astra", PromptCache::Off, "prompt_cache_options", json!({"mode": "explicit"})),
    ];
    for wire in ["responses", "chat"] {
        for (model, prompt_cache, member, said) in &table {
            let (_, body) = body(wire, "openai", model, &cache(*prompt_cache));
            assert_eq!(body[member], *said, "{wire}, {model}, {prompt_cache:?}");
        }
    }
}

#[test]
fn a_system_prompt_is_marked_where_conversations_share_a_key() {
    let shared =
        |prompt_cache| Settings { cache_key: Some("tenant-7".to_owned()), ..cache(prompt_cache) };
    let text = "Be \"brief\".";
    let mark = json!({"mode": "explicit"});
    for vendor in ["openai", "azure"] {
        let (_, chat) = body("chat", vendor, "gpt-5.6", &shared(PromptCache::Short));
        let part = json!([{"type": "text", "text": text, "prompt_cache_breakpoint": mark}]);
        assert_eq!(chat["messages"][0], json!({"role": "system", "content": part}));
        assert_eq!(chat["messages"][1]["role"], "user");
        let (_, responses) = body("responses", vendor, "gpt-5.6", &shared(PromptCache::Long));
        let part = json!([{"type": "input_text", "text": text, "prompt_cache_breakpoint": mark}]);
        let said = json!({"type": "message", "role": "developer", "content": part});
        assert_eq!(responses["input"][0], said);
        assert_eq!(responses["input"][1]["role"], "user");
        assert_eq!(responses["instructions"], Value::Null);
        assert_eq!(
            responses["prompt_cache_options"],
            Value::Null,
            "the newest message has its mark, too"
        );
    }
    for (vendor, model, settings) in [
        ("openai", "gpt-5.6", cache(PromptCache::Short)),
        ("openai", "gpt-5.6", shared(PromptCache::Off)),
        ("openai", "gpt-5.2", shared(PromptCache::Short)),
        ("groq", "gpt-5.6", shared(PromptCache::Short)),
    ] {
        let (_, chat) = body("chat", vendor, model, &settings);
        assert_eq!(
            chat["messages"][0],
            json!({"role": "system", "content": text}),
            "{vendor}, {model}"
        );
        let (_, responses) = body("responses", vendor, model, &settings);
        assert_eq!(responses["instructions"], text, "{vendor}, {model}");
        assert_eq!(responses["input"][0]["role"], "user", "{vendor}, {model}");
    }
}

#[test]
fn a_model_of_anthropic_behind_openrouter_is_asked_to_keep_the_conversation() {
    for (model, prompt_cache, said) in [
        ("anthropic/claude-opus-5", PromptCache::Short, json!({"type": "ephemeral"})),
        ("anthropic/claude-opus-5", PromptCache::Long, json!({"type": "ephemeral", "ttl": "1h"})),
        ("anthropic/claude-opus-5", PromptCache::Off, Value::Null),
        ("google/gemini-3.7-flash", PromptCache::Long, Value::Null),
    ] {
        let (_, body) = body("chat", "openrouter", model, &cache(prompt_cache));
        assert_eq!(body["cache_control"], said, "{model}, {prompt_cache:?}");
    }
    let (_, other) = body("chat", "groq", "anthropic/claude-opus-5", &cache(PromptCache::Short));
    assert_eq!(
        other["cache_control"],
        Value::Null,
        "other servers may refuse what they do not know"
    );
}

fn provider(wire: &str, url: &str, prompt_cache: PromptCache) -> Box<dyn Provider> {
    match wire {
        "anthropic" => Box::new(
            AnthropicProvider::builder()
                .api_key("k")
                .base_url(url)
                .model("claude-sonnet-4-5")
                .prompt_cache(prompt_cache)
                .build()
                .unwrap(),
        ),
        "responses" => Box::new(
            OpenAIProvider::builder()
                .api_key("k")
                .base_url(url)
                .model("gpt-5.2")
                .prompt_cache(prompt_cache)
                .build()
                .unwrap(),
        ),
        _ => Box::new(
            ChatCompletionsProvider::builder()
                .base_url(url)
                .name("openai")
                .model("gpt-5.2")
                .prompt_cache(prompt_cache)
                .build()
                .unwrap(),
        ),
    }
}

/// A turn that calls the tool `calls` times at once, or that only says something, as the vendor counts it.
fn turn(wire: &str, calls: usize, request: usize, usage: &harness::Usage) -> Answer {
    let id = |call: usize| format!("call_{request}_{call}");
    let (input, read) = (usage.input.unwrap(), usage.cache_read.unwrap());
    let written = usage.cache_write.unwrap_or(0);
    match wire {
        "anthropic" => {
            let body = anthropic::body().text(format!("Turn {request}."));
            let body = (0..calls).fold(body, |body, n| body.call(&id(n), "look", json!({"n": n})));
            body.usage(input - read - written, 20).cache(written, read).answer()
        }
        "responses" => {
            let body = responses::body().text(format!("Turn {request}."));
            let body = (0..calls).fold(body, |body, n| body.call(&id(n), "look", json!({"n": n})));
            body.usage(input, 20).cached(read).answer()
        }
        _ => {
            let body = chat::body().text(format!("Turn {request}."));
            let body = (0..calls).fold(body, |body, n| body.call(&id(n), "look", json!({"n": n})));
            body.usage(input, 20).cached(read).answer()
        }
    }
}

fn look() -> Tool {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let read = SideEffects::of(&[SideEffect::Read]);
    Tool::new("look", "Looks at one of the files.", schema, read, |_, arguments| {
        Box::pin(
            async move { Ok(format!("{} {}", arguments["n"], "row 0123456 ".repeat(250)).into()) },
        )
    })
}

/// A conversation of this many messages, each with `calls` calls at once, that is opened anew by another agent every
/// fifth message. Returns the requests and the cache.
async fn conversation(
    wire: &'static str,
    prompt_cache: PromptCache,
    messages: usize,
    calls: usize,
    // Unless the test is about it, nothing moves: to clear results empties the cache.
    window: Window,
) -> (Vec<Vec<u8>>, Arc<SimulatedCache>) {
    let cache = Arc::new(match wire {
        "anthropic" => SimulatedCache::anthropic(),
        _ => SimulatedCache::openai(),
    });
    let (counts, asked) = (Arc::clone(&cache), Mutex::new(0));
    let server = LoopbackServer::answering(move |request| {
        let usage = counts.usage(request.body()).unwrap();
        let mut asked = asked.lock().unwrap();
        *asked += 1;
        turn(wire, if *asked % 2 == 1 { calls } else { 0 }, *asked, &usage)
    });
    let server = server.await.unwrap();
    let journal = MemoryJournal::new();
    for message in 0..messages {
        let agent = || {
            let builder = Agent::builder(provider(wire, &server.url(), prompt_cache));
            builder
                .system("Look at the files and say what is in them.")
                .tools([look()])
                .window(window.clone())
                .build()
                .unwrap()
        };
        let agent = agent();
        let mut chat = agent.open(&journal, "one").await.unwrap();
        chat.send(format!("Question {message}")).await.unwrap();
        if message % 5 != 4 {
            chat.send("And then?").await.unwrap();
        }
    }
    let bodies = server.requests().iter().map(|request| request.body().to_vec()).collect();
    (bodies, cache)
}

#[tokio::test]
async fn each_request_begins_with_the_one_before_also_after_a_restart() {
    for wire in WIRES {
        let (bodies, _) = conversation(wire, PromptCache::Short, 10, 2, Window::off()).await;
        assert_eq!(bodies.len(), 36, "{wire}");
        for (at, pair) in bodies.windows(2).enumerate() {
            // Behind the last message the list and the body end.
            let before = pair[0].strip_suffix(b"]}").unwrap();
            assert!(pair[1].starts_with(before), "{wire}: request {} differs", at + 1);
        }
    }
}

/// The vendor looks for what it has kept in the 20 blocks before a mark.
#[tokio::test]
async fn a_turn_of_many_calls_at_once_finds_what_was_kept_before_it() {
    for calls in [8, 9, 10, 30] {
        let (bodies, cache) =
            conversation("anthropic", PromptCache::Short, 6, calls, Window::off()).await;
        let requests = cache.requests();
        for pair in requests.windows(2) {
            let (before, read) = (pair[0].input.unwrap(), pair[1].cache_read.unwrap());
            // A beginning of less than 1,024 tokens is not kept.
            assert!(read == before || before < 1_024, "{calls} calls: {read} of {before} tokens");
        }
        let unmarked = |body: &[u8]| {
            let body = String::from_utf8(body.to_vec()).unwrap();
            body.replace(r#","cache_control":{"type":"ephemeral"}}]}"#, "}]}")
        };
        for pair in bodies.windows(2) {
            let (before, after) = (unmarked(&pair[0]), unmarked(&pair[1]));
            assert!(after.starts_with(before.strip_suffix("]}").unwrap()), "{calls} calls");
        }
    }
}

/// The costs that the guide tells.
#[tokio::test]
async fn a_conversation_costs_a_fraction_with_the_cache() {
    for (wire, price, at_most) in [
        ("anthropic", Price::new(3.0, 15.0).cached(0.3, 3.75), 0.2),
        ("responses", Price::new(1.75, 14.0).cached(0.175, 1.75), 0.2),
        ("chat", Price::new(1.75, 14.0).cached(0.175, 1.75), 0.2),
    ] {
        let (_, cache) = conversation(wire, PromptCache::Short, 20, 2, Window::off()).await;
        let with = cache.cost(&price);
        let all: u64 = cache.requests().iter().filter_map(|usage| usage.input).sum();
        #[expect(clippy::cast_precision_loss, reason = "some millions")]
        let without = all as f64 * price.input / 1e6;
        println!(
            "{wire}: {} requests, {all} tokens, ${with:.3} of ${without:.3}",
            cache.requests().len()
        );
        assert!(with < without * at_most, "{wire}: ${with:.3} of ${without:.3}");
    }
}

/// What is cleared empties the cache, so it is done rarely.
#[tokio::test]
async fn to_clear_in_steps_costs_less_than_to_send_all_and_than_to_clear_at_each_turn() {
    let price = Price::new(3.0, 15.0).cached(0.3, 3.75);
    let window = || Window::new().tokens(40_000).keep_messages();
    let mut costs = Vec::new();
    for (name, window) in [
        ("sends all", Window::off()),
        ("in steps", window()),
        ("at each turn", window().clear_at(1)),
    ] {
        let (_, cache) = conversation("anthropic", PromptCache::Short, 25, 4, window).await;
        let requests = cache.requests();
        // All that was sent before is read from the cache, but where results were cleared.
        let clearings =
            requests.windows(2).filter(|pair| pair[1].cache_read < pair[0].input).count() - 1;
        let cost = cache.cost(&price);
        println!("{name}: ${cost:.3}, {} requests, {clearings} clearings", requests.len());
        costs.push((cost, clearings));
    }
    let [(all, _), (in_steps, few), (each, many)] = costs[..] else { unreachable!() };
    assert!(few > 1 && many > few, "{few} and {many} clearings");
    assert!(
        in_steps < 0.6 * all && in_steps < 0.8 * each,
        "${in_steps:.2} of ${all:.2}, ${each:.2}"
    );
}

#[tokio::test]
async fn nothing_is_read_where_the_cache_is_off() {
    let (bodies, cache) = conversation("anthropic", PromptCache::Off, 3, 2, Window::off()).await;
    assert!(bodies.iter().all(|body| !String::from_utf8_lossy(body).contains("cache_control")));
    assert!(cache.requests().iter().all(|usage| usage.cache_read == Some(0)));
    assert!(cache.requests().iter().all(|usage| usage.cache_write == Some(0)));
}

/// With this tail of a request to Anthropic: one message a text.
fn marked(texts: &[&str], ttl: Option<&str>) -> Vec<u8> {
    let mut mark = json!({"type": "ephemeral"});
    if let Some(ttl) = ttl {
        mark["ttl"] = json!(ttl);
    }
    let content: Vec<Value> =
        texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
    let body = json!({"cache_control": mark, "messages": [{"role": "user", "content": content}]});
    body.to_string().into_bytes()
}

#[tokio::test(start_paused = true)]
async fn a_simulated_cache_forgets_what_is_not_used() {
    let words = "word ".repeat(2_000);
    for (ttl, minutes) in [(None, 5), (Some("1h"), 60)] {
        let cache = SimulatedCache::anthropic();
        let read = |texts: &[&str]| cache.usage(&marked(texts, ttl)).unwrap().cache_read.unwrap();
        assert_eq!(read(&[&words]), 0);
        // To use it keeps it.
        for _ in 0..3 {
            tokio::time::advance(Duration::from_secs(minutes * 60 - 1)).await;
            assert!(read(&[&words, "And?"]) > 2_000, "{ttl:?}");
        }
        tokio::time::advance(Duration::from_secs(minutes * 60)).await;
        assert_eq!(read(&[&words, "And?"]), 0, "{ttl:?}");
    }
    let cache = SimulatedCache::openai();
    let body = |key: &str, text: &str| {
        json!({"prompt_cache_key": key, "messages": [{"role": "user", "content": text}]})
            .to_string()
    };
    let read = |key: &str, text: &str| {
        cache.usage(body(key, text).as_bytes()).unwrap().cache_read.unwrap()
    };
    assert_eq!((read("a", &words), read("b", &words)), (0, 0), "each key has its own machine");
    assert!(read("a", &format!("{words} more")) > 2_000);
    tokio::time::advance(Duration::from_secs(301)).await;
    assert_eq!(read("a", &words), 0);
}

#[test]
fn a_simulated_cache_refuses_what_the_vendor_refuses() {
    let cache = SimulatedCache::anthropic();
    let mark = json!({"type": "ephemeral"});
    let block = json!({"type": "text", "text": "x", "cache_control": mark});
    let body = json!({"messages": [{"role": "user", "content": vec![block; 5]}]}).to_string();
    let refused = cache.usage(body.as_bytes()).unwrap_err();
    assert!(refused.contains("maximum of 4") && refused.contains("Found 5"), "{refused}");
    assert!(cache.usage(b"[]").is_err() && cache.usage(b"{").is_err());
    assert!(cache.requests().is_empty());
}
