//! Agents that calls run, against their purpose: colliding names, people who are not asked or whose wait has no
//! purpose, missing facts, limits that count the wrong things, and processes that end at any
//! moment.

use std::{
    collections::BTreeMap,
    future::IntoFuture as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt as _;
use harness::{
    Agent, CallOutcome, Chat, ErrorKind, Guardrails, Limits, Message, Outcome, Permissions,
    SideEffect, SideEffects, Tool, ToolContext, ToolError,
    agent::{AgentBuilder, Machine, Run},
    journal::{ConversationQuery, Fact, Journal, MemoryJournal, SqliteJournal},
    policy::{Approval, ApprovalRequest, BudgetUsage},
    testing::{FaultyJournal, JournalCall, JournalFault, ScriptedProvider, reply},
};
use serde_json::json;

const READ: SideEffects = SideEffects::of(&[SideEffect::Read]);
const WRITE: SideEffects = SideEffects::of(&[SideEffect::Write]);
const MUTATE: SideEffects = SideEffects::of(&[SideEffect::Mutate]);

/// What ran, by its name and idempotency key, and how often.
type World = Arc<Mutex<BTreeMap<(String, String), u32>>>;

type Calls = &'static [(&'static str, &'static str)];

/// Asks for these calls, each by its id and tool, and then says what came of them: all in one turn, or each in
/// one of its own.
fn asks_for(calls: Calls, at_once: bool) -> ScriptedProvider {
    ScriptedProvider::answering(move |request| {
        let messages: Vec<&Message> = request.messages().iter().collect();
        let said = messages.iter().rposition(|it| it.role() == harness::Role::User).unwrap_or(0);
        let results: Vec<String> =
            messages[said..].iter().flat_map(|it| it.results()).map(|it| it.to_text()).collect();
        let done = results.len();
        let now = if at_once { calls.len() } else { done + 1 };
        let asked = match calls.get(done..now).unwrap_or_default() {
            [] => reply().text(results.join(" | ")),
            calls => calls.iter().fold(reply(), |it, (id, name)| {
                it.call_with_id(*id, *name, json!({"task": "Go."}))
            }),
        };
        asked.tokens(100, 10)
    })
}

fn says(text: &'static str) -> ScriptedProvider {
    ScriptedProvider::answering(move |_| reply().text(text).tokens(100, 10))
}

fn agent(model: ScriptedProvider, tools: impl IntoIterator<Item = Tool>) -> AgentBuilder {
    Agent::builder(model).tools(tools.into_iter().collect::<Vec<Tool>>())
}

fn does(name: &'static str, effects: SideEffects, world: &World) -> Tool {
    let world = Arc::clone(world);
    Tool::new(name, "Does it.", json!({"type": "object"}), effects, move |context, _| {
        let key = (name.to_owned(), context.idempotency_key().to_owned());
        *world.lock().expect("unpoisoned").entry(key).or_default() += 1;
        Box::pin(async move {
            tokio::task::yield_now().await;
            Ok(format!("{name} is done").into())
        })
    })
}

/// How many calls of this tool ran.
fn ran(world: &World, name: &str) -> u32 {
    let world = world.lock().expect("unpoisoned");
    world.iter().filter(|((tool, _), _)| tool == name).map(|(_, times)| times).sum()
}

/// A function that runs an agent inside its call.
fn runs(worker: Agent, effects: SideEffects, with: fn(Run<'static>) -> Run<'static>) -> Tool {
    Tool::new("run", "Works.", json!({"type": "object"}), effects, move |context, _| {
        let worker = worker.clone();
        Box::pin(async move { Ok(with(worker.run("Go.").in_call(&context)).await?.text().into()) })
    })
}

async fn later(question: ApprovalRequest) -> Approval {
    question.later(None)
}

fn tokens(spent: &BudgetUsage) -> (u64, u64) {
    (spent.usage.input.unwrap_or(0), spent.usage.output.unwrap_or(0))
}

async fn names(journal: &MemoryJournal) -> Vec<String> {
    let page = journal.list(&ConversationQuery::new().limit(1000)).await.expect("a page");
    let mut names: Vec<String> = page.conversations.into_iter().map(|it| it.id).collect();
    names.sort();
    names
}

/// The tokens that all conversations of a journal tell.
async fn told(journal: &MemoryJournal) -> (u64, u64) {
    let mut sum = (0, 0);
    for name in names(journal).await {
        for fact in journal.read(&name, 0).await.expect("facts").facts {
            if let Fact::ModelReplied { usage, .. } = fact.fact().expect("a fact") {
                sum.0 += usage.input.unwrap_or(0);
                sum.1 += usage.output.unwrap_or(0);
            }
        }
    }
    sum
}

fn outcomes(chat: &Chat) -> Vec<CallOutcome> {
    let results = chat.transcript().messages().iter().flat_map(Message::results);
    results.map(|it| it.outcome()).collect()
}

/// An agent whose agent's agent writes, then asks a person, and then writes again.
fn asks(world: &World) -> AgentBuilder {
    let calls: Calls = &[("c0", "put"), ("c1", "pay"), ("c2", "put")];
    let tools = [does("put", WRITE, world), does("pay", MUTATE, world)];
    let deep = agent(asks_for(calls, true), tools).build().expect("an agent");
    let middle = agent(asks_for(&[("c0", "deep")], true), [deep.as_tool("deep", "Works.")]);
    let middle = middle.build().expect("an agent").as_tool("middle", "Works.");
    agent(asks_for(&[("c0", "middle")], true), [middle]).approver(later)
}

/// The question that waits in this conversation.
async fn question(lead: &Agent, journal: &MemoryJournal, conversation: &str) -> ApprovalRequest {
    let open = lead.inbox(journal).waiting(conversation).await.expect("read");
    open.iter().find_map(|open| open.question()).expect("a question")
}

/// Says yes to whatever waits, each time in another process, until the run has ended.
async fn to_the_end(lead: &Agent, journal: &MemoryJournal) -> String {
    let mut chat = lead.open(journal, "chat").await.expect("opened");
    let mut ended = chat.send("Go.").await;
    loop {
        match ended {
            Ok(reply) => return reply.text().to_owned(),
            Err(stopped) if stopped.outcome() != Outcome::Waiting => return stopped.to_string(),
            Err(_) => drop(chat),
        }
        let inbox = lead.inbox(journal);
        for name in names(journal).await {
            for open in inbox.waiting(&name).await.expect("read") {
                let Some(question) = open.question() else { continue };
                inbox.decide(&name, question.yes()).await.expect("written");
            }
        }
        chat = lead.open(journal, "chat").await.expect("opened");
        ended = chat.resume().await;
    }
}

#[tokio::test]
async fn two_agents_never_have_one_name() {
    // The second agent of a call, and one in the call `2` of the first one.
    let journal = MemoryJournal::new();
    let deep = agent(says("the deep one"), []).build().expect("an agent");
    let first = agent(asks_for(&[("2", "deep")], true), [deep.as_tool("deep", "Works.")]);
    let first = first.build().expect("an agent");
    let second = agent(says("the second one"), []).build().expect("an agent");
    let both =
        Tool::new("both", "Works.", json!({"type": "object"}), SideEffects::NONE, move |it, _| {
            let (first, second) = (first.clone(), second.clone());
            Box::pin(async move {
                let one = first.run("Go.").in_call(&it).await?;
                let other = second.run("Go.").in_call(&it).await?;
                Ok(format!("{one}, {other}").into())
            })
        });
    let lead = agent(asks_for(&[("c0", "both")], true), [both]).build().expect("an agent");
    let ended = lead.open(&journal, "chat").await.expect("opened").send("Go.").await;
    let both = ended.expect("an answer");
    assert_eq!(both.text(), "the deep one, the second one");
    assert_eq!(tokens(&both.spent()), told(&journal).await);

    // A call that is named as what stands for another one's name.
    let journal = MemoryJournal::new();
    let asked = Arc::new(AtomicU32::new(0));
    let model = ScriptedProvider::answering(move |_| {
        reply().text(format!("number {}", asked.fetch_add(1, Ordering::Relaxed)))
    });
    let worker = agent(model, []).build().expect("an agent").as_tool("work", "Works.");
    let lead = agent(asks_for(&[("a/b", "work")], true), [worker.clone()]).build();
    let lead = lead.expect("an agent");
    lead.open(&journal, "chat").await.expect("opened").send("Go.").await.expect("an answer");
    let stands_for = names(&journal).await[1].rsplit_once('/').expect("a parent").1.to_owned();
    let calls: Calls = vec![("a/b", "work"), (String::leak(stands_for), "work")].leak();
    let lead = agent(asks_for(calls, false), [worker]).build().expect("an agent");
    let journal = MemoryJournal::new();
    let ended = lead.open(&journal, "chat").await.expect("opened").send("Go.").await;
    assert_eq!(ended.expect("an answer").text(), "number 1 | number 2");
    assert_eq!(names(&journal).await.len(), 3);
}

#[tokio::test]
async fn a_conversation_of_the_program_is_no_agents() {
    let journal = MemoryJournal::new();
    let other = agent(says("a secret"), []).build().expect("an agent");
    let mut chat = other.open(&journal, "chat/c0").await.expect("opened");
    chat.send("Go.").await.expect("an answer");
    drop(chat);
    let facts = journal.read("chat/c0", 0).await.expect("facts").facts;
    let lead = agent(asks_for(&[("c0", "work")], true), [other.as_tool("work", "Works.")]);
    let lead = lead.build().expect("an agent");
    let reply = lead.open(&journal, "chat").await.expect("opened").send("Go.").await;
    let reply = reply.expect("an answer");
    assert!(reply.text().contains("is not one of the agents of `chat`"), "{reply}");
    assert_eq!(journal.read("chat/c0", 0).await.expect("facts").facts, facts);
    assert_eq!(tokens(&reply.spent()), (200, 20), "what the other one has spent is not counted");
}

#[tokio::test]
async fn a_function_does_not_choose_who_is_asked_for_its_agent() {
    let accomplice: fn(Run<'static>) -> Run<'static> =
        |it| it.approver("accomplice", |question: ApprovalRequest| async move { question.yes() });
    let world = World::default();
    let worker = agent(asks_for(&[("p", "pay")], true), [does("pay", MUTATE, &world)]).build();
    let run = runs(worker.expect("an agent"), MUTATE, accomplice);
    let lead = agent(asks_for(&[("c0", "run")], true), [run]);
    let lead = lead.permissions(Permissions::default().allow("run")).build().expect("an agent");
    let ada = |question: ApprovalRequest| async move { question.no("Ada says no") };
    let reply = lead.run("Go.").approver("ada", ada).await.expect("an answer");
    assert!(reply.text().contains("Ada says no"), "{reply}");
    assert_eq!(ran(&world, "pay"), 0);
    // Where the caller has nobody, it is whom the function names.
    assert_eq!(lead.run("Go.").await.expect("an answer").text(), "pay is done");
}

#[tokio::test]
async fn the_hook_of_a_caller_is_told_of_calls_of_agents_that_have_none() {
    let hooked: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&hooked);
    let journal = MemoryJournal::new();
    let lead = asks(&World::default()).on_waiting(move |conversation, open| {
        told.lock().expect("unpoisoned").push(format!("{conversation} {}", open.call.name()));
    });
    let lead = lead.build().expect("an agent");
    let mut chat = lead.open(&journal, "chat").await.expect("opened");
    chat.send("Go.").await.unwrap_err();
    assert_eq!(
        *hooked.lock().expect("unpoisoned"),
        ["chat/c0/c0 pay", "chat/c0 deep", "chat middle"]
    );
}

#[tokio::test]
async fn to_wait_for_somebody_is_no_turn() {
    let calls: Calls = &[("p0", "pay"), ("p1", "pay"), ("p2", "pay"), ("p3", "pay")];
    for turns in 1..5 {
        for below in [false, true] {
            let (journal, world) = (MemoryJournal::new(), World::default());
            let worker = agent(asks_for(calls, false), [does("pay", MUTATE, &world)]);
            let rails = Guardrails::default().turns(turns).repetitions(None).repeated_calls(None);
            let worker = worker.guardrails(rails).approver(later);
            let worker = worker.build().expect("an agent");
            let lead = match below {
                false => worker,
                true => {
                    let tool = worker.as_tool("work", "Works.");
                    let lead = agent(asks_for(&[("c0", "work")], true), [tool]);
                    lead.approver(later).build().expect("an agent")
                }
            };
            let text = to_the_end(&lead, &journal).await;
            assert!(text.contains("the limit of turns"), "{text}");
            assert_eq!(ran(&world, "pay"), turns, "below another one: {below}");
        }
    }
}

#[tokio::test]
async fn an_agent_whose_conversation_is_gone_does_not_begin_anew() {
    for gone in ["chat/c0", "chat/c0/c0"] {
        let (journal, world) = (MemoryJournal::new(), World::default());
        let lead = asks(&world).build().expect("an agent");
        let mut chat = lead.open(&journal, "chat").await.expect("opened");
        chat.send("Go.").await.unwrap_err();
        drop(chat);
        assert!(journal.delete(gone).await.expect("deleted"));
        let mut chat = lead.open(&journal, "chat").await.expect("opened");
        let reply = chat.resume().await.expect("an answer");
        assert!(reply.text().contains("It may have partly run"), "{reply}");
        assert!(reply.text().contains("its conversation was deleted"), "{gone}: {reply}");
        assert_eq!(ran(&world, "put"), 1, "what it had done is not done again");
        if gone == "chat/c0" {
            assert_eq!(outcomes(&chat), [CallOutcome::InDoubt]);
        }
    }
}

#[tokio::test]
async fn an_answer_that_nobody_would_hear_is_refused() {
    for by_hand in [false, true] {
        let (journal, world) = (MemoryJournal::new(), World::default());
        let lead = asks(&world).build().expect("an agent");
        let inbox = lead.inbox(&journal);
        let mut chat = lead.open(&journal, "chat").await.expect("opened");
        chat.send("Go.").await.unwrap_err();
        let question = question(&lead, &journal, "chat/c0/c0").await;
        match by_hand {
            true => {
                let open = chat.waiting().remove(0);
                inbox.settle("chat", open.succeeded("Ada did it.")).await.expect("written");
            }
            false => {
                chat.send("Never mind.").await.unwrap_err();
            }
        }
        let facts = journal.read("chat/c0/c0", 0).await.expect("facts").facts;
        let error = inbox.decide("chat/c0/c0", question.yes()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotWaiting);
        assert!(error.to_string().contains("the agent of `chat/c0` does not continue"), "{error}");
        assert_eq!(journal.read("chat/c0/c0", 0).await.expect("facts").facts, facts);
        assert_eq!(ran(&world, "pay"), 0);
    }
}

#[tokio::test]
async fn the_conversation_of_an_agent_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("chats.db");
    for broken in ["chat/c0", "chat/c0/c0"] {
        let journal = SqliteJournal::open(&path).await.expect("opened");
        let lead = asks(&World::default()).build().expect("an agent");
        let mut chat = lead.open(&journal, "chat").await.expect("opened");
        chat.send("Go.").await.unwrap_err();
        drop(chat);
        let file = rusqlite::Connection::open(&path).expect("opened");
        let changed = file.execute(
            "UPDATE facts SET fact = '{}' WHERE number = 1 AND conversation = \
             (SELECT key FROM conversations WHERE id = ?1)",
            [broken],
        );
        assert_eq!(changed.expect("changed"), 1);
        let mut chat = lead.open(&journal, "chat").await.expect("opened");
        let error = chat.resume().await.unwrap_err().to_string();
        assert!(error.contains(&format!("`{broken}` of an agent")), "{error}");
        assert!(error.contains("fact 1 of"), "{error}");
        drop(chat);
        assert!(journal.delete("chat").await.expect("deleted"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_person_counts_in_no_limit_of_a_call() {
    let day = Duration::from_secs(86_400);
    let slow = move |question: ApprovalRequest| async move {
        tokio::time::sleep(day).await;
        question.yes()
    };
    for (limit, works, ends) in
        [(None, 30, true), (None, 70, false), (Some(5), 3, true), (Some(5), 7, false)]
    {
        // A call inside that takes so long, asked about twice.
        let work = Tool::new("pay", "Pays.", json!({"type": "object"}), MUTATE, move |_, _| {
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(works) / 2).await;
                Ok("paid".into())
            })
        });
        let worker = agent(asks_for(&[("p", "pay"), ("q", "pay")], false), [work]).build();
        let run = runs(worker.expect("an agent"), MUTATE, |it| it);
        let lead = agent(asks_for(&[("c0", "run")], true), [run]).approver(slow);
        let lead = lead.permissions(Permissions::default().allow("run")).build();
        let lead = lead.expect("an agent");
        let run = lead.run("Go.");
        let run = match limit {
            Some(limit) => run.tool_time(Duration::from_secs(limit)),
            None => run,
        };
        let text = run.await.expect("an answer").text().to_owned();
        let expected = if ends { "paid | paid" } else { "The call took longer than" };
        assert!(text.contains(expected), "{limit:?} {works}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_try_of_a_function_finds_its_agents_where_they_were() {
    for durable in [false, true] {
        let model = says("done");
        let worker = agent(model.clone(), []).build().expect("an agent");
        let tries = Arc::new(AtomicU32::new(0));
        let run = Tool::new("run", "Works.", json!({"type": "object"}), READ, move |context, _| {
            let (worker, tries) = (worker.clone(), Arc::clone(&tries));
            Box::pin(async move {
                let one = worker.run("One.").in_call(&context).await?;
                if tries.fetch_add(1, Ordering::Relaxed) == 0 {
                    return Err(ToolError::transient("once more"));
                }
                let other = worker.run("Two.").in_call(&context).await?;
                Ok(format!("{one}, {other}").into())
            })
        });
        let lead = agent(asks_for(&[("c0", "run")], true), [run]).build().expect("an agent");
        let journal = MemoryJournal::new();
        let mut chat = match durable {
            true => lead.open(&journal, "chat").await.expect("opened"),
            false => lead.chat(),
        };
        let reply = chat.send("Go.").await.expect("an answer");
        assert_eq!(reply.text(), "done, done");
        assert_eq!(model.requests().len(), if durable { 2 } else { 3 });
        if durable {
            assert_eq!(names(&journal).await, ["chat", "chat/c0", "chat/c0/2"]);
            assert_eq!(tokens(&chat.budget().spent()), told(&journal).await);
        }
    }
}

#[tokio::test]
async fn what_the_agents_of_a_function_have_spent_is_known_after_its_process_has_ended() {
    let calls: Calls = &[("p0", "put"), ("p1", "put")];
    let mut below = 0;
    for (at, effects) in (0..10).flat_map(|at| [(at, READ), (at, WRITE)]) {
        let (journal, world) = (MemoryJournal::new(), World::default());
        let worker = agent(asks_for(calls, false), [does("put", effects, &world)]).build();
        let worker = worker.expect("an agent");
        let two = Tool::new("two", "Works.", json!({"type": "object"}), effects, move |it, _| {
            let worker = worker.clone();
            Box::pin(async move {
                worker.run("One.").in_call(&it).await?;
                Ok(worker.run("Two.").in_call(&it).await?.text().into())
            })
        });
        let lead = agent(asks_for(&[("c0", "two")], true), [two]).build().expect("an agent");
        let killed = FaultyJournal::new(journal.clone());
        killed.fail(JournalCall::Append, at, JournalFault::StopAfter);
        let mut chat = lead.open(&killed, "chat").await.expect("opened");
        let mut run = Box::pin(chat.send("Go.").into_future());
        for _ in 0..200 {
            if run.as_mut().now_or_never().is_some() || killed.counts().faults > 0 {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(run);
        drop(chat);
        below = below.max(names(&journal).await.len());
        for _ in 0..2 {
            let mut chat = lead.open(&journal, "chat").await.expect("opened");
            assert_eq!(tokens(&chat.budget().spent()), told(&journal).await, "{at}");
            if chat.can_resume() {
                chat.resume().await.expect("an answer");
            }
            assert_eq!(tokens(&chat.budget().spent()), told(&journal).await, "{at}");
        }
        let times = world.lock().expect("unpoisoned").values().copied().max();
        assert!(effects == READ || times.is_none_or(|times| times == 1));
    }
    assert_eq!(below, 3, "some processes ended while the second agent was at work");
}

#[tokio::test(start_paused = true)]
async fn an_agent_of_a_function_that_starts_early_begins_after_the_answer() {
    for durable in [false, true] {
        for cut in [false, true] {
            let model = says("done");
            let worker = agent(model.clone(), []).build().expect("an agent");
            let journal = MemoryJournal::new();
            // Longer than a call may take.
            let call = reply().call_with_id("c0", "run", json!({"task": "Go."}));
            let answer = call.text("Let").pause(Duration::from_secs(100)).text("me see.");
            let answer = if cut { answer.cut() } else { answer };
            let lead = ScriptedProvider::new([answer, reply().text("bye")]);
            let lead = agent(lead, [runs(worker, READ, |it| it)]).build().expect("an agent");
            let mut chat = match durable {
                true => lead.open(&journal, "chat").await.expect("opened"),
                false => lead.chat(),
            };
            let (mut early, mut asked) = (false, 0);
            let ended = chat.send("Go.").on_event(|event| match event {
                harness::Event::ToolCall(_) => early = true,
                harness::Event::Text(_) => asked = model.requests().len(),
                harness::Event::TurnEnded { turn: 1, .. } => assert_eq!(asked, 0),
                _ => {}
            });
            let ended = ended.await.is_ok();
            assert!(early && ended != cut, "{durable} {cut}");
            assert_eq!(model.requests().len(), usize::from(!cut), "{durable} {cut}");
            if durable && !cut {
                let facts = journal.read("chat", 0).await.expect("facts").facts;
                let at = |is: fn(&Fact) -> bool| {
                    facts.iter().position(|fact| is(&fact.fact().expect("a fact")))
                };
                let started = at(|it| matches!(it, Fact::CallStarted { .. }));
                let finished = at(|it| matches!(it, Fact::CallFinished { .. }));
                assert!(started < finished);
                assert_eq!(outcomes(&chat), [CallOutcome::Succeeded]);
            }
        }
    }
}

#[tokio::test]
async fn a_call_that_has_ended_runs_no_agent() {
    let kept: Arc<Mutex<Option<ToolContext>>> = Arc::default();
    let keeps = Arc::clone(&kept);
    let keep = Tool::new("keep", "Keeps.", json!({"type": "object"}), READ, move |context, _| {
        *keeps.lock().expect("unpoisoned") = Some(context);
        Box::pin(async { Ok("kept".into()) })
    });
    let lead = agent(asks_for(&[("c0", "keep")], true), [keep]).build().expect("an agent");
    let journal = MemoryJournal::new();
    let mut chat = lead.open(&journal, "chat").await.expect("opened");
    chat.send("Go.").await.expect("an answer");
    let context = kept.lock().expect("unpoisoned").take().expect("a context");
    let model = says("too late");
    let worker = agent(model.clone(), []).build().expect("an agent");
    let stopped = worker.run("Go.").in_call(&context).await.unwrap_err();
    assert_eq!(stopped.outcome(), Outcome::Cancelled);
    assert!(model.requests().is_empty());
    assert_eq!(names(&journal).await, ["chat"]);
    assert_eq!(tokens(&chat.budget().spent()), told(&journal).await);
}

/// What the random trees below throw dice with. All of one seed share one sequence.
#[derive(Clone)]
struct Dice(Arc<Mutex<fastrand::Rng>>);

impl Dice {
    fn roll(&self, sides: u32) -> u32 {
        self.0.lock().expect("unpoisoned").u32(0..sides)
    }
}

/// A model that asks for some of these tools, by what it has read and said alone, so that each process finds it
/// the same.
fn moody(names: &'static [&'static str], seed: u64) -> ScriptedProvider {
    ScriptedProvider::answering(move |request| {
        let count = |role| request.messages().iter().filter(|it| it.role() == role).count() as u64;
        let answers = count(harness::Role::Assistant);
        let seed = seed * 1000 + answers * 20 + count(harness::Role::User);
        let mut dice = fastrand::Rng::with_seed(seed);
        let calls = if answers < 3 { dice.u32(0..4) } else { 0 };
        let answer = (0..calls).fold(reply(), |it, n| {
            // Servers give some ids twice.
            let id = format!("c{}", if dice.bool() { 0 } else { n });
            let name = names[dice.usize(0..names.len())];
            it.call_with_id(id, name, json!({"task": format!("t{}", dice.u32(0..3))}))
        });
        if calls == 0 { answer.text("end").tokens(100, 10) } else { answer.tokens(100, 10) }
    })
}

#[tokio::test(start_paused = true)]
async fn trees_of_agents_tell_the_truth_whatever_ends_their_processes() {
    let mut waited = 0;
    for seed in 0..32 {
        let dice = Dice(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))));
        let (world, reads) = (World::default(), World::default());
        let any = |name: &'static str| {
            let effects = [READ, WRITE, MUTATE, SideEffects::NONE][dice.roll(4) as usize];
            // What only reads may run again.
            does(name, effects, if effects.is_read_only() { &reads } else { &world })
        };
        let rails =
            || Guardrails::default().repetitions(None).repeated_calls(None).failed_calls(None);
        let deep = agent(moody(&["one", "two"], seed * 3), [any("one"), any("two")]);
        let deep = deep.guardrails(rails()).build().expect("an agent").as_tool("deep", "Works.");
        let middle = agent(moody(&["one", "deep"], seed * 3 + 1), [any("one"), deep.clone()]);
        let middle = middle.guardrails(rails()).build().expect("an agent");
        let thrown = dice.clone();
        let person = move |question: ApprovalRequest| {
            let answer = match thrown.roll(5) {
                0..=2 => question.later(None),
                3 => question.no("no"),
                _ => question.yes(),
            };
            async move { answer }
        };
        let tools = [any("two"), deep, middle.as_tool("middle", "Works.")];
        let lead = agent(moody(&["middle", "two", "deep"], seed * 3 + 2), tools);
        let lead = lead.guardrails(rails()).permissions(Permissions::default().ask("two"));
        let lead = lead.approver(person).build().expect("an agent");
        let journal = MemoryJournal::new();
        let faulty = FaultyJournal::new(journal.clone());
        let (fails, mut was_dropped) = (seed % 3 == 0, false);
        for step in 0..10 {
            let what = format!("seed {seed}, step {step}");
            if fails && dice.roll(3) == 0 {
                let at = faulty.counts().appends + u64::from(dice.roll(8));
                faulty.fail(JournalCall::Append, at, JournalFault::FailBefore);
            }
            let Ok(mut chat) = lead.open(&faulty, "chat").await else { continue };
            let sum = tokens(&chat.budget().spent());
            let facts = told(&journal).await;
            // An answer that was not written is known to its caller alone.
            assert!(facts <= sum && (fails || was_dropped || facts == sum), "{what}: {sum:?}");
            let goes_on = chat.can_resume() && dice.roll(5) != 0;
            let run = if goes_on { chat.resume() } else { chat.send(format!("u{step}")) };
            let mut run = Box::pin(run.into_future());
            let mut ended = None;
            let polls = if dice.roll(3) == 0 { dice.roll(60) } else { u32::MAX };
            for _ in 0..polls {
                ended = run.as_mut().now_or_never();
                if ended.is_some() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            drop(run);
            was_dropped |= ended.is_none();
            let is_waiting = |it: &Result<_, harness::Stopped>| {
                it.as_ref().is_err_and(|it| it.outcome() == Outcome::Waiting)
            };
            waited += u32::from(ended.is_some_and(|it| is_waiting(&it)));
            drop(chat);
            let inbox = lead.inbox(&journal);
            for name in names(&journal).await {
                for open in inbox.waiting(&name).await.expect("read") {
                    let Some(question) = open.question().filter(|_| dice.roll(2) == 0) else {
                        continue;
                    };
                    let answer = if dice.roll(3) == 0 { question.no("n") } else { question.yes() };
                    // Of those that nobody would hear, none is taken.
                    let _ = inbox.decide(&name, answer).await;
                }
            }
            let world = world.lock().expect("unpoisoned");
            for (key, times) in world.iter() {
                assert_eq!(*times, 1, "{what}: {key:?}");
            }
        }
        for name in names(&journal).await {
            let mut machine = Machine::new();
            for fact in journal.read(&name, 0).await.expect("facts").facts {
                machine.apply(&fact.fact().expect("a fact")).expect("it follows");
            }
        }
    }
    assert!(waited > 40, "{waited}");
}

#[tokio::test]
async fn a_call_that_waits_and_begins_again_counts_once() {
    for lives in [true, false] {
        let (journal, world) = (MemoryJournal::new(), World::default());
        let lead = asks(&world).run_limits(Limits::new().tool_calls(5)).build().expect("an agent");
        let mut chat = lead.open(&journal, "chat").await.expect("opened");
        chat.send("Go.").await.unwrap_err();
        let question = question(&lead, &journal, "chat/c0/c0").await;
        lead.inbox(&journal).decide("chat/c0/c0", question.yes()).await.expect("written");
        if lives {
            drop(chat);
            chat = lead.open(&journal, "chat").await.expect("opened");
        }
        let reply = chat.resume().await.expect("as many calls as may");
        assert_eq!(reply.text(), "put is done | pay is done | put is done", "lives: {lives}");
        // The agent, its agent, and three calls.
        assert_eq!(chat.budget().spent().tool_calls, 5, "lives: {lives}");
        drop(chat);
        let chat = lead.open(&journal, "chat").await.expect("opened");
        assert_eq!(chat.budget().spent().tool_calls, 5, "lives: {lives}");
    }
}
