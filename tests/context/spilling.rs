//! Large results: they are kept whole with the conversation and read in parts, whatever happens
//! meanwhile.

use std::{path::Path, sync::Arc, time::Duration};

use harness::{
    Agent, CallOutcome, Chat, Tool, ToolLimits, ToolOutput,
    agent::Action,
    journal::{ConversationQuery, Envelope, Journal, MemoryJournal, SqliteJournal},
    models::{Model, Models},
    testing::{FaultyJournal, JournalCall, JournalFault, RecordedRequest, ScriptedProvider, reply},
};
use serde_json::{Value, json};

use crate::probe::{READ, WRITE};
use crate::summaries::name_in;

const KEY: &str = "sk-live-0123456789";

/// The lines of the large result, of which none is like another.
fn numbered(lines: usize) -> String {
    (1..=lines).map(|line| format!("line {line} says {}\n", line * 7919)).collect()
}

fn tool(name: &'static str, hand_over: impl Fn() -> ToolOutput + Send + Sync + 'static) -> Tool {
    Tool::new(name, "Hands over.", json!({"type": "object"}), READ, move |_, _| {
        let output = hand_over();
        Box::pin(async move { Ok(output) })
    })
}

fn big() -> Tool {
    tool("big", || numbered(100_000).into())
}

/// A model that makes these calls one after the other, and answers with the results of all.
fn calling(calls: Vec<(&'static str, Value)>) -> ScriptedProvider {
    let calls = Arc::new(calls);
    ScriptedProvider::answering(move |request| {
        let results = told(request);
        match calls.get(results.len()) {
            Some((name, arguments)) => {
                let mut arguments = arguments.clone();
                if arguments.get("name").is_some_and(Value::is_null) {
                    arguments["name"] = json!(name_in(&results[0]));
                }
                let id = format!("call_{}", results.len());
                reply().call_with_id(id, *name, arguments)
            }
            None => reply().text(results.join("\n====\n")),
        }
    })
}

/// All results of a conversation so far.
fn told(request: &RecordedRequest) -> Vec<String> {
    let messages = request.messages().iter();
    messages.flat_map(|message| message.results()).map(|result| result.to_text()).collect()
}

fn results(chat: &Chat) -> Vec<String> {
    let messages = chat.transcript().messages().iter();
    messages.flat_map(|message| message.results()).map(|result| result.to_text()).collect()
}

fn offers(request: &RecordedRequest) -> bool {
    request.tools().iter().any(|tool| tool.name == "read_result")
}

async fn kept(journal: &impl Journal, conversation: &str, name: &str) -> String {
    let (mut bytes, mut chunk) = (Vec::new(), 0);
    while let Some(more) = journal.read_spill(conversation, name, chunk).await.expect("read") {
        bytes.extend(more);
        chunk += 1;
    }
    String::from_utf8(bytes).expect("a text")
}

#[tokio::test]
async fn a_large_result_is_kept_whole_and_read_in_parts() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("chats.db");
    let journal = SqliteJournal::open(&path).await.expect("a journal");
    let model = calling(vec![
        ("big", json!({})),
        ("read_result", json!({"name": null, "line": 70_000, "lines": 2})),
        ("read_result", json!({"name": null, "byte": 10, "bytes": 20})),
        ("read_result", json!({"name": null, "search": "line 99999 "})),
        ("read_result", json!({"name": null, "search": "nowhere"})),
        ("read_result", json!({"name": null, "line": 99_999})),
        ("read_result", json!({"name": null, "line": 200_000})),
        ("read_result", json!({"name": null, "byte": 100_000_000})),
        ("read_result", json!({"name": null})),
    ]);
    let agent = Agent::builder(model.clone()).tools([big()]).build().expect("an agent");
    let mut chat = agent.open(&journal, "a").await.expect("open");
    chat.send("Go.").await.expect("an answer");
    let whole = numbered(100_000);
    let read = results(&chat);
    let name = name_in(&read[0]);
    assert!(read[0].starts_with("line 1 says") && read[0].ends_with("says 791900000\n"));
    assert!(read[0].len() < 66 * 1024, "{}", read[0].len());
    assert!(read[0].contains(&format!("of {} bytes were cut here", whole.len())));
    assert!(
        read[1].ends_with(&"]\nline 70000 says 554330000\nline 70001 says 554337919\n"),
        "{}",
        read[1]
    );
    assert!(read[2].ends_with(&format!("]\n{}", &whole[10..30])), "{}", read[2]);
    let at = whole.find("line 99999 ").expect("it is there");
    assert!(read[3].contains("1 hits, all"), "{}", read[3]);
    assert!(read[3].contains(&format!("line 99999, byte {at}: line 99999 says")), "{}", read[3]);
    assert!(read[4].contains("does not occur in it"), "{}", read[4]);
    assert!(
        read[5].contains("lines 99999 to 100000, which is its end]\nline 99999 says"),
        "{}",
        read[5]
    );
    assert!(read[6].contains("it has 100001 lines"), "{}", read[6]);
    assert!(read[7].contains("ends before byte"), "{}", read[7]);
    assert!(read[8].contains("]\nline 1 says") && read[8].len() < 65 * 1024);
    assert!(model.requests().iter().all(offers), "from the first request on");
    assert_eq!(kept(&journal, "a", &name).await, whole);
    drop(chat);
    drop(journal);

    // Another process; then the conversation is deleted.
    let journal = SqliteJournal::open(&path).await.expect("a journal");
    let model = ScriptedProvider::answering(move |request| match request.last_text().as_str() {
        "Again." => reply().call("read_result", json!({"name": name, "line": 5, "lines": 1})),
        text => reply().text(text),
    });
    let agent = Agent::builder(model).tools([big()]).build().expect("an agent");
    let mut chat = agent.open(&journal, "a").await.expect("open");
    let reply = chat.send("Again.").await.expect("an answer");
    assert!(reply.text().ends_with("]\nline 5 says 39595\n"), "{}", reply.text());
    drop(chat);
    journal.delete("a").await.expect("deleted");
    let left = rusqlite::Connection::open(&path).expect("the file");
    let left: i64 = left
        .query_row(
            "SELECT (SELECT count(*) FROM chunks) + (SELECT count(*) FROM spills)",
            [],
            |it| it.get(0),
        )
        .expect("a number");
    assert_eq!(left, 0);
}

