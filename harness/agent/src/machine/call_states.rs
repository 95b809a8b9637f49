//! The calls of one answer, and the status of each call.

use std::{collections::HashMap, sync::Arc};

use super::{action::Action, outcome::Outcome, schedule};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{CallBinding, Repeat, Wait},
    message::{Arguments, Fingerprint, Message, Role, ToolCall, ToolResult, Transcript},
    tool::{Answered, Reviewed, Scope, SideEffects, Tool},
};

#[derive(Clone, Debug)]
pub(crate) struct ToolCallStates {
    pub(crate) asked: Message,
    pub(crate) calls: Vec<CallState>,
    /// The index of each call, by its id.
    places: HashMap<String, usize>,
    /// How many calls have no decision.
    pub(crate) undecided: usize,
    /// How many calls have no result.
    pub(crate) unfinished: usize,
    /// The index of the first call without a result.
    first_unfinished: usize,
    pub(crate) then: AfterCalls,
}

/// What happens when all calls have their results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum AfterCalls {
    /// The model gets the results in its next turn.
    Ask,
    /// The run ends. Calls that have not started do not start any more.
    End(Outcome),
}

#[derive(Clone, Debug)]
pub(crate) struct CallState {
    pub(crate) call: ToolCall,
    pub(crate) status: CallStatus,
    /// Whether the call only reads, as its tool declared when the call was allowed.
    pub(crate) reads: bool,
    /// The binding that a person has approved, if the call now needs a new decision.
    pub(crate) allowed_before: Option<Arc<CallBinding>>,
}

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "only the calls of one answer have a state")]
pub(crate) enum CallStatus {
    Asked,
    /// The call waits. The second value is the approval of the call, or empty if the call waits for an
    /// approval.
    Waiting(Wait, ApprovedCall),
    Allowed(ApprovedCall),
    Started(ApprovedCall),
    /// The call had started in an earlier process, and must not run again. Its outcome is not known.
    Doubtful(ApprovedCall),
    Finished(ToolResult),
}

/// The approval of a call, and what has happened since.
#[derive(Clone, Debug, Default)]
pub(crate) struct ApprovedCall {
    pub(crate) effects: SideEffects,
    pub(crate) repeat: Repeat,
    /// Whether the call had started in an earlier process.
    pub(crate) again: bool,
    /// Whether the call, or its agent, has asked a question. If so, the call began before the wait.
    pub(crate) begun: bool,
    /// Whether the call's agent has waited. The agent may have had effects before the wait.
    pub(crate) waited: bool,
    /// The tool's review of the call, if the decision is based on a review.
    pub(crate) reviewed: Option<Arc<Reviewed>>,
    /// Whether the call is not valid, so that no tool runs. The model then gets an error message.
    pub(crate) runs_nothing: bool,
    /// What a person saw and allowed, by an answer or by an earlier *always*.
    pub(crate) binding: Option<Arc<CallBinding>>,
    /// The earlier *always* that has allowed the call: its scope, and the id of the call for which a person
    /// gave the *always*.
    pub(crate) by_grant: Option<(String, Scope)>,
    /// Whether the earlier *always* that has allowed the call was withdrawn after the call had started.
    pub(crate) revoked: bool,
    /// The question of the call's tool, and the answer to it.
    pub(crate) answered: Option<Arc<Answered>>,
}

impl ApprovedCall {
    /// The arguments with which the call runs: the arguments that a person saw. Without such arguments, the
    /// model's arguments with the tool's defaults.
    pub(crate) fn arguments(&self, call: &ToolCall, tool: &Tool) -> Result<Arguments, Error> {
        match &self.binding {
            Some(seen) => Ok(seen.arguments.clone()),
            None => tool.arguments_of(call),
        }
    }

    /// Whether an earlier start of the call may have had an effect.
    pub(crate) fn has_run(&self) -> bool {
        self.again || self.waited
    }

    /// A copy of the approval for a call whose earlier starts have had no effect.
    pub(crate) fn cleared(&self) -> Self {
        Self { again: false, begun: false, waited: false, ..self.clone() }
    }

