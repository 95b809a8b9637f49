//! Writes a text with JSON escapes nearly as fast as a plain copy. The code finds the positions of escaped characters
//! once, and stores them as steps of one byte each.

/// Each step copies this many bytes. The next step overwrites the bytes after the step's own length.
const STEP: usize = 64;

/// The step that copies 63 bytes and escapes no byte. A smaller step copies as many bytes as its value, and then
/// escapes one byte.
const PLAIN: u8 = 63;

/// This bit of a step is set if the step's escape has six bytes, such as `\u0001`. Without the bit, the escape has two
/// bytes.
const LONG: u8 = 0x80;

/// A text has at most one step per this many bytes, so that the steps need little memory compared to the text.
const BYTES_PER_STEP: usize = 8;

/// The space in the output that a step needs: `STEP` bytes, and up to 8 bytes for an escape.
const ROOM: usize = STEP + 8;

/// The escaped form of each byte. The last element of a form is its length.
static FORMS: [[u8; 8]; 256] = forms();

#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "the compiler runs it, and would fail"
)]
const fn forms() -> [[u8; 8]; 256] {
    let digits = *b"0123456789abcdef";
    let mut all = [[0; 8]; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        let short = match byte {
            0x08 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            0x0c => b'f',
            b'\r' => b'r',
            b'"' | b'\\' => byte,
            _ => 0,
        };
        all[at] = match byte {
            _ if short != 0 => [b'\\', short, 0, 0, 0, 0, 0, 2],
            0..0x20 => [b'\\', b'u', b'0', b'0', digits[at >> 4], digits[at & 15], 0, 6],
            _ => [byte, 0, 0, 0, 0, 0, 0, 1],
        };
        at += 1;
    }
    all
}

/// How a text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EscapeMode {
    /// The text is copied unchanged.
    AsIs,
    /// The text is written by its steps.
    Steps,
    /// The text is written byte by byte, because its steps would be too many.
    Bytes,
}

/// Returns a word that has the highest bit set in each byte that must be escaped, and no other bit.
fn marks(word: u64) -> u64 {
    const LOW: u64 = u64::from_le_bytes([0x7f; 8]);
    // The sum cannot carry into the next byte. So the highest bit of a byte is set if any of its lower bits was set.
    let is_none = |word: u64| !(((word & LOW) + LOW) | word | LOW);
    let is = |byte: u8| is_none(word ^ u64::from_le_bytes([byte; 8]));
    is_none(word & u64::from_le_bytes([0xe0; 8])) | is(b'"') | is(b'\\')
}

/// Calls `found` with the index and the value of each byte that must be escaped.
fn each_escaped(text: &[u8], mut found: impl FnMut(usize, u8)) {
    let (words, rest) = text.as_chunks::<8>();
    let mut last = [b' '; 8];
    last.iter_mut().zip(rest).for_each(|(place, byte)| *place = *byte);
    for (at, word) in words.iter().chain([&last]).enumerate() {
        let mut marks = marks(u64::from_le_bytes(*word));
        while marks != 0 {
            let place = (marks.trailing_zeros() / 8) as usize;
            found(at * 8 + place, word.get(place).copied().unwrap_or_default());
            marks &= marks - 1;
        }
    }
}

fn form(byte: u8) -> &'static [u8] {
    let Some([form @ .., length]) = FORMS.get(usize::from(byte)) else { return &[] };
    form.get(..usize::from(*length)).unwrap_or_default()
}

/// Appends the escaped text to these bytes.
pub(super) fn put(out: &mut Vec<u8>, text: &[u8]) {
    let mut done = 0;
    each_escaped(text, |at, byte| {
        out.extend_from_slice(text.get(done..at).unwrap_or_default());
        out.extend_from_slice(form(byte));
        done = at + 1;
    });
    out.extend_from_slice(text.get(done..).unwrap_or_default());
}

/// Decides how this text is written, appends its steps to `steps`, and returns the length of the escaped text in bytes.
pub(super) fn plan(text: &[u8], steps: &mut Vec<u8>) -> (EscapeMode, usize) {
    let before = steps.len();
    let most = text.len() / BYTES_PER_STEP;
    let (mut way, mut size, mut done) = (EscapeMode::AsIs, text.len(), 0);
    each_escaped(text, |at, byte| {
        let length = form(byte).len();
        size += length - 1;
        let mut run = at - done;
        done = at + 1;
        if way == EscapeMode::Bytes {
            return;
        }
        way = EscapeMode::Steps;
        while run >= usize::from(PLAIN) {
            steps.push(PLAIN);
            run -= usize::from(PLAIN);
        }
        // `run` is less than 63 here, so the conversion cannot fail.
        let run = u8::try_from(run).unwrap_or_default();
        steps.push(if length == 2 { run } else { run | LONG });
        if steps.len() - before > most {
            steps.truncate(before);
            way = EscapeMode::Bytes;
        }
    });
    (way, size)
}

/// Copies as much of the text as fits into `out`. Returns the number of bytes read and the number of bytes written.
pub(super) fn as_is(text: &[u8], out: &mut [u8]) -> (usize, usize) {
    let count = text.len().min(out.len());
    if let (Some(out), Some(text)) = (out.get_mut(..count), text.get(..count)) {
        out.copy_from_slice(text);
    }
    (count, count)
}

