//! One agent with many users: what each run brings, and that no run sees anything of another one.

use std::{
    future::IntoFuture as _,
    sync::{Arc, Mutex},
};

use harness::{
    Agent, Chat, ChatCompletionsProvider, ErrorKind, Outcome, Permissions, SideEffect, SideEffects,
    State, Tool,
    agent::Event,
    journal::{Decider, Decision, Fact, MemoryJournal},
    policy::{ApprovalRequest, DataFlowPolicy, RuleDecision},
    provider::{Effort, Settings},
    testing::{
        Answer, Gate, LoopbackServer, RecordedRequest, ScriptedProvider, ScriptedReply, reply,
    },
    tool, tools,
};
use serde_json::json;

use crate::{
    approvers::person,
    kept::{CHAT, entries, kept_in, recorded},
    probe::{Log, MUTATE, READ, Work, takes_all, tool},
};

struct User(&'static str);

/// Pays, and says who paid.
#[tool(side_effects = "mutate")]
fn pay(
    user: State<User>,
    /** How much */
    cents: u32,
) -> String {
    format!("{} paid {cents}", user.0)
}

/// Says who asks.
#[tool(side_effects = "read")]
fn who(user: State<User>) -> String {
    user.0.to_owned()
}

/// A model that calls what the user names, and says what came of it.
fn obedient() -> ScriptedProvider {
    ScriptedProvider::answering(obeys)
}

fn obeys(request: &RecordedRequest) -> ScriptedReply {
    match request.results().next() {
        Some(result) => reply().text(result.to_text()),
        None if request.last_text() == "pay" => reply().call("pay", json!({"cents": 5})),
        None => reply().call(request.last_text(), json!({})),
    }
}

fn denies(name: &'static str) -> Permissions {
    Permissions::default().deny(name, "not this user")
}

#[tokio::test]
async fn two_runs_of_one_agent_at_the_same_time_see_nothing_of_each_other() {
    let agent = Agent::builder(obedient()).tools(tools![pay, who]).state_per_run::<User>();
    let agent = agent.build().expect("an agent");
    let (ada_asked, ada) = person(ApprovalRequest::yes);
    let gate = Gate::new();
    let (waits, eve_asked) = (gate.clone(), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&eve_asked);
    let eve = move |question: ApprovalRequest| {
        let gate = waits.clone();
        seen.lock().expect("unpoisoned").push(question.clone());
        async move {
            gate.pass().await;
            question.no("eve says no")
        }
    };
    let high = Settings { effort: Some(Effort::High), ..Settings::default() };
    // Ada's run begins and ends while Eve is being asked.
    let of_eve = async {
        let run = agent.run("pay").state(User("Eve")).approver("eve", eve).settings(high);
        let ended = run.await;
        // Nobody waits at the gate for ever if she is not asked.
        gate.open();
        gate.pass().await;
        ended
    };
    let of_ada = async {
        gate.reached().await;
        let run = agent.run("pay").state(User("Ada")).approver("ada", ada);
        let ended = run.await;
        let denied = agent.run("pay").state(User("Bob")).permissions(denies("pay")).await;
        gate.open();
        (ended, denied)
    };
    let (eve, (ada, bob)) = tokio::join!(of_eve, of_ada);
    assert_eq!(ada.expect("a reply").text(), "Ada paid 5");
    let eve = eve.expect("a reply");
    assert!(eve.text().contains("eve says no"), "{}", eve.text());
    let bob = bob.expect("a reply");
    assert!(bob.text().contains("not this user"), "{}", bob.text());
    let of = |asked: &Mutex<Vec<ApprovalRequest>>| -> Vec<Option<String>> {
        asked.lock().expect("unpoisoned").iter().map(|asked| asked.person.clone()).collect()
    };
    assert_eq!(of(&ada_asked), [Some("ada".to_owned())]);
    assert_eq!(of(&eve_asked), [Some("eve".to_owned())]);
}

#[tokio::test]
async fn what_a_run_brings_ends_with_it() {
    let model = obedient();
    let agent = Agent::builder(model.clone()).tools(tools![pay, who]).state_per_run::<User>();
    let mut chat = agent.build().expect("an agent").chat();
    let high = Settings { effort: Some(Effort::High), ..Settings::default() };
    let (_, yes) = person(ApprovalRequest::yes);
    let first = chat.send("pay").state(User("Ada")).approver("ada", yes).settings(high.clone());
    let first = first.only_tools(["pay"]).await.expect("a reply");
    assert_eq!(first.text(), "Ada paid 5");
    let second = chat.send("pay").state(User("Bob")).await.expect("a reply");
    assert!(second.text().contains("nobody to ask"), "{}", second.text());
    let requests = model.requests();
    assert_eq!(requests[1].settings(), Some(&high));
    assert_eq!(requests[1].tool_names(), ["pay"]);
    assert_eq!(requests[2].settings(), None);
    assert_eq!(requests[2].tool_names(), ["pay", "who"]);
    assert_eq!(
        chat.send("who").await.unwrap_err().error().unwrap().kind(),
        ErrorKind::Configuration
    );

    // Also if its future is dropped before its end.
    let gate = Gate::new();
    let (held, log) =
        (tool("held", READ, &Log::default(), Work::Gate(gate.clone())), Log::default());
    let agent = Agent::builder(obedient()).tools([held, tool("look", READ, &log, Work::Steps(0))]);
    let mut chat = agent.build().expect("an agent").chat();
    tokio::select! {
        _ = chat.send("held").only_tools(["held"]).into_future() => panic!("it is held"),
        () = gate.reached() => {}
    }
    assert_eq!(chat.send("look").await.expect("a reply").text(), "look is done");
}

#[tokio::test]
async fn a_key_in_the_settings_of_a_run_is_in_no_error() {
    const KEY: &str = "user-token-51c8b2e4";
    let refusal = json!({"error": {"message": format!("`{KEY}` is no token"), "type": "x"}});
    let refused = || Answer::bytes(400, "application/json", refusal.to_string());
    let page = || Answer::bytes(200, "text/html", format!("<p>{KEY}</p>"));
    let server = LoopbackServer::start([refused(), refused(), page()]).await.expect("a server");
    let provider = ChatCompletionsProvider::builder().base_url(server.url()).model("m").build();
    let agent = Agent::builder(provider.expect("a provider")).build().expect("an agent");
    let mut settings = Settings::default();
    let tools = json!([{"type": "mcp", "authorization": format!("Bearer {KEY}")}]);
    settings.extra.insert("tools".into(), tools);
    let without = agent.run("Go.").await.unwrap_err();
    assert!(format!("{without:?}").contains(KEY), "without it, nobody knows that it is a key");
    for _ in 0..2 {
        let stopped = agent.run("Go.").settings(settings.clone()).await.unwrap_err();
        let told = format!("{stopped} {stopped:?} {:?}", stopped.error());
        assert!(!told.contains(KEY) && told.contains("[secret]"), "{told}");
    }
    assert_eq!(server.requests()[2].json()["tools"][0]["type"], "mcp");
}

#[tokio::test]
async fn state_is_found_in_the_run_then_in_the_chat_then_in_the_agent() {
    let agent = Agent::builder(obedient()).tools(tools![who]).state(User("agent"));
    let agent = agent.build().expect("an agent");
    let mut chat = agent.chat();
    assert_eq!(chat.send("who").await.expect("a reply").text(), "agent");
    chat.state(User("chat"));
    assert_eq!(chat.send("who").await.expect("a reply").text(), "chat");
    assert_eq!(chat.send("who").state(User("run")).await.expect("a reply").text(), "run");
    assert_eq!(chat.send("who").await.expect("a reply").text(), "chat");
    assert_eq!(agent.run("who").await.expect("a reply").text(), "agent");

    let agent = Agent::builder(obedient()).tools(tools![who]).state_per_run::<User>();
    let agent = agent.build().expect("an agent");
    let mut chat = agent.chat();
    let missing = chat.send("who").await.unwrap_err().to_string();
    assert!(missing.contains("`chat.state(..)`"), "{missing}");
    chat.state(User("chat"));
    assert_eq!(chat.send("who").await.expect("a reply").text(), "chat");
    let mut other = agent.chat();
    assert!(other.send("who").await.is_err(), "another conversation has none");
}

/// What becomes of a call of `work`, which changes something, by the permissions of the agent and of the
/// run: `ran`, `asked` or `denied`.
async fn becomes(agent: Permissions, run: Permissions) -> &'static str {
    let log = Log::default();
    let (asked, approver) = person(|question| question.no("no"));
    let agent = Agent::builder(obedient())
        .tools([tool("work", MUTATE, &log, Work::Steps(0))])
        .permissions(agent)
        .approver(approver)
        .build()
        .expect("an agent");
    agent.run("work").permissions(run).await.expect("a reply");
    let asked = !asked.lock().expect("unpoisoned").is_empty();
    match (log.lines().is_empty(), asked) {
        (false, false) => "ran",
        (true, true) => "asked",
        (true, false) => "denied",
        (false, true) => panic!("it ran though a person denied it"),
    }
}

