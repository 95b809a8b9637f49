//! A page that is loaded again at any moment around the calls of agents, and around calls that did not run.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    ag_ui,
    answers::{Turnstile, remove},
    history::loaded,
    ui_message,
};
use futures_util::StreamExt as _;
use harness::{
    Agent, Event,
    agent::{Chats, Inbox, Numbered},
    journal::MemoryJournal,
    policy::ApprovalRequest,
    testing::{ScriptedProvider, reply},
    tools,
    web::{
        ClientAnswer, ClientDecision, RunsSoFar, ag_ui::AgUiStream, answer_waiting,
        ui_message::UiMessageStream,
    },
};
use serde_json::{Value, json};

/// The stream for a client of AG-UI that is loaded now, as far as it goes at once.
async fn connected(chats: &Chats) -> String {
    let (runs, _watcher) = RunsSoFar::read(chats, "c").await.expect("the runs");
    let stream = AgUiStream::new("c", "last").with_history(&runs.earlier);
    ag_ui::encoded_events(stream, &runs.last)
}

/// Checks that each result in a stream is that of a call which was told before, and each call is told once. `known` are the calls
/// that the client has.
fn check_calls(stream: &str, mut known: BTreeSet<String>, at: &str) {
    let events = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    let id = |it: &Value, name: &str| it[name].as_str().expect("an id").to_owned();
    for event in events.map(|json| serde_json::from_str::<Value>(json).expect("JSON")) {
        match event["type"].as_str().expect("a type") {
            "MESSAGES_SNAPSHOT" => {
                for message in event["messages"].as_array().expect("messages") {
                    for call in message["toolCalls"].as_array().into_iter().flatten() {
                        assert!(known.insert(id(call, "id")), "{at}: twice: {call}: {event:#}");
                    }
                    if message["role"] == "tool" {
                        assert!(known.contains(&id(message, "toolCallId")), "{at}: {event:#}");
                    }
                }
            }
            "TOOL_CALL_START" => {
                assert!(known.insert(id(&event, "toolCallId")), "{at}: twice: {event}: {stream}");
            }
            "TOOL_CALL_RESULT" => {
                assert!(known.contains(&id(&event, "toolCallId")), "{at}: {event}: {stream}");
            }
            _ => {}
        }
    }
}

/// What clients have that are loaded at each moment: in this process, and in one that has just been started.
struct Reloads<'a> {
    chats: &'a Chats,
    agent: &'a Agent,
    journal: &'a MemoryJournal,
    streams: Vec<String>,
}

impl Reloads<'_> {
    async fn at(&mut self, moment: &str) {
        let restarted = Chats::new(self.agent, self.journal);
        for (chats, where_) in [(self.chats, "here"), (&restarted, "restarted")] {
            let at = format!("{moment}, {where_}");
            let stream = connected(chats).await;
            check_calls(&stream, BTreeSet::new(), &at);
            self.streams.push(stream);
            for message in loaded(chats).await {
                let parts = message["parts"].as_array().expect("parts").iter();
                let calls: Vec<_> = parts.filter_map(|part| part["toolCallId"].as_str()).collect();
                let once: BTreeSet<_> = calls.iter().collect();
                assert_eq!(calls.len(), once.len(), "{at}: {message:#}");
            }
        }
    }
}

/// Approves the call that waits.
async fn approve(inbox: &Inbox) {
    let (_, open) = inbox.waiting_with_agents("c").await.expect("the calls").remove(0);
    let id = open.question().expect("a question").nonce;
    let approve = [ClientAnswer::new(id, ClientDecision::Approve)];
    assert_eq!(answer_waiting(inbox, "c", &approve, None).await.expect("a count"), 1);
}

