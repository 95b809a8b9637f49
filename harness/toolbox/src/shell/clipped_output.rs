//! Keeps the beginning and the end of a stream of bytes of any length.

use std::collections::VecDeque;

/// The number of bytes that are kept from the beginning.
const HEAD: usize = 12 * 1024;
/// The number of bytes that are kept from the end.
const TAIL: usize = 12 * 1024;

/// The beginning and the end of a stream, and the number of bytes between them.
#[derive(Debug, Default)]
pub(super) struct ClippedOutput {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: u64,
}

impl ClippedOutput {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let room = HEAD.saturating_sub(self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        // At most the last `TAIL` bytes of a large chunk are kept.
        let (skipped, rest) = rest.split_at(rest.len().saturating_sub(TAIL));
        let excess = (self.tail.len() + rest.len()).saturating_sub(TAIL);
        self.tail.drain(..excess);
        self.tail.extend(rest);
        self.dropped += (skipped.len() + excess) as u64;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.head.is_empty()
    }

    /// The text, complete or with a note in the middle about the number of bytes cut. The cut is between characters,
    /// and invalid UTF-8 is replaced.
    pub(super) fn to_text(&self) -> String {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        if self.dropped == 0 {
            let whole = [self.head.as_slice(), &tail].concat();
            return String::from_utf8_lossy(&whole).into_owned();
        }
        let (head, torn_head) = self.head.split_at(end_of_characters(&self.head));
        let (torn_tail, tail) = tail.split_at(start_of_characters(&tail));
        let cut = self.dropped + (torn_head.len() + torn_tail.len()) as u64;
        format!(
            "{}\n[... {cut} bytes cut here ...]\n{}",
            String::from_utf8_lossy(head),
            String::from_utf8_lossy(tail)
        )
    }
}

/// The index after the last complete character.
fn end_of_characters(bytes: &[u8]) -> usize {
    let is_inside = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
    let after_lead = bytes.iter().rev().take(3).take_while(is_inside).count();
    let whole = bytes.len().saturating_sub(after_lead + 1);
    let length = match bytes.get(whole) {
        Some(0b1100_0000..=0b1101_1111) => 2,
        Some(0b1110_0000..=0b1110_1111) => 3,
        Some(0b1111_0000..=0b1111_0111) => 4,
        _ => return bytes.len(),
    };
    if after_lead + 1 < length { whole } else { bytes.len() }
}

/// The index of the first complete character.
fn start_of_characters(bytes: &[u8]) -> usize {
    bytes.iter().take(3).take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000).count()
}
