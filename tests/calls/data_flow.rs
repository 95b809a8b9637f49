//! What a conversation has read: whoever brings something to the model, it counts, and it is not forgotten.

use std::{
    future::IntoFuture as _,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use harness::{
    Agent, CallOutcome, Chat, Message, Permissions, SideEffect, SideEffects, Tool, ToolError,
    Transcript,
    journal::{
        AnswerCheck, Decider, Decision, Envelope, Fact, Head, InterruptCause, Journal,
        MemoryJournal, Repeat, Source,
    },
    message::{Block, Media, ToolCall, ToolContent, ToolResult, VendorData},
    policy::{ApprovalRequest, DataFlowPolicy, Taint},
    provider::{StopReason, StreamEvent, Usage, VendorPart},
    testing::{Gate, RecordedRequest, ScriptedProvider, ScriptedReply, reply},
    tool::Reconciled,
};
use serde_json::json;

use crate::{
    approvers::person,
    kept::CHAT,
    probe::{Log, READ, Work, takes_all, tool as probe},
};

const LOOKS_UP: SideEffects = SideEffects::of(&[SideEffect::Read, SideEffect::Network]);

const SECOND: Duration = Duration::from_secs(1);

/// What a rule has seen of the calls of `out`: private data, words of strangers.
type Seen = Arc<Mutex<Vec<(bool, bool)>>>;

fn of(taint: Taint) -> (bool, bool) {
    (taint.private, taint.untrusted)
}

fn last(seen: &Seen) -> (bool, bool) {
    *seen.lock().unwrap_or_else(PoisonError::into_inner).last().expect("a call of `out`")
}

/// Permissions that write down what was read before each call of `out`.
fn watching(seen: &Seen) -> Permissions {
    let seen = Arc::clone(seen);
    Permissions::default().rule("watch", move |call| {
        if call.tool == "out" {
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(of(call.taint));
        }
        None
    })
}

/// A tool of any arguments.
fn does(name: &'static str, effects: SideEffects) -> Tool {
    takes_all(name, effects, &Log::default())
}

fn out() -> Tool {
    does("out", SideEffects::NONE)
}

fn call(name: &str) -> ScriptedReply {
    let is_agent = matches!(name, "agent" | "middle");
    reply().call(name, if is_agent { json!({"task": "Go."}) } else { json!({}) })
}

/// Calls these tools, one in each turn, then `out` if it may, and then says so.
fn turns(names: &'static [&'static str]) -> ScriptedProvider {
    ScriptedProvider::answering(move |request: &RecordedRequest| {
        let done = request.messages().iter().flat_map(Message::calls).count();
        match names.get(done) {
            Some(name) => call(name),
            None => reply().text("Done."),
        }
    })
}

/// The conversation as another agent finds it in a later process: it has no tool of the first one.
async fn seen_in(journal: &MemoryJournal, conversation: &str) -> (bool, bool) {
    let seen = Seen::default();
    let model = ScriptedProvider::new([call("out"), reply().text("Done.")]);
    let agent = Agent::builder(model).tools([out()]).permissions(watching(&seen));
    let mut chat = agent.build().expect("an agent").open(journal, conversation).await.expect("it");
    chat.send("Carry it out.").await.expect("an answer");
    last(&seen)
}

/// What was read, in this process, in a later one, and in a fork.
async fn is_seen(source: &str, mut chat: Chat, journal: &MemoryJournal, expected: (bool, bool)) {
    let facts = chat.facts();
    let fork = chat.fork("fork", facts).await.unwrap_or_else(|err| panic!("{source}: {err}"));
    drop((chat, fork));
    assert_eq!(seen_in(journal, "fork").await, expected, "{source}, in a fork");
    assert_eq!(seen_in(journal, CHAT).await, expected, "{source}, opened again");
}

async fn opened(agent: &Agent) -> (Chat, MemoryJournal) {
    let journal = MemoryJournal::new();
    let chat = agent.open(&journal, CHAT).await.expect("a new conversation");
    (chat, journal)
}