#[tokio::test]
async fn the_strictest_of_both_wins() {
    let none = Permissions::default;
    let allow = || Permissions::default().allow("work");
    let ask = || Permissions::default().ask("work");
    let deny = || Permissions::default().deny("work", "no");
    let all = Permissions::allow_all;
    let rule = || Permissions::default().rule("asks", |_| Some(RuleDecision::Ask));
    for (one, other, expected) in [
        (none(), none(), "asked"),
        (none(), allow(), "ran"),
        (none(), ask(), "asked"),
        (none(), deny(), "denied"),
        (none(), all(), "ran"),
        (allow(), allow(), "ran"),
        (allow(), ask(), "asked"),
        (allow(), deny(), "denied"),
        (ask(), all(), "asked"),
        (rule(), all(), "asked"),
        (rule(), allow(), "asked"),
        (all(), ask(), "asked"),
        (all().ask("work"), none(), "ran"),
        (all().ask("work"), ask(), "asked"),
        (deny(), all(), "denied"),
        (deny(), allow(), "denied"),
    ] {
        let text = format!("{one:?} and {other:?}");
        assert_eq!(becomes(one.clone(), other.clone()).await, expected, "{text}");
        assert_eq!(becomes(other, one).await, expected, "the other way round: {text}");
    }
}

