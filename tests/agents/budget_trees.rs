//! Any tree of agents that call agents, with any limits at any height, dropped at any poll: the sums
//! of every budget are what was really spent below it, no model is asked below a limit that is
//! reached, and no more calls run than may.
//!
//! The facts and the events of the runs, which know nothing of budgets, show what was really spent.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    future::{Future, IntoFuture as _, poll_fn},
    sync::{Arc, Mutex, OnceLock},
    task::Poll,
    time::Duration,
};

use futures_util::FutureExt as _;
use harness::{
    Agent, Event, Limits, Permissions, SideEffects, Stopped, StreamEvent, Tool, ToolError, Usage,
    journal::{self, Journal, LimitKind, LimitScope},
    models::{Models, Price},
    policy::{Budget, BudgetUsage, Guardrails},
    testing::{RecordedRequest, ScriptedProvider, ScriptedReply, reply},
};
use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::json;

use crate::kept::{Watched, kept_in};
use crate::probe::{READ, WRITE};

/// Different agents. Tasks of one agent share its budget, also where one calls the other.
const AGENTS: usize = 3;

/// What a token costs that is sent, and that is said, in millionths.
const PRICE: (u64, u64) = (3, 15);

/// Work for an agent: answers that each call others, and a last one that does not.
#[derive(Clone, Debug)]
struct Task {
    agent: usize,
    answers: Vec<Answer>,
    run: Caps,
    chat: Caps,
    /// How long it may take, in milliseconds, before the tool lets go of it.
    patience: Option<u64>,
}

#[derive(Clone, Debug)]
struct Answer {
    tokens: (u64, u64),
    pause: u64,
    /// What it calls, each by a call that reads or by one that writes.
    calls: Vec<(bool, Callee)>,
    /// It breaks off after its calls, and begins again without them.
    begins_again: bool,
    /// It breaks off for good.
    cut: bool,
}

#[derive(Clone, Debug)]
enum Callee {
    /// A tool that takes so many milliseconds.
    Plain(u64),
    Agent(Task),
}

/// Limits, as the test counts them.
#[derive(Clone, Copy, Debug, Default)]
struct Caps {
    input: Option<u64>,
    output: Option<u64>,
    /// In millionths of the currency.
    money: Option<u64>,
    calls: Option<u32>,
}

impl Caps {
    fn limits(self) -> Limits {
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let cost = self.money.map(|money| money as f64 / 1e6);
        Limits::unlimited()
            .input_tokens(self.input)
            .output_tokens(self.output)
            .cost(cost)
            .tool_calls(self.calls)
    }
}

fn caps(scale: u64) -> impl Strategy<Value = Caps> {
    let maybe = move |most: u64| prop::option::weighted(0.1, 0..most * scale);
    (
        maybe(150),
        maybe(60),
        maybe(900),
        prop::option::weighted(0.1, 0..3 * u32::try_from(scale).expect("small")),
    )
        .prop_map(|(input, output, money, calls)| Caps { input, output, money, calls })
}

fn answer(callee: BoxedStrategy<Callee>) -> impl Strategy<Value = Answer> {
    let tokens = (0_u64..60, 0_u64..20);
    let calls = prop::collection::vec((prop::bool::weighted(0.7), callee), 0..4);
    let rarely = || prop::bool::weighted(0.08);
    (tokens, 0_u64..4, calls, rarely(), rarely()).prop_map(
        |(tokens, pause, calls, begins_again, cut)| Answer {
            tokens,
            pause,
            calls,
            begins_again,
            cut,
        },
    )
}

fn task(depth: u32) -> BoxedStrategy<Task> {
    let plain = (0_u64..4).prop_map(Callee::Plain);
    let callee = match depth {
        0 => plain.boxed(),
        _ => prop_oneof![1 => plain, 3 => task(depth - 1).prop_map(Callee::Agent)].boxed(),
    };
    let answers = prop::collection::vec(answer(callee), 0..4);
    let patience = prop::option::weighted(0.15, 0_u64..12);
    (0..AGENTS, answers, caps(u64::from(depth) + 1), caps(u64::from(depth) + 1), patience)
        .prop_map(|(agent, answers, run, chat, patience)| Task {
            agent,
            answers,
            run,
            chat,
            patience,
        })
        .boxed()
}

