//! Servers that are child processes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use harness::{
    Agent, CallOutcome, CancellationToken, ErrorKind, Permissions, SideEffect, SideEffects,
    ToolContext,
    journal::MemoryJournal,
    mcp::{McpElicitationAnswer, McpServer},
    policy::ApprovalRequest,
    testing::{ScriptedProvider, reply},
};
use serde_json::json;

use super::{Scripted, call, text};

const READ: SideEffects = SideEffects::of(&[SideEffect::Read]);

async fn started(scripted: &Scripted, way: &str) -> McpServer {
    scripted.server(way).connect().await.unwrap_or_else(|err| panic!("{way}: {err}"))
}

/// Calls the tool `run` of a server that behaves in this way; the call was sent once.
async fn once(way: &str) -> Result<harness::ToolOutput, harness::ToolError> {
    let scripted = Scripted::new();
    let server = started(&scripted, way).await;
    let result = call(&server.tools()[0]).await;
    assert_eq!(scripted.count("call"), 1, "{way}");
    server.close().await;
    scripted.until_none_lives().await;
    result
}

#[tokio::test]
async fn a_tool_is_listed_called_and_asked_about_whatever_the_server_says() {
    let scripted = Scripted::new();
    let server = started(&scripted, "good").await;
    let tools = server.tools();
    assert_eq!(tools[0].name(), "it__run");
    assert_eq!(tools[0].side_effects(), SideEffects::ALL);
    assert_eq!(text(call(&tools[0]).await), "ran in life 1");
    let wrong = tools[0].call(&ToolContext::new("call_1"), json!({"a": "one"})).await.unwrap_err();
    assert!(wrong.to_string().contains("do not fit"), "{wrong}");
    assert_eq!(scripted.count("call"), 1, "arguments that do not fit are not sent");

    let trusted = scripted.server("good").trust_hints().connect().await.expect("a server");
    assert_eq!(trusted.tools()[0].side_effects(), READ);
    let told = scripted.server("good").effects("run", SideEffect::Read);
    let told = told.connect().await.expect("a server");
    assert_eq!(told.tools()[0].side_effects(), READ);
}

#[tokio::test]
async fn nothing_runs_unasked_without_the_programs_word() {
    let scripted = Scripted::new();
    let server = started(&scripted, "good").await;
    let model =
        ScriptedProvider::new([reply().call("it__run", json!({"a": 1})), reply().text("No.")]);
    let agent = Agent::builder(model).tools(server.tools()).build().expect("an agent");
    let told = agent.run("Run it.").await.expect("a reply");
    let results: Vec<CallOutcome> = told
        .transcript()
        .messages()
        .iter()
        .flat_map(|message| message.results())
        .map(|result| result.outcome())
        .collect();
    assert_eq!(results, [CallOutcome::Denied]);
    assert_eq!(scripted.count("call"), 0);
}

#[tokio::test]
async fn a_call_that_was_lost_is_in_doubt_and_the_agent_goes_on_with_a_new_process() {
    let scripted = Scripted::new();
    let server = started(&scripted, "dies").await;
    let model = ScriptedProvider::new([
        reply().call("it__run", json!({"a": 1})),
        reply().call("it__run", json!({"a": 2})),
        reply().text("Done."),
    ]);
    let agent = Agent::builder(model)
        .tools(server.tools())
        .permissions(Permissions::default().allow("it__run"));
    let told = agent.build().expect("an agent").run("Run it.").await.expect("a reply");
    let results: Vec<CallOutcome> = told
        .transcript()
        .messages()
        .iter()
        .flat_map(|message| message.results())
        .map(|result| result.outcome())
        .collect();
    assert_eq!(results, [CallOutcome::InDoubt, CallOutcome::Succeeded]);
    assert_eq!(scripted.count("call"), 2);
    server.close().await;
    scripted.until_none_lives().await;
}

#[tokio::test]
async fn a_server_that_dies_at_each_call_is_given_up_and_its_last_words_are_told() {
    let scripted = Scripted::new();
    let server = started(&scripted, "dies-always").await;
    let tool = server.tools().remove(0);
    let first = call(&tool).await.unwrap_err();
    assert!(first.is_in_doubt());
    for part in ["its process has ended (exit status 3)", "the disk is on fire"] {
        assert!(first.to_string().contains(part), "{part}: {first}");
    }
    for _ in 0..5 {
        assert!(call(&tool).await.unwrap_err().is_in_doubt());
    }
    let gone = call(&tool).await.unwrap_err();
    assert!(!gone.is_in_doubt() && gone.to_string().contains("not sent"), "{gone}");
    assert_eq!(scripted.count("call"), 6);
}

