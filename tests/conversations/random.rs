//! Random conversations through several processes, with tools that change from one to the next, people
//! who answer at any time, journals that fail, copies, and runs that are dropped at any poll. Whatever
//! happens, nothing runs that may not, nothing is done twice that may not be repeated, and what is told
//! of each call is what its tool wrote down.
//!
//! `HARNESS_CONVERSATIONS=20000 cargo test -p harness-tests random_conversations -- --nocapture` has more
//! of them. `HARNESS_CONVERSATION` is the seed of the first; of a single one all facts are printed.

mod engine;
mod world;

use std::{collections::HashMap, future::Future, pin::Pin, task::Poll, time::SystemTime};

use fastrand::Rng;
use futures_util::FutureExt as _;
use harness::{
    Agent, CallOutcome, Chat, Error, Limits, Message, Outcome, ToolCall, ToolResult,
    agent::{Inbox, Machine, OpenCall},
    journal::{Awaited, Envelope, Fact, Journal, MemoryJournal},
    message::Transcript,
    policy::{Approval, ApprovalRequest},
    testing::{FaultyJournal, JournalFault},
};

use world::{Laws, NAMES, Now, World, model, tools, twice};

/// How many conversations, and the seed of the first.
fn wanted(few: u64) -> std::ops::Range<u64> {
    let set = |name| std::env::var(name).ok().and_then(|set| set.parse::<u64>().ok());
    let first = set("HARNESS_CONVERSATION").unwrap_or(0);
    first..first + set("HARNESS_CONVERSATIONS").unwrap_or(few)
}

async fn poll_once<T>(mut future: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Option<T> {
    let polled = std::future::poll_fn(move |context| Poll::Ready(future.as_mut().poll(context)));
    match polled.await {
        Poll::Ready(done) => Some(done),
        Poll::Pending => {
            tokio::task::yield_now().await;
            None
        }
    }
}

/// Polls a future at most so many times, and drops it then.
async fn polled<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut future = std::pin::pin!(future);
    for _ in 0..times {
        if let Some(done) = poll_once(future.as_mut()).await {
            return Some(done);
        }
    }
    None
}

/// How often a future is polled that nobody drops on purpose.
const PATIENT: usize = 400;

/// A conversation, and all that anybody has said of it from outside.
struct Story {
    seed: u64,
    rng: Rng,
    name: String,
    /// The tools that its model calls: few, so that it calls them again.
    names: Vec<&'static str>,
    /// Its copies, and how many facts each of them began with.
    copies: HashMap<String, usize>,
    world: World,
    kept: MemoryJournal,
    journal: FaultyJournal<MemoryJournal>,
    accepted: Vec<(String, Approval)>,
    /// How the program has settled calls.
    settled: HashMap<(String, String), CallOutcome>,
    runs: u64,
}

/// A person, in a run or of the agent.
#[derive(Clone, Copy, Debug)]
enum Answers {
    Yes,
    No,
    Always,
    Later,
    TooLate,
}

impl Answers {
    fn random(rng: &mut Rng) -> Self {
        [Self::Yes, Self::No, Self::Always, Self::Later, Self::TooLate][rng.usize(..5)]
    }

    fn to(self, question: &ApprovalRequest) -> Approval {
        match self {
            Self::Yes => question.yes(),
            Self::No => question.no("no"),
            Self::Always => question.always(),
            Self::Later => question.later(None),
            Self::TooLate => question.later(Some(SystemTime::UNIX_EPOCH)),
        }
    }

    fn approver(self) -> impl harness::policy::Approver {
        move |question: ApprovalRequest| async move {
            tokio::task::yield_now().await;
            self.to(&question)
        }
    }
}

impl Story {
    fn new(seed: u64) -> Self {
        let kept = MemoryJournal::new();
        let mut rng = Rng::with_seed(seed);
        let names = (0..3).map(|_| NAMES[rng.usize(..NAMES.len())]).collect();
        Self {
            seed,
            rng,
            names,
            name: "chat".to_owned(),
            copies: HashMap::from([("chat".to_owned(), 0)]),
            world: World::watching(&kept),
            journal: FaultyJournal::new(kept.clone()),
            kept,
            accepted: Vec::new(),
            settled: HashMap::new(),
            runs: 0,
        }
    }

    fn facts(&self, conversation: &str) -> Vec<Envelope> {
        let read = self.kept.read(conversation, 0).now_or_never();
        read.expect("in memory").expect("facts").facts
    }

