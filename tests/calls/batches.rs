//! The limits of calls, for any answers, any limits and any order of arrival, with and without
//! early start: never more calls run than allowed, no call of an answer that exceeds the limit has
//! begun, and of too many calls the first ones run.

use std::{collections::HashSet, time::Duration};

use harness::{
    Agent, CallOutcome, Event, Outcome, Permissions, SideEffects, StopReason, StreamEvent, Tool,
    journal::LimitKind,
    message::ToolResult,
    policy::{Guardrails, Limits},
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

/// The limits of calls: of a run, and of one answer.
#[derive(Clone, Copy, Debug)]
struct Most {
    run: u32,
    answer: Option<u32>,
}

/// Runs it, and gives how many calls began early.
fn check(answers: &[Answer], limits: Most, early: bool) -> Result<usize, TestCaseError> {
    let log = Log::default();
    let scripts = answers.iter().enumerate().map(|(at, answer)| script(at, answer));
    let model = ScriptedProvider::new(scripts.chain([reply().text("Done.")]));
    let rails = Guardrails::none().calls_per_turn(limits.answer);
    let agent = Agent::builder(model)
        .tools([timed("look", READ, &log), timed("write", WRITE, &log)])
        .permissions(Permissions::allow_all())
        .early_start(early)
        .guardrails(rails)
        .run_limits(Limits::unlimited().tool_calls(limits.run))
        .build()
        .expect("an agent");
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
    let mut chat = agent.chat();
    let ended = runtime.block_on(chat.send("Go.").into_future());

    let begun = ids(&log, "begin ");
    let (trace, transcript) = match &ended {
        Ok(reply) => (reply.trace(), reply.transcript()),
        Err(stopped) => (stopped.trace(), stopped.transcript()),
    };
    // A call that was taken back before the runtime came to it has started and done nothing.
    let all = started(trace, |_| true);
    prop_assert!(begun.is_subset(&all));
    prop_assert!(all.len() <= limits.run as usize, "{} ran, {limits:?}", all.len());
    prop_assert_eq!(chat.budget().spent().tool_calls as usize, all.len());
    let began_early = started(trace, |early| early);
    prop_assert!(early || began_early.is_empty());

    let refused = match &ended {
        Ok(_) => answers.len(),
        Err(stopped) => {
            prop_assert_eq!(stopped.outcome(), Outcome::Limit(LimitKind::ToolCalls));
            stopped.turns() as usize - 1
        }
    };
    // Of each answer the first calls ran, as many as may, and all others are told as they are; of
    // the one that asked for too many nothing has begun.
    let most = limits.answer.map_or(usize::MAX, |most| most as usize);
    let results: Vec<&ToolResult> =
        transcript.messages().iter().flat_map(|message| message.results()).collect();
    let mut next = results.iter();
    for (at, answer) in answers.iter().enumerate().take(refused + 1) {
        for index in 0..answer.calls.len() {
            let result = next.next().expect("a result for each call");
            let id = format!("call_{at}_{index}");
            prop_assert_eq!(result.call_id(), &id);
            let runs = at < refused && index < most;
            prop_assert_eq!(all.contains(&id), runs, "{}", &id);
            let outcome = if runs { CallOutcome::Succeeded } else { CallOutcome::NotStarted };
            prop_assert_eq!(result.outcome(), outcome, "{}", &id);
            let is_told = result.to_text().contains("Ask for it in your next answer");
            prop_assert_eq!(is_told, at < refused && !runs, "{}", result.to_text());
        }
    }
    prop_assert_eq!(next.next(), None);
    Ok(began_early.len())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::times(80), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_more_calls_run_than_may_and_of_too_many_none(
        answers in prop::collection::vec(answer(), 1..8),
        run in 0_u32..90,
        answer in prop::option::weighted(0.9, 0_u32..48),
        early in prop::bool::weighted(0.8),
    ) {
        check(&answers, Most { run, answer }, early)?;
    }
}

/// The edges of the test above, which must be met for it to say anything.
#[test]
fn calls_start_early_while_as_many_are_left_as_one_answer_may_have() {
    let calls = vec![Asked { reads: true, pause: 1, takes: 2 }; 60];
    let answers = [Answer { calls, begins_again: None }];
    let early = |run, answer| check(&answers, Most { run, answer }, true).expect("as promised");
    assert_eq!(early(32, Some(32)), 8, "as many are left as may be asked for");
    assert_eq!(early(31, Some(32)), 0, "the answer asks for too many, and nobody knew");
    assert_eq!(early(31, Some(5)), 5, "the others do not run at all");
    assert_eq!(early(90, None), 0, "who knows how many there will be");
}

#[tokio::test]
async fn a_flood_of_calls_is_cut_to_size_and_the_run_goes_on() {
    let log = Log::default();
    let flood = (0..40).fold(reply(), |said, _| said.call("look", json!({})));
    let model = ScriptedProvider::new([flood, reply().text("Done.")]);
    let agent = Agent::builder(model).tools([timed("look", READ, &log)]).build().expect("an agent");
    let mut shown = Vec::new();
    let watch = |event: Event<'_>| {
        if let Event::ToolResult { result, .. } = event {
            shown.push(result.outcome());
        }
    };
    let reply = agent.chat().send("Go.").on_event(watch).await.expect("an answer");
    assert_eq!(reply.text(), "Done.");
    let count = |wanted| shown.iter().filter(|outcome| **outcome == wanted).count();
    assert_eq!((count(CallOutcome::Succeeded), count(CallOutcome::NotStarted)), (32, 8));
    let last = reply.transcript().messages().iter().flat_map(|message| message.results()).last();
    assert_eq!(
        last.expect("a result").to_text(),
        "This call was not started: your answer asked for more than the 32 calls that run of one \
         answer. Nothing of it has happened. Ask for it in your next answer if it is still needed."
    );
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
    let begun = || reply().begin_call("a", "look").arguments(r#"{"takes":0}"#);
    let call = || begun().pause(Duration::from_millis(1));
    assert_eq!(dropped(call().end_call()).await, (1, 0), "it was wanted");
    assert_eq!(dropped(call().arguments(" and more").end_call()).await, (2, 1));
    let refused = call().end_call().text("No.").stop(StopReason::Refused);
    assert_eq!(dropped(refused).await, (1, 1), "nothing of the answer is kept");
    let again = StreamEvent::Discarded { cause: "it broke off".into() };
    assert_eq!(dropped(call().end_call().event(again).text("Done.")).await, (1, 1));
}