#[tokio::test]
async fn what_a_tools_review_asks_is_answered_by_allow_all_of_either_side() {
    let reviewed = |log: &Log| {
        let tool = tool("work", READ, log, Work::Steps(0));
        tool.with_review(|_| tool::Review::ask("it costs"))
    };
    let (none, all) = (Permissions::default, Permissions::allow_all);
    let table = [(none(), none(), false), (none(), all(), true), (all(), none(), true)];
    for (of_agent, of_run, runs) in table {
        let (log, (asked, approver)) = (Log::default(), person(|question| question.no("no")));
        let agent = Agent::builder(obedient()).tools([reviewed(&log)]).permissions(of_agent);
        let agent = agent.approver(approver).build().expect("an agent");
        agent.run("work").permissions(of_run).await.expect("a reply");
        let asked = !asked.lock().expect("unpoisoned").is_empty();
        assert_eq!((!log.lines().is_empty(), asked), (runs, !runs));
    }
}

#[tokio::test]
async fn a_run_stops_on_a_denial_if_it_says_so() {
    let log = Log::default();
    let tools = [tool("work", MUTATE, &log, Work::Steps(0))];
    let agent = Agent::builder(obedient()).tools(tools).build().expect("an agent");
    let strict = agent.run("work").permissions(denies("work").stop_on_denial());
    assert_eq!(strict.await.unwrap_err().outcome(), Outcome::Denied);
    assert!(agent.run("work").permissions(denies("work")).await.is_ok());
}

#[tokio::test]
async fn what_was_read_before_counts_for_the_data_flow_policy_of_a_run() {
    let log = Log::default();
    let looks = SideEffects::of(&[SideEffect::Read, SideEffect::Network]);
    let tools = || {
        let fetch = takes_all("fetch", looks, &log);
        [tool("mail", READ, &log, Work::Steps(0)), fetch]
    };
    let agent = Agent::builder(obedient()).tools(tools()).build().expect("an agent");
    let holds_back =
        || Permissions::default().data_flow(DataFlowPolicy::default().untrusted("mail"));
    let mut chat = agent.chat();
    chat.send("mail").await.expect("a reply");
    let held = chat.send("fetch").permissions(holds_back()).await.expect("a reply");
    assert!(held.text().contains("nobody to ask"), "{}", held.text());
    assert_eq!(chat.send("fetch").await.expect("a reply").text(), "done");

    // A call that was denied has read nothing.
    let mut chat = agent.chat();
    chat.send("mail").permissions(denies("mail")).await.expect("a reply");
    let fetched = chat.send("fetch").permissions(holds_back()).await.expect("a reply");
    assert_eq!(fetched.text(), "done");
    let _ = tools;

    // What the run itself reads counts, too.
    let model = ScriptedProvider::new([
        reply().call("mail", json!({})),
        reply().call("fetch", json!({})),
        reply().text("Done."),
    ]);
    let agent = Agent::builder(model.clone()).tools(tools()).build().expect("an agent");
    agent.run("Go.").permissions(holds_back()).await.expect("a reply");
    assert!(model.requests()[2].last_text().contains("nobody to ask"));
}

