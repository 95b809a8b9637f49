//! Caches the encoded messages of a conversation, so that a later request does not encode these messages again.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use super::EncodedPart;
use crate::message::Messages;

/// The maximum size of one conversation's stored messages, in bytes. Vendors refuse requests of this size.
const MOST: usize = 32 * 1024 * 1024;

/// The messages of one conversation in the last request, encoded for one wire. A conversation only grows, so the next
/// request encodes only the new messages.
///
/// For each message, the store keeps the encoded JSON without the texts of 128 bytes and more. For these texts, the
/// store keeps only the positions of the escaped characters, which need at most an eighth of the texts' size. The texts
/// are read from the messages while a request is sent. A value that a tool returned
/// ([`ToolContent::Json`](crate::message::ToolContent::Json)) is kept as encoded text. If a conversation would need
/// more than 32 MiB, the store keeps no messages.
///
/// Each conversation has its own store. The [`Request`](super::Request::with_sent) passes the store to the provider. If
/// the store does not match the request (another wire, another conversation), all messages are encoded again.
#[derive(Default)]
pub struct EncodedPrefix(Mutex<Option<EncodedMessages>>);

/// The encoded messages of one conversation.
#[derive(Debug)]
pub struct EncodedMessages {
    /// Identifies the wire and the settings of the encoding. The bytes can be reused only for the same wire and
    /// settings.
    pub form: String,
    /// The messages whose encoded bytes are in `parts`.
    pub messages: Messages,
    /// The bytes of the messages, in order.
    pub parts: Vec<Arc<EncodedPart>>,
    /// The boundary at which a cache mark can be inserted: the number of messages and the number of parts before the
    /// boundary.
    pub end: Option<(usize, usize)>,
}

impl EncodedPrefix {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Frees the stored messages. The next request encodes all messages again.
    pub fn forget(&self) {
        self.replace(None);
    }

    /// The memory that the stored messages need, in bytes.
    pub fn size(&self) -> usize {
        let written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        written.iter().flat_map(|written| &written.parts).map(|part| part.weight()).sum()
    }

    /// Removes and returns the stored messages; `None` if the stored messages do not match `messages` and `form`. The
    /// caller stores the extended version with [`keep`](Self::keep).
    pub fn take(&self, form: &str, messages: &Messages) -> Option<EncodedMessages> {
        let written = self.replace(None)?;
        (written.form == form && messages.has_prefix(&written.messages)).then_some(written)
    }

    /// Stores encoded messages for the next request, unless they are too large.
    pub fn keep(&self, written: EncodedMessages) {
        let size: usize = written.parts.iter().map(|part| part.weight()).sum();
        self.replace(Some(written).filter(|_| size <= MOST));
    }

    fn replace(&self, by: Option<EncodedMessages>) -> Option<EncodedMessages> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *held, by)
    }
}

impl fmt::Debug for EncodedPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncodedPrefix").field("size", &self.size()).finish()
    }
}
