//! One message: its author, its content and its time.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

use super::{Block, ToolCall, ToolContent, ToolResult};
use crate::error::{Error, ErrorKind};

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user, or the program on the user's behalf.
    User,
    /// The model.
    Assistant,
    /// The tools, whose results this message contains.
    Tool,
}

/// A message: its author, its content and its time. A message is immutable, and clones share the
/// content.
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
#[serde(from = "MessageInner", into = "MessageInner")]
pub struct Message(Arc<MessageInner>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct MessageInner {
    id: String,
    role: Role,
    at_ms: u64,
    blocks: Vec<Block>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    paused: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    refused: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    by_program: bool,
}

impl Message {
    /// Whether both values are the same message or have byte-identical JSON. `==` is not enough, because equal values
    /// may serialize their members in a different order.
    #[doc(hidden)]
    pub fn is(&self, other: &Self) -> bool {
        let written = |message: &Self| serde_json::to_vec(message).ok();
        Arc::ptr_eq(&self.0, &other.0) || self == other && written(self) == written(other)
    }

    /// Whether both values share one message in memory.
    pub(super) fn is_shared(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A message with a new id and the current time.
    pub fn new(role: Role, blocks: impl IntoIterator<Item = Block>) -> Self {
        let id = format!("msg_{:032x}", fastrand::u128(..));
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let at_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let mut blocks: Vec<Block> = blocks.into_iter().collect();
        blocks.shrink_to_fit();
        let (paused, refused, by_program) = (false, false, false);
        Self(Arc::new(MessageInner { id, role, at_ms, blocks, paused, refused, by_program }))
    }

    /// A user message with text.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(Role::User, [Block::text(text)])
    }

    /// A message of the model.
    pub fn assistant(blocks: impl IntoIterator<Item = Block>) -> Self {
        Self::new(Role::Assistant, blocks)
    }

    /// The message with the results of a turn. `asked` is the model's message with the calls. The id and the time are
    /// derived from `asked`, so that the same facts always give the same message.
    #[doc(hidden)]
    pub fn results_of(asked: &Self, results: impl IntoIterator<Item = ToolResult>) -> Self {
        Self(Arc::new(MessageInner {
            id: format!("{}-results", asked.id()),
            role: Role::Tool,
            at_ms: asked.0.at_ms,
            blocks: results.into_iter().map(Block::ToolResult).collect(),
            paused: false,
            refused: false,
            by_program: false,
        }))
    }

    /// The same message, marked as paused by the vendor: see [`is_paused`](Self::is_paused).
    #[doc(hidden)]
    pub fn paused(&self) -> Self {
        let mut inner = MessageInner::clone(&self.0);
        inner.paused = true;
        Self(Arc::new(inner))
    }

    /// The same message, marked as refused by the model or a filter: see
    /// [`is_refused`](Self::is_refused).
    #[doc(hidden)]
    pub fn refused(&self) -> Self {
        let mut inner = MessageInner::clone(&self.0);
        inner.refused = true;
        Self(Arc::new(inner))
    }

    /// The same message, marked as written by the library in the role of the user.
    #[doc(hidden)]
    pub fn by_program(&self) -> Self {
        let mut inner = MessageInner::clone(&self.0);
        inner.by_program = true;
        Self(Arc::new(inner))
    }

    /// Whether the library wrote this message in the role of the user.
    #[doc(hidden)]
    pub fn is_by_program(&self) -> bool {
        self.0.by_program
    }

    /// The same blocks in a message with a new id and the current time. A program may send one `Message` value to
    /// several conversations, and each conversation needs its own message id.
    #[doc(hidden)]
    pub fn renewed(&self) -> Self {
        Self::new(self.role(), self.blocks().iter().cloned())
    }

    /// The same message with an additional text block.
    pub fn with_text(&self, text: String) -> Self {
        let mut inner = MessageInner::clone(&self.0);
        inner.blocks.push(Block::text(text));
        Self(Arc::new(inner))
    }

    /// The same message with its blocks replaced by the values that `other` returns. A block for
    /// which `other` returns `None` stays.
    #[doc(hidden)]
    pub fn with_blocks(&self, mut other: impl FnMut(&Block) -> Option<Block>) -> Self {
        let mut inner = MessageInner::clone(&self.0);
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

    /// The author.
    pub fn role(&self) -> Role {
        self.0.role
    }

    /// The time at which the message was created, to the millisecond.
    pub fn at(&self) -> SystemTime {
        // Only an edited file can contain a time outside the clock's range.
        SystemTime::UNIX_EPOCH
            .checked_add(Duration::from_millis(self.0.at_ms))
            .unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Whether the vendor paused the answer here ([`StopReason::Paused`]). To continue the answer,
    /// send the conversation with this message as the last one.
    ///
    /// [`StopReason::Paused`]: crate::provider::StopReason::Paused
    pub fn is_paused(&self) -> bool {
        self.0.paused
    }

    /// Whether the model or a filter refused to continue after this part of the answer ([`StopReason::Refused`]). The
    /// message stays in the transcript, but later requests omit it, because vendors refuse a conversation that
    /// continues after such a message. There is one exception: Chat Completions and Responses accept a refusal that the
    /// model wrote itself, so these wires send the message.
    ///
    /// [`StopReason::Refused`]: crate::provider::StopReason::Refused
    pub fn is_refused(&self) -> bool {
        self.0.refused
    }

    /// The content, as blocks in order.
    pub fn blocks(&self) -> &[Block] {
        &self.0.blocks
    }

    /// Checks that the message has content to send.
    ///
    /// # Errors
    /// [`ErrorKind::Transcript`] if the message contains only blank text. Vendors refuse a blank
    /// message, or treat it as the end of the conversation.
    #[doc(hidden)]
    pub fn check_sendable(&self) -> Result<(), Error> {
        let is_blank = |block: &Block| match block {
            Block::Text(text) => text.text().trim().is_empty(),
            _ => false,
        };
        match self.blocks().iter().all(is_blank) {
            false => Ok(()),
            true => Err(Error::new(
                ErrorKind::Transcript,
                "there is nothing to send: the message contains only blank text; add words or a file",
            )),
        }
    }

    /// The text blocks, joined. Thinking, calls and results are left out.
    pub fn text(&self) -> String {
        let mut all = String::new();
        for block in self.blocks() {
            if let Block::Text(text) = block {
                all.push_str(text.text());
            }
        }
        all
    }

    /// The approximate size of the message's saved form, in bytes.
    pub fn size(&self) -> usize {
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

    /// The calls in this message, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.blocks().iter().filter_map(|block| match block {
            Block::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// The results in this message, in order.
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

impl From<MessageInner> for Message {
    fn from(inner: MessageInner) -> Self {
        Self(Arc::new(inner))
    }
}

impl From<Message> for MessageInner {
    fn from(message: Message) -> Self {
        Self::clone(&message.0)
    }
}
