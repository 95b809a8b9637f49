//! Conversations in a journal: a process may end at any instant, and another one continues.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::FutureExt as _;
use harness::{
    Agent, CallOutcome, Chat, Error, ErrorKind, Outcome, SideEffect, SideEffects, Tool,
    agent::Machine,
    journal::{Envelope, Fact, Head, Journal, JournalFuture, LimitKind, MemoryJournal},
    policy::{ApprovalRequest, Guardrails},
    testing::{FaultyJournal, JournalCall, JournalFault, ScriptedProvider, ScriptedReply, reply},
    tool::Reconciled,
};
use serde_json::json;

use crate::kept::{CHAT, Watched, entries, kept_in};

const WRITE: SideEffects = SideEffects::of(&[SideEffect::Write]);
const READ: SideEffects = SideEffects::of(&[SideEffect::Read]);

/// What has really happened, whichever process did it.
#[derive(Clone, Default)]
struct World(Arc<Mutex<Vec<String>>>);

impl World {
    fn does(&self, what: impl Into<String>) {
        self.0.lock().expect("unpoisoned").push(what.into());
    }

    fn count(&self, what: &str) -> usize {
        self.0.lock().expect("unpoisoned").iter().filter(|done| *done == what).count()
    }
}

fn tool(name: &'static str, effects: SideEffects, world: &World) -> Tool {
    let world = world.clone();
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    Tool::new(name, "Does it.", schema, effects, move |context, arguments| {
        let (world, n) = (world.clone(), arguments["n"].clone());
        Box::pin(async move {
            world.does(format!("{name} {n}"));
            world.does(format!("key {}", context.idempotency_key()));
            Ok(format!("{name} {n} is done").into())
        })
    })
}

/// Answers by what it reads, so that it goes on wherever a conversation is.
fn model() -> ScriptedProvider {
    ScriptedProvider::answering(|request| {
        let said = request.messages().iter().filter(|m| m.calls().next().is_some()).count();
        turn(said)
    })
}

fn turn(number: usize) -> ScriptedReply {
    let call = |it: ScriptedReply, name: &str, n: usize| {
        it.call_with_id(format!("{name}_{n}"), name, json!({ "n": n }))
    };
    match number {
        0 => call(call(call(reply(), "look", 1), "pay", 1), "put", 1),
        1 => call(call(reply(), "pay", 2), "look", 2),
        _ => reply().text("All is paid."),
    }
}

fn agent(world: &World) -> Agent {
    let tools = [
        tool("look", READ, world),
        tool("pay", WRITE, world),
        tool("put", WRITE, world).idempotent(),
    ];
    Agent::builder(model()).tools(tools).build().expect("an agent")
}

/// A journal with these facts.
async fn with_facts(facts: &[Envelope]) -> MemoryJournal {
    let journal = MemoryJournal::new();
    journal.append(CHAT, Head::default(), facts).await.expect("an empty conversation");
    journal
}

fn outcomes(chat: &Chat) -> Vec<(String, CallOutcome)> {
    let messages = chat.transcript().messages();
    let results = messages.iter().flat_map(|message| message.results().collect::<Vec<_>>());
    results.map(|result| (result.call_id().to_owned(), result.outcome())).collect()
}

