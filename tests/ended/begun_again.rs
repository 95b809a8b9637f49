//! Agents in calls that had begun in a process that is gone: what became of their calls there is not forgotten, and they go on.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use harness::{
    Agent, CallOutcome, Outcome, Permissions, SideEffect, SideEffects, ToolError,
    journal::{Envelope, Fact, Journal, MemoryJournal},
    policy::{ApprovalRequest, RuleDecision},
    testing::{FaultyJournal, JournalCall, JournalFault, RecordedRequest, ScriptedProvider, reply},
};
use serde_json::json;

use crate::{CHAT, Left, agent, copy_of, tool};

const WRITE: SideEffects = SideEffects::of(&[SideEffect::Write]);

/// An agent whose agent has a call that may run again. What the journal holds is kept while it runs.
fn lead(left: &Left, ran: &Arc<AtomicUsize>, permissions: Permissions) -> Agent {
    let calls = |name: &'static str| {
        ScriptedProvider::answering(move |request| match request.results().next() {
            None => reply().call_with_id("c", name, json!({"task": "Put it."})),
            Some(result) => reply().text(format!("{:?}", result.outcome())),
        })
    };
    let (left, ran) = (left.clone(), Arc::clone(ran));
    let put = tool("put", WRITE, move |_| {
        ran.fetch_add(1, Ordering::Relaxed);
        left.keep();
        async { Ok("put".to_owned()) }
    });
    let below = agent(calls("put")).tools([put.idempotent()]).permissions(permissions);
    let below = below.build().expect("an agent").as_tool("ask", "Puts.");
    agent(calls("ask")).tools([below]).build().expect("an agent")
}

#[tokio::test]
async fn a_call_that_may_have_run_and_did_not_begin_again_is_not_told_as_denied() {
    let (left, ran) = (Left::default(), Arc::default());
    let whole = lead(&left, &ran, Permissions::allow_all());
    whole.open(&left.journal, CHAT).await.expect("opened").send("Go.").await.expect("an answer");
    let killed = left.take().swap_remove(0);
    let (mut failed, denies) = (0, Permissions::allow_all().deny("put", "not any more"));
    for number in 0..8 {
        let journal = FaultyJournal::new(copy_of(&killed).await);
        journal.fail(JournalCall::Append, number, JournalFault::FailBefore);
        let before = ran.load(Ordering::Relaxed);
        let mut chat = whole.open(&journal, CHAT).await.expect("opened");
        let ended = chat.resume().await;
        drop(chat);
        if ended.is_ok() || ran.load(Ordering::Relaxed) > before {
            continue;
        }
        failed += 1;
        // The next version of the program denies the call, which may have run.
        let next = lead(&left, &ran, denies.clone());
        let mut chat = next.open(&journal, CHAT).await.expect("opened");
        let said = chat.resume().await.map(|reply| reply.text().to_owned());
        let below = next.inbox(&journal).look("chat/c").await.expect("facts");
        let results = below.transcript().messages().iter().flat_map(|it| it.results());
        let outcomes: Vec<CallOutcome> = results.map(|it| it.outcome()).collect();
        assert!(
            outcomes.iter().all(|it| *it == CallOutcome::InDoubt),
            "append {number}: {outcomes:?}, {said:?}"
        );
    }
    assert!(failed > 0, "no start was refused");
}

/// An agent whose agent pays twice. A person is asked about the second time. What the journal holds is kept while it pays.
fn pays(left: &Left, by_function: bool, own_doubt: bool) -> Agent {
    let count = |request: &RecordedRequest| {
        request.messages().iter().filter(|it| it.results().next().is_some()).count()
    };
    let model = ScriptedProvider::answering(move |request| match count(request) {
        n @ (0 | 1) => reply().call_with_id(format!("pay_{n}"), "pay", json!({"n": n})),
        _ => reply().text("It is paid."),
    });
    let left = left.clone();
    let pay = tool("pay", WRITE, move |_| {
        left.keep();
        async { Ok("paid".to_owned()) }
    });
    let asks = Permissions::default().rule("the second one", |call| {
        let is_second = call.arguments.get("n").and_then(|n| n.as_u64()) == Some(1);
        (call.tool == "pay" && is_second).then_some(RuleDecision::Ask)
    });
    let below = agent(model).tools([pay]).permissions(asks).build().expect("an agent");
    let below = match by_function {
        false => below.as_tool("ask", "Pays."),
        true => tool("ask", WRITE, move |context| {
            let below = below.clone();
            async move {
                match below.run("Pay.").in_call(&context).await {
                    Ok(reply) => Ok(reply.text().to_owned()),
                    Err(_) if own_doubt => Err(ToolError::in_doubt("the bank did not answer")),
                    Err(stopped) => Err(stopped.into()),
                }
            }
        })
        .idempotent(),
    };
    let model = ScriptedProvider::answering(|request| match request.results().next() {
        None => reply().call_with_id("c", "ask", json!({"task": "Pay."})),
        Some(result) => reply().text(result.to_text()),
    });
    let later = |question: ApprovalRequest| std::future::ready(question.later(None));
    agent(model).tools([below]).approver(later).build().expect("an agent")
}

