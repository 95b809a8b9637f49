//! Conversations by their names, in two processes at once over one journal, which are killed at any instant:
//! whoever starts anew finds each conversation as its facts hold it, and comes to its end.

use std::{
    collections::HashMap,
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use futures_util::StreamExt as _;
use harness::{
    Agent, ErrorKind, Role, SideEffect, SideEffects, Tool,
    agent::{Action, ChatRun, Chats, Event, Machine, WhenBusy},
    journal::{Journal, SqliteJournal},
    testing::{ScriptedProvider, reply},
};
use serde_json::json;

use crate::races::is_true;

const FOLDER: &str = "HARNESS_CHATS_FOLDER";
const ADDRESS: &str = "HARNESS_CHATS_ADDRESS";
/// Whether messages steer the runs.
const STEERS: &str = "HARNESS_CHATS_STEERS";
const CONVERSATIONS: usize = 6;

/// So many processes are killed.
fn kills() -> u32 {
    let kills = std::env::var("HARNESS_KILLS").ok().filter(|kills| !kills.is_empty());
    kills.map_or(12, |kills| kills.parse().expect("a number"))
}

fn name(at: usize) -> String {
    format!("chat-{at}")
}

async fn journal(folder: &Path, address: &str) -> Arc<dyn Journal> {
    #[cfg(feature = "postgres")]
    if !address.is_empty() {
        let journal = harness::journal::PostgresJournal::connect(address).await;
        return Arc::new(journal.expect("a journal"));
    }
    assert!(address.is_empty());
    Arc::new(SqliteJournal::open(folder.join("chats.db")).await.expect("a journal"))
}

/// Pays four times, two calls a turn, each by a line in the ledger with the key of the call, and then answers.
fn agent(ledger: PathBuf) -> Agent {
    let schema = json!({"type": "object", "properties": {}});
    let effects = SideEffects::of(&[SideEffect::Write]);
    let pay = Tool::new("pay", "Pays.", schema, effects, move |context, _| {
        let (ledger, key) = (ledger.clone(), context.idempotency_key().to_owned());
        Box::pin(async move {
            let file = OpenOptions::new().create(true).append(true).open(ledger);
            file.and_then(|mut file| file.write_all(format!("{key}\n").as_bytes()))
                .expect("a line");
            Ok("It is paid.".into())
        })
    });
    let model = ScriptedProvider::answering(|request| {
        let messages = request.messages().iter();
        let paid: usize = messages.map(|message| message.results().count()).sum();
        let call = |it: harness::testing::ScriptedReply, at: usize| {
            it.call_with_id(format!("pay_{at}"), "pay", json!({}))
        };
        match paid {
            0 | 2 => call(call(reply().text("I pay."), paid), paid + 1),
            _ => reply().text("All is paid."),
        }
    });
    Agent::builder(model).tools([pay]).build().expect("an agent")
}

/// Writes a line that survives this process.
fn notes(folder: &Path, line: &str) {
    let file = OpenOptions::new().create(true).append(true).open(folder.join("told"));
    file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes())).expect("a line");
}

/// Steers the run that goes on, and writes down what the sender is told: that the message was said, when the
/// run has come to its end; or that it was not.
async fn steers(chats: &Chats, folder: &Path, id: &str, number: usize) {
    let words = format!("{id} {} {number}", std::process::id());
    let sent = chats.send(id, words.as_str()).when_busy(WhenBusy::Steer).await;
    let told = match sent {
        Err(_) => "refused",
        Ok(run) => match run.finish().await {
            Ok(_) => "said",
            Err(stopped) => {
                let closed = stopped.error().is_some_and(|error| error.kind() == ErrorKind::Closed);
                if closed { "refused" } else { "unknown" }
            }
        },
    };
    notes(folder, &format!("{told} {words}"));
}

