//! A conversation that never gets too large: what is sent is made smaller, and nothing is lost.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use harness::{
    Agent, Block, Chat, Error, ErrorKind, Event, Guardrails, Message, Outcome, Role, SideEffects,
    StreamEvent, Tool, Transcript, Usage,
    agent::{Action, Machine},
    context::Window,
    journal::{ClearedResult, Fact, Journal, MemoryJournal},
    message::Messages,
    testing::{ScriptedProvider, ScriptedReply, reply},
};
use serde_json::json;
use tokio::time::timeout;

use crate::probe::{READ, WRITE};
use crate::summaries::{asks, summary};

/// A tool that hands over 1,200 bytes: 300 tokens by the estimate.
fn tool(name: &'static str, effects: SideEffects) -> Tool {
    let ran = AtomicUsize::new(0);
    Tool::new(name, "Hands over.", json!({"type": "object"}), effects, move |_, _| {
        let number = ran.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move { Ok(format!("{number:-<1200}").into()) })
    })
}

/// A model that calls `look` so many times, one after the other, and then answers. It sums up when it is asked to.
fn looking(times: usize, call: &'static str) -> ScriptedProvider {
    let asked = Arc::new(AtomicUsize::new(0));
    ScriptedProvider::answering(move |request| {
        if asks(request) {
            return reply().text(summary("keep looking"));
        }
        match asked.fetch_add(1, Ordering::Relaxed) {
            number if number < times => {
                reply().call_with_id(format!("look_{number}"), call, json!({"n": number}))
            }
            _ => reply().text("Done."),
        }
    })
}

fn agent(model: &ScriptedProvider, window: Window) -> Agent {
    let tools = [tool("look", READ), tool("store", WRITE)];
    let turns = Guardrails::default().turns(1_000);
    let built = Agent::builder(model.clone()).tools(tools).window(window).guardrails(turns);
    built.build().expect("an agent")
}

async fn facts(journal: &MemoryJournal, name: &str) -> Vec<Fact> {
    let facts = journal.read(name, 0).await.expect("facts").facts;
    facts.iter().map(|fact| fact.fact().expect("a fact")).collect()
}

/// Messages as they are saved.
pub(crate) fn written(messages: &Messages) -> String {
    serde_json::to_string(&Vec::from(messages)).expect("JSON")
}

/// What the model reads as the result of this call.
fn result(transcript: &Transcript, call: &str) -> String {
    let mut results = transcript.messages().iter().flat_map(Message::results);
    results.find(|result| result.call_id() == call).expect("a result").to_text()
}

fn is_move(fact: &&Fact) -> bool {
    matches!(fact, Fact::ContextCleared { .. } | Fact::ContextCompacted { .. })
}

/// Results that only read are cleared in steps, oldest first; those of a tool that has changed something are not.
#[tokio::test]
async fn old_results_that_only_read_give_way_to_a_line_and_the_others_stay() {
    for (call, clears) in [("look", true), ("store", false)] {
        let model = looking(12, call);
        let window = Window::new().tokens(4_000).keep_messages();
        let journal = MemoryJournal::new();
        let mut chat = agent(&model, window).open(&journal, "a").await.expect("a chat");
        let mut seen = Vec::new();
        let sent = chat.send("Look.").on_event(|event| {
            if let Event::ContextCleared { results, before, after, .. } = event {
                seen.push((results, before, after));
            }
        });
        sent.await.expect("an answer");
        let moves: Vec<Fact> =
            facts(&journal, "a").await.into_iter().filter(|fact| is_move(&fact)).collect();
        assert_eq!(moves.len(), seen.len(), "{call}");
        if !clears {
            assert!(moves.is_empty(), "{moves:?}");
            assert_eq!(chat.sent(), chat.transcript());
            continue;
        }
        assert!((1..=3).contains(&moves.len()), "in steps and not each turn: {}", moves.len());
        for (results, before, after) in &seen {
            assert!(*results >= 2 && before - after >= 400, "{seen:?}");
        }
        let line = result(chat.sent(), "look_0");
        // In so small a window it was cut already.
        let whole = result(chat.transcript(), "look_0");
        let (_, name) =
            whole.split_once("cut here; the whole is kept as `").expect("the transcript keeps it");
        let (name, _) = name.split_once('`').expect("a name");
        let told = format!(
            "[The result of `look`, {} bytes, was left out to save room. The whole is kept as `{name}`, which \
             `read_result` reads.]",
            whole.len()
        );
        assert_eq!(line, told);
        let last = result(chat.sent(), "look_11");
        assert!(last.contains("cut here; the whole is kept as `"), "what the model works on stays");
        let context = chat.context();
        assert!(context.used < 4_000 && context.window == Some(4_000), "{context:?}");
        assert!(context.clearable > 0);
    }
}

