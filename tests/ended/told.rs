//! What watchers learn of the end of a run: the same while it goes on, from the journal, and from the facts of an engine.

use std::sync::Arc;

use futures_util::StreamExt as _;
use harness::{
    Agent, Error, ErrorKind, Event, Outcome, Permissions, Reply, SideEffect, SideEffects, Stopped,
    agent::{AgentBuilder, ChatRun, Chats, LiveEvents},
    context::Window,
    journal::{Fact, InterruptCause, Journal, LimitKind, MemoryJournal},
    models::{Models, Price},
    policy::{ApprovalRequest, BudgetUsage, Guardrails},
    provider::StopReason,
    testing::{ScriptedProvider, ScriptedReply, reply},
};
use serde_json::json;

use crate::{CHAT, Left, agent, tool};
use harness_test_support::summaries::asks;

/// What watchers learn of an end.
#[derive(Clone, Debug, PartialEq)]
struct End {
    outcome: Outcome,
    spent: BudgetUsage,
    reason: Option<String>,
}

fn end_of(event: Event<'_>) -> Option<End> {
    match event {
        Event::RunEnded { outcome, spent, reason, .. } => {
            Some(End { outcome, spent: *spent, reason: reason.map(str::to_owned) })
        }
        _ => None,
    }
}

/// The end of a run that goes on here, and what it has spent.
async fn live(mut run: ChatRun) -> (End, BudgetUsage) {
    let mut end = None;
    while let Some(next) = run.next().await {
        end = end_of(next.event.as_event()).or(end);
    }
    let result = run.finish().await;
    let spent = result.as_ref().map_or_else(Stopped::spent, Reply::spent);
    (end.expect("an end"), spent)
}

/// The same end for who comes later: to another process, and to who has the facts of an engine.
async fn rebuilt(agent: &Agent, journal: &MemoryJournal) -> [End; 2] {
    let mut watcher = Chats::new(agent, journal).watch(CHAT).await.expect("a watcher");
    let later = loop {
        let next = watcher.next().await.expect("the run has ended");
        if let Some(end) = end_of(next.event.as_event()) {
            break end;
        }
    };
    let live = Arc::new(LiveEvents::new(agent));
    live.apply(0, &journal.read(CHAT, 0).await.expect("facts").facts).expect("facts");
    let mut watcher = live.watch();
    let ends = std::iter::from_fn(|| watcher.try_next());
    let ends = ends.filter_map(|next| end_of(next.event.as_event()));
    [later, ends.last().expect("an end")]
}

/// Checks an end that was told here.
async fn checked(agent: &Agent, journal: &MemoryJournal, (end, spent): (End, BudgetUsage)) -> End {
    assert_eq!(end.spent, spent, "{end:?}");
    for rebuilt in rebuilt(agent, journal).await {
        assert_eq!(rebuilt, end);
    }
    end
}

/// A model that calls the agent `ask` once, and then answers with what it has said.
fn calls(
    then: impl Fn(ScriptedReply) -> ScriptedReply + Send + Sync + 'static,
) -> ScriptedProvider {
    ScriptedProvider::answering(move |request| match request.results().next() {
        None => reply().call_with_id("c", "ask", json!({"task": "Count."})).tokens(100, 10),
        Some(result) => then(reply().text(result.to_text())).tokens(200, 20),
    })
}

fn counts(model: ScriptedProvider) -> AgentBuilder {
    agent(model.with_model("below"))
}

async fn sent(agent: &Agent) -> (End, MemoryJournal) {
    let journal = MemoryJournal::new();
    let run = Chats::new(agent, &journal).send(CHAT, "Go.").await.expect("a run");
    (checked(agent, &journal, live(run).await).await, journal)
}

#[tokio::test]
async fn the_end_of_a_run_has_the_spending_of_its_agents() {
    let below = counts(ScriptedProvider::answering(|_| reply().text("42").tokens(1000, 100)));
    let below = below.build().expect("an agent").as_tool("ask", "Asks.");
    let lead = agent(calls(|it| it)).tools([below.clone()]).build().expect("an agent");
    let (end, _) = sent(&lead).await;
    assert_eq!((end.outcome, end.spent.turns, end.spent.tool_calls), (Outcome::Answered, 3, 1));
    assert_eq!((end.spent.usage.input, end.spent.usage.output), (Some(1300), Some(130)));
    assert_eq!(end.spent.cost, Some((1300.0 * 1.5 + 130.0 * 7.0) / 1e6));

    // What is not known does not count as nothing.
    let models = || Models::none().with("lead", Price::new(1.0, 1.0));
    let below = Agent::builder(ScriptedProvider::answering(|_| reply().text("42").tokens(1, 1)));
    let below = below.models(models()).build().expect("an agent").as_tool("ask", "Asks.");
    let lead = Agent::builder(calls(|it| it).with_model("lead")).models(models());
    let lead = lead.tools([below]).permissions(Permissions::allow_all()).build();
    let (end, _) = sent(&lead.expect("an agent")).await;
    assert_eq!((end.spent.cost, end.spent.known_cost), (None, 330.0 / 1e6));
}

