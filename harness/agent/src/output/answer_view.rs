//! The complete parts of a JSON answer while the answer arrives.

use serde_json::{Map, Value};

use crate::Event;

/// How deep an answer may be nested.
const DEEPEST: usize = 100;

/// The complete parts of a JSON answer while the answer arrives. The text is pushed in pieces of any size, and
/// [`value`](Self::value) has all members, items and strings that are complete. A part that was shown does not
/// change until the answer [starts again](Self::clear); objects and lists only grow. The cost is linear in the
/// length of the text.
///
/// If the text is not valid JSON, everything before the fault is shown. If the model writes an introduction
/// first, nothing is shown. Only the end of the run shows whether the answer was accepted.
///
/// ```
/// use harness::agent::AnswerView;
/// use serde_json::json;
///
/// let mut view = AnswerView::new();
/// view.push(r#"{"title": "Moby-Dick", "years": [18"#);
/// assert_eq!(view.value(), Some(&json!({"title": "Moby-Dick", "years": []})));
/// view.push("51, 18");
/// assert_eq!(view.value(), Some(&json!({"title": "Moby-Dick", "years": [1851]})));
/// ```
#[derive(Clone, Debug, Default)]
pub struct AnswerView {
    root: Option<Value>,
    /// The open objects and lists, the outermost one first.
    path: Vec<OpenContainer>,
    state: ParserState,
    /// The part of a string, a number or a literal that has arrived.
    token: String,
}

/// An object or a list whose end has not arrived.
#[derive(Clone, Debug)]
struct OpenContainer {
    /// In an object, the name of the member that gets the next value.
    key: Option<String>,
    is_list: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum ParserState {
    /// Only white space has arrived.
    #[default]
    Begin,
    /// Inside the line that opens a code block.
    Fence,
    /// The next token must be a value.
    Value,
    /// The next token must be a value or the end of the list.
    Item,
    /// The next token must be the name of a member. If the flag is set, the end of the object is also allowed.
    Key(bool),
    Colon,
    /// The next token must be a comma or the end of the object or list.
    Next,
    /// Inside a string. The first flag is true in the name of a member. The second flag is true if the next
    /// character is escaped.
    Text(bool, bool),
    /// Inside a number or a literal.
    Word,
    /// The value is complete, or the text is not valid JSON.
    Over,
}

impl AnswerView {
    /// A view of an answer before its text arrives.
    pub fn new() -> Self {
        Self::default()
    }

    /// The complete parts so far. `None` if nothing is complete.
    pub fn value(&self) -> Option<&Value> {
        self.root.as_ref()
    }

    /// Starts again for a new answer.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Adds text. Returns whether the value has grown.
    pub fn push(&mut self, text: &str) -> bool {
        let mut more = false;
        for letter in text.chars() {
            if self.state == ParserState::Over {
                break;
            }
            more |= self.take_char(letter);
        }
        more
    }

    /// Reads an event of a run: text is added, and the view is cleared if the answer starts again. Returns
    /// whether the value has grown.
    pub fn read(&mut self, event: Event<'_>) -> bool {
        match event {
            Event::Text(text) => self.push(text),
            Event::RunStarted { .. } | Event::TurnStarted { .. } | Event::Discarded { .. } => {
                self.clear();
                false
            }
            _ => false,
        }
    }

