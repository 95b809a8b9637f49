//! Agents as tools: what they declare, what they take from their caller, what they return, and what
//! is left when they are stopped.

use std::{
    future::IntoFuture as _,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::FutureExt as _;
use harness::{
    Agent, CallOutcome, Event, Guardrails, Limits, Outcome, Permissions, SideEffect, SideEffects,
    State, Tool, ToolContext, ToolError,
    agent::AgentBuilder,
    journal::{ConversationQuery, Journal, LimitKind, MemoryJournal},
    policy::{ApprovalRequest, RuleDecision},
    testing::{Gate, RecordedRequest, ScriptedProvider, ScriptedReply, reply},
    tool, tools,
};
use serde_json::json;

use crate::kept::{CHAT, entries, kept_in};
use crate::probe::{Log, MUTATE, READ, WRITE, Work, tool as probe};

/// Says this.
fn says(text: &'static str) -> ScriptedProvider {
    ScriptedProvider::answering(move |_| reply().text(text).tokens(100, 10))
}

/// Makes these calls, each once, and then answers with all that it has read.
pub(crate) fn calls(names: &'static [&'static str]) -> ScriptedProvider {
    ScriptedProvider::answering(move |request| once(request, names))
}

fn once(request: &RecordedRequest, names: &[&str]) -> ScriptedReply {
    match request.results().next() {
        None => {
            let ask = |it: ScriptedReply, (n, name): (usize, &&str)| {
                it.call_with_id(format!("c{n}"), *name, json!({"task": format!("task {n}")}))
            };
            names.iter().enumerate().fold(reply(), ask).tokens(100, 10)
        }
        Some(_) => {
            let read: Vec<String> = request.results().map(|result| result.to_text()).collect();
            reply().text(read.join(" | ")).tokens(100, 10)
        }
    }
}

/// A tool of any arguments that does nothing and declares this.
fn declares(name: &'static str, effects: SideEffects) -> Tool {
    Tool::new(name, "Does it.", json!({"type": "object"}), effects, move |_, _| {
        Box::pin(async move { Ok(format!("{name} is done").into()) })
    })
}

fn agent(model: ScriptedProvider) -> AgentBuilder {
    Agent::builder(model)
}

#[test]
fn an_agent_declares_all_that_its_tools_declare() {
    let effects = |all: &[SideEffects]| {
        let names = ["a", "b", "c"];
        let tools = names.iter().zip(all).map(|(name, effects)| declares(name, *effects));
        let agent = agent(says("")).tools(tools).build().expect("an agent");
        let outer = agent.as_tool("agent", "It works.");
        let above = self::agent(says("")).tools([outer.clone()]).build().expect("an agent");
        assert_eq!(above.as_tool("above", "Works.").side_effects(), outer.side_effects());
        outer.side_effects()
    };
    let network = SideEffects::of(&[SideEffect::Network]);
    // Each set of side effects, beside each other one.
    let sets: Vec<SideEffects> = (0..16_u8)
        .map(|bits| {
            let has = |(n, _): &(usize, SideEffect)| bits & (1 << n) != 0;
            let all: Vec<SideEffect> =
                SideEffect::ALL.into_iter().enumerate().filter(has).map(|(_, it)| it).collect();
            SideEffects::of(&all)
        })
        .collect();
    for one in &sets {
        for other in &sets {
            let union = effects(&[*one, *other]);
            for effect in SideEffect::ALL {
                assert_eq!(union.has(effect), one.has(effect) || other.has(effect));
            }
        }
    }
    assert_eq!(effects(&[]), SideEffects::NONE);
    assert_eq!(effects(&[READ, network]).to_string(), "read, network");
    assert_eq!(effects(&[READ, WRITE, MUTATE]).to_string(), "read, write, mutate");
}

