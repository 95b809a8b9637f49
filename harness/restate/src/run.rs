//! One invocation that may change a conversation. Each action of a run is a step, and the engine stores its result.

mod turn;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard},
};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, ready},
};
use harness::{
    Error, Message,
    agent::{Action, Steps},
    journal::{Envelope, Fact, InterruptCause},
};
use restate_sdk::prelude::*;

use self::turn::{bells, stop_watcher};
use crate::{
    driver::{Conversations, failed},
    size::{MOST, MOST_WITH_ANSWERS, check_size, size},
    state::{CHUNKS, KIND, RUN, named},
    stop_signals::{CANCELLED, StopWatcher, TurnState},
    timers::{self, dates},
};

pub(crate) type StepFacts = Result<Vec<Envelope>, Error>;
type TerminalResult<T> = Result<T, TerminalError>;
type CheckedFacts = TerminalResult<Vec<Envelope>>;

pub(crate) struct ConversationRun<'a> {
    of: &'a Conversations,
    ctx: &'a ObjectContext<'a>,
    pub(crate) steps: Arc<RwLock<Steps>>,
    chunks: u32,
    bytes: usize,
    /// The kind of the run that begins, until its message is stored.
    kind: Option<String>,
    turn: TurnState,
    stop: StopWatcher,
    /// The number of stops that this run ignores. These stops were meant for an earlier run that waited.
    skipped: usize,
    /// Whether this invocation has begun or continued a run: see [`stop_signals`](crate::stop_signals).
    is_run: bool,
}

