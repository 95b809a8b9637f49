//! Decides about one call: decodes its arguments, fills in defaults, lets the tool review the call, applies the
//! permissions, and asks a person if the permissions require it.

use std::{collections::HashSet, path::PathBuf, sync::Arc};

use super::grant::Grant;
use crate::{
    Agent,
    machine::call_states::ApprovedCall,
    model_notices::{OTHER_APPROVAL, approver_panicked, nobody_to_ask},
    run::options::{RunOptions, offered},
    subagent::host::CallerRules,
};
use harness_core::{
    journal::{Always, CallBinding, Decider, Decision, Fact, Reason, Repeat, Sources, now},
    message::{Arguments, ToolCall},
    policy::{
        Approval, ApprovalDecision, ApprovalRequest, Approver, Permissions, PolicyDecision,
        ProposedCall, Taint, TaintTracker,
    },
    tool::{Review, Reviewed, Scope, SideEffects, Tool, ToolRegistry},
    unwind::{Shielded, caught},
};

/// The outcome of a decision about a call.
pub(crate) enum ApprovalOutcome {
    /// The call is allowed or denied.
    Decided(Decision),
    /// A person has to decide. The review is shown to the person.
    NeedsPerson(Box<ApprovalRequest>, Option<Review>),
    /// The person will decide later. `until` is the deadline for the decision, in milliseconds since the
    /// beginning of 1970 in UTC.
    Deferred { until: Option<u64> },
}

/// The inputs of a decision about a call.
#[derive(Clone, Copy)]
pub(crate) struct ApprovalPolicy<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) options: Option<&'a RunOptions>,
    pub(crate) grants: &'a [Grant],
    /// The sources that the conversation has read.
    pub(crate) read: &'a Sources,
    pub(crate) conversation: &'a str,
    /// Whether the conversation is in a journal.
    pub(crate) in_journal: bool,
}

/// The state of a conversation on which decisions about its calls depend, without the rules.
#[derive(Default)]
pub(crate) struct ApprovalState {
    /// The grants that people have given for the rest of the conversation.
    pub(crate) grants: Vec<Grant>,
    /// The sources that the conversation has read.
    pub(crate) taint: TaintTracker,
    /// The ids of calls that were open when the conversation was opened. Another process has decided about
    /// these calls, perhaps by other rules.
    pub(crate) calls_from_previous_process: HashSet<String>,
}

impl ApprovalState {
    /// Applies a fact. Returns whether the conversation has read a new source.
    pub(crate) fn apply(&mut self, fact: &Fact) -> bool {
        match fact {
            Fact::CallDecided { call, decision } => self.grants.extend(Grant::of(call, decision)),
            Fact::GrantRevoked { call, scope } => {
                self.grants.retain(|kept| kept.call != *call || kept.scope != *scope);
            }
            _ => {}
        }
        self.taint.apply(fact)
    }
}

impl<'a> ApprovalPolicy<'a> {
    /// The permissions that apply, and the sources that the conversation has read.
    pub(crate) fn rules(self) -> CallerRules {
        let mut permissions = vec![Arc::clone(self.agent.permissions())];
        let others = self.options.map(RunOptions::sides).unwrap_or_default();
        permissions.extend(others.into_iter().cloned());
        CallerRules { permissions, read: self.read.clone() }
    }

