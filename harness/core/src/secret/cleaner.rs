//! Removes secrets from a text that arrives in pieces, and returns complete characters.

use std::fmt;

use super::{HIDDEN, Secrets};

/// Takes bytes in pieces of any size and returns text. Invalid UTF-8 becomes U+FFFD. Secrets are replaced even if they
/// extend over several pieces.
pub struct SecretFilter {
    secrets: Secrets,
    /// The minimum number of bytes that are searched at a time.
    searched: usize,
    /// The number of bytes that are held back at the end, because a secret may begin there. Slightly more than the
    /// longest secret.
    margin: usize,
    /// The incomplete character at the end of a piece.
    cut: Vec<u8>,
    /// The text that is not returned yet.
    pub held: String,
    /// The number of bytes at the start of `held` whose replacement was already returned. These bytes are kept to find
    /// secrets that overlap with them.
    hidden: usize,
}

impl fmt::Debug for SecretFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretFilter").finish_non_exhaustive()
    }
}

impl SecretFilter {
    /// A filter that searches at least `searched` bytes at a time.
    pub fn new(secrets: Secrets, searched: usize) -> Self {
        // The mark for cut text has three bytes and may follow a secret.
        let margin = secrets.longest().saturating_add(4);
        Self { secrets, searched, margin, cut: Vec::new(), held: String::new(), hidden: 0 }
    }

    /// Adds a piece of the text. Returns the finished text without secrets. The returned text is empty while too few
    /// bytes are held.
    pub fn push(&mut self, piece: &[u8]) -> String {
        self.cut.extend_from_slice(piece);
        let mut whole = self.cut.len();
        if let Some(chunk) = self.cut.utf8_chunks().last()
            && is_unfinished(chunk.invalid())
        {
            whole = whole.saturating_sub(chunk.invalid().len());
        }
        let rest = self.cut.split_off(whole);
        self.held.push_str(&String::from_utf8_lossy(&self.cut));
        self.cut = rest;
        match self.held.len() < self.searched.saturating_add(self.margin.saturating_mul(2)) {
            true => String::new(),
            false => self.clean(self.held.len().saturating_sub(self.margin)),
        }
    }

    /// Ends the text, and returns the remaining text without secrets.
    pub fn finish(mut self) -> String {
        let rest = std::mem::take(&mut self.cut);
        self.held.push_str(&String::from_utf8_lossy(&rest));
        self.clean(self.held.len())
    }

    /// Ends a text that was cut off, and returns the remaining text without secrets. The beginning of a secret at the
    /// cut is also replaced.
    pub fn finish_cut(mut self) -> String {
        let rest = std::mem::take(&mut self.cut);
        self.held.push_str(super::CUT);
        let mut clean = self.clean(self.held.len());
        if clean.ends_with(super::CUT) {
            clean.truncate(clean.len().saturating_sub(super::CUT.len()));
        }
        clean + &String::from_utf8_lossy(&rest)
    }

    /// Removes the text before `to` from `held`, and returns this text without secrets.
    fn clean(&mut self, to: usize) -> String {
        let mut to = (0..=to).rev().find(|at| self.held.is_char_boundary(*at)).unwrap_or(0);
        let mut clean = String::with_capacity(to);
        let (mut from, mut hidden) = (self.hidden, 0);
        for range in self.secrets.find(&self.held) {
            if range.start >= to {
                break;
            }
            let (start, end) = (range.start.max(from), range.end.min(to));
            // A secret that overlaps or touches bytes that were already replaced needs no second mark.
            if range.start > self.hidden || self.hidden == 0 {
                clean.push_str(self.held.get(from..start).unwrap_or_default());
                clean.push_str(HIDDEN);
            }
            from = end.max(from);
            if range.end >= to && to < self.held.len() {
                // The secret extends beyond the returned text, and its mark is already written. Keep enough bytes to
                // find the rest of the secret.
                let kept = to.saturating_sub(self.margin).max(range.start);
                let kept = (kept..=to).find(|at| self.held.is_char_boundary(*at)).unwrap_or(to);
                hidden = to.saturating_sub(kept);
                to = kept;
                break;
            }
        }
        if hidden == 0 {
            clean.push_str(self.held.get(from..to).unwrap_or_default());
        }
        self.held.drain(..to);
        self.hidden = hidden;
        clean
    }
}

/// Whether the bytes are an incomplete UTF-8 character.
fn is_unfinished(bytes: &[u8]) -> bool {
    let wanted = match bytes.first() {
        Some(0xC2..=0xDF) => 2,
        Some(0xE0..=0xEF) => 3,
        Some(0xF0..=0xF4) => 4,
        _ => return false,
    };
    bytes.len() < wanted
}

#[cfg(test)]
mod tests {
    use super::{SecretFilter, Secrets};

    const SEARCHED: usize = 256 * 1024;

    /// Filtering a text in pieces must give the same result as filtering the whole text.
    #[test]
    fn secrets_are_found_where_pieces_meet() {
        let secrets = Secrets::default().with("sk-0123456789").with("9sk-").with("correct horse");
        let mut random = fastrand::Rng::with_seed(7);
        let words =
            ["sk-0123456789", "sk-012345", "correct horse", "ä", "€", "x ", "correct ", "9"];
        for round in 0..30 {
            let mut text = String::new();
            while text.len() < 900_000 {
                // Some of the texts consist almost entirely of secrets.
                let most = if round % 3 == 0 { 1 } else { words.len() };
                let word = words[random.usize(..most)];
                text.push_str(&word.repeat(random.usize(1..200)));
            }
            let mut cleaner =
                SecretFilter::new(secrets.clone(), if round % 2 == 0 { SEARCHED } else { 0 });
            let (mut clean, mut rest) = (String::new(), text.as_bytes());
            while !rest.is_empty() {
                let (piece, later) = rest.split_at(random.usize(1..=rest.len().min(100_000)));
                clean.push_str(&cleaner.push(piece));
                assert!(cleaner.held.len() < 1_000_000, "it holds {} bytes", cleaner.held.len());
                rest = later;
            }
            clean.push_str(&cleaner.finish());
            assert!(clean == secrets.hide(&text), "round {round}: {} bytes", clean.len());
        }
    }

    #[test]
    fn a_text_that_is_cut_shows_no_beginning_of_a_secret() {
        let secrets = Secrets::default().with("sk-0123456789");
        for (text, clean) in [
            (b"a sk-012345678".as_slice(), "a [secret]"),
            (b"a sk-0123456789", "a [secret]"),
            (b"a sk-012345\xe2\x82", "a [secret]\u{fffd}"),
            (b"a sk-0", "a sk-0"),
            ("a …".as_bytes(), "a …"),
        ] {
            let mut cleaner = SecretFilter::new(secrets.clone(), 0);
            let pushed = cleaner.push(text);
            assert_eq!(pushed + &cleaner.finish_cut(), clean);
        }
    }

    #[test]
    fn what_is_no_text_is_replaced_and_characters_are_whole() {
        let none = Secrets::default();
        let bytes = [b"a\xff\xfeb".as_slice(), "€ä𐍈".as_bytes(), b"\xe2\x82", b"c\xf0"].concat();
        for size in 1..bytes.len() {
            let mut cleaner = SecretFilter::new(none.clone(), size);
            let mut text: String = bytes.chunks(size).map(|piece| cleaner.push(piece)).collect();
            text.push_str(&cleaner.finish());
            assert_eq!(text, String::from_utf8_lossy(&bytes), "{size}");
        }
    }
}
