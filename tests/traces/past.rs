//! The trace of a conversation, made from the facts in its journal.

use harness::{
    Agent, ErrorKind, SideEffect,
    journal::{Fact, Journal as _, MemoryJournal},
    testing::{ScriptedProvider, reply},
    trace::{self, Happened, Redaction, Trace, TraceEvent, first_difference},
};
use serde_json::json;

use crate::{story, tool};

fn names(events: &[TraceEvent]) -> Vec<String> {
    let name = |event: &TraceEvent| {
        let json = serde_json::to_value(&event.what).expect("JSON");
        json["event"].as_str().expect("a name").to_owned()
    };
    events.iter().map(name).collect()
}

#[tokio::test(start_paused = true)]
async fn a_journal_tells_the_same_facts_as_the_trace_of_the_runs() {
    let (told, journal, agent) = story("Oslo").await;
    let past = agent.inbox(&journal).trace("chat").await.expect("a trace");
    let page = trace::comparison_page(("told", &told), ("past", &past));
    assert_eq!(first_difference(&told, &past), None, "{}", crate::page::data(&page)["difference"]);
    assert!(past.iter().map(|event| event.at_us).is_sorted());
    assert_eq!(past[0].at_us, 0);
    let again = agent.inbox(&journal).trace("chat").await.expect("a trace");
    assert_eq!(past, again, "each time the same, also the ids");

    let starts: Vec<_> = past
        .iter()
        .filter_map(|event| match &event.what {
            Happened::RunStarted { unix_ms, provider, said, caller, journaled, .. } => Some((
                event.run.as_str(),
                *unix_ms > 1_600_000_000_000,
                provider.as_str(),
                said.as_deref().unwrap_or_default(),
                caller.as_ref().map(|caller| caller.run.as_str()),
                journaled.as_deref().unwrap_or_default(),
            )),
            _ => None,
        })
        .collect();
    let [outer, inner] = starts[..] else { panic!("{starts:?}") };
    assert_eq!(outer, ("chat#0", true, "scripted", "What can I still return?", None, "chat"));
    assert_eq!((inner.1, inner.2, inner.4), (true, "scripted", Some("chat#0")));
    assert!(inner.3.contains("What is the policy"), "{inner:?}");
    let of_outer: Vec<TraceEvent> =
        past.iter().filter(|event| event.run == "chat#0").cloned().collect();
    let kinds = names(&of_outer);
    assert_eq!(kinds.iter().filter(|kind| *kind == "turn_started").count(), 3, "{kinds:?}");
    assert_eq!(kinds.last().expect("an end"), "run_ended");
    let Happened::RunEnded { answered: true, turns: 3, usage, cost: None, .. } =
        &of_outer[of_outer.len() - 1].what
    else {
        panic!("{of_outer:?}")
    };
    assert_eq!((usage.input, usage.output), (Some(3720), Some(118)));
    assert!(of_outer.iter().any(|event| matches!(
        event.what,
        Happened::CallDecided { waited_ms: Some(_), elsewhere: false, .. }
    )));
}

#[tokio::test]
async fn what_an_agent_hides_in_its_traces_is_hidden_here() {
    let journal = MemoryJournal::new();
    let model = || {
        ScriptedProvider::new([
            reply().call("login", json!({"password": "hunter2", "iban": "NO93"})),
            reply().text("The code is swordfish."),
        ])
    };
    let hides = Trace::default().redaction(Redaction::default().name("iban"));
    let builder =
        Agent::builder(model()).tools([tool("login", SideEffect::Read, 0, Ok(json!("hunter2")))]);
    let agent = builder.secret("swordfish").trace(hides).build().expect("an agent");
    agent.open(&journal, "chat").await.expect("a chat").send("Log in.").await.expect("an answer");
    let events = agent.inbox(&journal).trace("chat").await.expect("a trace");
    let all = format!("{}{}", trace::page(&events), trace::pretty(&events));
    for secret in ["hunter2", "NO93", "swordfish"] {
        assert!(!all.contains(secret), "{secret} is in {all}");
    }
    assert!(all.contains("[secret]"));

    // Also if the agent traces nothing.
    let builder = Agent::builder(model()).trace(Trace::off()).secret("swordfish");
    let events =
        builder.build().expect("an agent").inbox(&journal).trace("chat").await.expect("a trace");
    assert_eq!(names(&events).first().map(String::as_str), Some("run_started"));
    assert!(!format!("{events:?}").contains("hunter2"));
}

#[tokio::test]
async fn a_run_that_was_killed_has_no_end_and_a_listed_child_of_the_program_is_left_out() {
    let journal = MemoryJournal::new();
    let model = ScriptedProvider::new([reply().text("One."), reply().text("Two.")]);
    let agent = Agent::builder(model).build().expect("an agent");
    let mut chat = agent.open(&journal, "chat").await.expect("a chat");
    chat.send("Go.").await.expect("an answer");
    chat.send("And?").await.expect("an answer");
    drop(chat);
    let other = Agent::builder(ScriptedProvider::new([reply().text("Mine.")])).build();
    let other = other.expect("an agent");
    other.open(&journal, "own").await.expect("a chat").send("Own.").await.expect("an answer");
    let owned = harness::journal::Metadata::new().parent("chat");
    journal.describe("own", &owned).await.expect("described");

    // All facts but the last answer.
    let facts = journal.read("chat", 0).await.expect("facts").facts;
    let cut = MemoryJournal::new();
    assert!(matches!(facts.last().expect("a fact").fact(), Ok(Fact::ModelReplied { .. })));
    cut.append("chat", Default::default(), &facts[..facts.len() - 1]).await.expect("appended");
    let whole = agent.inbox(&journal).trace("chat").await.expect("a trace");
    let killed = agent.inbox(&cut).trace("chat").await.expect("a trace");
    let expected = ["run_started", "turn_started", "model_replied", "run_ended"];
    assert_eq!(names(&whole), [expected, expected].concat());
    assert_eq!(names(&killed), [&expected[..], &["run_started"]].concat());
    let missing = agent.inbox(&journal).trace("nobody").await.expect("no facts");
    assert!(missing.is_empty());
    let err = agent.inbox(&journal).trace("").await.expect_err("no name");
    assert_eq!(err.kind(), ErrorKind::Configuration);
}
