//! Steering at random: whatever the user says at any moment, and however runs end, each message is
//! heard once, in order, or returned.

use std::{
    future::IntoFuture as _,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::FutureExt as _;
use harness::{
    Agent, CancellationToken, Guardrails, Limits, Message, Role, SideEffect, SideEffects,
    StopReason, Tool, Transcript,
    agent::Steering,
    journal::{MemoryJournal, SqliteJournal},
    policy::ApprovalRequest,
    provider::Request,
    testing::{FaultyJournal, JournalCall, JournalFault, ScriptedProvider, ScriptedReply, reply},
    wire::chat,
};
use serde_json::{Value, json};

/// A user who speaks at moments that dice choose.
#[derive(Clone)]
struct User {
    dice: Arc<Mutex<fastrand::Rng>>,
    steering: Steering,
    said: Arc<Mutex<Vec<String>>>,
}

impl User {
    fn roll(&self, sides: u32) -> u32 {
        self.dice.lock().expect("unpoisoned").u32(0..sides)
    }

    /// Speaks one time of so many.
    fn speaks(&self, one_of: u32) {
        if self.roll(one_of) == 0 {
            let mut said = self.said.lock().expect("unpoisoned");
            let text = format!("said {}", said.len());
            self.steering.say(text.as_str()).expect("a message of the user");
            said.push(text);
        }
    }

    /// A model that says and asks for anything, and fails in any way.
    fn answers(&self) -> ScriptedReply {
        self.speaks(6);
        let answer = match self.roll(10) {
            0 => reply().text("bye"),
            1 => reply().text("half").cut(),
            2 => reply().overloaded(),
            3 => reply().text("so far").stop(StopReason::Paused),
            4 => reply().text("no").stop(StopReason::Refused),
            5 => reply().text("long").stop(StopReason::Truncated),
            6 => reply().call("look", json!({})).call("pay", json!({})),
            7 => reply().call("look", json!({})).text("so").call("work", json!({"task": "x"})),
            8 => reply().text("hm").call("look", json!({})).cut(),
            _ => reply().call("pay", json!({})).stop(StopReason::Complete),
        };
        answer.tokens(10, 1)
    }

    fn tool(&self, name: &'static str, effect: SideEffect) -> Tool {
        let (user, effects) = (self.clone(), SideEffects::of(&[effect]));
        Tool::new(name, "Does it.", json!({"type": "object"}), effects, move |_, _| {
            user.speaks(3);
            Box::pin(async {
                tokio::task::yield_now().await;
                Ok("done".into())
            })
        })
    }

    fn agent(&self) -> Agent {
        let user = self.clone();
        let model = ScriptedProvider::answering(move |_| user.answers());
        let user = self.clone();
        let person = move |question: ApprovalRequest| {
            user.speaks(3);
            let answer = match user.roll(4) {
                0 => question.later(None),
                1 => question.no("no"),
                _ => question.yes(),
            };
            async move { answer }
        };
        let worker = ScriptedProvider::answering(|_| reply().text("worked").tokens(10, 1));
        let worker = Agent::builder(worker).build().expect("an agent").as_tool("work", "Works.");
        let rails =
            Guardrails::default().turns(1 + self.roll(6)).repetitions(None).repeated_calls(None);
        let tools =
            [self.tool("look", SideEffect::Read), self.tool("pay", SideEffect::Mutate), worker];
        let agent = Agent::builder(model).tools(tools).approver(person);
        agent.guardrails(rails.failed_calls(None)).build().expect("an agent")
    }
}

fn heard(transcript: &Transcript) -> Vec<String> {
    let said = transcript.messages().iter().filter(|it| it.role() == Role::User);
    said.map(Message::text).filter(|text| text.starts_with("said")).collect()
}

/// Checks that what is sent has each result behind its call, with nothing between.
fn can_be_sent(transcript: &Transcript) {
    let mut transcript = transcript.clone();
    transcript.settle();
    if transcript.messages().is_empty() {
        return;
    }
    let request = Request::new(&transcript).expect("a request");
    let body = chat::encode(&request, &chat::Options::new("m")).expect("a body");
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    let mut open: Vec<&Value> = Vec::new();
    for message in body["messages"].as_array().expect("messages") {
        match message["role"].as_str() {
            Some("tool") => {
                let at = open.iter().position(|id| **id == message["tool_call_id"]);
                open.remove(at.expect("a call"));
            }
            _ => assert!(open.is_empty(), "{body}"),
        }
        let calls = message["tool_calls"].as_array();
        open.extend(calls.into_iter().flatten().map(|call| &call["id"]));
    }
    assert!(open.is_empty(), "{body}");
}

#[tokio::test(start_paused = true)]
async fn each_message_is_heard_once_or_given_back_however_runs_end() {
    let (mut told, mut kept) = (0, 0);
    for seed in 0..150 {
        let user = User {
            dice: Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))),
            steering: Steering::new(),
            said: Arc::default(),
        };
        let agent = user.agent();
        let journal = FaultyJournal::new(MemoryJournal::new());
        let in_journal = user.roll(2) == 0;
        let mut chat = match in_journal {
            true => agent.open(&journal, "chat").await.expect("opened"),
            false => agent.chat(),
        };
        for step in 0..8 {
            let what = format!("seed {seed}, step {step}");
            if in_journal && user.roll(4) == 0 {
                let at = journal.counts().appends + u64::from(user.roll(4));
                journal.fail(JournalCall::Append, at, JournalFault::FailBefore);
            }
            let goes_on = chat.can_resume() && user.roll(3) != 0;
            let run = if goes_on { chat.resume() } else { chat.send(format!("u{step}")) };
            let run = match user.roll(4) {
                0 => run.limits(Limits::new().tool_calls(user.roll(3))),
                _ => run,
            };
            let (now, after) = (CancellationToken::new(), CancellationToken::new());
            let run = run.cancel_with(now.clone()).stop_after_turn(after.clone());
            let (stop, speaks, mut events) = (user.roll(40), user.clone(), 0);
            let run = run.steering(&user.steering).on_event(move |_| {
                events += 1;
                speaks.speaks(8);
                if events == stop {
                    now.cancel();
                }
                if events + 20 == stop {
                    after.cancel();
                }
            });
            let mut run = Box::pin(run.into_future());
            let polls = if user.roll(3) == 0 { user.roll(30) } else { u32::MAX };
            for _ in 0..polls {
                if run.as_mut().now_or_never().is_some() {
                    break;
                }
                tokio::task::yield_now().await;
                tokio::time::advance(Duration::from_millis(1)).await;
            }
            drop(run);
            let said = user.said.lock().expect("unpoisoned").clone();
            let heard = heard(chat.transcript());
            assert_eq!(heard, said[..heard.len()], "{what}");
            let unheard = said.len() - heard.len();
            let shown = format!("{:?}", user.steering);
            assert_eq!(shown, format!("Steering {{ unheard: {unheard} }}"), "{what}");
            can_be_sent(chat.transcript());
            if in_journal && user.roll(3) == 0 && chat.save().await.is_ok() {
                drop(chat);
                chat = agent.open(&journal, "chat").await.expect("opened");
                assert_eq!(self::heard(chat.transcript()), heard, "{what}: read again");
            }
        }
        let unheard: Vec<String> = user.steering.unheard().iter().map(Message::text).collect();
        let heard = heard(chat.transcript());
        (told, kept) = (told + heard.len(), kept + unheard.len());
        let all = [heard, unheard].concat();
        assert_eq!(all, *user.said.lock().expect("unpoisoned"), "seed {seed}");
    }
    assert!(told > 500 && kept > 20, "{told} {kept}");
}