/// Between two moves each request begins with the messages of the one before, also in another process.
#[tokio::test]
async fn between_two_moves_what_is_sent_only_grows() {
    let model = looking(40, "look");
    let window = Window::new().tokens(4_000);
    let journal = MemoryJournal::new();
    let agent = agent(&model, window);
    let mut chat = agent.open(&journal, "a").await.expect("a chat");
    chat.send("Look.").await.expect("an answer");
    drop(chat);
    // In another process the conversation is read again.
    let mut chat = agent.open(&journal, "a").await.expect("a chat");
    chat.send("And?").await.expect("an answer");
    let requests = model.requests();
    let requests: Vec<_> = requests.iter().filter(|request| !asks(request)).collect();
    let mut changed = 0;
    for pair in requests.windows(2) {
        let [before, after] = pair else { continue };
        let (before, after) = (before.messages(), after.messages());
        let is_prefix =
            after.len() >= before.len() && written(before) == written(&after.range(..before.len()));
        changed += usize::from(!is_prefix);
    }
    let facts = facts(&journal, "a").await;
    let moves = facts.iter().filter(is_move).count();
    assert!(moves >= 2, "{moves}");
    assert_eq!(changed, moves, "what is sent changes by moves alone");
}

/// The facts up to any place make what was sent there, to the byte.
#[tokio::test]
async fn each_view_is_restored_from_the_facts() {
    let model = looking(40, "look");
    let journal = MemoryJournal::new();
    let agent = agent(&model, Window::new().tokens(4_000));
    let mut chat = agent.open(&journal, "a").await.expect("a chat");
    chat.send("Look.").await.expect("an answer");
    let requests = model.requests();
    let mut sent = requests.iter().filter(|request| !asks(request));
    let mut machine = Machine::new();
    for fact in facts(&journal, "a").await {
        if let Fact::ModelReplied { .. } = fact {
            let request = sent.next().expect("a request for each answer");
            assert_eq!(written(machine.sent().messages()), written(request.messages()));
        }
        machine.apply(&fact).expect("a fact");
    }
    assert!(sent.next().is_none());
    assert_eq!(machine.transcript(), chat.transcript());
}

/// A run of four hundred turns in a small window recalls what was said at its beginning.
#[tokio::test]
async fn four_hundred_turns_fit_into_a_window_of_eight_thousand_tokens() {
    let model = ScriptedProvider::answering(|request| {
        let all: String = request.messages().iter().map(Message::text).collect();
        assert!(all.len() / 4 < 8_000, "a request of {} bytes", all.len());
        let knows = all.contains("The password is 4711.");
        if asks(request) {
            return reply().text(summary(if knows { "The password is 4711." } else { "none" }));
        }
        match request.last_text().strip_prefix("Turn ") {
            Some(_) => reply().text(format!("{:-<300}", if knows { "I know." } else { "Lost." })),
            None => reply().text(if knows { "4711" } else { "I do not know." }),
        }
    });
    let agent = agent(&model, Window::new().tokens(8_000));
    let mut chat = agent.chat();
    for turn in 0..400 {
        let words = match turn {
            0 => "Turn 0: hello.".to_owned(),
            3 => "Turn 3: The password is 4711.".to_owned(),
            _ => format!("Turn {turn}: {:-<100}", "go on"),
        };
        let reply = chat.send(words).await.expect("an answer");
        assert!(turn < 3 || reply.text().starts_with("I know."), "turn {turn}");
    }
    assert_eq!(chat.send("What is the password?").await.expect("an answer").text(), "4711");
    assert_eq!(chat.transcript().messages().len(), 802);
    assert!(chat.context().summed_up > 600);
}

fn full(words: &str) -> Error {
    Error::new(ErrorKind::Api, words).with_status(400).with_code("invalid_request_error")
}

