//! A message of the user during a run is heard once, before the model is asked again, and is never
//! lost.

use std::{
    future::IntoFuture as _,
    sync::{Arc, Mutex},
};

use futures_util::FutureExt as _;
use harness::{
    Agent, ErrorKind, Message, Outcome, Role, SideEffects, StopReason, Tool, Transcript,
    agent::{Action, Event, Steering},
    journal::{Fact, Journal, LimitKind, MemoryJournal},
    policy::{ApprovalRequest, Guardrails},
    provider::{Request, Settings},
    testing::{Gate, ScriptedProvider, reply},
    tool::CancellationToken,
    wire::{anthropic, chat, responses},
};
use serde_json::{Value, json};

/// A tool `look` during whose call the user speaks.
fn look(steering: &Steering, words: &'static [&'static str]) -> Tool {
    let steering = steering.clone();
    let schema = json!({"type": "object", "properties": {}});
    Tool::new("look", "Looks.", schema, SideEffects::NONE, move |_, _| {
        let steering = steering.clone();
        Box::pin(async move {
            for said in words {
                steering.say(*said).expect("a message of the user");
            }
            Ok("two files".into())
        })
    })
}

/// Who said what, in order.
fn said(transcript: &Transcript) -> Vec<String> {
    let messages = transcript.messages().iter();
    messages.map(|message| format!("{:?} {}", message.role(), message.text())).collect()
}

/// Two calls in one answer, during which the user speaks twice.
async fn steered_between() -> (ScriptedProvider, Transcript, Steering) {
    let steering = Steering::new();
    let model = ScriptedProvider::new([
        reply().call("look", json!({})).call("look", json!({"again": 1})).text("I look."),
        reply().text("Done."),
    ]);
    let tools = [look(&steering, &["Only the first."])];
    let agent = Agent::builder(model.clone()).tools(tools).build().unwrap();
    let reply = agent.run("Check.").steering(&steering).await.unwrap();
    (model, reply.transcript().clone(), steering)
}

#[tokio::test(start_paused = true)]
async fn what_has_no_word_in_it_is_not_said() {
    let model = ScriptedProvider::answering(|_| reply().text("Hello."));
    let mut chat = Agent::builder(model).build().unwrap().chat();
    chat.send("Hello?").await.unwrap();
    for blank in ["", " ", "\n\t"] {
        let stopped = chat.send(blank).await.unwrap_err();
        assert_eq!(stopped.error().unwrap().kind(), ErrorKind::Transcript);
        assert_eq!(Steering::new().say(blank).unwrap_err().kind(), ErrorKind::Transcript);
    }
    assert_eq!(chat.transcript().messages().len(), 2);
    chat.send("Again?").await.unwrap();
}

#[tokio::test]
async fn a_message_is_heard_after_the_results_and_before_the_model_is_asked() {
    let (model, transcript, steering) = steered_between().await;
    let roles: Vec<Role> = transcript.messages().iter().map(Message::role).collect();
    let (user, said) = (Role::User, Role::Assistant);
    assert_eq!(&roles[..4], [user, said, Role::Tool, user]);
    assert_eq!(roles.last(), Some(&said));
    let requests = model.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[1].last_text(), "Only the first.");
    assert!(steering.unheard().is_empty());
}

