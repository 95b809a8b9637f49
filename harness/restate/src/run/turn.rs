//! How an invocation takes the turn of its conversation, and passes the turn on.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, RwLock},
};

use harness::{Outcome, agent::Action};
use restate_sdk::prelude::*;

use super::{ConversationRun, TerminalResult};
use crate::{
    client::check_name,
    driver::{Conversations, failed, refused},
    protocol::{RunEnd, last_answer},
    state::{CHUNKS, RUN, facts_of, kind_of, last_of, turn_of},
    stop_signals::{BellList, StopSignal, StopWatcher, TurnState, tell_at_end},
    timers::dates,
};

impl<'a> ConversationRun<'a> {
    /// Takes the turn. `kind` is the kind of a new run. `None` continues the current run with its kind.
    pub(crate) async fn take_turn(
        of: &'a Conversations,
        ctx: &'a ObjectContext<'_>,
        kind: Option<String>,
    ) -> TerminalResult<Self> {
        check_name(ctx.key()).map_err(|err| refused(&err, 400))?;
        let mut turn = match turn_of(ctx).await? {
            Some(turn) => turn,
            None => {
                let bells = bells(of, ctx);
                // If this step fails, the engine tries it again.
                let first = ctx.run(|| async move { Ok(Json(bells.first().await?)) });
                let (bell, number) = first.name("first").await?.into_inner();
                TurnState { bell, number, ..TurnState::default() }
            }
        };
        // If the state still names a run, the engine has killed that run.
        turn.killed |= turn.run.is_some();
        turn.run = Some(ctx.invocation_id().to_owned());
        turn.number += 1;
        ctx.set(RUN, Json(turn.clone()));
        let begun = async {
            let mut run = Self::open(of, ctx, kind, turn.clone()).await?;
            if !turn.killed && !dates(&run.steps()).is_empty() {
                // The step makes the engine store whose turn it is before anything else happens. So if the engine kills
                // this invocation, timers of waiting calls will not continue the run.
                ctx.run(|| async { Ok(()) }).name("begins").await?;
            }
            if run.turn.late {
                run.stop("end").await?;
                run.turn.late = false;
                ctx.set(RUN, Json(run.turn.clone()));
            }
            Ok(run)
        };
        match begun.await {
            Ok(run) => Ok(run),
            Err(error) => {
                ctx.set(RUN, Json(TurnState { run: None, ..turn }));
                Err(error)
            }
        }
    }

    async fn open(
        of: &'a Conversations,
        ctx: &'a ObjectContext<'_>,
        kind: Option<String>,
        turn: TurnState,
    ) -> TerminalResult<Self> {
        let goes_on = kind_of(ctx).await?;
        let (mut facts, mut chunks, mut bytes) = facts_of(ctx, 0).await?;
        if let Some((last, size)) = last_of(ctx, chunks).await? {
            facts.extend(last);
            (chunks, bytes) = (chunks + 1, bytes + size);
            ctx.set(CHUNKS, chunks);
        }
        // The steps are created anew with each replay, so a call that an earlier execution has started does not run
        // here.
        let steps = of.agent.steps(ctx.key(), facts).map_err(failed)?;
        let has = kind.as_deref().unwrap_or(&goes_on);
        let given = || (of.each_run)(ctx.key(), has, steps);
        let steps = catch_unwind(AssertUnwindSafe(given)).map_err(|panic| panicked(&*panic))?;
        let stop = stop_watcher(of, ctx, &turn, 0);
        let steps = Arc::new(RwLock::new(steps));
        let (skipped, is_run) = (0, false);
        Ok(Self { of, ctx, steps, chunks, bytes, kind, turn, stop, skipped, is_run })
    }

    /// Handles the mark of a stop: see [`stop_signals`](crate::stop_signals).
    pub(crate) async fn handle_mark(&mut self, stop: &str) -> TerminalResult<()> {
        if self.turn.handle_mark(self.ctx, stop).await { self.stop("end").await } else { Ok(()) }
    }

    /// Passes the turn on, however this invocation has ended.
    pub(crate) async fn pass_turn(
        mut self,
        mut came: TerminalResult<()>,
    ) -> HandlerResult<Json<RunEnd>> {
        if self.is_run {
            let name = self.turn.name_of(self.ctx.invocation_id());
            let over = StopSignal::Over(name.clone());
            let bells = bells(self.of, self.ctx);
            let way = tell_at_end(self.ctx, bells, &self.turn.bell, &over).await;
            // A stop may have come after the last action.
            if self.is_waiting() && (way.is_cancelled || way.stops.len() > self.skipped) {
                came = came.and(self.stop("stop").await);
            }
            (self.turn.bell, self.turn.passed) = (name, way.stops);
        }
        self.turn.run = None;
        self.ctx.set(RUN, Json(self.turn.clone()));
        came?;
        let steps = self.steps();
        let outcome = match steps.next() {
            Action::Finish(outcome) => outcome,
            Action::AwaitAnswers => Outcome::Waiting,
            _ => Outcome::Cancelled,
        };
        Ok(Json(RunEnd { outcome, text: last_answer(&steps) }))
    }
}

pub(super) fn bells(of: &Conversations, ctx: &ObjectContext<'_>) -> BellList {
    BellList::of(of, ctx.key())
}

pub(super) fn stop_watcher(
    of: &Conversations,
    ctx: &ObjectContext<'_>,
    turn: &TurnState,
    skipped: usize,
) -> StopWatcher {
    bells(of, ctx).stop_of(turn.bell.clone(), turn.name_of(ctx.invocation_id()), skipped)
}

fn panicked(panic: &(dyn Any + Send)) -> TerminalError {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
    TerminalError::new(format!("`Conversations::each_run` has panicked: {text}"))
}
