//! Decisions and results of calls take one path, wherever they come from: a table of every source against every promise.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use harness::{
    Agent, CallOutcome, Chat, Error, ErrorKind, Event, Limits, Message, Outcome, Permissions,
    SideEffects, Stopped, Tool, ToolError,
    agent::{Action, OpenCall, Steps},
    journal::{Envelope, Journal as _, LimitKind, MemoryJournal},
    policy::{Approval, ApprovalRequest, Guardrails},
    testing::{ScriptedProvider, reply},
};
use serde_json::{Value, json};

use crate::{
    kept::CHAT,
    probe::{Log, MUTATE, READ, WRITE},
};

const SECRET: &str = "sk-very-secret-0123456789";

/// Where a decision or a result comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    /// The run itself: its approver, or the function of the tool.
    Run,
    Chat,
    Inbox,
    Steps,
    /// Nobody says anything in time.
    Clock,
    StepsClock,
}

const SOURCES: [Source; 6] =
    [Source::Run, Source::Chat, Source::Inbox, Source::Steps, Source::Clock, Source::StepsClock];

/// What came of a call.
#[derive(Debug, Default)]
struct Seen {
    outcome: Option<Outcome>,
    limit: Option<LimitKind>,
    results: Vec<(CallOutcome, String)>,
    events: Vec<String>,
}

impl Seen {
    fn ended(&mut self, ended: Result<(), Stopped>, transcript: &harness::Transcript) {
        self.outcome = Some(match &ended {
            Ok(()) => Outcome::Answered,
            Err(stopped) => stopped.outcome(),
        });
        self.limit = ended.err().and_then(|stopped| stopped.limit().map(|limit| limit.limit));
        let results = transcript.messages().iter().flat_map(Message::results);
        self.results = results.map(|it| (it.outcome(), it.to_text())).collect();
    }
}

/// Notes the events about calls.
fn noted(events: &Arc<Mutex<Vec<String>>>) -> impl FnMut(Event<'_>) + Send + use<> {
    let events = Arc::clone(events);
    move |event| {
        let line = match event {
            Event::ToolDenied { call, reason } => format!("denied {} {reason}", call.id()),
            Event::ToolResult { call, result, .. } => {
                format!("result {} {}", call.id(), result.to_text())
            }
            Event::ToolWaits { call, wait } => {
                format!("waits {} {}", call.id(), serde_json::to_string(wait).expect("JSON"))
            }
            _ => return,
        };
        events.lock().expect("unpoisoned").push(line);
    }
}

/// What is done about a call that waits.
type Does = dyn Fn(&OpenCall) -> Said + Send + Sync;

enum Said {
    Approval(Approval),
    Settlement(harness::agent::Settlement),
}

/// Runs a conversation in which the first call is resolved by this source, and lets it go on to its end.
async fn run(agent: &Agent, source: Source, does: &Does) -> Seen {
    let (mut seen, events) = (Seen::default(), Arc::default());
    if let Source::Steps | Source::StepsClock = source {
        steps(agent, source, does, &mut seen).await;
        return seen;
    }
    let journal = MemoryJournal::new();
    let mut chat = agent.open(&journal, CHAT).await.expect("opened");
    let mut ended = chat.send("Go.").on_event(noted(&events)).await.map(drop);
    for _ in 0..8 {
        if !matches!(&ended, Err(stopped) if stopped.outcome() == Outcome::Waiting) {
            break;
        }
        match chat.waiting().first() {
            None => {}
            Some(open) => match (does(open), source) {
                (_, Source::Clock) => {}
                (Said::Approval(approval), Source::Inbox) => {
                    agent.inbox(&journal).decide(CHAT, approval).await.expect("written");
                }
                (Said::Settlement(settlement), Source::Inbox) => {
                    agent.inbox(&journal).settle(CHAT, settlement).await.expect("written");
                }
                (Said::Approval(approval), _) => chat.decide(approval).await.expect("written"),
                (Said::Settlement(said), _) => chat.settle(said).await.expect("written"),
            },
        }
        ended = chat.resume().on_event(noted(&events)).await.map(drop);
    }
    seen.ended(ended, &chat.transcript().clone());
    seen.events = events.lock().expect("unpoisoned").clone();
    seen
}

