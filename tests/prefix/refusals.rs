//! Requests that a vendor or a gateway refuses, or that end early, in the lives of changing programs.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use harness::{
    Agent, AnthropicProvider, OpenAIProvider, Tool,
    agent::{AgentBuilder, Machine},
    journal::{Fact, Journal as _, MemoryJournal, Prefix},
    message::{Message, Role},
    policy::RetryPolicy,
    provider::Settings,
    testing::{Answer, LoopbackServer, PrefixCheck, anthropic, responses},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    Say, Vendor, WIRES, begin,
    policies::{changes, try_changes},
    tool,
};

/// A program before a server of this wire, with a provider that has the vendor's name or none.
fn program(wire: &str, url: &str, is_named: bool, system: &str) -> AgentBuilder {
    let none = RetryPolicy::none();
    if wire == "anthropic" {
        let provider = AnthropicProvider::builder().api_key("k").base_url(url);
        let provider = if is_named { provider.name(wire) } else { provider };
        let provider = provider.model("claude-opus-5-5").build().unwrap();
        return Agent::builder(provider.with_retry(none)).system(system);
    }
    let provider = OpenAIProvider::builder().api_key("k").base_url(url);
    let provider = if is_named { provider.name("openai") } else { provider };
    let provider = provider.model("gpt-6.1-sol").build().unwrap();
    Agent::builder(provider.with_retry(none)).system(system)
}

/// An answer with reasoning, which says `Done.`
fn done(wire: &str, proof: &str) -> Answer {
    match wire {
        "anthropic" => anthropic::body().thinking("Hm.", proof).text("Done.").answer(),
        _ => responses::body().reasoning(&["Hm."], proof).text("Done.").answer(),
    }
}

pub(crate) fn has_additions(body: &Value) -> bool {
    let items = body["messages"].as_array().or(body["input"].as_array()).unwrap();
    let is_addition = |item: &Value| {
        item["role"] == "system"
            || item["role"] == "developer"
            || item["type"] == "additional_tools"
    };
    items.iter().any(is_addition)
}

/// Servers refuse what is sent behind messages in many words. They get it before the messages.
#[tokio::test]
async fn a_server_that_refuses_what_is_sent_behind_messages_gets_it_before_them() {
    let beta = "Unexpected value(s) `inline-tools` for the `anthropic-beta` header. Please consult our documentation.";
    let table = [
        ("anthropic", 400, "messages.1: role 'system' is not supported on this model", true),
        ("anthropic", 400, beta, true),
        ("responses", 400, "Invalid 'input': value did not match any expected variant", true),
        ("responses", 422, "Input should be a valid dictionary", true),
        ("anthropic", 403, "Your role may not use this system.", false),
        ("responses", 401, "Your role may not use this system.", false),
    ];
    for (wire, status, words, folds) in table {
        let check = Arc::new(PrefixCheck::refusing());
        let (checks, refused) = (Arc::clone(&check), Arc::new(AtomicUsize::new(0)));
        let counts = Arc::clone(&refused);
        let server = LoopbackServer::answering(move |request| {
            if has_additions(&request.json()) {
                counts.fetch_add(1, Ordering::Relaxed);
                return anthropic::error(status, "invalid_request_error", words);
            }
            checks.check(request).map_or_else(|refusal| refusal, |proof| done(wire, &proof))
        })
        .await
        .unwrap();
        let program = |system: &str, tools: Vec<Tool>| {
            program(wire, &server.url(), true, system).tools(tools).build().unwrap()
        };
        let journal = MemoryJournal::new();
        let before = program("Be brief.", Vec::new());
        before.open(&journal, "c").await.unwrap().send("One?").await.unwrap();
        let after = program("Be kind.", vec![tool("see", "Sees.")]);
        let mut chat = after.open(&journal, "c").await.unwrap();
        if !folds {
            let stopped = chat.send("Two?").await.unwrap_err();
            assert_eq!(stopped.error().unwrap().last().status(), Some(status), "{words}");
            assert_eq!(refused.load(Ordering::Relaxed), 1, "{words}");
            continue;
        }
        let told = changes(&mut chat, "Two?").await;
        assert_eq!(told.iter().map(|it| &it["left_out"]).collect::<Vec<_>>(), [0, 1], "{told:?}");
        chat.send("Three?").await.unwrap();
        let last = server.requests().last().unwrap().json();
        let first = json!({ "system": last["system"], "instructions": last["instructions"] });
        assert!(first.to_string().contains("Be kind."), "{first}");
        assert!(last["tools"].to_string().contains("Sees."), "{last}");
        let counts = (check.kept(), check.refusals(), refused.load(Ordering::Relaxed));
        assert_eq!(counts, (1, 0, 1), "{words}");
        drop(chat);
        // Another process reads from the journal what the server refuses.
        let last = program("Be honest.", vec![tool("see", "Sees.")]);
        let mut chat = last.open(&journal, "c").await.unwrap();
        let told = changes(&mut chat, "Four?").await;
        assert_eq!(told.iter().map(|it| &it["appended"]).collect::<Vec<_>>(), [false], "{told:?}");
        assert_eq!((check.refusals(), refused.load(Ordering::Relaxed)), (0, 1), "{words}");
    }
}

