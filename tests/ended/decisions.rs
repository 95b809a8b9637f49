//! Decisions about calls that wait: each one counts for its own call, in its own conversation, and for the tool that was
//! shown.

use std::sync::{Arc, Mutex};

use harness::{
    Agent, Outcome, SideEffect, SideEffects, Tool,
    journal::MemoryJournal,
    policy::ApprovalRequest,
    testing::{ScriptedProvider, reply},
};
use serde_json::{Value, json};

use crate::CHAT;

type Done = Arc<Mutex<Vec<String>>>;

/// A tool that changes something, and writes down for whom.
fn pay(done: &Done) -> Tool {
    let done = Arc::clone(done);
    let schema = json!({"type": "object", "properties": {"to": {"type": "string"}}});
    let effects = SideEffects::of(&[SideEffect::Mutate]);
    Tool::new("pay", "Pays.", schema, effects, move |_, arguments| {
        done.lock().expect("unpoisoned").push(Value::Object(arguments)["to"].to_string());
        Box::pin(async { Ok("Paid.".into()) })
    })
}

/// An agent that wants to pay these, all at once, and asks later.
fn agent(payees: &'static [&'static str], tools: impl IntoIterator<Item = Tool>) -> Agent {
    let model = ScriptedProvider::answering(|request| {
        if request.results().next().is_some() {
            return reply().text("Done.");
        }
        payees.iter().fold(reply(), |reply, to| reply.call("pay", json!({ "to": to })))
    });
    let later = |question: ApprovalRequest| async move { question.later(None) };
    Agent::builder(model).tools(tools).approver(later).build().expect("an agent")
}

fn taken(done: &Done) -> Vec<String> {
    done.lock().expect("unpoisoned").clone()
}

/// langchain-ai/langgraph#6533, langchain-ai/langgraph#6626.
#[tokio::test]
async fn of_calls_that_wait_together_each_gets_its_own_decision() {
    // In whatever order the decisions come.
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let (done, journal) = (Done::default(), MemoryJournal::new());
        let agent = agent(&["Ada", "Bob", "Ada"], [pay(&done)]);
        let mut chat = agent.open(&journal, CHAT).await.expect("opened");
        chat.send("Pay.").await.expect_err("it waits");
        let questions: Vec<ApprovalRequest> =
            chat.waiting().iter().map(|call| call.question().expect("a question")).collect();
        for at in order {
            let question = questions[at].clone();
            let decision = if at == 1 { question.no("Not Bob.") } else { question.yes() };
            chat.decide(decision).await.expect("written");
        }
        let reply = chat.resume().await.expect("an answer");
        assert_eq!(taken(&done), [r#""Ada""#, r#""Ada""#], "{order:?}");
        let results = reply.transcript().messages().iter().flat_map(|it| it.results());
        let told: Vec<bool> = results.map(|it| it.to_text().contains("Not Bob.")).collect();
        assert_eq!(told, [false, true, false], "{order:?}");
    }
}

/// openai/openai-agents-python#4409.
#[tokio::test]
async fn a_decision_in_a_conversation_is_none_in_its_fork() {
    for decided_first in [true, false] {
        let (done, journal) = (Done::default(), MemoryJournal::new());
        let agent = agent(&["Ada"], [pay(&done)]);
        let mut chat = agent.open(&journal, CHAT).await.expect("opened");
        chat.send("Pay.").await.expect_err("it waits");
        let question = chat.waiting()[0].question().expect("a question");
        let facts = chat.facts();
        if decided_first {
            chat.decide(question.yes()).await.expect("written");
        }
        let mut fork = chat.fork("fork", facts).await.expect("a fork");
        if !decided_first {
            chat.decide(question.yes()).await.expect("written");
        }
        assert!(fork.decide(question.yes()).await.is_err(), "{decided_first}: nothing waits there");
        // What the fork does about it is asked about anew.
        let stopped = fork.send("And now?").await;
        assert!(stopped.map_or_else(|err| err.outcome() == Outcome::Waiting, |_| true));
        assert_eq!(taken(&done), [""; 0], "{decided_first}");
        chat.resume().await.expect("an answer");
        assert_eq!(taken(&done), [r#""Ada""#], "{decided_first}");
    }
}

/// openai/openai-agents-python#4264.
#[tokio::test]
async fn an_approved_call_of_a_tool_that_is_gone_does_not_run_and_the_model_hears_of_it() {
    let (done, journal) = (Done::default(), MemoryJournal::new());
    let first = agent(&["Ada"], [pay(&done)]);
    let mut chat = first.open(&journal, CHAT).await.expect("opened");
    chat.send("Pay.").await.expect_err("it waits");
    let question = chat.waiting()[0].question().expect("a question");
    chat.decide(question.yes()).await.expect("written");
    drop(chat);
    let second = agent(&["Ada"], []);
    let mut chat = second.open(&journal, CHAT).await.expect("opened");
    let reply = chat.resume().await.expect("an answer");
    let results = reply.transcript().messages().iter().flat_map(|it| it.results());
    let told: Vec<String> = results.map(|it| it.to_text()).collect();
    assert!(told.len() == 1 && told[0].contains("pay"), "{told:?}");
    assert_eq!(taken(&done), [""; 0]);
}
