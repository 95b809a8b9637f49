//! Long conversations whose oldest part the vendor summarizes in a form of its own, over real
//! connections.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use harness::{
    Agent, AnthropicProvider, Block, CancellationToken, Chat, Error, Event, Media, Message,
    Outcome, Provider, Role, SideEffects, StopReason, Tool, Usage,
    context::Window,
    journal::{Envelope, Fact, Journal, MemoryJournal, VendorSummary},
    policy::FallbackProvider,
    provider::{Settings, ToolChoice},
    testing::{Answer, LoopbackServer, ScriptedProvider, anthropic, reply},
};
use serde_json::{Value, json};

use crate::{
    facts::{after, finished, reply as called, user},
    probe::READ,
    summaries::{asks, summary},
    vendors::{Lie, SECRETS, Vendor, WINDOW, asks_vendor, list},
    wire_providers::{provider, thinking_provider},
};

/// The wires whose vendors make summaries of their own.
const WIRES: [&str; 2] = ["anthropic", "responses"];

fn look() -> Tool {
    Tool::new("look", "Looks.", json!({"type": "object"}), READ, |_, _| {
        Box::pin(async { Ok(format!("The part is {}. {:->900}", SECRETS[1], "").into()) })
    })
}

fn agent_with(provider: impl Provider + 'static, window: Window) -> Agent {
    let tools = [look(), denied()];
    let agent = Agent::builder(provider).system("Keep what you are told.").tools(tools);
    agent.window(window.tokens(WINDOW).vendor_summaries()).build().expect("an agent")
}

fn agent(wire: &str, vendor: &Vendor) -> Agent {
    agent_with(provider(wire, &vendor.server.url()), Window::new().keep_results())
}

/// A tool that nobody has allowed.
fn denied() -> Tool {
    Tool::new("wipe", "Wipes.", json!({"type": "object"}), SideEffects::ALL, |_, _| {
        Box::pin(async { Ok("gone".into()) })
    })
}

async fn facts(journal: &MemoryJournal, name: &str) -> Vec<Fact> {
    let facts = journal.read(name, 0).await.expect("facts").facts;
    facts.iter().map(|fact| fact.fact().expect("a fact")).collect()
}

fn made(fact: &Fact) -> Option<(&VendorSummary, &Message)> {
    match fact {
        Fact::ContextCompacted { vendor: Some(made), summary, .. } => Some((made, summary)),
        _ => None,
    }
}

fn thinks(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).contains("thought-")
}

async fn talks(chat: &mut Chat, turns: std::ops::Range<u32>) -> Result<(), String> {
    for turn in turns {
        let words = match turn {
            1 => format!("The word is {}.", SECRETS[0]),
            _ if turn % 4 == 2 => "Please look.".to_owned(),
            _ => format!("This is turn {turn}. {:->200}", ""),
        };
        chat.send(words).await.map_err(|err| format!("turn {turn}: {err}"))?;
    }
    Ok(())
}

