//! The limit of calls, for any answers, any limit and any arrival, with and without early start:
//! never do more run than may, and of an answer that asks for too many nothing runs, as far as is
//! promised; what began all the same only read, and is told as it was.

use std::{collections::HashSet, time::Duration};

use harness::{
    Agent, CallOutcome, Outcome, Permissions, SideEffects, StopReason, StreamEvent, Tool,
    journal::Limit,
    message::ToolResult,
    policy::Guardrails,
    testing::{ScriptedProvider, ScriptedReply, reply},
    trace::{Happened, RunTrace, TraceEvent},
};
use proptest::prelude::*;
use serde_json::json;

use crate::probe::{Log, READ, WRITE};

/// A call of an answer, in milliseconds of the runtime's clock.
#[derive(Clone, Debug)]
struct Asked {
    reads: bool,
    /// How long the model takes from here to the next call.
    pause: u64,
    /// How long the tool takes.
    takes: u64,
}

/// An answer, and how many of its calls come before it breaks off and begins again, if it does.
#[derive(Clone, Debug)]
struct Answer {
    calls: Vec<Asked>,
    begins_again: Option<usize>,
}

fn asked() -> impl Strategy<Value = Asked> {
    (prop::bool::weighted(0.9), 0_u64..3, 0_u64..4).prop_map(|(reads, pause, takes)| Asked {
        reads,
        pause,
        takes,
    })
}

fn answer() -> impl Strategy<Value = Answer> {
    let few = prop::collection::vec(asked(), 1..8);
    let many = prop::collection::vec(asked(), 8..60);
    let calls = prop_oneof![3 => few, 1 => many];
    (calls, prop::option::weighted(0.2, 1_usize..6))
        .prop_map(|(calls, begins_again)| Answer { calls, begins_again })
}

/// A tool that writes down its beginning and its end, and takes as long as it is told.
fn timed(name: &'static str, effects: SideEffects, log: &Log) -> Tool {
    let log = log.clone();
    let schema = json!({"type": "object", "properties": {"takes": {"type": "integer"}}});
    Tool::new(name, "Takes its time.", schema, effects, move |context, arguments| {
        let log = log.clone();
        let takes = arguments.get("takes").and_then(serde_json::Value::as_u64).unwrap_or(0);
        Box::pin(async move {
            log.note(format!("begin {name} {}", context.call_id()));
            tokio::time::sleep(Duration::from_millis(takes)).await;
            log.note(format!("end {name} {}", context.call_id()));
            Ok(format!("done after {takes}").into())
        })
    })
}

fn script(at: usize, answer: &Answer) -> ScriptedReply {
    let call = |said: ScriptedReply, id: String, asked: &Asked| {
        let name = if asked.reads { "look" } else { "write" };
        let said = said.call_with_id(id, name, json!({"takes": asked.takes}));
        if asked.pause > 0 { said.pause(Duration::from_millis(asked.pause)) } else { said }
    };
    let mut said = reply();
    if let Some(first) = answer.begins_again {
        for (index, asked) in answer.calls.iter().take(first).enumerate() {
            said = call(said, format!("lost_{at}_{index}"), asked);
        }
        said = said.event(StreamEvent::Discarded { cause: "it broke off".into() });
    }
    let calls = answer.calls.iter().enumerate();
    calls.fold(said, |said, (index, asked)| call(said, format!("call_{at}_{index}"), asked))
}

/// The ids in the lines that begin so.
fn ids(log: &Log, start: &str) -> HashSet<String> {
    let lines = log.lines();
    let ids = lines.iter().filter_map(|line| line.strip_prefix(start));
    ids.map(|rest| rest.rsplit(' ').next().unwrap_or_default().to_owned()).collect()
}

fn started(trace: &RunTrace, wanted: impl Fn(bool) -> bool) -> HashSet<String> {
    let events = trace.events().iter();
    let started = events.filter_map(|event| match &event.what {
        Happened::CallStarted { call, early, .. } if wanted(*early) => Some(call.clone()),
        _ => None,
    });
    started.collect()
}

