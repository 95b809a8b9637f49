//! Watchers of a conversation that another driver drives: they see actions while these go on, and each fact once.

use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};

use harness::{
    Agent, Outcome, SideEffect, SideEffects, Tool,
    agent::{Action, Event, LiveEvents, LiveWatcher, Steps},
    journal::{Envelope, InterruptCause},
    policy::ApprovalRequest,
    testing::{ScriptedProvider, reply},
};
use serde_json::json;

fn tool(name: &'static str, effect: SideEffect, done: &Arc<Mutex<Vec<&'static str>>>) -> Tool {
    let (schema, done) = (json!({"type": "object", "properties": {}}), Arc::clone(done));
    Tool::new(name, "Does it.", schema, SideEffects::of(&[effect]), move |_, _| {
        let done = Arc::clone(&done);
        Box::pin(async move {
            done.lock().expect("unpoisoned").push(name);
            tokio::task::yield_now().await;
            Ok(name.into())
        })
    })
}

/// An agent that reads twice, asks a person before it sends something, and then answers.
fn agent(done: &Arc<Mutex<Vec<&'static str>>>) -> Agent {
    let answers = AtomicUsize::new(0);
    let model = ScriptedProvider::answering(move |request| {
        // No two answers are equal.
        let number = (answers.fetch_add(1, Ordering::Relaxed) + 1).to_string();
        let asked = request.messages().iter().filter(|said| said.results().next().is_some());
        match asked.count() {
            0 => reply()
                .reasoning("Hm.")
                .text_in(["I look ", &number])
                .call_with_id("a", "look", json!({}))
                .call_with_id("b", "look", json!({})),
            1 => reply().text_in(["I send ", &number]).call_with_id("c", "send", json!({})),
            _ => reply().text_in(["It ", "is done ", &number]),
        }
    });
    Agent::builder(model)
        .tools([tool("look", SideEffect::Read, done), tool("send", SideEffect::Network, done)])
        .approver(|question: ApprovalRequest| async move { question.later(None) })
        .early_start(true)
        .build()
        .expect("an agent")
}

/// What a page has that has read these events. A run that waited and goes on is one.
fn page(watcher: &mut LiveWatcher) -> Vec<String> {
    let mut page: Vec<String> = Vec::new();
    while let Some(numbered) = watcher.try_next() {
        let event = numbered.event.as_event();
        let line = match event {
            Event::Discarded { .. } => {
                let turn = page.iter().rposition(|line| line.starts_with("turn"));
                page.truncate(turn.expect("a turn"));
                continue;
            }
            Event::RunStarted { said: None }
            | Event::RunEnded { outcome: Outcome::Waiting, .. }
            | Event::ToolDropped { .. } => continue,
            Event::RunStarted { said: Some(said) } => format!("said {}", said.text()),
            Event::TurnStarted { turn } => format!("turn {turn}"),
            Event::Text(words) | Event::Reasoning(words) => {
                let kind = if matches!(event, Event::Text(_)) { "text" } else { "thought" };
                match page.last_mut().filter(|last| last.starts_with(kind)) {
                    Some(last) => {
                        last.push_str(words);
                        continue;
                    }
                    None => format!("{kind} {words}"),
                }
            }
            Event::ToolCallStart { call, .. } => format!("begins {call}"),
            Event::ToolCallDelta { call, json } => format!("writes {call} {json}"),
            Event::ToolCall(call) => format!("runs {}", call.id()),
            Event::ToolResult { call, result, .. } => {
                format!("result {} {:?} {}", call.id(), result.outcome(), result.to_text())
            }
            Event::ToolWaits { call, .. } => format!("waits {}", call.id()),
            Event::TurnEnded { turn, .. } => format!("ended {turn}"),
            Event::RunEnded { outcome, .. } => format!("end {outcome:?}"),
            other => panic!("{other:?}"),
        };
        page.push(line);
    }
    page
}

/// What a page has that is loaded now.
fn loaded(facts: &[Envelope]) -> Vec<String> {
    let live = Arc::new(LiveEvents::new(&agent(&Arc::default())));
    let mut watcher = live.watch();
    live.apply(0, facts).expect("facts");
    page(&mut watcher)
}

/// The lines without their order: calls that began early are reported before the answer is complete.
fn sorted(mut page: Vec<String>) -> Vec<String> {
    page.sort();
    page
}

/// How an action of a drive comes to nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// It is dropped after so many polls.
    Dropped(usize),
    /// The engine loses its facts.
    Lost,
    /// The same, and another process does the action again.
    Elsewhere,
    /// It is stopped after so many polls.
    Stopped(usize),
}

/// Polls a future at most so often.
async fn polled<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let (mut future, mut left) = (Box::pin(future), times);
    poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        context.waker().wake_by_ref();
        future.as_mut().poll(context).map(Some)
    })
    .await
}

