//! Conversations that another model continues for a while, or whose vendor summarizes them after a change.

use harness::{Chat, context::Window, journal::MemoryJournal, testing::PrefixCheck};
use serde_json::{Value, json};

use crate::{Say, Vendor, WIRES, begin, policies::changes, refusals::has_additions, tool};

/// A model of the same vendor whose reasoning is bound to nothing, and one whose reasoning is bound.
fn others(wire: &str) -> [&'static str; 2] {
    match wire {
        "anthropic" => ["claude-sonnet-5", "claude-sonnet-5-5"],
        _ => ["gpt-5.6", "gpt-6-sol"],
    }
}

fn first_model(wire: &str) -> &'static str {
    if wire == "anthropic" { "claude-opus-5-5" } else { "gpt-6.1-sol" }
}

async fn open(vendor: &Vendor, journal: &MemoryJournal, system: &str, words: &'static str) -> Chat {
    let program = vendor.program(system, [tool("look", words)]);
    let program = program.window(Window::new().tokens(14_000).vendor_summaries()).build().unwrap();
    program.open(journal, "c").await.unwrap()
}

fn sum(told: &[Value]) -> u64 {
    told.iter().filter_map(|it| it["left_out"].as_u64()).sum()
}

/// The reasoning of the other model is left out, and says so. The rest stays.
#[tokio::test]
async fn a_model_that_binds_nothing_answers_in_between() {
    for wire in WIRES {
        for (system, words) in
            [("Be kind.", "Looks."), ("Be brief.", "Looks it up."), ("Be brief.", "Looks.")]
        {
            for check in [PrefixCheck::refusing(), PrefixCheck::dropping()] {
                let (vendor, journal) = (Vendor::start(wire, check).await, MemoryJournal::new());
                let mut chat = open(&vendor, &journal, "Be brief.", "Looks.").await;
                begin(&vendor, &mut chat).await;
                drop(chat);
                let vendor = vendor.with_model(others(wire)[0]);
                let mut chat = open(&vendor, &journal, system, words).await;
                vendor.says([Say::Call("look", json!({"city": "Rome"})), Say::Text("42.")]);
                assert_eq!(changes(&mut chat, "Three?").await, Vec::<Value>::new());
                assert_eq!(vendor.check.kept(), 4, "{wire}: it gets its own reasoning");
                drop(chat);
                let vendor = vendor.with_model(first_model(wire));
                let mut chat = open(&vendor, &journal, system, words).await;
                let told = changes(&mut chat, "Four?").await;
                assert_eq!((told.len(), sum(&told)), (1, 2), "{wire} {told:?}");
                assert_eq!(vendor.check.kept(), 3, "{wire}");
                assert_eq!(changes(&mut chat, "Five?").await, Vec::<Value>::new());
                drop(chat);
                let mut chat = open(&vendor, &journal, system, words).await;
                assert_eq!(changes(&mut chat, "Six?").await, Vec::<Value>::new());
                let check = &vendor.check;
                assert_eq!((check.kept(), check.lost(), check.refusals()), (5, 0, 0), "{wire}");
            }
        }
    }
}

/// Enough turns for a summary by the vendor that keeps the newest ones. Returns the changes that the runs told.
async fn summarized(vendor: &Vendor, chat: &mut Chat, by_hand: bool) -> Vec<Value> {
    let is_summary =
        |body: &Value| body.get("compaction").is_some() || body.get("stream").is_none();
    let has_summary = || vendor.server.requests().iter().any(|it| is_summary(&it.json()));
    let mut told = Vec::new();
    for turn in 0..20 {
        if by_hand && turn == 4 {
            chat.compact().await.unwrap();
        }
        if has_summary() {
            return told;
        }
        let calls = (turn == 1).then(|| Say::Call("look", json!({"city": "Rome"})));
        vendor.says(calls.into_iter().chain([Say::Text("A long word. ".repeat(400).leak())]));
        told.extend(changes(chat, "Tell me more.").await);
    }
    panic!("there is no summary");
}

/// What was sent behind the messages that the summary replaces is sent again behind the last message.
#[tokio::test]
async fn the_vendor_summarizes_after_a_change() {
    for wire in WIRES {
        for (by_hand, is_pinned) in [(true, false), (true, true), (false, false), (false, true)] {
            let vendor = Vendor::start(wire, PrefixCheck::refusing()).await;
            let journal = MemoryJournal::new();
            let mut chat = open(&vendor, &journal, "Be brief.", "Looks.").await;
            begin(&vendor, &mut chat).await;
            drop(chat);
            let mut chat = open(&vendor, &journal, "Be kind.", "Looks.").await;
            assert_eq!(changes(&mut chat, "Now?").await.len(), 1);
            if is_pinned {
                chat.pin("The town is Oslo.").unwrap();
            }
            let mut told = summarized(&vendor, &mut chat, by_hand).await;
            told.extend(changes(&mut chat, "Four?").await);
            let expected = json!([{
                "type": "prefix_changed", "change": "the instructions", "appended": true,
                "left_out": 0,
            }]);
            assert_eq!(Value::Array(told), expected, "{wire} {by_hand}");
            let kept = vendor.check.kept();
            assert!(kept >= 2, "{wire} {by_hand}: {kept}");
            let body = vendor.last().to_string();
            let count = |words: &str| body.matches(words).count();
            assert_eq!((count("Be brief."), count("Be kind.")), (1, 1));
            assert_eq!(count("The town is Oslo."), usize::from(is_pinned));
            drop(chat);
            let mut chat = open(&vendor, &journal, "Be kind.", "Looks.").await;
            assert_eq!(changes(&mut chat, "Five?").await, Vec::<Value>::new());
            let check = &vendor.check;
            assert_eq!((check.kept(), check.lost(), check.refusals()), (kept + 1, 0, 0), "{wire}");
        }
    }
}