/// How many calls have begun before the first one ends.
async fn side_by_side(effects: SideEffects) -> usize {
    let (log, gate) = (Log::default(), Gate::new());
    let inner = probe("work", effects, &log, Work::Gate(gate.clone()));
    let inner =
        Tool::new("work", "Works.", json!({"type": "object"}), effects, move |context, _| {
            let (tool, context) = (inner.clone(), context);
            Box::pin(async move { tool.call(&context, json!({})).await })
        });
    let allow = || Permissions::allow_all();
    let worker = agent(calls(&["work"])).tools([inner]).permissions(allow()).build();
    let worker = worker.expect("an agent");
    let lead = agent(calls(&["worker", "worker", "worker"]))
        .tools([worker.as_tool("worker", "Works.")])
        .permissions(allow())
        .build()
        .expect("an agent");
    let mut run = Box::pin(lead.run("Go.").into_future());
    let mut begun = 0;
    for _ in 0..100 {
        assert!(run.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
        begun = log.lines().len();
    }
    gate.open();
    assert!(run.await.is_ok());
    begun
}

#[tokio::test]
async fn agents_that_only_read_run_side_by_side_and_others_alone() {
    assert_eq!(side_by_side(READ).await, 3);
    assert_eq!(side_by_side(SideEffects::NONE).await, 3);
    assert_eq!(side_by_side(WRITE).await, 1);
    assert_eq!(side_by_side(MUTATE).await, 1);
}

#[tokio::test]
async fn an_agent_does_not_start_early() {
    let reader = agent(says("It is 42.")).build().expect("an agent");
    let model = ScriptedProvider::new([
        reply().call("look", json!({})).call("read", json!({"task": "Read."})).text("Let me see."),
        reply().text("42."),
    ]);
    let lead = agent(model)
        .tools([declares("look", READ), reader.as_tool("read", "Reads.")])
        .build()
        .expect("an agent");
    let mut early = Vec::new();
    let mut ended = false;
    let run = lead.run("Go.").on_event(|event| match event {
        Event::TurnEnded { .. } => ended = true,
        Event::ToolCall(call) => early.push((call.name().to_owned(), !ended)),
        _ => {}
    });
    run.await.expect("an answer");
    assert_eq!(early, [("look".to_owned(), true), ("read".to_owned(), false)]);
}

#[tokio::test]
async fn what_an_agent_spends_is_spent_by_its_caller_to_the_token() {
    let worker = agent(calls(&["look"])).tools([declares("look", READ)]).build().expect("an agent");
    let lead = agent(calls(&["work", "work"]))
        .tools([worker.as_tool("work", "Works.")])
        .build()
        .expect("an agent");
    let journal = MemoryJournal::new();
    let mut chat = kept_in(&lead, &journal);
    let reply = chat.send("Go.").await.expect("an answer");
    assert_eq!(reply.text(), "look is done | look is done");
    // Two turns of its own, and two of each agent.
    assert_eq!(reply.usage().input, Some(200));
    let spent = reply.spent();
    assert_eq!((spent.usage.input, spent.usage.output), (Some(600), Some(60)));
    assert_eq!((spent.turns, spent.tool_calls), (6, 4));
    let sum = chat.budget().spent();
    drop(chat);
    // Read again, the sum is the same.
    assert_eq!(kept_in(&lead, &journal).budget().spent(), sum);
    assert_eq!(sum.usage.input, Some(600));
    // Each agent has a conversation of its own, which belongs to the caller's.
    let children =
        journal.list(&ConversationQuery::new().parent(CHAT)).await.expect("a page").conversations;
    let mut names: Vec<&str> = children.iter().map(|it| it.id.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["chat/c0", "chat/c1"]);
    assert!(journal.delete(CHAT).await.expect("it is deleted"));
    assert!(
        journal.list(&ConversationQuery::new()).await.expect("a page").conversations.is_empty()
    );
    assert!(entries(&journal).is_empty());
}

/// An agent that makes one call of `pay`, which cannot be taken back.
fn payer(permissions: Permissions) -> Agent {
    let pays = agent(calls(&["pay"])).tools([declares("pay", MUTATE)]);
    pays.permissions(permissions).build().expect("an agent")
}

/// What becomes of a call two agents below, by the rules at each level.
async fn decided(
    top: Permissions,
    run: Permissions,
    middle: Permissions,
    deep: Permissions,
) -> String {
    let deep = payer(deep);
    let middle_agent = agent(calls(&["deep"])).tools([deep.as_tool("deep", "Works.")]);
    let middle_agent = middle_agent.permissions(middle).build().expect("an agent");
    let lead = agent(calls(&["middle"])).tools([middle_agent.as_tool("middle", "Works.")]);
    let lead = lead.permissions(top).build().expect("an agent");
    let reply = lead.run("Go.").permissions(run).await.expect("an answer");
    reply.text().to_owned()
}

#[tokio::test]
async fn each_call_inside_is_decided_by_the_rules_of_all_levels_and_the_strictest_wins() {
    let none = Permissions::default;
    let allow = || Permissions::default().allow("pay");
    let deny = || Permissions::default().deny("pay", "no money");
    let ask = || Permissions::default().ask("pay");
    let rule = || {
        Permissions::default().rule("thrift", |call| {
            call.effects.has(SideEffect::Mutate).then(|| RuleDecision::Deny("no money".to_owned()))
        })
    };
    let (paid, asked, denied) = ("pay is done", "nobody to ask", "no money");
    let table: [([Permissions; 4], &str); 12] = [
        // The side effects ask at the call inside, not at those of the agents.
        ([none(), none(), none(), none()], asked),
        ([none(), none(), none(), allow()], paid),
        ([allow(), none(), none(), none()], paid),
        ([none(), allow(), none(), none()], paid),
        ([none(), none(), allow(), none()], paid),
        ([deny(), none(), none(), allow()], denied),
        ([none(), deny(), allow(), allow()], denied),
        ([allow(), allow(), deny(), allow()], denied),
        ([allow(), allow(), allow(), deny()], denied),
        ([ask(), none(), none(), allow()], asked),
        ([Permissions::allow_all(), none(), none(), none()], paid),
        ([Permissions::allow_all(), none(), none(), rule()], denied),
    ];
    for (n, ([top, run, middle, deep], expected)) in table.into_iter().enumerate() {
        let text = decided(top, run, middle, deep).await;
        assert!(text.contains(expected), "{n}: {text}");
    }
    // The agent itself is asked about only if a rule names it; a rule sees its side effects.
    for (top, expected) in [
        (none().ask("middle").allow("pay"), asked),
        (none().deny("middle", "not this one").allow("pay"), "not this one"),
        (rule(), denied),
    ] {
        let text = decided(top, none(), none(), allow()).await;
        assert!(text.contains(expected), "{text}");
    }
}

#[tokio::test]
async fn a_question_goes_to_the_approver_of_the_caller_with_the_way_to_it() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let ada = move |question: ApprovalRequest| {
        seen.lock().expect("unpoisoned").push((question.tool.clone(), question.agents.clone()));
        async move { question.yes() }
    };
    let never =
        |question: ApprovalRequest| async move { question.no("the wrong person was asked") };
    let deep = agent(calls(&["pay"])).tools([declares("pay", MUTATE)]).approver(never);
    let deep = deep.build().expect("an agent");
    let middle = agent(calls(&["deep"])).tools([deep.as_tool("deep", "Works.")]);
    let middle = middle.approver(never).build().expect("an agent");
    let lead = agent(calls(&["middle"])).tools([middle.as_tool("middle", "Works.")]);
    let lead = lead.approver(never).build().expect("an agent");
    let reply = lead.run("Go.").approver("ada", ada).await.expect("an answer");
    assert_eq!(reply.text(), "pay is done");
    let way = vec!["middle".to_owned(), "deep".to_owned()];
    assert_eq!(*asked.lock().expect("unpoisoned"), [("pay".to_owned(), way)]);
}