/// A server that has answered a request with additions accepts them, so a later refusal is about something else.
#[tokio::test]
async fn a_refusal_of_a_message_leaves_additions_as_they_are_that_the_server_has_accepted() {
    let refusals =
        ["the picture is not readable", "no file of this name in the system of this developer"];
    for (wire, words) in WIRES.into_iter().flat_map(|wire| refusals.map(|words| (wire, words))) {
        let check = Arc::new(PrefixCheck::refusing());
        let checks = Arc::clone(&check);
        let server = LoopbackServer::answering(move |request| {
            let body = request.json().to_string();
            if body.contains("Bad?") && !body.contains("Good?") {
                return anthropic::error(400, "invalid_request_error", words);
            }
            checks.check(request).map_or_else(|refusal| refusal, |proof| done(wire, &proof))
        })
        .await
        .unwrap();
        let program = |system: &str| program(wire, &server.url(), true, system).build().unwrap();
        let journal = MemoryJournal::new();
        program("Be brief.").open(&journal, "c").await.unwrap().send("One?").await.unwrap();
        let mut chat = program("Be kind.").open(&journal, "c").await.unwrap();
        let told = changes(&mut chat, "Two?").await;
        assert_eq!(told.iter().map(|it| &it["left_out"]).collect::<Vec<_>>(), [0], "{told:?}");
        let before = server.requests().len();
        let stopped = chat.send("Bad?").await.unwrap_err();
        assert_eq!(stopped.error().unwrap().last().status(), Some(400));
        assert_eq!(server.requests().len(), before + 1, "it is not asked again");
        assert_eq!(changes(&mut chat, "Good?").await, Vec::<Value>::new());
        assert_eq!((check.refusals(), check.kept()), (0, 2), "{wire}");
    }
}

/// A server at an unknown address may be a gateway, although its provider has the vendor's name by default.
#[tokio::test]
async fn an_unknown_server_gets_nothing_behind_messages() {
    for wire in WIRES {
        for is_named in [false, true] {
            let check = Arc::new(PrefixCheck::refusing());
            let server = check.serve(move |_, proof| done(wire, proof)).await.unwrap();
            let program =
                |system: &str| program(wire, &server.url(), is_named, system).build().unwrap();
            let journal = MemoryJournal::new();
            let before = program("Be brief.");
            before.open(&journal, "c").await.unwrap().send("One?").await.unwrap();
            let mut chat = program("Be kind.").open(&journal, "c").await.unwrap();
            let told = changes(&mut chat, "Two?").await;
            assert_eq!(told[0]["appended"], is_named, "{wire} {told:?}");
            assert_eq!(check.refusals(), 0);
        }
    }
}

/// The vendor goes on with its own answer only behind what it was sent, and gets the change after that.
#[tokio::test]
async fn a_change_during_a_pause_takes_effect_after_it() {
    let check = Arc::new(PrefixCheck::refusing());
    let mut requests = 0;
    let server = check
        .serve(move |_, proof| {
            requests += 1;
            let body = anthropic::body().thinking("Hm.", proof);
            match requests {
                2 => body.text("I look.").stop("pause_turn").answer(),
                3 => anthropic::error(500, "api_error", "Internal server error"),
                _ => body.text("Done.").answer(),
            }
        })
        .await
        .unwrap();
    let program = |system: &str, tools: Vec<Tool>| {
        program("anthropic", &server.url(), true, system).tools(tools).build().unwrap()
    };
    let journal = MemoryJournal::new();
    let before = program("Be brief.", vec![tool("look", "Looks.")]);
    let mut chat = before.open(&journal, "c").await.unwrap();
    chat.send("One?").await.unwrap();
    chat.send("Two?").await.unwrap_err();
    drop(chat);
    let after = program("Be kind.", vec![tool("look", "Looks."), tool("see", "Sees.")]);
    let mut chat = after.open(&journal, "c").await.unwrap();
    chat.resume().await.unwrap();
    assert!(!has_additions(&server.requests().last().unwrap().json()));
    let told = changes(&mut chat, "Three?").await;
    assert_eq!((told.len(), &told[0]["appended"]), (1, &json!(true)), "{told:?}");
    let last = server.requests().last().unwrap().json();
    assert!(has_additions(&last), "{last}");
    chat.send("Four?").await.unwrap();
    assert_eq!((check.lost(), check.refusals()), (0, 0));
}

