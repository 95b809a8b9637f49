//! Limits that end a run: a scripted model behaves badly, and the limit stops it through the real
//! loop. Each scenario also runs without the limit, and then continues to its end.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use harness::{
    Agent, CallOutcome, Event, Media, Outcome, StopReason, Stopped, StreamEvent, Tool, ToolContent,
    ToolError, Usage,
    agent::{AgentBuilder, Machine},
    journal::{Fact, InterruptCause, LimitKind, LimitScope},
    models::{Models, Price},
    policy::{ApprovalRequest, Budget, Guardrails, Limits},
    testing::{Gate, RecordedRequest, ScriptedProvider, ScriptedReply, outline, reply},
};
use serde_json::{Map, Value, json};

use crate::kept::{entries, recorded};
use crate::probe::{Log, READ, WRITE, Work, tool};

/// A tool that answers what the function says, given its arguments and how often it was called.
fn says(
    name: &'static str,
    effects: harness::SideEffects,
    say: impl Fn(&Map<String, Value>, usize) -> Result<String, String> + Send + Sync + 'static,
) -> Tool {
    let calls = AtomicUsize::new(0);
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": true});
    Tool::new(name, "Says it.", schema, effects, move |_, arguments| {
        let said = say(&arguments, calls.fetch_add(1, Ordering::SeqCst));
        Box::pin(async move { said.map(Into::into).map_err(ToolError::new) })
    })
}

/// A model that does the same in each of so many turns, and then answers.
fn stubborn(
    turns: usize,
    does: impl Fn(usize) -> ScriptedReply + Send + Sync + 'static,
) -> ScriptedProvider {
    ScriptedProvider::answering(move |request: &RecordedRequest| {
        let turn = request.messages().len() / 2;
        let again = request.last_text() == "And now?";
        if again || turn >= turns { reply().text("Done.").tokens(1, 1) } else { does(turn) }
    })
}

/// What guards a run, and what it may spend.
#[derive(Clone, Debug)]
struct Rails(Guardrails, Limits);

impl From<Guardrails> for Rails {
    fn from(rails: Guardrails) -> Self {
        Self(rails, Limits::new())
    }
}

fn none() -> Rails {
    Rails(Guardrails::none(), Limits::unlimited())
}

/// Nothing but these limits.
fn only(limits: Limits) -> Rails {
    Rails(Guardrails::none(), limits.over(&Limits::unlimited()))
}

fn build(builder: AgentBuilder, rails: impl Into<Rails>) -> Agent {
    let Rails(rails, limits) = rails.into();
    builder.guardrails(rails).run_limits(limits).build().expect("an agent")
}

/// Runs the scenario: it must end by this limit, and the conversation must go on; without limits
/// it must end with an answer.
async fn scenario(
    limit: LimitKind,
    rails: impl Into<Rails>,
    builder: impl Fn() -> AgentBuilder,
) -> Stopped {
    let free = build(builder(), none()).run("Go.").await;
    assert_eq!(free.expect("nothing else stops it").text(), "Done.", "{limit:?}");

    let mut chat = build(builder(), rails).chat();
    let stopped = chat.send("Go.").await.expect_err("a limit is no answer");
    assert_eq!(stopped.outcome(), Outcome::Limit(limit), "{stopped}");
    assert_eq!(stopped.limit().map(|reached| reached.limit), Some(limit));
    assert!(stopped.transcript().sendable().is_ok());
    let reply = chat.send("And now?").await.expect("the conversation goes on");
    assert_eq!(reply.text(), "Done.");
    stopped
}

fn look(_: usize) -> ScriptedReply {
    reply().text("Hm. ").call("look", json!({}))
}

fn new_each_time() -> Tool {
    says("look", READ, |_, call| Ok(format!("view {call}")))
}

#[tokio::test]
async fn turns() {
    let builder =
        || Agent::builder(stubborn(6, |turn| look(turn).tokens(7, 3))).tools([new_each_time()]);
    let stopped = scenario(LimitKind::Turns, Guardrails::default().turns(4), builder).await;
    assert_eq!((stopped.turns(), stopped.text()), (4, "Hm. "));
    assert_eq!((stopped.usage().input, stopped.usage().output), (Some(28), Some(12)));
    assert_eq!(stopped.transcript().messages().len(), 9);
}

