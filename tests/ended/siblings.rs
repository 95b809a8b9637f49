//! Several agents in one call: each of them that waits or cannot continue keeps the call open, whatever becomes of the others.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use harness::{
    Agent, Chat, Error, ErrorKind, Guardrails, Outcome, Permissions, SideEffect, SideEffects,
    Stopped, ToolContext, ToolError,
    agent::{Inbox, OpenCall},
    journal::{Awaited, MemoryJournal},
    policy::{ApprovalRequest, RuleDecision},
    testing::{ScriptedProvider, reply},
};
use serde_json::json;

use crate::{CHAT, Left, agent, tool};

const WRITE: SideEffects = SideEffects::of(&[SideEffect::Write]);
const READ_WRITE: SideEffects = SideEffects::of(&[SideEffect::Read, SideEffect::Write]);

/// An agent that calls `pay` this often. A person is asked about the last time.
fn payer(left: &Left, paid: &Arc<AtomicUsize>, times: usize) -> Agent {
    let model = ScriptedProvider::answering(move |request| {
        let done = request.messages().iter().filter(|it| it.results().next().is_some()).count();
        match done {
            n if n < times => {
                reply().call_with_id(format!("pay_{n}"), "pay", json!({"last": n + 1 == times}))
            }
            _ => reply().text("It is paid."),
        }
    });
    let (left, paid) = (left.clone(), Arc::clone(paid));
    let pay = tool("pay", WRITE, move |_| {
        left.keep();
        paid.fetch_add(1, Ordering::Relaxed);
        async { Ok("paid".to_owned()) }
    });
    let asks = Permissions::default().rule("the last one", |call| {
        let is_last = call.arguments.get("last").is_some_and(|it| it == true);
        is_last.then_some(RuleDecision::Ask)
    });
    agent(model).tools([pay]).permissions(asks).build().expect("an agent")
}

/// An agent whose one call runs this function.
fn lead<F>(run: impl Fn(ToolContext) -> F + Send + Sync + 'static) -> Agent
where
    F: Future<Output = Result<String, ToolError>> + Send + 'static,
{
    let model = ScriptedProvider::answering(|request| match request.results().next() {
        None => reply().call_with_id("c", "both", json!({})),
        Some(result) => reply().text(result.to_text()),
    });
    let later = |question: ApprovalRequest| std::future::ready(question.later(None));
    let both = tool("both", READ_WRITE, run).idempotent();
    agent(model).tools([both]).approver(later).build().expect("an agent")
}

async fn says_yes(inbox: &Inbox, (conversation, open): &(String, OpenCall)) {
    let question = open.question().expect("a question");
    inbox.decide(conversation, question.yes()).await.expect("it waits");
}

#[tokio::test]
async fn two_agents_wait_in_one_call_although_one_of_them_has_a_call_in_doubt() {
    for passes_on_first in [true, false] {
        let (left, paid) = (Left::default(), Arc::default());
        let (first, second) = (payer(&left, &paid, 2), payer(&left, &paid, 1));
        let lead = lead(move |context| {
            let (first, second) = (first.clone(), second.clone());
            async move {
                let one = first.run("Pay twice.").in_call(&context).await;
                let other = second.run("Pay once.").in_call(&context).await;
                let mut all = [one, other];
                if !passes_on_first {
                    all.reverse();
                }
                let replies = all.into_iter().collect::<Result<Vec<_>, Stopped>>()?;
                Ok(replies.iter().map(|reply| reply.text()).collect::<Vec<_>>().join(" "))
            }
        });
        let mut chat = lead.open(&left.journal, CHAT).await.expect("opened");
        chat.send("Go.").await.expect_err("it waits");
        drop(chat);
        // The process ended in the first payment, whose outcome is not known.
        let journal = left.take().swap_remove(0);
        let mut chat = lead.open(&journal, CHAT).await.expect("opened");
        let stopped = chat.resume().await.expect_err("it waits");
        assert_eq!(stopped.outcome(), Outcome::Waiting, "{passes_on_first}: {stopped}");
        let inbox = lead.inbox(&journal);
        let mut waiting = inbox.waiting_with_agents(CHAT).await.expect("facts");
        waiting.sort_by(|one, other| one.0.cmp(&other.0));
        let names: Vec<&str> = waiting.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["chat/c", "chat/c/2"]);
        let before = paid.load(Ordering::Relaxed);
        // What is allowed runs, whichever of them is answered first.
        waiting.rotate_left(usize::from(passes_on_first));
        let [first, last] = <[_; 2]>::try_from(waiting).expect("two");
        says_yes(&inbox, &first).await;
        let stopped = chat.resume().await.expect_err("the other one waits");
        assert_eq!(stopped.outcome(), Outcome::Waiting, "{stopped}");
        assert_eq!(paid.load(Ordering::Relaxed), before + 1, "{}", first.0);
        says_yes(&inbox, &last).await;
        let reply = chat.resume().await.expect("an answer");
        assert_eq!(reply.text(), "It is paid. It is paid.");
        assert_eq!(paid.load(Ordering::Relaxed), before + 2, "each was allowed once");
    }
}