/// Anthropic takes instructions behind a message only at the end or before an answer.
#[tokio::test]
async fn a_change_with_a_request_that_failed_goes_behind_the_next_message() {
    for wire in WIRES {
        let check = Arc::new(PrefixCheck::refusing());
        let mut requests = 0;
        let server = check
            .serve(move |_, proof| {
                requests += 1;
                match requests {
                    2 | 3 => anthropic::error(500, "api_error", "Internal server error"),
                    _ => done(wire, proof),
                }
            })
            .await
            .unwrap();
        let program = |system: &str, tools: Vec<Tool>| {
            program(wire, &server.url(), true, system).tools(tools).build().unwrap()
        };
        let journal = MemoryJournal::new();
        let before = program("Be brief.", vec![tool("look", "Looks.")]);
        before.open(&journal, "c").await.unwrap().send("One?").await.unwrap();
        let after = program("Be kind.", vec![tool("look", "Looks."), tool("see", "Sees.")]);
        let mut chat = after.open(&journal, "c").await.unwrap();
        chat.send("Two?").await.unwrap_err();
        chat.send("Three?").await.unwrap_err();
        drop(chat);
        let mut chat = after.open(&journal, "c").await.unwrap();
        chat.send("Four?").await.unwrap();
        let last = server.requests().last().unwrap().json();
        let list = last["messages"].as_array().or(last["input"].as_array()).unwrap();
        assert!(!list.last().unwrap().to_string().contains("Four?"), "{last}");
        assert_eq!(last.to_string().matches("Be kind.").count(), 1, "{last}");
        chat.send("Five?").await.unwrap();
        assert_eq!((check.kept(), check.lost(), check.refusals()), (2, 0, 0), "{wire}");
    }
}

/// What the model may call is not listed where the list would turn off the vendor's own tools, or cannot name all.
#[tokio::test]
async fn openai_gets_no_list_of_tools_that_it_would_refuse() {
    #[derive(Deserialize, JsonSchema)]
    struct Town {
        #[expect(dead_code, reason = "only its schema matters")]
        name: String,
    }
    let vendor = Vendor::start("responses", PrefixCheck::refusing()).await;
    let provider = OpenAIProvider::builder().api_key("k").base_url(vendor.server.url());
    let provider = provider.name("openai").model("gpt-6.1-sol");
    let provider = provider.extra("tools", json!([{"type": "web_search"}])).build().unwrap();
    let tools = vec![tool("look", "Looks."), tool("see", "Sees.")];
    let agent = Agent::builder(provider).system("Be brief.").tools(tools.clone());
    let mut chat = agent.build().unwrap().chat();
    begin(&vendor, &mut chat).await;
    chat.send("Three?").only_tools(["see"]).await.unwrap();
    assert_eq!(vendor.last()["tool_choice"], Value::Null);
    chat.send("Four?").only_tools(Vec::<String>::new()).await.unwrap();
    assert_eq!(vendor.last()["tool_choice"], Value::Null);
    assert_eq!(vendor.check.refusals(), 0);
    // The vendor finds only the tools of the list.
    let vendor = Vendor::start("responses", PrefixCheck::refusing()).await;
    let journal = MemoryJournal::new();
    let before = vendor.program("Be brief.", [tool("look", "Looks.")]).build().unwrap();
    let mut chat = before.open(&journal, "c").await.unwrap();
    begin(&vendor, &mut chat).await;
    drop(chat);
    let after = vendor.program("Be brief.", tools).build().unwrap();
    let mut chat = after.open(&journal, "c").await.unwrap();
    chat.send("Three?").await.unwrap();
    chat.send("Four?").only_tools(["see"]).await.unwrap();
    assert_eq!(vendor.last()["tool_choice"], Value::Null);
    chat.send("Five?").only_tools(["look"]).await.unwrap();
    assert_eq!(vendor.last()["tool_choice"]["tools"][0]["name"], "look");
    vendor.says([Say::Typed(json!({"name": "Oslo"}))]);
    chat.send("Six?").answer::<Town>().await.unwrap();
    assert_eq!((vendor.check.lost(), vendor.check.refusals()), (0, 0));
}

