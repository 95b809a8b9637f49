//! Cases that grow with what an agent, a run or a conversation has: tools, rules, agents, watchers, trace events.

use std::{future::IntoFuture as _, hint::black_box};

use futures_util::StreamExt as _;
use harness::{
    Agent, Limits, SideEffect,
    agent::{Chats, Event},
    journal::MemoryJournal,
    policy::{Guardrails, Permissions},
    provider::StopReason,
};
use tokio::runtime::Runtime;

use super::{Asks, call_events, completed, count, done, tool};
use crate::runtime;

/// Measures a whole run with this number of one part.
pub(super) fn run(part: &str, size: usize) {
    let calls = match part {
        "agents" | "trace" => size,
        _ => 1,
    };
    let name = if part == "agents" { "review" } else { "look" };
    let mut called = Vec::new();
    for (at, block) in (0..calls).zip(0_u32..) {
        let arguments = match part {
            "agents" => format!(r#"{{"task":"Review {at}."}}"#),
            _ => format!(r#"{{"path":"file-{at}"}}"#),
        };
        called.extend(call_events(block, &format!("call_{at}"), name, &[arguments]));
    }
    called.push(completed(StopReason::ToolCalls));
    let provider = Asks(Box::new(move |request| match request.messages().len() {
        1 => called.clone(),
        _ => done(),
    }));
    let mut tools = vec![tool("look", SideEffect::Read)];
    match part {
        "tools" => {
            tools.extend((0..size).map(|at| tool(format!("other_{at}").leak(), SideEffect::Read)));
        }
        "agents" => {
            let reviewer = Agent::builder(Asks(Box::new(|_| done()))).build().expect("an agent");
            tools.push(reviewer.as_tool("review", "Reviews."));
        }
        _ => {}
    }
    let rules = if part == "rules" { size } else { 0 };
    let permissions = (0..rules).fold(Permissions::default(), |permissions, at| {
        permissions.deny(format!("other_{at}"), "It is not wanted.")
    });
    let agent = Agent::builder(provider)
        .tools(tools)
        .permissions(permissions)
        .guardrails(Guardrails::none())
        .run_limits(Limits::unlimited())
        .build()
        .expect("an agent");
    let runtime = runtime();
    match part {
        "watchers" => watch(&runtime, &agent, size),
        "trace" => count(|| {
            let reply = runtime.block_on(agent.run("Go.").into_future()).expect("an answer");
            black_box(reply.trace().to_string());
        }),
        _ => count(|| {
            runtime.block_on(agent.run("Go.").into_future()).expect("an answer");
        }),
    }
}

/// Measures one run of a conversation that this number of watchers read.
fn watch(runtime: &Runtime, agent: &Agent, watchers: usize) {
    let chats = Chats::new(agent, &MemoryJournal::new());
    let mut streams = runtime.block_on(async {
        let streams = (0..watchers).map(|_| chats.watch("chat"));
        futures_util::future::try_join_all(streams).await.expect("watchers")
    });
    count(|| {
        runtime.block_on(async {
            let run = chats.send("chat", "Go.").await.expect("a run");
            run.finish().await.expect("an answer");
            for stream in &mut streams {
                while let Some(event) = stream.next().await {
                    if matches!(event.event.as_event(), Event::RunEnded { .. }) {
                        break;
                    }
                }
            }
        });
    });
    runtime.block_on(chats.close());
}
