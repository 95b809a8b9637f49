//! One message: who said what, when.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

use super::{Block, ToolCall, ToolContent, ToolResult};
use crate::error::{Error, ErrorKind};

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person, or the program in their place.
    User,
    /// The model.
    Assistant,
    /// The tools that the model called.
    Tool,
}

/// Who said what, when. It cannot be changed once it is made, and a clone is one pointer.
///
/// ```
/// use harness::{Message, Role};
///
/// let message = Message::user("What is 17 * 23?");
/// assert_eq!(message.role(), Role::User);
/// assert_eq!(message.text(), "What is 17 * 23?");
///
/// let json = serde_json::to_string(&message)?;
/// assert_eq!(serde_json::from_str::<Message>(&json)?, message);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Inner", into = "Inner")]
pub struct Message(Arc<Inner>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Inner {
    id: String,
    role: Role,
    at_ms: u64,
    blocks: Vec<Block>,
    #[serde(default, skip_serializing_if = "is_not")]
    paused: bool,
    #[serde(default, skip_serializing_if = "is_not")]
    refused: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_not(flag: &bool) -> bool {
    !flag
}

impl Message {
    /// Whether it is this message, or one that is written in the same way, to the byte. Values that are equal may
    /// be written in another order.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let written = |message: &Self| serde_json::to_vec(message).ok();
        Arc::ptr_eq(&self.0, &other.0) || self == other && written(self) == written(other)
    }

    /// A message with a new id, said now.
    pub fn new(role: Role, blocks: impl IntoIterator<Item = Block>) -> Self {
        let id = format!("msg_{:032x}", fastrand::u128(..));
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let at_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let blocks = blocks.into_iter().collect();
        Self(Arc::new(Inner { id, role, at_ms, blocks, paused: false, refused: false }))
    }

    /// Words of the person.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(Role::User, [Block::text(text)])
    }

    /// What the model said.
    pub fn assistant(blocks: impl IntoIterator<Item = Block>) -> Self {
        Self::new(Role::Assistant, blocks)
    }

    /// The results of a turn, told from the model's message that asked for them: id and time
    /// follow from it, so that folding the same facts again gives the same message.
    pub(crate) fn results_of(asked: &Self, results: impl IntoIterator<Item = ToolResult>) -> Self {
        Self(Arc::new(Inner {
            id: format!("{}-results", asked.id()),
            role: Role::Tool,
            at_ms: asked.0.at_ms,
            blocks: results.into_iter().map(Block::ToolResult).collect(),
            paused: false,
            refused: false,
        }))
    }

    /// The same message, which the vendor has not ended yet: see [`is_paused`](Self::is_paused).
    pub(crate) fn paused(&self) -> Self {
        let mut inner = Inner::clone(&self.0);
        inner.paused = true;
        Self(Arc::new(inner))
    }

    /// The same message, which the model or a filter refused to end: see
    /// [`is_refused`](Self::is_refused).
    pub(crate) fn refused(&self) -> Self {
        let mut inner = Inner::clone(&self.0);
        inner.refused = true;
        Self(Arc::new(inner))
    }

    /// The same words with an id of their own, said now: one value may be sent to several
    /// conversations.
    pub(crate) fn renewed(&self) -> Self {
        Self::new(self.role(), self.blocks().iter().cloned())
    }

    /// The same message with one more block of words.
    pub(crate) fn with_text(&self, text: String) -> Self {
        let mut inner = Inner::clone(&self.0);
        inner.blocks.push(Block::text(text));
        Self(Arc::new(inner))
    }

    /// The same message with another block in the place of each for which there is one.
    pub(crate) fn with_blocks(&self, mut other: impl FnMut(&Block) -> Option<Block>) -> Self {
        let mut inner = Inner::clone(&self.0);
        for block in &mut inner.blocks {
            if let Some(other) = other(block) {
                *block = other;
            }
        }
        Self(Arc::new(inner))
    }

    /// The id, unique among all messages.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// Who said it.
    pub fn role(&self) -> Role {
        self.0.role
    }

    /// When it was made, to the millisecond.
    pub fn at(&self) -> SystemTime {
        // A time that the clock cannot hold can only come from a file that was edited.
        SystemTime::UNIX_EPOCH
            .checked_add(Duration::from_millis(self.0.at_ms))
            .unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Whether the vendor paused the answer here ([`StopReason::Paused`]): the conversation goes on
    /// when it is sent with this message as its last one.
    ///
    /// [`StopReason::Paused`]: crate::provider::StopReason::Paused
    pub fn is_paused(&self) -> bool {
        self.0.paused
    }

    /// Whether it is what there was of an answer when the model or a filter refused to go on
    /// ([`StopReason::Refused`]). It stays in the transcript and is not sent again, since vendors refuse
    /// a conversation that goes on from it. A refusal in words of the model's own is sent where the
    /// vendor takes it: on Chat Completions and Responses.
    ///
    /// [`StopReason::Refused`]: crate::provider::StopReason::Refused
    pub fn is_refused(&self) -> bool {
        self.0.refused
    }

    /// What was said.
    pub fn blocks(&self) -> &[Block] {
        &self.0.blocks
    }

    /// Whether there is anything in it to be sent.
    ///
    /// # Errors
    /// Fails if it holds blank words alone, which vendors refuse or take for the end of the conversation.
    pub(crate) fn says_something(&self) -> Result<(), Error> {
        let is_blank = |block: &Block| match block {
            Block::Text(text) => text.text().trim().is_empty(),
            _ => false,
        };
        match self.blocks().iter().all(is_blank) {
            false => Ok(()),
            true => Err(Error::new(
                ErrorKind::Transcript,
                "there is nothing to send: the message has no word in it, and nothing was said",
            )),
        }
    }

    /// All its words, without thinking, calls and results.
    pub fn text(&self) -> String {
        let mut all = String::new();
        for block in self.blocks() {
            if let Block::Text(text) = block {
                all.push_str(text.text());
            }
        }
        all
    }

    /// How many bytes of text it holds, more or less: the room that it takes where it is written down.
    pub(crate) fn size(&self) -> usize {
        let of = |block: &Block| match block {
            Block::Text(text) => text.text().len(),
            Block::Image(media) | Block::Audio(media) | Block::Document(media) => media.room(),
            Block::ToolCall(call) => call.arguments().len(),
            Block::Reasoning(thought) => {
                thought.text().len() + thought.vendor().map_or(0, |data| data.json().len())
            }
            Block::Vendor(data) => data.json().len(),
            Block::ToolResult(result) => result.content().iter().map(ToolContent::size).sum(),
        };
        self.blocks().iter().map(of).sum()
    }

    /// Whether all of it is known to the first format of saved messages.
    pub(crate) fn is_of_the_first_format(&self) -> bool {
        self.blocks().iter().all(Block::is_of_the_first_format)
    }

    /// The calls it makes, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.blocks().iter().filter_map(|block| match block {
            Block::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// The results it holds, in order.
    pub fn results(&self) -> impl Iterator<Item = &ToolResult> {
        self.blocks().iter().filter_map(|block| match block {
            Block::ToolResult(result) => Some(result),
            _ => None,
        })
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::user(text)
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self::user(text)
    }
}

impl From<Inner> for Message {
    fn from(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }
}

impl From<Message> for Inner {
    fn from(message: Message) -> Self {
        Self::clone(&message.0)
    }
}
