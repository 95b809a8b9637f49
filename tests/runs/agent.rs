//! The agent loop through the public API: what it says, what it does and how it ends.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use harness::{
    Agent, CancellationToken, Error, ErrorKind, Event, Guardrails, Message, Outcome, Permissions,
    Role, SideEffects, StopReason, Tool,
    journal::{Decider, LimitKind, MemoryJournal},
    message::Arguments,
    policy::{ApprovalRequest, PolicyDecision, ProposedCall, RuleDecision},
    testing::{Gate, ScriptedProvider, outline, reply},
};
use serde_json::json;

use crate::probe::{Log, MUTATE, READ, WRITE, Work, tool};

fn agent(model: &ScriptedProvider, tools: impl IntoIterator<Item = Tool>) -> Agent {
    Agent::builder(model.clone()).tools(tools).build().expect("an agent")
}

/// The events of a run, a line each.
#[derive(Clone, Default)]
struct Shown(Arc<Mutex<Vec<String>>>);

impl Shown {
    fn watch(&self) -> impl FnMut(Event<'_>) + Send + use<> {
        let shown = Arc::clone(&self.0);
        move |event| {
            let line = match event {
                Event::TurnStarted { turn } => format!("turn {turn}"),
                Event::Text(text) => format!("text {text}"),
                Event::Reasoning(text) => format!("thinks {text}"),
                Event::ToolCall(call) => format!("call {}({})", call.name(), call.arguments()),
                Event::ToolDenied { call, reason } => format!("denied {}: {reason}", call.name()),
                Event::ToolResult { call, result, .. } => {
                    format!("result of {}: {}", call.name(), result.to_text())
                }
                Event::TurnEnded { turn, stop, .. } => format!("end of turn {turn}: {stop:?}"),
                Event::RunEnded { outcome, .. } => format!("end: {outcome:?}"),
                Event::RunStarted { said } => {
                    format!("begins: {}", said.map(Message::text).unwrap_or_default())
                }
                Event::ToolCallStart { tool, .. } => format!("writes a call of {tool}"),
                Event::ToolCallDelta { .. } => return,
                other => format!("{other:?}"),
            };
            shown.lock().expect("unpoisoned").push(line);
        }
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().expect("unpoisoned").clone()
    }
}

#[tokio::test]
async fn a_run_calls_its_tools_and_answers() {
    let log = Log::default();
    let model = ScriptedProvider::new([
        reply().reasoning("Hm.").text_in(["Let me see."]).call("look", json!({})).tokens(10, 5),
        reply().text_in(["All ", "is well."]).tokens(20, 3),
    ]);
    let shown = Shown::default();
    let agent = agent(&model, [tool("look", READ, &log, Work::Steps(2))]);
    let reply = agent.run("How is it?").on_event(shown.watch()).await.expect("an answer");

    assert_eq!(reply.text(), "All is well.");
    assert_eq!((reply.usage().input, reply.usage().output, reply.turns()), (Some(30), Some(8), 2));
    assert_eq!(
        outline(reply.transcript().messages()),
        "user: How is it?\n\
         assistant: thinks Hm.\n\
         assistant: Let me see.\n\
         assistant: call look {}\n\
         tool: succeeded: look is done\n\
         assistant: All is well.\n"
    );
    assert_eq!(
        shown.lines(),
        [
            "begins: How is it?",
            "turn 1",
            "thinks Hm",
            "thinks .",
            "text Let me see.",
            "writes a call of look",
            "call look({})",
            "end of turn 1: ToolCalls",
            "result of look: look is done",
            "turn 2",
            "text All ",
            "text is well.",
            "end of turn 2: Complete",
            "end: Answered",
        ]
    );
    model.assert_finished();
}

