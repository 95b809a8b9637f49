//! What a conversation has spent, where the process has ended while a model answered beside its own turns: the model of an
//! agent in a call, or one that makes a summary.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::SystemTime,
};

use futures_util::{FutureExt as _, stream};
use harness::{
    Agent, ErrorKind, Limits, Outcome, Permissions, Provider, SideEffect, SideEffects, StreamEvent,
    Tool, Usage,
    agent::AgentBuilder,
    context::Window,
    journal::{Fact, Journal, LimitKind, MemoryJournal},
    message::VendorData,
    policy::{ApprovalRequest, BudgetUsage},
    provider::{EventStream, Request, StopReason, VendorPart},
    testing::{
        FaultyJournal, JournalCall, JournalFault, RecordedRequest, ScriptedProvider, reply, summary,
    },
    tool::Reconciled,
};
use serde_json::json;

use crate::{CHAT, Left, agent, copy_of, tool};

const READ: SideEffects = SideEffects::of(&[SideEffect::Read]);
const WRITE: SideEffects = SideEffects::of(&[SideEffect::Write]);

/// What the conversation has spent, as it is opened again.
async fn spent(agent: &Agent, journal: &MemoryJournal) -> BudgetUsage {
    agent.open(journal, CHAT).await.expect("opened").budget().spent()
}

fn is_known(spent: &BudgetUsage) -> bool {
    assert_eq!(spent.cost.is_some(), spent.usage_is_whole, "{spent:?}");
    spent.usage_is_whole
}

async fn facts(journal: &MemoryJournal) -> Vec<Fact> {
    let read = journal.read(CHAT, 0).await.expect("facts").facts;
    read.iter().map(|fact| fact.fact().expect("a fact")).collect()
}

/// Calls the tool `ask` once, and answers when it has its result.
fn asks() -> ScriptedProvider {
    ScriptedProvider::answering(|request| match request.results().next() {
        None => reply().call_with_id("c", "ask", json!({"task": "Count."})).tokens(100, 10),
        Some(result) => reply().text(result.to_text()).tokens(100, 10),
    })
}

/// How a function runs an agent.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// In a conversation of its own.
    Chat,
    /// In a conversation of its own, of an agent that calls an agent below it, which is asked then.
    Below,
    /// As an agent whose conversation is kept below that of the caller.
    Kept,
}

/// An agent whose function runs an agent, whose model keeps what the journal holds when it is asked.
fn lead(left: &Left, way: Way, effects: SideEffects) -> AgentBuilder {
    let counts =
        agent(left.model(|_| reply().text("42").tokens(1000, 100))).build().expect("an agent");
    let counts = match way {
        Way::Chat | Way::Kept => counts,
        Way::Below => {
            agent(asks()).tools([counts.as_tool("ask", "Asks.")]).build().expect("an agent")
        }
    };
    let after = left.clone();
    let ask = tool("ask", effects, move |context| {
        let (counts, after) = (counts.clone(), after.clone());
        async move {
            let mut chat = counts.chat();
            let reply = match way {
                Way::Chat | Way::Below => chat.send("How many?").in_call(&context).await?,
                Way::Kept => counts.run("How many?").in_call(&context).await?,
            };
            // The agent has answered, and its caller has not learned of it.
            after.keep();
            Ok(reply.text().to_owned())
        }
    });
    agent(asks()).tools([ask])
}

#[tokio::test]
async fn a_call_that_asked_a_model_in_a_conversation_of_its_own_leaves_the_cost_unknown() {
    for effects in [READ, WRITE] {
        for way in [Way::Chat, Way::Below, Way::Kept] {
            let left = Left::default();
            let lead = lead(&left, way, effects).build().expect("an agent");
            let mut chat = lead.open(&left.journal, CHAT).await.expect("opened");
            assert_eq!(chat.send("Go.").await.expect("an answer").text(), "42");
            let whole = chat.budget().spent();
            drop(chat);
            assert!(is_known(&whole), "{way:?}: {whole:?}");
            assert_eq!(spent(&lead, &left.journal).await, whole, "{way:?}");
            // While the model answered, and when its answer was there: what it has cost is in the facts of a conversation
            // that is kept, and nowhere else.
            let known: Vec<bool> = match way {
                Way::Kept => vec![false, true],
                Way::Chat | Way::Below => vec![false, false],
            };
            let mut stands = Vec::new();
            for journal in left.take() {
                stands.push(is_known(&spent(&lead, &journal).await));
            }
            assert_eq!(stands, known, "{way:?}, {effects}");
        }
    }
}

