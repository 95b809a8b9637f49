//! Which calls may run: precedence, the scope of *always*, when a review and the data flow policy ask,
//! and who is recorded as the decider.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use harness::{
    Agent, CallOutcome, Permissions, SideEffect, SideEffects, Tool, ToolContent, ToolError,
    ToolOutput,
    agent::Grant,
    journal::{Decider, Decision, Fact, MemoryJournal},
    message::Arguments,
    policy::{
        Approval, ApprovalRequest, DataFlowPolicy, PolicyDecision, ProposedCall, RuleDecision,
    },
    testing::{Gate, ScriptedProvider, ScriptedReply, reply},
    tool::{Preview, Review, Scope},
};
use serde_json::{Value, json};

use crate::approvers::person;
use crate::kept::{entries, recorded};
use crate::probe::{Log, MUTATE, READ, Work, takes_all, tool};

/// Who decided about each call, in order: `allow` or `deny`, and by whom.
fn decisions(journal: &MemoryJournal) -> Vec<(bool, Decider)> {
    let decision = |entry: &Fact| match entry {
        Fact::CallDecided { decision: Decision::Allow { by, .. }, .. } => Some((true, by.clone())),
        Fact::CallDecided { decision: Decision::Deny { by, .. }, .. } => Some((false, by.clone())),
        _ => None,
    };
    entries(journal).iter().filter_map(decision).collect()
}

fn script<const N: usize>(replies: [ScriptedReply; N]) -> ScriptedProvider {
    ScriptedProvider::new(replies.into_iter().chain([reply().text("Done.")]))
}