#[tokio::test]
async fn a_batch_that_would_pass_the_limit_of_calls_runs_nothing_of_it() {
    for effects in [READ, WRITE] {
        let log = Log::default();
        let builder = || {
            let four = |_| (0..4).fold(reply(), |said, _| said.call("work", json!({})));
            Agent::builder(stubborn(3, four)).tools([tool("work", effects, &log, Work::Steps(1))])
        };
        let rails = Rails(
            Guardrails::default().repetitions(None).repeated_calls(None),
            Limits::new().tool_calls(10),
        );
        let stopped = scenario(LimitKind::ToolCalls, rails, builder).await;
        // Twelve in the free run, and two batches of four in the other one.
        let begun = log.lines().iter().filter(|line| *line == "begin work").count();
        assert_eq!(begun, 12 + 8, "{effects}");
        let last = stopped.transcript().messages().last().expect("a message");
        let told: Vec<_> = last.results().map(|result| result.outcome()).collect();
        assert_eq!(told, [CallOutcome::NotStarted; 4]);
        let text = last.results().next().expect("a result").to_text();
        assert!(text.contains("reached its limit of tool calls"), "{text}");
        assert_eq!(
            stopped.to_string(),
            "the limit of tool calls was reached before the model had an answer (after 3 turns): \
             4 more were asked for, and 2 of 10 were left"
        );
    }
}

#[tokio::test]
async fn tokens() {
    let log = Log::default();
    let table = [
        (LimitKind::InputTokens, Limits::new().input_tokens(1000)),
        (LimitKind::OutputTokens, Limits::new().output_tokens(100)),
    ];
    for (limit, limits) in table {
        let builder = || {
            let work = |_| reply().call("work", json!({})).tokens(400, 40);
            Agent::builder(stubborn(5, work)).tools([tool("work", WRITE, &log, Work::Steps(0))])
        };
        let before = log.lines().len();
        let rails = Rails(Guardrails::default().repetitions(None).repeated_calls(None), limits);
        let stopped = scenario(limit, rails, builder).await;
        // The third answer passed the limit: its call does not run, for nobody could read it.
        assert_eq!(stopped.turns(), 3);
        assert_eq!(log.lines().len() - before, 2 * (5 + 2));
    }
}

/// A vendor may pause an answer, which then goes on in the next turn: no call stands between.
#[tokio::test]
async fn tokens_are_looked_at_before_each_turn_too() {
    let limits = [Limits::new().input_tokens(100), Limits::new().output_tokens(20)];
    for rails in limits.map(only) {
        let builder = || {
            let pauses = || reply().text("So,").tokens(50, 10).stop(StopReason::Paused);
            let last = || reply().text("Done.").tokens(1, 1);
            Agent::builder(ScriptedProvider::new([pauses(), pauses(), last()]))
        };
        assert_eq!(build(builder(), none()).run("Go.").await.map(|r| r.turns()).ok(), Some(3));
        let stopped = build(builder(), rails).run("Go.").await.expect_err("all of it is used");
        assert!(matches!(
            stopped.outcome(),
            Outcome::Limit(LimitKind::InputTokens | LimitKind::OutputTokens)
        ));
        assert_eq!(stopped.turns(), 2);
    }
}

#[tokio::test]
async fn cost() {
    let builder = || {
        let model = stubborn(5, |turn| look(turn).tokens(100_000, 10_000)).with_model("dear-1");
        let prices = Models::none().with("dear-*", Price::new(2.0, 10.0));
        Agent::builder(model).tools([new_each_time()]).models(prices)
    };
    // 0.2 for what is sent and 0.1 for what is said: 0.3 a turn.
    let rails = Rails(Guardrails::default(), Limits::new().cost(0.9));
    let stopped = scenario(LimitKind::Cost, rails, builder).await;
    assert_eq!((stopped.turns(), stopped.cost()), (3, Some(0.9)), "no cent is lost by rounding");
}

#[tokio::test]
async fn a_cost_that_nobody_knows_is_said_and_never_nothing() {
    let priced = Models::none().with("known", Price::new(1.0, 1.0));
    let table = [
        ("unpriced", Usage { input: Some(5), output: Some(5), ..Usage::default() }, "has no price"),
        ("known", Usage::default(), "does not say how many tokens"),
        ("known", Usage { input: Some(5), ..Usage::default() }, "does not say how many tokens"),
    ];
    for (model, usage, expected) in table {
        let model = stubborn(3, move |turn| look(turn).usage(usage)).with_model(model);
        let builder = Agent::builder(model).tools([new_each_time()]).models(priced.clone());
        let agent = build(builder, Rails(Guardrails::default(), Limits::new().cost(1e-3)));
        let mut said = Vec::new();
        let run = agent.run("Go.").on_event(|event| {
            if let Event::LimitUnknown { limit: LimitKind::Cost, scope: LimitScope::Run, detail } =
                event
            {
                said.push(detail.to_owned());
            }
        });
        let budget = run.budget();
        let reply = run.await.expect("an answer");
        assert_eq!((reply.cost(), reply.spent().cost), (None, None));
        assert_eq!(said.len(), 1, "once: {said:?}");
        assert!(said[0].contains(expected), "{said:?}");
        assert_eq!((budget.spent().cost, budget.left().cost), (None, None));
    }
}