/// A journal of a process that ended while the agent of a call was asked.
async fn cut_off(effects: SideEffects) -> MemoryJournal {
    let left = Left::default();
    let lead = lead(&left, Way::Chat, effects).build().expect("an agent");
    let mut chat = lead.open(&left.journal, CHAT).await.expect("opened");
    chat.send("Go.").await.expect("an answer");
    left.take().swap_remove(0)
}

#[tokio::test]
async fn the_cost_stays_unknown_however_the_conversation_goes_on() {
    let lead = |effects| lead(&Left::default(), Way::Chat, effects).build().expect("an agent");
    // The call runs again, and its agent with it.
    let (journal, agent) = (cut_off(READ).await, lead(READ));
    let mut chat = agent.open(&journal, CHAT).await.expect("opened");
    assert_eq!(chat.resume().await.expect("an answer").text(), "42");
    drop(chat);
    assert!(!is_known(&spent(&agent, &journal).await));
    // The user says something else instead.
    let journal = cut_off(READ).await;
    let mut chat = agent.open(&journal, CHAT).await.expect("opened");
    chat.send("Something else.").await.expect("an answer");
    drop(chat);
    assert!(!is_known(&spent(&agent, &journal).await));
    // The call is in doubt, and the program says what became of it.
    let (journal, agent) = (cut_off(WRITE).await, lead(WRITE));
    let mut chat = agent.open(&journal, CHAT).await.expect("opened");
    let doubt = chat.in_doubt().swap_remove(0);
    chat.settle(doubt.succeeded("42")).await.expect("settled");
    assert_eq!(chat.resume().await.expect("an answer").text(), "42");
    drop(chat);
    assert!(!is_known(&spent(&agent, &journal).await));
    let settled = |fact: &Fact| matches!(fact, Fact::CallSettled { spent: Some(_), .. });
    assert!(facts(&journal).await.iter().any(settled));
}

#[tokio::test]
async fn a_limit_of_money_that_cannot_hold_any_more_ends_the_run() {
    let journal = cut_off(READ).await;
    let lead = lead(&Left::default(), Way::Chat, READ).build().expect("an agent");
    let mut chat = lead.open(&journal, CHAT).await.expect("opened");
    chat.limits(Limits::new().cost(1.0).refuse_unknown_cost());
    let stopped = chat.send("Go on.").await.expect_err("a limit");
    assert_eq!(stopped.outcome(), Outcome::Limit(LimitKind::UnknownCost), "{stopped}");
}

#[tokio::test]
async fn a_call_that_runs_no_agent_leaves_the_cost_known() {
    let left = Left::default();
    let within = left.clone();
    let ask = tool("ask", WRITE, move |_| {
        within.keep();
        async { Ok("done".to_owned()) }
    });
    let lead = agent(asks()).tools([ask]).build().expect("an agent");
    let mut chat = lead.open(&left.journal, CHAT).await.expect("opened");
    chat.send("Go.").await.expect("an answer");
    let journal = left.take().swap_remove(0);
    assert!(is_known(&spent(&lead, &journal).await));
}

#[tokio::test]
async fn the_cost_of_an_agent_is_unknown_to_the_callers_above_its_caller() {
    let left = Left::default();
    let middle = lead(&left, Way::Chat, READ).build().expect("an agent");
    let top = agent(asks()).tools([middle.as_tool("ask", "Asks.")]).build().expect("an agent");
    let mut chat = top.open(&left.journal, CHAT).await.expect("opened");
    chat.send("Go.").await.expect("an answer");
    let whole = chat.budget().spent();
    drop(chat);
    assert!(is_known(&whole) && spent(&top, &left.journal).await == whole);
    for journal in left.take() {
        assert!(!is_known(&spent(&top, &journal).await));
    }
}

