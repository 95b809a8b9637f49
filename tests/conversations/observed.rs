//! What observers see of a conversation in a journal: its facts, its appends and holds, and its
//! calls that wait.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use harness::{
    Agent, CallOutcome, Outcome, Permissions, SideEffect, SideEffects, Tool, ToolError,
    agent::AgentBuilder,
    journal::{Decider, Envelope, Fact, Head, Journal, JournalFuture, Lease, MemoryJournal},
    policy::{Approval, ApprovalRequest},
    testing::{FaultyJournal, JournalCall, JournalFault, ScriptedProvider, reply},
    tool::{CancellationToken, ReconcileFault, Reconciled},
    trace::{
        self, AppendOutcome, Happened, HoldOutcome, Redaction, RunListener, Trace, TraceEvent,
        TraceListener, WaitsFor,
    },
};
use serde_json::{Value, json};

fn schema() -> Value {
    json!({"type": "object", "properties": {}, "additionalProperties": true})
}

/// A tool with these side effects that says this.
fn says(name: &'static str, effects: &[SideEffect], said: &'static str) -> Tool {
    Tool::new(name, "Says it.", schema(), SideEffects::of(effects), move |_, _| {
        Box::pin(async move { Ok(said.into()) })
    })
}

/// A trace in a file, so that what happens outside of a run can be read, too.
struct Paper {
    _folder: tempfile::TempDir,
    path: std::path::PathBuf,
    trace: Trace,
}

impl Paper {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trace.jsonl");
        let trace = Trace::default().to_file(&path).expect("a file");
        Self { _folder: folder, path, trace }
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.path).expect("a file")
    }

    fn events(&self) -> Vec<TraceEvent> {
        trace::read(&self.text()).expect("events")
    }

    /// What was told that this takes out.
    fn told<T>(&self, of: impl Fn(Happened) -> Option<T>) -> Vec<T> {
        self.events().into_iter().filter_map(|event| of(event.what)).collect()
    }
}

fn names(events: &[TraceEvent]) -> Vec<String> {
    let name = |event: &TraceEvent| {
        let json = serde_json::to_value(&event.what).expect("JSON");
        json["event"].as_str().expect("a name").to_owned()
    };
    events.iter().map(name).collect()
}

fn later() -> impl Fn(ApprovalRequest) -> std::future::Ready<Approval> + Send + Sync + 'static {
    |question: ApprovalRequest| std::future::ready(question.later(None))
}