    fn tools(self) -> &'a ToolRegistry {
        offered(self.agent, self.options)
    }

    /// Decides about a call while the model is still answering. `None` means that the decision has to wait
    /// until the answer is complete.
    pub(crate) fn evaluate_early(self, call: &ToolCall) -> Option<Decision> {
        let tool = self.tools().get(call.name())?;
        let effects = tool.side_effects();
        // Only a complete answer may start an agent, since an agent costs money.
        let waits = tool.has_review() || tool.is_external() || tool.is_agent();
        if !effects.is_read_only() || waits {
            return None;
        }
        let arguments = tool.arguments_of(call).ok()?;
        match self.judge(tool, &arguments, None) {
            PolicyDecision::Allow { by } => Some(self.allow(tool, by, None)),
            PolicyDecision::Ask { .. } | PolicyDecision::Deny { .. } => None,
        }
    }

    /// Decides about a call, or makes the approval request for a person. `before` is what a person saw in an
    /// earlier approval that does not apply any more. The new request lists the changes.
    pub(crate) async fn evaluate(
        self,
        call: &ToolCall,
        before: Option<&CallBinding>,
    ) -> ApprovalOutcome {
        use ApprovalOutcome::Decided;
        // If the tool does not exist or the arguments cannot be read, no tool runs, so no permission is needed.
        // The model gets an error message.
        let Some(tool) = self.tools().get(call.name()) else {
            return Decided(own_result_decision());
        };
        let Ok(mut arguments) = call.decoded() else { return Decided(own_result_decision()) };
        let defaults = tool.fill_defaults(&mut arguments);
        let review = self.tools().review_off_loop(tool, &arguments).await;
        let reasons = match self.judge(tool, &arguments, review.as_ref()) {
            PolicyDecision::Allow { by } => {
                let reviewed = review.map(Reviewed::unseen).map(Arc::new);
                return Decided(self.allow(tool, by, reviewed));
            }
            PolicyDecision::Deny { by, reason } => {
                let reason = self.tools().readable_text(&reason);
                return Decided(Decision::Deny { reason, by });
            }
            PolicyDecision::Ask { reasons } => reasons,
        };
        // No approval request is made for a call that cannot run.
        if !self.is_valid_for(tool, &arguments) {
            return Decided(own_result_decision());
        }
        let mut question = self.question(call, tool, reasons, review.as_ref());
        question.defaults = defaults;
        let binding = question.binding();
        let mut changes = before.map(|before| before.changes(&binding)).unwrap_or_default();
        for grant in self.grants {
            match grant.check(&question, &binding) {
                Ok(()) => {
                    let by =
                        Decider::Always { call: grant.call.clone(), scope: grant.scope.clone() };
                    let reviewed = review.map(Reviewed::unseen).map(Arc::new);
                    return Decided(bound(self.allow(tool, by, reviewed), binding));
                }
                Err(changed) => {
                    let new = changed.into_iter().filter(|line| !changes.contains(line));
                    changes.extend(Vec::from_iter(new));
                }
            }
        }
        question.changes = changes;
        ApprovalOutcome::NeedsPerson(Box::new(question), review)
    }

    fn allow(self, tool: &Tool, by: Decider, reviewed: Option<Arc<Reviewed>>) -> Decision {
        let (side_effects, repeat) = (tool.side_effects(), repeat_of(tool, self.in_journal));
        Decision::Allow { side_effects, repeat, by, reviewed, binding: None }
    }

    /// Whether the arguments fit the tool. The check may run code of the program, so panics are caught.
    fn is_valid_for(self, tool: &Tool, arguments: &Arguments) -> bool {
        caught(|| tool.check(arguments).is_ok()).unwrap_or(false)
    }

    fn judge(self, tool: &Tool, arguments: &Arguments, review: Option<&Review>) -> PolicyDecision {
        let proposed = ProposedCall::new(tool.name(), arguments, tool.side_effects())
            .of_agent(tool.is_agent())
            .with_review(review)
            .with_taint(self.agent.permissions().taint(self.read));
        let others = self.options.map(RunOptions::sides).unwrap_or_default();
        let others = others.into_iter().map(|side| (&**side, side.taint(self.read)));
        let others: Vec<(&Permissions, Taint)> = others.collect();
        self.agent.permissions().decide_with(&proposed, &others)
    }

    fn question(
        self,
        call: &ToolCall,
        tool: &Tool,
        reasons: Vec<Reason>,
        review: Option<&Review>,
    ) -> ApprovalRequest {
        let mut question = ApprovalRequest::new(call, tool.side_effects());
        self.conversation.clone_into(&mut question.conversation);
        question.person = self.person().map(str::to_owned);
        let caller = self.options.and_then(|options| options.caller.as_ref());
        question.agents = caller.map(|caller| caller.tool_names()).unwrap_or_default();
        question.reasons = self.hide_secrets(reasons);
        question.title = tool.title().map(str::to_owned);
        question.folder = folder_of(review);
        question.definition = tool.definition();
        let exactly = Scope::new(
            format!("exactly:{}", question.fingerprint),
            format!("`{}` with exactly these arguments, in this folder", question.tool),
        );
        let wider = review.map(|review| review.scopes.clone()).unwrap_or_default();
        question.scopes = std::iter::once(exactly).chain(wider).collect();
        question.preview = review.and_then(|review| review.preview.clone());
        question
    }

    /// Whether an approval still covers the call. The tool must not declare more side effects than before, and
    /// must not differ from what a person saw. A call that was approved with invalid arguments runs no tool, so
    /// the arguments must still be invalid.
    pub(crate) fn is_within(self, call: &ToolCall, approved: &ApprovedCall) -> bool {
        let Some(tool) = self.tools().get(call.name()) else { return true };
        if approved.runs_nothing {
            return !tool
                .arguments_of(call)
                .is_ok_and(|arguments| self.is_valid_for(tool, &arguments));
        }
        let is_same_kind = (approved.repeat == Repeat::Continues)
            == (repeat_of(tool, self.in_journal) == Repeat::Continues);
        is_same_kind
            && approved.effects.has_all(tool.side_effects())
            && approved.reviewed.is_some() == tool.has_review()
            && self.is_bound(tool, approved)
    }

    /// Whether the tool is external, so that the program executes this allowed call. If the arguments do not
    /// fit the tool, the model gets an error result instead.
    pub(crate) fn is_for_program(self, call: &ToolCall, approved: &ApprovedCall) -> bool {
        let tool = self.tools().get(call.name()).filter(|tool| tool.is_external());
        tool.is_some_and(|tool| {
            let arguments = approved.arguments(call, tool);
            !approved.runs_nothing
                && arguments.is_ok_and(|arguments| self.is_valid_for(tool, &arguments))
        })
    }

    /// Whether the tool and the folder have not changed since the person saw them, and the tool adds no
    /// defaults to the arguments.
    fn is_bound(self, tool: &Tool, approved: &ApprovedCall) -> bool {
        let Some(seen) = &approved.binding else { return true };
        let review = approved.reviewed.as_ref().map(|reviewed| &reviewed.review);
        let added = tool.fill_defaults(&mut seen.arguments.clone());
        seen.definition == tool.definition() && seen.folder == folder_of(review) && added.is_empty()
    }

    /// Whether the rules of this run also allow a call that was allowed earlier, perhaps by other rules. If a
    /// person allowed the call, that decision holds unless the rules now deny the call.
    pub(crate) fn still_allows(self, call: &ToolCall, approved: &ApprovedCall) -> bool {
        match self.judge_again(call, approved) {
            None | Some(PolicyDecision::Allow { .. }) => true,
            Some(PolicyDecision::Deny { .. }) => false,
            Some(PolicyDecision::Ask { reasons }) => match &approved.by_grant {
                None => approved.binding.is_some(),
                Some((call, scope)) => {
                    let reasons = self.hide_secrets(reasons);
                    self.grants.iter().any(|grant| {
                        grant.call == *call
                            && grant.scope == *scope
                            && reasons.iter().all(|reason| grant.reasons.contains(reason))
                    })
                }
            },
        }
    }

    fn hide_secrets(self, reasons: Vec<Reason>) -> Vec<Reason> {
        let secrets = self.tools().secrets();
        let hidden = |mut reason: Reason| {
            reason.text = secrets.hide(&reason.text).into();
            reason
        };
        reasons.into_iter().map(hidden).collect()
    }

    /// Whether the rules of this process deny a call that another process has allowed.
    pub(crate) fn is_denied(self, call: &ToolCall, approved: &ApprovedCall) -> bool {
        matches!(self.judge_again(call, approved), Some(PolicyDecision::Deny { .. }))
    }

    fn judge_again(self, call: &ToolCall, approved: &ApprovedCall) -> Option<PolicyDecision> {
        let tool = self.tools().get(call.name())?;
        let arguments = approved.arguments(call, tool).ok()?;
        let review = approved.reviewed.as_ref().map(|reviewed| &reviewed.review);
        Some(self.judge(tool, &arguments, review))
    }

    /// The name of the person whose approver applies. `None` if the agent's own approver applies, or if there is
    /// no approver.
    fn person(self) -> Option<&'a str> {
        self.approver().and_then(|(person, _)| person)
    }

    /// The approver that applies to this run. The name is set if the approver belongs to one person.
    pub(crate) fn approver(self) -> Option<(Option<&'a str>, &'a Arc<dyn Approver>)> {
        // If the run is inside a tool call and the caller has an approver, the caller's approver applies.
        let caller = self.options.and_then(|options| options.caller.as_ref()?.approver());
        let of_run = || {
            let (person, approver) = self.options?.approver.as_ref()?;
            Some((Some(person.as_str()), approver))
        };
        let agent = || self.agent.approver().map(|approver| (None, approver));
        caller.or_else(of_run).or_else(agent)
    }

    /// Sends the approval request to the approver. Without an approver, or if the approver panics, the call is
    /// denied.
    pub(crate) async fn ask(
        self,
        question: &ApprovalRequest,
        repeat: Repeat,
        review: Option<&Review>,
    ) -> ApprovalOutcome {
        let deny = |by, reason: String| {
            let reason = self.tools().readable_text(&reason);
            ApprovalOutcome::Decided(Decision::Deny { reason, by })
        };
        let Some((_, approver)) = self.approver() else {
            return deny(Decider::Nobody, nobody_to_ask(question));
        };
        let answered = match caught(|| approver.ask(question)) {
            Ok(asked) => Shielded::new(asked).await,
            Err(panicked) => Err(panicked),
        };
        match answered {
            Ok(Approval { question: about, answer: ApprovalDecision::Later { until }, .. })
                if about == question.id() =>
            {
                ApprovalOutcome::Deferred { until }
            }
            Ok(approval) => match decide(question, repeat, review, approval, self.tools()) {
                Some(decision) => ApprovalOutcome::Decided(decision),
                None => deny(Decider::Fault, OTHER_APPROVAL.to_owned()),
            },
            Err(panicked) => deny(Decider::Fault, approver_panicked(&panicked)),
        }
    }
}