#[tokio::test]
async fn a_function_that_finds_out_what_became_of_a_call_may_ask_a_model_too() {
    let left = Left::default();
    let inside = left.clone();
    let ask = tool("ask", WRITE, move |_| {
        inside.keep();
        async { Ok("paid".to_owned()) }
    });
    let lead = agent(asks()).tools([ask]).build().expect("an agent");
    lead.open(&left.journal, CHAT).await.expect("opened").send("Go.").await.expect("an answer");

    let left = Left { journal: left.take().swap_remove(0), ..Left::default() };
    let looks = agent(left.model(|_| reply().text("yes").tokens(10, 1))).build().expect("an agent");
    let ask = tool("ask", WRITE, |_| async { Ok("paid".to_owned()) });
    let ask = ask.with_reconcile(move |context, _| {
        let looks = looks.clone();
        Box::pin(async move {
            let mut chat = looks.chat();
            let reply = chat.send("Is it paid?").in_call(&context).await?;
            Ok(Reconciled::Happened(reply.text().to_owned().into()))
        })
    });
    let lead = agent(asks()).tools([ask]).build().expect("an agent");
    let mut chat = lead.open(&left.journal, CHAT).await.expect("opened");
    assert!(is_known(&chat.budget().spent()));
    assert_eq!(chat.resume().await.expect("an answer").text(), "yes");
    drop(chat);
    assert!(is_known(&spent(&lead, &left.journal).await));
    let asked = left.take().swap_remove(0);
    assert!(!is_known(&spent(&lead, &asked).await));
}

#[tokio::test]
async fn what_an_agent_has_cost_that_found_that_nothing_had_happened_is_in_a_fact() {
    let journal = cut_off(WRITE).await;
    let model = agent(ScriptedProvider::answering(|_| reply().text("no").tokens(500, 50)));
    let looks = model.build().expect("an agent");
    let ask = tool("ask", WRITE, |_| async { Ok("paid".to_owned()) });
    let ask = ask.with_reconcile(move |context, _| {
        let looks = looks.clone();
        Box::pin(async move {
            looks.chat().send("Is it paid?").in_call(&context).await?;
            Ok(Reconciled::NotHappened)
        })
    });
    let lead = agent(asks()).tools([ask]).build().expect("an agent");
    let mut chat = lead.open(&journal, CHAT).await.expect("opened");
    assert_eq!(chat.resume().await.expect("an answer").text(), "paid");
    let whole = chat.budget().spent();
    drop(chat);
    let cleared = facts(&journal).await.into_iter().find_map(|fact| match fact {
        Fact::CallCleared { spent, .. } => spent,
        _ => None,
    });
    assert_eq!(cleared.expect("what it has cost").usage.input, Some(500));
    assert_eq!(spent(&lead, &journal).await, whole);
}

/// What a call has waited for, and how it ends.
#[derive(Clone, Copy, Debug)]
enum Waited {
    Denied,
    Settled,
    Expired,
}

#[tokio::test]
async fn the_cost_of_an_answer_after_a_wait_is_unknown_if_its_process_ends() {
    for (waited, is_reopened) in [Waited::Denied, Waited::Settled, Waited::Expired]
        .map(|it| [(it, false), (it, true)])
        .concat()
    {
        let left = Left::default();
        let model = left.model(|request| match request.results().next() {
            None => reply().call_with_id("c", "ask", json!({})).tokens(100, 10),
            Some(_) => reply().text("I see.").tokens(100, 10),
        });
        let ask = match waited {
            Waited::Settled => Tool::external("ask", "Asks.", json!({"type": "object"}), READ),
            _ => tool("ask", WRITE, |_| async { Ok("done".to_owned()) }),
        };
        let asks = match waited {
            Waited::Settled => Permissions::allow_all(),
            _ => Permissions::default().ask("ask"),
        };
        let until = matches!(waited, Waited::Expired).then_some(SystemTime::UNIX_EPOCH);
        let later = move |question: ApprovalRequest| std::future::ready(question.later(until));
        let lead = agent(model).tools([ask]).permissions(asks).approver(later);
        let lead = lead.build().expect("an agent");
        let mut chat = lead.open(&left.journal, CHAT).await.expect("opened");
        chat.send("Go.").await.expect_err("it waits");
        let open = chat.waiting().swap_remove(0);
        let inbox = lead.inbox(&left.journal);
        match waited {
            Waited::Denied => {
                let question = open.question().expect("a question");
                inbox.decide(CHAT, question.no("no")).await.expect("it waits");
            }
            Waited::Settled => inbox.settle(CHAT, open.succeeded("yes")).await.expect("it waits"),
            Waited::Expired => {}
        }
        assert!(is_known(&spent(&lead, &copy_of(&left.journal).await).await), "{waited:?}");
        left.take();
        if is_reopened {
            drop(chat);
            chat = lead.open(&left.journal, CHAT).await.expect("opened");
        }
        assert_eq!(chat.resume().await.expect("an answer").text(), "I see.");
        assert!(is_known(&chat.budget().spent()), "{waited:?}");
        drop(chat);
        assert!(is_known(&spent(&lead, &left.journal).await), "{waited:?}");
        let asked = left.take().swap_remove(0);
        assert!(!is_known(&spent(&lead, &asked).await), "{waited:?}, {is_reopened}");
    }
}

