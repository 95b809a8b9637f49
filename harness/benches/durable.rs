//! Measures the cost of storing a conversation. The turns of an agent are measured without a journal, and with journals
//! in memory, in an SQLite file (in both modes), and in PostgreSQL over a Unix socket.
//!
//!     cargo bench -p harness --bench durable --features testing,sqlite,postgres
//!
//! A turn is a message of the user, a call that reads, a call that writes, and an answer. The first table shows how
//! much one turn appends. The second table shows the CPU time of this process and the elapsed time, both measured in
//! one run, and the ratios to a conversation without a journal. The third table shows how long it takes to open a
//! conversation of 100,000 facts. The CPU time of the PostgreSQL server is not included.
//! If PostgreSQL (`initdb` and `postgres`) is neither installed nor in the folder that `HARNESS_POSTGRES` names, its
//! row is omitted.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use harness::{
    Agent, Chat, SideEffect, SideEffects, Tool,
    journal::{
        Envelope, Head, Journal, MemoryJournal, PostgresJournal, SqliteJournal, SqliteSynchronous,
    },
    testing::{FaultyJournal, ScriptedProvider, reply},
};
use serde_json::json;

/// The number of turns in each conversation (`TURNS`), and the number of measurements of each kind of journal
/// (`ROUNDS`). The median counts.
const TURNS: u32 = 60;
const ROUNDS: usize = 7;

fn agent() -> Agent {
    let tool = |name: &'static str, effect| {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        Tool::new(name, "Does it.", schema, SideEffects::of(&[effect]), move |_, arguments| {
            Box::pin(async move { Ok(format!("{name} {} is done", arguments["n"]).into()) })
        })
    };
    let model = ScriptedProvider::answering(|request| {
        let messages = request.messages();
        let n = messages.len();
        match request.results().count() {
            0 => reply()
                .text("Let me see.")
                .call("look", json!({ "n": n }))
                .call("put", json!({ "n": n })),
            _ => reply().text("All of it is done, as you wanted it to be."),
        }
    });
    let tools = [tool("look", SideEffect::Read), tool("put", SideEffect::Write)];
    Agent::builder(model).tools(tools).build().expect("an agent")
}

async fn turns(chat: &mut Chat) {
    for turn in 0..TURNS {
        chat.send(format!("Do what is to be done in turn {turn}.")).await.expect("an answer");
    }
}

/// The CPU time that this process has used so far.
fn processors() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> =
        stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|it| it.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

/// The CPU time and the elapsed time of one turn, in microseconds.
#[derive(Clone, Copy)]
struct Cost {
    processors: f64,
    clock: f64,
}

async fn measure(agent: &Agent, journal: Option<&Arc<dyn Journal>>, round: usize) -> Cost {
    // The CPU time is counted in ticks of 10 ms, so one measurement contains several conversations.
    const CHATS: u32 = 6;
    let (before, begun) = (processors(), Instant::now());
    for number in 0..CHATS {
        let mut chat = match journal {
            Some(journal) => {
                agent.open(journal, format!("chat {round} {number}")).await.expect("a conversation")
            }
            None => agent.chat(),
        };
        turns(&mut chat).await;
    }
    let of_a_turn = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(TURNS * CHATS);
    Cost { processors: of_a_turn(processors() - before), clock: of_a_turn(begun.elapsed()) }
}

/// The minimum number of facts of the conversation that is opened (`FACTS`), and how often it is opened in one
/// measurement (`OPENED`).
const FACTS: u64 = 100_000;
const OPENED: u32 = 8;

/// The facts of a long conversation.
async fn long(agent: &Agent) -> Vec<Envelope> {
    let journal = MemoryJournal::new();
    let mut chat = agent.open(&journal, "long").await.expect("a conversation");
    while chat.facts() < FACTS {
        chat.send("Do what is to be done in this turn.").await.expect("an answer");
    }
    journal.read("long", 0).await.expect("facts").facts
}

