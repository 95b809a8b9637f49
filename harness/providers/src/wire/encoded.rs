//! The body of a request. The body reuses the encoded messages of earlier requests, and copies long texts only while
//! the client sends the body.

use std::sync::{Arc, LazyLock};

use super::{json::JsonBody, media::Recipient, optional::RefusedMembers};
use harness_core::{
    error::{Error, ErrorKind},
    message::{Block, Message, Messages, Role},
    provider::{BodyDraft, EncodedMessages, EncodedPart, PartCursor, Request, Settings},
};

/// The size in bytes at which a new part begins.
const PART: usize = 64 * 1024;

/// The maximum size of a piece of a body, in bytes. Even after the run is stopped, the client sends the current piece
/// to its end and only then closes the connection. So a piece must be small. A small piece also stays in the
/// processor's cache until the client sends the piece.
const PIECE: usize = 32 * 1024;

/// The number of extra bytes in each buffer. A write step may touch a few bytes after the bytes that it reports.
const MARGIN: usize = 128;

/// The body of a request. Long texts stay in the messages, and are copied while the client sends the body.
#[derive(Clone, Debug)]
pub struct Encoded {
    parts: Vec<Arc<EncodedPart>>,
    sent: RefusedMembers,
}

impl Encoded {
    /// The size in bytes.
    pub fn size(&self) -> usize {
        self.parts.iter().map(|part| part.size()).sum()
    }

    /// The optional members that the body contains.
    pub(crate) fn sent(&self) -> RefusedMembers {
        self.sent
    }

    /// Whether the part of the body before the conversation has this member.
    pub(crate) fn has(&self, member: &str) -> bool {
        let head = Self { parts: self.parts.iter().take(1).cloned().collect(), sent: self.sent };
        let head = String::from_utf8_lossy(&head.into_bytes()).into_owned();
        head.contains(&format!("\"{member}\":"))
    }

    /// Copies the whole body into one vector.
    pub fn into_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.size().saturating_add(MARGIN));
        for part in &self.parts {
            if let Some(ready) = part.all_ready() {
                bytes.extend_from_slice(ready);
                continue;
            }
            let at = bytes.len();
            bytes.resize(at.saturating_add(part.size()).saturating_add(MARGIN), 0);
            let (count, _) =
                PartCursor::default().write(part, bytes.get_mut(at..).unwrap_or_default());
            bytes.truncate(at + count);
        }
        bytes
    }

    /// Returns a writer that copies the body piece by piece.
    pub(crate) fn into_pieces(self) -> BodyPieces {
        let room = self.size().min(PIECE).saturating_add(MARGIN);
        BodyPieces { parts: self.parts.into_iter(), current: None, room }
    }
}

/// Copies a body piece by piece.
pub(crate) struct BodyPieces {
    parts: std::vec::IntoIter<Arc<EncodedPart>>,
    current: Option<(Arc<EncodedPart>, PartCursor)>,
    room: usize,
}

impl BodyPieces {
    /// The size in bytes of a buffer for one piece.
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// Copies the next bytes into `out`, and returns their number: 0 at the end.
    pub(crate) fn write(&mut self, out: &mut [u8]) -> usize {
        let mut done = 0;
        loop {
            if self.current.is_none() {
                self.current = self.parts.next().map(|part| (part, PartCursor::default()));
            }
            let Some((part, cursor)) = &mut self.current else { return done };
            let (wrote, all) = cursor.write(part, out.get_mut(done..).unwrap_or_default());
            done += wrote;
            if !all {
                return done;
            }
            self.current = None;
        }
    }
}

/// The index of the first message whose thinking is sent. If the settings exclude the thinking of earlier turns, this
/// is the first message of the last turn; otherwise 0. The request may require a higher index. A user message directly
/// after results of calls begins no turn, because the Messages API refuses the results without the thinking before the
/// calls.
///
/// `needs_open`: the model refuses an unfinished turn without its thinking, even if earlier messages were replaced.
///
/// Source: <https://docs.claude.com/en/docs/build-with-claude/extended-thinking>.
pub(super) fn thinking_from(request: &Request<'_>, settings: &Settings, needs_open: bool) -> usize {
    let of_settings = match settings.earlier_thinking {
        Some(false) => turn_start(request.messages()),
        Some(true) | None => 0,
    };
    let of_request = if needs_open { request.open_turn() } else { request.thinking_from() };
    of_settings.max(of_request)
}

/// The index of the user message that begins the last turn.
pub(super) fn turn_start(messages: &Messages) -> usize {
    let speaks = |message: &Message| {
        let mut blocks = message.blocks().iter();
        message.role() == Role::User
            && blocks.any(|block| match block {
                Block::Text(text) => !text.text().trim().is_empty(),
                _ => true,
            })
    };
    let begins = |at: &usize| {
        let before = at.checked_sub(1).and_then(|before| messages.get(before));
        messages.get(*at).is_some_and(speaks)
            && before.is_none_or(|before| before.role() == Role::Assistant)
    };
    (0..messages.len()).rev().find(begins).unwrap_or(0)
}

/// How long the bytes of a message stay the same in later requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PrefixStability {
    /// The bytes never change.
    Always,
    /// The bytes change only with the first messages of the conversation. The value is the number of these messages.
    AsLongAs(usize),
    /// The next message may change the bytes.
    UntilTheNext,
}

impl PrefixStability {
    /// The shorter of the two durations.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::UntilTheNext, _) | (_, Self::UntilTheNext) => Self::UntilTheNext,
            (Self::AsLongAs(one), Self::AsLongAs(other)) => Self::AsLongAs(one.max(other)),
            (stays @ Self::AsLongAs(_), Self::Always) | (Self::Always, stays) => stays,
        }
    }
}

