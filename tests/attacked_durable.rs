//! Conversations in a journal under attack: each promise of the guide, at each append and each poll.

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
    agent::{Action, Machine, Step, Steps},
    journal::{
        Conversations, Entry, Envelope, Hold, Journal, JournalFuture, Listing, MemoryJournal,
        Metadata,
    },
    message::Transcript,
    policy::{Guardrails, Question},
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
                    .any(|fact| matches!(fact, Entry::CallStarted { call } if *call == id));
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
    fn read<'a>(&'a self, id: &'a str, from: u64) -> JournalFuture<'a, Vec<Envelope>> {
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
        after: u64,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, ()> {
        Box::pin(async move {
            self.waits().await;
            let at = self.appends.fetch_add(1, Ordering::SeqCst);
            assert!(at != self.panics_at, "the journal falls");
            let written = self.inner.append(id, after, facts).await;
            self.waits().await;
            written
        })
    }

    fn hold<'a>(&'a self, id: &'a str) -> JournalFuture<'a, Hold> {
        Box::pin(async move {
            self.waits().await;
            if self.unheld { Ok(Hold::new(())) } else { self.inner.hold(id).await }
        })
    }

    fn describe<'a>(&'a self, id: &'a str, metadata: &'a Metadata) -> JournalFuture<'a, ()> {
        self.inner.describe(id, metadata)
    }

    fn list<'a>(&'a self, listing: &'a Listing) -> JournalFuture<'a, Conversations> {
        self.inner.list(listing)
    }

    fn delete<'a>(&'a self, id: &'a str) -> JournalFuture<'a, bool> {
        self.inner.delete(id)
    }

    fn fork<'a>(&'a self, from: &'a str, facts: u64, to: &'a str) -> JournalFuture<'a, ()> {
        Box::pin(async move {
            self.waits().await;
            let forked = self.inner.fork(from, facts, to).await;
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
    journal.read(CHAT, 0).now_or_never().expect("in memory").expect("facts")
}

async fn with_facts(facts: &[Envelope]) -> MemoryJournal {
    let journal = MemoryJournal::new();
    if !facts.is_empty() {
        journal.append(CHAT, 0, facts).await.expect("an empty conversation");
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
    for seed in 0..150 {
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
                if let Entry::CallStarted { call } = fact.entry().expect("a fact") {
                    world.did.lock().expect("unpoisoned").push(call.replace('_', " "));
                    started.push(call);
                }
            }
            let finished = |id: &str| {
                facts[..kept].iter().any(|fact| matches!(fact.entry().expect("a fact"), Entry::CallFinished { result } if result.call_id() == id))
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
                    _ => false,
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
                if let Entry::CallStarted { call } = fact.entry().expect("a fact") {
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
            for fact in inner.read("fork", 0).await.expect("facts") {
                machine.apply(&fact.entry().expect("a fact")).expect("it follows");
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
                    if let Entry::CallStarted { call } = fact.entry().expect("a fact") {
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
        .approver(|question: Question| async move { question.later(None) })
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
        // One answer is applied here and on its way; the other one is given elsewhere.
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

/// A tool that only reads ends the process each time.
#[tokio::test]
async fn a_tool_that_kills_its_process_comes_to_an_end() {
    let mut broken = Vec::new();
    for (name, effects, again) in
        [("look", READ, false), ("put", WRITE, true), ("pay", WRITE, false)]
    {
        let journal = Odd { unheld: true, ..Odd::over(&MemoryJournal::new()) };
        let ran = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&ran);
        let falls = Tool::new(name, "Falls.", json!({"type": "object"}), effects, move |_, _| {
            count.fetch_add(1, Ordering::SeqCst);
            Box::pin(std::future::pending())
        });
        let falls = if again { falls.idempotent() } else { falls };
        let model = ScriptedProvider::answering(move |_| reply().call(name, json!({})));
        let agent =
            Agent::builder(model).tools([falls]).guardrails(Guardrails::default().turns(5)).build();
        let agent = agent.expect("an agent");
        let mut chat = agent.open(&journal, CHAT).await.expect("new");
        assert!(chat.send("Go.").into_future().now_or_never().is_none());
        std::mem::forget(chat);
        let mut lives = 0;
        while lives < 300 {
            lives += 1;
            let mut chat = agent.open(&journal, CHAT).await.expect("it opens");
            if chat.resume().into_future().now_or_never().is_some() {
                break;
            }
            std::mem::forget(chat);
        }
        if lives == 300 {
            broken.push(format!("{name} ran {} times", ran.load(Ordering::SeqCst)));
        }
    }
    assert!(broken.is_empty(), "{broken:?}");
}

/// One behind a call that is in doubt ends the process each time, and an approver does.
#[tokio::test]
async fn whatever_kills_its_process_comes_to_an_end() {
    for who in ["tool", "approver", "reconcile"] {
        let world = World::default();
        let journal = Odd { unheld: true, ..Odd::over(&MemoryJournal::new()) };
        let falls = Tool::new("look", "Falls.", json!({"type": "object"}), READ, |_, _| {
            Box::pin(std::future::pending())
        });
        let pays = Tool::new("pay", "Falls.", json!({"type": "object"}), WRITE, |_, _| {
            Box::pin(std::future::pending())
        });
        let pays = pays.with_reconcile(|_, _| Box::pin(std::future::pending()));
        let pay = tool("pay", WRITE, &world);
        let pay = if who == "reconcile" { pays } else { pay };
        let last = if who == "approver" { "mail" } else { "look" };
        let model = ScriptedProvider::answering(move |_| {
            reply().call("pay", json!({"n": 1})).call(last, json!({}))
        });
        let agent = Agent::builder(model)
            .tools([pay, falls, tool("mail", NETWORK, &world)])
            .approver(|_: Question| std::future::pending())
            .early_start(false)
            .guardrails(Guardrails::default().turns(5))
            .build()
            .expect("an agent");
        let mut chat = agent.open(&journal, CHAT).await.expect("new");
        let none = polled(chat.send("Go.").into_future().as_mut(), 50).await;
        assert!(none.is_none());
        std::mem::forget(chat);
        let mut lives = 0;
        loop {
            lives += 1;
            assert!(lives < 30, "{who}: it has no end");
            let mut chat = agent.open(&journal, CHAT).await.expect("it opens");
            let mut run = chat.resume().into_future();
            let ended = polled(run.as_mut(), 50).await;
            if let Some(ended) = ended {
                let stopped = ended.expect_err("a limit");
                assert_eq!(
                    stopped.outcome(),
                    Outcome::Limit(harness::journal::Limit::Turns),
                    "{who}: {stopped}"
                );
                break;
            }
            std::mem::forget(run);
        }
        assert!(world.count("pay 1") <= 1);
    }
}

/// A conversation that waits is opened and resumed often, and its limits are what they were.
#[tokio::test]
async fn to_wait_costs_nothing() {
    let (journal, world) = (MemoryJournal::new(), World::default());
    let agent = mailing(&world, 1);
    agent.open(&journal, CHAT).await.expect("new").send("Go.").await.expect_err("it waits");
    let before = facts_of(&journal);
    for _ in 0..50 {
        let mut chat = agent.open(&journal, CHAT).await.expect("it opens");
        assert_eq!(chat.resume().await.expect_err("it waits").outcome(), Outcome::Waiting);
    }
    assert_eq!(facts_of(&journal), before, "nothing has happened");
    let mut chat = agent.open(&journal, CHAT).await.expect("it opens");
    let yes = chat.waiting()[0].question().expect("a question").yes();
    chat.decide(yes).await.expect("it waits");
    assert_eq!(chat.resume().await.expect("an answer").text(), "Done.");
    assert_eq!(world.count("mail 1"), 1);
}

/// While somebody else has answered, the journal cannot be read for once: nothing is lost by that.
#[tokio::test]
async fn a_read_that_fails_while_others_answer_loses_nothing() {
    for fault in [JournalFault::FailBefore, JournalFault::FailAfter] {
        for at in 0..8 {
            let (inner, world) = (MemoryJournal::new(), World::default());
            let journal = FaultyJournal::new(inner.clone());
            let agent = mailing(&world, 2);
            let mut chat = agent.open(&journal, CHAT).await.expect("new");
            chat.send("Go.").await.expect_err("it waits");
            let open = chat.waiting();
            journal.fail(JournalCall::Append, journal.counts().appends, JournalFault::FailBefore);
            chat.decide(open[0].question().expect("a question").yes())
                .await
                .expect_err("not written");
            agent
                .inbox(&inner)
                .decide(CHAT, open[1].question().expect("a question").no("no"))
                .await
                .expect("it waits");
            journal.fail(JournalCall::Read, journal.counts().reads + at, fault);
            let mut saved = chat.save().await;
            for _ in 0..5 {
                if saved.is_ok() {
                    break;
                }
                saved = chat.save().await;
            }
            saved.unwrap_or_else(|err| panic!("{fault:?} {at}: {err}"));
            let _ = chat.resume().await;
            let ended = chat.resume().await;
            drop(ended);
            assert_eq!(
                world.count("mail 1"),
                1,
                "{fault:?} {at}: {:?}",
                outcomes(chat.transcript())
            );
            is_kept("a read", &inner, chat.transcript());
        }
    }
}

/// What was always allowed and is taken back is asked about again, in the next process too.
#[tokio::test]
async fn a_grant_that_was_revoked_is_asked_about_again() {
    let (journal, world) = (MemoryJournal::new(), World::default());
    let model = ScriptedProvider::answering(move |request| {
        let said = request.messages().iter().filter(|m| m.calls().next().is_some()).count();
        match said {
            0 => reply().call_with_id("mail_1", "mail", json!({"n": 1})),
            1 => reply().call_with_id("mail_2", "mail", json!({"n": 1})).call_with_id(
                "mail_3",
                "mail",
                json!({"n": 1}),
            ),
            _ => reply().text("Done."),
        }
    });
    let agent = Agent::builder(model)
        .tools([tool("mail", NETWORK, &world)])
        .approver(|question: Question| async move { question.later(None) })
        .build()
        .expect("an agent");
    let mut chat = agent.open(&journal, CHAT).await.expect("new");
    chat.send("Go.").await.expect_err("it waits");
    let question = chat.waiting()[0].question().expect("a question");
    chat.decide(question.always()).await.expect("it waits");
    chat.resume().await.expect("an answer");
    assert_eq!(world.count("mail 1"), 3);
    let facts = facts_of(&journal);
    drop(chat);
    let mut broken = Vec::new();
    for kept in 1..=facts.len() {
        let journal = with_facts(&facts[..kept]).await;
        let mut chat = agent.open(&journal, CHAT).await.expect("it opens");
        let Some(grant) = chat.grants().first().cloned() else { continue };
        assert!(chat.revoke(&grant));
        let started = |facts: &[Entry]| {
            let of = |id: &str| {
                facts
                    .iter()
                    .filter(|fact| matches!(fact, Entry::CallStarted { call } if call == id))
                    .count()
            };
            of("mail_2") + of("mail_3")
        };
        let before = started(&entries(&journal));
        let _ = chat.resume().await;
        if started(&entries(&journal)) > before {
            broken.push(format!("{kept}: it ran by a grant that was revoked"));
        }
        // Its process ends right after it was revoked.
        let journal = with_facts(&facts[..kept]).await;
        let mut chat = agent.open(&journal, CHAT).await.expect("it opens");
        assert!(chat.revoke(&grant));
        chat.save().await.expect("it is written");
        drop(chat);
        let chat = agent.open(&journal, CHAT).await.expect("it opens");
        if !chat.grants().is_empty() {
            broken.push(format!("{kept}: it holds again in the next process"));
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Facts that are missing, doubled, in another order, damaged: opening fails or not, and changes nothing.
#[tokio::test]
async fn damaged_facts_change_nothing() {
    let (facts, _) = whole().await;
    let mut kinds: Vec<(String, Vec<Envelope>)> = Vec::new();
    for at in 0..facts.len() {
        let mut without = facts.clone();
        without.remove(at);
        kinds.push((format!("without {at}"), without));
        let mut twice = facts.clone();
        twice.insert(at, facts[at].clone());
        kinds.push((format!("twice {at}"), twice));
        for to in 0..facts.len() {
            let mut swapped = facts.clone();
            swapped.swap(at, to);
            kinds.push((format!("swapped {at} {to}"), swapped));
        }
        for text in
            ["", "{}", "null", "{\"fact\":\"dreamt\"}", "{\"fact\":\"call_started\"}", "[[[["]
        {
            let mut broken = facts.clone();
            let Envelope { format, version, life, at: time, elapsed, .. } = facts[at].clone();
            broken[at] = Envelope::stored(format, version, life, time, elapsed, text);
            kinds.push((format!("{text} at {at}"), broken));
        }
        let mut future = facts.clone();
        future[at].format = 2;
        kinds.push((format!("future {at}"), future));
        let cut = facts[at].fact.len() / 2;
        let mut halved = facts.clone();
        halved[at].fact = facts[at].fact.get(..cut).unwrap_or("{").into();
        kinds.push((format!("halved {at}"), halved));
    }
    let (mut opened, mut refused) = (0, 0);
    for (label, facts) in &kinds {
        let journal = with_facts(facts).await;
        let world = World::default();
        let agent = agent(&world);
        match agent.open(&journal, CHAT).await {
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Journal, "{label}: {error}");
                assert!(error.to_string().contains("fact "), "{label}: {error}");
                agent.inbox(&journal).waiting(CHAT).await.expect_err(label);
                agent.steps(CHAT, facts.clone()).map(|_| ()).expect_err(label);
                refused += 1;
            }
            Ok(chat) => {
                drop(chat);
                opened += 1;
            }
        }
        assert_eq!(facts_of(&journal), *facts, "{label}: nothing has changed");
        // It is not held any more.
        let _hold = journal.hold(CHAT).await.expect(label);
        assert!(world.did.lock().expect("unpoisoned").is_empty(), "{label}");
    }
    assert!(refused > kinds.len() / 3 && opened > 0, "{refused} {opened}");
}

#[tokio::test]
async fn approvals_of_others_do_not_count() {
    let (journal, world) = (MemoryJournal::new(), World::default());
    let agent = mailing(&world, 3);
    for name in [CHAT, "other"] {
        agent.open(&journal, name).await.expect("new").send("Go.").await.expect_err("it waits");
    }
    let inbox = agent.inbox(&journal);
    let here: Vec<_> = inbox.waiting(CHAT).await.expect("it reads");
    let there: Vec<_> = inbox.waiting("other").await.expect("it reads");
    assert_eq!((here.len(), there.len()), (3, 3));
    let before = facts_of(&journal);
    let ask = |open: &harness::agent::OpenCall| open.question().expect("a question");
    // Of another conversation, of another call, with other arguments, with another nonce.
    let mut wrong = vec![ask(&there[0])];
    let mut one = ask(&here[0]);
    one.call = "mail_2".into();
    wrong.push(one);
    let mut one = ask(&here[0]);
    one.fingerprint = here[1].call.fingerprint();
    wrong.push(one);
    let mut one = ask(&here[0]);
    one.nonce = ask(&here[1]).nonce;
    wrong.push(one);
    let mut one = ask(&there[0]);
    one.conversation = CHAT.into();
    wrong.push(one);
    let mut chat = agent.open(&journal, CHAT).await.expect("it opens");
    for question in &wrong {
        for said in [question.yes(), question.always(), question.no("no"), question.later(None)] {
            inbox.decide(CHAT, said.clone()).await.expect_err("it is wrong");
            chat.decide(said).await.expect_err("it is wrong");
        }
    }
    chat.decide(ask(&here[0]).later(None)).await.expect_err("it decides nothing");
    for open in &here {
        for said in [open.succeeded("x"), open.failed("x"), open.not_happened(), open.answered("x")]
        {
            inbox.settle(CHAT, said.clone()).await.expect_err("it waits for a decision");
            chat.settle(said).await.expect_err("it waits for a decision");
        }
    }
    inbox.decide("none", ask(&here[0]).yes()).await.expect_err("there is none");
    inbox.decide("\n", ask(&here[0]).yes()).await.expect_err("no name");
    assert_eq!(facts_of(&journal), before, "nothing has changed");
    assert_eq!(world.count("mail 1"), 0);
    // In any order; what runs is what was allowed.
    inbox.decide(CHAT, ask(&here[2]).yes()).await.expect("it waits");
    chat.decide(ask(&here[1]).no("no")).await.expect("it waits");
    assert_eq!(chat.resume().await.expect_err("one waits").outcome(), Outcome::Waiting);
    assert_eq!((world.count("mail 1"), world.count("mail 3")), (0, 0));
    inbox.decide(CHAT, ask(&here[0]).yes()).await.expect("it waits");
    for question in [ask(&here[0]), ask(&here[1]), ask(&here[2])] {
        inbox.decide(CHAT, question.yes()).await.expect_err("it was decided");
        chat.decide(question.no("no")).await.expect_err("it was decided");
    }
    chat.resume().await.expect("an answer");
    assert_eq!((world.count("mail 1"), world.count("mail 2"), world.count("mail 3")), (1, 0, 1));
}

/// Two answers at once: one counts, whichever way they interleave.
#[tokio::test(start_paused = true)]
async fn of_two_answers_at_once_one_counts() {
    for delay in 0..12 {
        for faults in [0.0, 0.3] {
            let (inner, world) = (MemoryJournal::new(), World::default());
            let agent = mailing(&world, 1);
            let mut chat = agent.open(&inner, CHAT).await.expect("new");
            chat.send("Go.").await.expect_err("it waits");
            let question = chat.waiting()[0].question().expect("a question");
            let journal = Odd { slow: true, ..Odd::over(&inner) };
            let faulty = FaultyJournal::new(journal.clone());
            faulty.fail_by_chance(
                delay as u64,
                faults,
                [JournalFault::Repeat, JournalFault::FailBefore],
            );
            let (one, two) = (agent.inbox(&faulty), agent.inbox(&journal));
            let later = async {
                for _ in 0..delay {
                    tokio::task::yield_now().await;
                }
                two.decide(CHAT, question.no("no")).await
            };
            let (yes, no) = tokio::join!(one.decide(CHAT, question.yes()), later);
            assert!(yes.is_err() || no.is_err(), "{delay}: both count");
            if faults == 0.0 {
                assert!(yes.is_ok() || no.is_ok(), "{delay}: {yes:?} {no:?}");
            }
            let facts = entries(&inner);
            let decided =
                facts.iter().filter(|fact| matches!(fact, Entry::CallDecided { .. })).count();
            assert!(
                decided == usize::from(yes.is_ok()) + usize::from(no.is_ok()) || yes.is_err(),
                "{delay}: {decided}"
            );
            assert!(decided <= 1);
            let _ = chat.resume().await;
            assert_eq!(
                world.count("mail 1") == 1,
                yes.is_ok() || (decided == 1 && no.is_err()),
                "{delay}"
            );
            is_kept("two answers", &inner, chat.transcript());
        }
    }
}

/// While the owner runs, at each poll, somebody answers a call of it.
#[tokio::test]
async fn an_answer_while_the_owner_runs() {
    for polls in 0..200 {
        let label = format!("{polls} polls");
        let (inner, world) = (MemoryJournal::new(), World::default());
        let journal = Odd { slow: true, ..Odd::over(&inner) };
        let agent = mailing(&world, 3);
        let mut chat = agent.open(&journal, CHAT).await.expect("new");
        chat.send("Go.").await.expect_err("it waits");
        let open = chat.waiting();
        chat.decide(open[0].question().expect("a question").yes()).await.expect("it waits");
        let inbox = agent.inbox(&inner);
        let mut run = chat.resume().into_future();
        let ended = polled(run.as_mut(), polls).await;
        inbox.decide(CHAT, open[1].question().expect("a question").yes()).await.expect("it waits");
        let done = ended.is_some();
        let ended = match ended {
            Some(ended) => ended,
            None => run.as_mut().await,
        };
        drop(run);
        assert_eq!(ended.expect_err("the third one waits").outcome(), Outcome::Waiting, "{label}");
        inbox
            .decide(CHAT, open[2].question().expect("a question").no("no"))
            .await
            .expect("it waits");
        chat.resume().await.unwrap_or_else(|err| panic!("{label}: {err}"));
        is_kept(&label, &inner, chat.transcript());
        for (what, times) in [("mail 1", 1), ("mail 2", 1), ("mail 3", 0)] {
            assert_eq!(world.count(what), times, "{label}: {what}");
        }
        if done {
            break;
        }
    }
}

/// Dropped at each poll: opening, deciding and settling.
#[tokio::test]
async fn openings_and_answers_are_dropped_at_each_poll() {
    for polls in 0..40 {
        let label = format!("{polls} polls");
        let (inner, world) = (MemoryJournal::new(), World::default());
        let journal = Odd { slow: true, ..Odd::over(&inner) };
        let agent = mailing(&world, 1);
        agent.open(&inner, CHAT).await.expect("new").send("Go.").await.expect_err("it waits");
        let before = facts_of(&inner);
        let _ = polled(Box::pin(agent.open(&journal, CHAT)).as_mut(), polls).await.is_some();
        assert_eq!(facts_of(&inner), before, "{label}");
        let mut chat =
            agent.open(&journal, CHAT).await.unwrap_or_else(|err| panic!("{label}: {err}"));
        let yes = chat.waiting()[0].question().expect("a question").yes();
        let mut deciding = Box::pin(chat.decide(yes.clone()));
        let done = polled(deciding.as_mut(), polls).await.is_some();
        drop(deciding);
        // It may have been decided or not, and what is here is what comes to be there.
        let waits = !chat.waiting().is_empty();
        let again = chat.decide(yes).await;
        assert_eq!(again.is_ok(), waits, "{label}: {again:?}");
        chat.save().await.expect("written");
        is_kept(&label, &inner, chat.transcript());
        chat.resume().await.unwrap_or_else(|err| panic!("{label}: {err}"));
        assert_eq!(world.count("mail 1"), 1, "{label}");
        is_kept(&label, &inner, chat.transcript());
        if done {
            break;
        }
    }
}

/// What a person was shown is what runs.
#[tokio::test]
async fn a_preview_that_changed_does_not_run() {
    for variant in
        ["same", "changed", "refuses", "asks more", "shows nothing", "no review", "panics"]
    {
        let (journal, world) = (MemoryJournal::new(), World::default());
        let agent = |shown: Option<&'static str>| {
            let mail = tool("mail", NETWORK, &world);
            let mail = match shown {
                Some(shown) => mail.with_review(move |_| match shown {
                    "refuses" => Review::refuse("no"),
                    "shows nothing" => Review::pass(),
                    "asks more" => Review::ask("for another reason")
                        .with_preview(Preview::Text("to ada".into())),
                    "panics" => panic!("the review fell"),
                    shown => Review::ask("it is mail").with_preview(Preview::Text(shown.into())),
                }),
                None => mail,
            };
            let model = ScriptedProvider::answering(move |request| {
                match request.messages().iter().any(|message| message.results().next().is_some()) {
                    false => reply().call_with_id("mail_1", "mail", json!({"n": 1})),
                    true => reply().text("Done."),
                }
            });
            let builder = Agent::builder(model).tools([mail]);
            builder
                .approver(|question: Question| async move { question.later(None) })
                .build()
                .expect("an agent")
        };
        let mut chat = agent(Some("to ada")).open(&journal, CHAT).await.expect("new");
        chat.send("Go.").await.expect_err("it waits");
        let question = chat.waiting()[0].question().expect("a question");
        chat.decide(question.yes()).await.expect("it waits");
        drop(chat);
        let now = match variant {
            "same" => Some("to ada"),
            "changed" => Some("to bob"),
            "no review" => None,
            other => Some(other),
        };
        let mut chat = agent(now).open(&journal, CHAT).await.expect("it opens");
        let _ = chat.resume().await;
        let ran = world.count("mail 1");
        let may = usize::from(variant == "same");
        assert!(ran == may, "{variant}: ran {ran} times, {:?}", outcomes(chat.transcript()));
    }
}

#[tokio::test]
async fn names_that_are_hostile() {
    let world = World::default();
    let agent = agent(&world);
    let (journal, long) = (MemoryJournal::new(), "x".repeat(512));
    for name in [
        "../../etc/passwd",
        "a/b",
        "'; drop table fact; --",
        "%",
        "_",
        ".",
        "\u{202e}evil",
        "e\u{301}",
        "é",
        "A",
        "a",
        " ",
        " a",
        "a ",
        long.as_str(),
    ] {
        let mut chat =
            agent.open(&journal, name).await.unwrap_or_else(|err| panic!("{name}: {err}"));
        assert!(chat.transcript().messages().is_empty(), "{name} is another one");
        chat.send("Pay.").await.expect("an answer");
        assert_eq!(chat.conversation(), Some(name));
    }
    let long = "x".repeat(513);
    for name in ["", "\n", "a\0b", "\u{7f}", "\u{85}", long.as_str()] {
        let error = agent.open(&journal, name).await.map(|_| ()).expect_err(name);
        assert_eq!(error.kind(), ErrorKind::Configuration);
        agent.import(&journal, name, Transcript::default()).await.map(|_| ()).expect_err(name);
        agent.inbox(&journal).waiting(name).await.expect_err(name);
        agent
            .open(&journal, "a")
            .await
            .expect("there")
            .fork(name, 1)
            .await
            .map(|_| ())
            .expect_err(name);
    }
    let mut chat = agent.open(&journal, "a").await.expect("there");
    let facts = chat.facts();
    chat.fork("a", 1).await.map(|_| ()).expect_err("it is itself");
    assert_eq!(chat.facts(), facts);
    chat.send("And now?").await.expect("an answer");
}

#[tokio::test]
async fn thousands_of_facts_and_large_ones() {
    let (journal, world) = (MemoryJournal::new(), World::default());
    let model = ScriptedProvider::answering(|request| {
        let said = request.messages().iter().filter(|m| m.calls().next().is_some()).count();
        match said % 40 {
            39 => reply().text("x".repeat(200_000)),
            _ => reply().call("look", json!({"n": said})),
        }
    });
    let rails = Guardrails::default().turns(1_000).repetitions(None);
    let agent = Agent::builder(model)
        .tools([tool("look", READ, &world)])
        .guardrails(rails)
        .build()
        .expect("an agent");
    let mut chat = agent.open(&journal, CHAT).await.expect("new");
    let large = "y".repeat(20_000_000);
    for n in 0..25 {
        let sent = chat.send(if n == 0 { large.as_str() } else { "Go." }).await;
        drop(sent);
    }
    let facts = chat.facts();
    drop(chat);
    let chat = agent.open(&journal, CHAT).await.expect("it opens");
    assert!(facts > 100, "{facts}");
    is_kept("large", &journal, chat.transcript());
}

/// Many scripts, both drivers, the second with each step applied twice from kept facts.
#[tokio::test]
async fn both_drivers_come_to_the_same_facts() {
    fn script(seed: u64, turn: usize) -> ScriptedReply {
        let mut random = fastrand_like(seed.wrapping_mul(31).wrapping_add(turn as u64));
        let mut it = reply().tokens(seed % 7 * 10 + 1, turn as u64 + 1);
        let calls = if turn < 3 { random() % 5 } else { 0 };
        for n in 0..calls {
            let name = ["look", "pay", "put", "none", "mail", "ask"][random() as usize % 6];
            it = it.call_with_id(
                format!("{name}_{turn}{n}"),
                name,
                json!({"n": turn * 10 + n as usize}),
            );
        }
        if calls == 0 { it.text("Done.") } else { it }
    }
    fn fastrand_like(mut state: u64) -> impl FnMut() -> u64 {
        move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        }
    }
    fn built(seed: u64, world: &World) -> Agent {
        let model = ScriptedProvider::answering(move |request| {
            let said = request.messages().iter().filter(|m| m.calls().next().is_some()).count();
            script(seed, said)
        });
        let mut all = tools(world);
        all.push(tool("mail", NETWORK, world));
        all.push(Tool::new("ask", "Asks.", json!({"type": "object"}), WRITE, |_, _| {
            Box::pin(async { Err(ToolError::new("no")) })
        }));
        Agent::builder(model).tools(all).early_start(false).build().expect("an agent")
    }
    fn kind(fact: &Entry) -> String {
        match fact {
            Entry::UserSaid { limits, .. } => format!("said {limits:?}"),
            Entry::ModelReplied { stop, usage, .. } => format!("replied {stop:?} {usage:?}"),
            // Which of equal results has the note depends on which call ends first.
            Entry::CallFinished { result } => {
                format!(
                    "{} {:?} {:?}",
                    result.call_id(),
                    result.outcome(),
                    result.content().first()
                )
            }
            other => format!("{other:?}"),
        }
    }
    let mut differing = Vec::new();
    for seed in 0..200 {
        let (one, two) = (World::default(), World::default());
        let journal = MemoryJournal::new();
        let own = built(seed, &one);
        let mut chat = own.open(&journal, CHAT).await.expect("new");
        let ended = chat.send("Go.").await;
        let ended = ended.map_or_else(|stopped| stopped.outcome(), |_| Outcome::Answered);
        let agent = built(seed, &two);
        let mut steps = agent.steps(CHAT, Vec::new()).expect("new");
        let mut log: Vec<Vec<Envelope>> = Vec::new();
        let take = |steps: &mut Steps, facts: Vec<Envelope>, log: &mut Vec<Vec<Envelope>>| {
            // Kept as text, and applied to a conversation that was read again.
            let text = serde_json::to_string(&facts).expect("JSON");
            let facts: Vec<Envelope> = serde_json::from_str(&text).expect("facts");
            log.push(facts.clone());
            steps.apply(facts).expect("it follows");
        };
        let said = steps.say("Go.".into()).await.expect("new");
        take(&mut steps, said, &mut log);
        let finished = loop {
            if seed % 2 == 0 {
                steps = agent.steps(CHAT, steps.facts().to_vec()).expect("it is read again");
            }
            let facts = match steps.step() {
                Step::Ask => steps.ask().await,
                Step::Decide { calls, surplus } => steps.decide(&calls, &surplus).await,
                Step::Run(calls) => {
                    for call in &calls {
                        let started = steps.start(call).expect("it starts");
                        take(&mut steps, started, &mut log);
                        if steps.has_started(call) {
                            let facts = steps.run(call).await.expect("it runs");
                            take(&mut steps, facts, &mut log);
                        }
                    }
                    continue;
                }
                Step::FindOut(calls) => steps.find_out(&calls).await,
                Step::Stop(cause) => steps.stop(cause),
                Step::Settle => steps.settle(),
                Step::Finish(outcome) => break outcome,
                other => panic!("{seed}: {other:?}"),
            };
            take(&mut steps, facts.expect("facts"), &mut log);
        };
        assert_eq!(finished, ended, "{seed}");
        let mut first: Vec<String> = entries(&journal).iter().map(kind).collect();
        let mut second: Vec<String> =
            steps.facts().iter().map(|fact| kind(&fact.entry().expect("a fact"))).collect();
        first.sort();
        second.sort();
        if first != second {
            differing.push(seed);
        }
        let mut again = agent.steps(CHAT, Vec::new()).expect("new");
        for facts in log {
            again.apply(facts).expect("it follows");
        }
        assert_eq!(again.transcript(), steps.transcript(), "{seed}");
        let sorted = |world: &World| {
            let mut did = world.did.lock().expect("unpoisoned").clone();
            did.sort();
            did
        };
        assert_eq!(sorted(&one), sorted(&two), "{seed}");
    }
    assert!(differing.is_empty(), "{differing:?}");
}

fn started_in(facts: &[Envelope]) -> Vec<String> {
    let started = facts.iter().filter_map(|fact| match fact.entry().expect("a fact") {
        Entry::CallStarted { call } => Some(call),
        _ => None,
    });
    started.collect()
}

/// A process ends at each instant, and the one that goes on ends at each instant, too.
#[tokio::test]
async fn two_processes_end_one_after_the_other() {
    let (facts, _) = whole().await;
    for one in 2..facts.len() {
        let journal = with_facts(&facts[..one]).await;
        let world = World::default();
        let _ = agent(&world).open(&journal, CHAT).await.expect("it opens").resume().await;
        let second = facts_of(&journal);
        for two in one..=second.len() {
            let label = format!("{one} {two}");
            let journal = with_facts(&second[..two]).await;
            let world = World::default();
            for call in started_in(&second[..two]) {
                world.did.lock().expect("unpoisoned").push(call.replace('_', " "));
            }
            let mut chat = agent(&world).open(&journal, CHAT).await.expect("it opens");
            let _ = chat.resume().await;
            is_true(&label, chat.transcript(), &world);
            is_kept(&label, &journal, chat.transcript());
        }
    }
}

/// An approval, a form and a tool that asks wait in one answer; they are answered in any order, and the
/// process ends after each fact.
#[tokio::test]
async fn all_that_waits_over_restarts_in_any_order() {
    fn built(world: &World) -> Agent {
        let model = ScriptedProvider::answering(|request| {
            match request.messages().iter().any(|message| message.results().next().is_some()) {
                false => reply()
                    .call_with_id("mail_1", "mail", json!({"n": 1}))
                    .call_with_id("form_1", "form", json!({"n": 1}))
                    .call_with_id("book_1", "book", json!({"n": 1})),
                true => reply().text("Done."),
            }
        });
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let seen = world.clone();
        let book = Tool::new("book", "Books.", schema.clone(), WRITE, move |context, _| {
            let seen = seen.clone();
            Box::pin(async move {
                match context.answered() {
                    None => Err(ToolError::asks("Inside?", json!({"table": 7}))),
                    Some(answered) => {
                        assert_eq!(answered.token, json!({"table": 7}));
                        seen.did.lock().expect("unpoisoned").push("book 1".into());
                        Ok("booked".into())
                    }
                }
            })
        });
        let form = Tool::external("form", "Asks.", schema, READ);
        Agent::builder(model)
            .tools([tool("mail", NETWORK, world), form, book])
            .approver(|question: Question| async move { question.later(None) })
            .build()
            .expect("an agent")
    }
    /// Answers the call of this place among those that wait, by an inbox.
    async fn answer(agent: &Agent, journal: &MemoryJournal, place: usize) -> bool {
        let inbox = agent.inbox(journal);
        let mut waiting = inbox.waiting(CHAT).await.expect("it reads");
        if waiting.is_empty() {
            return false;
        }
        let open = waiting.remove(place % waiting.len());
        let answered = match (open.question(), open.call.name()) {
            (Some(question), _) => inbox.decide(CHAT, question.yes().by("ada")).await,
            (None, "form") => inbox.settle(CHAT, open.succeeded("Via Po 1")).await,
            (None, _) => inbox.settle(CHAT, open.answered("outside")).await,
        };
        answered.expect("it waits");
        true
    }
    async fn to_the_end(label: &str, journal: &MemoryJournal, world: &World, place: usize) {
        let agent = built(world);
        for round in 0.. {
            assert!(round < 20, "{label}: it has no end");
            let mut chat = agent.open(journal, CHAT).await.expect("it opens");
            match chat.resume().await {
                Ok(reply) => {
                    assert_eq!(reply.text(), "Done.", "{label}");
                    is_kept(label, journal, chat.transcript());
                    break;
                }
                Err(stopped) => {
                    assert_eq!(stopped.outcome(), Outcome::Waiting, "{label}: {stopped}")
                }
            }
            drop(chat);
            assert!(answer(&agent, journal, place + round).await, "{label}");
        }
    }
    for place in 0..6 {
        let (journal, world) = (MemoryJournal::new(), World::default());
        let agent = built(&world);
        let mut chat = agent.open(&journal, CHAT).await.expect("new");
        chat.send("Go.").await.expect_err("it waits");
        drop(chat);
        to_the_end("first", &journal, &world, place).await;
        assert_eq!((world.count("mail 1"), world.count("book 1")), (1, 1), "{place}");
        let facts = facts_of(&journal);
        for kept in 1..facts.len() {
            let label = format!("{place} {kept}");
            let again = with_facts(&facts[..kept]).await;
            let world = World::default();
            to_the_end(&label, &again, &world, place).await;
            let all = facts_of(&again);
            let told =
                outcomes(built(&world).open(&again, CHAT).await.expect("opens").transcript());
            for (id, outcome) in told {
                let before = started_in(&facts[..kept]).contains(&id);
                let finished = facts[..kept].iter().any(|fact| matches!(fact.entry().expect("a fact"), Entry::CallFinished { result } if result.call_id() == id));
                let ran = world.count(&id.replace('_', " "));
                match outcome {
                    CallOutcome::Succeeded => assert!(
                        id == "form_1" || ran == usize::from(!finished),
                        "{label}: {id} ran {ran}"
                    ),
                    CallOutcome::InDoubt => assert!(before && ran == 0, "{label}: {id} ran {ran}"),
                    other => panic!("{label}: {id} is {other:?}"),
                }
            }
            assert!(all.len() >= kept);
        }
    }
}

/// A wait is over by a cancellation, and the answer that comes after it counts no more.
#[tokio::test]
async fn cancelled_while_it_waits() {
    let (journal, world) = (MemoryJournal::new(), World::default());
    let agent = mailing(&world, 2);
    let mut chat = agent.open(&journal, CHAT).await.expect("new");
    chat.send("Go.").await.expect_err("it waits");
    let open = chat.waiting();
    let token = CancellationToken::new();
    token.cancel();
    let stopped =
        chat.resume().cancel_with(token.clone()).await.expect_err("it waits, or is cancelled");
    is_kept("cancelled", &journal, chat.transcript());
    let inbox = agent.inbox(&journal);
    if stopped.outcome() == Outcome::Waiting {
        chat.decide(open[0].question().expect("a question").yes()).await.expect("it waits");
        chat.decide(open[1].question().expect("a question").yes()).await.expect("it waits");
        chat.resume().cancel_with(token).await.expect_err("it is cancelled");
        is_kept("cancelled", &journal, chat.transcript());
        is_true("cancelled", chat.transcript(), &world);
        assert_eq!(world.count("mail 1"), 0);
    }
    for open in &open {
        inbox
            .decide(CHAT, open.question().expect("a question").yes())
            .await
            .expect_err("it is over");
    }
    drop(chat);
    let mut chat = agent.open(&journal, CHAT).await.expect("it opens");
    chat.send("And now?").await.expect("an answer");
    assert_eq!((world.count("mail 1"), world.count("mail 2")), (0, 0));
}

/// Tokens of the conversation and time of the run go on over restarts; new limits begin anew and are kept.
#[tokio::test(start_paused = true)]
async fn limits_over_restarts() {
    use std::time::Duration;
    let (facts, _) = whole().await;
    let world = World::default();
    // The conversation has spent 11 100 tokens.
    let journal = with_facts(&facts).await;
    let mut chat = agent(&world).open(&journal, CHAT).await.expect("it opens");
    chat.limits(harness::Limits::new().input_tokens(11_100));
    let stopped = chat.send("And now?").await.expect_err("it is spent");
    assert_eq!(stopped.outcome(), Outcome::Limit(harness::journal::Limit::InputTokens));
    drop(chat);

    let sleeps = Tool::new("sleep", "Sleeps.", json!({"type": "object"}), WRITE, |_, _| {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(50)).await;
            Ok("slept".into())
        })
    })
    .idempotent();
    let model = ScriptedProvider::answering(|request| match request.messages().iter().len() {
        0..7 => reply().call("sleep", json!({})).tokens(1_000, 1),
        _ => reply().text("Done.").tokens(1_000, 1),
    });
    let rails = Guardrails::default().time(Duration::from_secs(120));
    let agent = Agent::builder(model).tools([sleeps]).guardrails(rails).build().expect("an agent");
    let journal = MemoryJournal::new();
    let mut chat = agent.open(&journal, CHAT).await.expect("new");
    let time = Outcome::Limit(harness::journal::Limit::Time);
    assert_eq!(chat.send("Go.").await.expect_err("it takes too long").outcome(), time);
    let whole = facts_of(&journal);
    // It ends in the third sleep, after 100 seconds: 20 are left.
    let started =
        |at: &usize| matches!(whole[*at].entry().expect("a fact"), Entry::CallStarted { .. });
    let at = (0..whole.len()).filter(started).nth(2).expect("it sleeps three times");
    let again = with_facts(&whole[..=at]).await;
    let mut chat = agent.open(&again, CHAT).await.expect("it opens");
    let begun = tokio::time::Instant::now();
    assert_eq!(chat.resume().await.expect_err("it takes too long").outcome(), time);
    let took = begun.elapsed().as_secs();
    assert!((18..=35).contains(&took), "{took} seconds");

    // New limits are kept: what was spent before them does not count in the next process.
    let model = ScriptedProvider::answering(|_| reply().call("look", json!({})).tokens(1_000, 1));
    let agent = Agent::builder(model.clone())
        .tools([tool("look", READ, &world)])
        .guardrails(Guardrails::default().repetitions(None))
        .run_limits(harness::Limits::new().input_tokens(3_000))
        .build()
        .expect("an agent");
    let (journal, mut opened) = (MemoryJournal::new(), 0);
    let spent = Outcome::Limit(harness::journal::Limit::InputTokens);
    for (limits, asked) in [(None, 3), (None, 3), (Some(2_000), 5), (None, 5), (Some(1_000), 6)] {
        let mut chat = agent.open(&journal, CHAT).await.expect("it opens");
        opened += 1;
        let stopped = match limits {
            _ if opened == 1 => chat.send("Go.").await,
            Some(tokens) => chat.resume().limits(harness::Limits::new().input_tokens(tokens)).await,
            None => chat.resume().await,
        };
        assert_eq!(stopped.expect_err("it is spent").outcome(), spent, "{opened}");
        assert_eq!(model.requests().len(), asked, "{opened}");
    }
}

/// What was kept elsewhere is imported once, whenever that is dropped.
#[tokio::test]
async fn an_import_that_is_dropped() {
    let (facts, world) = whole().await;
    let journal = with_facts(&facts).await;
    let given = agent(&world).open(&journal, CHAT).await.expect("it opens").transcript().clone();
    for polls in 0..40 {
        let label = format!("{polls} polls");
        let inner = MemoryJournal::new();
        let journal = Odd { slow: true, ..Odd::over(&inner) };
        let agent = agent(&world);
        let done =
            polled(Box::pin(agent.import(&journal, CHAT, given.clone())).as_mut(), polls).await;
        let is_done = done.is_some();
        drop(done);
        let written = facts_of(&inner).len();
        match agent.import(&journal, CHAT, given.clone()).await {
            Ok(chat) => assert_eq!((chat.transcript(), written), (&given, 0), "{label}"),
            Err(error) => assert!(error.is_conflict() && written == 1, "{label}: {error}"),
        }
        assert_eq!(facts_of(&inner).len(), 1, "{label}");
        is_kept(&label, &inner, &given);
        if is_done {
            break;
        }
    }
}