    fn agent(&mut self, laws: &Laws) -> Agent {
        let rng = &mut self.rng;
        let model = model(rng.u64(..), self.names.clone());
        let builder = Agent::builder(model).tools(tools(rng, &self.world));
        let builder = builder.permissions(laws.permissions());
        let builder = match rng.u8(..3) {
            0 => builder,
            _ => builder.approver(Answers::random(rng).approver()),
        };
        builder.build().expect("an agent")
    }

    /// The truth about a call in doubt.
    fn truth(&self, open: &OpenCall) -> harness::agent::Settlement {
        match self.world.of(&self.name, open.call.name(), open.call.id()).is_empty() {
            true => open.not_happened(),
            false => open.succeeded("it was done"),
        }
    }

    /// People answer what waits, as far as they like.
    async fn answers(&mut self, inbox: &Inbox, all: bool) {
        let waiting = polled(inbox.waiting(&self.name), PATIENT).await;
        for open in waiting.and_then(Result::ok).unwrap_or_default() {
            if !all && self.rng.bool() {
                continue;
            }
            if let Some(question) = open.question() {
                let answer = [Answers::Yes, Answers::No, Answers::Always][self.rng.usize(..3)];
                let approval = answer.to(&question);
                let said = inbox.decide(&self.name, approval.clone());
                if let Some(Ok(())) = polled(said, PATIENT).await {
                    self.accepted.push((self.name.clone(), approval));
                }
                continue;
            }
            let asks = matches!(
                open.wait.as_ref().map(|wait| &wait.awaited),
                Some(Awaited::Answer { .. })
            );
            let (settlement, outcome) = match self.rng.u8(..4) {
                _ if asks => (open.answered("the first"), None),
                0 => (open.failed("no"), Some(CallOutcome::Failed)),
                1 => (open.not_happened(), Some(CallOutcome::NotStarted)),
                _ => (open.succeeded("here"), Some(CallOutcome::Succeeded)),
            };
            let said = inbox.settle(&self.name, settlement.clone());
            if let (Some(Ok(())), Some(outcome)) = (polled(said, PATIENT).await, outcome) {
                let call = (self.name.clone(), open.call.id().to_owned());
                self.settled.insert(call, outcome);
                let again = inbox.settle(&self.name, settlement);
                if let Some(Ok(())) = polled(again, PATIENT).await {
                    self.world.breaks(format!("{} is settled twice", open.call.id()));
                }
            }
        }
        let Some((name, approval)) = self.rng.choice(&self.accepted).cloned() else { return };
        if let Some(Ok(())) = polled(inbox.decide(&name, approval.clone()), PATIENT).await {
            self.world.breaks(format!("an approval counts twice: {approval:?}"));
        }
    }

    fn fails_at_times(&mut self) {
        let all = JournalFault::ANSWERED.into_iter();
        let all = all.chain([JournalFault::StopBefore, JournalFault::StopAfter]);
        let rate = [0.0, 0.0, 0.05, 0.2][self.rng.usize(..4)];
        self.journal.fail_by_chance(self.rng.u64(..), rate, all);
    }

    /// A process: it opens the conversation, does this and that, and is killed.
    async fn process(&mut self) {
        let laws = Laws::random(&mut self.rng, 2);
        let agent = self.agent(&laws);
        self.fails_at_times();
        let inbox = agent.inbox(&self.journal);
        if self.rng.u8(..3) == 0 {
            self.answers(&inbox, false).await;
        }
        let opened = polled(agent.open(&self.journal, &self.name), PATIENT).await;
        let Some(Ok(mut chat)) = opened else { return };
        for _ in 0..self.rng.u8(1..4) {
            self.between(&mut chat, &inbox).await;
            self.run(&mut chat, &agent, &laws, &inbox).await;
            if let Some(fork) = self.forks(&mut chat).await {
                chat = fork;
            }
        }
        self.between(&mut chat, &inbox).await;
    }

    /// What is said and done between two runs.
    async fn between(&mut self, chat: &mut Chat, inbox: &Inbox) {
        if self.rng.bool() {
            for open in chat.in_doubt() {
                if self.rng.bool() {
                    continue;
                }
                let settled = chat.settle(self.truth(&open));
                let _ = polled(settled, PATIENT).await;
            }
        }
        if self.rng.bool() {
            self.answers(inbox, false).await;
        }
        if self.rng.u8(..4) == 0 {
            let grant = self.rng.choice(chat.grants()).cloned();
            if let Some(grant) = grant {
                assert!(chat.revoke(&grant), "it was there");
            }
        }
        if self.rng.u8(..4) == 0 {
            let _ = polled(chat.save(), PATIENT).await;
        }
    }