/// A budget, by what it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    Run(usize),
    Chat(usize),
    Agent(usize),
    Program,
}

/// A task of the tree, by its number.
#[derive(Clone, Debug)]
struct Fact {
    task: Task,
    /// The budgets that it stands within, its own first.
    within: Vec<Of>,
    /// The tasks that its answers call, in order.
    calls: Vec<Vec<Option<usize>>>,
}

/// Numbers the tasks of the tree.
fn number(task: &Task, above: &[Of], entries: &mut Vec<Option<Fact>>) -> usize {
    let id = entries.len();
    entries.push(None);
    let own = [Of::Run(id), Of::Chat(id), Of::Agent(task.agent)];
    let mut within = own.to_vec();
    within.extend(above.iter().filter(|of| !own.contains(of)));
    let calls = task
        .answers
        .iter()
        .map(|answer| {
            let callees = answer.calls.iter().map(|(_, callee)| match callee {
                Callee::Plain(_) => None,
                Callee::Agent(task) => Some(number(task, &within, entries)),
            });
            callees.collect()
        })
        .collect();
    entries[id] = Some(Fact { task: task.clone(), within, calls });
    id
}

/// What was really spent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    turns: u32,
    calls: u32,
    usage: Usage,
}

impl Sum {
    fn tokens(&self) -> (u64, u64) {
        (self.usage.input.unwrap_or(0), self.usage.output.unwrap_or(0))
    }

    fn money(&self) -> u64 {
        let (input, output) = self.tokens();
        input * PRICE.0 + output * PRICE.1
    }

    /// Whether an amount is used up.
    fn reached(&self, caps: Caps) -> bool {
        let (input, output) = self.tokens();
        caps.input.is_some_and(|cap| input >= cap)
            || caps.output.is_some_and(|cap| output >= cap)
            || caps.money.is_some_and(|cap| self.money() >= cap)
    }
}

/// What is known of a tree that runs.
#[derive(Default)]
struct Ledger {
    caps: BTreeMap<Of, Caps>,
    sums: BTreeMap<Of, Sum>,
    /// The budgets of the library.
    budgets: BTreeMap<Of, Budget>,
    begun: BTreeSet<usize>,
    wrong: Vec<String>,
    stops: HashMap<(LimitScope, LimitKind), usize>,
    let_go: usize,
    early: usize,
    overshot: usize,
}

struct World {
    entries: Vec<Fact>,
    ledger: Mutex<Ledger>,
    agents: OnceLock<Vec<Agent>>,
}

impl World {
    fn ledger(&self) -> std::sync::MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("no test panics while it writes")
    }

    /// Adds what a run of this task has spent.
    fn add(&self, id: usize, more: Sum) {
        let mut ledger = self.ledger();
        for of in &self.entries[id].within {
            let caps = ledger.caps.get(of).copied().unwrap_or_default();
            let sum = ledger.sums.entry(*of).or_default();
            let was = sum.reached(caps);
            sum.turns += more.turns;
            sum.calls += more.calls;
            sum.usage.add(&more.usage);
            let (sum, is) = (*sum, sum.reached(caps));
            ledger.overshot += usize::from(was && is && more.turns > 0);
            if caps.calls.is_some_and(|cap| sum.calls > cap) {
                ledger.wrong.push(format!("{} calls ran below {of:?}, {caps:?}", sum.calls));
            }
        }
    }

    /// The model is asked for this task.
    fn asked(&self, id: usize) {
        let mut ledger = self.ledger();
        for of in &self.entries[id].within {
            let caps = ledger.caps.get(of).copied().unwrap_or_default();
            let sum = ledger.sums.get(of).copied().unwrap_or_default();
            if sum.reached(caps) {
                let wrong = format!("task {id} asked below {of:?}: {sum:?} of {caps:?}");
                ledger.wrong.push(wrong);
            }
        }
    }

    /// A run of this task was stopped: the limit that it names is one that was reached.
    fn stopped(&self, id: usize, stopped: &Stopped) {
        let Some(reached) = stopped.limit() else { return };
        let mut ledger = self.ledger();
        *ledger.stops.entry((reached.scope, reached.limit)).or_default() += 1;
        let within = &self.entries[id].within;
        let named: Vec<Of> = match reached.scope {
            LimitScope::Run => vec![Of::Run(id)],
            LimitScope::Conversation => vec![Of::Chat(id)],
            LimitScope::Agent => vec![Of::Agent(self.entries[id].task.agent)],
            _ => within[3..].to_vec(),
        };
        let is_so = named.iter().any(|of| {
            let caps = ledger.caps.get(of).copied().unwrap_or_default();
            let sum = ledger.sums.get(of).copied().unwrap_or_default();
            match reached.limit {
                LimitKind::InputTokens => caps.input.is_some_and(|cap| sum.tokens().0 >= cap),
                LimitKind::OutputTokens => caps.output.is_some_and(|cap| sum.tokens().1 >= cap),
                LimitKind::Cost => caps.money.is_some_and(|cap| sum.money() >= cap),
                LimitKind::ToolCalls => caps.calls.is_some(),
                _ => false,
            }
        });
        if !is_so {
            ledger.wrong.push(format!("task {id} was stopped by {reached:?}, which is not so"));
        }
    }
}

