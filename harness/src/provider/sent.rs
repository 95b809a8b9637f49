//! What was sent already, so that a long conversation is not written anew for each question.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use super::Part;
use crate::message::Messages;

/// So many bytes are kept, at most. Vendors refuse requests of this size.
const MOST: usize = 32 * 1024 * 1024;

/// The messages of one conversation as they were last sent, in the form of the wire that sent them. A
/// conversation only grows, so the next request writes only what is new.
///
/// What is kept is a plan: the bytes of each message without its texts of 128 bytes and more, and in up to an
/// eighth of these texts' bytes the places where letters are escaped. The texts are read from the messages
/// while a request is sent. A value that a tool has returned
/// ([`ToolContent::Json`](crate::message::ToolContent::Json)) is kept as the text that is sent. No plan of more
/// than 32 MiB is kept.
///
/// It belongs to one conversation, and a provider finds it in the
/// [`Request`](super::Request::with_sent). What does not fit any more (another wire, another
/// conversation) is written anew.
#[derive(Default)]
pub struct Sent(Mutex<Option<Written>>);

/// Messages that are written.
pub(crate) struct Written {
    /// Which wire wrote them, and how: the bytes are of use only where this is the same.
    pub(crate) form: String,
    /// Which messages they are.
    pub(crate) messages: Messages,
    /// How they are sent, in order.
    pub(crate) parts: Vec<Arc<Part>>,
    /// After how many messages a part ends for certain, and how many parts these are.
    pub(crate) end: Option<(usize, usize)>,
}

impl Sent {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives back what is held. The next request writes all messages anew.
    pub fn forget(&self) {
        self.replace(None);
    }

    /// How many bytes are held.
    pub fn size(&self) -> usize {
        let written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        written.iter().flat_map(|written| &written.parts).map(|part| part.weight()).sum()
    }

    /// What is written already of these messages in this form. Whoever takes it keeps what it
    /// becomes.
    pub(crate) fn take(&self, form: &str, messages: &Messages) -> Option<Written> {
        let written = self.replace(None)?;
        (written.form == form && messages.begins_with(&written.messages)).then_some(written)
    }

    pub(crate) fn keep(&self, written: Written) {
        let size: usize = written.parts.iter().map(|part| part.weight()).sum();
        self.replace(Some(written).filter(|_| size <= MOST));
    }

    fn replace(&self, by: Option<Written>) -> Option<Written> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *held, by)
    }
}

impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sent").field("size", &self.size()).finish()
    }
}
