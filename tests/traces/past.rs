//! The trace of a conversation, made from the facts in its journal.

use harness::{
    Agent, ErrorKind, SideEffect,
    journal::{ConversationQuery, Envelope, Fact, Journal as _, MemoryJournal, Metadata},
    models::{Models, Price},
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
    let owned = Metadata::new().parent("chat");
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

/// An agent with the tool `reader`, which is an agent with the tool `login`. Each hides its own secrets.
fn two_that_hide() -> Agent {
    let hides = |redaction| Trace::default().redaction(redaction);
    let reader = ScriptedProvider::new([
        reply()
            .text("swordfish opens it, and marlin does not.")
            .call("login", json!({"iban": "NO93", "colour": "mauve", "code": "4711x"})),
        reply().text("Done."),
    ]);
    let reader = Agent::builder(reader)
        .tools([tool("login", SideEffect::Read, 0, Ok(json!("in")))])
        .secret("swordfish")
        .trace(hides(Redaction::default().name("iban").field("login", "code")))
        .build()
        .expect("an agent");
    let model = ScriptedProvider::new([
        reply().call("reader", json!({"task": "Log in."})),
        reply().text("Done."),
    ]);
    Agent::builder(model)
        .tools([reader.as_tool("reader", "Reads.")])
        .secret("marlin")
        .trace(hides(Redaction::default().name("colour")))
        .build()
        .expect("an agent")
}

#[tokio::test]
async fn an_agent_in_a_call_has_its_own_secrets_and_those_of_its_callers() {
    let (journal, agent) = (MemoryJournal::new(), two_that_hide());
    agent.open(&journal, "chat").await.expect("a chat").send("Go.").await.expect("an answer");
    let events = agent.inbox(&journal).trace("chat").await.expect("a trace");
    let inner: Vec<TraceEvent> = events.into_iter().filter(|it| it.run != "chat#0").collect();
    let all = format!("{inner:?}");
    assert!(all.contains("opens it") && all.contains("login"), "{all}");
    for secret in ["swordfish", "marlin", "NO93", "mauve", "4711x"] {
        assert!(!all.contains(secret), "{secret} is in {all}");
    }
}

#[tokio::test]
async fn an_id_has_no_secret_and_a_value_is_hidden_in_its_run() {
    let (journal, agent) = (MemoryJournal::new(), two_that_hide());
    let mut chat = agent.open(&journal, "chat-marlin").await.expect("a chat");
    chat.send("Go.").await.expect("an answer");
    drop(chat);
    let events = agent.inbox(&journal).trace("chat-marlin").await.expect("a trace");
    assert!(!format!("{events:?}").contains("marlin"), "{events:?}");
    let caller = events.iter().find_map(|event| match &event.what {
        Happened::RunStarted { caller, .. } => caller.clone(),
        _ => None,
    });
    assert_eq!(caller.expect("an agent in a call").run, "chat-[secret]#0");

    // What is remembered in one run is not remembered in the next one, as in the trace of the runs.
    let model = ScriptedProvider::new([reply().text("One."), reply().text("correct horse it is.")]);
    let agent = Agent::builder(model).build().expect("an agent");
    let mut chat = agent.open(&journal, "chat").await.expect("a chat");
    let mut told = Vec::new();
    for said in ["password=correct-horse", "And correct-horse?"] {
        told.extend_from_slice(chat.send(said).await.expect("an answer").trace().events());
    }
    drop(chat);
    let past = agent.inbox(&journal).trace("chat").await.expect("a trace");
    assert_eq!(first_difference(&told, &past), None, "{}", trace::pretty(&past));
}

/// The same conversations in another journal, with what `change` makes of the facts of each.
async fn changed(
    journal: &MemoryJournal,
    names: &[&str],
    change: impl Fn(&str, Vec<Envelope>) -> Vec<Envelope>,
) -> MemoryJournal {
    let other = MemoryJournal::new();
    for name in names {
        let facts = change(name, journal.read(name, 0).await.expect("facts").facts);
        other.append(name, Default::default(), &facts).await.expect("appended");
        if let Some((parent, _)) = name.rsplit_once('/') {
            other.describe(name, &Metadata::new().parent(parent)).await.expect("described");
        }
    }
    other
}

const HOUR: u64 = 3_600_000;

#[tokio::test]
async fn a_run_ends_with_its_last_fact_and_not_with_the_next_message() {
    let journal = MemoryJournal::new();
    let model = ScriptedProvider::new([reply().text("One."), reply().text("Two.")]);
    let agent = Agent::builder(model).build().expect("an agent");
    let mut chat = agent.open(&journal, "chat").await.expect("a chat");
    chat.send("Hi.").await.expect("an answer");
    chat.pin("Be brief.").expect("between the runs");
    chat.send("And?").await.expect("an answer");
    drop(chat);
    // Each fact of the second run is four days late.
    let late = changed(&journal, &["chat"], |_, mut facts| {
        let mut days = 0;
        for fact in &mut facts {
            if matches!(fact.fact(), Ok(Fact::ContextPinned { .. })) {
                days = 4;
            }
            fact.at = 1_767_225_600_000 + days * 24 * HOUR;
        }
        facts
    })
    .await;
    let events = agent.inbox(&late).trace("chat").await.expect("a trace");
    let first = &events[0].run;
    let last = events.iter().rfind(|event| event.run == *first).expect("an end");
    assert!(matches!(last.what, Happened::RunEnded { answered: true, .. }), "{last:?}");
    assert_eq!(last.at_us, 0, "{events:?}");
    let pinned = events.iter().find(|it| matches!(it.what, Happened::ContextPinned { .. }));
    assert_eq!(pinned.expect("a pin").run, events[events.len() - 1].run, "of the later run");
}

#[tokio::test]
async fn a_message_during_a_run_continues_a_run_that_had_an_answer() {
    let journal = MemoryJournal::new();
    let model = ScriptedProvider::new([reply().text("One."), reply().text("Two.")]);
    let agent = Agent::builder(model).build().expect("an agent");
    let mut chat = agent.open(&journal, "chat").await.expect("a chat");
    chat.send("Hi.").await.expect("an answer");
    chat.send("And?").await.expect("an answer");
    drop(chat);
    let steered = changed(&journal, &["chat"], |_, mut facts| {
        for envelope in facts.iter_mut().skip(1) {
            if let Ok(Fact::UserSaid { message, .. }) = envelope.fact() {
                let fact = Envelope::of(&Fact::Steered { message }, 0).expect("an envelope").fact;
                envelope.fact = fact;
            }
        }
        facts
    })
    .await;
    let events = agent.inbox(&steered).trace("chat").await.expect("a trace");
    let turn = ["turn_started", "model_replied"];
    assert_eq!(
        names(&events),
        [&["run_started"], &turn[..], &["steered"], &turn, &["run_ended"]].concat()
    );
    assert!(events.iter().all(|event| event.run == "chat#0"), "{events:?}");
}

#[tokio::test]
async fn an_agent_whose_clock_is_late_does_not_begin_before_its_call() {
    let (journal, agent) = (MemoryJournal::new(), two_that_hide());
    agent.open(&journal, "chat").await.expect("a chat").send("Go.").await.expect("an answer");
    let listed = journal.list(&ConversationQuery::new().parent("chat")).await;
    let inner = listed.expect("a list").conversations.remove(0).id;
    let skewed = changed(&journal, &["chat", &inner], |name, mut facts| {
        for fact in &mut facts {
            fact.at = fact.at.saturating_sub(if name == "chat" { 0 } else { HOUR });
        }
        facts
    })
    .await;
    let events = agent.inbox(&skewed).trace("chat").await.expect("a trace");
    let kinds = names(&events);
    let begun = events.iter().position(|event| event.run != "chat#0").expect("an agent");
    let called = kinds.iter().position(|kind| kind == "call_started").expect("a call");
    assert!(called < begun, "{kinds:?}");
}

#[tokio::test(start_paused = true)]
async fn cost_and_turns_are_those_of_the_run() {
    let journal = MemoryJournal::new();
    let priced = |replies: Vec<_>| {
        let model = ScriptedProvider::new(replies);
        let models = Models::none().with("*", Price::new(1.0, 1.0));
        Agent::builder(model).models(models).build().expect("an agent")
    };
    let end = |events: &[TraceEvent]| match events.last().map(|event| &event.what) {
        Some(Happened::RunEnded { turns, cost, .. }) => (*turns, *cost),
        other => panic!("{other:?}"),
    };
    let agent = priced(vec![reply().text("One.").tokens(1_000_000, 0)]);
    agent.open(&journal, "chat").await.expect("a chat").send("Hi.").await.expect("an answer");
    let trace = async |request: Option<serde_json::Value>| {
        let other = changed(&journal, &["chat"], |_, mut facts| {
            let failed = request.as_ref().map(|request| {
                let fact =
                    json!({"fact": "compaction_failed", "cause": "empty", "request": request});
                let fact: Fact = serde_json::from_value(fact).expect("a fact");
                Envelope::of(&fact, 0).expect("an envelope")
            });
            let answer = facts.len() - 1;
            facts.splice(answer..answer, failed);
            facts
        })
        .await;
        end(&agent.inbox(&other).trace("chat").await.expect("a trace"))
    };
    let usage = json!({"input": 500_000, "output": 500_000});
    assert_eq!(trace(None).await, (1, Some(1.0)));
    let request = json!({"usage": usage, "provider": "scripted", "model": "scripted"});
    assert_eq!(trace(Some(request)).await, (1, Some(2.0)));
    let request =
        json!({"usage": usage, "provider": "scripted", "model": "scripted", "broke_off": true});
    assert_eq!(trace(Some(request)).await, (1, None));

    let agent = priced(vec![reply().text("On").cut()]);
    let mut chat = agent.open(&journal, "cut").await.expect("a chat");
    let stopped = chat.send("Hi.").await.expect_err("it breaks off");
    drop(chat);
    let events = agent.inbox(&journal).trace("cut").await.expect("a trace");
    assert_eq!(end(&events), (stopped.turns(), stopped.cost()), "{events:?}");
}