#[tokio::test]
async fn tokens_that_nobody_counts_are_said_to_who_has_set_their_limit() {
    use LimitKind::{InputTokens, OutputTokens};
    let default = Limits::new;
    let whole = Usage { input: Some(5), output: Some(5), ..Usage::default() };
    let half = Usage { input: Some(5), ..Usage::default() };
    let none = Usage::default();
    let table: [(_, [Usage; 3], &[LimitKind]); 7] = [
        (default(), [none; 3], &[]),
        (default().input_tokens(900), [none; 3], &[InputTokens]),
        (default().output_tokens(900), [none; 3], &[OutputTokens]),
        (default().input_tokens(900).output_tokens(900), [none; 3], &[InputTokens, OutputTokens]),
        (default().input_tokens(900).output_tokens(900), [half; 3], &[OutputTokens]),
        (default().input_tokens(900), [whole; 3], &[]),
        (default().input_tokens(900), [whole, none, whole], &[InputTokens]),
    ];
    for (rails, usage, expected) in table {
        let model = stubborn(3, move |turn| look(turn).usage(usage[turn]));
        let rails = Rails(Guardrails::default(), rails);
        let agent = build(Agent::builder(model).tools([new_each_time()]), rails);
        let mut said = Vec::new();
        let run = agent.run("Go.").on_event(|event| {
            if let Event::LimitUnknown { limit, detail, .. } = event {
                assert!(detail.ends_with("does not say how many tokens it used"), "{detail}");
                said.push(limit);
            }
        });
        run.await.expect("an answer");
        assert_eq!(said, expected, "{usage:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn time_stops_a_model_that_does_not_end() {
    let builder = || {
        let slow = reply().text("I think. ").pause(Duration::from_secs(90)).text("Done.");
        Agent::builder(ScriptedProvider::new([slow, reply().text("Done.")]))
    };
    let free = build(builder(), none()).run("Go.").await.expect("an answer");
    assert_eq!(free.text(), "I think. Done.");

    let begun = tokio::time::Instant::now();
    let mut chat = build(builder(), Guardrails::default().time(Duration::from_secs(60))).chat();
    let mut near = None;
    let run = chat.send("Go.").on_event(|event| {
        if let Event::LimitNear { limit: LimitKind::Time, .. } = event {
            near = Some(begun.elapsed());
        }
    });
    let stopped = run.await.expect_err("a limit is no answer");
    assert_eq!(stopped.outcome(), Outcome::Limit(LimitKind::Time));
    assert_eq!(stopped.text(), "I think. \n\n[interrupted]");
    assert_eq!(begun.elapsed().as_secs(), 60);
    assert_eq!(near.map(|at| at.as_secs()), Some(48));
    assert_eq!(chat.send("And now?").await.expect("it goes on").text(), "Done.");
}

#[tokio::test(start_paused = true)]
async fn time_stops_a_tool_that_does_not_end() {
    let log = Log::default();
    let builder = || {
        let gate = Gate::new();
        let waits = tool("wait", WRITE, &log, Work::Gate(gate.clone()));
        let model = stubborn(1, |_| reply().call("wait", json!({})));
        (gate, Agent::builder(model).tools([waits]))
    };
    let (gate, free) = builder();
    gate.open();
    build(free, none()).run("Go.").await.expect("an answer");

    let (_, agent) = builder();
    let agent = build(agent, Guardrails::default().time(Duration::from_secs(5)));
    let stopped = agent.run("Go.").await.expect_err("a limit is no answer");
    assert_eq!(stopped.outcome(), Outcome::Limit(LimitKind::Time));
    let last = stopped.transcript().messages().last().expect("a message");
    assert_eq!(last.results().next().map(|r| r.outcome()), Some(CallOutcome::InDoubt));
}

#[tokio::test(start_paused = true)]
async fn the_time_in_which_a_person_decides_does_not_count() {
    let builder = || {
        let approver = |question: ApprovalRequest| async move {
            tokio::time::sleep(Duration::from_secs(600)).await;
            question.yes()
        };
        let slow = || reply().pause(Duration::from_secs(4)).call("look", json!({}));
        let model = ScriptedProvider::new([slow(), slow(), slow(), reply().text("Done.")]);
        let permissions = harness::Permissions::default().ask("look");
        Agent::builder(model).tools([new_each_time()]).approver(approver).permissions(permissions)
    };
    let rails = |seconds| Guardrails::default().time(Duration::from_secs(seconds));
    let begun = tokio::time::Instant::now();
    let mut near = Vec::new();
    let agent = build(builder(), rails(13));
    let run = agent.run("Go.").on_event(|event| {
        if let Event::LimitNear { .. } = event {
            near.push(begun.elapsed().as_millis());
        }
    });
    let budget = run.budget();
    run.await.expect("twelve seconds of its own");
    assert_eq!(near, [10_400 + 1_200_000], "in the third turn");
    assert_eq!(budget.left().time, Some(Duration::from_secs(1)));
    let stopped = build(builder(), rails(11)).run("Go.").await.expect_err("one too many");
    assert_eq!(stopped.outcome(), Outcome::Limit(LimitKind::Time));
}

#[tokio::test]
async fn failed_calls_in_a_row_whatever_their_names() {
    let names = ["lok", "see", "watch", "look", "peek", "glance"];
    let builder = || {
        let invents = move |turn: usize| reply().call_text(names[turn], format!("{{{turn}"));
        Agent::builder(stubborn(6, invents)).tools([new_each_time()])
    };
    let rails = Guardrails::default().failed_calls(4);
    let stopped = scenario(LimitKind::FailedCalls, rails.clone(), builder).await;
    assert_eq!(stopped.turns(), 4);

    let mends = move |turn: usize| {
        if turn % 3 == 2 { look(turn) } else { reply().call(names[turn % 2], json!({})) }
    };
    let builder = Agent::builder(stubborn(12, mends)).tools([new_each_time()]);
    build(builder, rails).run("Go.").await.expect("a call that succeeds begins the count again");
}

#[tokio::test]
async fn denied_calls_fail_too() {
    let builder = || {
        let permissions = harness::Permissions::default().deny("look", "not today");
        Agent::builder(stubborn(6, look)).tools([new_each_time()]).permissions(permissions)
    };
    scenario(LimitKind::FailedCalls, Guardrails::default().failed_calls(3), builder).await;
}

#[tokio::test]
async fn the_same_call_with_the_same_result_warns_and_then_stops() {
    let builder = || {
        // Order and spacing of the arguments make no other call of it.
        let same = |turn: usize| match turn % 2 {
            0 => reply().call_text("look", r#"{"a": 1, "b": [2]}"#),
            _ => reply().call_text("look", r#"{"b":[2],"a":1}"#),
        };
        Agent::builder(stubborn(6, same)).tools([says("look", READ, |_, _| Ok("nothing".into()))])
    };
    let stopped = scenario(LimitKind::Repetitions, Guardrails::default(), builder).await;
    assert_eq!(stopped.turns(), 3);
    let told: Vec<String> = stopped
        .transcript()
        .messages()
        .iter()
        .flat_map(|message| message.results())
        .map(|result| result.to_text())
        .collect();
    assert_eq!(told[0], "nothing");
    assert!(told[1].starts_with("nothing\nNote: you have had this very result"), "{}", told[1]);
    assert_eq!(told[2], "nothing");
    assert!(stopped.to_string().ends_with("`look` gave the same result 3 times"), "{stopped}");
}

#[tokio::test]
async fn two_calls_in_turn_are_a_loop_too() {
    let builder = || {
        let swings = |turn: usize| reply().call(["look", "see"][turn % 2], json!({}));
        let same = |name| says(name, READ, |_, _| Ok("nothing".into()));
        Agent::builder(stubborn(8, swings)).tools([same("look"), same("see")])
    };
    let stopped = scenario(LimitKind::Repetitions, Guardrails::default(), builder).await;
    assert_eq!(stopped.turns(), 6);
    // So are two calls of one tool, which are two things though it says the same to both.
    let builder = || {
        let swings = |turn: usize| reply().call("look", json!({"at": turn % 2}));
        Agent::builder(stubborn(8, swings)).tools([says("look", READ, |_, _| Ok("nothing".into()))])
    };
    let stopped = scenario(LimitKind::Repetitions, Guardrails::default(), builder).await;
    assert_eq!(stopped.turns(), 6);
}

#[tokio::test]
async fn the_same_error_from_varied_arguments_counts_too() {
    let builder = || {
        let varies = |turn: usize| reply().call("find", json!({"name": format!("name {turn}")}));
        let find = says("find", READ, |_, _| Err("the index is empty".into()));
        Agent::builder(stubborn(6, varies)).tools([find])
    };
    let stopped = scenario(LimitKind::Repetitions, Guardrails::default(), builder).await;
    assert_eq!(stopped.turns(), 3);
}

#[tokio::test]
async fn progress_begins_the_count_again_and_polling_is_let_alone() {
    let run = |say: fn(usize) -> String, does: fn(usize) -> ScriptedReply, rails: Guardrails| {
        let look = says("look", READ, move |_, call| Ok(say(call)));
        let tools = [look, says("write", WRITE, |_, call| Ok(format!("wrote {call}")))];
        let agent = build(Agent::builder(stubborn(10, does)).tools(tools), rails);
        async move { agent.run("Go.").await.map_err(|stopped| stopped.outcome()) }
    };
    let rails = || Guardrails::default().repeated_calls(None);
    let looks: fn(usize) -> ScriptedReply = |_| reply().call("look", json!({}));
    let changes = run(|call| format!("{}", call / 2), looks, rails()).await;
    changes.expect("every second result is new");
    let works: fn(usize) -> ScriptedReply = |turn| {
        let name = if turn % 2 == 0 { "look" } else { "write" };
        reply().call(name, json!({}))
    };
    run(|_| "same".into(), works, rails()).await.expect("what is done between is new");
    let twice: fn(usize) -> ScriptedReply = |turn| {
        let said = (0..4).fold(reply(), |said, _| said.call("look", json!({})));
        if turn < 2 { said } else { reply().text("Done.") }
    };
    run(|_| "same".into(), twice, rails()).await.expect("calls of one turn count once");
    run(|_| "same".into(), looks, rails().polling("look")).await.expect("it waits for something");
    let stops = run(|_| "same".into(), looks, rails()).await.expect_err("it goes in circles");
    assert_eq!(stops, Outcome::Limit(LimitKind::Repetitions));
}

#[tokio::test]
async fn a_warning_comes_once_at_four_fifths() {
    let model = stubborn(9, |turn| look(turn).tokens(100, 1));
    let rails = Rails(Guardrails::default().turns(10), Limits::new().input_tokens(1000));
    let agent = build(Agent::builder(model).tools([new_each_time()]), rails);
    let said = Mutex::new(Vec::new());
    let mut turns = 0;
    let run = agent.run("Go.").on_event(|event| match event {
        Event::TurnEnded { turn, .. } => turns = turn,
        Event::LimitNear { limit, detail, .. } => {
            said.lock().expect("unpoisoned").push((turns, limit, detail.to_owned()));
        }
        _ => {}
    });
    run.await.expect("an answer");
    let said = said.into_inner().expect("unpoisoned");
    assert_eq!(
        said,
        [
            (8, LimitKind::Turns, "80 % of the limit of turns are used".to_owned()),
            (8, LimitKind::InputTokens, "80 % of the limit of input tokens are used".to_owned()),
        ]
    );
}

#[tokio::test]
async fn every_limit_that_is_counted_is_near_at_four_fifths_and_not_before() {
    let guards = |rails: Guardrails| Rails(rails, Limits::unlimited());
    let limits = Limits::new;
    let table = [
        (LimitKind::Turns, guards(Guardrails::none().turns(10))),
        (LimitKind::ToolCalls, only(limits().tool_calls(10))),
        (LimitKind::InputTokens, only(limits().input_tokens(10_000_000))),
        (LimitKind::OutputTokens, only(limits().output_tokens(50))),
        (LimitKind::Cost, only(limits().cost(1.25))),
        (LimitKind::FailedCalls, guards(Guardrails::none().failed_calls(10))),
    ];
    let prices = Models::none().with("*", Price::new(0.125, 0.0));
    for (limit, rails) in table {
        for (times, expected) in [(7, 0), (8, 1), (9, 1)] {
            // The answer at the end is a turn too.
            let turns = if limit == LimitKind::Turns { times - 1 } else { times };
            let fails = says("look", READ, |_, call| Err(format!("nothing {call}")));
            let model = stubborn(turns, |turn| look(turn).tokens(1_000_000, 5));
            let builder = Agent::builder(model).tools([fails]).models(prices.clone());
            let agent = build(builder, rails.clone());
            let mut near = Vec::new();
            let run = agent.run("Go.").on_event(|event| {
                if let Event::LimitNear { limit, .. } = event {
                    near.push(limit);
                }
            });
            run.await.expect("an answer");
            assert_eq!(near, vec![limit; expected], "{times}");
        }
    }
    for (used, expected) in [(0, 0), (79, 0), (80, 1), (100, 1)] {
        let model = ScriptedProvider::new([reply().text("Done.").tokens(used, 1)]);
        let agent = build(Agent::builder(model), only(limits().input_tokens(100).tool_calls(0)));
        let mut near = 0;
        let run = agent.run("Go.").on_event(|event| {
            near += usize::from(matches!(event, Event::LimitNear { .. }));
        });
        run.await.expect("an answer");
        assert_eq!(near, expected, "{used} of 100 tokens, and no calls of none");
    }
}

#[tokio::test]
async fn warnings_begin_anew_with_each_run() {
    let usages = [Usage::default(), Usage { input: Some(9), ..Usage::default() }];
    let model = ScriptedProvider::answering(move |request: &RecordedRequest| {
        let first = request.messages().len() == 1;
        reply().text("Done.").usage(usages[usize::from(!first)])
    });
    let rails = Rails(Guardrails::none().turns(1), Limits::unlimited().input_tokens(10));
    let agent = build(Agent::builder(model), rails);
    let mut chat = agent.chat();
    let mut said = Vec::new();
    for run in 0..2 {
        let run = chat.send("Go.").on_event(|event| match event {
            Event::LimitNear { limit, .. } => said.push((run, "near", limit)),
            Event::LimitUnknown { limit, .. } => said.push((run, "unknown", limit)),
            _ => {}
        });
        run.await.expect("an answer");
    }
    let (near, unknown) = ("near", "unknown");
    assert_eq!(
        said,
        [
            (0, near, LimitKind::Turns),
            (0, unknown, LimitKind::InputTokens),
            (1, near, LimitKind::Turns),
            (1, near, LimitKind::InputTokens),
        ]
    );
}

#[tokio::test]
async fn an_answer_that_was_cut_off_has_cost_more_than_is_known() {
    let so_far = Usage { input: Some(70), output: Some(5), ..Usage::default() };
    let cut = reply().event(StreamEvent::UsageSoFar(so_far)).text("I think").cut();
    let model = ScriptedProvider::new([look(0).tokens(30, 5), cut]).with_model("known");
    let prices = Models::none().with("known", Price::new(1.0, 1.0));
    let builder = Agent::builder(model).tools([new_each_time()]).models(prices);
    let limits = Limits::new().cost(9.0).input_tokens(1000).output_tokens(6);
    let agent = build(builder, only(limits));
    let run = agent.run("Go.");
    let budget = run.budget();
    let stopped = run.await.expect_err("it broke off");
    let (spent, left) = (budget.spent(), budget.left());
    assert_eq!(spent.known_cost, 110.0 / 1e6, "what is known of it counts");
    assert_eq!((spent.usage.input, spent.usage.output), (Some(100), Some(10)));
    assert_eq!((stopped.usage(), stopped.cost()), (spent.usage, None));
    assert!(!spent.usage_is_whole);
    assert_eq!((left.input_tokens, left.output_tokens, left.cost), (Some(900), Some(0), None));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_too_long_has_failed_and_says_the_same_each_time() {
    let run = |does: fn(usize) -> ScriptedReply, rails: Guardrails| async move {
        let never = tool("look", READ, &Log::default(), Work::Gate(Gate::new()));
        let schema = json!({"type": "object", "additionalProperties": true});
        let also = Tool::new("find", "Finds.", schema, WRITE, |_, _| {
            Box::pin(std::future::pending::<Result<harness::ToolOutput, ToolError>>())
        });
        let limits = harness::ToolLimits::default().time(Duration::from_secs(2));
        let builder = Agent::builder(stubborn(6, does)).tools([never, also]).tool_limits(limits);
        let ended = build(builder, rails).run("Go.").await;
        ended.map(|reply| reply.turns()).map_err(|stopped| (stopped.outcome(), stopped.turns()))
    };
    let same: fn(usize) -> ScriptedReply = |_| reply().call("look", json!({}));
    let varies: fn(usize) -> ScriptedReply = |turn| reply().call("find", json!({"at": turn}));
    let none = Guardrails::none;
    for does in [same, varies] {
        let failed = Err((Outcome::Limit(LimitKind::FailedCalls), 4));
        assert_eq!(run(does, none().failed_calls(4)).await, failed);
    }
    assert_eq!(
        run(same, none().repetitions(3)).await,
        Err((Outcome::Limit(LimitKind::Repetitions), 3))
    );
    assert_eq!(run(varies, none().repetitions(3)).await, Ok(7), "our words, not the tool's");
}

#[tokio::test]
async fn what_is_the_same_is_told_by_tool_picture_and_count() {
    let run = |tools: Vec<Tool>, does: fn(usize) -> ScriptedReply, repetitions: u32| async move {
        let rails = Guardrails::none().repetitions(repetitions);
        let ended = build(Agent::builder(stubborn(6, does)).tools(tools), rails).run("Go.").await;
        ended.map(|reply| reply.turns()).map_err(|stopped| stopped.transcript().clone())
    };
    // The same words of two tools are two things.
    let swings: fn(usize) -> ScriptedReply =
        |turn| reply().call(["look", "see"][turn % 2], json!({"at": turn}));
    let fails = |name| says(name, READ, |_, _| Err("nothing there".into()));
    assert_eq!(run(vec![fails("look"), fails("see")], swings, 4).await.ok(), Some(7));

    let picture = |changes: bool| {
        let calls = AtomicUsize::new(0);
        let schema = json!({"type": "object"});
        Tool::new("look", "Looks.", schema, READ, move |_, _| {
            let call = calls.fetch_add(usize::from(changes), Ordering::SeqCst);
            let data = call.to_string().into_bytes();
            let content = ToolContent::Image(Media::from_bytes("image/png", data));
            Box::pin(async move { Ok(content.into()) })
        })
    };
    assert_eq!(run(vec![picture(true)], look, 3).await.ok(), Some(7), "each is another one");
    run(vec![picture(false)], look, 3).await.expect_err("it is the same one");

    // Who may hear a thing only once is not told that it was heard before.
    let same = says("look", READ, |_, _| Ok("nothing".into()));
    let stopped = run(vec![same], look, 2).await.expect_err("twice is too often");
    let told = stopped.messages().iter().flat_map(|m| m.results()).map(|r| r.to_text());
    assert_eq!(told.collect::<Vec<_>>(), ["nothing", "nothing"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_left_can_be_asked_from_outside_and_by_a_tool() {
    let seen = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&seen);
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": true});
    let ask = Tool::new("ask", "Asks.", schema, READ, move |context, _| {
        let budget = context.state::<Budget>().map(|budget| (*budget).clone());
        *kept.lock().expect("unpoisoned") = budget.as_ref().map(|budget| budget.left());
        Box::pin(async { Ok("asked".into()) })
    });
    let model =
        stubborn(1, |_| reply().pause(Duration::from_secs(2)).call("ask", json!({})).tokens(30, 4));
    let rails = Rails(
        Guardrails::none().turns(5).time(Duration::from_secs(10)),
        Limits::unlimited().tool_calls(9).input_tokens(100),
    );
    let agent = build(Agent::builder(model).tools([ask]).early_start(false), rails);
    let run = agent.run("Go.");
    let budget = run.budget();
    assert_eq!(budget.left().turns, Some(5));
    run.await.expect("an answer");

    let left = seen.lock().expect("unpoisoned").take().expect("the tool saw it");
    assert_eq!((left.turns, left.tool_calls, left.input_tokens), (Some(4), Some(8), Some(70)));
    assert_eq!((left.output_tokens, left.cost), (None, None));
    assert_eq!(left.time, Some(Duration::from_secs(8)));
    assert_eq!(left.to_string(), "4 turns, 8 tool calls, 70 input tokens, 8s");
    assert_eq!((budget.left().turns, budget.spent().tool_calls), (Some(3), 1));
}

#[tokio::test]
async fn the_turn_that_goes_on_is_counted_and_its_tokens_are_not() {
    let budget = Arc::new(Mutex::new(None::<Budget>));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (asked, kept) = (Arc::clone(&budget), Arc::clone(&seen));
    let model = ScriptedProvider::answering(move |request| {
        let budget = asked.lock().expect("unpoisoned").clone().expect("it was asked for");
        let (spent, left) = (budget.spent(), budget.left());
        kept.lock().expect("unpoisoned").push((spent.turns, left.turns, left.input_tokens));
        match request.messages().len() {
            1 => look(0).tokens(30, 4),
            _ => reply().text("Done.").tokens(40, 4),
        }
    });
    let rails = Rails(Guardrails::none().turns(5), Limits::unlimited().input_tokens(100));
    let agent = build(Agent::builder(model).tools([new_each_time()]), rails);
    let run = agent.run("Go.");
    *budget.lock().expect("unpoisoned") = Some(run.budget());
    run.await.expect("an answer");
    let expected = [(1, Some(4), Some(100)), (2, Some(3), Some(70))];
    assert_eq!(*seen.lock().expect("unpoisoned"), expected);
}

#[tokio::test]
async fn what_is_left_of_the_cost_and_of_tokens_that_nobody_counts() {
    let prices = Models::none().with("*", Price::new(0.125, 0.0));
    let rails = only(Limits::new().cost(1.0).input_tokens(12_000_000));
    let left = |turns: usize, usage: Usage| {
        let builder = Agent::builder(stubborn(turns, move |turn| look(turn).usage(usage)));
        let builder = builder.tools([new_each_time()]).models(prices.clone());
        let agent = build(builder, rails.clone());
        async move {
            let run = agent.run("Go.");
            let budget = run.budget();
            let before = (budget.left().cost, budget.left().input_tokens);
            assert_eq!(before, (Some(1.0), Some(12_000_000)), "before anything is spent");
            let _ = run.await;
            (budget.left().cost, budget.left().input_tokens)
        }
    };
    let told = |input| Usage { input: Some(input), output: Some(1), ..Usage::default() };
    let (cost, tokens) = left(2, told(2_000_000)).await;
    assert!(cost.is_some_and(|cost| (cost - 0.5).abs() < 1e-6), "{cost:?}");
    assert_eq!(tokens, Some(7_999_999));
    assert_eq!(
        left(1, told(9_000_000)).await,
        (Some(0.0), Some(3_000_000)),
        "never less than none"
    );
    let untold = ScriptedProvider::new([reply().text("Done.")]);
    let agent = build(Agent::builder(untold).models(prices.clone()), rails.clone());
    let run = agent.run("Go.");
    let budget = run.budget();
    run.await.expect("an answer");
    let left = budget.left();
    assert_eq!((left.cost, left.input_tokens), (None, None), "nobody knows");
}

#[tokio::test]
async fn every_run_begins_with_everything_still_to_spend() {
    let same = says("look", READ, |_, _| Ok("nothing".into()));
    let model = ScriptedProvider::answering(|request| {
        let asked = request.messages().iter().rev().take_while(|m| m.text() != "Go.").count();
        if asked < 4 { look(0).tokens(10, 1) } else { reply().text("Done.") }
    });
    let agent = build(Agent::builder(model).tools([same]), Guardrails::default().turns(3));
    let mut chat = agent.chat();
    for _ in 0..4 {
        chat.send("Go.").await.expect("three turns and two equal results are allowed");
    }
}

#[tokio::test]
async fn the_facts_say_which_limit_it_was_and_reading_them_again_gives_the_same() {
    let agent = build(
        Agent::builder(stubborn(9, |turn| look(turn).tokens(10, 1))).tools([new_each_time()]),
        Guardrails::default().turns(2),
    );
    let (mut chat, journal) = recorded(&agent);
    let stopped = chat.send("Go.").await.expect_err("a limit is no answer");

    let facts = entries(&journal);
    let cause = facts.iter().rev().find_map(|fact| match fact {
        Fact::Interrupted { cause, .. } => Some(cause.clone()),
        _ => None,
    });
    let detail = "the model was asked 2 times".to_owned();
    let scope = LimitScope::Run;
    assert_eq!(cause, Some(InterruptCause::Limit { limit: LimitKind::Turns, scope, detail }));

    let written = serde_json::to_string(&facts).expect("JSON");
    let read: Vec<Fact> = serde_json::from_str(&written).expect("the same");
    let mut machine = Machine::new();
    for fact in &read {
        machine.apply(fact).expect("it followed before");
    }
    assert_eq!(machine.next(), harness::agent::Action::Finish(Outcome::Limit(LimitKind::Turns)));
    assert_eq!(outline(machine.transcript().messages()), outline(stopped.transcript().messages()));
}

#[tokio::test]
async fn calls_start_early_only_while_enough_of_them_are_left() {
    let early = |calls: u32| async move {
        let gate = Gate::new();
        let log = Log::default();
        let model = ScriptedProvider::new([
            reply().call("look", json!({})).wait_for(&gate),
            reply().text("Done."),
        ]);
        let builder = Agent::builder(model).tools([tool("look", READ, &log, Work::Steps(0))]);
        let agent = build(builder, Rails(Guardrails::default(), Limits::new().tool_calls(calls)));
        let opener = async {
            gate.reached().await;
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            let begun = log.has("begin look");
            gate.open();
            begun
        };
        let (reply, begun) = tokio::join!(agent.run("Go.").into_future(), opener);
        reply.expect("an answer");
        begun
    };
    assert!(early(32).await, "it starts while the model still speaks");
    assert!(!early(31).await, "the answer may still ask for more than are left");
}

/// A turn is an answer of the model. What the program notes between two runs is none.
#[tokio::test]
async fn what_the_program_notes_and_settles_is_no_turn() {
    let model = ScriptedProvider::new([
        reply().call_with_id("a", "wait", json!({})).tokens(5, 5),
        reply().text("Done.").tokens(5, 5),
    ]);
    let wait = Tool::external("wait", "Waits.", json!({"type": "object"}), READ);
    let mut chat = Agent::builder(model).tools([wait]).build().expect("an agent").chat();
    let stopped = chat.send("Go.").await.expect_err("the call waits");
    assert_eq!((stopped.outcome(), chat.budget().spent().turns), (Outcome::Waiting, 1));
    let settled = chat.waiting()[0].succeeded("It has come.");
    chat.settle(settled).await.expect("settled");
    assert_eq!(chat.budget().spent().turns, 1);
    chat.resume().await.expect("an answer");
    assert_eq!(chat.budget().spent().turns, 2);
    chat.pin("It has come.").expect("pinned");
    assert_eq!(chat.budget().spent().turns, 2);
}