/// The process ends after each of its appends, and before it. What had started and may not be repeated is
/// in doubt, all else runs exactly once, and the model answers.
#[tokio::test]
async fn whenever_a_process_ends_another_one_goes_on() {
    let whole = MemoryJournal::new();
    let world = World::default();
    agent(&world).open(&whole, CHAT).await.expect("new").send("Pay.").await.expect("an answer");
    let facts = whole.read(CHAT, 0).await.expect("facts").facts;
    assert!(facts.len() > 15, "{}", facts.len());
    for kept in 1..=facts.len() {
        let world = World::default();
        let journal = with_facts(&facts[..kept]).await;
        let mut chat = agent(&world).open(&journal, CHAT).await.expect("it opens");
        // What had its result before the process ended.
        let before: Vec<String> = facts[..kept]
            .iter()
            .filter_map(|fact| match fact.fact().expect("a fact") {
                Fact::CallFinished { result, .. } => Some(result.call_id().to_owned()),
                _ => None,
            })
            .collect();
        let doubtful: Vec<String> =
            chat.in_doubt().iter().map(|open| open.call.id().to_owned()).collect();
        match chat.resume().await {
            Ok(reply) => assert_eq!(reply.text(), "All is paid.", "{kept}"),
            Err(stopped) => {
                assert_eq!(kept, facts.len(), "{kept}: {stopped}");
                assert!(stopped.to_string().contains("nothing to resume"), "{stopped}");
            }
        }
        for (id, outcome) in outcomes(&chat) {
            let (name, n) = id.split_once('_').expect("a name and a number");
            let (did, was) = (world.count(&format!("{name} {n}")), before.contains(&id));
            match (outcome, was) {
                (CallOutcome::Succeeded, was) => {
                    assert_eq!(did, usize::from(!was), "{kept}: {id} ran {did} times");
                }
                (CallOutcome::InDoubt, false) => {
                    assert!(doubtful.contains(&id), "{kept}: {id} was no doubt");
                    assert_eq!((name, did), ("pay", 0), "{kept}: {id}");
                }
                other => panic!("{kept}: {id} is {other:?}"),
            }
        }
        // What is in the journal is what the conversation says.
        let mut machine = Machine::new();
        entries(&journal).iter().for_each(|fact| machine.apply(fact).expect("it follows"));
        assert_eq!(machine.transcript(), chat.transcript(), "{kept}");
    }
}

/// A call that is repeated has the key that it had.
#[tokio::test]
async fn an_idempotent_call_runs_again_with_the_same_key() {
    let whole = MemoryJournal::new();
    let first = World::default();
    agent(&first).open(&whole, CHAT).await.expect("new").send("Pay.").await.expect("an answer");
    let facts = whole.read(CHAT, 0).await.expect("facts").facts;
    let started = |fact: &Envelope| matches!(fact.fact().expect("a fact"), Fact::CallStarted { call } if call == "put_1");
    let at = facts.iter().position(started).expect("it starts");
    let again = World::default();
    let journal = with_facts(&facts[..=at]).await;
    let mut chat = agent(&again).open(&journal, CHAT).await.expect("it opens");
    assert!(chat.in_doubt().is_empty());
    chat.resume().await.expect("an answer");
    assert_eq!(again.count("put 1"), 1);
    let key = |world: &World| {
        let done = world.0.lock().expect("unpoisoned").clone();
        let at = done.iter().position(|done| done == "put 1").expect("it ran");
        done[at + 1].clone()
    };
    assert_eq!(key(&first), key(&again));
    assert!(key(&first).contains("key chat/"), "{}", key(&first));
}

#[tokio::test]
async fn a_conversation_is_held_by_who_has_opened_it() {
    let (journal, world) = (MemoryJournal::new(), World::default());
    let agent = agent(&world);
    let chat = agent.open(&journal, CHAT).await.expect("new");
    let busy = agent.open(&journal, CHAT).await.expect_err("it is open");
    assert!(busy.is_busy(), "{busy}");
    drop(chat);
    agent.open(&journal, CHAT).await.expect("nobody has it");
}

/// A journal whose conversations are held by nobody: two processes that know nothing of each other.
#[derive(Clone)]
struct Unheld(MemoryJournal);

impl Journal for Unheld {
    crate::kept::hands_on!(0: read append rest);

    fn hold<'a>(&'a self, _: &'a str) -> JournalFuture<'a, harness::journal::Lease> {
        Box::pin(async { Ok(harness::journal::Lease::new(())) })
    }
}