/// The program says that nothing of the call has happened: what its agent has cost, it has cost.
#[tokio::test]
async fn what_an_agent_has_cost_stays_counted_if_the_program_says_that_nothing_has_happened() {
    for way in [Way::Chat, Way::Kept] {
        let left = Left::default();
        let lead = lead(&left, way, WRITE).build().expect("an agent");
        lead.open(&left.journal, CHAT).await.expect("opened").send("Go.").await.expect("an answer");
        for journal in left.take() {
            let mut chat = lead.open(&journal, CHAT).await.expect("opened");
            let before = chat.budget().spent();
            let doubt = chat.in_doubt().swap_remove(0);
            chat.settle(doubt.not_happened()).await.expect("settled");
            drop(chat);
            let after = spent(&lead, &journal).await;
            assert_eq!((after.cost, after.usage), (before.cost, before.usage), "{way:?}");
            let mut chat = lead.open(&journal, CHAT).await.expect("opened");
            assert_eq!(chat.resume().await.expect("an answer").text(), "42");
            let whole = chat.budget().spent();
            drop(chat);
            assert_eq!(spent(&lead, &journal).await, whole, "{way:?}");
            assert!(whole.known_cost > before.known_cost, "{way:?}: {whole:?}, {before:?}");
            assert!(is_known(&before) || !is_known(&whole), "{way:?}: {whole:?}");
        }
    }
}

/// How a call goes on whose agents have spent something.
#[derive(Clone, Copy, Debug, PartialEq)]
enum GoesOn {
    /// Its tool finds out by an agent that nothing has happened.
    Cleared,
    /// Its agent has waited for somebody.
    Answered,
}

/// An agent whose function runs an agent whose conversation is kept, and that runs another one beside it, whose
/// conversation is not kept, once. What the journal holds is kept whenever the first one has put something, and when it
/// has answered.
fn mixed(left: &Left, goes_on: GoesOn) -> Agent {
    let once = ScriptedProvider::answering(|_| reply().text("no").tokens(30_000, 30));
    let once = agent(once).build().expect("an agent");
    let (within, after) = (left.clone(), left.clone());
    let put = tool("put", WRITE, move |_| {
        within.keep();
        async { Ok("put".to_owned()) }
    });
    let puts = ScriptedProvider::answering(|request| match request.results().next() {
        None => reply().call_with_id("c", "put", json!({})).tokens(1_000, 10),
        Some(_) => reply().text("42").tokens(1_000, 10),
    });
    let asks_person = match goes_on {
        GoesOn::Cleared => Permissions::allow_all(),
        GoesOn::Answered => Permissions::default().ask("put"),
    };
    let kept = agent(puts).tools([put.idempotent()]).permissions(asks_person);
    let kept = kept.build().expect("an agent");
    let (beside, is_first) = (once.clone(), Arc::new(AtomicBool::new(goes_on == GoesOn::Answered)));
    let ask = tool("ask", WRITE, move |context| {
        let (kept, beside, after) = (kept.clone(), beside.clone(), after.clone());
        let is_first = is_first.swap(false, Ordering::SeqCst);
        async move {
            if is_first {
                beside.chat().send("Are you sure?").in_call(&context).await?;
            }
            let reply = kept.run("Put it.").in_call(&context).await?;
            after.keep();
            Ok(reply.text().to_owned())
        }
    });
    let ask = ask.with_reconcile(move |context, _| {
        let once = once.clone();
        Box::pin(async move {
            once.chat().send("Is it done?").in_call(&context).await?;
            Ok(Reconciled::NotHappened)
        })
    });
    let later = |question: ApprovalRequest| std::future::ready(question.later(None));
    agent(asks()).tools([ask]).approver(later).build().expect("an agent")
}

