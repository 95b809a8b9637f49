//! Processes that are stopped (`SIGSTOP`) at any instant of a run, and woken when another process has
//! taken over or is still at it: what they pay is in a file, once each, and the woken one is refused.

use std::{
    fs,
    io::{BufRead as _, BufReader, Lines},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use harness::{
    Error,
    journal::{Journal, SqliteJournal},
    testing::Gate,
};

use crate::races::{Sleeper, World, agent, goes_on, is_true, opens, rounds};

const FOLDER: &str = "HARNESS_WOKEN_FOLDER";
const ADDRESS: &str = "HARNESS_WOKEN_ADDRESS";
const RACE: &str = "HARNESS_WOKEN_RACE";
/// At which append, or in which payment, the process stops itself.
const STOPS: &str = "HARNESS_WOKEN_STOPS";

async fn journal(folder: &Path, address: &str) -> Result<Arc<dyn Journal>, Error> {
    #[cfg(feature = "postgres")]
    if !address.is_empty() {
        return Ok(Arc::new(harness::journal::PostgresJournal::connect(address).await?));
    }
    assert!(address.is_empty());
    // Who is stopped in the middle of a write keeps everybody from writing.
    let journal = SqliteJournal::builder().busy_timeout(Duration::from_millis(500));
    Ok(Arc::new(journal.open(folder.join("chats.db")).await?))
}

fn signal(name: &str, process: u32) {
    let id = process.to_string();
    // It may have ended by itself.
    let _ = Command::new("kill").args([&format!("-{name}"), &id]).stderr(Stdio::null()).status();
}

/// Goes on with the conversation, and says how it ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a process of the tests below"]
async fn program() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let of = |name| std::env::var(name).unwrap_or_default();
    let (folder, race, stops) = (Path::new(&folder), of(RACE), of(STOPS));
    let (at, stops_in) = match &*stops {
        "before pay_0" => (None, Some(("pay_0", false))),
        "after pay_0" => (None, Some(("pay_0", true))),
        "before pay_1" => (None, Some(("pay_1", false))),
        "after pay_1" => (None, Some(("pay_1", true))),
        point => (point.parse().ok(), None),
    };
    let gate = Gate::new();
    let stopper = gate.clone();
    tokio::spawn(async move {
        stopper.reached().await;
        signal("STOP", std::process::id());
        stopper.open();
    });
    let world = World::in_file(folder.join(format!("{race} ledger")));
    let ended = async {
        let journal = journal(folder, &of(ADDRESS)).await?;
        let journal = Sleeper::new(journal, at, &gate);
        let (mut chat, facts) = opens(&agent(&world, stops_in, &gate), &journal, &race).await?;
        println!("> begins");
        goes_on(&mut chat, &facts).await
    };
    match ended.await {
        Ok(()) => println!("> ended"),
        Err(err) if err.is_conflict() => println!("> refused"),
        Err(err) => println!("> failed: {err}"),
    }
}

struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(folder: &Path, address: &str, race: &str, stops: &str) -> Self {
        let mut program = Command::new(std::env::current_exe().expect("this binary"));
        program.args(["--exact", "woken::program", "--ignored", "--nocapture"]);
        program.env(FOLDER, folder).env(ADDRESS, address).env(RACE, race).env(STOPS, stops);
        let mut child = program.stdout(Stdio::piped()).spawn().expect("a process");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        Self { child, lines }
    }

    /// The next that it says.
    fn says(&mut self) -> Option<String> {
        let mut lines = self.lines.by_ref().map_while(Result::ok);
        lines.find_map(|line| line.split_once("> ").map(|(_, said)| said.to_owned()))
    }

    /// What it says last.
    fn ends(&mut self) -> String {
        let said = std::iter::from_fn(|| self.says()).last();
        self.child.wait().expect("it ends");
        said.expect("it says how it ended")
    }

    /// Waits until it is stopped, or has ended. Says whether it is stopped.
    fn is_stopped(&self) -> bool {
        let until = Instant::now() + Duration::from_secs(60);
        while Instant::now() < until {
            let state = fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
            match state.ok().and_then(|it| it.rsplit_once(") ")?.1.chars().next()) {
                Some('T') => return true,
                None | Some('Z') => return false,
                Some(_) => thread::sleep(Duration::from_micros(200)),
            }
        }
        panic!("it neither stops nor ends");
    }
}

/// One that is stopped would not end by itself if the test fails.
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process is stopped, another one takes over, and the first one is woken, again and again.
async fn takeovers(folder: &Path, address: &str) {
    let own = journal(folder, address).await.expect("a journal");
    let (gate, mut random) = (Gate::new(), fastrand::Rng::with_seed(11));
    let own = Sleeper::new(own, None, &gate);
    let (mut taken, mut refused, mut blocked, mut paid_late) = (0, 0, 0, 0);
    let mut took = Duration::from_millis(20);
    for round in 0..rounds() {
        let race = format!("race {round}");
        let world = World::in_file(folder.join(format!("{race} ledger")));
        let stops = match round % 36 {
            point @ 0..14 => point.to_string(),
            14 => "before pay_0".to_owned(),
            15 => "after pay_0".to_owned(),
            16 => "before pay_1".to_owned(),
            17 => "after pay_1".to_owned(),
            // From outside, at any instant.
            _ => String::new(),
        };
        let mut first = Process::start(folder, address, &race, &stops);
        assert_eq!(first.says().as_deref(), Some("begins"), "{race}");
        if stops.is_empty() {
            thread::sleep(took.mul_f64(random.f64()));
            signal("STOP", first.child.id());
        }
        let stopped = first.is_stopped();
        let before = world.all().len();
        let began = Instant::now();
        let mut second = Process::start(folder, address, &race, "");
        let begins = second.says().expect("it says something");
        // The first one is woken when all is done, or somewhere in between.
        let owned = match (random.bool(), &*begins) {
            (true, "begins") => Some(second.ends()),
            (false, "begins") => {
                thread::sleep(took.mul_f64(random.f64()));
                None
            }
            _ => Some(begins),
        };
        if owned.as_deref() == Some("ended") {
            took = (took + began.elapsed() / 2) / 2;
        }
        signal("CONT", first.child.id());
        let woken = first.ends();
        let owned = match owned {
            Some(owned) => owned,
            None => second.ends(),
        };
        for said in [&woken, &owned] {
            let known = ["ended", "refused"].contains(&&**said);
            let locked = said.contains("is being written by another connection");
            assert!(known || locked, "{race}: {said}");
            blocked += u32::from(locked);
        }
        taken += u32::from(stopped);
        refused += u32::from(woken == "refused");
        paid_late += world.all().len().saturating_sub(before);
        // Each may have been refused by the other. Then a third one comes to the end.
        let (mut chat, facts) =
            opens(&agent(&world, None, &gate), &own, &race).await.expect("nobody holds it");
        goes_on(&mut chat, &facts).await.expect("nobody disturbs");
        let facts = own.read(&race, 0).await.expect("facts").facts;
        is_true(&facts, |call| world.count(call), &race);
    }
    println!(
        "{} races, {taken} stopped, {refused} refused when woken, {blocked} blocked by a lock, \
         {paid_late} payments after the stop",
        rounds()
    );
    assert!(taken > rounds() / 2 && refused > rounds() / 4, "{taken} stopped, {refused} refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    takeovers(folder.path(), "").await;
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_postgres() {
    let server = crate::server::server!(crate::server::Server::start(&[], ""));
    let folder = tempfile::tempdir().expect("a folder");
    takeovers(folder.path(), &server.socket("harness", "postgres")).await;
}
