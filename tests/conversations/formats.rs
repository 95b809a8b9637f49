//! Conversations in each format of facts: `formats/N` has one folder for each format, written by
//! hand, with every fact and every member that the format has. After a release that writes a format,
//! its files do not change.

use std::{collections::BTreeSet, fs, path::Path};

use harness::{
    Agent, CallOutcome, ErrorKind, StopReason,
    journal::{
        AnswerCheck, Awaited, Decider, Decision, Envelope, FORMAT, Fact, Head, InterruptCause,
        Journal, LimitKind, LimitScope, MemoryJournal, Repeat,
    },
    testing::{ScriptedProvider, outline, reply},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::summaries::{asks, summary};

fn facts(format: u32, name: &str) -> Vec<Envelope> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("formats");
    let path = folder.join(format.to_string()).join(format!("{name}.jsonl"));
    let text = fs::read_to_string(&path).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).expect("an envelope")).collect()
}

/// What serde would take in place of a word that nobody knows.
fn words<T: DeserializeOwned>(unknown: &str) -> BTreeSet<String> {
    let Err(error) = serde_json::from_str::<T>(unknown) else { panic!("`{unknown}` is known") };
    let error = error.to_string();
    let words: BTreeSet<String> = error.split('`').skip(3).step_by(2).map(Into::into).collect();
    assert!(words.len() > 1, "{error}");
    words
}

/// Every text that stands at a member of this name, at any depth. A variant that holds something is an
/// object whose only member names it.
fn at(name: &str, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                match value {
                    Value::String(text) if key == name => drop(found.insert(text.clone())),
                    Value::Object(only) if key == name => found.extend(only.keys().cloned()),
                    _ => {}
                }
                at(name, value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| at(name, item, found)),
        _ => {}
    }
}

/// The conversations, by their format.
const KEPT: [(u32, &str); 13] = [
    (1, "told"),
    (1, "given"),
    (1, "called"),
    (1, "content"),
    (1, "typed"),
    (1, "approved"),
    (1, "moved"),
    (1, "summed_up"),
    (1, "shortened"),
    (1, "found"),
    (1, "overflowed"),
    (1, "read"),
    (1, "changed"),
];

#[test]
fn the_files_know_every_word_of_the_formats() {
    assert!(KEPT.iter().any(|(format, _)| *format == FORMAT));
    let all: Vec<Envelope> = KEPT.iter().flat_map(|(format, name)| facts(*format, name)).collect();
    let all: Vec<Value> =
        all.iter().map(|fact| serde_json::from_str(&fact.fact).expect("JSON")).collect();
    let all = Value::Array(all);
    for (name, words) in [
        ("fact", words::<Fact>(r#"{"fact":"?"}"#)),
        ("verdict", words::<Decision>(r#"{"verdict":"?"}"#)),
        ("decider", words::<Decider>(r#"{"decider":"?"}"#)),
        ("by", words::<InterruptCause>(r#"{"by":"?"}"#)),
        ("for", words::<Awaited>(r#"{"for":"?"}"#)),
        ("limit", words::<LimitKind>(r#""?""#)),
        ("scope", words::<LimitScope>(r#""?""#)),
        ("check", words::<AnswerCheck>(r#""?""#)),
        ("repeat", words::<Repeat>(r#""?""#)),
        ("stop", words::<StopReason>(r#""?""#)),
        ("outcome", words::<CallOutcome>(r#""?""#)),
        ("type", words::<harness::Block>(r#"{"type":"?"}"#)),
    ] {
        let mut found = BTreeSet::new();
        at(name, &all, &mut found);
        let missing: Vec<_> = words.difference(&found).collect();
        assert!(missing.is_empty(), "no fact of the files has these `{name}`: {missing:?}");
    }
}

/// What a file says is read whole: written again it is the same.
#[test]
fn nothing_of_a_fact_is_lost_when_it_is_read() {
    for (format, name) in KEPT {
        for (number, fact) in facts(format, name).into_iter().enumerate() {
            let entry = fact.fact().unwrap_or_else(|err| panic!("{name} {number}: {err:#}"));
            let written: Value = serde_json::to_value(&entry).expect("JSON");
            let stood: Value = serde_json::from_str(&fact.fact).expect("JSON");
            assert_eq!(written, stood, "{name} {number}");
        }
    }
}

#[tokio::test]
async fn conversations_of_every_format_open_and_go_on() {
    for (format, name) in KEPT {
        let facts = facts(format, name);
        // Each prefix, too: a process may have ended after any of the facts.
        for kept in 1..=facts.len() {
            let journal = MemoryJournal::new();
            journal
                .append(name, Head::default(), &facts[..kept])
                .await
                .expect("a new conversation");
            let model = ScriptedProvider::answering(|request| match asks(request) {
                true => reply().text(summary("none")),
                false => reply().text("Hello again."),
            });
            let agent = Agent::builder(model).build().expect("an agent");
            let mut chat = agent
                .open(&journal, name)
                .await
                .unwrap_or_else(|err| panic!("{name} {kept}: {err:#}"));
            if kept == facts.len() {
                let path = Path::new(env!("CARGO_MANIFEST_DIR"));
                let path = path.join(format!("formats/{format}/{name}.txt"));
                let told = fs::read_to_string(&path).expect("what it says");
                assert_eq!(outline(chat.transcript().messages()), told, "{name}");
            }
            // Only its call speaks in the conversation of an agent, and anybody in a fork.
            if facts[..kept].iter().any(|fact| fact.fact.contains(r#""fact":"called_by""#)) {
                chat.send("Are you there?").await.expect_err(name);
                chat = chat.fork("fork", chat.facts()).await.expect("a fork");
            }
            let reply = chat.send("Are you there?").await;
            let reply = reply.unwrap_or_else(|err| panic!("{name} {kept}: {err:#}"));
            assert_eq!(reply.text(), "Hello again.");
        }
    }
}

/// The files are what this version writes, and it reads nothing else.
#[test]
fn a_fact_says_in_which_format_it_is_and_another_format_is_refused() {
    for (format, name) in KEPT {
        for (number, fact) in facts(format, name).into_iter().enumerate() {
            let written = Envelope::of(&fact.fact().expect("a fact"), 0).expect("an envelope");
            assert_eq!((written.format, fact.format), (FORMAT, format), "{name} {number}");
            for other in [0, FORMAT + 1, u32::MAX] {
                let mut strange = fact.clone();
                (strange.format, strange.version) = (other, "7.0.0".into());
                let refused = strange.fact().expect_err("no such format is known");
                assert_eq!(refused.kind(), ErrorKind::Journal);
                let told = refused.to_string();
                let says = |words: &str| assert!(told.contains(words), "{told}");
                says(&format!("format {other}"));
                says("version 7.0.0");
            }
        }
    }
}
