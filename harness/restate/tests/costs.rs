//! What a turn costs on the engine, beside the library's own driver, in one run:
//! `cargo test --release --test costs -- --ignored --nocapture`.

mod rig;
mod script;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use harness::{
    Outcome,
    journal::{Journal, MemoryJournal},
};
use rig::{Engine, until};
use script::{User, World, agent};

const TURNS: usize = 200;

/// The median, and the time that 95 of 100 do not exceed.
fn tell(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |part: usize| times[(times.len() - 1) * part / 100];
    println!("{what:<44} p50 {:>9.2?}  p95 {:>9.2?}", at(50), at(95));
}

async fn of_the_library(text: &str) {
    let world = tempfile::tempdir().expect("a folder");
    let agent = agent(&Arc::new(World::calm(world.path().to_owned()))).expect("an agent");
    let journal = MemoryJournal::new();
    let mut times = Vec::new();
    for turn in 0..TURNS {
        let mut chat = agent.open(&journal, format!("{turn}")).await.expect("a conversation");
        let begun = Instant::now();
        chat.send(text).state(User("ada".to_owned())).await.expect("an answer");
        times.push(begun.elapsed());
    }
    drop(journal.read("0", 0).await);
    tell(&format!("in process, {text}"), times);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it measures"]
async fn what_a_turn_costs() {
    let Some(engine) = Engine::start().await else { return };
    let worker = engine.worker("", &[]);
    engine.register().await;
    for text in ["Hello.", "Write."] {
        of_the_library(text).await;
        let mut times = Vec::new();
        for turn in 0..TURNS {
            let chat = engine.chat(&format!("{text} {turn}"));
            let begun = Instant::now();
            chat.send(text, "one").await.expect("an answer");
            times.push(begun.elapsed());
        }
        tell(&format!("on the engine, {text}"), times);
    }
    let chat = engine.chat("long");
    let mut times = Vec::new();
    for turn in 0..TURNS {
        let begun = Instant::now();
        chat.send("Write.", &turn.to_string()).await.expect("an answer");
        times.push(begun.elapsed());
    }
    let last = times.split_off(TURNS - 20);
    tell("on the engine, one conversation, turns 1-180", times);
    tell("the same, turns 181-200", last);
    let begun = Instant::now();
    let facts = chat.facts(0).await.expect("facts").facts.len();
    println!("all {facts} facts of it are read in {:.2?}", begun.elapsed());
    for (what, sql) in [
        ("state", "SELECT sum(length(value)) AS n FROM state WHERE service_key = 'long'"),
        ("journals of all", "SELECT sum(raw_length) AS n FROM sys_journal"),
        (
            "invocations that are kept",
            "SELECT count(*) AS n FROM sys_invocation WHERE target_service_key = 'long'",
        ),
    ] {
        let kept = engine.query(sql).await;
        println!("{what}: {}", kept.first().map_or("none".to_owned(), |row| row["n"].to_string()));
    }

    let facts =
        serde_json::to_string(&engine.chat("Write. 0").facts(0).await.expect("facts").facts);
    println!("the facts of a turn with a call: {} bytes", facts.expect("JSON").len());

    let mut workers = vec![worker];
    for count in 1..=2 {
        if count == 2 {
            workers.push(engine.worker("", &[]));
        }
        for at_once in [1, 16, 64] {
            let turns = if at_once == 1 { 40 } else { 10 };
            let used = || {
                let of_workers: f64 = workers.iter().map(|it| processor_time(it.process())).sum();
                (processor_time(engine.process()), of_workers, processor_time(std::process::id()))
            };
            let (before, begun) = (used(), Instant::now());
            let each = |n: usize| {
                let chat = engine.chat(&format!("{count} workers, {n} of {at_once}"));
                async move {
                    for turn in 0..turns {
                        chat.send("Write.", &turn.to_string()).await.expect("an answer");
                    }
                }
            };
            join_all((0..at_once).map(each)).await;
            let (elapsed, after) = (begun.elapsed().as_secs_f64(), used());
            let all = (at_once * turns) as f64;
            println!(
                "{count} workers, {at_once} conversations at once: {:.0} turns a second; processor time a turn: \
                 engine {:.1} ms, workers {:.1} ms, the test {:.1} ms; {:.2} processors busy",
                all / elapsed,
                (after.0 - before.0) * 1e3 / all,
                (after.1 - before.1) * 1e3 / all,
                (after.2 - before.2) * 1e3 / all,
                (after.0 - before.0 + after.1 - before.1 + after.2 - before.2) / elapsed,
            );
        }
    }
}

/// The seconds of processor time that a process has used, in ticks of which Linux counts 100 a second.
fn processor_time(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let behind_name = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks = behind_name.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

/// From the call of `stop` until the step that is being done has dropped the model's stream or the call, and until
/// the run is over.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "it measures"]
async fn what_a_stop_costs() {
    let Some(engine) = Engine::start().await else { return };
    // Beyond all points nobody dies, but all are noted.
    let worker = engine.worker("100000", &[]);
    engine.register().await;
    let mut others = Vec::new();
    for workers in 1..=2 {
        if workers == 2 {
            others.push(engine.beside(&worker, &[]));
        }
        for (text, file, step) in
            [("Think.", "asked", "after ask"), ("Work.", "effects", "after run")]
        {
            let (mut dropped, mut over) = (Vec::new(), Vec::new());
            for turn in 0..30 {
                let chat = engine.chat(&format!("{workers} {text} {turn}"));
                let before = worker.read(file).len();
                let run = chat.start(text, "one").await.expect("it is taken");
                let begun = async || (worker.read(file).len() > before).then_some(());
                until("it is being done", begun).await;
                // The facts of the step before are kept by then.
                tokio::time::sleep(Duration::from_millis(300)).await;
                let passed = || worker.read("points").iter().filter(|it| *it == step).count();
                let (before, asked) = (passed(), Instant::now());
                let lets_go = async {
                    while passed() == before {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                    asked.elapsed()
                };
                let (stopped, elapsed) = tokio::join!(chat.stop(), lets_go);
                stopped.expect("it is stopped");
                dropped.push(elapsed);
                assert_eq!(chat.ended(&run).await.expect("an end").outcome, Outcome::Cancelled);
                over.push(asked.elapsed());
            }
            tell(&format!("{workers} workers, {text} from a stop to the drop"), dropped);
            tell(&format!("{workers} workers, {text} to the end of the run"), over);
        }
    }
}
