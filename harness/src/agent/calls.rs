//! The calls of one answer: decided, run, answered.

use std::{collections::HashMap, time::Duration};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::{
    sync::mpsc::UnboundedSender,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    Agent, Chat, Event,
    early::{Ended, begin},
    halt::Told,
    machine::stopped,
    permit::denial,
    reports::Report,
    run::Run,
};
use crate::{
    error::Error,
    journal::{Decision, Entry, InterruptCause},
    message::{CallOutcome, Message, Role, ToolCall, ToolContent, ToolResult, Transcript},
    tool::{GRACE, SideEffects, ToolContext, cut},
};

/// Calls that run at the same time, at most.
pub(super) const AT_ONCE: usize = 8;

/// What the calls of a run are given: kept for as long as they run, for what a tool has put out
/// so far is part of the truth about a call that is stopped.
pub(super) struct Contexts {
    /// What all calls of the run share.
    shared: ToolContext,
    made: HashMap<String, ToolContext>,
    /// How long a call of this run may take, if the run says so.
    time: Option<Duration>,
}

impl Contexts {
    /// For a run of this conversation, whose tools can see what is left of its limits.
    pub(super) fn new(chat: &Chat, time: Option<Duration>) -> Self {
        let shared = chat.agent.context().clone().with(chat.budget());
        Self { shared, made: HashMap::new(), time }
    }

    /// What a call is given when it runs.
    pub(super) fn make(
        &mut self,
        transcript: &Transcript,
        call: &ToolCall,
        stop: &CancellationToken,
        reports: UnboundedSender<Report>,
    ) -> ToolContext {
        let id = call.id().to_owned();
        let context = self
            .shared
            .for_call(call.id())
            .with_idempotency_key(idempotency_key(transcript, call))
            .with_cancellation(stop.child_token())
            .with_deadline(self.time.and_then(|time| Instant::now().checked_add(time)))
            .with_watch(move |message| {
                // Nobody listens any more once the run is over.
                let _ = reports.send((id.clone(), message.to_owned()));
            });
        self.made.insert(call.id().to_owned(), context.clone());
        context
    }

    /// Forgets the calls of a turn that is over.
    pub(super) fn clear(&mut self) {
        self.made.clear();
    }

    /// The result of a call that was stopped, with what its tool had put out until then.
    pub(super) fn with_output_so_far(&self, agent: &Agent, result: ToolResult) -> ToolResult {
        let stopped =
            matches!(result.outcome(), CallOutcome::StoppedReading | CallOutcome::InDoubt);
        let kept = self.made.get(result.call_id()).and_then(ToolContext::output_so_far);
        let Some(kept) = kept.filter(|_| stopped) else { return result };
        let limit = agent.tools().limits().output;
        let kept = if kept.len() > limit { cut(&kept, limit, "") } else { kept };
        let kept = ToolContent::Text(format!("Its output until then:\n{kept}"));
        let content = result.content().iter().cloned().chain([kept]);
        ToolResult::new(result.call_id(), result.outcome(), content)
    }
}

/// The same for every try of a call, also in a program that was started again: it is told from
/// what was said before the model made the call.
fn idempotency_key(transcript: &Transcript, call: &ToolCall) -> String {
    let before = transcript.messages().iter().rev().find(|said| said.role() != Role::Assistant);
    format!("{}/{}", before.map_or("", Message::id), call.id())
}

