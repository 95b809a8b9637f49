//! Encoded messages without their long texts. The long texts are read from the messages while a request is sent.

use super::escape::{EscapeMode, as_is, by_bytes, by_steps, plan, put};
use crate::message::{Block, MediaSource, Message, ToolContent};

/// Texts of at least this many bytes are not copied into an encoded part. For each such text, the part stores about 40
/// bytes, and the text's escape steps.
const LONG: usize = 128;

/// Encoded messages, or a part of them. Long texts are only referenced.
#[derive(Clone, Debug, Default)]
pub struct EncodedPart {
    /// The bytes of everything but the long texts.
    ready: Vec<u8>,
    /// The long texts, in order.
    texts: Vec<LongText>,
    /// The escape steps of all long texts, in order.
    steps: Vec<u8>,
    /// The total length in bytes of the long texts in the form in which they are sent.
    sent: usize,
}

/// A reference to a long text of a message, or to a piece of one.
#[derive(Clone, Debug)]
struct LongText {
    message: Message,
    place: TextPosition,
    /// The start of the piece in the text at `place`, in bytes. `size` is the length of the piece in bytes.
    from: u32,
    size: u32,
    /// The index of the byte of `ready` before which the text is inserted.
    before: u32,
    /// The index of the text's first step.
    steps: u32,
    way: EscapeMode,
}

/// The position of a text in its message: the index of the block, and the number of the part in this block.
#[derive(Clone, Copy, Debug)]
struct TextPosition {
    block: u32,
    part: u32,
}

/// The part number of a block's vendor data. Any other part number is the index of a part of a tool result.
const VENDOR: u32 = u32::MAX;

fn at(message: &Message, TextPosition { block, part }: TextPosition) -> Option<&str> {
    let block = message.blocks().get(usize::try_from(block).ok()?)?;
    let data = match block {
        Block::Text(text) if part == VENDOR => text.vendor(),
        Block::ToolCall(call) if part == VENDOR => call.vendor(),
        Block::Reasoning(thought) if part == VENDOR => thought.vendor(),
        Block::Text(text) => return Some(text.text()),
        Block::ToolCall(call) => return Some(call.arguments()),
        Block::Reasoning(thought) => return Some(thought.text()),
        Block::Vendor(data) => Some(data),
        Block::Image(media) | Block::Audio(media) | Block::Document(media) => {
            return of_file(media.source());
        }
        Block::ToolResult(result) => match result.content().get(usize::try_from(part).ok()?)? {
            ToolContent::Text(text) => return Some(text),
            content => return of_file(content.media()?.1.source()),
        },
    };
    data.map(|data| data.json())
}

fn of_file(source: &MediaSource) -> Option<&str> {
    match source {
        MediaSource::Data { data: text, .. }
        | MediaSource::Text { text, .. }
        | MediaSource::Url(text) => Some(text),
        MediaSource::File { .. } => None,
    }
}

/// The positions of all texts of a message.
fn places(message: &Message) -> impl Iterator<Item = TextPosition> + '_ {
    (0_u32..).zip(message.blocks()).flat_map(|(number, block)| {
        let parts = match block {
            Block::ToolResult(result) => u32::try_from(result.content().len()).unwrap_or(0),
            _ => 1,
        };
        let has_data = matches!(block, Block::Text(_) | Block::ToolCall(_) | Block::Reasoning(_));
        let vendor = has_data.then_some(VENDOR);
        (0..parts).chain(vendor).map(move |part| TextPosition { block: number, part })
    })
}

impl EncodedPart {
    /// Creates a part with these bytes.
    pub fn of(ready: Vec<u8>) -> Self {
        Self { ready, ..Self::default() }
    }

    /// Whether the part has no bytes.
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// The bytes of the part; `None` if it has long texts.
    pub fn all_ready(&self) -> Option<&[u8]> {
        self.texts.is_empty().then_some(&self.ready)
    }

    /// A copy without the final bytes `end`; `None` if the part does not end with these bytes.
    pub fn without_end(&self, end: &[u8]) -> Option<Self> {
        let left = self.ready.strip_suffix(end)?.len();
        // The removed bytes must come after the last long text.
        let is_behind = self.texts.last().is_none_or(|text| text.before as usize <= left);
        let mut part = is_behind.then(|| self.clone())?;
        part.ready.truncate(left);
        Some(part)
    }

