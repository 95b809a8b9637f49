//! What a call waits for, and what the agents inside the call have spent so far.

use serde::{
    Deserialize, Serialize,
    de::{Error as _, value},
};
use serde_json::Value;

use super::{Repeat, read_fact::required};
use crate::{provider::Usage, tool::Review};

/// The state of a call that waits for an answer from outside of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "WaitMembers")]
#[non_exhaustive]
pub struct Wait {
    /// The kind of answer that the call waits for.
    #[serde(flatten)]
    pub awaited: Awaited,
    /// The deadline for an answer, in milliseconds since the Unix epoch. `None` means no deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// The spending of the agents inside the call until the wait began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spent: Option<Box<CallSpent>>,
    /// A random text that identifies the question of a tool. A tool that asks an equal question again gets a new
    /// nonce. `None` for other waits: an approval request has a nonce of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nonce: Option<Box<str>>,
}

impl Wait {
    /// A wait without a deadline.
    pub fn new(awaited: Awaited) -> Self {
        Self { awaited, until: None, spent: None, nonce: None }
    }

    /// Sets a new nonce if a tool asks a question.
    #[must_use]
    #[doc(hidden)]
    pub fn with_new_nonce(mut self) -> Self {
        if let Awaited::Answer { .. } = self.awaited {
            self.nonce = Some(format!("{:032x}", fastrand::u128(..)).into());
        }
        self
    }

    /// Sets the spending of the agents inside the call until the wait began.
    #[must_use]
    #[doc(hidden)]
    pub fn having_spent(mut self, spent: Option<Box<CallSpent>>) -> Self {
        self.spent = spent;
        self
    }

    /// The same wait without the token, which only the call's tool may see.
    #[must_use]
    #[doc(hidden)]
    pub fn without_token(&self) -> Self {
        let mut wait = self.clone();
        if let Awaited::Answer { token, .. } = &mut wait.awaited {
            *token = Value::Null;
        }
        wait
    }

    /// Sets the deadline for an answer, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn until(mut self, until: Option<u64>) -> Self {
        self.until = until;
        self
    }
}

/// The kinds of answers that a call can wait for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "snake_case", try_from = "WaitMembers")]
pub enum Awaited {
    /// A decision whether the call may run.
    Approval {
        /// The approval request as it is shown: a `policy::ApprovalRequest` as JSON.
        question: Value,
        /// Whether the call may run again if its outcome is unknown.
        repeat: Repeat,
        /// The result of the tool's review of the call.
        #[serde(skip_serializing_if = "Option::is_none")]
        review: Option<Box<Review>>,
    },
    /// The result of the call. The library handed the call to the program, so the program provides
    /// the result.
    Result,
    /// The answer to a question of the call's tool. The tool is called again with the answer.
    Answer {
        /// The question, as text for a person.
        question: String,
        /// A value that the tool gets back together with the answer.
        token: Value,
        /// The JSON Schema of the answer, if the tool gave one: see
        /// [`ToolError::with_form`](crate::tool::ToolError::with_form). Answers are not checked against the schema.
        #[serde(skip_serializing_if = "Option::is_none")]
        form: Option<Value>,
    },
    /// The agent inside the call. Either calls of this agent wait for answers, or the agent could not continue.
    /// The answers go to the agent's own conversation.
    Agent {
        /// The name of the agent's conversation.
        conversation: String,
        /// Whether the agent could not continue, because its conversation was open elsewhere or the journal failed. No
        /// answer is needed then: `Chat::resume` tries again.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        cut_off: bool,
    },
}

/// The members of [`Wait`] and of all variants of [`Awaited`]. Serde reads this struct in one pass, wherever the kind
/// stands.
#[derive(Deserialize)]
struct WaitMembers {
    r#for: String,
    #[serde(default)]
    question: Value,
    repeat: Option<Repeat>,
    review: Option<Box<Review>>,
    #[serde(default)]
    token: Value,
    form: Option<Value>,
    conversation: Option<String>,
    #[serde(default)]
    cut_off: bool,
    until: Option<u64>,
    spent: Option<Box<CallSpent>>,
    nonce: Option<Box<str>>,
}

impl TryFrom<WaitMembers> for Wait {
    type Error = value::Error;

    fn try_from(members: WaitMembers) -> Result<Self, value::Error> {
        let WaitMembers {
            r#for: kind,
            question,
            repeat,
            review,
            token,
            form,
            conversation,
            cut_off,
            until,
            spent,
            nonce,
        } = members;
        let awaited = match (kind.as_str(), question) {
            ("approval", question) => {
                let repeat = required(repeat, "repeat")?;
                Awaited::Approval { question, repeat, review }
            }
            ("result", _) => Awaited::Result,
            ("answer", Value::String(question)) => Awaited::Answer { question, token, form },
            ("answer", _) => return Err(value::Error::missing_field("question")),
            ("agent", _) => {
                Awaited::Agent { conversation: required(conversation, "conversation")?, cut_off }
            }
            _ => {
                let known = &["approval", "result", "answer", "agent"];
                return Err(value::Error::unknown_variant(&kind, known));
            }
        };
        Ok(Self { awaited, until, spent, nonce })
    }
}

impl TryFrom<WaitMembers> for Awaited {
    type Error = value::Error;

    fn try_from(members: WaitMembers) -> Result<Self, value::Error> {
        Wait::try_from(members).map(|wait| wait.awaited)
    }
}

/// The spending of the agents inside a call, as plain data for storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CallSpent {
    /// The number of requests to models.
    pub turns: u32,
    /// The number of started calls.
    pub tool_calls: u32,
    /// The tokens, as far as they are known.
    pub usage: Usage,
    /// The cost of the known tokens with a known price, in units of 10^-12 of the currency.
    pub cost: u64,
    /// Whether an answer broke off, so that the true cost is higher than the reported one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub broke_off: bool,
    /// Whether the input tokens of some answer are unknown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unknown_input: bool,
    /// Whether the output tokens of some answer are unknown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unknown_output: bool,
    /// Why the cost of some answer is unknown. `None` if all costs are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_cost: Option<String>,
    /// The spending of agents whose conversations are in the journal, as children of the caller's conversation.
    /// The facts of those conversations record this part of the spending, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<Box<CallSpent>>,
}