/// What users have said in a conversation beside the message that it begins with, each once, and what their
/// senders were told is true.
fn steered_truly(folder: &Path, machine: &Machine, id: &str) -> usize {
    let messages = machine.transcript().messages();
    let users = messages.iter().filter(|message| message.role() == Role::User);
    let said: Vec<String> =
        users.map(|it| it.text()).filter(|it| it.starts_with(&format!("{id} "))).collect();
    let mut once = said.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), said.len(), "{id}: {said:?}");
    let told = fs::read_to_string(folder.join("told")).unwrap_or_default();
    for line in told.lines() {
        let Some((told, words)) =
            line.split_once(' ').filter(|(_, it)| it.starts_with(&format!("{id} ")))
        else {
            continue;
        };
        let is_there = said.iter().any(|said| said == words);
        match told {
            "said" => assert!(is_there, "{words} is lost: {said:?}"),
            "refused" => assert!(!is_there, "{words} was refused: {said:?}"),
            _ => {}
        }
    }
    said.len()
}

/// Brings each conversation to its end, and says of each what a watcher saw.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a process of the test below"]
async fn program() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let (folder, address) = (Path::new(&folder), std::env::var(ADDRESS).unwrap_or_default());
    let journal = journal(folder, &address).await;
    let agent = agent(folder.join("ledger"));
    let steering = std::env::var_os(STEERS).is_some();
    let folder: Arc<Path> = folder.into();
    let chats = Chats::builder(&agent, &journal).idle_after(Duration::from_millis(1)).build();
    let serving = (0..CONVERSATIONS).map(|at| {
        let (agent, chats, journal) = (agent.clone(), chats.clone(), Arc::clone(&journal));
        let folder = Arc::clone(&folder);
        tokio::spawn(async move {
            let (id, inbox) = (name(at), agent.inbox(&journal));
            for number in 0.. {
                let (seen, facts) = (chats.watch(&id), inbox.look(&id));
                let machine = facts.await.expect("facts");
                let busy = match machine.next() {
                    Action::Finish(_) => break,
                    Action::AwaitUser => chats.send(&*id, "Pay.").await,
                    _ => chats.resume(&*id).await,
                };
                match busy {
                    Ok(run) => {
                        let finish = |run: ChatRun| run.finish();
                        let steered = async {
                            if steering {
                                for number in [2 * number, 2 * number + 1] {
                                    steers(&chats, &folder, &id, number).await;
                                }
                            }
                        };
                        let (ended, ()) = tokio::join!(finish(run), steered);
                        let Err(stopped) = ended else { continue };
                        let error = stopped.error().expect("nobody stops it");
                        // The other process has come to the end since it was looked at.
                        let ended = error.kind() == ErrorKind::Transcript;
                        assert!(ended || error.is_conflict(), "{id}: {stopped:?}");
                    }
                    // The other process has it open, or has gone on since it was looked at.
                    Err(err) if matches!(err.kind(), ErrorKind::Busy | ErrorKind::NotWaiting) => {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                    Err(err) => panic!("{id}: {err}"),
                }
                drop(seen);
            }
            if steering {
                // The other process may say more, which nobody here is told.
                return;
            }
            let mut watcher = chats.watch(&id).await.expect("a watcher");
            let (mut numbers, mut words, mut calls) = (HashMap::new(), String::new(), 0);
            while let Some(numbered) = watcher.next().await {
                let last = numbers.insert(numbered.run.to_string(), numbered.number);
                assert!(last.unwrap_or(0) < numbered.number, "{id}: {numbered:?}");
                match numbered.event.as_event() {
                    Event::Text(text) => words.push_str(text),
                    Event::ToolResult { .. } => calls += 1,
                    Event::RunEnded { .. } => break,
                    _ => {}
                }
            }
            assert!(words.ends_with("All is paid."), "{id}: {words}");
            assert!(calls <= 4, "{id}: {calls}");
        })
    });
    let serving: Vec<_> = serving.collect();
    for served in serving {
        served.await.expect("no panic");
    }
    chats.close().await;
    println!("> all are answered");
}

struct Process(Child);

