//! Agents as tools in conversations of a journal: whenever a process ends, the next one continues
//! each agent where it was, nothing is done twice, and the sums are the same.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use futures_util::FutureExt as _;
use harness::{
    Agent, CallOutcome, CancellationToken, Error, ErrorKind, Guardrails, Message, Outcome,
    Permissions, SideEffects, Tool,
    agent::{Action, Machine},
    journal::{
        Awaited, ConversationPage, ConversationQuery, Decision, Envelope, Fact, Head, Journal,
        JournalFuture, Lease, MemoryJournal, Metadata, Repeat, StoredFacts,
    },
    models::{Models, Price},
    policy::{ApprovalRequest, BudgetUsage},
    testing::{ScriptedProvider, reply},
};
use serde_json::json;

use crate::children::calls;
use crate::kept::CHAT;
use crate::probe::{READ, WRITE};

/// All conversations, as they are at one moment.
type Moment = BTreeMap<String, (Metadata, Vec<Envelope>)>;

/// A journal that keeps what it has held after each change.
#[derive(Clone, Default)]
struct Moments {
    journal: MemoryJournal,
    kept: Arc<Mutex<Vec<Moment>>>,
}

async fn moment(journal: &MemoryJournal) -> Moment {
    let page = journal.list(&ConversationQuery::new().limit(1000)).await.expect("a page");
    let mut moment = Moment::new();
    for summary in page.conversations {
        let facts = journal.read(&summary.id, 0).await.expect("facts").facts;
        moment.insert(summary.id, (summary.metadata, facts));
    }
    moment
}

async fn journal_of(moment: &Moment) -> MemoryJournal {
    let journal = MemoryJournal::new();
    for (id, (metadata, facts)) in moment {
        journal.append(id, Head::default(), facts).await.expect("appended");
        journal.describe(id, metadata).await.expect("described");
    }
    journal
}

impl Moments {
    async fn keep(&self) {
        let moment = moment(&self.journal).await;
        self.kept.lock().expect("unpoisoned").push(moment);
    }
}

impl Journal for Moments {
    fn read<'a>(&'a self, conversation: &'a str, from: u64) -> JournalFuture<'a, StoredFacts> {
        self.journal.read(conversation, from)
    }

    fn append<'a>(
        &'a self,
        conversation: &'a str,
        after: Head,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, Head> {
        Box::pin(async move {
            let head = self.journal.append(conversation, after, facts).await?;
            self.keep().await;
            Ok(head)
        })
    }

    fn hold<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, Lease> {
        self.journal.hold(conversation)
    }

    fn describe<'a>(
        &'a self,
        conversation: &'a str,
        metadata: &'a Metadata,
    ) -> JournalFuture<'a, ()> {
        Box::pin(async move {
            self.journal.describe(conversation, metadata).await?;
            self.keep().await;
            Ok(())
        })
    }

    fn list<'a>(&'a self, listing: &'a ConversationQuery) -> JournalFuture<'a, ConversationPage> {
        self.journal.list(listing)
    }

    fn delete<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, bool> {
        self.journal.delete(conversation)
    }
}

/// How often each call has run, by its idempotency key.
type World = Arc<Mutex<BTreeMap<String, u32>>>;

fn writes(name: &'static str, effects: SideEffects, world: &World) -> Tool {
    let world = Arc::clone(world);
    Tool::new(name, "Does it.", json!({"type": "object"}), effects, move |context, _| {
        let key = context.idempotency_key().to_owned();
        *world.lock().expect("unpoisoned").entry(key).or_default() += 1;
        Box::pin(async move { Ok(format!("{name} is done").into()) })
    })
}

/// An agent that calls two agents side by side, of which one calls another one.
fn lead(effects: SideEffects, world: &World) -> Agent {
    let models = || Models::none().with("*", Price::new(1.5, 7.0));
    let build = |model: ScriptedProvider, tool: Tool| {
        let agent = Agent::builder(model).tools([tool]).models(models());
        agent.permissions(Permissions::allow_all()).build().expect("an agent")
    };
    let deep = build(calls(&["put", "put"]), writes("put", effects, world));
    let middle = build(calls(&["deep"]), deep.as_tool("deep", "Works."));
    let plain = build(calls(&["put"]), writes("put", effects, world));
    Agent::builder(calls(&["middle", "plain"]))
        .tools([middle.as_tool("middle", "Works."), plain.as_tool("plain", "Works.")])
        .models(models())
        .build()
        .expect("an agent")
}

