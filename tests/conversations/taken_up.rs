//! Conversations that are continued after a process has ended: what the model is told of their
//! calls, what the rules of the next process forbid, and what makes no difference.

use std::{
    future::pending,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt as _;
use harness::{
    Agent, CallOutcome, Chat, ErrorKind, Guardrails, Limits, Message, Outcome, SideEffect,
    SideEffects, State, Tool, ToolError,
    agent::AgentBuilder,
    journal::{Fact, Head, Journal, LimitKind, MemoryJournal},
    message::Block,
    policy::{ApprovalRequest, Permissions},
    testing::{ScriptedProvider, reply},
    tool,
    tool::Reconciled,
};
use serde_json::{Value, json};

use crate::kept::{CHAT, entries};

const WRITE: SideEffects = SideEffects::of(&[SideEffect::Write]);
const NETWORK: SideEffects = SideEffects::of(&[SideEffect::Network]);

fn schema() -> Value {
    json!({"type": "object"})
}

/// An agent whose model asks for this many calls of a tool, each in an answer of its own: `1`, `2`..
fn agent(calls: usize, tool: Tool) -> AgentBuilder {
    let name = tool.name().to_owned();
    let model = ScriptedProvider::answering(move |request| {
        let said = request.messages().iter().filter(|message| message.results().next().is_some());
        let before = said.count();
        match before < calls {
            true => reply().call_with_id((before + 1).to_string(), &*name, json!({})),
            false => reply().text("Done."),
        }
    });
    Agent::builder(model).tools([tool])
}

fn allowing(tool: Tool) -> Agent {
    agent(1, tool).permissions(Permissions::allow_all()).build().expect("an agent")
}

fn put(ran: &Arc<AtomicUsize>) -> Tool {
    let ran = Arc::clone(ran);
    Tool::new("put", "Puts.", schema(), WRITE, move |_, _| {
        ran.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok("put".into()) })
    })
}

fn finds(tool: Tool, asked: &Arc<AtomicUsize>, happened: bool) -> Tool {
    let asked = Arc::clone(asked);
    tool.with_reconcile(move |_, _| {
        asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            Ok(match happened {
                true => Reconciled::Happened("it was put".into()),
                false => Reconciled::NotHappened,
            })
        })
    })
}

/// The conversation as a process leaves it that ends right after this fact.
async fn left_at(whole: &MemoryJournal, last: impl Fn(&Fact) -> bool) -> MemoryJournal {
    let facts = whole.read(CHAT, 0).await.expect("facts").facts;
    let at = facts.iter().position(|fact| last(&fact.fact().expect("a fact")));
    let journal = MemoryJournal::new();
    journal.append(CHAT, Head::default(), &facts[..=at.expect("it is there")]).await.expect("new");
    journal
}

fn starts(id: &'static str) -> impl Fn(&Fact) -> bool {
    move |fact| matches!(fact, Fact::CallStarted { call } if call == id)
}

/// A journal in which a call of `put` has started and its process has ended.
async fn started(tool: Tool) -> MemoryJournal {
    let whole = MemoryJournal::new();
    allowing(tool).open(&whole, CHAT).await.expect("new").send("Go.").await.expect("an answer");
    left_at(&whole, starts("1")).await
}

async fn opened(agent: &Agent, journal: &MemoryJournal) -> Chat {
    agent.open(journal, CHAT).await.expect("it is there")
}

fn last_result(chat: &Chat) -> (CallOutcome, String) {
    let last = chat.transcript().messages().iter().flat_map(Message::results).last();
    last.map(|result| (result.outcome(), result.to_text())).expect("a result")
}

/// A tool that asks in a call of this id, as long as it has no answer.
fn asks(id: &'static str) -> Tool {
    Tool::new("ask", "Asks.", schema(), NETWORK, move |context, _| {
        Box::pin(async move {
            match context.call_id() == id && context.answered().is_none() {
                true => Err(ToolError::asks("Which?", json!(1))),
                false => Ok("done".into()),
            }
        })
    })
}

