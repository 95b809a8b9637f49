//! A second driver over the public steps: an engine that keeps what each step came to, and is killed at
//! any of them.

use std::sync::{Arc, Mutex};

use harness::{
    Agent, CallOutcome, Outcome, SideEffect, SideEffects, Tool,
    agent::{Step, Steps},
    journal::{Entry, Envelope, Limit, MemoryJournal},
    policy::Guardrails,
    testing::{ScriptedProvider, reply},
};
use serde_json::json;

use crate::kept::{CHAT, entries};

const WRITE: SideEffects = SideEffects::of(&[SideEffect::Write]);
const READ: SideEffects = SideEffects::of(&[SideEffect::Read]);

/// What has really happened.
type World = Arc<Mutex<Vec<String>>>;

fn tool(name: &'static str, effects: SideEffects, world: &World) -> Tool {
    let world = Arc::clone(world);
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    Tool::new(name, "Does it.", schema, effects, move |_, arguments| {
        world.lock().expect("unpoisoned").push(format!("{name} {}", arguments["n"]));
        Box::pin(async move { Ok("done".into()) })
    })
}

fn agent(world: &World) -> Agent {
    let model = ScriptedProvider::answering(|request| {
        let said = request.messages().iter().filter(|said| said.calls().next().is_some()).count();
        match said {
            0 => reply()
                .call_with_id("a", "look", json!({"n": 1}))
                .call_with_id("b", "note", json!({"n": 1}))
                .call_with_id("c", "put", json!({"n": 1})),
            1 => reply().call_with_id("d", "note", json!({"n": 2})),
            _ => reply().text("Done."),
        }
    });
    let tools = [tool("look", READ, world), tool("note", WRITE, world), tool("put", WRITE, world)];
    Agent::builder(model).tools(tools).build().expect("an agent")
}

/// Keeps what each step came to. It falls at one point, before a step is done, or after it and before it is
/// kept.
struct Engine {
    kept: Vec<Vec<Envelope>>,
    next: usize,
    points: usize,
    falls_at: usize,
}

/// The process is gone.
struct Fell;

impl Engine {
    fn point(&mut self) -> Result<(), Fell> {
        self.points += 1;
        if self.points == self.falls_at { Err(Fell) } else { Ok(()) }
    }

    async fn run(
        &mut self,
        step: impl Future<Output = Result<Vec<Envelope>, harness::Error>>,
    ) -> Result<Vec<Envelope>, Fell> {
        if let Some(kept) = self.kept.get(self.next) {
            self.next += 1;
            return Ok(kept.clone());
        }
        self.point()?;
        let facts = step.await.expect("facts that follow");
        self.point()?;
        self.kept.push(facts.clone());
        self.next += 1;
        Ok(facts)
    }
}

/// The driver: what is new in it is that a call which changes something has an owner.
async fn drive(
    engine: &mut Engine,
    steps: &mut Steps,
    life: usize,
    owners: &mut Vec<(String, usize)>,
) -> Result<Outcome, Fell> {
    engine.next = 0;
    let said = engine.run(steps.say("Go.".into())).await?;
    steps.apply(said).expect("it follows");
    loop {
        let facts = match steps.step() {
            Step::Ask => engine.run(steps.ask()).await?,
            Step::Decide { calls, surplus } => engine.run(steps.decide(&calls, &surplus)).await?,
            Step::Run(calls) => {
                for call in &calls {
                    let started = engine.run(async { steps.start(call) }).await?;
                    steps.apply(started).expect("it follows");
                    if !steps.has_started(call) {
                        continue;
                    }
                    // Kept before the call: which process may run it.
                    let owner =
                        owners.iter().find(|(id, _)| id == call.id()).map(|(_, life)| *life);
                    let owner = owner.unwrap_or_else(|| {
                        owners.push((call.id().to_owned(), life));
                        life
                    });
                    let is_known = engine.kept.len() > engine.next;
                    let facts = match owner == life || is_known {
                        true => engine.run(steps.run(call)).await?,
                        false => engine.run(async { steps.reopen() }).await?,
                    };
                    steps.apply(facts).expect("it follows");
                }
                continue;
            }
            Step::FindOut(calls) => engine.run(steps.find_out(&calls)).await?,
            Step::Stop(cause) => engine.run(async { steps.stop(cause) }).await?,
            Step::Settle => engine.run(async { steps.settle() }).await?,
            Step::Finish(outcome) => return Ok(outcome),
            other => panic!("nothing else happens here: {other:?}"),
        };
        steps.apply(facts).expect("it follows");
    }
}