/// The CPU time and the elapsed time in which a conversation is opened, in milliseconds.
async fn open(agent: &Agent, journal: &Arc<dyn Journal>) -> Cost {
    let (before, begun) = (processors(), Instant::now());
    for _ in 0..OPENED {
        drop(agent.open(journal, "long").await.expect("a conversation"));
    }
    let of_one = |time: Duration| time.as_secs_f64() * 1e3 / f64::from(OPENED);
    Cost { processors: of_one(processors() - before), clock: of_one(begun.elapsed()) }
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

async fn sqlite(folder: &Path, synchronous: SqliteSynchronous) -> Arc<dyn Journal> {
    let path = folder.join(format!("{synchronous:?}.db"));
    let opened = SqliteJournal::builder().synchronous(synchronous).open(path).await;
    Arc::new(opened.expect("a journal"))
}

/// A server process. Dropping this value ends the server.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The folder that contains PostgreSQL's programs.
fn binaries() -> Option<PathBuf> {
    let named = env::var_os("HARNESS_POSTGRES").map(PathBuf::from);
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = installed.map(|entry| entry.path().join("bin")).collect();
    all.sort();
    let mut known = named.into_iter().chain(all.into_iter().rev());
    known.find(|folder| folder.join("initdb").exists())
}

/// Starts a server in this folder. PostgreSQL refuses to run as root, so a root process runs it as another user.
fn server(folder: &Path) -> Option<(Server, String)> {
    let binaries = binaries()?;
    let is_root =
        fs::metadata("/proc/self").is_ok_and(|it| std::os::unix::fs::MetadataExt::uid(&it) == 0);
    let command = |name: &str| {
        let mut command = Command::new(binaries.join(name));
        command.current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
        if is_root {
            std::os::unix::process::CommandExt::uid(&mut command, 65_534);
            std::os::unix::process::CommandExt::gid(&mut command, 65_534);
        }
        command
    };
    if is_root {
        std::os::unix::fs::chown(folder, Some(65_534), Some(65_534)).ok()?;
    }
    let data = folder.join("data");
    let made = command("initdb")
        .args(["-E", "UTF8", "--locale=C", "-U", "harness", "-D"])
        .arg(&data)
        .status();
    made.ok().filter(|status| status.success())?;
    let mut start = command("postgres");
    start.arg("-D").arg(&data).arg("-k").arg(folder).args(["-h", ""]);
    let running = Server(start.spawn().ok()?);
    for _ in 0..500 {
        let ready = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
        if ready.lines().nth(7).is_some_and(|line| line.trim() == "ready") {
            let socket = folder.display().to_string().replace('/', "%2F");
            return Some((running, format!("postgres://harness@{socket}/postgres")));
        }
        thread::sleep(Duration::from_millis(20));
    }
    None
}

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let counted = FaultyJournal::new(Arc::new(MemoryJournal::new()) as Arc<dyn Journal>);
        turns(&mut agent().open(&counted, "counted").await.expect("a conversation")).await;
        let (counts, all) = (counted.counts(), f64::from(TURNS));
        println!(
            "a turn: {:.1} appends of {:.1} facts together, {:.0} bytes of JSON\n",
            counts.appends as f64 / all,
            counts.facts as f64 / all,
            counts.bytes as f64 / all
        );

        let folder = tempfile::tempdir().expect("a folder");
        let place = tempfile::Builder::new().prefix("pg").tempdir().expect("a folder");
        let server = server(place.path());
        let mut kinds: Vec<(&str, Option<Arc<dyn Journal>>)> = vec![
            ("no journal", None),
            ("memory", Some(Arc::new(MemoryJournal::new()))),
            (
                "SQLite, synchronous=NORMAL",
                Some(sqlite(folder.path(), SqliteSynchronous::Normal).await),
            ),
            (
                "SQLite, synchronous=FULL",
                Some(sqlite(folder.path(), SqliteSynchronous::Full).await),
            ),
        ];
        match &server {
            Some((_, address)) => {
                let journal = PostgresJournal::connect(address.clone()).await.expect("a journal");
                kinds.push(("PostgreSQL, a Unix socket", Some(Arc::new(journal))));
            }
            None => println!("PostgreSQL is not installed: its row is left out"),
        }
        let agent = agent();
        let mut costs: Vec<Vec<Cost>> = vec![Vec::new(); kinds.len()];
        // Each round measures all kinds, so that other load on the machine affects all of them.
        for round in 0..ROUNDS {
            for ((_, journal), costs) in kinds.iter().zip(&mut costs) {
                costs.push(measure(&agent, journal.as_ref(), round).await);
            }
        }
        let cost = |costs: &[Cost]| Cost {
            processors: median(costs.iter().map(|cost| cost.processors).collect()),
            clock: median(costs.iter().map(|cost| cost.clock).collect()),
        };
        let bare = cost(&costs[0]);
        println!("| a turn | processors, µs | ratio | clock, µs | ratio |\n|---|---|---|---|---|");
        for ((name, _), costs) in kinds.iter().zip(&costs) {
            let Cost { processors, clock } = cost(costs);
            println!(
                "| {name} | {processors:.0} | {:.2} | {clock:.0} | {:.2} |",
                processors / bare.processors,
                clock / bare.clock
            );
        }

        let facts = long(&agent).await;
        println!("\n| opening {} facts | processors, ms | clock, ms |\n|---|---|---|", facts.len());
        for (name, journal) in kinds.iter().filter_map(|(name, it)| Some((name, it.as_ref()?))) {
            journal.append("long", Head::default(), &facts).await.expect("facts are appended");
            let mut costs = Vec::new();
            for _ in 0..ROUNDS {
                costs.push(open(&agent, journal).await);
            }
            let Cost { processors, clock } = cost(&costs);
            println!("| {name} | {processors:.0} | {clock:.0} |");
        }
    });
}
