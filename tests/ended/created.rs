//! Chats that were opened before their conversation existed, while others create it.

use std::time::Duration;

use futures_util::FutureExt as _;
use harness::{
    Agent, ErrorKind,
    agent::Chats,
    journal::{Head, Journal, JournalFuture, Lease, MemoryJournal, Metadata, SqliteJournal},
    testing::{FaultyJournal, JournalCall, JournalFault, ScriptedProvider, reply},
};
use tokio::time::timeout;

use crate::{CHAT, agent, kept::hands_on};

/// A journal whose holds are lost at once, as those of a server whose connections break.
#[derive(Clone)]
struct Unheld<J>(J);

impl<J: Journal> Journal for Unheld<J> {
    hands_on!(0: read append rest);

    fn hold<'a>(&'a self, _: &'a str) -> JournalFuture<'a, Lease> {
        Box::pin(async { Ok(Lease::new(())) })
    }

    fn fork<'a>(&'a self, from: &'a str, at: Head, to: &'a str) -> JournalFuture<'a, Head> {
        self.0.fork(from, at, to)
    }
}

fn speaker() -> Agent {
    agent(ScriptedProvider::answering(|_| reply().text("Hello."))).build().expect("an agent")
}

/// What others do with the name while a chat has it open.
#[derive(Clone, Copy, Debug)]
enum Others {
    Describe,
    Append,
    Fork,
    Say,
    CreateTwice,
}

async fn append(journal: &impl Journal, name: &str) -> Head {
    journal.append(name, Head::default(), &[]).await.expect("created")
}

async fn act(others: Others, journal: &impl Journal) {
    let known = Metadata::new().owner("bob");
    match others {
        Others::Describe => journal.describe(CHAT, &known).await.expect("described"),
        Others::Append => {
            append(journal, CHAT).await;
        }
        Others::Fork => {
            let base = append(journal, "base").await;
            journal.fork("base", base, CHAT).await.expect("a fork");
        }
        Others::Say => {}
        Others::CreateTwice => {
            append(journal, CHAT).await;
            assert!(journal.delete(CHAT).await.expect("deleted"));
            journal.describe(CHAT, &known).await.expect("described");
        }
    }
}

async fn refuses(journal: impl Journal + Clone + 'static) {
    let journal = Unheld(journal);
    let all = [Others::Describe, Others::Append, Others::Fork, Others::Say, Others::CreateTwice];
    for others in all {
        let agent = speaker();
        let mut chat = agent.open(&journal, CHAT).await.expect("opened");
        act(others, &journal).await;
        if let Others::Say = others {
            let mut other = agent.open(&journal, CHAT).await.expect("nobody holds it");
            other.send("I was first.").await.expect("an answer");
        }
        let before = journal.read(CHAT, 0).await.expect("facts");
        let stopped = chat.send("Hello?").await.expect_err("a conflict");
        let error = stopped.error().expect("an error");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{others:?}: {error}");
        assert!(error.to_string().contains("created it since then"), "{error}");
        assert_eq!(journal.read(CHAT, 0).await.expect("facts"), before, "{others:?}");
        drop(chat);
        // Who opens it again has read it.
        agent.open(&journal, CHAT).await.expect("opened").send("Hello?").await.expect("an answer");
        journal.delete(CHAT).await.expect("deleted");
        journal.delete("base").await.expect("deleted");
    }
}

#[tokio::test]
async fn a_chat_does_not_write_into_what_others_have_created_in_memory() {
    refuses(MemoryJournal::new()).await;
    refuses(FaultyJournal::new(MemoryJournal::new())).await;
}

#[tokio::test]
async fn a_chat_does_not_write_into_what_others_have_created_in_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let journal = SqliteJournal::open(folder.path().join("chats.db")).await.expect("a journal");
    refuses(journal).await;
}

