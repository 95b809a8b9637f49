//! The same by the public steps: an engine that keeps what each action came to, and is killed before and
//! after, does an action again or twice at once, drops it, stops the run, and answers late.

use std::pin::Pin;

use harness::{
    Agent, ErrorKind, Outcome,
    agent::{Action, Steps},
    journal::{Awaited, Decision, Envelope, Fact, InterruptCause, Journal},
    policy::Approval,
};

use super::world::{Laws, Now};
use super::{Answers, PATIENT, Story, apart, poll_once, polled, wanted};

type Act = Pin<Box<dyn Future<Output = Result<Vec<Envelope>, harness::Error>> + Send>>;

/// The engine: its store is the journal of the story.
struct Engine {
    story: Story,
    actions: u64,
    /// Actions of this life that somebody else still does.
    elsewhere: Vec<Act>,
}

impl Engine {
    fn steps(&mut self, laws: &Laws) -> Steps {
        let agent: Agent = self.story.agent(laws);
        self.story.world.holds(Now { laws: laws.clone(), ..Now::default() });
        let facts = self.story.facts("chat");
        agent.steps("chat", facts).expect("facts that follow")
    }

    /// Keeps facts, and lets them take effect as they are read back.
    async fn keeps(&mut self, steps: &mut Steps, facts: Vec<Envelope>) {
        let kept = serde_json::to_string(&facts).expect("JSON");
        let facts: Vec<Envelope> = serde_json::from_str(&kept).expect("facts");
        let after = self.story.kept.read("chat", 0).await.expect("facts").head;
        assert_eq!(after.facts, steps.facts().len() as u64, "{}", self.story.seed);
        self.story.kept.append("chat", after, &facts).await.expect("kept");
        steps.apply(facts).unwrap_or_else(|err| panic!("{}: {err}", self.story.seed));
    }

    fn breaks(&self, what: String) {
        self.story.world.breaks(what);
    }

    /// A life: it goes on from what is kept, and is killed.
    async fn life(&mut self) {
        let laws = Laws::random(&mut self.story.rng, 2);
        let mut steps = self.steps(&laws);
        for _ in 0..self.story.rng.u8(1..40) {
            let is_over = match steps.next() {
                Action::AwaitUser | Action::Finish(_) => self.begins(&mut steps).await,
                Action::AwaitAnswers => self.waits(&mut steps).await,
                _ => self.acts(&mut steps).await,
            };
            self.late(&steps);
            if is_over {
                break;
            }
        }
        self.waits_for_others().await;
    }

    async fn begins(&mut self, steps: &mut Steps) -> bool {
        let resumed = match self.story.rng.bool() {
            true => steps.resume().await.ok(),
            false => None,
        };
        match resumed {
            Some(facts) => self.keeps(steps, facts).await,
            None => self.says(steps).await,
        }
        false
    }

    async fn says(&mut self, steps: &mut Steps) {
        match steps.say("Go on.".into()).await {
            Ok(facts) => self.keeps(steps, facts).await,
            Err(err) if err.is_busy() && !self.elsewhere.is_empty() => {
                self.waits_for_others().await
            }
            Err(err) => self.breaks(format!("no run begins: {err}")),
        }
    }

    async fn waits_for_others(&mut self) {
        for act in std::mem::take(&mut self.elsewhere) {
            let _ = polled(act, PATIENT).await;
        }
    }

    /// Somebody answers, the time is over, the run is stopped, or the user says something.
    async fn waits(&mut self, steps: &mut Steps) -> bool {
        match self.story.rng.u8(..8) {
            0 => {
                let facts = steps.stop(InterruptCause::Program).expect("a run goes on");
                self.keeps(steps, facts).await;
            }
            1 => {
                let waits = steps.waiting().remove(0);
                let facts = steps.expired(waits.call.id()).expect("it waits");
                self.keeps(steps, facts).await;
            }
            2 => self.says(steps).await,
            3 => return true,
            _ => self.answers(steps).await,
        }
        false
    }

