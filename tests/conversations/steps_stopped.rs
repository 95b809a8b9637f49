//! A driver that is told to stop, before an action or in the middle of it.

use harness::{
    Agent, CallOutcome, Outcome,
    agent::{Action, Steps},
    journal::{Fact, InterruptCause},
};

use crate::steps::{
    READ, WRITE, World, acts_until, calling, entries_of, is_end, outcome_of, said, tool,
};

/// A run that a driver stops: before this action, or once it is done and the driver has not heard of it.
async fn stopped(agent: &Agent, at: impl Fn(&Action) -> bool, is_done: bool) -> Steps {
    let mut steps = said(agent, "Go.").await;
    acts_until(&mut steps, at).await;
    let cause = InterruptCause::Program;
    let facts = match is_done {
        true => {
            steps.act().await.expect("it is done, and nobody keeps it");
            steps.give_up(cause)
        }
        false => steps.stop(cause),
    };
    steps.apply(facts.expect("a run goes on")).expect("it follows");
    acts_until(&mut steps, is_end).await;
    steps
}

/// The driver is told to stop: before an action, and while one is done whose end it does not hear.
#[tokio::test]
async fn a_driver_that_is_told_to_stop_says_the_truth() {
    let world = World::default();
    let tools = [tool("note", WRITE, &world)];
    let agent = Agent::builder(calling(&["note"])).tools(tools).build().expect("an agent");
    let ends = [
        (false, "ask", None, 0),
        (true, "ask", None, 1),
        (false, "start", Some(CallOutcome::NotStarted), 1),
        (true, "run", Some(CallOutcome::InDoubt), 1),
    ];
    for (is_done, at, told, turns) in ends {
        let is_there = |next: &Action| match at {
            "ask" => *next == Action::CallProvider,
            "start" => matches!(next, Action::RunCalls(_)),
            _ => *next == Action::AwaitResults,
        };
        let steps = stopped(&agent, is_there, is_done).await;
        assert_eq!(steps.next(), Action::Finish(Outcome::Cancelled));
        assert_eq!(outcome_of(&steps, "note_1"), told, "{at}");
        let counted = entries_of(&steps).iter().fold(0, |turns, fact| match fact {
            Fact::ModelReplied { .. } | Fact::Interrupted { asked: true, .. } => turns + 1,
            _ => turns,
        });
        assert_eq!(counted, turns, "{at}");
        steps.stop(InterruptCause::Program).expect_err("no run goes on");
    }
}

/// The same, while a call runs that only reads, of which no fact was stored before.
#[tokio::test]
async fn a_call_that_reads_and_was_given_up_is_not_said_to_have_not_started() {
    let world = World::default();
    let tools = [tool("note", WRITE, &world), tool("look", READ, &world)];
    let model = calling(&["note", "look"]);
    let agent = Agent::builder(model).tools(tools).build().expect("an agent");
    for (is_done, told) in [(false, CallOutcome::NotStarted), (true, CallOutcome::StoppedReading)] {
        let reads =
            |next: &Action| matches!(next, Action::RunCalls(calls) if calls[0].name() == "look");
        let steps = stopped(&agent, reads, is_done).await;
        assert_eq!(outcome_of(&steps, "note_1"), Some(CallOutcome::Succeeded));
        assert_eq!(outcome_of(&steps, "look_1"), Some(told));
    }
}