/// The tokens that the facts of a conversation and of all below it tell.
fn told(moment: &Moment) -> (u64, u64) {
    let facts = moment.values().flat_map(|(_, facts)| facts);
    facts.fold((0, 0), |(input, output), fact| match fact.fact().expect("a fact") {
        Fact::ModelReplied { usage, .. } => {
            (input + usage.input.unwrap_or(0), output + usage.output.unwrap_or(0))
        }
        _ => (input, output),
    })
}

fn tokens(spent: &BudgetUsage) -> (u64, u64) {
    (spent.usage.input.unwrap_or(0), spent.usage.output.unwrap_or(0))
}

/// Runs it once undisturbed, and gives all that the journal has held on the way.
async fn undisturbed(effects: SideEffects) -> (Vec<Moment>, BudgetUsage, usize) {
    let (world, journal) = (World::default(), Moments::default());
    let lead = lead(effects, &world);
    let mut chat = lead.open(&journal, CHAT).await.expect("opened");
    let reply = chat.send("Go.").await.expect("an answer");
    let text = "put is done | put is done | put is done";
    assert_eq!(reply.text(), text);
    drop(chat);
    let moments = journal.kept.lock().expect("unpoisoned").clone();
    let calls = world.lock().expect("unpoisoned").len();
    (moments, reply.spent(), calls)
}

/// Whether a model was asked at this moment, at any level.
async fn asking(agent: &Agent, moment: &Moment) -> bool {
    let (journal, mut asking) = (journal_of(moment).await, false);
    for id in moment.keys() {
        let stands = agent.inbox(&journal).look(id).await.expect("facts that follow");
        asking |= stands.next() == Action::CallProvider;
    }
    asking
}

#[tokio::test]
async fn an_agent_goes_on_where_it_was_whenever_its_process_has_ended() {
    for effects in [READ, WRITE] {
        let (moments, undisturbed, calls) = undisturbed(effects).await;
        assert!(moments.len() > 15, "{}", moments.len());
        for (n, before) in moments.iter().enumerate() {
            let world = World::default();
            let journal = journal_of(before).await;
            let lead = lead(effects, &world);
            let mut chat = lead.open(&journal, CHAT).await.expect("opened");
            // What was spent so far is known at once.
            let spent = chat.budget().spent();
            assert_eq!(tokens(&spent), told(before), "{effects} {n}");
            let (lost, asking) = (!spent.usage_is_whole, asking(&lead, before).await);
            assert_eq!((lost, spent.cost.is_none()), (asking, asking), "{effects} {n}");
            if chat.can_resume() {
                let reply = chat.resume().await;
                let reply = reply.unwrap_or_else(|stopped| panic!("{effects} {n}: {stopped}"));
                let clean = "put is done | put is done | put is done";
                let doubt = reply.text().contains("may have partly run");
                assert!(reply.text() == clean || doubt, "{effects} {n}: {}", reply.text());
                assert!(!doubt || effects == WRITE, "{effects} {n}: {}", reply.text());
            }
            let sum = chat.budget().spent();
            drop(chat);
            let after = moment(&journal).await;
            assert_eq!(tokens(&sum), told(&after), "{effects} {n}");
            assert_eq!(
                sum.usage, undisturbed.usage,
                "no answer was asked for twice: {effects} {n}"
            );
            assert_eq!(sum.known_cost, undisturbed.known_cost);
            // Read again, the sums are the same.
            let chat = lead.open(&journal, CHAT).await.expect("opened");
            assert_eq!(chat.budget().spent(), sum, "{effects} {n}");
            // No call runs twice, and none of another key.
            let world = world.lock().expect("unpoisoned");
            assert!(world.len() <= calls && world.values().all(|times| *times == 1), "{world:?}");
        }
    }
}

