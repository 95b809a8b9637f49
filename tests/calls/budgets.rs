//! Limits of amounts: of a run, of a conversation, of an agent and of everything that is called
//! below them. Limits nest, and each stop names the owner of its limit.

use std::{
    future::IntoFuture as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use harness::{
    Agent, CallOutcome, CancellationToken, ErrorKind, Event, FallbackProvider, Limits, Message,
    Outcome, SideEffects, State, Stopped, StreamEvent, Tool, ToolError, Usage,
    agent::AgentBuilder,
    journal::{Fact, InterruptCause, LimitKind, LimitScope, MemoryJournal},
    models::{Models, Price},
    policy::{ApprovalRequest, Budget, Guardrails},
    testing::{Gate, ScriptedProvider, ScriptedReply, reply},
    tool, tools,
};
use serde_json::json;

use crate::kept::{entries, recorded};
use crate::probe::{Log, READ, WRITE, Work};

/// A dollar for a million tokens sent, nothing for those said.
fn dollars() -> Models {
    Models::none().with("*", Price::new(1.0, 0.0))
}

fn limits() -> Limits {
    Limits::new()
}

/// A model that answers each question at once, for so many tokens sent.
fn answers(tokens: u64) -> ScriptedProvider {
    ScriptedProvider::answering(move |_| reply().text("Yes.").tokens(tokens, 10))
}

fn agent(model: &ScriptedProvider) -> AgentBuilder {
    let rails = Guardrails::none().calls_per_turn(32);
    Agent::builder(model.clone()).models(dollars()).guardrails(rails)
}

fn scope(stopped: &Stopped) -> (LimitScope, LimitKind) {
    let reached = stopped.limit().expect("a limit");
    assert_eq!(stopped.outcome(), Outcome::Limit(reached.limit));
    (reached.scope, reached.limit)
}

/// A tool that asks another agent, within the budget of the run that calls it.
#[tool(side_effects = "read")]
async fn ask(
    /** What is asked */
    question: String,
    other: State<Agent>,
    budget: State<Budget>,
) -> Result<String, ToolError> {
    match other.run(question).within(&budget).await {
        Ok(reply) => Ok(reply.text().to_owned()),
        Err(stopped) => Err(ToolError::new(stopped.to_string())),
    }
}

fn asks() -> ScriptedReply {
    reply().call("ask", json!({"question": "Well?"}))
}

// -- a conversation, an agent, a budget of the program

#[tokio::test]
async fn a_limit_of_money_holds_for_the_whole_conversation() {
    let model = answers(1_000_000);
    let agent = agent(&model).build().expect("an agent");
    let mut chat = agent.chat();
    chat.limits(limits().cost(1.5));
    for _ in 0..2 {
        chat.send("Go.").await.expect("not used up yet");
    }
    for _ in 0..3 {
        let stopped = chat.send("Go.").await.expect_err("used up");
        assert_eq!(scope(&stopped), (LimitScope::Conversation, LimitKind::Cost));
        assert_eq!(
            stopped.to_string(),
            "the limit of cost of the conversation was reached before the model had an answer: \
             2.0000 of 1.5000 was spent, in US dollars unless the prices are in another currency"
        );
    }
    assert_eq!(model.requests().len(), 2, "nobody was asked any more");
    assert_eq!(chat.budget().spent().cost, Some(2.0));
    assert_eq!(chat.budget().left().cost, Some(0.0));
    agent.chat().send("Go.").await.expect("another conversation has a limit of its own");

    // The sums go on with a run that is resumed, and a higher limit lets it.
    let stopped = chat.resume().await.expect_err("still used up");
    assert_eq!(scope(&stopped), (LimitScope::Conversation, LimitKind::Cost));
    chat.limits(limits().cost(3.0));
    assert_eq!(chat.resume().await.expect("a dollar is left").text(), "Yes.");
    assert_eq!(chat.budget().spent().cost, Some(3.0));
    chat.send("Go.").await.expect_err("used up again");
}

#[tokio::test]
async fn every_amount_can_be_limited_at_every_height() {
    let table = [
        (LimitKind::Cost, limits().cost(0.000_250)),
        (LimitKind::InputTokens, limits().input_tokens(250)),
        (LimitKind::OutputTokens, limits().output_tokens(25)),
        (LimitKind::ToolCalls, limits().tool_calls(2)),
    ];
    let looking = || {
        ScriptedProvider::answering(|request| match request.results().next() {
            None => reply().call("look", json!({})).tokens(60, 6),
            Some(_) => reply().text("Seen.").tokens(40, 4),
        })
    };
    let look = || crate::probe::tool("look", READ, &Log::default(), Work::Steps(0));
    for (limit, limits) in table {
        for height in [LimitScope::Conversation, LimitScope::Agent, LimitScope::Outer] {
            let model = looking();
            let builder = agent(&model).tools([look()]);
            let builder = match height {
                LimitScope::Agent => builder.limits(limits.clone()),
                _ => builder,
            };
            let agent = builder.build().expect("an agent");
            let outer = Budget::new(match height {
                LimitScope::Outer => limits.clone(),
                _ => Limits::new(),
            });
            let mut chat = agent.chat();
            if height == LimitScope::Conversation {
                chat.limits(limits.clone());
            }
            let mut ended = Vec::new();
            for _ in 0..4 {
                if height != LimitScope::Conversation {
                    chat = agent.chat();
                }
                ended.push(match chat.send("Go.").within(&outer).await {
                    Ok(_) => None,
                    Err(stopped) => Some(scope(&stopped)),
                });
            }
            let stop = Some((height, limit));
            assert_eq!(ended, [None, None, stop, stop], "{limit:?} of {height:?}");
            // What was spent is counted everywhere, limited or not.
            let spent = agent.budget().spent();
            assert_eq!(outer.spent(), spent);
            if height == LimitScope::Conversation {
                assert_eq!(chat.budget().spent(), spent);
            }
        }
    }
}

#[tokio::test]
async fn the_nearest_limit_is_named_and_what_is_left_is_the_least() {
    let model = answers(100);
    let agent = agent(&model).limits(limits().input_tokens(900)).build().expect("an agent");
    let mut chat = agent.chat();
    chat.limits(limits().input_tokens(500));
    let run = chat.send("Go.").limits(limits().input_tokens(300));
    let budget = run.budget();
    assert_eq!(budget.left().input_tokens, Some(300));
    run.await.expect("an answer");
    assert_eq!(budget.left().input_tokens, Some(200));
    assert_eq!(chat.send("Go.").budget().left().input_tokens, Some(400), "of the conversation");
    assert_eq!(agent.run("Go.").budget().left().input_tokens, Some(800), "of the agent");
    let small = Budget::new(limits().input_tokens(70));
    let budget = chat.send("Go.").within(&small).budget();
    assert_eq!(budget.left().input_tokens, Some(70), "of the budget around it");

    // All used up: the run's own is told.
    let used = limits().input_tokens(0);
    chat.limits(used.clone());
    let run = chat.send("Go.").limits(used.clone()).within(&Budget::new(used));
    let stopped = run.await.expect_err("used up");
    assert_eq!(scope(&stopped), (LimitScope::Run, LimitKind::InputTokens));
    assert_eq!(model.requests().len(), 1);
}

/// What the budgets around it have left says nothing of a budget of which nobody knows what is left.
#[tokio::test]
async fn what_is_left_is_unknown_if_it_is_for_the_run_whatever_is_left_around_it() {
    let model = ScriptedProvider::new([
        reply().text("Yes.").tokens(100, 10),
        // This answer does not say how many tokens it has cost.
        reply().text("Yes."),
    ]);
    let agent = agent(&model).limits(limits().input_tokens(900)).build().expect("an agent");
    let mut chat = agent.chat();
    chat.limits(limits().input_tokens(500));
    let run = chat.send("Go.").limits(limits().input_tokens(300));
    let budget = run.budget();
    run.await.expect("an answer");
    assert_eq!(budget.left().input_tokens, Some(200));
    let run = chat.send("Go.").limits(limits().input_tokens(300));
    let budget = run.budget();
    run.await.expect("an answer");
    assert_eq!(budget.left().input_tokens, None);
}

#[tokio::test]
async fn limits_of_a_run_replace_what_the_agent_says_and_only_what_they_name() {
    let model = ScriptedProvider::answering(|request| match request.messages().len() / 2 {
        9 => reply().text("Done."),
        _ => reply().call("look", json!({})).tokens(100, 10),
    });
    let look = crate::probe::tool("look", READ, &Log::default(), Work::Steps(0));
    let builder = agent(&model).tools([look]).run_limits(limits().tool_calls(3));
    let agent = builder.build().expect("an agent");
    let stop = |stopped: Stopped| scope(&stopped);
    assert_eq!(
        agent.run("Go.").await.map_err(stop).err(),
        Some((LimitScope::Run, LimitKind::ToolCalls))
    );
    let more = agent.run("Go.").limits(limits().tool_calls(20)).await;
    assert_eq!(more.expect("enough").text(), "Done.");
    let none = agent.run("Go.").limits(limits().tool_calls(None)).await;
    assert_eq!(none.expect("no limit").text(), "Done.");
    let other = agent.run("Go.").limits(limits().input_tokens(150)).limits(limits().cost(9.0));
    assert_eq!(other.await.map_err(stop).err(), Some((LimitScope::Run, LimitKind::InputTokens)));
    let other = agent.run("Go.").limits(limits().cost(9.0)).await;
    assert_eq!(
        other.map_err(stop).err(),
        Some((LimitScope::Run, LimitKind::ToolCalls)),
        "it stays"
    );
}

#[tokio::test]
async fn an_agent_for_which_nothing_was_set_is_protected_all_the_same() {
    let table = [
        (LimitKind::ToolCalls, 10, (0, 0), 101),
        (LimitKind::InputTokens, 1, (1_000_000, 1), 5),
        (LimitKind::OutputTokens, 1, (1, 100_000), 5),
    ];
    for (limit, calls, (input, output), stops_at) in table {
        let model = ScriptedProvider::answering(move |_| {
            let said = reply().tokens(input, output);
            (0..calls).fold(said, |said, _| said.call("look", json!({})))
        });
        let look = crate::probe::tool("look", READ, &Log::default(), Work::Steps(0));
        let rails = Guardrails::none().calls_per_turn(32);
        let agent =
            Agent::builder(model).tools([look]).guardrails(rails).build().expect("an agent");
        let stopped = agent.run("Go.").await.expect_err("a limit");
        assert_eq!(scope(&stopped), (LimitScope::Run, limit));
        let turns = u64::from(stopped.turns());
        assert_eq!(turns, if limit == LimitKind::ToolCalls { 11 } else { stops_at }, "{limit:?}");
        assert!(stopped.spent().tool_calls <= 100);
    }
}

#[test]
fn the_guardrails_that_nobody_has_set_are_those_of_the_docs() {
    let said = Guardrails::none()
        .turns(20)
        .calls_per_turn(32)
        .time(Duration::from_secs(3600))
        .failed_calls(10)
        .repetitions(3)
        .repeated_calls(10)
        .agents(64)
        .agent_depth(8);
    assert_eq!(Guardrails::default(), said);
}

#[test]
fn limits_are_plain_data() {
    let all = limits().tool_calls(7).input_tokens(None).output_tokens(9).cost(0.5);
    for limits in [all.clone(), limits(), Limits::unlimited(), all.refuse_unknown_cost()] {
        let written = serde_json::to_string(&limits).expect("JSON");
        assert_eq!(
            serde_json::from_str::<Limits>(&written).expect("the same"),
            limits,
            "{written}"
        );
    }
    assert_eq!(serde_json::to_string(&limits()).expect("JSON"), "{}");
    let over = limits().cost(None).over(&limits().cost(1.0).tool_calls(2));
    assert_eq!(over, limits().cost(None).tool_calls(2), "`None` says that there is no limit");
}

#[tokio::test]
async fn warnings_say_whose_limit_is_near_and_come_once_in_a_run() {
    let model = ScriptedProvider::answering(|_| reply().text("Yes.").tokens(45, 1));
    let agent = agent(&model).limits(limits().input_tokens(1_000)).build().expect("an agent");
    let mut chat = agent.chat();
    chat.limits(limits().input_tokens(100));
    let mut said = Vec::new();
    for run in 0..3 {
        let _ = chat
            .send("Go.")
            .on_event(|event| {
                if let Event::LimitNear { limit, scope, detail } = event {
                    said.push((run, scope, detail.to_owned()));
                    assert_eq!(limit, LimitKind::InputTokens);
                }
            })
            .await;
    }
    let near = "90 % of the limit of input tokens of the conversation are used".to_owned();
    let all = "135 % of the limit of input tokens of the conversation are used".to_owned();
    let of = LimitScope::Conversation;
    assert_eq!(said, [(1, of, near.clone()), (2, of, near), (2, of, all)][..2].to_vec());
}

#[tokio::test]
async fn of_limits_that_are_near_at_once_each_is_told() {
    let model = ScriptedProvider::answering(|_| reply().text("Yes.").tokens(45, 1));
    let agent = agent(&model).limits(limits().input_tokens(50)).build().expect("an agent");
    let mut chat = agent.chat();
    chat.limits(limits().input_tokens(50));
    chat.send("Go.").await.expect("an answer");
    let mut said = Vec::new();
    let run = chat.send("Go.").limits(limits().input_tokens(50)).on_event(|event| {
        if let Event::LimitNear { scope, .. } = event {
            said.push(scope);
        }
    });
    run.await.expect("an answer");
    assert_eq!(said, [LimitScope::Conversation, LimitScope::Agent, LimitScope::Run]);
}

// -- agents that tools call

#[tokio::test]
async fn what_an_agent_spends_that_a_tool_calls_is_part_of_the_sums() {
    let other = ScriptedProvider::new([
        reply().call("look", json!({})).tokens(4_000, 20),
        reply().text("42.").tokens(5_000, 30),
    ]);
    let look = crate::probe::tool("look", READ, &Log::default(), Work::Steps(0));
    let other = agent(&other).tools([look]).build().expect("an agent");
    let model = ScriptedProvider::new([asks().tokens(100, 5), reply().text("42.").tokens(200, 5)]);
    let builder = agent(&model).tools(tools![ask]).state(other.clone());
    let agent = builder.build().expect("an agent");
    let mut chat = agent.chat();
    let reply = chat.send("Go.").await.expect("an answer");

    assert_eq!((reply.usage().input, reply.usage().output), (Some(300), Some(10)), "its own");
    assert_eq!(reply.cost(), Some(0.0003));
    let spent = reply.spent();
    assert_eq!(
        (spent.usage.input, spent.usage.output),
        (Some(9_300), Some(60)),
        "with the other's"
    );
    assert_eq!((spent.tool_calls, spent.turns, spent.cost), (2, 4, Some(0.0093)));
    assert_eq!(chat.usage().input, Some(300));
    assert_eq!(chat.budget().spent(), spent);
    assert_eq!(agent.budget().spent(), spent);
    assert_eq!(other.budget().spent().usage.input, Some(9_000), "the other agent has only its own");
}

#[tokio::test]
async fn an_agent_that_calls_itself_is_counted_once() {
    let model = ScriptedProvider::answering(|request| match request.last_text().as_str() {
        "Go." => asks().tokens(10, 1),
        "Well?" => reply().text("Well.").tokens(100, 1),
        _ => reply().text("Done.").tokens(1_000, 1),
    });
    let itself: Arc<Mutex<Option<Agent>>> = Arc::default();
    let kept = Arc::clone(&itself);
    let tool = Tool::new("ask", "Asks.", json!({"type": "object"}), READ, move |context, _| {
        let agent = kept.lock().expect("unpoisoned").clone().expect("built");
        let budget = context.state::<Budget>().expect("the run's");
        Box::pin(async move {
            let reply = agent.run("Well?").within(&budget).await;
            let told = |stopped: Stopped| ToolError::new(stopped.to_string());
            reply.map(|reply| reply.text().into()).map_err(told)
        })
    });
    let agent = agent(&model).tools([tool]).limits(limits().input_tokens(1_110));
    let agent = agent.build().expect("an agent");
    *itself.lock().expect("unpoisoned") = Some(agent.clone());
    let reply = agent.run("Go.").await.expect("an answer");
    assert_eq!(reply.spent().usage.input, Some(1_110));
    assert_eq!(agent.budget().spent().usage.input, Some(1_110), "not twice");
    let stopped = agent.run("Go.").await.expect_err("used up");
    assert_eq!(scope(&stopped), (LimitScope::Agent, LimitKind::InputTokens));
    *itself.lock().expect("unpoisoned") = None;
}

#[tokio::test]
async fn the_limit_of_the_run_above_stops_the_agent_below_and_then_the_run() {
    let other = ScriptedProvider::answering(|_| reply().call("look", json!({})).tokens(400, 1));
    let look = crate::probe::tool("look", READ, &Log::default(), Work::Steps(0));
    let other_agent = agent(&other).tools([look]).build().expect("an agent");
    let model = ScriptedProvider::answering(|_| asks().tokens(100, 1));
    let builder = agent(&model).tools(tools![ask]).state(other_agent).early_start(false);
    let agent = builder.build().expect("an agent");
    let stopped = agent.run("Go.").limits(limits().input_tokens(1_000)).await.expect_err("used up");
    assert_eq!(scope(&stopped), (LimitScope::Run, LimitKind::InputTokens));
    // 100 of its own, and three answers of 400 below it: the third one passed the limit.
    assert_eq!((model.requests().len(), other.requests().len()), (1, 3));
    assert_eq!(stopped.spent().usage.input, Some(1_300));
    let told = stopped.transcript().messages().last().expect("results");
    let result = told.results().next().expect("a result");
    assert_eq!(result.outcome(), CallOutcome::Failed);
    let text = result.to_text();
    assert!(
        text.contains("the limit of input tokens of the outer budget was reached")
            && text.contains("1300 of 1000 were used: the limit of the run that called this one"),
        "{text}"
    );
}

#[tokio::test]
async fn a_limit_of_the_agent_below_stops_only_that_one() {
    let other = answers(400);
    let other = agent(&other).limits(limits().input_tokens(500)).build().expect("an agent");
    let model = ScriptedProvider::new([
        asks().tokens(10, 1),
        asks().tokens(10, 1),
        asks().tokens(10, 1),
        reply().text("Enough.").tokens(10, 1),
    ]);
    let agent = agent(&model).tools(tools![ask]).state(other).build().expect("an agent");
    let reply = agent.run("Go.").await.expect("an answer");
    let told: Vec<_> = reply
        .transcript()
        .messages()
        .iter()
        .flat_map(|message| message.results())
        .map(|result| result.outcome())
        .collect();
    assert_eq!(told, [CallOutcome::Succeeded, CallOutcome::Succeeded, CallOutcome::Failed]);
    assert_eq!(reply.spent().usage.input, Some(840));
}

/// What is left behind of an agent that did not come to its end is in the sums, to the token.
#[tokio::test(start_paused = true)]
async fn what_a_stopped_a_dropped_and_a_failed_run_below_has_spent_counts() {
    let so_far = Usage { input: Some(70), output: Some(5), ..Usage::default() };
    let begins = move || reply().event(StreamEvent::UsageSoFar(so_far)).text("I think");
    for way in ["stopped", "dropped", "failed", "timed out", "panicked"] {
        let second = if way == "failed" { begins().cut() } else { begins().stall() };
        let script = [reply().call("look", json!({})).tokens(30, 5), second];
        let other = ScriptedProvider::new(script).with_model("m");
        let look = crate::probe::tool("look", READ, &Log::default(), Work::Steps(0));
        let other = agent(&other).tools([look]).build().expect("an agent");
        let schema = json!({"type": "object"});
        let tool = Tool::new("ask", "Asks.", schema, READ, move |context, _| {
            let (other, budget) = (other.clone(), context.state::<Budget>().expect("the run's"));
            Box::pin(async move {
                let run = other.run("Well?").within(&budget);
                let soon = Duration::from_secs(1);
                match way {
                    "stopped" => {
                        let token = CancellationToken::new();
                        let stop = async {
                            tokio::time::sleep(soon).await;
                            token.cancel();
                        };
                        let run = run.cancel_with(token.clone()).into_future();
                        let (ended, ()) = tokio::join!(run, stop);
                        ended.expect_err("stopped");
                    }
                    "dropped" | "timed out" => {
                        let late = tokio::time::timeout(soon, run.into_future()).await;
                        late.expect_err("it does not end");
                    }
                    "panicked" => {
                        let run = run.on_event(|event| {
                            assert!(!matches!(event, Event::Text(_)), "the watcher fell");
                        });
                        run.await.expect("it fell");
                    }
                    _ => {
                        run.await.expect_err("it broke off");
                    }
                }
                Ok("That is all.".into())
            })
        });
        let model = ScriptedProvider::new([
            reply().call("ask", json!({})).tokens(1_000, 100),
            reply().text("Done.").tokens(2_000, 200),
        ]);
        let agent = agent(&model.with_model("m")).tools([tool]).build().expect("an agent");
        let reply = agent.run("Go.").await.unwrap_or_else(|stopped| panic!("{way}: {stopped}"));
        let spent = reply.spent();
        assert_eq!(spent.usage.input, Some(3_000 + 30 + 70), "{way}");
        assert_eq!(spent.usage.output, Some(300 + 5 + 5), "{way}");
        assert_eq!((spent.tool_calls, spent.turns), (2, 4), "{way}");
        assert!(!spent.usage_is_whole && spent.cost.is_none(), "{way}: it has cost more");
        assert_eq!(spent.known_cost, 0.0031, "{way}");
        assert_eq!(reply.cost(), Some(0.003), "{way}: the run's own is known");
        assert_eq!(agent.budget().spent(), spent, "{way}");
    }
}

#[tokio::test]
async fn a_run_that_is_dropped_takes_the_agents_below_with_it_and_knows_what_they_have_spent() {
    let so_far = Usage { input: Some(70), output: Some(5), ..Usage::default() };
    for early in [true, false] {
        let gate = Gate::new();
        let below = reply().event(StreamEvent::UsageSoFar(so_far)).text("Hm").wait_for(&gate);
        let other = agent(&ScriptedProvider::new([below])).build().expect("an agent");
        // The call starts early: the model above still speaks.
        let speaks = Gate::new();
        let said = reply().event(StreamEvent::UsageSoFar(so_far));
        let said = match early {
            true => said.call("ask", json!({"question": "Well?"})).wait_for(&speaks),
            false => said.call("ask", json!({"question": "Well?"})).tokens(70, 5),
        };
        let builder = agent(&ScriptedProvider::new([said])).tools(tools![ask]).state(other.clone());
        let agent = builder.build().expect("an agent");
        let mut chat = agent.chat();
        let mut run = chat.send("Go.").into_future();
        tokio::select! {
            ended = &mut run => panic!("it was not to end: {ended:?}"),
            () = gate.reached() => {}
        }
        drop(run);
        assert_eq!(other.budget().spent().usage.input, Some(70));
        assert_eq!(chat.budget().spent().usage.input, Some(140), "early: {early}");
        assert_eq!(chat.budget().spent().tool_calls, 1, "early: {early}");
        assert_eq!(agent.budget().spent(), chat.budget().spent());
    }
}

#[tokio::test]
async fn agents_that_run_at_the_same_time_may_each_answer_once_more_and_no_longer() {
    // Three are asked at once, and each is on its way when the first answer uses all up.
    let gates = [Gate::new(), Gate::new(), Gate::new()];
    let mine = gates.clone();
    let other = ScriptedProvider::answering(move |request| {
        let which = request.messages()[0].text();
        match (request.results().next(), which.parse::<usize>()) {
            (None, Ok(which)) => {
                reply().wait_for(&mine[which]).call("look", json!({})).tokens(1_000, 1)
            }
            _ => reply().text("Never asked.").tokens(1_000, 1),
        }
    });
    let log = Log::default();
    let look = crate::probe::tool("look", WRITE, &log, Work::Steps(0));
    let other_agent = agent(&other)
        .tools([look])
        .permissions(harness::Permissions::allow_all())
        .build()
        .expect("an agent");
    let asks = (0..3).fold(reply(), |said, which: usize| {
        said.call("ask", json!({"question": which.to_string()}))
    });
    let model = ScriptedProvider::new([asks.tokens(1, 1), reply().text("Never said.")]);
    let agent = agent(&model).tools(tools![ask]).state(other_agent).build().expect("an agent");
    let opener = async {
        for gate in &gates {
            gate.reached().await;
        }
        for gate in &gates {
            gate.open();
        }
    };
    let run = agent.run("Go.").limits(limits().input_tokens(900)).into_future();
    let (ended, ()) = tokio::join!(run, opener);
    let stopped = ended.expect_err("used up");
    assert_eq!(scope(&stopped), (LimitScope::Run, LimitKind::InputTokens));
    assert_eq!(stopped.spent().usage.input, Some(3_001), "one answer each");
    assert_eq!((other.requests().len(), model.requests().len()), (3, 1));
    assert_eq!(log.lines(), Vec::<String>::new(), "and none of their calls");
}

/// However many agents call tools at the same time, on several threads, no more calls run than may.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_never_pass_a_limit_that_several_agents_share() {
    for round in 0..20 {
        let log = Log::default();
        let other = ScriptedProvider::answering(|request| match request.messages().len() / 2 {
            3 => reply().text("Done."),
            _ => reply().call("look", json!({})).call("look", json!({})),
        });
        let look = crate::probe::tool("look", READ, &log, Work::Steps(3));
        let other = agent(&other).tools([look]).build().expect("an agent");
        let budget = Budget::new(limits().tool_calls(17));
        let runs: Vec<_> =
            (0..6).map(|_| tokio::spawn(other.run("Go.").within(&budget).into_future())).collect();
        let mut stops = 0;
        for run in runs {
            if let Err(stopped) = run.await.expect("it does not panic") {
                assert_eq!(scope(&stopped), (LimitScope::Outer, LimitKind::ToolCalls));
                stops += 1;
            }
        }
        let begun = log.lines().iter().filter(|line| *line == "begin look").count();
        assert!(begun <= 17, "round {round}: {begun} ran");
        assert_eq!(budget.spent().tool_calls as usize, begun, "round {round}");
        assert!(stops > 0, "36 calls were wanted");
        assert_eq!(budget.left().tool_calls, Some(u32::try_from(17 - begun).expect("few")));
    }
}