/// It had run in a process that is gone, ran again and asked; then the grant was revoked, and a person
/// says no: that it does not run now says nothing of the time before.
#[tokio::test]
async fn a_call_that_may_have_run_is_not_told_as_denied() {
    let agent = agent(2, asks("2").idempotent())
        .approver(|question: ApprovalRequest| async move { question.later(None) })
        .build()
        .expect("an agent");
    let whole = MemoryJournal::new();
    let mut chat = opened(&agent, &whole).await;
    chat.send("Go.").await.expect_err("it waits");
    let question = chat.waiting()[0].question().expect("a question");
    chat.decide(question.always()).await.expect("it waits");
    chat.resume().await.expect_err("the second one asks");
    let journal = left_at(&whole, starts("2")).await;

    let mut chat = opened(&agent, &journal).await;
    chat.resume().await.expect_err("it asks");
    let grant = chat.grants()[0].clone();
    assert!(chat.revoke(&grant));
    let open = chat.waiting().remove(0);
    chat.settle(open.answered("this")).await.expect("it waits");
    assert_eq!(chat.in_doubt().len(), 1, "nobody allows it any more");
    chat.resume().await.expect("an answer");
    assert_eq!(last_result(&chat).0, CallOutcome::InDoubt);
}

/// What it has asked is answered in a process whose tool does not repeat, and finds out.
#[tokio::test]
async fn a_call_that_has_asked_is_found_out_about_if_its_tool_no_longer_repeats() {
    let before = allowing(asks("1").idempotent());
    let whole = MemoryJournal::new();
    opened(&before, &whole).await.send("Go.").await.expect_err("it asks");
    let journal = left_at(&whole, starts("1")).await;
    opened(&before, &journal).await.resume().await.expect_err("it asks again");

    let asked = Arc::default();
    let mut chat = opened(&allowing(finds(asks("1"), &asked, true)), &journal).await;
    let open = chat.waiting().remove(0);
    chat.settle(open.answered("this")).await.expect("it waits");
    chat.resume().await.expect("an answer");
    assert_eq!(last_result(&chat), (CallOutcome::Succeeded, "it was put".to_owned()));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

/// It could run again, and the user says something else instead: it does not run, and what became of it
/// can be found out.
#[tokio::test]
async fn a_message_asks_the_tools_of_calls_that_were_to_run_again() {
    for (happened, is) in [(true, CallOutcome::Succeeded), (false, CallOutcome::NotStarted)] {
        let (ran, asked) = (Arc::default(), Arc::default());
        let tool = finds(put(&ran), &asked, happened).idempotent();
        let journal = started(tool.clone()).await;
        let mut chat = opened(&allowing(tool), &journal).await;
        assert!(chat.in_doubt().is_empty(), "it may run again");
        chat.send("How is it?").await.expect("an answer");
        assert_eq!(last_result(&chat).0, is);
        assert_eq!((ran.load(Ordering::SeqCst), asked.load(Ordering::SeqCst)), (1, 1));
        assert_eq!(entries(&journal).len() as u64, chat.facts());
    }
}

/// The program denies the tool since another process has allowed the call.
#[tokio::test]
async fn what_is_denied_now_does_not_run_whoever_had_allowed_it() {
    let decided = |fact: &Fact| matches!(fact, Fact::CallDecided { .. });
    for (by_person, has_started) in [(false, false), (false, true), (true, false)] {
        let ran: Arc<AtomicUsize> = Arc::default();
        let tool = || put(&ran).idempotent();
        let whole = MemoryJournal::new();
        let before = match by_person {
            true => {
                agent(1, tool()).approver(|question: ApprovalRequest| async move { question.yes() })
            }
            false => agent(1, tool()).permissions(Permissions::allow_all()),
        };
        let before = before.build().expect("an agent");
        opened(&before, &whole).await.send("Go.").await.expect("an answer");
        let journal = match has_started {
            true => left_at(&whole, starts("1")).await,
            false => left_at(&whole, decided).await,
        };
        let permissions = Permissions::allow_all().deny("put", "nobody puts any more");
        let now = agent(1, tool()).permissions(permissions).build().expect("an agent");
        let mut chat = opened(&now, &journal).await;
        assert_eq!(chat.in_doubt().len(), usize::from(has_started));
        chat.resume().await.expect("an answer");
        let (outcome, text) = last_result(&chat);
        assert_eq!(ran.load(Ordering::SeqCst), 1, "it has not run again");
        match has_started {
            true => assert_eq!(outcome, CallOutcome::InDoubt, "{text}"),
            false => assert!(text.contains("nobody puts any more"), "{outcome:?} {text}"),
        }
    }
}

#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<(bool, usize)>, Condvar)>);

impl Gate {
    fn pass(&self) {
        let (state, opened) = &*self.0;
        let mut state = state.lock().expect("unpoisoned");
        state.1 += 1;
        while !state.0 {
            state = opened.wait(state).expect("unpoisoned");
        }
    }

    fn came(&self) -> usize {
        self.0.0.lock().expect("unpoisoned").1
    }
}

/// Opens it, also where the test fails: the runtime waits for its threads.
struct Opens(Gate);

impl Drop for Opens {
    fn drop(&mut self) {
        let (state, opened) = &*self.0.0;
        state.lock().expect("unpoisoned").0 = true;
        opened.notify_all();
    }
}

/// Appends.
#[tool(side_effects = "write", reconcile = was_appended)]
fn append(gate: State<Gate>) -> String {
    gate.pass();
    "appended".to_owned()
}

/// Nothing is there yet, as long as the other one has not come through.
fn was_appended(_gate: State<Gate>) -> Reconciled {
    Reconciled::NotHappened
}

/// The future of the run is dropped, its thread goes on, and the conversation is opened again in the
/// same process: what its tool finds out now says nothing of what the call still does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_still_runs_is_not_told_as_not_started() {
    for (speaks, settles) in [(false, false), (true, false), (false, true)] {
        let gate = Gate::default();
        let _opens = Opens(gate.clone());
        let agent = agent(1, append::tool()).permissions(Permissions::allow_all());
        let agent = agent.state(gate.clone()).build().expect("an agent");
        let whole = MemoryJournal::new();
        let mut chat = opened(&agent, &whole).await;
        {
            let mut run = std::pin::pin!(chat.send("Go.").into_future());
            while gate.came() == 0 {
                assert!(run.as_mut().now_or_never().is_none());
                tokio::task::yield_now().await;
            }
        }
        // As if nobody had written how the run ended.
        let journal = left_at(&whole, starts("1")).await;
        drop(chat);
        let mut chat = opened(&agent, &journal).await;
        if settles {
            let open = chat.in_doubt().remove(0);
            chat.settle(open.not_happened()).await.expect("it is in doubt");
        }
        match speaks {
            true => chat.send("How is it?").await.expect("an answer"),
            false => chat.resume().await.expect("an answer"),
        };
        let (outcome, text) = last_result(&chat);
        assert_eq!((gate.came(), outcome), (1, CallOutcome::StillRunning), "{text}");
    }
}