#[tokio::test]
async fn between_the_fact_and_the_journal_a_message_is_in_the_chat_and_written_once() {
    for (fault, number) in
        [JournalFault::StopBefore, JournalFault::StopAfter, JournalFault::FailAfter]
            .into_iter()
            .flat_map(|fault| (0..5).map(move |number| (fault, number)))
    {
        let case = format!("{fault:?} {number}");
        let folder = tempfile::tempdir().expect("a folder");
        let kept = SqliteJournal::open(folder.path().join("chats.db")).await.expect("a journal");
        let journal = Arc::new(FaultyJournal::new(kept.clone()));
        journal.fail(JournalCall::Append, number, fault);
        let steering = Steering::new();
        let says = steering.clone();
        let look = Tool::new("look", "Looks.", json!({"type": "object"}), SideEffects::NONE, {
            move |_, _| {
                let said = says.say("said 0").and_then(|()| says.say("said 1"));
                said.expect("a message of the user");
                Box::pin(async { Ok("It is.".into()) })
            }
        });
        let model = ScriptedProvider::answering(|request| {
            match request.messages().iter().any(|it| it.role() == Role::Tool) {
                true => reply().text("Done."),
                false => reply().call("look", json!({})),
            }
        });
        let agent = Agent::builder(model).tools([look]).build().expect("an agent");
        let mut chat = agent.open(&journal, "chat").await.expect("opened");
        let run = chat.send("Go.").steering(&steering).into_future();
        // A write that never ends, and nobody waits for it any more.
        let _ = tokio::time::timeout(Duration::from_millis(200), run).await;
        let heard = heard(chat.transcript());
        let unheard: Vec<String> = steering.unheard().iter().map(Message::text).collect();
        chat.save().await.expect("written");
        assert_eq!(self::heard(chat.transcript()), heard, "{case}");
        drop(chat);
        let chat = agent.open(&kept, "chat").await.expect("opened");
        assert_eq!(
            self::heard(chat.transcript()),
            heard,
            "{case}: what the chat had is written once"
        );
        let all = [heard, unheard].concat();
        assert!(all.is_empty() || all == ["said 0", "said 1"], "{case}: {all:?}");
        can_be_sent(chat.transcript());
    }
}