/// Runs it and gives how many calls of a refused answer had begun.
fn check(answers: &[Answer], limit: u32, early: bool) -> Result<usize, TestCaseError> {
    let log = Log::default();
    let scripts = answers.iter().enumerate().map(|(at, answer)| script(at, answer));
    let model = ScriptedProvider::new(scripts.chain([reply().text("Done.")]));
    let rails = Guardrails::none().tool_calls(limit);
    let agent = Agent::builder(model)
        .tools([timed("look", READ, &log), timed("write", WRITE, &log)])
        .permissions(Permissions::allow_all())
        .early_start(early)
        .guardrails(rails)
        .build()
        .expect("an agent");
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
    let mut chat = agent.chat();
    let ended = runtime.block_on(chat.send("Go.").into_future());

    let begun = ids(&log, "begin ");
    let trace = match &ended {
        Ok(reply) => reply.trace(),
        Err(stopped) => stopped.trace(),
    };
    // A call that was taken back before the runtime came to it has started and done nothing.
    let all = started(trace, |_| true);
    prop_assert!(begun.is_subset(&all));
    prop_assert!(all.len() <= limit as usize, "{} ran, {limit} may", all.len());
    prop_assert_eq!(chat.budget().spent().tool_calls as usize, all.len());

    let Err(stopped) = ended else { return Ok(0) };
    prop_assert_eq!(stopped.outcome(), Outcome::Limit(Limit::ToolCalls));
    let refused = stopped.turns() as usize - 1;
    let calls = answers[refused].calls.len();
    let most = answers[..refused].iter().map(|answer| answer.calls.len()).max().unwrap_or(0);
    let of_it = |ids: HashSet<String>| -> HashSet<String> {
        ids.into_iter().filter(|id| id.starts_with(&format!("call_{refused}_"))).collect()
    };
    let (all, begun) = (of_it(all), of_it(begun));
    if !early || calls <= 33.max(2 * most) || limit <= 32 {
        prop_assert!(all.is_empty(), "{all:?} of {calls}, {most} before");
    }
    // What began all the same only read, began early, and is told as it was.
    prop_assert!(all.len() <= 8);
    prop_assert!(begun.is_subset(&ids(&log, "begin look ")));
    prop_assert!(all.is_subset(&started(stopped.trace(), |early| early)));
    let ended = ids(&log, "end ");
    let last = stopped.transcript().messages().last().expect("a message");
    let results: Vec<&ToolResult> = last.results().collect();
    prop_assert_eq!(results.len(), calls);
    for result in results {
        let expected = match (all.contains(result.call_id()), ended.contains(result.call_id())) {
            (true, true) => CallOutcome::Succeeded,
            (true, false) => CallOutcome::StoppedReading,
            (false, _) => CallOutcome::NotStarted,
        };
        prop_assert_eq!(result.outcome(), expected, "{}", result.call_id());
    }
    Ok(begun.len())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_more_calls_run_than_may_and_of_too_many_none(
        answers in prop::collection::vec(answer(), 1..8),
        limit in 0_u32..90,
        early in prop::bool::weighted(0.8),
    ) {
        check(&answers, limit, early)?;
    }
}

/// The case in which something of a refused answer has begun: it must be met for the test above
/// to say anything of it.
#[test]
fn an_answer_far_longer_than_all_before_may_have_begun_to_read() {
    let calls = vec![Asked { reads: true, pause: 1, takes: 2 }; 60];
    let begun = check(&[Answer { calls, begins_again: None }], 40, true).expect("as promised");
    assert_eq!(begun, 8);
}

/// What became of calls that began early: how many of them count, and how many the trace says were
/// dropped.
async fn dropped(said: ScriptedReply) -> (u32, usize) {
    let log = Log::default();
    let model = ScriptedProvider::new([said, reply().text("Done.")]);
    let agent = Agent::builder(model).tools([timed("look", READ, &log)]).build().expect("an agent");
    let mut chat = agent.chat();
    let ended = chat.send("Go.").await;
    let trace = ended.map_or_else(|stopped| stopped.trace().clone(), |reply| reply.trace().clone());
    assert!(log.has("end look a"), "it began early, and ended");
    let is_drop = |event: &&TraceEvent| matches!(event.what, Happened::CallDropped { .. });
    (chat.budget().spent().tool_calls, trace.events().iter().filter(is_drop).count())
}

#[tokio::test(start_paused = true)]
async fn a_call_that_began_early_and_was_not_wanted_counts_and_is_told() {
    let call = || reply().begin_call("a", "look").arguments("{}").pause(Duration::from_millis(1));
    assert_eq!(dropped(call().end_call()).await, (1, 0), "it was wanted");
    assert_eq!(dropped(call().arguments(" and more").end_call()).await, (2, 1));
    let refused = call().end_call().text("No.").stop(StopReason::Refused);
    assert_eq!(dropped(refused).await, (1, 1), "nothing of the answer is kept");
    let again = StreamEvent::Discarded { cause: "it broke off".into() };
    assert_eq!(dropped(call().end_call().event(again).text("Done.")).await, (1, 1));
}