#[tokio::test]
async fn always_holds_for_the_person_who_said_it() {
    let log = Log::default();
    let tools = [tool("work", MUTATE, &log, Work::Steps(0))];
    let (own_asked, own) = person(ApprovalRequest::always);
    let agent = Agent::builder(obedient()).tools(tools).approver(own).build().expect("an agent");
    let (mut chat, journal) = recorded(&agent);
    let (ada_asked, ada) = person(ApprovalRequest::always);
    let (eve_asked, eve) = person(|question| question.no("not in my name"));
    let count = || {
        let count = |asked: &Mutex<Vec<ApprovalRequest>>| asked.lock().expect("unpoisoned").len();
        (count(&ada_asked), count(&eve_asked), count(&own_asked))
    };
    let (ada, eve) = (Shared(Arc::new(ada)), Shared(Arc::new(eve)));
    chat.send("work").approver("ada", ada.clone()).await.expect("a reply");
    assert_eq!((count(), log.lines().len()), ((1, 0, 0), 2));
    chat.send("work").approver("ada", ada.clone()).await.expect("a reply");
    assert_eq!((count(), log.lines().len()), ((1, 0, 0), 4), "she said always");
    let denied = chat.send("work").approver("eve", eve.clone()).await.expect("a reply");
    assert!(denied.text().contains("not in my name"), "{}", denied.text());
    assert_eq!((count(), log.lines().len()), ((1, 1, 0), 4), "but not for Eve");
    chat.send("work").await.expect("a reply");
    assert_eq!((count(), log.lines().len()), ((1, 1, 1), 6), "nor for the agent's approver");
    chat.send("work").await.expect("a reply");
    assert_eq!((count(), log.lines().len()), ((1, 1, 1), 8));
    let persons: Vec<_> = chat.grants().iter().map(|grant| grant.person.clone()).collect();
    assert_eq!(persons, [Some("ada".to_owned()), None]);
    drop(chat);

    // In another process, too.
    let mut chat = kept_in(&agent, &journal);
    chat.send("work").approver("ada", ada).await.expect("a reply");
    assert_eq!((count(), log.lines().len()), ((1, 1, 1), 10));
    chat.send("work").approver("eve", eve).await.expect("a reply");
    assert_eq!((count(), log.lines().len()), ((1, 2, 1), 10));
}

/// An approver that can be given to several runs.
struct Shared<A>(Arc<A>);

impl<A> Clone for Shared<A> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<A: harness::policy::Approver> harness::policy::Approver for Shared<A> {
    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest,
    ) -> std::pin::Pin<Box<dyn Future<Output = harness::policy::Approval> + Send + 'a>> {
        self.0.ask(question)
    }
}

#[tokio::test]
async fn an_always_that_comes_later_holds_for_the_person_who_was_asked() {
    let log = Log::default();
    let tools = [tool("work", MUTATE, &log, Work::Steps(0))];
    let agent = Agent::builder(obedient()).tools(tools).build().expect("an agent");
    let (mut chat, journal) = recorded(&agent);
    let later = || |question: ApprovalRequest| async move { question.later(None) };
    let stopped = chat.send("work").approver("ada", later()).await.unwrap_err();
    assert_eq!(stopped.outcome(), Outcome::Waiting);
    let question = chat.waiting()[0].question().expect("a question");
    assert_eq!(question.person.as_deref(), Some("ada"));
    agent.inbox(&journal).decide(CHAT, question.always()).await.expect("written");
    assert_eq!(
        chat.resume().approver("eve", later()).await.expect("a reply").text(),
        "work is done"
    );
    assert_eq!(chat.grants()[0].person.as_deref(), Some("ada"));
    let stopped = chat.send("work").approver("eve", later()).await.unwrap_err();
    assert_eq!(stopped.outcome(), Outcome::Waiting, "Eve is asked herself");
}