/// Takes what the facts of a task say of the tokens of an answer that broke off.
fn facts(world: &Arc<World>, id: usize) -> impl Journal + Clone + 'static {
    let world = Arc::clone(world);
    Watched::new(move |facts: &[journal::Fact]| {
        for fact in facts {
            if let journal::Fact::Interrupted { usage, asked, .. } = fact {
                world.add(id, Sum { turns: (*asked).into(), usage: *usage, ..Sum::default() });
            }
        }
        Ok(())
    })
}

/// A conversation whose last facts are written also if its run is dropped.
struct Saved(harness::Chat);

impl Drop for Saved {
    fn drop(&mut self) {
        let saved = self.0.save().now_or_never();
        saved.expect("a journal in memory answers at once").expect("written");
    }
}

/// Runs a task within a budget, as a program or a tool does.
async fn run(world: Arc<World>, id: usize, within: Budget) -> Result<String, String> {
    let Fact { task, .. } = &world.entries[id];
    let agent = world.agents.get().expect("they are made first")[task.agent].clone();
    let mut chat = Saved(kept_in(&agent, &facts(&world, id)));
    let chat = &mut chat.0;
    chat.limits(task.chat.limits());
    let conversation = chat.budget();
    let watched = Arc::clone(&world);
    let mut answering = false;
    let sending = chat.send(id.to_string()).limits(task.run.limits()).within(&within);
    let sending = sending.on_event(move |event| match event {
        Event::TurnStarted { .. } => answering = true,
        Event::TurnEnded { usage, .. } => {
            answering = false;
            watched.add(id, Sum { turns: 1, usage: *usage, calls: 0 });
        }
        Event::ToolCall(_) => {
            watched.ledger().early += usize::from(answering);
            watched.add(id, Sum { calls: 1, ..Sum::default() });
        }
        _ => {}
    });
    {
        let mut ledger = world.ledger();
        ledger.budgets.insert(Of::Run(id), sending.budget());
        ledger.budgets.insert(Of::Chat(id), conversation);
        if !ledger.begun.insert(id) {
            ledger.wrong.push(format!("task {id} ran twice"));
        }
    }
    let ended = match task.patience {
        None => sending.await,
        Some(ms) => {
            match tokio::time::timeout(Duration::from_millis(ms), sending.into_future()).await {
                Ok(ended) => ended,
                Err(_) => {
                    world.ledger().let_go += 1;
                    return Err("it took too long".into());
                }
            }
        }
    };
    ended.map(|reply| reply.text().to_owned()).map_err(|stopped| {
        let stopped: Stopped = stopped;
        world.stopped(id, &stopped);
        stopped.to_string()
    })
}

