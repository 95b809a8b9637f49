//! Decisions, results and answers from outside of a run, and expired deadlines. This file checks each of these,
//! cleans and shortens the text, and makes one fact.

use super::{
    open_call::{Settlement, SettlementKind, is_over, question},
    policy::decide,
};
use crate::{
    Action, Machine,
    conversation::spilling::LargeResultStore,
    model_notices::{NOBODY_DECIDED, nobody_answered},
};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{Awaited, Decider, Decision, Fact, Wait, now},
    message::{CallOutcome, ProgramValue, ToolCall, ToolResult, unreadable_reason},
    policy::Approval,
    tool::ToolRegistry,
};

/// An external decision or outcome for an open call, or its expired deadline.
pub(crate) enum CallResolution {
    /// A person decides whether the call may run.
    Decide(Approval),
    /// The program gives the outcome of the call, or the answer to its tool's question.
    Settle(Settlement),
    /// The deadline of the call with this id has passed without an answer.
    Expire(String),
}

/// The fact that records a resolution, or the result from which that fact is made.
pub(crate) enum ResolvedCall {
    Fact(Fact),
    /// A result that may be too large and was not cut yet.
    Result {
        result: ToolResult,
        who: Option<String>,
    },
}

impl CallResolution {
    /// The id of the call.
    pub(crate) fn call(&self) -> &str {
        match self {
            Self::Decide(approval) => &approval.question.call,
            Self::Settle(settlement) => &settlement.call,
            Self::Expire(call) => call,
        }
    }

    /// The fact or result that follows from this resolution in the conversation of `machine`.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::NotWaiting`] if the call does not wait for this resolution, if the deadline has
    /// passed, or if the run was stopped.
    pub(crate) fn resolve(
        &self,
        machine: &Machine,
        tools: &ToolRegistry,
    ) -> Result<ResolvedCall, Error> {
        let id = self.call();
        let waiting = machine.waiting().map(|(call, wait)| (call, Some(wait)));
        let doubtful = machine.in_doubt().map(|call| (call, None));
        let open = waiting.chain(doubtful).find(|(call, _)| call.id() == id);
        let Some((call, wait)) = open else {
            return Err(refused(format!(
                "the call `{id}` waits for nothing here: it waits no more, or it is a call of another conversation. \
                 If it is in doubt, whoever has opened the conversation settles it"
            )));
        };
        match (self, wait) {
            (Self::Expire(_), Some(wait)) => return Ok(ResolvedCall::Fact(expired(call, wait))),
            (_, Some(wait)) if is_over(wait) => {
                return Err(refused(format!(
                    "the answer comes too late: the call `{id}` waits no more, and `resume` tells the model that \
                     nobody has answered"
                )));
            }
            _ => {}
        }
        match self {
            Self::Decide(approval) => {
                decision(machine, tools, id, wait, approval).map(ResolvedCall::Fact)
            }
            Self::Settle(settlement) => settle(machine, tools, call, wait, settlement),
            Self::Expire(_) => Err(refused(format!("no call `{id}` waits"))),
        }
    }

    /// Checks that [`resolve`](Self::resolve) would succeed.
    ///
    /// # Errors
    /// Fails as [`resolve`](Self::resolve) does.
    pub(crate) fn check(&self, machine: &Machine, tools: &ToolRegistry) -> Result<(), Error> {
        self.resolve(machine, tools).map(drop)
    }

    /// Does the same as [`resolve`](Self::resolve), but refuses a call in doubt. A process that has not opened
    /// the conversation uses this method: the process that has opened it may be finding out the outcome.
    pub(crate) fn resolve_waiting(
        &self,
        machine: &Machine,
        tools: &ToolRegistry,
    ) -> Result<ResolvedCall, Error> {
        let resolved = self.resolve(machine, tools)?;
        match machine.waiting().any(|(call, _)| call.id() == self.call()) {
            true => Ok(resolved),
            false => Err(refused(format!(
                "the call `{}` is in doubt: whoever has opened the conversation settles it",
                self.call()
            ))),
        }
    }
}

impl ResolvedCall {
    /// Whether this is a result, which may be large.
    pub(crate) fn is_result(&self) -> bool {
        matches!(self, Self::Result { .. })
    }

    /// Makes the fact. If possible, `spilling` stores the full text of a result that is too large.
    pub(crate) async fn into_fact(
        self,
        machine: &Machine,
        tools: &ToolRegistry,
        spilling: &LargeResultStore,
    ) -> Fact {
        match self {
            Self::Fact(fact) => fact,
            Self::Result { result, who } => {
                let (spills, limit) = spilling.for_call(machine.transcript(), false);
                let result = tools.readable_said(&result, (limit, spills.as_ref())).await;
                Fact::CallSettled { result, who, at: now(), spent: None }
            }
        }
    }
}