#[tokio::test]
async fn a_run_that_went_on_in_another_process_tells_the_whole_of_what_it_has_spent() {
    let write = SideEffects::of(&[SideEffect::Write]);
    let put = tool("put", write, |_| async { Ok("It is done.".to_owned()) });
    let below = Agent::builder(ScriptedProvider::answering(|request| {
        let reply = reply().tokens(1000, 100);
        let has_result = request.results().next().is_some();
        if has_result { reply.text("Done.") } else { reply.call("put", json!({})) }
    }));
    let below = below
        .models(Models::none().with("*", Price::new(1.5, 7.0)))
        .tools([put])
        .permissions(Permissions::default().ask("put"));
    let below = below.build().expect("an agent").as_tool("ask", "Asks.");
    let lead = Agent::builder(calls(|it| it)).tools([below]);
    let lead = lead.models(Models::none().with("*", Price::new(1.5, 7.0)));
    let lead = lead.approver(|question: ApprovalRequest| async move { question.later(None) });
    let lead = lead.build().expect("an agent");
    let (end, journal) = sent(&lead).await;
    assert_eq!((end.outcome, end.spent.usage.input), (Outcome::Waiting, Some(1100)));
    let inbox = lead.inbox(&journal);
    let (conversation, open) = inbox.waiting_with_agents(CHAT).await.expect("facts").remove(0);
    let approval = open.question().expect("a question").yes();
    inbox.decide(&conversation, approval).await.expect("it waits");
    let run = Chats::new(&lead, &journal).resume(CHAT).await.expect("a run");
    let end = checked(&lead, &journal, live(run).await).await;
    assert_eq!((end.outcome, end.spent.usage.input), (Outcome::Answered, Some(2300)));
    assert!(end.spent.cost.is_some(), "{end:?}");
}

#[tokio::test]
async fn a_run_whose_process_ended_tells_what_it_had_spent_there() {
    let left = Left::default();
    let below = counts(left.model(|_| reply().text("42").tokens(1000, 100)));
    let below = below.build().expect("an agent").as_tool("ask", "Asks.");
    let lead = agent(left.model(|request| match request.results().next() {
        None => reply().call_with_id("c", "ask", json!({"task": "Count."})).tokens(100, 10),
        Some(_) => reply().text("42").tokens(200, 20),
    }));
    let lead = lead.tools([below]).build().expect("an agent");
    lead.open(&left.journal, CHAT).await.expect("new").send("Go.").await.expect("an answer");
    let moments = left.take();
    assert_eq!(moments.len(), 3);
    for journal in moments {
        // Nobody watches the part before this.
        let run = Chats::new(&lead, &journal).resume(CHAT).await.expect("a run");
        let end = checked(&lead, &journal, live(run).await).await;
        assert_eq!((end.outcome, end.spent.cost), (Outcome::Answered, None), "one was not read");
    }
}

fn named(kind: ErrorKind, message: &str) -> Error {
    let url = Arc::from("https://models.internal/v1");
    let error = Error::new(kind, message).with_provider("internal").with_request_id("req_internal");
    error.with_url(&url, None).with_note("set `Internal::retries`")
}

