//! Watchers of named conversations: another process continues one, the runtime or the manager ends,
//! the journal hangs, or a later version has written it.

use std::{
    future::{IntoFuture as _, pending},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use futures_util::{FutureExt as _, StreamExt as _};
use harness::{
    Agent, ErrorKind, Outcome, ToolCall,
    agent::{Chats, Event, Numbered, WhenBusy},
    journal::{
        ConversationPage, ConversationQuery, Envelope, Fact, Head, Journal, JournalFuture, Lease,
        MemoryJournal, Metadata, StoredFacts, WriterId,
    },
    testing::{Gate, ScriptedProvider, reply},
    tool, tools,
};
use serde_json::json;
use tokio::{runtime::Handle, time::sleep};

/// Says back what it hears.
fn echo() -> Agent {
    let model = ScriptedProvider::answering(|request| {
        reply().text(format!("You say {}.", request.last_text()))
    });
    Agent::builder(model).build().unwrap()
}

fn short(agent: &Agent, journal: &MemoryJournal) -> Chats {
    Chats::builder(agent, journal).idle_after(Duration::from_secs(1)).build()
}

async fn say(chats: &Chats, words: &str) {
    chats.send("a", words).await.unwrap().finish().await.unwrap();
    // It is closed here, so that it can be opened elsewhere.
    sleep(Duration::from_secs(2)).await;
    assert_eq!(chats.open_conversations(), 0);
}

fn said(seen: &[Numbered]) -> Vec<String> {
    let said = seen.iter().filter_map(|it| match it.event.as_event() {
        Event::RunStarted { said: Some(said) } => Some(said.text()),
        _ => None,
    });
    said.collect()
}

fn words(seen: &[Numbered]) -> String {
    let texts = seen.iter().filter_map(|it| match it.event.as_event() {
        Event::Text(text) => Some(text),
        _ => None,
    });
    texts.collect()
}

fn ends(seen: &[Numbered]) -> usize {
    seen.iter().filter(|it| matches!(it.event.as_event(), Event::RunEnded { .. })).count()
}

#[tokio::test(start_paused = true)]
async fn a_watcher_gets_runs_of_another_process_that_came_between_two_of_this_one() {
    let (agent, journal) = (echo(), MemoryJournal::new());
    let (here, there) = (short(&agent, &journal), short(&agent, &journal));
    let mut watcher = here.watch("a").await.unwrap();
    let mut seen = Vec::new();
    for (number, chats) in [&there, &here, &there, &there, &here].into_iter().enumerate() {
        say(chats, &number.to_string()).await;
        // It is awake.
        for _ in 0..100 {
            while let Some(Some(next)) = watcher.next().now_or_never() {
                seen.push(next);
            }
            sleep(Duration::from_millis(1)).await;
        }
    }
    here.close().await;
    seen.extend(watcher.collect::<Vec<_>>().await);
    assert_eq!(said(&seen), ["0", "1", "2", "3", "4"]);
    assert_eq!(words(&seen), "You say 0.You say 1.You say 2.You say 3.You say 4.");
    assert_eq!(ends(&seen), 5);
}

#[tokio::test(start_paused = true)]
async fn who_comes_late_sees_the_last_run_although_it_was_in_another_process() {
    let (agent, journal) = (echo(), MemoryJournal::new());
    let (here, there) = (short(&agent, &journal), short(&agent, &journal));
    let early = here.watch("a").await.unwrap();
    say(&here, "1").await;
    say(&there, "2").await;
    let late = here.watch("a").await.unwrap();
    say(&here, "3").await;
    here.close().await;
    let seen: Vec<Numbered> = late.collect().await;
    assert_eq!(said(&seen), ["2", "3"]);
    assert_eq!(said(&early.collect::<Vec<_>>().await), ["1", "2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_of_another_process_that_was_told_in_part_is_told_to_its_end_later() {
    let gate = Gate::new();
    let waits = gate.clone();
    let model = ScriptedProvider::answering(move |request| {
        let said = request.last_text().to_owned();
        match said.as_str() {
            "look" => reply().text("I look. ").call("look", json!({})),
            "nothing" => reply().wait_for(&waits).text("I saw nothing."),
            _ => reply().text("And on."),
        }
    });
    /// Looks.
    #[tool(side_effects = "read")]
    fn look() -> &'static str {
        "nothing"
    }
    let agent = Agent::builder(model).tools(tools![look]).build().unwrap();
    let journal = MemoryJournal::new();
    let (here, there) = (short(&agent, &journal), short(&agent, &journal));
    let run = there.send("a", "look").await.unwrap();
    sleep(Duration::from_secs(5)).await;
    let mut watcher = here.watch("a").await.unwrap();
    let mut seen = vec![watcher.next().await.unwrap()];
    while let Some(Some(next)) = watcher.next().now_or_never() {
        seen.push(next);
    }
    assert_eq!(ends(&seen), 0);
    gate.open();
    run.finish().await.unwrap();
    there.close().await;
    say(&here, "more").await;
    here.close().await;
    seen.extend(watcher.collect::<Vec<_>>().await);
    assert_eq!(said(&seen), ["look", "more"]);
    assert_eq!(words(&seen), "I look. I saw nothing.And on.");
    assert_eq!(ends(&seen), 2);
    let first = seen.iter().filter(|it| it.run == seen[0].run).map(|it| it.number);
    let first = Vec::from_iter(first);
    assert_eq!(first, Vec::from_iter(1..=first.len() as u64));
    assert_eq!(words(&seen[..first.len()]), "I look. I saw nothing.");
}

#[tokio::test(start_paused = true)]
async fn of_a_run_that_is_cut_off_with_the_manager_nobody_says_that_nothing_was_said() {
    let model = ScriptedProvider::new([reply().text("Once").stall()]);
    let agent = Agent::builder(model).build().unwrap();
    let journal = MemoryJournal::new();
    let chats = Chats::new(&agent, &journal);
    let run = chats.send("a", "Tell.").await.unwrap();
    sleep(Duration::from_secs(1)).await;
    drop(chats);
    let stopped = run.finish().await.unwrap_err();
    assert!(!journal.read("a", 0).await.unwrap().facts.is_empty(), "it was said");
    let error = stopped.error().unwrap();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert!(!error.to_string().contains("was not added"), "{error}");
    assert!(error.to_string().contains("resume"), "{error}");
}

#[test]
fn in_a_runtime_that_has_ended_a_message_is_refused() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let handle = runtime.handle().clone();
    let chats = Chats::new(&echo(), &MemoryJournal::new());
    let other = chats.clone();
    drop(runtime);
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(handle.block_on(async { chats.send("a", "b").await }).err()));
    let error = told.recv_timeout(Duration::from_secs(30)).expect("an answer").expect("an error");
    assert!(!error.to_string().contains("panicked"), "{error}");
    assert!(!other.is_busy("a"));
    assert_eq!(other.open_conversations(), 0);
}