async fn steps(agent: &Agent, source: Source, does: &Does, seen: &mut Seen) {
    let mut steps: Steps = agent.steps(CHAT, Vec::new()).expect("steps");
    for _ in 0..64 {
        let facts: Vec<Envelope> = match steps.next() {
            Action::AwaitUser => steps.say("Go.".into()).await.expect("said"),
            Action::AwaitAnswers => {
                let open = steps.waiting().remove(0);
                match (source, does(&open)) {
                    (Source::StepsClock, _) => steps.expired(open.call.id()).expect("waits"),
                    (_, Said::Approval(approval)) => steps.decided(approval).expect("waits"),
                    (_, Said::Settlement(said)) => {
                        steps.settled(said).expect("waits").await.expect("facts")
                    }
                }
            }
            Action::Finish(outcome) => {
                seen.outcome = Some(outcome);
                if let Outcome::Limit(limit) = outcome {
                    seen.limit = Some(limit);
                }
                break;
            }
            _ => steps.act().await.expect("facts"),
        };
        steps.apply(facts).expect("applied");
    }
    let results = steps.transcript().messages().iter().flat_map(Message::results);
    seen.results = results.map(|it| (it.outcome(), it.to_text())).collect();
}

/// A model that asks for these calls at once, and then says that it is done.
fn asks_for(names: &'static [&'static str]) -> ScriptedProvider {
    ScriptedProvider::answering(move |request| match request.results().next() {
        Some(_) => reply().text("Done."),
        None => names
            .iter()
            .fold(reply(), |all, name| all.call_with_id(format!("{name}_call"), *name, json!({}))),
    })
}

fn acts(name: &'static str, effects: SideEffects, log: &Log) -> Tool {
    let log = log.clone();
    let schema = json!({"type": "object", "properties": {"cents": {"type": "integer"}}});
    Tool::new(name, "Acts.", schema, effects, move |_, arguments| {
        log.note(format!("{name} {}", Value::Object(arguments)));
        Box::pin(async { Ok("done".into()) })
    })
}

/// An approver that answers in the run, or later, or whose time is over at once.
fn approver(
    source: Source,
    answer: impl Fn(&ApprovalRequest) -> Approval + Send + Sync + Clone + 'static,
) -> impl harness::policy::Approver {
    move |question: ApprovalRequest| {
        let approval = match source {
            Source::Run => answer(&question),
            Source::Clock => question.later(Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1))),
            _ => question.later(None),
        };
        async move { approval }
    }
}

fn no(question: &ApprovalRequest) -> Approval {
    question.no(format!("The key is {SECRET}. {}", "no ".repeat(1_000_000)))
}

fn denies(open: &OpenCall) -> Said {
    Said::Approval(no(&open.question().expect("a question")))
}

#[tokio::test]
async fn a_denial_keeps_every_promise_wherever_it_comes_from() {
    for source in SOURCES {
        let log = Log::default();
        let build = |permissions: Permissions, rails: Guardrails| {
            let agent = Agent::builder(asks_for(&["pay", "look"])).secret(SECRET);
            let agent = agent.tools([acts("pay", MUTATE, &log), acts("look", READ, &log)]);
            let agent = agent.approver(approver(source, no)).permissions(permissions);
            agent.guardrails(rails).build().expect("an agent")
        };
        let seen =
            run(&build(Permissions::default(), Guardrails::default()), source, &denies).await;
        let (outcome, text) = &seen.results[0];
        assert_eq!(*outcome, CallOutcome::Denied, "{source:?}");
        assert!(text.starts_with("This call was not allowed"), "{source:?}: {text:.80}");
        assert!(!text.contains(SECRET), "{source:?}: a known secret is hidden");
        assert!(text.len() < 100_000, "{source:?}: a reason is cut: {}", text.len());
        assert_eq!(seen.outcome, Some(Outcome::Answered), "{source:?}: the model goes on");
        if !matches!(source, Source::Steps | Source::StepsClock) {
            let told = seen.events.iter().filter(|line| line.starts_with("denied pay_call"));
            assert_eq!(told.count(), 1, "{source:?}: a watcher is told once: {:?}", seen.events);
            assert!(!seen.events.concat().contains(SECRET), "{source:?}");
        }

        let rails = Guardrails::default().failed_calls(1);
        let agent = Agent::builder(asks_for(&["pay"])).tools([acts("pay", MUTATE, &log)]);
        let agent = agent.approver(approver(source, no)).guardrails(rails);
        let seen = run(&agent.build().expect("an agent"), source, &denies).await;
        assert_eq!(seen.limit, Some(LimitKind::FailedCalls), "{source:?}: a denial counts");

        let before = log.lines().len();
        let stops = Permissions::default().stop_on_denial();
        let seen = run(&build(stops, Guardrails::default()), source, &denies).await;
        assert_eq!(
            seen.outcome,
            Some(Outcome::Denied),
            "{source:?}: the first denial ends the run"
        );
        assert!(log.lines().len() <= before + 1, "{source:?}");
    }
}