/// How a tool ends in a table of sources.
fn tools_that_read(effects: SideEffects) -> Vec<(&'static str, Tool)> {
    let asks = Tool::new("t", "Asks.", json!({"type": "object"}), effects, |context, _| {
        Box::pin(async move {
            match context.answered() {
                Some(_) => Ok("answered".into()),
                None => Err(ToolError::asks("Which?", json!(1))),
            }
        })
    });
    let log = Log::default();
    vec![
        ("a tool", does("t", effects)),
        ("a tool that fails", probe("t", effects, &log, Work::Fails)),
        ("a tool that panics", probe("t", effects, &log, Work::Panics)),
        ("a tool that is stopped", probe("t", effects, &log, Work::Gate(Gate::new()))),
        ("a result from outside", Tool::external("t", "Asks.", json!({"type": "object"}), effects)),
        ("a tool that asks", asks),
    ]
}

fn kinds() -> [(SideEffects, (bool, bool)); 4] {
    let both = SideEffects::of(&[SideEffect::Read, SideEffect::Network, SideEffect::Write]);
    let neither = SideEffects::NONE;
    [
        (READ, (true, false)),
        (LOOKS_UP, (false, true)),
        (both, (true, true)),
        (neither, (false, false)),
    ]
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_the_result_of_a_call_it_counts_by_what_the_tool_declares() {
    for (effects, expected) in kinds() {
        for (source, tool) in tools_that_read(effects) {
            for inbox in [false, true] {
                let permissions = || Permissions::default().allow("t");
                let agent = Agent::builder(turns(&["t"])).tools([tool.clone()]);
                let agent = agent.permissions(permissions()).build().expect("an agent");
                let (mut chat, journal) = opened(&agent).await;
                let _ = tokio::time::timeout(SECOND, chat.send("Go.").into_future()).await;
                for open in chat.waiting() {
                    let settled = match source {
                        "a tool that asks" => open.answered(1),
                        _ => open.succeeded("A result."),
                    };
                    match inbox {
                        true => agent.inbox(&journal).settle(CHAT, settled).await.expect("settled"),
                        false => chat.settle(settled).await.expect("settled"),
                    }
                }
                if chat.can_resume() {
                    let _ = chat.resume().await;
                }
                let source = format!("{source}, {effects}, by an inbox: {inbox}");
                let results = chat.transcript().messages().iter().flat_map(Message::results);
                assert_eq!(results.count(), 1, "{source}");
                is_seen(&source, chat, &journal, expected).await;
            }
        }
    }
}

/// Runs the agent `inner` by its method or by a function of the program.
fn runs(inner: &Agent, by_function: bool) -> Tool {
    if !by_function {
        return inner.as_tool("agent", "Works.");
    }
    let effects = inner.as_tool("agent", "Works.").side_effects();
    let inner = inner.clone();
    let run =
        Tool::new("agent", "Works.", json!({"type": "object"}), effects, move |context, _| {
            let inner = inner.clone();
            Box::pin(async move { Ok(inner.run("Go.").in_call(&context).await?.text().into()) })
        });
    // A later process runs it again, and its agent goes on where it was.
    run.idempotent()
}

#[tokio::test]
async fn what_an_agent_has_read_counts_in_its_callers_and_for_their_rules() {
    for (effects, expected) in kinds() {
        for by_function in [false, true] {
            for depth in [1, 2] {
                let inner = Agent::builder(turns(&["t", "out"])).tools([does("t", effects), out()]);
                let mut agent = inner.build().expect("an agent");
                for _ in 1..depth {
                    let middle = Agent::builder(turns(&["agent", "out"]));
                    let middle = middle.tools([runs(&agent, by_function), out()]);
                    agent = middle.build().expect("an agent");
                }
                let seen = Seen::default();
                let lead = Agent::builder(turns(&["agent", "out"]));
                let lead = lead.tools([runs(&agent, by_function), out()]);
                let lead = lead.permissions(watching(&seen).allow("agent").allow("t"));
                let lead = lead.build().expect("an agent");
                let (mut chat, journal) = opened(&lead).await;
                chat.send("Go.").await.expect("an answer");
                let source = format!("{effects}, {depth} deep, by a function: {by_function}");
                let seen = seen.lock().expect("unpoisoned").clone();
                // The rule sees the call at each level, perhaps more than once.
                assert!(seen.len() > depth, "{source}: {seen:?}");
                assert!(seen.iter().all(|seen| *seen == expected), "{source}: {seen:?}");
                is_seen(&source, chat, &journal, expected).await;
            }
        }
    }
}

/// An agent with a tool for private data and one that looks something up.
fn researcher(names: &'static [&'static str]) -> Agent {
    let tools = [does("mail", READ), does("look", LOOKS_UP)];
    Agent::builder(turns(names)).tools(tools).build().expect("an agent")
}

