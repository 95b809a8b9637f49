//! The signals that stop a run from outside: a cancellation by the program, and the time limit.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::progress::ProgressSender;
use crate::Event;
use harness_core::{
    error::{Error, ErrorKind},
    journal::{InterruptCause, LimitKind, LimitScope},
    policy::{Budget, LimitReached, LimitWarning, RunGuard},
    unwind::caught,
};

/// Waits for the signals that stop a run from outside.
pub(crate) struct StopSignals {
    program: CancellationToken,
    limit: Duration,
    /// The time at which four fifths of the time limit are over. `None` after the warning was sent.
    near: Option<Instant>,
    ends: Option<Instant>,
    budget: Budget,
    /// Measures how long agents in calls have waited for a person.
    progress_sender: ProgressSender,
}

/// A signal from outside of the run.
pub(crate) enum RunSignal {
    /// The run has to stop.
    Stop(InterruptCause),
    /// The run will soon have to stop.
    Warn(LimitWarning),
}

impl StopSignals {
    /// Creates the signals for a run that begins or continues now. `taken` is the time that the run has
    /// already used.
    pub(crate) fn new(
        program: CancellationToken,
        guard: &RunGuard,
        taken: Duration,
        progress_sender: ProgressSender,
    ) -> Self {
        let limit = guard.guardrails().time_limit();
        let after = |time: Duration| Instant::now().checked_add(time.saturating_sub(taken));
        let ends = limit.and_then(after);
        let near = limit.and_then(|limit| after(limit / 5 * 4));
        guard.budget().set_deadline(ends);
        let (limit, budget) = (limit.unwrap_or_default(), guard.budget().clone());
        Self { program, limit, near, ends, budget, progress_sender }
    }

    /// Waits for the next signal. Dropping the future loses no signal.
    pub(crate) async fn next_signal(&mut self) -> RunSignal {
        loop {
            let next = self.near.or(self.ends);
            tokio::select! {
                biased;
                () = self.program.cancelled() => return RunSignal::Stop(InterruptCause::Program),
                () = at(next) => {}
            }
            // Time in which a person decides does not count, even in agents at any depth.
            let asked = self.progress_sender.take_wait_time();
            if asked > Duration::ZERO {
                self.postpone(asked);
                continue;
            }
            return match self.near.take() {
                Some(_) if self.ends.is_none_or(|ends| Instant::now() < ends) => {
                    RunSignal::Warn(LimitWarning::Near(self.reached("four fifths over")))
                }
                _ => RunSignal::Stop(InterruptCause::from(self.reached("over"))),
            };
        }
    }

    /// The token by which the program stops the run.
    pub(crate) fn program(&self) -> CancellationToken {
        self.program.clone()
    }

    /// Fails if the runtime has no timer although the run has a time limit or a journal.
    pub(crate) fn check_timer(&self, is_durable: bool) -> Result<(), Error> {
        let now = is_durable.then(Instant::now);
        let Some(ends) = self.ends.or(self.near).or(now) else { return Ok(()) };
        caught(|| drop(sleep_until(ends))).map_err(|_| {
            Error::new(
                ErrorKind::Configuration,
                "the time of a run or of its journal is limited, and it does not run in a tokio runtime that has a timer: \
                 build the runtime with `enable_all()` or `enable_time()`",
            )
        })
    }

    /// Whether the program has stopped the run.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.program.is_cancelled()
    }

    /// Waits until the program stops the run.
    pub(crate) async fn cancelled(&self) {
        self.program.cancelled().await;
    }

    /// Extends the time limit by the time in which the run waited for a person.
    pub(crate) fn postpone(&mut self, time: Duration) {
        let later = |at: Instant| at.checked_add(time);
        self.near = self.near.and_then(later);
        self.ends = self.ends.and_then(later);
        self.budget.set_deadline(self.ends);
    }

    fn reached(&self, how: &str) -> LimitReached {
        let detail = format!("the {:?} that the run may take are {how}", self.limit);
        LimitReached { limit: LimitKind::Time, scope: LimitScope::Run, detail }
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// The warning as an event.
pub(crate) fn warning_event(warning: &LimitWarning) -> Event<'_> {
    match warning {
        LimitWarning::Near(LimitReached { limit, scope, detail }) => {
            Event::LimitNear { limit: *limit, scope: *scope, detail }
        }
        LimitWarning::Unknown(LimitReached { limit, scope, detail }) => {
            Event::LimitUnknown { limit: *limit, scope: *scope, detail }
        }
    }
}

/// The tokens by which the program stops a run.
#[derive(Clone, Default)]
pub(crate) struct StopTokens {
    /// Stops the run at once.
    pub(crate) now: CancellationToken,
    /// Stops the run when the model's turn and its calls are over.
    pub(crate) after_turn: CancellationToken,
}
