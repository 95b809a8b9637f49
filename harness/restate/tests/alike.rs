//! The same script in one process, in PostgreSQL and on the engine comes to the same facts.

mod rig;
mod script;
#[cfg(unix)]
#[path = "../../../tests/postgres/server.rs"]
#[allow(dead_code, unused_imports, unused_macros)]
mod server;

use std::sync::Arc;

use harness::journal::{Envelope, Journal, MemoryJournal};
use rig::{Engine, answered, at_rest, says_yes};
use script::{World, agent};
use serde_json::Value;

const CHAT: &str = "alike";
const SAID: [&str; 4] = ["Hello.", "Go.", "Ask an agent.", "Write."];

/// By the library's own driver.
async fn by_the_library<J: Journal + Clone + 'static>(journal: J) -> Vec<Envelope> {
    let world = tempfile::tempdir().expect("a folder");
    let agent = agent(&Arc::new(World::calm(world.path().to_owned()))).expect("an agent");
    let mut chat = agent.open(&journal, CHAT).await.expect("a conversation");
    for text in SAID {
        let sent = chat.send(text).await.map(drop);
        let questions: Vec<_> = chat.waiting().iter().filter_map(|open| open.question()).collect();
        assert_eq!(sent.is_err(), !questions.is_empty(), "{sent:?}");
        for question in &questions {
            chat.decide(question.yes().by("ada")).await.expect("it waits");
        }
        if !questions.is_empty() {
            chat.resume().await.expect("an answer");
        }
    }
    drop(chat);
    journal.read(CHAT, 0).await.expect("facts")
}

/// By the engine.
async fn by_the_engine(engine: &Engine) -> Vec<Envelope> {
    let _worker = engine.worker("", &[]);
    engine.register().await;
    let chat = engine.chat(CHAT);
    let yes = says_yes(&chat);
    for text in SAID {
        chat.send(text, text).await.expect("an end");
        at_rest(&chat, answered).await;
    }
    drop(yes);
    at_rest(&chat, answered).await
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
        let mut value = serde_json::to_value(fact.entry().expect("a fact")).expect("JSON");
        same(&mut value);
        value.to_string()
    };
    facts.iter().map(tell).collect()
}

#[tokio::test]
async fn the_same_script_comes_to_the_same_facts_whoever_drives() {
    let in_process = told(&by_the_library(MemoryJournal::new()).await);
    assert!(in_process.len() > 30, "{in_process:#?}");
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
