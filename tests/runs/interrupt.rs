//! Stopping a run at every point at which it can be stopped. At each point the conversation stays
//! valid, tells the truth about each call, keeps what was shown, and continues.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{FutureExt as _, StreamExt as _, stream};
use harness::{
    Agent, CallOutcome, CancellationToken, Chat, Event, Message, Outcome, Provider, Role,
    StopReason, StreamEvent, Tool, ToolResult, Transcript,
    journal::LimitKind,
    policy::{ApprovalRequest, FallbackProvider, Guardrails, RetryPolicy, RetryProvider},
    provider::{EventStream, Request},
    testing::{Gate, ScriptedProvider, ScriptedReply, reply},
};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    probe::{Log, MUTATE, READ, WRITE, Work, tool},
    strict,
    transcripts::obeys,
};

/// A conversation to be stopped: a script, tools, and what they do.
struct Scenario {
    name: &'static str,
    script: fn() -> Vec<ScriptedReply>,
    around: Around,
}

/// What stands between the agent and the model.
#[derive(Clone, Copy)]
enum Around {
    Nothing,
    Retry,
    Fallback,
}

impl Around {
    fn provider(self, model: ScriptedProvider) -> Box<dyn Provider> {
        let model = Breathing(model);
        match self {
            Self::Nothing => Box::new(model),
            Self::Retry => {
                let policy = RetryPolicy { after_output: true, ..RetryPolicy::default() };
                Box::new(RetryProvider::new(model, policy).with_seed(1))
            }
            Self::Fallback => {
                let down = ScriptedProvider::new([reply().overloaded(), reply().overloaded()]);
                Box::new(FallbackProvider::new(Breathing(down)).or(model))
            }
        }
    }
}

/// Words, thinking, calls that run together, a barrier, a failing tool, an unknown one, approval,
/// and calls that start while the model still speaks.
const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "words",
        script: || vec![reply().text("One two three four five six.")],
        around: Around::Nothing,
    },
    Scenario {
        name: "thinking, then words",
        script: || {
            vec![reply().reasoning("Unsigned.").signed_reasoning("Signed.", "s").text("Words.")]
        },
        around: Around::Nothing,
    },
    Scenario {
        name: "reads that run together",
        script: || {
            let calls = reply().text("Look.").call("look", json!({})).call("peek", json!({}));
            vec![calls, reply().text("Seen.")]
        },
        around: Around::Nothing,
    },
    Scenario {
        name: "a read, a write, a read",
        script: || {
            let calls = reply().call("look", json!({})).call("write", json!({}));
            vec![calls.call("peek", json!({})), reply().text("Done.")]
        },
        around: Around::Nothing,
    },
    Scenario {
        name: "several turns, a failure, an unknown name, broken arguments",
        script: || {
            vec![
                reply().text("First.").call("fail", json!({})).call("nothing", json!({})),
                reply().call_text("write", "{\"a\":").call("write", json!({})),
                reply().text("Done."),
            ]
        },
        around: Around::Nothing,
    },
    Scenario {
        name: "approval",
        script: || {
            let calls = reply().call("pay", json!({})).call("look", json!({}));
            vec![calls, reply().text("Paid.")]
        },
        around: Around::Nothing,
    },
    Scenario {
        name: "calls while the model still speaks",
        script: || {
            let calls = reply().call("look", json!({})).call("peek", json!({}));
            vec![calls.text("And a long tail of words after the calls."), reply().text("Done.")]
        },
        around: Around::Nothing,
    },
    Scenario {
        name: "a failing connection",
        script: || vec![reply().call("write", json!({})), reply().text("So f").overloaded()],
        around: Around::Nothing,
    },
    Scenario {
        name: "an answer that is cut off",
        script: || vec![reply().text("So ").call("look", json!({})).text("far").cut()],
        around: Around::Nothing,
    },
    Scenario {
        name: "words between calls, and after them",
        script: || {
            let calls = reply().text("A ").call("look", json!({})).text("b ");
            vec![calls.call("write", json!({})).text("c."), reply().text("Done.")]
        },
        around: Around::Nothing,
    },
    Scenario {
        name: "a provider that is asked again",
        script: || {
            vec![
                reply().overloaded(),
                reply().text("Look.").call("look", json!({})).call("write", json!({})),
                reply().text("So f").overloaded(),
                reply().text("So far, so good."),
            ]
        },
        around: Around::Retry,
    },
    Scenario {
        name: "a call of an answer that is begun again",
        script: || {
            let broken = reply().call("peek", json!({})).text("and").overloaded();
            vec![broken, reply().text("Anew.").call("look", json!({})), reply().text("Done.")]
        },
        around: Around::Retry,
    },
    Scenario {
        name: "a provider that is down",
        script: || vec![reply().text("Here.").call("look", json!({})), reply().text("Done.")],
        around: Around::Fallback,
    },
];