impl Process {
    fn start(folder: &Path, address: &str, steers: bool) -> Self {
        let mut program = Command::new(std::env::current_exe().expect("this binary"));
        program.args(["--exact", "chats::program", "--ignored", "--nocapture"]);
        program.env(FOLDER, folder).env(ADDRESS, address);
        if steers {
            program.env(STEERS, "1");
        }
        Self(program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a process"))
    }

    /// What it said, if it came to its end by itself.
    fn ends(mut self) -> Option<String> {
        let status = self.0.wait().expect("it ends");
        let read = |from: Option<&mut dyn std::io::Read>| {
            let mut said = String::new();
            from.map(|from| from.read_to_string(&mut said));
            said
        };
        let said = read(self.0.stdout.as_mut().map(|it| it as _));
        let failed = read(self.0.stderr.as_mut().map(|it| it as _));
        assert!(status.success() || status.signal() == Some(9), "{status}: {said}{failed}");
        said.contains("> all are answered").then_some(said)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two processes at once, until so many were killed. Each round has a journal of its own.
async fn killed_again_and_again(steers: bool, journal_of: impl AsyncFn() -> String) {
    let mut random = fastrand::Rng::with_seed(17);
    let (mut killed, mut worlds, mut doubtful, mut steered) = (0, 0, 0, 0);
    while killed < kills() {
        let folder = tempfile::tempdir().expect("a folder");
        let address = journal_of().await;
        let start = || Process::start(folder.path(), &address, steers);
        let (mut first, mut second) = (start(), start());
        // The whole takes about so long without kills: it grows where machines are slow.
        let mut patience = 40.0;
        loop {
            thread::sleep(Duration::from_secs_f64(random.f64() * patience / 1e3));
            if let (Ok(Some(_)), Ok(Some(_))) = (first.0.try_wait(), second.0.try_wait()) {
                break;
            }
            let one = if random.bool() { &mut first } else { &mut second };
            killed += u32::from(matches!(one.0.try_wait(), Ok(None)));
            let _ = one.0.kill();
            let dead = std::mem::replace(one, start());
            dead.ends();
            patience *= 1.3;
        }
        assert!(first.ends().is_some() | second.ends().is_some());
        let ledger = fs::read_to_string(folder.path().join("ledger")).unwrap_or_default();
        let journal = journal(folder.path(), &address).await;
        for id in (0..CONVERSATIONS).map(name) {
            let facts = journal.read(&id, 0).await.expect("facts").facts;
            let paid = |call: &str| {
                let of_call = |line: &&str| {
                    line.starts_with(&format!("{id}/")) && line.contains(&format!("/{call}/"))
                };
                ledger.lines().filter(of_call).count()
            };
            is_true(&facts, paid, &id);
            let mut machine = Machine::new();
            facts
                .iter()
                .for_each(|it| machine.apply(&it.fact().expect("a fact")).expect("follows"));
            let messages = machine.transcript().messages();
            let results = messages.iter().flat_map(|message| message.results());
            let (in_doubt, all) = results.fold((0, 0), |(doubt, all), result| {
                let doubts = result.outcome() == harness::CallOutcome::InDoubt;
                (doubt + u32::from(doubts), all + 1)
            });
            assert_eq!(all, 4, "{id}");
            doubtful += in_doubt;
            steered += steered_truly(folder.path(), &machine, &id);
        }
        worlds += 1;
    }
    println!(
        "{killed} processes killed over {worlds} journals, {doubtful} calls in doubt, {steered} messages that steer"
    );
    assert_eq!(steers, steered > 0);
}

#[tokio::test]
async fn with_messages_that_steer() {
    killed_again_and_again(true, async || String::new()).await;
}

#[tokio::test]
async fn in_a_file() {
    killed_again_and_again(false, async || String::new()).await;
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn in_postgres() {
    let server = crate::server::server!(crate::server::Server::start(&[], ""));
    let rounds = std::cell::Cell::new(0);
    killed_again_and_again(false, async || {
        rounds.set(rounds.get() + 1);
        let name = format!("round_{}", rounds.get());
        server.sql(&format!("CREATE DATABASE {name}"));
        server.socket("harness", &name)
    })
    .await;
}
