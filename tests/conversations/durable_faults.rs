//! Conversations in a journal that fails: each promise of the guide, at each append and each poll.

mod waits;

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};

use futures_util::FutureExt as _;
use harness::{
    Agent, CallOutcome, CancellationToken, Error, ErrorKind, Outcome, SideEffect, SideEffects,
    Tool, ToolError,
    agent::{Action, Machine, Steps},
    journal::{
        ConversationPage, ConversationQuery, Envelope, Fact, Head, Journal, JournalFuture, Lease,
        MemoryJournal, Metadata, StoredFacts,
    },
    message::Transcript,
    policy::{ApprovalRequest, Guardrails},
    testing::{FaultyJournal, JournalCall, JournalFault, ScriptedProvider, ScriptedReply, reply},
    tool::{Preview, Review},
};
use serde_json::json;

use crate::kept::{CHAT, entries};

const WRITE: SideEffects = SideEffects::of(&[SideEffect::Write]);
const READ: SideEffects = SideEffects::of(&[SideEffect::Read]);
const NETWORK: SideEffects = SideEffects::of(&[SideEffect::Network]);

/// What has really happened, whichever process did it.
#[derive(Clone, Default)]
struct World {
    did: Arc<Mutex<Vec<String>>>,
    keys: Arc<Mutex<Vec<(String, String)>>>,
    /// Where the start of each call must stand before it begins.
    journal: Option<MemoryJournal>,
    broken: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn count(&self, what: &str) -> usize {
        self.did.lock().expect("unpoisoned").iter().filter(|done| *done == what).count()
    }

    fn apart(&self) -> Self {
        let did = self.did.lock().expect("unpoisoned").clone();
        let keys = self.keys.lock().expect("unpoisoned").clone();
        Self { did: Arc::new(Mutex::new(did)), keys: Arc::new(Mutex::new(keys)), ..Self::default() }
    }

    fn watching(journal: &MemoryJournal) -> Self {
        Self { journal: Some(journal.clone()), ..Self::default() }
    }
}

fn tool(name: &'static str, effects: SideEffects, world: &World) -> Tool {
    let world = world.clone();
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    Tool::new(name, "Does it.", schema, effects, move |context, arguments| {
        let (world, n) = (world.clone(), arguments["n"].clone());
        Box::pin(async move {
            if let (Some(journal), false) = (&world.journal, name == "look") {
                let id = context.call_id().to_owned();
                let started = entries(journal)
                    .iter()
                    .any(|fact| matches!(fact, Fact::CallStarted { call } if *call == id));
                if !started {
                    world.broken.lock().expect("unpoisoned").push(id);
                }
            }
            world.did.lock().expect("unpoisoned").push(format!("{name} {n}"));
            let key = (context.call_id().to_owned(), context.idempotency_key().to_owned());
            world.keys.lock().expect("unpoisoned").push(key);
            tokio::task::yield_now().await;
            Ok(format!("{name} {n} is done").into())
        })
    })
}

fn model() -> ScriptedProvider {
    ScriptedProvider::answering(|request| {
        let said = request.messages().iter().filter(|m| m.calls().next().is_some()).count();
        turn(said)
    })
}

fn turn(number: usize) -> ScriptedReply {
    let call = |it: ScriptedReply, name: &str, n: usize| {
        it.call_with_id(format!("{name}_{n}"), name, json!({ "n": n }))
    };
    match number {
        0 => call(call(call(reply(), "look", 1), "pay", 1), "put", 1).tokens(100, 10),
        1 => call(call(call(reply(), "pay", 2), "put", 2), "look", 2).tokens(1_000, 20),
        _ => reply().text("All is paid.").tokens(10_000, 30),
    }
}

fn tools(world: &World) -> Vec<Tool> {
    vec![
        tool("look", READ, world),
        tool("pay", WRITE, world),
        tool("put", WRITE, world).idempotent(),
    ]
}

fn agent(world: &World) -> Agent {
    Agent::builder(model()).tools(tools(world)).build().expect("an agent")
}

/// A journal that takes its time, may be held by nobody, and panics at one append.
#[derive(Clone)]
struct Odd {
    inner: MemoryJournal,
    slow: bool,
    unheld: bool,
    panics_at: usize,
    appends: Arc<AtomicUsize>,
}

impl Odd {
    fn over(inner: &MemoryJournal) -> Self {
        let appends = Arc::default();
        Self { inner: inner.clone(), slow: false, unheld: false, panics_at: usize::MAX, appends }
    }

