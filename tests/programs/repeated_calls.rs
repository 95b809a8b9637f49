//! A model that makes the same call again and again, with another result each time.

use std::sync::atomic::{AtomicUsize, Ordering};

use harness::{
    Agent, Guardrails, Outcome, Reply, Stopped, Tool,
    journal::{LimitKind, MemoryJournal},
    testing::{RecordedRequest, ScriptedProvider, ScriptedReply, reply},
    tool::{SideEffect, SideEffects},
};
use serde_json::{Value, json};

/// A tool whose results are all different, such as a test run that prints how long it took.
fn ticking(name: &'static str) -> Tool {
    let calls = AtomicUsize::new(0);
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": true});
    Tool::new(name, "Runs.", schema, SideEffects::of(&[SideEffect::Write]), move |_, _| {
        let call = calls.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move { Ok(format!("1 failed in {call} s").into()) })
    })
}

/// Runs a model that does this in each of 40 turns.
fn model(does: impl Fn(usize) -> ScriptedReply + Send + Sync + 'static) -> ScriptedProvider {
    ScriptedProvider::answering(move |request: &RecordedRequest| {
        let turn = request.messages().len() / 2;
        if turn >= 40 { reply().text("Done.") } else { does(turn) }
    })
}

fn agent(model: &ScriptedProvider, rails: Guardrails) -> Agent {
    let agent = Agent::builder(model.clone()).tools([ticking("test"), ticking("edit")]);
    agent.guardrails(rails.turns(100)).build().expect("an agent")
}

fn turns(ended: &Result<Reply, Stopped>) -> u32 {
    match ended {
        Ok(reply) => reply.turns(),
        Err(stopped) => {
            assert_eq!(stopped.outcome(), Outcome::Limit(LimitKind::Repetitions));
            stopped.turns()
        }
    }
}

/// In which results, counted from 1, the model is warned.
fn warned(model: &ScriptedProvider) -> Vec<usize> {
    let requests = model.requests();
    let last = requests.last().expect("a request");
    let results = last.messages().iter().flat_map(|message| message.results());
    let warned =
        results.enumerate().filter(|(_, result)| result.to_text().contains("this very call"));
    warned.map(|(at, _)| at + 1).collect()
}

fn same(_: usize) -> ScriptedReply {
    reply().call("test", json!({"filter": "all"}))
}

#[tokio::test]
async fn a_run_that_makes_the_same_call_in_each_turn_is_warned_and_then_ends_whatever_the_results()
{
    let model = model(same);
    let ended = agent(&model, Guardrails::default()).run("Test.").await;
    assert_eq!(turns(&ended), 10);
    let limit = ended.expect_err("stopped").limit().expect("a limit").detail.clone();
    assert!(limit.contains("`test`") && limit.contains("polling"), "{limit}");
    assert_eq!(warned(&model), [5, 9]);
}

#[tokio::test]
async fn the_number_can_be_set_and_taken_away_and_a_tool_that_waits_is_let_be() {
    let table = [
        (4, Guardrails::default().repeated_calls(4), vec![2, 3]),
        (2, Guardrails::default().repeated_calls(2), vec![]),
        (41, Guardrails::default().repeated_calls(None), vec![]),
        (41, Guardrails::none(), vec![]),
        (41, Guardrails::default().polling("test"), vec![]),
        (10, Guardrails::default().polling("edit"), vec![5, 9]),
    ];
    for (expected, rails, notes) in table {
        let model = model(same);
        let ended = agent(&model, rails.clone()).run("Test.").await;
        assert_eq!((turns(&ended), warned(&model)), (expected, notes), "{rails:?}");
    }
}

#[tokio::test]
async fn a_new_call_between_begins_the_count_again_and_an_old_one_does_not() {
    let edits = |turn: usize| match turn % 2 {
        0 => reply().call("edit", json!({"line": turn})),
        _ => same(turn),
    };
    let model_of_edits = model(edits);
    assert_eq!(turns(&agent(&model_of_edits, Guardrails::default()).run("Test.").await), 41);
    assert_eq!(warned(&model_of_edits), [0; 0]);
    // Two calls by turns are a loop, too.
    let circles =
        model(|turn| if turn % 2 == 0 { reply().call("edit", json!({})) } else { same(turn) });
    assert_eq!(turns(&agent(&circles, Guardrails::default()).run("Test.").await), 20);
    // Arguments count as data and not as text; several calls of one turn count once.
    let order = |turn: usize| {
        let arguments = [r#"{"a": 1, "b": 2}"#, r#"{"b":2,"a":1}"#][turn % 2];
        reply().call_text("test", arguments).call_text("test", arguments)
    };
    assert_eq!(turns(&agent(&model(order), Guardrails::default()).run("Test.").await), 10);
}

#[tokio::test]
async fn the_count_goes_on_in_the_next_process() {
    let journal = MemoryJournal::new();
    let first = model(|turn| if turn < 6 { same(turn) } else { reply().stall() });
    let mut chat = agent(&first, Guardrails::default()).open(&journal, "17").await.expect("open");
    let mut run = Box::pin(chat.send("Test.").into_future());
    let asked = async {
        while first.requests().len() < 7 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = &mut run => panic!("it stalls"),
        () = asked => {}
    }
    drop(run);
    chat.save().await.expect("saved");
    drop(chat);
    let mut chat =
        agent(&model(same), Guardrails::default()).open(&journal, "17").await.expect("open");
    let ended = chat.resume().await;
    let tests = chat.transcript().messages().iter().flat_map(|message| message.calls()).count();
    assert_eq!((turns(&ended), tests), (10, 10));
}

#[test]
fn the_limit_is_plain_data_and_old_facts_have_none() {
    use harness::journal::RecordedLimits;
    let old: RecordedLimits = serde_json::from_value(json!({"turns": 3})).expect("limits");
    assert_eq!(old.repeated_calls, None);
    assert_eq!(serde_json::to_value(&old).expect("JSON").get("repeated_calls"), None::<&Value>);
}
