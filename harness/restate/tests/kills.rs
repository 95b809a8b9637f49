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