#[tokio::test]
async fn a_name_of_another_conversation_and_a_name_that_lies_are_refused() {
    let journal = MemoryJournal::new();
    let model = calling(vec![("big", json!({}))]);
    let agent = Agent::builder(model).tools([big()]).build().expect("an agent");
    let mut chat = agent.open(&journal, "mine").await.expect("open");
    chat.send("Go.").await.expect("an answer");
    let name = name_in(&results(&chat)[0]);
    let lies =
        ["../mine/x", "r-", "", "r-0000000000000000", "R-0123456789abcdef", "r-../../../../etc"];
    for name in lies.iter().copied().chain([name.as_str(), &format!("{name}\u{0}")]) {
        let model = ScriptedProvider::new([
            reply().call("read_result", json!({"name": name})),
            reply().text("Done."),
        ]);
        let agent = Agent::builder(model).tools([big()]).build().expect("an agent");
        let mut other = agent.open(&journal, "other").await.expect("open");
        other.send("Read it.").await.expect("an answer");
        let read = results(&other).pop().expect("a result");
        assert!(
            read.contains("no result of this conversation is kept by that name"),
            "{name}: {read}"
        );
    }
    // A fork has what its base had.
    let model = ScriptedProvider::answering(move |request| match request.last_text().as_str() {
        "Read it." => reply().call("read_result", json!({"name": name, "line": 3, "lines": 1})),
        text => reply().text(text),
    });
    let agent = Agent::builder(model).tools([big()]).build().expect("an agent");
    let last = journal.read("mine", 0).await.expect("facts").head;
    journal.fork("mine", last, "fork").await.expect("a fork");
    drop(chat);
    journal.delete("mine").await.expect("deleted");
    let mut fork = agent.open(&journal, "fork").await.expect("open");
    let reply = fork.send("Read it.").await.expect("an answer");
    assert!(reply.text().ends_with("line 3 says 23757\n"), "{}", reply.text());
}

