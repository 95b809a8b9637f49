//! Finds out whether JSON that arrives in pieces is complete. Each byte is read once, and the text is parsed once,
//! however often the caller checks.

use serde::de::IgnoredAny;

/// The maximum length in bytes of a value without brackets and quotes (a number, `true`) that is still checked. Each
/// check parses such a value, because the value has no visible end.
const BARE: usize = 64;

/// How far a growing JSON text has been read.
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonProgress {
    /// The number of bytes read.
    read: usize,
    /// The first byte that is not white space.
    first: Option<u8>,
    /// The number of bytes that are not white space. For bytes inside of quotes, the number is only
    /// a lower bound.
    solid: usize,
    /// The number of open brackets.
    depth: usize,
    state: JsonState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum JsonState {
    /// Only white space so far.
    #[default]
    Blank,
    /// Inside brackets.
    Open,
    /// Inside quotes.
    Quoted,
    /// After a backslash inside quotes.
    Escaped,
    /// A value without brackets and quotes.
    Bare,
    /// One value, with only white space after it.
    Whole,
    /// Invalid, whatever follows.
    Broken,
}

impl JsonProgress {
    /// Reads the new bytes of a text. The text must begin with everything that was read before.
    pub fn read(&mut self, text: &str) {
        while let Some(byte) = text.as_bytes().get(self.read).copied() {
            let is_space = matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
            self.solid += usize::from(!is_space);
            self.state = match (self.state, byte) {
                (state @ (JsonState::Blank | JsonState::Whole), _) if is_space => state,
                (JsonState::Whole | JsonState::Broken | JsonState::Bare, _) => {
                    if self.state == JsonState::Whole {
                        self.state = JsonState::Broken;
                    }
                    self.read = text.len();
                    return;
                }
                (JsonState::Escaped, _) => JsonState::Quoted,
                (JsonState::Quoted, b'\\') => JsonState::Escaped,
                (JsonState::Quoted, b'"') => self.closed(text),
                (JsonState::Quoted, _) => {
                    let rest = text.as_bytes().get(self.read..).unwrap_or_default();
                    self.read += memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                    continue;
                }
                (JsonState::Blank | JsonState::Open, _) => {
                    self.first.get_or_insert(byte);
                    match byte {
                        b'"' => JsonState::Quoted,
                        b'{' | b'[' => {
                            self.depth += 1;
                            JsonState::Open
                        }
                        b'}' | b']' if self.depth > 0 => {
                            self.depth -= 1;
                            self.closed(text)
                        }
                        _ if self.depth > 0 => JsonState::Open,
                        _ => JsonState::Bare,
                    }
                }
            };
            self.read += 1;
        }
    }

    /// Handles a closing bracket or quote at the current byte. Parses the text if the bracket or quote
    /// ends the value.
    fn closed(&self, text: &str) -> JsonState {
        match self.depth {
            0 if is_json(text.get(..=self.read).unwrap_or_default()) => JsonState::Whole,
            0 => JsonState::Broken,
            _ => JsonState::Open,
        }
    }

    /// Whether the bytes read so far are one valid JSON value. `text` must be the text that was read.
    pub fn is_whole(&self, text: &str) -> bool {
        match self.state {
            JsonState::Whole => true,
            JsonState::Bare => text.len() <= BARE && is_json(text),
            _ => false,
        }
    }

    /// Whether the bytes read so far are a JSON object without members.
    pub fn is_empty_object(&self) -> bool {
        self.state == JsonState::Whole && self.is_object() && self.solid == 2
    }

    /// Whether the first byte of the text that is not white space is `{`.
    pub fn is_object(&self) -> bool {
        self.first == Some(b'{')
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{JsonProgress, is_json};

    #[test]
    fn any_text_is_whole_at_any_place_where_parsing_says_so() {
        let texts = [
            r#" {"a":[1,{"b":"}\"]\\"}],"c":"ä{"} "#,
            r#""a \" b" "#,
            "{}{}",
            "[1,2}",
            "{]",
            " 12 ",
            "true",
            "tru}",
            "nul",
            "}",
            r#"{"a":1}x "#,
            r#"{"a":"#,
            "\"\u{1}\"",
            "[[[[]]]] ",
            "{\"a\":\"\\",
            " { \n } ",
            "{\"\":0}",
        ];
        for text in texts {
            for cut in 1..4 {
                let (mut progress, mut so_far) = (JsonProgress::default(), String::new());
                for (at, char) in text.chars().enumerate() {
                    so_far.push(char);
                    if at % cut == 0 {
                        progress.read(&so_far);
                        assert_eq!(progress.is_whole(&so_far), is_json(&so_far), "{so_far:?}");
                        assert_eq!(progress.is_object(), so_far.trim_start().starts_with('{'));
                        let is_empty = crate::message::is_empty_object(&so_far);
                        assert_eq!(progress.is_empty_object(), is_empty, "{so_far:?}");
                    }
                }
            }
        }
    }
}