/// A tool that does not answer uses up the time of each run: the message after that comes through.
#[tokio::test(start_paused = true)]
async fn a_tool_that_never_finds_out_does_not_keep_the_user_from_speaking() {
    let ran = Arc::default();
    let journal = started(put(&ran)).await;
    let silent = put(&ran).with_reconcile(|_, _| Box::pin(pending()));
    let agent = agent(1, silent)
        .permissions(Permissions::allow_all())
        .guardrails(Guardrails::default().time(Duration::from_secs(20)))
        .build()
        .expect("an agent");
    let stopped = opened(&agent, &journal).await.send("Hm?").await.expect_err("it takes too long");
    assert_eq!(stopped.outcome(), Outcome::Limit(LimitKind::Time), "{stopped}");
    let mut chat = opened(&agent, &journal).await;
    chat.send("And now?").await.expect("an answer");
    assert_eq!(last_result(&chat).0, CallOutcome::InDoubt);
}

/// What could not be said begins nothing: the run before goes on within what is left of its limits.
#[tokio::test]
async fn a_run_that_could_not_begin_gives_the_one_before_no_new_limits() {
    let asked: Arc<AtomicUsize> = Arc::default();
    let count = Arc::clone(&asked);
    let model = ScriptedProvider::answering(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        reply().text("I be").cut()
    });
    let agent = Agent::builder(model).guardrails(Guardrails::default().turns(3)).build();
    let agent = agent.expect("an agent");
    let journal = MemoryJournal::new();
    let mut chat = agent.open(&journal, CHAT).await.expect("new");
    chat.send("Go.").await.expect_err("it breaks off");
    let mut stopped = None;
    for _ in 0..20 {
        // The model cannot be said to have spoken.
        let unsaid = chat.send(Message::assistant([Block::text("No.")])).await;
        assert_eq!(unsaid.expect_err("it cannot begin").outcome(), Outcome::Failed);
        let goes_on = chat.resume().await.expect_err("it breaks off");
        if let Outcome::Limit(_) = goes_on.outcome() {
            stopped = Some(goes_on);
            break;
        }
    }
    let stopped = stopped.expect("it comes to its limit");
    assert_eq!((stopped.spent().turns, asked.load(Ordering::SeqCst)), (3, 3));
    // Nor does a run with limits of its own that cannot begin.
    chat.send(Message::assistant([Block::text("No.")]))
        .limits(Limits::new().input_tokens(1))
        .await
        .expect_err("it cannot begin");
    let stopped = chat.resume().await.expect_err("it is at its limit");
    assert_eq!(stopped.outcome(), Outcome::Limit(LimitKind::Turns));
}

