//! The calls of one answer, and where each of them stands.

use std::{collections::HashMap, sync::Arc};

use super::{Action, Machine, Outcome, schedule};
use crate::{
    journal::{Repeat, Wait},
    message::{Fingerprint, Message, Role, ToolCall, ToolResult, Transcript},
    tool::{Answered, Reviewed, Scope, SideEffects},
};

#[derive(Clone, Debug)]
pub(super) struct Calling {
    pub(super) asked: Message,
    pub(super) calls: Vec<Call>,
    /// Where each of them stands, by its id.
    places: HashMap<String, usize>,
    /// How many of them nobody has decided about.
    pub(super) undecided: usize,
    /// How many have no result.
    pub(super) unfinished: usize,
    /// All before this one have their results.
    first_unfinished: usize,
    pub(super) then: Then,
}

/// What comes when all calls have their results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Then {
    /// The model's next turn.
    Ask,
    /// The end of the run; calls that have not started will not.
    End(Outcome),
}

#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) call: ToolCall,
    pub(super) status: Status,
    /// Whether it only reads, by what its tool declared when it was allowed.
    pub(super) reads: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Status {
    Asked,
    /// For an approval, before anything was granted; for all else, after it.
    Waiting(Wait, Granted),
    Allowed(Granted),
    Started(Granted),
    /// It had started in a process that did not see its end, and may not run again.
    Doubtful(Granted),
    Finished(ToolResult),
}

/// What was allowed of a call.
#[derive(Clone, Debug, Default)]
pub(super) struct Granted {
    pub(super) effects: SideEffects,
    pub(super) repeat: Repeat,
    /// Whether it has run before, or may have.
    pub(super) again: bool,
    /// Whether it has begun in this process, or had begun before it came to wait.
    pub(super) begun: bool,
    /// On which review of its tool it was decided.
    pub(super) reviewed: Option<Arc<Reviewed>>,
    /// Whether a person was asked about this very call.
    pub(super) by_person: bool,
    /// Which definition of its tool that person was shown, if somebody outside of the program describes it.
    pub(super) definition: Option<String>,
    /// By which earlier *always* it was allowed, if it was: the call that a person was asked about, and
    /// for what it holds.
    pub(super) by_grant: Option<(String, Scope)>,
    /// Whether that *always* was taken back since the call has started.
    pub(super) revoked: bool,
    /// What its tool has asked, and the answer.
    pub(super) answered: Option<Arc<Answered>>,
}

impl Granted {
    /// The call is to run, unless what had allowed it was taken back: then it is asked about anew, if
    /// nothing of it can have happened.
    pub(super) fn may_run(self) -> Status {
        match (self.revoked, self.again) {
            (false, _) => Status::Allowed(self),
            (true, true) => Status::Doubtful(self),
            (true, false) => Status::Asked,
        }
    }
}

impl Call {
    fn of(call: &ToolCall) -> Self {
        Self { call: call.clone(), status: Status::Asked, reads: false }
    }
}

impl Calling {
    pub(super) fn of(asked: &Message, then: Then) -> Self {
        let calls: Vec<Call> = asked.calls().map(Call::of).collect();
        let ids = calls.iter().map(|call| call.call.id().to_owned());
        let (places, count) = (ids.zip(0..).collect(), calls.len());
        let (undecided, unfinished) = (count, count);
        let asked = asked.clone();
        Self { asked, calls, places, undecided, unfinished, first_unfinished: 0, then }
    }

    pub(super) fn get(&self, id: &str) -> Option<&Call> {
        self.calls.get(*self.places.get(id)?)
    }

    /// Says whether a call only reads.
    pub(super) fn reads(&mut self, id: &str, reads: bool) {
        let at = self.places.get(id).copied();
        if let Some(call) = at.and_then(|at| self.calls.get_mut(at)) {
            call.reads = reads;
        }
    }

    /// What becomes of a call.
    pub(super) fn set(&mut self, id: &str, status: Status) {
        let at = self.places.get(id).copied();
        let Some(call) = at.and_then(|at| self.calls.get_mut(at)) else { return };
        match (&call.status, &status) {
            (Status::Asked, Status::Asked) => {}
            (Status::Asked, _) => self.undecided = self.undecided.saturating_sub(1),
            (_, Status::Asked) => self.undecided = self.undecided.saturating_add(1),
            _ => {}
        }
        if let Status::Finished(_) = status {
            self.unfinished = self.unfinished.saturating_sub(1);
        }
        call.status = status;
        let done = |call: &Call| matches!(call.status, Status::Finished(_));
        while self.calls.get(self.first_unfinished).is_some_and(done) {
            self.first_unfinished = self.first_unfinished.saturating_add(1);
        }
    }
}

