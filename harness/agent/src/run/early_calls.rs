//! Calls that start while the model is still answering. They only read, so their results can be
//! thrown away without harm.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use harness_core::{journal::Decision, message::ToolCall, tool::DispatchOutcome};

/// A call that runs. The future returns the call, its result, and how long it took.
pub(crate) type RunningCall = Pin<Box<dyn Future<Output = FinishedCall> + Send>>;

/// A call that has ended.
pub(crate) type FinishedCall = (ToolCall, DispatchOutcome, Duration);

/// The calls of the current answer that have started.
#[derive(Default)]
pub(crate) struct EarlyCalls {
    calls: Vec<EarlyCall>,
}

/// A call that has started.
struct EarlyCall {
    call: ToolCall,
    /// The decision about it, until its start is recorded.
    decision: Option<Decision>,
    state: EarlyCallState,
}

enum EarlyCallState {
    Running(RunningCall),
    Ended(DispatchOutcome, Duration),
}

impl EarlyCalls {
    /// How many have started.
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether the call of this id has started.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.calls.iter().any(|begun| begun.call.id() == id)
    }

    /// Adds a call that has begun.
    pub(crate) fn push(&mut self, running: RunningCall, call: ToolCall, decision: Decision) {
        let state = EarlyCallState::Running(running);
        self.calls.push(EarlyCall { call, decision: Some(decision), state });
    }

    /// Drives the calls for as long as it is polled; it never ends.
    pub(crate) async fn drive(&mut self) {
        poll_fn(|context| {
            self.poll(context);
            Poll::Pending
        })
        .await
    }

    /// Polls the running calls once.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) {
        for EarlyCall { state, .. } in &mut self.calls {
            if let EarlyCallState::Running(running) = state
                && let Poll::Ready((_, result, elapsed)) = running.as_mut().poll(context)
            {
                *state = EarlyCallState::Ended(result, elapsed);
            }
        }
    }

    /// Compares the started calls whose decisions are not recorded yet with those of the answer, in which `sealed`
    /// finds a call by its id. Returns those that are part of the answer, with their decisions, and then those that
    /// are not. The latter are removed here, so that their results are lost.
    pub(crate) fn count<'m>(
        &mut self,
        sealed: impl Fn(&str) -> Option<&'m ToolCall>,
    ) -> (Vec<(ToolCall, Decision)>, Vec<ToolCall>) {
        let (mut counting, mut others) = (Vec::new(), Vec::new());
        self.calls.retain_mut(|begun| {
            let Some(decision) = &begun.decision else { return true };
            let is_it = sealed(begun.call.id()).is_some_and(|sealed| {
                sealed.name() == begun.call.name()
                    && (sealed.arguments().trim() == begun.call.arguments().trim()
                        || sealed.fingerprint() == begun.call.fingerprint())
            });
            if is_it {
                counting.push((begun.call.clone(), decision.clone()));
                begun.decision = None;
            } else {
                others.push(begun.call.clone());
            }
            is_it
        });
        (counting, others)
    }

    /// Takes the calls that have started, so that they can be waited for.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = RunningCall> + '_ {
        self.calls.drain(..).map(|EarlyCall { call, state, .. }| match state {
            EarlyCallState::Running(running) => running,
            EarlyCallState::Ended(result, elapsed) => {
                Box::pin(async move { (call, result, elapsed) })
            }
        })
    }

    /// Stops the calls that still run, and returns those that have ended.
    pub(crate) fn stop(&mut self) -> Vec<FinishedCall> {
        let calls = self.calls.drain(..);
        let ended = calls.filter_map(|EarlyCall { call, decision, state }| match state {
            EarlyCallState::Ended(result, elapsed) if decision.is_none() => {
                Some((call, result, elapsed))
            }
            EarlyCallState::Ended(..) | EarlyCallState::Running(_) => None,
        });
        ended.collect()
    }
}