/// The decision for a call that runs no tool and only produces an error result.
fn own_result_decision() -> Decision {
    let (side_effects, repeat) = (SideEffects::NONE, Repeat::Read);
    let by = Decider::Call;
    Decision::Allow { side_effects, repeat, by, reviewed: None, binding: None }
}

/// The folder in which a call runs. The review can set it. By default, it is the current folder of the process.
fn folder_of(review: Option<&Review>) -> Option<PathBuf> {
    let folder = review.and_then(|review| review.folder.clone());
    folder.or_else(|| std::env::current_dir().ok())
}

fn bound(decision: Decision, seen: CallBinding) -> Decision {
    match decision {
        Decision::Allow { side_effects, repeat, by, reviewed, binding: _ } => {
            let binding = Some(Arc::new(seen));
            Decision::Allow { side_effects, repeat, by, reviewed, binding }
        }
        denied @ Decision::Deny { .. } => denied,
    }
}

/// The decision that an approval contains, with a record of what the person saw. `None` if the approval is for
/// another request or defers the decision.
pub(super) fn decide(
    question: &ApprovalRequest,
    repeat: Repeat,
    review: Option<&Review>,
    approval: Approval,
    tools: &ToolRegistry,
) -> Option<Decision> {
    let Approval { question: about, answer, who, .. } = approval;
    if about != question.id() {
        return None;
    }
    let who = who.map(|who| tools.readable_text(&who));
    let person = |always| Decider::Person { who, at: now(), always };
    let binding = Arc::new(question.binding());
    let always = match answer {
        ApprovalDecision::Later { .. } => return None,
        ApprovalDecision::No { reason } => {
            let reason = tools.readable_text(&reason);
            return Some(Decision::Deny { reason, by: person(None) });
        }
        ApprovalDecision::Always { scope } if question.scopes.contains(&scope) => {
            let (tool, reasons) = (question.tool.clone(), question.reasons.clone());
            let always = Always::new(scope, tool, reasons, Arc::clone(&binding));
            Some(Box::new(always.for_person(question.person.clone())))
        }
        ApprovalDecision::Yes | ApprovalDecision::Always { .. } => None,
    };
    Some(Decision::Allow {
        side_effects: question.effects,
        repeat,
        by: person(always),
        reviewed: review.cloned().map(Reviewed::seen).map(Arc::new),
        binding: Some(binding),
    })
}

/// Whether a call of this tool may run again if its outcome is not known. If the tool runs an agent whose
/// conversation is in a journal, that agent continues where it stopped.
pub(crate) fn repeat_of(tool: &Tool, in_journal: bool) -> Repeat {
    let effects = tool.side_effects();
    if tool.is_agent() && in_journal {
        Repeat::Continues
    } else if effects.may_repeat(false) {
        Repeat::Read
    } else if effects.may_repeat(tool.is_idempotent()) {
        Repeat::Idempotent
    } else {
        Repeat::Never
    }
}
