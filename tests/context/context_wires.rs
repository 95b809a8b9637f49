//! Long conversations in a small window over each wire, as a server sees them.

use std::sync::{Arc, Mutex};

use harness::{
    Agent, Tool,
    context::Window,
    journal::{Fact, Journal, MemoryJournal},
    provider::Settings,
    testing::{Answer, LoopbackServer, anthropic, chat, responses},
};
use serde_json::{Value, json};

use crate::{
    probe::READ,
    summaries::summary,
    wire_providers::{WIRES, provider, thinking_provider},
};

/// So many tokens the server takes: four bytes of the body each.
const WINDOW: u64 = 8_000;

/// What is said once, at the beginning, by the user and by a tool.
const SECRETS: [&str; 2] = ["teal-otter-4711", "B-9-ferrous"];

fn look() -> Tool {
    Tool::new("look", "Looks.", json!({"type": "object"}), READ, |_, _| {
        Box::pin(async { Ok(format!("The part is {}. {:->900}", SECRETS[1], "").into()) })
    })
}

/// A server that counts tokens, refuses what is too large, and answers by what it reads alone.
fn answers(wire: &str, body: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(body);
    let tokens = body.len() as u64 / 4;
    if tokens > WINDOW {
        let message = format!("prompt is too long: {tokens} tokens > {WINDOW} maximum");
        let error = json!({"error": {"type": "invalid_request_error", "message": message}});
        return Answer::json(400, &error);
    }
    let value: Value = serde_json::from_slice(body).expect("JSON");
    let list = value.get("messages").or_else(|| value.get("input")).and_then(Value::as_array);
    let last = list.and_then(|list| list.last()).expect("a message").to_string();
    let known: Vec<&str> = SECRETS.into_iter().filter(|secret| text.contains(secret)).collect();
    let words = if last.contains("Sum it up now") {
        summary(&known.join(" and "))
    } else if last.contains("What do you know?") {
        known.join(" and ")
    } else if last.contains("Please look.") {
        return calls(wire, list.map_or(0, Vec::len), tokens);
    } else {
        format!("Noted. {:->300}", "")
    };
    match wire {
        "anthropic" => anthropic::body().text(words).usage(tokens, 90).answer(),
        "responses" => responses::body().text(&words).usage(tokens, 90).answer(),
        _ => chat::body().text(words).usage(tokens, 90).answer(),
    }
}