#[tokio::test]
async fn the_second_writer_is_refused_before_its_effect() {
    let (journal, world) = (Unheld(MemoryJournal::new()), World::default());
    let agent = agent(&world);
    let mut one = agent.open(&journal, CHAT).await.expect("new");
    let mut two = agent.open(&journal, CHAT).await.expect("new for it, too");
    one.send("Pay.").await.expect("an answer");
    let stopped = two.send("Pay.").await.expect_err("somebody was faster");
    assert!(stopped.error().expect("why").is_conflict(), "{stopped}");
    for n in ["pay 1", "put 1", "pay 2"] {
        assert_eq!(world.count(n), 1, "{n}");
    }
    // It stays so, also where nothing new was said.
    let stopped = two.resume().await.expect_err("it is lost");
    assert!(stopped.error().expect("why").is_conflict(), "{stopped}");
    assert_eq!(world.count("pay 1"), 1);
}

/// A journal that fails at one append, before it is done or after.
fn failing(at: usize, after: bool) -> (impl Journal + Clone + 'static, MemoryJournal) {
    let journal = MemoryJournal::new();
    let inner = journal.clone();
    let count = Arc::new(AtomicUsize::new(0));
    #[derive(Clone)]
    struct Failing {
        inner: MemoryJournal,
        count: Arc<AtomicUsize>,
        at: usize,
        after: bool,
    }
    impl Journal for Failing {
        crate::kept::hands_on!(inner: read hold rest);
        fn append<'a>(
            &'a self,
            id: &'a str,
            after: Head,
            facts: &'a [Envelope],
        ) -> JournalFuture<'a, Head> {
            Box::pin(async move {
                let fails = self.count.fetch_add(1, Ordering::SeqCst) == self.at;
                if fails && !self.after {
                    return Err(Error::new(ErrorKind::Journal, "the disk is full"));
                }
                let head = self.inner.append(id, after, facts).await?;
                match fails {
                    true => Err(Error::new(ErrorKind::Journal, "the disk is full")),
                    false => Ok(head),
                }
            })
        }
    }
    (Failing { inner, count, at, after }, journal)
}

#[tokio::test]
async fn an_append_that_fails_ends_the_run_before_the_effect_and_is_tried_again() {
    let mut failed = 0;
    for at in 0..8 {
        for after in [false, true] {
            let world = World::default();
            let (journal, kept) = failing(at, after);
            let mut chat = kept_in(&agent(&world), &journal);
            let sent = chat.send("Pay.").await;
            if let Err(stopped) = &sent {
                // What was written after all is found out, and nothing has failed.
                assert!(!after, "{at}: {stopped}");
                failed += 1;
                assert_eq!(stopped.error().expect("why").kind(), ErrorKind::Journal, "{at}");
                stopped.transcript().sendable().unwrap_or_else(|err| panic!("{at}: {err}"));
                for (id, outcome) in outcomes(&chat) {
                    let (name, n) = id.split_once('_').expect("a name and a number");
                    let ran = world.count(&format!("{name} {n}"));
                    assert_eq!(
                        ran == 1,
                        outcome == CallOutcome::Succeeded,
                        "{at}: {id} {outcome:?}"
                    );
                }
                chat.send("And now?").await.expect("the disk has room again");
            }
            let mut machine = Machine::new();
            entries(&kept).iter().for_each(|fact| machine.apply(fact).expect("it follows"));
            assert_eq!(machine.transcript(), chat.transcript(), "{at} {after}");
        }
    }
    assert!(failed >= 5, "{failed}");
}

/// Asks a person who answers later.
fn later(until: Option<std::time::SystemTime>) -> impl harness::policy::Approver {
    move |question: ApprovalRequest| async move { question.later(until) }
}