#[tokio::test(start_paused = true)]
async fn the_time_in_which_a_person_decides_does_not_count_at_any_depth() {
    let slow = |question: ApprovalRequest| async move {
        tokio::time::sleep(Duration::from_secs(86_400)).await;
        question.yes()
    };
    let rails = || Guardrails::default().time(Duration::from_secs(60));
    let deep = agent(calls(&["pay"])).tools([declares("pay", MUTATE)]).guardrails(rails());
    let deep = deep.build().expect("an agent");
    let middle = agent(calls(&["deep"])).tools([deep.as_tool("deep", "Works.")]);
    let middle = middle.guardrails(rails()).build().expect("an agent");
    let lead = agent(calls(&["middle"])).tools([middle.as_tool("middle", "Works.")]);
    let lead = lead.guardrails(rails()).approver(slow).build().expect("an agent");
    assert_eq!(lead.run("Go.").await.expect("an answer").text(), "pay is done");
}

#[tokio::test]
async fn the_events_of_an_agent_are_shown_with_the_way_to_it() {
    let deep = payer(Permissions::allow_all());
    let middle = agent(calls(&["deep"])).tools([deep.as_tool("deep", "Works.")]);
    let middle = middle.build().expect("an agent");
    let lead = agent(calls(&["middle"])).tools([middle.as_tool("middle", "Works.")]);
    let lead = lead.build().expect("an agent");
    let mut seen = Vec::new();
    let run = lead.run("Go.").on_event(|event| {
        let (path, event) = match event {
            Event::OfAgent { path, event } => (path, event.as_event()),
            event => (&[][..], event),
        };
        let path: Vec<String> = path.iter().map(|it| format!("{}:{}", it.tool, it.call)).collect();
        let what = match event {
            Event::TurnStarted { turn } => format!("turn {turn}"),
            Event::ToolCall(call) => format!("calls {}", call.name()),
            Event::ToolResult { call, .. } => format!("has {}", call.name()),
            // Pieces of one text are joined on the way.
            Event::Text(text) if !path.is_empty() => format!("says {text}"),
            Event::RunEnded { outcome, .. } => format!("ends: {outcome}"),
            _ => return,
        };
        seen.push(format!("{} {what}", path.join(" ")).trim().to_owned());
    });
    run.await.expect("an answer");
    let (m, d) = ("middle:c0", "middle:c0 deep:c0");
    let expected = [
        "turn 1".to_owned(),
        "calls middle".to_owned(),
        format!("{m} turn 1"),
        format!("{m} calls deep"),
        format!("{d} turn 1"),
        format!("{d} calls pay"),
        format!("{d} has pay"),
        format!("{d} turn 2"),
        format!("{d} says pay is done"),
        format!("{d} ends: the model answered"),
        format!("{m} has deep"),
        format!("{m} turn 2"),
        format!("{m} says pay is done"),
        format!("{m} ends: the model answered"),
        "has middle".to_owned(),
        "turn 2".to_owned(),
        "ends: the model answered".to_owned(),
    ];
    assert_eq!(seen, expected);
}

