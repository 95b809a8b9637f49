//! Random lives of conversations through many versions of one program: approvals that are answered at any time and from
//! any side, processes that are killed at any poll and at any fact, copies, agents in agents, results from outside, limits,
//! summaries, checked answers and rules about what was read. Whatever happens, nothing runs but what a person has
//! decided about, nothing is done twice, and each call is told as what became of it.
//!
//! `HARNESS_LIVES=20000 cargo test -p harness-tests --test lives -- --nocapture` has more of them, and `HARNESS_LIFE` is the
//! seed of the first. Of a single one it is shown what happened. Lives on SQLite depend on the speed of the disk, too.

mod defaults;
mod life;
mod people;
mod program;
mod truth;
mod unfit;
mod world;

use std::{collections::BTreeMap, ops::Range};

use harness::journal::{MemoryJournal, SqliteJournal, SqliteSynchronous};

use life::Life;

/// How many lives take about ten seconds.
const FEW: u64 = 30;

/// The seeds of the lives.
fn wanted(few: u64) -> Range<u64> {
    let set = |name| std::env::var(name).ok().and_then(|set| set.parse::<u64>().ok());
    let first = set("HARNESS_LIFE").unwrap_or(0);
    first..first + set("HARNESS_LIVES").unwrap_or(few)
}

/// Whether to show what happened in a life.
fn is_shown() -> bool {
    wanted(0).end - wanted(0).start == 1
}

/// What all lives came to.
#[derive(Default)]
struct Tally {
    counts: BTreeMap<&'static str, u64>,
    broken: Vec<String>,
    lives: u64,
}

impl Tally {
    fn add(&mut self, seed: u64, world: &world::World) {
        self.lives += 1;
        for (what, count) in world.counts() {
            *self.counts.entry(what).or_default() += count;
        }
        let broken = world.broken();
        for what in &broken {
            println!("life {seed}: {what}");
        }
        if self.lives.is_multiple_of(100) {
            let broken = self.broken.len() + broken.len();
            println!("{} lives, {broken} broken, {:?}", self.lives, self.counts);
        }
        if is_shown() {
            world.happened().iter().for_each(|line| println!("{line}"));
        }
        self.broken.extend(broken.into_iter().map(|what| format!("life {seed}: {what}")));
    }

    fn judge(self) {
        let Self { counts, broken, lives } = self;
        println!("{lives} lives, {} broken, {counts:?}", broken.len());
        assert!(broken.is_empty(), "{:#?}", &broken[..broken.len().min(40)]);
    }
}

#[test]
fn random_lives_in_memory_do_only_what_was_decided_and_tell_what_was_done() {
    let mut tally = Tally::default();
    for seed in wanted(FEW) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
        let world = runtime.block_on(Life::new(seed, MemoryJournal::new()).lived());
        tally.add(seed, &world);
    }
    tally.judge();
}

#[test]
fn random_lives_on_disk_do_only_what_was_decided_and_tell_what_was_done() {
    let mut tally = Tally::default();
    // A disk is slower than memory.
    let seeds = wanted(FEW);
    let some = (seeds.end - seeds.start).div_ceil(10).min(2_000);
    for seed in seeds.start..seeds.start + some {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build().expect("a runtime");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("chats.db");
        let world = runtime.block_on(async {
            let journal = SqliteJournal::builder().synchronous(SqliteSynchronous::Normal);
            Life::new(seed, journal.open(path).await.expect("a journal")).lived().await
        });
        tally.add(seed, &world);
    }
    tally.judge();
}
