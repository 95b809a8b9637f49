//! What a page shows that is loaded again is what it had shown before.

use std::sync::Arc;

use crate::{
    ag_ui,
    answers::{book, remove},
    events, node,
    server::Server,
    ui_message,
    ui_message::every_kind,
};
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture};
use harness::{
    Agent, Error, ErrorKind, Event, Permissions, SideEffect, SideEffects, StopReason, Tool,
    agent::{Chats, Numbered},
    journal::{Envelope, Fact, Head, Journal as _, MemoryJournal},
    policy::ApprovalRequest,
    testing::{Gate, ScriptedProvider, reply},
    tool::Reconciled,
    tools,
    web::{
        ClientAnswer, ClientDecision, RunsSoFar, ag_ui::AgUiStream, answer_waiting, public_event,
        ui_message::UiMessageStream,
    },
};
use serde_json::{Value, json};

#[test]
fn the_messages_are_those_that_the_client_of_ai_has_read() {
    let all = events(&every_kind());
    let stream = || UiMessageStream::new().for_version_6();
    let [said, answer] = &stream().messages(&all)[..] else { panic!("two messages") };
    assert_eq!((&said["role"], &said["parts"][0]["text"]), (&json!("user"), &json!("Go.")));
    assert!(!answer.to_string().contains("hidden"), "{answer:#}");
    let silent = stream().without_reasoning().messages(&all);
    assert!(!silent[1].to_string().contains("Think"), "{silent:#?}");
    let Some(read) = ui_message::read(&[ui_message::encoded(stream(), &all)]) else { return };
    let mut answer = answer.clone();
    // Version 6 does not know it.
    if !read[0]["message"].to_string().contains("requestReason") {
        for part in answer["parts"].as_array_mut().expect("parts") {
            if let Some(approval) = part.get_mut("approval").and_then(Value::as_object_mut) {
                approval.remove("requestReason").expect("a reason");
            }
        }
    }
    assert_eq!(answer, read[0]["message"], "{answer:#}");
}

#[test]
fn what_was_taken_back_is_in_no_message() {
    let all = events(&every_kind());
    let messages = UiMessageStream::new().messages(&all);
    let words = messages[1]["parts"].as_array().expect("parts");
    assert!(!words.iter().any(|part| part["text"] == "void" || part["toolCallId"] == "c0"));
}

#[test]
fn the_snapshot_has_what_the_client_of_ag_ui_has_read() {
    let all = events(&every_kind());
    let next: Vec<Numbered> = [
        json!({"type": "run_started", "said": harness::Message::user("And?")}),
        json!({"type": "turn_started", "turn": 1}),
        json!({"type": "text", "text": "So."}),
        json!({"type": "run_ended", "outcome": "answered", "usage": harness::Usage::default()}),
    ]
    .into_iter()
    .enumerate()
    .map(|(at, mut event)| {
        (event["run"], event["number"]) = (json!("run_2"), json!(at + 1));
        serde_json::from_value(event).expect("an event")
    })
    .collect();
    let again = AgUiStream::new("c", "r2").with_history(&all);
    let streams = [
        ag_ui::encoded_events(AgUiStream::new("c", "r"), &all),
        ag_ui::encoded_events(again, &next),
    ];
    assert!(!streams[1].contains("hidden"), "{}", streams[1]);
    let Some(out) = ag_ui::read(&streams) else { return };
    assert_eq!((&out[0]["error"], &out[1]["error"]), (&Value::Null, &Value::Null), "{out:#?}");
    let first = out[0]["messages"].as_array().expect("messages");
    let mut second = out[1]["messages"].as_array().expect("messages").clone();
    // The client whose user has steered the run has this message from its user.
    let steered = second.iter().rposition(|it| it["content"] == "Go.").expect("a message");
    assert_eq!(second.remove(steered)["role"], "user");
    assert_eq!((&second[0]["role"], &second[0]["content"]), (&json!("user"), &json!("Go.")));
    assert_eq!(second[1..=first.len()], first[..]);
    let rest = second[first.len() + 1..].iter().map(|it| &it["content"]);
    assert_eq!(rest.collect::<Vec<_>>(), ["And?", "So."]);
}

/// What was said between calls, and what was said without a call beside it.
type Said = [Vec<String>; 2];

/// The text of all that is said together: before calls, or as an answer.
fn said<'a>(together: impl IntoIterator<Item = (bool, &'a str)>) -> Said {
    let mut said = Said::default();
    for (has_calls, text) in together {
        said[usize::from(!has_calls)].push(text.to_owned());
    }
    said
}