#[tokio::test]
async fn always_never_answers_a_rule_that_denies() {
    let log = Log::default();
    let run = |command: &str| reply().call("run", json!({"command": command}));
    let model = script([run("echo listing"), run("rm -rf /"), run("echo listing")]);
    let (asked, approver) = person(ApprovalRequest::always);
    let permissions = Permissions::default().rule("no rm", |call| {
        let removes = call.text("command")?.contains("rm ");
        removes.then(|| RuleDecision::Deny("nothing is removed".to_owned()))
    });
    let agent = Agent::builder(model.clone())
        .tools([takes_all("run", SideEffects::ALL, &log)])
        .permissions(permissions)
        .approver(approver)
        .build()
        .expect("an agent");
    let (mut chat, journal) = recorded(&agent);
    chat.send("Go.").await.expect("an answer");
    assert_eq!(log.lines(), [r#"run {"command":"echo listing"}"#; 2]);
    assert_eq!(asked.lock().expect("unpoisoned").len(), 1);
    let by: Vec<_> = decisions(&journal);
    assert!(matches!(&by[0], (true, Decider::Person { always: Some(_), at, .. }) if *at > 0));
    assert_eq!(by[1], (false, Decider::Rule { name: "no rm".into() }));
    assert!(matches!(&by[2], (true, Decider::Always { call, .. }) if *call == "call_1"), "{by:?}");
}

#[tokio::test]
async fn always_never_lets_a_call_start_early_that_a_rule_denies() {
    let log = Log::default();
    let model = script([reply().call("look", json!({})), reply().call("look", json!({}))]);
    let ran = log.clone();
    let permissions = Permissions::default()
        .ask("look")
        .rule("once", move |_| ran.has("end look").then(|| RuleDecision::Deny("it ran".into())));
    let (_, approver) = person(ApprovalRequest::always);
    let agent = Agent::builder(model)
        .tools([tool("look", READ, &log, Work::Steps(0))])
        .permissions(permissions)
        .approver(approver)
        .build()
        .expect("an agent");
    agent.run("Go.").await.expect("an answer");
    assert_eq!(log.lines(), ["begin look", "end look"]);
}

#[tokio::test]
async fn always_stands_for_the_same_decoded_arguments_and_can_be_taken_back() {
    let log = Log::default();
    let pay = |text: &str| reply().call_text("pay", text);
    let model = script([
        pay(r#"{"cents":1,"to":"a"}"#),
        pay(r#"{ "to": "\u0061", "cents": 1 }"#),
        pay(r#"{"cents":1,"to":"b"}"#),
        reply().text("So far."),
        pay(r#"{"cents":1,"to":"a"}"#),
    ]);
    let (asked, approver) = person(ApprovalRequest::always);
    let agent = Agent::builder(model).tools([takes_all("pay", MUTATE, &log)]).approver(approver);
    let mut chat = agent.build().expect("an agent").chat();
    chat.send("Go.").await.expect("an answer");
    let count = || asked.lock().expect("unpoisoned").len();
    assert_eq!((log.lines().len(), count()), (3, 2), "the second spelling is the same call");

    let grants: Vec<Grant> = chat.grants().to_vec();
    assert_eq!(grants.len(), 2);
    let before = chat.budget().spent();
    assert!(chat.revoke(&grants[0]) && !chat.revoke(&grants[0]));
    assert_eq!(chat.budget().spent(), before, "nobody was asked");
    chat.send("Again.").await.expect("an answer");
    assert_eq!((log.lines().len(), count()), (4, 3), "it is asked about again");
}

#[tokio::test]
async fn a_wider_scope_holds_for_what_was_shown_and_for_no_other_reason() {
    let log = Log::default();
    let fetch = |url: &str| reply().call("fetch", json!({"url": url}));
    let model = script([
        fetch("https://a.example/1"),
        fetch("https://a.example/2"),
        fetch("https://b.example/1"),
        reply().call("look", json!({})),
        fetch("https://a.example/3"),
    ]);
    let looks = SideEffects::of(&[SideEffect::Read, SideEffect::Network]);
    let by_host = takes_all("fetch", looks, &log).with_review(|arguments: &Arguments| {
        let url = arguments.get("url").and_then(Value::as_str).unwrap_or_default();
        let host = url.split('/').nth(2).unwrap_or_default();
        Review::ask(format!("the model chose the host {host}"))
            .with_scope(Scope::new(format!("host:{host}"), format!("every request to {host}")))
    });
    let (asked, approver) =
        person(|question| question.always_for(question.scopes.last().expect("the host")));
    let agent = Agent::builder(model)
        .tools([by_host, takes_all("look", READ, &log)])
        .permissions(Permissions::default().data_flow(DataFlowPolicy::default()))
        .approver(approver)
        .build()
        .expect("an agent");
    agent.run("Go.").await.expect("an answer");
    let asked = asked.lock().expect("unpoisoned").clone();
    let reasons: Vec<Vec<&str>> = asked
        .iter()
        .map(|question| question.reasons.iter().map(|reason| reason.text.as_str()).collect())
        .collect();
    assert_eq!(
        reasons[..2],
        [vec!["the model chose the host a.example"], vec!["the model chose the host b.example"],]
    );
    // Private data and a stranger's words were read since: the host alone is no answer any more.
    assert_eq!(reasons.len(), 3, "{reasons:?}");
    assert!(reasons[2][1].contains("can carry data out"), "{reasons:?}");
    assert_eq!(log.lines().len(), 5);
}

#[tokio::test]
async fn data_is_held_back_once_private_data_and_words_of_strangers_were_read() {
    let looks = SideEffects::of(&[SideEffect::Read, SideEffect::Network]);
    let read = || reply().call("read", json!({}));
    let fetch = || reply().call("fetch", json!({}));
    let asked_after = async |replies: Vec<ScriptedReply>, policy: Option<DataFlowPolicy>| {
        let log = Log::default();
        let model = ScriptedProvider::new(replies.into_iter().chain([reply().text("Done.")]));
        let (asked, approver) = person(ApprovalRequest::yes);
        let permissions = policy.map_or_else(Permissions::default, |policy| {
            Permissions::default().allow("fetch").data_flow(policy)
        });
        let agent = Agent::builder(model)
            .tools([takes_all("read", READ, &log), takes_all("fetch", looks, &log)])
            .permissions(permissions)
            .approver(approver);
        agent.build().expect("an agent").run("Go.").await.expect("an answer");
        asked.lock().expect("unpoisoned").len()
    };
    let policy = || Some(DataFlowPolicy::default());
    assert_eq!(asked_after(vec![read(), fetch(), fetch()], None).await, 0);
    assert_eq!(asked_after(vec![fetch(), fetch()], policy()).await, 0);
    assert_eq!(asked_after(vec![read(), fetch()], policy()).await, 0);
    assert_eq!(asked_after(vec![read(), fetch(), fetch()], policy()).await, 1);
    assert_eq!(asked_after(vec![fetch(), read(), fetch()], policy()).await, 1);
    // The program's word.
    let public = Some(DataFlowPolicy::default().public("read"));
    assert_eq!(asked_after(vec![read(), fetch(), fetch()], public).await, 0);
    let trusted = Some(DataFlowPolicy::default().trusted("fetch"));
    assert_eq!(asked_after(vec![read(), fetch(), fetch()], trusted).await, 0);
    let stranger = Some(DataFlowPolicy::default().untrusted("read"));
    assert_eq!(asked_after(vec![read(), fetch()], stranger).await, 1);
}

#[tokio::test]
async fn a_conversation_from_elsewhere_has_read_the_worst() {
    let log = Log::default();
    let looks = SideEffects::of(&[SideEffect::Read, SideEffect::Network]);
    let tools = || [takes_all("read", READ, &log), takes_all("fetch", looks, &log)];
    let model = script([reply().call("read", json!({}))]);
    let agent = Agent::builder(model).tools(tools()).build().expect("an agent");
    let before = agent.run("Go.").await.expect("an answer").transcript().clone();

    let (asked, approver) = person(ApprovalRequest::yes);
    let agent = Agent::builder(script([reply().call("fetch", json!({}))]))
        .tools(tools())
        .permissions(Permissions::default().data_flow(DataFlowPolicy::default()))
        .approver(approver);
    agent.build().expect("an agent").chat_from(before).send("On.").await.expect("an answer");
    assert_eq!(asked.lock().expect("unpoisoned").len(), 1);
}

#[tokio::test]
async fn duplicate_members_are_refused_before_anybody_decides() {
    let log = Log::default();
    let twice = r#"{"command":"ls","command":"rm -rf /"}"#;
    let deep = r#"{"a":[{"b":1,"\u0062":2}]}"#;
    let model = script([reply().call_text("run", twice), reply().call_text("look", deep)]);
    let seen = Arc::new(AtomicUsize::new(0));
    let rule = Arc::clone(&seen);
    let (asked, approver) = person(ApprovalRequest::yes);
    let agent = Agent::builder(model.clone())
        .tools([takes_all("run", SideEffects::ALL, &log), takes_all("look", READ, &log)])
        .permissions(Permissions::default().rule("any", move |_| {
            rule.fetch_add(1, Ordering::SeqCst);
            None
        }))
        .approver(approver)
        .build()
        .expect("an agent");
    let (mut chat, journal) = recorded(&agent);
    chat.send("Go.").await.expect("an answer");
    assert_eq!(log.lines(), [""; 0]);
    assert_eq!(seen.load(Ordering::SeqCst), 0, "no rule has seen it");
    assert_eq!(asked.lock().expect("unpoisoned").len(), 0);
    assert_eq!(decisions(&journal), [(true, Decider::Call), (true, Decider::Call)]);
    let told = model.requests()[1].results().last().expect("a result").clone();
    assert_eq!(told.outcome(), CallOutcome::Failed);
    assert!(told.to_text().contains("`command` twice"), "{}", told.to_text());
    let told = model.requests()[2].results().last().expect("a result").to_text();
    assert!(told.contains("`b` twice"), "{told}");
}

/// `serde_json` reads an object with such a name as another value, or not at all.
#[tokio::test]
async fn a_private_name_of_the_json_reader_costs_no_conversation() {
    let private = || json!({"a": [{"$serde_json::private::RawValue": "no"}]});
    let any = || json!({"type": "object", "additionalProperties": true});
    let echo = Tool::new("echo", "Repeats.", any(), READ, |_, arguments| {
        let repeated = Value::Object(arguments);
        Box::pin(async move { Ok(ToolContent::Json(repeated).into()) })
    });
    let make = Tool::new("make", "Makes.", any(), READ, move |_, _| {
        Box::pin(
            async move { ToolOutput::from(ToolContent::Json(private())).with_value(&private()) },
        )
    });
    let ask = Tool::new("ask", "Asks.", any(), READ, move |_, _| {
        Box::pin(async move { Err(ToolError::asks("Which?", private())) })
    });
    let model = script([
        reply().call("echo", private()),
        reply().call("make", json!({})),
        reply().call("ask", json!({})),
    ]);
    let agent = Agent::builder(model.clone()).tools([echo, make, ask]).build().expect("an agent");
    let journal = MemoryJournal::new();
    let mut chat = agent.open(&journal, "a").await.expect("a conversation");
    chat.send("Go.").await.expect("an answer");
    let results: Vec<_> =
        model.requests().iter().filter_map(|request| request.results().last().cloned()).collect();
    let [refused, made, asked] = &results[..] else { panic!("{results:?}") };
    assert!(refused.to_text().contains("a private name of the JSON reader"), "{refused:?}");
    assert_eq!(made.to_text(), private().to_string());
    assert_eq!(made.value(), None);
    assert!(asked.to_text().contains("its token or its form"), "{asked:?}");
    let before = chat.transcript().clone();
    drop(chat);
    let opened = agent.open(&journal, "a").await.expect("it can be read");
    assert_eq!(opened.transcript(), &before);
}

#[tokio::test]
async fn an_approval_of_another_question_counts_for_nothing() {
    let log = Log::default();
    let first = Arc::new(Mutex::new(None::<Approval>));
    let kept = Arc::clone(&first);
    // A screen that mixes up its questions: it gives the first answer to all.
    let (asked, approver) = person(move |question| {
        kept.lock().expect("unpoisoned").get_or_insert_with(|| question.yes()).clone()
    });
    let model =
        script([reply().call("pay", json!({"cents": 1})).call("pay", json!({"cents": 100_000}))]);
    let agent =
        Agent::builder(model.clone()).tools([takes_all("pay", MUTATE, &log)]).approver(approver);
    agent.build().expect("an agent").run("Go.").await.expect("an answer");
    assert_eq!(asked.lock().expect("unpoisoned").len(), 2);
    assert_eq!(log.lines(), [r#"pay {"cents":1}"#]);
    let told = model.requests()[1].results().last().expect("a result").to_text();
    assert!(told.contains("given for another call"), "{told}");
}

#[tokio::test]
async fn a_question_shows_all_and_survives_json() {
    let log = Log::default();
    let model = script([reply().call_text("pay", r#"{"to":"\u0062ob","cents":1}"#)]);
    let with_preview = takes_all("pay", MUTATE, &log).with_review(|_| {
        Review::pass().with_preview(Preview::Diff("-0\n+1".into())).in_folder("/ledger")
    });
    let (asked, approver) = person(|question| question.yes().by("the clerk"));
    let permissions = Permissions::default().rule("payments", |_| Some(RuleDecision::Ask));
    let agent = Agent::builder(model).tools([with_preview]).permissions(permissions);
    let agent = agent.approver(approver).build().expect("an agent");
    let (mut chat, journal) = recorded(&agent);
    chat.send("Go.").await.expect("an answer");
    let asked = asked.lock().expect("unpoisoned").clone();
    let [question] = asked.as_slice() else { panic!("{asked:?}") };
    assert_eq!(question.conversation, "chat", "as its journal names it");
    assert_eq!((question.call.as_str(), question.tool.as_str()), ("call_1", "pay"));
    assert_eq!(question.arguments.to_string(), r#"{"to":"bob","cents":1}"#);
    assert_eq!(question.reasons[0].by, Decider::Rule { name: "payments".into() });
    assert_eq!(question.folder.as_deref(), Some(std::path::Path::new("/ledger")));
    assert_eq!(question.preview, Some(Preview::Diff("-0\n+1".into())));
    assert!(question.agents.is_empty());
    let json = serde_json::to_string(question).expect("JSON");
    assert_eq!(&serde_json::from_str::<ApprovalRequest>(&json).expect("a question"), question);
    let by = decisions(&journal);
    assert!(matches!(&by[0].1, Decider::Person { who: Some(who), .. } if who == "the clerk"));
}

#[tokio::test]
async fn what_has_changed_since_the_approval_does_not_run() {
    let log = Log::default();
    let content = Arc::new(Mutex::new("old".to_owned()));
    let shown = Arc::clone(&content);
    let write =
        takes_all("write", SideEffects::of(&[SideEffect::Write]), &log).with_review(move |_| {
            let now = shown.lock().expect("unpoisoned").clone();
            Review::ask("it replaces a file").with_preview(Preview::Diff(format!("-{now}\n+new")))
        });
    let changed = Arc::clone(&content);
    let (_, approver) = person(move |question| {
        // While the person reads, the file changes.
        "secret".clone_into(&mut changed.lock().expect("unpoisoned"));
        question.yes()
    });
    let model = script([reply().call("write", json!({})), reply().call("write", json!({}))]);
    let agent = Agent::builder(model.clone()).tools([write]).approver(approver);
    agent.build().expect("an agent").run("Go.").await.expect("an answer");
    let told = model.requests()[1].results().last().expect("a result").to_text();
    assert!(told.contains("something else than what was decided on"), "{told}");
    assert_eq!(log.lines(), ["write {}"], "the second approval was of what is there");
}

#[tokio::test]
async fn a_call_with_a_review_never_starts_before_the_answer_is_complete() {
    let (log, hold) = (Log::default(), Gate::new());
    let said = reply().call("look", json!({})).wait_for(&hold).text("And so on.");
    let reviewed = tool("look", READ, &log, Work::Steps(0)).with_review(|_| Review::pass());
    let agent = Agent::builder(script([said])).tools([reviewed]).build().expect("an agent");
    let watch = log.clone();
    let test = async {
        hold.reached().await;
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        assert_eq!(watch.lines(), [""; 0]);
        hold.open();
    };
    let (reply, ()) = tokio::join!(agent.run("Go.").into_future(), test);
    reply.expect("an answer");
    assert_eq!(log.lines(), ["begin look", "end look"]);
}

#[tokio::test]
async fn with_nobody_to_ask_the_model_reads_every_reason_and_the_program_the_way_out() {
    let log = Log::default();
    let model = script([reply().call("pay", json!({})), reply().call("look", json!({}))]);
    let agent = Agent::builder(model.clone())
        .tools([takes_all("pay", MUTATE, &log), takes_all("look", READ, &log)])
        .permissions(
            Permissions::default()
                .rule("two eyes", |call| (call.tool == "look").then_some(RuleDecision::Ask)),
        )
        .build()
        .expect("an agent");
    let reply = agent.run("Go.").await.expect("an answer");
    let told = |at: usize| model.requests()[at].results().last().expect("a result").to_text();
    assert!(told(1).contains("it declares `mutate`") && told(1).contains("nobody to ask"));
    assert!(told(2).contains("the rule `two eyes` asks"));
    // The model repeats what it reads to the user, who cannot do anything with code.
    assert!(!told(1).contains("Permissions") && !told(2).contains("Permissions"));
    assert!(reply.trace().to_string().contains("give an approver, or allow the tool"));
    assert_eq!(log.lines(), [""; 0]);
}

/// What a call that runs an agent does is decided about inside of it, call by call.
#[test]
fn a_call_that_runs_an_agent_is_not_asked_about_for_its_side_effects_or_what_was_read() {
    let arguments = Arguments::decode("{}").expect("an object");
    let permissions = Permissions::default().data_flow(DataFlowPolicy::default());
    let mut call = ProposedCall::new("helper", &arguments, SideEffects::ALL);
    (call.taint.private, call.taint.untrusted) = (true, true);
    let PolicyDecision::Ask { reasons } = permissions.decide(&call) else {
        panic!("it is asked about")
    };
    assert_eq!(reasons[0].by, Decider::DataFlow);
    call.is_agent = true;
    assert_eq!(permissions.decide(&call), PolicyDecision::Allow { by: Decider::SideEffects });
}

#[test]
fn of_what_is_said_of_a_name_the_strictest_is_judged_in_every_order() {
    let arguments = Arguments::decode("{}").expect("an object");
    let call = ProposedCall::new("note", &arguments, READ);
    let says = |permissions: Permissions, what: usize| match what {
        0 => permissions.allow("note"),
        1 => permissions.ask("note"),
        _ => permissions.deny("note", "no"),
    };
    for first in 0..3 {
        for second in 0..3 {
            let permissions = says(says(Permissions::default(), first), second);
            let judged = match permissions.decide(&call) {
                PolicyDecision::Allow { by: Decider::ToolName } => 0,
                PolicyDecision::Ask { .. } => 1,
                PolicyDecision::Deny { by: Decider::ToolName, .. } => 2,
                other => panic!("{other:?}"),
            };
            assert_eq!(judged, first.max(second), "{first}, then {second}");
        }
    }
}

#[tokio::test]
async fn a_call_that_reads_nothing_has_read_nothing_private() {
    let looks = SideEffects::of(&[SideEffect::Read, SideEffect::Network]);
    for (effects, asks) in [(MUTATE, false), (SideEffects::ALL, true)] {
        let log = Log::default();
        let call = |name: &str| reply().call(name, json!({}));
        let model = script([call("work"), call("fetch"), call("fetch")]);
        let (asked, approver) = person(ApprovalRequest::yes);
        let permissions = Permissions::default()
            .allow("work")
            .allow("fetch")
            .data_flow(DataFlowPolicy::default());
        let agent = Agent::builder(model)
            .tools([takes_all("work", effects, &log), takes_all("fetch", looks, &log)])
            .permissions(permissions)
            .approver(approver);
        agent.build().expect("an agent").run("Go.").await.expect("an answer");
        assert_eq!(!asked.lock().expect("unpoisoned").is_empty(), asks, "{effects}");
    }
}
