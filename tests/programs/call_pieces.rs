//! Events of a call while the model writes it.

use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use harness::{
    Agent, Event, RetryPolicy, RetryProvider, StopReason, StreamEvent,
    agent::{Chats, EventBuf, Numbered},
    journal::MemoryJournal,
    testing::{ScriptedProvider, ScriptedReply, reply},
    tool, tools,
};
use serde_json::json;

/// Writes a file.
#[tool(side_effects = "write")]
fn write_file(
    /** Where */
    path: &str,
    /** What */
    content: &str,
) -> String {
    format!("{path}: {}", content.len())
}

fn agent(replies: impl IntoIterator<Item = ScriptedReply>) -> Agent {
    let model = ScriptedProvider::new(replies);
    Agent::builder(model).tools(tools![write_file]).build().expect("an agent")
}

/// A page that shows a call while it is written, by nothing but the events.
#[derive(Default)]
struct Page {
    /// The calls that are being written: id, tool and arguments so far.
    written: Vec<(String, String, String)>,
    begun: Vec<String>,
    /// What was shown of each call when it began to run.
    at_begin: Vec<String>,
}

impl Page {
    fn read(&mut self, event: Event<'_>) {
        match event {
            Event::ToolCallStart { call, tool } => {
                self.begun.push(call.to_owned());
                self.written.retain(|(id, ..)| id != call);
                self.written.push((call.to_owned(), tool.to_owned(), String::new()));
            }
            Event::ToolCallDelta { call, json } => {
                let shown = self.written.iter_mut().find(|(id, ..)| id == call);
                shown.expect("a call that has begun").2.push_str(json);
            }
            Event::Discarded { .. } => self.written.clear(),
            Event::ToolCall(call) => {
                let shown = self.written.iter().find(|(id, ..)| id == call.id());
                self.at_begin.extend(shown.map(|(_, _, json)| json.clone()));
            }
            _ => {}
        }
    }
}

async fn shown(agent: &Agent) -> Page {
    let mut page = Page::default();
    agent.run("Write it.").on_event(|event| page.read(event)).await.expect("an answer");
    page
}

/// A call that a server writes in exactly these pieces.
fn writing(reply: ScriptedReply, pieces: &[&str]) -> ScriptedReply {
    let name = "write_file".to_owned();
    let begun = reply.event(StreamEvent::ToolCallStart { block: 7, id: "c1".to_owned(), name });
    let piece = |it: ScriptedReply, json: &&str| {
        it.event(StreamEvent::ToolCallDelta { block: 7, json: (*json).to_owned() })
    };
    let piecewise = pieces.iter().fold(begun, piece);
    piecewise.event(StreamEvent::ToolCallEnd { block: 7 }).stop(StopReason::ToolCalls)
}

