//! Calls that wait for somebody outside of the run, and the decisions, results and answers for
//! them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Action, Machine, permit::decision, spilling::Spilling};
use crate::{
    error::{Error, ErrorKind},
    journal::{Awaited, Fact, Wait, now},
    message::{CallOutcome, Fingerprint, Kept, ToolCall, ToolContent, ToolResult, is_too_deep},
    policy::{Approval, Question},
    tool::{ToolOutput, ToolRegistry},
};

/// A call that cannot continue by itself: it waits for a decision, a result or an answer, or its
/// outcome is not known. Answer it by [`Chat::decide`](super::Chat::decide) or
/// [`Chat::settle`](super::Chat::settle), or from any process by an [`Inbox`](super::Inbox).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OpenCall {
    /// The call.
    pub call: ToolCall,
    /// The key by which a service recognizes a repetition of the call.
    pub idempotency_key: String,
    /// What it waits for; `None` if it is in doubt.
    pub wait: Option<Wait>,
}

impl OpenCall {
    /// The question to show to a person, if the call waits for a decision.
    pub fn question(&self) -> Option<Question> {
        question(self.wait.as_ref()?)
    }

    /// The call has run, and this is its result. A [file](ToolOutput::file) is only named, not
    /// read.
    pub fn succeeded(&self, output: impl Into<ToolOutput>) -> Settlement {
        let (mut content, value, file) = output.into().into_parts();
        if let Some(file) = file {
            let text =
                format!("[The result is in the file `{}`, which was not read.]", file.display());
            content.push(text.into());
        }
        let result = ToolResult::new(self.call.id(), CallOutcome::Succeeded, content);
        let result = result.with_kept(value.map(Kept::Json));
        self.settled(Said::Succeeded { result })
    }

    /// The call has run and failed. The text is for the model.
    pub fn failed(&self, text: impl Into<String>) -> Settlement {
        self.settled(Said::Failed { text: text.into() })
    }

    /// Nothing of the call has happened. If it was in doubt, it runs now. If it waited, the model
    /// is told that it did not start.
    pub fn not_happened(&self) -> Settlement {
        self.settled(Said::NotHappened)
    }

    /// The answer to the question of the call's tool. The tool is called again with it.
    pub fn answered(&self, answer: impl Into<Value>) -> Settlement {
        self.settled(Said::Answered { answer: answer.into() })
    }

    fn settled(&self, said: Said) -> Settlement {
        let (call, fingerprint) = (self.call.id().to_owned(), self.call.fingerprint());
        Settlement { call, fingerprint, said, who: None }
    }
}

/// The outcome of a call, made by a method of [`OpenCall`]. It applies only to a call with this id
/// and these arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Settlement {
    /// The id of the call.
    pub call: String,
    /// A hash of the tool's name and the arguments.
    pub fingerprint: Fingerprint,
    said: Said,
    /// The person who gave the outcome, for the record.
    pub who: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "said", rename_all = "snake_case")]
enum Said {
    Succeeded { result: ToolResult },
    Failed { text: String },
    NotHappened,
    Answered { answer: Value },
}

impl Settlement {
    /// Sets who gave the outcome. It is stored with the fact.
    #[must_use]
    pub fn by(mut self, who: impl Into<String>) -> Self {
        self.who = Some(who.into());
        self
    }
}

fn question(wait: &Wait) -> Option<Question> {
    match &wait.awaited {
        Awaited::Approval { question, .. } => serde_json::from_value(question.clone()).ok(),
        Awaited::Result | Awaited::Answer { .. } | Awaited::Agent { .. } => None,
    }
}

/// The fact for an approval in this conversation.
///
/// # Errors
/// Fails with [`ErrorKind::NotWaiting`] if no waiting call has this question, the approval comes
/// too late, or the run was stopped.
pub(super) fn decided(machine: &Machine, approval: Approval) -> Result<Fact, Error> {
    let id = approval.question.call.clone();
    let Some((_, wait)) = machine.waiting().find(|(call, _)| call.id() == id) else {
        return Err(refused(format!(
            "the call `{id}` does not wait for a decision: it no longer waits, or it is a call of another \
             conversation"
        )));
    };
    let Awaited::Approval { repeat, review, .. } = &wait.awaited else {
        return Err(refused(format!(
            "the call `{id}` does not wait for a decision: it waits for a result or an answer, so `settle` it"
        )));
    };
    in_time(wait, &id)?;
    goes_on(machine, &id)?;
    let question = question(wait);
    let question =
        question.ok_or_else(|| refused(format!("the question of `{id}` cannot be read")))?;
    match decision(&question, *repeat, review.as_deref(), approval) {
        Some(decision) => Ok(Fact::CallDecided { call: id, decision }),
        None => Err(refused(format!(
            "the approval was given for another question, or decides nothing: the call `{id}` still \
             waits"
        ))),
    }
}

/// What a settlement in this conversation comes to.
pub(super) enum Settled {
    Fact(Fact),
    /// A result that was not cut yet.
    Result {
        result: ToolResult,
        who: Option<String>,
    },
}

impl Settled {
    /// Whether it is a result, which may be large.
    pub(super) fn is_result(&self) -> bool {
        matches!(self, Self::Result { .. })
    }

