//! Two drivers on one conversation: one acts, whoever is stopped meanwhile and wakes up later.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::Write as _,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use harness::{
    Agent, CallOutcome, Chat, Error, SideEffect, SideEffects, Tool,
    agent::{Action, Machine},
    journal::{
        ConversationPage, ConversationQuery, Envelope, Head, Journal, JournalFuture, Lease,
        MemoryJournal, Metadata, SqliteJournal, StoredFacts,
    },
    testing::{Gate, ScriptedProvider, reply},
};
use serde_json::json;

/// So many races of each kind.
pub(crate) fn rounds() -> u32 {
    let rounds = std::env::var("HARNESS_RACES").ok().filter(|rounds| !rounds.is_empty());
    rounds.map_or(24, |rounds| rounds.parse().expect("a number"))
}

/// A driver's way to the journal: nobody holds the conversation, as if the one who did were taken for
/// dead, and at one of the appends, before it or after it, the driver is stopped.
#[derive(Clone)]
pub(crate) struct Sleeper {
    inner: Arc<dyn Journal>,
    appends: Arc<AtomicU32>,
    stops_at: Option<u32>,
    gate: Gate,
}

impl Sleeper {
    pub(crate) fn new(inner: Arc<dyn Journal>, stops_at: Option<u32>, gate: &Gate) -> Self {
        Self { inner, appends: Arc::default(), stops_at, gate: gate.clone() }
    }

    async fn comes_to(&self, point: u32) {
        if self.stops_at == Some(point) {
            self.gate.pass().await;
        }
    }
}

impl Journal for Sleeper {
    fn read<'a>(&'a self, id: &'a str, from: u64) -> JournalFuture<'a, StoredFacts> {
        self.inner.read(id, from)
    }

    fn append<'a>(
        &'a self,
        id: &'a str,
        after: Head,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, Head> {
        Box::pin(async move {
            let number = self.appends.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            self.comes_to(2 * number).await;
            let appended = self.inner.append(id, after, facts).await;
            self.comes_to(2 * number + 1).await;
            appended
        })
    }

    fn hold<'a>(&'a self, _: &'a str) -> JournalFuture<'a, Lease> {
        Box::pin(async { Ok(Lease::new(())) })
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
}

/// The calls that have had their effect, as often as they had it.
#[derive(Clone, Default)]
pub(crate) struct World {
    done: Arc<Mutex<Vec<String>>>,
    /// Where several processes share it.
    ledger: Option<PathBuf>,
}

impl World {
    pub(crate) fn in_file(ledger: PathBuf) -> Self {
        Self { ledger: Some(ledger), ..Self::default() }
    }

    fn has(&self, call: &str) {
        let Some(ledger) = &self.ledger else {
            self.done.lock().expect("unpoisoned").push(call.to_owned());
            return;
        };
        let file = OpenOptions::new().create(true).append(true).open(ledger);
        let written = file.and_then(|mut file| file.write_all(format!("{call}\n").as_bytes()));
        written.expect("it stands in the ledger");
    }

    pub(crate) fn all(&self) -> Vec<String> {
        match &self.ledger {
            None => self.done.lock().expect("unpoisoned").clone(),
            Some(ledger) => {
                let ledger = fs::read_to_string(ledger).unwrap_or_default();
                ledger.lines().map(str::to_owned).collect()
            }
        }
    }