#[tokio::test]
async fn a_result_keeps_every_promise_wherever_it_comes_from() {
    let long = || format!("The key is {SECRET}. {}", "data ".repeat(1_000_000));
    for source in SOURCES {
        let gives = move |open: &OpenCall| Said::Settlement(open.failed(long()));
        let external = |name: &'static str| {
            let schema = json!({"type": "object", "properties": {}});
            match source {
                Source::Run => Tool::new(name, "Acts.", schema, READ, move |_, _| {
                    Box::pin(async move { Err(ToolError::new(long())) })
                }),
                _ => Tool::external(name, "Acts.", schema, READ),
            }
        };
        let build = |names: &'static [&'static str], rails: Guardrails, limits: Limits| {
            let agent = Agent::builder(asks_for(names)).secret(SECRET).limits(limits);
            let agent = agent.tools(names.iter().map(|name| external(name)).collect::<Vec<_>>());
            agent.guardrails(rails).build().expect("an agent")
        };
        // A result from outside has no deadline, so it is never over.
        if matches!(source, Source::Clock) {
            continue;
        }
        let agent = build(&["a"], Guardrails::default(), Limits::new());
        let seen = run(&agent, source, &gives).await;
        let text = &seen.results[0].1;
        assert!(!text.contains(SECRET), "{source:?}: a known secret is hidden");
        assert!(text.len() < 200_000, "{source:?}: a result is cut: {}", text.len());
        assert_eq!(seen.outcome, Some(Outcome::Answered), "{source:?}");
        if !matches!(source, Source::Steps | Source::StepsClock) {
            let told = seen.events.iter().filter(|line| line.starts_with("result a_call"));
            assert_eq!(told.count(), 1, "{source:?}: a watcher is told once");
            assert!(!seen.events.concat().contains(SECRET), "{source:?}");
        }

        let agent = build(&["a"], Guardrails::default().failed_calls(1), Limits::new());
        let seen = run(&agent, source, &gives).await;
        assert_eq!(seen.limit, Some(LimitKind::FailedCalls), "{source:?}: a failure counts");

        let agent = build(&["a", "b", "c"], Guardrails::default(), Limits::new().tool_calls(2));
        let seen = run(&agent, source, &gives).await;
        assert_eq!(seen.limit, Some(LimitKind::ToolCalls), "{source:?}: each call counts");
    }
}

/// A version of the program: its tool `pay` has this schema, declares this, and writes down its arguments.
fn version(
    schema: Value,
    effects: SideEffects,
    log: &Log,
    asks: &Arc<Mutex<Vec<ApprovalRequest>>>,
) -> Agent {
    let log = log.clone();
    let pay = Tool::new("pay", "Pays.", schema, effects, move |_, arguments| {
        log.note(Value::Object(arguments).to_string());
        Box::pin(async { Ok("paid".into()) })
    });
    let asks = Arc::clone(asks);
    let later = move |question: ApprovalRequest| {
        asks.lock().expect("unpoisoned").push(question.clone());
        async move { question.later(None) }
    };
    let model = ScriptedProvider::answering(|request| match request.results().next() {
        Some(_) => reply().text("Done."),
        None => reply().call("pay", json!({"to": "Ada"})),
    });
    Agent::builder(model).tools([pay]).approver(later).build().expect("an agent")
}

fn pays(default: u64) -> Value {
    json!({"type": "object", "properties": {
        "to": {"type": "string", "description": "To whom"},
        "cents": {"type": "integer", "default": default},
    }})
}