fn asking(world: &World) -> Agent {
    let (mail, look) =
        (tool("mail", SideEffects::of(&[SideEffect::Network]), world), tool("look", READ, world));
    let model = ScriptedProvider::answering(|request| {
        match request.messages().iter().any(|message| message.results().next().is_some()) {
            false => reply()
                .call_with_id("a", "look", json!({"n": 1}))
                .call_with_id("b", "mail", json!({"n": 2}))
                .call_with_id("c", "look", json!({"n": 3})),
            true => reply().text("Done."),
        }
    });
    Agent::builder(model).tools([mail, look]).approver(later(None)).build().expect("an agent")
}

#[tokio::test]
async fn an_approval_is_given_later_by_another_process() {
    let (journal, world) = (MemoryJournal::new(), World::default());
    let mut chat = asking(&world).open(&journal, CHAT).await.expect("new");
    let stopped = chat.send("Go.").await.expect_err("it waits");
    assert_eq!(stopped.outcome(), Outcome::Waiting);
    assert_eq!(
        (world.count("look 1"), world.count("mail 2"), world.count("look 3")),
        (1, 0, 0),
        "those before run, and those behind do not"
    );
    drop(chat);

    // Another process answers, and holds nothing.
    let inbox = asking(&world).inbox(&journal);
    let waiting = inbox.waiting(CHAT).await.expect("it reads");
    let question = waiting[0].question().expect("it waits to be decided");
    assert_eq!((question.tool.as_str(), question.conversation.as_str()), ("mail", CHAT));
    let mut forged = question.clone();
    forged.nonce = "another".to_owned();
    inbox.decide(CHAT, forged.yes()).await.expect_err("another question");
    inbox.decide(CHAT, question.yes().by("ada")).await.expect("it waits");
    inbox.decide(CHAT, question.no("no")).await.expect_err("it was decided");

    // A third one goes on.
    let mut chat = asking(&world).open(&journal, CHAT).await.expect("nobody has it");
    assert!(chat.waiting().is_empty());
    assert_eq!(chat.resume().await.expect("an answer").text(), "Done.");
    assert_eq!((world.count("mail 2"), world.count("look 3")), (1, 1));
    assert!(outcomes(&chat).iter().all(|(_, outcome)| *outcome == CallOutcome::Succeeded));
}

#[tokio::test]
async fn who_has_the_conversation_open_reads_the_answer_of_another_process() {
    let (journal, world) = (MemoryJournal::new(), World::default());
    let mut chat = asking(&world).open(&journal, CHAT).await.expect("new");
    chat.send("Go.").await.expect_err("it waits");
    // Nothing was said meanwhile: it still waits.
    assert_eq!(chat.resume().await.expect_err("it waits").outcome(), Outcome::Waiting);
    let question = chat.waiting()[0].question().expect("a question");
    let inbox = asking(&world).inbox(&journal);
    inbox.decide(CHAT, question.no("not today")).await.expect("it waits");
    assert_eq!(chat.resume().await.expect("an answer").text(), "Done.");
    assert_eq!(world.count("mail 2"), 0);
    assert_eq!(outcomes(&chat)[1], ("b".to_owned(), CallOutcome::Denied));
}

#[tokio::test]
async fn a_message_in_between_ends_what_waits() {
    let (journal, world) = (MemoryJournal::new(), World::default());
    let mut chat = asking(&world).open(&journal, CHAT).await.expect("new");
    chat.send("Go.").await.expect_err("it waits");
    let question = chat.waiting()[0].question().expect("a question");
    chat.send("Never mind.").await.expect("an answer");
    assert_eq!(outcomes(&chat)[1], ("b".to_owned(), CallOutcome::NotStarted));
    let inbox = asking(&world).inbox(&journal);
    let late = inbox.decide(CHAT, question.yes()).await.expect_err("it waits no more");
    assert!(late.is_not_waiting() && late.to_string().contains("nothing has changed"), "{late}");
    assert_eq!(world.count("mail 2"), 0);
}