    async fn waits(&self) {
        if self.slow {
            tokio::task::yield_now().await;
        }
    }
}

impl Journal for Odd {
    fn read<'a>(&'a self, id: &'a str, from: u64) -> JournalFuture<'a, StoredFacts> {
        Box::pin(async move {
            self.waits().await;
            let read = self.inner.read(id, from).await;
            self.waits().await;
            read
        })
    }

    fn append<'a>(
        &'a self,
        id: &'a str,
        after: Head,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, Head> {
        Box::pin(async move {
            self.waits().await;
            let at = self.appends.fetch_add(1, Ordering::SeqCst);
            assert!(at != self.panics_at, "the journal falls");
            let written = self.inner.append(id, after, facts).await;
            self.waits().await;
            written
        })
    }

    fn hold<'a>(&'a self, id: &'a str) -> JournalFuture<'a, Lease> {
        Box::pin(async move {
            self.waits().await;
            if self.unheld { Ok(Lease::new(())) } else { self.inner.hold(id).await }
        })
    }

    fn describe<'a>(&'a self, id: &'a str, metadata: &'a Metadata) -> JournalFuture<'a, ()> {
        self.inner.describe(id, metadata)
    }

    fn list<'a>(&'a self, listing: &'a ConversationQuery) -> JournalFuture<'a, ConversationPage> {
        self.inner.list(listing)
    }

    fn delete<'a>(&'a self, id: &'a str) -> JournalFuture<'a, bool> {
        self.inner.delete(id)
    }

    fn fork<'a>(&'a self, from: &'a str, at: Head, to: &'a str) -> JournalFuture<'a, Head> {
        Box::pin(async move {
            self.waits().await;
            let forked = self.inner.fork(from, at, to).await;
            self.waits().await;
            forked
        })
    }
}