/// The transcript up to what was said, as each wire sends it.
fn bodies(transcript: &Transcript) -> [Value; 4] {
    let mut asked = Transcript::default();
    let count = transcript.messages().len() - 1;
    for message in transcript.messages().iter().take(count) {
        asked.push(message.clone()).unwrap();
    }
    let request = || Request::new(&asked).unwrap();
    let (model, settings) = ("m".to_owned(), Settings::default());
    let options =
        anthropic::Options { settings: settings.clone(), ..anthropic::Options::new(&*model) };
    let strict = chat::Options { strict_turns: true, ..chat::Options::new("m") };
    let bodies = [
        anthropic::encode(&request(), &options).unwrap(),
        chat::encode(&request(), &chat::Options::new("m")).unwrap(),
        responses::encode(
            &request(),
            &responses::Options { settings, ..responses::Options::new(model) },
        )
        .unwrap(),
        chat::encode(&request(), &strict).unwrap(),
    ];
    bodies.map(|body| serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn no_wire_puts_it_between_a_call_and_its_result() {
    let (_, transcript, _) = steered_between().await;
    let [anthropic, chat, responses, strict] = bodies(&transcript);

    let messages = anthropic["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages.iter().map(|it| it["role"].as_str().unwrap()).collect();
    let uses = messages.iter().position(|it| it.to_string().contains("\"tool_use\"")).unwrap();
    let results = &messages[uses + 1];
    assert_eq!(roles[uses + 1], "user", "{roles:?}");
    let kinds: Vec<&str> = results["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block["type"].as_str().unwrap())
        .collect();
    assert_eq!(&kinds[..2], ["tool_result", "tool_result"], "results come first");
    assert!(anthropic.to_string().contains("Only the first."));

    let roles = |body: &Value| -> Vec<String> {
        let messages = body["messages"].as_array().unwrap().iter();
        messages.map(|it| it["role"].as_str().unwrap().to_owned()).collect()
    };
    let open = roles(&chat);
    assert_eq!(&open[..5], ["user", "assistant", "tool", "tool", "user"]);

    let items = responses["input"].as_array().unwrap();
    let of = |kind: &str| items.iter().rposition(|it| it["type"] == kind).unwrap();
    assert!(of("function_call") < of("function_call_output"));
    let last = items.last().unwrap().to_string();
    assert!(last.contains("Only the first."), "{last}");

    let strict_roles = roles(&strict);
    for pair in strict_roles.windows(2) {
        let alternates = match (pair[0].as_str(), pair[1].as_str()) {
            ("user", next) => next == "assistant",
            ("assistant", next) => next == "tool" || next == "user",
            (_, next) => next == "tool" || next == "assistant",
        };
        assert!(alternates, "{strict_roles:?}");
    }
    assert!(strict.to_string().contains("Only the first."));
}

#[tokio::test]
async fn a_run_whose_answer_is_done_goes_on_with_it_instead_of_ending() {
    let (steering, gate) = (Steering::new(), Gate::new());
    let model = ScriptedProvider::new([
        reply().text("Both are fine.").wait_for(&gate),
        reply().text("The first is fine."),
    ]);
    let agent = Agent::builder(model).build().unwrap();
    let mut chat = agent.chat();
    let mut heard = Vec::new();
    let run = chat.send("Check.").steering(&steering).on_event(|event| {
        if let Event::Steered { message } = event {
            heard.push(message.text().to_owned());
        }
    });
    let typed = async {
        steering.say("Only the first.").unwrap();
        gate.open();
    };
    let (done, ()) = tokio::join!(async { run.await }, typed);
    let done = done.unwrap();
    assert_eq!((done.turns(), heard), (2, vec!["Only the first.".to_owned()]));
    let expected = [
        "User Check.",
        "Assistant Both are fine.",
        "User Only the first.",
        "Assistant The first is fine.",
    ];
    assert_eq!(said(chat.transcript()), expected);
}

#[tokio::test]
async fn what_was_not_heard_is_given_back_and_is_no_fact() {
    // Stopped, dropped and failed, each while the model answers.
    let steering = Steering::new();
    let token = CancellationToken::new();
    let model = ScriptedProvider::new([reply().text("Hm").stall()]);
    let agent = Agent::builder(model).build().unwrap();
    let mut chat = agent.chat();
    let (stop, keyboard) = (token.clone(), steering.clone());
    let run = chat.send("Check.").steering(&steering).cancel_with(token).on_event(move |event| {
        if let Event::Text(_) = event {
            keyboard.say("Only the first.").unwrap();
            stop.cancel();
        }
    });
    assert_eq!(run.await.unwrap_err().outcome(), Outcome::Cancelled);
    assert!(!said(chat.transcript()).iter().any(|said| said.contains("Only the first")));
    let unheard = steering.unheard();
    assert_eq!(unheard.len(), 1);
    assert_eq!(unheard[0].text(), "Only the first.");
    assert!(steering.unheard().is_empty(), "it is given back once");

    let gate = Gate::new();
    let model = ScriptedProvider::new([reply().text("Hm").wait_for(&gate)]);
    let agent = Agent::builder(model).build().unwrap();
    let mut chat = agent.chat();
    {
        let mut run = std::pin::pin!(chat.send("Check.").steering(&steering).into_future());
        assert!((&mut run).now_or_never().is_none());
        steering.say("Only the second.").unwrap();
        assert!((&mut run).now_or_never().is_none());
    }
    assert_eq!(steering.unheard()[0].text(), "Only the second.");
    assert!(!said(chat.transcript()).iter().any(|said| said.contains("Only the second")));

    let model = ScriptedProvider::new([reply().text("Hm").cut()]);
    let agent = Agent::builder(model).build().unwrap();
    let keyboard = steering.clone();
    let run = agent.run("Check.").steering(&steering).on_event(move |event| {
        if let Event::Text(_) = event {
            keyboard.say("Only the third.").unwrap();
        }
    });
    assert_eq!(run.await.unwrap_err().outcome(), Outcome::Failed);
    assert_eq!(steering.unheard()[0].text(), "Only the third.");
}

#[tokio::test]
async fn the_next_run_hears_what_the_one_before_did_not() {
    let steering = Steering::new();
    steering.say("Be brief.").unwrap();
    let model = ScriptedProvider::new([reply().text("Yes.")]);
    let agent = Agent::builder(model.clone()).build().unwrap();
    agent.run("Is it?").steering(&steering).await.unwrap();
    assert_eq!(model.requests()[0].last_text(), "Be brief.");
}

#[tokio::test]
async fn it_counts_for_limits_as_any_turn() {
    let steering = Steering::new();
    let keyboard = steering.clone();
    let model = ScriptedProvider::answering(|_| reply().text("Yes."));
    let rails = Guardrails::default().turns(2);
    let agent = Agent::builder(model.clone()).guardrails(rails).build().unwrap();
    let run = agent.run("Is it?").steering(&steering).on_event(move |event| {
        if let Event::Text(_) = event {
            keyboard.say("Sure?").unwrap();
        }
    });
    assert_eq!(run.await.unwrap_err().outcome(), Outcome::Limit(LimitKind::Turns));
    assert_eq!(model.requests().len(), 2);
}

#[tokio::test]
async fn while_calls_wait_for_an_approval_it_stays_unheard_and_the_run_that_goes_on_hears_it() {
    let steering = Steering::new();
    let journal = MemoryJournal::new();
    let schema = json!({"type": "object", "properties": {}});
    let effects = SideEffects::of(&[harness::SideEffect::Mutate]);
    let pay =
        Tool::new("pay", "Pays.", schema, effects, |_, _| Box::pin(async { Ok("paid".into()) }));
    let model = ScriptedProvider::new([reply().call("pay", json!({})), reply().text("Paid.")]);
    let keyboard = steering.clone();
    let agent = Agent::builder(model.clone())
        .tools([pay])
        .approver(move |question: ApprovalRequest| {
            keyboard.say("And hurry.").unwrap();
            async move { question.later(None) }
        })
        .build()
        .unwrap();
    let mut chat = agent.open(&journal, "chat").await.unwrap();
    let stopped = chat.send("Pay.").steering(&steering).await.unwrap_err();
    assert_eq!(stopped.outcome(), Outcome::Waiting);
    let approval = chat.waiting()[0].question().unwrap().yes();
    chat.decide(approval).await.unwrap();
    chat.resume().steering(&steering).await.unwrap();
    assert_eq!(model.requests()[1].last_text(), "And hurry.");
    assert!(steering.unheard().is_empty());
}

#[tokio::test]
async fn in_a_journal_it_is_written_before_the_model_is_asked_and_read_again_once() {
    let (steering, journal) = (Steering::new(), MemoryJournal::new());
    let kept: Arc<Mutex<Vec<bool>>> = Arc::default();
    let (facts, seen) = (journal.clone(), Arc::clone(&kept));
    let model = ScriptedProvider::answering(move |request| {
        let page = facts.read("chat", 0).now_or_never().unwrap().unwrap();
        let is_it =
            |fact: &harness::journal::Envelope| matches!(fact.fact(), Ok(Fact::Steered { .. }));
        seen.lock().unwrap().push(page.facts.iter().any(is_it));
        match request.messages().iter().any(|it| it.role() == Role::Tool) {
            true => reply().text("Done."),
            false => reply().call("look", json!({})),
        }
    });
    let tools = [look(&steering, &["Only the first."])];
    let agent = Agent::builder(model).tools(tools).build().unwrap();
    let mut chat = agent.open(&journal, "chat").await.unwrap();
    chat.send("Check.").steering(&steering).await.unwrap();
    assert_eq!(*kept.lock().unwrap(), [false, true]);
    let transcript = chat.transcript().clone();
    drop(chat);
    let again = agent.open(&journal, "chat").await.unwrap();
    assert_eq!(again.transcript(), &transcript);
    let times = said(again.transcript()).iter().filter(|it| it.contains("Only the first")).count();
    assert_eq!(times, 1);
}

#[tokio::test]
async fn steps_take_it_as_a_fact() {
    let model = ScriptedProvider::new([reply().text("Both."), reply().text("The first.")]);
    let agent = Agent::builder(model.clone()).build().unwrap();
    let mut steps = agent.steps("chat", Vec::new()).unwrap();
    assert_eq!(steps.steer("Too early.").unwrap_err().kind(), ErrorKind::Transcript);
    steps.apply(steps.say("Check.".into()).await.unwrap()).unwrap();
    steps.apply(steps.act().await.unwrap()).unwrap();
    assert_eq!(steps.next(), Action::Finish(Outcome::Answered));
    steps.apply(steps.steer("Only the first.").unwrap()).unwrap();
    assert_eq!(steps.next(), Action::CallProvider);
    steps.apply(steps.act().await.unwrap()).unwrap();
    assert_eq!(steps.next(), Action::Finish(Outcome::Answered));
    assert_eq!(model.requests()[1].last_text(), "Only the first.");
}

#[tokio::test]
async fn an_answer_that_is_paused_goes_back_as_it_is_and_the_message_follows() {
    let steering = Steering::new();
    let keyboard = steering.clone();
    let model = ScriptedProvider::new([
        reply().text("Searching").stop(StopReason::Paused),
        reply().text("Found."),
        reply().text("The first."),
    ]);
    let agent = Agent::builder(model.clone()).build().unwrap();
    let run = agent.run("Search.").steering(&steering).on_event(move |event| {
        if let Event::TurnStarted { turn: 1 } = event {
            keyboard.say("Only the first.").unwrap();
        }
    });
    run.await.unwrap();
    let last: Vec<String> = model.requests().iter().map(|it| it.last_text()).collect();
    assert_eq!(last, ["Search.", "Searching", "Only the first."]);
}

#[test]
fn only_a_message_of_the_user_can_be_said() {
    let steering = Steering::new();
    let model = Message::assistant([harness::Block::text("I am the model.")]);
    assert_eq!(steering.say(model).unwrap_err().kind(), ErrorKind::Transcript);
    assert_eq!(
        steering.say(Message::new(Role::User, [])).unwrap_err().kind(),
        ErrorKind::Transcript
    );
    assert!(steering.unheard().is_empty());
}