/// Two calls are in doubt, and one is settled, so that the journal tells of the other one, too.
#[tokio::test]
async fn an_inbox_settles_no_call_that_is_in_doubt() {
    let model = || {
        ScriptedProvider::answering(|request| {
            match request.messages().iter().any(|message| message.results().next().is_some()) {
                false => reply().call("look", json!({"n": 1})).call("look", json!({"n": 2})),
                true => reply().text("Done."),
            }
        })
    };
    let look = |effects: &[SideEffect]| {
        let effects = SideEffects::of(effects);
        Tool::new("look", "Looks.", schema(), effects, |_, _| Box::pin(pending()))
    };
    let reads = Agent::builder(model()).tools([look(&[SideEffect::Read])]).build();
    let whole = MemoryJournal::new();
    let mut chat = opened(&reads.expect("an agent"), &whole).await;
    assert!(chat.send("Go.").into_future().now_or_never().is_none(), "both run");
    chat.save().await.expect("it is written");
    let starts = entries(&whole).into_iter().filter_map(|fact| match fact {
        Fact::CallStarted { call } => Some(call),
        _ => None,
    });
    let second = starts.last().expect("they have started");
    let is_second = |fact: &Fact| matches!(fact, Fact::CallStarted { call } if *call == second);
    let journal = left_at(&whole, is_second).await;

    let writes = Agent::builder(model()).tools([look(&[SideEffect::Write])]).build();
    let writes = writes.expect("an agent");
    let mut chat = opened(&writes, &journal).await;
    let doubtful = chat.in_doubt();
    chat.settle(doubtful[0].succeeded("it was")).await.expect("it is in doubt");
    let inbox = writes.inbox(&journal);
    let before = entries(&journal);
    for said in [doubtful[1].succeeded("it was"), doubtful[1].not_happened()] {
        let refused = inbox.settle(CHAT, said).await.expect_err("it is in doubt");
        assert_eq!(refused.kind(), ErrorKind::NotWaiting);
    }
    assert_eq!(entries(&journal), before);
    chat.resume().await.expect("nobody else has gone on");
}

/// A process that ends counts as a turn; one that only looks, is refused, or makes a copy is none that
/// went on.
#[tokio::test]
async fn what_is_refused_and_what_is_copied_changes_nothing() {
    let ran = Arc::default();
    let journal = started(put(&ran)).await;
    let agent = allowing(put(&ran));
    let before = entries(&journal);
    for number in 0..3 {
        let mut chat = opened(&agent, &journal).await;
        let open = chat.in_doubt().remove(0);
        let refused = chat.settle(open.answered("this")).await.expect_err("it has asked nothing");
        assert_eq!(refused.kind(), ErrorKind::NotWaiting);
        let fork = chat.fork(format!("fork-{number}"), chat.facts()).await.expect("a copy");
        assert_eq!(last_result(&fork).0, CallOutcome::InDoubt);
        assert_eq!(chat.in_doubt().len(), 1, "it stays as it was here");
    }
    assert_eq!(entries(&journal), before);
    // What is said of it is written behind that it was opened.
    let mut chat = opened(&agent, &journal).await;
    let open = chat.in_doubt().remove(0);
    chat.settle(open.succeeded("it was put")).await.expect("it is in doubt");
    assert_eq!(entries(&journal).len(), before.len() + 2);
    chat.resume().await.expect("an answer");
}

/// The next process measures the limit of time by it.
#[tokio::test(start_paused = true)]
async fn the_time_in_which_a_person_has_decided_is_in_no_fact() {
    let pay = Tool::new("pay", "Pays.", schema(), NETWORK, |_, _| {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            Ok("paid".into())
        })
    });
    let person = |question: ApprovalRequest| async move {
        tokio::time::sleep(Duration::from_secs(600)).await;
        question.yes()
    };
    let journal = MemoryJournal::new();
    let agent = agent(2, pay).approver(person).build().expect("an agent");
    let mut chat = agent.open(&journal, CHAT).await.expect("new");
    chat.send("Go.").await.expect("an answer");
    let facts = journal.read(CHAT, 0).await.expect("facts").facts;
    assert_eq!(facts.last().expect("a fact").elapsed, 10_000);
}
