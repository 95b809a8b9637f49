//! One invocation that may change a conversation. Each action of a run is a step whose result the engine stores.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_util::{FutureExt as _, future::BoxFuture};
use harness::{
    Error, Outcome,
    agent::{Action, OpenCall, Steps},
    journal::{Entry, Envelope, InterruptCause},
};
use restate_sdk::prelude::*;

use crate::{
    client::{address, check_name},
    driver::{Conversations, ConversationsClient, failed, refused},
    said::{Ended, said_last},
    size::{MOST, MOST_WITH_ANSWERS, fits, size},
    state::{CHUNKS, KIND, RUN, facts_of, kind_of, named, turn_of},
    stop::{CANCELLED, Stop, Told, Turn, ring, stop_of, tell},
};

type Came = Result<Vec<Envelope>, Error>;
type Kept = Result<Vec<Envelope>, TerminalError>;

pub(crate) struct Run<'a> {
    of: &'a Conversations,
    ctx: &'a ObjectContext<'a>,
    pub(crate) steps: Arc<RwLock<Steps>>,
    chunks: u32,
    bytes: usize,
    /// The kind of the run that begins, until its message is stored.
    kind: Option<String>,
    bell: String,
    /// The bell that it found when it began: another one if the run before it was killed.
    found: String,
    stop: Stop,
    /// Whether this invocation has stored facts.
    has_kept: bool,
}

impl<'a> Run<'a> {
    /// Takes the turn. `kind` is that of a run that begins; a run that continues has the one with which it began.
    pub(crate) async fn begins(
        of: &'a Conversations,
        ctx: &'a ObjectContext<'_>,
        kind: Option<String>,
    ) -> HandlerResult<Self> {
        check_name(ctx.key()).map_err(|err| refused(&err, 400))?;
        let Turn { bell: found, run } = turn_of(ctx).await?;
        let bell = match run {
            None => found.clone(),
            // The engine has killed that run, so it could not ring its bell.
            Some(killed) => {
                ring(ctx, ctx.key(), found.clone(), Told::Over(killed.clone())).await;
                killed
            }
        };
        ctx.set(RUN, Json(Turn { bell: bell.clone(), run: Some(ctx.invocation_id().to_owned()) }));
        match Self::open(of, ctx, kind, bell.clone(), found).await {
            Ok(run) => Ok(run),
            Err(error) => {
                is_over(ctx, bell).await;
                Err(error)
            }
        }
    }

    async fn open(
        of: &'a Conversations,
        ctx: &'a ObjectContext<'_>,
        kind: Option<String>,
        bell: String,
        found: String,
    ) -> HandlerResult<Self> {
        let goes_on = kind_of(ctx).await?;
        let (facts, chunks, bytes) = facts_of(ctx, 0).await?;
        // They are made anew with each replay, so a call that another life has started does not run here.
        let steps = of.agent.steps(ctx.key(), facts).map_err(failed)?;
        let has = kind.as_deref().unwrap_or(&goes_on);
        let given = || (of.each_run)(ctx.key(), has, steps);
        let steps = catch_unwind(AssertUnwindSafe(given)).map_err(|panic| panicked(&*panic))?;
        let stopped = address(&of.ingress, &["Conversations", ctx.key(), "stopped"]);
        let stop = stop_of(of.http.clone(), stopped, bell.clone(), ctx.invocation_id().to_owned());
        let steps = Arc::new(RwLock::new(steps));
        Ok(Self { of, ctx, steps, chunks, bytes, kind, bell, found, stop, has_kept: false })
    }