/// The vendor refuses thinking that stands behind other words than it came after, a block that is not first or not the
/// one that it gave, and a request for a summary that says something of an answer. It never has to.
#[tokio::test(start_paused = true)]
async fn a_long_conversation_goes_on_behind_the_vendors_summaries_with_its_newest_thinking() {
    for (wire, clears) in [("anthropic", false), ("anthropic", true), ("responses", false)] {
        let vendor = Vendor::of(wire, Lie::None).await;
        let window = if clears { Window::new() } else { Window::new().keep_results() };
        let agent = agent_with(thinking_provider(wire, &vendor.server.url()), window);
        let journal = MemoryJournal::new();
        let mut chat = agent.open(&journal, "long").await.unwrap();
        let mut usage = Usage::default();
        for tens in 0..crate::times(8) {
            talks(&mut chat, tens * 10..(tens + 1) * 10).await.unwrap();
            usage = chat.usage();
            let sent = chat.sent().messages().clone();
            // Another process goes on with it: what it sends begins with the same bytes.
            drop(chat);
            chat = agent.open(&journal, "long").await.unwrap();
            assert!(sent.iter().eq(chat.sent().messages()), "{wire}");
        }
        let known = chat.send("What do you know?").await.unwrap();
        assert_eq!(known.text(), SECRETS.join(" and "), "{wire}");
        usage.add(&known.usage());
        assert!(vendor.state().wrong.is_empty(), "{wire}: {:?}", vendor.state().wrong);

        let facts = facts(&journal, "long").await;
        let summaries = facts.iter().filter_map(made).count();
        let count = |is: fn(&Fact) -> bool| facts.iter().filter(|fact| is(fact)).count();
        let clearings = count(|fact| matches!(fact, Fact::ContextCleared { .. }));
        let in_words = count(|fact| matches!(fact, Fact::ContextCompacted { vendor: None, .. }));
        // OpenAI keeps all that the user said, so in a window as small as this one it frees too little in the end.
        let too_little = |fact: &&Fact| match fact {
            Fact::CompactionFailed { cause, vendor, .. } => {
                assert!(*vendor && cause.contains("frees too little"), "{wire}: {cause}");
                true
            }
            _ => false,
        };
        let in_vain = facts.iter().filter(too_little).count();
        println!("{wire}: {summaries} by the vendor, {clearings} clearings");
        assert!(summaries > 3 && (clearings > 0) == clears, "{wire}: {summaries}, {clearings}");
        assert_eq!(in_words, in_vain, "{wire}");
        assert!(wire == "responses" || in_vain == 0, "{wire}");
        assert_eq!(vendor.asked(), summaries + in_vain, "{wire}");
        // What the summaries have cost stands nowhere but among the steps, and is charged to the conversation.
        let counted = vendor.state().counted;
        assert_eq!((usage.input, usage.output), (Some(counted.0), Some(counted.1)), "{wire}");

        let state = vendor.state();
        if wire == "responses" {
            let key = |body: &[u8]| serde_json::from_slice::<Value>(body).unwrap();
            let key = |body: &[u8]| key(body)["prompt_cache_key"].to_string();
            let first = key(&state.requests[0].2);
            assert!(first != "null" && state.requests.iter().all(|it| key(&it.2) == first));
        }
        let (mut moved, mut kept) = (0, 0);
        let answers = state.requests.iter().filter(|it| !asks_vendor(&it.0, &it.2));
        let bodies: Vec<&[u8]> = answers.map(|it| &*it.2).collect();
        for pair in bodies.windows(2) {
            let before = pair[0].strip_suffix(b"]}").expect("the list is last");
            let is_moved = !list_of(pair[1]).starts_with(list_of(before));
            moved += usize::from(is_moved);
            kept += usize::from(is_moved && thinks(pair[1]));
        }
        assert_eq!(
            moved,
            summaries + in_words + clearings,
            "{wire}: a request begins with the one before"
        );
        assert!(kept > 1, "{wire}: the newest thinking stays");
        for at in 1..state.requests.len() {
            let (before, now) = (&state.requests[at - 1], &state.requests[at]);
            if !asks_vendor(&now.0, &now.2) {
                continue;
            }
            let [before, now] =
                [&before.2, &now.2].map(|it| list(&serde_json::from_slice(it).unwrap()));
            let common = before.len().min(now.len());
            assert_eq!(before[..common], now[..common], "{wire}: the vendor has read it before");
        }
    }
}

/// The conversation goes on with the key of another account, which does not verify what it has thought.
#[tokio::test(start_paused = true)]
async fn thinking_behind_the_vendors_summary_that_is_refused_is_left_out() {
    let vendor = Vendor::of("anthropic", Lie::None).await;
    let agent_of =
        |url: &str| agent_with(thinking_provider("anthropic", url), Window::new().keep_results());
    let journal = MemoryJournal::new();
    let mut chat = agent_of(&vendor.server.url()).open(&journal, "a").await.unwrap();
    let mut turn = 0;
    while chat.context().summed_up == 0 || !thinks(&vendor.state().requests.last().unwrap().2) {
        talks(&mut chat, turn..turn + 1).await.unwrap();
        turn += 1;
        assert!(turn < 80, "no thinking behind a summary");
    }
    drop(chat);
    let other = LoopbackServer::answering(|request| match thinks(request.body()) {
        true => {
            let words = "messages.1.content.0: Invalid `signature` in `thinking` block";
            let error = json!({"type": "invalid_request_error", "message": words});
            Answer::json(400, &json!({"type": "error", "error": error}))
        }
        false => anthropic::body().text("Yes.").answer(),
    });
    let other = other.await.unwrap();
    let mut chat = agent_of(&other.url()).open(&journal, "a").await.unwrap();
    for sent in [2, 3] {
        assert_eq!(chat.send("Still there?").await.unwrap().text(), "Yes.");
        assert_eq!(other.requests().len(), sent);
    }
    assert!(other.requests().iter().all(|it| it.text().contains("\"compaction\"")));
}

