//! What a browser may not learn, and what it may not miss.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::StreamExt as _;
use harness::{
    Agent, Error, ErrorKind, Event, Outcome,
    agent::{Chats, Numbered},
    journal::{
        ConversationPage, ConversationQuery, Envelope, Head, Journal, JournalFuture, Lease,
        MemoryJournal, Metadata, StoredFacts,
    },
    testing::{Gate, ScriptedProvider, reply},
    web::{RunsSoFar, ag_ui::AgUiStream, ui_message::UiMessageStream},
};
use tokio::sync::Notify;

use crate::{ag_ui, ui_message};

#[tokio::test]
async fn the_reason_of_a_failure_names_no_server_of_the_program() {
    let (url, proxy) =
        ("https://models.internal/v1".into(), " through http://proxy.internal".into());
    let api = |message: &str| Error::new(ErrorKind::Api, message);
    let errors = [
        (
            Error::new(ErrorKind::Connect, "certificate not valid for name `models.internal`")
                .with_url(&url, Some(&proxy)),
            "the model cannot be reached",
        ),
        (api("no place").with_request_id("req_internal"), "no place"),
        (
            api("no place at `http://a.internal:80/x?y;z`, or https://b.internal"),
            "no place at [address] or",
        ),
        (api(r#"no place at {"url":"https:\/\/a.internal\/x"} now"#), "no place at [address] now"),
        (api("dial tcp a.internal:8443: connect: refused"), "dial tcp [address] connect: refused"),
        (api("dial tcp 10.0.3.7:8443->10.0.3.8:1: no"), "dial tcp [address] no"),
        (
            Error::new(ErrorKind::Protocol, "an event of internal")
                .with_later(Error::new(ErrorKind::Timeout, "late").with_url(&url, None)),
            "could not be read: try again later; then the model did not answer in time",
        ),
    ];
    for (error, shown_as) in errors {
        let error = error.with_provider("internal");
        let shown = error.to_string();
        let agent = Agent::builder(ScriptedProvider::new([reply().error(error)])).build();
        let chats = Chats::new(&agent.expect("an agent"), &MemoryJournal::new());
        let run = chats.send("c", "Go.").await.expect("a run");
        let all: Vec<Numbered> = run.collect().await;
        let reasons = all.iter().filter_map(|it| match it.event.as_event() {
            Event::RunEnded { outcome: Outcome::Failed, reason, .. } => reason,
            _ => None,
        });
        let [reason] = reasons.collect::<Vec<_>>()[..] else { panic!("a reason: {all:#?}") };
        assert!(shown.contains("internal"), "{shown}");
        let streams = [
            reason.to_owned(),
            ui_message::encoded(UiMessageStream::new(), &all),
            ag_ui::encoded_events(AgUiStream::new("c", "r"), &all),
        ];
        for told in streams {
            assert!(told.contains(shown_as), "{told}");
            assert!(!told.contains("internal") && !told.contains("10.0"), "{told}");
        }
    }
}

#[tokio::test]
async fn the_reason_of_an_answer_that_does_not_fit_has_no_words_for_the_model() {
    let agent = Agent::builder(ScriptedProvider::answering(|_| reply().text("No.")));
    let agent = agent.build().expect("an agent");
    let run = agent.run("Go.").verify(1, |_| async { Err::<(), _>("hidden") });
    let all: Vec<Numbered> = run.events().collect().await;
    let told = ui_message::encoded(UiMessageStream::new(), &all);
    assert!(told.contains("unfit") && !told.contains("hidden"), "{told}");
}

/// A journal that is slow to read once.
#[derive(Clone, Default)]
struct Slow {
    journal: MemoryJournal,
    is_slow: Arc<AtomicBool>,
    reads: Arc<Notify>,
    goes_on: Arc<Notify>,
}

impl Journal for Slow {
    fn read<'a>(&'a self, conversation: &'a str, from: u64) -> JournalFuture<'a, StoredFacts> {
        Box::pin(async move {
            if self.is_slow.swap(false, Ordering::Relaxed) {
                self.reads.notify_one();
                self.goes_on.notified().await;
            }
            // As in each store on a disk, it is not there at once.
            tokio::task::yield_now().await;
            self.journal.read(conversation, from).await
        })
    }

    fn append<'a>(
        &'a self,
        conversation: &'a str,
        after: Head,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, Head> {
        self.journal.append(conversation, after, facts)
    }

    fn hold<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, Lease> {
        self.journal.hold(conversation)
    }

    fn describe<'a>(
        &'a self,
        conversation: &'a str,
        metadata: &'a Metadata,
    ) -> JournalFuture<'a, ()> {
        self.journal.describe(conversation, metadata)
    }

    fn list<'a>(&'a self, listing: &'a ConversationQuery) -> JournalFuture<'a, ConversationPage> {
        self.journal.list(listing)
    }

    fn delete<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, bool> {
        self.journal.delete(conversation)
    }
}

#[tokio::test]
async fn a_page_misses_no_run_that_ends_while_the_earlier_ones_are_read() {
    let [second, third] = [Gate::new(), Gate::new()];
    let model = ScriptedProvider::new([
        reply().text("One."),
        reply().wait_for(&second).text("Two."),
        reply().text("Three. ").wait_for(&third).text("Four."),
    ]);
    let journal = Slow::default();
    let agent = Agent::builder(model).build().expect("an agent");
    let chats = Chats::new(&agent, &journal);
    chats.send("c", "First.").await.expect("a run").finish().await.expect("an answer");
    let run = chats.send("c", "Second.").await.expect("a run");
    journal.is_slow.store(true, Ordering::Relaxed);
    let reading = {
        let chats = chats.clone();
        tokio::spawn(async move { RunsSoFar::read(&chats, "c").await })
    };
    journal.reads.notified().await;
    second.open();
    run.finish().await.expect("an answer");
    let mut last = chats.send("c", "Third.").await.expect("a run");
    while !matches!(last.next().await.expect("it goes on").event.as_event(), Event::Text(_)) {}
    journal.goes_on.notify_one();
    let (runs, _watcher) = reading.await.expect("no panic").expect("the runs");
    let messages = UiMessageStream::new().messages(runs.earlier.iter().chain(&runs.last));
    let words: Vec<String> = messages.iter().map(|it| it["parts"].to_string()).collect();
    let words = words.concat();
    for once in ["First.", "One.", "Second.", "Two.", "Third.", "Three."] {
        assert_eq!(words.matches(once).count(), 1, "{once}: {words}");
    }
    assert!(runs.goes_on);
    third.open();
    last.finish().await.expect("an answer");
}
