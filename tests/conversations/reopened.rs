//! Conversations that are opened again by a changed program: its tools declare something else, a
//! grant was revoked, or an earlier call still runs.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::FutureExt as _;
use harness::{
    Agent, CallOutcome, Chat, Guardrails, Limits, Message, Outcome, SideEffect, SideEffects, State,
    Tool,
    agent::AgentBuilder,
    journal::{Envelope, Fact, Head, InterruptCause, Journal, LimitKind, MemoryJournal},
    models::{Models, Price},
    policy::{ApprovalRequest, Permissions},
    testing::{ScriptedProvider, reply},
    tool,
    tool::Reconciled,
};
use serde_json::json;

use crate::kept::{CHAT, entries};

const WRITE: SideEffects = SideEffects::of(&[SideEffect::Write]);
const NETWORK: SideEffects = SideEffects::of(&[SideEffect::Network]);

/// Asks for one call of `put`, and says that it is done.
fn model() -> ScriptedProvider {
    ScriptedProvider::answering(|request| {
        match request.messages().iter().any(|message| message.results().next().is_some()) {
            false => reply().call_with_id("put_1", "put", json!({})),
            true => reply().text("Done."),
        }
    })
}

fn put(effects: SideEffects, ran: &Arc<AtomicUsize>) -> Tool {
    let ran = Arc::clone(ran);
    Tool::new("put", "Puts.", json!({"type": "object"}), effects, move |_, _| {
        ran.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok("put".into()) })
    })
}

fn agent(tool: Tool) -> Agent {
    let agent = Agent::builder(model()).tools([tool]).permissions(Permissions::allow_all());
    agent.build().expect("an agent")
}

/// A journal in which the call has started, of which nobody knows how it ended.
async fn started(agent: &Agent) -> MemoryJournal {
    let whole = MemoryJournal::new();
    let mut chat = agent.open(&whole, CHAT).await.expect("new");
    chat.send("Go.").await.expect("an answer");
    cut_at_start(&whole).await
}

async fn cut_at_start(whole: &MemoryJournal) -> MemoryJournal {
    let facts = whole.read(CHAT, 0).await.expect("facts").facts;
    let starts = |fact: &Envelope| matches!(fact.fact().expect("a fact"), Fact::CallStarted { .. });
    let at = facts.iter().position(starts).expect("it has started");
    let journal = MemoryJournal::new();
    journal.append(CHAT, Head::default(), &facts[..=at]).await.expect("a new conversation");
    journal
}

/// Another process has opened it and ended.
async fn opened_again(journal: &MemoryJournal) {
    let last = journal.read(CHAT, 0).await.expect("facts").head;
    let again = Envelope::of(&Fact::Reopened { doubtful: Vec::new() }, 0).expect("a fact");
    journal.append(CHAT, last, &[again]).await.expect("it follows");
}

fn result(chat: &Chat) -> (CallOutcome, String) {
    let last = chat.transcript().messages().iter().flat_map(Message::results).last();
    last.map(|result| (result.outcome(), result.to_text())).expect("a result")
}

/// It could have run again by what its tool had declared, and its tool is not idempotent any more.
#[tokio::test]
async fn a_call_whose_tool_no_longer_repeats_is_found_out_about() {
    let ran = Arc::default();
    let before = agent(put(WRITE, &ran).idempotent());
    for (found, is) in [
        ("happened", CallOutcome::Succeeded),
        ("nothing", CallOutcome::Succeeded),
        ("away", CallOutcome::InDoubt),
    ] {
        let journal = started(&before).await;
        let runs = ran.load(Ordering::SeqCst);
        let now = put(WRITE, &ran).with_reconcile(move |_, _| {
            Box::pin(async move {
                match found {
                    "happened" => Ok(Reconciled::Happened("it was put".into())),
                    "nothing" => Ok(Reconciled::NotHappened),
                    _ => Err(harness::ToolError::new("the other side is away")),
                }
            })
        });
        let mut chat = agent(now).open(&journal, CHAT).await.expect("it is there");
        let doubtful = chat.in_doubt();
        assert_eq!(doubtful.len(), 1, "the program is told of it");
        chat.resume().await.expect("an answer");
        let (outcome, text) = result(&chat);
        assert_eq!(outcome, is, "{text}");
        assert_eq!(text.contains("it was put"), found == "happened", "{text}");
        assert_eq!(ran.load(Ordering::SeqCst) - runs, usize::from(found == "nothing"), "{text}");
    }
}