/// An agent that calls itself, for as long as it may.
fn endless(depth: u32) -> Agent {
    let rails = Guardrails::default().agent_depth(depth);
    let build = |below: Option<Agent>| {
        let it = agent(calls(&["below"])).guardrails(rails.clone());
        let tools = below.map(|below| below.as_tool("below", "Works."));
        it.tools(tools).build().expect("an agent")
    };
    (0..20).fold(build(None), |below, _| build(Some(below)))
}

#[tokio::test]
async fn depth_and_number_of_agents_are_limited_and_the_model_is_told() {
    for depth in [0, 1, 3] {
        let reply = endless(depth).run("Go.").await.expect("an answer");
        assert!(reply.text().contains("`Guardrails::agent_depth` allows more"), "{}", reply.text());
        // Two turns at each level: those that ran, and the one at the top.
        assert_eq!(reply.spent().turns, 2 * (depth + 1), "{depth}");
    }
    let worker = agent(says("Done.")).build().expect("an agent");
    let lead = agent(calls(&["work", "work", "work"]))
        .tools([worker.as_tool("work", "Works.")])
        .guardrails(Guardrails::default().agents(2))
        .build()
        .expect("an agent");
    let reply = lead.run("Go.").await.expect("an answer");
    assert_eq!(reply.text().matches("Done.").count(), 2, "{}", reply.text());
    assert!(reply.text().contains("`Guardrails::agents` allows more"), "{}", reply.text());
}

