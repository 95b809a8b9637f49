//! Decides about one call: decodes it, lets its tool review it, applies the permissions, and asks a
//! person if they require it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    Agent,
    calling::Granted,
    circumstances::{CallerRules, Circumstances, offered},
};
use crate::{
    journal::{Always, Decider, Decision, Reason, Repeat, Sources, now},
    message::{Arguments, ToolCall},
    policy::{Answer, Approval, Approver, Judgement, ProposedCall, Question},
    tool::{Review, Reviewed, Scope, SideEffects, Tool, ToolRegistry},
    unwind::{Shielded, caught},
};

/// What a person has allowed for the rest of a conversation by answering *always*. It applies only
/// to questions that the permissions leave to a person, and only for the reasons that the person
/// saw.
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
    /// ([`Sending::approver`](super::Sending::approver)). With `None`, it holds in the runs in
    /// which the agent's own approver is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
}

impl Grant {
    /// The grant in a decision about this call, if there is one.
    pub(super) fn of(call: &str, decision: &Decision) -> Option<Self> {
        let Decision::Allow { by: Decider::Person { always: Some(always), .. }, .. } = decision
        else {
            return None;
        };
        let Always { scope, tool, reasons, person } = (**always).clone();
        Some(Self { tool, scope, call: call.to_owned(), reasons, person })
    }

    fn answers(&self, question: &Question) -> bool {
        let known = |reason: &Reason| self.reasons.contains(reason);
        self.tool == question.tool
            && self.person == question.person
            && question.scopes.iter().any(|scope| scope.key() == self.scope.key())
            && question.reasons.iter().all(known)
    }
}

/// What is known about a call before a person is asked.
pub(super) enum Looked {
    /// The decision.
    Decided(Decision),
    /// A person has to decide. The person sees the review.
    Asks(Box<Question>, Option<Review>),
}

/// What a decision is based on.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    agent: &'a Agent,
    own: Option<&'a Circumstances>,
    grants: &'a [Grant],
    /// What the conversation has read.
    read: &'a Sources,
    conversation: &'a str,
    /// Whether the conversation is in a journal.
    in_journal: bool,
}

/// The result of the first half of a decision, which needs no waiting.
enum Half {
    Decided(Decision),
    Asks(Box<Question>),
}

impl<'a> Asking<'a> {
    pub(super) fn of(
        agent: &'a Agent,
        own: Option<&'a Circumstances>,
        grants: &'a [Grant],
        read: &'a Sources,
        conversation: &'a str,
        in_journal: bool,
    ) -> Self {
        Self { agent, own, grants, read, conversation, in_journal }
    }

    /// The permissions that apply, and what was read.
    pub(super) fn rules(self) -> CallerRules {
        let others = self.own.into_iter().flat_map(Circumstances::sides);
        let all = std::iter::once(self.agent.permissions()).chain(others);
        CallerRules { permissions: all.cloned().collect(), read: self.read.clone() }
    }

    fn tools(self) -> &'a ToolRegistry {
        offered(self.agent, self.own)
    }
}

impl<'a> Asking<'a> {
    /// Decides about a call that may start while the model is still answering. It is allowed at
    /// once, or it has to wait until the answer is complete.
    pub(super) fn at_once(self, call: &ToolCall) -> Option<Decision> {
        let tool = self.tools().get(call.name())?;
        let effects = tool.side_effects();
        // A tool that runs an agent costs money.
        let waits = tool.has_review() || tool.is_external() || tool.is_agent();
        if !effects.is_read_only() || waits {
            return None;
        }
        let arguments = call.decoded().ok()?;
        match self.judge(call, tool, &arguments, None) {
            Half::Decided(decision @ Decision::Allow { .. }) => Some(decision),
            Half::Decided(Decision::Deny { .. }) | Half::Asks(_) => None,
        }
    }

