//! How a stopped run continues, and the results of calls that are not run to their ends.

use super::{
    call_states::{AfterCalls, CallState, CallStatus, ToolCallStates},
    machine::{Machine, RunPhase, cannot},
};
use crate::{
    Outcome,
    model_notices::{
        GO_ON, lost_notice, not_accepted, stopped_notice, unanswered_notice, unrun_reason,
    },
};
use harness_core::{
    error::Error,
    journal::{Awaited, Fact, Wait},
    message::{CallOutcome, Message, Role, ToolCall, ToolContent, ToolResult},
    provider::breaks_off,
    tool::CallIdentity,
};

impl Machine {
    /// Whether this call is one of the conversation and its late end is not recorded yet.
    pub(crate) fn needs_end_of(&self, ended: &CallIdentity) -> bool {
        let messages = self.transcript.messages();
        let is_it =
            |call: &ToolCall| *call.id() == *ended.call && call.fingerprint() == ended.fingerprint;
        messages.iter().flat_map(Message::calls).any(is_it)
            && !self.window.ended.contains_key(&*ended.call)
    }

    /// The fact with which a stopped run continues.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Transcript`](harness_core::error::ErrorKind::Transcript) if there is nothing to
    /// continue: nothing was said, the model has completed its answer, or calls wait for their
    /// results.
    pub fn resumption(&self) -> Result<Fact, Error> {
        let Some(last) = self.transcript.messages().last() else {
            return Err(cannot("there is nothing to resume: nothing was said yet; `send` begins"));
        };
        if self.is_unchecked() {
            return Ok(resumed(None));
        }
        let is_open = match self.phase {
            RunPhase::Calling(_) => {
                return Err(cannot("a run cannot be resumed while calls wait for results"));
            }
            RunPhase::Ended(Some(Outcome::Answered)) => false,
            RunPhase::Ended(Some(_)) | RunPhase::Asking | RunPhase::Checking => true,
            // The conversation was kept elsewhere, so only its last message can show it.
            RunPhase::Ended(None) => last.is_paused() || breaks_off(last),
        };
        match last.role() {
            Role::User | Role::Tool => Ok(resumed(None)),
            Role::Assistant if !is_open => Err(cannot(
                "there is nothing to resume: the model has answered; `send` says something new",
            )),
            // The vendor continues its own answer only if that comes last and unchanged.
            Role::Assistant if last.is_paused() => Ok(resumed(None)),
            Role::Assistant => {
                let words = match self.phase {
                    RunPhase::Ended(Some(Outcome::Unsupported(item))) => format!(
                        "The program could not execute the `{item}` of your reply, and nothing of it \
                         has happened. Go on without it."
                    ),
                    RunPhase::Ended(Some(Outcome::Unfit)) => not_accepted(self.faults()),
                    _ => GO_ON.to_owned(),
                };
                Ok(resumed(Some(Message::user(words))))
            }
        }
    }

    /// The facts that give every call without a result a true one: it did not start, it only read,
    /// or it may have partly run. After them, the transcript is valid to send. There are none if it
    /// is valid already.
    pub fn settlement(&self) -> impl Iterator<Item = Fact> + '_ {
        let calling = match &self.phase {
            RunPhase::Calling(calling) => Some(calling),
            RunPhase::Asking | RunPhase::Checking | RunPhase::Ended(_) => None,
        };
        calling.into_iter().flat_map(|ToolCallStates { calls, then, .. }| {
            calls.iter().filter_map(|CallState { call, status, .. }| {
                let (outcome, text) = match status {
                    CallStatus::Finished(_) => return None,
                    // It has run in another process, and its outcome is not known.
                    CallStatus::Allowed(granted) if granted.has_run() => {
                        lost_notice(granted.effects)
                    }
                    // It has asked something, and would have gone on with the answer.
                    CallStatus::Allowed(granted) if granted.begun => {
                        stopped_notice(granted.effects)
                    }
                    CallStatus::Asked
                    | CallStatus::Allowed(_)
                    | CallStatus::Waiting(Wait { awaited: Awaited::Approval { .. }, .. }, _) => (
                        CallOutcome::NotStarted,
                        format!(
                            "This call was not started: {}. Nothing of it has happened.",
                            unrun_reason(*then)
                        ),
                    ),
                    CallStatus::Waiting(Wait { awaited: Awaited::Agent { .. }, .. }, granted) => {
                        stopped_notice(granted.effects)
                    }
                    CallStatus::Waiting(Wait { awaited, .. }, _) => unanswered_notice(awaited),
                    CallStatus::Started(granted) => stopped_notice(granted.effects),
                    CallStatus::Doubtful(granted) => lost_notice(granted.effects),
                };
                let result = ToolResult::new(call.id(), outcome, [ToolContent::Text(text)]);
                Some(Fact::CallFinished { result, spent: None })
            })
        })
    }

    /// The provider and the model of a request for a summary that no fact after it records: the process ended before the
    /// answer was complete.
    pub(crate) fn compacting(&self) -> Option<(&str, &str)> {
        self.compacting.as_ref().map(|(provider, model)| (provider.as_str(), model.as_str()))
    }

    /// Ends the run. Its open calls belong to the conversation that it was forked from.
    pub(super) fn fork(&mut self) -> Result<(), Error> {
        let outcome = Outcome::Cancelled;
        match &mut self.phase {
            RunPhase::Ended(_) => return Ok(()),
            RunPhase::Asking | RunPhase::Checking => self.phase = RunPhase::Ended(Some(outcome)),
            RunPhase::Calling(calling) => calling.then = AfterCalls::End(outcome),
        }
        for fact in Vec::from_iter(self.settlement()) {
            self.apply(&fact)?;
        }
        Ok(())
    }
}

fn resumed(message: Option<Message>) -> Fact {
    Fact::Resumed { message, limits: None }
}