fn tool(name: &'static str, effects: SideEffects, world: &Arc<OnceLock<Arc<World>>>) -> Tool {
    let world = Arc::clone(world);
    let schema = json!({"type": "object", "additionalProperties": true});
    Tool::new(name, "Works, or lets another agent work.", schema, effects, move |context, given| {
        let world = Arc::clone(world.get().expect("it is made before it runs"));
        let budget = (*context.state::<Budget>().expect("the run's")).clone();
        Box::pin(async move {
            let number = |name: &str| given.get(name).and_then(serde_json::Value::as_u64);
            match number("task") {
                Some(id) => {
                    let id = usize::try_from(id).expect("small");
                    run(world, id, budget).await.map(Into::into).map_err(ToolError::new)
                }
                None => {
                    tokio::time::sleep(Duration::from_millis(number("takes").unwrap_or(0))).await;
                    Ok("done".into())
                }
            }
        })
    })
}

/// What the model says for a task, given what was said so far.
fn says(world: &World, request: &RecordedRequest) -> ScriptedReply {
    let id: usize = request.messages()[0].text().parse().expect("the number of a task");
    world.asked(id);
    let Fact { task, calls, .. } = &world.entries[id];
    let at = request.messages().len() / 2;
    let Some(answer) = task.answers.get(at) else { return reply().text("Done.").tokens(7, 3) };
    let (input, output) = answer.tokens;
    let so_far = Usage { input: Some(input), output: Some(output / 2), ..Usage::default() };
    let mut said = reply().event(StreamEvent::UsageSoFar(so_far)).text("So. ");
    for (index, ((reads, callee), task)) in answer.calls.iter().zip(&calls[at]).enumerate() {
        let arguments = match (callee, task) {
            (Callee::Agent(_), Some(task)) => json!({"task": task}),
            (Callee::Plain(takes), _) => json!({"takes": takes}),
            (Callee::Agent(_), None) => panic!("every task has its number"),
        };
        let name = if *reads { "look" } else { "work" };
        let call_id = format!("call_{id}_{at}_{index}");
        said = said.call_with_id(call_id, name, arguments);
        if answer.pause > 0 {
            said = said.pause(Duration::from_millis(answer.pause));
        }
    }
    if answer.begins_again {
        let cause = "it broke off".to_owned();
        return said.event(StreamEvent::Discarded { cause }).text("Done.").tokens(input, output);
    }
    if answer.cut { said.cut() } else { said.tokens(input, output) }
}

/// What the test has seen of the trees, to know that it says something.
#[derive(Debug, Default)]
struct Seen {
    stops: HashMap<(LimitScope, LimitKind), usize>,
    dropped: usize,
    let_go: usize,
    early: usize,
    overshot: usize,
    runs: usize,
}