#[tokio::test]
async fn what_agents_with_and_without_a_kept_conversation_have_spent_in_one_call_is_counted_once() {
    for goes_on in [GoesOn::Cleared, GoesOn::Answered] {
        let mut left = Left::default();
        let mut lead = mixed(&left, goes_on);
        let mut chat = lead.open(&left.journal, CHAT).await.expect("opened");
        let ended = chat.send("Go.").await;
        match goes_on {
            GoesOn::Cleared => {
                left = Left { journal: left.take().swap_remove(0), ..Left::default() };
                lead = mixed(&left, goes_on);
                chat = lead.open(&left.journal, CHAT).await.expect("opened");
            }
            GoesOn::Answered => {
                assert_eq!(ended.expect_err("it waits").outcome(), Outcome::Waiting);
                assert_eq!(
                    spent(&lead, &copy_of(&left.journal).await).await,
                    chat.budget().spent()
                );
                let inbox = lead.inbox(&left.journal);
                let question = inbox.waiting("chat/c").await.expect("facts")[0].question();
                inbox
                    .decide("chat/c", question.expect("a question").yes())
                    .await
                    .expect("it waits");
            }
        }
        assert_eq!(chat.resume().await.expect("an answer").text(), "42");
        let whole = chat.budget().spent();
        drop(chat);
        assert_eq!(whole.usage.input, Some(32_200), "{goes_on:?}");
        assert_eq!(spent(&lead, &left.journal).await, whole, "{goes_on:?}");
        let mut stands = Vec::new();
        for journal in left.take() {
            let spent = spent(&lead, &journal).await;
            assert!(is_known(&spent), "{goes_on:?}: {spent:?}");
            stands.push(spent.usage.input);
        }
        assert_eq!(stands, [Some(31_100), Some(32_100)], "{goes_on:?}");
    }
}

#[tokio::test]
async fn a_call_in_doubt_that_was_settled_leaves_the_cost_known_until_the_model_is_asked() {
    let left = Left::default();
    let within = left.clone();
    let ask = tool("ask", WRITE, move |_| {
        within.keep();
        async { Ok("done".to_owned()) }
    });
    let built = |left: &Left| {
        let model = left.model(|request| match request.results().next() {
            None => reply().call_with_id("c", "ask", json!({})).tokens(100, 10),
            Some(_) => reply().text("I see.").tokens(100, 10),
        });
        agent(model).tools([ask.clone()]).build().expect("an agent")
    };
    let lead = built(&Left::default());
    lead.open(&left.journal, CHAT).await.expect("opened").send("Go.").await.expect("an answer");
    let killed = left.take().swap_remove(0);
    for is_reopened in [false, true] {
        let left = Left { journal: copy_of(&killed).await, ..Left::default() };
        let lead = built(&left);
        let mut chat = lead.open(&left.journal, CHAT).await.expect("opened");
        let doubt = chat.in_doubt().swap_remove(0);
        chat.settle(doubt.succeeded("done")).await.expect("settled");
        let before = chat.budget().spent();
        assert!(is_known(&before));
        assert_eq!(spent(&lead, &copy_of(&left.journal).await).await, before);
        if is_reopened {
            drop(chat);
            chat = lead.open(&left.journal, CHAT).await.expect("opened");
        }
        assert_eq!(chat.resume().await.expect("an answer").text(), "I see.");
        assert!(is_known(&chat.budget().spent()));
        drop(chat);
        assert!(is_known(&spent(&lead, &left.journal).await));
        let asked = left.take().swap_remove(0);
        assert!(!is_known(&spent(&lead, &asked).await), "{is_reopened}");
    }
}

