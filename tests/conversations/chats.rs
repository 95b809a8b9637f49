//! Named conversations: one run at a time, late watchers, eviction, and a clean end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt as _, StreamExt as _};
use harness::{
    Agent, Error, ErrorKind, Outcome, State,
    agent::{ChatRun, Chats, Event, EventBuf, Numbered, Steering, WhenBusy},
    journal::{Envelope, Head, Journal, JournalFuture, Lease, MemoryJournal, StoredFacts},
    message::{Block, Message, Role},
    testing::{Gate, ScriptedProvider, reply},
    tool, tools,
};
use serde_json::json;
use tokio::time::sleep;

/// Joins neighbouring words.
pub(crate) fn joined<'a>(events: impl IntoIterator<Item = &'a EventBuf>) -> Vec<EventBuf> {
    let mut all: Vec<EventBuf> = Vec::new();
    for event in events {
        let both = match (all.last().map(EventBuf::as_event), event.as_event()) {
            (Some(Event::Text(a)), Event::Text(b)) => {
                Some(Event::Text(&format!("{a}{b}")).into_owned())
            }
            (Some(Event::Reasoning(a)), Event::Reasoning(b)) => {
                Some(Event::Reasoning(&format!("{a}{b}")).into_owned())
            }
            (
                Some(Event::ToolCallDelta { call, json: a }),
                Event::ToolCallDelta { call: other, json: b },
            ) if call == other => {
                let json = format!("{a}{b}");
                Some(Event::ToolCallDelta { call, json: &json }.into_owned())
            }
            _ => None,
        };
        match both {
            Some(both) => *all.last_mut().unwrap() = both,
            None => all.push(event.clone()),
        }
    }
    all
}

fn words<'a>(events: impl IntoIterator<Item = &'a EventBuf>) -> String {
    let texts = events.into_iter().filter_map(|event| match event.as_event() {
        Event::Text(text) => Some(text),
        _ => None,
    });
    texts.collect()
}

fn events(numbered: &[Numbered]) -> Vec<EventBuf> {
    numbered.iter().map(|it| it.event.clone()).collect()
}

fn outcome(event: &EventBuf) -> Option<Outcome> {
    match event.as_event() {
        Event::RunEnded { outcome, .. } => Some(outcome),
        _ => None,
    }
}

async fn all(run: &mut ChatRun) -> Vec<Numbered> {
    run.by_ref().collect().await
}

/// Says back what it hears, after a second.
fn echo() -> ScriptedProvider {
    ScriptedProvider::answering(|request| {
        let said = request.last_text();
        reply().text("You say ").pause(Duration::from_secs(1)).text(format!("{said} indeed."))
    })
}

fn chats(model: ScriptedProvider) -> (Chats, MemoryJournal) {
    let journal = MemoryJournal::new();
    (Chats::new(&Agent::builder(model).build().unwrap(), &journal), journal)
}