    async fn run(&mut self, chat: &mut Chat, agent: &Agent, laws: &Laws, inbox: &Inbox) {
        self.runs += 1;
        let rng = &mut self.rng;
        let mut now = Now { laws: laws.clone(), ..Now::default() };
        let mut run = match chat.can_resume() && rng.u8(..4) > 0 {
            true => chat.resume(),
            false => chat.send("Go on."),
        };
        if rng.u8(..6) == 0 {
            run = run.limits(Limits::new().input_tokens(5_000));
        }
        if rng.u8(..3) == 0 {
            let own = Laws::random(rng, 2);
            now.laws = laws.with(&own);
            run = run.permissions(own.permissions());
        }
        if rng.bool() {
            let person = if rng.bool() { "ada" } else { "eve" };
            now.person = Some(person.to_owned());
            run = run.approver(person, Answers::random(rng).approver());
        }
        if rng.u8(..4) == 0 {
            let has = |name: &&str| agent.tools().get(name).is_some();
            let some: Vec<&str> =
                NAMES.into_iter().filter(has).filter(|_| rng.u8(..4) > 0).collect();
            run = run.only_tools(some.clone());
            now.offered = Some(some);
        }
        self.world.holds(now);
        let times = [rng.usize(1..8), rng.usize(1..40), PATIENT, PATIENT][rng.usize(..4)];
        let answered_at = rng.usize(..20);
        let mut run = Box::pin(run.into_future());
        for poll in 0..times {
            if poll == answered_at {
                self.answers(inbox, false).await;
            }
            if poll_once(run.as_mut()).await.is_some() {
                return;
            }
        }
    }

    /// Goes on with a copy at times.
    async fn forks(&mut self, chat: &mut Chat) -> Option<Chat> {
        if self.rng.u8(..12) > 0 || chat.facts() == 0 || self.copies.len() > 3 {
            return None;
        }
        let name = format!("fork{}", self.copies.len());
        let facts = self.rng.u64(1..=chat.facts());
        let forked = polled(chat.fork(&name, facts), PATIENT).await;
        let begins_with = self.facts(&name).len();
        if begins_with > 0 {
            self.copies.insert(name.clone(), begins_with);
        }
        match forked {
            Some(Ok(fork)) if self.rng.bool() => {
                self.name = name;
                Some(fork)
            }
            _ => None,
        }
    }

    /// A process without a fault goes on to the end.
    async fn ends(&mut self) {
        self.journal.mend();
        let mut names: Vec<String> = self.copies.keys().cloned().collect();
        names.sort();
        for name in names {
            self.name = name;
            self.world.holds(Now::default());
            let agent = self.agent(&Laws::default());
            let inbox = agent.inbox(&self.journal);
            let mut chat = agent.open(&self.journal, &self.name).await.expect("it opens");
            let (mut ended, mut anew) = (false, false);
            for _ in 0..60 {
                for open in chat.in_doubt() {
                    chat.settle(self.truth(&open)).await.expect("it is in doubt");
                }
                self.answers(&inbox, true).await;
                if !chat.can_resume() {
                    ended = true;
                    break;
                }
                // Who fails goes on, and a run that has reached a limit is counted anew.
                let resumed = match anew || self.rng.bool() {
                    true => chat.resume().limits(Limits::new()).await,
                    false => chat.resume().await,
                };
                anew = resumed.is_err_and(|it| matches!(it.outcome(), Outcome::Limit(_)));
            }
            if !ended {
                let next = Machine::next(&self.folded(&self.facts(&self.name)));
                self.world.breaks(format!("{} comes to no end: {next:?}", self.name));
            }
            let told = chat.transcript().clone();
            drop(chat);
            let machine = self.folded(&self.facts(&self.name));
            if *machine.transcript() != told {
                self.world.breaks(format!("{}: other words than its facts", self.name));
            }
            if told.sendable().is_err() {
                self.world.breaks(format!("{} cannot be sent", self.name));
            }
            self.judge(&told);
        }
    }

