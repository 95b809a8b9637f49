//! Random conversations: whatever is cleared or summarized, what must not be lost is sent, and each
//! view is made from the facts alone.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use fastrand::Rng;
use harness::{
    Agent, CallOutcome, Error, ErrorKind, Guardrails, Message, Role, SideEffects, Tool, ToolResult,
    Transcript,
    agent::Machine,
    context::Window,
    journal::{Fact, Journal, MemoryJournal},
    testing::{ScriptedProvider, ScriptedReply, reply},
};
use serde_json::json;

use crate::{
    context_moves::written,
    probe::{READ, WRITE},
    summaries::{asks, summary},
};

/// So many, and `HARNESS_CONVERSATIONS=1000` has more of them.
const CONVERSATIONS: u64 = 50;

/// Words of a length by chance, which nobody else says.
fn words(rng: &mut Rng, most: usize) -> String {
    let size = rng.usize(1..most);
    format!("<{:016x}>{}", rng.u64(..), "w".repeat(size))
}

fn tool(name: &'static str, effects: SideEffects, seed: u64) -> Tool {
    let calls = AtomicU64::new(0);
    Tool::new(name, "Does.", json!({"type": "object"}), effects, move |_, _| {
        let seed = seed.wrapping_add(calls.fetch_add(1, Ordering::Relaxed));
        Box::pin(async move {
            let mut rng = Rng::with_seed(seed);
            if rng.u8(..5) == 0 {
                // A panic that nobody reads of.
                std::panic::resume_unwind(Box::new("half way"));
            }
            Ok(words(&mut rng, 2_000).into())
        })
    })
}

/// What the model says, by chance.
fn says(rng: &mut Rng, is_asked_for_summary: bool) -> ScriptedReply {
    if is_asked_for_summary {
        return match rng.u8(..12) {
            0 => reply().text("No."),
            1 => reply().error(Error::new(ErrorKind::Api, "no").with_status(400)),
            _ => reply().text(summary("none")),
        };
    }
    let call = |it: ScriptedReply, rng: &mut Rng| {
        let name = *rng.choice(&["look", "store", "wipe"]).expect("a name");
        match name {
            "store" => it.call(name, json!({"n": rng.u32(..), "text": words(rng, 2_000)})),
            _ => it.call(name, json!({"n": rng.u32(..)})),
        }
    };
    match rng.u8(..20) {
        0 => reply().error(
            Error::new(ErrorKind::Api, "prompt is too long: 3100 tokens > 3000 maximum")
                .with_status(400),
        ),
        1 => reply().text(words(rng, 400)).cut(),
        2..=8 => call(reply().signed_reasoning("hm", "c2ln"), rng),
        9..=10 => call(call(reply(), rng), rng),
        _ => reply().text(words(rng, 800)),
    }
}

fn agent(seed: u64, rng: &Arc<Mutex<Rng>>) -> Agent {
    let rng = Arc::clone(rng);
    let model = ScriptedProvider::answering(move |request| {
        says(&mut rng.lock().expect("no panic"), asks(request))
    });
    let tools = [
        tool("look", READ, seed),
        tool("store", WRITE, seed),
        tool("wipe", SideEffects::ALL, seed),
    ];
    let built = Agent::builder(model).tools(tools).window(Window::new().tokens(4_000));
    built.guardrails(Guardrails::default().turns(40)).build().expect("an agent")
}

