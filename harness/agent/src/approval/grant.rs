//! What a person has allowed for the rest of a conversation by answering *always*.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use harness_core::{
    journal::{Always, CallBinding, Decider, Decision, Reason},
    policy::ApprovalRequest,
    tool::Scope,
};

/// What a person has allowed for the rest of a conversation by answering *always*. It applies only
/// to questions that the permissions leave to a person, only for the reasons that the person
/// saw, and only as long as the tool and the folder are those that the person saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Grant {
    /// The name of the tool.
    pub tool: String,
    /// The calls of the tool for which it holds.
    pub scope: Scope,
    /// The id of the call that the person was asked about.
    pub call: String,
    /// Why the person was asked. If there is another reason for a later call, the person is asked
    /// again.
    pub reasons: Vec<Reason>,
    /// The person in whose runs it holds: those that bring this person's approver
    /// ([`Run::approver`](crate::Run::approver)). With `None`, it holds in the runs in
    /// which the agent's own approver is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    /// What the person saw of that call.
    pub binding: Arc<CallBinding>,
}

impl Grant {
    /// The grant in a decision about this call, if there is one.
    pub(crate) fn of(call: &str, decision: &Decision) -> Option<Self> {
        let Decision::Allow { by: Decider::Person { always: Some(always), .. }, .. } = decision
        else {
            return None;
        };
        let Always { scope, tool, reasons, person, binding, .. } = (**always).clone();
        Some(Self { tool, scope, call: call.to_owned(), reasons, person, binding })
    }

    /// Whether the grant is about the calls of this question, whatever has changed since.
    fn covers(&self, question: &ApprovalRequest) -> bool {
        let known = |reason: &Reason| self.reasons.contains(reason);
        self.tool == question.tool
            && self.person == question.person
            && question.scopes.contains(&self.scope)
            && question.reasons.iter().all(known)
    }

    /// Why the grant does not answer this question with this binding: it is not about it, or this has changed since.
    pub(super) fn check(
        &self,
        question: &ApprovalRequest,
        now: &CallBinding,
    ) -> Result<(), Vec<String>> {
        if !self.covers(question) {
            return Err(Vec::new());
        }
        let is_exact = question.scopes.first() == Some(&self.scope);
        let mut seen = (*self.binding).clone();
        if !is_exact {
            seen.arguments.clone_from(&now.arguments);
        }
        let changes = seen.changes(now);
        if changes.is_empty() { Ok(()) } else { Err(changes) }
    }
}