    /// The status of an allowed call. If the approval was withdrawn, a call that may have run is in doubt, and
    /// any other call is decided again.
    pub(crate) fn may_run(self) -> CallStatus {
        match (self.revoked, self.has_run()) {
            (false, _) => CallStatus::Allowed(self),
            (true, true) => CallStatus::Doubtful(self),
            (true, false) => CallStatus::Asked,
        }
    }
}

impl CallState {
    fn of(call: &ToolCall) -> Self {
        let (call, status) = (call.clone(), CallStatus::Asked);
        Self { call, status, reads: false, allowed_before: None }
    }
}

impl ToolCallStates {
    pub(crate) fn of(asked: &Message, then: AfterCalls) -> Self {
        let mut calls: Vec<CallState> = asked.calls().map(CallState::of).collect();
        // Most answers have fewer calls than a vector has room for.
        calls.shrink_to_fit();
        let ids = calls.iter().map(|call| call.call.id().to_owned());
        let (places, count) = (ids.zip(0..).collect(), calls.len());
        let (undecided, unfinished) = (count, count);
        let asked = asked.clone();
        Self { asked, calls, places, undecided, unfinished, first_unfinished: 0, then }
    }

    pub(crate) fn get(&self, id: &str) -> Option<&CallState> {
        self.calls.get(*self.places.get(id)?)
    }

    /// Records whether a call only reads.
    pub(crate) fn set_read_only(&mut self, id: &str, reads: bool) {
        let at = self.places.get(id).copied();
        if let Some(call) = at.and_then(|at| self.calls.get_mut(at)) {
            call.reads = reads;
        }
    }

    /// Sets the status of a call and updates the counts.
    pub(crate) fn set(&mut self, id: &str, status: CallStatus) {
        let at = self.places.get(id).copied();
        let Some(call) = at.and_then(|at| self.calls.get_mut(at)) else { return };
        match (&call.status, &status) {
            (CallStatus::Asked, CallStatus::Asked) => {}
            (CallStatus::Asked, _) => self.undecided = self.undecided.saturating_sub(1),
            (_, CallStatus::Asked) => self.undecided = self.undecided.saturating_add(1),
            _ => {}
        }
        if let (CallStatus::Allowed(approved), CallStatus::Asked) = (&call.status, &status) {
            call.allowed_before.clone_from(&approved.binding);
        }
        if let CallStatus::Finished(_) = status {
            self.unfinished = self.unfinished.saturating_sub(1);
        }
        call.status = status;
        let done = |call: &CallState| matches!(call.status, CallStatus::Finished(_));
        while self.calls.get(self.first_unfinished).is_some_and(done) {
            self.first_unfinished = self.first_unfinished.saturating_add(1);
        }
    }
}

impl ToolCallStates {
    pub(crate) fn next(&self) -> Action {
        let those = |is: fn(&CallStatus) -> bool| -> Vec<ToolCall> {
            let those = self.calls.iter().filter(|call| is(&call.status));
            those.map(|call| call.call.clone()).collect()
        };
        if self.undecided > 0 {
            return Action::Decide(those(|status| matches!(status, CallStatus::Asked)));
        }
        let open = self.calls.iter().skip(self.first_unfinished);
        let (mut doubtful, mut started) = (false, false);
        for CallState { status, .. } in open.clone() {
            doubtful |= matches!(status, CallStatus::Doubtful(_));
            started |= matches!(status, CallStatus::Started(_));
        }
        if doubtful {
            return Action::FindOut(those(|status| matches!(status, CallStatus::Doubtful(_))));
        }
        // A call does not run before an earlier waiting call.
        let open = open.map_while(|CallState { call, status, .. }| match status {
            CallStatus::Allowed(granted) => Some(Some(((call, true), granted.effects))),
            CallStatus::Started(granted) => Some(Some(((call, false), granted.effects))),
            CallStatus::Finished(_) => Some(None),
            CallStatus::Asked | CallStatus::Doubtful(_) | CallStatus::Waiting(..) => None,
        });
        // The started calls are part of the batch, so a call that must not run in parallel with a started call
        // waits.
        let batch = schedule::next_batch(open.flatten());
        if batch.is_empty() && !started {
            return Action::AwaitAnswers;
        }
        let batch = batch.into_iter().filter(|(_, waits)| *waits);
        let waiting: Vec<ToolCall> = batch.map(|(call, _)| call.clone()).collect();
        match waiting.is_empty() {
            true => Action::AwaitResults,
            false => Action::RunCalls(waiting),
        }
    }