/// All tools of such a conversation are behind its messages.
#[tokio::test]
async fn settings_of_calls_hold_in_a_conversation_that_began_without_tools() {
    for wire in WIRES {
        let vendor = Vendor::start(wire, PrefixCheck::refusing()).await;
        let journal = MemoryJournal::new();
        let before = vendor.program("Be brief.", []).build().unwrap();
        before.open(&journal, "c").await.unwrap().send("One?").await.unwrap();
        let after = vendor.program("Be brief.", [tool("look", "Looks.")]).build().unwrap();
        let mut chat = after.open(&journal, "c").await.unwrap();
        let one = Settings { parallel_calls: Some(false), ..Settings::default() };
        chat.send("Two?").settings(one).await.unwrap();
        let last = vendor.last();
        assert!(has_additions(&last), "{last}");
        let told =
            [&last["parallel_tool_calls"], &last["tool_choice"]["disable_parallel_tool_use"]];
        assert!(told.contains(&&json!(wire == "anthropic")), "{last}");
        assert_eq!((vendor.check.lost(), vendor.check.refusals()), (0, 0));
    }
}

/// Only a server that has answered without additions has refused them.
#[tokio::test]
async fn a_refusal_of_a_message_that_comes_with_a_change_leaves_the_next_change_behind_messages() {
    for wire in WIRES {
        let refuses = |body: &Value| {
            let body = body.to_string();
            let is_bad = body.contains("Bad?") && !body.contains("Good?");
            is_bad.then_some("the picture is not readable")
        };
        let vendor = Vendor::start_refusing(wire, PrefixCheck::refusing(), refuses).await;
        let journal = MemoryJournal::new();
        let program = |system: &str| vendor.program(system, []).build().unwrap();
        let mut chat = program("Be brief.").open(&journal, "c").await.unwrap();
        chat.send("One?").await.unwrap();
        drop(chat);
        let mut chat = program("Be kind.").open(&journal, "c").await.unwrap();
        chat.send("Bad?").await.unwrap_err();
        chat.send("Good?").await.unwrap();
        drop(chat);
        let mut chat = program("Be honest.").open(&journal, "c").await.unwrap();
        let told = changes(&mut chat, "Three?").await;
        assert_eq!(told.iter().map(|it| &it["appended"]).collect::<Vec<_>>(), [true], "{told:?}");
        chat.send("Four?").await.unwrap();
        assert_eq!((vendor.check.kept(), vendor.check.refusals()), (3, 0), "{wire}");
    }
}

/// A fact that cannot be applied moves no addition.
#[test]
fn a_message_that_cannot_be_added_leaves_additions_where_they_are() {
    let mut machine = Machine::new();
    let set = |system: &str, appended| Fact::PrefixSet {
        prefix: Some(Box::new(Prefix::new(Some(system.to_owned()), Vec::new(), String::new()))),
        appended,
        left_out: 0,
        messages: Vec::new(),
        change: String::new(),
        refusal: None,
    };
    let facts = [
        Fact::UserSaid { message: Message::user("One?"), limits: None },
        set("Be brief.", false),
        set("Be kind.", true),
    ];
    facts.iter().for_each(|fact| machine.apply(fact).unwrap());
    let before = format!("{machine:?}");
    let empty = Fact::Steered { message: Message::new(Role::User, Vec::new()) };
    machine.apply(&empty).unwrap_err();
    assert_eq!(format!("{machine:?}"), before);
}