#[tokio::test]
async fn calls_that_do_not_run_in_the_end_are_left_to_others() {
    for stops in [false, true] {
        let model = ScriptedProvider::new([
            reply().call("look", json!({})).call("look", json!({})).call("look", json!({})),
            reply().text("Then not."),
        ]);
        let look = crate::probe::tool("look", READ, &Log::default(), Work::Steps(0));
        let denied = harness::Permissions::default().deny("look", "not today");
        let denied = if stops { denied.stop_on_denial() } else { denied };
        let builder = agent(&model).tools([look]).permissions(denied);
        let agent = builder.limits(limits().tool_calls(3)).build().expect("an agent");
        let mut chat = agent.chat();
        let ended = chat.send("Go.").await;
        assert_eq!(ended.is_err(), stops);
        // The conversation goes on to exist.
        assert_eq!(agent.budget().spent().tool_calls, 0, "stops: {stops}");
        assert_eq!(agent.budget().left().tool_calls, Some(3), "stops: {stops}");
        drop(chat);
    }
}

// -- a cost that nobody knows

#[tokio::test]
async fn a_model_without_a_price_is_refused_before_it_is_asked() {
    let strict = || limits().cost(5.0).refuse_unknown_cost();
    let model = answers(10).with_model("house-blend");
    let unpriced = || Agent::builder(model.clone()).guardrails(Guardrails::none());
    let heights = [
        (LimitScope::Run, unpriced().run_limits(strict()), Limits::new()),
        (LimitScope::Agent, unpriced().limits(strict()), Limits::new()),
        (LimitScope::Conversation, unpriced(), strict()),
        (LimitScope::Run, unpriced().run_limits(limits().refuse_unknown_cost()), Limits::new()),
    ];
    for (height, builder, of_chat) in heights {
        let (mut chat, journal) = recorded(&builder.build().expect("an agent"));
        chat.limits(of_chat);
        let stopped = chat.send("Go.").await.expect_err("nobody knows what it costs");
        assert_eq!(scope(&stopped), (height, LimitKind::UnknownCost));
        assert_eq!(
            stopped.to_string(),
            "nobody knows what the model costs, and that is refused: `house-blend` of scripted has \
             no price; give it one with `AgentBuilder::models`, as in `Models::default().with(\
             \"house-blend\", Price::new(input, output))`"
        );
        assert!(stopped.transcript().sendable().is_ok());
        let fact = entries(&journal).pop();
        assert!(
            matches!(&fact, Some(Fact::Interrupted { cause: InterruptCause::Limit { scope, .. }, .. })
                if *scope == height),
            "it is a fact: {fact:?}"
        );
    }
    assert_eq!(model.requests().len(), 0);

    // The way out that the error names.
    let priced = unpriced().models(Models::default().with("house-blend", Price::new(1.0, 2.0)));
    let reply = priced.run_limits(strict()).build().expect("an agent").run("Go.").await;
    assert_eq!(reply.expect("an answer").cost(), Some(0.000_03));
    // And without the demand, the limit holds as far as it can.
    let lenient = unpriced().run_limits(limits().cost(5.0)).build().expect("an agent");
    assert_eq!(lenient.run("Go.").await.expect("an answer").cost(), None);
}

