//! Messages that wait and that steer, in any order and at any instant, with stops, ends and
//! failures: each message is used once, or refused.

use std::{
    env,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
use futures_util::{FutureExt as _, StreamExt as _};
use harness::{
    Agent, CallOutcome, ErrorKind, Guardrails, Message, Outcome, SideEffect, SideEffects, Tool,
    agent::{ChatRun, Chats, Event, WhenBusy},
    journal::{Journal, LimitKind, MemoryJournal},
    policy::ApprovalRequest,
    testing::{FaultyJournal, JournalCall, JournalFault, ScriptedProvider, reply},
};
use serde_json::json;
use tokio::{task::JoinSet, time::sleep};

/// How often a run has told that it begins with this message or has heard it, and whether the message was
/// refused.
async fn told(mut run: ChatRun, words: &str) -> (usize, bool) {
    let mut told = 0;
    let mut ended = 0;
    while let Some(numbered) = run.next().await {
        let said = match numbered.event.as_event() {
            Event::RunStarted { said } => said,
            Event::Steered { message } => Some(message),
            Event::RunEnded { .. } => {
                ended += 1;
                None
            }
            _ => None,
        };
        told += usize::from(said.is_some_and(|said| said.text() == words));
    }
    assert_eq!(ended, 1, "{words}: a run that ends once");
    let error = run.finish().await.err();
    let closed = error.as_ref().and_then(|stopped| stopped.error());
    (told, closed.is_some_and(|error| error.kind() == ErrorKind::Closed))
}

#[tokio::test(start_paused = true)]
async fn each_message_is_said_once_or_refused() {
    let seed = env::var("HARNESS_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(7);
    println!("HARNESS_SEED={seed}");
    let mut random = Rng::with_seed(seed);
    let (mut steered, mut kept, mut refused) = (0, 0, 0);
    for number in 0..120 {
        let model = ScriptedProvider::answering(|_| {
            reply().text("It is ").pause(Duration::from_millis(100)).text("so.")
        });
        let agent = Agent::builder(model).build().unwrap();
        let journal = MemoryJournal::new();
        let chats = Chats::builder(&agent, &journal).idle_after(Duration::from_millis(30));
        let chats = chats.most_idle(random.usize(0..2)).build();
        let mut runs = JoinSet::new();
        let mut steers = Vec::new();
        for at in 0..random.u32(2..8) {
            sleep(Duration::from_millis(random.u64(0..120))).await;
            let words = format!("{number}/{at}");
            let busy = if random.u8(0..3) == 0 { WhenBusy::Wait } else { WhenBusy::Steer };
            let run = chats.send("a", words.as_str()).when_busy(busy).await.unwrap();
            steers.push(busy == WhenBusy::Steer);
            runs.spawn(async move {
                let (told, refused) = told(run, &words).await;
                (words, told, refused)
            });
            if random.u8(0..4) == 0 {
                sleep(Duration::from_millis(random.u64(0..50))).await;
                chats.stop("a");
            }
        }
        match random.u8(0..3) {
            0 => chats.close().await,
            1 => drop(chats),
            _ => {
                sleep(Duration::from_secs(10)).await;
                assert!(!chats.is_busy("a"));
                assert_eq!(chats.open_conversations(), 0);
                chats.close().await;
            }
        }
        let ends = runs.join_all().await;
        let chat = agent.open(&journal, "a").await.unwrap();
        let said: Vec<String> =
            chat.transcript().messages().iter().map(|message| message.text()).collect();
        for (words, told, was_refused) in ends {
            let count = said.iter().filter(|said| **said == words).count();
            assert!(count <= 1 && told <= 1, "{words}: {said:?}");
            // What a task that was cut off had not written yet was told, and is lost with it.
            assert!(count <= told, "{words} was said and not told: {said:?}");
            assert!(told == 1 || was_refused, "{words} is lost: {said:?}");
            refused += usize::from(told == 0);
        }
        steered += steers.iter().filter(|steers| **steers).count();
        kept += said.len();
    }
    println!("{steered} to steer, {refused} refused, {kept} messages kept");
    assert!(steered > 110 && refused > 8);
}

/// Looks something up, asks whether it may pay, and answers: each takes a tenth of a second.
fn worker(later: &Arc<AtomicBool>) -> Agent {
    let tenth = Duration::from_millis(100);
    let tool = |name, effect| {
        let schema = json!({"type": "object"});
        Tool::new(name, "Does it.", schema, SideEffects::of(&[effect]), move |_, _| {
            Box::pin(async move {
                sleep(tenth).await;
                Ok(format!("{name} is done").into())
            })
        })
    };
    let model = ScriptedProvider::answering(move |request| {
        let done =
            request.messages().iter().map(|message| message.results().count()).sum::<usize>();
        match done {
            0 => reply().text("I look.").pause(tenth).call("look", json!({})),
            1 => reply().pause(tenth).call("pay", json!({})),
            _ => reply().text("It is ").pause(tenth).text("done."),
        }
    });
    let later = Arc::clone(later);
    let approver = move |question: ApprovalRequest| {
        let later = later.load(Ordering::Relaxed);
        async move {
            sleep(tenth).await;
            if later { question.later(None) } else { question.yes() }
        }
    };
    let tools = [tool("look", SideEffect::Read), tool("pay", SideEffect::Mutate)];
    Agent::builder(model).tools(tools).approver(approver).build().unwrap()
}

/// What users have said in this conversation, in order.
async fn said(agent: &Agent, journal: &MemoryJournal) -> Vec<String> {
    let machine = agent.inbox(journal).look("a").await.unwrap();
    let users =
        machine.transcript().messages().iter().filter(|it| it.role() == harness::Role::User);
    users.map(|message| message.text()).collect()
}

/// How often a watcher that comes now is told that this was said.
async fn told_late(chats: &Chats, words: &str) -> usize {
    let mut watcher = chats.watch("a").await.unwrap();
    let mut told = 0;
    while let Some(Some(numbered)) = watcher.next().now_or_never() {
        let said = match numbered.event.as_event() {
            Event::RunStarted { said } => said,
            Event::Steered { message } => Some(message),
            _ => None,
        };
        told += usize::from(said.is_some_and(|said| said.text() == words));
    }
    told
}

#[derive(Clone, Copy, Debug)]
enum Then {
    Nothing,
    Stop,
    Close,
    Drop,
}

#[tokio::test(start_paused = true)]
async fn at_every_instant_a_message_that_steers_is_said_once_or_refused() {
    let (mut heard, mut own, mut refused) = (0, 0, 0);
    for (then, later) in [Then::Nothing, Then::Stop, Then::Close, Then::Drop]
        .into_iter()
        .flat_map(|then| [(then, false), (then, true)])
    {
        for instant in (0..70).step_by(crate::step(3)) {
            let case = format!("{then:?} {later} {instant}");
            let agent = worker(&Arc::new(later.into()));
            let journal = MemoryJournal::new();
            let chats =
                Chats::builder(&agent, &journal).idle_after(Duration::from_secs(60)).build();
            let first = chats.send("a", "Go.").await.unwrap();
            sleep(Duration::from_millis(instant * 10)).await;
            let mut runs = JoinSet::new();
            for words in ["one", "two"] {
                let run = chats.send("a", words).when_busy(WhenBusy::Steer).await.unwrap();
                runs.spawn(async move { (words, told(run, words).await) });
            }
            match then {
                Then::Nothing => {}
                Then::Stop => drop(chats.stop("a")),
                Then::Close => chats.close().await,
                Then::Drop => drop(chats.clone()),
            }
            let chats = match then {
                Then::Drop => {
                    drop(chats);
                    None
                }
                Then::Close => None,
                Then::Nothing | Then::Stop => Some(chats),
            };
            drop(first.finish().await);
            let ends = runs.join_all().await;
            let said = said(&agent, &journal).await;
            for (words, (told, was_refused)) in ends {
                let count = said.iter().filter(|said| **said == words).count();
                let may_be_lost = matches!(then, Then::Drop);
                assert!(count <= 1 && told <= 1, "{case}: {words}: {said:?}");
                assert!(told == 1 || was_refused, "{case}: {words} is lost: {said:?}");
                assert!(count == told || may_be_lost && count < told, "{case}: {words}: {said:?}");
                refused += usize::from(was_refused);
            }
            let order: Vec<&str> =
                said.iter().map(String::as_str).filter(|it| *it != "Go.").collect();
            assert!(["one", "two"].starts_with(&order) || order == ["two"], "{case}: {said:?}");
            if let Some(chats) = chats {
                let last = said.last().unwrap();
                assert_eq!(told_late(&chats, last).await, 1, "{case}");
                chats.close().await;
            }
            let mut chat = agent.open(&journal, "a").await.unwrap();
            let facts = journal.read("a", 0).await.unwrap().facts;
            let steered = facts
                .iter()
                .filter(|it| matches!(it.fact(), Ok(harness::journal::Fact::Steered { .. })));
            let steered = steered.count();
            heard += steered;
            own += said.len() - 1 - steered;
            // Whatever has happened, the conversation goes on.
            if chat.can_resume() && chat.waiting().is_empty() {
                let ended = chat.resume().await;
                assert!(
                    ended.is_ok() || ended.unwrap_err().outcome() == Outcome::Waiting,
                    "{case}"
                );
            }
        }
    }
    println!("{heard} heard, {own} said on their own, {refused} refused");
    let [heard, own, refused] = [heard, own, refused].map(|it| it * crate::step(3));
    assert!(heard > 150 && own > 250 && refused > 400, "{heard} {own} {refused}");
}

#[tokio::test(start_paused = true)]
async fn where_a_run_ends_to_wait_for_an_approval_the_message_comes_next_and_the_call_does_not_run()
{
    let told = Arc::new(Mutex::new(Vec::new()));
    let agent = worker(&Arc::new(true.into()));
    let journal = MemoryJournal::new();
    let chats = Chats::new(&agent, &journal);
    let first = chats.send("a", "Go.").await.unwrap();
    // The person is being asked.
    sleep(Duration::from_millis(350)).await;
    let steers = chats.send("a", "Not yet.").when_busy(WhenBusy::Steer).await.unwrap();
    let waits = chats.send("a", "Later.").await.unwrap();
    let stopped = first.finish().await.unwrap_err();
    assert_eq!(stopped.outcome(), Outcome::Waiting, "{stopped}");
    let question = agent.inbox(&journal).waiting("a").await.unwrap();
    told.lock().unwrap().extend(question.iter().filter_map(|open| open.question()));
    let reply = steers.finish().await.unwrap();
    assert_eq!(reply.text(), "It is done.");
    let later = waits.finish().await.unwrap();
    let users = later.transcript().messages().iter().filter(|it| it.role() == harness::Role::User);
    let users: Vec<String> = users.map(|message| message.text()).collect();
    assert_eq!(users, ["Go.", "Not yet.", "Later."]);
    let results = later.transcript().messages().iter().flat_map(Message::results);
    let outcomes: Vec<CallOutcome> = results.map(|it| it.outcome()).collect();
    assert_eq!(outcomes, [CallOutcome::Succeeded, CallOutcome::NotStarted]);
    let question = told.lock().unwrap().pop();
    if let Some(question) = question {
        let late = agent.inbox(&journal).decide("a", question.yes()).await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::NotWaiting);
    }
}

#[tokio::test(start_paused = true)]
async fn whichever_append_fails_no_message_that_steers_is_heard_twice_or_lost_in_silence() {
    let (mut whole, mut lost) = (0, 0);
    let faults = [
        JournalFault::FailBefore,
        JournalFault::FailAfter,
        JournalFault::Repeat,
        JournalFault::StopBefore,
    ];
    for (fault, number) in faults.into_iter().flat_map(|fault| (0..14).map(move |n| (fault, n))) {
        for instant in [0, 50, 250, 450, 650] {
            let case = format!("{fault:?} {number} {instant}");
            let agent = worker(&Arc::default());
            let kept = MemoryJournal::new();
            let journal = Arc::new(FaultyJournal::new(kept.clone()));
            journal.fail(JournalCall::Append, number, fault);
            let chats =
                Chats::builder(&agent, &journal).idle_after(Duration::from_millis(5)).build();
            let first = chats.send("a", "Go.").await.unwrap();
            sleep(Duration::from_millis(instant)).await;
            let mut runs = JoinSet::new();
            for words in ["one", "two"] {
                let run = chats.send("a", words).when_busy(WhenBusy::Steer).await.unwrap();
                runs.spawn(async move { (words, run.finish().await) });
            }
            drop(first.finish().await);
            let ends = runs.join_all().await;
            sleep(Duration::from_secs(60)).await;
            chats.close().await;
            let said = said(&agent, &kept).await;
            for (words, ended) in ends {
                let count = said.iter().filter(|said| **said == words).count();
                assert!(count <= 1, "{case}: {words}: {said:?}");
                match ended {
                    Ok(_) => {
                        assert_eq!(count, 1, "{case}: {words} was answered: {said:?}");
                        whole += 1;
                    }
                    Err(stopped) => {
                        assert!(stopped.error().is_some(), "{case}: {words}: {stopped}");
                        lost += 1;
                    }
                }
            }
            agent.open(&kept, "a").await.unwrap();
        }
    }
    println!("{whole} answered, {lost} failed");
    assert!(whole > 400 && lost > 25, "{whole} {lost}");
}

#[tokio::test(start_paused = true)]
async fn of_a_thousand_at_once_each_is_said_once_and_in_order_or_refused() {
    let agent = worker(&Arc::default());
    let journal = MemoryJournal::new();
    let chats = Chats::new(&agent, &journal);
    let first = chats.send("a", "Go.").await.unwrap();
    let (mut runs, mut refused) = (Vec::new(), 0);
    for number in 0..1000 {
        // Some come when others were heard.
        if number % 300 == 0 {
            sleep(Duration::from_millis(150)).await;
        }
        let words = number.to_string();
        match chats.send("a", &*words).when_busy(WhenBusy::Steer).await {
            Ok(run) => runs.push((words, run)),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                refused += 1;
            }
        }
    }
    let reply = first.finish().await.unwrap();
    let said: Vec<String> = said(&agent, &journal).await;
    let accepted: Vec<&str> = runs.iter().map(|(words, _)| words.as_str()).collect();
    assert_eq!(said[1..], accepted);
    assert!(accepted.len() > 60 && refused + accepted.len() == 1000, "{}", accepted.len());
    for (_, run) in runs {
        assert_eq!(run.finish().await.unwrap().text(), reply.text());
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_refused_watches_nothing() {
    let agent = worker(&Arc::default());
    let chats = Chats::new(&agent, &MemoryJournal::new());
    let run = chats.send("a", "Go.").stop_unwatched().await.unwrap();
    sleep(Duration::from_millis(50)).await;
    for _ in 0..3 {
        let refused = chats.send("a", " ").when_busy(WhenBusy::Steer).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Transcript, "{refused}");
    }
    drop(run);
    // Nobody is left who watches.
    sleep(Duration::from_millis(20)).await;
    assert!(!chats.is_busy("a"));
}

#[tokio::test(start_paused = true)]
async fn ten_megabytes_steer_and_at_the_limit_of_turns_what_was_heard_is_told() {
    let megabytes = "word ".repeat(2_000_000);
    let journal = MemoryJournal::new();
    let model = ScriptedProvider::answering(|_| {
        reply().text("It is ").pause(Duration::from_millis(100)).text("so.")
    });
    let agent = Agent::builder(model).guardrails(Guardrails::default().turns(2)).build().unwrap();
    let chats = Chats::new(&agent, &journal);
    let first = chats.send("a", "Go.").await.unwrap();
    sleep(Duration::from_millis(50)).await;
    let large = chats.send("a", &*megabytes).when_busy(WhenBusy::Steer).await.unwrap();
    sleep(Duration::from_millis(100)).await;
    let last = chats.send("a", "More?").when_busy(WhenBusy::Steer).await.unwrap();
    for run in [first, large, last] {
        let stopped = run.finish().await.unwrap_err();
        assert_eq!(stopped.outcome(), Outcome::Limit(LimitKind::Turns), "{stopped}");
    }
    assert_eq!(said(&agent, &journal).await, ["Go.", &megabytes, "More?"]);
}