#[tokio::test]
async fn the_sums_stay_where_the_user_goes_on_without_the_agents() {
    for effects in [READ, WRITE] {
        let (moments, ..) = undisturbed(effects).await;
        for (n, before) in moments.iter().enumerate() {
            let journal = journal_of(before).await;
            let lead = lead(effects, &World::default());
            let mut chat = lead.open(&journal, CHAT).await.expect("opened");
            if !chat.can_resume() {
                continue;
            }
            chat.send("Something else.").await.expect("an answer");
            let sum = chat.budget().spent();
            drop(chat);
            assert_eq!(tokens(&sum), told(&moment(&journal).await), "{effects} {n}");
            let chat = lead.open(&journal, CHAT).await.expect("opened");
            assert_eq!(tokens(&chat.budget().spent()), tokens(&sum), "{effects} {n}");
        }
    }
}

/// An agent whose agent's agent asks a person, who answers later.
fn asks(world: &World) -> Agent {
    let later = |question: ApprovalRequest| async move { question.later(None) };
    let pays = writes("pay", crate::probe::MUTATE, world);
    let deep = Agent::builder(calls(&["pay"])).tools([pays]).build().expect("an agent");
    let middle = Agent::builder(calls(&["deep"])).tools([deep.as_tool("deep", "Works.")]);
    let middle = middle.build().expect("an agent");
    let lead = Agent::builder(calls(&["middle"])).tools([middle.as_tool("middle", "Works.")]);
    lead.approver(later).build().expect("an agent")
}

#[tokio::test]
async fn a_question_of_an_agent_can_wait_for_days_and_reaches_it_by_its_conversation() {
    let (world, journal) = (World::default(), MemoryJournal::new());
    let lead = asks(&world);
    let mut chat = lead.open(&journal, CHAT).await.expect("opened");
    let stopped = chat.send("Go.").await.unwrap_err();
    assert_eq!(stopped.outcome(), Outcome::Waiting, "{stopped}");
    let open = chat.waiting();
    let [open] = open.as_slice() else { panic!("{open:?}") };
    let wait = open.wait.as_ref().expect("it waits");
    let Awaited::Agent { conversation, .. } = &wait.awaited else { panic!("{wait:?}") };
    assert_eq!(conversation, "chat/c0");
    let spent = chat.budget().spent();
    drop(chat);

    // Nobody has answered, so nothing goes on and nothing is asked.
    let mut chat = lead.open(&journal, CHAT).await.expect("opened");
    assert_eq!(chat.budget().spent(), spent);
    let facts = chat.facts();
    assert_eq!(chat.resume().await.unwrap_err().outcome(), Outcome::Waiting);
    assert_eq!((chat.facts(), chat.budget().spent()), (facts, spent));
    drop(chat);

    let inbox = lead.inbox(&journal);
    // Whoever answers the call itself is told where the question is.
    let err = inbox.settle(CHAT, open.answered("yes")).await.unwrap_err();
    assert!(err.to_string().contains("asks in the conversation `chat/c0`"), "{err}");
    let below = inbox.waiting("chat/c0").await.expect("read");
    let Awaited::Agent { conversation, .. } = &below[0].wait.as_ref().expect("it waits").awaited
    else {
        panic!("{below:?}");
    };
    let question = inbox.waiting(conversation).await.expect("read")[0].question();
    let question = question.expect("a question");
    assert_eq!(question.agents, ["middle", "deep"]);
    assert_eq!(question.conversation, "chat/c0/c0");
    inbox.decide(conversation, question.yes()).await.expect("written");

    let mut chat = lead.open(&journal, CHAT).await.expect("opened");
    let reply = chat.resume().await.expect("an answer");
    assert_eq!(reply.text(), "pay is done");
    // Two turns at each level.
    assert_eq!(tokens(&chat.budget().spent()), (600, 60));
    drop(chat);
    assert_eq!(told(&moment(&journal).await), (600, 60));
    let chat = lead.open(&journal, CHAT).await.expect("opened");
    assert_eq!(tokens(&chat.budget().spent()), (600, 60));
    assert_eq!(world.lock().expect("unpoisoned").len(), 1);
}

#[tokio::test]
async fn an_agent_that_waits_is_left_when_the_user_says_something_else() {
    let (world, journal) = (World::default(), MemoryJournal::new());
    let lead = asks(&world);
    let mut chat = lead.open(&journal, CHAT).await.expect("opened");
    chat.send("Go.").await.unwrap_err();
    let spent = chat.budget().spent().usage.input.expect("known");
    // The model asks for the same again, in a call of its own.
    let stopped = chat.send("Never mind.").await.unwrap_err();
    assert_eq!((stopped.outcome(), spent), (Outcome::Waiting, 300));
    assert_eq!(chat.budget().spent().usage.input, Some(600));
    drop(chat);
    let chat = lead.open(&journal, CHAT).await.expect("opened");
    assert_eq!(chat.budget().spent().usage.input, Some(600));
    assert!(world.lock().expect("unpoisoned").is_empty());
}