#[tokio::test]
async fn a_folder_takes_what_no_journal_keeps() {
    let folder = tempfile::tempdir().expect("a folder");
    let inside = folder.path().join("made/when built");
    let model = calling(vec![
        ("big", json!({})),
        ("read_result", json!({"name": null, "line": 2, "lines": 1})),
    ]);
    let agent = Agent::builder(model.clone()).tools([big()]).spill_folder(&inside);
    let agent = agent.build().expect("an agent");
    assert_eq!(std::fs::read_dir(&inside).expect("it was made").count(), 0);
    let mut chat = agent.chat();
    chat.send("Go.").await.expect("an answer");
    assert!(results(&chat)[1].ends_with("line 2 says 15838\n"));
    assert!(offers(&model.requests()[0]));
    let name = name_in(&results(&chat)[0]);
    let of_chat = std::fs::read_dir(&inside).expect("a folder").next().expect("one").expect("one");
    let file = of_chat.path().join(&name).with_extension("txt");
    assert_eq!(std::fs::read_to_string(&file).expect("the file"), numbered(100_000));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(&of_chat.path())), (0o600, 0o700));
    }

    // The same conversation goes on from its transcript; another one does not read it.
    let again = ScriptedProvider::answering(move |request| match request.last_text().as_str() {
        "Again." => reply().call("read_result", json!({"name": name, "line": 9, "lines": 1})),
        text => reply().text(text),
    });
    let agent =
        Agent::builder(again).tools([big()]).spill_folder(&inside).build().expect("an agent");
    let reply = agent.chat_from(chat.transcript().clone()).send("Again.").await.expect("an answer");
    assert!(reply.text().ends_with("line 9 says 71271\n"), "{}", reply.text());
    let reply = agent.run("Again.").await.expect("an answer");
    assert!(reply.text().contains("no result of this conversation"), "{}", reply.text());

    // A folder that cannot be made is an error when the agent is built.
    std::fs::write(folder.path().join("file"), "x").expect("written");
    let agent = Agent::builder(ScriptedProvider::new([])).tools([big()]);
    let err = agent.spill_folder(folder.path().join("file/below")).build().unwrap_err().to_string();
    assert!(err.contains("spill_folder") && err.contains("file/below"), "{err}");
}

/// Keeps facts and nothing else, as journals that others have written.
#[derive(Clone)]
pub(crate) struct FactsAlone(pub(crate) MemoryJournal);

impl Journal for FactsAlone {
    crate::kept::hands_on!(0: read append hold rest);
}

#[tokio::test]
async fn where_nothing_is_kept_results_are_cut_and_nothing_is_offered() {
    let plain = FactsAlone(MemoryJournal::new());
    harness::testing::journal_conformance(async || Ok(plain.clone())).await.assert_kept();
    let model = calling(vec![("big", json!({}))]);
    let build = |on| Agent::builder(model.clone()).tools([big()]).spills(on).build();
    let agent = build(true).expect("an agent");
    let off = build(false).expect("an agent");
    let mut chats = vec![
        agent.chat(),
        agent.open(&plain, "a").await.expect("open"),
        off.open(&MemoryJournal::new(), "a").await.expect("open"),
    ];
    for chat in &mut chats {
        chat.send("Go.").await.expect("an answer");
        let result = results(chat).pop().expect("a result");
        assert!(result.contains(" bytes were cut here; checksum "), "{:.200}", result);
        assert!(result.len() < 66 * 1024 && result.len() > 63 * 1024);
    }
    assert!(!model.requests().iter().any(offers));
}

#[tokio::test]
async fn what_is_large_follows_from_the_window() {
    for (window, limit, least) in
        [(2_000, 1024, 900), (32_000, 8_000, 7_900), (10_000_000, 65_536, 65_000)]
    {
        let models = Models::none().with("*", Model { window: Some(window), ..Model::default() });
        let model = calling(vec![("big", json!({})), ("read_result", json!({"name": null}))]);
        let agent = Agent::builder(model).tools([big()]).models(models).build().expect("an agent");
        let mut chat = agent.open(&MemoryJournal::new(), "a").await.expect("open");
        chat.send("Go.").await.expect("an answer");
        for result in results(&chat) {
            assert!(result.len() < limit + 200, "{window}: {}", result.len());
        }
        assert!(results(&chat)[0].len() > least, "{window}: {}", results(&chat)[0].len());
    }
}