#[tokio::test]
async fn a_tool_that_is_left_out_is_not_offered_and_does_not_run() {
    let log = Log::default();
    let tools: [Tool; 3] = ["a", "b", "c"].map(|name| tool(name, READ, &log, Work::Steps(0)));
    let model = ScriptedProvider::new([
        // Both come in one answer, and `b` could start early.
        reply().call("b", json!({})).call("a", json!({})),
        reply().text("Done."),
        reply().text("Done."),
    ]);
    let agent = Agent::builder(model.clone()).tools(tools).build().expect("an agent");
    let mut failed = Vec::new();
    let mut chat = agent.chat();
    let sending = chat.send("Go.").only_tools(["c", "a"]).on_event(|event| {
        if let Event::ToolResult { call, result, .. } = event {
            failed.push((call.name().to_owned(), result.to_text()));
        }
    });
    let answered = sending.await.expect("a reply");
    assert_eq!(log.lines(), ["begin a", "end a"]);
    let text = "the tool `b` is not offered now, so it did not run; the offered tools are: a, c";
    failed.sort();
    assert_eq!(failed[1], ("b".to_owned(), text.to_owned()));
    let requests = model.requests();
    assert_eq!(requests[0].tool_names(), ["a", "c"], "in the agent's order");
    assert_eq!(requests[1].results().next().expect("a result").to_text(), text);
    let fewer = answered.context().tools;
    let all = chat.send("Go on.").await.expect("a reply").context().tools;
    assert_eq!(fewer * 3, all * 2, "what the model is told of two tools of three");
}

#[tokio::test]
async fn a_name_that_no_tool_has_fails_before_anything_is_sent() {
    let log = Log::default();
    let tools = [tool("look", READ, &log, Work::Steps(0))];
    let model = obedient();
    let agent = Agent::builder(model.clone()).tools(tools).build().expect("an agent");
    let mut chat = agent.chat();
    let stopped = chat.send("look").only_tools(["look", "lok", "write"]).await.unwrap_err();
    let error = stopped.error().expect("an error");
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert_eq!(
        error.to_string(),
        "`only_tools` names tools that the agent does not have: there is no tool `lok`; did you mean \
         `look`? the tools are: look; there is no tool `write`; the tools are: look"
    );
    assert!(model.requests().is_empty() && chat.transcript().messages().is_empty());
    let none = chat.send("look").only_tools([""; 0]).await.expect("a reply");
    assert_eq!(
        none.text(),
        "the tool `look` is not offered now, so it did not run; no tool is offered"
    );
    assert!(model.requests()[0].tool_names().is_empty());
}

/// The conversation of a process that was killed when a call was allowed and had not started.
async fn allowed_by(first: Permissions, agent: &Agent) -> MemoryJournal {
    let journal = MemoryJournal::new();
    let mut chat = kept_in(agent, &journal);
    let _ = chat.send("work").permissions(first).await;
    drop(chat);
    let all = entries(&journal);
    let decided = all.iter().position(|fact| matches!(fact, Fact::CallDecided { .. }));
    let kept = decided.expect("a decision") + 1;
    // What the process had written when it was killed.
    let copy = MemoryJournal::new();
    let facts = harness::journal::Journal::read(&journal, CHAT, 0).await.expect("facts").facts;
    let start = harness::journal::Head::default();
    harness::journal::Journal::append(&copy, CHAT, start, &facts[..kept]).await.expect("written");
    copy
}

fn last_decision(journal: &MemoryJournal) -> Option<Decision> {
    let decision = |fact: &Fact| match fact {
        Fact::CallDecided { decision, .. } => Some(decision.clone()),
        _ => None,
    };
    entries(journal).iter().filter_map(decision).next_back()
}

async fn resumed(chat: &mut Chat, permissions: Permissions) -> String {
    match chat.resume().permissions(permissions).await {
        Ok(reply) => reply.text().to_owned(),
        Err(stopped) => panic!("{stopped}"),
    }
}