#[tokio::test]
async fn a_fork_has_other_agents() {
    let (moments, ..) = undisturbed(WRITE).await;
    let journal = journal_of(moments.last().expect("some")).await;
    let world = World::default();
    let lead = lead(WRITE, &world);
    let mut chat = lead.open(&journal, CHAT).await.expect("opened");
    let mut fork = chat.fork("fork", 1).await.expect("forked");
    let reply = fork.resume().await.expect("an answer");
    assert_eq!(reply.text(), "put is done | put is done | put is done");
    assert_eq!(world.lock().expect("unpoisoned").len(), 3, "each call ran, under another key");
    let page =
        journal.list(&ConversationQuery::new().parent("fork")).now_or_never().expect("at once");
    assert_eq!(page.expect("a page").conversations.len(), 2);
}

#[tokio::test]
async fn every_level_tells_the_truth_at_every_moment() {
    let (moments, ..) = undisturbed(WRITE).await;
    for (n, moment) in moments.iter().enumerate() {
        for (id, (_, facts)) in moment {
            let mut machine = Machine::new();
            for fact in facts {
                let entry = fact.fact().expect("a fact");
                machine.apply(&entry).unwrap_or_else(|err| panic!("{n} {id}: {err}"));
                // A result of an agent stands in the caller's list only after its own has its end.
                let Fact::CallFinished { result, .. } = entry else { continue };
                let below = format!("{id}/{}", result.call_id());
                if let Some((_, facts)) = moment.get(&below) {
                    let mut below = Machine::new();
                    facts.iter().for_each(|fact| {
                        below.apply(&fact.fact().expect("a fact")).expect("it follows");
                    });
                    assert!(!below.is_going(), "{n} {id}");
                    assert_eq!(result.outcome(), CallOutcome::Succeeded);
                }
            }
        }
    }
}

