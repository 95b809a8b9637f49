//! The table of side effects, row by row, through the loop: which calls may run together, start
//! early or be retried, what is reported after an interrupt, and which need a person.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use harness::{
    Agent, CallOutcome, CancellationToken, Permissions, SideEffect, SideEffects, Tool, ToolError,
    ToolLimits,
    testing::{Gate, ScriptedProvider, reply},
};
use serde_json::json;

use crate::probe::{Log, Work, tool};

/// What follows from a declaration.
#[derive(Debug, PartialEq)]
struct Row {
    together: bool,
    early: bool,
    again: bool,
    after_a_stop: CallOutcome,
    allowed: bool,
}

async fn row(effects: SideEffects, idempotent: bool) -> Row {
    Row {
        together: runs_together(effects).await,
        early: starts_early(effects).await,
        again: is_tried_again(effects, idempotent).await,
        after_a_stop: told_after_a_stop(effects).await,
        allowed: is_allowed(effects).await,
    }
}

async fn runs_together(effects: SideEffects) -> bool {
    let log = Log::default();
    let model = ScriptedProvider::new([
        reply().call("a", json!({})).call("b", json!({})),
        reply().text("Done."),
    ]);
    let tools = ["a", "b"].map(|name| tool(name, effects, &log, Work::Steps(3)));
    let agent = Agent::builder(model).tools(tools).permissions(Permissions::allow_all());
    agent.build().expect("an agent").run("Go.").await.expect("an answer");
    log.lines()[1] == "begin b"
}

async fn starts_early(effects: SideEffects) -> bool {
    let (log, hold) = (Log::default(), Gate::new());
    let said = reply().call("a", json!({})).wait_for(&hold).text("Well.");
    let model = ScriptedProvider::new([said, reply().text("Done.")]);
    let agent = Agent::builder(model).tools([tool("a", effects, &log, Work::Steps(0))]);
    let agent = agent.permissions(Permissions::allow_all()).build().expect("an agent");
    let watched = log.clone();
    let test = async {
        hold.reached().await;
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        let begun = watched.has("begin a");
        hold.open();
        begun
    };
    let (reply, begun) = tokio::join!(agent.run("Go.").into_future(), test);
    reply.expect("an answer");
    begun
}

async fn is_tried_again(effects: SideEffects, idempotent: bool) -> bool {
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let flaky =
        Tool::new("a", "..", json!({"type": "object", "properties": {}}), effects, move |_, _| {
            counted.fetch_add(1, Ordering::SeqCst);
            Box::pin(async { Err(ToolError::transient("busy")) })
        });
    let flaky = if idempotent { flaky.idempotent() } else { flaky };
    let model = ScriptedProvider::new([reply().call("a", json!({})), reply().text("Done.")]);
    let limits = ToolLimits::default().backoff(std::time::Duration::ZERO);
    let agent = Agent::builder(model).tools([flaky]).tool_limits(limits);
    let agent = agent.permissions(Permissions::allow_all()).build().expect("an agent");
    agent.run("Go.").await.expect("an answer");
    runs.load(Ordering::SeqCst) > 1
}

async fn told_after_a_stop(effects: SideEffects) -> CallOutcome {
    let (log, gate) = (Log::default(), Gate::new());
    let model = ScriptedProvider::new([reply().call("a", json!({}))]);
    let agent = Agent::builder(model).tools([tool("a", effects, &log, Work::Gate(gate.clone()))]);
    let agent = agent.permissions(Permissions::allow_all()).build().expect("an agent");
    let token = CancellationToken::new();
    let test = async {
        gate.reached().await;
        token.cancel();
    };
    let run = agent.run("Go.").cancel_with(token.clone()).into_future();
    let (stopped, ()) = tokio::join!(run, test);
    let stopped = stopped.expect_err("stopped");
    let last = stopped.transcript().messages().last().expect("results");
    last.results().next().expect("a result").outcome()
}

async fn is_allowed(effects: SideEffects) -> bool {
    let log = Log::default();
    let model = ScriptedProvider::new([reply().call("a", json!({})), reply().text("Done.")]);
    let agent = Agent::builder(model).tools([tool("a", effects, &log, Work::Steps(0))]);
    agent.build().expect("an agent").run("Go.").await.expect("an answer");
    log.has("end a")
}

/// Each word that the attribute takes.
mod words {
    use harness::tool;

    /// Reads.
    #[tool(side_effects = "read")]
    pub(super) fn read() {}
    /// Writes.
    #[tool(side_effects = "write")]
    pub(super) fn write() {}
    /// Calls out.
    #[tool(side_effects = "network")]
    pub(super) fn network() {}
    /// Sends.
    #[tool(side_effects = "mutate")]
    pub(super) fn mutate() {}
}

#[test]
fn the_attribute_knows_every_side_effect() {
    let declared = [
        words::read::TOOL.side_effects,
        words::write::TOOL.side_effects,
        words::network::TOOL.side_effects,
        words::mutate::TOOL.side_effects,
    ];
    assert_eq!(declared, SideEffect::ALL.map(|effect| SideEffects::of(&[effect])));
}

#[tokio::test(start_paused = true)]
async fn every_row_of_the_table_holds() {
    use CallOutcome::{InDoubt, StoppedReading};
    use SideEffect::{Mutate, Network, Read, Write};
    let reads = |again| Row {
        together: true,
        early: true,
        again,
        after_a_stop: StoppedReading,
        allowed: true,
    };
    let barrier = |again, allowed| Row {
        together: false,
        early: false,
        again,
        after_a_stop: InDoubt,
        allowed,
    };
    let table: Vec<(&[SideEffect], bool, Row)> = vec![
        (&[], false, reads(true)),
        (&[Read], false, reads(true)),
        (&[Read, Network], false, reads(false)),
        (&[Read, Network], true, reads(true)),
        (&[Write], false, barrier(false, true)),
        (&[Write], true, barrier(true, true)),
        (&[Read, Write], false, barrier(false, true)),
        (&[Network], false, barrier(false, false)),
        (&[Network], true, barrier(true, false)),
        (&[Write, Network], false, barrier(false, false)),
        (&[Mutate], false, barrier(false, false)),
        (&[Mutate], true, barrier(false, false)),
        (&[Read, Mutate], false, barrier(false, false)),
        (&SideEffect::ALL, true, barrier(false, false)),
    ];
    for (declared, idempotent, expected) in table {
        let effects = SideEffects::of(declared);
        assert_eq!(row(effects, idempotent).await, expected, "{effects}, idempotent: {idempotent}");
    }
}