#[tokio::test]
async fn a_watcher_sees_a_call_grow_before_it_is_complete() {
    let pieces = [r#"{"path": "a.txt", "con"#, r#"tent": "one"#, r#" two"}"#];
    let agent = agent([writing(reply().text("I write."), &pieces), reply().text("Done.")]);
    let mut seen = Vec::new();
    agent
        .run("Write it.")
        .on_event(|event| seen.push(event.into_owned()))
        .await
        .expect("an answer");
    let of_call = |event: &&EventBuf| {
        let event = event.as_event();
        matches!(
            event,
            Event::ToolCallStart { .. } | Event::ToolCallDelta { .. } | Event::ToolCall(_)
        )
    };
    let lines: Vec<String> =
        seen.iter().filter(of_call).map(|it| serde_json::to_string(it).expect("JSON")).collect();
    assert_eq!(lines[0], r#"{"type":"tool_call_start","call":"c1","tool":"write_file"}"#);
    for (line, piece) in lines[1..4].iter().zip(pieces) {
        let expected = json!({"type": "tool_call_delta", "call": "c1", "json": piece});
        assert_eq!(serde_json::from_str::<serde_json::Value>(line).expect("JSON"), expected);
        let read: EventBuf = serde_json::from_str(line).expect("an event");
        assert!(
            matches!(read.as_event(), Event::ToolCallDelta { call: "c1", json } if json == piece)
        );
    }
    assert!(lines[4].starts_with(r#"{"type":"tool_call","#), "{lines:?}");
    assert_eq!(lines.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn pieces_of_an_answer_that_begins_again_are_taken_back() {
    let half = reply().begin_call("c1", "write_file").arguments(r#"{"path": "old.txt", "#).cut();
    let whole = reply().call("write_file", json!({"path": "new.txt", "content": ""}));
    let policy = RetryPolicy { after_output: true, ..RetryPolicy::default() };
    let model = ScriptedProvider::new([half, whole, reply().text("Done.")]);
    let agent = Agent::builder(RetryProvider::new(model, policy)).tools(tools![write_file]);
    let page = shown(&agent.build().expect("an agent")).await;
    assert_eq!(page.begun.len(), 2);
    assert_eq!(page.written.len(), 1, "only the second one");
    assert!(page.written[0].2.contains("new.txt") && !page.written[0].2.contains("old.txt"));
}

/// Servers that begin a call with `{}`, send the arguments once more as a whole, correct them, or send the whole call
/// twice: what a page shows when the call begins are always the arguments with which it runs.
#[tokio::test]
async fn pieces_together_are_the_arguments_whatever_a_server_repeats_or_replaces() {
    let start =
        || StreamEvent::ToolCallStart { block: 0, id: "c1".into(), name: "write_file".into() };
    let delta = |json: &str| StreamEvent::ToolCallDelta { block: 0, json: json.into() };
    let whole = |json: &str| StreamEvent::ToolCallArguments { block: 0, json: json.into() };
    let end = || StreamEvent::ToolCallEnd { block: 0 };
    let right = r#"{"path": "a", "content": "b"}"#;
    let (first, last) = right.split_at(9);
    let table = [
        (1, vec![start(), delta(first), delta(last), end()]),
        (2, vec![start(), delta("{}"), delta(right), end()]),
        (1, vec![start(), delta(right), delta("{}"), end()]),
        (1, vec![start(), delta(first), whole(right), end()]),
        (1, vec![start(), delta(first), delta(last), whole(right), end()]),
        (2, vec![start(), delta(r#"{"path": "z"#), whole(right), end()]),
        (1, vec![start(), start(), whole(right), end()]),
        (1, vec![start(), delta(right), end(), start(), delta(right), end()]),
    ];
    for (number, (starts, events)) in table.into_iter().enumerate() {
        let written = events.into_iter().fold(reply(), ScriptedReply::event);
        let page =
            shown(&agent([written.stop(StopReason::ToolCalls), reply().text("Done.")])).await;
        assert_eq!(page.at_begin, [right], "{number}");
        assert_eq!(page.begun.len(), starts, "{number}");
    }
}

#[tokio::test]
async fn a_watcher_of_a_conversation_gets_joined_pieces_and_goes_on_in_the_middle_of_one() {
    let pieces = ["{\"path\": \"a\", ", "\"content\": \"", "b", "c\"}"];
    let chats = Chats::new(
        &agent([writing(reply(), &pieces), reply().text("Done.")]),
        &MemoryJournal::new(),
    );
    chats.send("17", "Write it.").await.expect("sent").finish().await.expect("an answer");
    let is_delta = |it: &Numbered| matches!(it.event.as_event(), Event::ToolCallDelta { .. });
    let json = |it: &Numbered| match it.event.as_event() {
        Event::ToolCallDelta { call: "c1", json } => json.to_owned(),
        other => panic!("{other:?}"),
    };
    let next = async |id: &str| {
        let mut watcher = chats.watch("17").await.expect("watched").after(id);
        loop {
            let event = watcher.next().await.expect("a piece");
            if is_delta(&event) {
                return event;
            }
        }
    };
    let all = next("").await;
    assert_eq!(json(&all), pieces.concat());
    // A tab that has received the first two pieces gets only the others.
    let id = format!("{}/{}", all.run, all.number - 2);
    assert_eq!(json(&next(&id).await), pieces[2..].concat());
    chats.close().await;
}

#[tokio::test]
async fn the_caller_of_an_agent_sees_what_the_agent_writes() {
    let inner = agent([
        reply().call("write_file", json!({"path": "a", "content": "b"})),
        reply().text("Done."),
    ]);
    let model = ScriptedProvider::new([
        reply().call("writer", json!({"task": "Write."})),
        reply().text("Good."),
    ]);
    let outer = Agent::builder(model)
        .tools([inner.as_tool("writer", "Writes.")])
        .build()
        .expect("an agent");
    let seen = Arc::new(Mutex::new(String::new()));
    let keeps = Arc::clone(&seen);
    let run = outer.run("Go.").on_event(move |event| {
        if let Event::OfAgent { event, .. } = event
            && let Event::ToolCallDelta { json, .. } = event.as_event()
        {
            keeps.lock().unwrap().push_str(json);
        }
    });
    run.await.expect("an answer");
    let seen: serde_json::Value = serde_json::from_str(&seen.lock().unwrap()).expect("JSON");
    assert_eq!(seen, json!({"path": "a", "content": "b"}));
}