#[tokio::test]
async fn a_chat_continues_and_keeps_its_prefix() {
    let model = ScriptedProvider::new([reply().text("Noted."), reply().text("42.")]);
    let agent = Agent::builder(model.clone()).system("Be brief.").build().expect("an agent");
    let mut chat = agent.chat();
    chat.send("My favourite number is 42.").await.expect("an answer");
    let reply = chat.send(String::from("What is it?")).await.expect("an answer");
    assert_eq!(reply.text(), "42.");
    assert_eq!(chat.transcript().messages().len(), 4);

    let requests = model.requests();
    assert_eq!(requests[1].system(), Some("Be brief."));
    let (first, second) = (requests[0].messages(), requests[1].messages());
    assert_eq!(&second.range(..first.len()), first, "what was said is never changed");
}

#[tokio::test]
async fn a_chat_can_start_from_a_given_transcript() {
    let first = ScriptedProvider::new([reply().text("Noted.")]);
    let mut chat = agent(&first, []).chat();
    chat.send("My favourite number is 42.").await.expect("an answer");

    let written = serde_json::to_string(chat.transcript()).expect("JSON");
    let read = serde_json::from_str(&written).expect("the same");
    let second = ScriptedProvider::new([reply().text("42.")]);
    let mut chat = agent(&second, []).chat_from(read);
    let reply = chat.send("What is it?").await.expect("an answer");
    assert_eq!(reply.text(), "42.");
    assert_eq!(second.requests()[0].messages().len(), 3);
}

#[tokio::test]
async fn the_turn_limit_is_no_answer_and_the_chat_goes_on() {
    let log = Log::default();
    let model = ScriptedProvider::answering(|request| {
        if request.last_text() == "Stop." {
            reply().text("Fine.")
        } else {
            reply().text("Again. ").call("look", json!({})).tokens(10, 1)
        }
    });
    let agent = Agent::builder(model.clone()).tools([tool("look", READ, &log, Work::Steps(0))]);
    let agent = agent.guardrails(Guardrails::default().turns(3)).build().expect("an agent");
    let mut chat = agent.chat();
    let stopped = chat.send("Go.").await.expect_err("no answer");
    assert_eq!(stopped.outcome(), Outcome::Limit(LimitKind::Turns));
    assert_eq!((stopped.text(), stopped.turns()), ("Again. ", 3));
    assert_eq!(stopped.usage().input, Some(30));
    assert_eq!(stopped.transcript().messages().len(), 7);
    assert_eq!(
        stopped.to_string(),
        "the limit of turns was reached before the model had an answer (after 3 turns)"
    );
    let reply = chat.send("Stop.").await.expect("an answer");
    assert_eq!((reply.text(), reply.turns()), ("Fine.", 1));

    let default = agent_with_default_limit().run("Go.").await.expect_err("no answer");
    assert_eq!(default.turns(), 20, "the default");
}

fn agent_with_default_limit() -> Agent {
    // Arguments and results differ, so that it is the turns that come to their end.
    let model = ScriptedProvider::answering(|request| {
        reply().call("look", json!({"at": request.messages().len()}))
    });
    let schema = json!({"type": "object", "properties": {"at": {"type": "integer"}}});
    let look = Tool::new("look", "Looks.", schema, READ, |_, arguments| {
        Box::pin(async move { Ok(format!("seen {}", arguments["at"]).into()) })
    });
    agent(&model, [look])
}

#[tokio::test]
async fn what_is_no_answer_is_never_ok() {
    let table = [
        ("cut off", reply().text("So f").stop(StopReason::Truncated), Outcome::Truncated, "So f"),
        ("refused", reply().text("No.").stop(StopReason::Refused), Outcome::Refused, "No."),
        ("failed", reply().text("So f").overloaded(), Outcome::Failed, "So f\n\n[interrupted]"),
        ("cut", reply().text("So f").cut(), Outcome::Failed, "So f\n\n[interrupted]"),
    ];
    for (name, said, outcome, text) in table {
        let model = ScriptedProvider::new([said, reply().text("Back.")]);
        let mut chat = agent(&model, []).chat();
        let stopped = chat.send("Go.").await.expect_err(name);
        assert_eq!((stopped.outcome(), stopped.text()), (outcome, text), "{name}");
        assert_eq!(stopped.error().is_some(), outcome == Outcome::Failed, "{name}");
        let reply = chat.send("And now?").await.expect("the chat goes on");
        assert_eq!(reply.text(), "Back.", "{name}");
    }
}

