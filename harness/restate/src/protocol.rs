//! The messages between a program and a worker.

use std::fmt;

use futures_util::{FutureExt as _, future::BoxFuture};

use harness::{
    Error, Message, Outcome, Role,
    agent::{Settlement, Steps},
    journal::{Envelope, Fact},
    policy::Approval,
};
use serde::{Deserialize, Serialize};

/// The request body of a message: the message itself, or only its text.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Input {
    /// Only the text of a message, which is easy to write by hand.
    Text(String),
    /// A message, and the kind of the run that it begins.
    Run {
        /// The message.
        message: Message,
        /// The kind of the run: see [`Conversations::each_run`](crate::Conversations::each_run).
        kind: String,
    },
    /// A message.
    Message(Message),
}

impl Input {
    /// The message, and the kind of the run, which is empty if none is given.
    pub(crate) fn parts(self) -> (Message, String) {
        match self {
            Self::Text(text) => (Message::user(text), String::new()),
            Self::Run { message, kind } => (message, kind),
            Self::Message(message) => (message, String::new()),
        }
    }
}

/// A decision or an outcome for a waiting call.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// A decision about an approval request.
    Decided(Approval),
    /// The outcome of the call.
    Settled(Settlement),
}

impl Command {
    /// Returns a future of the facts to write. The future first stores a large result. Fails at once if this command is
    /// not valid now.
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
    /// The last text of the model in this run. Empty if there is none.
    pub text: String,
}

/// The text of the answer, or a description of the outcome. On the engine, a waiting run needs no `resume`.
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

/// Facts of a conversation that begin at one position.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Facts {
    /// The facts, in order.
    pub facts: Vec<Envelope>,
    /// The position after these facts. Pass this value to read later facts.
    pub next: u32,
    /// The id of the current run: see [`Conversation::watch`](crate::Conversation::watch). `None` if no run is active,
    /// and also while a started run has not begun.
    pub run: Option<String>,
}

/// The last text of the model since the last message of the user. Complaints about a rejected answer also have the role
/// of the user, but do not count as messages of the user.
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
