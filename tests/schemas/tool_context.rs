//! What a tool can read of its call, of the budget and of the conversation.

use std::sync::{Arc, Mutex};

use harness::{
    Agent, Limits, SideEffects, Tool, ToolCall, ToolContext, Transcript,
    policy::Budget,
    testing::{ScriptedProvider, reply},
};
use serde_json::json;

type Seen = Arc<Mutex<Vec<String>>>;

/// A tool that writes down what it knows.
fn know(name: &'static str, seen: &Seen) -> Tool {
    let seen = Arc::clone(seen);
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    Tool::new(name, "Knows.", schema, SideEffects::NONE, move |context, _| {
        let call = context.call().expect("a call of a run");
        let left = context.state::<Budget>().expect("the budget of the run").left();
        let messages = context.state::<Transcript>().map(|it| it.messages().len());
        seen.lock().unwrap().push(format!(
            "{} {} {} {:?} {messages:?}",
            context.name(),
            call.id(),
            call.arguments(),
            left.tool_calls
        ));
        assert_eq!(call.id(), context.call_id());
        Box::pin(async { Ok("known".into()) })
    })
}

#[tokio::test]
async fn a_tool_knows_its_name_its_call_and_the_budget_and_the_transcript_if_it_asks() {
    for early in [false, true] {
        let seen = Seen::default();
        let model = ScriptedProvider::new([
            reply().call_with_id("a", "plain", json!({"n": 1})),
            reply().call_with_id("b", "asks", json!({"n": 2})),
            reply().text("Done."),
        ]);
        let tools = [know("plain", &seen), know("asks", &seen).needs_state::<Transcript>()];
        let agent = Agent::builder(model).tools(tools).early_start(early).build().unwrap();
        agent.run("Go.").limits(Limits::new().tool_calls(7)).await.unwrap();
        let seen = seen.lock().unwrap();
        assert!(seen[0].starts_with("plain a {\"n\":1} Some("), "{seen:?}");
        assert!(seen[0].ends_with(" None"), "it did not ask for the transcript: {seen:?}");
        assert!(seen[1].starts_with("asks b {\"n\":2} Some("), "{seen:?}");
        // The answer that asks for it is part of it, so such a call does not start before it is whole.
        assert!(seen[1].ends_with(" Some(4)"), "early: {early}, {seen:?}");
    }
}

#[test]
fn a_program_that_calls_a_tool_itself_can_say_which_call_it_is() {
    let context = ToolContext::new("call_1");
    assert_eq!((context.name(), context.call()), ("", None));
    let call = ToolCall::new("call_2", "look", "{}");
    let context = context.with_call(call.clone());
    assert_eq!((context.name(), context.call_id()), ("look", "call_2"));
    assert_eq!((context.call(), context.idempotency_key()), (Some(&call), "call_2"));
}