#[tokio::test]
async fn a_fallback_without_a_price_is_stopped_before_the_next_request() {
    let first = ScriptedProvider::answering(|_| reply().overloaded()).with_model("known");
    let second = ScriptedProvider::answering(|request| match request.results().next() {
        None => reply().call("look", json!({})).tokens(5, 5),
        Some(_) => reply().text("Done.").tokens(5, 5),
    });
    let second = second.with_model("unknown").with_name("other");
    let log = Log::default();
    let look = crate::probe::tool("look", WRITE, &log, Work::Steps(0));
    let agent = Agent::builder(FallbackProvider::new(first).or(second.clone()))
        .tools([look])
        .permissions(harness::Permissions::allow_all())
        .models(Models::none().with("known", Price::new(1.0, 1.0)))
        .run_limits(limits().cost(5.0).refuse_unknown_cost())
        .build()
        .expect("an agent");
    let stopped = agent.run("Go.").await.expect_err("nobody knows what the second one costs");
    assert_eq!(scope(&stopped), (LimitScope::Run, LimitKind::UnknownCost));
    assert!(stopped.to_string().contains("`unknown` of other has no price"), "{stopped}");
    assert_eq!(second.requests().len(), 1);
    assert_eq!(log.lines(), Vec::<String>::new(), "its calls do not run either");
}