/// An agent whose model asks for these calls once, and then ends.
fn agent(calls: &[(&'static str, Value)], trace: &Trace) -> AgentBuilder {
    let calls = calls.to_vec();
    let model = ScriptedProvider::answering(move |request| {
        match request.messages().iter().any(|message| message.results().next().is_some()) {
            true => reply().text("Done."),
            false => calls.iter().fold(reply(), |reply, (tool, arguments)| {
                reply.call_with_id(format!("{tool}-1"), *tool, arguments.clone())
            }),
        }
    });
    Agent::builder(model).trace(trace.clone())
}

/// The facts of a conversation up to the first one that is so, as another one that was left there.
async fn left_at(journal: &MemoryJournal, from: &str, to: &str, is_last: impl Fn(&Fact) -> bool) {
    let facts = journal.read(from, 0).await.expect("facts").facts;
    let at = facts.iter().position(|fact| is_last(&fact.fact().expect("a fact")));
    journal.append(to, Head::default(), &facts[..=at.expect("it is there")]).await.expect("new");
}

/// A call that waits for an approval, one for its result, one for an answer.
fn waiting(trace: &Trace) -> AgentBuilder {
    let form = Tool::external("form", "A form.", schema(), SideEffects::of(&[SideEffect::Read]));
    let asks = Tool::new(
        "asks",
        "Asks.",
        schema(),
        SideEffects::of(&[SideEffect::Write]),
        |context, _| {
            let answer = context.answered().map(|answered| answered.answer.to_string());
            Box::pin(async move {
                match answer {
                    Some(_) => Ok("heard".into()),
                    None => Err(ToolError::asks("Which one?", json!(7))),
                }
            })
        },
    );
    let calls = [
        ("pay", json!({"to": "ann"})),
        ("form", json!({"n": 1})),
        ("asks", json!({"password": "hunter2-hunter2"})),
    ];
    let permissions = Permissions::default().allow("asks").allow("form").ask("pay");
    agent(&calls, trace)
        .tools([says("pay", &[SideEffect::Mutate], "paid"), form, asks])
        .permissions(permissions)
        .approver(later())
}

#[tokio::test]
async fn what_waits_for_what_and_who_answers_is_told() {
    let paper = Paper::new();
    let journal = MemoryJournal::new();
    let agent = waiting(&paper.trace).build().expect("an agent");
    let mut chat = agent.open(&journal, "chat").await.expect("new");
    let stopped = chat.send("Go.").await.expect_err("it waits");
    assert_eq!(stopped.outcome(), Outcome::Waiting);
    let waits = |events: &[TraceEvent]| -> Vec<(String, String, WaitsFor, bool)> {
        let wait = |event: &TraceEvent| match &event.what {
            Happened::CallWaits { call, tool, awaited, question, since_ms, until_ms: None } => {
                assert!(*since_ms > 1_600_000_000_000, "{since_ms}");
                Some((call.clone(), tool.clone(), *awaited, question.is_some()))
            }
            _ => None,
        };
        events.iter().filter_map(wait).collect()
    };
    let pay = ("pay-1".to_owned(), "pay".to_owned(), WaitsFor::Approval, true);
    assert_eq!(waits(stopped.trace().events()), [pay], "what is behind it has not begun");
    assert!(stopped.trace().to_string().contains("-> waits for an approval: "));

    // It is decided in the chat, between two runs: told with the next one, of which it is a part.
    let question = chat.waiting()[0].question().expect("a question");
    chat.decide(question.yes().by("ada")).await.expect("it waits");
    let stopped = chat.resume().await.expect_err("two more wait");
    let events = stopped.trace().events();
    assert!(events.iter().all(|event| event.run == events[0].run), "{events:?}");
    assert_eq!(names(events)[..3], ["call_decided", "appended", "run_started"]);
    let Happened::CallDecided { by: Decider::Person { who, .. }, waited_ms, elsewhere, .. } =
        &events[0].what
    else {
        panic!("{:?}", events[0])
    };
    assert_eq!((who.as_deref(), waited_ms.is_some(), *elsewhere), (Some("ada"), true, false));
    let form = ("form-1".to_owned(), "form".to_owned(), WaitsFor::Result, false);
    assert_eq!(waits(events), [form]);

    // An inbox tells of it at once. Who has the conversation open hears of it with the next run.
    let inbox = agent.inbox(&journal);
    let open = inbox.waiting("chat").await.expect("open").remove(0);
    let settled = open.succeeded(r#"{"password": "swordfish", "n": 1}"#).by("bob");
    inbox.settle("chat", settled).await.expect("it waits");
    let events = paper.events();
    let (told, append) = (&events[events.len() - 1], &events[events.len() - 2]);
    let Happened::CallSettled { who, outcome, tool, awaited, waited_ms, elsewhere, .. } =
        &told.what
    else {
        panic!("{told:?}")
    };
    assert_eq!((who.as_deref(), *outcome, &**tool), (Some("bob"), CallOutcome::Succeeded, "form"));
    assert_eq!((*awaited, waited_ms.is_some(), *elsewhere), (Some(WaitsFor::Result), true, false));
    assert!(matches!(&append.what, Happened::Appended { facts: 1, .. }), "{append:?}");
    assert_eq!(told.run, append.run);

    let stopped = chat.resume().await.expect_err("one more waits");
    let events = stopped.trace().events();
    assert_eq!(names(events)[..2], ["run_started", "call_settled"]);
    let Happened::CallSettled { elsewhere: true, waited_ms: Some(_), .. } = &events[1].what else {
        panic!("{:?}", events[1])
    };
    let asks = ("asks-1".to_owned(), "asks".to_owned(), WaitsFor::Answer, true);
    assert_eq!(waits(events), [asks]);
    drop(chat);

    // Who opens it later hears of the answers that came last.
    let open = inbox.waiting("chat").await.expect("open").remove(0);
    let answer = open.answered(json!({"token": "opensesame", "which": 2})).by("cy");
    inbox.settle("chat", answer).await.expect("it waits");
    let mut chat = agent.open(&journal, "chat").await.expect("it is there");
    let reply = chat.resume().await.expect("an answer");
    let events = reply.trace().events();
    // Nobody was at work on it, so it was not cut off.
    assert_eq!(names(events)[..3], ["hold", "call_answered", "run_started"]);
    let Happened::CallAnswered { tool, answer, who, elsewhere: true, waited_ms: Some(_), .. } =
        &events[1].what
    else {
        panic!("{:?}", events[1])
    };
    assert_eq!((&**tool, who.as_deref()), ("asks", Some("cy")));
    assert!(answer.contains("\"which\":2"), "{answer}");
    let shown = reply.trace().to_string();
    assert!(shown.contains("-> answered by cy after "), "{shown}");

    // What is secret is nowhere, also where only another run knew that it is.
    let all = format!("{}{shown}{}", paper.text(), trace::page(&paper.events()));
    for secret in ["hunter2", "swordfish", "opensesame"] {
        assert!(!all.contains(secret), "{secret} is in {all}");
    }
}

/// The clocks of those who wrote the facts say how long a call waited.
#[tokio::test]
async fn how_long_a_call_waited_is_told_across_processes() {
    let paper = Paper::new();
    let journal = MemoryJournal::new();
    let agent = waiting(&paper.trace).build().expect("an agent");
    let mut chat = agent.open(&journal, "first").await.expect("new");
    chat.send("Go.").await.expect_err("it waits");
    let facts = journal.read("first", 0).await.expect("facts").facts;
    // As if all of it had been an hour before.
    let hour = 3_600_000;
    let earlier = |fact: &Envelope| {
        let Envelope { format, version, life, at, elapsed, fact, .. } = fact.clone();
        Envelope::stored(format, version, life, at - hour, elapsed, fact)
    };
    let facts: Vec<Envelope> = facts.iter().map(earlier).collect();
    for name in ["chat", "inbox"] {
        journal.append(name, Head::default(), &facts).await.expect("new");
        let open = agent.inbox(&journal).waiting(name).await.expect("open").remove(0);
        let approval = open.question().expect("a question").no("too dear");
        match name {
            "inbox" => agent.inbox(&journal).decide(name, approval).await,
            _ => agent.open(&journal, name).await.expect("there").decide(approval).await,
        }
        .expect("it waits");
    }
    let waited = paper.told(|what| match what {
        Happened::CallDecided { waited_ms, .. } => waited_ms,
        _ => None,
    });
    assert_eq!(waited.len(), 2);
    assert!(waited.iter().all(|waited| (hour..hour + 600_000).contains(waited)), "{waited:?}");
}

#[tokio::test]
async fn a_wait_that_nobody_ends_in_time_is_told() {
    let paper = Paper::new();
    let journal = MemoryJournal::new();
    let long_ago =
        |question: ApprovalRequest| std::future::ready(question.later(Some(std::time::UNIX_EPOCH)));
    let agent = waiting(&paper.trace).approver(long_ago).build().expect("an agent");
    let mut chat = agent.open(&journal, "chat").await.expect("new");
    chat.send("Go.").await.expect_err("it waits");
    chat.resume().await.expect_err("the next one waits");
    let denied = paper.told(|what| match what {
        Happened::CallDecided { by: Decider::Expired, waited_ms, .. } => Some(waited_ms.is_some()),
        _ => None,
    });
    assert_eq!(denied, [true]);
}

/// Two calls that had started when their process ended: one only reads, and one pays.
async fn interrupted(journal: &MemoryJournal, trace: &Trace, pay: Tool) -> Agent {
    let calls = [("look", json!({})), ("pay", json!({"password": "hunter2-hunter2"}))];
    let look = says("look", &[SideEffect::Read], "a cat");
    let agent = agent(&calls, trace).tools([look, pay]).permissions(Permissions::allow_all());
    let agent = agent.build().expect("an agent");
    let untold = agent.open(journal, "whole").await;
    untold.expect("new").send("Go.").await.expect("an answer");
    left_at(
        journal,
        "whole",
        "chat",
        |fact| matches!(fact, Fact::CallStarted { call } if call == "pay-1"),
    )
    .await;
    agent
}

#[tokio::test]
async fn what_a_reopening_puts_in_doubt_and_what_was_said_of_it_is_told() {
    let (paper, journal) = (Paper::new(), MemoryJournal::new());
    let pay = || says("pay", &[SideEffect::Network], "paid");
    let agent = interrupted(&journal, &paper.trace, pay()).await;
    let mut chat = agent.open(&journal, "chat").await.expect("it is there");
    let open = chat.in_doubt().remove(0);
    chat.settle(open.not_happened().by("ada")).await.expect("it is in doubt");
    let reply = chat.resume().await.expect("an answer");
    let events = reply.trace().events();
    assert_eq!(names(events)[..4], ["hold", "reopened", "call_cleared", "appended"]);
    let Happened::Reopened { in_doubt, runs_again } = &events[1].what else {
        panic!("{:?}", events[1])
    };
    assert_eq!(in_doubt, &["pay-1"]);
    assert_eq!(runs_again, &[""; 0], "the other one had ended");
    let Happened::CallCleared { call, tool } = &events[2].what else { panic!("{:?}", events[2]) };
    assert_eq!((&**call, &**tool), ("pay-1", "pay"));
    let Happened::RunStarted { journaled, earlier, said: None, .. } = &events[4].what else {
        panic!("{:?}", events[4])
    };
    assert_eq!((journaled.as_deref(), *earlier), (Some("chat"), 2));
    let shown = reply.trace().to_string();
    assert!(
        shown.starts_with("read again in the middle of a run (in doubt: 1, run again: 0)"),
        "{shown}"
    );
    assert!(shown.contains("nothing of it has happened: it runs\n"), "{shown}");
    drop(chat);

    // It is also told where the process ends before a run begins.
    left_at(&journal, "chat", "other", |fact| matches!(fact, Fact::CallStarted { .. })).await;
    drop(agent.open(&journal, "other").await.expect("it is there"));
    let events = paper.events();
    let Some(Happened::Reopened { in_doubt, runs_again }) = events.last().map(|last| &last.what)
    else {
        panic!("{events:?}")
    };
    assert_eq!((&in_doubt[..], &runs_again[..]), (&[][..], &["look-1".to_owned()][..]));

    let mut fork = agent.open(&journal, "whole").await.expect("it is there");
    let mut fork = fork.fork("fork", 3).await.expect("new");
    let again = fork.send("Again.").await.expect("an answer");
    let told = again.trace().events().iter().find_map(|event| match &event.what {
        Happened::Forked { from, facts } => Some((from.clone(), *facts)),
        _ => None,
    });
    assert_eq!(told, Some(("whole".to_owned(), 3)));
    let written = paper.told(|what| match what {
        Happened::Appended { conversation, outcome, .. } if conversation == "fork" => Some(outcome),
        _ => None,
    });
    assert_eq!(written[0], AppendOutcome::Written, "what makes it a fork");
}

/// A tool's marked fields are hidden where another process had made the call, and so is whoever decides
/// if that looks like a key.
#[tokio::test]
async fn what_is_secret_stays_so_where_another_process_goes_on() {
    let paper = Paper::new();
    let trace = paper.trace.clone().redaction(Redaction::default().field("pay", "iban"));
    let journal = MemoryJournal::new();
    let pay = || {
        says("pay", &[SideEffect::Network], "paid").with_reconcile(|_, _| {
            let receipt = json!({"iban": "XX12 3456", "cents": 7}).to_string();
            Box::pin(async move { Ok(Reconciled::Happened(receipt.into())) })
        })
    };
    drop(interrupted(&journal, &trace, pay()).await);
    let agent = Agent::builder(ScriptedProvider::new([reply().text("Done.")]));
    let agent = agent.tools([pay()]).trace(trace.clone()).build().expect("an agent");
    let mut chat = agent.open(&journal, "chat").await.expect("it is there");
    let reply = chat.resume().await.expect("an answer");
    let finished = reply.trace().events().iter().find_map(|event| match &event.what {
        Happened::CallFinished { call, text, .. } if call == "pay-1" => Some(text.clone()),
        _ => None,
    });
    assert_eq!(finished.as_deref(), Some(r#"{"iban":"[secret]","cents":7}"#));

    let agent = waiting(&trace).build().expect("an agent");
    agent.open(&journal, "other").await.expect("new").send("Go.").await.expect_err("it waits");
    let open = agent.inbox(&journal).waiting("other").await.expect("open").remove(0);
    let key = "sk-ant-api03-abcdefghijkl";
    let approval = open.question().expect("a question").always().by(key);
    agent.inbox(&journal).decide("other", approval).await.expect("it waits");
    assert!(!paper.text().contains(key) && !paper.text().contains("XX12"), "{}", paper.text());
}

/// An inbox that meets its own answer, since the append came through twice, tells of one answer.
#[tokio::test]
async fn an_answer_that_is_read_back_is_told_once() {
    let (paper, inner) = (Paper::new(), MemoryJournal::new());
    let agent = waiting(&paper.trace).build().expect("an agent");
    agent.open(&inner, "chat").await.expect("new").send("Go.").await.expect_err("it waits");
    let journal = FaultyJournal::new(inner);
    journal.fail(JournalCall::Append, 0, JournalFault::Repeat);
    let inbox = agent.inbox(&journal);
    let question = inbox.waiting("chat").await.expect("open")[0].question().expect("a question");
    let before = paper.events().len();
    inbox.decide("chat", question.yes()).await.expect("it waits");
    let events = paper.events().split_off(before);
    assert_eq!(names(&events), ["appended", "call_decided"]);
    assert_eq!(appends(&events), [(1, AppendOutcome::ReadBack)]);
}

/// The answer of an inbox is told as one of another process, also after one of the chat that has given way to it.
#[tokio::test]
async fn an_answer_that_gives_way_is_followed_by_the_one_that_counts() {
    let (paper, inner) = (Paper::new(), MemoryJournal::new());
    let agent = waiting(&paper.trace).build().expect("an agent");
    let journal = FaultyJournal::new(inner.clone());
    let mut chat = agent.open(&journal, "chat").await.expect("new");
    chat.send("Go.").await.expect_err("it waits");
    let question = chat.waiting()[0].question().expect("a question");
    let before = paper.events().len();
    for number in 0..9 {
        journal.fail(JournalCall::Append, number, JournalFault::FailBefore);
    }
    chat.decide(question.yes().by("one")).await.expect_err("the journal");
    journal.mend();
    let elsewhere = waiting(&Trace::default()).build().expect("an agent").inbox(&inner);
    elsewhere.decide("chat", question.no("no").by("two")).await.expect("it waits");
    chat.save().await.expect("a journal");
    let events = paper.events().split_off(before);
    let decided = events.iter().filter_map(|event| match &event.what {
        Happened::CallDecided { denied, waited_ms, elsewhere, .. } => {
            Some((denied.is_some(), waited_ms.is_some(), *elsewhere))
        }
        _ => None,
    });
    assert_eq!(decided.collect::<Vec<_>>(), [(false, true, false), (true, true, true)]);
}

/// What another driver does one by one is told as one run.
#[tokio::test]
async fn the_actions_of_another_driver_are_told_as_one_run() {
    let (paper, journal) = (Paper::new(), MemoryJournal::new());
    let pay = says("pay", &[SideEffect::Network], "paid");
    let agent = interrupted(&journal, &paper.trace, pay).await;
    let facts = journal.read("chat", 0).await.expect("facts").facts;
    let before = paper.events().len();
    let mut steps = agent.steps("chat", facts).expect("they can be read");
    for _ in ["reopened", "found out"] {
        steps.apply(steps.act().await.expect("a fact")).expect("it follows");
    }
    let events = paper.events().split_off(before);
    assert_eq!(names(&events), ["reopened", "call_finished"]);
    assert_eq!(events[0].run, events[1].run);
}

/// A way to find out what became of a call that fails like this.
fn unfound(fault: ReconcileFault) -> Tool {
    let pay = says("pay", &[SideEffect::Network], "paid").with_time_limit(Duration::from_secs(5));
    pay.with_reconcile(move |_, _| match fault {
        ReconcileFault::Panicked => panic!("no bank at sk-ant-api03-abcdefghijkl"),
        ReconcileFault::TimedOut => Box::pin(std::future::pending()),
        _ => Box::pin(async {
            let words = "the bank says: bad key tok-12345 or hunter2-hunter2";
            Err::<Reconciled, _>(ToolError::new(words))
        }),
    })
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_fails_to_find_out_what_became_of_its_call_is_told_with_the_reason() {
    for (fault, words) in [
        (ReconcileFault::Failed, "the bank says: bad key [secret] or "),
        (ReconcileFault::Panicked, "panicked: no bank at "),
        (ReconcileFault::TimedOut, "it did not end within its time limit"),
    ] {
        let (paper, journal) = (Paper::new(), MemoryJournal::new());
        let agent = interrupted(&journal, &paper.trace, unfound(fault)).await;
        drop(agent);
        let model = ScriptedProvider::new([reply().text("Done.")]);
        let agent = Agent::builder(model)
            .tools([says("look", &[SideEffect::Read], "a cat"), unfound(fault)]);
        let agent = agent.secret("tok-12345").trace(paper.trace.clone()).build();
        let mut chat = agent.expect("an agent").open(&journal, "chat").await.expect("there");
        let reply = chat.resume().await.expect("an answer");
        let failed = reply.trace().events().iter().find_map(|event| match &event.what {
            Happened::ReconcileFailed { call, tool, fault, error } => {
                assert_eq!((&**call, &**tool), ("pay-1", "pay"));
                Some((*fault, error.clone()))
            }
            _ => None,
        });
        let (told, error) = failed.expect("it is told");
        assert_eq!(told, fault);
        assert!(error.starts_with(words), "{error}");
        // The model reads it, and so does the program, without what is known to be secret.
        let results = chat.transcript().messages().iter().flat_map(harness::Message::results);
        let pay = results.filter(|result| result.call_id() == "pay-1").last().expect("a result");
        assert_eq!(pay.outcome(), CallOutcome::InDoubt);
        assert!(pay.to_text().contains("could not find out what became of it: "), "{pay:?}");
        assert!(pay.to_text().contains(words), "{pay:?}");
        let all = format!("{}{}{}", paper.text(), reply.trace(), trace::page(&paper.events()));
        for secret in ["tok-12345", "hunter2", "sk-ant-api03"] {
            assert!(!all.contains(secret), "{secret} is in {all}");
        }
        assert!(!format!("{pay:?}").contains("tok-12345"));
    }
}

#[tokio::test]
async fn what_is_taken_back_and_decided_anew_is_told() {
    let (paper, journal) = (Paper::new(), MemoryJournal::new());
    let agent = |calls: &[&str]| {
        let call = |id: &&str| reply().call_with_id(*id, "mail", json!({}));
        let replies = calls.iter().map(call).chain([reply().text("Done.")]);
        let agent = Agent::builder(ScriptedProvider::new(replies)).tools([says(
            "mail",
            &[SideEffect::Network],
            "sent",
        )]);
        let always = |question: ApprovalRequest| std::future::ready(question.always().by("ada"));
        agent.approver(always).trace(paper.trace.clone()).build().expect("an agent")
    };
    let mut whole = agent(&["one", "two"]).open(&journal, "whole").await.expect("new");
    whole.send("Go.").await.expect("an answer");
    let decided = |fact: &Fact| matches!(fact, Fact::CallDecided { call, .. } if call == "two");
    left_at(&journal, "whole", "chat", decided).await;

    let mut chat = agent(&[]).open(&journal, "chat").await.expect("it is there");
    let grant = chat.grants()[0].clone();
    assert!(chat.revoke(&grant));
    let reply = chat.resume().await.expect("an answer");
    let events = reply.trace().events();
    assert_eq!(
        names(events)[..4],
        ["hold", "reopened", "grant_revoked", "call_undecided"],
        "{}",
        reply.trace()
    );
    let Happened::GrantRevoked { call, scope } = &events[2].what else { panic!("{events:?}") };
    assert_eq!((&**call, &**scope), ("one", grant.scope.shown()));
    let Happened::CallUndecided { call, tool } = &events[3].what else { panic!("{events:?}") };
    assert_eq!((&**call, &**tool), ("two", "mail"));
}

/// What was told of appends: how many facts, and what became of them.
fn appends(events: &[TraceEvent]) -> Vec<(usize, AppendOutcome)> {
    let append = |event: &TraceEvent| match &event.what {
        Happened::Appended { facts, outcome, conversation, journal, bytes, error, .. } => {
            assert_eq!((&**conversation, &**journal), ("chat", "memory"));
            assert!(*bytes > 20 * facts, "{bytes}");
            let is_error = matches!(outcome, AppendOutcome::Failed | AppendOutcome::Conflict);
            assert_eq!(error.is_some(), is_error, "{error:?}");
            Some((*facts, *outcome))
        }
        _ => None,
    };
    events.iter().filter_map(append).collect()
}

fn pays(trace: &Trace) -> Agent {
    let pay = says("pay", &[SideEffect::Network], "paid");
    let agent = agent(&[("pay", json!({}))], trace).tools([pay]);
    agent.permissions(Permissions::allow_all()).build().expect("an agent")
}

#[tokio::test(start_paused = true)]
async fn what_became_of_each_append_is_told() {
    use AppendOutcome::{Failed, Interrupted, ReadBack, Written};
    let first = JournalCall::Append;
    for (fault, at, outcomes) in [
        (None, 0, vec![(1, Written), (3, Written), (1, Written), (1, Written)]),
        (
            Some(JournalFault::FailAfter),
            1,
            vec![(1, Written), (3, ReadBack), (1, Written), (1, Written)],
        ),
        (
            Some(JournalFault::Repeat),
            1,
            vec![(1, Written), (3, ReadBack), (1, Written), (1, Written)],
        ),
        (Some(JournalFault::FailBefore), 1, vec![(1, Written), (3, Failed), (5, Written)]),
        (
            Some(JournalFault::StopBefore),
            3,
            vec![(1, Written), (3, Written), (1, Written), (1, Interrupted)],
        ),
    ] {
        let journal = FaultyJournal::new(MemoryJournal::new());
        if let Some(fault) = fault {
            journal.fail(first, at, fault);
        }
        let agent = pays(&Trace::default());
        let mut chat = agent.open(&journal, "chat").await.expect("new");
        let trace = match chat.send("Go.").await {
            Ok(reply) => reply.trace().clone(),
            Err(stopped) => stopped.trace().clone(),
        };
        assert_eq!(appends(trace.events()), outcomes, "{fault:?}: {trace}");
        let last = names(trace.events()).pop();
        assert_eq!(last.as_deref(), Some("run_ended"), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn how_long_an_append_takes_is_told() {
    let journal = FaultyJournal::new(MemoryJournal::new());
    journal.fail(JournalCall::Append, 1, JournalFault::Delay(Duration::from_millis(40)));
    journal.fail(JournalCall::Hold, 0, JournalFault::Delay(Duration::from_millis(30)));
    let agent = pays(&Trace::default());
    let mut chat = agent.open(&journal, "chat").await.expect("new");
    let reply = chat.send("Go.").await.expect("an answer");
    let took = |event: &TraceEvent| match event.what {
        Happened::Appended { took_us, .. } => Some(took_us / 1000),
        Happened::Hold { outcome: HoldOutcome::Taken, took_us, .. } => took_us.map(|us| us / 1000),
        _ => None,
    };
    let took: Vec<u64> = reply.trace().events().iter().filter_map(took).collect();
    assert_eq!(took, [30, 0, 40, 0, 0]);
}

/// Nobody waits for the write any more: with the run, with `save`, with the conversation itself.
#[tokio::test(start_paused = true)]
async fn an_append_that_nobody_waits_for_to_the_end_is_told() {
    // The run is stopped while it waits.
    let journal = FaultyJournal::new(MemoryJournal::new());
    journal.fail(JournalCall::Append, 1, JournalFault::StopBefore);
    let mut chat = pays(&Trace::default()).open(&journal, "chat").await.expect("new");
    let stop = CancellationToken::new();
    let (sent, ()) =
        tokio::join!(chat.send("Go.").cancel_with(stop.clone()).into_future(), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            stop.cancel();
        });
    let stopped = sent.expect_err("it was stopped");
    let outcomes = appends(stopped.trace().events());
    assert_eq!(outcomes[..2], [(1, AppendOutcome::Written), (3, AppendOutcome::Interrupted)]);
    assert_eq!(outcomes[2].1, AppendOutcome::Written, "{outcomes:?}");
    for the_run in [true, false] {
        let (paper, journal) = (Paper::new(), FaultyJournal::new(MemoryJournal::new()));
        let agent = pays(&paper.trace);
        let mut chat = agent.open(&journal, "chat").await.expect("new");
        journal.fail(JournalCall::Append, 1, JournalFault::StopBefore);
        journal.fail(JournalCall::Append, 2, JournalFault::StopBefore);
        let minute = Duration::from_secs(1);
        let sent = tokio::time::timeout(minute, chat.send("Go.").into_future()).await;
        assert!(sent.is_err(), "the journal does not answer");
        let interrupted = (3, AppendOutcome::Interrupted);
        assert_eq!(appends(&paper.events()).last(), Some(&interrupted));
        let written = names(&paper.events());
        assert_eq!(written.last().map(String::as_str), Some("run_ended"));
        if the_run {
            continue;
        }
        let saved = tokio::time::timeout(minute, chat.save()).await;
        assert!(saved.is_err(), "the journal does not answer");
        let before = appends(&paper.events()).len();
        drop(chat);
        let appends = appends(&paper.events());
        assert_eq!(appends.len(), before + 1, "{appends:?}");
        assert_eq!(appends.last().map(|(_, outcome)| *outcome), Some(AppendOutcome::Interrupted));
    }
}

/// What happens before a run is kept up to a bound, and written all the same.
#[tokio::test]
async fn what_fails_for_days_between_two_runs_is_kept_within_a_bound() {
    let (paper, journal) = (Paper::new(), FaultyJournal::new(MemoryJournal::new()));
    let mut chat = pays(&paper.trace).open(&journal, "chat").await.expect("new");
    journal.fail_by_chance(1, 1.0, [JournalFault::FailBefore]);
    chat.send("Go.").await.expect_err("the journal fails");
    for _ in 0..300 {
        chat.save().await.expect_err("the journal fails");
    }
    journal.mend();
    let reply = chat.send("Go.").await;
    let trace = match &reply {
        Ok(reply) => reply.trace(),
        Err(stopped) => stopped.trace(),
    };
    let failed = |events: &[TraceEvent]| {
        let failed = appends(events);
        failed.iter().filter(|(_, outcome)| *outcome == AppendOutcome::Failed).count()
    };
    assert_eq!(failed(trace.events()), 256);
    assert!(failed(&paper.events()) >= 300);
    assert_eq!(names(trace.events())[256], "run_started");
}

/// A journal that two may hold.
#[derive(Clone)]
struct Unheld(MemoryJournal);

impl Journal for Unheld {
    crate::kept::hands_on!(0: read append rest);
    fn hold<'a>(&'a self, _: &'a str) -> JournalFuture<'a, Lease> {
        Box::pin(async { Ok(Lease::new(())) })
    }
}

fn holds(events: &[TraceEvent]) -> Vec<HoldOutcome> {
    let hold = |event: &TraceEvent| match &event.what {
        Happened::Hold { outcome, conversation, error, .. } => {
            assert_eq!(conversation, "chat");
            assert_eq!(error.is_none(), *outcome == HoldOutcome::Taken, "{error:?}");
            Some(*outcome)
        }
        _ => None,
    };
    events.iter().filter_map(hold).collect()
}

#[tokio::test]
async fn what_became_of_each_hold_is_told() {
    let (paper, journal) = (Paper::new(), FaultyJournal::new(MemoryJournal::new()));
    let agent = pays(&paper.trace);
    let held = agent.open(&journal, "chat").await.expect("new");
    agent.open(&journal, "chat").await.expect_err("it is open");
    drop(held);
    journal.fail(JournalCall::Hold, 2, JournalFault::FailBefore);
    agent.open(&journal, "chat").await.expect_err("it fails");
    let outcomes = [HoldOutcome::Taken, HoldOutcome::Busy, HoldOutcome::Failed];
    assert_eq!(holds(&paper.events()), outcomes);

    // Somebody else goes on with it all the same: that is told once, beside the append.
    let journal = Unheld(MemoryJournal::new());
    let mut one = agent.open(&journal, "chat").await.expect("new");
    let mut two = agent.open(&journal, "chat").await.expect("new for it, too");
    one.send("Pay.").await.expect("an answer");
    let stopped = two.send("Pay.").await.expect_err("somebody was faster");
    assert!(stopped.error().expect("why").is_conflict(), "{stopped}");
    let events = stopped.trace().events();
    assert_eq!(holds(events), [HoldOutcome::Taken, HoldOutcome::Lost]);
    let conflicts = events.iter().filter(|event| {
        matches!(&event.what, Happened::Appended { outcome: AppendOutcome::Conflict, journal, .. }
            if journal == "other")
    });
    assert_eq!(conflicts.count(), 1);
    assert!(stopped.trace().to_string().contains("chat is lost: "));
    let again = two.resume().await.expect_err("it is lost");
    assert_eq!(holds(again.trace().events()), [], "it was told");
}

/// Where nobody watches, nothing is told and the same happens.
#[tokio::test]
async fn with_no_trace_nothing_is_told() {
    let asked = Arc::new(AtomicBool::new(false));
    #[derive(Clone)]
    struct Asked(Unheld, Arc<AtomicBool>);
    impl Journal for Asked {
        fn system(&self) -> &str {
            self.1.store(true, Ordering::Relaxed);
            "asked"
        }
        crate::kept::hands_on!(0: read append hold rest);
    }
    // The library's own listener listens as soon as any test of this process records spans.
    struct Deaf;
    impl TraceListener for Deaf {
        fn listen(&self, _: &Trace) -> Box<dyn RunListener> {
            Box::new(Self)
        }
    }
    impl RunListener for Deaf {
        fn happened(&mut self, _: &Happened) {}

        fn is_listening(&self) -> bool {
            false
        }
    }
    for (trace, told) in [(Trace::off().listener(Deaf), false), (Trace::default(), true)] {
        let journal = Asked(Unheld(MemoryJournal::new()), Arc::clone(&asked));
        let mut chat = pays(&trace).open(&journal, "chat").await.expect("new");
        let reply = chat.send("Go.").await.expect("an answer");
        assert_eq!(reply.text(), "Done.");
        assert_eq!(!reply.trace().events().is_empty(), told);
        assert_eq!(asked.load(Ordering::Relaxed), told, "the journal is not asked for its name");
    }
}