#[tokio::test]
async fn what_was_allowed_before_is_looked_at_again_by_what_holds_in_the_run_that_goes_on() {
    let log = Log::default();
    let tools = [tool("work", MUTATE, &log, Work::Steps(0))];
    let agent = Agent::builder(obedient()).tools(tools).build().expect("an agent");
    let allows = || Permissions::default().allow("work");

    let journal = allowed_by(allows(), &agent).await;
    let count = log.lines().len();
    let mut chat = kept_in(&agent, &journal);
    assert_eq!(resumed(&mut chat, allows()).await, "work is done");
    assert_eq!(log.lines().len(), count + 2);

    let journal = allowed_by(allows(), &agent).await;
    let count = log.lines().len();
    let mut chat = kept_in(&agent, &journal);
    let text = resumed(&mut chat, denies("work")).await;
    assert!(text.contains("not this user"), "{text}");
    assert!(matches!(last_decision(&journal), Some(Decision::Deny { by: Decider::ToolName, .. })));

    let journal = allowed_by(allows(), &agent).await;
    let mut chat = kept_in(&agent, &journal);
    let text = chat.resume().await.expect("a reply").text().to_owned();
    assert!(text.contains("nobody to ask"), "{text}");
    assert_eq!(log.lines().len(), count + 2, "it ran only when it was killed");
}

#[tokio::test]
async fn what_a_person_has_said_about_a_call_stands_unless_it_is_denied() {
    for (permissions, ran) in [(Permissions::default(), true), (denies("work"), false)] {
        let log = Log::default();
        let tools = [tool("work", MUTATE, &log, Work::Steps(0))];
        let agent = Agent::builder(obedient()).tools(tools).build().expect("an agent");
        let (mut chat, journal) = recorded(&agent);
        let later = |question: ApprovalRequest| async move { question.later(None) };
        chat.send("work").approver("ada", later).await.unwrap_err();
        let question = chat.waiting()[0].question().expect("a question");
        agent.inbox(&journal).decide(CHAT, question.yes()).await.expect("written");
        drop(chat);
        let mut chat = kept_in(&agent, &journal);
        resumed(&mut chat, permissions).await;
        assert_eq!(log.has("end work"), ran);
    }
}

#[tokio::test]
async fn permissions_that_misspell_a_tool_are_refused_before_anything_runs() {
    let log = Log::default();
    let note = || takes_all("note", READ, &log);
    let built = |permissions: Permissions| {
        let model = ScriptedProvider::new([reply().call("note", json!({})), reply().text("Done.")]);
        Agent::builder(model).tools([note()]).permissions(permissions).build()
    };
    for name in ["noet", "nte", "notes", "Note"] {
        for misspelt in [
            Permissions::default().deny(name, "nothing is noted"),
            Permissions::default().ask(name),
            Permissions::default().allow(name),
        ] {
            let error = built(misspelt.clone()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration);
            let words = error.to_string();
            assert!(words.contains(&format!("`{name}`")), "{words}");
            assert!(words.contains("did you mean `note`?"), "{words}");

            let agent = built(Permissions::default()).unwrap();
            let stopped = agent.run("Note it.").permissions(misspelt).await.unwrap_err();
            let error = stopped.error().unwrap().to_string();
            assert!(error.contains("did you mean `note`?"), "{error}");
        }
    }
    assert_eq!(log.lines(), Vec::<String>::new());
    // Agents with different tools share their permissions.
    let shared = Permissions::default().deny("pay", "free of charge").ask("ballot").allow("no");
    assert!(built(shared).is_ok());
}

#[tokio::test]
async fn permissions_with_names_that_no_tool_can_have_are_refused() {
    let log = Log::default();
    let built = |permissions: Permissions| {
        let model = ScriptedProvider::new([reply().call("note", json!({})), reply().text("Done.")]);
        let tools = [takes_all("note", READ, &log)];
        Agent::builder(model).tools(tools).permissions(permissions).build()
    };
    let long = "note".repeat(1_000_000);
    for name in ["", "*", "no*", "files.*", "note(x)", "  note", "ｎｏｔｅ", &long] {
        for permissions in [
            Permissions::default().deny(name, "nothing is noted"),
            Permissions::default().ask(name),
            Permissions::default().allow(name),
        ] {
            let words = built(permissions.clone()).unwrap_err().to_string();
            assert!(words.contains("no tool can have that name"), "{words}");
            assert!(words.len() < 500, "{} bytes", words.len());
            let agent = built(Permissions::default()).unwrap();
            let stopped = agent.run("Note it.").permissions(permissions).await.unwrap_err();
            let words = stopped.error().unwrap().to_string();
            assert!(words.contains("no tool can have that name"), "{words}");
        }
    }
    assert_eq!(log.lines(), Vec::<String>::new());
}