#[tokio::test]
async fn a_server_that_counts_no_tokens_is_refused_after_its_first_answer() {
    let model = ScriptedProvider::answering(|_| reply().text("Yes.")).with_model("known");
    let agent = agent(&model).build().expect("an agent");
    let mut chat = agent.chat();
    chat.limits(limits().refuse_unknown_cost());
    chat.send("Go.").await.expect("nobody could know");
    let stopped = chat.send("Go.").await.expect_err("now it is known that nobody knows");
    assert_eq!(scope(&stopped), (LimitScope::Conversation, LimitKind::UnknownCost));
    assert!(stopped.to_string().contains("does not say how many tokens"), "{stopped}");
}

#[tokio::test]
async fn a_stop_in_the_middle_of_an_answer_is_no_reason_to_refuse_the_next_one() {
    let so_far = Usage { input: Some(70), ..Usage::default() };
    let begins = reply().event(StreamEvent::UsageSoFar(so_far)).text("I think").cut();
    let model = ScriptedProvider::new([begins, reply().text("Yes.").tokens(30, 1)]);
    let agent = agent(&model).build().expect("an agent");
    let mut chat = agent.chat();
    chat.limits(limits().cost(1.0).refuse_unknown_cost());
    chat.send("Go.").await.expect_err("it broke off");
    chat.resume().await.expect("it goes on");
    let spent = chat.budget().spent();
    assert_eq!((spent.cost, spent.known_cost), (None, 0.0001), "a lower bound");
}