    /// Prints what was written and what was done, if one conversation was asked for.
    fn shows(&self) {
        if wanted(0) != (self.seed..self.seed + 1) {
            return;
        }
        for name in self.copies.keys() {
            println!("== {name}");
            for (number, fact) in self.facts(name).iter().enumerate() {
                println!("{number} {:?} {:.300}", fact.life, fact.fact);
            }
        }
        println!("{:#?}", self.world.all());
    }

    fn folded(&self, facts: &[Envelope]) -> Machine {
        let mut machine = Machine::new();
        for fact in facts {
            let applied = fact.fact().and_then(|fact| machine.apply(&fact));
            applied.unwrap_or_else(|err: Error| panic!("{}: {err}", self.seed));
        }
        machine
    }

    /// Compares what is told of each call with what its tool wrote down.
    fn judge(&self, told: &Transcript) {
        let facts = self.facts(&self.name);
        let facts: Vec<Fact> = facts.iter().map(|fact| fact.fact().expect("a fact")).collect();
        let begins_with = self.copies[&self.name];
        let results: HashMap<&str, &ToolResult> = told
            .messages()
            .iter()
            .flat_map(Message::results)
            .map(|result| (result.call_id(), result))
            .collect();
        for call in told.messages().iter().flat_map(Message::calls) {
            let told_at = facts.iter().position(|fact| says(fact, call));
            let Some(result) = results.get(call.id()) else {
                self.world.breaks(format!("{} of {} has no result", call.id(), self.name));
                continue;
            };
            let effects = self.world.of(&self.name, call.name(), call.id());
            let of_another = told_at.is_some_and(|at| at < begins_with);
            let wrong = match of_another {
                true => (!effects.is_empty()).then(|| "ran again in a copy".to_owned()),
                false => self.wrong(call, result, effects.len(), &facts),
            };
            if let Some(wrong) = wrong {
                let (name, id) = (call.name(), call.id());
                self.world.breaks(format!("{name} {id} of {}: {wrong}", self.name));
            }
            if call.name() != "look" && twice(&effects) {
                self.world.breaks(format!("{} {} was done twice", call.name(), call.id()));
            }
        }
    }

    fn wrong(
        &self,
        call: &ToolCall,
        result: &ToolResult,
        ran: usize,
        facts: &[Fact],
    ) -> Option<String> {
        let id = call.id();
        let settled = self.settled.get(&(self.name.clone(), id.to_owned()));
        let started =
            facts.iter().any(|fact| matches!(fact, Fact::CallStarted { call } if call == id));
        let outcome = result.outcome();
        let is_true = match (outcome, settled) {
            (told, Some(said)) => told == *said,
            (CallOutcome::Succeeded, None) => ran > 0 || by_program(facts, id),
            (CallOutcome::Denied | CallOutcome::NotStarted | CallOutcome::Failed, None) => {
                ran == 0 || call.name() == "look" || by_program(facts, id)
            }
            (CallOutcome::StoppedReading, None) => call.name() == "look",
            (CallOutcome::InDoubt, None) => started || call.name() == "form",
            _ => false,
        };
        (!is_true).then(|| format!("told as {outcome:?}, ran {ran} times, settled {settled:?}"))
    }
}

/// Whether the program has said what became of a call, which it may not have heard was written.
fn by_program(facts: &[Fact], id: &str) -> bool {
    let settled =
        |fact: &Fact| matches!(fact, Fact::CallSettled { result, .. } if result.call_id() == id);
    facts.iter().any(settled)
}

fn says(fact: &Fact, call: &ToolCall) -> bool {
    match fact {
        Fact::ModelReplied { message: Some(message), .. }
        | Fact::Interrupted { message: Some(message), .. } => {
            message.calls().any(|it| it.id() == call.id())
        }
        _ => false,
    }
}

/// Does it in a runtime of its own, so that a seed is the same alone and among others.
fn apart<T>(story: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(story)
}

#[test]
fn random_conversations_tell_what_happened_and_do_nothing_twice() {
    let (mut broken, mut runs) = (Vec::new(), 0);
    for seed in wanted(25) {
        let story = apart(async {
            let mut story = Story::new(seed);
            for _ in 0..5 {
                story.process().await;
            }
            story.ends().await;
            story
        });
        runs += story.runs;
        story.shows();
        broken.extend(story.world.broken().into_iter().map(|what| format!("{seed}: {what}")));
    }
    println!("{runs} runs, {} broken", broken.len());
    assert!(broken.is_empty(), "{:#?}", &broken[..broken.len().min(40)]);
}
