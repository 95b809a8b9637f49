//! The memory of conversations that rest: bytes for each, which do not depend on the load of the machine. The bytes
//! of the messages count too, and are the same in each measurement. And the size of this program's machine code.

use std::{
    env,
    mem::forget,
    process::{Command, exit},
    task::{Context, Poll, Waker},
};

use futures_util::{StreamExt as _, stream};
use harness::{
    Agent, Outcome, Provider, SideEffect, SideEffects, StreamEvent, Tool,
    policy::ApprovalRequest,
    provider::{EventStream, Request, StopReason},
};
use serde_json::json;

use crate::{encode_pieces, runtime};

pub(crate) const CASES: &[&str] =
    &["rest/answered", "rest/called", "rest/held", "rest/closed", CODE];

/// The bytes of this program's machine code, which grow with what a program costs to build.
pub(crate) const CODE: &str = "code";

/// The number of conversations. Each case is measured with this number and with twice as many, and the difference
/// counts.
pub(crate) const CONVERSATIONS: u64 = 100;

/// A provider that encodes each request, and answers according to the message of the user.
struct Answers;

impl Provider for Answers {
    fn name(&self) -> &str {
        "answers"
    }

    fn model(&self) -> &str {
        "answers"
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        drop(encode_pieces("anthropic", &request));
        let mut events = Vec::new();
        let stop = match request.messages()[0].text().as_str() {
            "called" => {
                let (id, name) = ("call_0".to_owned(), "send".to_owned());
                events.push(StreamEvent::ToolCallStart { block: 0, id, name });
                let json = r#"{"to":"Bob"}"#.to_owned();
                events.push(StreamEvent::ToolCallDelta { block: 0, json });
                events.push(StreamEvent::ToolCallEnd { block: 0 });
                StopReason::ToolCalls
            }
            _ => {
                events.push(StreamEvent::TextDelta { block: 0, text: "It is 42.".into() });
                StopReason::Complete
            }
        };
        if request.messages()[0].text() == "held" {
            return stream::iter(events).map(Ok).chain(stream::pending()).boxed();
        }
        events.push(StreamEvent::Completed { stop, usage: Box::default() });
        stream::iter(events).map(Ok).boxed()
    }
}

pub(crate) fn code_bytes() -> u64 {
    let executable = env::current_exe().expect("the path of this program");
    let sections = Command::new("size").arg("-A").arg(executable).output();
    let sections = String::from_utf8(sections.expect("`size` of binutils runs").stdout);
    let sections = sections.expect("the names and sizes of sections");
    let text = sections.lines().find_map(|line| line.strip_prefix(".text "));
    let bytes = text.and_then(|text| text.split_whitespace().next()).expect("the section .text");
    bytes.parse().expect("a number")
}

/// Begins this number of conversations, and ends the process while they are in memory.
///
/// - `answered`: each has an answer and waits for the next message.
/// - `called`: each has a call that waits for a decision.
/// - `held`: each waits for the rest of an answer. The future of the run counts too.
/// - `closed`: as `answered`, and each is dropped before the next one begins.
pub(crate) fn run(how: &str, conversations: usize) {
    let schema = json!({"type": "object", "properties": {"to": {"type": "string"}}});
    let writes = SideEffects::of(&[SideEffect::Mutate]);
    let send = Tool::new("send", "Sends a letter.", schema, writes, |_, _| {
        Box::pin(async { Ok("sent".into()) })
    });
    let later = |it: ApprovalRequest| async move { it.later(None) };
    let agent = Agent::builder(Answers).tools([send]).approver(later).build().expect("an agent");
    let runtime = runtime();
    let _entered = runtime.enter();
    let mut chats = Vec::with_capacity(if how == "closed" { 0 } else { conversations });
    for _ in 0..conversations {
        let mut chat = Box::new(agent.chat());
        if how == "held" {
            let mut run = Box::leak(chat).send(how).into_future();
            let context = &mut Context::from_waker(Waker::noop());
            assert!(matches!(run.as_mut().poll(context), Poll::Pending));
            forget(run);
            continue;
        }
        let say = if how == "closed" { "answered" } else { how };
        match runtime.block_on(chat.send(say).into_future()) {
            Ok(reply) => assert_eq!(reply.text(), "It is 42."),
            Err(stopped) => assert_eq!((how, stopped.outcome()), ("called", Outcome::Waiting)),
        }
        if how != "closed" {
            chats.push(chat);
        }
    }
    forget(chats);
    exit(0);
}