fn tools(log: &Log) -> Vec<Tool> {
    vec![
        tool("look", READ, log, Work::Steps(3)),
        tool("peek", READ, log, Work::Steps(1)),
        tool("write", WRITE, log, Work::Steps(2)),
        tool("pay", MUTATE, log, Work::Steps(2)),
        tool("fail", READ, log, Work::Fails),
    ]
}

/// A provider that takes a breath before each event, so that a run can be stopped between any
/// two.
struct Breathing(ScriptedProvider);

impl Provider for Breathing {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn model(&self) -> &str {
        self.0.model()
    }

    fn stream<'a>(&'a self, request: Request<'a>) -> EventStream<'a> {
        Box::pin(self.0.stream(request).then(|event| async {
            tokio::task::yield_now().await;
            event
        }))
    }
}

struct Setting {
    log: Log,
    model: ScriptedProvider,
    chat: Chat,
    shown: Arc<Mutex<String>>,
}

impl Setting {
    fn new(scenario: &Scenario) -> Self {
        let log = Log::default();
        // After the script, the model says the same to everything.
        let mut left = (scenario.script)();
        left.push(reply().text("Back."));
        let model = ScriptedProvider::new(left);
        let approver = |question: ApprovalRequest| async move {
            tokio::task::yield_now().await;
            question.yes()
        };
        let agent = Agent::builder(scenario.around.provider(model.clone()))
            .tools(tools(&log))
            .approver(approver);
        let chat = agent.build().expect("an agent").chat();
        Self { log, model, chat, shown: Arc::default() }
    }

    fn watch(&self) -> impl FnMut(Event<'_>) + Send + use<> {
        let shown = Arc::clone(&self.shown);
        move |event| match event {
            Event::TurnStarted { .. } | Event::Discarded { .. } => {
                shown.lock().expect("unpoisoned").clear()
            }
            Event::Text(text) => shown.lock().expect("unpoisoned").push_str(text),
            _ => {}
        }
    }

