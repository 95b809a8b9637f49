//! The defaults of arguments, which a person sees and decides about like all others.

use harness::{
    Agent, ErrorKind, Outcome, SideEffect, SideEffects, Tool,
    journal::MemoryJournal,
    message::Arguments,
    policy::ApprovalRequest,
    testing::{ScriptedProvider, reply},
    tool, tools,
};
use serde_json::json;

/// An amount that cannot be written as JSON, so that nobody can be shown one.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Cents {
    #[expect(dead_code, reason = "it is only a default")]
    cents: u32,
}

/// Pays.
#[tool(side_effects = "mutate")]
fn pay(
    /** How much */
    #[param(default = Cents { cents: 5 })]
    amount: Cents,
) {
    let _ = amount;
}

#[test]
fn an_agent_has_no_tool_with_a_default_that_nobody_can_see() {
    let agent = Agent::builder(ScriptedProvider::new([])).tools(tools![pay]).build();
    let error = agent.expect_err("a failure");
    assert_eq!(error.kind(), ErrorKind::Configuration);
    let error = error.to_string();
    assert!(error.contains("`amount`") && error.contains("serde::Serialize"), "{error}");
}

fn version(cents: u64) -> Agent {
    let schema = json!({"type": "object", "properties": {
        "to": {"type": "string"},
        "cents": {"type": "integer", "default": cents},
    }});
    let effects = SideEffects::of(&[SideEffect::Mutate]);
    let model = ScriptedProvider::answering(|request| match request.results().next() {
        Some(_) => reply().text("Done."),
        None => reply().call("pay", json!({"to": "Ada"})),
    });
    let agent = Agent::builder(model).tools([Tool::external("pay", "Pays.", schema, effects)]);
    let agent = agent.approver(|question: ApprovalRequest| async move { question.yes() });
    agent.build().expect("an agent")
}

#[tokio::test]
async fn a_program_that_answers_a_call_itself_gets_the_defaults_that_were_shown() {
    let journal = MemoryJournal::new();
    let mut chat = version(5).open(&journal, "chat").await.expect("a new conversation");
    let stopped = chat.send("Pay.").await.expect_err("it waits");
    assert_eq!(stopped.outcome(), Outcome::Waiting);
    drop(chat);
    let seen = json!({"to": "Ada", "cents": 5}).as_object().cloned().map(Arguments::from);
    let later = version(900_000);
    let chat = later.open(&journal, "chat").await.expect("the conversation");
    assert_eq!(chat.waiting()[0].allowed, seen);
    assert_eq!(later.inbox(&journal).waiting("chat").await.expect("calls")[0].allowed, seen);
}