#[tokio::test]
async fn a_journal_that_cannot_tell_what_an_agent_has_cost_opens_the_conversation_later() {
    let left = Left::default();
    let lead = lead(&left, Way::Kept, READ).build().expect("an agent");
    let mut chat = lead.open(&left.journal, CHAT).await.expect("opened");
    chat.send("Go.").await.expect("an answer");
    drop(chat);
    let journal = left.take().pop().expect("the agent has answered");
    let whole = spent(&lead, &journal).await;
    assert!(is_known(&whole));
    let faulty = FaultyJournal::new(journal.clone());
    // The first one reads the conversation, the second one that of the agent.
    faulty.fail(JournalCall::Read, 1, JournalFault::FailBefore);
    let error =
        lead.open(&faulty, CHAT).await.expect_err("it is not known what the agent has cost");
    assert_eq!(error.kind(), ErrorKind::Journal, "{error}");
    let chat = lead.open(&faulty, CHAT).await.expect("opened");
    assert_eq!(chat.budget().spent(), whole);
}

/// How many tokens a request has, about.
fn size(request: &RecordedRequest) -> u64 {
    let bytes = request.messages().iter().map(|it| serde_json::to_string(it).expect("JSON").len());
    bytes.sum::<usize>() as u64 / 4
}

/// Answers at length, and makes summaries. It keeps what the journal holds when it is asked for one.
fn sums_up(left: &Left) -> ScriptedProvider {
    let left = left.clone();
    ScriptedProvider::answering(move |request| match is_for_summary(request) {
        true => {
            left.keep();
            summary("none").tokens(size(request), 50)
        }
        false => reply().text("All of it is done. ".repeat(80)).tokens(size(request), 400),
    })
}

fn is_for_summary(request: &RecordedRequest) -> bool {
    request.is_summary_request() || request.last_text().contains("Sum it up")
}

/// A model whose vendor makes summaries of its own.
struct WithSummaries(ScriptedProvider, Left);

impl Provider for WithSummaries {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn model(&self) -> &str {
        self.0.model()
    }