/// Drives a run to its end, with a fault at one action. Returns the facts, what a page has that was there all the
/// time, what was done, and whether the fault came.
async fn drive(fault: Fault, at: usize) -> (Vec<Envelope>, Vec<String>, Vec<&'static str>, bool) {
    let done = Arc::new(Mutex::new(Vec::new()));
    let agent = agent(&done);
    let live = Arc::new(LiveEvents::new(&agent));
    let mut watcher = live.watch();
    let mut seen = Vec::new();
    let open = |facts: Vec<Envelope>| -> Steps {
        agent.steps("live", facts).expect("facts").report_to(&live)
    };
    let mut steps = open(Vec::new());
    steps.apply(steps.say("Go.".into()).await.expect("it is said")).expect("facts");
    let (mut actions, mut came) = (0, false);
    loop {
        let facts = match steps.next() {
            Action::Finish(_) => break,
            Action::AwaitAnswers => {
                let question = steps.waiting()[0].question().expect("a question");
                steps.decided(question.yes()).expect("it waits")
            }
            _ => {
                actions += 1;
                let fault = if actions == at { fault } else { Fault::None };
                came |= fault != Fault::None;
                match fault {
                    Fault::None => steps.act().await.expect("facts"),
                    Fault::Dropped(polls) => {
                        polled(steps.act(), polls).await;
                        steps = open(steps.facts().to_vec());
                        continue;
                    }
                    Fault::Lost => {
                        steps.act().await.expect("facts");
                        steps = open(steps.facts().to_vec());
                        continue;
                    }
                    Fault::Elsewhere => {
                        steps.act().await.expect("facts");
                        let other = agent.steps("live", steps.facts().to_vec()).expect("facts");
                        other.act().await.expect("facts")
                    }
                    Fault::Stopped(polls) => match polled(steps.act(), polls).await {
                        Some(facts) => facts.expect("facts"),
                        None => steps.give_up(InterruptCause::Program).expect("it goes on"),
                    },
                }
            }
        };
        steps.apply(facts).expect("facts that follow");
        // Engines give facts again, and late.
        live.apply(0, &steps.facts()[..steps.facts().len() / 2]).expect("known facts");
    }
    seen.extend(page(&mut watcher));
    let done = done.lock().expect("unpoisoned").clone();
    (steps.facts().to_vec(), seen, done, came)
}

#[tokio::test]
async fn a_page_that_was_there_all_the_time_has_what_one_has_that_is_loaded_later() {
    let (facts, seen, _, _) = drive(Fault::None, 0).await;
    assert_eq!(sorted(seen.clone()), sorted(loaded(&facts)), "{seen:#?}");
    assert_eq!(seen.last().map(String::as_str), Some("end Answered"));
    let mut faults = vec![Fault::Lost, Fault::Elsewhere];
    faults.extend((1..8).flat_map(|polls| [Fault::Dropped(polls), Fault::Stopped(polls)]));
    let mut count = 0;
    for fault in faults {
        for at in 1.. {
            let (facts, seen, done, came) = drive(fault, at).await;
            if !came {
                break;
            }
            count += 1;
            let later = loaded(&facts);
            assert_eq!(sorted(seen.clone()), sorted(later), "{fault:?} at {at}: {seen:#?}");
            let sent = done.iter().filter(|it| **it == "send").count();
            assert!(sent <= 1, "{fault:?} at {at}: {done:?}");
        }
    }
    assert!(count > 60, "{count}");
}

#[tokio::test]
async fn words_are_seen_before_their_facts_and_taken_back_where_these_never_come() {
    let done = Arc::new(Mutex::new(Vec::new()));
    let agent = agent(&done);
    let live = Arc::new(LiveEvents::new(&agent));
    let mut steps = agent.steps("live", Vec::new()).expect("facts").report_to(&live);
    steps.apply(steps.say("Go.".into()).await.expect("it is said")).expect("facts");
    let mut watcher = live.watch();
    let lost = steps.act().await.expect("facts");
    let shown = page(&mut watcher);
    assert!(shown.contains(&"text I look 1".to_owned()), "{shown:?}");
    drop(lost);
    let stopped = steps.give_up(InterruptCause::Program).expect("it goes on");
    steps.apply(stopped).expect("facts");
    let taken_back = std::iter::from_fn(|| watcher.try_next())
        .filter(|it| matches!(it.event.as_event(), Event::Discarded { .. }));
    assert_eq!(taken_back.count(), 1);
}

#[tokio::test]
async fn facts_with_a_gap_are_refused() {
    let (facts, ..) = drive(Fault::None, 0).await;
    let live = LiveEvents::new(&agent(&Arc::default()));
    live.apply(0, &facts[..2]).expect("facts");
    let error = live.apply(3, &facts[3..]).expect_err("a gap");
    assert!(error.to_string().contains("2 facts are known"), "{error}");
    live.apply(1, &facts[1..]).expect("the rest");
    assert_eq!(live.facts(), facts.len());
    assert!(!live.is_going());
}