impl Calling {
    pub(super) fn next(&self) -> Action {
        let those = |is: fn(&Status) -> bool| -> Vec<ToolCall> {
            let those = self.calls.iter().filter(|call| is(&call.status));
            those.map(|call| call.call.clone()).collect()
        };
        if self.undecided > 0 {
            return Action::Decide(those(|status| matches!(status, Status::Asked)));
        }
        let open = self.calls.iter().skip(self.first_unfinished);
        let (mut doubtful, mut started) = (false, false);
        for Call { status, .. } in open.clone() {
            doubtful |= matches!(status, Status::Doubtful(_));
            started |= matches!(status, Status::Started(_));
        }
        if doubtful {
            return Action::FindOut(those(|status| matches!(status, Status::Doubtful(_))));
        }
        // Those behind one that waits do not run before it.
        let open = open.map_while(|Call { call, status, .. }| match status {
            Status::Allowed(granted) => Some(Some(((call, true), granted.effects))),
            Status::Started(granted) => Some(Some(((call, false), granted.effects))),
            Status::Finished(_) => Some(None),
            Status::Asked | Status::Doubtful(_) | Status::Waiting(..) => None,
        });
        // Those that have started hold up what may not run beside them.
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

    /// An *always* was taken back. What it had allowed and what may have run does not run again by it.
    pub(super) fn revoke(&mut self, asked: &str, scope: &Scope) {
        let ids: Vec<String> = self.calls.iter().map(|call| call.call.id().to_owned()).collect();
        for id in ids {
            let Some(call) = self.get(&id) else { continue };
            let revoked = |granted: &Granted| {
                let by = granted.by_grant.as_ref();
                by.is_some_and(|(call, of)| call == asked && of == scope)
                    .then(|| Granted { revoked: true, ..granted.clone() })
            };
            let status = match &call.status {
                Status::Allowed(granted) if granted.again => revoked(granted).map(Status::Doubtful),
                Status::Started(granted) => revoked(granted).map(Status::Started),
                Status::Doubtful(granted) => revoked(granted).map(Status::Doubtful),
                Status::Waiting(wait, granted) => {
                    revoked(granted).map(|granted| Status::Waiting(wait.clone(), granted))
                }
                Status::Asked | Status::Allowed(_) | Status::Finished(_) => None,
            };
            if let Some(status) = status {
                self.set(&id, status);
            }
        }
    }

    /// The process that ran the calls is gone. Those of these ids may not run again.
    pub(super) fn reopen(&mut self, doubtful: &[String]) {
        let ids: Vec<String> = self.calls.iter().map(|call| call.call.id().to_owned()).collect();
        for id in ids {
            let granted = match self.get(&id).map(|call| &call.status) {
                Some(Status::Started(granted)) => granted,
                Some(Status::Allowed(granted)) if granted.again => granted,
                _ => continue,
            };
            let granted = Granted { again: true, ..granted.clone() };
            let may_repeat =
                granted.repeat != Repeat::Never && !granted.revoked && !doubtful.contains(&id);
            let status = if may_repeat { Status::Allowed } else { Status::Doubtful };
            self.set(&id, status(granted));
        }
    }
}

/// The same for every try of a call, also in a program that was started again: it is told from
/// what was said before the model made the call, and from the call's name and arguments, since two
/// answers to the same message may give one id to two calls.
/// A conversation that has a name has it in front: what was forked from another one is a different
/// call.
pub(super) fn idempotency_key(
    conversation: Option<&str>,
    transcript: &Transcript,
    call: &ToolCall,
    fingerprint: Fingerprint,
) -> String {
    let before = transcript.messages().iter().rev().find(|said| said.role() != Role::Assistant);
    let before = before.map_or("", Message::id);
    match conversation {
        Some(conversation) => format!("{conversation}/{before}/{}/{fingerprint}", call.id()),
        None => format!("{before}/{}/{fingerprint}", call.id()),
    }
}

impl Machine {
    /// The calls that wait for what somebody outside of the run decides or answers, in order.
    pub fn waiting(&self) -> impl Iterator<Item = (&ToolCall, &Wait)> {
        self.calls().filter_map(|Call { call, status, .. }| match status {
            Status::Waiting(wait, _) => Some((call, wait)),
            _ => None,
        })
    }

    /// The calls that an earlier *always* has allowed and that have not started.
    pub(super) fn allowed_by(&self, call: &str, scope: &Scope) -> Vec<String> {
        let by = |granted: &Granted| {
            let by = granted.by_grant.as_ref();
            !granted.again && by.is_some_and(|(asked, of)| asked == call && of == scope)
        };
        let those = self.calls().filter(|Call { status, .. }| match status {
            Status::Allowed(granted) => by(granted),
            _ => false,
        });
        those.map(|call| call.call.id().to_owned()).collect()
    }

    /// The calls of which nobody knows how they ended, in order: they had started in a process that
    /// did not see their end, and may not run again.
    pub fn in_doubt(&self) -> impl Iterator<Item = &ToolCall> {
        self.calls().filter_map(|Call { call, status, .. }| match status {
            Status::Doubtful(_) => Some(call),
            _ => None,
        })
    }

    /// The calls that may have run in a process which is gone and that are to run again, as far as is
    /// known here.
    pub(super) fn to_repeat(&self) -> impl Iterator<Item = &ToolCall> {
        self.calls().filter_map(|Call { call, status, .. }| match status {
            Status::Started(_) => Some(call),
            Status::Allowed(granted) if granted.again => Some(call),
            _ => None,
        })
    }

    /// The calls of an answer of which some have no result.
    pub(super) fn open_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.calls().map(|call| &call.call)
    }

    /// The calls that have started and have no result.
    pub(super) fn started(&self) -> impl Iterator<Item = &ToolCall> {
        self.calls().filter_map(|Call { call, status, .. }| match status {
            Status::Started(_) => Some(call),
            _ => None,
        })
    }
}
