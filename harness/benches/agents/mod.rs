//! Agents in calls, and runs with more than a message. Each case is measured together with its minimum cost.

use std::{future::IntoFuture as _, hint::black_box};

use harness::{
    Agent, Limits, Permissions, SideEffect, SideEffects, Tool,
    policy::ApprovalRequest,
    testing::{ScriptedProvider, reply},
};
use serde_json::json;
use tokio::runtime::Runtime;

/// The number of agents that run, or the number of turns in a run.
const TIMES: usize = 10;

/// An agent that calls ten other agents at once. The called agents are either tools (`as-a-tool`), or a tool function
/// runs the same agent itself (`by-hand`), so that the caller does not know that it is an agent.
pub(crate) fn lead(how: &str) -> Agent {
    let worker = Agent::builder(ScriptedProvider::answering(|_| reply().text("It is right.")));
    let worker = worker.build().expect("an agent");
    let review = match how {
        "as-a-tool" => worker.as_tool("review", "Reviews code."),
        "by-hand" => {
            let schema = json!({
                "type": "object",
                "properties": {"task": {"type": "string"}},
                "required": ["task"],
            });
            Tool::new("review", "Reviews code.", schema, SideEffects::NONE, move |_, given| {
                let worker = worker.clone();
                Box::pin(async move {
                    let task = given.get("task").and_then(|task| task.as_str()).unwrap_or_default();
                    Ok(worker.run(task).await?.text().to_owned().into())
                })
            })
        }
        _ => panic!("no way is called `{how}`"),
    };
    let model = ScriptedProvider::answering(|request| match request.results().next() {
        Some(_) => reply().text("All is right."),
        None => (0..TIMES).fold(reply(), |it, at| {
            it.call("review", json!({"task": format!("Review file {at}.")}))
        }),
    });
    Agent::builder(model).tools([review]).early_start(false).build().expect("an agent")
}

pub(crate) fn leads(runtime: &Runtime, lead: &Agent) {
    black_box(runtime.block_on(lead.run("Is it right?").into_future()).expect("an answer"));
}

/// An agent that calls a tool in each turn.
pub(crate) fn looks() -> Agent {
    let reads = SideEffects::of(&[SideEffect::Read]);
    let look = Tool::new("look", "Looks.", json!({"type": "object"}), reads, |_, _| {
        Box::pin(async { Ok("It is 42.".into()) })
    });
    let model = ScriptedProvider::answering(|request| match request.messages().len() / 2 {
        turn @ 0..TIMES => reply().call("look", json!({"page": turn})),
        _ => reply().text("It is 42."),
    });
    Agent::builder(model).tools([look]).build().expect("an agent")
}

/// A run with (or, for `bare`, without) these additions: a value that no tool uses, permissions without rules, an
/// approver that gets no requests, and limits without values.
pub(crate) fn looks_up(runtime: &Runtime, agent: &Agent, how: &str) {
    let run = agent.run("What is it?");
    let run = match how {
        "bare" => run,
        _ => run
            .state(String::from("Ada"))
            .permissions(Permissions::default())
            .approver("ada", async |question: ApprovalRequest| question.yes())
            .limits(Limits::new()),
    };
    black_box(runtime.block_on(run.into_future()).expect("an answer"));
}
