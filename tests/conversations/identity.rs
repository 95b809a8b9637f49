//! A conversation that was deleted and begun anew, or set back to a backup, while somebody had it
//! open: who has read the first one does nothing in the second one.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use harness::{
    Agent, Chat, ErrorKind, Permissions, SideEffect, SideEffects, Tool,
    journal::{
        Envelope, Head, Incarnation, Journal, JournalFuture, Lease, MemoryJournal, Metadata,
        WriterId,
    },
    testing::{ScriptedProvider, reply},
};
use serde_json::json;

use crate::kept::{CHAT, hands_on};

/// A journal whose holds are lost at once, as those of a server that was started again.
#[derive(Clone, Default)]
struct Unheld(MemoryJournal);

impl Journal for Unheld {
    hands_on!(0: read append rest);

    fn hold<'a>(&'a self, _: &'a str) -> JournalFuture<'a, Lease> {
        Box::pin(async { Ok(Lease::new(())) })
    }

    fn fork<'a>(&'a self, from: &'a str, at: Head, to: &'a str) -> JournalFuture<'a, Head> {
        self.0.fork(from, at, to)
    }

    fn can_keep_spills(&self) -> bool {
        true
    }

    fn write_spill<'a>(
        &'a self,
        id: &'a str,
        incarnation: Incarnation,
        name: &'a str,
        chunk: u64,
        bytes: &'a [u8],
    ) -> JournalFuture<'a, ()> {
        self.0.write_spill(id, incarnation, name, chunk, bytes)
    }

    fn read_spill<'a>(
        &'a self,
        id: &'a str,
        name: &'a str,
        chunk: u64,
    ) -> JournalFuture<'a, Option<Vec<u8>>> {
        self.0.read_spill(id, name, chunk)
    }

    fn delete_spill<'a>(
        &'a self,
        id: &'a str,
        incarnation: Incarnation,
        name: &'a str,
    ) -> JournalFuture<'a, ()> {
        self.0.delete_spill(id, incarnation, name)
    }
}

/// An agent that pays when it is asked to, and counts it.
fn agent(paid: &Arc<AtomicUsize>) -> Agent {
    let model = ScriptedProvider::answering(|request| {
        let asked = request.results().next().is_none() && request.last_text() == "Pay.";
        if asked { reply().call("pay", json!({})) } else { reply().text("Done.") }
    });
    let paid = Arc::clone(paid);
    let network = SideEffects::of(&[SideEffect::Network]);
    let pay = Tool::new("pay", "Pays.", json!({"type": "object"}), network, move |_, _| {
        paid.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok("x".repeat(500_000).into()) })
    });
    let agent = Agent::builder(model).tools([pay]).permissions(Permissions::allow_all());
    agent.build().expect("an agent")
}

async fn facts(journal: &Unheld, id: &str) -> Vec<Envelope> {
    journal.read(id, 0).await.expect("facts").facts
}

/// The ways in which another process begins the conversation anew.
#[derive(Clone, Copy, Debug)]
enum Anew {
    Said,
    Described,
    Forked,
    /// The same facts, as from a copy.
    Copied,
    /// It is deleted, and nothing comes after it.
    Deleted,
    /// A backup is restored, and another process continues it.
    SetBack,
}

const ALL: [Anew; 6] =
    [Anew::Said, Anew::Described, Anew::Forked, Anew::Copied, Anew::Deleted, Anew::SetBack];

impl Anew {
    async fn begins(self, agent: &Agent, journal: &Unheld) {
        let before = facts(journal, CHAT).await;
        assert!(journal.delete(CHAT).await.expect("deleted"));
        match self {
            Self::Said | Self::Described => {
                if let Self::Described = self {
                    let known = Metadata::new().owner("bob");
                    journal.describe(CHAT, &known).await.expect("described");
                }
                let mut chat = agent.open(journal, CHAT).await.expect("nobody holds it");
                chat.send("Hello.").await.expect("an answer");
            }
            Self::Forked => {
                journal.append("base", Head::default(), &before).await.expect("new");
                let at = journal.read("base", 0).await.expect("facts").head;
                journal.fork("base", at, CHAT).await.expect("a fork");
            }
            Self::Copied => {
                journal.append(CHAT, Head::default(), &before).await.expect("new");
            }
            Self::Deleted => return,
            Self::SetBack => {
                let kept = &before[..1];
                let head = journal.append(CHAT, Head::default(), kept).await.expect("restored");
                let others = before[1..].iter().map(|fact| {
                    let (format, at) = (fact.format, fact.at);
                    let (version, text) = (fact.version.clone(), fact.fact.clone());
                    Envelope::stored(format, version, WriterId::random(), at, fact.elapsed, text)
                });
                let others: Vec<_> = others.collect();
                journal.append(CHAT, head, &others).await.expect("continued");
            }
        }
        let there = facts(journal, CHAT).await.len();
        assert_eq!(there, before.len(), "{self:?}: as many facts as before");
    }
}