/// The user says something new instead of going on: what can be found out is told all the same.
#[tokio::test]
async fn a_message_after_a_crash_asks_the_tools_first() {
    for (found, is) in [
        ("happened", CallOutcome::Succeeded),
        ("nothing", CallOutcome::NotStarted),
        ("away", CallOutcome::InDoubt),
    ] {
        let ran = Arc::default();
        let journal = started(&agent(put(WRITE, &ran))).await;
        let tool = put(WRITE, &ran).with_reconcile(move |_, _| {
            Box::pin(async move {
                match found {
                    "happened" => Ok(Reconciled::Happened("it was put".into())),
                    "nothing" => Ok(Reconciled::NotHappened),
                    _ => Err(harness::ToolError::new("the other side is away")),
                }
            })
        });
        let mut chat = agent(tool).open(&journal, CHAT).await.expect("it is there");
        chat.send("How is it?").await.expect("an answer");
        let (outcome, text) = result(&chat);
        assert_eq!(outcome, is, "{text}");
        assert_eq!(ran.load(Ordering::SeqCst), 1, "it has not run again");
    }
}

/// Whoever stops the run while a tool finds it out has said nothing, and can say it again.
#[tokio::test]
async fn a_message_that_is_stopped_while_tools_find_out_is_not_said() {
    let ran = Arc::default();
    let journal = started(&agent(put(WRITE, &ran))).await;
    let asked: Arc<AtomicUsize> = Arc::default();
    let count = Arc::clone(&asked);
    let tool = put(WRITE, &ran).with_reconcile(move |_, _| {
        let first = count.fetch_add(1, Ordering::SeqCst) == 0;
        Box::pin(async move {
            if first {
                std::future::pending::<()>().await;
            }
            Ok(Reconciled::Happened("it was put".into()))
        })
    });
    let mut chat = agent(tool).open(&journal, CHAT).await.expect("it is there");
    let stop = harness::CancellationToken::new();
    let before = chat.transcript().messages().len();
    {
        let mut run = std::pin::pin!(chat.send("Hm?").cancel_with(stop.clone()).into_future());
        assert!(run.as_mut().now_or_never().is_none(), "the tool does not answer");
        stop.cancel();
        let stopped = run.await.expect_err("stopped");
        assert!(stopped.to_string().contains("the message was not added"), "{stopped}");
    }
    assert_eq!((chat.transcript().messages().len(), chat.in_doubt().len()), (before, 1));
    chat.send("Hm?").await.expect("an answer");
    assert_eq!(result(&chat).0, CallOutcome::Succeeded);
}

/// Its tool is one now whose results the program gives: that says nothing of what has run before.
#[tokio::test]
async fn a_call_whose_tool_is_external_now_is_in_doubt() {
    let ran = Arc::default();
    let journal = started(&agent(put(WRITE, &ran).idempotent())).await;
    let external = Tool::external("put", "Puts.", json!({"type": "object"}), WRITE).idempotent();
    let mut chat = agent(external).open(&journal, CHAT).await.expect("it is there");
    assert_eq!((chat.in_doubt().len(), chat.waiting().len()), (1, 0));
    chat.resume().await.expect("an answer");
    let (outcome, text) = result(&chat);
    assert_eq!(outcome, CallOutcome::InDoubt, "{text}");
}