#[tokio::test]
async fn an_agent_that_is_open_elsewhere_keeps_its_call_open_although_another_one_fails() {
    let worker = agent(ScriptedProvider::answering(|_| reply().text("It is done.")));
    let worker = worker.build().expect("an agent");
    let broken = agent(ScriptedProvider::answering(|_| {
        reply().error(Error::new(ErrorKind::Configuration, "the key is not valid"))
    }));
    let broken = broken.build().expect("an agent");
    let lead = lead(move |context| {
        let (worker, broken) = (worker.clone(), broken.clone());
        async move {
            let one = worker.run("Work.").in_call(&context).await;
            broken.run("Work.").in_call(&context).await.expect_err("it has no key");
            Ok(one?.text().to_owned())
        }
    });
    let journal = MemoryJournal::new();
    let elsewhere = lead.open(&journal, "chat/c").await.expect("opened");
    let mut chat = lead.open(&journal, CHAT).await.expect("opened");
    let stopped = chat.send("Go.").await.expect_err("the agent is open elsewhere");
    assert_eq!(stopped.error().map(Error::kind), Some(ErrorKind::Busy), "{stopped}");
    drop(elsewhere);
    assert_eq!(chat.resume().await.expect("an answer").text(), "It is done.");
}

/// Sends a message in a chat that the tool has opened, in this journal.
async fn asked_in(mut chat: Chat, context: &ToolContext) -> Result<String, ToolError> {
    Ok(chat.send("Pay.").in_call(context).await?.text().to_owned())
}

#[tokio::test]
async fn a_call_does_not_wait_for_an_agent_that_its_journal_does_not_have() {
    let (left, paid) = (Left::default(), Arc::default());
    let elsewhere = MemoryJournal::new();
    for is_found in [true, false] {
        let below = payer(&left, &paid, 1);
        let journal = MemoryJournal::new();
        let other = if is_found { journal.clone() } else { elsewhere.clone() };
        let lead = lead(move |context| {
            let (below, other) = (below.clone(), other.clone());
            async move {
                let chat = below
                    .open(&other, "beside")
                    .await
                    .map_err(|it| ToolError::new(it.to_string()))?;
                asked_in(chat, &context).await
            }
        });
        let mut chat = lead.open(&journal, CHAT).await.expect("opened");
        match chat.send("Go.").await {
            Err(stopped) => {
                assert!(is_found, "{stopped}");
                assert_eq!(stopped.outcome(), Outcome::Waiting);
                let open = chat.waiting();
                let awaited = open[0].wait.as_ref().map(|it| &it.awaited);
                let below = |it: &&Awaited| matches!(it, Awaited::Agent { conversation, .. } if conversation == "beside");
                assert!(awaited.filter(below).is_some(), "{awaited:?}");
            }
            Ok(reply) => {
                assert!(!is_found, "{}", reply.text());
                assert!(reply.text().contains("the open questions"), "{}", reply.text());
            }
        }
    }
}

#[tokio::test]
async fn an_agent_that_waits_keeps_its_call_open_although_its_next_attempt_is_refused() {
    let (left, paid) = (Left::default(), Arc::default());
    let below = payer(&left, &paid, 1);
    let both = tool("both", READ_WRITE, move |context| {
        let below = below.clone();
        async move {
            let ended = below.run("Pay.").in_call(&context).await;
            Ok(ended.map_err(|it| ToolError::transient(it.to_string()))?.text().to_owned())
        }
    });
    let model = ScriptedProvider::answering(|request| match request.results().next() {
        None => reply().call_with_id("c", "both", json!({})),
        Some(result) => reply().text(result.to_text()),
    });
    let later = |question: ApprovalRequest| std::future::ready(question.later(None));
    let lead = agent(model).tools([both.idempotent()]).approver(later);
    let lead = lead.guardrails(Guardrails::default().agents(1)).build().expect("an agent");
    let journal = MemoryJournal::new();
    let mut chat = lead.open(&journal, CHAT).await.expect("opened");
    let stopped = chat.send("Go.").await.expect_err("it waits");
    assert_eq!(stopped.outcome(), Outcome::Waiting, "{stopped}");
    let waiting = lead.inbox(&journal).waiting_with_agents(CHAT).await.expect("facts");
    assert_eq!(waiting.len(), 1);
}

#[tokio::test]
async fn a_tool_that_does_something_about_a_waiting_agent_has_its_result() {
    let (left, paid, noted) = (Left::default(), Arc::default(), Arc::new(AtomicUsize::new(0)));
    let below = payer(&left, &paid, 1);
    let count = Arc::clone(&noted);
    let ask = tool("both", READ_WRITE, move |context| {
        let (below, count) = (below.clone(), Arc::clone(&count));
        async move {
            match below.run("Pay.").in_call(&context).await {
                Ok(reply) => Ok(reply.text().to_owned()),
                Err(_) => {
                    count.fetch_add(1, Ordering::Relaxed);
                    Err(ToolError::new("it was put on a list, whose mail was not sent"))
                }
            }
        }
    });
    let model = ScriptedProvider::answering(|request| match request.results().next() {
        None => reply().call_with_id("c", "both", json!({})),
        Some(result) => reply().text(result.to_text()),
    });
    let later = |question: ApprovalRequest| std::future::ready(question.later(None));
    let lead = agent(model).tools([ask]).approver(later).build().expect("an agent");
    let journal = MemoryJournal::new();
    let mut chat = lead.open(&journal, CHAT).await.expect("opened");
    let reply = chat.send("Go.").await.expect("the call has failed");
    assert!(reply.text().contains("put on a list"), "{}", reply.text());
    assert_eq!(noted.load(Ordering::Relaxed), 1);
}
