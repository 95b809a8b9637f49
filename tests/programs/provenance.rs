//! Which provider and model an answer came from, and what it cost.

use harness::{
    Agent, FallbackProvider,
    journal::MemoryJournal,
    message::Role,
    models::{Models, Price},
    testing::{ScriptedProvider, reply},
    tool, tools,
};
use serde_json::json;

/// Adds.
#[tool(side_effects = "none")]
fn add(
    /** One */
    a: i64,
    /** Another */
    b: i64,
) -> i64 {
    a + b
}

fn agent() -> Agent {
    let first = ScriptedProvider::new([
        reply().call("add", json!({"a": 1, "b": 2})).tokens(1_000_000, 100_000),
        reply().text("3.").tokens(10, 1),
        reply().overloaded(),
    ]);
    let second = ScriptedProvider::new([reply().text("I am another.")]);
    let both = FallbackProvider::new(first.with_name("one").with_model("model-1"))
        .or(second.with_name("two").with_model("model-2"));
    Agent::builder(both).tools(tools![add]).build().expect("an agent")
}

/// What is known of each message of the model.
fn known(chat: &harness::Chat) -> Vec<String> {
    let models = Models::default().with("model-1", Price::new(2.0, 10.0));
    let said =
        chat.transcript().messages().iter().filter(|message| message.role() == Role::Assistant);
    said.map(|message| {
        let from = chat.provenance(message.id()).expect("an answer");
        format!("{} {} {:?} {:?}", from.provider, from.model, from.usage.output, from.cost(&models))
    })
    .collect()
}

#[tokio::test(start_paused = true)]
async fn each_answer_of_a_conversation_says_where_it_came_from_also_after_it_was_opened_again() {
    let journal = MemoryJournal::new();
    let expected = [
        "one model-1 Some(100000) Some(3.0)",
        "one model-1 Some(1) Some(3e-5)",
        "two model-2 None None",
    ];
    let mut chat = agent().open(&journal, "17").await.expect("open");
    let first = chat.send("1 + 2?").await.expect("an answer");
    let last = chat.send("And now?").await.expect("an answer");
    assert_eq!(known(&chat), expected);
    // A reply has it for its whole transcript, and keeps it when the conversation goes on.
    for (reply, answers) in [(&first, 2), (&last, 3)] {
        let messages = reply.transcript().messages();
        let from = messages.iter().filter_map(|message| reply.provenance(message.id()));
        assert_eq!(from.count(), answers);
    }
    let bytes = serde_json::to_string(chat.transcript()).expect("JSON");
    assert!(!bytes.contains("model-1"), "nothing is sent or saved with the messages");
    chat.save().await.expect("saved");
    drop(chat);

    let mut chat = agent().open(&journal, "17").await.expect("open");
    assert_eq!(known(&chat), expected);
    let machine = agent().inbox(&journal).look("17").await.expect("read");
    for message in chat.transcript().messages().iter() {
        let from = machine.provenance(message.id());
        assert_eq!(from, chat.provenance(message.id()));
        assert_eq!(from.is_some(), message.role() == Role::Assistant, "{message:?}");
    }
    let fork = chat.fork("18", chat.facts()).await.expect("a fork");
    assert_eq!(known(&fork), expected);
}

#[tokio::test]
async fn a_message_of_another_conversation_has_no_provenance() {
    let mut chat = agent().chat();
    chat.send("1 + 2?").await.expect("an answer");
    let imported = agent().chat_from(chat.transcript().clone());
    for message in imported.transcript().messages().iter() {
        assert_eq!(imported.provenance(message.id()), None);
    }
}