/// The tools of a third process count, also if the second one has opened the conversation and ended.
#[tokio::test]
async fn the_tools_of_the_process_that_goes_on_count() {
    let ran = Arc::default();
    let before = agent(put(WRITE, &ran).idempotent());
    let journal = started(&before).await;
    opened_again(&journal).await;
    let second = before.open(&journal, CHAT).await.expect("it is there");
    assert!(second.in_doubt().is_empty(), "it is to run again");
    drop(second);
    let third = agent(put(WRITE, &ran)).open(&journal, CHAT).await.expect("it is there");
    assert_eq!(third.in_doubt().len(), 1);
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

/// It is behind a call that waits, so that nothing goes on when the conversation is opened.
#[tokio::test]
async fn a_call_behind_one_that_waits_is_in_doubt_too() {
    const READ: SideEffects = SideEffects::of(&[SideEffect::Read]);
    let schema = || json!({"type": "object"});
    let form = Tool::external("form", "Asks.", schema(), READ);
    let look = |effects| {
        Tool::new("look", "Looks.", schema(), effects, |_, _| Box::pin(std::future::pending()))
    };
    let agent = |effects| {
        let model = ScriptedProvider::answering(|_| {
            reply().call("form", json!({})).call_with_id("look_1", "look", json!({}))
        });
        Agent::builder(model).tools([form.clone(), look(effects)]).build().expect("an agent")
    };
    let whole = MemoryJournal::new();
    let mut chat = agent(READ).open(&whole, CHAT).await.expect("new");
    assert!(chat.send("Go.").into_future().now_or_never().is_none(), "it looks");
    chat.save().await.expect("it is written");
    let journal = cut_at_start(&whole).await;
    opened_again(&journal).await;
    let second = agent(READ).open(&journal, CHAT).await.expect("it is there");
    assert_eq!((second.waiting().len(), second.in_doubt().len()), (1, 0));
    drop(second);
    let third = agent(WRITE).open(&journal, CHAT).await.expect("it is there");
    assert_eq!((third.waiting().len(), third.in_doubt().len()), (1, 1));
}

/// A program that opens an unfinished conversation to show it, saves it and ends uses up no turn.
#[tokio::test]
async fn to_look_at_a_conversation_costs_nothing() {
    let ran = Arc::default();
    let agent = agent(put(WRITE, &ran).idempotent());
    let journal = started(&agent).await;
    let before = journal.read(CHAT, 0).await.expect("facts").facts;
    for _ in 0..30 {
        let mut chat = agent.open(&journal, CHAT).await.expect("it is there");
        assert!(chat.can_resume());
        chat.save().await.expect("it is saved");
    }
    assert_eq!(journal.read(CHAT, 0).await.expect("facts").facts, before);
    let mut chat = agent.open(&journal, CHAT).await.expect("it is there");
    chat.resume().await.expect("an answer");
    assert!(entries(&journal).iter().any(|fact| matches!(fact, Fact::Reopened { .. })));
    assert_eq!(entries(&journal).len() as u64, chat.facts());
}

/// A person had allowed it by *always* and has taken that back since it started.
#[tokio::test]
async fn what_was_allowed_by_a_grant_that_was_revoked_does_not_run_again() {
    for (happened, runs_again) in [(true, false), (false, true)] {
        let ran: Arc<AtomicUsize> = Arc::default();
        let model = || {
            ScriptedProvider::answering(|request| {
                let results = request.messages().iter().filter(|it| it.results().next().is_some());
                match results.count() {
                    0 => reply().call_with_id("put_1", "put", json!({})),
                    1 => reply().call_with_id("put_2", "put", json!({})),
                    _ => reply().text("Done."),
                }
            })
        };
        let tool = || put(NETWORK, &ran).idempotent();
        let agent = |tool: Tool| {
            Agent::builder(model())
                .tools([tool])
                .approver(|question: ApprovalRequest| async move { question.later(None) })
                .build()
                .expect("an agent")
        };
        let whole = MemoryJournal::new();
        let mut chat = agent(tool()).open(&whole, CHAT).await.expect("new");
        chat.send("Go.").await.expect_err("it waits");
        let question = chat.waiting()[0].question().expect("a question");
        chat.decide(question.always()).await.expect("it waits");
        chat.resume().await.expect("an answer");
        // The second call has started when its process ends.
        let facts = whole.read(CHAT, 0).await.expect("facts").facts;
        let starts = |fact: &Envelope| matches!(fact.fact(), Ok(Fact::CallStarted { call }) if call == "put_2");
        let at = facts.iter().position(starts).expect("it has started");
        let journal = MemoryJournal::new();
        journal.append(CHAT, Head::default(), &facts[..=at]).await.expect("a new conversation");
        let before = ran.load(Ordering::SeqCst);

        let tool = tool().with_reconcile(move |_, _| {
            let found = if happened {
                Reconciled::Happened("it is put".into())
            } else {
                Reconciled::NotHappened
            };
            Box::pin(async { Ok(found) })
        });
        let mut chat = agent(tool).open(&journal, CHAT).await.expect("it is there");
        assert!(chat.in_doubt().is_empty(), "it may run again");
        let grant = chat.grants()[0].clone();
        assert!(chat.revoke(&grant));
        assert_eq!(chat.in_doubt().len(), 1, "nobody allows it any more");
        let ended = chat.resume().await;
        assert_eq!(ran.load(Ordering::SeqCst), before, "it has not run");
        match ended {
            Ok(_) => assert!(!runs_again),
            Err(stopped) => {
                assert_eq!(stopped.outcome(), Outcome::Waiting, "it is asked about anew");
                assert!(runs_again);
                let question = chat.waiting()[0].question().expect("a question");
                chat.decide(question.yes()).await.expect("it waits");
                chat.resume().await.expect("an answer");
                assert_eq!(ran.load(Ordering::SeqCst), before + 1);
            }
        }
    }
}

/// What a tool has asked is answered after the grant was revoked by which it had run.
#[tokio::test]
async fn a_call_that_has_asked_is_decided_anew_if_its_grant_was_revoked() {
    let model = ScriptedProvider::answering(|request| {
        let results = request.messages().iter().filter(|it| it.results().next().is_some());
        match results.count() {
            0 => reply().call_with_id("ask_1", "ask", json!({})),
            1 => reply().call_with_id("ask_2", "ask", json!({})),
            _ => reply().text("Done."),
        }
    });
    let asks = Tool::new("ask", "Asks.", json!({"type": "object"}), NETWORK, |context, _| {
        Box::pin(async move {
            match (context.call_id(), context.answered()) {
                ("ask_2", None) => Err(harness::ToolError::asks("Which?", json!(1))),
                _ => Ok("done".into()),
            }
        })
    });
    let agent = Agent::builder(model)
        .tools([asks])
        .approver(|question: ApprovalRequest| async move { question.later(None) })
        .build()
        .expect("an agent");
    let journal = MemoryJournal::new();
    let mut chat = agent.open(&journal, CHAT).await.expect("new");
    chat.send("Go.").await.expect_err("it waits for an approval");
    let question = chat.waiting()[0].question().expect("a question");
    chat.decide(question.always()).await.expect("it waits");
    chat.resume().await.expect_err("it has asked");
    let grant = chat.grants()[0].clone();
    assert!(chat.revoke(&grant));
    let open = chat.waiting().remove(0);
    chat.settle(open.answered(json!("this"))).await.expect("it waits");
    let stopped = chat.resume().await.expect_err("it is asked about anew");
    assert_eq!(stopped.outcome(), Outcome::Waiting);
    assert!(chat.waiting()[0].question().is_some());
}

#[derive(Clone, Default)]
struct Gate(Arc<(std::sync::Mutex<(bool, usize)>, std::sync::Condvar)>);

impl Gate {
    fn pass(&self) {
        let (gate, opened) = &*self.0;
        let mut state = gate.lock().expect("unpoisoned");
        state.1 += 1;
        while !state.0 {
            state = opened.wait(state).expect("unpoisoned");
        }
    }

    fn came(&self) -> usize {
        self.0.0.lock().expect("unpoisoned").1
    }

    fn open(&self) {
        self.0.0.lock().expect("unpoisoned").0 = true;
        self.0.1.notify_all();
    }
}

/// A test that fails leaves no thread behind that waits for ever.
struct Opens(Gate);

impl Drop for Opens {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// Blocks its thread.
#[tool(side_effects = "write", idempotent)]
fn append(gate: State<Gate>) -> String {
    gate.pass();
    "appended".to_owned()
}

/// The future of the run is dropped, its thread goes on, and the conversation is opened again in the
/// same process: the call is to run again and does not beside itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_still_runs_is_not_repeated_beside_itself() {
    let gate = Gate::default();
    let _opens = Opens(gate.clone());
    let model = ScriptedProvider::answering(|request| {
        match request.messages().iter().any(|message| message.results().next().is_some()) {
            false => reply().call_with_id("append_1", "append", json!({})),
            true => reply().text("Done."),
        }
    });
    let agent = Agent::builder(model).tools([append::tool()]).state(gate.clone()).build();
    let agent = agent.expect("an agent");
    let whole = MemoryJournal::new();
    let mut chat = agent.open(&whole, CHAT).await.expect("new");
    {
        let mut run = std::pin::pin!(chat.send("Go.").into_future());
        while gate.came() == 0 {
            assert!(run.as_mut().now_or_never().is_none());
            tokio::task::yield_now().await;
        }
    }
    // As if nobody had written how the run ended.
    let journal = cut_at_start(&whole).await;
    drop(chat);
    let mut chat = agent.open(&journal, CHAT).await.expect("it is there");
    assert!(chat.in_doubt().is_empty(), "it may run again");
    chat.resume().await.expect("an answer");
    let (outcome, text) = result(&chat);
    assert_eq!(gate.came(), 1, "it ran once");
    assert_eq!(outcome, CallOutcome::InDoubt, "it has not run this time, but before: {text}");
    assert!(text.contains("does the same"), "{text}");
    gate.open();
    while !chat.still_running().is_empty() {
        tokio::task::yield_now().await;
    }
}

/// A program that resumes whenever its run fails, in the same process or in new ones.
#[tokio::test]
async fn a_model_that_breaks_off_each_time_comes_to_the_limit() {
    for reopens in [false, true] {
        let asked: Arc<AtomicUsize> = Arc::default();
        let count = Arc::clone(&asked);
        let model =
            ScriptedProvider::answering(move |_| match count.fetch_add(1, Ordering::SeqCst) % 3 {
                0 => reply().text("I be").cut(),
                1 => reply().overloaded(),
                _ => reply().call("put", json!({})).cut(),
            });
        let agent = Agent::builder(model)
            .tools([put(WRITE, &Arc::default())])
            .guardrails(Guardrails::default().turns(7))
            .build()
            .expect("an agent");
        let journal = MemoryJournal::new();
        let mut chat = agent.open(&journal, CHAT).await.expect("new");
        let mut stopped = chat.send("Go.").await.expect_err("it breaks off");
        for _ in 0..50 {
            if stopped.outcome() != Outcome::Failed {
                break;
            }
            if reopens {
                drop(chat);
                chat = agent.open(&journal, CHAT).await.expect("it is there");
            }
            stopped = chat.resume().await.expect_err("it breaks off");
        }
        assert_eq!(stopped.outcome(), Outcome::Limit(LimitKind::Turns), "{stopped}");
        assert_eq!(asked.load(Ordering::SeqCst), 7);
        assert_eq!(chat.budget().spent().turns, 7, "what broke off was asked for, too");
        // Told that more is allowed, it goes on.
        let more = chat.resume().limits(Limits::new()).await;
        assert_eq!(more.expect_err("it breaks off").outcome(), Outcome::Failed);
        assert_eq!(entries(&journal).len() as u64, chat.facts());
    }
}

/// A journal as it was when the process was killed while the model answered: the facts up to the
/// last one before its answer.
async fn killed_while_it_answered(agent: &Agent) -> MemoryJournal {
    let whole = MemoryJournal::new();
    agent.open(&whole, CHAT).await.expect("new").send("Go.").await.expect("an answer");
    let facts = whole.read(CHAT, 0).await.expect("facts").facts;
    let replied = |fact: &Envelope| matches!(fact.fact(), Ok(Fact::ModelReplied { .. }));
    let at = facts.iter().rposition(replied).expect("an answer");
    let journal = MemoryJournal::new();
    journal.append(CHAT, Head::default(), &facts[..at]).await.expect("a new conversation");
    journal
}

fn priced(model: ScriptedProvider) -> AgentBuilder {
    Agent::builder(model).models(Models::none().with("*", Price::new(1.0, 1.0)))
}

#[tokio::test]
async fn that_nobody_knows_what_an_answer_has_cost_survives_the_process() {
    let model = || ScriptedProvider::answering(|_| reply().text("Yes.").tokens(10, 10));
    let agent = priced(model()).build().expect("an agent");
    let journal = killed_while_it_answered(&agent).await;
    // Opened twice, and continued in the second process.
    for _ in 0..2 {
        let chat = agent.open(&journal, CHAT).await.expect("nobody holds it");
        let spent = chat.budget().spent();
        assert!(!spent.usage_is_whole && spent.cost.is_none(), "{spent:?}");
    }
    let mut chat = agent.open(&journal, CHAT).await.expect("nobody holds it");
    let reply = chat.resume().await.expect("an answer");
    assert_eq!((reply.cost(), chat.budget().spent().cost), (None, None));
    drop(chat);
    let chat = agent.open(&journal, CHAT).await.expect("nobody holds it");
    let spent = chat.budget().spent();
    assert_eq!((spent.cost, spent.usage_is_whole, spent.known_cost), (None, false, 0.000_02));
}

#[tokio::test]
async fn who_refuses_an_unknown_cost_does_not_go_on_after_such_an_end() {
    let limits = Limits::new().cost(1.0).refuse_unknown_cost();
    let model = ScriptedProvider::answering(|_| reply().text("Yes.").tokens(10, 10));
    let agent = priced(model.clone()).run_limits(limits).build().expect("an agent");
    let journal = killed_while_it_answered(&agent).await;
    let asked = model.requests().len();
    let again = MemoryJournal::new();
    let facts = journal.read(CHAT, 0).await.expect("facts").facts;
    again.append(CHAT, Head::default(), &facts).await.expect("a copy");
    let mut chat = agent.open(&journal, CHAT).await.expect("nobody holds it");
    let stopped = chat.resume().await.expect_err("nobody knows what it has cost");
    assert_eq!(stopped.outcome(), Outcome::Limit(LimitKind::UnknownCost), "{stopped}");
    assert!(stopped.to_string().contains("a process ended while a model answered"), "{stopped}");
    assert_eq!(model.requests().len(), asked);
    // Another driver finds the same in the same facts.
    opened_again(&again).await;
    let facts = again.read(CHAT, 0).await.expect("facts").facts;
    let acted = agent.steps(CHAT, facts).expect("facts that follow").act().await.expect("facts");
    let fact = acted.first().expect("a fact").fact().expect("it can be read");
    let Fact::Interrupted { cause: InterruptCause::Limit { limit, .. }, .. } = &fact else {
        panic!("{fact:?}");
    };
    assert_eq!(*limit, LimitKind::UnknownCost);
    // A new run counts from zero.
    assert_eq!(chat.send("Again.").await.expect("an answer").cost(), Some(0.000_02));
}

/// A call that was killed between two answers of the model has cost what is known.
#[tokio::test]
async fn a_process_that_ends_while_a_call_runs_leaves_the_cost_known() {
    let ran = Arc::new(AtomicUsize::new(0));
    let journal = started(&agent(put(WRITE, &ran))).await;
    let chat = agent(put(WRITE, &ran)).open(&journal, CHAT).await.expect("nobody holds it");
    assert!(!chat.in_doubt().is_empty());
    let facts = journal.read(CHAT, 0).await.expect("facts").facts;
    let whole = facts.iter().all(|fact| match fact.fact().expect("a fact") {
        Fact::ModelReplied { usage, .. } => usage.input.is_some() && usage.output.is_some(),
        _ => true,
    });
    assert_eq!(chat.budget().spent().usage_is_whole, whole);
}