async fn poll_once<T>(mut future: Pin<&mut (dyn Future<Output = T> + Send + '_)>) -> Poll<T> {
    std::future::poll_fn(move |context| Poll::Ready(future.as_mut().poll(context))).await
}

async fn polled<T>(
    mut future: Pin<&mut (dyn Future<Output = T> + Send + '_)>,
    times: usize,
) -> Option<T> {
    for _ in 0..times {
        if let Poll::Ready(done) = poll_once(future.as_mut()).await {
            return Some(done);
        }
        tokio::task::yield_now().await;
    }
    None
}

fn facts_of(journal: &MemoryJournal) -> Vec<Envelope> {
    journal.read(CHAT, 0).now_or_never().expect("in memory").expect("facts").facts
}

async fn with_facts(facts: &[Envelope]) -> MemoryJournal {
    let journal = MemoryJournal::new();
    if !facts.is_empty() {
        journal.append(CHAT, Head::default(), facts).await.expect("an empty conversation");
    }
    journal
}

async fn whole() -> (Vec<Envelope>, World) {
    let (journal, world) = (MemoryJournal::new(), World::default());
    agent(&world).open(&journal, CHAT).await.expect("new").send("Pay.").await.expect("an answer");
    (facts_of(&journal), world)
}

fn outcomes(transcript: &Transcript) -> Vec<(String, CallOutcome)> {
    let results = transcript.messages().iter().flat_map(|m| m.results().collect::<Vec<_>>());
    results.map(|result| (result.call_id().to_owned(), result.outcome())).collect()
}

/// What is told of each call is true.
fn is_true(label: &str, transcript: &Transcript, world: &World) {
    transcript.sendable().unwrap_or_else(|err| panic!("{label}: {err}"));
    for (id, outcome) in outcomes(transcript) {
        let ran = world.count(&id.replace('_', " "));
        let may = match (outcome, &id[..3]) {
            (CallOutcome::Succeeded, "pay") => ran == 1,
            (CallOutcome::Succeeded, _) => ran >= 1,
            (CallOutcome::NotStarted | CallOutcome::Denied, _) => ran == 0,
            (CallOutcome::InDoubt, "pay") => ran <= 1,
            (CallOutcome::InDoubt | CallOutcome::StoppedReading, _) => true,
            _ => false,
        };
        assert!(may, "{label}: {id} is {outcome:?} and ran {ran} times");
    }
    for n in [1, 2] {
        assert!(world.count(&format!("pay {n}")) <= 1, "{label}: paid twice");
    }
    assert!(world.broken.lock().expect("unpoisoned").is_empty(), "{label}: began before its start");
}

fn is_kept(label: &str, journal: &MemoryJournal, transcript: &Transcript) {
    let mut machine = Machine::new();
    for fact in entries(journal) {
        machine.apply(&fact).unwrap_or_else(|err| panic!("{label}: {err} {fact:?}"));
    }
    assert_eq!(machine.transcript(), transcript, "{label}: what is kept is what was said");
}

/// Another process goes on from these facts, to the end.
async fn goes_on(label: &str, facts: &[Envelope], world: &World) {
    let journal = with_facts(facts).await;
    let mut chat =
        agent(world).open(&journal, CHAT).await.unwrap_or_else(|e| panic!("{label}: {e}"));
    if chat.resume().await.is_err() {
        chat.send("And now?").await.unwrap_or_else(|e| panic!("{label}: {e}"));
    }
    is_true(label, chat.transcript(), world);
    is_kept(label, &journal, chat.transcript());
}

#[tokio::test(start_paused = true)]
async fn whatever_the_journal_does_at_an_append() {
    let mut faults = JournalFault::ANSWERED.to_vec();
    faults.extend([JournalFault::StopBefore, JournalFault::StopAfter]);
    for fault in faults {
        for at in 0..12 {
            let label = format!("{fault:?} at {at}");
            let inner = MemoryJournal::new();
            let world = World::watching(&inner);
            let journal = FaultyJournal::new(inner.clone());
            journal.fail(JournalCall::Append, at, fault);
            let mut chat = agent(&world).open(&journal, CHAT).await.expect("new");
            let mut run = chat.send("Pay.").into_future();
            let limit = std::time::Duration::from_secs(60);
            let sent = tokio::time::timeout(limit, run.as_mut()).await;
            // The process ends here.
            goes_on(&label, &facts_of(&inner), &world.apart()).await;
            drop(run);
            journal.mend();
            is_true(&label, chat.transcript(), &world);
            match sent {
                Ok(Ok(_)) => is_kept(&label, &inner, chat.transcript()),
                Ok(Err(stopped)) => {
                    let kind = stopped.error().map(Error::kind);
                    assert_eq!(kind, Some(ErrorKind::Journal), "{label}: {stopped}");
                }
                Err(_) => {}
            }
            chat.save().await.unwrap_or_else(|err| panic!("{label}: {err}"));
            is_kept(&label, &inner, chat.transcript());
            let _ = chat.resume().await;
            chat.send("And now?").await.unwrap_or_else(|err| panic!("{label}: {err}"));
            is_true(&label, chat.transcript(), &world);
            is_kept(&label, &inner, chat.transcript());
        }
    }
}

#[tokio::test]
async fn a_journal_that_panics_at_an_append() {
    for at in 0..12 {
        let label = format!("panics at {at}");
        let inner = MemoryJournal::new();
        let world = World::watching(&inner);
        let journal = Odd { panics_at: at, ..Odd::over(&inner) };
        let mut chat = agent(&world).open(&journal, CHAT).await.expect("new");
        let _ = chat.send("Pay.").await;
        is_true(&label, chat.transcript(), &world);
        goes_on(&label, &facts_of(&inner), &world.apart()).await;
        if chat.send("And now?").await.is_err() {
            chat.send("And now?").await.unwrap_or_else(|err| panic!("{label}: {err}"));
        }
        is_true(&label, chat.transcript(), &world);
        is_kept(&label, &inner, chat.transcript());
    }
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_fails_by_chance() {
    for seed in 0..crate::times(60) {
        let label = format!("seed {seed}");
        let inner = MemoryJournal::new();
        let world = World::watching(&inner);
        let journal = FaultyJournal::new(inner.clone());
        let mut chat = agent(&world).open(&journal, CHAT).await.expect("new");
        journal.fail_by_chance(seed, 0.4, JournalFault::ANSWERED);
        let sent = chat.send("Pay.").await;
        is_true(&label, chat.transcript(), &world);
        let failed = sent.as_ref().err().and_then(|stopped| stopped.error());
        if failed.is_none_or(|err| err.kind() != ErrorKind::Journal) {
            is_kept(&label, &inner, chat.transcript());
        }
        goes_on(&label, &facts_of(&inner), &world.apart()).await;
        journal.mend();
        chat.send("And now?").await.unwrap_or_else(|err| panic!("{label}: {err}"));
        is_true(&label, chat.transcript(), &world);
        is_kept(&label, &inner, chat.transcript());
    }
}

#[tokio::test]
async fn dropped_and_cancelled_at_each_poll() {
    for cancels in [false, true] {
        for polls in 0..400 {
            let label = format!("{polls} polls, cancels {cancels}");
            let inner = MemoryJournal::new();
            let world = World::watching(&inner);
            let journal = Odd { slow: true, ..Odd::over(&inner) };
            let mut chat = agent(&world).open(&journal, CHAT).await.expect("new");
            let token = CancellationToken::new();
            let mut run = chat.send("Pay.").cancel_with(token.clone()).into_future();
            let ended = polled(run.as_mut(), polls).await;
            if polls % 3 == 0 || ended.is_some() {
                goes_on(&label, &facts_of(&inner), &world.apart()).await;
            }
            if cancels && ended.is_none() {
                token.cancel();
                let stopped = run.await;
                is_true(&label, chat.transcript(), &world);
                is_kept(&label, &inner, chat.transcript());
                drop(stopped);
            } else {
                drop(run);
                is_true(&label, chat.transcript(), &world);
            }
            // The saving is dropped, too.
            let _ = polled(Box::pin(chat.save()).as_mut(), polls % 5).await;
            chat.save().await.expect("it is written");
            is_kept(&label, &inner, chat.transcript());
            chat.send("And now?").await.expect("an answer");
            is_true(&label, chat.transcript(), &world);
            is_kept(&label, &inner, chat.transcript());
            if ended.is_some() {
                assert!(polls > 15, "{polls}");
                break;
            }
        }
    }
}

/// After each prefix: truth, keys, usage, with tools that are the same or others.
#[tokio::test]
async fn another_process_with_other_tools() {
    let (facts, first) = whole().await;
    let keys = first.keys.lock().expect("unpoisoned").clone();
    let usage = {
        let journal = with_facts(&facts).await;
        let chat = agent(&first).open(&journal, CHAT).await.expect("it opens");
        chat.usage()
    };
    for variant in ["same", "removed", "larger", "smaller", "once", "review", "external", "fails"] {
        for kept in 1..=facts.len() {
            let label = format!("{variant} {kept}");
            let world = World::default();
            let mut started = Vec::new();
            for fact in &facts[..kept] {
                if let Fact::CallStarted { call } = fact.fact().expect("a fact") {
                    world.did.lock().expect("unpoisoned").push(call.replace('_', " "));
                    started.push(call);
                }
            }
            let finished = |id: &str| {
                facts[..kept].iter().any(|fact| matches!(fact.fact().expect("a fact"), Fact::CallFinished { result, .. } if result.call_id() == id))
            };
            let tools = match variant {
                "same" => tools(&world),
                "removed" => vec![tool("other", READ, &world)],
                "larger" => vec![
                    tool("look", NETWORK, &world),
                    tool("pay", SideEffects::of(&[SideEffect::Write, SideEffect::Network]), &world),
                    tool("put", SideEffects::of(&[SideEffect::Write, SideEffect::Network]), &world)
                        .idempotent(),
                ],
                "smaller" => vec![
                    tool("look", SideEffects::NONE, &world),
                    tool("pay", READ, &world),
                    tool("put", READ, &world),
                ],
                "once" => vec![
                    tool("look", READ, &world),
                    tool("pay", WRITE, &world).idempotent(),
                    tool("put", WRITE, &world),
                ],
                "review" => tools(&world)
                    .into_iter()
                    .map(|it| it.with_review(|_| Review::ask("look at it")))
                    .collect(),
                "external" => ["look", "pay", "put"]
                    .map(|name| Tool::external(name, "Does it.", json!({"type": "object"}), WRITE))
                    .into(),
                _ => ["look", "pay", "put"]
                    .map(|name| {
                        Tool::new(name, "Fails.", json!({"type": "object"}), WRITE, |_, _| {
                            Box::pin(async { Err(ToolError::new("no")) })
                        })
                    })
                    .into(),
            };
            let agent = Agent::builder(model()).tools(tools).build().expect("an agent");
            let journal = with_facts(&facts[..kept]).await;
            let mut chat =
                agent.open(&journal, CHAT).await.unwrap_or_else(|e| panic!("{label}: {e}"));
            let mut ended = chat.resume().await;
            for _ in 0..20 {
                if !matches!(&ended, Err(stopped) if stopped.outcome() == Outcome::Waiting) {
                    break;
                }
                for open in chat.waiting() {
                    assert!(
                        !started.contains(&open.call.id().to_owned()) || open.call.name() != "pay",
                        "{label}: {open:?}"
                    );
                    world.did.lock().expect("unpoisoned").push(open.call.id().replace('_', " "));
                    chat.settle(open.succeeded("done"))
                        .await
                        .unwrap_or_else(|e| panic!("{label}: {e}"));
                }
                ended = chat.resume().await;
            }
            is_kept(&label, &journal, chat.transcript());
            for (id, outcome) in outcomes(chat.transcript()) {
                let ran = world.count(&id.replace('_', " "));
                let was = started.contains(&id);
                let may = match outcome {
                    CallOutcome::Succeeded => ran >= 1 && (ran == 1 || !id.starts_with("pay")),
                    CallOutcome::NotStarted | CallOutcome::Denied => {
                        ran == 0 || (id.starts_with("look") && was)
                    }
                    CallOutcome::InDoubt => !id.starts_with("pay") || ran <= 1,
                    CallOutcome::StoppedReading => id.starts_with("look") && was,
                    CallOutcome::Failed => {
                        matches!(variant, "removed" | "fails")
                            && !finished(&id)
                            && (!was || !id.starts_with("pay"))
                    }
                    CallOutcome::StillRunning => false,
                };
                assert!(may, "{label}: {id} is {outcome:?}, ran {ran}, started before {was}");
                if was && !finished(&id) && id.starts_with("pay") && outcome != CallOutcome::InDoubt
                {
                    panic!("{label}: {id} had started and is {outcome:?}");
                }
            }
            for key in world.keys.lock().expect("unpoisoned").iter() {
                // Of an answer that was given again, the calls are others.
                assert!(
                    !started.contains(&key.0) || keys.contains(key),
                    "{label}: the key of {key:?} is another one: {keys:?}"
                );
            }
            if variant == "same" {
                assert_eq!(chat.usage(), usage, "{label}: what was spent is the same");
                assert_eq!(chat.budget().spent().usage, usage, "{label}: in its budget, too");
            }
        }
    }
}

/// Two owners in one process go on at the same time.
#[tokio::test]
async fn two_owners_never_both_act() {
    let (facts, _) = whole().await;
    let mut broken = Vec::new();
    for slow in [false, true] {
        for kept in 1..facts.len() {
            let world = World::default();
            for fact in &facts[..kept] {
                if let Fact::CallStarted { call } = fact.fact().expect("a fact") {
                    world.did.lock().expect("unpoisoned").push(call.replace('_', " "));
                }
            }
            let inner = with_facts(&facts[..kept]).await;
            let journal = Odd { unheld: true, slow, ..Odd::over(&inner) };
            let (one, two) = (agent(&world), agent(&world));
            let mut one = one.open(&journal, CHAT).await.expect("it opens");
            let mut two = two.open(&journal, CHAT).await.expect("it opens");
            let ended = tokio::join!(one.resume().into_future(), two.resume().into_future());
            for what in ["pay 1", "pay 2"] {
                if world.count(what) > 1 {
                    broken.push(format!("slow {slow}, {kept}: {what}"));
                }
            }
            drop(ended);
        }
    }
    assert!(broken.is_empty(), "{broken:?}");
}

/// An owner that slept at each poll, while another one goes on to the end, wakes up.
#[tokio::test]
async fn an_owner_that_slept_does_not_act() {
    for polls in 0..400 {
        let inner = MemoryJournal::new();
        let world = World::default();
        let journal = Odd { slow: true, unheld: true, ..Odd::over(&inner) };
        let mut one = agent(&world).open(&journal, CHAT).await.expect("new");
        let mut run = one.send("Pay.").into_future();
        let ended = polled(run.as_mut(), polls).await;
        let mut two = agent(&world).open(&journal, CHAT).await.expect("it opens");
        if two.resume().await.is_err() {
            two.send("And now?").await.expect("an answer");
        }
        let label = format!("{polls} polls");
        is_true(&label, two.transcript(), &world);
        let done = ended.is_some();
        if !done {
            let woken = run.await;
            if let Ok(reply) = woken {
                // All of it was written before it slept.
                let last = reply.transcript().messages().last().expect("a reply").clone();
                assert!(two.transcript().messages().iter().any(|said| *said == last), "{label}");
            }
            is_true(&label, two.transcript(), &world);
            is_kept(&label, &inner, two.transcript());
        } else {
            assert!(polls > 15);
            break;
        }
    }
}

/// A fork that was dropped at any poll, or whose process has ended there, has no open call of its base.
#[tokio::test]
async fn a_fork_that_was_dropped_runs_nothing_twice() {
    let (facts, _) = whole().await;
    for kept in 1..=facts.len() {
        for polls in 0..60 {
            let label = format!("{kept} facts, {polls} polls");
            let world = World::default();
            let inner = with_facts(&facts[..kept]).await;
            let journal = Odd { slow: true, ..Odd::over(&inner) };
            let mut chat = agent(&world).open(&journal, CHAT).await.expect("it opens");
            let (base, count) = (chat.transcript().clone(), chat.facts());
            let done = {
                let mut fork = Box::pin(chat.fork("fork", kept as u64));
                match polled(fork.as_mut(), polls).await {
                    Some(forked) => {
                        forked.unwrap_or_else(|err| panic!("{label}: {err}"));
                        true
                    }
                    None => false,
                }
            };
            assert_eq!((chat.transcript(), chat.facts()), (&base, count), "{label}");
            let mut machine = Machine::new();
            for fact in inner.read("fork", 0).await.expect("facts").facts {
                machine.apply(&fact.fact().expect("a fact")).expect("it follows");
            }
            let next = machine.next();
            let is_closed =
                matches!(next, Action::AwaitUser | Action::CallProvider | Action::Finish(_));
            assert!(is_closed, "{label}: {next:?}");
            let fork = agent(&world).open(&journal, "fork").await.expect("it opens");
            assert!(fork.in_doubt().is_empty() && fork.waiting().is_empty(), "{label}");
            drop(fork);
            let _ = chat.resume().await;
            is_true(&label, chat.transcript(), &{
                let all = world.apart();
                for fact in &facts[..kept] {
                    if let Fact::CallStarted { call } = fact.fact().expect("a fact") {
                        all.did.lock().expect("unpoisoned").push(call.replace('_', " "));
                    }
                }
                all
            });
            if done {
                break;
            }
            assert!(polls < 59, "{label}: it has no end");
        }
    }
}

fn mailing(world: &World, calls: usize) -> Agent {
    let model = ScriptedProvider::answering(move |request| {
        match request.messages().iter().any(|message| message.results().next().is_some()) {
            false => (1..=calls).fold(reply(), |it, n| {
                it.call_with_id(format!("mail_{n}"), "mail", json!({ "n": n }))
            }),
            true => reply().text("Done."),
        }
    });
    Agent::builder(model)
        .tools([tool("mail", NETWORK, world)])
        .approver(|question: ApprovalRequest| async move { question.later(None) })
        .build()
        .expect("an agent")
}

/// The journal reads slowly while somebody else has answered: what waits to be written is not lost.
#[tokio::test]
async fn facts_that_wait_are_not_lost_when_reading_is_dropped() {
    for polls in 0..60 {
        let (inner, world) = (MemoryJournal::new(), World::default());
        let journal = Odd { slow: true, ..Odd::over(&inner) };
        let agent = mailing(&world, 2);
        let mut chat = agent.open(&journal, CHAT).await.expect("new");
        chat.send("Go.").await.expect_err("it waits");
        let mut open = chat.waiting();
        let (second, first) = (open.remove(1), open.remove(0));
        // This process has applied one answer and is writing it; another process gives the other one.
        let mine = first.question().expect("a question").yes();
        let theirs = second.question().expect("a question").no("no");
        let inbox = agent.inbox(&inner);
        let answered = {
            let mut deciding = Box::pin(chat.decide(mine));
            // Up to where it is about to append.
            let mut done = None;
            for poll in 0..polls {
                if poll == 3 {
                    inbox.decide(CHAT, theirs.clone()).await.expect("it waits");
                }
                if let Poll::Ready(ended) = poll_once(deciding.as_mut()).await {
                    done = Some(ended);
                    break;
                }
                tokio::task::yield_now().await;
            }
            done
        };
        let label = format!("{polls} polls");
        if let Some(answered) = &answered {
            assert!(answered.is_ok(), "{label}: {answered:?}");
        }
        chat.save().await.unwrap_or_else(|err| panic!("{label}: {err}"));
        let still: Vec<_> = chat.waiting().iter().map(|open| open.call.id().to_owned()).collect();
        let kept = inbox.waiting(CHAT).await.expect("it reads");
        let kept: Vec<_> = kept.iter().map(|open| open.call.id().to_owned()).collect();
        assert!(kept.iter().all(|id| still.contains(id)), "{label}: here {still:?}, kept {kept:?}");
        if answered.is_some() {
            break;
        }
    }
}