/// A conversation that was opened, and that another process then began anew.
async fn begun_anew(anew: Anew, paid: &Arc<AtomicUsize>) -> (Unheld, Chat) {
    let (journal, agent) = (Unheld::default(), agent(paid));
    let mut chat = agent.open(&journal, CHAT).await.expect("new");
    chat.send("Hello.").await.expect("an answer");
    anew.begins(&agent, &journal).await;
    (journal, chat)
}

#[tokio::test]
async fn who_has_read_a_conversation_does_nothing_in_the_next_one_of_its_name() {
    for anew in ALL {
        let paid = Arc::default();
        let (journal, mut chat) = begun_anew(anew, &paid).await;
        let there = journal.read(CHAT, 0).await.expect("facts");
        let stopped = chat.send("Pay.").await.expect_err("it is another conversation");
        assert!(stopped.error().expect("why").is_conflict(), "{anew:?}: {stopped}");
        assert!(chat.resume().await.expect_err("it is lost").error().expect("why").is_conflict());
        assert_eq!(paid.load(Ordering::SeqCst), 0, "{anew:?}: the call has run");
        assert_eq!(journal.read(CHAT, 0).await.expect("facts"), there, "{anew:?}");
    }
}

#[tokio::test]
async fn nobody_forks_a_conversation_that_they_have_not_read() {
    for anew in ALL {
        let paid = Arc::default();
        let (journal, mut chat) = begun_anew(anew, &paid).await;
        let count = chat.facts();
        for facts in [0, 1, count] {
            let refused = chat.fork("fork", facts).await.map(drop).expect_err("another one");
            assert_eq!(refused.kind(), ErrorKind::Conflict, "{anew:?}: {refused}");
        }
        assert_eq!(facts(&journal, "fork").await, [], "{anew:?}");
    }
}

/// The conversation is begun anew while a call runs: its result is large, and stays out of the other
/// conversation, which has a result of the same name.
#[tokio::test]
async fn a_large_result_is_not_kept_in_another_conversation() {
    let journal = Unheld::default();
    let model = || {
        ScriptedProvider::answering(|request| match request.results().next() {
            None => reply().call_with_id("call_1", "look", json!({})),
            Some(_) => reply().text("Done."),
        })
    };
    let read = SideEffects::of(&[SideEffect::Read]);
    let large = |text: &'static str| {
        Tool::new("look", "Looks.", json!({"type": "object"}), read, move |_, _| {
            Box::pin(async move { Ok(text.repeat(500_000).into()) })
        })
    };
    let other = Agent::builder(model()).tools([large("b")]).build().expect("an agent");
    let (inner, others) = (journal.clone(), other.clone());
    let slow = Tool::new("look", "Looks.", json!({"type": "object"}), read, move |_, _| {
        let (journal, other) = (inner.clone(), others.clone());
        Box::pin(async move {
            assert!(journal.delete(CHAT).await.expect("deleted"));
            let mut chat = other.open(&journal, CHAT).await.expect("nobody holds it");
            chat.send("Look.").await.expect("an answer");
            Ok("a".repeat(500_000).into())
        })
    });
    let agent = Agent::builder(model()).tools([slow]).build().expect("an agent");
    let mut chat = agent.open(&journal, CHAT).await.expect("new");
    let stopped = chat.send("Look.").await.expect_err("it is another conversation");
    assert!(stopped.error().expect("why").is_conflict(), "{stopped}");
    let result = chat_result(&other.open(&journal, CHAT).await.expect("nobody holds it"));
    let name = crate::summaries::name_in(&result);
    let kept = journal.read_spill(CHAT, &name, 0).await.expect("read").expect("it is kept");
    assert!(kept.iter().all(|byte| *byte == b'b'), "{result:.300}");
}

fn chat_result(chat: &Chat) -> String {
    let results = chat.transcript().messages().iter().flat_map(harness::Message::results);
    results.last().expect("a result").to_text()
}