impl Run<'_> {
    /// Answers the calls that are too many for one answer: they do not run.
    pub(super) fn refuse(&mut self, surplus: &[ToolCall]) -> Result<(), Error> {
        for call in surplus {
            let text = format!(
                "This call was not started: your answer asked for more than the {} calls that run \
                 of one answer. Nothing of it has happened. Ask for it in your next answer if it \
                 is still needed.",
                self.chat.guard.of_one_answer(usize::MAX)
            );
            let content = [ToolContent::Text(text)];
            let result = ToolResult::new(call.id(), CallOutcome::NotStarted, content);
            self.emit(Event::ToolResult { call, result: &result, elapsed: Duration::ZERO });
            self.chat.record(&Entry::CallFinished { result })?;
        }
        Ok(())
    }

    /// Decides which calls may run, one after the other.
    pub(super) async fn decide(&mut self, calls: &[ToolCall]) -> Result<(), Error> {
        let agent = self.chat.agent.clone();
        for call in calls {
            let id = call.id().to_owned();
            // A call of a tool that does not exist does nothing but answer with the names.
            let Some(tool) = agent.tools().get(call.name()) else {
                let decision = Decision::Allow { side_effects: SideEffects::NONE };
                self.chat.record(&Entry::CallDecided { call: id, decision })?;
                continue;
            };
            let side_effects = tool.side_effects();
            let asked_at = Instant::now();
            let denial = tokio::select! {
                biased;
                () = self.halt.cancelled() => return self.interrupt(None),
                denial = denial(&agent, &mut self.chat.always, call, side_effects) => denial,
                () = self.early.drive() => None,
            };
            // A person may take the time that it takes.
            self.halt.postpone(asked_at.elapsed());
            let Some(reason) = denial else {
                let decision = Decision::Allow { side_effects };
                self.chat.record(&Entry::CallDecided { call: id, decision })?;
                continue;
            };
            self.emit(Event::ToolDenied { call, reason: &reason });
            let stop = agent.permissions().stops_on_denial();
            if stop {
                self.interrupted(InterruptCause::Denial { call: id.clone() })?;
            }
            let decision = Decision::Deny { reason };
            self.chat.record(&Entry::CallDecided { call: id, decision })?;
            if stop {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Runs the calls of one batch, at most so many at once. Those that started early go on.
    pub(super) async fn call(&mut self, calls: &[ToolCall]) -> Result<(), Error> {
        let agent = self.chat.agent.clone();
        let mut waiting = calls.iter();
        let mut running = FuturesUnordered::new();
        let cause = loop {
            while running.len() < AT_ONCE {
                let Some(call) = waiting.next() else { break };
                self.chat.record(&Entry::CallStarted { call: call.id().to_owned() })?;
                if let Some(early) = self.early.take(call) {
                    running.push(early);
                    continue;
                }
                let scope = self.chat.tracer.call(call, false);
                self.emit(Event::ToolCall(call));
                let transcript = self.chat.machine.transcript();
                let (stop, reports) = (self.over.token(), self.reports.sender());
                let context = self.contexts.make(transcript, call, stop, reports);
                running.push(begin(&agent, call, context, scope));
            }
            tokio::select! {
                biased;
                told = self.halt.told() => match told {
                    Told::Stop(cause) => break cause,
                    Told::Warn(warning) => self.warned(&warning),
                },
                (call, message) = self.reports.next() => {
                    self.chat.tracer.progress(&call, &message);
                    self.emit(Event::ToolProgress { call: &call, message: &message });
                }
                ended = running.next() => match ended {
                    Some(ended) => self.ended(ended)?,
                    None => return Ok(()),
                },
                () = self.early.drive() => {}
            }
        };
        let until = Instant::now() + GRACE;
        while let Ok(Some((call, result, elapsed))) = timeout_at(until, running.next()).await {
            let effects = agent.tools().get(call.name()).map(|tool| tool.side_effects());
            let result = stopped_result(result, effects.unwrap_or_default());
            self.ended((call, result, elapsed))?;
        }
        drop(running);
        self.interrupted(cause)
    }

    fn ended(&mut self, (call, result, elapsed): Ended) -> Result<(), Error> {
        let result = self.chat.guard.noted(&call, result);
        self.chat.tracer.ran(&call, elapsed);
        self.emit(Event::ToolResult { call: &call, result: &result, elapsed });
        self.chat.record(&Entry::CallFinished { result })
    }
}

/// A tool that failed because it was told to stop did not run to its end: what it says of itself
/// is kept, after the truth.
fn stopped_result(result: ToolResult, effects: SideEffects) -> ToolResult {
    if result.outcome() != CallOutcome::Failed {
        return result;
    }
    let (outcome, truth) = stopped(effects);
    let content = std::iter::once(ToolContent::Text(truth)).chain(result.content().iter().cloned());
    ToolResult::new(result.call_id(), outcome, content)
}