    async fn answers(&mut self, steps: &mut Steps) {
        for open in steps.waiting() {
            if let Some(question) = open.question() {
                let answer =
                    [Answers::Yes, Answers::No, Answers::Always][self.story.rng.usize(..3)];
                let approval = answer.to(&question);
                match steps.decided(approval.clone()) {
                    Ok(facts) => {
                        self.keeps(steps, facts).await;
                        self.refuses(steps, &approval, "a second answer");
                        self.story.accepted.push(("chat".to_owned(), approval));
                    }
                    // It waited until a time that is over.
                    Err(err) if err.kind() == ErrorKind::NotWaiting => {
                        let facts = steps.expired(open.call.id()).expect("it waits");
                        self.keeps(steps, facts).await;
                        self.refuses(steps, &approval, "an answer after its time");
                    }
                    Err(err) => self.breaks(format!("an answer fails: {err}")),
                }
                continue;
            }
            let asks =
                matches!(open.wait.as_ref().map(|it| &it.awaited), Some(Awaited::Answer { .. }));
            let (settlement, outcome) = match asks {
                true => (open.answered("the first"), None),
                false => (open.succeeded("here"), Some(harness::CallOutcome::Succeeded)),
            };
            let facts = steps.settled(settlement.clone()).expect("it waits").await.expect("facts");
            self.keeps(steps, facts).await;
            if steps.settled(settlement).is_ok() {
                self.breaks(format!("{} is settled twice", open.call.id()));
            }
            if let Some(outcome) = outcome {
                self.story.settled.insert(("chat".to_owned(), open.call.id().to_owned()), outcome);
            }
        }
    }

    fn refuses(&self, steps: &Steps, approval: &Approval, what: &str) {
        match steps.decided(approval.clone()) {
            Err(err) if err.kind() == ErrorKind::NotWaiting => {}
            other => self.breaks(format!("{what} counts: {other:?}")),
        }
    }

    /// An approval that counted once never counts again.
    fn late(&mut self, steps: &Steps) {
        if let Some((_, approval)) = self.story.rng.choice(&self.story.accepted).cloned() {
            self.refuses(steps, &approval, "an old answer");
        }
    }

    async fn acts(&mut self, steps: &mut Steps) -> bool {
        self.actions += 1;
        match self.story.rng.u8(..14) {
            // Killed before it is done.
            0 => return true,
            // Killed before it is kept.
            1 => {
                let _ = polled(steps.act(), PATIENT).await;
                return true;
            }
            // Dropped in the middle, and given up or done again.
            2 => {
                let times = self.story.rng.usize(1..6);
                if polled(steps.act(), times).await.is_none() && self.story.rng.bool() {
                    let facts = steps.give_up(InterruptCause::Program).expect("a run goes on");
                    self.keeps(steps, facts).await;
                    self.stopped(steps);
                    return false;
                }
            }
            // Done twice at once: either is kept.
            3 => {
                let both = tokio::join!(steps.act(), steps.act());
                let (one, two) = match self.story.rng.bool() {
                    true => both,
                    false => (both.1, both.0),
                };
                if let Ok(facts) = one.or(two) {
                    self.keeps(steps, facts).await;
                }
                return false;
            }
            // Somebody else still does it.
            4 => {
                let mut act: Act = Box::pin(steps.act());
                for _ in 0..self.story.rng.usize(..3) {
                    if poll_once(act.as_mut()).await.is_some() {
                        return false;
                    }
                }
                self.elsewhere.push(act);
            }
            5 => {
                let facts = steps.stop(InterruptCause::Program).expect("a run goes on");
                self.keeps(steps, facts).await;
                self.stopped(steps);
                return false;
            }
            6 => {
                for open in steps.in_doubt() {
                    let said = self.story.truth(&open);
                    // Somebody else may be at it.
                    if self.elsewhere.is_empty() {
                        let facts =
                            steps.settled(said).expect("it is in doubt").await.expect("facts");
                        self.keeps(steps, facts).await;
                    }
                }
                if !matches!(steps.next(), Action::FindOut(_)) {
                    return false;
                }
            }
            7 => {
                self.says(steps).await;
                return false;
            }
            _ => {}
        }
        self.act(steps).await;
        false
    }

