//! Whether JSON that arrives in pieces is whole. Each byte is looked at once, and the text is parsed
//! once, however often somebody asks.

use serde::de::IgnoredAny;

/// A value outside of brackets and quotes (a number, `true`) has no end that can be seen. It is
/// parsed each time, if it is no longer than this.
const BARE: usize = 64;

/// How far a text of JSON has come that only grows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// So many bytes were looked at.
    read: usize,
    /// The first byte that is no space.
    first: Option<u8>,
    /// How many bytes were no spaces, as far as that matters: of a text in quotes only some are counted.
    solid: usize,
    /// Brackets that are open.
    depth: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum State {
    /// Nothing has come but spaces.
    #[default]
    Blank,
    /// Within brackets.
    Open,
    /// Within quotes.
    Quoted,
    /// Behind a backslash within quotes.
    Escaped,
    /// A value outside of brackets and quotes.
    Bare,
    /// One value, and only spaces behind it.
    Whole,
    /// Whatever comes, it is no JSON.
    Broken,
}

impl Progress {
    /// Reads what is new of a text, which begins with what was read before.
    pub(crate) fn read(&mut self, text: &str) {
        while let Some(byte) = text.as_bytes().get(self.read).copied() {
            let is_space = matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
            self.solid += usize::from(!is_space);
            self.state = match (self.state, byte) {
                (state @ (State::Blank | State::Whole), _) if is_space => state,
                (State::Whole | State::Broken | State::Bare, _) => {
                    if self.state == State::Whole {
                        self.state = State::Broken;
                    }
                    self.read = text.len();
                    return;
                }
                (State::Escaped, _) => State::Quoted,
                (State::Quoted, b'\\') => State::Escaped,
                (State::Quoted, b'"') => self.closed(text),
                (State::Quoted, _) => {
                    let rest = text.as_bytes().get(self.read..).unwrap_or_default();
                    self.read += memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                    continue;
                }
                (State::Blank | State::Open, _) => {
                    self.first.get_or_insert(byte);
                    match byte {
                        b'"' => State::Quoted,
                        b'{' | b'[' => {
                            self.depth += 1;
                            State::Open
                        }
                        b'}' | b']' if self.depth > 0 => {
                            self.depth -= 1;
                            self.closed(text)
                        }
                        _ if self.depth > 0 => State::Open,
                        _ => State::Bare,
                    }
                }
            };
            self.read += 1;
        }
    }

    /// Something has ended at the byte that is being read: if it was the value itself, whether that is
    /// valid is asked now.
    fn closed(&self, text: &str) -> State {
        match self.depth {
            0 if is_json(text.get(..=self.read).unwrap_or_default()) => State::Whole,
            0 => State::Broken,
            _ => State::Open,
        }
    }

    /// Whether all that was read is one valid value. `text` is what was read.
    pub(crate) fn is_whole(&self, text: &str) -> bool {
        match self.state {
            State::Whole => true,
            State::Bare => text.len() <= BARE && is_json(text),
            _ => false,
        }
    }

    /// Whether all that was read is an object without members.
    pub(crate) fn is_empty_object(&self) -> bool {
        self.state == State::Whole && self.is_object() && self.solid == 2
    }

    /// Whether it begins as an object.
    pub(crate) fn is_object(&self) -> bool {
        self.first == Some(b'{')
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{Progress, is_json};

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
                let (mut progress, mut so_far) = (Progress::default(), String::new());
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