    /// Decides about a call as far as that is possible without a person.
    pub(super) async fn look(self, call: &ToolCall) -> Looked {
        let answers_itself = || {
            let (side_effects, repeat) = (SideEffects::NONE, Repeat::Read);
            let by = Decider::Call;
            Looked::Decided(Decision::Allow { side_effects, repeat, by, reviewed: None })
        };
        // A call whose tool does not exist, or whose arguments cannot be read, only produces a
        // result that says what is wrong.
        let Some(tool) = self.tools().get(call.name()) else { return answers_itself() };
        let Ok(arguments) = call.decoded() else { return answers_itself() };
        let review = tool.review_off_loop(&arguments).await;
        match self.judge(call, tool, &arguments, review.as_ref()) {
            Half::Asks(question) => Looked::Asks(question, review),
            Half::Decided(Decision::Allow { side_effects, repeat, by, .. }) => {
                let reviewed = review.map(Reviewed::unseen).map(Arc::new);
                Looked::Decided(Decision::Allow { side_effects, repeat, by, reviewed })
            }
            Half::Decided(denied) => Looked::Decided(denied),
        }
    }

    fn judge(
        self,
        call: &ToolCall,
        tool: &Tool,
        arguments: &Arguments,
        review: Option<&Review>,
    ) -> Half {
        let (side_effects, repeat) = (tool.side_effects(), repeat_of(tool, self.in_journal));
        let proposed = ProposedCall::new(tool.name(), arguments, side_effects)
            .of_agent(tool.is_agent())
            .with_review(review)
            .with_taint(self.agent.permissions().taint(self.read));
        let others = self.own.into_iter().flat_map(Circumstances::sides);
        let others = others.map(|permissions| (&**permissions, permissions.taint(self.read)));
        let reasons = match self.agent.permissions().decide_with(&proposed, others) {
            Judgement::Allow { by } => {
                let reviewed = None;
                return Half::Decided(Decision::Allow { side_effects, repeat, by, reviewed });
            }
            Judgement::Deny { by, reason } => {
                return Half::Decided(Decision::Deny { reason, by });
            }
            Judgement::Ask { reasons } => reasons,
        };
        let mut question = self.question(call, tool, reasons, review);
        question.defaults = tool.defaults(arguments);
        match self.grants.iter().find(|grant| grant.answers(&question)) {
            Some(grant) => {
                let (call, scope) = (grant.call.clone(), grant.scope.clone());
                let by = Decider::Always { call, scope };
                Half::Decided(Decision::Allow { side_effects, repeat, by, reviewed: None })
            }
            None => Half::Asks(Box::new(question)),
        }
    }

    fn question(
        self,
        call: &ToolCall,
        tool: &Tool,
        reasons: Vec<Reason>,
        review: Option<&Review>,
    ) -> Question {
        let mut question = Question::new(call, tool.side_effects());
        self.conversation.clone_into(&mut question.conversation);
        question.person = self.approver().and_then(|(person, _)| person).map(str::to_owned);
        let caller = self.own.and_then(|own| own.caller.as_ref());
        question.agents = caller.map(|caller| caller.names()).unwrap_or_default();
        question.reasons = reasons;
        let title = self.tools().get(call.name()).and_then(Tool::title);
        question.title = title.map(str::to_owned);
        let folder = review.and_then(|review| review.folder.clone());
        question.folder = folder.or_else(|| std::env::current_dir().ok());
        let place = question.folder.as_ref().map(|folder| folder.display().to_string());
        let place = place.unwrap_or_default();
        let exactly = Scope::new(
            format!("exactly:{}:{place}", question.fingerprint),
            format!("`{}` with exactly these arguments, in this folder", question.tool),
        );
        let wider = review.map(|review| review.scopes.clone()).unwrap_or_default();
        question.scopes = std::iter::once(exactly).chain(wider).collect();
        question.definition = tool.definition().map(str::to_owned);
        if let Some(definition) = &question.definition {
            // What was allowed for one definition of the tool does not hold for another.
            for scope in &mut question.scopes {
                *scope = Scope::new(format!("{}:{definition}", scope.key()), scope.shown());
            }
        }
        question.preview = review.and_then(|review| review.preview.clone());
        question
    }

    /// Whether a call that was allowed before this run may still run by this run's rules. A
    /// person's decision about it holds, unless the call is denied now, or its tool is defined
    /// outside of the program and the definition is not the one that the person was shown.
    pub(super) fn still_allows(self, call: &ToolCall, granted: &Granted) -> bool {
        let Some(tool) = self.tools().get(call.name()) else { return true };
        let Ok(arguments) = call.decoded() else { return true };
        let review = granted.reviewed.as_ref().map(|reviewed| &reviewed.review);
        match self.judge(call, tool, &arguments, review) {
            Half::Decided(Decision::Allow { .. }) => true,
            Half::Decided(Decision::Deny { .. }) => false,
            Half::Asks(_) => {
                granted.by_person && granted.definition.as_deref() == tool.definition()
            }
        }
    }