/// How the messages of a request are encoded.
pub(super) struct MessageEncoding {
    /// A text with all settings that affect the bytes of the messages, except the recipient.
    pub(super) is: String,
    /// A cache mark for this request only: the index of the message with the mark, and the text to insert into the last
    /// block of that message.
    pub(super) mark: Option<(usize, String)>,
}

/// The bytes at the end of a message: they close its last block, the list of blocks, and the message.
const LAST: &[u8] = b"}]}";

/// Writes the conversation as the member `name`, the last member of the body. `leading` precedes the first message.
/// `write` gets the earlier messages and the current message, and returns how long the bytes of the current message
/// stay the same. If a message is stable only until the next message, the next request encodes this message and all
/// later messages again.
///
/// # Errors
/// - [`ErrorKind::Transcript`] if no message of the conversation can be sent.
/// - [`ErrorKind::Content`] if the user's last message contains a file that `recipient` does not accept.
pub(super) fn conversation(
    body: JsonBody<'_>,
    name: &str,
    leading: &[u8],
    form: MessageEncoding,
    request: &Request<'_>,
    recipient: Recipient<'_>,
    write: &dyn Fn(&mut BodyDraft, &Messages, &Message) -> PrefixStability,
) -> Result<Encoded, Error> {
    let messages = request.messages();
    let MessageEncoding { is: form, mark } = form;
    let form = &*format!("{form} {}", recipient.takes.form());
    let known = request.sent().and_then(|sent| sent.take(form, messages));
    // A part must end at the message with the mark, so that the mark can be inserted.
    let ends = mark.as_ref().map(|(at, _)| at + 1);
    let known = known.filter(|known| match ends {
        Some(ends) if known.messages.len() > ends => {
            known.end.is_some_and(|(messages, _)| messages == ends)
        }
        _ => true,
    });
    let mut end = known.as_ref().and_then(|known| known.end).filter(|(at, _)| Some(*at) == ends);
    let (count, mut parts) =
        known.map_or((0, Vec::new()), |known| (known.messages.len(), known.parts));
    if Some(count) == ends && end.is_none() {
        end = Some((count, parts.len()));
    }
    // Earlier requests have already checked the messages that they encoded.
    let mut later = messages.iter().skip(count);
    let says =
        |message: &&Message| message.role() == Role::User && !request.is_beside_summary(message);
    if let Some(last) = later.rfind(says) {
        recipient.check(last)?;
    }
    let new = match parts.last() {
        Some(last) if last.weight() < PART && end.is_none_or(|(_, end)| end < parts.len()) => {
            parts.pop().map(Arc::unwrap_or_clone)
        }
        _ => None,
    };
    let mut new = BodyDraft::of(new.unwrap_or_default());
    // The number of messages and of parts that the next request can reuse; `None` if all are reusable.
    let mut changes = None;
    // The reusable bytes depend on this number of first messages of the conversation.
    let mut needed = 0;
    for (at, message) in messages.iter().enumerate().skip(count) {
        if Some(at) == ends && end.is_none() {
            finish(&mut parts, std::mem::take(&mut new).into_part());
            end = Some((at, parts.len()));
        }
        if new.part().weight() >= PART {
            finish(&mut parts, std::mem::take(&mut new).into_part());
        }
        let mark = new.mark();
        let first = leading.is_empty() && parts.is_empty();
        if new.part().is_empty() && !first {
            // Each later part begins with the comma after the previous message.
            new.push(b',');
        }
        let from = new.len();
        new.begin(message);
        let stays = write(&mut new, &messages.range(..at), message);
        if new.len() == from {
            drop(new.split_off(mark));
        }
        if changes.is_none()
            && let PrefixStability::AsLongAs(count) = stays
        {
            needed = needed.max(count);
        }
        if stays == PrefixStability::UntilTheNext && changes.is_none() {
            let rest = new.split_off(mark);
            finish(&mut parts, std::mem::take(&mut new).into_part());
            changes = Some((at, parts.len()));
            new = BodyDraft::of(rest);
        }
    }
    finish(&mut parts, new.into_part());
    if end.is_none() && ends == Some(messages.len()) {
        end = Some((messages.len(), parts.len()));
    }
    let (stay, kept) = changes.unwrap_or((messages.len(), parts.len()));
    if parts.is_empty() {
        return Err(Error::new(
            ErrorKind::Transcript,
            "there is nothing to send: every message is empty; add one with text or a file",
        ));
    }
    if let Some(sent) = request.sent().filter(|_| stay > 0 && needed <= stay) {
        let (form, messages) = (form.to_owned(), messages.range(..stay));
        let end = end.filter(|(_, end)| *end <= kept);
        let parts = parts.iter().take(kept).cloned().collect();
        sent.keep(EncodedMessages { form, messages, parts, end });
    }
    if let (Some((_, mark)), Some((_, end))) = (mark, end)
        && let Some(last) = end.checked_sub(1).and_then(|last| parts.get_mut(last))
        && let Some(mut marked) = last.without_end(LAST)
    {
        marked.extend(mark.as_bytes());
        marked.extend(LAST);
        *last = Arc::new(marked);
    }
    let sent = body.sent();
    let mut head = body.finish(name);
    head.ready().extend_from_slice(leading);
    parts.insert(0, Arc::new(head.into_part()));
    parts.push(Arc::clone(&END));
    Ok(Encoded { parts, sent })
}

/// The last bytes of every body: they close the list of messages and the body.
static END: LazyLock<Arc<EncodedPart>> =
    LazyLock::new(|| Arc::new(EncodedPart::of(b"]}".to_vec())));

fn finish(parts: &mut Vec<Arc<EncodedPart>>, mut new: EncodedPart) {
    if !new.is_empty() {
        new.shrink();
        parts.push(Arc::new(new));
    }
}