fn calls(wire: &str, number: usize, tokens: u64) -> Answer {
    let id = format!("call_{number}_{tokens}");
    match wire {
        "anthropic" => anthropic::body()
            .thinking("I look.", "c2ln")
            .call(&id, "look", json!({}))
            .usage(tokens, 20)
            .answer(),
        "responses" => responses::body().call(&id, "look", json!({})).usage(tokens, 20).answer(),
        _ => chat::body().call(&id, "look", json!({})).usage(tokens, 20).answer(),
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_said_first_is_known_after_many_turns_and_requests_begin_alike() {
    for wire in WIRES {
        let bodies = Arc::new(Mutex::new(Vec::<Vec<u8>>::new()));
        let seen = Arc::clone(&bodies);
        let server = LoopbackServer::answering(move |request| {
            seen.lock().unwrap().push(request.body().to_vec());
            answers(wire, request.body())
        });
        let server = server.await.unwrap();
        let window = Window::new().tokens(WINDOW);
        let agent = Agent::builder(thinking_provider(wire, &server.url()))
            .system("Keep what you are told.")
            .tools([look()])
            .window(window)
            .build()
            .unwrap();
        let journal = MemoryJournal::new();
        let mut chat = agent.open(&journal, "long").await.unwrap();
        for turn in 0..crate::times(130) {
            let words = match turn {
                1 => format!("The word is {}.", SECRETS[0]),
                _ if turn % 8 == 2 => "Please look.".to_owned(),
                _ => format!("This is turn {turn}. {:->60}", ""),
            };
            // Another process goes on with it now and then.
            if turn % 50 == 49 {
                drop(chat);
                chat = agent.open(&journal, "long").await.unwrap();
            }
            let sent = chat.send(words).await;
            sent.unwrap_or_else(|err| panic!("{wire}, turn {turn}: {err}"));
        }
        let reply = chat.send("What do you know?").await.unwrap();
        assert_eq!(reply.text(), SECRETS.join(" and "), "{wire}");

        let facts = journal.read("long", 0).await.unwrap().facts;
        let facts: Vec<Fact> = facts.iter().map(|fact| fact.fact().unwrap()).collect();
        let count = |is: fn(&Fact) -> bool| facts.iter().filter(|fact| is(fact)).count();
        let summaries = count(|fact| matches!(fact, Fact::ContextCompacted { .. }));
        let clearings = count(|fact| matches!(fact, Fact::ContextCleared { .. }));
        let in_vain = count(|fact| matches!(fact, Fact::CompactionFailed { .. }));
        let refused = count(|fact| matches!(fact, Fact::ContextOverflowed { .. }));
        println!(
            "{wire}: {summaries} summaries, {clearings} clearings, {in_vain} in vain, {refused} refused"
        );
        assert!(summaries > 3 && clearings > 0, "{wire}: {summaries} and {clearings}");
        assert_eq!((in_vain, refused), (0, 0), "{wire}");

        // A request begins with the bytes of the one before, but after a summary or a clearing.
        let bodies = bodies.lock().unwrap();
        let differs = |pair: &&[Vec<u8>]| {
            let before = pair[0].strip_suffix(b"]}").expect("the list is last");
            !pair[1].starts_with(before)
        };
        let pairs = bodies.windows(2).filter(differs).count();
        // Thinking is bound to what it came after: behind other words it is not sent.
        if wire == "anthropic" {
            let thinks = |body: &[u8]| String::from_utf8_lossy(body).contains("c2ln");
            assert!(bodies.iter().any(|body| thinks(body)));
            let moved = bodies.windows(2).filter(differs).filter(|pair| thinks(&pair[1]));
            assert_eq!(moved.count(), 0);
        }
        // The request for a summary begins like the one before, and the next one unlike that.
        assert_eq!(pairs, summaries + clearings, "{wire}");
    }
}

/// Where `max_tokens` is low, the request for a summary has a higher one.
#[tokio::test]
async fn a_summary_may_be_longer_than_answers_may() {
    for wire in WIRES {
        let bodies = Arc::new(Mutex::new(Vec::<Value>::new()));
        let seen = Arc::clone(&bodies);
        let server = LoopbackServer::answering(move |request| {
            seen.lock().unwrap().push(serde_json::from_slice(request.body()).expect("JSON"));
            answers(wire, request.body())
        });
        let server = server.await.unwrap();
        let agent = Agent::builder(provider(wire, &server.url()));
        let agent = agent.window(Window::new().tokens(WINDOW)).build().unwrap();
        let mut chat = agent.chat();
        for _ in 0..8 {
            let brief = Settings { max_tokens: Some(50), ..Settings::default() };
            chat.send("words ".repeat(800)).settings(brief).await.unwrap();
        }
        let bodies = bodies.lock().unwrap();
        let most = |body: &Value| {
            let names = ["max_tokens", "max_output_tokens", "max_completion_tokens"];
            names.iter().find_map(|name| body.get(name)?.as_u64()).expect("a limit")
        };
        let (sums, others): (Vec<&Value>, Vec<&Value>) =
            bodies.iter().partition(|body| body.to_string().contains("Sum it up now"));
        // Each model can give an answer of this length.
        let may = |body: &&Value| (400..=1_600).contains(&most(body));
        assert!(!sums.is_empty() && sums.iter().all(may), "{wire}");
        assert!(others.iter().all(|body| most(body) == 50), "{wire}");
    }
}
