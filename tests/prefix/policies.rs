//! What a program sees and chooses of a changed beginning, and what vendors do that take other things than documented.

use std::sync::{Arc, Mutex};

use harness::{
    Agent, Chat, ErrorKind, Reply, Stopped,
    agent::PrefixPolicy,
    journal::{Fact, Journal, MemoryJournal},
    models::{Model, Models},
    policy::{FallbackProvider, RetryPolicy},
    provider::{Effort, Settings, ToolChoice},
    testing::{PrefixCheck, ScriptedProvider, anthropic},
};
use serde_json::{Value, json};

use crate::{SUMMARY, Say, Vendor, begin, tool};

/// Sends a message and returns the changes that the run tells of.
pub(crate) async fn changes(chat: &mut Chat, message: &str) -> Vec<Value> {
    let (seen, ended) = try_changes(chat, message).await;
    ended.unwrap();
    seen
}

/// The changes of the prefix that this run tells, and how it has ended.
pub(crate) async fn try_changes(
    chat: &mut Chat,
    message: &str,
) -> (Vec<Value>, Result<Reply, Stopped>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = Arc::clone(&seen);
    let run = chat.send(message).on_event(move |event| {
        let json = serde_json::to_value(event.into_owned()).unwrap();
        if json["type"] == "prefix_changed" {
            sees.lock().unwrap().push(json);
        }
    });
    let ended = run.await;
    let seen = seen.lock().unwrap();
    (seen.clone(), ended)
}

async fn sets(journal: &MemoryJournal) -> usize {
    let stored = journal.read("c", 0).await.unwrap();
    let facts = stored.facts.iter().map(|fact| fact.fact().unwrap());
    facts.filter(|fact| matches!(fact, Fact::PrefixSet { .. })).count()
}