    fn has_vendor_summaries(&self) -> bool {
        true
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        let request = request.for_model(self.name(), self.model()).into_owned();
        if !request.is_summary_request() {
            return self.0.stream(request);
        }
        self.1.keep();
        let data = VendorData::new("own", r#"{"summary":1}"#).expect("JSON");
        let usage = Usage { input: Some(9), output: Some(3), ..Usage::default() };
        Box::pin(stream::iter([
            Ok(StreamEvent::Vendor { block: 0, part: VendorPart::Opaque, data }),
            Ok(StreamEvent::Completed { stop: StopReason::Paused, usage: Box::new(usage) }),
        ]))
    }
}

/// Checks that each summary has left the cost unknown while it was made, and known afterwards.
async fn checks_summaries(agent: &Agent, left: &Left, least: usize) {
    let moments = left.take();
    assert!(moments.len() >= least, "{}", moments.len());
    for journal in moments {
        let mut chat = agent.open(&journal, CHAT).await.expect("opened");
        assert!(!is_known(&chat.budget().spent()));
        // What the chat says is what its facts say.
        chat.send("Go on.").await.expect("an answer");
        drop(chat);
        assert!(!is_known(&spent(agent, &journal).await));
        let lost = |fact: &Fact| match fact {
            Fact::CompactionFailed { request, stopped: true, .. } => {
                request.broke_off && request.model == agent.provider().model()
            }
            _ => false,
        };
        assert_eq!(facts(&journal).await.iter().filter(|fact| lost(fact)).count(), 1);
    }
    assert!(is_known(&spent(agent, &left.journal).await));
    let started = |fact: &Fact| matches!(fact, Fact::CompactionStarted { .. });
    assert!(facts(&left.journal).await.iter().any(started));
}

#[tokio::test]
async fn a_summary_that_the_program_wanted_leaves_the_cost_unknown() {
    let left = Left::default();
    let agent = agent(sums_up(&left)).build().expect("an agent");
    let mut chat = agent.open(&left.journal, CHAT).await.expect("opened");
    for number in 0..3 {
        chat.send(format!("Message {number}")).await.expect("an answer");
    }
    chat.compact().await.expect("a summary");
    assert!(is_known(&chat.budget().spent()));
    drop(chat);
    checks_summaries(&agent, &left, 1).await;
}

#[tokio::test]
async fn a_summary_in_a_run_leaves_the_cost_unknown() {
    let left = Left::default();
    let window = Window::new().tokens(3_000).clear_at(20).compact_at(40);
    let agent = agent(sums_up(&left)).window(window).build().expect("an agent");
    let mut chat = agent.open(&left.journal, CHAT).await.expect("opened");
    for number in 0..5 {
        chat.send(format!("Message {number}")).await.expect("an answer");
    }
    drop(chat);
    checks_summaries(&agent, &left, 1).await;
}

#[tokio::test]
async fn a_summary_of_the_vendors_own_leaves_the_cost_unknown() {
    let left = Left::default();
    let model = WithSummaries(sums_up(&left), left.clone());
    let window = Window::new().tokens(3_000).clear_at(20).compact_at(40).vendor_summaries();
    let agent = agent(model).window(window).build().expect("an agent");
    let mut chat = agent.open(&left.journal, CHAT).await.expect("opened");
    for number in 0..5 {
        chat.send(format!("Message {number}")).await.expect("an answer");
    }
    drop(chat);
    checks_summaries(&agent, &left, 1).await;
}

#[tokio::test]
async fn a_summary_that_was_never_requested_leaves_the_cost_known() {
    for fault in [JournalFault::StopBefore, JournalFault::StopAfter, JournalFault::FailBefore] {
        let left = Left::default();
        let journal = FaultyJournal::new(left.journal.clone());
        let agent = agent(sums_up(&left)).build().expect("an agent");
        let mut chat = agent.open(&journal, CHAT).await.expect("opened");
        for number in 0..3 {
            chat.send(format!("Message {number}")).await.expect("an answer");
        }
        journal.fail(JournalCall::Append, journal.counts().appends, fault);
        // The future is dropped, or the journal fails, before the request is made.
        if let Some(compacted) = chat.compact().now_or_never() {
            assert_eq!(compacted.expect_err("a fault").kind(), ErrorKind::Journal);
        }
        assert_eq!(left.take().len(), 0, "the model was not asked");
        assert!(is_known(&chat.budget().spent()), "{fault:?}");
        chat.save().await.expect("saved");
        drop(chat);
        assert!(is_known(&spent(&agent, &left.journal).await), "{fault:?}");
        // It can be requested later.
        let mut chat = agent.open(&journal, CHAT).await.expect("opened");
        chat.compact().await.expect("a summary");
        drop(chat);
        assert!(is_known(&spent(&agent, &left.journal).await), "{fault:?}");
    }
}

#[tokio::test]
async fn an_agent_that_was_killed_while_it_summed_up_leaves_its_callers_cost_unknown() {
    let left = Left::default();
    let fetch = tool("fetch", READ, |_| async { Ok("All of it is done. ".repeat(80)) });
    let (kept, asked) = (left.clone(), AtomicUsize::new(0));
    let model = ScriptedProvider::answering(move |request| {
        let size = size(request);
        if is_for_summary(request) {
            kept.keep();
            return summary("none").tokens(size, 50);
        }
        match asked.fetch_add(1, Ordering::SeqCst) {
            0..4 => reply().text("More. ".repeat(600)).call("fetch", json!({})).tokens(size, 900),
            _ => reply().text("42").tokens(size, 10),
        }
    });
    let window = Window::new().tokens(3_000).clear_at(20).compact_at(40);
    let below = agent(model).tools([fetch]).window(window).build().expect("an agent");
    let lead = agent(asks()).tools([below.as_tool("ask", "Asks.")]).build().expect("an agent");
    let mut chat = lead.open(&left.journal, CHAT).await.expect("opened");
    chat.send("Go.").await.expect("an answer");
    drop(chat);
    let moments = left.take();
    assert!(!moments.is_empty());
    for journal in moments {
        assert!(!is_known(&spent(&lead, &journal).await));
    }
}
