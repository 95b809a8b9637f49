//! Decides whether a call may run: one order of precedence over rules, names, reviews and side effects.

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    sync::Arc,
};

use super::{DataFlowPolicy, Taint};
use crate::{
    error::{Error, ErrorKind},
    journal::{Decider, Reason, Sources},
    message::Arguments,
    secret::beginning,
    tool::{Review, SideEffects, ToolRegistry, fault_of_name},
    unwind::caught,
};

/// An error about an invalid tool name shows at most this many bytes of the name.
const SHOWN_NAME: usize = 100;

/// The verdict of a rule about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleDecision {
    /// The call may run, unless another rule, a review or a policy asks or denies.
    Allow,
    /// A person decides. Without an approver, the call does not run.
    Ask,
    /// The call may not run; the model reads the reason.
    Deny(String),
}

impl RuleDecision {
    fn strictness(&self) -> u8 {
        match self {
            Self::Allow => 0,
            Self::Ask => 1,
            Self::Deny(_) => 2,
        }
    }
}

/// A call in the form that rules get. The arguments are decoded, so another spelling of the same JSON does not evade
/// a rule.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ProposedCall<'a> {
    /// The name of the tool.
    pub tool: &'a str,
    /// The side effects that the tool declares.
    pub effects: SideEffects,
    /// The decoded arguments.
    pub arguments: &'a Arguments,
    /// The tool's review of the call, if the tool has one.
    pub review: Option<&'a Review>,
    /// Whether the conversation has read private data or untrusted text, judged by the [`DataFlowPolicy`] of these
    /// permissions. Without a policy, the tools' declared side effects decide how results count.
    pub taint: Taint,
    /// Whether the call runs an agent. If so, `effects` are the side effects of the calls inside the agent, and each of
    /// these calls is decided separately.
    pub is_agent: bool,
}

impl<'a> ProposedCall<'a> {
    /// Creates a call of a tool that declares these effects, in a conversation that has read nothing.
    pub fn new(tool: &'a str, arguments: &'a Arguments, effects: SideEffects) -> Self {
        let taint = Taint { private: false, untrusted: false };
        Self { tool, effects, arguments, review: None, taint, is_agent: false }
    }

    /// Sets the tool's review of the call.
    #[must_use]
    pub fn with_review(mut self, review: Option<&'a Review>) -> Self {
        self.review = review;
        self
    }

    /// Sets whether the call runs an agent.
    #[must_use]
    #[doc(hidden)]
    pub fn of_agent(mut self, is_agent: bool) -> Self {
        self.is_agent = is_agent;
        self
    }

    /// Sets what the conversation has read.
    #[must_use]
    #[doc(hidden)]
    pub fn with_taint(mut self, taint: Taint) -> Self {
        self.taint = taint;
        self
    }

    /// The argument of this name as a string. `None` if the argument is missing or not a string.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.arguments.get(name)?.as_str()
    }
}

/// The decision of [`Permissions::decide`] about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyDecision {
    /// The call may run.
    Allow {
        /// Who allows the call.
        by: Decider,
    },
    /// A person decides, unless this person has earlier answered *always* for a scope that covers the call.
    Ask {
        /// The reasons for the approval request: at least one.
        reasons: Vec<Reason>,
    },
    /// The call may not run.
    Deny {
        /// Who denies the call.
        by: Decider,
        /// The reason, which the model reads.
        reason: String,
    },
}