#[tokio::test(start_paused = true)]
async fn a_second_message_waits_or_is_refused() {
    let (chats, _) = chats(echo());
    let first = chats.send("a", "one").await.unwrap();
    let mut second = chats.send("a", "two").await.unwrap();
    let refused = chats.send("a", "three").when_busy(WhenBusy::Refuse).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy);
    assert!(refused.to_string().contains("a run goes on"), "{refused}");
    assert!(second.next().now_or_never().is_none(), "it waits");
    let elsewhere = chats.send("b", "four").await.unwrap();
    assert_eq!(elsewhere.finish().await.unwrap().text(), "You say four indeed.");
    assert_eq!(first.finish().await.unwrap().text(), "You say one indeed.");
    assert_eq!(second.finish().await.unwrap().transcript().messages().len(), 4);
    assert!(!chats.is_busy("a"));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_steers_is_heard_by_the_run_that_goes_on() {
    let (chats, _) = chats(echo());
    let mut watcher = chats.watch("a").await.unwrap();
    let mut first = chats.send("a", "one").await.unwrap();
    let waits = chats.send("a", "three").await.unwrap();
    sleep(Duration::from_millis(500)).await;
    let mut steers = chats.send("a", "two").when_busy(WhenBusy::Steer).await.unwrap();
    assert!(steers.next().now_or_never().is_none(), "the model still speaks");
    let seen = all(&mut first).await;
    let heard = seen.iter().filter_map(|it| match it.event.as_event() {
        Event::Steered { message } => Some(message.text()),
        _ => None,
    });
    assert_eq!(Vec::from_iter(heard), ["two"]);
    let steered = all(&mut steers).await;
    assert_eq!(joined(&events(&steered)), joined(&events(&seen)), "it is that run");
    assert_eq!(steered[0].run, seen[0].run);
    let mut watched = Vec::new();
    while watched.last().is_none_or(|last| outcome(last).is_none()) {
        watched.push(watcher.next().await.unwrap().event);
    }
    assert_eq!(joined(&watched), joined(&events(&seen)));
    let (one, two) = (first.finish().await.unwrap(), steers.finish().await.unwrap());
    assert_eq!((one.text(), two.text()), ("You say two indeed.", "You say two indeed."));
    assert_eq!(one.turns(), 2);
    let three = waits.finish().await.unwrap();
    let said = three.transcript().messages().iter().map(|message| message.text());
    let said: Vec<String> = said.collect();
    let answers =
        ["one", "two", "three"].map(|word| [word.to_owned(), format!("You say {word} indeed.")]);
    assert_eq!(said, answers.concat());
}

#[tokio::test(start_paused = true)]
async fn a_message_that_steers_a_run_about_to_begin_is_heard_by_it() {
    let (chats, _) = chats(echo());
    let mut first = Box::pin(chats.send("a", "one").into_future());
    assert!((&mut first).now_or_never().is_none(), "the conversation is being opened");
    let steers = chats.send("a", "two").when_busy(WhenBusy::Steer).await.unwrap();
    let reply = first.await.unwrap().finish().await.unwrap();
    assert_eq!((reply.text(), reply.turns()), ("You say two indeed.", 1));
    assert_eq!(steers.finish().await.unwrap().text(), reply.text());
    // Where nothing goes on, there is nothing to steer.
    let alone = chats.send("a", "three").when_busy(WhenBusy::Steer).await.unwrap();
    assert_eq!(alone.finish().await.unwrap().text(), "You say three indeed.");
}