/// The list of what was said, from its first byte on.
fn list_of(body: &[u8]) -> &[u8] {
    let names: [&[u8]; 2] = [b"\"messages\":[", b"\"input\":["];
    let find = |name: &[u8]| body.windows(name.len()).position(|it| it == name);
    let at = names.into_iter().find_map(find).expect("the list");
    &body[at..]
}

/// What the vendor gives in the place of a summary, and what is said of it.
fn lies(wire: &str) -> Vec<(Lie, &'static str)> {
    let code = |code| Lie::Refuses(400, code);
    let own = [
        (Lie::Null, "summary is empty"),
        (Lie::Answers, "stopped as Complete: What can I do?"),
        (Lie::Refuses(400, ""), "No."),
        (Lie::Refuses(529, "compaction_unavailable"), "makes and reads no summaries at the moment"),
        (Lie::Hangs, ""),
    ];
    let others = match wire {
        "anthropic" => vec![
            (Lie::Twice, "gave 2 blocks"),
            (Lie::Beside, "gave 2 blocks"),
            (Lie::Unsigned, "is not signed"),
            (Lie::Ends("max_tokens"), "stopped as Truncated"),
            (Lie::Ends("refusal"), "stopped as Refused"),
            (Lie::Ends("end_turn"), "stopped as Complete"),
            (Lie::Ends("compaction"), "gave 0 blocks"),
            (Lie::Cut, "the answer"),
            (code("compaction_block_ambiguous"), "holds more than one summary"),
            (code("compaction_block_misplaced"), "something stands before"),
            (code("compaction_content_mismatch"), "is not the one that the vendor has made"),
            (code("compaction_signature_invalid"), "does not know the signature"),
            (code("compaction_incomplete_turn"), "a call has no result yet"),
            (code("compaction_nothing_to_summarize"), "nothing to summarize"),
            (code("compaction_too_many_tool_references"), "too many references to tools"),
            (code("compaction_tool_changes_mismatch"), "the tools have changed"),
        ],
        _ => vec![
            (Lie::Twice, "is not the last item"),
            (Lie::Misplaced, "is not the last item"),
            (Lie::Beside, "a call stands before"),
            (Lie::Foreign, "words of `system` stand before"),
            (Lie::Ends(""), "items without a summary"),
        ],
    };
    own.into_iter().chain(others).collect()
}

/// Whatever the vendor gives, the conversation is summed up in words, once, and goes on.
#[tokio::test(start_paused = true)]
async fn a_summary_that_is_none_is_told_and_the_model_gives_one_in_words() {
    for wire in WIRES {
        for (lie, words) in lies(wire) {
            let vendor = Vendor::of(wire, lie).await;
            let journal = MemoryJournal::new();
            let mut chat = agent(wire, &vendor).open(&journal, "a").await.unwrap();
            let mut turn = 0;
            while chat.context().summed_up == 0 {
                let said = talks(&mut chat, turn..turn + 1).await;
                said.unwrap_or_else(|err| panic!("{wire}, {lie:?}: {err}"));
                turn += 1;
                assert!(turn < 40, "{wire}, {lie:?}: nothing is summed up");
            }
            assert!(vendor.state().wrong.is_empty(), "{wire}: {:?}", vendor.state().wrong);
            let facts = facts(&journal, "a").await;
            let moves: Vec<&Fact> = facts
                .iter()
                .filter(|fact| {
                    matches!(fact, Fact::ContextCompacted { .. } | Fact::CompactionFailed { .. })
                })
                .collect();
            let [
                Fact::CompactionFailed {
                    cause,
                    vendor: true,
                    stopped: false,
                    request,
                    too_large: None,
                },
                Fact::ContextCompacted { vendor: None, .. },
            ] = &*moves
            else {
                panic!("{wire}, {lie:?}: {moves:?}")
            };
            assert!(cause.contains(words), "{wire}, {lie:?}: {cause}");
            // What a summary has cost that is not used is charged, too.
            if matches!(lie, Lie::Null | Lie::Twice | Lie::Beside | Lie::Unsigned) {
                assert!(request.usage.input.is_some_and(|input| input > 0), "{wire}, {lie:?}");
            }
        }
    }
}

