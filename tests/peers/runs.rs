//! Runs that fail or wait: nothing is done twice, and nothing that was done is lost.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use harness::{
    Agent, CallOutcome, Error, ErrorKind, Outcome, SideEffect, SideEffects, Tool, ToolError,
    Transcript,
    testing::{ScriptedProvider, reply},
};
use serde_json::json;

const READ: SideEffects = SideEffects::of(&[SideEffect::Read]);
const WRITE: SideEffects = SideEffects::of(&[SideEffect::Write]);

fn results(transcript: &Transcript) -> Vec<(CallOutcome, String)> {
    let messages = transcript.messages().iter();
    let results = messages.flat_map(|message| message.results());
    results.map(|result| (result.outcome(), result.to_text())).collect()
}

/// agno-agi/agno#10366, agentarea/agentarea#320.
#[tokio::test]
async fn a_run_that_is_taken_up_after_its_model_failed_does_no_call_again() {
    let failed = || Error::new(ErrorKind::Api, "no").with_status(500);
    let model = ScriptedProvider::new([
        reply().call("charge", json!({})),
        reply().error(failed()),
        reply().error(failed()),
        reply().text("Charged."),
    ]);
    let charged = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&charged);
    let charge = Tool::new("charge", "Charges.", json!({"type": "object"}), WRITE, move |_, _| {
        seen.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok("charged".into()) })
    });
    let agent = Agent::builder(model).tools([charge]).build().unwrap();
    let mut chat = agent.chat();
    for stopped in [chat.send("Charge it.").await, chat.resume().await] {
        assert_eq!(stopped.unwrap_err().outcome(), Outcome::Failed);
    }
    assert_eq!(chat.resume().await.unwrap().text(), "Charged.");
    assert_eq!(charged.load(Ordering::SeqCst), 1);
    assert_eq!(results(chat.transcript()), [(CallOutcome::Succeeded, "charged".to_owned())]);
}

/// huggingface/smolagents#2457, earendil-works/pi#3084, langchain-ai/deepagents#694.
#[tokio::test]
async fn of_calls_at_once_each_keeps_its_own_result_whatever_becomes_of_the_others() {
    let model = ScriptedProvider::new([
        (0..9).fold(reply(), |it, at| it.call("look", json!({"at": at}))),
        reply().text("Seen."),
    ]);
    let schema = json!({"type": "object", "properties": {"at": {"type": "integer"}}});
    let look = Tool::new("look", "Looks.", schema, READ, |_, arguments| {
        let at = arguments["at"].as_u64().unwrap_or(0);
        Box::pin(async move {
            match at % 3 {
                0 => Ok(format!("seen {at}").into()),
                1 => Err(ToolError::new("not there")),
                _ => panic!("the tool is broken"),
            }
        })
    });
    let agent = Agent::builder(model).tools([look]).build().unwrap();
    let told = results(agent.run("Look.").await.unwrap().transcript());
    assert_eq!(told.len(), 9);
    for (at, (outcome, text)) in told.iter().enumerate() {
        match at % 3 {
            0 => assert_eq!(
                (*outcome, text.as_str()),
                (CallOutcome::Succeeded, &*format!("seen {at}"))
            ),
            1 => assert_eq!((*outcome, text.as_str()), (CallOutcome::Failed, "not there")),
            _ => assert_eq!(*outcome, CallOutcome::Failed, "{text}"),
        }
    }
}

/// letta-ai/letta#3176, netclaw-dev/netclaw#1394.
#[tokio::test]
async fn a_message_can_be_sent_while_a_call_waits_and_after_the_wait_was_cancelled() {
    let model = ScriptedProvider::answering(|request| match request.last_text().as_str() {
        "Pay." => reply().call("pay", json!({})),
        _ => reply().text("Hello."),
    });
    let pay = Tool::external("pay", "Pays.", json!({"type": "object"}), WRITE);
    let agent = Agent::builder(model).tools([pay]).build().unwrap();
    let mut chat = agent.chat();
    assert_eq!(chat.send("Pay.").await.unwrap_err().outcome(), Outcome::Waiting);
    let open = chat.waiting().remove(0);
    assert_eq!(chat.send("Never mind.").await.unwrap().text(), "Hello.");
    assert!(chat.waiting().is_empty());
    // The model is told that nobody knows, and a late answer is refused instead of lost.
    assert_eq!(results(chat.transcript())[0].0, CallOutcome::InDoubt);
    chat.settle(open.succeeded("paid")).await.unwrap_err();
    assert_eq!(chat.send("Hello?").await.unwrap().text(), "Hello.");
}