/// Each of the models sees other messages, so each gets its own reasoning alone.
#[tokio::test]
async fn another_model_that_binds_its_reasoning_answers_behind_the_vendors_summary() {
    for wire in WIRES {
        for check in [PrefixCheck::refusing(), PrefixCheck::dropping()] {
            let (vendor, journal) = (Vendor::start(wire, check).await, MemoryJournal::new());
            let mut chat = open(&vendor, &journal, "Be brief.", "Looks.").await;
            begin(&vendor, &mut chat).await;
            summarized(&vendor, &mut chat, true).await;
            chat.send("Four?").await.unwrap();
            let kept = vendor.check.kept();
            assert!(kept >= 2, "{wire}: {kept}");
            drop(chat);
            let vendor = vendor.with_model(others(wire)[1]);
            let mut chat = open(&vendor, &journal, "Be brief.", "Looks.").await;
            assert_eq!(sum(&changes(&mut chat, "Five?").await), 1, "{wire}: of the first model");
            assert_eq!(changes(&mut chat, "Six?").await, Vec::<Value>::new());
            assert_eq!(vendor.check.kept(), 1, "{wire}");
            drop(chat);
            let vendor = vendor.with_model(first_model(wire));
            let mut chat = open(&vendor, &journal, "Be brief.", "Looks.").await;
            assert_eq!(sum(&changes(&mut chat, "Seven?").await), 2, "{wire}: of the other model");
            assert_eq!(vendor.check.kept(), kept + 1, "{wire}");
            assert_eq!(changes(&mut chat, "Eight?").await, Vec::<Value>::new());
            drop(chat);
            let vendor = vendor.with_model(others(wire)[1]);
            let mut chat = open(&vendor, &journal, "Be brief.", "Looks.").await;
            assert_eq!(sum(&changes(&mut chat, "Nine?").await), 2, "{wire}: of the first model");
            let check = &vendor.check;
            assert_eq!((check.kept(), check.lost(), check.refusals()), (2, 0, 0), "{wire}");
        }
    }
}

/// The fact of an answer that ended early does not name the model, so no model gets the reasoning of this answer.
#[tokio::test]
async fn an_answer_of_another_model_ends_early_behind_the_vendors_summary() {
    for wire in WIRES {
        let vendor = Vendor::start(wire, PrefixCheck::refusing()).await;
        let journal = MemoryJournal::new();
        let mut chat = open(&vendor, &journal, "Be brief.", "Looks.").await;
        begin(&vendor, &mut chat).await;
        summarized(&vendor, &mut chat, true).await;
        chat.send("Four?").await.unwrap();
        let kept = vendor.check.kept();
        drop(chat);
        let vendor = vendor.with_model(others(wire)[1]);
        let mut chat = open(&vendor, &journal, "Be brief.", "Looks.").await;
        vendor.says([Say::Cut("It is")]);
        chat.send("Five?").await.unwrap_err();
        assert!(chat.transcript().messages().last().unwrap().text().starts_with("It is"));
        drop(chat);
        let vendor = vendor.with_model(first_model(wire));
        let mut chat = open(&vendor, &journal, "Be brief.", "Looks.").await;
        assert_eq!(sum(&changes(&mut chat, "Six?").await), 1, "{wire}: of the other model");
        assert_eq!(vendor.check.kept(), kept + 1, "{wire}");
        assert_eq!(changes(&mut chat, "Seven?").await, Vec::<Value>::new());
        let check = &vendor.check;
        assert_eq!((check.kept(), check.lost(), check.refusals()), (kept + 2, 0, 0), "{wire}");
    }
}

/// The change that the server refuses also leaves out reasoning, so it is not in the journal.
#[tokio::test]
async fn a_refusal_of_what_comes_with_the_return_of_a_model_is_kept() {
    for wire in WIRES {
        let refuses = |body: &Value| {
            let words = "messages.1: role 'system' is not supported on this model";
            has_additions(body).then_some(words)
        };
        let vendor = Vendor::start_refusing(wire, PrefixCheck::refusing(), refuses).await;
        let journal = MemoryJournal::new();
        let mut chat = open(&vendor, &journal, "Be brief.", "Looks.").await;
        begin(&vendor, &mut chat).await;
        drop(chat);
        let vendor = vendor.with_model(others(wire)[0]);
        let mut chat = open(&vendor, &journal, "Be brief.", "Looks.").await;
        chat.send("Three?").await.unwrap();
        drop(chat);
        let vendor = vendor.with_model(first_model(wire));
        for (system, message) in [("Be kind.", "Four?"), ("Be honest.", "Five?")] {
            let mut chat = open(&vendor, &journal, system, "Looks.").await;
            let told = changes(&mut chat, message).await;
            let appended: Vec<_> = told.iter().map(|it| &it["appended"]).collect();
            assert_eq!(appended, [false], "{wire} {told:?}");
        }
        let requests = vendor.server.requests();
        let refused = requests.iter().filter(|it| has_additions(&it.json())).count();
        assert_eq!((refused, vendor.check.refusals()), (1, 0), "{wire}");
    }
}
