//! A decision about a call: who decided, and which form of the call the decision applies to.

use std::{path::PathBuf, sync::Arc};

use serde::{
    Deserialize, Serialize,
    de::{Error as _, value},
};
use serde_json::Value;

use super::read_fact::required;
use crate::{
    message::{Arguments, same, sorted_names},
    tool::{Reviewed, Scope, SideEffects},
};

/// Whether a call may run, and who decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case", try_from = "DecisionMembers")]
pub enum Decision {
    /// The call may run.
    Allow {
        /// The side effects that the tool declared when the call was allowed. These side effects determine the order
        /// of the calls, and what the library tells the model after an interruption.
        side_effects: SideEffects,
        /// Whether the call may run again if its outcome is unknown.
        repeat: Repeat,
        /// Who made the decision.
        by: Decider,
        /// The result of the tool's [`Review`](crate::tool::Review) of the call, if the tool has a review. The call
        /// runs only if a new review gives the same result.
        #[serde(skip_serializing_if = "Option::is_none")]
        reviewed: Option<Arc<Reviewed>>,
        /// The call as a person saw it, if a person allowed the call now or by an earlier *always*. The call runs only
        /// if its current form agrees with this form.
        #[serde(skip_serializing_if = "Option::is_none")]
        binding: Option<Arc<CallBinding>>,
    },
    /// The call may not run.
    Deny {
        /// The reason, as text for the model.
        reason: String,
        /// Who made the decision.
        by: Decider,
    },
}

/// The members of both variants of [`Decision`]. Serde reads this struct in one pass, wherever the verdict stands.
#[derive(Deserialize)]
struct DecisionMembers {
    verdict: String,
    side_effects: Option<SideEffects>,
    #[serde(default)]
    repeat: Repeat,
    #[serde(default)]
    by: Decider,
    reviewed: Option<Arc<Reviewed>>,
    binding: Option<Arc<CallBinding>>,
    reason: Option<String>,
}

impl TryFrom<DecisionMembers> for Decision {
    type Error = value::Error;

    fn try_from(members: DecisionMembers) -> Result<Self, value::Error> {
        let DecisionMembers { verdict, side_effects, repeat, by, reviewed, binding, reason } =
            members;
        match verdict.as_str() {
            "allow" => {
                let side_effects = required(side_effects, "side_effects")?;
                Ok(Self::Allow { side_effects, repeat, by, reviewed, binding })
            }
            "deny" => Ok(Self::Deny { reason: required(reason, "reason")?, by }),
            _ => Err(value::Error::unknown_variant(&verdict, &["allow", "deny"])),
        }
    }
}

/// Who decided about a call, or why a person has to decide.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decider", rename_all = "snake_case", try_from = "DeciderMembers")]
pub enum Decider {
    /// The decider was not recorded.
    #[default]
    Unrecorded,
    /// The permissions for the declared side effects: see [`Permissions`](crate::policy::Permissions).
    SideEffects,
    /// The program's setting for the tool of this name.
    ToolName,
    /// A rule of the program.
    Rule {
        /// The name of the rule.
        name: String,
    },
    /// The tool's own [`Review`](crate::tool::Review).
    Review,
    /// The policy for calls that may send private data out of the program: see
    /// [`DataFlowPolicy`](crate::policy::DataFlowPolicy).
    #[serde(rename = "egress")]
    DataFlow,
    /// The program, which allows every call that would otherwise need an approval:
    /// [`Permissions::allow_all`](crate::policy::Permissions::allow_all).
    Program,
    /// A person, through the approver.
    Person {
        /// The name of the person, if the approver returned one.
        #[serde(skip_serializing_if = "Option::is_none")]
        who: Option<String>,
        /// The time of the answer, in milliseconds since the Unix epoch.
        at: u64,
        /// The grant for further calls, if the answer was *always*.
        #[serde(skip_serializing_if = "Option::is_none")]
        always: Option<Box<Always>>,
    },
    /// A person who answered *always* to an earlier call.
    Always {
        /// The id of that earlier call.
        call: String,
        /// The calls for which the earlier answer holds.
        scope: Scope,
    },
    /// No decision was possible, because there was no approver.
    Nobody,
    /// The approval request expired without an answer.
    Expired,
    /// The call itself is invalid: its arguments cannot be read, or its tool does not exist.
    Call,
    /// The program's code panicked during the decision.
    Fault,
}

const DECIDERS: &[&str] = &[
    "unrecorded",
    "side_effects",
    "tool_name",
    "rule",
    "review",
    "egress",
    "program",
    "person",
    "always",
    "nobody",
    "expired",
    "call",
    "fault",
];

/// The members of all deciders, as [`DecisionMembers`].
#[derive(Deserialize)]
struct DeciderMembers {
    decider: String,
    name: Option<String>,
    who: Option<String>,
    at: Option<u64>,
    always: Option<Box<Always>>,
    call: Option<String>,
    scope: Option<Scope>,
}