#[tokio::test]
async fn an_agent_counts_by_what_it_has_read_and_not_by_all_that_it_could_have_read() {
    let table: [(&[&str], (bool, bool)); 4] = [
        (&[], (false, false)),
        (&["mail"], (true, false)),
        (&["look"], (false, true)),
        (&["mail", "look"], (true, true)),
    ];
    for (names, expected) in table {
        let (asked, approver) = person(ApprovalRequest::yes);
        let seen = Seen::default();
        let permissions = watching(&seen).data_flow(DataFlowPolicy::default());
        let tools = [researcher(names).as_tool("agent", "Works."), does("fetch", LOOKS_UP), out()];
        let lead = Agent::builder(turns(&["agent", "out", "fetch"])).tools(tools);
        let lead = lead.permissions(permissions).approver(approver).build().expect("an agent");
        lead.run("Go.").await.expect("an answer");
        assert_eq!(last(&seen), expected, "{names:?}");
        let asked = asked.lock().expect("unpoisoned").len();
        assert_eq!(asked, usize::from(expected == (true, true)), "{names:?}");
    }
}

#[tokio::test]
async fn names_of_the_callers_policy_count_for_the_tools_of_an_agent_and_for_the_agent_itself() {
    let policy = DataFlowPolicy::default;
    let table = [
        (policy(), (false, false)),
        (policy().private("t"), (true, false)),
        (policy().untrusted("t"), (false, true)),
        (policy().private("agent").untrusted("middle"), (true, true)),
        (policy().private("t").untrusted("t").public("agent"), (false, true)),
        (policy().private("t").untrusted("t").trusted("middle").public("agent"), (false, false)),
    ];
    for (policy, expected) in table {
        let inner = Agent::builder(turns(&["t"])).tools([does("t", SideEffects::NONE)]);
        let inner = inner.build().expect("an agent").as_tool("agent", "Works.");
        let middle = Agent::builder(turns(&["agent"])).tools([inner]).build().expect("an agent");
        let seen = Seen::default();
        let lead = Agent::builder(turns(&["middle", "out"]));
        let lead = lead.tools([middle.as_tool("middle", "Works."), out()]);
        let permissions = watching(&seen).data_flow(policy.clone());
        let lead = lead.permissions(permissions).build().expect("an agent");
        lead.run("Go.").await.expect("an answer");
        assert_eq!(last(&seen), expected, "{policy:?}");
    }
}