    /// Checks every promise after a stop.
    async fn check(mut self, at: &str) {
        let transcript = self.chat.transcript().clone();
        obeys(transcript.sendable().unwrap_or_else(|err| panic!("{at}: {err}")));
        let shown = self.shown.lock().expect("unpoisoned").clone();
        if !shown.trim().is_empty() {
            let last = transcript.messages().iter().rev().find(|m| m.role() == Role::Assistant);
            let kept = last.map(|message| message.text()).unwrap_or_default();
            assert!(kept.starts_with(&shown), "{at}: {shown:?} was shown, {kept:?} was kept");
        }
        tells_the_truth(&transcript, &self.log.lines(), at);
        assert_eq!(self.model.open_streams(), 0, "{at}: a stream is still open");
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        assert_eq!(tasks, 0, "{at}: a task is left");

        // What would be sent is accepted by the strictest server of each vendor.
        let tools_told = self.chat.agent().tools().schemas();
        let mut asked = transcript.clone();
        asked.push(Message::user("Go on.")).unwrap_or_else(|err| panic!("{at}: {err}"));
        strict::all_wires(&asked, tools_told).unwrap_or_else(|err| panic!("{at}: {err}"));

        // A clone of what was written down is the same conversation.
        let written = serde_json::to_string(&transcript).expect("JSON");
        let read: Transcript = serde_json::from_str(&written).expect("lawful");
        assert_eq!(read, transcript, "{at}");

        // What was said is never changed by going on.
        let before = transcript.messages().len();
        let model = ScriptedProvider::new([reply().text("Back.")]);
        let agent = Agent::builder(model.clone()).tools(tools(&self.log)).build();
        let mut next = agent.expect("an agent").chat_from(transcript.clone());
        let answer = next.send("Go on.").await.unwrap_or_else(|err| panic!("{at}: {err}"));
        assert_eq!(answer.text(), "Back.", "{at}");
        assert_eq!(&next.transcript().messages().range(..before), transcript.messages(), "{at}");
        // The chat itself goes on too, wherever its script stands.
        let _ = self.chat.send("Go on.").await;
        obeys(self.chat.transcript().sendable().unwrap_or_else(|err| panic!("{at}: {err}")));
        assert_eq!(
            &self.chat.transcript().messages().range(..before),
            transcript.messages(),
            "{at}"
        );
    }
}

/// Compares what the model is told of each call with what the tools wrote down. Each tool is
/// called once in a scenario, so that its lines are the call's.
fn tells_the_truth(transcript: &Transcript, log: &[String], at: &str) {
    let calls = transcript.messages().iter().flat_map(|message| message.calls());
    let results: Vec<&ToolResult> =
        transcript.messages().iter().flat_map(|message| message.results()).collect();
    for call in calls {
        let result = results.iter().find(|result| result.call_id() == call.id());
        let result = result.unwrap_or_else(|| panic!("{at}: `{}` has no result", call.name()));
        let (began, ended) = (
            log.contains(&format!("begin {}", call.name())),
            log.contains(&format!("end {}", call.name())),
        );
        let whole = call.arguments() == "{}";
        let told = result.outcome();
        let true_told = match told {
            CallOutcome::Succeeded => ended,
            // Not a call of a tool that exists with arguments that fit, or one that fails.
            CallOutcome::Failed => !ended || !whole,
            CallOutcome::NotStarted | CallOutcome::Denied => !began || !whole,
            CallOutcome::StoppedReading => {
                matches!(call.name(), "look" | "peek" | "fail" | "nothing")
            }
            CallOutcome::InDoubt => call.name() == "write" || call.name() == "pay",
            CallOutcome::StillRunning => panic!("{at}: no tool of these scenarios runs on"),
        };
        assert!(true_told, "{at}: `{}` is told as {told:?}, but: {log:?}", call.name());
    }
}

/// Polls a future so many times, then gives up on it.
struct Polls<F> {
    future: F,
    left: usize,
}

impl<F: Future + Unpin> Future for Polls<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        Pin::new(&mut self.future).poll(context).map(Some)
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_run_at_every_poll_leaves_the_truth() {
    let mut points = 0;
    for scenario in SCENARIOS {
        for polls in 0.. {
            let mut setting = Setting::new(scenario);
            let watch = setting.watch();
            let run = setting.chat.send("Go.").on_event(watch).into_future();
            let ended = Polls { future: run, left: polls }.await.is_some();
            setting.check(&format!("{}, dropped after {polls} polls", scenario.name)).await;
            points += 1;
            if ended {
                break;
            }
        }
    }
    println!("dropped at {points} points of {} scenarios", SCENARIOS.len());
    assert!(points > 100, "only {points} points: the scripts are too short to prove anything");
}

