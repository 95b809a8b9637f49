//! The transcript of a conversation, and its rules.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::{
    Block, CallOutcome, Message, Messages, Results, Role, ToolCall, ToolContent, ToolResult,
};
use crate::error::{Error, ErrorKind};

/// The transcript of a conversation. A transcript is append-only. Providers accept every transcript in which all calls
/// have results.
///
/// The rules: a transcript begins with a message of the user. Each message contains only the blocks
/// that its role allows. The results of a message's calls follow directly, one per call and in
/// order. **A transcript with a call that has no result cannot be sent**
/// ([`sendable`](Self::sendable)).
///
/// Clones share the messages, and appending copies no messages even if clones exist. The JSON form
/// is the list of messages; deserializing checks the rules.
///
/// ```
/// use harness::{Message, Transcript};
///
/// let mut transcript = Transcript::default();
/// transcript.push(Message::user("My favourite number is 42."))?;
/// assert_eq!(transcript.sendable()?.len(), 1);
/// # Ok::<(), harness::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Message>", into = "Vec<Message>")]
pub struct Transcript {
    messages: Messages,
}

impl Transcript {
    /// A transcript from the messages of a request. The caller guarantees that the messages begin
    /// with the user and that each call has its result.
    #[doc(hidden)]
    pub fn of_sent(messages: Messages) -> Self {
        Self { messages }
    }

    /// Replaces a message of a request. The caller guarantees that the new message has the same role and calls.
    #[doc(hidden)]
    pub fn replace_sent(&mut self, at: usize, message: Message) {
        self.messages.replace(at, message);
    }

    /// All messages, in order.
    pub fn messages(&self) -> &Messages {
        &self.messages
    }

    /// The results of all calls in the transcript.
    pub fn results(&self) -> Results {
        Results::of_messages(self.messages.clone())
    }

    /// The messages, if every call has its result and the transcript may therefore be sent.
    ///
    /// # Errors
    /// [`ErrorKind::Transcript`] if a call has no result yet. The error names the call.
    pub fn sendable(&self) -> Result<&Messages, Error> {
        match self.owed().next() {
            None => Ok(&self.messages),
            Some(call) => Err(law(format!(
                "the call `{}` of `{}` has no result yet, so the transcript cannot be sent; \
                 push its results, or settle it",
                call.id(),
                call.name()
            ))),
        }
    }

    /// The calls that have no result yet, in order. An empty iterator means that the next request
    /// may be sent.
    pub fn owed(&self) -> impl Iterator<Item = &ToolCall> {
        self.messages.last().into_iter().flat_map(Message::calls)
    }

    /// Adds a message.
    ///
    /// # Errors
    /// [`ErrorKind::Transcript`] if the rules of a transcript do not allow the message at this
    /// point. On error, the transcript stays unchanged.
    pub fn push(&mut self, message: Message) -> Result<(), Error> {
        self.check_order(&message)?;
        self.messages.push(message);
        Ok(())
    }

    /// Adds the result *in doubt* for every call without a result, for example if nobody recorded
    /// the results. A transcript that can be sent stays unchanged.
    pub fn settle(&mut self) {
        let Some(asked) = self.messages.last().filter(|last| last.calls().next().is_some()) else {
            return;
        };
        let results: Vec<ToolResult> = asked
            .calls()
            .map(|call| {
                let text = ToolContent::Text(IN_DOUBT.to_owned());
                ToolResult::new(call.id(), CallOutcome::InDoubt, [text])
            })
            .collect();
        let message = Message::results_of(asked, results);
        self.messages.push(message);
    }

    fn check_order(&self, message: &Message) -> Result<(), Error> {
        if message.blocks().is_empty() {
            return Err(law("a message without a block cannot be sent; leave it out".to_owned()));
        }
        if let Some(block) = message.blocks().iter().find(|block| !may_say(message.role(), block)) {
            return Err(law(format!("{:?} cannot say {}", message.role(), kind(block))));
        }
        let mut ids = HashSet::new();
        if let Some(call) = message.calls().find(|call| !ids.insert(call.id())) {
            return Err(law(format!("two calls of one message have the id `{}`", call.id())));
        }
        match message.role() {
            Role::Tool => {
                let owed: Vec<&str> = self.owed().map(ToolCall::id).collect();
                let given: Vec<&str> = message.results().map(ToolResult::call_id).collect();
                if owed.is_empty() || owed != given {
                    return Err(law(format!(
                        "results are owed for the calls {owed:?}, in this order, but these came: \
                         {given:?}"
                    )));
                }
            }
            Role::Assistant | Role::User => {
                self.sendable()?;
                if self.messages.is_empty() && message.role() == Role::Assistant {
                    return Err(law("a conversation begins with the user".to_owned()));
                }
            }
        }
        Ok(())
    }
}

/// The text for the model about a call whose progress is unknown.
const IN_DOUBT: &str = "The call was interrupted and may have partly run. Check what it did before \
                        you repeat it.";

fn law(message: String) -> Error {
    Error::new(ErrorKind::Transcript, message)
}

fn may_say(role: Role, block: &Block) -> bool {
    match block {
        Block::Text(_) | Block::Image(_) | Block::Audio(_) | Block::Document(_) => {
            role != Role::Tool
        }
        Block::ToolCall(_) | Block::Reasoning(_) | Block::Vendor(_) => role == Role::Assistant,
        Block::ToolResult(_) => role == Role::Tool,
    }
}

fn kind(block: &Block) -> &'static str {
    match block {
        Block::Text(_) => "text",
        Block::Image(_) => "an image",
        Block::Audio(_) => "sound",
        Block::Document(_) => "a document",
        Block::ToolCall(_) => "a tool call",
        Block::ToolResult(_) => "a tool result",
        Block::Reasoning(_) => "reasoning",
        Block::Vendor(_) => "vendor data",
    }
}

impl TryFrom<Vec<Message>> for Transcript {
    type Error = Error;

    fn try_from(messages: Vec<Message>) -> Result<Self, Error> {
        let mut transcript = Self::default();
        for (at, message) in messages.into_iter().enumerate() {
            transcript.push(message).map_err(|err| {
                law(format!("message {at} cannot stand there: {}", err.message()))
            })?;
        }
        Ok(transcript)
    }
}

impl From<Transcript> for Vec<Message> {
    fn from(transcript: Transcript) -> Self {
        Self::from(&transcript.messages)
    }
}