impl<'a> ConversationRun<'a> {
    pub(crate) fn steps(&self) -> RwLockReadGuard<'_, Steps> {
        read(&self.steps)
    }

    fn is_waiting(&self) -> bool {
        self.steps().next() == Action::AwaitAnswers
    }

    /// Begins a run with a message, and executes it.
    pub(crate) async fn start(&mut self, message: Message) -> TerminalResult<()> {
        let (waits, said) = (self.is_waiting(), self.steps().say(message.clone()).boxed());
        self.begin("say", said, waits).await?;
        if self.kind.is_some() {
            // The message was not stored, because a stop came first. Either an earlier run was waiting, or an earlier
            // run was killed and the stop also affects this run. The stopped calls are settled now, even if the message
            // is refused later.
            self.drive().await?;
            if waits {
                // Other stops that already exist are also ignored. They came while this message was queued, and were
                // meant for the waiting run.
                let (bells, bell) = (bells(self.of, self.ctx), self.turn.bell.clone());
                let stops =
                    self.ctx.run(|| async move { Ok(Json(bells.count_stops(bell).await?)) });
                self.skipped = stops.name("stops").await?.into_inner();
                self.stop = stop_watcher(self.of, self.ctx, &self.turn, self.skipped);
            }
            let said = self.steps().say(message);
            self.keep("say", self.checked(said, MOST, 413), false).await?;
        }
        self.drive().await
    }

    /// Continues a run that was stopped.
    pub(crate) async fn resume(&mut self) -> TerminalResult<()> {
        let resumed = self.steps().resume().boxed();
        self.begin("resume", resumed, false).await?;
        self.drive().await
    }

    async fn begin(
        &mut self,
        name: &str,
        with: BoxFuture<'static, StepFacts>,
        knows: bool,
    ) -> TerminalResult<()> {
        let with = self.stop.clone().unless(Arc::clone(&self.steps), with, knows);
        self.keep(name, self.checked(with, MOST, 413), false).await?;
        self.mark_as_run();
        Ok(())
    }

    /// The resulting facts, or a refusal if they are too large.
    fn checked(
        &self,
        with: impl Future<Output = StepFacts> + Send + 'static,
        most: usize,
        code: u16,
    ) -> BoxFuture<'static, CheckedFacts> {
        let kept = self.bytes;
        let with = async move {
            let facts = with.await.map_err(failed)?;
            check_size(&facts, kept, most)
                .map_err(|what| TerminalError::new_with_code(code, what))?;
            Ok(facts)
        };
        with.boxed()
    }

    fn mark_as_run(&mut self) {
        self.is_run = true;
        if self.turn.killed || !self.turn.passed.is_empty() {
            (self.turn.killed, self.turn.passed) = (false, Vec::new());
            self.ctx.set(RUN, Json(self.turn.clone()));
        }
    }

    /// Stores a command from outside of the run, and continues the run if it waits. `is_kept` is called once the
    /// command is stored.
    pub(crate) async fn change(
        &mut self,
        name: &str,
        with: BoxFuture<'static, CheckedFacts>,
        is_kept: impl FnOnce(),
    ) -> TerminalResult<()> {
        let (waits, kept) = (self.is_waiting(), self.bytes);
        let with = async move {
            let facts = with.await?;
            let refused = |what| TerminalError::new_with_code(422, what);
            check_size(&facts, kept, MOST_WITH_ANSWERS).map_err(refused)?;
            Ok(facts)
        };
        let has_changed = self.keep(name, with.boxed(), false).await?;
        is_kept();
        if !(waits && has_changed) {
            return Ok(());
        }
        self.mark_as_run();
        self.drive().await
    }

    /// Stores that a deadline has passed, and continues the run if it waits. After a kill, no run is continued.
    pub(crate) async fn expire(
        &mut self,
        with: BoxFuture<'static, CheckedFacts>,
    ) -> TerminalResult<()> {
        if self.turn.killed {
            return self.keep("expire", with, false).await.map(drop);
        }
        self.change("expire", with, || ()).await
    }

    /// Stops the run, if one is active or waits.
    async fn stop(&mut self, name: &str) -> TerminalResult<()> {
        let stopped = self.steps().stop(InterruptCause::Program).unwrap_or_default();
        let stops = !stopped.is_empty();
        self.keep(name, async move { Ok(stopped) }.boxed(), stops).await?;
        if stops { self.drive().await } else { Ok(()) }
    }

    async fn drive(&mut self) -> TerminalResult<()> {
        loop {
            let next = self.steps().next();
            let name = match next {
                Action::Finish(_) | Action::AwaitUser | Action::AwaitAnswers => return Ok(()),
                Action::CallProvider => "ask",
                Action::Decide(_) => "decide",
                Action::RunCalls(_) => "call",
                Action::AwaitResults => "run",
                Action::FindOut(_) => "find out",
                Action::CheckAnswer => "check",
                Action::Settle => "settle",
            };
            if name == "run" && self.keep("start", ready(Ok(Vec::new())).boxed(), true).await? {
                // If `keep` returns `true`, the run was cancelled. If it returns `false`, the engine has stored that
                // the calls start. So the calls are known even if the engine kills this invocation.
                continue;
            }
            if name == "run" {
                // The ingress may have been unreachable since the last action, so a new watcher requests the stops
                // again. Calls run only after the watcher has found that no stop exists.
                self.stop = stop_watcher(self.of, self.ctx, &self.turn, self.skipped);
            }
            let (act, steps, kept) =
                (self.steps().act().boxed(), Arc::clone(&self.steps), self.bytes);
            let known = self.stop.known.clone();
            let act = match name {
                "run" => async move { known.then(|()| act).await }.boxed(),
                _ => act,
            };
            let act = match name {
                "settle" => act,
                _ => self.stop.clone().unless(Arc::clone(&steps), act, true).boxed(),
            };
            let act = async move {
                let facts = act.await.map_err(failed)?;
                let check = |facts: &[Envelope]| check_size(facts, kept, MOST);
                match check(&facts) {
                    // The text of the model and its usage must not be lost, so the step is cut short.
                    Err(why) if name != "settle" => {
                        let cut = read(&steps).cut_short(facts, why, |facts| check(facts).is_ok());
                        cut.map_err(failed)
                    }
                    _ => Ok(facts),
                }
            };
            self.keep(name, act.boxed(), true).await?;
        }
    }

    /// Lets the engine store the resulting facts, and applies them. Returns whether there are any.
    async fn keep(
        &mut self,
        name: &str,
        act: BoxFuture<'static, CheckedFacts>,
        is_action: bool,
    ) -> TerminalResult<bool> {
        let (told, step) = (Arc::clone(&self.of.on_step), name.to_owned());
        let came = Arc::new(Mutex::new(None));
        let known = Arc::clone(&came);
        let (hook, lock) = (Arc::clone(&told), self.of.locks.of(self.ctx.key()));
        let kept = self.ctx.run(|| async move {
            say_step(&*hook, "before", &step);
            // An action of an earlier execution of this run in this process must end first.
            let _lock = lock.lock().await;
            let facts = act.await?;
            *known.lock().unwrap_or_else(PoisonError::into_inner) = Some(facts.clone());
            say_step(&*hook, "after", &step);
            Ok(Json(facts))
        });
        let facts = match kept.name(name).await {
            Ok(Json(facts)) => facts,
            Err(error) if is_action && error.code() == CANCELLED => self.cancelled(came).await?,
            Err(error) => return Err(error),
        };
        if facts.is_empty() {
            return Ok(false);
        }
        let mut steps = self.steps.write().unwrap_or_else(PoisonError::into_inner);
        let timed = dates(&steps);
        steps.apply(facts.clone()).map_err(failed)?;
        // The timers are set before the facts are stored, so that every question has a timer even if the engine kills
        // this invocation.
        timers::begin(self.ctx, dates(&steps).into_iter().filter(|it| !timed.contains(it)));
        // The kind is stored only together with the message, so that a refused message changes nothing.
        let is_said = |fact: &Envelope| matches!(fact.fact(), Ok(Fact::UserSaid { .. }));
        if facts.iter().any(is_said)
            && let Some(kind) = self.kind.take()
        {
            self.ctx.set(KIND, Json(kind));
        }
        self.bytes += size(&facts);
        self.ctx.set(&named(self.chunks), Json(facts));
        self.chunks += 1;
        self.ctx.set(CHUNKS, self.chunks);
        say_step(&*told, "kept", name);
        Ok(true)
    }

    /// The facts of a run that an operator has cancelled. A step may have ended without its facts being stored. Then
    /// its facts are the first.
    async fn cancelled(
        &self,
        came: Arc<Mutex<Option<Vec<Envelope>>>>,
    ) -> TerminalResult<Vec<Envelope>> {
        let (agent, key) = (self.of.agent.clone(), self.ctx.key().to_owned());
        let so_far = self.steps().facts().to_vec();
        let stopped = self.ctx.run(|| async move {
            let known = came.lock().unwrap_or_else(PoisonError::into_inner).take();
            let (is_known, mut facts) = (known.is_some(), known.unwrap_or_default());
            let mut steps = agent.steps(key, so_far).map_err(failed)?;
            steps.apply(facts.clone()).map_err(failed)?;
            let cause = InterruptCause::Program;
            let stop = if is_known { steps.stop(cause) } else { steps.give_up(cause) };
            // Fails if the run had already ended, and then adds nothing.
            facts.extend(stop.unwrap_or_default());
            Ok(Json(facts))
        });
        Ok(stopped.name("cancelled").await?.into_inner())
    }
}

/// Calls the program's function for a step. A panic in it does not affect the run.
fn say_step(told: &(dyn Fn(&str) + Send + Sync), when: &str, step: &str) {
    let _ = catch_unwind(AssertUnwindSafe(|| told(&format!("{when} {step}"))));
}

pub(crate) fn read(steps: &RwLock<Steps>) -> RwLockReadGuard<'_, Steps> {
    steps.read().unwrap_or_else(PoisonError::into_inner)
}