fn decision(
    machine: &Machine,
    tools: &ToolRegistry,
    id: &str,
    wait: Option<&Wait>,
    approval: &Approval,
) -> Result<Fact, Error> {
    let Some(wait @ Wait { awaited: Awaited::Approval { repeat, review, .. }, .. }) = wait else {
        return Err(refused(format!(
            "the call `{id}` does not wait for a decision: it waits for a result or an answer, or is in doubt, so \
             `settle` it"
        )));
    };
    check_goes_on(machine, id)?;
    let question =
        question(wait).ok_or_else(|| refused(format!("the question of `{id}` cannot be read")))?;
    match decide(&question, *repeat, review.as_deref(), approval.clone(), tools) {
        Some(decision) => Ok(Fact::CallDecided { call: id.to_owned(), decision }),
        None => Err(refused(format!(
            "the approval was given for another question, or decides nothing: the call `{id}` still waits"
        ))),
    }
}

fn settle(
    machine: &Machine,
    tools: &ToolRegistry,
    call: &ToolCall,
    wait: Option<&Wait>,
    settlement: &Settlement,
) -> Result<ResolvedCall, Error> {
    let id = call.id();
    if call.fingerprint() != settlement.fingerprint {
        return Err(refused(format!(
            "this was said of another call: the call `{id}` has other arguments"
        )));
    }
    let who = settlement.who.as_ref().map(|who| tools.readable_text(who));
    let result = |outcome, text: String| {
        let result = ToolResult::new(id, outcome, [text.into()]);
        ResolvedCall::Result { result, who: who.clone() }
    };
    let unreadable = match &settlement.said {
        SettlementKind::Answered { answer } => unreadable_reason(answer),
        _ => None,
    };
    match (&settlement.said, wait.map(|wait| &wait.awaited)) {
        (_, Some(Awaited::Approval { .. })) => Err(refused(format!(
            "the call `{id}` waits to be decided: answer its question, and `decide` it"
        ))),
        (SettlementKind::Answered { .. }, _) if unreadable.is_some() => Err(Error::new(
            ErrorKind::Transcript,
            format!("nothing has changed: the answer {}", unreadable.unwrap_or_default()),
        )),
        (SettlementKind::Answered { .. }, Some(Awaited::Answer { .. }))
            if wait.is_some_and(|wait| wait.nonce != settlement.nonce) =>
        {
            Err(refused(format!(
                "the answer was given to an earlier question: the call `{id}` has asked again"
            )))
        }
        (SettlementKind::Answered { answer }, Some(Awaited::Answer { .. })) => {
            check_goes_on(machine, id)?;
            let (call, answer) = (id.to_owned(), answer.clone());
            Ok(ResolvedCall::Fact(Fact::CallAnswered { call, answer, who, at: now() }))
        }
        (
            SettlementKind::Answered { .. },
            Some(Awaited::Agent { conversation, cut_off: false }),
        ) => Err(refused(format!(
            "the call `{id}` waits for its agent, which asks in the conversation `{conversation}`: \
                 answer what waits there"
        ))),
        (SettlementKind::Answered { .. }, Some(Awaited::Agent { conversation, cut_off: true })) => {
            Err(refused(format!(
                "the call `{id}` has asked nothing: its agent could not go on in `{conversation}`, and \
                 `resume` tries again"
            )))
        }
        (SettlementKind::Answered { .. }, _) => Err(refused(format!(
            "the tool of the call `{id}` has asked nothing: say what became of the call by `succeeded` \
                 or `failed`"
        ))),
        (SettlementKind::Succeeded { result: said }, _) => {
            let (content, value) = (said.content().iter().cloned(), said.value().cloned());
            let result = ToolResult::new(id, CallOutcome::Succeeded, content);
            let result = result.with_kept(value.map(ProgramValue::Json));
            Ok(ResolvedCall::Result { result, who })
        }
        (SettlementKind::Failed { text }, _) => Ok(result(CallOutcome::Failed, text.clone())),
        (SettlementKind::NotHappened, None) => {
            Ok(ResolvedCall::Fact(Fact::CallCleared { call: id.to_owned(), spent: None }))
        }
        (SettlementKind::NotHappened, Some(_)) => {
            let text = "Nothing of this call has happened, and it will not run.".to_owned();
            Ok(result(CallOutcome::NotStarted, text))
        }
    }
}

/// The fact for a wait whose deadline has passed: a denial if the call waits for a decision, else a result.
fn expired(call: &ToolCall, wait: &Wait) -> Fact {
    let id = call.id();
    match &wait.awaited {
        Awaited::Approval { .. } => Fact::CallDecided {
            call: id.to_owned(),
            decision: Decision::Deny { reason: NOBODY_DECIDED.to_owned(), by: Decider::Expired },
        },
        Awaited::Result | Awaited::Answer { .. } | Awaited::Agent { .. } => {
            let (outcome, text) = nobody_answered();
            let result = ToolResult::new(id, outcome, [text.into()]);
            Fact::CallSettled { result, who: None, at: now(), spent: None }
        }
    }
}

/// Checks that a waiting call can still run. If the run was stopped, its calls do not run any more.
fn check_goes_on(machine: &Machine, id: &str) -> Result<(), Error> {
    match machine.next() {
        Action::Settle => {
            Err(refused(format!("the run was stopped, so the call `{id}` does not run any more")))
        }
        _ => Ok(()),
    }
}

fn refused(why: String) -> Error {
    Error::new(ErrorKind::NotWaiting, format!("nothing has changed: {why}"))
}
