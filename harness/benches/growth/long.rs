//! Cases about conversations that have become long: old results are cleared, and stored facts are read.

use harness::{
    Agent, Limits, SideEffect,
    context::Window,
    journal::{ConversationQuery, Journal as _, MemoryJournal, Metadata},
    policy::{Guardrails, Permissions},
    tool::{Tool, ToolLimits},
};
use serde_json::json;

use super::{Asks, call_events, completed, count, done, tool};
use crate::runtime;

/// Runs one case about long conversations. Returns `false` if no case has this name.
pub(super) fn run(case: &str, size: usize) -> bool {
    match case {
        "clear" => clear(size),
        "list" => list(size),
        "open" => open(size),
        _ => return false,
    }
    true
}

/// Measures a run with this number of calls, one in each answer. A clearing is due after every few calls.
fn clear(size: usize) {
    let provider = Asks(Box::new(move |request| {
        let call = request.messages().len() / 2;
        if call == size {
            return done();
        }
        let json = format!(r#"{{"path":"file-{call}"}}"#);
        let mut called = call_events(0, &format!("call_{call}"), "look", &[json]);
        called.push(completed(harness::provider::StopReason::ToolCalls));
        called
    }));
    let agent = Agent::builder(provider)
        .tools([looks()])
        .permissions(Permissions::default().allow("look"))
        .guardrails(Guardrails::none())
        .run_limits(Limits::unlimited())
        .window(Window::new().tokens(8_000).clear_at(50).keep_messages())
        .build()
        .expect("an agent");
    let runtime = runtime();
    count(|| {
        let mut chat = agent.chat();
        runtime.block_on(chat.send("Go.").into_future()).expect("an answer");
        let used = chat.context();
        assert!(used.clearable < 4_000, "nothing was cleared: {used:?}");
    });
}

/// A tool whose results have 2,000 bytes.
fn looks() -> Tool {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let reads = harness::SideEffects::of(&[SideEffect::Read]);
    Tool::new("look", "Looks.", schema, reads, |_, _| {
        Box::pin(async { Ok("seen it all, ".repeat(150).into()) })
    })
}

/// Measures the listing of this number of conversations, page by page.
fn list(size: usize) {
    let (journal, runtime) = (MemoryJournal::new(), runtime());
    runtime.block_on(async {
        for at in 0..size {
            let owner = if at % 2 == 0 { "ada" } else { "bob" };
            let known = Metadata::new().owner(owner);
            journal.describe(&format!("chat-{at}"), &known).await.expect("a conversation");
        }
    });
    count(|| {
        runtime.block_on(async {
            let (mut query, mut found) = (ConversationQuery::new().owner("ada").limit(8), 0);
            loop {
                let page = journal.list(&query).await.expect("a page");
                found += page.conversations.len();
                query = query.after(&page);
                if page.next.is_none() {
                    break;
                }
            }
            assert_eq!(found, size.div_ceil(2));
        });
    });
}

/// Measures how a conversation with this number of turns is opened. Each turn has a call.
fn open(size: usize) {
    let provider = Asks(Box::new(|request| {
        let messages = request.messages();
        if messages.last().is_some_and(|last| last.results().next().is_some()) {
            return done();
        }
        let json = format!(r#"{{"path":"file-{}"}}"#, messages.len());
        let mut called = call_events(0, &format!("call_{}", messages.len()), "look", &[json]);
        called.push(completed(harness::provider::StopReason::ToolCalls));
        called
    }));
    let agent = Agent::builder(provider)
        .tools([tool("look", SideEffect::Read)])
        .guardrails(Guardrails::none())
        .tool_limits(ToolLimits::default())
        .build()
        .expect("an agent");
    let (journal, runtime) = (MemoryJournal::new(), runtime());
    runtime.block_on(async {
        let mut chat = agent.open(&journal, "long").await.expect("a conversation");
        for _ in 0..size {
            chat.send("Go.").await.expect("an answer");
        }
    });
    count(|| {
        let opened = runtime.block_on(agent.open(&journal, "long")).expect("a conversation");
        assert_eq!(opened.transcript().messages().len(), 4 * size);
    });
}
