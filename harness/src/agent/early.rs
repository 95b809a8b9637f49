//! Calls that start while the model is still speaking: those that only read, since throwing their
//! results away is harmless.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::Instant;

use super::Agent;
use crate::{
    message::{ToolCall, ToolResult},
    tool::ToolContext,
    trace::Scope,
};

/// A call that runs: it gives the call, its result, and how long it took.
pub(super) type Running = Pin<Box<dyn Future<Output = Ended> + Send>>;

/// A call that has ended.
pub(super) type Ended = (ToolCall, ToolResult, Duration);

/// Begins a call. Nothing happens before the future is polled.
pub(super) fn begin(agent: &Agent, call: &ToolCall, context: ToolContext, scope: Scope) -> Running {
    let (agent, call) = (agent.clone(), call.clone());
    Box::pin(async move {
        let begun = Instant::now();
        let result = scope.call(agent.tools().dispatch(&call, &context)).await;
        (call, result, begun.elapsed())
    })
}

/// The calls of the answer that is being given which have started already.
#[derive(Default)]
pub(super) struct Early {
    calls: Vec<(ToolCall, State)>,
}

enum State {
    Running(Running),
    Ended(ToolResult, Duration),
}

impl Early {
    /// Forgets those that were not wanted after all.
    pub(super) fn clear(&mut self) {
        self.calls.clear();
    }

    /// Those that have started, and were not taken over.
    pub(super) fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.calls.iter().map(|(call, _)| call)
    }

    /// How many have started.
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether the call of this id has started.
    pub(super) fn has(&self, id: &str) -> bool {
        self.calls.iter().any(|(call, _)| call.id() == id)
    }

    /// Takes over a call that has begun.
    pub(super) fn push(&mut self, running: Running, call: ToolCall) {
        self.calls.push((call, State::Running(running)));
    }

    /// Drives the calls for as long as it is polled; it never ends.
    pub(super) async fn drive(&mut self) {
        poll_fn(|context| {
            self.poll(context);
            Poll::Pending
        })
        .await
    }

    /// Drives the calls on.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) {
        for (_, state) in &mut self.calls {
            if let State::Running(running) = state
                && let Poll::Ready((_, result, elapsed)) = running.as_mut().poll(context)
            {
                *state = State::Ended(result, elapsed);
            }
        }
    }

    /// Gives back the started call that is this one, now that it is sealed: the same id, name and
    /// arguments.
    pub(super) fn take(&mut self, sealed: &ToolCall) -> Option<Running> {
        let is_it = |(call, _): &(ToolCall, State)| {
            call.id() == sealed.id()
                && call.name() == sealed.name()
                && call.arguments().trim() == sealed.arguments().trim()
        };
        let at = self.calls.iter().position(is_it)?;
        let (call, state) = self.calls.swap_remove(at);
        Some(match state {
            State::Running(running) => running,
            State::Ended(result, elapsed) => Box::pin(async move { (call, result, elapsed) }),
        })
    }

    /// What is true of those that will not go on: each call, with its result if it has one.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (ToolCall, Option<ToolResult>)> + '_ {
        self.calls.drain(..).map(|(call, state)| match state {
            State::Running(_) => (call, None),
            State::Ended(result, _) => (call, Some(result)),
        })
    }
}
