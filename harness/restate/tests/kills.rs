//! A worker, all workers or the engine is killed at each point that a run passes: nothing that changes something
//! happens twice, nothing is lost, the model is told the truth, and the run comes to its end.
//!
//! `KILLS` says how many conversations are killed at random, 20 unless set. `SWEEP=1` kills at all points of all
//! stories; else all workers and the engine are killed at each seventh point, and one worker at each second one.

mod rig;
mod script;

use std::{collections::BTreeMap, env};

use harness::{journal::Envelope, testing::Harm};
use harness_restate::Conversation;
use rig::{Engine, Worker, answered, ends, entries, harm_at_rest, says_yes, until};
use script::kind_of;

/// What is said in one conversation: each kind of step and of tool is met in one of them.
const STORIES: [(&str, bool, &[&str]); 7] = [
    ("go", false, &["Go."]),
    ("go early", true, &["Go."]),
    ("cleared", false, &["Look."]),
    ("kept apart", false, &["Huge."]),
    ("typed", false, &["Which book?"]),
    ("searched", false, &["Search."]),
    ("summed up", false, &TOLD),
];
const TOLD: [&str; 12] = [
    "Tell 1.", "Tell 2.", "Tell 3.", "Tell 4.", "Tell 5.", "Tell 6.", "Tell 7.", "Tell 8.",
    "Tell 9.", "Tell 10.", "Tell 11.", "Tell 12.",
];

/// What a sweep has come to.
#[derive(Default)]
struct Swept {
    kills: usize,
    at: BTreeMap<String, usize>,
    wrong: Vec<(Harm, String)>,
}

impl Swept {
    fn took(&mut self, at: &str, kills: usize, wrong: Vec<(Harm, String)>) {
        self.kills += kills;
        *self.at.entry(at.to_owned()).or_default() += kills;
        self.wrong
            .extend(wrong.into_iter().map(|(harm, what)| (harm, format!("killed {at}: {what}"))));
    }

    #[track_caller]
    fn assert_clean(&self, who: &str) {
        let count = |harm| self.wrong.iter().filter(|(it, _)| *it == harm).count();
        eprintln!(
            "{who}: {} kills, {} repeated, {} lost, {} untrue, {} stuck; at {:?}",
            self.kills,
            count(Harm::Repeated),
            count(Harm::Lost),
            count(Harm::Untrue),
            count(Harm::Stuck),
            self.at,
        );
        assert!(self.wrong.is_empty(), "{:#?}", self.wrong);
    }
}

/// Says all of a story, and waits for its end; what is said before the last is answered by then.
async fn tells(
    chat: &Conversation,
    worker: &Worker,
    texts: &[&str],
) -> (Vec<Envelope>, Vec<(Harm, String)>) {
    let (mut facts, mut wrong) = (Vec::new(), Vec::new());
    for (turn, text) in texts.iter().enumerate() {
        let chat = chat.clone().kind(kind_of(text));
        until("it is taken", async || chat.start(*text, &format!("{turn}")).await.ok()).await;
        let came;
        let said = |facts: &[Envelope]| {
            let is_said = |it: &&harness::journal::Fact| {
                matches!(it, harness::journal::Fact::UserSaid { .. })
            };
            entries(facts).iter().filter(is_said).count() > turn && answered(facts)
        };
        (facts, came) = harm_at_rest(&chat, worker, said).await;
        wrong.extend(came);
    }
    (facts, wrong)
}

/// A run in which a worker dies at these points, until the model has answered.
async fn run(
    engine: &Engine,
    name: &str,
    kill_at: &str,
    early: bool,
    texts: &[&str],
) -> (Worker, Vec<Envelope>, Vec<(Harm, String)>) {
    let more: &[(&str, &str)] = if early { &[("EARLY", "1")] } else { &[] };
    let worker = engine.worker(kill_at, more);
    engine.register().await;
    let chat = engine.chat(name);
    let _yes = says_yes(&chat);
    let (facts, wrong) = tells(&chat, &worker, texts).await;
    (worker, facts, wrong)
}

fn of_environment(name: &str, otherwise: usize) -> usize {
    env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(otherwise)
}

fn each(otherwise: usize) -> usize {
    if env::var_os("SWEEP").is_some() { 1 } else { otherwise }
}