#[tokio::test(start_paused = true)]
async fn cancelling_the_run_at_every_poll_ends_it_as_cancelled() {
    let mut points = 0;
    for scenario in SCENARIOS {
        for polls in 0.. {
            let mut setting = Setting::new(scenario);
            let (watch, token) = (setting.watch(), CancellationToken::new());
            let run = setting.chat.send("Go.").cancel_with(token.clone()).on_event(watch);
            let mut run = run.into_future();
            let at = format!("{}, cancelled after {polls} polls", scenario.name);
            let early = Polls { future: &mut run, left: polls }.await;
            token.cancel();
            let done = early.is_some();
            let ended = match early {
                Some(ended) => ended,
                None => run.as_mut().await,
            };
            drop(run);
            if let Err(stopped) = &ended {
                let outcome = stopped.outcome();
                assert!(outcome == Outcome::Cancelled || outcome == Outcome::Failed, "{at}");
                assert_eq!(stopped.transcript(), setting.chat.transcript(), "{at}");
            }
            setting.check(&at).await;
            points += 1;
            if done {
                break;
            }
        }
    }
    println!("cancelled after {points} numbers of polls of {} scenarios", SCENARIOS.len());
    assert!(points > 100, "only {points} points");
}

#[tokio::test(start_paused = true)]
async fn cancelling_the_run_at_every_event_ends_it_as_cancelled() {
    let mut points = 0;
    for scenario in SCENARIOS {
        for events in 0.. {
            let mut setting = Setting::new(scenario);
            let token = CancellationToken::new();
            if events == 0 {
                token.cancel();
            }
            let (mut watch, stop, mut seen) = (setting.watch(), token.clone(), 0);
            let run = setting.chat.send("Go.").cancel_with(token.clone()).on_event(move |event| {
                watch(event);
                seen += 1;
                if seen == events {
                    stop.cancel();
                }
            });
            let ended = run.await;
            let at = format!("{}, cancelled at event {events}", scenario.name);
            let cancelled = token.is_cancelled();
            if let Err(stopped) = &ended {
                let outcome = stopped.outcome();
                assert!(outcome == Outcome::Cancelled || outcome == Outcome::Failed, "{at}");
                assert_eq!(stopped.transcript(), setting.chat.transcript(), "{at}");
            }
            setting.check(&at).await;
            points += 1;
            if !cancelled {
                break;
            }
        }
    }
    println!("cancelled at {points} points of {} scenarios", SCENARIOS.len());
    assert!(points > 80, "only {points} points");
}

/// A model that says a word and then nothing.
struct Silent;

impl Provider for Silent {
    fn name(&self) -> &str {
        "silent"
    }

    fn model(&self) -> &str {
        "silent"
    }

    fn stream<'a>(&'a self, _: Request<'a>) -> EventStream<'a> {
        let word = StreamEvent::TextDelta { block: 0, text: "Well".into() };
        Box::pin(stream::iter([Ok(word)]).chain(stream::pending()))
    }
}

#[tokio::test(start_paused = true)]
async fn what_stops_a_run_is_heard_at_once_while_the_model_says_nothing() {
    const MINUTE: Duration = Duration::from_secs(60);
    for by_the_clock in [false, true] {
        let limit = if by_the_clock { MINUTE } else { MINUTE * 60 };
        let agent = Agent::builder(Silent).guardrails(Guardrails::default().time(limit)).build();
        let (mut chat, token) = (agent.expect("an agent").chat(), CancellationToken::new());
        let mut run = chat.send("Go.").cancel_with(token.clone()).into_future();
        // Somebody else waited first, and is gone.
        assert!((&mut run).now_or_never().is_none());
        let (begun, program) = (Instant::now(), token.clone());
        tokio::spawn(async move {
            tokio::time::sleep(MINUTE).await;
            if !by_the_clock {
                program.cancel();
            }
        });
        let ended = tokio::time::timeout(MINUTE * 30, run).await.expect("it was not woken");
        let stopped = ended.expect_err("nothing was said");
        let outcome =
            if by_the_clock { Outcome::Limit(LimitKind::Time) } else { Outcome::Cancelled };
        assert_eq!((stopped.outcome(), stopped.text()), (outcome, "Well\n\n[interrupted]"));
        assert_eq!(begun.elapsed().as_secs(), 60);
    }
}