    pub(crate) fn steps(&self) -> RwLockReadGuard<'_, Steps> {
        read(&self.steps)
    }

    /// Whether no run has begun since this was the bell.
    pub(crate) fn is_next_after(&self, bell: &str) -> bool {
        self.found == bell
    }

    fn waits(&self) -> bool {
        self.steps().next() == Action::AwaitAnswers
    }

    /// Begins a run with these facts, and drives it.
    pub(crate) async fn begin(
        &mut self,
        name: &str,
        with: BoxFuture<'static, Came>,
    ) -> HandlerResult<()> {
        let (steps, stop, kept) = (Arc::clone(&self.steps), self.stop.clone(), self.bytes);
        let with = async move {
            let facts = unless_stopped(steps, with, stop).await.map_err(failed)?;
            fits(&facts, kept, MOST).map_err(|what| TerminalError::new_with_code(413, what))?;
            Ok(facts)
        };
        self.keep(name, with.boxed(), false).await?;
        self.drive().await
    }

    /// Stores what somebody outside of the run has said, and drives the run if it waited and has changed. `is_kept` is
    /// called once this is stored.
    pub(crate) async fn change(
        &mut self,
        name: &str,
        with: BoxFuture<'static, Kept>,
        is_kept: impl FnOnce(),
    ) -> HandlerResult<()> {
        let (waits, kept) = (self.waits(), self.bytes);
        let with = async move {
            let facts = with.await?;
            let refused = |what| TerminalError::new_with_code(422, what);
            fits(&facts, kept, MOST_WITH_ANSWERS).map_err(refused)?;
            Ok(facts)
        };
        let has_changed = self.keep(name, with.boxed(), false).await?;
        is_kept();
        if waits && has_changed { self.drive().await } else { Ok(()) }
    }

    /// Stops the run, if one goes on or waits.
    pub(crate) async fn stop(&mut self, name: &str) -> HandlerResult<()> {
        let stopped = self.steps().stop(InterruptCause::Program).unwrap_or_default();
        let stops = !stopped.is_empty();
        self.keep(name, async move { Ok(stopped) }.boxed(), false).await?;
        if stops { self.drive().await } else { Ok(()) }
    }

    /// Passes the turn on, however this invocation ends.
    pub(crate) async fn ends(mut self, mut came: HandlerResult<()>) -> HandlerResult<Json<Ended>> {
        if came.is_ok() && self.waits() {
            // A stop may have come after the last action.
            let over = Told::Over(self.ctx.invocation_id().to_owned());
            if tell(self.ctx, self.ctx.key(), &self.bell, over).await == Told::Stopped {
                came = self.stop("stop").await;
            }
        }
        if came.is_ok() || self.has_kept {
            for open in self.steps().waiting() {
                let Some(until) = ends(&open) else { continue };
                let client = self.ctx.object_client::<ConversationsClient>(self.ctx.key());
                client.expired(Json((open.call.id().to_owned(), until))).send_after(left(until));
            }
        }
        is_over(self.ctx, self.bell.clone()).await;
        came?;
        let steps = self.steps();
        let outcome = match steps.next() {
            Action::Finish(outcome) => outcome,
            Action::AwaitAnswers => Outcome::Waiting,
            _ => Outcome::Cancelled,
        };
        Ok(Json(Ended { outcome, text: said_last(&steps) }))
    }

    async fn drive(&mut self) -> HandlerResult<()> {
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
            let (act, steps, kept) =
                (self.steps().act().boxed(), Arc::clone(&self.steps), self.bytes);
            let act = match name {
                "settle" => act,
                _ => unless_stopped(Arc::clone(&steps), act, self.stop.clone()).boxed(),
            };
            let act = async move {
                let facts = act.await.map_err(failed)?;
                match fits(&facts, kept, MOST) {
                    Err(error) if name != "settle" => {
                        let cause = InterruptCause::Failure { error };
                        read(&steps).give_up(cause).map_err(failed)
                    }
                    _ => Ok(facts),
                }
            };
            self.keep(name, act.boxed(), true).await?;
        }
    }

    /// Lets the engine store the facts that this comes to, and applies them. Returns whether there are any.
    async fn keep(
        &mut self,
        name: &str,
        act: BoxFuture<'static, Kept>,
        is_action: bool,
    ) -> HandlerResult<bool> {
        let (told, step) = (&self.of.on_step, name.to_owned());
        let came = Arc::new(Mutex::new(None));
        let known = Arc::clone(&came);
        let (hook, alone) = (Arc::clone(told), self.of.alone.of(self.ctx.key()));
        let kept = self.ctx.run(|| async move {
            hook(&format!("before {step}"));
            // An action that another life of the run does in this process ends first.
            let _alone = alone.lock().await;
            let facts = act.await?;
            *known.lock().unwrap_or_else(PoisonError::into_inner) = Some(facts.clone());
            hook(&format!("after {step}"));
            Ok(Json(facts))
        });
        let facts = match kept.name(name).await {
            Ok(Json(facts)) => facts,
            Err(error) if is_action && error.code() == CANCELLED => self.cancelled(came).await?,
            Err(error) => return Err(error.into()),
        };
        if facts.is_empty() {
            return Ok(false);
        }
        let mut steps = self.steps.write().unwrap_or_else(PoisonError::into_inner);
        steps.apply(facts.clone()).map_err(failed)?;
        // The kind changes with the message, and not before: a message that is refused changes nothing.
        let is_said = |fact: &Envelope| matches!(fact.entry(), Ok(Entry::UserSaid { .. }));
        if facts.iter().any(is_said)
            && let Some(kind) = self.kind.take()
        {
            self.ctx.set(KIND, Json(kind));
        }
        self.bytes += size(&facts);
        self.ctx.set(&named(self.chunks), Json(facts));
        self.chunks += 1;
        self.ctx.set(CHUNKS, self.chunks);
        self.has_kept = true;
        told(&format!("kept {name}"));
        Ok(true)
    }

    /// Returns the facts of a run that an operator has cancelled. A step may have ended before and not be stored yet:
    /// then its facts come first.
    async fn cancelled(
        &self,
        came: Arc<Mutex<Option<Vec<Envelope>>>>,
    ) -> HandlerResult<Vec<Envelope>> {
        let (agent, key) = (self.of.agent.clone(), self.ctx.key().to_owned());
        let so_far = self.steps().facts().to_vec();
        let stopped = self.ctx.run(|| async move {
            let known = came.lock().unwrap_or_else(PoisonError::into_inner).take();
            let (is_known, mut facts) = (known.is_some(), known.unwrap_or_default());
            let mut steps = agent.steps(key, so_far).map_err(failed)?;
            steps.apply(facts.clone()).map_err(failed)?;
            let cause = InterruptCause::Program;
            let stop = if is_known { steps.stop(cause) } else { steps.give_up(cause) };
            // It fails if the run was over already.
            facts.extend(stop.unwrap_or_default());
            Ok(Json(facts))
        });
        Ok(stopped.name("cancelled").await?.into_inner())
    }
}