#[tokio::test]
async fn an_agent_below_whose_cost_nobody_knows_is_refused_by_the_one_above() {
    let other = answers(10).with_model("unpriced");
    let below = Agent::builder(other.clone()).models(Models::none()).build().expect("an agent");
    let model =
        ScriptedProvider::new([asks().tokens(1, 1), reply().text("Then not.").tokens(1, 1)]);
    let agent = agent(&model.with_model("priced")).tools(tools![ask]).state(below);
    let agent = agent.run_limits(limits().refuse_unknown_cost()).build().expect("an agent");
    let reply = agent.run("Go.").await.expect("an answer");
    assert_eq!((reply.text(), other.requests().len()), ("Then not.", 0));
    assert_eq!(reply.cost(), Some(0.000_002));
}

#[tokio::test]
async fn a_call_that_has_waited_does_not_run_if_others_took_what_was_left() {
    for taken in [true, false] {
        let ran = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&ran);
        let pay = Tool::new("pay", "Pays.", json!({"type": "object"}), SideEffects::ALL, {
            move |_, _| {
                count.fetch_add(1, Ordering::Relaxed);
                Box::pin(async { Ok("Paid.".into()) })
            }
        });
        let model = ScriptedProvider::answering(|request| match request.results().next() {
            Some(result) => reply().text(result.to_text()),
            None => reply().call("pay", json!({})),
        });
        let later = |question: ApprovalRequest| async move { question.later(None) };
        let agent = Agent::builder(model).tools([pay]).approver(later).build().expect("an agent");
        let (journal, budget) = (MemoryJournal::new(), Budget::new(limits().tool_calls(1)));
        let mut chat = agent.open(&journal, "chat").await.expect("opened");
        chat.send("Go.").within(&budget).await.unwrap_err();
        if taken {
            let yes = |question: ApprovalRequest| async move { question.yes() };
            agent.run("Go.").approver("ada", yes).within(&budget).await.expect("an answer");
        }
        let question = chat.waiting()[0].question().expect("a question");
        chat.decide(question.yes()).await.expect("written");
        let ended = chat.resume().within(&budget).await;
        assert_eq!(ran.load(Ordering::Relaxed), 1);
        assert_eq!(budget.spent().tool_calls, 1);
        match taken {
            true => {
                let stopped = ended.unwrap_err();
                assert_eq!(stopped.outcome(), Outcome::Limit(LimitKind::ToolCalls));
                let results = stopped.transcript().messages().iter().flat_map(Message::results);
                let outcomes: Vec<CallOutcome> = results.map(|it| it.outcome()).collect();
                assert_eq!(outcomes, [CallOutcome::NotStarted]);
            }
            false => assert_eq!(ended.expect("an answer").text(), "Paid."),
        }
    }
}

#[tokio::test]
async fn a_cost_that_is_no_amount_begins_nothing() {
    for cost in [-1.0, f64::NAN, f64::NEG_INFINITY] {
        let wrong = || limits().cost(cost);
        let model = answers(1);
        let builders = [agent(&model).limits(wrong()), agent(&model).run_limits(wrong())];
        for builder in builders {
            assert_eq!(builder.build().unwrap_err().kind(), ErrorKind::Configuration);
        }
        let agent = agent(&model).build().expect("an agent");
        let budget = Budget::new(wrong());
        let mut chat = agent.chat();
        chat.limits(wrong());
        for ended in [
            agent.run("Go.").limits(wrong()).await,
            agent.run("Go.").within(&budget).await,
            chat.send("Go.").await,
        ] {
            let stopped = ended.unwrap_err();
            let error = stopped.error().expect("an error");
            assert_eq!(error.kind(), ErrorKind::Configuration);
            assert!(error.to_string().contains("`Limits::cost(0.50)`"), "{error}");
        }
        assert_eq!(model.requests().len(), 0, "{cost}");
        chat.limits(limits().cost(f64::INFINITY));
        chat.send("Go.").await.expect("an answer");
    }
}