/// Killed at each point, the second driver goes on, and nothing that changes something runs twice.
#[tokio::test]
async fn an_engine_that_falls_at_any_step_goes_on_and_repeats_no_effect() {
    let mut fell = 0;
    for falls_at in 1.. {
        let world = World::default();
        let mut engine = Engine { kept: Vec::new(), next: 0, points: 0, falls_at };
        let mut owners = Vec::new();
        let mut ended = None;
        for life in 0..3 {
            let mut steps = agent(&world).steps(CHAT, Vec::new()).expect("new");
            if let Ok(outcome) = drive(&mut engine, &mut steps, life, &mut owners).await {
                ended = Some((outcome, steps, life));
                break;
            }
        }
        let (outcome, steps, life) = ended.expect("it ends");
        assert_eq!(outcome, Outcome::Answered, "{falls_at}");
        let done = world.lock().expect("unpoisoned").clone();
        for (id, what) in [("b", "note 1"), ("c", "put 1"), ("d", "note 2")] {
            let ran = done.iter().filter(|done| *done == what).count();
            let results = steps.transcript().messages().iter();
            let mut results = results.flat_map(|said| said.results().collect::<Vec<_>>());
            let result = results.find(|result| result.call_id() == id).expect("it has an end");
            let is_true = match result.outcome() {
                CallOutcome::Succeeded => ran == 1,
                CallOutcome::InDoubt => ran <= 1,
                CallOutcome::NotStarted => ran == 0,
                _ => false,
            };
            assert!(is_true, "{falls_at}: {id} ran {ran} times and is {:?}", result.outcome());
        }
        fell += life;
        if life == 0 {
            assert!(falls_at > 20, "{falls_at} points");
            break;
        }
    }
    assert!(fell > 20, "it fell {fell} times");
}

/// Both drivers come to the same facts.
#[tokio::test]
async fn both_drivers_write_the_same_facts() {
    let (one, two) = (World::default(), World::default());
    let journal = MemoryJournal::new();
    agent(&one).open(&journal, CHAT).await.expect("new").send("Go.").await.expect("an answer");
    let mut engine = Engine { kept: Vec::new(), next: 0, points: 0, falls_at: usize::MAX };
    let mut steps = agent(&two).steps(CHAT, Vec::new()).expect("new");
    assert!(drive(&mut engine, &mut steps, 0, &mut Vec::new()).await.is_ok());
    let kind = |fact: &Entry| match fact {
        Entry::UserSaid { limits, .. } => format!("said {limits:?}"),
        Entry::ModelReplied { stop, usage, .. } => format!("replied {stop:?} {usage:?}"),
        // A call that only reads is awaited with the answer, since the engine keeps both as one step.
        Entry::CallDecided { call, .. } => format!("decided {call}"),
        Entry::CallStarted { call } => format!("started {call}"),
        Entry::CallFinished { result } => {
            format!("{} is {:?}", result.call_id(), result.outcome())
        }
        other => format!("{other:?}"),
    };
    let mut first: Vec<String> = entries(&journal).iter().map(kind).collect();
    let facts = steps.facts().iter().map(|fact| fact.entry().expect("a fact"));
    let mut second: Vec<String> = facts.map(|fact| kind(&fact)).collect();
    first.sort();
    second.sort();
    assert_eq!(first, second);
    assert_eq!(*one.lock().expect("unpoisoned"), *two.lock().expect("unpoisoned"));
}

/// The limits hold for another driver without a line of its own.
#[tokio::test]
async fn limits_hold_for_another_driver() {
    let model = ScriptedProvider::answering(|_| reply().call("nothing", json!({})));
    let rails = Guardrails::default().turns(3);
    let agent = Agent::builder(model.clone()).guardrails(rails).build().expect("an agent");
    let mut engine = Engine { kept: Vec::new(), next: 0, points: 0, falls_at: usize::MAX };
    let mut steps = agent.steps(CHAT, Vec::new()).expect("new");
    let ended = drive(&mut engine, &mut steps, 0, &mut Vec::new()).await;
    assert!(matches!(ended, Ok(Outcome::Limit(Limit::Turns))));
    assert_eq!(model.requests().len(), 3);
}