#[tokio::test]
async fn the_strictest_that_is_said_of_a_name_counts_in_any_order() {
    let denied = |it: Permissions| it.deny("note", "not this one");
    let allowed = |it: Permissions| it.allow("note");
    let asked = |it: Permissions| it.ask("note");
    type Says = fn(Permissions) -> Permissions;
    let orders: [(&[Says], bool); 6] = [
        (&[denied, allowed], false),
        (&[allowed, denied], false),
        (&[denied, asked, allowed], false),
        (&[asked, allowed], false),
        (&[allowed, asked], false),
        (&[allowed, allowed], true),
    ];
    for (at, (says, runs)) in orders.into_iter().enumerate() {
        for of_run in [false, true] {
            let log = Log::default();
            let permissions = says.iter().fold(Permissions::default(), |it, says| says(it));
            let model =
                ScriptedProvider::new([reply().call("note", json!({})), reply().text("Done.")]);
            let builder = Agent::builder(model).tools([takes_all("note", READ, &log)]);
            let reply = match of_run {
                true => builder.build().unwrap().run("Note it.").permissions(permissions).await,
                false => builder.permissions(permissions).build().unwrap().run("Note it.").await,
            };
            assert_eq!(reply.unwrap().text(), "Done.");
            assert_eq!(!log.lines().is_empty(), runs, "{at}, of the run: {of_run}");
        }
    }
}

/// Of two that are as strict, the first one stays: the model reads its reason.
#[tokio::test]
async fn the_first_of_two_reasons_to_deny_is_told() {
    let log = Log::default();
    let permissions = Permissions::default().deny("note", "the first").deny("note", "the second");
    let model = ScriptedProvider::new([reply().call("note", json!({})), reply().text("Done.")]);
    let agent = Agent::builder(model).tools([takes_all("note", READ, &log)]);
    let agent = agent.permissions(permissions).build().unwrap();
    let reply = agent.run("Note it.").await.unwrap();
    let results = reply.transcript().messages().iter().flat_map(harness::Message::results);
    let told: Vec<String> = results.map(|result| result.to_text()).collect();
    assert!(told[0].contains("the first") && !told[0].contains("the second"), "{told:?}");
}

/// What a side says of `work`, by its name and by two rules, and whether it allows whatever is asked.
#[derive(Clone, Copy, Debug)]
struct Side {
    says: [Option<u8>; 3],
    all: bool,
}

const ALLOWS: Option<u8> = Some(0);
const ASKS: Option<u8> = Some(1);
const DENIES: Option<u8> = Some(2);

impl Side {
    fn random(rng: &mut fastrand::Rng) -> Self {
        let mut says = || (rng.u8(..3) == 0).then(|| rng.u8(..3));
        let says = [says(), says(), says()];
        Self { says, all: rng.u8(..4) == 0 }
    }

    fn permissions(self) -> Permissions {
        let none = if self.all { Permissions::allow_all() } else { Permissions::default() };
        let named = match self.says[0] {
            None => none,
            ALLOWS => none.allow("work"),
            ASKS => none.ask("work"),
            _ => none.deny("work", "no"),
        };
        let rules = ["first", "second"].into_iter().zip([self.says[1], self.says[2]]);
        rules.fold(named, |all, (name, says)| {
            all.rule(name, move |_| match says {
                None => None,
                ALLOWS => Some(RuleDecision::Allow),
                ASKS => Some(RuleDecision::Ask),
                _ => Some(RuleDecision::Deny("no".into())),
            })
        })
    }

    fn has(self, what: Option<u8>) -> bool {
        self.says.contains(&what)
    }
}

/// Whatever both say, what becomes of a call is told by the table of [`Permissions`].
#[tokio::test]
async fn the_table_holds_for_what_both_say() {
    let mut rng = fastrand::Rng::with_seed(7);
    for _ in 0..400 {
        let (agent, run) = (Side::random(&mut rng), Side::random(&mut rng));
        let either = |what| agent.has(what) || run.has(what);
        let asks = agent.has(ASKS) && !agent.all || run.has(ASKS) && !run.all;
        let expected = match () {
            () if either(DENIES) => "denied",
            () if asks => "asked",
            () if either(ASKS) || either(ALLOWS) || agent.all || run.all => "ran",
            () => "asked",
        };
        let became = becomes(agent.permissions(), run.permissions()).await;
        assert_eq!(became, expected, "{agent:?} {run:?}");
    }
}