/// A vendor that refuses its own summary when it comes back is sent the one in words, and makes no other one.
#[tokio::test(start_paused = true)]
async fn a_summary_that_is_refused_later_gives_way_to_the_one_in_words() {
    for wire in WIRES {
        let vendor = Vendor::of(wire, Lie::RefusesLater).await;
        let journal = MemoryJournal::new();
        let mut chat = agent(wire, &vendor).open(&journal, "a").await.unwrap();
        talks(&mut chat, 0..40).await.unwrap();
        assert_eq!(chat.send("What do you know?").await.unwrap().text(), SECRETS.join(" and "));
        let facts = facts(&journal, "a").await;
        let refused: Vec<&String> = facts
            .iter()
            .filter_map(|fact| match fact {
                Fact::VendorSummaryRefused { cause } => Some(cause),
                _ => None,
            })
            .collect();
        let [cause] = *refused else { panic!("{wire}: {refused:?}") };
        assert!(cause.contains("bound to another") || cause.contains("be verified"), "{cause}");
        assert_eq!((facts.iter().filter_map(made).count(), vendor.asked()), (1, 1), "{wire}");
        let sent = chat.sent().messages().clone();
        drop(chat);
        let chat = agent(wire, &vendor).open(&journal, "a").await.unwrap();
        assert!(sent.iter().eq(chat.sent().messages()), "{wire}");
        // The request that was refused and the one in its place stand one after the other.
        let state = vendor.state();
        let is_made =
            |body: &[u8]| String::from_utf8_lossy(body).contains(r#""type":"compaction""#);
        let at = state.requests.iter().position(|it| is_made(&it.2)).expect("the block is sent");
        let next = String::from_utf8_lossy(&state.requests[at + 1].2).into_owned();
        assert!(next.contains("From the program: the summary") && !next.contains("thought-"));
        assert!(!state.requests[at + 1..].iter().any(|it| is_made(&it.2)), "{wire}");
    }
}

/// A model that says `words` until it is asked for a summary.
fn scripted() -> ScriptedProvider {
    ScriptedProvider::answering(|request| match asks(request) {
        true => reply().text(summary("none")),
        false => reply().text("Here I am."),
    })
}

/// What stays whatever the vendor's summary says: the user's words, denied calls and pins, behind what was kept.
#[tokio::test(start_paused = true)]
async fn what_must_not_be_lost_stands_behind_what_is_kept() {
    for wire in WIRES {
        let vendor = Vendor::of(wire, Lie::Forgets).await;
        let journal = MemoryJournal::new();
        // The denied call is one of another model.
        let wipes = ScriptedProvider::new([
            reply().call("wipe", json!({"path": "/srv"})),
            reply().text("It was denied."),
        ]);
        let first = agent_with(wipes, Window::new());
        let mut chat = first.open(&journal, "a").await.unwrap();
        chat.send("First \u{201c}of\u{201d} all: wipe it.").await.unwrap();
        drop(chat);
        let mut chat = agent(wire, &vendor).open(&journal, "a").await.unwrap();
        chat.pin("The order is B-9.").unwrap();
        talks(&mut chat, 3..40).await.unwrap();
        assert!(vendor.state().wrong.is_empty(), "{wire}: {:?}", vendor.state().wrong);
        assert!(vendor.asked() > 1, "{wire}");
        let state = vendor.state();
        let is_behind =
            |body: &[u8]| String::from_utf8_lossy(body).contains(r#""type":"compaction""#);
        let behind = state.requests.iter().filter(|it| !asks_vendor(&it.0, &it.2));
        let body = behind.map(|it| &it.2).find(|it| is_behind(it)).expect("a request");
        let text = String::from_utf8_lossy(body);
        for words in ["all: wipe it.", "was denied", "The order is B-9."] {
            assert_eq!(text.matches(words).count(), 1, "{wire}: {words}: {text}");
        }
        let body: Value = serde_json::from_slice(body).unwrap();
        let list = list(&body);
        let place = |words: &str| list.iter().position(|it| it.to_string().contains(words));
        let summary = list.iter().position(|it| it.to_string().contains(r#""compaction""#));
        assert!(place("The order is B-9.") > summary, "{wire}");
        // The vendor keeps the user's words itself where it is OpenAI; else they stand among ours.
        let is_kept = place("all: wipe it.") < summary;
        assert_eq!(is_kept, wire == "responses");
    }
}

/// The block goes to nobody else: another provider, or another model, reads a summary in words.
#[tokio::test(start_paused = true)]
async fn nobody_else_is_sent_the_vendors_summary() {
    for wire in WIRES {
        let vendor = Vendor::of(wire, Lie::None).await;
        let journal = MemoryJournal::new();
        let (other, down) = (scripted(), Arc::new(vendor));
        let both = FallbackProvider::new(provider(wire, &down.server.url())).or(other.clone());
        let both = agent_with(both, Window::new().keep_results());
        let mut chat = both.open(&journal, "a").await.unwrap();
        talks(&mut chat, 0..30).await.unwrap();
        assert!(other.requests().is_empty() && down.asked() > 0);
        drop(down);
        // The vendor is gone, and the other one goes on.
        let reply = chat.send("Are you there?").await.unwrap();
        assert_eq!(reply.text(), "Here I am.");
        let requests = other.requests();
        let read: String = requests[0].messages().iter().map(Message::text).collect();
        assert!(read.contains("From the program: the summary"), "{wire}: {read}");
        assert!(read.contains(SECRETS[0]), "{wire}: {read}");
        let written = serde_json::to_string(&requests[0].messages().iter().collect::<Vec<_>>());
        assert!(!written.unwrap().contains("compaction"), "{wire}");
        drop(chat);
        // Another model of the same vendor does not read it either.
        let vendor = Vendor::of(wire, Lie::None).await;
        let provider: Box<dyn Provider> = match wire {
            "anthropic" => {
                let model = AnthropicProvider::builder().api_key("k").model("claude-opus-4-1");
                Box::new(model.base_url(vendor.server.url()).build().unwrap())
            }
            _ => {
                let model = harness::OpenAIProvider::builder().api_key("k").model("gpt-5.1");
                Box::new(model.base_url(vendor.server.url()).build().unwrap())
            }
        };
        let window = Window::new().keep_messages().keep_results();
        let mut chat = agent_with(provider, window).open(&journal, "a").await.unwrap();
        chat.send("Go on.").await.unwrap();
        let state = vendor.state();
        let (path, beta, body) = &state.requests[0];
        let text = String::from_utf8_lossy(body);
        assert!(!asks_vendor(path, body) && beta.is_empty() && !text.contains("compaction"));
        assert!(text.contains("From the program: the summary"), "{wire}");
    }
}

/// A vendor that has no summaries of its own is not asked for one, and what comes of it says so.
#[tokio::test]
async fn a_provider_without_them_sums_up_in_words() {
    let model = scripted();
    let agent = agent_with(model, Window::new());
    let mut chat = agent.chat();
    let mut told = Vec::new();
    for _ in 0..30 {
        let run = chat.send("x".repeat(1_500)).on_event(|event| {
            if let Event::ContextCompacted { vendor, .. } = event {
                told.push(vendor);
            }
        });
        run.await.unwrap();
    }
    assert!(told.len() > 1 && told.iter().all(|vendor| !vendor), "{told:?}");
}

/// Whoever is stopped while the vendor sums up leaves what is sent as it is, and the next run asks again.
#[tokio::test(start_paused = true)]
async fn a_stop_in_the_middle_leaves_what_is_sent() {
    for wire in WIRES {
        let vendor = Vendor::of(wire, Lie::Hangs).await;
        let journal = MemoryJournal::new();
        let agent = agent(wire, &vendor);
        let mut chat = agent.open(&journal, "a").await.unwrap();
        let token = CancellationToken::new();
        let mut turn = 0;
        let stopped = loop {
            let stop = token.clone();
            let run = chat.send(format!("{turn} {:->900}", "")).cancel_with(token.clone());
            let run = run.on_event(move |event| {
                if let Event::Compacting = event {
                    stop.cancel();
                }
            });
            if let Err(stopped) = run.await {
                break stopped;
            }
            turn += 1;
            assert!(turn < 60);
        };
        assert_eq!(stopped.outcome(), Outcome::Cancelled, "{wire}");
        assert!(chat.sent().messages().iter().eq(chat.transcript().messages()), "{wire}");
        let facts = facts(&journal, "a").await;
        let is_stopped = |fact: &Fact| matches!(fact, Fact::CompactionFailed { stopped: true, .. });
        assert_eq!(facts.iter().filter(|fact| is_stopped(fact)).count(), 1, "{wire}");
        drop(chat);
        // The next one waits for the vendor until its clock has run out, and goes on in words.
        let mut chat = agent.open(&journal, "a").await.unwrap();
        let started = tokio::time::Instant::now();
        chat.send("Go on.").await.unwrap();
        assert!(started.elapsed() > Duration::from_secs(60), "{wire}");
        assert!(chat.context().summed_up > 0, "{wire}");
    }
}

/// A program that lets the vendor sum up by itself is told why no other summary is made.
#[tokio::test]
async fn the_vendors_two_kinds_of_summary_exclude_each_other() {
    let vendor = Vendor::of("anthropic", Lie::None).await;
    let provider = AnthropicProvider::builder()
        .api_key("k")
        .base_url(vendor.server.url())
        .header("anthropic-beta", "compact-2026-01-12")
        .extra("context_management", json!({"edits": [{"type": "compact_20260112"}]}));
    let journal = MemoryJournal::new();
    let agent = agent_with(provider.build().unwrap(), Window::new().keep_results());
    let mut chat = agent.open(&journal, "a").await.unwrap();
    talks(&mut chat, 0..20).await.unwrap();
    assert_eq!(vendor.asked(), 0);
    let facts = facts(&journal, "a").await;
    let cause = facts.iter().find_map(|fact| match fact {
        Fact::CompactionFailed { cause, vendor: true, .. } => Some(cause),
        _ => None,
    });
    assert!(cause.is_some_and(|cause| cause.contains("context_management")), "{cause:?}");
    assert!(chat.context().summed_up > 0);
}

/// The user has spoken twice where a run has failed. No cut stands between the two, since the vendor would take what is
/// kept for more of what is summed up, and thinking behind it would not hold.
#[tokio::test(start_paused = true)]
async fn no_cut_stands_between_two_messages_of_the_user() {
    let vendor = Vendor::of("anthropic", Lie::None).await;
    let mut chat = agent("anthropic", &vendor).chat();
    for turn in 0..40 {
        for part in 0..turn % 3 {
            let failed = chat.send(format!("Fail now. {part} {:->200}", "")).await;
            assert_eq!(failed.expect_err("no key").outcome(), Outcome::Failed);
        }
        chat.send("Please look.").await.unwrap();
    }
    let state = vendor.state();
    assert!(state.wrong.is_empty(), "{:?}", state.wrong);
    let asked = state.requests.iter().filter(|it| asks_vendor(&it.0, &it.2)).count();
    assert!(asked > 5, "{asked}");
}

/// Nothing of an answer that the vendor has refused to give is sent. So no cut stands before or behind one: the messages
/// of the user around it would meet there.
#[tokio::test(start_paused = true)]
async fn no_cut_stands_next_to_a_refused_answer() {
    let vendor = Vendor::of("anthropic", Lie::None).await;
    let mut chat = agent("anthropic", &vendor).chat();
    for turn in 0..40 {
        for part in 0..turn % 3 {
            let refused = chat.send(format!("Refuse now. {part} {:->200}", "")).await;
            assert_eq!(refused.expect_err("no answer").outcome(), Outcome::Refused);
        }
        chat.send("Please look.").await.unwrap();
    }
    let state = vendor.state();
    assert!(state.wrong.is_empty(), "{:?}", state.wrong);
    let asked = state.requests.iter().filter(|it| asks_vendor(&it.0, &it.2)).count();
    assert!(asked > 5, "{asked}");
}

/// Summaries that stand where none was asked for do not go back beside the one that was.
#[tokio::test(start_paused = true)]
async fn a_summary_that_slips_into_an_answer_does_not_go_back() {
    let vendor = Vendor::of("anthropic", Lie::Slips).await;
    let mut chat = agent("anthropic", &vendor).chat();
    talks(&mut chat, 0..60).await.unwrap();
    let state = vendor.state();
    assert!(state.wrong.is_empty(), "{:?}", state.wrong);
    let asked = state.requests.iter().filter(|it| asks_vendor(&it.0, &it.2)).count();
    assert!(asked > 1);
    let blocks = chat.transcript().messages().iter().flat_map(|it| it.blocks().to_vec());
    assert!(blocks.filter(|it| matches!(it, Block::Vendor(_))).count() > 3, "they are kept");
}

/// A file that the user had shown to another model stands among the words that stay. It is no reason to fail.
#[tokio::test(start_paused = true)]
async fn a_file_that_the_model_does_not_take_is_a_line_among_the_words() {
    let vendor = Vendor::of("anthropic", Lie::None).await;
    let journal = MemoryJournal::new();
    let mut chat = agent_with(scripted(), Window::new()).open(&journal, "a").await.unwrap();
    let sound = Block::Audio(Media::from_bytes("audio/wav", b"RIFF"));
    chat.send(Message::new(Role::User, [Block::text("Hear this."), sound])).await.unwrap();
    drop(chat);
    for turns in [3..20, 20..24] {
        // The first request of a process writes all anew.
        let mut chat = agent("anthropic", &vendor).open(&journal, "a").await.unwrap();
        talks(&mut chat, turns).await.unwrap();
    }
    let state = vendor.state();
    assert!(state.wrong.is_empty(), "{:?}", state.wrong);
    let last = String::from_utf8_lossy(&state.requests.last().unwrap().2).into_owned();
    assert!(last.contains(r#""type":"compaction""#) && last.contains("Hear this."), "{last}");
}

/// The header that the program names stays beside the one that the summary needs, and what the program says of answers
/// is left out where none is given.
#[tokio::test(start_paused = true)]
async fn the_programs_own_header_stays_and_nothing_is_said_of_an_answer() {
    let vendor = Vendor::of("anthropic", Lie::None).await;
    let provider = AnthropicProvider::builder()
        .api_key("k")
        .base_url(vendor.server.url())
        .settings(Settings {
            stop: vec!["END".to_owned()],
            tool_choice: Some(ToolChoice::Required),
            ..Settings::default()
        })
        .header("anthropic-beta", "mine-2026-01-01");
    let agent = agent_with(provider.build().unwrap(), Window::new().keep_results());
    let mut chat = agent.chat();
    talks(&mut chat, 0..20).await.unwrap();
    chat.compact().await.unwrap();
    chat.send("Go on.").await.unwrap();
    let state = vendor.state();
    assert_eq!(state.requests[0].1, "mine-2026-01-01");
    assert_eq!(state.requests.last().unwrap().1, "mine-2026-01-01,compact-2026-09-04");
    assert!(state.wrong.is_empty(), "{:?}", state.wrong);
}

/// Facts that no vendor can have made are refused.
#[test]
fn facts_of_a_vendors_summary_are_checked() -> Result<(), Error> {
    let mut machine = harness::agent::Machine::default();
    let none = machine.apply(&Fact::VendorSummaryRefused { cause: "No.".to_owned() });
    assert!(none.is_err());
    machine.apply(&Fact::UserSaid { message: Message::user("Hello."), limits: None })?;
    let none = machine.apply(&Fact::VendorSummaryRefused { cause: "No.".to_owned() });
    assert!(none.is_err());
    let compacted = |message: Message, words: Option<Message>| Fact::ContextCompacted {
        messages: 1,
        kept: vec![0],
        summary: Message::user("Hello was said."),
        vendor: Some(Box::new(VendorSummary::new("anthropic", "m", message, words))),
        request: Box::default(),
        before: 10,
        after: 5,
    };
    let block = Message::assistant([Block::text("block")]);
    for wrong in [
        compacted(Message::user("Hm."), None),
        compacted(Message::assistant([]), None),
        compacted(block.clone(), Some(block.clone())),
    ] {
        assert!(machine.apply(&wrong).is_err());
    }
    machine.apply(&compacted(block, Some(Message::user("Keep this."))))?;
    assert_eq!(machine.sent().messages().len(), 2);
    machine.apply(&Fact::VendorSummaryRefused { cause: "No.".to_owned() })?;
    assert!(machine.apply(&Fact::VendorSummaryRefused { cause: "No.".to_owned() }).is_err());
    Ok(())
}

/// A second summary of the vendor's own leaves out the thinking before it, as the first one did, and no other.
#[tokio::test]
async fn thinking_behind_the_vendors_second_summary_is_sent_if_it_is_older_than_the_first() {
    let bodies = Arc::new(Mutex::new(Vec::<String>::new()));
    let seen = Arc::clone(&bodies);
    let server = LoopbackServer::answering(move |request| {
        let mut bodies = seen.lock().unwrap();
        bodies.push(String::from_utf8_lossy(request.body()).into_owned());
        let proof = format!("thought-{}", bodies.len());
        anthropic::body().thinking("Hm.", &proof).text("Here I am.").answer()
    });
    let server = server.await.unwrap();
    let model = thinking_provider("anthropic", &server.url());
    let (name, model_name) = (model.name().to_owned(), model.model().to_owned());
    let agent = Agent::builder(model).build().unwrap();
    let journal = MemoryJournal::new();
    let mut chat = agent.open(&journal, "a").await.unwrap();
    for turn in 0..4 {
        chat.send(format!("This is turn {turn}.")).await.unwrap();
    }
    drop(chat);
    let compacted = |messages: u64| {
        let block = Message::assistant([Block::text(format!("block-{messages}"))]);
        let fact = Fact::ContextCompacted {
            messages,
            kept: Vec::new(),
            summary: Message::user("Something was said."),
            vendor: Some(Box::new(VendorSummary::new(&name, &model_name, block, None))),
            request: Box::default(),
            before: 10,
            after: 5,
        };
        Envelope::of(&fact, 0).unwrap()
    };
    let last = journal.read("a", 0).await.unwrap().head;
    journal.append("a", last, &[compacted(2), compacted(4)]).await.unwrap();
    let mut chat = agent.open(&journal, "a").await.unwrap();
    chat.send("Go on.").await.unwrap();
    let bodies = bodies.lock().unwrap();
    let last = bodies.last().unwrap();
    let says = |words: &str| last.contains(words);
    assert_eq!(["block-2", "block-4", "turn 1", "turn 2"].map(says), [false, true, false, true]);
    let thoughts = ["thought-1", "thought-2", "thought-3", "thought-4"].map(says);
    assert_eq!(thoughts, [false, false, true, true]);
}

/// What the model thought after its summary belongs to that one, and not to the words in its place.
#[test]
fn with_a_summary_that_is_refused_the_reasoning_after_it_is_left_out() -> Result<(), Error> {
    let vendor = VendorSummary::new("anthropic", "m", Message::assistant([Block::text("b")]), None);
    let facts = [
        user(),
        Fact::ContextCompacted {
            messages: 1,
            kept: Vec::new(),
            summary: Message::user("Hello was said."),
            vendor: Some(Box::new(vendor)),
            request: Box::default(),
            before: 10,
            after: 5,
        },
        called(StopReason::ToolCalls, "", &["a"]),
        finished("a"),
    ];
    let mut machine = after(&facts);
    assert!(machine.thinking_from() < machine.sent().messages().len());
    machine.apply(&Fact::VendorSummaryRefused { cause: "No.".to_owned() })?;
    assert_eq!(machine.sent().messages().len(), 3);
    assert_eq!(machine.thinking_from(), 3);
    Ok(())
}