#[tokio::test]
async fn an_agent_counts_what_its_caller_has_read_before_also_in_a_fork_of_its_own() {
    let seen = Seen::default();
    let inner = Agent::builder(turns(&["out"])).tools([out()]).permissions(watching(&seen));
    let inner = inner.build().expect("an agent").as_tool("agent", "Works.");
    let lead = Agent::builder(turns(&["mail", "agent"])).tools([does("mail", READ), inner]);
    let lead = lead.build().expect("an agent");
    let (mut chat, journal) = opened(&lead).await;
    chat.send("Go.").await.expect("an answer");
    assert_eq!(last(&seen), (true, false));
    let call = chat.transcript().messages().iter().flat_map(Message::calls).nth(1);
    let name = format!("{CHAT}/{}", call.expect("the agent's call").id());
    let mut own = lead.open(&journal, &name).await.expect("its conversation");
    let facts = own.facts();
    drop(own.fork("its fork", facts).await.expect("a fork"));
    assert_eq!(seen_in(&journal, "its fork").await, (true, false));
}

/// A function of the program that runs these agents one after the other, and gives each the answer of the one before.
fn pipeline(agents: Vec<Agent>, effects: SideEffects) -> Tool {
    Tool::new("pipeline", "Works.", json!({"type": "object"}), effects, move |context, _| {
        let agents = agents.clone();
        Box::pin(async move {
            let mut task = "Go.".to_owned();
            for agent in agents {
                task = agent.run(task).in_call(&context).await?.text().to_owned();
            }
            Ok(task.into())
        })
    })
}

#[tokio::test]
async fn an_agent_counts_what_the_agents_before_it_in_its_call_and_the_function_itself_have_read() {
    let all = SideEffects::of(&[SideEffect::Read, SideEffect::Network, SideEffect::Write]);
    let cases: [(&[&[&str]], _, _); 4] = [
        (&[&["mail"]], LOOKS_UP, (true, true)),
        (&[&["mail"], &[]], LOOKS_UP, (true, true)),
        (&[&[]], LOOKS_UP, (false, true)),
        (&[], all, (true, true)),
    ];
    for (before, effects, expected) in cases {
        for is_nested in [false, true] {
            let seen = Seen::default();
            let last_one = Agent::builder(turns(&["out"])).tools([out()]);
            let mut last_one = last_one.permissions(watching(&seen)).build().expect("an agent");
            if is_nested {
                let middle = Agent::builder(turns(&["agent"]));
                let middle = middle.tools([last_one.as_tool("agent", "Works.")]);
                last_one = middle.build().expect("an agent");
            }
            let mut agents: Vec<Agent> = before.iter().map(|names| researcher(names)).collect();
            agents.push(last_one);
            let model = ScriptedProvider::new([call("pipeline"), reply().text("Done.")]);
            let tools = [pipeline(agents, effects)];
            let lead = Agent::builder(model).tools(tools).permissions(Permissions::allow_all());
            lead.build().expect("an agent").run("Go.").await.expect("an answer");
            assert_eq!(last(&seen), expected, "{before:?} {effects}, nested: {is_nested}");
        }
    }
}

/// The facts of a journal as they are on the disk when the process is killed now.
async fn killed(journal: &MemoryJournal, names: &[&str]) -> MemoryJournal {
    let left = MemoryJournal::new();
    for name in names {
        let facts = journal.read(name, 0).await.expect("facts");
        left.append(name, Head::default(), &facts.facts).await.expect("written");
        if let Some((parent, _)) = name.rsplit_once('/') {
            let about = harness::journal::Metadata::new().parent(parent);
            left.describe(name, &about).await.expect("described");
        }
    }
    left
}

