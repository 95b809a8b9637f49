//! Agents of calls whose conversation was deleted, and perhaps begun anew under its name, while they ran.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use harness::{
    Agent, CallOutcome, Message, Permissions, SideEffect, SideEffects, Tool,
    journal::{ConversationQuery, Head, Journal, JournalFuture, Lease, MemoryJournal, Metadata},
    testing::{Gate, ScriptedProvider, reply},
};
use serde_json::json;

use crate::kept::hands_on;

const NETWORK: SideEffects = SideEffects::of(&[SideEffect::Network]);
const LEAD: &str = "lead";
const AGENT: &str = "lead/call_1";

/// A journal whose holds are lost at once, as those of a server whose connections break.
#[derive(Clone, Default)]
struct Unheld(MemoryJournal);

impl Journal for Unheld {
    hands_on!(0: read append rest);

    fn hold<'a>(&'a self, _: &'a str) -> JournalFuture<'a, Lease> {
        Box::pin(async { Ok(Lease::new(())) })
    }
}

/// An agent whose tool runs an agent that pays once and then answers with `answer`. Before or after it, the tool
/// passes these gates.
fn lead(
    answer: &'static str,
    before: Option<&Gate>,
    after: Option<&Gate>,
) -> (Agent, Arc<AtomicU32>) {
    let paid = Arc::new(AtomicU32::new(0));
    let payments = Arc::clone(&paid);
    let pay = Tool::new("pay", "Pays.", json!({"type": "object"}), NETWORK, move |_, _| {
        payments.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok("Paid.".into()) })
    });
    let model = ScriptedProvider::answering(move |request| match request.results().next() {
        None => reply().call("pay", json!({})).tokens(100, 10),
        Some(_) => reply().text(answer).tokens(100, 10),
    });
    let payer = Agent::builder(model).tools([pay]).permissions(Permissions::allow_all());
    let payer = payer.build().expect("an agent");
    let (before, after) = (before.cloned(), after.cloned());
    let ask = Tool::new("ask", "Asks.", json!({"type": "object"}), NETWORK, move |context, _| {
        let (payer, before, after) = (payer.clone(), before.clone(), after.clone());
        Box::pin(async move {
            if let Some(gate) = before {
                gate.pass().await;
            }
            let answer = payer.run("Pay.").in_call(&context).await?.text().to_owned();
            if let Some(gate) = after {
                gate.pass().await;
            }
            Ok(answer.into())
        })
    });
    let model = ScriptedProvider::answering(|request| match request.results().next() {
        None => reply().call_with_id("call_1", "ask", json!({})),
        Some(_) => reply().text("Done."),
    });
    let ask = ask.idempotent();
    let lead = Agent::builder(model).tools([ask]).permissions(Permissions::allow_all());
    (lead.build().expect("an agent"), paid)
}

async fn names(journal: &Unheld) -> Vec<String> {
    let page = journal.list(&ConversationQuery::new()).await.expect("a page");
    page.conversations.into_iter().map(|it| it.id).collect()
}

#[tokio::test]
async fn an_agent_does_not_begin_in_a_call_of_a_conversation_that_was_deleted() {
    for is_begun_anew in [false, true] {
        let (journal, gate) = (Unheld::default(), Gate::new());
        let (lead, paid) = lead("Mine.", Some(&gate), None);
        let mut chat = lead.open(&journal, LEAD).await.expect("a new conversation");
        let deletes = async {
            gate.reached().await;
            assert!(journal.delete(LEAD).await.expect("deleted"));
            if is_begun_anew {
                let about = Metadata::new().owner("bob");
                journal.describe(LEAD, &about).await.expect("described");
            }
            gate.open();
        };
        let (ended, ()) = tokio::join!(async { chat.send("Go.").await }, deletes);
        let error = ended.expect_err("the conversation is lost");
        assert!(error.error().is_some_and(harness::Error::is_conflict), "{error}");
        assert_eq!(paid.load(Ordering::SeqCst), 0);
        assert!(!names(&journal).await.contains(&AGENT.to_owned()));
    }
}

#[tokio::test]
async fn the_answer_of_an_agent_is_not_that_of_a_call_with_its_id_in_a_later_conversation() {
    let (journal, gate) = (Unheld::default(), Gate::new());
    let (first, _) = lead("Mine.", None, Some(&gate));
    let mut chat = first.open(&journal, LEAD).await.expect("a new conversation");
    // Its agent has answered when the conversation is begun anew. The model gives the call the same id.
    let (second, paid) = lead("Yours.", None, None);
    let begins = async {
        gate.reached().await;
        let facts = journal.read(AGENT, 0).await.expect("facts").facts;
        let about = Metadata::new().parent(LEAD);
        assert!(journal.delete(LEAD).await.expect("deleted"));
        journal.delete(AGENT).await.expect("deleted");
        // What the first agent writes after the deletion.
        journal.append(AGENT, Head::default(), &facts).await.expect("written");
        journal.describe(AGENT, &about).await.expect("described");
        let mut chat = second.open(&journal, LEAD).await.expect("a new conversation");
        chat.send("Go.").await.expect("an answer");
        gate.open();
        chat
    };
    let (ended, chat) = tokio::join!(async { chat.send("Go.").await }, begins);
    ended.expect_err("the conversation is lost");
    let results: Vec<_> = chat.transcript().messages().iter().flat_map(Message::results).collect();
    let [result] = &results[..] else { panic!("{results:?}") };
    assert_eq!(result.outcome(), CallOutcome::InDoubt);
    assert!(!result.to_text().contains("Mine."), "{}", result.to_text());
    assert_eq!(paid.load(Ordering::SeqCst), 0);
    // Nothing of the other agent counts.
    assert_eq!(chat.budget().spent().usage.input.unwrap_or(0), 0);
}