#[tokio::test]
async fn an_agent_with_a_call_in_doubt_waits_like_any_other() {
    for by_function in [false, true] {
        let left = Left::default();
        let lead = pays(&left, by_function, false);
        let mut chat = lead.open(&left.journal, CHAT).await.expect("opened");
        chat.send("Go.").await.expect_err("it waits");
        drop(chat);
        let journal = left.take().swap_remove(0);
        let mut chat = lead.open(&journal, CHAT).await.expect("opened");
        let stopped = chat.resume().await.expect_err("it waits for the second one");
        assert_eq!(stopped.outcome(), Outcome::Waiting, "{by_function}: {stopped}");
        let inbox = lead.inbox(&journal);
        let waiting = inbox.waiting("chat/c").await.expect("facts");
        let question = waiting[0].question().expect("a question");
        inbox.decide("chat/c", question.yes()).await.expect("it waits");
        assert_eq!(chat.resume().await.expect("an answer").text(), "It is paid.");
        let below = inbox.look("chat/c").await.expect("facts");
        let results = below.transcript().messages().iter().flat_map(|it| it.results());
        let outcomes: Vec<CallOutcome> = results.map(|it| it.outcome()).collect();
        assert_eq!(outcomes, [CallOutcome::InDoubt, CallOutcome::Succeeded], "{by_function}");
    }
}

#[tokio::test]
async fn a_call_in_doubt_for_a_reason_of_its_own_does_not_wait_for_its_agent() {
    let left = Left::default();
    let lead = pays(&left, true, true);
    let mut chat = lead.open(&left.journal, CHAT).await.expect("opened");
    chat.send("Go.").await.expect("the call ends");
    drop(chat);
    let journal = left.take().swap_remove(0);
    let mut chat = lead.open(&journal, CHAT).await.expect("opened");
    let reply = chat.resume().await.expect("the call ends");
    assert!(reply.text().contains("the bank did not answer"), "{}", reply.text());
    let results = chat.transcript().messages().iter().flat_map(|it| it.results());
    let outcomes: Vec<CallOutcome> = results.map(|it| it.outcome()).collect();
    assert_eq!(outcomes, [CallOutcome::InDoubt]);
}

/// An agent whose agent runs a third one, whose call a person is asked about.
fn chain(ran: &Arc<AtomicUsize>, permissions: Permissions) -> Agent {
    let calls = |name: &'static str| {
        ScriptedProvider::answering(move |request| match request.results().next() {
            None => reply().call_with_id("c", name, json!({"task": "Put it."})),
            Some(result) => reply().text(format!("{:?}", result.outcome())),
        })
    };
    let ran = Arc::clone(ran);
    let put = tool("put", WRITE, move |_| {
        ran.fetch_add(1, Ordering::Relaxed);
        async { Ok("put".to_owned()) }
    });
    let low = agent(calls("put")).tools([put]).permissions(Permissions::default().ask("put"));
    let low = low.build().expect("an agent").as_tool("low", "Puts.");
    let mid = agent(calls("low")).tools([low]).permissions(permissions);
    let mid = mid.build().expect("an agent").as_tool("mid", "Has it put.");
    let later = |question: ApprovalRequest| std::future::ready(question.later(None));
    agent(calls("mid")).tools([mid]).approver(later).build().expect("an agent")
}