#[tokio::test]
async fn an_answer_that_comes_too_late_does_not_count() {
    let (journal, world) = (MemoryJournal::new(), World::default());
    let mail = tool("mail", SideEffects::of(&[SideEffect::Network]), &world);
    let model =
        ScriptedProvider::new([reply().call("mail", json!({"n": 2})), reply().text("Done.")]);
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    let agent = Agent::builder(model).tools([mail]).approver(later(Some(past))).build();
    let agent = agent.expect("an agent");
    let mut chat = agent.open(&journal, CHAT).await.expect("new");
    chat.send("Go.").await.expect_err("it waits");
    let question = chat.waiting()[0].question().expect("a question");
    let late = chat.decide(question.yes()).await.expect_err("too late");
    assert!(late.is_not_waiting() && late.to_string().contains("too late"), "{late}");
    chat.resume().await.expect("an answer");
    assert_eq!(outcomes(&chat)[0].1, CallOutcome::Denied);
    assert_eq!(world.count("mail 2"), 0);
}

#[tokio::test]
async fn what_became_of_a_call_in_doubt_can_be_said_or_found_out() {
    let whole = MemoryJournal::new();
    let world = World::default();
    agent(&world).open(&whole, CHAT).await.expect("new").send("Pay.").await.expect("an answer");
    let facts = whole.read(CHAT, 0).await.expect("facts").facts;
    let started = |fact: &Envelope| matches!(fact.fact().expect("a fact"), Fact::CallStarted { call } if call == "pay_1");
    let facts = &facts[..=facts.iter().position(started).expect("it starts")];

    // The program says it.
    for (happened, runs) in [(true, 0), (false, 1)] {
        let (journal, world) = (with_facts(facts).await, World::default());
        let mut chat = agent(&world).open(&journal, CHAT).await.expect("it opens");
        let open = chat.in_doubt().remove(0);
        let said = match happened {
            true => open.succeeded("paid"),
            false => open.not_happened(),
        };
        chat.settle(said).await.expect("it is in doubt");
        chat.resume().await.expect("an answer");
        let pay = outcomes(&chat).into_iter().find(|(id, _)| id == "pay_1").expect("it ended");
        assert_eq!((pay.1, world.count("pay 1")), (CallOutcome::Succeeded, runs));
    }

    // Its tool finds it out.
    for (found, runs, outcome) in [
        (Some(true), 0, CallOutcome::Succeeded),
        (Some(false), 1, CallOutcome::Succeeded),
        (None, 0, CallOutcome::InDoubt),
    ] {
        let (journal, world) = (with_facts(facts).await, World::default());
        let pay = tool("pay", WRITE, &world).with_reconcile(move |context, _| {
            Box::pin(async move {
                assert!(context.idempotency_key().starts_with("chat/"));
                match found {
                    Some(true) => Ok(Reconciled::Happened("paid".into())),
                    Some(false) => Ok(Reconciled::NotHappened),
                    None => panic!("the bank fell"),
                }
            })
        });
        let tools = [tool("look", READ, &world), pay, tool("put", WRITE, &world)];
        let agent = Agent::builder(model()).tools(tools).build().expect("an agent");
        let mut chat = agent.open(&journal, CHAT).await.expect("it opens");
        chat.resume().await.expect("an answer");
        let pay = outcomes(&chat).into_iter().find(|(id, _)| id == "pay_1").expect("it ended");
        assert_eq!((pay.1, world.count("pay 1")), (outcome, runs), "{found:?}");
    }
}

