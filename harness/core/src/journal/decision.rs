//! What was decided about a call, who decided it, and what the decision is bound to.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    message::{Arguments, same},
    tool::{Reviewed, Scope, SideEffects},
};

/// Whether a call may run, and who has decided this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Decision {
    /// The call may run.
    Allow {
        /// The side effects that its tool declared at that time. They determine the order of the
        /// calls and what the model is told after an interruption.
        side_effects: SideEffects,
        /// Whether the call may run again if its outcome is not known.
        #[serde(default)]
        repeat: Repeat,
        /// Who has decided it.
        #[serde(default)]
        by: Decider,
        /// What the [`Review`](crate::tool::Review) of the tool said of the call, if the tool has a review. The call
        /// runs only if the review still says the same.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reviewed: Option<Arc<Reviewed>>,
        /// What a person saw of the call, if a person has allowed it now or by an earlier *always*. The call runs only
        /// as the person saw it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        binding: Option<Arc<CallBinding>>,
    },
    /// The call may not run.
    Deny {
        /// Why, in words for the model.
        reason: String,
        /// Who has decided it.
        #[serde(default)]
        by: Decider,
    },
}

/// Who or what has decided about a call, or wants a person to decide.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decider", rename_all = "snake_case")]
pub enum Decider {
    /// The decider was not recorded.
    #[default]
    Unrecorded,
    /// The declared side effects: see [`Permissions`](crate::policy::Permissions).
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
    /// The policy against data that is carried out: see [`DataFlowPolicy`](crate::policy::DataFlowPolicy).
    #[serde(rename = "egress")]
    DataFlow,
    /// The program, which allows everything that would otherwise be asked about:
    /// [`Permissions::allow_all`](crate::policy::Permissions::allow_all).
    Program,
    /// A person, through the approver.
    Person {
        /// The person, if the approver has named them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        who: Option<String>,
        /// When, in milliseconds since the beginning of 1970 in UTC.
        at: u64,
        /// The calls that the answer also allows from then on, if it was *always*.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        always: Option<Box<Always>>,
    },
    /// A person who has answered *always* before.
    Always {
        /// The id of the call that the person was asked about.
        call: String,
        /// The calls for which that answer holds.
        scope: Scope,
    },
    /// Nobody: there was no approver.
    Nobody,
    /// Nobody has answered in time.
    Expired,
    /// The call itself: its arguments cannot be read, or its tool does not exist.
    Call,
    /// Code of the program that should have decided has panicked.
    Fault,
}

/// What a person has allowed for more than one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Always {
    /// The calls of the tool for which the permission holds.
    pub scope: Scope,
    /// The name of the tool.
    pub tool: String,
    /// Why the person was asked. If there is another reason for a later call, the person is asked
    /// again.
    pub reasons: Vec<Reason>,
    /// The person in whose runs the permission holds. With `None`, it holds in the runs in which the agent's own
    /// approver is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    /// What the person saw of the call. The permission holds only for calls of the same tool in the same folder, and,
    /// if its scope is exactly one call, with the same arguments.
    pub binding: Arc<CallBinding>,
}

impl Always {
    /// Allows further calls of a tool, within `scope`, if a person would be asked for no other reasons than `reasons`
    /// and the calls agree with `binding`, which is what the person saw.
    pub fn new(
        scope: Scope,
        tool: impl Into<String>,
        reasons: Vec<Reason>,
        binding: Arc<CallBinding>,
    ) -> Self {
        Self { scope, tool: tool.into(), reasons, person: None, binding }
    }

    /// Restricts the permission to the runs that bring the approver of this person.
    #[must_use]
    pub fn for_person(mut self, person: Option<String>) -> Self {
        self.person = person;
        self
    }
}

/// What a person saw of a call and decided about. A decision holds for it and for nothing else, also in another process
/// and in another version of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallBinding {
    /// The arguments, with the defaults of those that the model left out. The tool runs with these.
    pub arguments: Arguments,
    /// A hash of what the tool was: see [`ApprovalRequest::definition`](crate::policy::ApprovalRequest::definition).
    pub definition: String,
    /// The folder in which the call runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
}

impl CallBinding {
    /// Binds a decision to these arguments of the tool with this definition.
    pub fn new(arguments: Arguments, definition: impl Into<String>) -> Self {
        Self { arguments, definition: definition.into(), folder: None }
    }

    /// What differs in `now`, one line each, in words for the person who is asked again.
    #[doc(hidden)]
    pub fn changes(&self, now: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        let value = |value: Option<&Value>| match value {
            Some(value) => value.to_string(),
            None => "not there".to_owned(),
        };
        let names: BTreeSet<&String> = self.arguments.keys().chain(now.arguments.keys()).collect();
        for name in names {
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

/// A reason for asking a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reason {
    /// What wants a person to decide.
    pub by: Decider,
    /// The reason, in words for the person.
    pub text: String,
}

impl Reason {
    /// A reason for asking a person.
    pub fn new(by: Decider, text: impl Into<String>) -> Self {
        Self { by, text: text.into() }
    }
}

/// Whether a call may run again if its outcome is not known. It follows from what the call's tool
/// declared when the call was allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeat {
    /// It may not: the call is in doubt.
    #[default]
    Never,
    /// It may, because it only reads on this machine.
    Read,
    /// It may, because repeating it has no further effect. It gets the same idempotency key.
    Idempotent,
    /// It continues: the call runs an agent in a conversation of its own.
    Continues,
}