    /// Appends bytes.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.ready.extend_from_slice(bytes);
    }

    /// The length in bytes of the part in the form in which it is sent.
    pub fn size(&self) -> usize {
        self.ready.len() + self.sent
    }

    /// The memory that the part needs, in bytes.
    pub fn weight(&self) -> usize {
        self.ready.len() + self.steps.len() + self.texts.len() * size_of::<LongText>()
    }

    /// Frees unused capacity, because the part may be kept as long as the conversation.
    pub fn shrink(&mut self) {
        self.ready.shrink_to_fit();
        self.texts.shrink_to_fit();
        self.steps.shrink_to_fit();
    }
}

/// A position in a part that is being written: the lengths of its lists.
#[derive(Debug, Clone, Copy)]
pub struct DraftMark {
    ready: usize,
    texts: usize,
    steps: usize,
    sent: usize,
}

/// A part that is being written, and the current message with the positions of its long texts.
#[derive(Debug, Default)]
pub struct BodyDraft {
    part: EncodedPart,
    message: Option<Message>,
    /// For each long text of the message: its start and end address in memory, and its position. Sorted by address.
    found: Vec<(usize, usize, TextPosition)>,
}

impl BodyDraft {
    /// Continues a part.
    pub fn of(part: EncodedPart) -> Self {
        Self { part, ..Self::default() }
    }

    /// The part that was written.
    pub fn into_part(self) -> EncodedPart {
        self.part
    }

    /// The part as far as it is written.
    pub fn part(&self) -> &EncodedPart {
        &self.part
    }

    /// Sets the message whose texts are written next. The draft only references long texts of this
    /// message.
    pub fn begin(&mut self, message: &Message) {
        self.found.clear();
        if message.size() < LONG {
            self.message = None;
            return;
        }
        for place in places(message) {
            let Some(text) = at(message, place).filter(|text| text.len() >= LONG) else { continue };
            let from = text.as_ptr().addr();
            let before = self.found.partition_point(|(other, ..)| *other < from);
            self.found.insert(before, (from, from + text.len(), place));
        }
        self.message = Some(message.clone());
    }

    /// The bytes that are not in long texts. Callers may only append.
    pub fn ready(&mut self) -> &mut Vec<u8> {
        &mut self.part.ready
    }

    /// The number of bytes written so far, without the bytes of long texts.
    #[expect(clippy::len_without_is_empty, reason = "it never is")]
    pub fn len(&self) -> usize {
        self.part.ready.len()
    }

    /// The last byte written so far that does not belong to a long text.
    pub fn last(&self) -> Option<u8> {
        self.part.ready.last().copied()
    }

    /// Appends a byte.
    pub fn push(&mut self, byte: u8) {
        self.part.ready.push(byte);
    }

    /// If this text lies within a long text of the message, references it and returns `true`.
    ///
    /// The text is recognized by its memory address. While the draft holds the message, no other text can have this
    /// address.
    fn hold(&mut self, text: &str, is_escaped: bool) -> bool {
        if text.len() < LONG {
            return false;
        }
        let (from, Some(message)) = (text.as_ptr().addr(), &self.message) else { return false };
        let end = from + text.len();
        let behind = self.found.partition_point(|(begin, ..)| *begin <= from);
        let found = behind.checked_sub(1).and_then(|last| self.found.get(last));
        let Some((begin, _, place)) = found.filter(|(_, until, _)| end <= *until) else {
            return false;
        };
        let EncodedPart { ready, texts, steps, sent } = &mut self.part;
        let number = |number: usize| u32::try_from(number).ok();
        let (Some(from), Some(size), Some(before), Some(first)) =
            (number(from - begin), number(text.len()), number(ready.len()), number(steps.len()))
        else {
            return false;
        };
        let (way, written) = match is_escaped {
            true => plan(text.as_bytes(), steps),
            false => (EscapeMode::AsIs, text.len()),
        };
        *sent += written;
        let (message, place) = (message.clone(), *place);
        texts.push(LongText { message, place, from, size, before, steps: first, way });
        true
    }

    /// Writes the content of a JSON string, without the quotes.
    pub fn put_letters(&mut self, text: &str) {
        if self.hold(text, true) {
            return;
        }
        put(&mut self.part.ready, text.as_bytes());
    }