impl TryFrom<DeciderMembers> for Decider {
    type Error = value::Error;

    fn try_from(members: DeciderMembers) -> Result<Self, value::Error> {
        let DeciderMembers { decider, name, who, at, always, call, scope } = members;
        Ok(match decider.as_str() {
            "unrecorded" => Self::Unrecorded,
            "side_effects" => Self::SideEffects,
            "tool_name" => Self::ToolName,
            "rule" => Self::Rule { name: required(name, "name")? },
            "review" => Self::Review,
            "egress" => Self::DataFlow,
            "program" => Self::Program,
            "person" => Self::Person { who, at: required(at, "at")?, always },
            "always" => {
                Self::Always { call: required(call, "call")?, scope: required(scope, "scope")? }
            }
            "nobody" => Self::Nobody,
            "expired" => Self::Expired,
            "call" => Self::Call,
            "fault" => Self::Fault,
            _ => return Err(value::Error::unknown_variant(&decider, DECIDERS)),
        })
    }
}

/// A person's permission for more than one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Always {
    /// The calls of the tool to which the permission applies.
    pub scope: Scope,
    /// The name of the tool.
    pub tool: String,
    /// Why the approval was requested. A later call with a further reason needs a new approval.
    pub reasons: Vec<Reason>,
    /// The person in whose runs the permission applies. `None` means the runs that use the agent's own approver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    /// The call as the person saw it. The permission applies only to calls of the same tool in the same folder and, if
    /// the scope is exactly one call, with the same arguments.
    pub binding: Arc<CallBinding>,
}

impl Always {
    /// Allows further calls of a tool within `scope`. The permission covers a call if `reasons` contains all reasons
    /// why the call needs an approval, and if the call agrees with `binding`, the call as the person saw it.
    pub fn new(
        scope: Scope,
        tool: impl Into<String>,
        reasons: Vec<Reason>,
        binding: Arc<CallBinding>,
    ) -> Self {
        Self { scope, tool: tool.into(), reasons, person: None, binding }
    }

    /// Restricts the permission to runs with the approver of this person.
    #[must_use]
    pub fn for_person(mut self, person: Option<String>) -> Self {
        self.person = person;
        self
    }
}

/// The form of a call that a person saw and decided about. The decision applies to this form only, even in another
/// process or another version of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallBinding {
    /// The arguments, with defaults for those that the model left out. The tool runs with exactly these arguments.
    pub arguments: Arguments,
    /// A hash of the tool's definition at that time: see
    /// [`ApprovalRequest::definition`](crate::policy::ApprovalRequest::definition).
    pub definition: String,
    /// The folder in which the call runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
}

impl CallBinding {
    /// Binds a decision to these arguments and to the tool with this definition.
    pub fn new(arguments: Arguments, definition: impl Into<String>) -> Self {
        Self { arguments, definition: definition.into(), folder: None }
    }

    /// The differences between this call and `now`, one line each, as text for the person who has to decide again.
    #[doc(hidden)]
    pub fn changes(&self, now: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        let value = |value: Option<&Value>| match value {
            Some(value) => value.to_string(),
            None => "not there".to_owned(),
        };
        for name in sorted_names(&self.arguments, &now.arguments) {
            let (before, after) = (self.arguments.get(name), now.arguments.get(name));
            let is_same = before.zip(after).is_some_and(|(before, after)| same(before, after));
            if !is_same && before != after {
                changes.push(format!("`{name}` was {}", value(before)));
            }
        }
        if self.definition != now.definition {
            changes
                .push("the tool has changed: what it declares or takes was different".to_owned());
        }
        if self.folder != now.folder {
            let folder = self.folder.as_ref().map(|folder| folder.display().to_string());
            changes.push(format!("the folder was {}", folder.as_deref().unwrap_or("not known")));
        }
        changes
    }
}

/// A reason why a person has to decide about a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reason {
    /// The rule or policy that requires the approval.
    pub by: Decider,
    /// The reason, as text for the person.
    pub text: String,
}

impl Reason {
    /// Makes a reason from its origin and its text.
    pub fn new(by: Decider, text: impl Into<String>) -> Self {
        Self { by, text: text.into() }
    }
}

/// Whether a call may run again if its outcome is unknown. The value follows from the tool's declaration at the time
/// of the decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeat {
    /// The call may not run again and stays in doubt.
    #[default]
    Never,
    /// The call may run again, because it only reads on this machine.
    Read,
    /// The call may run again, because a repetition has no further effect. The repeated call gets the same idempotency
    /// key.
    Idempotent,
    /// The call continues where it stopped, because it runs an agent with a conversation of its own.
    Continues,
}