#[test]
fn a_run_whose_runtime_has_ended_did_not_panic_and_goes_on_in_another_one() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let gate = Gate::new();
    let model = ScriptedProvider::new([reply().wait_for(&gate), reply().text("On.")]);
    let agent = Agent::builder(model).build().unwrap();
    let chats = Chats::new(&agent, &MemoryJournal::new());
    let mut watcher = runtime.block_on(chats.watch("a")).unwrap();
    let mut run = runtime.block_on(async { chats.send("a", "b").await }).unwrap();
    runtime.block_on(async { run.next().await }).unwrap();
    drop(runtime);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let stopped = runtime.block_on(run.finish()).unwrap_err();
    let error = stopped.error().unwrap().to_string();
    assert!(!error.contains("panicked") && !error.contains("was not added"), "{error}");
    let reply = runtime.block_on(async { chats.resume("a").await.unwrap().finish().await });
    assert_eq!(reply.unwrap().text(), "On.");
    runtime.block_on(chats.close());
    let seen: Vec<Numbered> = runtime.block_on(watcher.by_ref().collect());
    assert_eq!(said(&seen), ["b"], "once");
    assert_eq!(words(&seen), "On.");
    assert_eq!(ends(&seen), 2);
}

/// A journal that hangs when it is told to.
#[derive(Clone, Default)]
struct Hanging {
    inner: MemoryJournal,
    hangs: Arc<AtomicBool>,
}