#[tokio::test]
async fn a_chat_describes_its_conversation_before_the_first_message() {
    let journal = MemoryJournal::new();
    let agent = speaker();
    let mut chat = agent.open(&journal, CHAT).await.expect("opened");
    chat.describe(&Metadata::new().owner("ada")).await.expect("described");
    chat.describe(&Metadata::new().owner("ada").title("Hello")).await.expect("described");
    chat.send("Hello?").await.expect("an answer");
    let page = journal.list(&harness::journal::ConversationQuery::new()).await.expect("a page");
    assert_eq!(page.conversations[0].metadata, Metadata::new().owner("ada").title("Hello"));
    assert_eq!(page.conversations[0].facts, 2);
    let error = agent.chat().describe(&Metadata::new()).await.expect_err("no journal");
    assert_eq!(error.kind(), ErrorKind::Configuration);
}

#[tokio::test]
async fn a_chat_that_has_described_its_conversation_does_not_write_into_one_that_is_created_later()
{
    let journal = Unheld(MemoryJournal::new());
    let mut chat = speaker().open(&journal, CHAT).await.expect("opened");
    chat.describe(&Metadata::new().owner("ada")).await.expect("described");
    assert!(journal.delete(CHAT).await.expect("deleted"));
    journal.describe(CHAT, &Metadata::new().owner("bob")).await.expect("described");
    let stopped = chat.send("Hello?").await.expect_err("a conflict");
    assert_eq!(stopped.error().expect("an error").kind(), ErrorKind::Conflict);
    assert!(journal.read(CHAT, 0).await.expect("facts").facts.is_empty());
}

#[tokio::test]
async fn a_description_that_may_have_arrived_does_not_hold_up_the_first_message() {
    let faults = [JournalFault::FailAfter, JournalFault::StopAfter, JournalFault::FailBefore];
    for fault in faults {
        let journal = FaultyJournal::new(MemoryJournal::new());
        let mut chat = speaker().open(&journal, CHAT).await.expect("opened");
        journal.fail(JournalCall::Describe, 0, fault);
        match chat.describe(&Metadata::new().owner("ada")).now_or_never() {
            Some(described) => drop(described.expect_err("the journal fails")),
            None => assert_eq!(fault, JournalFault::StopAfter),
        }
        chat.send("Hello?").await.unwrap_or_else(|err| panic!("{fault:?}: {err}"));
        assert_eq!(journal.read(CHAT, 0).await.expect("facts").facts.len(), 2, "{fault:?}");
    }
}

#[tokio::test]
async fn a_manager_describes_a_conversation_with_its_first_message() {
    let journal = MemoryJournal::new();
    let chats = Chats::new(&speaker(), &journal);
    let about = Metadata::new().owner("ada").title("Hello");
    let run = chats.send(CHAT, "Hello?").describe(about.clone()).await.expect("a run");
    run.finish().await.expect("an answer");
    let page = journal.list(&harness::journal::ConversationQuery::new()).await.expect("a page");
    assert_eq!(page.conversations[0].metadata, about);
}

#[tokio::test(start_paused = true)]
async fn a_message_whose_description_does_not_arrive_can_be_stopped() {
    for closes in [false, true] {
        let journal = FaultyJournal::new(MemoryJournal::new());
        journal.fail(JournalCall::Describe, 0, JournalFault::StopBefore);
        let chats = Chats::new(&speaker(), &journal);
        let about = Metadata::new().owner("ada");
        let run = chats.send(CHAT, "Hello?").describe(about.clone()).await.expect("a run");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let minute = Duration::from_secs(60);
        match closes {
            true => timeout(minute, chats.close()).await.expect("closed"),
            false => assert!(chats.stop(CHAT)),
        }
        let end = timeout(minute, run.finish()).await.expect("stopped");
        let stopped = end.expect_err("nothing was said");
        assert!(stopped.to_string().contains("the message was not added"), "{stopped}");
        assert!(journal.read(CHAT, 0).await.expect("facts").facts.is_empty());
        if !closes {
            let run = chats.send(CHAT, "Hello?").describe(about).await.expect("a run");
            run.finish().await.expect("an answer");
        }
    }
}