/// A server that answers with this error while a message of the user asks for it.
async fn fails_on(
    check: &Arc<PrefixCheck>,
    wire: &'static str,
    (status, words): (u16, &'static str),
) -> LoopbackServer {
    let checks = Arc::clone(check);
    LoopbackServer::answering(move |request| {
        let body = request.json();
        let all = body["messages"].as_array().or(body["input"].as_array()).unwrap();
        let said = all.iter().rev().find(|it| it["role"] == "user").unwrap().to_string();
        if said.contains("Bad?") {
            return anthropic::error(status, "invalid_request_error", words);
        }
        checks.check(request).map_or_else(|refusal| refusal, |proof| done(wire, &proof))
    })
    .await
    .unwrap()
}

/// Such a refusal says nothing about reasoning, and no answer shows that the reasoning was the reason.
#[tokio::test]
async fn a_refusal_for_another_reason_costs_no_reasoning() {
    let words = "Your organization has disabled this workspace.";
    for wire in WIRES {
        let check = Arc::new(PrefixCheck::refusing());
        let server = fails_on(&check, wire, (400, words)).await;
        let program = |system: &str| program(wire, &server.url(), true, system).build().unwrap();
        let journal = MemoryJournal::new();
        program("Be brief.").open(&journal, "c").await.unwrap().send("One?").await.unwrap();
        let mut chat = program("Be kind.").open(&journal, "c").await.unwrap();
        let (told, ended) = try_changes(&mut chat, "Bad?").await;
        assert_eq!(told.iter().map(|it| &it["left_out"]).collect::<Vec<_>>(), [0], "{told:?}");
        assert_eq!(ended.unwrap_err().error().unwrap().last().status(), Some(400));
        assert_eq!(server.requests().len(), 3, "it is asked once without what is behind messages");
        assert_eq!(changes(&mut chat, "Good?").await, Vec::<Value>::new());
        drop(chat);
        let mut chat = program("Be kind.").open(&journal, "c").await.unwrap();
        assert_eq!(changes(&mut chat, "Better?").await, Vec::<Value>::new());
        assert_eq!((check.kept(), check.refusals()), (2, 0), "{wire}");
    }
}

/// Without an answer, a program can go back to its earlier version, and nothing is lost.
#[tokio::test]
async fn reasoning_is_left_out_only_with_an_answer() {
    for wire in WIRES {
        let check = Arc::new(PrefixCheck::refusing());
        let server = fails_on(&check, wire, (401, "The key is wrong.")).await;
        let program = |system: Option<&str>| {
            let program = program(wire, &server.url(), true, system.unwrap_or_default());
            program.build().unwrap()
        };
        let journal = MemoryJournal::new();
        let mut chat = program(Some("Be brief.")).open(&journal, "c").await.unwrap();
        chat.send("One?").await.unwrap();
        chat.send("Two?").await.unwrap();
        drop(chat);
        let strict = || Settings { strict_tools: Some(true), ..Settings::default() };
        let mut chat = program(Some("Be brief.")).open(&journal, "c").await.unwrap();
        chat.send("Bad?").settings(strict()).await.unwrap_err();
        drop(chat);
        let mut chat = program(Some("Be brief.")).open(&journal, "c").await.unwrap();
        assert_eq!(changes(&mut chat, "Three?").await, Vec::<Value>::new());
        assert_eq!(check.kept(), 2, "{wire}");
        chat.send("Four?").settings(strict()).await.unwrap();
        assert_eq!((check.kept(), check.refusals()), (0, 0), "{wire}");
        chat.send("Five?").settings(strict()).await.unwrap();
        assert_eq!((check.kept(), check.refusals()), (1, 0), "{wire}");
    }
}

/// Without an answer, a refusal is no fact, also if there is no reasoning that it could cost.
#[tokio::test]
async fn a_refusal_without_reasoning_is_recorded_only_with_an_answer() {
    let check = Arc::new(PrefixCheck::refusing());
    let checks = Arc::clone(&check);
    let server = LoopbackServer::answering(move |request| {
        let body = request.json().to_string();
        if body.contains("Bad?") {
            let words = "messages.1: role 'system' is not supported on this model";
            return anthropic::error(400, "invalid_request_error", words);
        }
        if !body.contains("Three?") {
            return checks.check(request).map_or_else(|it| it, |proof| done("anthropic", &proof));
        }
        if body.contains("signature") {
            let words = "messages.1.content.0: Invalid `signature` in `thinking` block";
            return anthropic::error(400, "invalid_request_error", words);
        }
        anthropic::body().text("Done.").answer()
    })
    .await
    .unwrap();
    let program = |system: &str| program("anthropic", &server.url(), true, system).build().unwrap();
    let journal = MemoryJournal::new();
    program("Be brief.").open(&journal, "c").await.unwrap().send("One?").await.unwrap();
    let mut chat = program("Be kind.").open(&journal, "c").await.unwrap();
    chat.send("Two?").await.unwrap();
    chat.send("Three?").await.unwrap();
    let last = server.requests().last().unwrap().json();
    assert!(has_additions(&last) && !last.to_string().contains("signature"), "{last}");
    chat.send("Bad?").await.unwrap_err();
    let stored = journal.read("c", 0).await.unwrap();
    let facts = stored.facts.iter().map(|fact| fact.fact().unwrap());
    let is_refusal = |fact: &Fact| matches!(fact, Fact::PrefixSet { refusal: Some(_), .. });
    assert_eq!(facts.filter(is_refusal).count(), 1, "that of the reasoning alone");
}
