//! The permission that a person gives for the rest of a conversation by answering *always*.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use harness_core::{
    journal::{Always, CallBinding, Decider, Decision, Reason},
    policy::ApprovalRequest,
    tool::Scope,
};

/// The permission that a person gives for the rest of a conversation by answering *always*. A grant answers an
/// approval request only for reasons that the person saw. If the tool's definition or the folder has changed
/// since then, the grant does not apply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Grant {
    /// The name of the tool.
    pub tool: String,
    /// The calls of the tool for which the grant holds.
    pub scope: Scope,
    /// The id of the call for which the person gave the grant.
    pub call: String,
    /// Why the person was asked about the call. If a later call has another reason, the person is asked again.
    pub reasons: Vec<Reason>,
    /// The name of the person whose approver ([`Run::approver`](crate::Run::approver)) the run must use. With
    /// `None`, the grant holds in the runs that use the agent's own approver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    /// The arguments, tool definition and folder that the person saw.
    pub binding: Arc<CallBinding>,
}

impl Grant {
    /// The grant in a decision about this call. `None` if the decision is not an *always*.
    pub(crate) fn of(call: &str, decision: &Decision) -> Option<Self> {
        let Decision::Allow { by: Decider::Person { always: Some(always), .. }, .. } = decision
        else {
            return None;
        };
        let Always { scope, tool, reasons, person, binding, .. } = (**always).clone();
        Some(Self { tool, scope, call: call.to_owned(), reasons, person, binding })
    }

    /// Whether the grant applies to this approval request. This method does not check whether the tool or the
    /// folder has changed.
    fn covers(&self, question: &ApprovalRequest) -> bool {
        let known = |reason: &Reason| self.reasons.contains(reason);
        self.tool == question.tool
            && self.person == question.person
            && question.scopes.contains(&self.scope)
            && question.reasons.iter().all(known)
    }

    /// Checks that the grant answers this approval request. The error lists what has changed since the grant
    /// was given. The list is empty if the grant does not apply to the request.
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