/// Runs the tree, lets go of it after so many polls, and compares.
fn check(
    task: &Task,
    agents: &[Caps],
    program: Caps,
    early: bool,
    polls: Option<usize>,
    seen: &mut Seen,
) -> Result<(), TestCaseError> {
    let mut entries = Vec::new();
    number(task, &[Of::Program], &mut entries);
    let entries: Vec<Fact> = entries.into_iter().map(|entry| entry.expect("numbered")).collect();
    let mut caps = BTreeMap::from([(Of::Program, program)]);
    caps.extend(agents.iter().enumerate().map(|(at, caps)| (Of::Agent(at), *caps)));
    for (id, Fact { task, .. }) in entries.iter().enumerate() {
        caps.extend([(Of::Run(id), task.run), (Of::Chat(id), task.chat)]);
    }
    let ledger = Mutex::new(Ledger { caps, ..Ledger::default() });
    let world = Arc::new(World { entries, ledger, agents: OnceLock::new() });
    let shared = Arc::new(OnceLock::new());
    shared.set(Arc::clone(&world)).unwrap_or_else(|_| panic!("it is set once"));
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let price = Price::new(PRICE.0 as f64, PRICE.1 as f64);
    let built = agents.iter().map(|caps| {
        let asked = Arc::downgrade(&world);
        let model = ScriptedProvider::answering(move |request| {
            says(&asked.upgrade().expect("it goes on"), request)
        });
        let tools = [tool("look", READ, &shared), tool("work", WRITE, &shared)];
        Agent::builder(model)
            .tools(tools)
            .permissions(Permissions::allow_all())
            .guardrails(Guardrails::none().calls_per_turn(4))
            .models(Models::none().with("*", price))
            .limits(caps.limits())
            .early_start(early)
            .build()
            .expect("an agent")
    });
    let built: Vec<Agent> = built.collect();
    let program = Budget::new(program.limits());
    {
        let mut ledger = world.ledger();
        ledger.budgets.insert(Of::Program, program.clone());
        for (at, agent) in built.iter().enumerate() {
            ledger.budgets.insert(Of::Agent(at), agent.budget());
        }
    }
    world.agents.set(built).expect("once");

    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
    let mut whole = Box::pin(run(Arc::clone(&world), 0, program));
    let mut left = polls;
    let ended = runtime.block_on(poll_fn(|context| {
        if left == Some(0) {
            return Poll::Ready(None);
        }
        left = left.map(|left| left - 1);
        whole.as_mut().poll(context).map(Some)
    }));
    drop(whole);
    seen.dropped += usize::from(ended.is_none());

    let ledger = world.ledger();
    prop_assert!(ledger.wrong.is_empty(), "{}", ledger.wrong.join("\n"));
    for (of, budget) in &ledger.budgets {
        let sum = ledger.sums.get(of).copied().unwrap_or_default();
        let BudgetUsage { turns, tool_calls, usage, known_cost, .. } = budget.spent();
        prop_assert_eq!((turns, tool_calls, usage), (sum.turns, sum.calls, sum.usage), "{:?}", of);
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let money = sum.money() as f64 / 1e6;
        prop_assert_eq!(known_cost, money, "{:?}", of);
        // Nothing is set aside any more.
        let caps = ledger.caps[of];
        let above = match of {
            Of::Run(id) | Of::Chat(id) => &world.entries[*id].within[..],
            Of::Agent(_) | Of::Program => std::slice::from_ref(of),
        };
        let above = above.iter().filter(|above| match of {
            // A conversation and what it stands within are no part of what is around the run.
            Of::Chat(_) => matches!(above, Of::Chat(_) | Of::Agent(_)) && above.is_of(*of, &world),
            Of::Run(_) | Of::Agent(_) | Of::Program => true,
        });
        let left = above.filter_map(|above| {
            let sum = ledger.sums.get(above).copied().unwrap_or_default();
            ledger.caps[above].calls.map(|cap| cap - sum.calls)
        });
        prop_assert_eq!(budget.left().tool_calls, left.min(), "{:?} {:?}", of, caps);
    }
    for (stop, times) in &ledger.stops {
        *seen.stops.entry(*stop).or_default() += times;
    }
    seen.let_go += ledger.let_go;
    seen.early += ledger.early;
    seen.overshot += ledger.overshot;
    seen.runs += ledger.begun.len();
    Ok(())
}

impl Of {
    /// Whether this is the conversation or its agent.
    fn is_of(self, chat: Self, world: &World) -> bool {
        let Self::Chat(id) = chat else { return false };
        self == chat || self == Self::Agent(world.entries[id].task.agent)
    }
}

#[test]
fn the_sums_are_what_was_spent_and_no_limit_is_passed_but_by_answers_on_their_way() {
    let config = ProptestConfig {
        cases: crate::times(200),
        failure_persistence: None,
        ..Default::default()
    };
    let mut runner = TestRunner::new(config);
    let seen = Mutex::new(Seen::default());
    let trees = (
        task(3),
        prop::collection::vec(caps(6), AGENTS),
        caps(8),
        prop::bool::weighted(0.7),
        prop::option::weighted(0.5, 0_usize..20),
    );
    // The trees must have met all of it, for the test to say anything. Chance may want more of them.
    for round in 1.. {
        let ended = runner.run(&trees, |(task, agents, program, early, polls)| {
            let mut seen = seen.lock().expect("unpoisoned");
            check(&task, &agents, program, early, polls, &mut seen)
        });
        if let Err(err) = ended {
            panic!("{err}");
        }
        let seen = seen.lock().expect("unpoisoned");
        println!("{seen:?}");
        let scopes: HashSet<LimitScope> = seen.stops.keys().map(|(scope, _)| *scope).collect();
        let limits: HashSet<LimitKind> = seen.stops.keys().map(|(_, limit)| *limit).collect();
        let cuts = [seen.dropped, seen.let_go, seen.early, seen.overshot];
        if (scopes.len(), limits.len()) == (4, 4) && cuts.iter().all(|count| *count > 0) {
            return;
        }
        assert!(round < 10, "{seen:?}");
    }
}
