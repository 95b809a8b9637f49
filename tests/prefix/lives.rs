//! Lives of conversations, each with one change.

use std::{collections::BTreeMap, pin::Pin};

use harness::{
    Agent, SideEffects, Tool,
    journal::{Head, Journal, MemoryJournal},
    policy::{ApprovalRequest, FallbackProvider},
    provider::Settings,
    testing::PrefixCheck,
    tool::{SideEffect, ToolSearch},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::{Say, Vendor, WIRES, begin, tool, tool_of};

const OLD: &str = "Be brief.";

type Life = for<'a> fn(&'a Vendor) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Lives a life on each wire, before a server that refuses and one that drops. Each ends with a request that could send
/// back so many pieces of reasoning at Anthropic, and so many at OpenAI.
async fn lives(life: Life, kept: [usize; 2]) {
    for (wire, kept) in WIRES.into_iter().zip(kept) {
        for check in [PrefixCheck::refusing(), PrefixCheck::dropping()] {
            let vendor = Vendor::start(wire, check).await;
            life(&vendor).await;
            let check = &vendor.check;
            let ended = [check.kept(), check.lost(), check.refusals()];
            assert_eq!(ended, [kept, 0, 0], "kept, lost, refused: {wire} {check:?}");
        }
    }
}

/// A conversation that one program begins and another one goes on with.
async fn reopened(vendor: &Vendor, tools: impl IntoIterator<Item = Tool>, system: &str) {
    let journal = MemoryJournal::new();
    let before = vendor.program(OLD, [tool("look", "Looks.")]).build().unwrap();
    let mut chat = before.open(&journal, "c").await.unwrap();
    begin(vendor, &mut chat).await;
    drop(chat);
    let after = vendor.program(system, tools).build().unwrap();
    let mut chat = after.open(&journal, "c").await.unwrap();
    vendor.says([Say::Text("Three.")]);
    chat.send("Three?").await.unwrap();
    drop(chat);
    let mut chat = after.open(&journal, "c").await.unwrap();
    chat.send("Four?").await.unwrap();
}

/// A tool whose calls wait for a decision.
fn write() -> Tool {
    let schema = json!({"type": "object", "properties": {}});
    let effects = SideEffects::of(&[SideEffect::Mutate]);
    Tool::new("write", "Writes.", schema, effects, |_, _| Box::pin(async { Ok("Written.".into()) }))
}

/// The same in the middle of a loop of calls.
async fn reopened_in_a_loop(vendor: &Vendor, tools: Vec<Tool>, system: &str) {
    let journal = MemoryJournal::new();
    let asks = |question: ApprovalRequest| async move { question.later(None) };
    let before = vendor.program(OLD, [tool("look", "Looks."), write()]).approver(asks);
    let before = before.build().unwrap();
    let mut chat = before.open(&journal, "c").await.unwrap();
    begin(vendor, &mut chat).await;
    vendor.says([Say::Call("look", json!({"city": "Rome"})), Say::Call("write", json!({}))]);
    chat.send("Write it.").await.unwrap_err();
    drop(chat);
    let inbox = before.inbox(&journal);
    for open in inbox.waiting("c").await.unwrap() {
        inbox.decide("c", open.question().unwrap().yes()).await.unwrap();
    }
    let after = vendor.program(system, tools.into_iter().chain([write()])).approver(asks);
    let mut chat = after.build().unwrap().open(&journal, "c").await.unwrap();
    vendor.says([Say::Call("look", json!({"city": "Bonn"})), Say::Text("Written.")]);
    chat.resume().await.unwrap();
    chat.send("Sure?").await.unwrap();
}

#[tokio::test]
async fn nothing_changes() {
    lives(|vendor| Box::pin(reopened(vendor, [tool("look", "Looks.")], OLD)), [4, 4]).await;
}

#[tokio::test]
async fn another_doc_comment() {
    lives(|vendor| Box::pin(reopened(vendor, [tool("look", "Looks it up.")], OLD)), [4, 4]).await;
    lives(
        |vendor| {
            let other = json!({"city": {"type": "string", "description": "A town."}});
            Box::pin(reopened(vendor, [tool_of("look", "Looks.", other)], OLD))
        },
        [4, 4],
    )
    .await;
}

#[tokio::test]
async fn other_instructions() {
    lives(|vendor| Box::pin(reopened(vendor, [tool("look", "Looks.")], "Be kind.")), [4, 4]).await;
}

#[tokio::test]
async fn a_tool_is_added() {
    lives(
        |vendor| Box::pin(reopened(vendor, [tool("look", "Looks."), tool("see", "Sees.")], OLD)),
        [4, 4],
    )
    .await;
}