/// Rings the bell, and stores that no run goes on. The next bell has the name of this invocation.
async fn is_over(ctx: &ObjectContext<'_>, bell: String) {
    let run = ctx.invocation_id().to_owned();
    ring(ctx, ctx.key(), bell, Told::Over(run.clone())).await;
    ctx.set(RUN, Json(Turn { bell: run, run: None }));
}

/// Does an action unless somebody stops the run before its end.
async fn unless_stopped(
    steps: Arc<RwLock<Steps>>,
    mut act: BoxFuture<'static, Came>,
    stop: Stop,
) -> Came {
    if stop.clone().now_or_never().is_some() {
        let stopped = read(&steps).stop(InterruptCause::Program);
        // If no run goes on yet, the message is stored first.
        return if stopped.is_ok() { stopped } else { act.await };
    }
    tokio::select! {
        biased;
        came = &mut act => return came,
        () = stop => {}
    }
    let stopped = read(&steps).give_up(InterruptCause::Program);
    if stopped.is_ok() { stopped } else { act.await }
}

fn panicked(panic: &(dyn Any + Send)) -> TerminalError {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
    TerminalError::new(format!("`Conversations::each_run` has panicked: {text}"))
}

pub(crate) fn read(steps: &RwLock<Steps>) -> RwLockReadGuard<'_, Steps> {
    steps.read().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn ends(open: &OpenCall) -> Option<u64> {
    open.wait.as_ref()?.until
}

fn left(until: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::from_millis(until).saturating_sub(now)
}
