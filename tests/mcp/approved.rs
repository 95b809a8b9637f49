//! What a person has allowed holds for a tool as its server described it then, also in another process.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use harness::{
    Agent, Outcome,
    agent::Chats,
    journal::{Envelope, Head, Journal as _, MemoryJournal},
    mcp::McpServer,
    policy::ApprovalRequest,
    testing::{ScriptedProvider, reply},
};
use serde_json::json;

use super::Scripted;

/// A model that makes one call and then says that it is done.
fn calls(tool: &'static str) -> ScriptedProvider {
    ScriptedProvider::answering(move |request| match request.results().next().is_some() {
        true => reply().text("Done."),
        false if tool == "works" => reply().call(tool, json!({"task": "Run it."})),
        false => reply().call(tool, json!({"a": 1})),
    })
}

/// An agent with the tools of a server, or one whose agent has them; it counts how often it asks, and answers
/// later.
fn agent(server: &McpServer, below: bool, asked: &Arc<AtomicUsize>) -> Agent {
    let asked = Arc::clone(asked);
    let later = move |question: ApprovalRequest| {
        asked.fetch_add(1, Ordering::SeqCst);
        async move { question.later(None) }
    };
    let agent = Agent::builder(calls(if below { "works" } else { "it__run" }));
    let agent = match below {
        true => {
            let inner = Agent::builder(calls("it__run")).tools(server.tools()).build();
            agent.tools([inner.expect("an agent").as_tool("works", "Works.")])
        }
        false => agent.tools(server.tools()),
    };
    agent.approver(later).build().expect("an agent")
}

/// A journal of the same conversation, whose decisions do not say this.
async fn without(journal: &MemoryJournal, member: &str) -> MemoryJournal {
    let old = MemoryJournal::new();
    let facts =
        journal.read("chat", 0).await.expect("read").facts.into_iter().map(|mut envelope| {
            let mut fact: serde_json::Value = serde_json::from_str(&envelope.fact).expect("JSON");
            if let Some(decision) = fact.get_mut("decision").and_then(|it| it.as_object_mut()) {
                decision.remove(member);
            }
            envelope.fact = fact.to_string().into();
            envelope
        });
    let facts: Vec<Envelope> = facts.collect();
    old.append("chat", Head::default(), &facts).await.expect("written");
    old
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Goes {
    Chat,
    Chats,
}

#[tokio::test]
async fn a_call_that_was_allowed_is_asked_about_anew_if_the_server_describes_its_tool_otherwise() {
    for below in [false, true] {
        for goes in [Goes::Chat, Goes::Chats] {
            for (way, always, old, again) in [
                ("good", false, false, false),
                ("describes-anew", false, false, true),
                ("describes-anew", true, false, true),
                // A decision of a person that does not say what the person saw.
                ("good", false, true, true),
            ] {
                if old && below {
                    continue;
                }
                let case = format!("below {below}, {goes:?}, {way}, always {always}, old {old}");
                let (scripted, journal) = (Scripted::new(), MemoryJournal::new());
                let asked = Arc::new(AtomicUsize::new(0));
                let asking = if below { "chat/call_1" } else { "chat" };
                let server = scripted.server("good").connect().await.expect("a server");
                let first = agent(&server, below, &asked);
                let mut chat = first.open(&journal, "chat").await.expect("opened");
                let stopped = chat.send("Run it.").await.unwrap_err();
                assert_eq!(stopped.outcome(), Outcome::Waiting, "{case}");
                let inbox = first.inbox(&journal);
                let open = inbox.waiting(asking).await.expect("read").remove(0);
                let question = open.question().expect("a question");
                assert!(!question.definition.is_empty(), "{case}");
                let approval = if always { question.always() } else { question.yes() };
                inbox.decide(asking, approval).await.expect("written");
                drop((chat, first, inbox));
                server.close().await;

                let journal = if old { without(&journal, "binding").await } else { journal };
                let server = scripted.server(way).connect().await.expect("a server");
                let second = agent(&server, below, &asked);
                match goes {
                    Goes::Chat => {
                        let mut chat = second.open(&journal, "chat").await.expect("opened");
                        let ended = chat.resume().await.map_err(|stopped| stopped.outcome());
                        let ended = ended.map(|reply| reply.text().to_owned());
                        let waits = if again { Err(Outcome::Waiting) } else { Ok("Done.".into()) };
                        assert_eq!(ended, waits, "{case}");
                    }
                    Goes::Chats => {
                        let chats = Chats::new(&second, &journal);
                        let run = chats.resume("chat").await.expect("a run");
                        let _ = run.finish().await;
                        chats.close().await;
                    }
                }
                let counts = (asked.load(Ordering::SeqCst), scripted.count("call"));
                assert_eq!(counts, if again { (2, 0) } else { (1, 1) }, "{case}");
                server.close().await;
            }
        }
    }
}
