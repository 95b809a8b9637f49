//! How many calls of a tool run at the same time, over all chats of a program.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use futures_util::future::join_all;
use harness::{
    Agent, CallOutcome, CancellationToken, Event, Outcome, SideEffect, SideEffects, Tool,
    ToolContext, ToolRegistry,
    agent::Action,
    journal::{Fact, InterruptCause, Journal, MemoryJournal},
    message::ToolCall,
    testing::{Gate, ScriptedProvider, reply},
    tool, tools,
    trace::{Happened, TraceEvent},
};
use serde_json::json;
use tokio::time::{Instant, sleep};

const READ: SideEffects = SideEffects::of(&[SideEffect::Read]);
const WRITE: SideEffects = SideEffects::of(&[SideEffect::Write]);

/// Counts how many run at the same time.
#[derive(Clone, Default)]
struct Busy {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    all: Arc<AtomicUsize>,
}

impl Busy {
    fn enter(&self) -> Inside {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        self.all.fetch_add(1, Ordering::SeqCst);
        Inside(self.clone())
    }

    fn seen(&self) -> (usize, usize) {
        (self.most.load(Ordering::SeqCst), self.all.load(Ordering::SeqCst))
    }
}

struct Inside(Busy);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A tool that takes this long.
fn takes(name: &'static str, effects: SideEffects, busy: &Busy, time: Duration) -> Tool {
    let busy = busy.clone();
    Tool::new(name, "Works.", json!({"type": "object"}), effects, move |_, _| {
        let busy = busy.clone();
        Box::pin(async move {
            let _inside = busy.enter();
            sleep(time).await;
            Ok("done".into())
        })
    })
}