#[tokio::test]
async fn a_tool_that_is_another_one_after_a_new_start_is_not_called() {
    for way in ["other-tool", "tool-gone"] {
        let scripted = Scripted::new();
        let server = started(&scripted, way).await;
        let tool = server.tools().remove(0);
        assert!(call(&tool).await.unwrap_err().is_in_doubt(), "{way}");
        let changed = call(&tool).await.unwrap_err();
        assert!(changed.to_string().contains("not sent"), "{way}: {changed}");
        assert!(server.has_changed(), "{way}");
        assert_eq!(scripted.count("call"), 1, "{way}");
        if way == "other-tool" {
            let again = server.reload().await.expect("the tools");
            assert_eq!(text(call(&again.tools()[0]).await), "ran in life 2");
        }
    }
}

#[tokio::test]
async fn whatever_a_server_answers_is_read_once() {
    assert_eq!(text(once("garbage").await), "after garbage");
    assert_eq!(text(once("twice").await), "first");
    assert!(text(once("odd-part").await).ends_with("kept"));
    assert_eq!(text(once("odd-result").await), r#"{"weather":"fine"}"#);
    assert_eq!(text(once("loud").await), "done");
    assert_eq!(text(once("samples").await), "refused");
    let refused = once("refuses").await.unwrap_err();
    assert!(refused.to_string().contains("a is missing") && !refused.is_in_doubt(), "{refused}");
    let failed = once("fails").await.unwrap_err();
    assert!(failed.to_string().contains("no such row") && !failed.is_in_doubt(), "{failed}");
}

#[tokio::test]
async fn a_call_that_is_never_answered_ends_in_time_and_the_server_hears_of_it() {
    for way in ["silent", "wrong-id"] {
        let scripted = Scripted::new();
        let server = started(&scripted, way).await;
        let model = ScriptedProvider::new([
            reply().call("it__run", json!({"a": 1})),
            reply().text("Too bad."),
        ]);
        let limits = harness::ToolLimits::default().time(Duration::from_millis(500));
        let agent = Agent::builder(model).tools(server.tools()).tool_limits(limits);
        let agent =
            agent.permissions(Permissions::default().allow("it__run")).build().expect("an agent");
        let told = agent.run("Run it.").await.expect("a reply");
        assert_eq!(told.text(), "Too bad.", "{way}");
        let results = told.transcript().messages().iter().flat_map(|message| message.results());
        assert!(results.map(|result| result.outcome()).eq([CallOutcome::InDoubt]), "{way}");
        scripted.until("the cancellation", |it| it.count("cancelled") == 1).await;
        assert_eq!(scripted.count("call"), 1, "{way}");
    }
}

/// The server has answered, so nothing else will come.
#[tokio::test]
async fn an_answer_that_cannot_be_read_leaves_the_call_in_doubt_at_once() {
    for (way, said) in [
        ("no-jsonrpc", "no message of JSON-RPC"),
        ("huge-line", "more than 16 MiB"),
        ("deep", "nested deeper"),
    ] {
        let err = once(way).await.expect_err(way);
        assert!(err.is_in_doubt(), "{way}: {err}");
        assert!(
            err.to_string().contains("cannot be read") && err.to_string().contains(said),
            "{err}"
        );
    }
    for (line, said) in [
        (r#"{"jsonrpc":"2.0","id":ID,"id":ID,"result":{}}"#, "no message of JSON-RPC"),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{},"result":{}}"#, "no message of JSON-RPC"),
        (r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":ID,"result":{}}"#, "no message of JSON-RPC"),
        (
            r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[],"a":1e999}}"#,
            "no message of JSON-RPC",
        ),
        (r#"{"jsonrpc":"2.0","id":ID,"method":null,"result":{}}"#, "no message of JSON-RPC"),
        (r#"{"jsonrpc":"2.0","result":{}}"#, "does not say which request it answers"),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"result":{}}"#, "does not say which request it answers"),
    ] {
        let way = format!("writes:{line}");
        let answer = tokio::time::timeout(Duration::from_secs(20), once(&way)).await;
        let err = answer.expect(line).expect_err(line);
        assert!(err.is_in_doubt() && err.to_string().contains(said), "{line}: {err}");
    }
    for way in ["list-too-long", "list-too-deep"] {
        let scripted = Scripted::new();
        let err = scripted.server(way).connect().await.expect_err(way);
        assert_eq!(err.kind(), ErrorKind::Protocol, "{err}");
        assert!(err.to_string().contains("cannot be read"), "{err}");
    }
}

/// A text that was cut within an emoji.
#[tokio::test]
async fn half_a_character_does_not_make_an_answer_unreadable() {
    let said =
        r#"{"content":[{"type":"text","text":"ran \ud83d"}],"structuredContent":{"\ude00":1}}"#;
    let line = format!(r#"writes:{{"jsonrpc":"2.0","id":ID,"result":{said}}}"#);
    let answer = tokio::time::timeout(Duration::from_secs(20), once(&line)).await;
    let output = answer.expect("an answer").expect("an output");
    assert_eq!(output.value(), Some(&json!({"\u{fffd}": 1})));
    assert!(text(Ok(output)).starts_with("ran \u{fffd}"));
    let line = r#"writes:{"jsonrpc":"2.0","id":ID,"error":{"code":-1,"message":"bad \ud83d"}}"#;
    let err = once(line).await.expect_err("an error");
    assert!(!err.is_in_doubt() && err.to_string().contains("bad \u{fffd}"), "{err}");
}

/// A server that writes in the encoding of its system.
#[tokio::test]
async fn bytes_that_are_no_utf8_do_not_make_an_answer_unreadable() {
    assert_eq!(text(once("no-utf8").await), "\u{fffd}\u{fffd}");
}

#[tokio::test]
async fn a_call_that_is_stopped_or_dropped_is_cancelled_at_the_server() {
    let scripted = Scripted::new();
    let server = started(&scripted, "silent").await;
    let tool = server.tools().remove(0);
    let stop = CancellationToken::new();
    let context = ToolContext::new("call_1").with_cancellation(stop.clone());
    let stopping = async {
        scripted.until("the call", |it| it.count("call") == 1).await;
        stop.cancel();
    };
    let (result, ()) = tokio::join!(tool.call(&context, json!({})), stopping);
    assert!(result.unwrap_err().is_in_doubt());
    tokio::select! {
        _ = call(&tool) => panic!("it is never answered"),
        () = scripted.until("the second call", |it| it.count("call") == 2) => {}
    }
    scripted.until("both cancellations", |it| it.count("cancelled") == 2).await;
}

#[tokio::test]
async fn progress_is_heard_in_order_and_bounded() {
    let scripted = Scripted::new();
    let server = started(&scripted, "flood").await;
    let context = ToolContext::new("call_1");
    assert_eq!(text(server.tools()[0].call(&context, json!({})).await), "done");
    let log = context.progress_log();
    assert!(!log.is_empty() && log.len() <= 1000, "{}", log.len());
    let numbers: Vec<u32> = log
        .iter()
        .map(|line| line.split(' ').next().expect("a word").parse().expect("a number"))
        .collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
}

#[tokio::test]
async fn an_empty_cursor_is_the_end_of_a_list() {
    assert_eq!(text(once("last-page").await), "ran in life 1");
}

#[tokio::test]
async fn a_list_without_an_end_is_refused() {
    for way in ["endless-pages", "too-many", "no-list"] {
        let scripted = Scripted::new();
        let err = scripted.server(way).connect().await.expect_err(way);
        assert_eq!(err.kind(), ErrorKind::Protocol, "{way}: {err}");
        scripted.until_none_lives().await;
    }
}

#[tokio::test]
async fn a_page_that_comes_again_and_again_ends_the_list_and_is_told() {
    for way in ["same-page", "same-page-anew"] {
        let scripted = Scripted::new();
        let server = started(&scripted, way).await;
        let names: Vec<String> = server.tools().iter().map(|it| it.name().to_owned()).collect();
        assert_eq!(names, ["it__run"], "{way}");
        let [why] = server.left_out() else { panic!("{way}: {:?}", server.left_out()) };
        assert!(why.contains("further tools") && why.contains("again and again"), "{why}");
        server.close().await;
    }
}

/// Vendors keep the beginning of a request, and the tools are there.
#[tokio::test]
async fn tools_have_the_same_order_in_whatever_order_the_server_lists_them() {
    let scripted = Scripted::new();
    let server = started(&scripted, "any-order").await;
    let names: Vec<String> = server.tools().iter().map(|it| it.name().to_owned()).collect();
    assert_eq!(names, ["it__a", "it__b", "it__c", "it__d"]);
    server.close().await;
}

/// Many servers write a summary for people as the text.
#[tokio::test]
async fn the_model_reads_the_data_of_a_result_that_the_text_leaves_out() {
    let said = |text: &str| {
        let content = json!([{"type": "text", "text": text}]);
        let result = json!({"content": content, "structuredContent": {"ids": ["a1", "b2"]}});
        format!("answers:{result}")
    };
    let summary = text(once(&said("2 accounts")).await);
    assert_eq!(summary, "2 accounts\n{\"ids\":[\"a1\",\"b2\"]}");
    assert_eq!(text(once(&said("the accounts a1 and b2")).await), "the accounts a1 and b2");
}

#[tokio::test]
async fn a_bad_tool_does_not_spoil_the_list() {
    let scripted = Scripted::new();
    let server = started(&scripted, "bad-tools").await;
    let names: Vec<String> = server.tools().iter().map(|tool| tool.name().to_owned()).collect();
    assert!(names[0].starts_with("it__odd_name_"), "{names:?}");
    assert_eq!(names[1], "it__run");
    assert_eq!(names.len(), 2);
    assert_eq!(server.left_out().len(), 5, "{:?}", server.left_out());
    assert!(server.only(["run"]).is_ok_and(|tools| tools.len() == 1));
    assert!(server.only(["runn"]).expect_err("no such tool").to_string().contains("`run`"));

    // Nor if the list has members of other results.
    let scripted = Scripted::new();
    let server = started(&scripted, "bad-tools-and-more").await;
    assert_eq!((server.tools().len(), server.left_out().len()), (1, 2), "{:?}", server.left_out());
}

#[tokio::test]
async fn a_program_that_cannot_be_a_server_is_told_why() {
    let scripted = Scripted::new();
    let err = scripted
        .server("no-start")
        .env("KEY", "sk-very-secret-value")
        .connect()
        .await
        .expect_err("no start");
    let shown = err.to_string();
    assert!(shown.contains("no configuration") && !shown.contains("sk-very"), "{shown}");
    assert!(shown.contains("its process has ended (exit status 1)"), "{shown}");
    let err =
        McpServer::command("/no/such/program", [""; 0]).connect().await.expect_err("no program");
    assert!(err.is_configuration(), "{err}");
    let err = scripted.server("good").name("a__b").connect().await.expect_err("a name");
    assert!(err.is_configuration(), "{err}");
    let err = scripted.server("good").header("a", "b").connect().await.expect_err("a header");
    assert!(err.is_configuration(), "{err}");
    let err =
        scripted.server("good").effects("runn", READ).connect().await.expect_err("no such tool");
    assert!(err.is_configuration() && err.to_string().contains("`run`"), "{err}");
    scripted.until_none_lives().await;
}

/// Whether the program can still write to it is left to chance.
#[tokio::test]
async fn a_process_that_ends_at_once_is_told_with_its_status_and_its_last_words() {
    for (script, how) in [
        ("echo no licence >&2; exit 7", "(exit status 7)"),
        ("echo no licence >&2; kill -9 $$", "(signal 9)"),
        // Its input is closed before anything is written to it.
        ("exec <&-; echo no licence >&2; exit 7", "(exit status 7)"),
    ] {
        let err = McpServer::command("sh", ["-c", script]).connect().await.expect_err(script);
        let shown = err.to_string();
        assert!(shown.contains(&format!("its process has ended {how}")), "{script}: {shown}");
        assert!(shown.contains("no licence") && !shown.contains("Broken pipe"), "{shown}");
    }
}

#[tokio::test]
async fn a_process_that_ends_while_a_child_holds_its_pipes_is_told_with_its_status() {
    let scripted = Scripted::new();
    let connecting = scripted.server("leaves-child-and-ends").connect();
    let err = tokio::time::timeout(Duration::from_secs(20), connecting).await;
    let err = err.expect("it waits for the child").expect_err("it has ended").to_string();
    assert!(err.contains("its process has ended (exit status 6)"), "{err}");
    scripted.until_none_lives().await;
}

#[tokio::test]
async fn a_server_is_closed_at_once_while_it_is_started_again_for_a_call() {
    let scripted = Scripted::new();
    let server = started(&scripted, "hangs-anew").await;
    let tool = server.tools().remove(0);
    assert!(call(&tool).await.expect_err("it has died").is_in_doubt());
    let next = tokio::spawn(async move { call(&tool).await });
    scripted.until("the second start", |it| it.pids().len() == 2).await;
    let closed = tokio::time::timeout(Duration::from_secs(20), server.close()).await;
    closed.expect("it waits for the start");
    let err = next.await.expect("no panic").expect_err("it is closed");
    assert!(!err.is_in_doubt() && err.to_string().contains("closed by the program"), "{err}");
    scripted.until_none_lives().await;
}

#[tokio::test]
async fn two_servers_with_one_name_are_told_how_to_have_another() {
    let scripted = Scripted::new();
    let (one, two) = (started(&scripted, "good").await, started(&scripted, "good").await);
    let agent = Agent::builder(ScriptedProvider::new([])).tools(one.tools()).tools(two.tools());
    let err = agent.build().expect_err("two tools of one name").to_string();
    assert!(err.contains("`it__run`") && err.contains("`McpServerBuilder::name("), "{err}");
}

/// A shell as a server.
async fn shell(script: &str) -> String {
    let server = McpServer::command("sh", ["-c", script]).name("it");
    server.connect().await.expect_err("no server").to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_has_said_before_its_end_is_told_though_its_pipes_end_first() {
    for _ in 0..20 {
        let err = shell("exec <&- >&-; echo out of luck >&2; exit 3").await;
        assert!(err.ends_with("Its standard error ends with:\nout of luck"), "{err}");
        let err = shell("echo out of luck >&2; exit 3").await;
        assert!(err.contains("out of luck"), "{err}");
    }
}

#[tokio::test]
async fn the_line_that_says_why_is_shown_though_others_come_behind_it() {
    let script = "echo cannot find it >&2; seq 12 | sed 's/^/    at line /' >&2; exit 1";
    let err = shell(script).await;
    assert!(err.contains("\ncannot find it\n") && err.ends_with("at line 12"), "{err}");
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_named_and_not_the_program() {
    let err = McpServer::command("sh", ["-c", "exit 3"]).name("it").folder("/no/such/folder");
    let err = err.connect().await.expect_err("no folder");
    assert!(err.is_configuration(), "{err}");
    let err = err.to_string();
    assert!(err.contains("`it`") && err.contains("the folder `/no/such/folder`"), "{err}");
    assert!(!err.contains("the program"), "{err}");
    let err = McpServer::command("/no/such/program", [""; 0]).connect().await;
    let err = err.expect_err("no program").to_string();
    assert!(err.contains("`/no/such/program`") && err.contains("install it"), "{err}");
}

#[tokio::test]
async fn what_a_call_in_doubt_means_stands_before_the_words_of_the_server() {
    let scripted = Scripted::new();
    let server = started(&scripted, "dies-always").await;
    let model =
        ScriptedProvider::new([reply().call("it__run", json!({"a": 1})), reply().text("Ended.")]);
    let agent = Agent::builder(model)
        .tools(server.tools())
        .permissions(Permissions::default().allow("it__run"));
    let told = agent.build().expect("an agent").run("Run it.").await.expect("a reply");
    let results = told.transcript().messages().iter().flat_map(|message| message.results());
    let words: Vec<String> = results.map(|result| result.to_text()).collect();
    let [words] = &words[..] else { panic!("{words:?}") };
    let lines: Vec<&str> = words.lines().collect();
    assert!(lines[0].ends_with("check what it did before you repeat it."), "{words}");
    assert_eq!(lines[1..], ["Its standard error ends with:", "fatal: the disk is on fire"]);
}

#[tokio::test]
async fn a_server_that_never_begins_ends_with_the_time_that_it_has() {
    let scripted = Scripted::new();
    let connecting = tokio::spawn(scripted.server("no-answer").connect());
    scripted.until("the start", |it| it.pids().len() == 1).await;
    tokio::time::pause();
    let err = connecting.await.expect("no panic").expect_err("no session");
    assert_eq!(err.kind(), ErrorKind::Timeout, "{err}");
    tokio::time::resume();
    scripted.until_none_lives().await;
}

#[tokio::test]
async fn no_process_outlives_its_server() {
    for way in ["good", "leaves-child", "stays"] {
        let scripted = Scripted::new();
        let server = started(&scripted, way).await;
        let tools = server.tools();
        drop(server);
        assert_eq!(
            text(call(&tools[0]).await),
            "ran in life 1",
            "{way}: the tools keep the connection"
        );
        drop(tools);
        scripted.until_none_lives().await;
        let closed = Scripted::new();
        let server = started(&closed, way).await;
        server.close().await;
        closed.until_none_lives().await;
        assert_eq!(closed.count("input ended"), 1, "{way}: it could end by itself");
        let after = call(&server.tools()[0]).await.unwrap_err();
        assert!(after.to_string().contains("closed by the program"), "{after}");
        assert_eq!(
            closed.pids().len(),
            if way == "leaves-child" { 2 } else { 1 },
            "{way}: not started again"
        );
    }
}

#[tokio::test]
async fn a_process_sees_six_variables_and_those_that_it_is_given() {
    let scripted = Scripted::new();
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "a variable that it must not see");
    let server =
        scripted.server("variables").env("GIVEN", "yes").connect().await.expect("a server");
    let seen = text(call(&server.tools()[0]).await);
    let known = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "GIVEN"];
    assert!(seen.split(' ').all(|name| known.contains(&name)), "{seen}");
    assert!(seen.contains("GIVEN") && seen.contains("PATH"), "{seen}");
}

#[tokio::test]
async fn a_changed_list_is_told_and_read_on_request() {
    let scripted = Scripted::new();
    let server = started(&scripted, "changes").await;
    assert!(!server.has_changed());
    assert_eq!(text(call(&server.tools()[0]).await), "changed");
    scripted.until("the word of it", |_| server.has_changed()).await;
    let again = server.reload().await.expect("the tools");
    assert_eq!(again.tools().len(), 2);
    assert!(!server.has_changed());
    assert_eq!(text(call(&server.tools()[0]).await), "changed", "what is as it was can be called");
}

#[tokio::test]
async fn a_server_asks_a_person_only_if_the_program_lets_it() {
    let hooked = |scripted: &Scripted, way: &str| {
        scripted.server(way).on_elicitation(|form| {
            Box::pin(async move {
                assert_eq!(form.server, "it");
                McpElicitationAnswer::Accept(
                    json!({"name": "Ada"}).as_object().expect("an object").clone(),
                )
            })
        })
    };
    let scripted = Scripted::new();
    let server = hooked(&scripted, "asks").connect().await.expect("a server");
    assert!(scripted.log().contains(r#"able {"elicitation""#), "{}", scripted.log());
    let said = text(call(&server.tools()[0]).await);
    assert!(said.contains("accept") && said.contains("Ada"), "{said}");

    let scripted = Scripted::new();
    let server = started(&scripted, "asks").await;
    assert!(scripted.log().contains("able {}"), "{}", scripted.log());
    assert!(text(call(&server.tools()[0]).await).contains("decline"));

    // Nobody can be asked where there is no terminal.
    let scripted = Scripted::new();
    let form = harness::policy::TerminalForm::on("/dev/null");
    let server = scripted.server("asks").form_at_terminal(form).connect().await.expect("a server");
    assert!(scripted.log().contains(r#"able {"elicitation""#), "{}", scripted.log());
    assert!(text(call(&server.tools()[0]).await).contains("cancel"));

    let scripted = Scripted::new();
    let server = hooked(&scripted, "wants-input").connect().await.expect("a server");
    let said = text(call(&server.tools()[0]).await);
    assert!(said.contains("Ada"), "{said}");
    assert_eq!(scripted.count("call"), 3);

    let scripted = Scripted::new();
    let server = hooked(&scripted, "wants-forever").connect().await.expect("a server");
    let err = call(&server.tools()[0]).await.unwrap_err();
    assert!(err.to_string().contains("has not run the call") && !err.is_in_doubt(), "{err}");
    assert_eq!(scripted.count("call"), 9);
}

#[tokio::test]
async fn always_holds_for_the_tool_as_it_was_described() {
    let scripted = Scripted::new();
    let journal = MemoryJournal::new();
    let asked = Arc::new(AtomicUsize::new(0));
    // The first two processes describe the tool in the same way, the third one does not.
    for (way, questions, calls) in [("good", 1, 1), ("good", 1, 2), ("describes-anew", 2, 3)] {
        let server = started(&scripted, way).await;
        let model = ScriptedProvider::new([
            reply().call("it__run", json!({"a": 1})),
            reply().text("Done."),
        ]);
        let counted = Arc::clone(&asked);
        let agent = Agent::builder(model).tools(server.tools()).approver(
            move |question: ApprovalRequest| {
                counted.fetch_add(1, Ordering::SeqCst);
                async move { question.always() }
            },
        );
        let agent = agent.build().expect("an agent");
        let mut chat = agent.open(&journal, "chat").await.expect("it opens");
        chat.send("Run it.").await.expect("a reply");
        let counts = (asked.load(Ordering::SeqCst), scripted.count("call"));
        assert_eq!(counts, (questions, calls), "{way}");
    }
}