/// The calls that wait or run in the messages of a page.
fn open_calls(messages: &[Value]) -> Vec<String> {
    let parts = messages.iter().flat_map(|it| it["parts"].as_array().expect("parts"));
    let open = parts.filter(|part| {
        let state = part["state"].as_str().unwrap_or_default();
        state.starts_with("input-") || state == "approval-requested"
    });
    open.map(|part| part["toolCallId"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_result_is_told_without_its_call_at_any_moment_around_the_approvals_of_an_agent() {
    let turnstile = Arc::new(Turnstile::default());
    let below = ScriptedProvider::new([
        reply().call_with_id("x", "remove_slowly", json!({"name": "a"})),
        reply().call_with_id("y", "remove", json!({"name": "b"})),
    ]);
    let below = Agent::builder(below).tools(turnstile.tools().into_iter().chain(tools![remove]));
    let below = below.build().expect("an agent").as_tool("ask", "Removes.");
    let model = ScriptedProvider::new([
        reply().text("I ask.").call_with_id("c1", "ask", json!({"task": "Remove them."})),
        reply().text("Fine."),
        reply().text("Gladly."),
    ]);
    let later = |question: ApprovalRequest| async move { question.later(None) };
    let agent = Agent::builder(model).tools([below]).approver(later).build().expect("an agent");
    let journal = MemoryJournal::new();
    let (chats, inbox) = (Chats::new(&agent, &journal), agent.inbox(&journal));
    let mut reloads = Reloads { chats: &chats, agent: &agent, journal: &journal, streams: vec![] };

    chats.send("c", "Remove them.").await.expect("a run").finish().await.expect_err("a wait");
    reloads.at("the first call waits").await;
    approve(&inbox).await;
    reloads.at("it is approved").await;
    let run = chats.resume("c").await.expect("a run");
    turnstile.begun.notified().await;
    reloads.at("it runs").await;
    turnstile.goes_on.notify_one();
    let resumed: Vec<Numbered> = run.collect().await;
    reloads.at("the second call waits").await;
    // The client that has sent the approval.
    let known = ["c1", "c1/x"].map(str::to_owned);
    let stream = AgUiStream::new("c", "r").with_client_calls(known.clone());
    check_calls(&ag_ui::encoded_events(stream, &resumed), known.into(), "the response");

    let next: Vec<Numbered> = chats.send("c", "No.").await.expect("a run").collect().await;
    reloads.at("a message has withdrawn it").await;
    // Clients that are loaded now, and whose messages have less than others: what a rebuilt run has.
    for known in [vec!["c1", "c1/x", "c1/y"], vec!["c1", "c1/x"], vec!["c1"], vec![]] {
        let known: BTreeSet<String> = known.into_iter().map(str::to_owned).collect();
        let stream = AgUiStream::new("c", "r").with_client_calls(known.clone());
        check_calls(&ag_ui::encoded_events(stream, &next), known, "the message");
    }
    assert_eq!(open_calls(&loaded(&chats).await), [""; 0]);
    chats.send("c", "Thanks.").await.expect("a run").finish().await.expect("an answer");
    reloads.at("one more message").await;
    assert_eq!(open_calls(&loaded(&chats).await), [""; 0]);

    let Some(out) = ag_ui::read(&reloads.streams) else { return };
    for one in out {
        assert_eq!(one["error"], Value::Null, "{one:#}");
        let messages = one["messages"].as_array().expect("messages");
        let calls = messages.iter().filter_map(|it| it["toolCalls"].as_array()).flatten();
        let calls: BTreeSet<&str> = calls.filter_map(|call| call["id"].as_str()).collect();
        let results = messages.iter().filter_map(|it| it["toolCallId"].as_str());
        results.for_each(|id| assert!(calls.contains(id), "{id}: {messages:#?}"));
    }
}

#[tokio::test]
async fn a_call_that_was_queued_behind_one_that_waits_is_told_before_its_result() {
    let model = ScriptedProvider::new([
        reply().call("remove", json!({"name": "a"})).call("multiply", json!({"a": 2, "b": 2})),
        reply().text("Fine."),
        reply().text("Gladly."),
    ]);
    let later = |question: ApprovalRequest| async move { question.later(None) };
    let tools = tools![remove, ui_message::multiply];
    let agent = Agent::builder(model).tools(tools).approver(later).build().expect("an agent");
    let journal = MemoryJournal::new();
    let chats = Chats::new(&agent, &journal);
    let mut reloads = Reloads { chats: &chats, agent: &agent, journal: &journal, streams: vec![] };
    chats.send("c", "Remove a.").await.expect("a run").finish().await.expect_err("a wait");
    reloads.at("it waits").await;
    for words in ["Never mind.", "Thanks."] {
        chats.send("c", words).await.expect("a run").finish().await.expect("an answer");
        reloads.at(words).await;
        assert_eq!(open_calls(&loaded(&chats).await), [""; 0]);
    }
    assert!(reloads.streams.iter().all(|stream| !stream.contains("RUN_ERROR")));
}

/// An agent with one removal that runs and one that is queued behind it.
fn with_a_queue(turnstile: &Arc<Turnstile>) -> Agent {
    let model = ScriptedProvider::new([
        reply().call_with_id("a", "remove_slowly", json!({"name": "a"})).call_with_id(
            "b",
            "remove_slowly",
            json!({"name": "b"}),
        ),
        reply().text("Fine."),
        reply().text("Gladly."),
    ]);
    let yes = |question: ApprovalRequest| async move { question.yes() };
    Agent::builder(model).tools(turnstile.tools()).approver(yes).build().expect("an agent")
}

#[tokio::test]
async fn a_call_that_a_killed_process_has_not_begun_is_withdrawn_by_a_message() {
    let turnstile = Arc::new(Turnstile::default());
    let (agent, journal) = (with_a_queue(&turnstile), MemoryJournal::new());
    let killed = Chats::new(&agent, &journal);
    let run = killed.send("c", "Remove them.").await.expect("a run");
    turnstile.begun.notified().await;
    drop((run, killed));
    let chats = loop {
        let chats = Chats::new(&agent, &journal);
        match chats.send("c", "Never mind.").await {
            Ok(run) => {
                let all: Vec<Numbered> = run.collect().await;
                let text = ui_message::encoded(UiMessageStream::new(), &all);
                assert_eq!(text.matches("data-withdrawn").count(), 2, "{text}");
                break chats;
            }
            Err(_) => tokio::task::yield_now().await,
        }
    };
    assert_eq!(open_calls(&loaded(&chats).await), [""; 0]);
    let mut reloads = Reloads { chats: &chats, agent: &agent, journal: &journal, streams: vec![] };
    reloads.at("a message").await;
    chats.send("c", "Thanks.").await.expect("a run").finish().await.expect("an answer");
    reloads.at("one more message").await;
    for chats in [chats, Chats::new(&agent, &journal)] {
        let messages = loaded(&chats).await;
        assert_eq!(open_calls(&messages), [""; 0], "{messages:#?}");
        let stream = connected(&chats).await;
        for id in ["a", "b"] {
            let result = format!("\"toolCallId\":\"{id}\"");
            assert!(stream.contains(&result), "{id}: {stream}");
        }
    }
}

#[tokio::test]
async fn a_call_that_a_stopped_run_has_not_begun_has_an_end() {
    let turnstile = Arc::new(Turnstile::default());
    let (agent, journal) = (with_a_queue(&turnstile), MemoryJournal::new());
    let chats = Chats::new(&agent, &journal);
    let run = chats.send("c", "Remove them.").await.expect("a run");
    turnstile.begun.notified().await;
    assert!(chats.stop("c"));
    let all: Vec<Numbered> = run.collect().await;
    let ended = |all: &[Numbered]| {
        let result = |it: &Numbered| match it.event.as_event() {
            Event::ToolResult { call, .. } => Some(call.id().to_owned()),
            _ => None,
        };
        all.iter().filter_map(result).collect::<BTreeSet<_>>()
    };
    assert_eq!(ended(&all).len(), 2, "{all:#?}");
    let live = UiMessageStream::new().messages(&all);
    assert_eq!(open_calls(&live), [""; 0], "{live:#?}");
    let restarted = Chats::new(&agent, &journal);
    let messages = loaded(&restarted).await;
    assert_eq!(open_calls(&messages), [""; 0], "{messages:#?}");
    check_calls(&connected(&restarted).await, BTreeSet::new(), "restarted");
}
