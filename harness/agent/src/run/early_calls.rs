//! Calls that start while the model is still answering. These calls only read, so their results can be
//! discarded.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use harness_core::{journal::Decision, message::ToolCall, tool::DispatchOutcome};

/// A running call. The future returns the call, its result, and how long it took.
pub(crate) type RunningCall = Pin<Box<dyn Future<Output = FinishedCall> + Send>>;

/// A call that has ended: the call, its outcome, and how long it took.
pub(crate) type FinishedCall = (ToolCall, DispatchOutcome, Duration);

/// The calls of the current answer that have started.
#[derive(Default)]
pub(crate) struct EarlyCalls {
    calls: Vec<EarlyCall>,
}

struct EarlyCall {
    call: ToolCall,
    /// The decision about the call, until the start of the call is recorded.
    decision: Option<Decision>,
    state: EarlyCallState,
}

enum EarlyCallState {
    Running(RunningCall),
    Ended(DispatchOutcome, Duration),
}

impl EarlyCalls {
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether the call with this id has started.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.calls.iter().any(|begun| begun.call.id() == id)
    }

    /// Adds a call that has started.
    pub(crate) fn push(&mut self, running: RunningCall, call: ToolCall, decision: Decision) {
        let state = EarlyCallState::Running(running);
        self.calls.push(EarlyCall { call, decision: Some(decision), state });
    }

    /// Drives the calls while this future is polled. The future never completes.
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

    /// Compares the started calls with the calls of the complete answer. `sealed` finds a call of the answer
    /// by its id. Calls whose decisions are already recorded are not compared. The first list has the calls
    /// that are part of the answer, with their decisions. The second list has the remaining calls: they are
    /// removed here, and their results are discarded.
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

    /// Takes all calls that have started, so that the caller can await them.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = RunningCall> + '_ {
        self.calls.drain(..).map(|EarlyCall { call, state, .. }| match state {
            EarlyCallState::Running(running) => running,
            EarlyCallState::Ended(result, elapsed) => {
                Box::pin(async move { (call, result, elapsed) })
            }
        })
    }

    /// Stops the calls that still run. Returns the calls that have ended and are part of the answer.
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
