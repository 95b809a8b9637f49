//! The worker is killed at each point that a run passes, and the engine in the middle: nothing that changes
//! something happens twice, nothing is lost, and the model is told the truth.
//!
//! `KILLS` says how many conversations are killed at random, beside one for each point; 20 unless set.

mod rig;

use std::env;

use rig::{Engine, Worker, answered, at_rest, ends, harm, says_yes, until};

/// A run in which each kind of step and of tool is met, until the model has answered.
async fn run(engine: &Engine, name: &str, kill_at: &str, early: bool) -> (Worker, Vec<String>) {
    let more: &[(&str, &str)] = if early { &[("EARLY", "1")] } else { &[] };
    let worker = engine.worker(kill_at, more);
    engine.register().await;
    let chat = engine.chat(name);
    let _yes = says_yes(&chat);
    chat.start("Go.", name).await.expect("it is taken");
    let facts = at_rest(&chat, answered).await;
    let mut wrong = harm(&facts, &worker.read("effects"));
    if ends(&facts).len() != 7 {
        wrong.push(format!("{} of 7 calls", ends(&facts).len()));
    }
    (worker, wrong)
}

fn of_environment(name: &str, otherwise: usize) -> usize {
    env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(otherwise)
}

#[tokio::test]
async fn a_worker_that_dies_at_any_point_repeats_nothing_and_loses_nothing() {
    let Some(engine) = Engine::start().await else { return };
    let mut deaths = 0;
    let mut wrong = Vec::new();
    for early in [false, true] {
        // Beyond all points nobody dies.
        let (calm, harm) = run(&engine, &format!("calm {early}"), "100000", early).await;
        assert!(harm.is_empty(), "{harm:?}");
        let points = calm.read("points");
        drop(calm);
        assert!(points.len() > 40, "{points:?}");
        for (at, point) in points.iter().enumerate() {
            let name = format!("point {early} {at}");
            let (worker, harm) = run(&engine, &name, &(at + 1).to_string(), early).await;
            deaths += worker.deaths();
            wrong.extend(harm.into_iter().map(|harm| format!("killed at {at} {point}: {harm}")));
        }
    }
    eprintln!("{deaths} kills at points: {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(deaths > 80, "{deaths}");
}

#[tokio::test]
async fn a_worker_that_dies_again_and_again_comes_to_the_end() {
    let Some(engine) = Engine::start().await else { return };
    let (mut deaths, mut wrong, mut chance) = (0, Vec::new(), 17_u64);
    let mut random = |below: u64| {
        // Numbers that are the same each time.
        chance =
            chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (chance >> 33) % below
    };
    for turn in 0..of_environment("KILLS", 20) {
        let mut at = 0;
        let points: Vec<String> = (0..3)
            .map(|_| {
                at += 1 + random(25);
                at.to_string()
            })
            .collect();
        let kill_at = points.join(",");
        let (worker, harm) = run(&engine, &format!("again {turn}"), &kill_at, turn % 2 == 0).await;
        deaths += worker.deaths();
        wrong.extend(harm.into_iter().map(|harm| format!("killed at {kill_at}: {harm}")));
    }
    eprintln!("{deaths} kills again and again: {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn the_engine_dies() {
    let Some(mut engine) = Engine::start().await else { return };
    let mut wrong = Vec::new();
    let dies = of_environment("ENGINE_KILLS", 6);
    for turn in 0..dies {
        let worker = engine.worker("100000", &[]);
        engine.register().await;
        let chat = engine.chat(&format!("engine {turn}"));
        let yes = says_yes(&chat);
        chat.start("Go.", "one").await.expect("it is taken");
        let far = || worker.read("points").len() > turn * 40 / dies;
        until("it comes so far", async || far().then_some(())).await;
        engine.dies().await;
        let facts = at_rest(&chat, answered).await;
        drop(yes);
        wrong.extend(harm(&facts, &worker.read("effects")));
    }
    eprintln!("{dies} kills of the engine: {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn both_workers_die_from_outside() {
    let Some(engine) = Engine::start().await else { return };
    let (mut deaths, mut wrong) = (0, Vec::new());
    for turn in 0..of_environment("KILLS", 20) / 4 {
        let first = engine.worker("100000", &[]);
        let second = engine.beside(&first);
        engine.register().await;
        let chat = engine.chat(&format!("both {turn}"));
        let yes = says_yes(&chat);
        chat.start("Go.", "one").await.expect("it is taken");
        for passed in [3 + turn % 7, 12 + turn % 5, 25 + turn % 11] {
            let far = || first.read("points").len() >= passed;
            until("it comes so far", async || far().then_some(())).await;
            first.dies().await;
            second.dies().await;
        }
        let facts = at_rest(&chat, answered).await;
        drop(yes);
        deaths += first.deaths() + second.deaths();
        wrong.extend(harm(&facts, &first.read("effects")));
    }
    eprintln!("{deaths} kills of both workers: {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A tool that writes one line, and the process dies inside the tool after it, or before the model's next
/// answer is asked for.
#[tokio::test]
async fn what_the_engine_alone_repeats_happens_once() {
    let Some(engine) = Engine::start().await else { return };
    let mut table = Vec::new();
    for (at, alone_at) in
        [("in note after it#1", "in note after it#1"), ("before ask#2", "before ask#1")]
    {
        let (mut ours, mut alone) = (Vec::new(), Vec::new());
        for turn in 0..5 {
            let worker = engine.worker(alone_at, &[]);
            engine.register().await;
            engine.alone(&format!("{turn}-{}", table.len())).await;
            alone.push((worker.deaths(), worker.read("effects").len()));
            drop(worker);
            let worker = engine.worker(at, &[]);
            engine.register().await;
            let chat = engine.chat(&format!("{turn} {at}"));
            chat.send("Write.", "one").await.expect("an end");
            ours.push((worker.deaths(), worker.read("effects").len()));
        }
        eprintln!("{at}: the engine alone {alone:?}, this {ours:?} (deaths, effects)");
        table.push((ours, alone));
    }
    assert!(table.iter().all(|(ours, _)| ours.iter().all(|it| *it == (1, 1))), "{table:?}");
    assert!(table[0].1.iter().all(|it| *it == (1, 2)), "{table:?}");
    assert!(table[1].1.iter().all(|it| *it == (1, 1)), "{table:?}");
}