/// Whenever it is started, it falls in the middle.
#[tokio::test]
async fn a_process_that_falls_again_and_again_comes_to_its_limit() {
    let journal = Unheld(MemoryJournal::new());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let model = ScriptedProvider::answering(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        reply().stall()
    });
    let rails = Guardrails::default().turns(5);
    let agent = Agent::builder(model).guardrails(rails).build().expect("an agent");
    let mut chat = agent.open(&journal, CHAT).await.expect("new");
    assert!(chat.send("Go.").into_future().now_or_never().is_none(), "the model thinks for ever");
    // The process is gone: what it had not written is lost.
    std::mem::forget(chat);
    for life in 0.. {
        let mut chat = agent.open(&journal, CHAT).await.expect("it opens");
        match chat.resume().into_future().now_or_never() {
            None => std::mem::forget(chat),
            Some(ended) => {
                let stopped = ended.expect_err("a limit");
                assert_eq!(stopped.outcome(), Outcome::Limit(LimitKind::Turns), "{stopped}");
                assert_eq!((life, asked.load(Ordering::SeqCst)), (4, 5));
                break;
            }
        }
        assert!(life < 10, "it has no end");
    }
}

#[tokio::test]
async fn a_fork_shares_what_was_said_and_runs_nothing_again() {
    let (journal, world) = (MemoryJournal::new(), World::default());
    let agent = agent(&world);
    let mut chat = agent.open(&journal, CHAT).await.expect("new");
    chat.send("Pay.").await.expect("an answer");
    let all = chat.facts();
    for facts in 0..=all {
        world.0.lock().expect("unpoisoned").retain(|done| done.is_empty());
        world.does("pay 1");
        let name = format!("fork {facts}");
        let mut fork = chat.fork(&name, facts).await.expect("a new conversation");
        assert!(fork.transcript().sendable().is_ok() || facts == 0, "{facts}");
        assert_eq!(world.count("pay 1"), 1, "{facts}: nothing that was there runs again");
        for (id, outcome) in outcomes(&fork) {
            // It has happened once, in the conversation that is shared.
            let told = [CallOutcome::Succeeded, CallOutcome::InDoubt, CallOutcome::NotStarted];
            assert!(told.contains(&outcome) || id.starts_with("look"), "{facts}: {id} {outcome:?}");
        }
        if facts > 0 {
            fork.send("And now?").await.expect("an answer");
        }
        if facts > 0 {
            fork.transcript().sendable().unwrap_or_else(|err| panic!("{facts}: {err}"));
        }
    }
    chat.fork("fork 3", 3).await.expect_err("it exists");
    chat.fork("more", all + 1).await.expect_err("there are not so many");
}

/// The way to the journal sends each request twice, or loses each answer.
#[tokio::test]
async fn a_fork_whose_requests_are_repeated_or_not_answered_is_made() {
    for fault in [JournalFault::Repeat, JournalFault::FailAfter] {
        let world = World::default();
        let (agent, journal) = (agent(&world), FaultyJournal::new(MemoryJournal::new()));
        let mut chat = agent.open(&journal, CHAT).await.expect("new");
        chat.send("Pay.").await.expect("an answer");
        for facts in 0..=chat.facts() {
            let name = format!("fork {facts}");
            for number in 0..200 {
                journal.fail(JournalCall::Append, number, fault);
                journal.fail(JournalCall::Fork, number, fault);
            }
            let fork = chat.fork(&name, facts).await;
            assert!(fork.expect("a new conversation").facts() > facts, "{fault:?} {facts}");
        }
        journal.mend();
        let error = chat.fork("fork 3", 3).await.expect_err("it exists");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{fault:?}");
    }
}