#[tokio::test]
async fn json_stays_json_and_the_whole_is_kept() {
    let rows: Vec<Value> =
        (0..20_000).map(|id| json!({"id": id, "name": format!("n{id}")})).collect();
    let whole = json!({"rows": rows, "total": 20_000});
    let handed = whole.clone();
    let rows = tool("rows", move || harness::ToolContent::Json(handed.clone()).into());
    let journal = MemoryJournal::new();
    let agent = Agent::builder(calling(vec![("rows", json!({}))])).tools([rows]);
    let agent = agent.tool_limits(ToolLimits::default().output(4000)).build().expect("an agent");
    let mut chat = agent.open(&journal, "a").await.expect("open");
    chat.send("Go.").await.expect("an answer");
    let message = chat.transcript().messages().iter().nth(2).expect("results").clone();
    let result = message.results().next().expect("a result");
    let [harness::ToolContent::Json(cut), harness::ToolContent::Text(note)] = result.content()
    else {
        panic!("{result:?}")
    };
    assert_eq!((&cut["total"], &cut["rows"][0]), (&json!(20_000), &json!({"id": 0, "name": "n0"})));
    assert!(cut.to_string().len() < 4200, "{}", cut.to_string().len());
    assert!(note.contains(&format!("of {} bytes", whole.to_string().len())), "{note}");
    assert_eq!(kept(&journal, "a", &name_in(note)).await, whole.to_string());
}

#[tokio::test]
async fn a_file_is_a_result_and_secrets_in_it_are_hidden() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    };
    let text = format!("{}{KEY}\n", "x".repeat(262_140)).repeat(3);
    let (large, small) =
        (write("large", text.as_bytes()), write("small", b"a\xffb sk-live-0123456789"));
    let unfinished = write("unfinished", b"a key: sk-live-01234");
    let missing = folder.path().join("missing");
    let inside = folder.path().to_owned();
    let tools = [
        tool("large", move || ToolOutput::file(&large)),
        tool("small", move || ToolOutput::file(&small)),
        tool("unfinished", move || ToolOutput::file(&unfinished)),
        tool("missing", move || ToolOutput::file(&missing)),
        tool("folder", move || ToolOutput::file(&inside)),
    ];
    let calls = ["large", "small", "unfinished", "missing", "folder"].map(|name| (name, json!({})));
    let journal = MemoryJournal::new();
    let agent = Agent::builder(calling(calls.to_vec())).tools(tools).secret(KEY);
    let agent = agent.build().expect("an agent");
    let mut chat = agent.open(&journal, "a").await.expect("open");
    chat.send("Go.").await.expect("an answer");
    let read = results(&chat);
    let hidden = text.replace(KEY, "[secret]");
    assert_eq!(kept(&journal, "a", &name_in(&read[0])).await, hidden);
    assert!(
        read[0].ends_with("x[secret]\n") && read[0].contains(&format!("of {} bytes", hidden.len()))
    );
    assert_eq!(read[1], "a\u{fffd}b [secret]");
    assert_eq!(read[2], "a key: [secret]", "who wrote it was stopped in the middle");
    assert!(read[3].contains("missing` cannot be read"), "{}", read[3]);
    assert!(read[4].contains("it is not a file"), "{}", read[4]);
    // Without a place for it, the same is cut.
    let mut chat = agent.chat();
    chat.send("Go.").await.expect("an answer");
    assert!(
        results(&chat)[0].contains(" bytes were cut here; checksum ")
            && !results(&chat)[0].contains(KEY)
    );
}

#[tokio::test]
async fn two_at_once_are_kept_apart() {
    let others = || {
        (0..3)
            .map(|at| tool(["x", "y", "z"][at], move || ["x", "y", "z"][at].repeat(300_000).into()))
    };
    let model = ScriptedProvider::new([
        reply().call("x", json!({})).call("y", json!({})).call("z", json!({})).call("x", json!({})),
        reply().text("Done."),
    ]);
    let journal = MemoryJournal::new();
    let agent = Agent::builder(model).tools(others()).build().expect("an agent");
    let mut chat = agent.open(&journal, "a").await.expect("open");
    chat.send("Go.").await.expect("an answer");
    for (result, letter) in results(&chat).iter().zip(["x", "y", "z", "x"]) {
        assert_eq!(kept(&journal, "a", &name_in(result)).await, letter.repeat(300_000));
    }
}