#[tokio::test(start_paused = true)]
async fn what_a_stopped_run_has_not_heard_comes_next_and_in_order() {
    let agent = Agent::builder(echo()).build().unwrap();
    // A conversation is closed as soon as nothing waits in it.
    let chats =
        Chats::builder(&agent, &MemoryJournal::new()).idle_after(Duration::ZERO).most_idle(0);
    let chats = chats.build();
    let first = chats.send("a", "one").await.unwrap();
    let waits = chats.send("a", "four").await.unwrap();
    sleep(Duration::from_millis(500)).await;
    let mut two = chats.send("a", "two").when_busy(WhenBusy::Steer).await.unwrap();
    let three = chats.send("a", "three").when_busy(WhenBusy::Steer).await.unwrap();
    assert!(chats.stop("a"));
    assert_eq!(first.finish().await.unwrap_err().outcome(), Outcome::Cancelled);
    let seen = all(&mut two).await;
    assert!(
        matches!(seen[0].event.as_event(), Event::RunStarted { said: Some(said) } if said.text() == "two"),
        "{seen:?}"
    );
    assert_eq!(two.finish().await.unwrap().text(), "You say two indeed.");
    assert_eq!(three.finish().await.unwrap().text(), "You say three indeed.");
    let four = waits.finish().await.unwrap();
    let said = four.transcript().messages().iter().map(|message| message.text());
    assert_eq!(
        Vec::from_iter(said.step_by(2)),
        ["one", "two", "three", "four"],
        "each once, those that steer before those that wait"
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_hears_its_own_steering_beside_that_of_the_conversation() {
    let (chats, _) = chats(echo());
    let own = Steering::new();
    let given = own.clone();
    let first = chats.send("a", "one").with(move |run| run.steering(&given)).await.unwrap();
    sleep(Duration::from_millis(500)).await;
    own.say("two").unwrap();
    let steers = chats.send("a", "three").when_busy(WhenBusy::Steer).await.unwrap();
    let reply = first.finish().await.unwrap();
    assert_eq!((reply.text(), reply.turns()), ("You say three indeed.", 2));
    let said = reply.transcript().messages().iter().map(|message| message.text());
    assert_eq!(
        Vec::from_iter(said),
        ["one", "You say one indeed.", "two", "three", "You say three indeed."]
    );
    assert_eq!(steers.finish().await.unwrap().text(), reply.text());
    assert!(own.unheard().is_empty());
}

#[tokio::test(start_paused = true)]
async fn closing_refuses_what_was_not_heard_and_tells_the_end_of_what_was() {
    let (chats, journal) = chats(echo());
    let first = chats.send("a", "one").await.unwrap();
    sleep(Duration::from_millis(500)).await;
    let heard = chats.send("a", "two").when_busy(WhenBusy::Steer).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let mut unheard = chats.send("a", "three").when_busy(WhenBusy::Steer).await.unwrap();
    chats.close().await;
    assert_eq!(first.finish().await.unwrap_err().outcome(), Outcome::Cancelled);
    let heard = heard.finish().await.unwrap_err();
    assert_eq!((heard.outcome(), heard.text()), (Outcome::Cancelled, "You say \n\n[interrupted]"));
    let seen = all(&mut unheard).await;
    assert_eq!(
        Vec::from_iter(seen.iter().filter_map(|it| outcome(&it.event))),
        [Outcome::Cancelled]
    );
    let refused = unheard.finish().await.unwrap_err();
    assert_eq!(refused.error().unwrap().kind(), ErrorKind::Closed, "{refused}");
    let agent = Agent::builder(echo()).build().unwrap();
    let mut chat = agent.open(&journal, "a").await.unwrap();
    let said = chat.transcript().messages().iter().map(|message| message.text());
    assert!(!said.into_iter().any(|said| said == "three"), "nothing was said");
    assert!(chat.can_resume());
    assert!(chat.resume().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn dropping_the_manager_refuses_what_was_not_heard() {
    let (chats, journal) = chats(ScriptedProvider::new([reply().text("Once").stall()]));
    let run = chats.send("a", "one").await.unwrap();
    sleep(Duration::from_millis(500)).await;
    let unheard = chats.send("a", "two").when_busy(WhenBusy::Steer).await.unwrap();
    drop(chats);
    assert_eq!(run.finish().await.unwrap_err().outcome(), Outcome::Cancelled);
    let refused = unheard.finish().await.unwrap_err();
    assert_eq!(refused.error().unwrap().kind(), ErrorKind::Closed, "{refused}");
    let agent = Agent::builder(echo()).build().unwrap();
    let chat = agent.open(&journal, "a").await.unwrap();
    assert!(chat.can_resume());
    assert_eq!(chat.transcript().messages()[0].text(), "one");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_steer_is_an_error_or_waits() {
    let (chats, _) = chats(echo());
    let first = chats.send("a", "one").await.unwrap();
    sleep(Duration::from_millis(500)).await;
    let model = Message::new(Role::Assistant, [Block::text("No.")]);
    let error = chats.send("a", model).when_busy(WhenBusy::Steer).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transcript, "{error}");
    // To go on is nothing that is said: it is the run that goes on.
    let resumed = chats.resume("a").when_busy(WhenBusy::Steer).await.unwrap();
    let mut steering = Vec::new();
    for number in 0..31 {
        let message = format!("{number}");
        steering.push(chats.send("a", message).when_busy(WhenBusy::Steer).await.unwrap());
    }
    let refused = chats.send("a", "more").when_busy(WhenBusy::Steer).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy);
    assert!(refused.to_string().contains("32 messages wait"), "{refused}");
    assert_eq!(first.finish().await.unwrap().turns(), 2, "all of them are heard at once");
    for run in steering {
        assert_eq!(run.finish().await.unwrap().text(), "You say 30 indeed.");
    }
    assert_eq!(resumed.finish().await.unwrap().turns(), 2);
}

#[tokio::test(start_paused = true)]
async fn no_more_than_32_messages_wait() {
    let (chats, _) = chats(echo());
    let mut runs = Vec::new();
    for number in 0..33 {
        runs.push(chats.send("a", format!("{number}")).await.unwrap());
    }
    let refused = chats.send("a", "more").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy);
    assert!(refused.to_string().contains("32 messages wait"), "{refused}");
    for (number, run) in runs.into_iter().enumerate() {
        assert_eq!(run.finish().await.unwrap().text(), format!("You say {number} indeed."));
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_outlives_who_has_sent_it_and_late_watchers_see_all_of_it() {
    let (chats, _) = chats(echo());
    drop(chats.send("a", "one").await.unwrap());
    sleep(Duration::from_millis(500)).await;
    let mut late = chats.watch("a").await.unwrap();
    let first = late.next().await.unwrap();
    assert!(matches!(first.event.as_event(), Event::RunStarted { said: Some(_) }), "{first:?}");
    let mut seen = vec![first];
    while outcome(&seen.last().unwrap().event).is_none() {
        seen.push(late.next().await.unwrap());
    }
    assert_eq!(words(&events(&seen)), "You say one indeed.");
    assert!(seen.is_sorted_by(|a, b| a.run == b.run && a.number < b.number));
    // It has ended, and who comes now sees it, too.
    let mut later = chats.watch("a").await.unwrap();
    let mut again = Vec::new();
    while again.last().is_none_or(|last: &Numbered| outcome(&last.event).is_none()) {
        again.push(later.next().await.unwrap());
    }
    assert_eq!(joined(&events(&again)), joined(&events(&seen)));
    assert!(later.next().now_or_never().is_none(), "it waits for the next run");
    let mut run = chats.send("a", "two").await.unwrap();
    let next = all(&mut run).await;
    let followed: Vec<Numbered> = later.take(2).collect().await;
    assert_eq!(followed, next[..2]);
}

#[tokio::test(start_paused = true)]
async fn a_run_stops_with_its_last_watcher_if_it_was_asked_to() {
    let (chats, journal) = chats(echo());
    let run = chats.send("a", "one").stop_unwatched().await.unwrap();
    let other = chats.watch("a").await.unwrap();
    sleep(Duration::from_millis(300)).await;
    drop(run);
    sleep(Duration::from_millis(300)).await;
    assert!(chats.is_busy("a"), "somebody watches still");
    drop(other);
    sleep(Duration::from_millis(10)).await;
    assert!(!chats.is_busy("a"));
    // One whose turn has not come is not said at all.
    let first = chats.send("a", "two").await.unwrap();
    drop(chats.send("a", "three").stop_unwatched().await.unwrap());
    drop(first);
    sleep(Duration::from_secs(5)).await;
    chats.close().await;
    let agent = Agent::builder(echo()).build().unwrap();
    let chat = agent.open(&journal, "a").await.unwrap();
    let said = chat.transcript().messages().iter().map(|message| message.text());
    let said = Vec::from_iter(said);
    assert_eq!(said, ["one", "You say \n\n[interrupted]", "two", "You say two indeed."]);
}

#[tokio::test(start_paused = true)]
async fn stop_ends_the_run_that_goes_on_and_the_next_message_comes() {
    let (chats, _) = chats(echo());
    assert!(!chats.stop("a"));
    let mut first = chats.send("a", "one").await.unwrap();
    let second = chats.send("a", "two").await.unwrap();
    sleep(Duration::from_millis(500)).await;
    assert!(chats.stop("a"));
    let seen = all(&mut first).await;
    assert_eq!(outcome(&seen.last().unwrap().event), Some(Outcome::Cancelled));
    assert_eq!(first.finish().await.unwrap_err().outcome(), Outcome::Cancelled);
    assert_eq!(second.finish().await.unwrap().text(), "You say two indeed.");
}

#[tokio::test(start_paused = true)]
async fn idle_conversations_are_closed_after_a_time_and_above_a_number() {
    let journal = MemoryJournal::new();
    let agent = Agent::builder(echo()).build().unwrap();
    let chats = Chats::builder(&agent, &journal).idle_after(Duration::from_secs(60)).most_idle(2);
    let chats = chats.build();
    for id in ["a", "b", "c"] {
        chats.send(id, "one").await.unwrap().finish().await.unwrap();
    }
    sleep(Duration::from_millis(1)).await;
    assert_eq!(chats.open_conversations(), 2, "the one that was idle for longest is closed");
    drop(journal.hold("a").await.unwrap());
    assert_eq!(journal.hold("c").await.unwrap_err().kind(), ErrorKind::Busy);
    sleep(Duration::from_secs(61)).await;
    assert_eq!(chats.open_conversations(), 0);
    drop(journal.hold("c").await.unwrap());
    // A watcher gets what the facts hold, and what comes next.
    let mut watcher = chats.watch("c").await.unwrap();
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| outcome(last).is_none()) {
        seen.push(watcher.next().await.unwrap().event);
    }
    assert_eq!(words(&seen), "You say one indeed.");
    assert!(
        matches!(seen[0].as_event(), Event::RunStarted { said: Some(said) } if said.text() == "one")
    );
    let reply = chats.send("c", "two").await.unwrap().finish().await.unwrap();
    assert_eq!(reply.transcript().messages().len(), 4);
    assert!(matches!(
        watcher.next().await.unwrap().event.as_event(),
        Event::RunStarted { said: Some(said) } if said.text() == "two"
    ));
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_sleeps_for_many_runs_gets_all_of_them_once() {
    let journal = MemoryJournal::new();
    let agent = Agent::builder(echo()).build().unwrap();
    let chats = Chats::builder(&agent, &journal).idle_after(Duration::from_secs(7)).build();
    let mut sleepy = chats.watch("a").await.unwrap();
    let mut all_words = String::new();
    let mut seen = Vec::new();
    for number in 0..10 {
        let reply = chats.send("a", format!("{number}")).await.unwrap().finish().await.unwrap();
        all_words += reply.text();
        if number == 2 {
            // It stops in the middle of a run.
            seen.push(sleepy.next().await.unwrap().event);
        }
        sleep(Duration::from_secs(number)).await;
    }
    chats.close().await;
    seen.extend(sleepy.by_ref().map(|it| it.event).collect::<Vec<_>>().await);
    assert!(sleepy.error().is_none());
    let said = seen.iter().filter_map(|event| match event.as_event() {
        Event::RunStarted { said } => Some(said.unwrap().text()),
        _ => None,
    });
    assert_eq!(Vec::from_iter(said), Vec::from_iter((0..10).map(|number: u64| number.to_string())));
    assert_eq!(words(&seen), all_words);
    assert_eq!(seen.iter().filter_map(outcome).count(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_is_polled_late_begins_with_the_run_that_was_the_last_when_it_came() {
    let (chats, _) = chats(echo());
    chats.send("a", "0").await.unwrap().finish().await.unwrap();
    let run = chats.send("a", "1").await.unwrap();
    sleep(Duration::from_millis(1)).await;
    let watcher = chats.watch("a").await.unwrap();
    run.finish().await.unwrap();
    for number in 2..5 {
        chats.send("a", format!("{number}")).await.unwrap().finish().await.unwrap();
    }
    chats.close().await;
    let seen: Vec<Numbered> = watcher.collect().await;
    let said = seen.iter().filter_map(|it| match it.event.as_event() {
        Event::RunStarted { said } => Some(said.unwrap().text()),
        _ => None,
    });
    assert_eq!(Vec::from_iter(said), ["1", "2", "3", "4"]);
}

#[tokio::test(start_paused = true)]
async fn a_message_is_refused_from_the_first_one_on() {
    let (chats, _) = chats(echo());
    let mut first = Box::pin(chats.send("a", "one").into_future());
    assert!((&mut first).now_or_never().is_none(), "the conversation is being opened");
    assert!(chats.is_busy("a"));
    let second = chats.send("a", "two").when_busy(WhenBusy::Refuse).await.unwrap_err();
    assert_eq!(second.kind(), ErrorKind::Busy);
    assert!(chats.stop("a"));
    assert_eq!(first.await.unwrap().finish().await.unwrap_err().outcome(), Outcome::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn closing_stops_the_runs_and_leaves_every_conversation_resumable() {
    let (chats, journal) = chats(echo());
    let mut first = chats.send("a", "one").await.unwrap();
    let waiting = chats.send("a", "two").await.unwrap();
    let watcher = chats.watch("a").await.unwrap();
    let idle = chats.watch("nobody speaks here").await.unwrap();
    sleep(Duration::from_millis(500)).await;
    chats.close().await;
    chats.close().await;
    assert_eq!(chats.open_conversations(), 0);
    let seen = all(&mut first).await;
    assert_eq!(outcome(&seen.last().unwrap().event), Some(Outcome::Cancelled));
    assert_eq!(watcher.collect::<Vec<_>>().await.len(), joined(&events(&seen)).len());
    assert_eq!(idle.collect::<Vec<_>>().await, []);
    let refused = waiting.finish().await.unwrap_err();
    assert_eq!(refused.error().unwrap().kind(), ErrorKind::Closed, "{refused}");
    assert_eq!(chats.send("b", "one").await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(chats.watch("b").await.unwrap_err().kind(), ErrorKind::Closed);
    let agent = Agent::builder(echo()).build().unwrap();
    let mut chat = agent.open(&journal, "a").await.unwrap();
    assert!(chat.can_resume());
    assert!(chat.resume().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn dropping_the_manager_stops_its_tasks_and_nobody_waits_for_ever() {
    let model = ScriptedProvider::new([reply().text("Once").stall()]);
    let (chats, journal) = chats(model.clone());
    let run = chats.send("a", "one").await.unwrap();
    let waiting = chats.send("a", "two").await.unwrap();
    let watcher = chats.watch("a").await.unwrap();
    sleep(Duration::from_millis(500)).await;
    drop(chats);
    let watched: Vec<Numbered> = watcher.collect().await;
    assert_eq!(outcome(&watched.last().unwrap().event), Some(Outcome::Cancelled));
    assert_eq!(run.finish().await.unwrap_err().outcome(), Outcome::Cancelled);
    assert_eq!(waiting.finish().await.unwrap_err().error().unwrap().kind(), ErrorKind::Closed);
    assert_eq!(model.open_streams(), 0);
    let agent = Agent::builder(echo()).build().unwrap();
    assert!(agent.open(&journal, "a").await.unwrap().can_resume());
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_is_open_elsewhere_is_an_error_and_free_afterwards() {
    let (chats, journal) = chats(echo());
    let agent = Agent::builder(echo()).build().unwrap();
    let elsewhere = agent.open(&journal, "a").await.unwrap();
    let error = chats.send("a", "one").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().contains("open"), "{error}");
    drop(elsewhere);
    assert!(chats.send("a", "one").await.unwrap().finish().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn names_that_cannot_be_are_errors() {
    let (chats, _) = chats(echo());
    for id in ["", "a\nb", &"x".repeat(513)] {
        assert_eq!(chats.send(id, "one").await.unwrap_err().kind(), ErrorKind::Configuration);
        assert_eq!(chats.watch(id).await.unwrap_err().kind(), ErrorKind::Configuration);
        assert!(!chats.stop(id) && !chats.is_busy(id));
    }
    assert_eq!(chats.open_conversations(), 0);
}

#[test]
fn without_a_runtime_or_its_timer_it_is_an_error() {
    let (chats, _) = chats(echo());
    let error = futures_util::future::FutureExt::now_or_never(async { chats.send("a", "b").await });
    assert_eq!(error.unwrap().unwrap_err().kind(), ErrorKind::Configuration);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let error = runtime.block_on(async { chats.send("a", "b").await }).unwrap_err();
    assert!(error.to_string().contains("timer"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_a_run_brings_is_given_by_with_and_its_panic_is_an_error() {
    struct User(&'static str);
    /// Says who asks.
    #[tool(side_effects = "read")]
    fn who(user: State<User>) -> String {
        user.0.to_owned()
    }
    let model = ScriptedProvider::answering(|request| match request.results().next() {
        Some(result) => reply().text(result.to_text()),
        None => reply().call("who", json!({})),
    });
    let agent = Agent::builder(model).tools(tools![who]).state_per_run::<User>().build().unwrap();
    let chats = Chats::new(&agent, &MemoryJournal::new());
    let run = chats.send("a", "Who?").with(|run| run.state(User("Ada"))).await.unwrap();
    assert_eq!(run.finish().await.unwrap().text(), "Ada");
    let mut run = chats.send("a", "Who?").with(|_| panic!("no user")).await.unwrap();
    let seen = all(&mut run).await;
    assert_eq!(events(&seen).iter().filter_map(outcome).collect::<Vec<_>>(), [Outcome::Failed]);
    let stopped = run.finish().await.unwrap_err();
    assert_eq!(stopped.error().unwrap().kind(), ErrorKind::Panicked, "{stopped}");
    let run = chats.send("b", "Who?").with(|run| run.state(User("Eve"))).await.unwrap();
    assert_eq!(run.finish().await.unwrap().text(), "Eve", "the others go on");
}

/// A journal that fails or panics when it is told to.
#[derive(Clone, Default)]
struct Failing {
    inner: MemoryJournal,
    how: Arc<AtomicUsize>,
}

impl Failing {
    fn fails(&self) -> Result<(), Error> {
        match self.how.load(Ordering::SeqCst) {
            0 => Ok(()),
            1 => Err(Error::new(ErrorKind::Journal, "the disk is full")),
            _ => panic!("the journal is broken"),
        }
    }
}

impl Journal for Failing {
    fn read<'a>(&'a self, id: &'a str, from: u64) -> JournalFuture<'a, StoredFacts> {
        Box::pin(async move {
            self.fails()?;
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
            self.fails()?;
            self.inner.append(id, after, facts).await
        })
    }

    fn hold<'a>(&'a self, id: &'a str) -> JournalFuture<'a, Lease> {
        self.inner.hold(id)
    }

    fn describe<'a>(
        &'a self,
        id: &'a str,
        data: &'a harness::journal::Metadata,
    ) -> JournalFuture<'a, ()> {
        self.inner.describe(id, data)
    }

    fn list<'a>(
        &'a self,
        listing: &'a harness::journal::ConversationQuery,
    ) -> JournalFuture<'a, harness::journal::ConversationPage> {
        self.inner.list(listing)
    }

    fn delete<'a>(&'a self, id: &'a str) -> JournalFuture<'a, bool> {
        self.inner.delete(id)
    }
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_fails_is_an_error_and_the_next_message_goes_on() {
    let journal = Failing::default();
    let agent = Agent::builder(echo()).build().unwrap();
    let chats = Chats::new(&agent, &journal);
    for (how, id) in [(1, "a"), (2, "b")] {
        journal.how.store(how, Ordering::SeqCst);
        assert_eq!(chats.send(id, "lost").await.unwrap_err().kind(), ErrorKind::Journal);
        assert_eq!(chats.watch(id).await.unwrap_err().kind(), ErrorKind::Journal);
        journal.how.store(0, Ordering::SeqCst);
        assert!(chats.send(id, "kept").await.unwrap().finish().await.is_ok());
        // It fails in the middle of a run.
        let run = chats.send(id, "in the middle").await.unwrap();
        sleep(Duration::from_millis(500)).await;
        journal.how.store(how, Ordering::SeqCst);
        let stopped = run.finish().await.unwrap_err();
        assert_eq!(stopped.error().unwrap().kind(), ErrorKind::Journal, "{stopped}");
        journal.how.store(0, Ordering::SeqCst);
        let reply = chats.send(id, "again").await.unwrap().finish().await.unwrap();
        assert!(
            reply.transcript().messages().iter().any(|message| message.text() == "in the middle")
        );
        chats.send(id, "and on").await.unwrap().finish().await.unwrap();
    }
    chats.close().await;
}

#[tokio::test(start_paused = true)]
async fn who_has_gone_on_elsewhere_is_heard_after_one_error() {
    let journal = MemoryJournal::new();
    let agent = Agent::builder(echo()).build().unwrap();
    let chats = Chats::new(&agent, &journal);
    chats.send("a", "one").await.unwrap().finish().await.unwrap();
    // Another process writes although the conversation is held.
    let there = journal.read("a", 0).await.unwrap();
    let facts = there.facts;
    let more = [facts[0].clone(), facts[1].clone()];
    journal.append("a", there.head, &more).await.unwrap();
    let lost = chats.send("a", "two").await.unwrap().finish().await.unwrap_err();
    assert_eq!(lost.error().unwrap().kind(), ErrorKind::Conflict, "{lost}");
    let reply = chats.send("a", "three").await.unwrap().finish().await.unwrap();
    assert_eq!(reply.text(), "You say three indeed.");
    assert_eq!(journal.read("a", 0).await.unwrap().facts.len(), facts.len() * 2 + 2);
}

#[tokio::test(start_paused = true)]
async fn a_resumed_run_is_a_run_of_its_own() {
    let gate = Gate::new();
    let model =
        ScriptedProvider::new([reply().text("Once upon").wait_for(&gate), reply().text("a time.")]);
    let (chats, _) = chats(model);
    let run = chats.send("a", "Tell.").await.unwrap();
    sleep(Duration::from_millis(1)).await;
    chats.stop("a");
    run.finish().await.unwrap_err();
    let mut run = chats.resume("a").await.unwrap();
    let seen = all(&mut run).await;
    assert!(matches!(seen[0].event.as_event(), Event::RunStarted { said: None }), "{seen:?}");
    assert_eq!(run.finish().await.unwrap().text(), "a time.");
    let nothing = chats.resume("a").await.unwrap().finish().await.unwrap_err();
    assert_eq!(nothing.error().unwrap().kind(), ErrorKind::Transcript);
    // A run that could not begin hides nothing from those who come later.
    let mut late = chats.watch("a").await.unwrap();
    chats.close().await;
    assert!(words(&events(&late.by_ref().collect::<Vec<_>>().await)).ends_with("a time."));
}

#[tokio::test(start_paused = true)]
async fn the_facts_of_a_run_with_calls_tell_what_its_watchers_saw() {
    /// Adds.
    #[tool(side_effects = "write")]
    fn add(
        /** One */
        a: i64,
        /** Another */
        b: i64,
    ) -> i64 {
        a + b
    }
    /// Is never allowed.
    #[tool(side_effects = "write")]
    fn secret() -> i64 {
        0
    }
    let model = ScriptedProvider::new([
        reply().reasoning("Hm.").text("I add.").call("add", json!({"a": 1, "b": 2})),
        reply().call("secret", json!({})).call("add", json!({"a": 3, "b": 4})),
        reply().text("3 and 7."),
    ]);
    let permissions = harness::Permissions::default().allow("add").deny("secret", "nobody may");
    let agent = Agent::builder(model).tools(tools![add, secret]).permissions(permissions);
    let journal = MemoryJournal::new();
    let agent = agent.build().unwrap();
    let chats = Chats::new(&agent, &journal);
    let mut run = chats.send("a", "Add.").await.unwrap();
    let seen = events(&all(&mut run).await);
    chats.close().await;
    let again = Chats::new(&agent, &journal);
    let watcher = again.watch("a").await.unwrap();
    let count = joined(&seen).len();
    let facts: Vec<Numbered> = watcher.take(count).collect().await;
    let numbers: Vec<u64> = facts.iter().map(|it| it.number).collect();
    assert_eq!(numbers, Vec::from_iter(1..=count as u64));
    let without_times = |events: &[EventBuf]| {
        let json = events.iter().map(|event| serde_json::to_string(event).unwrap());
        let mut lines: Vec<String> = json.collect();
        for line in &mut lines {
            if let Some(at) = line.find(",\"elapsed_ms\"") {
                line.truncate(at);
            }
        }
        lines
    };
    assert_eq!(without_times(&events(&facts)), without_times(&joined(&seen)));
}
