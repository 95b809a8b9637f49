//! A life of a conversation and its copies: processes that open them, go on with them, and are killed.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex},
    task::Poll,
};

use fastrand::Rng;
use harness::{
    Agent, CallOutcome, Chat, ErrorKind, Event, Limits, Outcome, Stopped,
    agent::{Action, Chats, Inbox, OpenCall, Settlement, Steering, Steps},
    journal::{ConversationQuery, Envelope, InterruptCause, Journal},
    testing::{FaultyJournal, JournalCall, JournalFault},
};

use crate::{
    people::Person,
    program::{Version, Wanted, objects, ordered},
    truth,
    world::{Asks, Place, World},
};

/// How often a future is polled that nobody drops on purpose.
const PATIENT: usize = 100_000;

type Running<'a> = Pin<Box<dyn Future<Output = Result<(), Stopped>> + Send + 'a>>;

/// The results that a watcher was told of, by the id of their calls.
pub(crate) type Watched = Arc<Mutex<Vec<(String, CallOutcome, String)>>>;

pub(crate) struct Life<J> {
    pub(crate) seed: u64,
    rng: Rng,
    pub(crate) world: World,
    pub(crate) journal: J,
    faulty: FaultyJournal<J>,
    pub(crate) names: Vec<String>,
    version: Version,
    person: Person,
    /// Whether the program has more than one version.
    changes: bool,
    /// Whether the run that is resumed next has to be resumed with a check of its answer.
    verifies: bool,
}

