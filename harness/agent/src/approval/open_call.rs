//! Calls that are in doubt or wait for an external answer, and the outcomes that a program can give for such
//! calls.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Machine, machine::call_states::idempotency_key};
use harness_core::{
    journal::{Awaited, Wait, now},
    message::{Arguments, CallOutcome, Fingerprint, ProgramValue, ToolCall, ToolResult},
    policy::ApprovalRequest,
    tool::ToolOutput,
};

/// A call that cannot continue by itself: it waits for a decision, a result or an answer, or its outcome is not
/// known. Answer the call by [`Chat::decide`](crate::Chat::decide) or [`Chat::settle`](crate::Chat::settle), or
/// from any process by an [`Inbox`](crate::Inbox).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OpenCall {
    /// The call, as the model wrote it.
    pub call: ToolCall,
    /// The arguments that a person saw and allowed: the call's arguments, and the tool's defaults at that time.
    /// `None` if no person has decided about the call. A program that executes an
    /// [external](harness_core::tool::Tool::external) call uses these arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<Arguments>,
    /// The key by which a service recognizes a repetition of the call.
    pub idempotency_key: String,
    /// What the call waits for. `None` if the call is in doubt.
    pub wait: Option<Wait>,
}

impl OpenCall {
    /// The approval request to show to a person. `None` if the call does not wait for a decision.
    pub fn question(&self) -> Option<ApprovalRequest> {
        question(self.wait.as_ref()?)
    }

    /// The outcome for a call that has run and has this result. If the result has a [file](ToolOutput::file),
    /// the library does not read the file: the model gets only the file name.
    pub fn succeeded(&self, output: impl Into<ToolOutput>) -> Settlement {
        let (mut content, value, file) = output.into().into_parts();
        if let Some(file) = file {
            let text =
                format!("[The result is in the file `{}`, which was not read.]", file.display());
            content.push(text.into());
        }
        let result = ToolResult::new(self.call.id(), CallOutcome::Succeeded, content);
        let result = result.with_kept(value.map(ProgramValue::Json));
        self.settlement(SettlementKind::Succeeded { result })
    }

    /// The outcome for a call that has run and failed. The model gets the text.
    pub fn failed(&self, text: impl Into<String>) -> Settlement {
        self.settlement(SettlementKind::Failed { text: text.into() })
    }

    /// The outcome for a call that has had no effect. A call in doubt runs now. For a waiting call, the model
    /// gets the result that the call did not start.
    pub fn not_happened(&self) -> Settlement {
        self.settlement(SettlementKind::NotHappened)
    }

    /// The answer to the question that the call's tool has asked. The tool runs again and gets this answer.
    pub fn answered(&self, answer: impl Into<Value>) -> Settlement {
        self.settlement(SettlementKind::Answered { answer: answer.into() })
    }

    fn settlement(&self, said: SettlementKind) -> Settlement {
        let (call, fingerprint) = (self.call.id().to_owned(), self.call.fingerprint());
        let nonce = self.wait.as_ref().and_then(|wait| wait.nonce.clone());
        Settlement { call, fingerprint, nonce, said, who: None }
    }
}

/// The outcome of a call, made by a method of [`OpenCall`]. The library rejects the outcome if the call has
/// other arguments or waits for another answer by then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Settlement {
    /// The id of the call.
    pub call: String,
    /// A hash of the tool's name and the arguments.
    pub fingerprint: Fingerprint,
    /// The [nonce](Wait::nonce) of the tool's question. An answer to an earlier question of the same call is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<Box<str>>,
    pub(super) said: SettlementKind,
    /// The name of the person who gave the outcome. The library only records this name.
    pub who: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "said", rename_all = "snake_case")]
pub(super) enum SettlementKind {
    Succeeded { result: ToolResult },
    Failed { text: String },
    NotHappened,
    Answered { answer: Value },
}

impl Settlement {
    /// Sets the name of the person who gave the outcome. The name is stored in the fact that records the
    /// outcome.
    #[must_use]
    pub fn by(mut self, who: impl Into<String>) -> Self {
        self.who = Some(who.into());
        self
    }
}

/// The approval request of a wait. `None` if the call does not wait for a decision.
pub(super) fn question(wait: &Wait) -> Option<ApprovalRequest> {
    match &wait.awaited {
        Awaited::Approval { question, .. } => ApprovalRequest::from_question(question),
        Awaited::Result | Awaited::Answer { .. } | Awaited::Agent { .. } => None,
    }
}

/// Whether the deadline for an answer has passed.
pub(crate) fn is_over(wait: &Wait) -> bool {
    wait.until.is_some_and(|until| now() > until)
}

/// Makes an [`OpenCall`] for the program from each of these calls.
pub(crate) fn open_calls<'a>(
    machine: &Machine,
    conversation: Option<&str>,
    calls: impl Iterator<Item = (&'a ToolCall, Option<&'a Wait>)>,
) -> Vec<OpenCall> {
    let open = |(call, wait): (&ToolCall, Option<&Wait>)| OpenCall {
        idempotency_key: idempotency_key(
            conversation,
            machine.transcript(),
            call,
            call.fingerprint(),
        ),
        allowed: machine
            .approved(call.id())
            .and_then(|approved| Some(approved.binding.as_ref()?.arguments.clone())),
        call: call.clone(),
        wait: wait.cloned(),
    };
    calls.map(open).collect()
}

pub(crate) fn waiting(machine: &Machine, conversation: Option<&str>) -> Vec<OpenCall> {
    let waiting = machine.waiting().map(|(call, wait)| (call, Some(wait)));
    open_calls(machine, conversation, waiting)
}

pub(crate) fn in_doubt(machine: &Machine, conversation: Option<&str>) -> Vec<OpenCall> {
    open_calls(machine, conversation, machine.in_doubt().map(|call| (call, None)))
}