#[tokio::test]
async fn a_page_can_tell_words_between_calls_from_the_answer() {
    let multiplies = |a: i64| {
        let call = json!({"a": a, "b": 2});
        reply().reasoning("Hm.").text("First I multiply.").call("multiply", call)
    };
    let provider = ScriptedProvider::new([multiplies(2), multiplies(4), reply().text("It is 8.")]);
    let agent = Agent::builder(provider).tools(tools![ui_message::multiply]);
    let run = agent.build().unwrap().run("What is it?");
    let all: Vec<Numbered> = run.events().collect().await;
    let expected = [vec!["First I multiply."; 2], vec!["It is 8."]];

    let mut turns: Vec<(bool, String)> = Vec::new();
    let mut words = String::new();
    for event in &all {
        match event.event.as_event() {
            Event::Text(more) => words += more,
            Event::TurnEnded { stop, .. } => {
                turns.push((stop == StopReason::ToolCalls, std::mem::take(&mut words)));
            }
            _ => {}
        }
    }
    assert_eq!(said(turns.iter().map(|(calls, text)| (*calls, &**text))), expected);

    let messages = UiMessageStream::new().messages(&all);
    let parts = messages[1]["parts"].as_array().unwrap();
    let steps = parts.split(|part| part["type"] == "step-start");
    let texts = steps.flat_map(|step| {
        let has_calls = step.iter().any(|part| part.get("toolCallId").is_some());
        let texts = step.iter().filter(|part| part["type"] == "text");
        texts.map(move |part| (has_calls, part["text"].as_str().unwrap()))
    });
    assert_eq!(said(texts), expected);

    let began = &all[..1];
    let again = AgUiStream::new("c", "r2").with_history(&all);
    let stream = ag_ui::encoded_events(again, began);
    let chunks = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    let mut chunks = chunks.map(|json| serde_json::from_str::<Value>(json).unwrap());
    let snapshot = chunks.find(|it| it["type"] == "MESSAGES_SNAPSHOT").unwrap();
    let messages = snapshot["messages"].as_array().unwrap().iter();
    let texts = messages
        .filter(|message| message["role"] == "assistant")
        .map(|message| (message.get("toolCalls").is_some(), message["content"].as_str().unwrap()));
    assert_eq!(said(texts), expected);
}