impl<J: Journal + Clone + 'static> Life<J> {
    pub(crate) fn new(seed: u64, journal: J) -> Self {
        let mut rng = Rng::with_seed(seed);
        let (person, changes) = (Person::new(&mut rng), rng.u8(..4) > 0);
        let (world, version) = (World::default(), Version::default());
        let faulty = FaultyJournal::new(journal.clone());
        let names = vec!["chat".to_owned()];
        Self { seed, rng, world, journal, faulty, names, version, person, changes, verifies: false }
    }

    /// Lives it to the end, and returns what has happened.
    pub(crate) async fn lived(mut self) -> World {
        for _ in 0..self.rng.u8(3..10) {
            if self.changes && self.rng.bool() {
                self.version = Version::random(&mut self.rng);
            }
            let version = &self.version;
            self.world.notes(|| format!("-- {version:?}"));
            match self.rng.u8(..10) {
                0 => self.steps().await,
                1 => self.manager().await,
                _ => {
                    let name = self.name();
                    self.process(&name, false).await;
                }
            }
        }
        for name in self.names.clone() {
            for _ in 0..6 {
                if self.process(&name, true).await {
                    break;
                }
            }
        }
        truth::judge(&self).await;
        self.world
    }

    pub(crate) fn agent(&mut self) -> Agent {
        self.version.agent(&mut self.rng, &self.world, &self.person)
    }

    fn breaks(&self, what: String) {
        self.world.breaks(what);
    }

    fn name(&mut self) -> String {
        self.names[self.rng.usize(..self.names.len())].clone()
    }

    /// Polls a future at most so many times. A process whose journal hangs is killed at once.
    async fn polled<T>(
        &self,
        mut future: Pin<&mut (impl Future<Output = T> + ?Sized)>,
        times: usize,
    ) -> Option<T> {
        let mut left = times;
        let before = self.faulty.counts().faults;
        poll_fn(|context| {
            let Some(rest) = left.checked_sub(1) else { return Poll::Ready(None) };
            left = rest;
            match future.as_mut().poll(context) {
                Poll::Ready(done) => Poll::Ready(Some(done)),
                Poll::Pending if self.faulty.counts().faults > before => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    /// Lets the journal fail or hang at one of the next facts.
    fn fails_soon(&mut self) {
        self.faulty.mend();
        if self.rng.u8(..3) > 0 {
            return;
        }
        use JournalFault::{FailAfter, FailBefore, Repeat, StopAfter, StopBefore};
        let faults = [StopBefore, StopAfter, StopBefore, StopAfter, FailBefore, FailAfter, Repeat];
        let fault = faults[self.rng.usize(..faults.len())];
        let number = self.faulty.counts().appends + self.rng.u64(..12);
        self.faulty.fail(JournalCall::Append, number, fault);
    }

    /// Opens a conversation and goes on with it. Returns whether nothing is left to do.
    async fn process(&mut self, name: &str, is_quiet: bool) -> bool {
        let agent = self.agent();
        if is_quiet || self.rng.bool() {
            self.answered_outside(&agent.inbox(&self.journal), is_quiet).await;
        }
        match is_quiet {
            true => self.faulty.mend(),
            false => self.fails_soon(),
        }
        let faults = self.faulty.counts().faults;
        let opening = agent.open(&self.faulty, name);
        let mut chat = match self.polled(Box::pin(opening).as_mut(), PATIENT).await {
            Some(Ok(chat)) => chat,
            Some(Err(err)) if self.faulty.counts().faults == faults => {
                self.breaks(format!("{name} cannot be opened: {err}"));
                return true;
            }
            _ => {
                self.world.count("kills");
                return false;
            }
        };
        let began_with = chat.facts();
        let watched = Watched::default();
        for _ in 0..if is_quiet { 1 } else { self.rng.u8(1..3) } {
            self.between(&mut chat).await;
            let inbox = agent.inbox(&self.journal);
            if !self.runs(&mut chat, &inbox, is_quiet, &watched).await {
                self.world.count("kills");
                return false;
            }
            self.forks(&mut chat).await;
        }
        let is_over = !chat.can_resume();
        drop(chat);
        if self.faulty.counts().faults == faults {
            truth::judge_watched(self, name, began_with, &watched).await;
        }
        is_over
    }

    /// What is said in the chat between two runs.
    async fn between(&mut self, chat: &mut Chat) {
        let name = chat.conversation().unwrap_or_default().to_owned();
        for open in chat.in_doubt() {
            self.world.count("in doubt");
            if let (Some(truth), true) = (self.truth(&name, &open), self.rng.bool()) {
                let _ = self.polled(Box::pin(chat.settle(truth)).as_mut(), PATIENT).await;
            }
        }
        for open in chat.waiting() {
            if self.rng.u8(..3) > 0 {
                continue;
            }
            if let Some(question) = open.question() {
                let approval = self.person.decides(&question);
                let mut decided = Box::pin(chat.decide(approval.clone()));
                match self.polled(decided.as_mut(), PATIENT).await {
                    Some(Ok(())) => self.counts(&approval, true),
                    Some(Err(err)) if err.kind() == ErrorKind::NotWaiting => {}
                    // It may have arrived all the same.
                    _ => self.world.decides(&approval),
                }
            } else if let Some((settlement, happened)) = self.person.settles(&open) {
                let settled = Box::pin(chat.settle(settlement));
                if let Some(Ok(())) = self.polled({ settled }.as_mut(), PATIENT).await {
                    self.orders(&name, &open, happened);
                }
            }
        }
        if self.rng.u8(..6) == 0
            && let Some(grant) = self.rng.choice(chat.grants()).cloned()
        {
            // What was handed over before is the program's to do.
            for open in chat.waiting() {
                if let (Some(what), None) = (ordered(&open), open.question()) {
                    let call = open.call.id().to_owned();
                    self.world.hands_over(Place { conversation: Some(name.clone()), call }, what);
                }
            }
            assert!(chat.revoke(&grant), "it was there");
            if let Some(Ok(())) = self.polled(Box::pin(chat.save()).as_mut(), PATIENT).await {
                self.world.revokes(&name, &grant.call, grant.scope.key());
            }
        }
        if self.rng.u8(..12) == 0 {
            let _ = self.polled(Box::pin(chat.compact()).as_mut(), PATIENT).await;
        }
    }

    /// The program has done what it was handed over.
    fn orders(&self, name: &str, open: &OpenCall, happened: bool) {
        if let (Some(what), true) = (ordered(open), happened) {
            let place =
                Place { conversation: Some(name.to_owned()), call: open.call.id().to_owned() };
            self.world.does(place, what, Asks::Each);
        }
    }

    /// An answer was accepted, or not.
    fn counts(&self, approval: &harness::policy::Approval, is_accepted: bool) {
        let nonce = &approval.question.nonce;
        if !is_accepted {
            return;
        }
        if !self.world.may_count(nonce) {
            self.breaks(format!("an answer counts twice or too late: {approval:?}"));
        }
        self.world.count("late decisions");
        self.world.notes(|| format!("decided {approval:?}"));
        self.world.decides(approval);
        self.world.is_over(nonce);
    }

    /// What has become of a call in doubt.
    fn truth(&self, name: &str, open: &OpenCall) -> Option<Settlement> {
        match open.call.name() {
            "pay" | "fetch" if self.world.ran(Some(name), open.call.id()) == 0 => {
                Some(open.not_happened())
            }
            "pay" | "fetch" => Some(open.succeeded("did")),
            _ => None,
        }
    }

    /// Runs it, perhaps to the end of the run. Returns `false` if the process was killed.
    async fn runs(
        &mut self,
        chat: &mut Chat,
        inbox: &Inbox,
        is_quiet: bool,
        watched: &Watched,
    ) -> bool {
        let steering = Steering::new();
        let is_resumed = chat.can_resume() && (is_quiet || self.rng.u8(..8) > 0);
        let mut run = match is_resumed {
            true => chat.resume(),
            false => chat.send("Go on."),
        };
        match self.rng.u8(..8) {
            0 => run = run.limits(Limits::new().tool_calls(u32::from(self.rng.u8(1..20)))),
            1 => run = run.limits(Limits::new().cost(self.rng.f64() / 100.0)),
            2 => run = run.limits(Limits::new()),
            _ => {}
        }
        if self.rng.u8(..6) == 0 {
            steering.say("Do something else.").expect("a message");
            run = run.steering(&steering);
        }
        let verifies = if is_resumed { self.verifies } else { self.rng.u8(..6) == 0 };
        if verifies {
            run = run.verify(1, objects(&mut self.rng));
        }
        let tells = Arc::clone(watched);
        let run = run.on_event(move |event| {
            if let Event::ToolResult { call, result, .. } = event {
                let told = (call.id().to_owned(), result.outcome(), result.to_text());
                tells.lock().expect("unpoisoned").push(told);
            }
        });
        let mut run: Running<'_> = match self.rng.u8(..6) {
            0 if !is_resumed => {
                let run = run.answer::<Wanted>().into_future();
                Box::pin(async move { run.await.map(drop) })
            }
            _ => {
                let run = run.into_future();
                Box::pin(async move { run.await.map(drop) })
            }
        };
        let times = match is_quiet || self.rng.u8(..4) == 0 {
            true => PATIENT,
            false => [self.rng.usize(1..6), self.rng.usize(1..25)][self.rng.usize(..2)],
        };
        let before = self.rng.usize(..=times.min(20));
        let faults = self.faulty.counts().faults;
        let mut ended = self.polled(run.as_mut(), before).await;
        let hangs = self.faulty.counts().faults > faults;
        let is_met = ended.is_none() && times > before && !hangs;
        if is_met {
            self.answered_outside(inbox, false).await;
            ended = self.polled(run.as_mut(), times - before).await;
        }
        drop(run);
        self.ended(chat, ended, is_met && !is_resumed)
    }

    /// A message that meets an answer from outside of a call that it would end is refused: both cannot hold.
    fn ended(&mut self, chat: &Chat, ended: Option<Result<(), Stopped>>, may_meet: bool) -> bool {
        let outcome = match ended {
            None => return false,
            Some(Ok(())) => Outcome::Answered,
            Some(Err(stopped)) => {
                let error = stopped.error().map(|err| (err.kind(), err.to_string()));
                // A run that was begun in another process is resumed as it was begun.
                if let Some((ErrorKind::Configuration, why)) = &error
                    && why.starts_with("the run was begun ")
                {
                    self.verifies = why.contains("was begun with ");
                    return true;
                }
                let is_known = self.faulty.counts().faults > 0
                    || error.as_ref().is_none_or(|(kind, _)| match kind {
                        ErrorKind::CutOff | ErrorKind::Api => true,
                        ErrorKind::Conflict => may_meet,
                        _ => false,
                    });
                if stopped.outcome() == Outcome::Failed && !is_known {
                    self.breaks(format!("a run fails: {error:?}"));
                }
                stopped.outcome()
            }
        };
        self.world.notes(|| format!("ended as {outcome:?}"));
        self.world.count(match outcome {
            Outcome::Answered => "answered",
            Outcome::Waiting => "waiting",
            Outcome::Limit(_) => "limit",
            Outcome::Unfit => "unfit",
            Outcome::Failed => "failed",
            _ => "other ends",
        });
        if outcome == Outcome::Answered
            && let Err(err) = chat.transcript().sendable()
        {
            self.breaks(format!("it cannot be sent: {err}"));
        }
        true
    }

    async fn forks(&mut self, chat: &mut Chat) {
        if self.rng.u8(..8) > 0 || self.names.len() > 3 || chat.facts() == 0 {
            return;
        }
        let to = format!("fork{}", self.names.len());
        let facts = self.rng.u64(1..=chat.facts());
        let from = chat.conversation().unwrap_or_default().to_owned();
        let faults = self.faulty.counts().faults;
        match self.polled(Box::pin(chat.fork(&to, facts)).as_mut(), PATIENT).await {
            Some(Ok(fork)) => {
                drop(fork);
                self.world.count("forks");
            }
            Some(Err(err))
                if self.faulty.counts().faults == faults && err.kind() != ErrorKind::Conflict =>
            {
                return self.breaks(format!("{from} cannot be copied: {err}"));
            }
            _ if self.journal.read(&to, 0).await.is_ok_and(|it| it.facts.is_empty()) => return,
            _ => {}
        }
        self.world.forks(&from, &to);
        self.names.push(to);
    }

    /// People answer what waits in any conversation, or in some, as far as they like.
    async fn answered_outside(&mut self, inbox: &Inbox, in_all: bool) {
        let all = self.journal.list(&ConversationQuery::new()).await.expect("a list");
        for name in all.conversations.into_iter().map(|summary| summary.id) {
            if !in_all && self.rng.u8(..3) > 0 {
                continue;
            }
            let waiting = match inbox.waiting(&name).await {
                Ok(waiting) => waiting,
                Err(err) => return self.breaks(format!("{name} cannot be looked at: {err}")),
            };
            for open in waiting {
                if self.rng.u8(..4) == 0 {
                    continue;
                }
                if let Some(question) = open.question() {
                    let one = self.person.decides(&question);
                    let two = self.person.decides(&question);
                    if self.rng.u8(..4) == 0 {
                        let other = inbox.clone();
                        let both = tokio::join!(
                            inbox.decide(&name, one.clone()),
                            other.decide(&name, two.clone())
                        );
                        self.counts(&one, both.0.is_ok());
                        self.counts(&two, both.1.is_ok());
                    } else {
                        let said = inbox.decide(&name, one.clone()).await;
                        self.counts(&one, said.is_ok());
                    }
                } else if let Some((settlement, happened)) = self.person.settles(&open) {
                    let first = inbox.settle(&name, settlement.clone()).await;
                    if first.is_ok() {
                        self.orders(&name, &open, happened);
                    }
                    if first.is_ok() && inbox.settle(&name, settlement).await.is_ok() {
                        self.breaks(format!("{} is settled twice", open.call.id()));
                    }
                }
            }
        }
        // Somebody presses a button of an old page.
        if let Some((name, approval)) = self.person.earlier() {
            let said = inbox.decide(&name, approval.clone()).await;
            self.counts(&approval, said.is_ok());
        }
    }

    /// An engine goes on with it by its steps.
    async fn steps(&mut self) {
        let (agent, name) = (self.agent(), self.name());
        let Ok(_hold) = self.journal.hold(&name).await else { return };
        let facts = self.journal.read(&name, 0).await.expect("facts").facts;
        let mut steps = match agent.steps(&*name, facts) {
            Ok(steps) => steps,
            Err(err) => return self.breaks(format!("{name} has no steps: {err}")),
        };
        self.world.count("engines");
        for _ in 0..self.rng.u8(1..30) {
            let next = steps.next();
            let done = match &next {
                Action::AwaitUser | Action::Finish(_) => match steps.resume().await {
                    Ok(facts) => Some(Ok(facts)),
                    Err(_) => Some(steps.say("Go on.".into()).await),
                },
                Action::AwaitAnswers => self.answers_step(&name, &steps).await.map(Ok),
                _ => {
                    let times = if self.rng.u8(..5) == 0 { self.rng.usize(1..5) } else { PATIENT };
                    self.polled(Box::pin(steps.act()).as_mut(), times).await
                }
            };
            match done {
                Some(Ok(facts)) => self.keeps(&name, &mut steps, facts).await,
                // It was begun with a check of its answer, which these steps do not have.
                Some(Err(err)) if err.kind() == ErrorKind::Configuration => return,
                Some(Err(err)) => return self.breaks(format!("{next:?} fails: {err}")),
                // It was killed, or it gives up what it has begun.
                None if matches!(next, Action::AwaitAnswers) || self.rng.bool() => return,
                None => match steps.give_up(InterruptCause::Program) {
                    Ok(facts) => self.keeps(&name, &mut steps, facts).await,
                    Err(err) => return self.breaks(format!("{next:?} is not given up: {err}")),
                },
            }
        }
    }

    /// Somebody answers a call, or its time is over.
    async fn answers_step(&mut self, name: &str, steps: &Steps) -> Option<Vec<Envelope>> {
        let waiting = steps.waiting();
        let open = self.rng.choice(&waiting)?;
        if self.rng.u8(..8) == 0 {
            return steps.expired(open.call.id()).ok();
        }
        if let Some(question) = open.question() {
            let approval = self.person.decides(&question);
            let decided = steps.decided(approval.clone());
            self.counts(&approval, decided.is_ok());
            return match decided {
                Ok(facts) => Some(facts),
                Err(_) => steps.expired(open.call.id()).ok(),
            };
        }
        let (settlement, happened) = self.person.settles(open)?;
        let facts = steps.settled(settlement).ok()?.await.ok()?;
        self.orders(name, open, happened);
        Some(facts)
    }

    async fn keeps(&self, name: &str, steps: &mut Steps, facts: Vec<Envelope>) {
        let head = self.journal.read(name, 0).await.expect("facts").head;
        assert_eq!(head.facts, steps.facts().len() as u64, "nobody else goes on with it");
        self.journal.append(name, head, &facts).await.expect("kept");
        if let Err(err) = steps.apply(facts) {
            self.breaks(format!("facts of steps do not follow: {err}"));
        }
    }

    /// A manager of conversations runs it, with a watcher from before to the end.
    async fn manager(&mut self) {
        let (agent, name) = (self.agent(), self.name());
        let chats = Chats::new(&agent, &self.journal);
        let began_with = self.journal.read(&name, 0).await.expect("facts").facts.len() as u64;
        let watcher = match chats.watch(&name).await {
            Ok(watcher) => watcher,
            Err(err) => return self.breaks(format!("{name} cannot be watched: {err}")),
        };
        self.world.count("managers");
        let sending = match self.rng.bool() {
            true => chats.resume(&name),
            false => chats.send(&name, "Go on."),
        };
        let Ok(run) = sending.await else { return };
        match self.rng.bool() {
            true => drop(run.finish().await),
            false => {
                for _ in 0..self.rng.u8(..40) {
                    tokio::task::yield_now().await;
                }
                drop(run);
            }
        }
        chats.close().await;
        truth::judge_watcher(self, &name, began_with, watcher).await;
    }
}