/// Follows the steps and writes as much of the text as fits into `out`. Returns the number of bytes read, the number of
/// bytes written, and the number of steps done.
pub(super) fn by_steps(text: &[u8], steps: &[u8], out: &mut [u8]) -> (usize, usize, usize) {
    let (mut from, mut to, mut taken) = (0, 0, 0);
    for step in steps {
        let copied = text.get(from..).and_then(|text| text.first_chunk::<STEP>());
        let room = out.get_mut(to..).and_then(|out| out.first_chunk_mut::<ROOM>());
        let (Some(copied), Some(room)) = (copied, room) else { break };
        if let Some(room) = room.first_chunk_mut::<STEP>() {
            *room = *copied;
        }
        // The position of the next step depends only on the steps, and the loop has no branch to predict, so the
        // processor can execute several steps at once. A step that only copies also writes bytes after its own
        // length. The next step overwrites these extra bytes.
        let count = usize::from(step & PLAIN);
        let form = copied.get(count).and_then(|byte| FORMS.get(usize::from(*byte)));
        if let (Some(room), Some(form)) = (room.get_mut(count..count + 8), form) {
            room.copy_from_slice(form);
        }
        let escapes = usize::from(step & PLAIN != PLAIN);
        from += count + escapes;
        to += count + 2 * escapes + 4 * usize::from(step >> 7);
        taken += 1;
    }
    let (rest, room) =
        (text.get(from..).unwrap_or_default(), out.get_mut(to..).unwrap_or_default());
    let (read, wrote) = match steps.len() == taken {
        true => as_is(rest, room),
        // The rest of the text is shorter than a step's copy.
        false if rest.len() < STEP => by_bytes(rest, room),
        false => (0, 0),
    };
    (from + read, to + wrote, taken)
}

/// Escapes the text byte by byte and writes as much as fits into `out`. Returns the number of bytes read and the number
/// of bytes written.
pub(super) fn by_bytes(text: &[u8], out: &mut [u8]) -> (usize, usize) {
    let (mut from, mut to) = (0, 0);
    loop {
        let room = out.get_mut(to..).and_then(|out| out.first_chunk_mut::<16>());
        let Some(room) = room else { return (from, to) };
        let rest = text.get(from..).unwrap_or_default();
        // Fast path: usually several characters in a row need no escape.
        if let (Some(word), Some(room)) = (rest.first_chunk::<8>(), room.first_chunk_mut::<8>()) {
            *room = *word;
            let plain = (marks(u64::from_le_bytes(*word)).trailing_zeros() / 8) as usize;
            (from, to) = (from + plain, to + plain);
            if plain == word.len() {
                continue;
            }
        }
        let Some(byte) = text.get(from) else { return (from, to) };
        let room = out.get_mut(to..).and_then(|out| out.first_chunk_mut::<8>());
        let (Some(room), Some(form)) = (room, FORMS.get(usize::from(*byte))) else {
            return (from, to);
        };
        *room = *form;
        let [.., length] = form;
        (from, to) = (from + 1, to + usize::from(*length));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The escaped text, written in pieces of this size.
    fn written(text: &str, piece: usize) -> String {
        let mut steps = Vec::new();
        let (way, size) = plan(text.as_bytes(), &mut steps);
        assert!(steps.len() <= text.len() / BYTES_PER_STEP, "{} steps", steps.len());
        let (mut all, mut from, mut done) = (Vec::new(), 0, 0);
        while from < text.len() {
            let mut out = vec![b'?'; piece];
            let rest = text.as_bytes().get(from..).unwrap();
            let (read, wrote) = match way {
                EscapeMode::AsIs => as_is(rest, &mut out),
                EscapeMode::Bytes => by_bytes(rest, &mut out),
                EscapeMode::Steps => {
                    let (read, wrote, taken) = by_steps(rest, steps.get(done..).unwrap(), &mut out);
                    done += taken;
                    (read, wrote)
                }
            };
            assert!(read > 0, "nothing of {:?} in {piece} bytes", text.get(from..));
            from += read;
            all.extend_from_slice(out.get(..wrote).unwrap());
        }
        assert_eq!(all.len(), size);
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn each_letter_is_escaped_as_json_escapes_it_wherever_it_stands() {
        let letters: Vec<char> =
            (0..0x80_u8).map(char::from).chain("äß€😀\u{2028}".chars()).collect();
        for gap in (0..140).chain([500]) {
            for piece in [128, 16 * 1024] {
                let gap = "x".repeat(gap);
                let text: String =
                    letters.iter().flat_map(|it| [gap.clone(), it.to_string()]).collect();
                let json = serde_json::to_string(&text).unwrap();
                assert_eq!(format!("\"{}\"", written(&text, piece)), json);
            }
        }
    }

    #[test]
    fn a_text_has_no_more_steps_than_it_may() {
        for text in
            ["\"".repeat(200), "\u{1}".repeat(50), "1234567\n".repeat(99), "12345678\n".repeat(99)]
        {
            let json = serde_json::to_string(&text).unwrap();
            for piece in [128, 150, 16 * 1024] {
                assert_eq!(format!("\"{}\"", written(&text, piece)), json);
            }
        }
    }
}