    /// Withdraws an *always*. A call that may have run does not run again if this *always* had allowed the
    /// call.
    pub(crate) fn revoke(&mut self, asked: &str, scope: &Scope) {
        let ids: Vec<String> = self.calls.iter().map(|call| call.call.id().to_owned()).collect();
        for id in ids {
            let Some(call) = self.get(&id) else { continue };
            let revoked = |granted: &ApprovedCall| {
                let by = granted.by_grant.as_ref();
                by.is_some_and(|(call, of)| call == asked && of == scope)
                    .then(|| ApprovedCall { revoked: true, ..granted.clone() })
            };
            let status = match &call.status {
                CallStatus::Allowed(granted) if granted.has_run() => {
                    revoked(granted).map(CallStatus::Doubtful)
                }
                CallStatus::Started(granted) => revoked(granted).map(CallStatus::Started),
                CallStatus::Doubtful(granted) => revoked(granted).map(CallStatus::Doubtful),
                CallStatus::Waiting(wait, granted) => {
                    revoked(granted).map(|granted| CallStatus::Waiting(wait.clone(), granted))
                }
                CallStatus::Asked | CallStatus::Allowed(_) | CallStatus::Finished(_) => None,
            };
            if let Some(status) = status {
                self.set(&id, status);
            }
        }
    }

    /// Records that the process which ran the calls has ended. Calls that must not run again become calls in
    /// doubt. These are the calls in `doubtful`, and the calls whose approval does not allow a second run.
    pub(crate) fn reopen(&mut self, doubtful: &[String]) {
        let ids: Vec<String> = self.calls.iter().map(|call| call.call.id().to_owned()).collect();
        for id in ids {
            let granted = match self.get(&id).map(|call| &call.status) {
                Some(CallStatus::Started(granted)) => granted,
                Some(CallStatus::Allowed(granted)) if granted.again => granted,
                _ => continue,
            };
            let granted = ApprovedCall { again: true, ..granted.clone() };
            let may_repeat =
                granted.repeat != Repeat::Never && !granted.revoked && !doubtful.contains(&id);
            let status = if may_repeat { CallStatus::Allowed } else { CallStatus::Doubtful };
            self.set(&id, status(granted));
        }
    }
}

/// The idempotency key of a call, the same for every attempt, even after a restart of the program. The key
/// begins with the name of the conversation if there is a name, so the call has another key in a fork. The next
/// part is the id of the last message before the call that the model did not write. The key ends with the id,
/// the name and the arguments of the call, because two answers to one message may use one id for two calls.
pub(crate) fn idempotency_key(
    conversation: Option<&str>,
    transcript: &Transcript,
    call: &ToolCall,
    fingerprint: Fingerprint,
) -> String {
    let before = id_of_question(transcript);
    match conversation {
        Some(conversation) => format!("{conversation}/{before}/{}/{fingerprint}", call.id()),
        None => format!("{before}/{}/{fingerprint}", call.id()),
    }
}

/// The call of another conversation that has started a run.
#[derive(Clone, Debug)]
pub(crate) struct CallerName {
    pub(crate) conversation: String,
    pub(crate) call: String,
    /// The id of the message to which the model has replied with the call. `None` if the message is not known.
    pub(crate) message: Option<String>,
}

impl CallerName {
    /// Whether the call may belong to an answer to this message.
    pub(crate) fn is_asked_by(&self, message: &str) -> bool {
        self.message.as_deref().is_none_or(|known| known == message)
    }
}

/// The id of the last message of this transcript that the model did not write. The model has replied to this
/// message with the calls at the end of the transcript.
pub(crate) fn id_of_question(transcript: &Transcript) -> &str {
    let before = transcript.messages().iter().rev().find(|said| said.role() != Role::Assistant);
    before.map_or("", Message::id)
}

#[derive(Clone, Debug)]
pub(super) enum RunPhase {
    /// The conversation has no message yet, or its run has ended.
    Ended(Option<Outcome>),
    /// The next step is an answer of the model.
    Asking,
    /// Calls have no results yet.
    Calling(Box<ToolCallStates>),
    /// The model has answered, and the answer is not checked yet.
    Checking,
}

pub(super) fn cannot(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Transcript, message)
}