#[tokio::test]
async fn a_reason_is_the_same_for_who_comes_later_and_has_no_words_for_programmers() {
    let overloaded = || named(ErrorKind::Api, "Overloaded").with_status(529);
    let answers: [(ScriptedReply, &str); 6] = [
        (reply().error(overloaded()), "the answer failed: 529: Overloaded"),
        // Two failures, one of which would name a setting.
        (
            reply().error(overloaded().with_later(named(ErrorKind::TooLarge, "`Internal`"))),
            "the answer failed: 529: Overloaded; then the answer of the model is too large: ask for less",
        ),
        (
            reply().error(named(ErrorKind::Configuration, "call `Internal::key`")),
            "the answer failed: the service is not set up for this: tell the people who run it",
        ),
        (
            reply().text("I").stop(StopReason::Truncated),
            "the answer was cut off, because it is too long: ask for the rest, or for a shorter answer",
        ),
        (
            reply().text("I").stop(StopReason::Refused),
            "the model refused to answer: ask in other words",
        ),
        (
            reply().call_with_id("d", "ask", json!({"task": "Count."})),
            "the limit of turns was reached before there was an answer: send a message to go on",
        ),
    ];
    for (answer, reason) in answers {
        let below = counts(ScriptedProvider::answering(|_| reply().text("42").tokens(10, 1)));
        let below = below.build().expect("an agent").as_tool("ask", "Asks.");
        let first = reply().call_with_id("c", "ask", json!({"task": "Count."}));
        let lead = agent(ScriptedProvider::new([first.tokens(100, 10), answer]));
        let lead = lead.guardrails(Guardrails::default().turns(2)).tools([below]);
        let (end, _) = sent(&lead.build().expect("an agent")).await;
        assert_eq!(end.reason.as_deref(), Some(reason));
    }
}

#[tokio::test]
async fn a_limit_that_needs_a_price_tells_watchers_no_method() {
    let lead = agent(ScriptedProvider::new([reply().text("No.")])).models(Models::none());
    let lead = lead.limits(harness::Limits::new().refuse_unknown_cost()).build();
    let (end, _) = sent(&lead.expect("an agent")).await;
    assert_eq!(end.outcome, Outcome::Limit(LimitKind::UnknownCost));
    let reason = "there is no answer, because its cost would not be known: tell the people who run the service";
    assert_eq!(end.reason.as_deref(), Some(reason));
}

#[tokio::test]
async fn the_result_of_an_agent_that_failed_names_no_server() {
    let kinds = [
        (ErrorKind::Api, "Overloaded"),
        (ErrorKind::ContextFull, "internal: no"),
        (ErrorKind::Panicked, "at `/internal`"),
    ];
    for (kind, message) in kinds {
        let failing = move |_: &_| reply().error(named(kind, message));
        let below = counts(ScriptedProvider::answering(failing)).build().expect("an agent");
        let lead = agent(calls(|it| it)).tools([below.as_tool("ask", "Asks.")]);
        let journal = MemoryJournal::new();
        let mut chat = lead.build().expect("an agent").open(&journal, CHAT).await.expect("new");
        let reply = chat.send("Go.").await.expect("an answer");
        assert!(reply.text().contains("the answer failed"), "{reply}");
        assert!(!reply.text().to_lowercase().contains("internal"), "{reply}");
    }
}

#[tokio::test]
async fn the_failure_of_a_summary_names_no_server() {
    let model = ScriptedProvider::answering(|request| match asks(request) {
        true => reply().error(named(ErrorKind::Api, "Overloaded").with_status(400)),
        false => reply().text("x".repeat(400)),
    });
    let lead = agent(model).window(Window::new().tokens(2_000)).build().expect("an agent");
    let journal = MemoryJournal::new();
    let chats = Chats::new(&lead, &journal);
    for turn in 0..30 {
        let run = chats.send(CHAT, format!("Turn {turn}.")).await.expect("a run");
        let (end, spent) = live(run).await;
        if end.outcome != Outcome::Answered {
            let end = checked(&lead, &journal, (end, spent)).await;
            let reason = "the answer failed: the conversation is too long for the model: begin a new conversation";
            assert_eq!(end.reason.as_deref(), Some(reason));
            return;
        }
    }
    panic!("no summary has failed");
}

#[tokio::test]
async fn a_failure_of_an_earlier_version_is_told_without_its_text() {
    let lead = agent(ScriptedProvider::new([reply().error(named(ErrorKind::Api, "Overloaded"))]));
    let lead = lead.build().expect("an agent");
    let (_, journal) = sent(&lead).await;
    let mut facts = journal.read(CHAT, 0).await.expect("facts").facts;
    for envelope in &mut facts {
        let fact = envelope.fact().expect("a fact");
        if let Fact::Interrupted { cause: InterruptCause::Failure { public_text, .. }, .. } = &fact
        {
            let text = public_text.as_deref().expect("a text");
            let member = format!(",\"public_text\":{}", json!(text));
            assert!(envelope.fact.contains(&member), "{}", envelope.fact);
            envelope.fact = envelope.fact.replace(&member, "").into();
        }
    }
    let old = MemoryJournal::new();
    old.append(CHAT, harness::journal::Head::default(), &facts).await.expect("appended");
    for end in rebuilt(&lead, &old).await {
        assert_eq!(end.reason.as_deref(), Some("the answer failed: try again later"));
    }
}
