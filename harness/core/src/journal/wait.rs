//! What a call waits for, and what its agents have spent until then.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Repeat;
use crate::{provider::Usage, tool::Review};

/// What a call waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Wait {
    /// What is awaited.
    #[serde(flatten)]
    pub awaited: Awaited,
    /// The time until which an answer counts, in milliseconds since the beginning of 1970 in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// What the agents of the call have spent until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Box<CallSpent>>,
}

impl Wait {
    /// A wait without a deadline.
    pub fn new(awaited: Awaited) -> Self {
        Self { awaited, until: None, spent: None }
    }

    /// Sets what the agents of the call have spent until then.
    #[must_use]
    #[doc(hidden)]
    pub fn having_spent(mut self, spent: Option<Box<CallSpent>>) -> Self {
        self.spent = spent;
        self
    }

    /// The same wait without the token, which is for the call's tool alone.
    #[must_use]
    #[doc(hidden)]
    pub fn without_token(&self) -> Self {
        let mut wait = self.clone();
        if let Awaited::Answer { token, .. } = &mut wait.awaited {
            *token = Value::Null;
        }
        wait
    }

    /// Sets until when an answer counts, in milliseconds since the beginning of 1970 in UTC.
    #[must_use]
    pub fn until(mut self, until: Option<u64>) -> Self {
        self.until = until;
        self
    }
}

/// What a call can wait for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum Awaited {
    /// Somebody has to decide whether the call may run.
    Approval {
        /// The question as it is shown: a `policy::ApprovalRequest` as JSON.
        question: Value,
        /// Whether the call may run again if its outcome is not known.
        repeat: Repeat,
        /// What its tool's review says of the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        review: Option<Box<Review>>,
    },
    /// The program has to give the result: the call was handed to it.
    Result,
    /// The call's tool has asked a question, and is called again with the answer.
    Answer {
        /// The question, in words for a person.
        question: String,
        /// A value that the tool gets back with the answer.
        token: Value,
        /// The JSON Schema of the answer, if the tool has given one: see
        /// [`ToolError::with_form`](crate::tool::ToolError::with_form). An answer is not checked against
        /// it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        form: Option<Value>,
    },
    /// The agent of the call has calls that wait, which are answered in the agent's own
    /// conversation; or the agent could not continue.
    Agent {
        /// The name of that conversation.
        conversation: String,
        /// Whether the agent could not continue, because its conversation was open elsewhere or the
        /// journal failed. Then no answer is needed: `Chat::resume` tries
        /// again.
        #[serde(default, skip_serializing_if = "is_false")]
        cut_off: bool,
    },
}

/// What the agents of a call have spent, as plain data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CallSpent {
    /// How often a model was asked.
    pub turns: u32,
    /// How many calls were started.
    pub tool_calls: u32,
    /// The tokens, as far as they are known.
    pub usage: Usage,
    /// The cost of the known tokens with a known price, in millionths of a millionth of the
    /// currency.
    pub cost: u64,
    /// Whether an answer broke off, so that it has cost more than was reported.
    #[serde(skip_serializing_if = "is_false")]
    pub broke_off: bool,
    /// Whether the input tokens of an answer are not known.
    #[serde(skip_serializing_if = "is_false")]
    pub unknown_input: bool,
    /// Whether the output tokens of an answer are not known.
    #[serde(skip_serializing_if = "is_false")]
    pub unknown_output: bool,
    /// Why the cost of an answer is not known, if that is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_cost: Option<String>,
    /// How much of all this agents have spent whose conversations the journal keeps below that of the caller: the facts
    /// there say it, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<Box<CallSpent>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
pub(super) fn is_false(value: &bool) -> bool {
    !value
}
