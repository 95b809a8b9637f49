//! Agents in calls that go on in a version of the program whose types have other doc comments.

use harness::{
    Agent, SideEffects,
    agent::Answer,
    testing::{ScriptedProvider, reply},
};
use serde_json::json;

use crate::{CHAT, Left, agent, tool};

mod before {
    /// What is to be paid.
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    pub(super) struct Bill {
        /// The sum.
        #[expect(dead_code, reason = "only its schema matters")]
        sum: u32,
    }
}

mod after {
    /// What is to be paid, and by whom.
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    pub(super) struct Bill {
        /// The sum in cents, with taxes.
        #[expect(dead_code, reason = "only its schema matters")]
        sum: u32,
    }
}

fn lead<T: Answer>(model: ScriptedProvider) -> Agent {
    let reader = agent(model).build().expect("an agent");
    let asks = ScriptedProvider::answering(|request| match request.results().next() {
        None => reply().call_with_id("c", "read", json!({"task": "Read the bill."})),
        Some(result) => reply().text(result.to_text()),
    });
    agent(asks).tools([reader.as_tool_answering::<T>("read", "Reads.")]).build().expect("an agent")
}

#[tokio::test]
async fn an_agent_goes_on_where_only_the_descriptions_of_its_answer_have_changed() {
    let left = Left::default();
    let sum = || reply().text(r#"{"sum": 7}"#);
    let first = lead::<before::Bill>(left.model(move |_| sum()));
    let mut chat = first.open(&left.journal, CHAT).await.expect("opened");
    chat.send("How much?").await.expect("an answer");
    let journal = left.take().swap_remove(0);

    let model = ScriptedProvider::answering(move |_| sum());
    let second = lead::<after::Bill>(model.clone());
    let mut chat = second.open(&journal, CHAT).await.expect("opened");
    let reply = chat.resume().await.expect("an answer");
    assert!(reply.text().contains("sum") && reply.text().contains('7'), "{}", reply.text());
    assert!(!reply.text().contains("another message"), "{}", reply.text());
    // The model has the words that it was given first.
    let asked = model.requests().swap_remove(0);
    assert!(asked.last_text().contains("The sum."), "{}", asked.last_text());
}

/// An agent whose function gives its agent this task.
fn lead_of<T: Answer>(model: ScriptedProvider, task: &'static str) -> Agent {
    let reader = agent(model).build().expect("an agent");
    let read = tool("read", SideEffects::NONE, move |context| {
        let reader = reader.clone();
        async move {
            let answered = reader.run(task).in_call(&context).answer::<T>().await?;
            Ok(answered.reply().text().to_owned())
        }
    });
    let asks = ScriptedProvider::answering(|request| match request.results().next() {
        None => reply().call_with_id("c", "read", json!({})),
        Some(result) => reply().text(result.to_text()),
    });
    agent(asks).tools([read]).build().expect("an agent")
}

#[tokio::test]
async fn an_agent_does_not_go_on_with_another_task() {
    let left = Left::default();
    let sum = || reply().text(r#"{"sum": 7}"#);
    let first = lead_of::<before::Bill>(left.model(move |_| sum()), "Read the bill.");
    let mut chat = first.open(&left.journal, CHAT).await.expect("opened");
    chat.send("How much?").await.expect("an answer");
    let journal = left.take().swap_remove(0);
    for (task, goes_on) in [("Read the bill.", true), ("Read the other bill.", false)] {
        let journal = crate::copy_of(&journal).await;
        let second = lead_of::<after::Bill>(ScriptedProvider::answering(move |_| sum()), task);
        let mut chat = second.open(&journal, CHAT).await.expect("opened");
        let reply = chat.resume().await.expect("an answer");
        assert_eq!(!reply.text().contains("another message"), goes_on, "{}", reply.text());
    }
}