#[tokio::test]
async fn a_tool_is_added_before_the_others_with_other_instructions() {
    lives(
        |vendor| {
            let tools = [tool("see", "Sees."), tool("look", "Looks it up.")];
            Box::pin(reopened(vendor, tools, "Be kind."))
        },
        [4, 4],
    )
    .await;
}

#[tokio::test]
async fn a_tool_is_removed() {
    lives(|vendor| Box::pin(reopened(vendor, [], OLD)), [4, 4]).await;
}

#[tokio::test]
async fn a_tool_takes_other_arguments() {
    lives(
        |vendor| {
            let other = json!({"town": {"type": "string"}});
            Box::pin(reopened(vendor, [tool_of("look", "Looks.", other)], OLD))
        },
        [4, 4],
    )
    .await;
}

#[tokio::test]
async fn another_doc_comment_in_a_loop_of_calls() {
    lives(
        |vendor| Box::pin(reopened_in_a_loop(vendor, vec![tool("look", "Looks it up.")], OLD)),
        [7, 7],
    )
    .await;
}

#[tokio::test]
async fn other_instructions_in_a_loop_of_calls() {
    lives(
        |vendor| Box::pin(reopened_in_a_loop(vendor, vec![tool("look", "Looks.")], "Be kind.")),
        [7, 7],
    )
    .await;
}

#[tokio::test]
async fn a_tool_is_added_in_a_loop_of_calls() {
    lives(
        |vendor| {
            let tools = vec![tool("look", "Looks."), tool("see", "Sees.")];
            Box::pin(reopened_in_a_loop(vendor, tools, OLD))
        },
        [7, 7],
    )
    .await;
}

#[tokio::test]
async fn a_tool_is_removed_in_a_loop_of_calls() {
    lives(|vendor| Box::pin(reopened_in_a_loop(vendor, Vec::new(), OLD)), [7, 7]).await;
}

#[tokio::test]
async fn a_fork_goes_on_with_another_program() {
    lives(
        |vendor| {
            Box::pin(async move {
                let journal = MemoryJournal::new();
                let before = vendor.program(OLD, [tool("look", "Looks.")]).build().unwrap();
                let mut chat = before.open(&journal, "c").await.unwrap();
                begin(vendor, &mut chat).await;
                let facts = chat.facts();
                drop(chat.fork("d", facts).await.unwrap());
                let tools = [tool("look", "Looks it up."), tool("see", "Sees.")];
                let after = vendor.program("Be kind.", tools).build().unwrap();
                let mut fork = after.open(&journal, "d").await.unwrap();
                fork.send("Three?").await.unwrap();
                chat.send("Three?").await.unwrap();
                fork.send("Four?").await.unwrap();
                assert_eq!(vendor.check.kept(), 4);
                chat.send("Four?").await.unwrap();
            })
        },
        [4, 4],
    )
    .await;
}

#[tokio::test]
async fn a_fork_in_a_loop_of_calls_goes_on_with_another_program() {
    lives(
        |vendor| {
            Box::pin(async move {
                let journal = MemoryJournal::new();
                let asks = |question: ApprovalRequest| async move { question.later(None) };
                let before = vendor.program(OLD, [tool("look", "Looks."), write()]);
                let before = before.approver(asks).build().unwrap();
                let mut chat = before.open(&journal, "c").await.unwrap();
                begin(vendor, &mut chat).await;
                let calls =
                    [Say::Call("look", json!({"city": "Rome"})), Say::Call("write", json!({}))];
                vendor.says(calls);
                chat.send("Write it.").await.unwrap_err();
                let facts = chat.facts();
                drop(chat.fork("d", facts).await.unwrap());
                let tools = [tool("look", "Looks it up."), tool("see", "Sees.")];
                let after = vendor.program("Be kind.", tools).build().unwrap();
                let mut fork = after.open(&journal, "d").await.unwrap();
                fork.send("Three?").await.unwrap();
                fork.send("Four?").await.unwrap();
            })
        },
        [6, 6],
    )
    .await;
}

#[tokio::test]
async fn fewer_tools_for_one_message() {
    lives(
        |vendor| {
            Box::pin(async move {
                let tools = [tool("look", "Looks."), tool("see", "Sees.")];
                let agent = vendor.program(OLD, tools).build().unwrap();
                let mut chat = agent.chat();
                begin(vendor, &mut chat).await;
                // The model calls what it has not been offered.
                vendor.says([Say::Call("see", json!({"city": "Rome"})), Say::Text("No.")]);
                chat.send("Three?").only_tools(["look"]).await.unwrap();
                let last = chat.transcript().messages().iter().flat_map(|it| it.results()).last();
                assert!(last.unwrap().is_error(), "{last:?}");
                chat.send("Four?").await.unwrap();
            })
        },
        [5, 5],
    )
    .await;
}