impl Hanging {
    async fn hang(&self) {
        if self.hangs.load(Ordering::SeqCst) {
            pending::<()>().await;
        }
    }
}

impl Journal for Hanging {
    fn read<'a>(&'a self, id: &'a str, from: u64) -> JournalFuture<'a, StoredFacts> {
        Box::pin(async move {
            self.hang().await;
            self.inner.read(id, from).await
        })
    }

    fn append<'a>(
        &'a self,
        id: &'a str,
        after: Head,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, Head> {
        Box::pin(async move {
            self.hang().await;
            self.inner.append(id, after, facts).await
        })
    }

    fn hold<'a>(&'a self, id: &'a str) -> JournalFuture<'a, Lease> {
        Box::pin(async move {
            self.hang().await;
            self.inner.hold(id).await
        })
    }

    fn describe<'a>(&'a self, id: &'a str, data: &'a Metadata) -> JournalFuture<'a, ()> {
        self.inner.describe(id, data)
    }

    fn list<'a>(&'a self, listing: &'a ConversationQuery) -> JournalFuture<'a, ConversationPage> {
        self.inner.list(listing)
    }

    fn delete<'a>(&'a self, id: &'a str) -> JournalFuture<'a, bool> {
        self.inner.delete(id)
    }
}

#[tokio::test(start_paused = true)]
async fn with_a_journal_that_hangs_closing_comes_to_its_end_and_so_do_all_streams() {
    let journal = Hanging::default();
    let chats = Chats::new(&echo(), &journal);
    let mut asleep = chats.watch("a").await.unwrap();
    for number in 0..3 {
        chats.send("a", format!("{number}")).await.unwrap().finish().await.unwrap();
    }
    let before = Handle::current().metrics().num_alive_tasks();
    assert_eq!(before, 1);
    journal.hangs.store(true, Ordering::SeqCst);
    let running = chats.send("a", "hangs").await.unwrap();
    let mut opening = Box::pin(chats.send("b", "hangs").into_future());
    assert!((&mut opening).now_or_never().is_none());
    let other = chats.clone();
    let mut begins = Box::pin(other.watch("c"));
    assert!((&mut begins).now_or_never().is_none());
    // It reads the runs that it has missed.
    assert!(asleep.next().now_or_never().is_none());
    sleep(Duration::from_millis(1)).await;
    let hour = Duration::from_secs(3600);
    tokio::time::timeout(hour, chats.close()).await.expect("it is closed");
    assert_eq!(opening.await.unwrap_err().kind(), ErrorKind::Closed);
    running.finish().await.unwrap_err();
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
    let begins = tokio::time::timeout(hour, begins).await.expect("a watcher that is about to come");
    begins.unwrap_err();
    tokio::time::timeout(hour, asleep.by_ref().count()).await.expect("the stream ends");
    assert!(asleep.error().is_some());
}