#[tokio::test]
async fn the_limits_of_the_caller_hold_for_its_agents() {
    let deep = agent(calls(&["look"])).tools([declares("look", READ)]).build().expect("an agent");
    let lead = agent(calls(&["deep"])).tools([deep.as_tool("deep", "Works.")]).build();
    let lead = lead.expect("an agent");
    let stopped = lead.run("Go.").limits(Limits::new().input_tokens(150)).await.unwrap_err();
    assert_eq!(stopped.outcome(), Outcome::Limit(LimitKind::InputTokens));
    assert_eq!(stopped.spent().usage.input, Some(200), "one answer of each");
    let results = stopped.transcript().messages().iter().flat_map(|it| it.results());
    let text = results.map(|it| it.to_text()).collect::<String>();
    assert!(text.contains("of the service was reached"), "{text}");
}

struct User(&'static str);

/// Says who asks.
#[tool(side_effects = "read")]
fn who(user: State<User>) -> String {
    user.0.to_owned()
}

#[tokio::test]
async fn an_agent_finds_the_values_that_its_runs_bring_in_the_run_of_its_caller() {
    let inner = || {
        let model = ScriptedProvider::answering(|request| match request.results().next() {
            Some(result) => reply().text(result.to_text()),
            None => reply().call("who", json!({})),
        });
        let inner = agent(model).tools(tools![who]).state_per_run::<User>().build();
        inner.expect("an agent").as_tool("inner", "Works.")
    };
    let lead = agent(calls(&["inner"])).tools([inner()]);
    let error = lead.build().unwrap_err().to_string();
    assert!(error.contains("the tool `inner` takes `State<") && error.contains("User"), "{error}");
    let lead = agent(calls(&["inner"])).tools([inner()]).state_per_run::<User>().build();
    let lead = lead.expect("an agent");
    for name in ["Ada", "Bob"] {
        assert_eq!(lead.run("Go.").state(User(name)).await.expect("an answer").text(), name);
    }
    let lead = agent(calls(&["inner"])).tools([inner()]).state(User("Eve")).build();
    assert_eq!(lead.expect("an agent").run("Go.").await.expect("an answer").text(), "Eve");
}

/// Lets an agent work, and says how it ended.
#[tool(side_effects = "read")]
async fn delegate(
    /** What is to be done */
    task: String,
    worker: State<Agent>,
    context: ToolContext,
) -> Result<String, ToolError> {
    match worker.run(task).in_call(&context).await {
        Ok(reply) => Ok(reply.text().to_owned()),
        Err(stopped) if stopped.outcome() == Outcome::Limit(LimitKind::Turns) => {
            Ok("it took too many turns".to_owned())
        }
        Err(stopped) => Err(stopped.into()),
    }
}

/// What comes of a task that is handed to this agent by the tool above.
async fn delegated(worker: AgentBuilder) -> String {
    let worker = worker.build().expect("an agent");
    let lead = agent(calls(&["delegate"])).tools(tools![delegate]).state(worker).build();
    let reply = lead.expect("an agent").run("Go.").await.expect("an answer");
    assert!(reply.spent().usage.input > reply.usage().input || reply.text().contains("declares"));
    reply.text().to_owned()
}

#[tokio::test]
async fn a_function_runs_an_agent_inside_its_call_and_knows_how_it_ended() {
    assert_eq!(delegated(agent(says("Done."))).await, "Done.");
    let circles = ScriptedProvider::answering(|_| reply().call("look", json!({})).tokens(5, 5));
    let rails = Guardrails::default().turns(2);
    let circles = agent(circles).tools([declares("look", READ)]).guardrails(rails);
    assert_eq!(delegated(circles).await, "it took too many turns");
    let writer = agent(says("Done.")).tools([declares("put", WRITE)]);
    let text = delegated(writer).await;
    assert!(text.contains("the tool `delegate` declares `read`"), "{text}");
    assert!(text.contains("`write`: the agent did not run"), "{text}");
}

#[tokio::test]
async fn the_failure_of_an_agent_is_a_result_that_says_what_is_known() {
    let breaks = || ScriptedProvider::new([reply().text("Let me").tokens(7, 3).cut()]);
    let inner = agent(breaks()).build().expect("an agent");
    let lead = agent(calls(&["inner"])).tools([inner.as_tool("inner", "Works.")]).build();
    let told = lead.expect("an agent").run("Go.").await.expect("an answer");
    assert!(told.text().contains("the agent came to no answer: the answer failed"), "{told}");
    assert!(told.text().contains("Its last words:\nLet me"), "{told}");
    // A call inside that may have happened leaves the call of the agent in doubt, too.
    let doubts = Tool::new("pay", "Pays.", json!({"type": "object"}), WRITE, |_, _| {
        Box::pin(async { Err(ToolError::in_doubt("the bank did not answer")) })
    });
    let model = ScriptedProvider::new([reply().call("pay", json!({})), reply().text("Hm").cut()]);
    let inner = agent(model).tools([doubts]).build().expect("an agent");
    let lead = agent(calls(&["inner"])).tools([inner.as_tool("inner", "Works.")]).build();
    let reply = lead.expect("an agent").run("Go.").await.expect("an answer");
    let results = reply.transcript().messages().iter().flat_map(|it| it.results());
    let outcomes: Vec<CallOutcome> = results.map(|it| it.outcome()).collect();
    assert_eq!(outcomes, [CallOutcome::InDoubt]);
}

#[tokio::test]
async fn an_agent_without_a_journal_cannot_wait_and_says_so() {
    let later = |question: ApprovalRequest| async move { question.later(None) };
    let inner = payer(Permissions::default());
    let lead = agent(calls(&["inner"])).tools([inner.as_tool("inner", "Works.")]).approver(later);
    let reply = lead.build().expect("an agent").run("Go.").await.expect("an answer");
    assert!(reply.text().contains("only while it runs"), "{reply}");
}

#[tokio::test]
async fn a_panic_inside_of_an_agent_is_a_result_of_its_call() {
    let log = Log::default();
    let falls = probe("falls", READ, &log, Work::Panics);
    let model = ScriptedProvider::answering(|request| match request.results().next() {
        Some(result) => reply().text(result.to_text()),
        None => reply().call("falls", json!({})),
    });
    let inner = agent(model).tools([falls]).build().expect("an agent");
    let watched = agent(calls(&["inner"])).tools([inner.as_tool("inner", "Works.")]).build();
    let reply = watched.expect("an agent").run("Go.").await.expect("an answer");
    assert!(reply.text().contains("panicked: falls fell"), "{reply}");
}

#[tokio::test]
async fn what_an_agent_has_read_counts_for_the_data_flow_policy_of_its_caller() {
    use harness::policy::DataFlowPolicy;
    let sends = || declares("send", SideEffects::of(&[SideEffect::Network, SideEffect::Write]));
    let network = declares("fetch", SideEffects::of(&[SideEffect::Network, SideEffect::Read]));
    let policy = || Permissions::default().data_flow(DataFlowPolicy::default()).allow("send");
    // The agent reads, and another call of it carries out.
    let model = ScriptedProvider::answering(|request| {
        let asked = request.messages().iter().flat_map(|it| it.calls()).count();
        match asked {
            0 => reply().call("look", json!({})),
            1 => reply().call("fetch", json!({})),
            2 => reply().call("send", json!({})),
            _ => reply().text(request.results().map(|it| it.to_text()).collect::<String>()),
        }
    });
    let inner = agent(model).tools([declares("look", READ), network, sends()]).build();
    let inner = inner.expect("an agent");
    for (permissions, expected) in
        [(policy(), "nobody to ask"), (Permissions::default().allow("send"), "send is done")]
    {
        let lead = agent(calls(&["inner"])).tools([inner.as_tool("inner", "Works.")]);
        let lead = lead.permissions(permissions).build().expect("an agent");
        let reply = lead.run("Go.").await.expect("an answer");
        assert!(reply.text().contains(expected), "{reply}");
    }
}

/// A caller whose agent's agent waits at a closed gate, and what that one has begun.
fn stuck(rails: Guardrails) -> (Agent, Log) {
    let (log, gate) = (Log::default(), Gate::new());
    let waits = probe("work", WRITE, &log, Work::Gate(gate));
    let waits = Tool::new("work", "Works.", json!({"type": "object"}), WRITE, move |context, _| {
        let waits = waits.clone();
        Box::pin(async move { waits.call(&context, json!({})).await })
    });
    let deep = agent(calls(&["work"])).tools([waits]).build().expect("an agent");
    let middle = agent(calls(&["deep"])).tools([deep.as_tool("deep", "Works.")]);
    let middle = middle.build().expect("an agent");
    let lead = agent(calls(&["middle"])).tools([middle.as_tool("middle", "Works.")]);
    (lead.guardrails(rails).build().expect("an agent"), log)
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_time_reaches_all_depths() {
    let limit = Duration::from_secs(5);
    let (lead, log) = stuck(Guardrails::default().time(limit));
    let stopped = lead.run("Go.").await.unwrap_err();
    assert_eq!(stopped.outcome(), Outcome::Limit(LimitKind::Time));
    assert_eq!(stopped.spent().usage.input, Some(300), "one answer at each level");
    let outcomes = |stopped: &harness::Transcript| {
        let results = stopped.messages().iter().flat_map(|it| it.results().map(|it| it.outcome()));
        results.collect::<Vec<_>>()
    };
    assert_eq!(outcomes(stopped.transcript()), [CallOutcome::InDoubt]);
    assert!(log.has("begin work") && !log.has("end work"));

    let (lead, log) = stuck(Guardrails::default());
    let reply = lead.run("Go.").tool_time(limit).await.expect("an answer");
    assert_eq!(outcomes(reply.transcript()), [CallOutcome::InDoubt]);
    assert!(reply.text().contains("The call took longer than 5s"), "{reply}");
    assert!(log.has("begin work") && !log.has("end work"));
}

#[tokio::test]
async fn the_run_of_an_agent_names_its_caller_in_its_trace() {
    use harness::trace::Happened;
    let traced = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&traced);
    let inner = agent(says("Done.")).build().expect("an agent");
    let runs = Tool::new("runs", "Works.", json!({"type": "object"}), READ, move |context, _| {
        let (inner, seen) = (inner.clone(), Arc::clone(&seen));
        Box::pin(async move {
            let reply = inner.run("Work.").in_call(&context).await?;
            seen.lock().expect("unpoisoned").extend(reply.trace().events().to_vec());
            Ok(reply.text().into())
        })
    });
    let lead = agent(calls(&["runs"])).tools([runs]).build().expect("an agent");
    let reply = lead.run("Go.").await.expect("an answer");
    let own = reply.trace().events()[0].clone();
    let Happened::RunStarted { caller: None, .. } = &own.what else { panic!("{own:?}") };
    let below = traced.lock().expect("unpoisoned")[0].clone();
    let Happened::RunStarted { caller: Some(caller), .. } = &below.what else {
        panic!("{below:?}")
    };
    assert_eq!((caller.run.as_str(), caller.call.as_str()), (own.run.as_str(), "c0"));
    assert_ne!(below.run, own.run);
}

#[tokio::test]
async fn a_rule_may_name_a_tool_of_an_agent_below_and_not_misspell_it() {
    let build = |permissions| {
        let deep = agent(calls(&["drop_table"])).tools([declares("drop_table", MUTATE)]);
        let deep = deep.permissions(Permissions::default().allow("drop_table")).build();
        let middle =
            agent(calls(&["deep"])).tools([deep.expect("an agent").as_tool("deep", "Works.")]);
        let middle = middle.build().expect("an agent").as_tool("middle", "Works.");
        let lead = agent(calls(&["middle"])).tools([middle, declares("drop_tables", READ)]);
        lead.permissions(permissions).build()
    };
    let denied = build(Permissions::default().deny("drop_table", "tables stay"));
    let reply = denied.expect("an agent").run("Go.").await.expect("an answer");
    assert!(reply.text().contains("tables stay"), "{reply}");
    let misspelt = build(Permissions::default().deny("drop_tabel", "tables stay"));
    let error = misspelt.expect_err("it names no tool").to_string();
    assert!(error.contains("did you mean `drop_table`?"), "{error}");
}