    pub(crate) fn count(&self, call: &str) -> usize {
        self.all().iter().filter(|done| *done == call).count()
    }
}

/// Pays twice, and is stopped by the gate in a payment: before its effect, or after it.
pub(crate) fn agent(world: &World, stops_in: Option<(&'static str, bool)>, gate: &Gate) -> Agent {
    let (world, gate) = (world.clone(), gate.clone());
    let schema = json!({"type": "object", "properties": {}});
    let effects = SideEffects::of(&[SideEffect::Write]);
    let pay = Tool::new("pay", "Pays.", schema, effects, move |context, _| {
        let (world, gate, call) = (world.clone(), gate.clone(), context.call_id().to_owned());
        Box::pin(async move {
            if stops_in == Some((&*call, false)) {
                gate.pass().await;
            }
            world.has(&call);
            if stops_in == Some((&*call, true)) {
                gate.pass().await;
            }
            Ok(format!("{call} is paid").into())
        })
    });
    let model = ScriptedProvider::answering(|request| {
        let messages = request.messages().iter();
        match messages.filter(|message| message.results().next().is_some()).count() {
            paid @ 0..2 => reply().call_with_id(format!("pay_{paid}"), "pay", json!({})),
            _ => reply().text("All is paid."),
        }
    });
    Agent::builder(model).tools([pay]).build().expect("an agent")
}

/// What the model was told of each call in the end is so, by how often it had its effect.
pub(crate) fn is_true(facts: &[Envelope], effects: impl Fn(&str) -> usize, race: &str) {
    let mut machine = Machine::new();
    for fact in facts {
        let entry = fact.fact().expect("a fact");
        machine.apply(&entry).unwrap_or_else(|err| panic!("{race}: {err}: {entry:?}"));
    }
    assert!(matches!(machine.next(), Action::Finish(_)), "{race}: {:?}", machine.next());
    let mut told = BTreeMap::new();
    for message in machine.transcript().messages() {
        for result in message.results() {
            told.insert(result.call_id().to_owned(), result.outcome());
        }
    }
    assert!(!told.is_empty(), "{race}");
    for (call, outcome) in told {
        let count = effects(&call);
        let is_so = match outcome {
            CallOutcome::Succeeded => count == 1,
            CallOutcome::InDoubt => count <= 1,
            CallOutcome::NotStarted | CallOutcome::Denied => count == 0,
            other => panic!("{race}: `{call}` is {other:?}"),
        };
        assert!(
            is_so,
            "{race}: the model was told of `{call}` that it is {outcome:?}, and its effect is there {count} times"
        );
    }
}

/// Goes on with a conversation, or begins it, until it is answered or somebody else has gone on.
pub(crate) async fn goes_on(chat: &mut Chat, facts: &[Envelope]) -> Result<(), Error> {
    let mut machine = Machine::new();
    facts.iter().for_each(|fact| machine.apply(&fact.fact().expect("a fact")).expect("follows"));
    let ended = match machine.next() {
        Action::AwaitUser => chat.send("Pay.").await,
        Action::Finish(_) => return Ok(()),
        _ => chat.resume().await,
    };
    match ended {
        Ok(_) => Ok(()),
        Err(stopped) => {
            let error = stopped.error().unwrap_or_else(|| panic!("{stopped}"));
            Err(Error::new(error.kind(), error.to_string()))
        }
    }
}

pub(crate) async fn opens(
    agent: &Agent,
    journal: &Sleeper,
    id: &str,
) -> Result<(Chat, Vec<Envelope>), Error> {
    let chat = agent.open(journal, id).await?;
    Ok((chat, journal.read(id, 0).await?.facts))
}

/// Both have the conversation open and go on at the same time, from any place in it: the one whose
/// append comes first acts, and the other one is refused before it does anything.
async fn at_the_same_time(one: Arc<dyn Journal>, other: Arc<dyn Journal>) {
    let (gate, whole, world) = (Gate::new(), MemoryJournal::new(), World::default());
    let free = |journal: &Arc<dyn Journal>| Sleeper::new(Arc::clone(journal), None, &gate);
    let first = agent(&world, None, &gate);
    first.open(&whole, "whole").await.expect("new").send("Pay.").await.expect("an answer");
    let whole = whole.read("whole", 0).await.expect("facts").facts;
    for round in 0..rounds() {
        let race = format!("same {round}");
        let there = &whole[..round as usize % whole.len()];
        if !there.is_empty() {
            one.append(&race, Head::default(), there).await.expect("a new conversation");
        }
        let world = World::default();
        let (mine, yours) = (agent(&world, None, &gate), agent(&world, None, &gate));
        let (mut mine, facts) = opens(&mine, &free(&one), &race).await.expect("nobody holds it");
        let (mut yours, same) = opens(&yours, &free(&other), &race).await.expect("nobody holds it");
        let ran = tokio::join!(
            tokio::spawn(async move { goes_on(&mut mine, &facts).await }),
            tokio::spawn(async move { goes_on(&mut yours, &same).await }),
        );
        let ran = [ran.0.expect("no panic"), ran.1.expect("no panic")];
        let refused = ran.iter().filter(|it| it.as_ref().is_err_and(Error::is_conflict)).count();
        assert!(refused == 1 && ran.iter().any(Result::is_ok), "{race}: {ran:?}");
        let facts = other.read(&race, 0).await.expect("facts").facts;
        // What was there before has happened in another world.
        let before = entries_of(there);
        is_true(&facts, |call| world.count(call).max(usize::from(before.contains(call))), &race);
    }
}

/// The calls of which these facts know the end.
fn entries_of(facts: &[Envelope]) -> String {
    let ended = facts.iter().filter(|fact| fact.fact.contains("call_finished"));
    ended.map(|fact| &*fact.fact).collect()
}

/// One is stopped at any place, another one takes over and comes to the end, or is still at it, when the
/// first one wakes up.
async fn stopped_and_woken(one: Arc<dyn Journal>, other: Arc<dyn Journal>) {
    let (mut slept, mut refused) = (0, 0);
    for round in 0..rounds() {
        let race = format!("woken {round}");
        let (gate, world) = (Gate::new(), World::default());
        let (at, stops_in) = match round % 18 {
            point @ 0..14 => (Some(point), None),
            14 => (None, Some(("pay_0", false))),
            15 => (None, Some(("pay_0", true))),
            16 => (None, Some(("pay_1", false))),
            _ => (None, Some(("pay_1", true))),
        };
        let journal = Sleeper::new(Arc::clone(&one), at, &gate);
        let mine = agent(&world, stops_in, &gate);
        let (mut mine, facts) = opens(&mine, &journal, &race).await.expect("nobody holds it");
        let mut sleeper = tokio::spawn(async move { goes_on(&mut mine, &facts).await });
        let sleeps = tokio::select! {
            () = gate.reached() => true,
            ended = &mut sleeper => {
                ended.expect("no panic").expect("nobody disturbs");
                false
            }
        };
        let nobody = Gate::new();
        let journal = Sleeper::new(Arc::clone(&other), None, &nobody);
        let yours = agent(&world, None, &nobody);
        let (mut chat, facts) = opens(&yours, &journal, &race).await.expect("nobody holds it");
        let mut owner = tokio::spawn(async move { goes_on(&mut chat, &facts).await });
        let mut ended = None;
        if round % 36 < 18 {
            ended = Some((&mut owner).await.expect("no panic"));
            assert!(matches!(ended, Some(Ok(()))), "{race}: {ended:?}");
        }
        gate.open();
        let woken = match sleeps {
            true => sleeper.await.expect("no panic"),
            false => Ok(()),
        };
        let owned = match ended {
            Some(ended) => ended,
            None => owner.await.expect("no panic"),
        };
        slept += u32::from(sleeps);
        for ran in [&woken, &owned] {
            assert!(ran.as_ref().err().is_none_or(Error::is_conflict), "{race}: {ran:?}");
            refused += u32::from(ran.is_err());
        }
        // Each may have been refused by the other. Then a third one comes to the end.
        let (mut chat, facts) = opens(&yours, &journal, &race).await.expect("nobody holds it");
        goes_on(&mut chat, &facts).await.expect("nobody disturbs");
        let facts = one.read(&race, 0).await.expect("facts").facts;
        is_true(&facts, |call| world.count(call), &race);
    }
    println!("{} races, {slept} with one that slept, {refused} refused", rounds());
    assert!(slept > rounds() / 2 && refused > rounds() / 4, "{slept} slept, {refused} refused");
}

async fn race(one: Arc<dyn Journal>, other: Arc<dyn Journal>) {
    at_the_same_time(Arc::clone(&one), Arc::clone(&other)).await;
    stopped_and_woken(one, other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_memory() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    race(Arc::clone(&journal), journal).await;
}

/// On one thread both come to each append within the same millisecond, with the same facts: neither may
/// take what the other one has written for its own.
#[tokio::test]
async fn in_memory_by_turns() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    at_the_same_time(Arc::clone(&journal), journal).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = || SqliteJournal::open(folder.path().join("chats.db"));
    let (one, other) = (open().await.expect("a journal"), open().await.expect("the same"));
    race(Arc::new(one), Arc::new(other)).await;
}

#[cfg(all(unix, feature = "postgres"))]
#[tokio::test(flavor = "multi_thread")]
async fn in_postgres() {
    let server = crate::server::server!(crate::server::Server::start(&[], ""));
    let (one, other) = (server.journal("races").await, server.journal("races").await);
    race(Arc::new(one), Arc::new(other)).await;
}
