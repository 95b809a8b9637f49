//! The order of a turn's calls, for any mixture of side effects: calls that only read run together,
//! and no effect of a later call is visible before an earlier call that may change something has
//! ended.

use harness::{
    Agent, Permissions, SideEffect, SideEffects, Tool,
    testing::{ScriptedProvider, reply},
};
use proptest::prelude::*;
use serde_json::json;

use crate::probe::{Log, Work, tool};

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

fn effects() -> impl Strategy<Value = SideEffects> {
    use SideEffect::{Mutate, Network, Read, Write};
    prop::sample::select(vec![
        SideEffects::NONE,
        SideEffects::of(&[Read]),
        SideEffects::of(&[Read, Network]),
        SideEffects::of(&[Write]),
        SideEffects::of(&[Network]),
        SideEffects::of(&[Mutate]),
    ])
}

/// Runs one turn with these calls and gives what the tools wrote down and were answered.
fn run(calls: &[(SideEffects, usize)], early: bool) -> (Vec<String>, Vec<String>) {
    let log = Log::default();
    let tools: Vec<Tool> = calls
        .iter()
        .zip(NAMES)
        .map(|((effects, steps), name)| tool(name, *effects, &log, Work::Steps(*steps)))
        .collect();
    let said =
        NAMES.iter().take(calls.len()).fold(reply(), |said, name| said.call(*name, json!({})));
    let model = ScriptedProvider::new([said, reply().text("Done.")]);
    let agent = Agent::builder(model).tools(tools).permissions(Permissions::allow_all());
    let agent = agent.early_start(early).build().expect("an agent");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let reply = runtime.expect("a runtime").block_on(async { agent.run("Go.").await });
    let reply = reply.expect("an answer");
    let results = reply.transcript().messages()[2].results();
    (log.lines(), results.map(|result| result.to_text()).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::times(100), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_call_that_may_change_something_is_a_barrier(
        calls in prop::collection::vec((effects(), 0_usize..4), 1..8),
        early in any::<bool>(),
    ) {
        let (log, results) = run(&calls, early);
        let at = |line: String| log.iter().position(|written| *written == line).expect("it ran");
        for (first, (one, _)) in calls.iter().enumerate() {
            for (second, (other, _)) in calls.iter().enumerate().skip(first + 1) {
                if !one.is_read_only() || !other.is_read_only() {
                    let (end, begin) = (format!("end {}", NAMES[first]), format!("begin {}", NAMES[second]));
                    prop_assert!(at(end) < at(begin), "{calls:?}: {log:?}");
                }
            }
        }
        let expected: Vec<String> = NAMES.iter().take(calls.len()).map(|name| format!("{name} is done")).collect();
        prop_assert_eq!(results, expected, "results come in call order");
    }
}

#[test]
fn neighbours_that_only_read_overlap() {
    let read = SideEffects::of(&[SideEffect::Read]);
    for early in [true, false] {
        let (log, _) = run(&[(read, 3), (read, 3)], early);
        assert_eq!(log[..2], ["begin a", "begin b"], "early start: {early}");
    }
}