    /// Writes a JSON string with its quotes.
    pub fn put_text(&mut self, text: &str) {
        if self.message.is_none() || text.len() < LONG {
            // Writing cannot fail: every text can be serialized, and a `Vec` accepts all bytes.
            let _ = serde_json::to_writer(&mut self.part.ready, text);
            return;
        }
        self.push(b'"');
        self.put_letters(text);
        self.push(b'"');
    }

    /// Writes text that is already JSON.
    pub fn put_json(&mut self, json: &str) {
        // Later code reads the first and the last byte, so these bytes are copied.
        if self.message.is_some()
            && json.len() >= LONG + 2
            && let (Some(first), Some(last)) = (json.chars().next(), json.chars().next_back())
            && first.is_ascii()
            && last.is_ascii()
            && let Some(inner) = json.get(1..json.len() - 1)
        {
            let at = self.len();
            self.part.ready.extend(u8::try_from(first));
            if self.hold(inner, false) {
                self.part.ready.extend(u8::try_from(last));
                return;
            }
            self.part.ready.truncate(at);
        }
        self.part.ready.extend_from_slice(json.as_bytes());
    }

    /// The current position.
    pub fn mark(&self) -> DraftMark {
        let EncodedPart { ready, texts, steps, sent } = &self.part;
        DraftMark { ready: ready.len(), texts: texts.len(), steps: steps.len(), sent: *sent }
    }

    /// Removes and returns everything that was added since the mark.
    pub fn split_off(&mut self, mark: DraftMark) -> EncodedPart {
        let part = &mut self.part;
        let mut rest = EncodedPart {
            ready: part.ready.split_off(mark.ready),
            texts: part.texts.split_off(mark.texts),
            steps: part.steps.split_off(mark.steps),
            sent: part.sent - mark.sent,
        };
        part.sent = mark.sent;
        for text in &mut rest.texts {
            // Both indexes were recorded after the mark, so the subtractions cannot overflow.
            text.before -= u32::try_from(mark.ready).unwrap_or_default();
            text.steps -= u32::try_from(mark.steps).unwrap_or_default();
        }
        rest
    }
}

/// How much of a part has been written to the output.
#[derive(Debug, Default)]
pub struct PartCursor {
    ready: usize,
    text: usize,
    /// The number of bytes of the current long text that have been read. `steps` is the number of escape steps of this
    /// text that are done.
    read: usize,
    steps: usize,
}

impl PartCursor {
    /// Writes as much of the part as fits into `out`. Returns the number of bytes written, and whether the part is
    /// complete.
    pub fn write(&mut self, part: &EncodedPart, out: &mut [u8]) -> (usize, bool) {
        let mut done = 0;
        loop {
            let text = part.texts.get(self.text);
            let until = text.map_or(part.ready.len(), |text| text.before as usize);
            let rest = part.ready.get(self.ready..until).unwrap_or_default();
            let (count, _) = as_is(rest, out.get_mut(done..).unwrap_or_default());
            self.ready += count;
            done += count;
            if count < rest.len() {
                return (done, false);
            }
            let Some(text) = text else { return (done, true) };
            let (wrote, all) = self.write_text(part, text, out.get_mut(done..).unwrap_or_default());
            done += wrote;
            if !all {
                return (done, false);
            }
            (self.text, self.read, self.steps) = (self.text + 1, 0, 0);
        }
    }

    fn write_text(&mut self, part: &EncodedPart, held: &LongText, out: &mut [u8]) -> (usize, bool) {
        let until = held.from as usize + held.size as usize;
        let text = at(&held.message, held.place).map(str::as_bytes);
        let rest = text.and_then(|text| text.get(held.from as usize + self.read..until));
        let rest = rest.unwrap_or_default();
        let (read, wrote) = match held.way {
            EscapeMode::AsIs => as_is(rest, out),
            EscapeMode::Bytes => by_bytes(rest, out),
            EscapeMode::Steps => {
                let next = part.texts.get(self.text + 1);
                let until = next.map_or(part.steps.len(), |next| next.steps as usize);
                let steps = part.steps.get(held.steps as usize + self.steps..until);
                let (read, wrote, taken) = by_steps(rest, steps.unwrap_or_default(), out);
                self.steps += taken;
                (read, wrote)
            }
        };
        self.read += read;
        (wrote, read == rest.len())
    }
}