/// A function that runs two agents, one after the other, of which the second reads what the first said.
fn both(worker: Agent, order: [&'static str; 2]) -> Tool {
    Tool::new("both", "Works.", json!({"type": "object"}), READ, move |context, _| {
        let worker = worker.clone();
        Box::pin(async move {
            let one = worker.run(order[0]).in_call(&context).await?;
            let other = worker.run(format!("{} {one}", order[1])).in_call(&context).await?;
            Ok(other.text().into())
        })
    })
}

fn with_both(order: [&'static str; 2], asked: &Arc<Mutex<Vec<String>>>) -> Agent {
    let asked = Arc::clone(asked);
    let worker = ScriptedProvider::answering(move |request| {
        asked.lock().expect("unpoisoned").push(request.last_text());
        reply().text(format!("<{}>", request.last_text())).tokens(100, 10)
    });
    let worker = Agent::builder(worker).build().expect("an agent");
    let lead = Agent::builder(calls(&["both"])).tools([both(worker, order)]);
    lead.build().expect("an agent")
}

#[tokio::test]
async fn a_function_that_is_repeated_finds_its_agents_where_they_were() {
    let journal = Moments::default();
    let lead = with_both(["one", "two"], &Arc::default());
    let reply = lead.open(&journal, CHAT).await.expect("opened").send("Go.").await;
    assert_eq!(reply.expect("an answer").text(), "<two <one>>");
    let moments = journal.kept.lock().expect("unpoisoned").clone();
    let mut others = 0;
    for (n, before) in moments.iter().enumerate() {
        let asked = Arc::default();
        let journal = journal_of(before).await;
        let lead = with_both(["one", "two"], &asked);
        let mut chat = lead.open(&journal, CHAT).await.expect("opened");
        if chat.can_resume() {
            assert_eq!(chat.resume().await.expect("an answer").text(), "<two <one>>", "{n}");
        }
        // Two turns of the caller, and one of each agent, whoever asked for it.
        assert_eq!(tokens(&chat.budget().spent()), (400, 40), "{n}");
        assert_eq!(told(&moment(&journal).await), (400, 40), "{n}");

        // With other messages they do not go on.
        let journal = journal_of(before).await;
        let lead = with_both(["1", "2"], &asked);
        let mut chat = lead.open(&journal, CHAT).await.expect("opened");
        let has_begun = before.get("chat/c0").is_some_and(|(_, facts)| !facts.is_empty());
        if chat.can_resume() && has_begun {
            let text = chat.resume().await.expect("an answer").text().to_owned();
            let before = before["chat"]
                .1
                .iter()
                .any(|fact| matches!(fact.fact().expect("a fact"), Fact::CallFinished { .. }));
            assert!(before || text.contains("has begun with another message"), "{n}: {text}");
            others += usize::from(!before);
        }
    }
    assert!(others > 3, "{others}");
}

#[tokio::test]
async fn names_of_agents_are_names_whatever_the_server_says() {
    let long = "x".repeat(600);
    for id in ["a/b", "a\u{7}b", long.as_str()] {
        let journal = MemoryJournal::new();
        let id = id.to_owned();
        let model = ScriptedProvider::answering(move |request| match request.results().next() {
            Some(result) => reply().text(result.to_text()),
            None => {
                let task = json!({"task": "Go."});
                reply().call_with_id(id.clone(), "inner", task)
            }
        });
        let inner = Agent::builder(ScriptedProvider::new([reply().text("Yes.")]));
        let inner = inner.build().expect("an agent").as_tool("inner", "Works.");
        let lead = Agent::builder(model).tools([inner]).build().expect("an agent");
        let reply = lead.open(&journal, CHAT).await.expect("opened").send("Go.").await;
        assert_eq!(reply.expect("an answer").text(), "Yes.");
        let page = journal.list(&ConversationQuery::new().parent(CHAT)).await.expect("a page");
        let name = &page.conversations[0].id;
        assert!(name.starts_with("chat/agent-") && name.len() == 43, "{name}");
    }
}

/// Another driver keeps the facts: there is no journal for the agents, so they are repeated as their side
/// effects say.
#[tokio::test]
async fn steps_run_agents_within_one_action() {
    use harness::agent::Action;
    for effects in [READ, WRITE] {
        let world = World::default();
        let lead = lead(effects, &world);
        let mut steps = lead.steps("chat", Vec::new()).expect("steps");
        let said = steps.say("Go.".into()).await.expect("said");
        steps.apply(said).expect("applied");
        while !matches!(steps.next(), Action::Finish(_)) {
            let facts = steps.act().await.expect("done");
            steps.apply(facts).expect("applied");
        }
        let last = steps.transcript().messages().last().expect("an answer").text();
        assert_eq!(last, "put is done | put is done | put is done");
        assert_eq!(world.lock().expect("unpoisoned").len(), 3);
        let spent = steps.facts().iter().filter_map(|fact| match fact.fact().expect("a fact") {
            Fact::CallFinished { spent, .. } => spent,
            _ => None,
        });
        // Two turns of each of the three agents.
        assert_eq!(spent.filter_map(|it| it.usage.input).sum::<u64>(), 600);
        let repeats = steps.facts().iter().filter_map(|fact| match fact.fact().expect("a fact") {
            Fact::CallDecided { decision: Decision::Allow { repeat, .. }, .. } => Some(repeat),
            _ => None,
        });
        let expected = if effects == READ { Repeat::Read } else { Repeat::Never };
        assert!(repeats.into_iter().all(|repeat| repeat == expected));
    }
}

#[tokio::test]
async fn what_was_told_of_an_agent_that_waits_is_not_told_again_when_the_run_is_stopped() {
    use harness::{CancellationToken, Event, testing::Gate};
    let later = |question: ApprovalRequest| async move { question.later(None) };
    let build = |permissions, work: Tool| {
        let agent = Agent::builder(calls(&["look"])).tools([work]).permissions(permissions);
        agent.build().expect("an agent")
    };
    let gate = Gate::new();
    let waits = Tool::new("look", "Waits.", json!({"type": "object"}), READ, move |_, _| {
        let gate = gate.clone();
        Box::pin(async move {
            gate.pass().await;
            Ok("never".into())
        })
    });
    let asks = build(Permissions::default().ask("look"), writes("look", READ, &World::default()));
    let waits = build(Permissions::default(), waits);
    let lead = Agent::builder(calls(&["waits", "asks"])).approver(later);
    let lead = lead.tools([asks.as_tool("asks", "Works."), waits.as_tool("waits", "Works.")]);
    let lead = lead.build().expect("an agent");
    let (journal, token) = (MemoryJournal::new(), CancellationToken::new());
    let mut chat = lead.open(&journal, CHAT).await.expect("opened");
    let run = chat.send("Go.").cancel_with(token.clone()).on_event(|event| {
        if let Event::ToolWaits { .. } = event {
            token.cancel();
        }
    });
    assert_eq!(run.await.unwrap_err().outcome(), Outcome::Cancelled);
    let sum = chat.budget().spent();
    assert_eq!(tokens(&sum), (300, 30));
    drop(chat);
    let chat = lead.open(&journal, CHAT).await.expect("opened");
    assert_eq!(chat.budget().spent(), sum);
}

/// The first answer of the agent does not say how many tokens it has cost. That is told once, by the fact that the call
/// waits.
#[tokio::test]
async fn that_nobody_knows_what_an_agent_has_used_is_told_by_one_fact() {
    let (world, journal) = (World::default(), MemoryJournal::new());
    let later = |question: ApprovalRequest| async move { question.later(None) };
    let model = ScriptedProvider::answering(|request| match request.results().next() {
        None => reply().call_with_id("p", "pay", json!({})),
        Some(_) => reply().text("It is paid.").tokens(100, 10),
    });
    let pays = writes("pay", crate::probe::MUTATE, &world);
    let middle = Agent::builder(model).tools([pays]).build().expect("an agent");
    let lead = Agent::builder(calls(&["middle"])).tools([middle.as_tool("middle", "Works.")]);
    let lead = lead.approver(later).build().expect("an agent");
    let mut chat = lead.open(&journal, CHAT).await.expect("opened");
    assert_eq!(chat.send("Go.").await.unwrap_err().outcome(), Outcome::Waiting);
    drop(chat);
    let inbox = lead.inbox(&journal);
    let question = inbox.waiting("chat/c0").await.expect("read")[0].question().expect("one");
    inbox.decide("chat/c0", question.yes()).await.expect("written");
    let mut chat = lead.open(&journal, CHAT).await.expect("opened");
    assert_eq!(chat.resume().await.expect("an answer").text(), "It is paid.");
    let facts = journal.read(CHAT, 0).await.expect("facts").facts;
    let told = facts.iter().filter_map(|fact| match fact.fact().expect("a fact") {
        Fact::CallWaits { wait, .. } => wait.spent,
        Fact::CallFinished { spent, .. } => spent,
        _ => None,
    });
    let told: Vec<_> =
        told.map(|it| (it.usage.input, it.unknown_input, it.unknown_output)).collect();
    assert_eq!(told, [(None, true, true), (Some(100), false, false)]);
}

/// An agent goes on where it was. So what has become of its call is known, although the call has begun twice.
#[tokio::test]
async fn a_call_has_failed_if_its_agent_fails_after_it_has_gone_on() {
    let (world, journal) = (World::default(), MemoryJournal::new());
    let lead = |model: ScriptedProvider| {
        let middle = Agent::builder(model).tools([writes("put", WRITE, &world)]);
        let middle = middle.permissions(Permissions::allow_all()).build().expect("an agent");
        let lead = Agent::builder(calls(&["middle"])).tools([middle.as_tool("middle", "Works.")]);
        lead.build().expect("an agent")
    };
    let mut chat = lead(calls(&["put"])).open(&journal, CHAT).await.expect("opened");
    chat.send("Go.").await.expect("an answer");
    let mut then = moment(&journal).await;
    // The process has ended when the agent's call had its result, and before the agent had answered.
    for (name, (_, facts)) in &mut then {
        let is_last = |fact: &Envelope| match fact.fact().expect("a fact") {
            Fact::CallStarted { .. } => name == CHAT,
            Fact::CallFinished { .. } => name != CHAT,
            _ => false,
        };
        let last = facts.iter().position(is_last).expect("a call");
        facts.truncate(last + 1);
    }
    assert_eq!(then.len(), 2);
    let journal = journal_of(&then).await;
    let fails = ScriptedProvider::answering(|_| {
        reply().error(Error::new(ErrorKind::Api, "no").with_status(400))
    });
    let mut chat = lead(fails).open(&journal, CHAT).await.expect("opened");
    chat.resume().await.expect("an answer");
    let messages = chat.transcript().messages();
    let result = messages.iter().flat_map(Message::results).next().expect("a result");
    assert_eq!(result.outcome(), CallOutcome::Failed, "{}", result.to_text());
    assert!(!result.to_text().contains("It was to run again"), "{}", result.to_text());
}

/// The process that goes on does not let the agent run, whose call may have partly run in the process before.
#[tokio::test]
async fn a_call_is_in_doubt_if_its_agent_is_not_entered_again() {
    let (world, journal) = (World::default(), MemoryJournal::new());
    let lead = |model: ScriptedProvider, depth: u32| {
        let middle = Agent::builder(model).tools([writes("put", WRITE, &world)]);
        let middle = middle.permissions(Permissions::allow_all()).build().expect("an agent");
        let lead = Agent::builder(calls(&["middle"])).tools([middle.as_tool("middle", "Works.")]);
        lead.guardrails(Guardrails::default().agent_depth(depth)).build().expect("an agent")
    };
    let mut chat = lead(calls(&["put"]), 5).open(&journal, CHAT).await.expect("opened");
    chat.send("Go.").await.expect("an answer");
    let mut then = moment(&journal).await;
    for (name, (_, facts)) in &mut then {
        let is_last = |fact: &Envelope| match fact.fact().expect("a fact") {
            Fact::CallStarted { .. } => name == CHAT,
            Fact::CallFinished { .. } => name != CHAT,
            _ => false,
        };
        let last = facts.iter().position(is_last).expect("a call");
        facts.truncate(last + 1);
    }
    let journal = journal_of(&then).await;
    let mut chat = lead(calls(&["put"]), 0).open(&journal, CHAT).await.expect("opened");
    chat.resume().await.expect("an answer");
    let messages = chat.transcript().messages();
    let result = messages.iter().flat_map(Message::results).next().expect("a result");
    assert_eq!(result.outcome(), CallOutcome::InDoubt, "{}", result.to_text());
    assert!(result.to_text().contains("It was to run again"), "{}", result.to_text());
}

/// An agent has written something and then waited. Whatever keeps its call from going on, nobody is told that nothing has
/// happened.
#[tokio::test]
async fn a_call_whose_agent_has_waited_is_not_told_as_not_started() {
    for then in ["denied", "cancelled", "agents"] {
        let (world, journal) = (World::default(), MemoryJournal::new());
        let middle = |model: ScriptedProvider| {
            let form = Tool::external("form", "Asks.", json!({"type": "object"}), WRITE);
            let middle = Agent::builder(model).tools([writes("put", WRITE, &world), form]);
            middle.permissions(Permissions::allow_all()).build().expect("an agent")
        };
        let lead = |permissions: Permissions, depth: u32| {
            let middle = middle(calls(&["put", "form"]));
            let lead =
                Agent::builder(calls(&["middle"])).tools([middle.as_tool("middle", "Works.")]);
            let guards = Guardrails::default().agent_depth(depth);
            lead.permissions(permissions).guardrails(guards).build().expect("an agent")
        };
        let first = lead(Permissions::allow_all(), 5);
        let mut chat = first.open(&journal, CHAT).await.expect("opened");
        chat.send("Go.").await.expect_err("it waits");
        drop(chat);
        let inbox = middle(calls(&[])).inbox(&journal);
        let open = inbox.waiting("chat/c0").await.expect("read").remove(0);
        inbox.settle("chat/c0", open.succeeded("Filled in.")).await.expect("written");
        let next = match then {
            "denied" => lead(Permissions::allow_all().deny("middle", "no more"), 5),
            "agents" => lead(Permissions::allow_all(), 0),
            _ => lead(Permissions::allow_all(), 5),
        };
        let mut chat = next.open(&journal, CHAT).await.expect("opened");
        let token = CancellationToken::new();
        if then == "cancelled" {
            token.cancel();
        }
        let _ = chat.resume().cancel_with(token).await;
        let messages = chat.transcript().messages();
        let result = messages.iter().flat_map(Message::results).next().expect("a result");
        assert_eq!(result.outcome(), CallOutcome::InDoubt, "{then}: {}", result.to_text());
    }
}