#[tokio::test]
async fn a_call_runs_with_the_defaults_that_were_shown_also_in_a_later_version() {
    for source in [Source::Chat, Source::Inbox] {
        let (log, asks, journal) = (Log::default(), Arc::default(), MemoryJournal::new());
        let first = version(pays(5), MUTATE, &log, &asks);
        let mut chat = first.open(&journal, CHAT).await.expect("opened");
        let stopped = chat.send("Pay Ada.").await.expect_err("it waits");
        assert_eq!(stopped.outcome(), Outcome::Waiting);
        let question = chat.waiting()[0].question().expect("a question");
        assert_eq!(question.defaults.get("cents"), Some(&json!(5)), "it is shown");
        match source {
            Source::Inbox => {
                drop(chat);
                first.inbox(&journal).decide(CHAT, question.yes()).await.expect("written");
            }
            _ => {
                chat.decide(question.yes()).await.expect("written");
                drop(chat);
            }
        }
        let mut documented = pays(900_000);
        documented["properties"]["to"]["description"] = json!("Who gets it");
        let second = version(documented, MUTATE, &log, &asks);
        let mut chat = second.open(&journal, CHAT).await.expect("opened");
        chat.resume().await.expect("an answer");
        assert_eq!(log.lines(), [r#"{"to":"Ada","cents":5}"#], "{source:?}");
        assert_eq!(asks.lock().expect("unpoisoned").len(), 1, "{source:?}: asked once");
    }
}

#[tokio::test]
async fn a_person_is_asked_again_and_sees_the_difference_if_the_tool_is_another_one() {
    let mut other = pays(5);
    other["properties"]["cents"]["maximum"] = json!(10);
    let read_too = SideEffects::of(&[harness::SideEffect::Mutate, harness::SideEffect::Read]);
    let stricter = SideEffects::of(&[harness::SideEffect::Mutate]);
    for (before, schema, effects) in
        [(MUTATE, other, MUTATE), (stricter, pays(5), read_too), (read_too, pays(5), stricter)]
    {
        let (log, asks, journal) = (Log::default(), Arc::default(), MemoryJournal::new());
        let first = version(pays(5), before, &log, &asks);
        let mut chat = first.open(&journal, CHAT).await.expect("opened");
        chat.send("Pay Ada.").await.expect_err("it waits");
        let question = chat.waiting()[0].question().expect("a question");
        chat.decide(question.yes()).await.expect("written");
        drop(chat);
        let second = version(schema, effects, &log, &asks);
        let mut chat = second.open(&journal, CHAT).await.expect("opened");
        let stopped = chat.resume().await.expect_err("it waits again");
        assert_eq!(stopped.outcome(), Outcome::Waiting);
        assert!(log.lines().is_empty(), "nothing ran");
        let asked = asks.lock().expect("unpoisoned").clone();
        assert_eq!(asked.len(), 2);
        assert!(asked[0].changes.is_empty() && !asked[1].changes.is_empty(), "{:?}", asked[1]);
    }
}

#[tokio::test]
async fn a_default_that_comes_later_is_not_slipped_into_an_approved_call() {
    let without = json!({"type": "object", "properties": {
        "to": {"type": "string"}, "cents": {"type": "integer"},
    }});
    let mut with = without.clone();
    with["properties"]["cents"]["default"] = json!(900_000);
    // An argument that must be there and has a default is never missing.
    let mut required = with.clone();
    required["required"] = json!(["to", "cents"]);
    for (schema, effects) in [(with, MUTATE), (required, SideEffects::ALL)] {
        let (log, asks, journal) = (Log::default(), Arc::default(), MemoryJournal::new());
        let first = version(without.clone(), MUTATE, &log, &asks);
        let mut chat = first.open(&journal, CHAT).await.expect("opened");
        chat.send("Pay Ada.").await.expect_err("it waits");
        let question = chat.waiting()[0].question().expect("a question");
        chat.decide(question.yes()).await.expect("written");
        drop(chat);
        let second = version(schema, effects, &log, &asks);
        let mut chat = second.open(&journal, CHAT).await.expect("opened");
        let stopped = chat.resume().await.expect_err("it waits again");
        assert_eq!(stopped.outcome(), Outcome::Waiting);
        assert!(log.lines().is_empty(), "{:?}", log.lines());
        let asked = asks.lock().expect("unpoisoned").clone();
        assert!(asked[1].changes.contains(&"`cents` was not there".to_owned()), "{:?}", asked[1]);
    }
}

#[tokio::test]
async fn new_limits_forget_no_denial_that_came_later() {
    let (log, journal) = (Log::default(), MemoryJournal::new());
    let agent = Agent::builder(asks_for(&["pay"])).tools([acts("pay", MUTATE, &log)]);
    let agent = agent.approver(approver(Source::Inbox, no));
    let agent = agent.permissions(Permissions::default().stop_on_denial()).build();
    let agent = agent.expect("an agent");
    let mut chat = agent.open(&journal, CHAT).await.expect("opened");
    chat.send("Go.").await.expect_err("it waits");
    let question = chat.waiting()[0].question().expect("a question");
    agent.inbox(&journal).decide(CHAT, question.no("No.")).await.expect("written");
    let stopped = chat.resume().limits(Limits::new().tool_calls(9)).await.expect_err("it stops");
    assert_eq!(stopped.outcome(), Outcome::Denied);
}

#[tokio::test]
async fn an_always_holds_only_for_the_words_of_its_scope() {
    let (log, asks, journal) = (Log::default(), Arc::default(), MemoryJournal::new());
    let build = |words: &'static str| {
        let scope = move |_: &harness::message::Arguments| {
            harness::tool::Review::ask("hm").with_scope(harness::tool::Scope::new("wide", words))
        };
        let asks: Arc<Mutex<Vec<ApprovalRequest>>> = Arc::clone(&asks);
        let approver = move |question: ApprovalRequest| {
            asks.lock().expect("unpoisoned").push(question.clone());
            let approval = question.always_for(question.scopes.last().expect("a scope"));
            async move { approval }
        };
        let agent = Agent::builder(asks_for(&["pay"])).approver(approver);
        agent.tools([acts("pay", MUTATE, &log).with_review(scope)]).build().expect("an agent")
    };
    for (words, asked) in
        [("payments up to 5", 1), ("payments up to 5", 1), ("all payments to anybody", 2)]
    {
        let mut chat = build(words).open(&journal, CHAT).await.expect("opened");
        chat.send("Go.").await.expect("an answer");
        assert_eq!(asks.lock().expect("unpoisoned").len(), asked, "{words}");
    }
}

#[tokio::test]
async fn an_always_holds_only_for_the_defaults_that_were_shown() {
    for (default, asked) in [(5, 1), (900_000, 2)] {
        let (log, asks, journal) = (Log::default(), Arc::default(), MemoryJournal::new());
        let first = version(pays(5), MUTATE, &log, &asks);
        let mut chat = first.open(&journal, CHAT).await.expect("opened");
        chat.send("Pay Ada.").await.expect_err("it waits");
        let question = chat.waiting()[0].question().expect("a question");
        chat.decide(question.always()).await.expect("written");
        chat.resume().await.expect("an answer");
        drop(chat);
        let second = version(pays(default), MUTATE, &log, &asks);
        let mut chat = second.open(&journal, CHAT).await.expect("opened");
        let _ = chat.send("Again.").await;
        let asks = asks.lock().expect("unpoisoned").clone();
        assert_eq!(asks.len(), asked, "default {default}");
        let ran = 3 - asked;
        assert_eq!(log.lines().len(), ran, "default {default}");
        if let Some(again) = asks.get(1) {
            assert_eq!(again.changes, ["`cents` was 5"]);
        }
    }
}

#[tokio::test]
async fn nobody_is_asked_about_a_call_whose_arguments_do_not_fit() {
    let (log, asks) = (Log::default(), Arc::default());
    let mut schema = pays(5);
    schema["properties"]["to"] = json!({"type": "integer"});
    let agent = version(schema, MUTATE, &log, &asks);
    let mut chat: Chat = agent.chat();
    chat.send("Pay Ada.").await.expect("an answer");
    assert!(asks.lock().expect("unpoisoned").is_empty());
    let results = chat.transcript().messages().iter().flat_map(Message::results);
    let results: Vec<String> = results.map(|result| result.to_text()).collect();
    assert!(results[0].contains("`to`"), "{results:?}");
    assert!(log.lines().is_empty());
}

#[tokio::test]
async fn what_was_decided_counts_for_its_call_alone() {
    let (log, asks, journal) = (Log::default(), Arc::default(), MemoryJournal::new());
    let agent = version(pays(5), MUTATE, &log, &asks);
    let mut chat = agent.open(&journal, CHAT).await.expect("opened");
    chat.send("Pay Ada.").await.expect_err("it waits");
    let mut other = chat.waiting()[0].question().expect("a question");
    other.nonce = "another".to_owned();
    let refused = |told: Result<(), Error>| {
        assert_eq!(told.expect_err("refused").kind(), ErrorKind::NotWaiting);
    };
    refused(chat.decide(other.yes()).await);
    refused(agent.inbox(&journal).decide(CHAT, other.yes()).await);
    let facts = journal.read(CHAT, 0).await.expect("read");
    let steps = agent.steps(CHAT, facts.facts).expect("steps");
    refused(steps.decided(other.yes()).map(drop));
    assert_eq!(chat.waiting().len(), 1, "it still waits");
}

/// An agent whose tool `helper` is another agent that asks a person before it pays.
fn lead(log: &Log, helper_is_agent: bool) -> Agent {
    let later = |question: ApprovalRequest| async move { question.later(None) };
    let helper: Tool = match helper_is_agent {
        true => {
            let model = asks_for(&["note", "pay"]);
            let tools = [acts("note", WRITE, log), acts("pay", MUTATE, log)];
            let inner = Agent::builder(model).tools(tools).build().expect("an agent");
            inner.as_tool("helper", "Helps.")
        }
        false => {
            let log = log.clone();
            let schema = json!({"type": "object", "properties": {"task": {"type": "string"}}});
            Tool::new("helper", "Helps.", schema, SideEffects::ALL, move |_, _| {
                log.note("helper as a function".to_owned());
                Box::pin(async { Ok("helped".into()) })
            })
        }
    };
    let model = ScriptedProvider::answering(|request| match request.results().next() {
        Some(_) => reply().text("Done."),
        None => reply().call_with_id("helper_call", "helper", json!({"task": "Pay."})),
    });
    let agent = Agent::builder(model).tools([helper]).approver(later);
    agent.permissions(Permissions::default().allow("helper")).build().expect("an agent")
}

#[tokio::test]
async fn an_agent_that_waits_does_not_begin_anew_as_a_function_of_the_same_name() {
    let (log, journal) = (Log::default(), MemoryJournal::new());
    let first = lead(&log, true);
    let mut chat = first.open(&journal, CHAT).await.expect("opened");
    let stopped = chat.send("Go.").await.expect_err("it waits");
    assert_eq!(stopped.outcome(), Outcome::Waiting);
    assert_eq!(log.lines(), ["note {}"], "the agent has done a part");
    drop(chat);
    let child = format!("{CHAT}/helper_call");
    let inbox = first.inbox(&journal);
    let question = inbox.waiting(&child).await.expect("read")[0].question().expect("a question");
    inbox.decide(&child, question.yes()).await.expect("written");
    let second = lead(&log, false);
    let mut chat = second.open(&journal, CHAT).await.expect("opened");
    chat.resume().await.expect("an answer");
    assert_eq!(log.lines(), ["note {}"], "nothing begins from its beginning");
    let results = chat.transcript().messages().iter().flat_map(Message::results);
    let outcomes: Vec<CallOutcome> = results.map(|result| result.outcome()).collect();
    assert_eq!(outcomes, [CallOutcome::InDoubt]);
}

#[tokio::test]
async fn nothing_is_decided_in_the_conversation_of_an_agent_whose_call_is_over() {
    // The names of conversations below a long one are hashes.
    for name in ["chat".to_owned(), "c".repeat(250)] {
        let (log, journal) = (Log::default(), MemoryJournal::new());
        let agent = lead(&log, true);
        let mut chat = agent.open(&journal, &name).await.expect("opened");
        chat.send("Go.").await.expect_err("it waits");
        let all = journal.list(&harness::journal::ConversationQuery::new()).await.expect("a page");
        let child = all.conversations.into_iter().map(|it| it.id).find(|id| *id != name);
        let child = child.expect("a conversation of the agent");
        let inbox = agent.inbox(&journal);
        let open = inbox.waiting(&child).await.expect("read").remove(0);
        let doubt = chat.waiting().remove(0).failed("It was stopped.");
        chat.settle(doubt).await.expect("written");
        chat.resume().await.expect("an answer");
        assert!(inbox.waiting(&child).await.expect("read").is_empty(), "{name:.8}");
        let refused = inbox.decide(&child, open.question().expect("a question").yes()).await;
        assert_eq!(refused.expect_err("refused").kind(), ErrorKind::NotWaiting, "{name:.8}");
    }
}
