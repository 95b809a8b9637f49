//! Calls whose arguments do not fit: nobody is asked about them, so nothing may come of them but what is wrong with them.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use harness::{
    Agent, CallOutcome, Chat, Message, SideEffect, SideEffects, State, Tool,
    policy::ApprovalRequest,
    testing::{ScriptedProvider, reply},
    tool, tools,
};
use serde_json::{Value, json};

const MUTATE: SideEffects = SideEffects::of(&[SideEffect::Mutate]);

type Asked = Arc<Mutex<Vec<ApprovalRequest>>>;

/// A model that calls a tool once, with these arguments.
fn calls(name: &'static str, arguments: Value) -> ScriptedProvider {
    ScriptedProvider::answering(move |request| match request.results().next() {
        Some(_) => reply().text("Done."),
        None => reply().call(name, arguments.clone()),
    })
}

fn person(asked: &Asked) -> impl harness::policy::Approver + use<> {
    let asked = Arc::clone(asked);
    move |question: ApprovalRequest| {
        asked.lock().expect("unpoisoned").push(question.clone());
        async move { question.no("no") }
    }
}

fn results(chat: &Chat) -> Vec<(CallOutcome, String)> {
    let results = chat.transcript().messages().iter().flat_map(Message::results);
    results.map(|result| (result.outcome(), result.to_text())).collect()
}

#[tokio::test]
async fn the_program_gets_no_call_of_an_external_tool_whose_arguments_do_not_fit() {
    let schema = json!({"type": "object", "properties": {"to": {"type": "string"}}});
    // With `write`, nobody is asked anyway.
    for effects in [MUTATE, SideEffects::of(&[SideEffect::Write])] {
        let pay = Tool::external("pay", "Pays.", schema.clone(), effects);
        let asked = Asked::default();
        let agent = Agent::builder(calls("pay", json!({"to": 7}))).tools([pay]);
        let agent = agent.approver(person(&asked)).build().expect("an agent");
        let mut chat = agent.chat();
        let ended = chat.send("Pay.").await.map(|reply| reply.text().to_owned());
        assert_eq!(chat.waiting(), [], "{effects}");
        assert_eq!(ended.expect("an answer"), "Done.");
        assert_eq!(asked.lock().expect("unpoisoned").len(), 0, "{effects}");
        let (outcome, text) = results(&chat).remove(0);
        assert_eq!(outcome, CallOutcome::Failed);
        assert!(text.contains("`to`"), "{text}");
    }
}

/// How often arguments have to be read before they fit.
static UNTIL: AtomicUsize = AtomicUsize::new(0);

/// A file that must be there.
#[derive(schemars::JsonSchema)]
struct Existing(#[expect(dead_code, reason = "it is only read")] String);

impl<'de> serde::Deserialize<'de> for Existing {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let path = String::deserialize(from)?;
        let waits = |left: usize| left.checked_sub(1);
        match UNTIL.fetch_update(Ordering::SeqCst, Ordering::SeqCst, waits) {
            Ok(_) => Err(serde::de::Error::custom("there is no such file")),
            Err(_) => Ok(Self(path)),
        }
    }
}

/// How many files were sent.
#[derive(Clone, Default)]
struct Sent(Arc<AtomicUsize>);

/// Sends a file.
#[tool(side_effects = "mutate")]
fn send(
    sent: State<Sent>,
    /** Which one */
    file: Existing,
) {
    let _ = file;
    sent.0.fetch_add(1, Ordering::SeqCst);
}

/// Whether the arguments fit may depend on files and other things outside.
#[tokio::test]
async fn arguments_that_fit_only_later_are_asked_about_or_do_not_run() {
    for late in 0..8 {
        UNTIL.store(late, Ordering::SeqCst);
        let (asked, sent) = (Asked::default(), Sent::default());
        let agent = Agent::builder(calls("send", json!({"file": "a"})));
        let agent = agent.tools(tools![send]).state(sent.clone()).approver(person(&asked));
        let mut chat = agent.build().expect("an agent").chat();
        chat.send("Send it.").await.expect("an answer");
        assert_eq!(sent.0.load(Ordering::SeqCst), 0, "{late}: it was sent, and nobody was asked");
        let told = results(&chat).remove(0);
        let was_asked = !asked.lock().expect("unpoisoned").is_empty();
        let expected = match was_asked {
            true => [CallOutcome::Denied].as_slice(),
            false => &[CallOutcome::Failed, CallOutcome::NotStarted],
        };
        assert!(expected.contains(&told.0), "{late}: {told:?}");
    }
}