/// Whenever the process ends while a result is kept, the next one goes on, and reads what it names whole.
#[tokio::test(start_paused = true)]
async fn a_process_that_ends_in_the_middle_leaves_nothing_that_lies() {
    for (effects, chunks) in [(READ, 0..10), (WRITE, 0..10)] {
        for chunk in chunks.step_by(crate::step(2)) {
            for fault in [JournalFault::StopBefore, JournalFault::StopAfter] {
                let journal = FaultyJournal::new(MemoryJournal::new());
                journal.fail(JournalCall::WriteSpill, chunk, fault);
                let journal = Arc::new(journal);
                let schema = json!({"type": "object"});
                let big = Tool::new("big", "Hands over.", schema, effects, |_, _| {
                    Box::pin(async { Ok(numbered(80_000).into()) })
                });
                let agent = Agent::builder(calling(vec![("big", json!({}))])).tools([big]);
                let agent = agent.permissions(harness::Permissions::allow_all());
                let agent = agent.build().expect("an agent");
                let mut chat = agent.open(&journal, "a").await.expect("open");
                let minute = Duration::from_secs(60);
                let ended = tokio::time::timeout(minute, chat.send("Go.")).await;
                // The facts that a dropped run has not written are lost with its process.
                drop(chat);
                journal.mend();
                let mut chat = agent.open(&journal, "a").await.expect("open");
                if ended.is_err() {
                    chat.resume().await.expect("an answer");
                }
                let read = results(&chat);
                let outcome =
                    chat.transcript().messages().iter().flat_map(|it| it.results()).next();
                let outcome = outcome.expect("a result").outcome();
                match outcome {
                    CallOutcome::Succeeded => {
                        let whole = kept(&*journal, "a", &name_in(&read[0])).await;
                        assert_eq!(whole, numbered(80_000), "{effects} {chunk} {fault:?}");
                    }
                    _ => assert_eq!((outcome, effects), (CallOutcome::InDoubt, WRITE), "{chunk}"),
                }
                assert_eq!(read.len(), 1);
                drop(chat);
                assert!(journal.delete("a").await.expect("deleted"));
            }
        }
    }
}

#[tokio::test]
async fn a_full_disk_is_told_and_the_conversation_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("chats.db");
    let journal =
        SqliteJournal::builder().max_size(1_500_000).open(&path).await.expect("a journal");
    let model = calling(vec![("big", json!({})), ("big", json!({"again": 1}))]);
    let agent = Agent::builder(model).tools([big()]).build().expect("an agent");
    let mut chat = agent.open(&journal, "a").await.expect("open");
    chat.send("Go.").await.expect("an answer");
    for result in results(&chat) {
        assert!(result.contains("; the whole could not be kept: the journal"), "{:.9000}", result);
        assert!(result.contains("the disk is full"), "{result}");
    }
    let left = rusqlite::Connection::open(&path).expect("the file");
    let left: i64 =
        left.query_row("SELECT count(*) FROM chunks", [], |it| it.get(0)).expect("a number");
    assert_eq!(left, 0, "what could not be kept whole takes no room");
}

#[tokio::test]
async fn an_agent_as_a_tool_keeps_its_own() {
    let child = ScriptedProvider::answering(|request| match told(request).as_slice() {
        [] => reply().call("big", json!({})),
        [big] => reply().call("read_result", json!({"name": name_in(big), "line": 4, "lines": 1})),
        [big, read, ..] => reply().text(format!("is kept as `{}`: {read}", name_in(big))),
    });
    let child = Agent::builder(child);
    let child = child.tools([big()]).build().expect("an agent");
    let model = ScriptedProvider::answering(|request| {
        let results = told(request);
        match results.as_slice() {
            [] => reply().call("look", json!({"task": "Look."})),
            // The child has told its own name.
            [of_child] => reply().call("read_result", json!({"name": name_in(of_child)})),
            _ => reply().text("Done."),
        }
    });
    let agent = Agent::builder(model.clone()).tools([child.as_tool("look", "Looks.")]);
    let agent = agent.build().expect("an agent");
    let journal = MemoryJournal::new();
    let mut chat = agent.open(&journal, "a").await.expect("open");
    chat.send("Go.").await.expect("an answer");
    let read = results(&chat);
    assert!(read[0].contains("line 4 says 31676"), "the agent reads what it keeps");
    assert!(read[1].contains("no result of this conversation"), "{}", read[1]);
    let page = journal.list(&ConversationQuery::new().parent("a")).await.expect("a page");
    let below = &page.conversations[0].id;
    let of_child = name_in(&read[0]);
    assert_eq!(kept(&journal, below, &of_child).await, numbered(100_000));
    drop(chat);
    let below = below.clone();
    journal.delete("a").await.expect("deleted");
    assert_eq!(kept(&journal, &below, &of_child).await, "");
}