/// The vendor says that a request is too large although nobody knew it: what can be moved is moved, and the run goes on.
#[tokio::test]
async fn an_overflow_is_overcome_once_and_the_second_one_is_an_error() {
    for again in [false, true] {
        let refused = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&refused);
        let model = ScriptedProvider::answering(move |request| {
            if asks(request) {
                return reply().text(summary("looked"));
            }
            let results = request.messages().iter().flat_map(Message::results).count();
            if results >= 10 && (again || count.load(Ordering::Relaxed) == 0) {
                count.fetch_add(1, Ordering::Relaxed);
                return reply().error(full("prompt is too long: 4100 tokens > 4000 maximum"));
            }
            match results {
                10.. => reply().text("Done."),
                number => {
                    reply().call_with_id(format!("look_{number}"), "look", json!({"n": number}))
                }
            }
        });
        let journal = MemoryJournal::new();
        let mut chat = agent(&model, Window::new()).open(&journal, "a").await.expect("a chat");
        let answer = chat.send("Look.").await;
        let facts = facts(&journal, "a").await;
        let overflows: Vec<_> = facts
            .iter()
            .filter_map(|fact| match fact {
                Fact::ContextOverflowed { window, tokens, .. } => Some((*window, *tokens)),
                _ => None,
            })
            .collect();
        let refusals = if again { 2 } else { 1 };
        assert_eq!(overflows, vec![(Some(4000), Some(4100)); refusals]);
        assert_eq!(facts.iter().filter(is_move).count(), 1);
        assert_eq!(chat.context().window, Some(4000), "the vendor has named it");
        match again {
            false => assert_eq!(answer.expect("an answer").text(), "Done."),
            true => {
                let stopped = answer.expect_err("no answer");
                assert_eq!(stopped.outcome(), Outcome::Failed);
                assert!(stopped.error().is_some_and(Error::is_context_full));
                assert_eq!(refused.load(Ordering::Relaxed), 2);
            }
        }
    }
}

/// The vendor counts more than the estimate does, and names only its window. What was refused is made smaller although
/// it would fit by the estimate.
#[tokio::test]
async fn a_refused_request_is_made_smaller_although_the_estimate_says_that_it_fits() {
    let refused = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&refused);
    let model = ScriptedProvider::answering(move |request| {
        let results = request.messages().iter().flat_map(Message::results).count();
        match results {
            6.. if count.fetch_add(1, Ordering::Relaxed) == 0 => {
                reply().error(full("This model's maximum context length is 4000 tokens."))
            }
            6.. => reply().text("Done."),
            number => reply().call_with_id(format!("look_{number}"), "look", json!({"n": number})),
        }
    });
    let journal = MemoryJournal::new();
    let mut chat = agent(&model, Window::new()).open(&journal, "a").await.expect("a chat");
    let answer = chat.send("Look.").await.expect("an answer");
    assert_eq!((answer.text(), refused.load(Ordering::Relaxed)), ("Done.", 2));
    let facts = facts(&journal, "a").await;
    let overflow = facts.iter().find_map(|fact| match fact {
        Fact::ContextOverflowed { window, tokens, estimated, .. } => {
            Some((*window, *tokens, *estimated))
        }
        _ => None,
    });
    let (window, tokens, estimated) = overflow.expect("a fact");
    assert!((window, tokens) == (Some(4000), None) && estimated < 2500, "{estimated}");
    assert_eq!(facts.iter().filter(is_move).count(), 1);
}

/// With everything off, an overflow fails at once and nothing is moved.
#[tokio::test]
async fn turned_off_nothing_moves() {
    let model = ScriptedProvider::new([
        reply().text("x".repeat(9_000)),
        reply().error(full("prompt is too long: 4100 tokens > 4000 maximum")),
    ]);
    let journal = MemoryJournal::new();
    let window = Window::off().tokens(1_000);
    let mut chat = agent(&model, window).open(&journal, "a").await.expect("a chat");
    chat.send("Hello.").await.expect("an answer");
    let stopped = chat.send("Go on.").await.expect_err("no answer");
    assert!(stopped.error().is_some_and(Error::is_context_full));
    let facts = facts(&journal, "a").await;
    let is_new = |fact: &Fact| is_move(&fact) || matches!(fact, Fact::ContextOverflowed { .. });
    assert!(!facts.iter().any(is_new));
}