    /// Nobody answers a run that was stopped.
    fn stopped(&self, steps: &Steps) {
        for open in steps.waiting() {
            if let Some(question) = open.question() {
                self.refuses(steps, &question.yes(), "an answer to a run that was stopped");
            }
        }
    }

    async fn act(&mut self, steps: &mut Steps) {
        let next = steps.next();
        match steps.act().await {
            Ok(facts) if facts.is_empty() => self.breaks(format!("nothing comes of {next:?}")),
            Ok(facts) => self.keeps(steps, facts).await,
            // Another future does it: whoever has that comes to its end first.
            Err(err) if err.is_busy() && !self.elsewhere.is_empty() => {
                self.waits_for_others().await;
            }
            Err(err) => self.breaks(format!("{next:?} fails: {err}")),
        }
    }

    /// A life without a fault goes on to the end.
    async fn ends(&mut self) {
        let mut steps = self.steps(&Laws::default());
        let mut goes_on = true;
        for _ in 0..400 {
            match steps.next() {
                Action::AwaitUser | Action::Finish(Outcome::Answered) => {
                    goes_on = false;
                    break;
                }
                Action::Finish(outcome) => {
                    if let Outcome::Limit(_) = outcome {
                        steps = steps.limits(harness::Limits::new());
                    }
                    let facts = steps.resume().await.expect("it stopped");
                    self.keeps(&mut steps, facts).await;
                }
                Action::AwaitAnswers => self.answers(&mut steps).await,
                Action::FindOut(_) => {
                    let open = steps.in_doubt().remove(0);
                    let said = steps
                        .settled(self.story.truth(&open))
                        .expect("it is in doubt")
                        .await
                        .expect("facts");
                    self.keeps(&mut steps, said).await;
                }
                _ => self.act(&mut steps).await,
            }
        }
        if goes_on {
            self.breaks(format!("it comes to no end: {:?}", steps.next()));
            return;
        }
        self.story.judge(steps.transcript());
    }
}

#[test]
fn random_engines_tell_what_happened_and_do_nothing_twice() {
    let (mut broken, mut actions) = (Vec::new(), 0);
    for seed in wanted(12) {
        let engine = apart(async {
            let story = Story::new(seed);
            let mut engine = Engine { story, actions: 0, elsewhere: Vec::new() };
            for _ in 0..6 {
                engine.life().await;
            }
            engine.ends().await;
            engine
        });
        actions += engine.actions;
        let those = engine.story.world.broken();
        engine.story.shows();
        broken.extend(those.into_iter().map(|what| format!("{seed}: {what}")));
    }
    println!("{actions} actions, {} broken", broken.len());
    assert!(broken.is_empty(), "{:#?}", &broken[..broken.len().min(40)]);
}

/// A store that repeats a fact, loses one or changes their order is refused, or what it says is gone on
/// with: no call starts a second time whose start is there.
#[test]
fn random_stores_that_lie_are_refused_or_gone_on_with() {
    let (mut refused, mut gone_on) = (0, 0);
    for seed in wanted(6) {
        let (no, yes) = apart(lies(seed));
        refused += no;
        gone_on += yes;
    }
    println!("{refused} refused, {gone_on} gone on with");
}