#[tokio::test]
async fn a_failure_says_which_it_was() {
    let model = ScriptedProvider::new([reply().error(
        Error::new(ErrorKind::Api, "Overloaded").with_status(529).with_code("overloaded_error"),
    )]);
    let stopped = agent(&model, []).run("Go.").await.expect_err("no answer");
    let error = stopped.error().expect("a cause");
    assert_eq!((error.status(), error.is_retryable()), (Some(529), true));
    assert_eq!(stopped.to_string(), "the run failed: 529 overloaded_error: Overloaded");
}

#[tokio::test]
async fn the_models_mistakes_are_results_that_it_can_read() {
    let log = Log::default();
    let model = ScriptedProvider::new([
        reply()
            .call("lok", json!({}))
            .call_text("look", r#"{"a": "#)
            .call_text("look", "[1]")
            .call("fail", json!({}))
            .call("fall", json!({})),
        reply().text("I see."),
    ]);
    let tools = [
        tool("look", READ, &log, Work::Steps(0)),
        tool("fail", READ, &log, Work::Fails),
        tool("fall", READ, &log, Work::Panics),
    ];
    let reply = agent(&model, tools).run("Go.").await.expect("an answer");
    assert_eq!(reply.text(), "I see.");
    let told: Vec<String> = model.requests()[1].results().map(|r| r.to_text()).collect();
    assert!(
        told[0].contains("no tool `lok`") && told[0].contains("look, fail, fall"),
        "{}",
        told[0]
    );
    assert!(told[1].contains("not valid JSON") && told[1].contains(r#"{"a": "#), "{}", told[1]);
    assert!(told[2].contains("must be a JSON object"), "{}", told[2]);
    assert_eq!(told[3], "fail cannot");
    assert!(told[4].contains("`fall` panicked: fall fell"), "{}", told[4]);
    assert!(model.requests()[1].results().all(|result| result.is_error()));
    assert_eq!(log.lines().iter().filter(|line| *line == "begin look").count(), 0);
}

#[tokio::test]
async fn a_write_is_a_barrier_and_results_come_in_call_order() {
    let log = Log::default();
    let gate = Gate::new();
    let model = ScriptedProvider::new([
        reply()
            .call("slow", json!({}))
            .call("quick", json!({}))
            .call("write", json!({}))
            .call("after", json!({})),
        reply().text("Done."),
    ]);
    let tools = [
        tool("slow", READ, &log, Work::Gate(gate.clone())),
        tool("quick", READ, &log, Work::Steps(0)),
        tool("write", WRITE, &log, Work::Steps(3)),
        tool("after", READ, &log, Work::Steps(0)),
    ];
    let agent = agent(&model, tools);
    let watched = log.clone();
    let opener = async {
        gate.reached().await;
        while !watched.has("end quick") {
            tokio::task::yield_now().await;
        }
        assert!(!watched.has("begin write"), "the write waits for both");
        gate.open();
    };
    let (reply, ()) = tokio::join!(agent.run("Go.").into_future(), opener);
    let reply = reply.expect("an answer");
    assert_eq!(
        log.lines(),
        [
            "begin slow",
            "begin quick",
            "end quick",
            "end slow",
            "begin write",
            "end write",
            "begin after",
            "end after",
        ]
    );
    let results = &reply.transcript().messages()[2];
    assert_eq!(results.role(), Role::Tool);
    let told: Vec<String> = results.results().map(|result| result.to_text()).collect();
    assert_eq!(told, ["slow is done", "quick is done", "write is done", "after is done"]);
}

#[tokio::test]
async fn no_more_than_eight_calls_run_at_once() {
    let gate = Gate::new();
    let running = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let script = (0..20).fold(reply(), |said, _| said.call("look", json!({})));
    let model = ScriptedProvider::new([script, reply().text("Done.")]);
    let look = {
        let (gate, running, most) = (gate.clone(), Arc::clone(&running), Arc::clone(&most));
        Tool::new(
            "look",
            "Looks.",
            json!({"type": "object", "properties": {}}),
            READ,
            move |_, _| {
                let (gate, running, most) = (gate.clone(), Arc::clone(&running), Arc::clone(&most));
                Box::pin(async move {
                    let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    gate.pass().await;
                    running.fetch_sub(1, Ordering::SeqCst);
                    Ok("seen".into())
                })
            },
        )
    };
    let agent = agent(&model, [look]);
    let opener = async {
        while running.load(Ordering::SeqCst) < 8 {
            tokio::task::yield_now().await;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        gate.open();
    };
    let (reply, ()) = tokio::join!(agent.run("Go.").into_future(), opener);
    assert_eq!(reply.expect("an answer").transcript().messages()[2].results().count(), 20);
    assert_eq!(most.load(Ordering::SeqCst), 8);
}

#[tokio::test]
async fn what_a_person_must_approve_is_denied_when_nobody_is_there() {
    let log = Log::default();
    let model = ScriptedProvider::new([
        reply().call("pay", json!({})).call("note", json!({})),
        reply().text("I may not."),
    ]);
    let tools =
        [tool("pay", MUTATE, &log, Work::Steps(0)), tool("note", WRITE, &log, Work::Steps(0))];
    let shown = Shown::default();
    let reply = agent(&model, tools).run("Go.").on_event(shown.watch()).await.expect("an answer");
    assert_eq!(log.lines(), ["begin note", "end note"]);
    let told: Vec<_> = reply.transcript().messages()[2].results().collect();
    assert_eq!(told[0].outcome(), harness::CallOutcome::Denied);
    let text = told[0].to_text();
    assert!(text.contains("did not run") && text.contains("nobody to ask"), "{text}");
    assert!(shown.lines().iter().any(|line| {
        line.starts_with("denied pay: `pay` needs a person's approval (it declares `mutate`)")
    }));
}

#[tokio::test]
async fn a_person_approves_exactly_the_call_that_was_shown() {
    let log = Log::default();
    let script = || {
        let pay = |cents: u32| reply().call("pay", json!({"cents": cents}));
        [pay(1), pay(1000), pay(2), reply().text("Done.")]
    };
    let answers = |always: bool| {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let approver = move |question: ApprovalRequest| {
            seen.lock().expect("unpoisoned").push(question.arguments.to_string());
            let small = question.arguments.to_string().len() < 13;
            async move {
                match (small, always) {
                    (true, true) => question.always(),
                    (true, false) => question.yes(),
                    (false, _) => question.no("too much"),
                }
            }
        };
        (asked, approver)
    };
    let lenient = json!({"type": "object", "properties": {"cents": {"type": "integer"}}});
    let pay = {
        let log = log.clone();
        Tool::new("pay", "Pays.", lenient, MUTATE, move |_, arguments| {
            log.note(format!("paid {}", arguments["cents"]));
            Box::pin(async { Ok("paid".into()) })
        })
    };

    let (asked, approver) = answers(false);
    let model = ScriptedProvider::new(script());
    let agent = Agent::builder(model.clone()).tools([pay.clone()]).approver(approver);
    agent.build().expect("an agent").run("Go.").await.expect("an answer");
    assert_eq!(
        *asked.lock().expect("unpoisoned"),
        [r#"{"cents":1}"#, r#"{"cents":1000}"#, r#"{"cents":2}"#]
    );
    assert_eq!(log.lines(), ["paid 1", "paid 2"]);
    let told = model.requests()[2].results().last().expect("a result").to_text();
    assert!(told.ends_with("did not run: too much"), "{told}");

    let (asked, approver) = answers(true);
    let model = ScriptedProvider::new(script());
    let agent = Agent::builder(model).tools([pay]).approver(approver);
    agent.build().expect("an agent").run("Go.").await.expect("an answer");
    assert_eq!(asked.lock().expect("unpoisoned").len(), 3, "`always` holds for the same call only");
}

#[tokio::test]
async fn a_denial_can_stop_the_run() {
    let log = Log::default();
    let model = ScriptedProvider::new([
        reply().call("pay", json!({})).call("note", json!({})),
        reply().text("Back."),
    ]);
    let tools =
        [tool("pay", MUTATE, &log, Work::Steps(0)), tool("note", WRITE, &log, Work::Steps(0))];
    let permissions = Permissions::default().deny("pay", "not today").stop_on_denial();
    let agent = Agent::builder(model.clone()).tools(tools).permissions(permissions);
    let mut chat = agent.build().expect("an agent").chat();
    let stopped = chat.send("Go.").await.expect_err("no answer");
    assert_eq!(stopped.outcome(), Outcome::Denied);
    assert_eq!(log.lines(), [""; 0]);
    let outlined = outline(stopped.transcript().messages());
    assert!(
        outlined.contains("denied: This call was not allowed, so it did not run: not today"),
        "{outlined}"
    );
    assert!(outlined.contains("not started: another call was denied first"), "{outlined}");
    chat.send("And now?").await.expect("the chat goes on");
}

#[tokio::test]
async fn a_run_can_be_stopped_after_the_current_turn() {
    let log = Log::default();
    let model = ScriptedProvider::new([
        reply().text("First.").call("write", json!({})),
        reply().text("Second."),
    ]);
    let mut chat = agent(&model, [tool("write", WRITE, &log, Work::Steps(2))]).chat();
    let enough = CancellationToken::new();
    let stop = enough.clone();
    let run = chat.send("Go.").stop_after_turn(enough).on_event(move |event| {
        if let Event::Text(_) = event {
            stop.cancel();
        }
    });
    let stopped = run.await.expect_err("no answer");
    assert_eq!((stopped.outcome(), stopped.turns()), (Outcome::Cancelled, 1));
    assert_eq!(log.lines(), ["begin write", "end write"], "the turn is finished, tools and all");
    assert_eq!(model.requests().len(), 1);
    let reply = chat.send("Go on.").await.expect("an answer");
    assert_eq!(reply.text(), "Second.");
}

#[test]
fn the_strictest_wins_and_side_effects_speak_last() {
    let arguments = Arguments::decode(r#"{"command":"ls"}"#).expect("arguments");
    let call = ProposedCall::new("bash", &arguments, SideEffects::ALL);
    let table = [
        (Permissions::default(), "ask SideEffects"),
        (Permissions::default().allow("bash"), "allow ToolName"),
        (Permissions::default().ask("bash"), "ask ToolName"),
        (Permissions::default().deny("bash", "no"), "deny ToolName"),
        (Permissions::allow_all(), "allow Program"),
        (Permissions::allow_all().deny("bash", "no"), "deny ToolName"),
        (ruled(RuleDecision::Allow), "allow Rule"),
        (ruled(RuleDecision::Ask), "ask Rule"),
        (ruled(RuleDecision::Ask).allow("bash"), "ask Rule"),
        (ruled(RuleDecision::Deny("no".into())).allow("bash"), "deny Rule"),
        (ruled(RuleDecision::Allow).ask("bash"), "ask ToolName"),
        (ruled(RuleDecision::Allow).deny("bash", "no"), "deny ToolName"),
        (ruled(RuleDecision::Allow).rule("other", |_| Some(RuleDecision::Ask)), "ask Rule"),
    ];
    for (permissions, expected) in table {
        let (what, by) = match permissions.decide(&call) {
            PolicyDecision::Allow { by } => ("allow", by),
            PolicyDecision::Ask { reasons } => ("ask", reasons[0].by.clone()),
            PolicyDecision::Deny { by, .. } => ("deny", by),
        };
        let by = match by {
            Decider::Rule { .. } => "Rule".to_owned(),
            other => format!("{other:?}"),
        };
        assert_eq!(format!("{what} {by}"), expected, "{permissions:?}");
    }
}

fn ruled(verdict: RuleDecision) -> Permissions {
    Permissions::default()
        .rule("r", move |call| (call.text("command") == Some("ls")).then(|| verdict.clone()))
}

#[test]
fn run_blocking_works_in_a_script_and_refuses_inside_a_runtime() {
    let model = ScriptedProvider::new([reply().text("Hello.")]);
    let reply = agent(&model, []).run_blocking("Hi.").expect("an answer");
    assert_eq!(reply.text(), "Hello.");

    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let stopped = runtime.block_on(async { agent(&model, []).run_blocking("Hi.") });
    let error = stopped.expect_err("it would block");
    assert!(error.error().is_some_and(Error::is_configuration));
    assert!(error.to_string().contains("agent.run(..).await"), "{error}");
}

#[test]
fn what_cannot_be_built_says_why() {
    let log = Log::default();
    let model = ScriptedProvider::new([]);
    let twice = [tool("look", READ, &log, Work::Fails), tool("look", READ, &log, Work::Fails)];
    let err = Agent::builder(model.clone()).tools(twice).build().expect_err("two of one name");
    assert!(err.to_string().contains("both named `look`"), "{err}");
    let err = Agent::builder(model)
        .guardrails(Guardrails::default().turns(0))
        .build()
        .expect_err("no turn");
    assert!(err.to_string().contains("at least 1"), "{err}");
}

#[tokio::test]
async fn a_message_that_the_user_cannot_say_is_refused() {
    let model = ScriptedProvider::new([]);
    let answer = Message::assistant([harness::Block::text("I am the model.")]);
    let stopped = agent(&model, []).run(answer).await.expect_err("refused");
    assert!(stopped.to_string().contains("only the user"), "{stopped}");
    assert_eq!(model.requests().len(), 0);
}

#[tokio::test]
async fn a_server_that_counts_its_calls_anew_gives_no_id_twice() {
    let log = Log::default();
    let call = || reply().call_with_id("call_0", "look", json!({}));
    let model = ScriptedProvider::new([
        call(),
        call(),
        reply().text("Seen."),
        call(),
        reply().text("Again."),
    ]);
    let mut chat = agent(&model, [tool("look", READ, &log, Work::Steps(0))]).chat();
    chat.send("Go.").await.expect("an answer");
    chat.send("Go on.").await.expect("an answer");
    let messages = chat.transcript().messages();
    let ids: Vec<&str> = messages.iter().flat_map(|m| m.calls()).map(|call| call.id()).collect();
    assert_eq!(ids, ["call_0", "call_0_2", "call_0_3"]);
    let answered: Vec<&str> =
        messages.iter().flat_map(|m| m.results()).map(|result| result.call_id()).collect();
    assert_eq!(answered, ids);
}

#[tokio::test]
async fn an_answer_that_begins_again_gives_no_id_twice_either() {
    let log = Log::default();
    let call = || reply().call_with_id("call_0", "look", json!({}));
    let again = harness::StreamEvent::Discarded { cause: "it broke off".into() };
    let second = reply().text("So f").event(again).call_with_id("call_0", "look", json!({}));
    let model = ScriptedProvider::new([call(), second, reply().text("Seen.")]);
    let reply = agent(&model, [tool("look", READ, &log, Work::Steps(0))]).run("Go.").await;
    let reply = reply.expect("an answer");
    let messages = reply.transcript().messages();
    let ids: Vec<&str> = messages.iter().flat_map(|m| m.calls()).map(|call| call.id()).collect();
    assert_eq!(ids, ["call_0", "call_0_2"]);
}

/// A runtime without a timer can run what needs no time: no journal has to answer, and no limit of time is set.
#[test]
fn a_runtime_without_a_timer_runs_what_needs_none_and_refuses_the_rest() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let model = ScriptedProvider::answering(|_| reply().text("Yes."));
    let agent = Agent::builder(model).guardrails(Guardrails::none()).build().expect("an agent");
    runtime.block_on(async {
        assert_eq!(agent.chat().send("Go.").await.expect("an answer").text(), "Yes.");
        let journal = MemoryJournal::new();
        let mut chat = agent.open(&journal, "a").await.expect("opened");
        let stopped = chat.send("Go.").await.expect_err("a journal has to answer in time");
        let error = stopped.error().expect("an error");
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().contains("enable_time()"), "{error}");
    });
}