#[tokio::test]
async fn a_fact_of_a_later_version_is_kept_and_refused() {
    let (journal, world) = (MemoryJournal::new(), World::default());
    let agent = agent(&world);
    agent.open(&journal, CHAT).await.expect("new").send("Pay.").await.expect("an answer");
    let mut facts = journal.read(CHAT, 0).await.expect("facts").facts;
    let life = facts[0].life;
    facts.push(Envelope::stored(2, "9.9.9", life, 0, 0, r#"{"fact":"dreamt","of":"sheep"}"#));
    let journal = with_facts(&facts).await;
    let error = agent.open(&journal, CHAT).await.expect_err("it cannot be read");
    assert!(error.to_string().contains("9.9.9"), "{error}");
    assert_eq!(journal.read(CHAT, 0).await.expect("facts").facts, facts, "nothing has changed");
}

#[tokio::test]
async fn a_turn_takes_as_few_appends_as_it_can() {
    let appends = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&appends);
    let journal = Watched::new(move |facts: &[Fact]| {
        seen.lock().expect("unpoisoned").push(facts.len());
        Ok(())
    });
    let world = World::default();
    kept_in(&agent(&world), &journal).send("Pay.").await.expect("an answer");
    // Before the model is asked three times, before three calls that change something, at the end.
    assert_eq!(appends.lock().expect("unpoisoned").len(), 7);
}

/// While one call runs, another process decides about the next one.
#[tokio::test]
async fn who_runs_reads_what_others_decide_meanwhile() {
    let (journal, world) = (MemoryJournal::new(), World::default());
    let decided = Arc::new(Mutex::new(None::<harness::agent::Inbox>));
    let inbox = Arc::clone(&decided);
    let schema = json!({"type": "object", "properties": {}});
    let put = Tool::new("put", "Puts.", schema, WRITE, move |_, _| {
        let inbox = Arc::clone(&inbox);
        Box::pin(async move {
            let inbox = inbox.lock().expect("unpoisoned").take().expect("once");
            let waiting = inbox.waiting(CHAT).await.expect("it reads").remove(0);
            let approval = waiting.question().expect("a question").yes();
            inbox.decide(CHAT, approval).await.expect("it waits");
            Ok("put".into())
        })
    });
    let mail = tool("mail", SideEffects::of(&[SideEffect::Network]), &world);
    let model = ScriptedProvider::new([
        reply().call("put", json!({})).call("mail", json!({"n": 1})),
        reply().text("Done."),
    ]);
    let agent = Agent::builder(model).tools([put, mail]).approver(later(None)).build();
    let agent = agent.expect("an agent");
    *decided.lock().expect("unpoisoned") = Some(agent.inbox(&journal));
    let mut chat = agent.open(&journal, CHAT).await.expect("new");
    // Nothing is known of it yet where the run goes on, so it waits, and then it does not.
    if let Err(stopped) = chat.send("Go.").await {
        assert_eq!(stopped.outcome(), Outcome::Waiting, "{stopped}");
        assert!(chat.waiting().is_empty(), "what was decided is known when the run ends");
        assert_eq!(chat.resume().await.expect("an answer").text(), "Done.");
    }
    assert_eq!(world.count("mail 1"), 1, "{:?}", outcomes(&chat));
    let mut machine = Machine::new();
    entries(&journal).iter().for_each(|fact| machine.apply(fact).expect("it follows"));
    assert_eq!(machine.transcript(), chat.transcript());
}

/// What is told is what is read back: to the last bit, and however deep.
#[tokio::test]
async fn any_value_of_a_tool_is_read_back_as_it_was() {
    for depth in [1, 50, 99, 100, 101, 127, 128, 500] {
        let schema = json!({"type": "object", "properties": {}});
        let deep = Tool::new("deep", "Digs.", schema, READ, move |_, _| {
            let mut value =
                json!([0.1_f64 + 0.2, 1e-7, 5e-324, f64::MAX, -0.0, u64::MAX, i64::MIN]);
            for _ in 0..depth {
                value = json!([value]);
            }
            Box::pin(async move { Ok(harness::message::ToolContent::Json(value).into()) })
        });
        let model = ScriptedProvider::new([reply().call("deep", json!({})), reply().text("Done.")]);
        let agent = Agent::builder(model).tools([deep]).build().expect("an agent");
        let journal = MemoryJournal::new();
        let mut chat = agent.open(&journal, CHAT).await.expect("new");
        chat.send("Go.").await.expect("an answer");
        let told = chat.transcript().clone();
        drop(chat);
        let again = agent.open(&journal, CHAT).await.unwrap_or_else(|err| panic!("{depth}: {err}"));
        assert_eq!(*again.transcript(), told, "{depth}");
    }
}

/// An approval, a form and a question of a tool, each over a restart, and what expires.
#[tokio::test]
async fn a_tool_asks_and_is_called_again_with_the_answer() {
    let (journal, world) = (MemoryJournal::new(), World::default());
    let agent = |world: &World| {
        let world = world.clone();
        let schema = json!({"type": "object", "properties": {}});
        let book = Tool::new("book", "Books.", schema, WRITE, move |context, _| {
            let world = world.clone();
            Box::pin(async move {
                match context.answered() {
                    None => Err(harness::ToolError::asks("Inside?", json!({"table": 7}))
                        .with_form(json!({"type": "object"}))),
                    Some(answered) => {
                        world.does(format!("booked {} {}", answered.token, answered.answer));
                        Ok("booked".into())
                    }
                }
            })
        });
        let model = ScriptedProvider::answering(|request| {
            match request.messages().iter().any(|said| said.results().next().is_some()) {
                false => reply().call("book", json!({})),
                true => reply().text("Done."),
            }
        });
        Agent::builder(model).tools([book]).build().expect("an agent")
    };
    let mut chat = agent(&world).open(&journal, CHAT).await.expect("new");
    let stopped = chat.send("Book.").await.expect_err("it asks");
    assert_eq!(stopped.outcome(), Outcome::Waiting);
    drop(chat);
    let mut chat = agent(&world).open(&journal, CHAT).await.expect("it opens");
    let open = chat.waiting().remove(0);
    let wait = open.wait.clone().expect("it waits");
    let harness::journal::Awaited::Answer { form, .. } = wait.awaited else { panic!("it asks") };
    assert_eq!(form, Some(json!({"type": "object"})));
    chat.decide(asked_nothing()).await.expect_err("it asks no approval");
    chat.settle(open.answered("outside").by("ada")).await.expect("it waits");
    chat.settle(open.answered("inside")).await.expect_err("it was answered");
    assert_eq!(chat.resume().await.expect("an answer").text(), "Done.");
    assert_eq!(world.count(r#"booked {"table":7} "outside""#), 1);
}

fn asked_nothing() -> harness::policy::Approval {
    let call = harness::ToolCall::new("call_1", "book", "{}");
    ApprovalRequest::new(&call, WRITE).yes()
}

/// A journal that does not answer when a run begins does not hold up who stops it.
#[tokio::test]
async fn a_run_that_cannot_begin_can_be_stopped() {
    let world = World::default();
    let journal = FaultyJournal::new(MemoryJournal::new());
    let mut chat = kept_in(&agent(&world), &journal);
    assert!(chat.send("Pay.").into_future().now_or_never().is_some());
    drop(chat);
    let facts = journal.read(CHAT, 0).await.expect("facts").facts;
    let started = |fact: &Envelope| matches!(fact.fact().expect("a fact"), Fact::CallStarted { call } if call == "pay_1");
    let at = facts.iter().position(started).expect("it starts");
    let journal = FaultyJournal::new(with_facts(&facts[..=at]).await);
    journal.fail(JournalCall::Append, 0, JournalFault::StopBefore);
    let mut chat = kept_in(&agent(&world), &journal);
    let token = harness::CancellationToken::new();
    let run = chat.resume().cancel_with(token.clone());
    let (ended, ()) = tokio::join!(run.into_future(), async {
        tokio::task::yield_now().await;
        token.cancel();
    });
    let stopped = ended.expect_err("it was stopped");
    assert!(stopped.to_string().contains("before the journal had answered"), "{stopped}");
    // Nothing was lost.
    assert_eq!(chat.resume().await.expect("an answer").text(), "All is paid.");
}