#[test]
fn the_cost_is_in_the_metadata() {
    let usage = json!({"input": 1000, "output": 100});
    let all = events(&[
        json!({"type": "run_started", "said": harness::Message::user("Go.")}),
        json!({"type": "run_ended", "outcome": "answered", "usage": usage, "spent": {"turns": 2, "tool_calls": 1,
            "usage": {"input": 5000, "output": 200}, "usage_is_whole": true, "cost": 0.007, "known_cost": 0.007}}),
    ]);
    let whole = json!({"turns": 2, "tool_calls": 1, "usage": {"input": 5000, "output": 200}, "usage_is_whole": true});
    let messages = UiMessageStream::new().with_cost().messages(&all);
    let metadata = &messages[1]["metadata"];
    assert_eq!((&metadata["cost"], &metadata["usage"]), (&json!(0.007), &usage), "{messages:#?}");
    assert_eq!(metadata["spent"], whole);
    let stream = ag_ui::encoded_events(AgUiStream::new("c", "r").with_cost(), &all);
    assert!(stream.contains(r#""cost":0.007"#) && stream.contains(&whole.to_string()), "{stream}");
    // Unless the program wants it, nobody learns the cost.
    let streams = [
        ui_message::encoded(UiMessageStream::new(), &all),
        ag_ui::encoded_events(AgUiStream::new("c", "r"), &all),
        public_event(all[1].event.as_event()).expect("an event").to_string(),
    ];
    for stream in streams {
        assert!(stream.contains("5000") && !stream.contains("cost"), "{stream}");
    }
    // A cost that is not known takes the place of the one before.
    let all = [
        all[0].clone(),
        events(&[json!({"type": "run_ended", "outcome": "answered", "usage": usage})])[0].clone(),
    ];
    let messages = UiMessageStream::new().with_cost().messages(&all);
    assert_eq!(messages[1]["metadata"].get("cost"), Some(&json!(null)));
}

/// The messages of a page that is loaded now, and the rest of the run that goes on.
async fn load(server: &Server) -> (Vec<Value>, String) {
    let mut watcher = server.chats.watch("c").await.expect("a watcher");
    let mut events = watcher.earlier().await.expect("the earlier runs");
    let busy = server.chats.is_busy("c");
    let mut stream = UiMessageStream::new();
    let mut text = String::new();
    while let Some(Some(event)) = watcher.next().now_or_never() {
        text += &stream.encode(&event);
        if !busy {
            events.push(event);
        }
    }
    (UiMessageStream::new().messages(&events), text)
}

#[tokio::test]
async fn a_resumed_run_is_told_once_to_a_page_that_is_loaded_while_it_goes_on() {
    let gate = Gate::new();
    let model = ScriptedProvider::new([
        reply().text("I remove it.").call("remove", json!({"name": "a"})),
        reply().text_in(["It "]).wait_for(&gate).text_in(["is gone."]),
        reply().text("You are welcome."),
    ]);
    let server = Server::start(model, tools![remove]).await;
    server.chats.send("c", "Remove a.").await.expect("a run").finish().await.expect_err("a wait");

    let (messages, _) = load(&server).await;
    let parts = messages[1]["parts"].as_array().expect("parts");
    assert_eq!(messages.len(), 2, "{messages:#?}");
    let call = parts.iter().find(|it| it["type"] == "tool-remove").expect("a call");
    assert_eq!(call["state"], "approval-requested");
    let id = call["approval"]["id"].as_str().expect("an id");
    let approve = [ClientAnswer::new(id, ClientDecision::Approve)];
    assert_eq!(answer_waiting(&server.inbox, "c", &approve, None).await.expect("a count"), 1);

    let mut run = server.chats.resume("c").await.expect("a run");
    while let Some(event) = run.next().await {
        if matches!(event.event.as_event(), Event::Text("It ")) {
            break;
        }
    }
    let (messages, live) = load(&server).await;
    assert_eq!(messages.len(), 2, "{messages:#?}");
    assert!(!messages[1].to_string().contains("It "), "{messages:#?}");
    assert!(messages[1].to_string().contains("I remove it."), "{messages:#?}");
    assert!(!live.contains("I remove it.") && live.contains("\"It \""), "{live}");
    // The client of `ai` reads on where its messages end.
    let watched = server.watched.clone();
    let opens = tokio::spawn(async move {
        watched.notified().await;
        gate.open();
    });
    let steps = json!([{"resume": true}]);
    let command = json!({"act": "chat", "api": server.api(), "id": "c", "messages": messages, "steps": steps});
    let out = tokio::task::spawn_blocking(move || node("client.mjs", &command)).await;
    if let Some(out) = out.expect("node") {
        assert_eq!(out["messages"].as_array().map(Vec::len), Some(2), "{out:#}");
        let whole = out["messages"].to_string();
        for once in ["I remove it.", "It is gone.", "\"state\":\"output-available\""] {
            assert_eq!(whole.matches(once).count(), 1, "{once}: {out:#}");
        }
    }
    server.watched.notify_one();
    opens.await.expect("opened");
    run.finish().await.expect("an answer");

    let again = server.chats.send("c", "Thanks.").await.expect("a run");
    again.finish().await.expect("an answer");
    let (messages, _) = load(&server).await;
    assert_eq!(messages.len(), 4, "{messages:#?}");
    let call = messages[1]["parts"].as_array().expect("parts").iter();
    let call = call.filter(|it| it["type"] == "tool-remove").collect::<Vec<_>>();
    assert_eq!(call.len(), 1, "{messages:#?}");
    assert_eq!(
        (&call[0]["state"], &call[0]["output"]),
        (&json!("output-available"), &json!("removed a"))
    );
    let whole = json!(messages).to_string();
    for once in ["I remove it.", "It is gone.", "You are welcome.", "Thanks."] {
        assert_eq!(whole.matches(once).count(), 1, "{once}: {messages:#?}");
    }
    // The client of `ai` takes the messages, and sends the next one.
    let command =
        json!({"act": "chat", "api": server.api(), "id": "c", "messages": messages, "steps": []});
    let out =
        tokio::task::spawn_blocking(move || node("client.mjs", &command)).await.expect("node");
    if let Some(out) = out {
        assert_eq!(out["messages"], json!(messages), "{out:#}");
    }
}

#[tokio::test]
async fn the_stream_of_an_answer_goes_on_at_its_place_in_the_whole_message() {
    let model = ScriptedProvider::new([
        reply().reasoning("Hm.").text("I remove it.").call("remove", json!({"name": "a"})),
        reply().text_in(["It ", "is "]).call("remove", json!({"name": "b"})),
        reply().text("Done."),
    ]);
    let server = Server::start(model, tools![remove]).await;
    server.chats.send("c", "Remove a.").await.expect("a run").finish().await.expect_err("a wait");
    for _ in 0..2 {
        let waiting = server.inbox.waiting("c").await.expect("the calls");
        let id = waiting[0].question().expect("a question").nonce;
        let approve = [ClientAnswer::new(id, ClientDecision::Approve)];
        assert_eq!(answer_waiting(&server.inbox, "c", &approve, None).await.expect("a count"), 1);
        let run = server.chats.resume("c").await.expect("a run");
        let earlier = server.chats.watch("c").await.expect("a watcher").earlier().await;
        let (earlier, all): (_, Vec<Numbered>) = (earlier.expect("events"), run.collect().await);
        // The response to the answer has the run alone. What a page gets after a reload has the whole message.
        let response = ui_message::encoded(UiMessageStream::new(), &all);
        let whole = |id: Option<&str>| {
            let stream = id.map_or_else(UiMessageStream::new, UiMessageStream::after);
            ui_message::encoded(stream.with_beginning(&earlier), &all)
        };
        let lasting = |text: &str| {
            text.split_inclusive("\n\n")
                .filter(|event| !event.contains("\"transient\":true"))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        for text in [response, whole(None)] {
            let events: Vec<&str> = text.split_inclusive("\n\n").collect();
            for (at, event) in events.iter().enumerate() {
                let Some(id) = event.lines().find_map(|line| line.strip_prefix("id: ")) else {
                    continue;
                };
                let both = format!("{}{}", events[..=at].concat(), whole(Some(id)));
                assert_eq!(lasting(&both), lasting(&text), "after {id}: {both}");
            }
        }
    }
}

/// The messages of a page that is loaded now.
pub(crate) async fn loaded(chats: &Chats) -> Vec<Value> {
    let (runs, _watcher) = RunsSoFar::read(chats, "c").await.expect("the runs");
    UiMessageStream::new().messages(runs.earlier.iter().chain(&runs.last))
}

#[tokio::test]
async fn a_call_waits_no_more_if_the_user_says_something_new() {
    let asks = reply().call("remove", json!({"name": "a"})).call("book", json!({}));
    let model = ScriptedProvider::new([asks, reply().text("Fine."), reply().text("Gladly.")]);
    let later = |question: ApprovalRequest| async move { question.later(None) };
    let agent = Agent::builder(model).tools(tools![remove, book]).approver(later).build().unwrap();
    let journal = MemoryJournal::new();
    let chats = Chats::new(&agent, &journal);
    let mut all: Vec<Numbered> = chats.send("c", "Remove a.").await.expect("a run").collect().await;
    let mut next: Vec<Numbered> =
        chats.send("c", "Never mind.").await.expect("a run").collect().await;
    let text = ag_ui::encoded_events(AgUiStream::new("c", "r"), &next);
    assert_eq!(text.matches("TOOL_CALL_RESULT").count(), 2, "{text}");
    assert!(!text.contains("TOOL_CALL_START"), "{text}");
    let text = ui_message::encoded(UiMessageStream::new(), &next);
    assert_eq!(text.matches("data-withdrawn").count(), 2, "{text}");
    assert!(!text.contains("\"tool-"), "the call is no part of the new message: {text}");
    all.append(&mut next);

    let mut pages = vec![UiMessageStream::new().messages(&all), loaded(&chats).await];
    pages.push(loaded(&Chats::new(&agent, &journal)).await);
    chats.send("c", "Thanks.").await.expect("a run").finish().await.expect("an answer");
    pages.push(loaded(&chats).await);
    pages.push(loaded(&Chats::new(&agent, &journal)).await);
    for messages in pages {
        let parts = messages[1]["parts"].as_array().expect("parts");
        let calls = parts.iter().filter(|part| part.get("toolCallId").is_some());
        let states: Vec<_> = calls.map(|part| part["state"].as_str().unwrap()).collect();
        assert_eq!(states, ["output-error"; 2], "{messages:#?}");
        assert_eq!(messages[1]["metadata"]["outcome"], "waiting", "{messages:#?}");
        assert_eq!(messages[3]["metadata"]["outcome"], "answered", "{messages:#?}");
        let text = json!(messages).to_string();
        assert!(!text.contains("requested"), "{messages:#?}");
        assert_eq!(text.matches("\"data-withdrawn\"").count(), 2, "{messages:#?}");
    }
}

#[test]
fn the_end_of_a_run_that_could_not_begin_says_nothing_of_the_cost() {
    let all = events(&every_kind());
    let is_end = |it: &&Numbered| matches!(it.event.as_event(), Event::RunEnded { .. });
    let end: Vec<Numbered> = all.iter().filter(is_end).take(1).cloned().collect();
    let stream = || UiMessageStream::new().with_cost();
    let (whole, alone) = (ui_message::encoded(stream(), &all), ui_message::encoded(stream(), &end));
    for member in ["\"spent\"", "\"usage\"", "\"cost\""] {
        assert!(whole.contains(member) && !alone.contains(member), "{member}: {alone}");
    }
    assert!(alone.contains("\"outcome\""), "{alone}");
}

#[tokio::test]
async fn a_call_that_was_in_doubt_and_has_succeeded_is_shown_so_behind_a_new_message() {
    let network = SideEffects::of(&[SideEffect::Network]);
    let pays = |_, _| Box::pin(async { Ok("paid".into()) }) as BoxFuture<'_, _>;
    let pay = Tool::new("pay", "Pays.", json!({"type": "object"}), network, pays)
        .with_reconcile(|_, _| Box::pin(async { Ok(Reconciled::Happened("paid".into())) }));
    let model = ScriptedProvider::answering(|request| match request.messages().len() {
        1 => reply().call("pay", json!({})),
        _ => reply().text("Gladly."),
    });
    let agent = Agent::builder(model).tools([pay]).permissions(Permissions::allow_all());
    let agent = agent.build().expect("an agent");
    let (whole, journal) = (MemoryJournal::new(), MemoryJournal::new());
    agent.open(&whole, "c").await.expect("new").send("Pay.").await.expect("an answer");
    // Its process ends while the call runs.
    let facts = whole.read("c", 0).await.expect("facts").facts;
    let starts = |it: &Envelope| matches!(it.fact(), Ok(Fact::CallStarted { .. }));
    let at = facts.iter().position(starts).expect("a call");
    journal.append("c", Head::default(), &facts[..=at]).await.expect("new");
    let chats = Chats::new(&agent, &journal);
    chats.send("c", "Thanks.").await.expect("a run").finish().await.expect("an answer");
    for messages in [loaded(&chats).await, loaded(&Chats::new(&agent, &journal)).await] {
        let parts = messages[1]["parts"].as_array().expect("parts");
        let call = parts.iter().find(|part| part.get("toolCallId").is_some()).expect("a call");
        let shown = (&call["state"], &call["output"]);
        assert_eq!(shown, (&json!("output-available"), &json!("paid")), "{messages:#?}");
    }
}

#[tokio::test]
async fn the_reason_of_a_failure_is_there_after_a_restart_and_names_no_server() {
    let error = |message: &str| {
        let url = Arc::from("https://models.internal/v1");
        Error::new(ErrorKind::Api, message)
            .with_status(400)
            .with_request_id("req_secret")
            .with_provider("gateway")
            .with_url(&url, None)
    };
    let fails = |message: &str| reply().error(error(message));
    let model = ScriptedProvider::new([
        fails("no model (of this name)"),
        reply().text("Fine."),
        fails("see https://models.internal/help"),
    ]);
    let agent = Agent::builder(model.with_name("gateway")).build().unwrap();
    let journal = MemoryJournal::new();
    let chats = Chats::new(&agent, &journal);
    let mut lives = Vec::new();
    for said in ["One.", "Two.", "Three."] {
        let all: Vec<Numbered> = chats.send("c", said).await.expect("a run").collect().await;
        lives.extend(UiMessageStream::new().messages(&all));
    }
    let ends = |messages: &[Value]| -> Vec<Value> {
        messages.iter().filter_map(|it| it.get("metadata").cloned()).collect()
    };
    let lives = ends(&lives);
    for page in [loaded(&chats).await, loaded(&Chats::new(&agent, &journal)).await] {
        assert_eq!(ends(&page), lives);
    }
    let text = json!(lives).to_string();
    assert!(text.contains("400: no model (of this name)\""), "{text}");
    for hidden in ["internal", "gateway", "req_secret"] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
}