#[tokio::test]
async fn a_call_whose_agent_waited_and_did_not_begin_again_is_not_told_as_denied() {
    let ran = Arc::default();
    let whole = chain(&ran, Permissions::allow_all());
    let waits = MemoryJournal::new();
    let mut chat = whole.open(&waits, CHAT).await.expect("opened");
    assert_eq!(chat.send("Go.").await.expect_err("it waits").outcome(), Outcome::Waiting);
    drop(chat);
    let inbox = whole.inbox(&waits);
    let question = inbox.waiting("chat/c/c").await.expect("facts")[0].question();
    inbox.decide("chat/c/c", question.expect("a question").yes()).await.expect("it waits");
    let (mut failed, denies) = (0, Permissions::allow_all().deny("low", "not any more"));
    for number in 0..8 {
        let journal = FaultyJournal::new(copy_of(&waits).await);
        journal.fail(JournalCall::Append, number, JournalFault::FailBefore);
        let before = ran.load(Ordering::Relaxed);
        let mut chat = whole.open(&journal, CHAT).await.expect("opened");
        let ended = chat.resume().await;
        drop(chat);
        if ended.is_ok() || ran.load(Ordering::Relaxed) > before {
            continue;
        }
        failed += 1;
        let next = chain(&ran, denies.clone());
        let mut chat = next.open(&journal, CHAT).await.expect("opened");
        let said = chat.resume().await.map(|reply| reply.text().to_owned());
        let below = next.inbox(&journal).look("chat/c").await.expect("facts");
        let results = below.transcript().messages().iter().flat_map(|it| it.results());
        let outcomes: Vec<CallOutcome> = results.map(|it| it.outcome()).collect();
        assert!(
            outcomes.iter().all(|it| *it == CallOutcome::InDoubt),
            "append {number}: {outcomes:?}, {said:?}"
        );
    }
    assert!(failed > 0, "no start was refused");
}

/// A conversation with a call `c_1` that an earlier *always* allows, and whose agent has waited and has been answered.
async fn answered_below() -> (Agent, MemoryJournal) {
    let puts = ScriptedProvider::answering(|_| reply().call("put", json!({})));
    let put = tool("put", WRITE, |_| async { Ok("put".to_owned()) });
    let below = agent(puts).tools([put]).permissions(Permissions::default().ask("put"));
    let below = below.build().expect("an agent");
    let pay = tool("pay", WRITE, move |context| {
        let below = below.clone();
        async move {
            match context.call_id() {
                "c_0" => Ok("paid".to_owned()),
                _ => Ok(below.run("Pay.").in_call(&context).await?.text().to_owned()),
            }
        }
    });
    let model = ScriptedProvider::answering(|request| {
        let count = request.messages().iter().filter(|it| it.results().next().is_some()).count();
        reply().call_with_id(format!("c_{count}"), "pay", json!({}))
    });
    let person = |question: ApprovalRequest| {
        std::future::ready(match question.tool == "pay" {
            true => question.always(),
            false => question.later(None),
        })
    };
    let lead = agent(model).tools([pay]).permissions(Permissions::default().ask("pay"));
    let lead = lead.approver(person).build().expect("an agent");
    let journal = MemoryJournal::new();
    let mut chat = lead.open(&journal, CHAT).await.expect("opened");
    assert_eq!(chat.send("Pay.").await.expect_err("it waits").outcome(), Outcome::Waiting);
    drop(chat);
    let call = "c_1".to_owned();
    let answered = Fact::CallAnswered { call, answer: json!(null), who: None, at: 0 };
    let head = journal.read(CHAT, 0).await.expect("facts").head;
    let answered = Envelope::of(&answered, 0).expect("JSON");
    journal.append(CHAT, head, &[answered]).await.expect("appended");
    (lead, journal)
}

#[tokio::test]
async fn a_call_whose_agent_waited_is_in_doubt_when_its_always_is_withdrawn() {
    let (lead, journal) = answered_below().await;
    let mut chat = lead.open(&journal, CHAT).await.expect("opened");
    let grant = chat.grants()[0].clone();
    assert!(chat.revoke(&grant));
    let doubtful: Vec<String> =
        chat.in_doubt().iter().map(|open| open.call.id().to_owned()).collect();
    assert_eq!(doubtful, ["c_1"], "its agent may have done something");
}

#[tokio::test]
async fn a_call_whose_agent_waited_cannot_be_decided_again() {
    let (lead, journal) = answered_below().await;
    let mut machine = lead.inbox(&journal).look(CHAT).await.expect("facts");
    assert!(machine.apply(&Fact::CallUndecided { call: "c_1".to_owned() }).is_err());
}