#[tokio::test]
async fn strict_tools_for_one_message() {
    // A strict definition is another one, and no vendor has a form for it.
    lives(
        |vendor| {
            Box::pin(async move {
                let agent = vendor.program(OLD, [tool("look", "Looks.")]).build().unwrap();
                let mut chat = agent.chat();
                begin(vendor, &mut chat).await;
                let strict = Settings { strict_tools: Some(true), ..Settings::default() };
                chat.send("Three?").settings(strict).await.unwrap();
                chat.send("Four?").await.unwrap();
                chat.send("Five?").await.unwrap();
            })
        },
        [1, 1],
    )
    .await;
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Town {
    name: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Towns {
    people: BTreeMap<String, u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Sizes {
    #[expect(dead_code, reason = "only its schema matters")]
    towns: BTreeMap<String, String>,
}

/// OpenAI's format of an answer comes before all messages, so a conversation that is going on has a tool for it behind them.
#[tokio::test]
async fn a_typed_answer() {
    lives(
        |vendor| {
            Box::pin(async move {
                let agent = vendor.program(OLD, [tool("look", "Looks.")]).build().unwrap();
                let mut chat = agent.chat();
                begin(vendor, &mut chat).await;
                for turn in 0..2 {
                    let call = Say::Call("look", json!({"city": "Rome"}));
                    vendor.says([call, Say::Typed(json!({"name": "Oslo"}))]);
                    let town = chat.send("Three?").answer::<Town>().await.unwrap();
                    assert_eq!(town.value().name, "Oslo", "{turn}");
                    chat.send("Four?").await.unwrap();
                }
                chat.send("Five?").await.unwrap();
            })
        },
        [9, 9],
    )
    .await;
}

#[tokio::test]
async fn a_typed_answer_whose_schema_has_no_strict_form() {
    lives(
        |vendor| {
            Box::pin(async move {
                let agent = vendor.program(OLD, [tool("look", "Looks.")]).build().unwrap();
                let mut chat = agent.chat();
                begin(vendor, &mut chat).await;
                for turn in 0..2 {
                    vendor.says([Say::Typed(json!({"people": {"Oslo": 7}}))]);
                    let towns = chat.send("Three?").answer::<Towns>().await.unwrap();
                    assert_eq!(towns.value().people["Oslo"], 7, "{turn}");
                    chat.send("Four?").await.unwrap();
                }
                chat.send("Five?").await.unwrap();
            })
        },
        [7, 7],
    )
    .await;
}

/// Each schema has one tool, however often it is wanted.
#[tokio::test]
async fn typed_answers_of_two_types() {
    lives(
        |vendor| {
            Box::pin(async move {
                let journal = MemoryJournal::new();
                let agent = vendor.program(OLD, [tool("look", "Looks.")]).build().unwrap();
                let mut chat = agent.open(&journal, "c").await.unwrap();
                begin(vendor, &mut chat).await;
                for _ in 0..2 {
                    vendor.says([Say::Call("final_answer", json!({"people": {"Oslo": 7}}))]);
                    chat.send("Three?").answer::<Towns>().await.unwrap();
                    vendor.says([Say::Call("final_answer_2", json!({"towns": {"Oslo": "big"}}))]);
                    chat.send("Four?").answer::<Sizes>().await.unwrap();
                    drop(chat);
                    chat = agent.open(&journal, "c").await.unwrap();
                }
                // What is not wanted now is not taken.
                vendor.says([Say::Call("final_answer", json!({})), Say::Text("No.")]);
                let reply = chat.send("Five?").await.unwrap();
                assert_eq!(reply.text(), "No.");
                let body = vendor.last().to_string();
                for name in ["final_answer", "final_answer_2"] {
                    let definition = format!(r#""name":"{name}","description""#);
                    assert_eq!(body.matches(&definition).count(), 1, "{body}");
                }
            })
        },
        [8, 8],
    )
    .await;
}

/// A conversation that begins with a typed answer has OpenAI's format before its messages for as long as it is wanted.
#[tokio::test]
async fn a_typed_answer_at_the_beginning() {
    lives(
        |vendor| {
            Box::pin(async move {
                let agent = vendor.program(OLD, [tool("look", "Looks.")]).build().unwrap();
                let mut chat = agent.chat();
                for kept in 0..3 {
                    vendor.says([Say::Typed(json!({"name": "Oslo"}))]);
                    chat.send("One?").answer::<Town>().await.unwrap();
                    assert_eq!(vendor.check.kept(), kept);
                    let path = ["/output_config/format", "/text/format"];
                    assert!(path.iter().any(|path| vendor.last().pointer(path).is_some()));
                }
                chat.send("Two?").await.unwrap();
                vendor.says([Say::Typed(json!({"name": "Oslo"}))]);
                chat.send("Three?").answer::<Town>().await.unwrap();
                chat.send("Four?").await.unwrap();
            })
        },
        [5, 2],
    )
    .await;
}

#[tokio::test]
async fn a_search_for_tools() {
    lives(
        |vendor| {
            Box::pin(async move {
                let many = ["ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen", "ibis", "jay"];
                let many = many.map(|name| tool(name, "Tells of this animal."));
                let agent = vendor
                    .program(OLD, [tool("look", "Looks.")].into_iter().chain(many))
                    .tool_search(ToolSearch::new().share(0).always(["look"]))
                    .build()
                    .unwrap();
                let mut chat = agent.chat();
                begin(vendor, &mut chat).await;
                vendor.says([
                    Say::Call("tool_search", json!({"query": "fox"})),
                    Say::Call("fox", json!({"city": "Rome"})),
                ]);
                chat.send("Three?").await.unwrap();
                chat.send("Four?").await.unwrap();
            })
        },
        [6, 6],
    )
    .await;
}

#[tokio::test]
async fn a_conversation_is_copied_to_another_journal() {
    lives(
        |vendor| {
            Box::pin(async move {
                let (from, to) = (MemoryJournal::new(), MemoryJournal::new());
                let before = vendor.program(OLD, [tool("look", "Looks.")]).build().unwrap();
                let mut chat = before.open(&from, "c").await.unwrap();
                begin(vendor, &mut chat).await;
                drop(chat);
                let stored = from.read("c", 0).await.unwrap();
                to.append("c", Head::default(), &stored.facts).await.unwrap();
                let after = vendor.program("Be kind.", [tool("look", "Looks it up.")]);
                let mut chat = after.build().unwrap().open(&to, "c").await.unwrap();
                chat.send("Three?").await.unwrap();
                chat.send("Four?").await.unwrap();
            })
        },
        [4, 4],
    )
    .await;
}

/// Nobody knows behind what the reasoning of such a conversation was made.
#[tokio::test]
async fn a_transcript_is_imported() {
    lives(
        |vendor| {
            Box::pin(async move {
                let journal = MemoryJournal::new();
                let before = vendor.program(OLD, [tool("look", "Looks.")]).build().unwrap();
                let mut chat = before.chat();
                begin(vendor, &mut chat).await;
                let after = vendor.program("Be kind.", [tool("look", "Looks.")]).build().unwrap();
                let given = chat.transcript().clone();
                let mut chat = after.import(&journal, "c", given).await.unwrap();
                chat.send("Three?").await.unwrap();
                chat.send("Four?").await.unwrap();
            })
        },
        [1, 1],
    )
    .await;
}

#[tokio::test]
async fn a_fallback_to_another_vendor_and_back() {
    for (wire, other) in [("anthropic", "responses"), ("responses", "anthropic")] {
        let first = Vendor::start(wire, PrefixCheck::refusing()).await;
        let second = Vendor::start(other, PrefixCheck::refusing()).await;
        let journal = MemoryJournal::new();
        let program = |provider, system: &str| {
            Agent::builder(provider).system(system).tools(vec![tool("look", "Looks.")])
        };
        let both = || FallbackProvider::new(first.provider()).or(second.provider());
        let before = program(first.provider(), OLD).build().unwrap();
        let mut chat = before.open(&journal, "c").await.unwrap();
        begin(&first, &mut chat).await;
        drop(chat);
        let away = program(second.provider(), OLD).build().unwrap();
        let mut chat = away.open(&journal, "c").await.unwrap();
        chat.send("Three?").await.unwrap();
        chat.send("Four?").await.unwrap();
        assert_eq!(second.check.kept(), 1);
        drop(chat);
        let after = Agent::builder(both()).system("Be kind.").tools(vec![tool("look", "Looks.")]);
        let mut chat = after.build().unwrap().open(&journal, "c").await.unwrap();
        chat.send("Five?").await.unwrap();
        chat.send("Six?").await.unwrap();
        assert_eq!((first.check.kept(), first.check.refusals()), (4, 0), "{wire}");
    }
}