/// What stays whatever the summary says: denied calls, calls in doubt, pins, and the user's own words.
#[tokio::test]
async fn a_summary_of_nothing_loses_nothing_that_must_stay() {
    let turns = AtomicUsize::new(0);
    let model = ScriptedProvider::answering(move |request| {
        if asks(request) {
            return reply().text(summary("none"));
        }
        match turns.fetch_add(1, Ordering::Relaxed) {
            0 => reply().call("wipe", json!({"path": "/srv/data"})),
            1 => reply().call("append", json!({"line": "A-17"})),
            _ => reply().text("x".repeat(600)),
        }
    });
    let fails = |name: &'static str, effects| {
        Tool::new(name, "Does.", json!({"type": "object"}), effects, |_, _| {
            Box::pin(async { panic!("half way") })
        })
    };
    let tools = [fails("wipe", SideEffects::ALL), fails("append", WRITE)];
    let agent = Agent::builder(model.clone())
        .system("Be brief.")
        .tools(tools)
        .window(Window::new().tokens(3_000))
        .build()
        .expect("an agent");
    let mut chat = agent.chat();
    chat.pin("The order is B-9.").expect("a pin");
    chat.send("First: do it.").await.expect("an answer");
    for number in 0..20 {
        chat.send(format!("Message {number}.")).await.expect("an answer");
    }
    let sent = chat.sent().messages();
    let summed_up = chat.context().summed_up;
    assert!(summed_up > 10, "{summed_up}");
    let all: String = sent.iter().map(Message::text).collect();
    assert_eq!(sent[0].text(), "First: do it.");
    for word in [
        "`wipe` with {\"path\":\"/srv/data\"} was denied",
        "`append` with {\"line\":\"A-17\"} may have partly run",
        "- The order is B-9.",
        "Message 19.",
    ] {
        assert!(all.contains(word), "{word}: {all}");
    }
    // The newest words of the user are there, in their order, and none is told twice.
    let users = |messages: &[Message]| -> Vec<String> {
        let users = messages.iter().filter(|message| message.role() == Role::User);
        users.map(Message::text).filter(|text| text.starts_with("Message")).collect()
    };
    let (kept, said) = (users(&Vec::from(sent)), users(&Vec::from(chat.transcript().messages())));
    assert_eq!(kept, said[said.len() - kept.len()..]);
    assert!(kept.len() > 5);
}

async fn talks(chat: &mut Chat, turns: usize) -> Result<(), harness::Stopped> {
    for turn in 0..turns {
        chat.send(format!("Turn {turn}.")).await?;
    }
    Ok(())
}

/// A model that answers with a text of 400 bytes, and with the next of these where it is asked for a summary.
fn summing_up(answers: Vec<ScriptedReply>) -> ScriptedProvider {
    let answers = std::sync::Mutex::new(answers.into_iter());
    ScriptedProvider::answering(move |request| match asks(request) {
        true => answers.lock().unwrap().next().expect("a summary"),
        false => reply().text("x".repeat(400)),
    })
}

/// A summary that is none is asked for once more, and then the run fails; nothing is lost, and it is asked for anew if the run
/// goes on.
#[tokio::test]
async fn a_summary_that_fails_twice_ends_the_run() {
    let bad = |number: usize| match number % 4 {
        0 => reply().text("I would rather not."),
        1 => reply().text(summary(&"long ".repeat(2_000))),
        2 => reply().call("look", json!({})),
        _ => reply().error(Error::new(ErrorKind::Api, "no").with_status(400)),
    };
    for first in 0..4 {
        let answers = vec![bad(first), bad(first + 1), reply().text(summary("ok"))];
        let model = summing_up(answers);
        let journal = MemoryJournal::new();
        let agent = agent(&model, Window::new().tokens(2_000));
        let mut chat = agent.open(&journal, "a").await.expect("a chat");
        let stopped = talks(&mut chat, 30).await.expect_err("no summary");
        let error = stopped.error().expect("an error");
        assert_eq!(error.kind(), ErrorKind::ContextFull, "{error}");
        assert!(
            error.message().contains("two attempts to summarize the conversation failed"),
            "{error}"
        );
        assert_eq!(chat.sent(), chat.transcript());
        let failed = |fact: &&Fact| matches!(fact, Fact::CompactionFailed { .. });
        assert_eq!(facts(&journal, "a").await.iter().filter(failed).count(), 2);
        chat.resume().await.expect("an answer");
        assert_eq!(facts(&journal, "a").await.iter().filter(failed).count(), 2);
        assert!(chat.context().summed_up > 0);
    }
}

