//! What a program and a worker say to each other.

use std::fmt;

use futures_util::{FutureExt as _, future::BoxFuture};

use harness::{
    Error, Message, Outcome, Role,
    agent::{Settlement, Steps},
    journal::{Envelope, Fact},
    policy::Approval,
};
use serde::{Deserialize, Serialize};

/// What the user says: a message, or its text alone.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Input {
    /// Its text alone, which is easy to write by hand.
    Text(String),
    /// A message, and what kind of run it begins.
    Run {
        /// The message.
        message: Message,
        /// See [`Conversations::each_run`](crate::Conversations::each_run).
        kind: String,
    },
    /// A message.
    Message(Message),
}

impl Input {
    /// The message, and the kind of the run.
    pub(crate) fn parts(self) -> (Message, String) {
        match self {
            Self::Text(text) => (Message::user(text), String::new()),
            Self::Run { message, kind } => (message, kind),
            Self::Message(message) => (message, String::new()),
        }
    }
}

/// What somebody says about a call that waits.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// The answer to a question.
    Decided(Approval),
    /// The outcome of the call.
    Settled(Settlement),
}

impl Command {
    /// Returns the facts to write, in a future that first stores a large result as a whole. Fails at once if this
    /// command is not valid now.
    pub(crate) fn facts(
        self,
        steps: &Steps,
    ) -> Result<BoxFuture<'static, Result<Vec<Envelope>, Error>>, Error> {
        match self {
            Self::Decided(approval) => {
                let facts = steps.decided(approval)?;
                Ok(async move { Ok(facts) }.boxed())
            }
            Self::Settled(settlement) => Ok(steps.settled(settlement)?.boxed()),
        }
    }
}

/// How a run ended, or that it waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    /// How the run ended, or that it waits.
    pub outcome: Outcome,
    /// What the model said last in this run: empty if it said nothing.
    pub text: String,
}

/// The text of an answer, or the outcome in words. On the engine, what waits needs no `resume`.
impl fmt::Display for RunEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Outcome::Waiting => f.write_str(
                "calls wait to be decided or answered: the run goes on by itself when somebody has done so",
            ),
            Outcome::Answered => f.write_str(&self.text),
            outcome => write!(f, "{outcome}"),
        }
    }
}

/// Facts of a conversation, from one place on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Facts {
    /// The facts, in order.
    pub facts: Vec<Envelope>,
    /// The place after them, from which later facts are read.
    pub next: u32,
    /// The id of the run that goes on: see [`Conversation::watch`](crate::Conversation::watch). It is `None` if no run
    /// goes on, also while one that was started has not begun.
    pub run: Option<String>,
}

/// What the model said last since the last message of the user. The complaints about an answer that was rejected have
/// the role of the user, too.
pub(crate) fn last_answer(steps: &Steps) -> String {
    let said = steps.facts().iter().rev().find_map(|fact| match fact.fact() {
        Ok(Fact::UserSaid { message, .. }) => Some(message.id().to_owned()),
        _ => None,
    });
    let messages = steps.transcript().messages();
    let mut since = messages.iter().rev().take_while(|it| Some(it.id()) != said.as_deref());
    let by_model = since.find(|it| it.role() == Role::Assistant);
    by_model.map(Message::text).unwrap_or_default()
}