/// Calls these tools at once, and then says that all is done.
fn calls(names: &'static [&'static str]) -> ScriptedProvider {
    ScriptedProvider::answering(|request| match request.results().next() {
        Some(_) => reply().text("All is done."),
        None => names.iter().enumerate().fold(reply(), |it, (at, name)| {
            it.call_with_id(format!("{name}_{at}"), *name, json!({}))
        }),
    })
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn so_many_run_at_the_same_time_over_all_chats_and_agents() {
    for effects in [READ, WRITE] {
        let busy = Busy::default();
        let work = takes("work", effects, &busy, SECOND).at_once(3);
        let agents = [0, 1].map(|_| {
            Agent::builder(calls(&["work", "work"])).tools([work.clone()]).build().unwrap()
        });
        let began = Instant::now();
        let queued = AtomicUsize::new(0);
        let runs = (0..20).map(|at| {
            let (agent, queued) = (&agents[at % 2], &queued);
            async move {
                let run = agent.run("Go.").on_event(|event| {
                    if let Event::ToolQueued(call) = event {
                        assert_eq!(call.name(), "work");
                        queued.fetch_add(1, Ordering::SeqCst);
                    }
                });
                run.await
            }
        });
        for reply in join_all(runs).await {
            assert_eq!(reply.unwrap().text(), "All is done.");
        }
        assert_eq!(busy.seen(), (3, 40), "{effects:?}");
        // Forty calls of a second, three at a time.
        assert_eq!(began.elapsed().as_secs(), 14, "{effects:?}");
        assert!(queued.into_inner() >= 34, "{effects:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_function_has_its_places_whatever_is_made_of_it() {
    /// Works.
    #[tool(side_effects = "read", at_once = 2)]
    async fn work(busy: harness::State<Busy>) {
        let _inside = busy.enter();
        sleep(SECOND).await;
    }
    assert_eq!(work::TOOL.at_once, Some(2));
    let busy = Busy::default();
    let agents = (0..6).map(|_| {
        let agent = Agent::builder(calls(&["work"])).tools(tools![work]).state(busy.clone());
        agent.build().unwrap()
    });
    let agents: Vec<Agent> = agents.collect();
    let runs = join_all(agents.iter().map(|agent| async { agent.run("Go.").await })).await;
    runs.into_iter().for_each(|run| drop(run.unwrap()));
    assert_eq!(busy.seen(), (2, 6));
}

#[tokio::test(start_paused = true)]
async fn who_comes_first_is_served_first_and_other_tools_go_ahead() {
    let busy = Busy::default();
    let one = takes("one", READ, &busy, SECOND).at_once(1);
    let other = takes("other", READ, &Busy::default(), SECOND / 10);
    let agent = Agent::builder(calls(&["one", "one", "other", "one"])).tools([one, other]);
    let agent = agent.early_start(false).build().unwrap();
    let told = Mutex::new(Vec::new());
    let run = agent.run("Go.").on_event(|event| {
        let told = &mut *told.lock().unwrap();
        match event {
            Event::ToolQueued(call) => told.push(format!("{} waits", call.id())),
            Event::ToolCall(call) => told.push(format!("{} begins", call.id())),
            Event::ToolResult { call, .. } => told.push(format!("{} ends", call.id())),
            _ => {}
        }
    });
    let reply = run.await.unwrap();
    let queued = |it: &&TraceEvent| matches!(it.what, Happened::CallQueued { .. });
    assert_eq!(reply.trace().events().iter().filter(queued).count(), 2);
    let expected = [
        "one_0 begins",
        "one_1 waits",
        "other_2 begins",
        "one_3 waits",
        "other_2 ends",
        "one_0 ends",
        "one_1 begins",
        "one_1 ends",
        "one_3 begins",
        "one_3 ends",
    ];
    assert_eq!(*told.lock().unwrap(), expected);
    assert_eq!(busy.seen(), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_has_not_begun_and_its_own_time_does_not_run() {
    let busy = Busy::default();
    let work = takes("work", WRITE, &busy, SECOND * 10);
    let work = work.with_time_limit(SECOND * 11).at_once(1);
    let agent = Agent::builder(calls(&["work"])).tools([work]).build().unwrap();
    let journal = MemoryJournal::new();
    let mut first = agent.open(&journal, "first").await.unwrap();
    let mut third = agent.open(&journal, "third").await.unwrap();
    let token = CancellationToken::new();
    let first = async { first.send("Go.").await };
    let stopped = async {
        let mut second = agent.open(&journal, "second").await.unwrap();
        sleep(SECOND).await;
        let run = second.send("Go.").cancel_with(token.clone());
        let (ended, ()) = tokio::join!(run.into_future(), async {
            sleep(SECOND).await;
            token.cancel();
        });
        assert_eq!(ended.unwrap_err().outcome(), Outcome::Cancelled);
        let results = second.transcript().messages().iter().flat_map(|it| it.results());
        let outcomes: Vec<CallOutcome> = results.map(|result| result.outcome()).collect();
        assert_eq!(outcomes, [CallOutcome::NotStarted]);
    };
    let dropped = async {
        let mut fourth = agent.open(&journal, "fourth").await.unwrap();
        sleep(SECOND).await;
        let run = tokio::time::timeout(SECOND, fourth.send("Go.").into_future()).await;
        assert!(run.is_err(), "it waits");
        drop(fourth);
    };
    let waits = async {
        sleep(SECOND * 3).await;
        third.send("Go.").await
    };
    let (first, third, ..) = tokio::join!(first, waits, stopped, dropped);
    for run in [first, third] {
        assert_eq!(run.unwrap().text(), "All is done.");
    }
    assert_eq!(busy.seen(), (1, 2), "those that were stopped have not run");
    for id in ["second", "fourth"] {
        let facts = journal.read(id, 0).await.unwrap().facts;
        let starts =
            |it: &harness::journal::Envelope| matches!(it.fact(), Ok(Fact::CallStarted { .. }));
        assert!(!facts.iter().any(starts), "{id}: {facts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_panics_fails_or_is_dropped_gives_its_place_back() {
    let times = Arc::new(AtomicUsize::new(0));
    let schema = json!({"type": "object"});
    let work = Tool::new("work", "Works.", schema, READ, move |_, _| {
        let time = times.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            match time {
                0 => panic!("on purpose"),
                1 => Err(harness::ToolError::new("no")),
                2 => std::future::pending().await,
                _ => Ok("done".into()),
            }
        })
    });
    let agent = Agent::builder(calls(&["work"])).tools([work.at_once(1)]).build().unwrap();
    for _ in 0..2 {
        agent.run("Go.").await.unwrap();
    }
    let dropped = tokio::time::timeout(SECOND, agent.run("Go.").into_future()).await;
    assert!(dropped.is_err(), "it does not end");
    agent.run("Go.").await.unwrap();
}

/// Each level calls the same tool, which has one place.
#[tokio::test(start_paused = true)]
async fn a_tool_that_calls_itself_through_agents_does_not_wait_for_itself() {
    static DEEPEST: AtomicUsize = AtomicUsize::new(0);

    /// Goes deeper.
    #[tool(side_effects = "read", at_once = 1)]
    async fn deeper(
        /** How deep it is */
        depth: usize,
        context: &ToolContext,
    ) -> Result<String, harness::ToolError> {
        DEEPEST.fetch_max(depth, Ordering::SeqCst);
        if depth == 3 {
            return Ok("the ground".to_owned());
        }
        let agent = at(depth + 1);
        Ok(agent.run("Go.").in_call(context).await?.text().to_owned())
    }

    fn at(depth: usize) -> Agent {
        let model = ScriptedProvider::answering(move |request| match request.results().next() {
            Some(result) => reply().text(result.to_text()),
            None => reply().call("deeper", json!({ "depth": depth })),
        });
        Agent::builder(model).tools(tools![deeper]).build().unwrap()
    }

    let agents = [at(0), at(0)];
    let runs = join_all(agents.iter().map(|agent| async { agent.run("Go.").await }));
    let runs = tokio::time::timeout(SECOND, runs).await.expect("nobody waits for itself");
    for run in runs {
        assert_eq!(run.unwrap().text(), "the ground");
    }
    assert_eq!(DEEPEST.load(Ordering::SeqCst), 3);
}

/// The thread of a call that ran out of time goes on, and keeps its place.
#[tokio::test]
async fn a_thread_that_cannot_be_stopped_keeps_its_place() {
    static ENDS: Mutex<Option<mpsc::Receiver<()>>> = Mutex::new(None);
    static RUNS: AtomicUsize = AtomicUsize::new(0);

    /// Works.
    #[tool(side_effects = "read", timeout = "10ms", at_once = 1)]
    fn work() {
        if RUNS.fetch_add(1, Ordering::SeqCst) == 0 {
            let ends = ENDS.lock().unwrap().take().unwrap();
            let _ = ends.recv();
        }
    }
    let (end, ends) = mpsc::channel();
    *ENDS.lock().unwrap() = Some(ends);
    let agent = || Agent::builder(calls(&["work"])).tools(tools![work]).build().unwrap();
    let reply = agent().run("Go.").await.unwrap();
    let outcome = reply.transcript().messages().iter().flat_map(|it| it.results()).next();
    assert_eq!(outcome.unwrap().outcome(), CallOutcome::StoppedReading);
    let queued = Gate::new();
    let (waits, second) = (queued.clone(), agent());
    let mut second = tokio::spawn(async move {
        let waits = |event: Event<'_>| {
            if let Event::ToolQueued(_) = event {
                waits.open();
            }
        };
        second.run("Go.").on_event(waits).await
    });
    tokio::select! {
        () = queued.pass() => {}
        ended = &mut second => panic!("it did not wait: {ended:?}"),
    }
    assert_eq!(RUNS.load(Ordering::SeqCst), 1, "the first one still runs");
    end.send(()).unwrap();
    second.await.unwrap().unwrap();
    assert_eq!(RUNS.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_does_not_start_early_without_a_place() {
    let busy = Busy::default();
    let work = takes("work", READ, &busy, SECOND).at_once(1);
    let model = || {
        ScriptedProvider::answering(|request| match request.results().next() {
            Some(_) => reply().text("All is done."),
            None => reply().call("work", json!({})).text("I work.").pause(SECOND / 2),
        })
    };
    let agent = Agent::builder(model()).tools([work]).build().unwrap();
    let (one, other) = tokio::join!(agent.run("Go.").into_future(), agent.run("Go.").into_future());
    assert!(one.is_ok() && other.is_ok());
    assert_eq!(busy.seen(), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn steps_take_the_place_before_they_say_that_a_call_starts() {
    let busy = Busy::default();
    let work = takes("work", WRITE, &busy, SECOND).at_once(1);
    let agent = Agent::builder(calls(&["work"])).tools([work]).build().unwrap();
    let begins = async |name: &str| {
        let mut steps = agent.steps(name, Vec::new()).unwrap();
        let said = steps.say("Go.".into()).await.unwrap();
        steps.apply(said).unwrap();
        while steps.next() != Action::AwaitResults {
            let facts = steps.act().await.unwrap();
            steps.apply(facts).unwrap();
        }
        steps
    };
    let mut first = begins("first").await;
    let waits = tokio::time::timeout(SECOND, begins("second")).await;
    assert!(waits.is_err(), "the first has the place before it runs");
    let (second, ()) = tokio::join!(begins("second"), async {
        while !matches!(first.next(), Action::Finish(_)) {
            let facts = first.act().await.unwrap();
            first.apply(facts).unwrap();
        }
    });
    assert_eq!(busy.seen(), (1, 1));
    // Whoever gives up gives the place back.
    drop(second);
    begins("third").await;
}

#[tokio::test(start_paused = true)]
async fn a_program_that_calls_tools_itself_waits_too() {
    let busy = Busy::default();
    let work = takes("work", READ, &busy, SECOND).at_once(2);
    let tools = ToolRegistry::new([work]).unwrap();
    let call = |at: usize| ToolCall::new(format!("call_{at}"), "work", "{}");
    let calls: Vec<ToolCall> = (0..5).map(call).collect();
    let contexts: Vec<ToolContext> = calls.iter().map(|it| ToolContext::new(it.id())).collect();
    let results = calls.iter().zip(&contexts).map(|(call, context)| tools.dispatch(call, context));
    for result in join_all(results).await {
        assert_eq!(result.outcome(), CallOutcome::Succeeded);
    }
    assert_eq!(busy.seen(), (2, 5));
}

/// Another tool, to which a tool passes its own context on, has places of its own.
#[tokio::test(start_paused = true)]
async fn a_tool_that_calls_another_one_with_its_context_waits_for_a_place_of_that_one() {
    for limit in [None, Some(5)] {
        let busy = Busy::default();
        let inner = ToolRegistry::new([takes("inner", READ, &busy, SECOND).at_once(1)]).unwrap();
        let schema = json!({"type": "object"});
        let outer = Tool::new("outer", "Calls.", schema, READ, move |context, _| {
            let inner = inner.clone();
            Box::pin(async move {
                inner.dispatch(&ToolCall::new("in", "inner", "{}"), &context).await;
                Ok("done".into())
            })
        });
        let outer = match limit {
            Some(most) => outer.at_once(most),
            None => outer,
        };
        let model = calls(&["outer", "outer", "outer"]);
        let agent = Agent::builder(model).tools([outer]).build().unwrap();
        agent.run("Go.").await.unwrap();
        assert_eq!(busy.seen(), (1, 3), "{limit:?}");
    }
}

/// It calls itself, directly and by an agent inside of the call that it made itself.
#[tokio::test(start_paused = true)]
async fn a_tool_that_calls_itself_with_its_context_does_not_wait_for_itself() {
    let times = Arc::new(AtomicUsize::new(0));
    let own = Arc::new(Mutex::new(None::<ToolRegistry>));
    let (counted, registry) = (Arc::clone(&times), Arc::clone(&own));
    let schema = json!({"type": "object"});
    let work = Tool::new("work", "Works.", schema, READ, move |context, _| {
        let tools = registry.lock().unwrap().clone().unwrap();
        let time = counted.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            if time == 0 {
                tools.dispatch(&ToolCall::new("in", "work", "{}"), &context).await;
            } else if time == 1 {
                let inside = Agent::builder(calls(&["work"])).tools(tools.tools().to_vec());
                inside.build().unwrap().run("Go.").in_call(&context).await?;
            }
            Ok("done".into())
        })
    });
    let work = work.at_once(1);
    *own.lock().unwrap() = Some(ToolRegistry::new([work.clone()]).unwrap());
    let starts = Tool::new("starts", "Starts.", json!({"type": "object"}), READ, {
        let tools = ToolRegistry::new([work]).unwrap();
        move |context, _| {
            let tools = tools.clone();
            Box::pin(async move {
                tools.dispatch(&ToolCall::new("in", "work", "{}"), &context).await;
                Ok("done".into())
            })
        }
    });
    let agent = Agent::builder(calls(&["starts"])).tools([starts]).build().unwrap();
    let run = tokio::time::timeout(SECOND, agent.run("Go.").into_future()).await;
    run.expect("nobody waits for itself").unwrap();
    assert_eq!(times.load(Ordering::SeqCst), 3);
}

/// A call of steps that were given up does not run any more, and keeps nobody waiting.
#[tokio::test(start_paused = true)]
async fn steps_that_are_given_up_free_the_place_while_they_are_kept() {
    let busy = Busy::default();
    let work = takes("work", WRITE, &busy, SECOND).at_once(1);
    let agent = Agent::builder(calls(&["work"])).tools([work]).build().unwrap();
    let mut steps = agent.steps("first", Vec::new()).unwrap();
    let said = steps.say("Go.".into()).await.unwrap();
    steps.apply(said).unwrap();
    while steps.next() != Action::AwaitResults {
        let facts = steps.act().await.unwrap();
        steps.apply(facts).unwrap();
    }
    steps.apply(steps.give_up(InterruptCause::Program).unwrap()).unwrap();
    let other = tokio::time::timeout(SECOND * 5, agent.run("Go.").into_future()).await;
    other.expect("the place is free").unwrap();
    assert_eq!(busy.seen(), (1, 1));
    drop(steps);
}

#[test]
fn no_place_at_all_is_refused() {
    let work = takes("work", READ, &Busy::default(), SECOND).at_once(0);
    let err = Agent::builder(calls(&[])).tools([work]).build().unwrap_err();
    assert!(err.to_string().contains("`work` could ever begin, since `at_once` is 0"), "{err}");
}