/// What must not be lost does not fit: an error says so, and no model is asked for a summary in vain.
#[tokio::test]
async fn what_cannot_be_held_is_an_error_of_its_own() {
    let model = summing_up(Vec::new());
    let agent = agent(&model, Window::new().tokens(2_000));
    let mut chat = agent.chat();
    chat.pin("p".repeat(8_000)).expect("a pin");
    let stopped = talks(&mut chat, 30).await.expect_err("no room");
    let error = stopped.error().expect("an error");
    assert_eq!(error.kind(), ErrorKind::ContextFull);
    assert!(error.message().contains("would free too little"), "{error}");
}

/// What a summary costs is charged to the run, and to the conversation.
#[tokio::test]
async fn a_summary_is_charged() {
    let answers =
        vec![reply().text(summary("ok")).tokens(1_000, 70), reply().text("no").tokens(5, 1)];
    let model = summing_up(answers);
    let mut chat = agent(&model, Window::new()).chat();
    talks(&mut chat, 9).await.expect("answers");
    let before = chat.usage();
    let context = chat.compact().await.expect("a summary");
    assert_eq!(context.summed_up, 14);
    let usage = chat.usage();
    assert_eq!(usage.input, Some(before.input.unwrap_or(0) + 1_000));
    assert_eq!(usage.output, Some(before.output.unwrap_or(0) + 70));
    assert_eq!(chat.budget().spent().usage.output, usage.output);
    let mut empty = chat.agent().chat();
    let nothing = empty.compact().await.expect_err("nothing is there to sum up");
    assert_eq!(nothing.kind(), ErrorKind::Transcript, "{nothing}");
}

/// A server that can is told the form of the second try as a schema, and its JSON is a summary like any other.
#[tokio::test]
async fn the_second_try_may_answer_as_json() {
    let lists = json!({
        "goals": ["find the otter"], "decisions": [], "open_work": ["look"], "names_and_ids": ["B-9"],
        "tried_and_failed": [],
    });
    let model = summing_up(vec![reply().text("Well."), reply().text(lists.to_string())]);
    let mut chat = agent(&model, Window::new().tokens(2_000)).chat();
    talks(&mut chat, 20).await.expect("the second try is a summary");
    let sent: String = chat.sent().messages().iter().map(Message::text).collect();
    assert!(
        sent.contains("## Goals\n- find the otter\n## Decisions\n## Open work\n- look\n"),
        "{sent}"
    );
}

/// Facts that cannot be true are refused, and change nothing.
#[tokio::test]
async fn a_fact_that_cannot_follow_changes_nothing() {
    let model = looking(3, "look");
    let journal = MemoryJournal::new();
    let agent = agent(&model, Window::off());
    let mut chat = agent.open(&journal, "a").await.expect("a chat");
    chat.send("Look.").await.expect("an answer");
    let facts = facts(&journal, "a").await;
    let mut machine = Machine::new();
    facts.iter().for_each(|fact| machine.apply(fact).expect("a fact"));
    let before = machine.sent().clone();
    let cleared = |call: &str| Fact::ContextCleared {
        results: vec![ClearedResult::new(call, "[a line]")],
        arguments: Vec::new(),
        before: 9,
        after: 1,
    };
    let compacted = |messages: u64, kept: Vec<u64>, summary: Message| Fact::ContextCompacted {
        messages,
        kept,
        summary,
        vendor: None,
        request: Box::default(),
        before: 9,
        after: 1,
    };
    let user = || Message::user("A summary.");
    // The messages: the user, and three times a call and its result, and the answer.
    let wrong = [
        cleared("nobody"),
        Fact::ContextCleared { results: Vec::new(), arguments: Vec::new(), before: 9, after: 1 },
        compacted(0, vec![], user()),
        compacted(2, vec![0], user()),
        compacted(99, vec![0], user()),
        compacted(3, vec![1], user()),
        compacted(3, vec![0, 0], user()),
        compacted(3, vec![7], user()),
        compacted(3, vec![0], Message::assistant([Block::text("A summary.")])),
    ];
    for fact in wrong {
        let error = machine.apply(&fact).expect_err("it cannot be true");
        assert_eq!(error.kind(), ErrorKind::Transcript, "{fact:?}");
        assert_eq!(machine.sent(), &before, "{fact:?}");
    }
    // While a call waits for its result, no request can be refused.
    let overflowed = Fact::ContextOverflowed {
        provider: String::new(),
        model: String::new(),
        fallback: false,
        window: None,
        tokens: None,
        estimated: 9,
    };
    let mut calling = Machine::new();
    let before = facts.iter().take_while(|fact| !matches!(fact, Fact::CallFinished { .. }));
    before.for_each(|fact| calling.apply(fact).expect("a fact"));
    assert!(calling.apply(&overflowed).is_err());
    machine.apply(&cleared("look_0")).expect("a result");
    assert!(machine.apply(&cleared("look_0")).is_err(), "it was cleared before");
    machine.apply(&compacted(5, vec![0], user())).expect("a cut between turns");
    let texts: Vec<String> = machine.sent().messages().iter().map(Message::text).collect();
    assert_eq!(texts, ["Look.", "A summary.", "", "", "Done."]);
    assert_eq!(machine.transcript(), chat.transcript());
}

