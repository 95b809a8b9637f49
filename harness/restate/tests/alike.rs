//! The same script in one process, in PostgreSQL and on the engine comes to the same facts.

mod rig;
mod script;
#[cfg(unix)]
#[path = "../../../tests/postgres/server.rs"]
#[allow(dead_code, unused_imports, unused_macros)]
mod server;

use std::sync::Arc;

use harness::{
    Outcome,
    journal::{Envelope, Journal, LimitKind, MemoryJournal},
};
use rig::{Engine, answered, at_rest, says_yes};
use script::{Book, User, World, agent, kind_of, two_calls};
use serde_json::Value;

const CHAT: &str = "alike";
/// Calls of each kind with an approval, an agent as a tool, a value of the run, results that are cleared and kept
/// apart, a tool that the model searches for and calls in this run and in the next one, an answer of a type, a limit
/// that is reached, and so many words that they are summed up.
const SAID: [&str; 10] = [
    "Hello.",
    "Go.",
    "Ask an agent.",
    "Whose?",
    "Look.",
    "Huge.",
    "Search.",
    "Store.",
    "Which book?",
    "Go within two calls.",
];
const TOLD: usize = 12;

fn said() -> Vec<String> {
    let told = (1..=TOLD).map(|turn| format!("Tell {turn}."));
    SAID.iter().map(|text| (*text).to_owned()).chain(told).chain(["Write.".to_owned()]).collect()
}

/// By the library's own driver.
async fn by_the_library<J: Journal + Clone + 'static>(journal: J) -> Vec<Envelope> {
    let world = tempfile::tempdir().expect("a folder");
    let agent = agent(&Arc::new(World::calm(world.path().to_owned()))).expect("an agent");
    let mut chat = agent.open(&journal, CHAT).await.expect("a conversation");
    for text in said() {
        let sending = chat.send(text.as_str()).state(User(format!("the user of {CHAT}")));
        let sent = match kind_of(&text) {
            "book" => {
                let answered = sending.answer::<Book>().await.expect("a book");
                assert_eq!(answered.value().year, 1851);
                continue;
            }
            "short" => sending.limits(two_calls()).await.map(drop),
            _ => sending.await.map(drop),
        };
        let questions: Vec<_> = chat.waiting().iter().filter_map(|open| open.question()).collect();
        let ends_early = !questions.is_empty() || kind_of(&text) == "short";
        assert_eq!(sent.is_err(), ends_early, "{text}: {sent:?}");
        for question in &questions {
            chat.decide(question.yes().by("ada")).await.expect("it waits");
        }
        if !questions.is_empty() {
            let goes_on = chat.resume().state(User(format!("the user of {CHAT}")));
            goes_on.await.expect("an answer");
        }
    }
    drop(chat);
    journal.read(CHAT, 0).await.expect("facts").facts
}

/// By the engine.
async fn by_the_engine(engine: &Engine) -> Vec<Envelope> {
    let _worker = engine.worker("", &[]);
    engine.register().await;
    let chat = engine.chat(CHAT);
    let yes = says_yes(&chat);
    for text in said() {
        let chat = chat.clone().kind(kind_of(&text));
        let ended = chat.send(text.as_str(), &text).await.expect("an end");
        match kind_of(&text) {
            "short" => assert_eq!(ended.outcome, Outcome::Limit(LimitKind::ToolCalls)),
            _ => drop(at_rest(&chat, answered).await),
        }
        if kind_of(&text) == "book" {
            assert_eq!(chat.answered::<Book>().await.expect("a book").year, 1851);
        }
    }
    drop(yes);
    at_rest(&chat, answered).await
}

/// The names of results that are kept apart are made by chance.
fn without_names(text: &str) -> String {
    let mut parts = text.split("r-");
    let mut same = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let name = part.find(|letter: char| !letter.is_ascii_hexdigit()).unwrap_or(part.len());
        same.push_str("r-");
        same.push_str(if name >= 16 { &part[name..] } else { part });
    }
    same
}

/// Facts without what differs each time: ids of messages, times, the numbers of questions and of lives.
fn told(facts: &[Envelope]) -> Vec<String> {
    fn same(value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    let differs =
                        matches!(name.as_str(), "at" | "at_ms" | "elapsed" | "nonce" | "life");
                    let is_id = value.as_str().is_some_and(|text| text.starts_with("msg_"));
                    if differs || is_id { *value = Value::Null } else { same(value) }
                }
            }
            Value::Array(values) => values.iter_mut().for_each(same),
            _ => {}
        }
    }
    let tell = |fact: &Envelope| {
        let mut value = serde_json::to_value(fact.fact().expect("a fact")).expect("JSON");
        same(&mut value);
        without_names(&value.to_string())
    };
    facts.iter().map(tell).collect()
}

#[tokio::test]
async fn the_same_script_comes_to_the_same_facts_whoever_drives() {
    let in_process = told(&by_the_library(MemoryJournal::new()).await);
    assert!(in_process.len() >= 150, "{}", in_process.len());
    for kind in
        ["context_cleared", "context_compacted", "answer_rejected", "is kept as `", "line 600 says"]
    {
        assert!(in_process.iter().any(|fact| fact.contains(kind)), "no {kind}");
    }
    let found = in_process.iter().filter(|fact| fact.contains("tools_found")).count();
    let stored = r#""fact":"call_started","call":"store_17_"#;
    let stored = in_process.iter().filter(|fact| fact.contains(stored)).count();
    assert_eq!((found, stored), (1, 2));
    #[cfg(unix)]
    match server::shared() {
        None => eprintln!("skipped: PostgreSQL is not installed"),
        Some(server) => {
            let in_postgres = told(&by_the_library(server.journal("alike").await).await);
            assert_eq!(in_process, in_postgres);
            eprintln!("{} facts in PostgreSQL", in_postgres.len());
        }
    }
    let Some(engine) = Engine::start().await else { return };
    let on_the_engine = told(&by_the_engine(&engine).await);
    eprintln!("{} facts on the engine", on_the_engine.len());
    // An agent that is a tool goes on from facts of its own only where the library drives.
    let (continues, never) = (r#""repeat":"continues""#, r#""repeat":"never""#);
    assert_eq!(in_process.iter().filter(|fact| fact.contains(continues)).count(), 1);
    let in_process: Vec<_> = in_process.iter().map(|fact| fact.replace(continues, never)).collect();
    assert_eq!(in_process, on_the_engine);
}
