//! The body of a request, in pieces: most of a long conversation was written before.

use bytes::Bytes;

use super::{json::Body, media::Recipient};
use crate::{
    error::{Error, ErrorKind},
    message::{Block, Message, Messages, Role},
    provider::{Request, Settings, Written},
};

/// Pieces below this size grow; above it a new one begins.
const PIECE: usize = 64 * 1024;

/// The body of a request.
#[derive(Clone, Debug)]
pub struct Encoded {
    pieces: Vec<Bytes>,
}

impl Encoded {
    /// How many bytes it is.
    pub fn size(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    /// Its bytes in order, in pieces that share what they can with earlier requests.
    pub fn into_pieces(self) -> Vec<Bytes> {
        self.pieces
    }

    /// Its bytes in one piece.
    pub fn into_bytes(self) -> Vec<u8> {
        self.pieces.concat()
    }
}

/// From which message on thinking is sent: the person's last words, if that of earlier turns is left
/// out, and else from the first one on. Words that follow the results of calls at once stand in the turn
/// that asked for the calls: Messages refuses the results without the thinking before the calls.
///
/// Source: <https://docs.claude.com/en/docs/build-with-claude/extended-thinking>.
pub(super) fn thinking_from(request: &Request<'_>, settings: &Settings) -> usize {
    let speaks = |message: &Message| {
        let mut blocks = message.blocks().iter();
        message.role() == Role::User
            && blocks.any(|block| match block {
                Block::Text(text) => !text.text().trim().is_empty(),
                _ => true,
            })
    };
    match settings.earlier_thinking {
        Some(false) => {
            let messages = request.messages();
            let begins = |at: &usize| {
                let before = at.checked_sub(1).and_then(|before| messages.get(before));
                messages.get(*at).is_some_and(speaks)
                    && before.is_none_or(|before| before.role() == Role::Assistant)
            };
            (0..messages.len()).rev().find(begins).unwrap_or(0)
        }
        Some(true) | None => 0,
    }
}

/// Ends a body with the conversation, which is the member `name`. `leading` is what comes before
/// the first message, and `form` says all that the bytes of a message depend on beside the
/// messages, and what the recipient takes. `write` gets the messages before the one that it writes, and returns
/// whether its bytes
/// stay the same whatever follows: from the first message on of which they do not, all is written
/// anew for the next request.
///
/// # Errors
/// Fails if nothing of the conversation can be sent, or if the user's last message holds what `recipient`
/// cannot take.
pub(super) fn conversation(
    body: Body<'_>,
    name: &str,
    leading: &[u8],
    form: &str,
    request: &Request<'_>,
    recipient: Recipient<'_>,
    write: impl Fn(&mut Vec<u8>, &Messages, &Message) -> bool,
) -> Result<Encoded, Error> {
    let messages = request.messages();
    let form = &*format!("{form} {}", recipient.takes.form());
    let known = request.sent().and_then(|sent| sent.take(form, messages));
    let (count, mut pieces) = known.map_or((0, Vec::new()), |known| (known.count, known.pieces));
    // What was written before was looked at then.
    let mut later = messages.iter().skip(count);
    if let Some(last) = later.rfind(|message| message.role() == Role::User) {
        recipient.check(last)?;
    }
    let mut new = match pieces.last() {
        Some(last) if last.len() < PIECE => {
            let last = last.to_vec();
            pieces.pop();
            last
        }
        _ => Vec::new(),
    };
    // What is written separates itself from what stands before it.
    let first = leading.is_empty() && pieces.is_empty() && new.is_empty();
    let lead = if first || !new.is_empty() { 0 } else { 1 };
    let size: usize = messages.iter().skip(count).map(Message::size).sum();
    // One letter in sixteen is escaped, as a rule.
    new.reserve(size.saturating_add(size / 16));
    if lead == 1 {
        new.push(b',');
    }
    // How many messages stay as they are, and where the bytes of the others begin.
    let mut changes = None;
    for (at, message) in messages.iter().enumerate().skip(count) {
        let start = new.len();
        if !write(&mut new, &messages.range(..at), message) {
            changes.get_or_insert((at, start));
        }
    }
    let (stay, start) = changes.unwrap_or((messages.len(), new.len()));
    let tail = new.split_off(if start > lead { start } else { 0 });
    if new.len() > lead {
        // It may be kept for as long as the conversation; the room to grow into is not needed.
        new.shrink_to_fit();
        pieces.push(Bytes::from(new));
    }
    let kept = pieces.len();
    if tail.len() > lead {
        pieces.push(Bytes::from(tail));
    }
    if pieces.is_empty() {
        return Err(Error::new(
            ErrorKind::Transcript,
            "there is nothing to send: no message has a word in it",
        ));
    }
    let last = stay.checked_sub(1).and_then(|last| messages.get(last));
    if let (Some(sent), Some(last)) = (request.sent(), last) {
        let (form, last) = (form.to_owned(), last.id().to_owned());
        let pieces = pieces.iter().take(kept).cloned().collect();
        sent.keep(Written { form, count: stay, last, pieces });
    }
    let mut head = body.finish(name);
    head.extend_from_slice(leading);
    pieces.insert(0, Bytes::from(head));
    pieces.push(Bytes::from_static(b"]}"));
    Ok(Encoded { pieces })
}