    /// The approver of this run, with the name that tells this person from others.
    pub(super) fn approver(self) -> Option<(Option<&'a str>, &'a Arc<dyn Approver>)> {
        // A run in a call does not choose the approver if the caller has one.
        let caller = self.own.and_then(|own| own.caller.as_ref()?.approver());
        let own = || {
            let (person, approver) = self.own?.approver.as_ref()?;
            Some((Some(person.as_str()), approver))
        };
        let agent = || self.agent.approver().map(|approver| (None, approver));
        caller.or_else(own).or_else(agent)
    }

    /// Asks a person.
    pub(super) async fn ask(
        self,
        question: &Question,
        repeat: Repeat,
        review: Option<&Review>,
    ) -> Asked {
        let deny = |by, reason| Asked::Decided(Decision::Deny { reason, by });
        let Some((_, approver)) = self.approver() else {
            return deny(Decider::Nobody, nobody(question));
        };
        let answered = match caught(|| approver.ask(question)) {
            Ok(asked) => Shielded::new(asked).await,
            Err(panicked) => Err(panicked),
        };
        match answered {
            Ok(Approval { question: about, answer: Answer::Later { until }, .. })
                if about == question.id() =>
            {
                Asked::Later { until }
            }
            Ok(approval) => match decision(question, repeat, review, approval) {
                Some(decision) => Asked::Decided(decision),
                None => deny(
                    Decider::Fault,
                    "the approval was given for another call, so it does not count".to_owned(),
                ),
            },
            Err(panicked) => {
                deny(Decider::Fault, format!("who was to be asked about it {panicked}"))
            }
        }
    }
}

/// The answer of a person who was asked.
pub(super) enum Asked {
    /// The decision about the call.
    Decided(Decision),
    /// The answer comes later, and counts until this time.
    Later { until: Option<u64> },
}

/// The decision in an approval. `None` if it is for another question or contains no decision.
pub(super) fn decision(
    question: &Question,
    repeat: Repeat,
    review: Option<&Review>,
    approval: Approval,
) -> Option<Decision> {
    let Approval { question: about, answer, who } = approval;
    if about != question.id() {
        return None;
    }
    let side_effects = question.effects;
    let reviewed = review.cloned().map(Reviewed::seen).map(Arc::new);
    let definition = question.definition.clone();
    let person = |always| Decider::Person { who, at: now(), always, definition };
    Some(match answer {
        Answer::Later { .. } => return None,
        Answer::No { reason } => Decision::Deny { reason, by: person(None) },
        Answer::Always { scope } if question.scopes.contains(&scope) => {
            let reasons = question.reasons.clone();
            let always = Always::new(scope, question.tool.clone(), reasons)
                .for_person(question.person.clone());
            let by = person(Some(Box::new(always)));
            Decision::Allow { side_effects, repeat, by, reviewed }
        }
        Answer::Yes | Answer::Always { .. } => {
            Decision::Allow { side_effects, repeat, by: person(None), reviewed }
        }
    })
}

/// Whether a call of this tool may run again if its outcome is not known. An agent that the tool
/// runs continues where it was, if its conversation was kept.
pub(super) fn repeat_of(tool: &Tool, in_journal: bool) -> Repeat {
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

fn nobody(question: &Question) -> String {
    let name = &question.tool;
    let reasons: Vec<&str> = question.reasons.iter().map(|reason| reason.text.as_str()).collect();
    let way_out = match question.reasons.first().map(|reason| &reason.by) {
        Some(Decider::SideEffects) => format!(
            "The program can allow it with `Permissions::default().allow(\"{name}\")` or give an \
             approver."
        ),
        _ => "The program can give an approver.".to_owned(),
    };
    format!(
        "`{name}` needs a person's approval ({}), and there is nobody to ask. {way_out}",
        reasons.join("; ")
    )
}