    /// The fact. What is cut of a result is kept in the room that there is for it.
    pub(super) async fn fact(
        self,
        machine: &Machine,
        tools: &ToolRegistry,
        spilling: &Spilling,
    ) -> Fact {
        match self {
            Self::Fact(fact) => fact,
            Self::Result { result, who } => {
                let (spills, limit) = spilling.for_call(machine.transcript(), false);
                let result = tools.readable_said(&result, (limit, spills.as_ref())).await;
                Fact::CallSettled { result, who, at: now() }
            }
        }
    }
}

/// Checks a settlement of a call in this conversation.
///
/// # Errors
/// Fails if the call does not wait for it.
pub(super) fn settled(machine: &Machine, settlement: Settlement) -> Result<Settled, Error> {
    let Settlement { call: id, fingerprint, said, who } = settlement;
    let waiting = machine.waiting().map(|(call, wait)| (call, Some(wait)));
    let doubtful = machine.in_doubt().map(|call| (call, None));
    let open = waiting.chain(doubtful).find(|(call, _)| call.id() == id);
    let Some((call, wait)) = open else { return Err(no_wait(&id)) };
    if call.fingerprint() != fingerprint {
        return Err(refused(format!(
            "this was said of another call: the call `{id}` has other arguments"
        )));
    }
    if let Some(wait) = wait {
        in_time(wait, &id)?;
    }
    let awaited = wait.map(|wait| &wait.awaited);
    let result = |outcome, text: String| {
        let result = ToolResult::new(&*id, outcome, [text.into()]);
        Settled::Result { result, who: who.clone() }
    };
    match (said, awaited) {
        (_, Some(Awaited::Approval { .. })) => Err(refused(format!(
            "the call `{id}` waits to be decided: answer its question, and `decide` it"
        ))),
        (Said::Answered { answer }, _) if is_too_deep(&answer) => Err(Error::new(
            ErrorKind::Transcript,
            "nothing has changed: the answer is nested too deep to be read back",
        )),
        (Said::Answered { answer }, Some(Awaited::Answer { .. })) => {
            goes_on(machine, &id)?;
            Ok(Settled::Fact(Fact::CallAnswered { call: id, answer, who, at: now() }))
        }
        (Said::Answered { .. }, Some(Awaited::Agent { conversation, cut_off: false })) => {
            Err(refused(format!(
                "the call `{id}` waits for its agent, which asks in the conversation `{conversation}`: \
                 answer what waits there"
            )))
        }
        (Said::Answered { .. }, Some(Awaited::Agent { conversation, cut_off: true })) => {
            Err(refused(format!(
                "the call `{id}` has asked nothing: its agent could not go on in `{conversation}`, and \
                 `resume` tries again"
            )))
        }
        (Said::Answered { .. }, _) => Err(refused(format!(
            "the tool of the call `{id}` has asked nothing: say what became of the call by `succeeded` \
                 or `failed`"
        ))),
        (Said::Succeeded { result: said }, _) => {
            let (content, value) = (said.content().iter().cloned(), said.value().cloned());
            let result = ToolResult::new(&*id, CallOutcome::Succeeded, content);
            let result = result.with_kept(value.map(Kept::Json));
            Ok(Settled::Result { result, who })
        }
        (Said::Failed { text }, _) => Ok(result(CallOutcome::Failed, text)),
        (Said::NotHappened, None) => Ok(Settled::Fact(Fact::CallCleared { call: id })),
        (Said::NotHappened, Some(_)) => {
            let text = "Nothing of this call has happened, and it will not run.".to_owned();
            Ok(result(CallOutcome::NotStarted, text))
        }
    }
}

/// Checks that a call waits for somebody outside of the run, rather than being in doubt.
pub(super) fn waits(machine: &Machine, settlement: &Settlement) -> Result<(), Error> {
    match machine.waiting().any(|(call, _)| *call.id() == *settlement.call) {
        true => Ok(()),
        false => Err(no_wait(&settlement.call)),
    }
}

fn no_wait(id: &str) -> Error {
    refused(format!(
        "the call `{id}` does not wait for a result or an answer here: it waits no more, or it is a call \
         of another conversation. If it is in doubt, whoever has opened the conversation settles it"
    ))
}

/// The fact that nobody has decided about a call in time, or given its result.
pub(super) fn expired(call: &ToolCall, wait: &Wait) -> Fact {
    let id = call.id();
    match &wait.awaited {
        Awaited::Approval { .. } => Fact::CallDecided {
            call: id.to_owned(),
            decision: crate::journal::Decision::Deny {
                reason: "nobody has decided about it in the time that there was".to_owned(),
                by: crate::journal::Decider::Expired,
            },
        },
        Awaited::Result | Awaited::Answer { .. } | Awaited::Agent { .. } => {
            let text = "Nobody has answered this call in the time that there was: it may have partly \
                        run. Check what it did before you repeat it.";
            let result =
                ToolResult::new(id, CallOutcome::InDoubt, [ToolContent::Text(text.to_owned())]);
            Fact::CallSettled { result, who: None, at: now() }
        }
    }
}

pub(super) fn is_over(wait: &Wait) -> bool {
    wait.until.is_some_and(|until| now() > until)
}

fn in_time(wait: &Wait, id: &str) -> Result<(), Error> {
    match is_over(wait) {
        false => Ok(()),
        true => Err(refused(format!(
            "the answer comes too late: the call `{id}` waits no more, and `resume` tells the model that \
             nobody has answered"
        ))),
    }
}

/// Checks that a call which waits can run: of a run that was stopped, none does any more.
fn goes_on(machine: &Machine, id: &str) -> Result<(), Error> {
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