#[tokio::test]
async fn steps_keep_results_in_the_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = calling(vec![
        ("big", json!({})),
        ("read_result", json!({"name": null, "line": 6, "lines": 1})),
    ]);
    let agent = Agent::builder(model).tools([big()]).spill_folder(folder.path());
    let agent = agent.build().expect("an agent");
    let mut kept: Vec<Envelope> = Vec::new();
    loop {
        // Each action in a process of its own.
        let steps = agent.steps("chat-17", kept.clone()).expect("steps");
        let facts = match steps.next() {
            Action::AwaitUser => steps.say("Go.".into()).await.expect("facts"),
            Action::Finish(_) => break,
            _ => steps.act().await.expect("facts"),
        };
        kept.extend(facts);
    }
    let steps = agent.steps("chat-17", kept).expect("steps");
    let text = steps.transcript().messages().last().expect("an answer").text().to_owned();
    assert!(text.ends_with("line 6 says 47514\n"), "{:.300}", text);
}

#[tokio::test]
async fn the_name_of_the_reader_is_its_own() {
    let own = || [tool("read_result", || "mine".into())];
    let build = |on| Agent::builder(ScriptedProvider::new([])).tools(own()).spills(on).build();
    let err = build(true).unwrap_err().to_string();
    assert!(err.contains("`read_result`") && err.contains("spills(false)"), "{err}");
    build(false).expect("an agent");
    // Which tools are offered does not take it away.
    let model = calling(vec![("big", json!({}))]);
    let other = tool("other", || "x".into());
    let agent = Agent::builder(model.clone()).tools([big(), other]).build().expect("an agent");
    let mut chat = agent.open(&MemoryJournal::new(), "a").await.expect("open");
    chat.send("Go.").only_tools(["big"]).await.expect("an answer");
    let names: Vec<String> =
        model.requests()[0].tools().iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(names, ["big", "read_result"]);
}

/// A process of its own, so that what others of this process take does not count.
#[tokio::test]
#[ignore = "run by the test below"]
async fn reads_a_large_file() {
    let Ok(folder) = std::env::var("HARNESS_SPILL_FOLDER") else { return };
    let folder = Path::new(&folder);
    let large = folder.join("large");
    let journal = SqliteJournal::open(folder.join("chats.db")).await.expect("a journal");
    let model = calling(vec![
        ("large", json!({})),
        ("read_result", json!({"name": null, "search": "the last line"})),
    ]);
    let agent = Agent::builder(model).tools([tool("large", move || ToolOutput::file(&large))]);
    let agent = agent.secret(KEY).build().expect("an agent");
    let mut chat = agent.open(&journal, "a").await.expect("open");
    chat.send("Go.").await.expect("an answer");
    let read = results(&chat);
    assert!(
        read[1].contains("1 hits, all") && read[1].contains("this is the last line"),
        "{}",
        read[1]
    );
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).expect("a peak");
    std::fs::write(folder.join("peak"), peak.replace(|c: char| !c.is_ascii_digit(), ""))
        .expect("written");
}

#[cfg(target_os = "linux")]
#[test]
fn a_large_file_takes_bounded_memory() {
    use std::io::Write as _;
    let size = std::env::var("HARNESS_SPILL_MB").ok().and_then(|size| size.parse().ok());
    let mut peaks = Vec::new();
    for size in [8_u64, size.unwrap_or(32)] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = std::fs::File::create(folder.path().join("large")).expect("a file");
        let mut file = std::io::BufWriter::new(file);
        let lines = numbered(10_000);
        for _ in 0..size * 1024 * 1024 / lines.len() as u64 {
            file.write_all(lines.as_bytes()).expect("written");
        }
        file.write_all(b"this is the last line").expect("written");
        drop(file);
        let child = std::process::Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "--ignored", "spilling::reads_a_large_file"])
            .env("HARNESS_SPILL_FOLDER", folder.path())
            .output()
            .expect("it runs");
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
        let peak = std::fs::read_to_string(folder.path().join("peak")).expect("a peak");
        peaks.push(peak.parse::<u64>().expect("kilobytes"));
    }
    println!("peak of memory in KiB, with 8 MiB and with more: {peaks:?}");
    assert!(peaks[1] < peaks[0] + 16 * 1024, "{peaks:?} KiB");
}