#[test]
fn an_event_of_a_later_form_is_not_read_as_one_of_this_form() {
    let later = r#"{"v":2,"run":"r","number":4,"type":"text","text":"x"}"#;
    let known = serde_json::from_str::<Numbered>(later);
    let misread = known.is_ok_and(|it| matches!(it.event.as_event(), Event::Text(_)));
    assert!(!misread, "the version says that it would be misunderstood");
    for v in ["\"1\"", "null", "-1", "1.5", "0"] {
        let line = format!(r#"{{"v":{v},"run":"r","number":4,"type":"text","text":"x"}}"#);
        assert!(serde_json::from_str::<Numbered>(&line).is_err(), "{line}");
    }
}

#[test]
fn what_is_written_is_read_back_with_its_place() {
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let arguments = r#"{"n":123456789012345678901234567890,"x":1e400}"#;
    let call = ToolCall::new("a", "b", arguments);
    let vendor = r#"{"n":123456789012345678901234567890}"#;
    let vendor = harness::message::VendorData::new("anthropic", vendor).unwrap();
    let call = call.with_vendor(Some(vendor));
    let content = [harness::ToolContent::Json(deep)];
    let result = harness::ToolResult::new("a", harness::CallOutcome::Succeeded, content);
    let events = [
        Event::ToolCall(&call).into_owned(),
        Event::ToolResult { call: &call, result: &result, elapsed: Duration::MAX }.into_owned(),
        Event::Text("\u{0}\u{2028}\u{feff}\u{10ffff}").into_owned(),
        serde_json::from_str(r#"{"type":"x","v":7,"run":"their own","number":"seven"}"#).unwrap(),
    ];
    for event in events {
        let line = r#"{"v":1,"run":"r","number":18446744073709551615,"type":"x"}"#;
        let mut numbered: Numbered = serde_json::from_str(line).unwrap();
        numbered.event = event;
        let line = serde_json::to_string(&numbered).unwrap();
        assert!(!line.contains('\n'));
        let again: Numbered = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert_eq!(serde_json::to_string(&again).unwrap(), line);
        assert_eq!((&again.run, again.number), (&numbered.run, numbered.number), "{line}");
    }
}

#[test]
fn damaged_lines_are_errors() {
    let whole = r#"{"v":1,"run":"r","number":4,"path":["a"],"type":"tool_progress","call":"c","message":"m"}"#;
    assert!(serde_json::from_str::<Numbered>(whole).is_ok());
    for end in 0..whole.len() {
        assert!(serde_json::from_str::<Numbered>(&whole[..end]).is_err(), "{end}");
    }
    for line in [
        r#"{"v":1,"run":"r","number":-4,"type":"text","text":"x"}"#,
        r#"{"v":1,"run":"r","number":1.5,"type":"text","text":"x"}"#,
        r#"{"v":1,"run":3,"number":1,"type":"text","text":"x"}"#,
    ] {
        assert!(serde_json::from_str::<Numbered>(line).is_err(), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn ten_megabytes_of_words_are_two_events_for_who_comes_late() {
    let piece = "\u{1f980} word ".repeat(1000);
    let said = (0..1000).fold(reply(), |reply, _| reply.text_in([piece.clone()]));
    let agent = Agent::builder(ScriptedProvider::new([said])).build().unwrap();
    let chats = Chats::new(&agent, &MemoryJournal::new());
    let mut run = chats.send("a", "Tell.").await.unwrap();
    while chats.is_busy("a") {
        sleep(Duration::from_millis(1)).await;
    }
    let seen: Vec<Numbered> = run.by_ref().collect().await;
    assert!(seen.len() < 6, "{}", seen.len());
    assert_eq!(words(&seen).len(), piece.len() * 1000);
    assert_eq!(run.finish().await.unwrap().text().len(), piece.len() * 1000);
    chats.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_does_not_go_on_while_nobody_takes_the_events() {
    static STEPS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    /// Walks.
    #[tool(side_effects = "write")]
    async fn walk() -> &'static str {
        for _ in 0..100 {
            sleep(Duration::from_millis(1)).await;
            STEPS.fetch_add(1, Ordering::SeqCst);
        }
        "there"
    }
    let model = ScriptedProvider::new([reply().call("walk", json!({})), reply().text("Yes.")]);
    let permissions = harness::Permissions::default().allow("walk");
    let agent = Agent::builder(model).tools(tools![walk]).permissions(permissions);
    let agent = agent.build().unwrap();
    let mut chat = agent.chat();
    let mut events = chat.send("Go.").events();
    loop {
        let next = events.next().await.unwrap();
        if matches!(next.event.as_event(), Event::ToolCall(_)) {
            break;
        }
    }
    let began = STEPS.load(Ordering::SeqCst);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(STEPS.load(Ordering::SeqCst), began);
    assert!(events.next().now_or_never().is_none());
    drop(events);
    sleep(Duration::from_secs(10)).await;
    assert!(STEPS.load(Ordering::SeqCst) < 100);
    // The transcript tells of a call that was cut off.
    let transcript = serde_json::to_string(chat.transcript()).unwrap();
    assert!(!transcript.contains("\"there\"") && transcript.contains("walk"), "{transcript}");
    assert!(chat.can_resume());
}

#[tokio::test(start_paused = true)]
async fn who_has_seen_the_end_of_a_run_may_speak_at_once() {
    let chats = Chats::new(&echo(), &MemoryJournal::new());
    let mut watcher = chats.watch("a").await.unwrap();
    drop(chats.send("a", "one").await.unwrap());
    while let Some(next) = watcher.next().await {
        if let Event::RunEnded { outcome, .. } = next.event.as_event() {
            assert_eq!(outcome, Outcome::Answered);
            break;
        }
    }
    let again = chats.send("a", "two").when_busy(WhenBusy::Refuse).await;
    assert!(again.is_ok(), "{again:?}");
    chats.close().await;
}

#[tokio::test(start_paused = true)]
async fn any_text_may_be_a_name() {
    let chats = Chats::new(&echo(), &MemoryJournal::new());
    let names = ["/", "../../etc/passwd", "a/b?c#d", "\u{1f980}", "e\u{301}", "\u{e9}", " ", "%2F"];
    let long = "\u{1f980}".repeat(128);
    for id in names.into_iter().chain([&*long]) {
        let run = chats.send(id, "Hello.").await.unwrap();
        assert_eq!(run.finish().await.unwrap().transcript().messages().len(), 2, "{id}");
    }
    chats.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_watcher_hears_what_was_said_elsewhere_while_the_conversation_was_lost_here() {
    let (agent, journal) = (echo(), MemoryJournal::new());
    let chats = Chats::new(&agent, &journal);
    let mut watcher = chats.watch("a").await.unwrap();
    chats.send("a", "one").await.unwrap().finish().await.unwrap();
    let mut seen = vec![watcher.next().await.unwrap()];
    // Another process writes although the conversation is held: as many facts as are about to be written here.
    let there = journal.read("a", 0).await.unwrap();
    journal.append("a", there.head, &there.facts).await.unwrap();
    chats.send("a", "two").await.unwrap().finish().await.unwrap_err();
    while let Some(Some(next)) = watcher.next().now_or_never() {
        seen.push(next);
    }
    chats.send("a", "three").await.unwrap().finish().await.unwrap();
    chats.close().await;
    seen.extend(watcher.collect::<Vec<_>>().await);
    assert_eq!(said(&seen), ["one", "two", "one", "three"]);
    assert_eq!(ends(&seen), 4);
}

#[tokio::test(start_paused = true)]
async fn two_processes_on_one_journal_and_each_watcher_sees_each_run_once_and_in_order() {
    let mut random = fastrand::Rng::with_seed(7);
    let model = ScriptedProvider::answering(|request| {
        let pause = Duration::from_millis(fastrand::u64(0..300));
        reply().text("You say ").pause(pause).text(format!("{}.", request.last_text()))
    });
    let agent = Agent::builder(model).build().unwrap();
    for round in 0..crate::times(30) {
        let journal = MemoryJournal::new();
        let time = Duration::from_millis(random.u64(0..200));
        let both = [0, 1].map(|_| Chats::builder(&agent, &journal).idle_after(time).build());
        let mut watchers = Vec::new();
        for chats in &both {
            for _ in 0..2 {
                let patience = Duration::from_millis(random.u64(1..900));
                let mut watcher = chats.watch("a").await.unwrap();
                watchers.push(tokio::spawn(async move {
                    let mut seen = Vec::new();
                    while let Some(next) = watcher.next().await {
                        seen.push(next);
                        sleep(patience).await;
                    }
                    assert!(watcher.error().is_none(), "{:?}", watcher.error());
                    seen
                }));
            }
        }
        for number in 0..20 {
            let chats = &both[random.usize(0..2)];
            match chats.send("a", format!("{number}")).await {
                Ok(run) if random.bool() => drop(run.finish().await),
                Ok(run) => drop(run),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{error}"),
            }
            if random.u8(0..8) == 0 {
                chats.stop("a");
            }
            sleep(Duration::from_millis(random.u64(0..400))).await;
        }
        sleep(Duration::from_secs(60)).await;
        // Each hears of the other by its own next run.
        for chats in &both {
            chats.send("a", "the last one").await.unwrap().finish().await.unwrap();
            sleep(Duration::from_secs(60)).await;
        }
        for chats in &both {
            chats.close().await;
        }
        let facts = journal.read("a", 0).await.unwrap().facts;
        let truth = facts.iter().filter_map(|fact| match fact.fact().unwrap() {
            Fact::UserSaid { message, .. } => Some(message.text()),
            _ => None,
        });
        let truth = Vec::from_iter(truth);
        for (number, watcher) in watchers.into_iter().enumerate() {
            let seen = watcher.await.unwrap();
            // Those of the first one do not hear of the last run of the second.
            let known = &truth[..truth.len() - usize::from(number < 2)];
            assert_eq!(said(&seen), known, "round {round}, watcher {number}");
            assert_eq!(ends(&seen), known.len(), "round {round}, watcher {number}");
            for pair in seen.windows(2) {
                let [one, two] = pair else { continue };
                assert!(one.run != two.run || one.number < two.number, "{pair:?}");
            }
        }
    }
}

/// A conversation that a later version of the library has continued.
async fn unreadable(journal: &MemoryJournal, id: &str) {
    let newer = Envelope::stored(99, "7.0.0", WriterId::random(), 0, 0, "{}");
    let last = journal.read(id, 0).await.unwrap().head;
    journal.append(id, last, &[newer]).await.unwrap();
}

/// With a thread of its own, since a lock that is never released would stop the test, too.
#[test]
fn a_conversation_that_cannot_be_read_is_an_error_of_its_own_and_the_others_go_on() {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let (agent, journal) = (echo(), MemoryJournal::new());
            let there = Chats::new(&agent, &journal);
            for id in ["new", "begun", "watched"] {
                there.send(id, "one").await.unwrap().finish().await.unwrap();
            }
            there.close().await;
            let chats = Chats::new(&agent, &journal);
            // This one was watched, and could be read then.
            let mut watcher = chats.watch("watched").await.unwrap();
            watcher.next().await.unwrap();
            for id in ["new", "begun", "watched"] {
                unreadable(&journal, id).await;
            }
            for _ in 0..2 {
                for id in ["new", "begun", "watched"] {
                    let watched = chats.watch(id).await.map(drop).unwrap_err();
                    assert_eq!(watched.kind(), ErrorKind::Journal, "{watched}");
                    assert!(watched.to_string().contains("fact "), "{watched}");
                    let sent = chats.send(id, "two").await.map(drop).unwrap_err();
                    assert_eq!(sent.kind(), ErrorKind::Journal, "{sent}");
                    assert!(!chats.is_busy(id) && !chats.stop(id));
                }
                let reply = chats.send("other", "hello").await.unwrap().finish().await.unwrap();
                assert_eq!(reply.text(), "You say hello.");
                let seen = chats.watch("other").await.unwrap().next().await.unwrap();
                assert_eq!(said(&[seen]), ["hello"]);
            }
            chats.close().await;
        });
        tell.send(()).unwrap();
    });
    told.recv_timeout(Duration::from_secs(60)).expect("nothing hangs");
}

/// What is shown of a long conversation is made in pieces, so others of the same thread get their turn.
#[tokio::test]
async fn while_a_long_conversation_is_read_for_a_watcher_others_go_on() {
    let (agent, journal) = (echo(), MemoryJournal::new());
    agent.open(&journal, "long").await.unwrap().send("one").await.unwrap();
    let last = journal.read("long", 0).await.unwrap().head;
    let pinned = Fact::ContextPinned { text: "Always.".to_owned() };
    let pinned = vec![Envelope::of(&pinned, 0).unwrap(); 5_000];
    journal.append("long", last, &pinned).await.unwrap();
    let chats = Chats::new(&agent, &journal);
    let mut answered = 0;
    let mut watching = std::pin::pin!(chats.watch("long"));
    while (&mut watching).now_or_never().is_none() {
        let reply = chats.send("short", "hello").await.unwrap().finish().await.unwrap();
        assert_eq!(reply.text(), "You say hello.");
        answered += 1;
    }
    assert!(answered > 10, "{answered}");
    // So is what a message needs.
    let (mut sending, mut answered) = (std::pin::pin!(chats.send("long", "two").into_future()), 0);
    while (&mut sending).now_or_never().is_none() {
        let reply = chats.send("short", "hello").await.unwrap().finish().await.unwrap();
        assert_eq!(reply.text(), "You say hello.");
        answered += 1;
    }
    assert!(answered > 3, "{answered}");
    chats.close().await;
}

/// What a program gives along with a message is dropped without a lock: it may hold a run of the
/// same manager.
#[test]
fn a_refused_message_may_hold_a_run_of_the_same_conversation() {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let gate = Gate::new();
            let model = ScriptedProvider::new([reply().wait_for(&gate).text("Done.")]);
            let agent = Agent::builder(model).build().unwrap();
            let chats = Chats::new(&agent, &MemoryJournal::new());
            let run = chats.send("a", "one").await.unwrap();
            let watcher = chats.watch("a").await.unwrap();
            // Only the user can steer a run.
            let message = harness::Message::assistant([harness::Block::text("two")]);
            let sending = chats.send("a", message).when_busy(WhenBusy::Steer);
            let sending = sending.with(move |sending| {
                drop(watcher);
                sending
            });
            let refused = sending.await.map(drop).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Transcript, "{refused}");
            gate.open();
            assert_eq!(run.finish().await.unwrap().text(), "Done.");
            chats.close().await;
        });
        tell.send(()).unwrap();
    });
    told.recv_timeout(Duration::from_secs(60)).expect("nothing hangs");
}