/// What the law says of a view of this transcript.
fn holds(machine: &Machine, pins: &[String], seed: u64, shorter: &mut u64) {
    let (all, sent) = (machine.transcript(), machine.sent());
    let texts: Vec<String> = sent.messages().iter().map(Message::text).collect();
    let told = texts.join("\n");
    if machine.is_going() && sent.sendable().is_err() {
        return;
    }
    // A view is a transcript: it begins with the user, and each call has its result at once.
    let messages = Vec::from(sent.messages());
    let mut again = Transcript::default();
    for message in messages {
        again.push(message).unwrap_or_else(|err| panic!("{seed}: {err}"));
    }
    let cut = machine.summed_up();
    if let Some(first) = all.messages().first() {
        assert!(texts.contains(&first.text()), "{seed}: the first words");
    }
    // What the program says of a reply that was cut off is no word of the user.
    let of_user = |message: &&Message| {
        message.role() == Role::User && !message.text().starts_with("Your reply above was cut off")
    };
    let newest = all.messages().range(..cut).iter().rev().find(of_user).cloned();
    assert!(newest.is_none_or(|newest| texts.contains(&newest.text())), "{seed}: the newest words");
    if cut > 0 {
        assert!(pins.iter().all(|pin| told.contains(pin.as_str())), "{seed}: the pins");
    }
    let mut asked = None;
    for (at, message) in all.messages().iter().enumerate() {
        for result in message.results() {
            let same = sent
                .messages()
                .iter()
                .flat_map(Message::results)
                .find(|it| it.call_id() == result.call_id());
            match (at < cut, result.outcome()) {
                (false, CallOutcome::Succeeded) => assert!(same.is_some(), "{seed}"),
                (false, _) => assert_eq!(same, Some(result), "{seed}: what did not go well stays"),
                (true, CallOutcome::Denied | CallOutcome::InDoubt) => {
                    let asked: &Message = asked.expect("a call before its result");
                    let call = asked.calls().find(|call| call.id() == result.call_id());
                    let call = call.expect("the call of a result");
                    let begins = &call.arguments()[..call.arguments().len().min(80)];
                    let stands = told.contains(&format!("`{}` with {begins}", call.name()));
                    assert!(stands, "{seed}: a call that was denied or is in doubt");
                }
                (true, _) => {}
            }
        }
        for call in message.calls().filter(|_| at >= cut) {
            let mut sent_calls = sent.messages().iter().flat_map(Message::calls);
            let same = sent_calls.find(|it| it.id() == call.id()).expect("a call that is sent");
            let is_short = same.arguments() != call.arguments();
            *shorter += u64::from(is_short);
            let went_well = |it: &ToolResult| it.outcome() == CallOutcome::Succeeded;
            let mut results = all.messages().iter().flat_map(Message::results);
            let result = results.find(|it| it.call_id() == call.id());
            assert!(!is_short || result.is_some_and(went_well), "{seed}: arguments that stay");
        }
        asked = Some(message);
    }
    // What has changed something is never cleared.
    for message in sent.messages() {
        for result in message.results().filter(|it| it.to_text().contains("left out to save")) {
            assert!(result.to_text().contains("`look`"), "{seed}");
        }
    }
}

#[test]
fn conversations_by_chance_lose_nothing_that_must_stay() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().expect("a runtime");
    let mut kinds = [0_u64; 4];
    let mut shorter = 0;
    let wanted = std::env::var("HARNESS_CONVERSATIONS").ok().and_then(|all| all.parse().ok());
    let conversations = wanted.unwrap_or(CONVERSATIONS);
    for seed in 0..conversations {
        let facts = runtime.block_on(conversation(seed));
        let (mut machine, mut pins) = (Machine::new(), Vec::new());
        for fact in facts {
            match &fact {
                Fact::ContextPinned { text } => pins.push(text.clone()),
                Fact::ContextCleared { .. } => kinds[0] += 1,
                Fact::ContextCompacted { .. } => kinds[1] += 1,
                Fact::CompactionFailed { .. } => kinds[2] += 1,
                Fact::ContextOverflowed { .. } => kinds[3] += 1,
                _ => {}
            }
            machine.apply(&fact).unwrap_or_else(|err| panic!("{seed}: {err}"));
            let pins = match fact {
                Fact::ContextCompacted { .. } => &pins[..],
                // One that was pinned since then stands in the next summary.
                _ => &[],
            };
            holds(&machine, pins, seed, &mut shorter);
        }
    }
    println!("{kinds:?} cleared, summed up, in vain, refused; {shorter} times shorter arguments");
    assert!(shorter > conversations / 10);
    assert!(kinds.iter().all(|count| *count > conversations / 10), "{kinds:?}");
}

/// Has a conversation by chance, in which each request is what the facts before it make, and gives its facts.
async fn conversation(seed: u64) -> Vec<Fact> {
    let mut chance = Rng::with_seed(seed);
    let rng = Arc::new(Mutex::new(Rng::with_seed(!seed)));
    let journal = MemoryJournal::new();
    let agent = agent(seed, &rng);
    let mut chat = agent.open(&journal, "a").await.expect("a chat");
    for _ in 0..chance.u32(5..25) {
        match chance.u8(..12) {
            0 => chat.pin(words(&mut chance, 30)).expect("a pin"),
            1 => {
                let before = written(chat.sent().messages());
                if chat.compact().await.is_err() {
                    assert_eq!(written(chat.sent().messages()), before, "{seed}: it has failed");
                }
            }
            2 => drop(chat.resume().await),
            3 => {
                let sent = written(chat.sent().messages());
                chat.save().await.expect("a journal");
                drop(chat);
                chat = agent.open(&journal, "a").await.expect("a chat");
                assert_eq!(written(chat.sent().messages()), sent, "{seed}: read again");
            }
            _ => drop(chat.send(words(&mut chance, 300)).await),
        }
    }
    chat.save().await.expect("a journal");
    let facts = journal.read("a", 0).await.expect("facts").facts;
    facts.iter().map(|fact| fact.fact().expect("a fact")).collect()
}
