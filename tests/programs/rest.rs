//! Conversations that rest: what they hold, and that what they do not hold any more is not missed.

use std::future::IntoFuture as _;

use harness::{
    Agent, Chat, ErrorKind, Limits, Outcome,
    journal::{LimitKind, LimitScope, MemoryJournal},
    testing::{ScriptedProvider, reply},
};

fn agent() -> Agent {
    let model = ScriptedProvider::answering(|_| reply().text("Yes.").tokens(600, 1));
    Agent::builder(model).build().expect("an agent")
}

/// A program that serves many people has as many of them in memory. The limits are a tenth above what was measured.
#[tokio::test]
async fn a_conversation_and_the_future_of_a_run_are_small() {
    let chat = size_of::<Chat>();
    assert!(chat <= 1_700, "a chat has {chat} bytes");
    let mut chat = agent().chat();
    let run = chat.send("Is it?").into_future();
    let run = size_of_val(&*run);
    assert!(run <= 3_400, "the future of a run has {run} bytes");
}

#[tokio::test]
async fn after_an_answer_there_is_nothing_to_resume_and_the_next_message_is_answered() {
    let mut chat = agent().chat();
    for _ in 0..2 {
        chat.send("Is it?").await.expect("an answer");
        let stopped = chat.resume().limits(Limits::new()).await.expect_err("nothing is open");
        assert_eq!(stopped.error().map(harness::Error::kind), Some(ErrorKind::Transcript));
        let stopped = chat.resume().await.expect_err("nothing is open");
        assert_eq!(stopped.error().map(harness::Error::kind), Some(ErrorKind::Transcript));
    }
    assert_eq!(chat.budget().spent().usage.input, Some(1_200));
}

#[tokio::test]
async fn what_a_conversation_has_spent_counts_after_it_has_rested() {
    let (agent, journal) = (agent(), MemoryJournal::new());
    let mut chat = agent.open(&journal, "chat").await.expect("opened");
    chat.limits(Limits::new().input_tokens(1_000));
    chat.send("One?").await.expect("an answer");
    let reply = chat.send("Two?").await.expect("an answer");
    assert_eq!(reply.spent().usage.input, Some(600), "of its own run");
    let stopped = chat.send("Three?").await.expect_err("no tokens are left");
    assert_eq!(stopped.limit().map(|it| it.scope), Some(LimitScope::Conversation));
    drop(chat);
    let mut chat = agent.open(&journal, "chat").await.expect("opened");
    assert_eq!(chat.budget().spent().usage.input, Some(1_200));
    chat.limits(Limits::new().input_tokens(2_000));
    assert_eq!(chat.resume().await.expect("an answer").spent().usage.input, Some(600));
    let stopped = chat.send("Four?").limits(Limits::new().input_tokens(0)).await.unwrap_err();
    assert_eq!(stopped.outcome(), Outcome::Limit(LimitKind::InputTokens));
    assert_eq!(agent.budget().spent().usage.input, Some(1_800));
}