#[tokio::test(start_paused = true)]
async fn what_an_agent_has_read_before_its_process_was_killed_counts() {
    for by_function in [false, true] {
        let lead = |gate: &Gate| {
            let model = ScriptedProvider::answering(|request: &RecordedRequest| {
                match request.messages().iter().flat_map(Message::calls).count() {
                    0 => reply().call_with_id("c0", "mail", json!({})),
                    1 => reply().call_with_id("c1", "stuck", json!({})),
                    _ => reply().text("Done."),
                }
            });
            let stuck = probe("stuck", LOOKS_UP, &Log::default(), Work::Gate(gate.clone()));
            let inner = Agent::builder(model).tools([does("mail", READ), stuck]);
            let inner = inner.build().expect("an agent");
            let model = ScriptedProvider::answering(|request: &RecordedRequest| {
                match request.messages().iter().flat_map(Message::calls).count() {
                    0 => reply().call_with_id("c0", "agent", json!({"task": "Go."})),
                    _ => reply().text("Done."),
                }
            });
            let lead = Agent::builder(model).tools([runs(&inner, by_function)]);
            lead.build().expect("an agent")
        };
        let (mut chat, journal) = opened(&lead(&Gate::new())).await;
        let left = {
            let mut run = pin!(chat.send("Go.").into_future());
            tokio::time::timeout(SECOND, &mut run).await.expect_err("it is stuck");
            killed(&journal, &[CHAT, "chat/c0"]).await
        };
        let gate = Gate::new();
        gate.open();
        let mut chat = lead(&gate).open(&left, CHAT).await.expect("opened");
        chat.resume().await.expect("an answer");
        is_seen(&format!("by a function: {by_function}"), chat, &left, (true, true)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_agent_has_read_before_it_is_stopped_counts() {
    for by_function in [false, true] {
        let stuck = probe("stuck", SideEffects::NONE, &Log::default(), Work::Gate(Gate::new()));
        let inner = Agent::builder(turns(&["mail", "stuck"])).tools([does("mail", READ), stuck]);
        let inner = inner.build().expect("an agent");
        let lead = Agent::builder(turns(&["agent"])).tools([runs(&inner, by_function)]);
        let (mut chat, journal) = opened(&lead.build().expect("an agent")).await;
        let run = tokio::time::timeout(SECOND, chat.send("Go.").into_future());
        run.await.expect_err("it is stuck");
        is_seen(&format!("by a function: {by_function}"), chat, &journal, (true, false)).await;
    }
}

fn hosted(json: &str) -> ScriptedReply {
    let data = VendorData::new("anthropic", json).expect("JSON");
    let event = StreamEvent::Vendor { block: 90, part: VendorPart::Opaque, data };
    reply().text("Found.").event(event)
}

#[tokio::test]
async fn what_a_tool_of_the_vendor_has_read_counts() {
    for (json, expected) in [
        (r#"{"type":"web_search_tool_result","tool_use_id":"s","content":[]}"#, (false, true)),
        (r#"{"type":"web_search_call","id":"ws_1","status":"completed"}"#, (false, true)),
        (r#"{"type":"code_execution_tool_result","tool_use_id":"s"}"#, (true, true)),
        (r#"{"type":"file_search_call","id":"fs_1"}"#, (true, true)),
        (r#"{"type":"something_new"}"#, (true, true)),
        (r#"{"type":"compaction","content":"A summary."}"#, (false, false)),
    ] {
        for cut in [false, true] {
            let answer = if cut { hosted(json).cut() } else { hosted(json) };
            let agent = Agent::builder(ScriptedProvider::new([answer])).build().expect("an agent");
            let (mut chat, journal) = opened(&agent).await;
            let _ = chat.send("Search.").await;
            let kept = chat.transcript().messages().iter().flat_map(Message::blocks);
            // What is not kept of an answer that broke off does not reach the model again.
            let is_kept = kept.into_iter().any(|block| matches!(block, Block::Vendor(_)));
            assert!(is_kept || cut, "{json}");
            let expected = if is_kept { expected } else { (false, false) };
            is_seen(json, chat, &journal, expected).await;
        }
    }
}

#[tokio::test]
async fn no_call_with_network_starts_early_after_something_of_the_vendor_in_the_same_answer() {
    let citation = serde_json::from_value(json!({"url": "https://example.com"}));
    let citation = Box::new(citation.expect("a citation"));
    let citation = StreamEvent::Citation { block: 90, citation };
    let found = r#"{"type":"web_search_tool_result","tool_use_id":"s","content":[]}"#;
    for (answer, starts_early) in [
        (reply().text("Found."), true),
        (hosted(found), false),
        (reply().text("Found.").event(citation), false),
    ] {
        let (asked, approver) = person(|question| question.no("No."));
        let (hold, log) = (Gate::new(), Log::default());
        let answer = answer.call("fetch", json!({"q": "mails"})).wait_for(&hold).text("So.");
        let model = ScriptedProvider::new([call("mail"), answer, reply().text("Done.")]);
        let tools = [does("mail", READ), takes_all("fetch", LOOKS_UP, &log)];
        let permissions = Permissions::default().data_flow(DataFlowPolicy::default());
        let agent = Agent::builder(model).tools(tools).permissions(permissions);
        let agent = agent.approver(approver).build().expect("an agent");
        let held = async {
            hold.reached().await;
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            let lines = log.lines().len();
            hold.open();
            lines
        };
        let (ended, held) = tokio::join!(agent.run("Go.").into_future(), held);
        ended.expect("an answer");
        assert_eq!((held, log.lines().len()), (starts_early.into(), starts_early.into()));
        assert_eq!(asked.lock().expect("unpoisoned").len(), usize::from(!starts_early));
    }
}

#[tokio::test]
async fn the_objections_of_what_checks_an_answer_count() {
    for (effects, expected) in [(READ, (true, false)), (LOOKS_UP, (false, true))] {
        let fails = || probe("check", effects, &Log::default(), Work::Fails).idempotent();
        let model = || ScriptedProvider::answering(|_| reply().text("42"));
        let agent = Agent::builder(model()).build().expect("an agent");
        let (mut chat, journal) = opened(&agent).await;
        let _ = chat.send("Go.").verify_by(1, [fails()]).await;
        is_seen(&format!("a tool with {effects}"), chat, &journal, expected).await;

        let accepts = does("check", effects).idempotent();
        let (mut chat, journal) = opened(&agent).await;
        chat.send("Go.").verify_by(1, [accepts]).await.expect("an answer");
        is_seen("a tool that accepts", chat, &journal, (false, false)).await;
    }
    let agent = Agent::builder(ScriptedProvider::answering(|_| reply().text("42"))).build();
    let (mut chat, journal) = opened(&agent.expect("an agent")).await;
    let _ = chat.send("Go.").verify(1, async |_: String| Err::<(), _>("no")).await;
    is_seen("a function", chat, &journal, (true, true)).await;
}

#[tokio::test]
async fn what_a_tool_finds_out_about_its_lost_call_counts_and_so_does_a_call_that_runs_again() {
    for (effects, expected) in kinds() {
        for found in [false, true] {
            let tool = does("t", effects);
            let tool = tool.with_reconcile(|_, _| {
                Box::pin(async { Ok(Reconciled::Happened("It was done.".into())) })
            });
            let facts =
                called("t", effects, if found { Repeat::Never } else { Repeat::Idempotent });
            let journal = kept(facts.into_iter().chain([started()])).await;
            let agent = Agent::builder(ScriptedProvider::answering(|_| reply().text("So.")));
            let agent = agent.tools([if found { tool } else { tool.idempotent() }]);
            let agent = agent.permissions(Permissions::allow_all()).build().expect("an agent");
            let mut chat = agent.open(&journal, CHAT).await.expect("opened");
            chat.resume().await.expect("an answer");
            is_seen(&format!("{effects}, found out: {found}"), chat, &journal, expected).await;
        }
    }
}

#[tokio::test]
async fn what_steps_have_read_counts() {
    for (effects, expected) in kinds() {
        let inner = Agent::builder(turns(&["t"])).tools([does("t", effects)]);
        let inner = inner.build().expect("an agent").as_tool("agent", "Works.");
        for tool in [does("agent", effects), inner] {
            let agent = Agent::builder(turns(&["agent"])).tools([tool]);
            let agent = agent.permissions(Permissions::allow_all()).build().expect("an agent");
            let mut steps = agent.steps(CHAT, Vec::new()).expect("steps");
            let said = steps.say(Message::user("Go.")).await.expect("facts");
            steps.apply(said).expect("applied");
            while !matches!(steps.next(), harness::agent::Action::Finish(_)) {
                let facts = steps.act().await.expect("facts");
                steps.apply(facts).expect("applied");
            }
            let journal = MemoryJournal::new();
            journal.append(CHAT, Head::default(), steps.facts()).await.expect("written");
            assert_eq!(seen_in(&journal, CHAT).await, expected, "{effects}");
        }
    }
}

/// A journal that has these facts.
async fn kept(facts: impl IntoIterator<Item = Fact>) -> MemoryJournal {
    let journal = MemoryJournal::new();
    let facts = facts.into_iter().map(|fact| Envelope::of(&fact, 0).expect("an envelope"));
    journal.append(CHAT, Head::default(), &facts.collect::<Vec<_>>()).await.expect("written");
    journal
}

fn said(blocks: impl IntoIterator<Item = Block>) -> Fact {
    let message = Message::new(harness::Role::User, blocks);
    Fact::UserSaid { message, limits: None }
}

fn replied(blocks: impl IntoIterator<Item = Block>, stop: StopReason) -> Fact {
    let (usage, provider, model) = (Usage::default(), "p".to_owned(), "m".to_owned());
    let message = Some(Message::assistant(blocks));
    Fact::ModelReplied { message, stop, usage, provider, model, asked_model: None }
}

fn answered() -> Fact {
    replied([Block::text("So.")], StopReason::Complete)
}

/// A call of this tool, allowed.
fn called(tool: &str, side_effects: SideEffects, repeat: Repeat) -> Vec<Fact> {
    let by = Decider::SideEffects;
    let decision = Decision::Allow { side_effects, repeat, by, reviewed: None, binding: None };
    vec![
        said([Block::text("Go.")]),
        replied([Block::ToolCall(ToolCall::new("c", tool, "{}"))], StopReason::ToolCalls),
        Fact::CallDecided { call: "c".to_owned(), decision },
    ]
}

fn started() -> Fact {
    Fact::CallStarted { call: "c".to_owned() }
}

fn result(outcome: CallOutcome) -> ToolResult {
    ToolResult::new("c", outcome, [ToolContent::Text("A result.".to_owned())])
}

fn finished(outcome: CallOutcome) -> Fact {
    Fact::CallFinished { result: result(outcome), spent: None }
}

#[tokio::test]
async fn what_facts_do_not_say_counts_as_private_and_untrusted() {
    let document = || Block::Document(Media::from_text("text/plain", "A letter."));
    let linked = || Block::Image(Media::from_url("https://a.example/picture.png"));
    let rejected = |by| {
        let faults = vec!["It is wrong.".to_owned()];
        Fact::AnswerRejected { by, faults, message: Some(Message::user("It is wrong.")) }
    };
    let wanted = || {
        let json = json!({"schema": {"type": "string"}, "tries": 1, "verifications": 1});
        let answer = Box::new(serde_json::from_value(json).expect("a wanted answer"));
        Fact::AnswerWanted { answer }
    };
    let both = |facts: Vec<Fact>| (facts, (true, true));
    let ended = |tool: &str| {
        let (tool, result) = (tool.to_owned(), result(CallOutcome::Succeeded));
        Fact::CallEnded { tool, result }
    };
    let call = |effects, repeat, rest: Vec<Fact>| {
        let facts = called("t", effects, repeat);
        facts.into_iter().chain([started()]).chain(rest).collect::<Vec<_>>()
    };
    let transcript = |blocks: Vec<Block>| {
        let mut transcript = Transcript::default();
        transcript.push(Message::user("Go.")).expect("a message");
        transcript.push(Message::assistant(blocks)).expect("a message");
        transcript.settle();
        Fact::Given { transcript }
    };
    let succeeded = || finished(CallOutcome::Succeeded);
    let table = [
        ("words", (vec![said([Block::text("Go.")]), answered()], (false, false))),
        ("a document", (vec![said([document()]), answered()], (true, false))),
        ("an address", (vec![said([linked()]), answered()], (false, true))),
        (
            "a steered document",
            (
                vec![
                    said([Block::text("Go.")]),
                    Fact::Steered { message: Message::new(harness::Role::User, [document()]) },
                    answered(),
                ],
                (true, false),
            ),
        ),
        (
            "an agent of an earlier version",
            both(call(LOOKS_UP, Repeat::Continues, vec![succeeded(), answered()])),
        ),
        (
            "an agent of this version",
            (
                call(
                    LOOKS_UP,
                    Repeat::Continues,
                    vec![
                        Fact::SourcesRead {
                            call: Some("c".to_owned()),
                            sources: vec![Source::new("mail", READ)],
                        },
                        succeeded(),
                        answered(),
                    ],
                ),
                (true, false),
            ),
        ),
        (
            "an end of a tool that is not known",
            both(call(
                SideEffects::NONE,
                Repeat::Never,
                vec![finished(CallOutcome::StillRunning), answered(), ended("other")],
            )),
        ),
        (
            "an end of a tool that is known",
            (
                call(
                    READ,
                    Repeat::Never,
                    vec![finished(CallOutcome::StillRunning), answered(), ended("t")],
                ),
                (true, false),
            ),
        ),
        (
            "a call that did not start",
            (
                [
                    called("t", READ, Repeat::Never),
                    vec![finished(CallOutcome::NotStarted), answered()],
                ]
                .concat(),
                (false, false),
            ),
        ),
        (
            "a function that rejected an answer, in an earlier version",
            both(vec![
                said([Block::text("Go.")]),
                wanted(),
                answered(),
                rejected(AnswerCheck::Verifier),
                answered(),
                Fact::AnswerAccepted {},
            ]),
        ),
        (
            "an answer that did not match",
            (
                vec![
                    said([Block::text("Go.")]),
                    wanted(),
                    answered(),
                    rejected(AnswerCheck::Schema),
                    answered(),
                    Fact::AnswerAccepted {},
                ],
                (false, false),
            ),
        ),
        (
            "a conversation from elsewhere",
            both(vec![transcript(vec![Block::ToolCall(ToolCall::new("c", "t", "{}"))])]),
        ),
        (
            "a search in a conversation from elsewhere",
            (
                vec![transcript(vec![
                    Block::text("Found."),
                    Block::Vendor(
                        VendorData::new("responses", r#"{"type":"web_search_call"}"#)
                            .expect("JSON"),
                    ),
                ])],
                (false, true),
            ),
        ),
        (
            "a result that was given",
            (
                [
                    called("t", READ, Repeat::Never),
                    vec![
                        Fact::CallWaits {
                            call: "c".to_owned(),
                            wait: harness::journal::Wait::new(harness::journal::Awaited::Result),
                        },
                        Fact::CallSettled {
                            result: result(CallOutcome::Succeeded),
                            who: None,
                            at: 1,
                            spent: None,
                        },
                        answered(),
                    ],
                ]
                .concat(),
                (true, false),
            ),
        ),
        (
            "an answer that broke off",
            both(vec![
                said([Block::text("Go.")]),
                Fact::Interrupted {
                    message: Some(Message::assistant([
                        Block::text("So"),
                        Block::Vendor(
                            VendorData::new("anthropic", r#"{"type":"mcp_tool_result"}"#)
                                .expect("JSON"),
                        ),
                    ])),
                    usage: Usage::default(),
                    cause: InterruptCause::Program,
                    asked: true,
                },
            ]),
        ),
    ];
    for (source, (facts, expected)) in table {
        assert_eq!(seen_in(&kept(facts).await, CHAT).await, expected, "{source}");
    }
}