/// A rule: a function that gets the call and returns a verdict. `None` means no verdict.
type PermissionRule = dyn Fn(&ProposedCall<'_>) -> Option<RuleDecision> + Send + Sync;

/// Decides which calls may run, which need a person's approval, and which may not run.
///
/// Only [`decide`](Self::decide) makes this decision. The strictest verdict wins: deny, then ask, then allow. This also
/// holds for several verdicts on one name: a later [`allow`](Self::allow) does not cancel a [`deny`](Self::deny).
///
/// | step | source | verdict | then the call |
/// |---|---|---|---|
/// | 1 | a [`rule`](Self::rule), [`deny`](Self::deny), the tool's [`Review`] | deny | does not run |
/// | 2 | a rule, [`ask`](Self::ask), the review, the [`data_flow`](Self::data_flow) policy | ask | needs an approval |
/// | 3 | a rule, [`allow`](Self::allow) | allow | runs |
/// | 4 | the declared side effects: `mutate`, `network` without `read`, or `network` with `write` | ask | needs an approval |
/// | 5 | the declared side effects: anything else | allow | runs |
///
/// If a call needs an approval, [`allow_all`](Self::allow_all) approves it. Without `allow_all`, an earlier answer
/// *always* in the same conversation approves it, on two conditions: the scope of that answer covers the call, and the
/// same person saw all the reasons of this request. Otherwise the approver is asked. Without an approver, the call does
/// not run. No approval overrules a denial.
///
/// A run can have permissions of its own (`Run::permissions`). The verdicts of the agent's and the run's permissions go
/// through the same steps together, and the strictest verdict wins. So a run can deny or ask about more calls than the
/// agent, and can allow calls that the agent leaves to the declared side effects. A run cannot allow calls that the
/// agent denies or asks about. `allow_all` approves calls that need an approval because of side effects, because of a
/// review, or because of the same permissions (a rule, `ask` or `data_flow`). `allow_all` of a run does not approve a
/// call about which a rule of the agent asks, and `allow_all` of an agent does not approve a call about which a rule of
/// the run asks.
///
/// A name has no effect if neither the agent nor an agent among its tools has a tool of that name. This is no error,
/// because agents with different tools can share their permissions. But if a tool has nearly this name, the name counts
/// as misspelt, and building the agent or starting the run fails. The tools of an agent that a function runs in its
/// call are not known at that time, so names are not compared with these tools. A name that no tool can have, such as
/// `*` or `file.*`, is an error: a name stands for one tool. Use a [`rule`](Self::rule) to decide about many tools.
///
/// If a call runs an agent, the agent's own calls are decided in the same way. The permissions of all agents and runs
/// above the agent also apply to these calls. The call that runs the agent needs no approval because of its side
/// effects or the data flow policy, since each call inside the agent is decided by itself.
///
/// A rule that panics denies the call. A call is refused before these steps if its arguments cannot be decoded, or if
/// they contain two members of one name.
///
/// ```
/// use harness::{
///     SideEffect, SideEffects,
///     journal::Decider,
///     message::Arguments,
///     policy::{PolicyDecision, Permissions, ProposedCall, RuleDecision},
/// };
///
/// let permissions = Permissions::default()
///     .allow("bash")
///     .deny("drop_table", "tables stay")
///     .rule("no sudo", |call| {
///         let command = call.text("command")?;
///         command.contains("sudo").then(|| RuleDecision::Deny("work without sudo".to_owned()))
///     });
///
/// let listing = Arguments::decode(r#"{"command": "ls"}"#)?;
/// let listing = ProposedCall::new("bash", &listing, SideEffects::ALL);
/// assert_eq!(permissions.decide(&listing), PolicyDecision::Allow { by: Decider::ToolName });
///
/// let sudo = Arguments::decode(r#"{"command": "su\u0064o ls"}"#)?;
/// let sudo = ProposedCall::new("bash", &sudo, SideEffects::ALL);
/// assert!(matches!(permissions.decide(&sudo), PolicyDecision::Deny { .. }));
///
/// let cents = Arguments::decode(r#"{"cents": 100}"#)?;
/// let effects = SideEffects::of(&[SideEffect::Network, SideEffect::Mutate]);
/// let pay = ProposedCall::new("pay", &cents, effects);
/// assert!(matches!(permissions.decide(&pay), PolicyDecision::Ask { .. }));
/// # Ok::<(), harness::Error>(())
/// ```
///
/// A rule also sees the declared side effects, so it can decide for all tools with a side effect:
///
/// ```
/// use harness::{Permissions, SideEffect, policy::RuleDecision};
///
/// let permissions = Permissions::default()
///     .rule("no writing", |call| {
///         let writes = call.effects.has(SideEffect::Write);
///         writes.then(|| RuleDecision::Deny("this agent does not write files".to_owned()))
///     })
///     .rule("ask before the network", |call| {
///         call.effects.has(SideEffect::Network).then_some(RuleDecision::Ask)
///     });
/// # let _ = permissions;
/// ```
#[derive(Clone, Default)]
pub struct Permissions {
    by_name: HashMap<String, RuleDecision>,
    rules: Vec<(String, Arc<PermissionRule>)>,
    data_flow: Option<Arc<DataFlowPolicy>>,
    allows_all: bool,
    stops_on_denial: bool,
}

impl Permissions {
    /// Allows every call that would need an approval, without asking a person. Use this in a sandbox, or in a program
    /// that trusts its model with all tools. Denied calls stay denied.
    pub fn allow_all() -> Self {
        Self { allows_all: true, ..Self::default() }
    }

    /// Allows the tool of this name. A rule, a review and the data flow policy may still ask or deny.
    #[must_use]
    pub fn allow(mut self, tool: impl Into<String>) -> Self {
        self.restrict(tool.into(), RuleDecision::Allow);
        self
    }

    /// Lets a person decide about each call of the tool of this name.
    #[must_use]
    pub fn ask(mut self, tool: impl Into<String>) -> Self {
        self.restrict(tool.into(), RuleDecision::Ask);
        self
    }

    /// Denies every call of the tool of this name. The model reads the reason.
    #[must_use]
    pub fn deny(mut self, tool: impl Into<String>, reason: impl Into<String>) -> Self {
        self.restrict(tool.into(), RuleDecision::Deny(reason.into()));
        self
    }

    /// Keeps the strictest verdict on a name, whatever the order of the verdicts.
    fn restrict(&mut self, tool: String, verdict: RuleDecision) {
        match self.by_name.entry(tool) {
            Entry::Vacant(place) => {
                place.insert(verdict);
            }
            Entry::Occupied(mut said) => {
                if verdict.strictness() > said.get().strictness() {
                    said.insert(verdict);
                }
            }
        }
    }

    /// Adds a rule: a function that gets the call and returns a verdict, or `None` for no verdict. If several rules
    /// return a verdict, the strictest verdict wins. The rule's name is written into the facts and shown in the
    /// approval request.
    #[must_use]
    pub fn rule(
        mut self,
        name: impl Into<String>,
        rule: impl Fn(&ProposedCall<'_>) -> Option<RuleDecision> + Send + Sync + 'static,
    ) -> Self {
        self.rules.push((name.into(), Arc::new(rule)));
        self
    }

    /// Requires an approval before a call that can send data out: see [`DataFlowPolicy`].
    #[must_use]
    pub fn data_flow(mut self, policy: DataFlowPolicy) -> Self {
        self.data_flow = Some(Arc::new(policy));
        self
    }

    /// Ends the run at the first denied call, instead of letting the model try another way. A denied call in an agent
    /// that the run starts also ends the run.
    #[must_use]
    pub fn stop_on_denial(mut self) -> Self {
        self.stops_on_denial = true;
        self
    }

    /// Checks each name in these permissions. Fails if a name is not a valid tool name. Also fails if no tool has the
    /// name, but a tool has a similar name: a misspelt denial would let that tool run.
    #[doc(hidden)]
    pub fn check_names(&self, tools: &ToolRegistry) -> Result<(), Error> {
        let fault = |name: &String| {
            if fault_of_name(name).is_some() {
                let shown = format!("{:?}", beginning(name, SHOWN_NAME));
                let text = "no tool can have that name: it has ASCII letters, digits, `_` and `-`, and at most 64 \
                            of them. Name each tool in full, or decide about many at once by a `rule`";
                return Some(format!("the permissions name {shown}, and {text}"));
            }
            let near = tools.misspelt(name)?;
            Some(format!(
                "the permissions name `{name}`, and there is no such tool: did you mean `{near}`? If another \
                 agent has a tool `{name}`, give each agent permissions of its own"
            ))
        };
        match self.by_name.keys().filter_map(fault).min() {
            None => Ok(()),
            Some(fault) => Err(Error::new(ErrorKind::Configuration, fault)),
        }
    }

    /// Whether a denial ends the run.
    #[doc(hidden)]
    pub fn stops_on_denial(&self) -> bool {
        self.stops_on_denial
    }

    /// Whether these sources contain private data or untrusted text, judged by the data flow policy. Without a policy,
    /// the tools' declared side effects decide.
    #[doc(hidden)]
    pub fn taint(&self, sources: &Sources) -> Taint {
        match &self.data_flow {
            Some(policy) => policy.taint(sources.all()),
            None => DataFlowPolicy::default().taint(sources.all()),
        }
    }

    /// Decides whether this call may run, in the order of the table in the documentation of [`Permissions`].
    pub fn decide(&self, call: &ProposedCall<'_>) -> PolicyDecision {
        self.decide_with(call, &[])
    }

    /// Decides like [`decide`](Self::decide), with further permissions in `others`: the permissions of the run, and
    /// of the agents and runs above it. Each element pairs permissions with the taint of the conversation, judged by
    /// the data flow policy of these permissions.
    #[doc(hidden)]
    pub fn decide_with(
        &self,
        call: &ProposedCall<'_>,
        others: &[(&Self, Taint)],
    ) -> PolicyDecision {
        let allows_all = self.allows_all || others.iter().any(|(other, _)| other.allows_all);
        let (mut allowed, mut asked, mut reasons) = (None, false, Vec::new());
        let others = others.iter().map(|(other, taint)| (*other, call.with_taint(*taint)));
        for (side, call) in std::iter::once((self, *call)).chain(others) {
            for (by, verdict, text) in side.rule_outcomes(&call) {
                match verdict {
                    RuleDecision::Deny(reason) => return PolicyDecision::Deny { by, reason },
                    RuleDecision::Ask => {
                        asked = true;
                        // A review belongs to the tool, so an `allow_all` in any of the permissions approves the call.
                        let answered =
                            if by == Decider::Review { allows_all } else { side.allows_all };
                        let reason = Reason { by, text };
                        // Each of the permissions repeats the reason of the same review.
                        if !answered && !reasons.contains(&reason) {
                            reasons.push(reason);
                        }
                    }
                    RuleDecision::Allow => allowed = allowed.or(Some(by)),
                }
            }
        }
        if !asked && allowed.is_none() && !call.is_agent && !call.effects.needs_nobody() {
            asked = true;
            if !allows_all {
                let text = format!("it declares `{}`", call.effects);
                reasons.push(Reason { by: Decider::SideEffects, text });
            }
        }
        match (reasons.is_empty(), asked) {
            (true, false) => PolicyDecision::Allow { by: allowed.unwrap_or(Decider::SideEffects) },
            (true, true) => PolicyDecision::Allow { by: Decider::Program },
            (false, _) => PolicyDecision::Ask { reasons },
        }
    }

    /// All verdicts of these permissions about a call.
    fn rule_outcomes(&self, call: &ProposedCall<'_>) -> Vec<RuleOutcome> {
        let mut said = Vec::new();
        for (name, rule) in &self.rules {
            let by = Decider::Rule { name: name.clone() };
            match caught(|| rule(call)) {
                Ok(Some(verdict)) => said.push((by, verdict, format!("the rule `{name}` asks"))),
                Ok(None) => {}
                Err(panicked) => {
                    let reason = format!("the rule `{name}` that decides about it {panicked}");
                    said.push((Decider::Fault, RuleDecision::Deny(reason), String::new()));
                }
            }
        }
        if let Some(verdict) = self.by_name.get(call.tool) {
            let text = format!("every call of `{}` is asked about", call.tool);
            said.push((Decider::ToolName, verdict.clone(), text));
        }
        if let Some(review) = call.review {
            if let Some(reason) = &review.refuses {
                said.push((Decider::Review, RuleDecision::Deny(reason.clone()), String::new()));
            }
            if let Some(reason) = &review.asks {
                said.push((Decider::Review, RuleDecision::Ask, reason.clone()));
            }
        }
        let policy = self.data_flow.as_deref().filter(|_| !call.is_agent);
        if let Some(reason) =
            policy.and_then(|policy| policy.reason_to_ask(call.effects, call.taint))
        {
            said.push((Decider::DataFlow, RuleDecision::Ask, reason.to_owned()));
        }
        said
    }
}

/// The decider, its verdict, and the text of the approval request if the verdict is `Ask`.
type RuleOutcome = (Decider, RuleDecision, String);

impl fmt::Debug for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules: Vec<&str> = self.rules.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Permissions")
            .field("by_name", &self.by_name)
            .field("rules", &rules)
            .field("data_flow", &self.data_flow)
            .field("allows_all", &self.allows_all)
            .field("stops_on_denial", &self.stops_on_denial)
            .finish()
    }
}