/// The points that a story passes when nobody dies. Of one that is long, those of its last turns.
async fn points(engine: &Engine, number: usize) -> Vec<(usize, String)> {
    let (name, early, texts) = STORIES[number];
    let (calm, facts, wrong) = run(engine, &format!("calm {name}"), "100000", early, texts).await;
    assert!(wrong.is_empty(), "{wrong:?}");
    let meets = match name {
        "go" | "go early" => "call_waits",
        "cleared" => "context_cleared",
        "kept apart" => "is kept as",
        "typed" => "answer_rejected",
        "searched" => "tools_found",
        _ => "context_compacted",
    };
    let told = |fact: &harness::journal::Fact| serde_json::to_string(fact).expect("JSON");
    let met = entries(&facts).iter().any(|fact| told(fact).contains(meets));
    assert!(met, "{name} comes to no {meets}");
    let all = calm.read("points").into_iter().enumerate().map(|(at, point)| (at + 1, point));
    let mut all: Vec<_> = all.collect();
    all.drain(..all.len().saturating_sub(70));
    all
}

#[tokio::test]
async fn a_worker_that_dies_at_any_point_repeats_nothing_and_loses_nothing() {
    let Some(engine) = Engine::start().await else { return };
    let mut swept = Swept::default();
    for (number, (name, early, texts)) in STORIES.into_iter().enumerate() {
        for (at, point) in points(&engine, number).await.into_iter().step_by(each(2)) {
            let chat = format!("{name} {at}");
            let (worker, _, wrong) = run(&engine, &chat, &at.to_string(), early, texts).await;
            swept.took(&point, worker.deaths(), wrong);
        }
    }
    swept.assert_clean("a worker");
    assert!(swept.kills > 100, "{}", swept.kills);
}

/// Workers or the engine are killed while a run is held at a point.
async fn killed_while_held(who: &str, numbers: &[usize], mut engine: Engine) {
    let mut swept = Swept::default();
    for number in numbers {
        let (name, early, texts) = STORIES[*number];
        for (at, point) in points(&engine, *number).await.into_iter().step_by(each(7)) {
            let hold = at.to_string();
            let mut more = vec![("HOLD_AT", hold.as_str())];
            more.extend(early.then_some(("EARLY", "1")));
            let first = engine.worker("100000", &more);
            let second = (who == "both workers").then(|| engine.beside(&first, &more));
            engine.register().await;
            let chat = engine.chat(&format!("{who} {name} {at}"));
            let yes = says_yes(&chat);
            let (told, first_ref) = (chat.clone(), &first);
            let story = tells(&told, first_ref, texts);
            let kills = async {
                let is_held = async || (!first.read("held").is_empty()).then_some(());
                until("it is held", is_held).await;
                match &second {
                    Some(second) => {
                        first.dies().await;
                        second.dies().await;
                        first.releases();
                        let dead =
                            async || (first.deaths() > 0 && second.deaths() > 0).then_some(());
                        until("both are dead", dead).await;
                        2
                    }
                    None => {
                        // What is held ends while nobody is there to keep it, or when the engine is back.
                        let done = || {
                            if at % 2 == 0 {
                                first.releases();
                            }
                        };
                        match who {
                            "the engine" => engine.dies_while(done).await,
                            _ => engine.leader_dies_while(done).await,
                        }
                        first.releases();
                        1
                    }
                }
            };
            let ((_, wrong), kills) = tokio::join!(story, kills);
            drop(yes);
            swept.took(&point, kills, wrong);
        }
    }
    swept.assert_clean(who);
}

#[tokio::test]
async fn all_workers_die_at_any_point() {
    let Some(engine) = Engine::start().await else { return };
    killed_while_held("both workers", &[0, 2, 3, 4, 5], engine).await;
}

#[tokio::test]
async fn the_engine_dies_at_any_point() {
    let Some(engine) = Engine::start().await else { return };
    killed_while_held("the engine", &[0, 3, 4, 5], engine).await;
}

#[tokio::test]
async fn the_leader_of_three_nodes_dies_at_any_point() {
    let Some(engine) = Engine::cluster().await else { return };
    killed_while_held("the leader of three", &[0], engine).await;
}

#[tokio::test]
async fn a_worker_that_dies_again_and_again_comes_to_the_end() {
    let Some(engine) = Engine::start().await else { return };
    let (mut swept, mut chance) = (Swept::default(), 17_u64);
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
        let (name, early) = (format!("again {turn}"), turn % 2 == 0);
        let (worker, facts, wrong) = run(&engine, &name, &kill_at, early, &["Go."]).await;
        assert_eq!(ends(&facts).len(), 7, "all calls are there: {kill_at}");
        swept.took("again and again", worker.deaths(), wrong);
    }
    swept.assert_clean("a worker, three times in one run");
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