async fn lies(seed: u64) -> (u64, u64) {
    let (mut refused, mut gone_on) = (0, 0);
    let story = Story::new(seed);
    let mut engine = Engine { story, actions: 0, elsewhere: Vec::new() };
    engine.life().await;
    let facts = engine.story.facts("chat");
    let told = |at: usize, how: u64| {
        let mut facts = facts.clone();
        match how {
            0 => facts.insert(at, facts[at].clone()),
            1 => drop(facts.remove(at)),
            _ => facts.swap(at, at.saturating_sub(1)),
        }
        facts
    };
    for (at, how) in (0..facts.len()).flat_map(|at| (0..3).map(move |how| (at, how))) {
        let facts = told(at, how);
        let world = super::World::default();
        let mut rng = fastrand::Rng::with_seed(seed);
        let model = super::model(seed, engine.story.names.clone());
        let agent = Agent::builder(model).tools(super::tools(&mut rng, &world)).build();
        let mut steps = match agent.expect("an agent").steps("chat", facts.clone()) {
            Ok(steps) => steps,
            Err(err) => {
                assert_eq!(err.kind(), ErrorKind::Journal, "{seed} {at} {how}");
                refused += 1;
                continue;
            }
        };
        gone_on += 1;
        for _ in 0..100 {
            match steps.next() {
                Action::AwaitUser | Action::Finish(_) | Action::AwaitAnswers => break,
                next => {
                    let came = steps.act().await.expect("facts");
                    assert!(!came.is_empty(), "{seed} {at} {how}: nothing comes of {next:?}");
                    steps.apply(came).expect("it follows");
                }
            }
        }
        let next = steps.next();
        let is_over = matches!(next, Action::AwaitUser | Action::Finish(_) | Action::AwaitAnswers);
        assert!(is_over, "{seed} {at} {how}: it comes to no end: {next:?}");
        for effect in world.all() {
            let starts = |fact: &Envelope| matches!(fact.fact(), Ok(Fact::CallStarted { call }) if call == effect.call);
            let may = effect.repeats || effect.tool == "look" || !facts.iter().any(starts);
            let cleared = steps.facts()[facts.len()..].iter().any(
                |fact| matches!(fact.fact(), Ok(Fact::CallCleared { call, .. }) if call == effect.call),
            );
            let answered = facts.iter().any(|fact| {
                matches!(fact.fact(), Ok(Fact::CallAnswered { call, .. }) if call == effect.call)
            });
            assert!(may || cleared || answered, "{seed} {at} {how}: {effect:?} runs again");
        }
    }
    (refused, gone_on)
}

/// What has happened, apart from when and in which order.
fn kinds(facts: &[Envelope]) -> Vec<String> {
    let kind = |fact: &Envelope| match fact.fact().expect("a fact") {
        Fact::UserSaid { limits, .. } => format!("said {limits:?}"),
        Fact::ModelReplied { stop, usage, .. } => format!("replied {stop:?} {usage:?}"),
        Fact::Interrupted { usage, cause, asked, .. } => {
            format!("interrupted {usage:?} {cause:?} {asked}")
        }
        Fact::CallDecided { call, decision: Decision::Allow { side_effects, repeat, .. } } => {
            format!("allowed {call} {side_effects:?} {repeat:?}")
        }
        Fact::CallDecided { call, decision: Decision::Deny { reason, .. } } => {
            format!("denied {call} {reason}")
        }
        Fact::CallStarted { call } => format!("started {call}"),
        Fact::CallWaits { call, wait } => format!("{call} waits until {:?}", wait.until),
        Fact::CallFinished { result, .. } => {
            format!("{} is {:?}", result.call_id(), result.outcome())
        }
        other => format!("{other:?}"),
    };
    let mut kinds: Vec<String> = facts.iter().map(kind).collect();
    kinds.sort();
    kinds
}

/// Both drivers come to the same facts, in whatever order the calls of one answer end: in run 1,462 a denial
/// and a result that came early are written in another order.
#[test]
fn random_runs_come_to_the_same_facts_by_both_drivers() {
    for seed in wanted(12).chain([1462]) {
        let (one, two) = apart(async {
            let mut story = Story::new(seed);
            let laws = Laws::random(&mut story.rng, 2);
            story.world.holds(Now { laws: laws.clone(), ..Now::default() });
            let agent = story.agent(&laws);
            let mut chat = agent.open(&story.kept, "chat").await.expect("new");
            let _ = chat.send("Go on.").await;
            let one = kinds(&story.facts("chat"));

            let mut engine = Engine { story: Story::new(seed), actions: 0, elsewhere: Vec::new() };
            let laws = Laws::random(&mut engine.story.rng, 2);
            let mut steps = engine.steps(&laws);
            engine.says(&mut steps).await;
            while !matches!(steps.next(), Action::Finish(_) | Action::AwaitAnswers) {
                engine.act(&mut steps).await;
            }
            assert_eq!(engine.story.world.broken(), Vec::<String>::new(), "{seed}");
            (one, kinds(steps.facts()))
        });
        assert_eq!(one, two, "{seed}");
    }
}