    fn take_char(&mut self, letter: char) -> bool {
        match (self.state, letter) {
            (ParserState::Text(is_key, escaped), letter) => {
                self.token.push(letter);
                match (escaped, letter) {
                    (true, _) => self.state = ParserState::Text(is_key, false),
                    (false, '\\') => self.state = ParserState::Text(is_key, true),
                    (false, '"') => return self.text_ended(is_key),
                    (false, _) => {}
                }
                false
            }
            (ParserState::Word, ',' | ']' | '}' | ' ' | '\t' | '\n' | '\r') => {
                let word = serde_json::from_str(&self.token);
                self.token.clear();
                let Ok(word) = word else { return self.is_over() };
                let shown = self.put_value(word);
                self.take_char(letter) | shown
            }
            (ParserState::Word, letter) => {
                self.token.push(letter);
                false
            }
            (ParserState::Begin, '`') => {
                self.state = ParserState::Fence;
                false
            }
            (ParserState::Fence, letter) => {
                if letter == '\n' {
                    self.state = ParserState::Value;
                }
                false
            }
            (_, ' ' | '\t' | '\n' | '\r') => false,
            (ParserState::Begin | ParserState::Value | ParserState::Item, '{' | '[') => {
                self.open_container(letter == '[')
            }
            (ParserState::Item, ']') | (ParserState::Key(true) | ParserState::Next, '}' | ']') => {
                self.close_container(letter)
            }
            (
                ParserState::Begin | ParserState::Value | ParserState::Item | ParserState::Key(_),
                '"',
            ) => {
                self.token.push(letter);
                self.state = ParserState::Text(matches!(self.state, ParserState::Key(_)), false);
                false
            }
            (ParserState::Colon, ':') => {
                self.state = ParserState::Value;
                false
            }
            (ParserState::Next, ',') => {
                let is_list = self.path.last().is_some_and(|open| open.is_list);
                self.state = if is_list { ParserState::Value } else { ParserState::Key(false) };
                false
            }
            // The end of a number or a literal is visible only inside an object or a list.
            (ParserState::Value | ParserState::Item, '-' | '0'..='9' | 't' | 'f' | 'n')
                if !self.path.is_empty() =>
            {
                self.token.push(letter);
                self.state = ParserState::Word;
                false
            }
            _ => self.is_over(),
        }
    }

    /// Stops reading.
    fn is_over(&mut self) -> bool {
        self.state = ParserState::Over;
        false
    }

    fn text_ended(&mut self, is_key: bool) -> bool {
        let text = serde_json::from_str::<String>(&self.token);
        self.token.clear();
        let Ok(text) = text else { return self.is_over() };
        if !is_key {
            return self.put_value(Value::String(text));
        }
        // A second member with the same name would change the first one, so reading stops.
        let known =
            self.place().and_then(|it| it.as_object()).is_none_or(|it| it.contains_key(&text));
        match self.path.last_mut() {
            Some(open) if !known => {
                open.key = Some(text);
                self.state = ParserState::Colon;
                false
            }
            _ => self.is_over(),
        }
    }

    fn open_container(&mut self, is_list: bool) -> bool {
        if self.path.len() >= DEEPEST {
            return self.is_over();
        }
        let new = if is_list { Value::Array(Vec::new()) } else { Value::Object(Map::new()) };
        if !self.put_value(new) {
            return false;
        }
        self.path.push(OpenContainer { key: None, is_list });
        self.state = if is_list { ParserState::Item } else { ParserState::Key(true) };
        true
    }

    fn close_container(&mut self, letter: char) -> bool {
        match self.path.pop() {
            Some(open) if open.is_list == (letter == ']') => {
                self.state =
                    if self.path.is_empty() { ParserState::Over } else { ParserState::Next };
                false
            }
            _ => self.is_over(),
        }
    }

    /// Adds a value to the innermost open object or list. Returns whether the value has grown.
    fn put_value(&mut self, value: Value) -> bool {
        self.state = if self.path.is_empty() { ParserState::Over } else { ParserState::Next };
        let Some(open) = self.path.last_mut() else {
            self.root = Some(value);
            return true;
        };
        let key = open.key.clone();
        match (self.place(), key) {
            (Some(Value::Array(items)), None) => items.push(value),
            (Some(Value::Object(members)), Some(key)) => drop(members.insert(key, value)),
            _ => return self.is_over(),
        }
        true
    }

    /// The innermost open object or list.
    fn place(&mut self) -> Option<&mut Value> {
        let mut at = self.root.as_mut()?;
        let steps = self.path.len().saturating_sub(1);
        for open in self.path.iter().take(steps) {
            at = match (at, &open.key) {
                (Value::Object(members), Some(key)) => members.get_mut(key)?,
                (Value::Array(items), _) => items.last_mut()?,
                _ => return None,
            };
        }
        Some(at)
    }
}