/// A model that is never waited for: all of its answer is here at once.
struct Hasty;

impl Provider for Hasty {
    fn name(&self) -> &str {
        "hasty"
    }

    fn model(&self) -> &str {
        "hasty"
    }

    fn stream<'a>(&'a self, _: Request<'a>) -> EventStream<'a> {
        let (id, name) = ("call_1".to_owned(), "look".to_owned());
        let call = [
            StreamEvent::ToolCallStart { block: 0, id, name },
            StreamEvent::ToolCallDelta { block: 0, json: "{}".to_owned() },
            StreamEvent::ToolCallEnd { block: 0 },
        ];
        let word = |_| StreamEvent::TextDelta { block: 1, text: "la".to_owned() };
        let words = (0..100_000).map(word);
        let end = StreamEvent::Completed { stop: StopReason::ToolCalls, usage: Box::default() };
        Box::pin(stream::iter(call.into_iter().chain(words).chain([end]).map(Ok)))
    }
}

#[tokio::test]
async fn a_model_that_is_never_waited_for_is_stopped_by_another_task() {
    let agent = Agent::builder(Hasty).build().expect("an agent");
    let token = CancellationToken::new();
    let run = agent.run("Go.").cancel_with(token.clone());
    let other = tokio::spawn(async move { token.cancel() });
    let stopped = run.await.expect_err("no answer");
    assert_eq!(stopped.outcome(), Outcome::Cancelled, "{}", stopped.text().len());
    other.await.expect("it was cancelled");
}

#[tokio::test]
async fn a_tool_that_is_never_waited_for_keeps_no_stop_away() {
    let log = Log::default();
    let agent = Agent::builder(Hasty).tools([tool("look", READ, &log, Work::Hasty)]);
    let token = CancellationToken::new();
    let mut heard = 0;
    let run = agent.build().expect("an agent").run("Go.").cancel_with(token.clone());
    let run = run.on_event(|event| {
        if let Event::Text(_) = event {
            heard += 1;
            if heard == 1000 {
                token.cancel();
            }
        }
    });
    assert_eq!(run.await.expect_err("no answer").outcome(), Outcome::Cancelled);
    assert_eq!((heard, log.lines()), (1000, vec!["begin look".to_owned()]));
}

#[tokio::test]
async fn a_panic_in_the_watcher_leaves_the_truth() {
    let mut setting = Setting::new(&SCENARIOS[3]);
    let run = setting.chat.send("Go.").on_event(|event| {
        assert!(!matches!(event, Event::ToolResult { .. }), "the screen is gone");
    });
    let stopped = run.await.expect_err("nobody can watch it any more");
    assert_eq!(stopped.outcome(), Outcome::Failed);
    let told = stopped.error().expect("why").to_string();
    assert_eq!(told, "the function given to `on_event` panicked: the screen is gone");
    setting.check("a panic in the watcher").await;
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_does_not_listen_is_waited_for_and_told_in_doubt() {
    let (log, gate) = (Log::default(), Gate::new());
    let model = ScriptedProvider::new([reply().call("write", json!({}))]);
    let deaf = tool("write", WRITE, &log, Work::Gate(gate.clone()));
    let mut chat = Agent::builder(model).tools([deaf]).build().expect("an agent").chat();
    let token = CancellationToken::new();
    let run = chat.send("Go.").cancel_with(token.clone()).into_future();
    let begun = Instant::now();
    let stop = async {
        gate.reached().await;
        token.cancel();
    };
    let (stopped, ()) = tokio::join!(run, stop);
    assert_eq!(stopped.expect_err("no answer").outcome(), Outcome::Cancelled);
    assert_eq!(begun.elapsed().as_millis(), 100, "the time it is given to stop by itself");
    let results = chat.transcript().messages().last().expect("results");
    let result = results.results().next().expect("a result");
    assert_eq!(result.outcome(), CallOutcome::InDoubt);
    assert!(result.to_text().contains("may have partly run"), "{}", result.to_text());
}