#[tokio::test]
async fn a_change_is_told_and_written_once() {
    let vendor = Vendor::start("anthropic", PrefixCheck::refusing()).await;
    let journal = MemoryJournal::new();
    let before = vendor.program("Be brief.", [tool("look", "Looks.")]).build().unwrap();
    let mut chat = before.open(&journal, "c").await.unwrap();
    begin(&vendor, &mut chat).await;
    drop(chat);
    assert_eq!(sets(&journal).await, 1);
    let tools = [tool("look", "Looks it up."), tool("see", "Sees.")];
    let after = vendor.program("Be kind.", tools).build().unwrap();
    let mut chat = after.open(&journal, "c").await.unwrap();
    let told = changes(&mut chat, "Three?").await;
    let expected = json!([{
        "type": "prefix_changed", "change": "the instructions, the tool `see`", "appended": true,
        "left_out": 0,
    }]);
    assert_eq!(Value::Array(told), expected);
    let body = vendor.last();
    assert_eq!(body["system"][0]["text"], "Be brief.");
    let names = body["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]);
    assert_eq!(names.collect::<Vec<_>>(), ["look", "read_result"]);
    assert_eq!(body["tools"][0]["description"], "Looks.");
    let added = body["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(added["role"], "system");
    assert!(added["content"][0]["text"].as_str().unwrap().ends_with("\n\nBe kind."), "{added}");
    assert_eq!(added["content"][1]["tool"]["definition"]["name"], "see");
    let text = chat.transcript().messages().iter().map(|message| message.text());
    assert!(!text.collect::<String>().contains("Be kind."), "nobody has said that");
    assert_eq!(changes(&mut chat, "Four?").await, Vec::<Value>::new());
    drop(chat);
    assert_eq!(sets(&journal).await, 2);
}

#[tokio::test]
async fn a_program_can_want_its_definitions_as_they_are() {
    for wire in crate::WIRES {
        let vendor = Vendor::start(wire, PrefixCheck::refusing()).await;
        let journal = MemoryJournal::new();
        let before = vendor.program("Be brief.", [tool("look", "Looks.")]).build().unwrap();
        let mut chat = before.open(&journal, "c").await.unwrap();
        begin(&vendor, &mut chat).await;
        drop(chat);
        let after = vendor.program("Be brief.", [tool("look", "Looks it up.")]);
        let after = after.prefix_policy(PrefixPolicy::Follow).build().unwrap();
        let mut chat = after.open(&journal, "c").await.unwrap();
        let told = changes(&mut chat, "Three?").await;
        assert_eq!(told[0]["change"], "the tool `look`");
        assert!(vendor.last().to_string().contains("Looks it up."));
        assert_eq!((vendor.check.kept(), vendor.check.refusals()), (3, 0), "{wire}");
    }
}

#[tokio::test]
async fn a_summary_brings_the_definitions_of_the_program() {
    let vendor = Vendor::start("anthropic", PrefixCheck::refusing()).await;
    let journal = MemoryJournal::new();
    let before = vendor.program("Be brief.", [tool("look", "Looks.")]).build().unwrap();
    let mut chat = before.open(&journal, "c").await.unwrap();
    begin(&vendor, &mut chat).await;
    drop(chat);
    let after = vendor.program("Be kind.", [tool("look", "Looks it up.")]).build().unwrap();
    let mut chat = after.open(&journal, "c").await.unwrap();
    vendor.says([Say::Call("look", json!({"city": "Oslo"})), Say::Text("Three.")]);
    chat.send("Three? ".repeat(2_000)).await.unwrap();
    chat.send("And?").await.unwrap();
    vendor.says([Say::Text(SUMMARY)]);
    chat.compact().await.unwrap();
    assert_eq!(changes(&mut chat, "Four?").await, Vec::<Value>::new());
    let body = vendor.last();
    assert_eq!(body["system"][0]["text"], "Be kind.");
    assert_eq!(body["tools"][0]["description"], "Looks it up.");
    chat.send("Five?").await.unwrap();
    assert_eq!((vendor.check.kept(), vendor.check.refusals()), (1, 0));
}

/// Nothing has been sent behind the messages, so only the summary brings them.
#[tokio::test]
async fn a_summary_brings_other_words_and_takes_what_is_gone() {
    for wire in crate::WIRES {
        let vendor = Vendor::start(wire, PrefixCheck::refusing()).await;
        let journal = MemoryJournal::new();
        let tools = [tool("look", "Looks."), tool("see", "Sees.")];
        let before = vendor.program("Be brief.", tools).build().unwrap();
        let mut chat = before.open(&journal, "c").await.unwrap();
        begin(&vendor, &mut chat).await;
        drop(chat);
        let after = vendor.program("Be brief.", [tool("look", "Looks it up.")]).build().unwrap();
        let mut chat = after.open(&journal, "c").await.unwrap();
        chat.send("Three? ".repeat(2_000)).await.unwrap();
        assert_eq!(vendor.last()["tools"][0]["description"], "Looks.");
        chat.send("And?").await.unwrap();
        vendor.says([Say::Text(SUMMARY)]);
        chat.compact().await.unwrap();
        for reopened in [false, true] {
            assert_eq!(changes(&mut chat, "Four?").await, Vec::<Value>::new());
            let body = vendor.last();
            assert_eq!(body["tools"][0]["description"], "Looks it up.", "{wire} {reopened}");
            assert!(!body["tools"].to_string().contains("Sees."), "{wire} {reopened}");
            drop(chat);
            chat = after.open(&journal, "c").await.unwrap();
        }
        assert_eq!((vendor.check.kept(), vendor.check.refusals()), (1, 0), "{wire}");
    }
}

/// The request for the summary has no form of an answer, to which the reasoning of the last answer is bound at OpenAI.
#[tokio::test]
async fn a_summary_after_a_typed_answer_is_not_refused() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Town {
        name: String,
    }
    let vendor = Vendor::start("responses", PrefixCheck::refusing()).await;
    let agent = vendor.program("Be brief.", [tool("look", "Looks.")]).build().unwrap();
    let mut chat = agent.chat();
    begin(&vendor, &mut chat).await;
    chat.send("Three? ".repeat(2_000)).await.unwrap();
    vendor.says([Say::Typed(json!({"name": "Oslo"}))]);
    let town = chat.send("Where?").answer::<Town>().await.unwrap();
    assert_eq!(town.value().name, "Oslo");
    vendor.says([Say::Text(SUMMARY)]);
    chat.compact().await.unwrap();
    assert_eq!(vendor.check.refusals(), 0);
}

#[tokio::test]
async fn openai_is_told_which_tools_may_be_called() {
    let vendor = Vendor::start("responses", PrefixCheck::refusing()).await;
    let tools = [tool("look", "Looks."), tool("see", "Sees.")];
    let agent = vendor.program("Be brief.", tools).build().unwrap();
    let mut chat = agent.chat();
    begin(&vendor, &mut chat).await;
    assert_eq!(vendor.last()["tool_choice"], Value::Null);
    chat.send("Three?").only_tools(["see"]).await.unwrap();
    let see = json!({"type": "function", "name": "see"});
    let expected = json!({"type": "allowed_tools", "mode": "auto", "tools": [see]});
    assert_eq!(vendor.last()["tool_choice"], expected);
    chat.send("Four?").only_tools(Vec::<String>::new()).await.unwrap();
    assert_eq!(vendor.last()["tool_choice"], "none");
    assert_eq!((vendor.check.kept(), vendor.check.refusals()), (4, 0));
}

/// A model that the table does not have gets all reasoning, and is refused once.
#[tokio::test]
async fn a_refusal_is_answered_once_and_remembered_with_the_conversation() {
    for wire in crate::WIRES {
        let vendor = Vendor::start(wire, PrefixCheck::refusing()).await.with_model("next");
        let journal = MemoryJournal::new();
        let before = vendor.program("Be brief.", [tool("look", "Looks.")]).build().unwrap();
        let mut chat = before.open(&journal, "c").await.unwrap();
        begin(&vendor, &mut chat).await;
        drop(chat);
        assert_eq!(sets(&journal).await, 0);
        let program = |system: &str| vendor.program(system, [tool("look", "Looks.")]).build();
        let mut chat = program("Be kind.").unwrap().open(&journal, "c").await.unwrap();
        let told = changes(&mut chat, "Three?").await;
        assert_eq!((told.len(), &told[0]["left_out"]), (1, &json!(3)), "{told:?}");
        assert!(told[0]["refusal"].is_string(), "{told:?}");
        chat.send("Four?").await.unwrap();
        assert_eq!((vendor.check.kept(), vendor.check.refusals()), (1, 1), "{wire}");
        drop(chat);
        // Another process knows it, and that the reasoning is bound.
        let mut chat = program("Be exact.").unwrap().open(&journal, "c").await.unwrap();
        let told = changes(&mut chat, "Five?").await;
        assert_eq!((told.len(), &told[0]["left_out"]), (1, &json!(2)), "{told:?}");
        chat.send("Six?").await.unwrap();
        assert_eq!((vendor.check.kept(), vendor.check.refusals()), (1, 1), "{wire}");
    }
}

/// What a member of a fallback cannot send behind messages, no member gets there.
#[tokio::test]
async fn a_fallback_to_a_provider_that_takes_nothing_behind_messages_gets_all_before_them() {
    let vendor = Vendor::start("anthropic", PrefixCheck::refusing()).await;
    let journal = MemoryJournal::new();
    let before = vendor.program("Be brief.", [tool("look", "Looks.")]).build().unwrap();
    let mut chat = before.open(&journal, "c").await.unwrap();
    begin(&vendor, &mut chat).await;
    drop(chat);
    let tools = || [tool("look", "Looks.")];
    let after = vendor.program("Be kind.", tools()).build().unwrap();
    let mut chat = after.open(&journal, "c").await.unwrap();
    assert_eq!(changes(&mut chat, "Three?").await[0]["appended"], true);
    drop(chat);
    let other = ScriptedProvider::new([]);
    let both = FallbackProvider::new(vendor.provider()).or(other);
    let both = Agent::builder(both).system("Be kind.").tools(tools().to_vec()).build().unwrap();
    let mut chat = both.open(&journal, "c").await.unwrap();
    assert_eq!(changes(&mut chat, "Four?").await[0]["left_out"], 4);
    assert_eq!(vendor.last()["system"][0]["text"], "Be kind.");
    assert_eq!(changes(&mut chat, "Five?").await, Vec::<Value>::new());
    assert_eq!((vendor.check.kept(), vendor.check.refusals()), (1, 0));
}

#[tokio::test]
async fn the_text_of_thinking_is_asked_for_where_a_model_omits_it() {
    let vendor = Vendor::start("anthropic", PrefixCheck::refusing()).await;
    let agent = vendor.program("Be brief.", []).build().unwrap();
    agent.run("One?").await.unwrap();
    assert_eq!(vendor.last()["thinking"], json!({"type": "adaptive", "display": "summarized"}));
    let silent = Settings { thinking_text: Some(false), ..Settings::default() };
    agent.run("Two?").settings(silent).await.unwrap();
    assert_eq!(vendor.last()["thinking"], Value::Null);
    let old = vendor.with_model("claude-sonnet-4-5");
    old.program("Be brief.", []).build().unwrap().run("Three?").await.unwrap();
    assert_eq!(old.last()["thinking"], Value::Null);
}

/// The row of the table says what a server takes that has another name, or a model that has.
#[tokio::test]
async fn a_gateway_gets_changes_behind_messages_if_the_table_says_so() {
    let of = Models::default().find("anthropic", "claude-opus-5-5");
    // A program that gives the vendor's name says that the vendor is there.
    let table = [
        (None, None, false),
        (None, Some(true), true),
        (Some("gateway"), None, false),
        (Some("gateway"), Some(true), true),
        (Some("anthropic"), None, true),
        (Some("anthropic"), Some(false), false),
    ];
    for (name, appends_changes, appends) in table {
        let check = Arc::new(PrefixCheck::refusing());
        let server = check
            .serve(|_, proof| anthropic::body().thinking("Hm.", proof).text("Done.").answer())
            .await
            .unwrap();
        let program = |system: &str| {
            let models = Models::default().with("prod-1", Model { appends_changes, ..of });
            let provider = harness::AnthropicProvider::builder().api_key("k");
            let provider = provider.model("prod-1").models(models).base_url(server.url());
            let provider = match name {
                Some(name) => provider.name(name),
                None => provider,
            };
            let provider = provider.build().unwrap().with_retry(RetryPolicy::none());
            Agent::builder(provider).system(system).build().unwrap()
        };
        let journal = MemoryJournal::new();
        program("Be brief.").open(&journal, "c").await.unwrap().send("One?").await.unwrap();
        let mut chat = program("Be kind.").open(&journal, "c").await.unwrap();
        let told = changes(&mut chat, "Two?").await;
        assert_eq!(told[0]["appended"], appends, "{name:?} {appends_changes:?}");
        chat.send("Three?").await.unwrap();
        let kept = if appends { 2 } else { 1 };
        assert_eq!((check.kept(), check.refusals()), (kept, 0), "{name:?} {appends_changes:?}");
        // The rest of the row holds, too: the model thinks always.
        let last = server.requests().last().unwrap().json();
        assert_eq!(last["thinking"], json!({"type": "adaptive", "display": "summarized"}));
    }
}

#[tokio::test]
async fn a_demand_for_a_call_that_the_model_refuses_is_an_error_of_the_builder_or_of_the_run() {
    let build = |model: &str, choice: ToolChoice| {
        let settings = Settings { tool_choice: Some(choice), ..Settings::default() };
        let builder = harness::AnthropicProvider::builder().api_key("k").model(model);
        builder.settings(settings).build().map(drop)
    };
    let one = || ToolChoice::Tool("look".to_owned());
    for model in ["claude-opus-5-5", "claude-sonnet-5-5", "claude-fable-5-2", "claude-mythos-5-1"] {
        for choice in [ToolChoice::Required, one()] {
            let error = build(model, choice).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
            assert!(error.message().contains(model), "{error}");
        }
        build(model, ToolChoice::Forbidden).unwrap();
    }
    for model in ["claude-opus-5", "claude-fable-5", "claude-haiku-4-5", "my-own"] {
        build(model, ToolChoice::Required).unwrap();
    }
    let vendor = Vendor::start("anthropic", PrefixCheck::refusing()).await;
    let agent = vendor.program("Be brief.", [tool("look", "Looks.")]).build().unwrap();
    let must = Settings { tool_choice: Some(ToolChoice::Required), ..Settings::default() };
    let stopped = agent.run("One?").settings(must).await.unwrap_err();
    assert_eq!(stopped.error().unwrap().last().kind(), ErrorKind::Configuration, "{stopped:?}");
    assert_eq!(vendor.server.requests().len(), 0);
}

/// `none` is no level of a model that thinks always.
#[tokio::test]
async fn a_model_that_cannot_stop_thinking_gets_its_lowest_level() {
    let vendor = Vendor::start("responses", PrefixCheck::refusing()).await;
    let off = Settings { effort: Some(Effort::Off), ..Settings::default() };
    let agent = vendor.program("Be brief.", []).build().unwrap();
    agent.run("One?").settings(off.clone()).await.unwrap();
    assert_eq!(vendor.last()["reasoning"]["effort"], "low");
    let other = vendor.with_model("gpt-6-sol");
    let agent = other.program("Be brief.", []).build().unwrap();
    agent.run("One?").settings(off).await.unwrap();
    assert_eq!(other.last()["reasoning"]["effort"], "none");
}

/// OpenAI refuses a choice of a tool that its list of tools does not have.
#[tokio::test]
async fn a_choice_names_a_tool_behind_the_messages_or_one_that_is_not_offered() {
    let vendor = Vendor::start("responses", PrefixCheck::refusing()).await;
    let journal = MemoryJournal::new();
    let before = vendor.program("Be brief.", [tool("look", "Looks.")]).build().unwrap();
    let mut chat = before.open(&journal, "c").await.unwrap();
    begin(&vendor, &mut chat).await;
    drop(chat);
    let tools = [tool("look", "Looks."), tool("see", "Sees.")];
    let after = vendor.program("Be brief.", tools).build().unwrap();
    let mut chat = after.open(&journal, "c").await.unwrap();
    let one = |name: &str| Settings {
        tool_choice: Some(ToolChoice::Tool(name.to_owned())),
        ..Settings::default()
    };
    chat.send("Three?").settings(one("see")).await.unwrap();
    assert_eq!(vendor.last()["tool_choice"], "required");
    chat.send("Four?").settings(one("look")).await.unwrap();
    assert_eq!(vendor.last()["tool_choice"], json!({"type": "function", "name": "look"}));
    let sent = vendor.server.requests().len();
    for name in ["see", "look"] {
        let others = ["look", "see"].into_iter().filter(|it| *it != name);
        let stopped = chat.send("Five?").only_tools(others).settings(one(name)).await.unwrap_err();
        assert_eq!(stopped.error().unwrap().last().kind(), ErrorKind::Configuration, "{name}");
    }
    assert_eq!(vendor.server.requests().len(), sent);
    assert_eq!((vendor.check.kept(), vendor.check.refusals()), (4, 0));
}
