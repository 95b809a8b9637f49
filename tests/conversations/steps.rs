//! A second driver over the public steps: an engine that stores the outcome of each step, and is
//! killed at any of them.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use harness::{
    Agent, CallOutcome, ErrorKind, Limits, Outcome, Permissions, SideEffect, SideEffects, State,
    Tool, ToolContent, ToolError,
    agent::{Action, Steps},
    journal::{Envelope, Fact, InterruptCause, LimitKind, MemoryJournal},
    policy::{ApprovalRequest, Guardrails, RuleDecision},
    testing::{Gate, ScriptedProvider, reply},
    tool,
    tool::Reconciled,
    tools,
};
use serde_json::json;

use crate::{
    door::Door,
    kept::{CHAT, entries},
};

pub(crate) const WRITE: SideEffects = SideEffects::of(&[SideEffect::Write]);
pub(crate) const READ: SideEffects = SideEffects::of(&[SideEffect::Read]);

/// What has really happened.
pub(crate) type World = Arc<Mutex<Vec<String>>>;

pub(crate) fn tool(name: &'static str, effects: SideEffects, world: &World) -> Tool {
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

/// Keeps what each action came to. It falls at one point, before an action is done, or after it and before it
/// is kept.
struct Engine {
    kept: Vec<String>,
    next: usize,
    points: usize,
    falls_at: usize,
}

/// The process is gone.
struct Fell;

impl Engine {
    fn new(falls_at: usize) -> Self {
        Self { kept: Vec::new(), next: 0, points: 0, falls_at }
    }

    fn point(&mut self) -> Result<(), Fell> {
        self.points += 1;
        if self.points == self.falls_at { Err(Fell) } else { Ok(()) }
    }

    async fn run(
        &mut self,
        action: impl Future<Output = Result<Vec<Envelope>, harness::Error>>,
    ) -> Result<Vec<Envelope>, Fell> {
        if let Some(kept) = self.kept.get(self.next) {
            self.next += 1;
            return Ok(serde_json::from_str(kept).expect("facts"));
        }
        self.point()?;
        let facts = action.await.expect("facts that follow");
        self.point()?;
        self.kept.push(serde_json::to_string(&facts).expect("JSON"));
        self.next += 1;
        Ok(facts)
    }
}

/// The driver. Each life of it has steps of its own.
async fn drive(engine: &mut Engine, steps: &mut Steps) -> Result<Outcome, Fell> {
    engine.next = 0;
    let said = engine.run(steps.say("Go.".into())).await?;
    steps.apply(said).expect("it follows");
    goes_on(engine, steps).await
}

async fn goes_on(engine: &mut Engine, steps: &mut Steps) -> Result<Outcome, Fell> {
    loop {
        match steps.next() {
            Action::Finish(outcome) => return Ok(outcome),
            Action::AwaitAnswers => return Ok(Outcome::Waiting),
            _ => {
                let facts = engine.run(steps.act()).await?;
                steps.apply(facts).expect("it follows");
            }
        }
    }
}

/// Killed at each point, the second driver goes on, and nothing that changes something runs twice.
#[tokio::test]
async fn an_engine_that_falls_at_any_step_goes_on_and_repeats_no_effect() {
    let mut fell = 0;
    for falls_at in 1.. {
        let world = World::default();
        let mut engine = Engine::new(falls_at);
        let mut ended = None;
        for life in 0..3 {
            let mut steps = agent(&world).steps(CHAT, Vec::new()).expect("new");
            if let Ok(outcome) = drive(&mut engine, &mut steps).await {
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
    let mut engine = Engine::new(usize::MAX);
    let mut steps = agent(&two).steps(CHAT, Vec::new()).expect("new");
    assert!(drive(&mut engine, &mut steps).await.is_ok());
    let kind = |fact: &Fact| match fact {
        Fact::UserSaid { limits, .. } => format!("said {limits:?}"),
        Fact::ModelReplied { stop, usage, .. } => format!("replied {stop:?} {usage:?}"),
        // A call that only reads is awaited with the answer, since the engine keeps both as one step.
        Fact::CallDecided { call, .. } => format!("decided {call}"),
        Fact::CallStarted { call } => format!("started {call}"),
        Fact::CallFinished { result, .. } => {
            format!("{} is {:?}", result.call_id(), result.outcome())
        }
        other => format!("{other:?}"),
    };
    let mut first: Vec<String> = entries(&journal).iter().map(kind).collect();
    let facts = steps.facts().iter().map(|fact| fact.fact().expect("a fact"));
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
    let mut engine = Engine::new(usize::MAX);
    let mut steps = agent.steps(CHAT, Vec::new()).expect("new");
    let ended = drive(&mut engine, &mut steps).await;
    assert!(matches!(ended, Ok(Outcome::Limit(LimitKind::Turns))));
    assert_eq!(model.requests().len(), 3);
}

pub(crate) fn entries_of(steps: &Steps) -> Vec<Fact> {
    steps.facts().iter().map(|fact| fact.fact().expect("a fact")).collect()
}

pub(crate) fn outcome_of(steps: &Steps, id: &str) -> Option<CallOutcome> {
    let messages = steps.transcript().messages().iter();
    let mut results = messages.flat_map(|said| said.results().collect::<Vec<_>>());
    results.find(|result| result.call_id() == id).map(|result| result.outcome())
}

pub(crate) async fn acts(steps: &mut Steps) {
    let facts = steps.act().await.expect("facts");
    steps.apply(facts).expect("it follows");
}

/// Does and applies actions until the next action is of this kind.
pub(crate) async fn acts_until(steps: &mut Steps, is_it: impl Fn(&Action) -> bool) {
    for _ in 0..50 {
        if is_it(&steps.next()) {
            return;
        }
        acts(steps).await;
    }
    panic!("{:?} comes next, again and again", steps.next());
}

pub(crate) fn is_end(action: &Action) -> bool {
    matches!(action, Action::Finish(_))
}

pub(crate) async fn said(agent: &Agent, text: &str) -> Steps {
    let mut steps = agent.steps(CHAT, Vec::new()).expect("new");
    let facts = steps.say(text.into()).await.expect("new");
    steps.apply(facts).expect("it follows");
    steps
}

/// One call of each of these tools, and then an answer.
pub(crate) fn calling(names: &'static [&'static str]) -> ScriptedProvider {
    ScriptedProvider::answering(move |request| {
        let begun = request.messages().iter().rposition(|said| said.text() != "").unwrap_or(0);
        let answered =
            request.messages().iter().skip(begun).any(|said| said.calls().next().is_some());
        let salt = request.messages().len();
        match answered {
            true => reply().text("Done."),
            false => names.iter().fold(reply(), |reply, name| {
                let id = format!("{name}_{salt}");
                reply.call_with_id(id, *name, json!({"n": 1}))
            }),
        }
    })
}

/// What comes next does not depend on what others have spent: a replay takes the same way, and what is
/// applied again is not counted again.
#[tokio::test]
async fn a_replay_takes_the_same_way_whatever_others_have_spent() {
    let model = ScriptedProvider::answering(|request| match request.messages().len() {
        1 => reply().call_with_id("a", "look", json!({"n": 1})).tokens(40, 1),
        _ => reply().text("Done.").tokens(40, 1),
    });
    let limits = Limits::new().input_tokens(200);
    let world = World::default();
    let tools = [tool("look", READ, &world)];
    let agent = Agent::builder(model).tools(tools).limits(limits).build().expect("an agent");
    let mut engine = Engine::new(usize::MAX);
    let mut steps = agent.steps(CHAT, Vec::new()).expect("new");
    assert!(matches!(drive(&mut engine, &mut steps).await, Ok(Outcome::Answered)));
    assert_eq!(agent.budget().spent().usage.input, Some(80));

    let mut again = agent.steps(CHAT, Vec::new()).expect("new");
    assert!(matches!(drive(&mut engine, &mut again).await, Ok(Outcome::Answered)));
    assert_eq!(agent.budget().spent().usage.input, Some(80), "it was counted when it was done");

    agent.run("Go.").await.expect("an answer");
    agent.run("Go.").await.expect_err("all is spent");
    engine.kept.pop();
    let mut again = agent.steps(CHAT, Vec::new()).expect("new");
    let ended = drive(&mut engine, &mut again).await;
    assert!(
        matches!(ended, Ok(Outcome::Limit(LimitKind::InputTokens))),
        "the last action asks anew"
    );
    assert_eq!(engine.next, engine.kept.len());
    assert_eq!(world.lock().expect("unpoisoned").len(), 3, "one of each run");
}

/// The action in which a call runs is done again: by the same steps, by those that were dropped in the
/// middle of it, and by others.
#[tokio::test]
async fn a_call_that_has_started_runs_once_however_often_its_action_is_done() {
    let world = World::default();
    let tools = [tool("note", WRITE, &world)];
    let agent = Agent::builder(calling(&["note"])).tools(tools).build().expect("an agent");
    let mut steps = said(&agent, "Go.").await;
    acts_until(&mut steps, |next| *next == Action::AwaitResults).await;

    let mut others = agent.steps(CHAT, steps.facts().to_vec()).expect("the same");
    acts(&mut others).await;
    assert!(matches!(others.next(), Action::FindOut(_)));
    assert_eq!(others.in_doubt().len(), 1);
    assert!(world.lock().expect("unpoisoned").is_empty(), "they do not own it");
    acts_until(&mut others, is_end).await;
    assert_eq!(outcome_of(&others, "note_1"), Some(CallOutcome::InDoubt));

    let unused = steps.act();
    drop(unused);
    let ran = steps.act().await.expect("facts");
    assert_eq!(*world.lock().expect("unpoisoned"), ["note 1"]);
    let again = steps.act().await.expect("facts");
    assert!(matches!(again[0].fact(), Ok(Fact::Reopened { .. })), "{again:?}");
    assert_eq!(*world.lock().expect("unpoisoned"), ["note 1"]);
    steps.apply(ran).expect("it follows");
    acts_until(&mut steps, is_end).await;
    assert_eq!(outcome_of(&steps, "note_1"), Some(CallOutcome::Succeeded));
}

/// Of a call that is lost its tool finds out what became of it; an idempotent one runs again.
#[tokio::test]
async fn a_call_of_other_steps_is_found_out_about_or_runs_again() {
    let world = World::default();
    let seen = Arc::clone(&world);
    let pay = tool("pay", WRITE, &world).with_reconcile(move |_, _| {
        let paid = seen.lock().expect("unpoisoned").iter().any(|done| done == "pay 1");
        let found =
            if paid { Reconciled::Happened("paid".into()) } else { Reconciled::NotHappened };
        Box::pin(async move { Ok(found) })
    });
    let tools = [pay, tool("put", WRITE, &world).idempotent()];
    let agent = Agent::builder(calling(&["pay", "put"])).tools(tools).build().expect("an agent");
    for has_run in [false, true] {
        world.lock().expect("unpoisoned").clear();
        let mut steps = said(&agent, "Go.").await;
        for id in ["pay_1", "put_1"] {
            acts_until(&mut steps, |next| *next == Action::AwaitResults).await;
            if has_run {
                steps.act().await.expect("it runs, and nobody keeps it");
            }
            steps = agent.steps(CHAT, steps.facts().to_vec()).expect("the same");
            let has_ended = |fact: &Fact| matches!(fact, Fact::CallFinished { result, .. } if result.call_id() == id);
            while !entries_of(&steps).iter().any(has_ended) {
                acts(&mut steps).await;
            }
        }
        acts_until(&mut steps, is_end).await;
        for id in ["pay_1", "put_1"] {
            assert_eq!(outcome_of(&steps, id), Some(CallOutcome::Succeeded), "{has_run} {id}");
        }
        let done = world.lock().expect("unpoisoned").clone();
        let expected: &[&str] =
            if has_run { &["pay 1", "put 1", "put 1"] } else { &["pay 1", "put 1"] };
        assert_eq!(done, expected);
    }
}

/// The user says something while nobody knows what became of a call: its tool finds it out first.
#[tokio::test]
async fn a_message_after_a_lost_call_asks_its_tool_what_became_of_it() {
    let world = World::default();
    let pay = tool("pay", WRITE, &world);
    let pay =
        pay.with_reconcile(|_, _| Box::pin(async { Ok(Reconciled::Happened("paid".into())) }));
    let agent = Agent::builder(calling(&["pay"])).tools([pay]).build().expect("an agent");
    let mut steps = said(&agent, "Go.").await;
    acts_until(&mut steps, |next| *next == Action::AwaitResults).await;
    steps.act().await.expect("it runs, and nobody keeps it");
    let mut steps = agent.steps(CHAT, steps.facts().to_vec()).expect("the same");
    let facts = steps.say("And now?".into()).await.expect("it begins");
    steps.apply(facts).expect("it follows");
    assert_eq!(outcome_of(&steps, "pay_1"), Some(CallOutcome::Succeeded));
    assert_eq!(steps.next(), Action::CallProvider);
}

/// Calls wait; what is said of them comes from outside, and is kept as facts.
#[tokio::test]
async fn what_waits_is_answered_from_outside() {
    let world = World::default();
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let tools = [
        tool("mail", SideEffects::of(&[SideEffect::Network]), &world),
        tool("post", SideEffects::of(&[SideEffect::Network]), &world),
        Tool::external("form", "Asks.", schema, READ),
        tool("note", WRITE, &world),
    ];
    let agent = Agent::builder(calling(&["mail", "post", "form", "note"])).tools(tools);
    let agent = agent.approver(|question: ApprovalRequest| async move { question.later(None) });
    let agent = agent.build().expect("an agent");
    let mut steps = said(&agent, "Go.").await;
    acts_until(&mut steps, |next| *next == Action::AwaitAnswers).await;
    assert!(steps.act().await.expect("nothing").is_empty());

    let questions: Vec<ApprovalRequest> =
        steps.waiting().iter().filter_map(|open| open.question()).collect();
    assert_eq!(questions.len(), 2);
    let yes = questions[0].yes().by("ada");
    let mut forged = yes.clone();
    forged.question.nonce = "another".into();
    steps.decided(forged).expect_err("another question");
    let facts = steps.decided(yes.clone()).expect("it waits");
    // Whoever keeps them may be another process.
    let kept = serde_json::to_string(&facts).expect("JSON");
    steps.apply(serde_json::from_str(&kept).expect("facts")).expect("it follows");
    steps.decided(yes).expect_err("it was decided");
    steps.expired("mail_1").expect_err("it does not wait");
    steps.apply(steps.expired("post_1").expect("it waits")).expect("it follows");
    acts_until(&mut steps, |next| *next == Action::AwaitAnswers).await;

    let open = steps.waiting();
    assert_eq!((open.len(), open[0].call.name()), (1, "form"));
    let facts = steps
        .settled(open[0].succeeded("Via Po 1").by("ada"))
        .expect("it waits")
        .await
        .expect("facts");
    steps.apply(facts).expect("it follows");
    acts_until(&mut steps, |next| *next == Action::AwaitResults).await;
    // Nobody knows whether it has run, until somebody says so.
    let mut steps = agent.steps(CHAT, steps.facts().to_vec()).expect("the same");
    acts(&mut steps).await;
    let lost = steps.in_doubt();
    let facts = steps
        .settled(lost[0].succeeded("It is there."))
        .expect("it is in doubt")
        .await
        .expect("facts");
    steps.apply(facts).expect("it follows");
    acts_until(&mut steps, is_end).await;
    let told = ["mail_1", "post_1", "form_1", "note_1"].map(|id| outcome_of(&steps, id));
    let (succeeded, denied) = (Some(CallOutcome::Succeeded), Some(CallOutcome::Denied));
    assert_eq!(told, [succeeded, denied, succeeded, succeeded]);
    assert_eq!(*world.lock().expect("unpoisoned"), ["mail 1"]);
}

/// What was set aside for a call when it was decided about may be taken by others before it starts.
#[tokio::test]
async fn a_limit_of_calls_is_asked_when_a_call_starts() {
    let world = World::default();
    let tools = [tool("note", WRITE, &world)];
    let agent = Agent::builder(calling(&["note"])).tools(tools).limits(Limits::new().tool_calls(1));
    let agent = agent.build().expect("an agent");
    let is_allowed = |next: &Action| matches!(next, Action::RunCalls(_));
    let (mut one, mut two) = (said(&agent, "Go.").await, said(&agent, "Go.").await);
    acts_until(&mut one, is_allowed).await;
    acts_until(&mut two, is_allowed).await;
    acts_until(&mut one, is_end).await;
    acts_until(&mut two, is_end).await;
    assert_eq!(outcome_of(&one, "note_1"), Some(CallOutcome::Succeeded));
    assert_eq!(outcome_of(&two, "note_1"), Some(CallOutcome::NotStarted));
    assert_eq!(two.next(), Action::Finish(Outcome::Limit(LimitKind::ToolCalls)));
    assert_eq!(*world.lock().expect("unpoisoned"), ["note 1"]);
}

#[derive(Clone)]
struct User(&'static str);

/// Says who asks.
#[tool(side_effects = "read")]
async fn who(user: State<User>) -> String {
    user.0.to_owned()
}

/// A run by steps brings its values and its limits as one by `send` does.
#[tokio::test]
async fn steps_bring_the_values_and_the_limits_of_a_run() {
    let model = ScriptedProvider::answering(|request| match request.messages().len() {
        1 => reply().call_with_id("a", "who", json!({})).tokens(60, 1),
        _ => reply().text("Done.").tokens(60, 1),
    });
    let agent = Agent::builder(model.clone()).tools(tools![who]).state_per_run::<User>();
    let agent = agent.build().expect("an agent");
    let steps = agent.steps(CHAT, Vec::new()).expect("new");
    steps.say("Go.".into()).await.expect_err("it brings no user");

    let limits = Limits::new().input_tokens(50);
    let mut steps = steps.state(User("ada")).limits(limits);
    let facts = steps.say("Go.".into()).await.expect("new");
    steps.apply(facts).expect("it follows");
    let replay = agent.steps(CHAT, steps.facts().to_vec()).expect("the same");
    let missing = replay.act().await.expect_err("the replay brings no user");
    assert_eq!(missing.kind(), ErrorKind::Configuration);
    assert!(model.requests().is_empty(), "nothing is sent without it");
    acts_until(&mut steps, is_end).await;
    assert_eq!(steps.next(), Action::Finish(Outcome::Limit(LimitKind::InputTokens)));
    let told =
        steps.transcript().messages().iter().flat_map(|said| said.results().collect::<Vec<_>>());
    let told: Vec<_> = told.flat_map(|result| result.content().to_vec()).collect();
    assert_eq!(told, [ToolContent::from("ada")]);

    let kept = steps.facts().to_vec();
    let mut steps = agent.steps(CHAT, kept.clone()).expect("the same").state(User("ada"));
    let facts = steps.resume().await.expect("it goes on");
    steps.apply(facts).expect("it follows");
    acts_until(&mut steps, is_end).await;
    assert_eq!(
        steps.next(),
        Action::Finish(Outcome::Limit(LimitKind::InputTokens)),
        "it still counts"
    );

    let steps = agent.steps(CHAT, kept).expect("the same").state(User("ada"));
    let mut steps = steps.limits(Limits::new().input_tokens(100));
    let facts = steps.resume().await.expect("it goes on");
    steps.apply(facts).expect("it follows");
    acts_until(&mut steps, is_end).await;
    assert_eq!(steps.next(), Action::Finish(Outcome::Answered), "it counts anew");
}

/// Waits at a door, and hears of nobody.
#[tool(side_effects = "write")]
fn slow(
    /** Which one */
    n: u64,
    door: State<Arc<Door>>,
) -> String {
    door.pass();
    format!("passed {n}")
}

/// A call whose action was dropped still runs: an equal one does not start beside it, and its end is told
/// once.
#[tokio::test]
async fn an_equal_call_does_not_start_beside_one_that_still_runs() {
    let world = World::default();
    let door = Arc::new(Door::default());
    let model = ScriptedProvider::answering(|request| match request.messages().len() {
        1 => reply().call_with_id("a", "slow", json!({"n": 1})),
        4 => reply().call_with_id("b", "slow", json!({"n": 1})),
        6 => reply().call_with_id("c", "note", json!({"n": 1})).call_with_id(
            "d",
            "note",
            json!({"n": 2}),
        ),
        _ => reply().text("Done."),
    });
    let mut tools = tools![slow].into_iter().collect::<Vec<Tool>>();
    tools.push(tool("note", WRITE, &world));
    let agent = Agent::builder(model).tools(tools).state(Arc::clone(&door));
    let agent = agent.build().expect("an agent");
    let mut steps = said(&agent, "Go.").await;
    acts_until(&mut steps, |next| *next == Action::AwaitResults).await;
    let came = async {
        while door.came() == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = steps.act() => panic!("it waits at the door"),
        () = came => {}
    }
    steps.apply(steps.give_up(InterruptCause::Program).expect("it goes on")).expect("it follows");
    acts_until(&mut steps, is_end).await;
    let facts = steps.say("Again.".into()).await.expect("new");
    steps.apply(facts).expect("it follows");
    acts_until(&mut steps, |next| matches!(next, Action::RunCalls(_))).await;
    acts(&mut steps).await;
    assert_eq!(outcome_of(&steps, "b"), Some(CallOutcome::NotStarted));
    assert_eq!(door.came(), 1);
    acts_until(&mut steps, |next| *next == Action::AwaitResults).await;
    door.open();
    let chat = agent.chat_from(steps.transcript().clone());
    while !chat.still_running().is_empty() {
        tokio::task::yield_now().await;
    }
    acts_until(&mut steps, is_end).await;
    let ends = entries_of(&steps).into_iter().filter(|fact| matches!(fact, Fact::CallEnded { .. }));
    assert_eq!(ends.count(), 1);
}

fn with(permissions: Permissions, tools: impl IntoIterator<Item = Tool>) -> Agent {
    let agent = Agent::builder(calling(&["note"])).tools(tools).permissions(permissions);
    agent.build().expect("an agent")
}

/// What was allowed in other steps is looked at again: what is denied now does not run, also if a person
/// has allowed it or it is to run again.
#[tokio::test]
async fn a_call_that_others_have_allowed_does_not_run_where_it_is_denied_now() {
    let denies = || Permissions::default().deny("note", "not any more");
    for (asked, idempotent, until) in [
        (false, false, "decided"),
        (false, true, "decided"),
        (true, false, "decided"),
        (true, false, "waits"),
        (false, false, "starts"),
        (false, true, "starts"),
    ] {
        let world = World::default();
        let note = || {
            let note = tool("note", WRITE, &world);
            if idempotent { note.idempotent() } else { note }
        };
        let asks = match asked {
            true => Permissions::default().ask("note"),
            false => Permissions::default(),
        };
        let agent = Agent::builder(calling(&["note"])).tools([note()]).permissions(asks);
        let agent = agent.approver(|question: ApprovalRequest| async move { question.later(None) });
        let mut steps = said(&agent.build().expect("an agent"), "Go.").await;
        if asked {
            acts_until(&mut steps, |next| *next == Action::AwaitAnswers).await;
        }
        let is_it = |next: &Action| match until {
            "starts" => *next == Action::AwaitResults,
            "waits" => *next == Action::AwaitAnswers,
            _ => matches!(next, Action::RunCalls(_)),
        };
        if asked && until == "decided" {
            let question = steps.waiting()[0].question().expect("a question");
            steps.apply(steps.decided(question.yes()).expect("it waits")).expect("it follows");
        }
        acts_until(&mut steps, is_it).await;

        let facts = steps.facts().to_vec();
        let mut steps = with(denies(), [note()]).steps(CHAT, facts).expect("the same");
        if until == "waits" {
            let question = steps.waiting()[0].question().expect("a question");
            steps.apply(steps.decided(question.yes()).expect("it waits")).expect("it follows");
        }
        acts_until(&mut steps, is_end).await;
        let told = outcome_of(&steps, "note_1").expect("it has an end");
        let expected = if until == "starts" { CallOutcome::InDoubt } else { CallOutcome::Denied };
        assert_eq!(told, expected, "{asked} {idempotent} {until}");
        assert!(world.lock().expect("unpoisoned").is_empty(), "{asked} {idempotent} {until}");
    }
}

/// If they ask about it now, a person is asked.
#[tokio::test]
async fn a_call_that_others_have_allowed_is_asked_about_where_a_person_decides_now() {
    let world = World::default();
    let agent = with(Permissions::default(), [tool("note", WRITE, &world)]);
    let mut steps = said(&agent, "Go.").await;
    acts_until(&mut steps, |next| matches!(next, Action::RunCalls(_))).await;
    let asks = with(Permissions::default().ask("note"), [tool("note", WRITE, &world)]);
    let mut steps = asks.steps(CHAT, steps.facts().to_vec()).expect("the same");
    acts_until(&mut steps, is_end).await;
    assert_eq!(outcome_of(&steps, "note_1"), Some(CallOutcome::Denied), "there is nobody to ask");
    assert!(world.lock().expect("unpoisoned").is_empty());
}

/// Rules that say something else each time are asked a second time only about what others have decided.
#[tokio::test]
async fn rules_that_change_their_mind_come_to_an_end() {
    let world = World::default();
    let asked = AtomicUsize::new(0);
    let rules = Permissions::default().rule("every other time", move |_| {
        let odd = asked.fetch_add(1, Ordering::SeqCst) % 2 == 1;
        odd.then(|| RuleDecision::Deny("not this time".to_owned()))
    });
    let agent = with(Permissions::default(), [tool("note", WRITE, &world)]);
    let mut steps = said(&agent, "Go.").await;
    acts_until(&mut steps, |next| matches!(next, Action::Decide(_))).await;
    let agent = with(rules, [tool("note", WRITE, &world)]);
    let mut steps = agent.steps(CHAT, steps.facts().to_vec()).expect("the same");
    acts_until(&mut steps, is_end).await;
    assert_eq!(outcome_of(&steps, "note_1"), Some(CallOutcome::Succeeded));
}

/// An answer to a run that was stopped would not let its call run.
#[tokio::test]
async fn an_answer_to_a_run_that_was_stopped_is_refused() {
    let world = World::default();
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let asks = Tool::new("asks", "Asks.", schema.clone(), WRITE, |context, _| {
        let answered = context.answered().is_some();
        Box::pin(async move {
            match answered {
                true => Ok("done".into()),
                false => Err(ToolError::asks("Which?", json!(1))),
            }
        })
    });
    let form = Tool::external("form", "Asks.", schema, READ);
    let mail = tool("mail", SideEffects::of(&[SideEffect::Network]), &world);
    for name in ["mail", "asks", "form"] {
        let model = ScriptedProvider::answering(move |request| match request.messages().len() {
            1 => reply().call_with_id("a", name, json!({"n": 1})),
            _ => reply().text("Done."),
        });
        let agent = Agent::builder(model).tools([asks.clone(), form.clone(), mail.clone()]);
        let agent = agent.approver(|question: ApprovalRequest| async move { question.later(None) });
        let mut steps = said(&agent.build().expect("an agent"), "Go.").await;
        acts_until(&mut steps, |next| *next == Action::AwaitAnswers).await;
        steps.apply(steps.stop(InterruptCause::Program).expect("it goes on")).expect("it follows");
        let open = steps.waiting().remove(0);
        let settled = match (name, open.question()) {
            (_, Some(_)) => None,
            ("asks", None) => Some(steps.settled(open.answered("this"))),
            (_, None) => Some(steps.settled(open.succeeded("Via Po 1"))),
        };
        let said = match (settled, open.question()) {
            (Some(Ok(facts)), _) => facts.await,
            (Some(Err(err)), _) => Err(err),
            (None, question) => steps.decided(question.expect("a question").yes()),
        };
        match (name, said) {
            // What has happened is told, whenever it comes.
            ("form", said) => steps.apply(said.expect("a result")).expect("it follows"),
            (_, said) => {
                let err = said.expect_err("it does not run any more");
                assert_eq!(err.kind(), ErrorKind::NotWaiting);
                assert!(err.to_string().contains("the run was stopped"), "{err}");
            }
        }
        acts_until(&mut steps, is_end).await;
        let told = match name {
            "mail" => CallOutcome::NotStarted,
            "asks" => CallOutcome::InDoubt,
            _ => CallOutcome::Succeeded,
        };
        assert_eq!(outcome_of(&steps, "a"), Some(told));
    }
    assert!(world.lock().expect("unpoisoned").is_empty());
}

/// A call that still runs is not taken for lost: what became of it is not known yet.
#[tokio::test]
async fn an_action_in_which_calls_run_is_not_done_a_second_time_beside_it() {
    let world = World::default();
    let gate = Gate::new();
    let (opens, schema) = (gate.clone(), json!({"type": "object", "properties": {}}));
    let did = Arc::clone(&world);
    let pay = Tool::new("pay", "Pays.", schema, WRITE, move |_, _| {
        let (gate, did) = (opens.clone(), Arc::clone(&did));
        Box::pin(async move {
            gate.pass().await;
            did.lock().expect("unpoisoned").push("paid".to_owned());
            Ok("paid".into())
        })
    });
    let pay = pay.with_reconcile(|_, _| Box::pin(async { Ok(Reconciled::NotHappened) }));
    let model = ScriptedProvider::answering(|request| match request.messages().len() {
        1 => reply().call_with_id("a", "pay", json!({})),
        _ => reply().text("Done."),
    });
    let agent = Agent::builder(model).tools([pay]).build().expect("an agent");
    let mut steps = said(&agent, "Go.").await;
    acts_until(&mut steps, |next| *next == Action::AwaitResults).await;
    let running = steps.act();
    let others = async {
        gate.reached().await;
        let errors = [steps.act().await, steps.resume().await, steps.say("And now?".into()).await];
        for error in errors {
            assert_eq!(error.expect_err("it runs").kind(), ErrorKind::Busy);
        }
        gate.open();
    };
    let (facts, ()) = tokio::join!(running, others);
    steps.apply(facts.expect("facts")).expect("it follows");
    acts_until(&mut steps, is_end).await;
    assert_eq!(outcome_of(&steps, "a"), Some(CallOutcome::Succeeded));
    assert_eq!(*world.lock().expect("unpoisoned"), ["paid"]);
}