/// A run, or the call of `compact`, that is dropped while the summary is given leaves what it has cost, and nothing else.
#[tokio::test(start_paused = true)]
async fn a_summary_that_is_cut_leaves_what_it_has_cost() {
    for by_hand in [false, true] {
        let half = |text: &str| {
            let usage = Usage { input: Some(900), output: Some(7), ..Usage::default() };
            reply().text(text).event(StreamEvent::UsageSoFar(usage)).stall()
        };
        let model =
            summing_up(vec![half("## Goals"), reply().text("Well."), reply().text(summary("ok"))]);
        let journal = MemoryJournal::new();
        let window = if by_hand { Window::off() } else { Window::new().tokens(2_000) };
        let agent = agent(&model, window);
        let mut chat = agent.open(&journal, "a").await.expect("a chat");
        let second = Duration::from_secs(1);
        if by_hand {
            talks(&mut chat, 9).await.expect("answers");
            timeout(second, chat.compact()).await.expect_err("it hangs");
        } else {
            timeout(second, talks(&mut chat, 30)).await.expect_err("it hangs");
        }
        assert_eq!(chat.sent(), chat.transcript());
        let usage = chat.usage();
        assert_eq!((usage.input, usage.output), (Some(900), Some(7)), "{by_hand}");
        chat.save().await.expect("a journal");
        let failed: Vec<Fact> = facts(&journal, "a")
            .await
            .into_iter()
            .filter(|fact| matches!(fact, Fact::CompactionFailed { .. }))
            .collect();
        let [Fact::CompactionFailed { request, stopped: true, .. }] = &*failed else {
            panic!("{failed:?}")
        };
        assert!(request.broke_off && request.usage == usage);
        // In another process it is tried again.
        drop(chat);
        let mut chat = agent.open(&journal, "a").await.expect("a chat");
        match by_hand {
            true => drop(chat.compact().await.expect("a summary")),
            false => drop(chat.send("Go on.").await.expect("an answer")),
        }
        assert!(chat.context().summed_up > 0);
    }
}

/// Another driver moves what is sent by actions of its own.
#[tokio::test]
async fn another_driver_sums_up_too() {
    let model = summing_up((0..9).map(|_| reply().text(summary("ok"))).collect());
    let agent = agent(&model, Window::new().tokens(2_000));
    let mut steps = agent.steps("a", Vec::new()).expect("steps");
    let mut moves = 0;
    for turn in 0..25 {
        let said = steps.say(Message::user(format!("Turn {turn}."))).await.expect("facts");
        steps.apply(said).expect("facts that follow");
        while steps.next() == Action::CallProvider {
            let facts = steps.act().await.expect("facts");
            let is_summary = |fact: &Fact| matches!(fact, Fact::ContextCompacted { .. });
            moves += facts.iter().filter(|it| is_summary(&it.fact().expect("a fact"))).count();
            steps.apply(facts).expect("facts that follow");
        }
        assert_eq!(steps.next(), Action::Finish(Outcome::Answered));
    }
    assert!(moves > 0);
    let longest = model.requests().iter().map(|it| it.messages().len()).max();
    assert!(longest < Some(45), "of 49 that were said: {longest:?}");
}