#[tokio::test]
async fn who_watches_while_a_run_opens_its_conversation_sees_that_run_and_the_one_before_as_earlier()
 {
    let journal = MemoryJournal::new();
    let agent = Agent::builder(ScriptedProvider::new([
        reply().text("1"),
        reply().text("2"),
        reply().text("3"),
    ]));
    let agent = agent.build().unwrap();
    let said = async |chats: &Chats, words: &str| {
        // The message is on its way, and nothing has read it yet.
        let (run, watcher) = tokio::join!(chats.send("a", words).into_future(), chats.watch("a"));
        let mut watcher = watcher.unwrap();
        let earlier = watcher.earlier().await.unwrap();
        let first = watcher.next().await.unwrap();
        let Event::RunStarted { said: Some(said) } = first.event.as_event() else {
            panic!("{first:?}")
        };
        assert_eq!(said.text(), words);
        run.unwrap().finish().await.unwrap();
        earlier.iter().filter(|it| matches!(it.event.as_event(), Event::RunStarted { .. })).count()
    };
    let chats = Chats::new(&agent, &journal);
    assert_eq!(said(&chats, "one").await, 0);
    assert_eq!(said(&chats, "two").await, 1);
    chats.close().await;
    assert_eq!(said(&Chats::new(&agent, &journal), "three").await, 2);
}
