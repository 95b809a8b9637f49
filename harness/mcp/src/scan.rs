//! Scans a message for its outer members and its number of values, without storing the message.

use rmcp::model::RequestId;
use serde_json::Value;

/// The number of bytes that are stored of a member's name and of a value.
const LOOKED_AT: usize = 128;

/// The id of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum MessageId {
    /// There is no id, the id is `null`, or there are two different ids.
    #[default]
    Missing,
    Is(RequestId),
    /// The id is a value that no request has as its id.
    Other,
}

/// What a scan finds in a line: its nesting depth, its number of values, and the outer members of the message.
#[derive(Default)]
pub(super) struct MessageScan {
    /// Whether the line is an object; `None` before its first byte.
    is_object: Option<bool>,
    depth: usize,
    deepest: usize,
    /// The number of values so far.
    values: usize,
    in_string: bool,
    is_escaped: bool,
    /// The name of the current outer member, and the beginning of the current token (`word`).
    name: Vec<u8>,
    word: Vec<u8>,
    id: Option<MessageId>,
    /// The method, including its quotes.
    method: Option<Vec<u8>>,
    has_version: bool,
    has_outcome: bool,
}

impl MessageScan {
    pub(super) fn of(line: &[u8]) -> Self {
        let mut scan = Self::default();
        scan.read(line);
        scan
    }

    pub(super) fn read(&mut self, mut part: &[u8]) {
        while let Some((byte, rest)) = part.split_first() {
            if self.is_object == Some(false) {
                return;
            }
            part = rest;
            if self.in_string && !self.is_escaped {
                // The characters of a string are skipped together.
                let ends = |byte: &u8| matches!(byte, b'"' | b'\\');
                let letters = std::iter::once(byte).chain(rest).position(ends);
                let letters = letters.unwrap_or(rest.len() + 1);
                if let Some(more) = letters.checked_sub(1) {
                    self.keep(*byte);
                    rest.iter().take(more.min(LOOKED_AT)).for_each(|byte| self.keep(*byte));
                    part = rest.get(more..).unwrap_or_default();
                    continue;
                }
            }
            self.byte(*byte);
        }
    }

    fn byte(&mut self, byte: u8) {
        if self.in_string {
            self.keep(byte);
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        // White space, a byte order mark or control characters may precede the object. A control character makes the
        // message unreadable, but its id is still found.
        if self.is_object.is_none()
            && !byte.is_ascii_whitespace()
            && !byte.is_ascii_control()
            && !b"\xef\xbb\xbf".contains(&byte)
        {
            self.is_object = Some(byte == b'{');
        }
        if matches!(byte, b',' | b'[' | b'{') {
            self.values = self.values.saturating_add(1);
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep(byte);
            }
            b'{' | b'[' => {
                self.keep(byte);
                self.depth = self.depth.saturating_add(1);
                self.deepest = self.deepest.max(self.depth);
            }
            b'}' | b']' => {
                if self.depth == 1 {
                    self.end_member();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => self.name = std::mem::take(&mut self.word),
            b',' if self.depth == 1 => self.end_member(),
            byte if !byte.is_ascii_whitespace() => self.keep(byte),
            _ => {}
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.word.len() < LOOKED_AT {
            self.word.push(byte);
        }
    }

    fn end_member(&mut self) {
        let (name, value) = (std::mem::take(&mut self.name), std::mem::take(&mut self.word));
        match &*name {
            b"\"id\"" => {
                let id = match serde_json::from_slice::<Value>(&value) {
                    Ok(Value::Null) => MessageId::Missing,
                    Ok(value) => {
                        serde_json::from_value(value).map_or(MessageId::Other, MessageId::Is)
                    }
                    Err(_) => MessageId::Other,
                };
                self.id = match self.id.take() {
                    Some(other) if other != id => Some(MessageId::Missing),
                    _ => Some(id),
                };
            }
            b"\"method\"" if value.starts_with(b"\"") => self.method = Some(value),
            b"\"jsonrpc\"" => self.has_version = value == b"\"2.0\"",
            b"\"result\"" | b"\"error\"" => self.has_outcome = true,
            _ => {}
        }
    }

    pub(super) fn is_object(&self) -> bool {
        self.is_object == Some(true)
    }

    pub(super) fn deepest(&self) -> usize {
        self.deepest
    }

    /// The number of values: lists, objects, and everything in them.
    pub(super) fn values(&self) -> usize {
        self.values
    }

    /// Whether the line declares JSON-RPC 2.0.
    pub(super) fn has_version(&self) -> bool {
        self.has_version
    }

    /// Whether the line has a result or an error.
    pub(super) fn has_outcome(&self) -> bool {
        self.has_outcome
    }

    /// Whether the line is a notification or a request, and not an answer.
    pub(super) fn is_one_way(&self) -> bool {
        self.has_version && self.has_method() && !self.has_outcome
    }

    pub(super) fn has_method(&self) -> bool {
        self.method.is_some()
    }

    /// The id and the method of a request. The method includes its quotes.
    pub(super) fn request(&self) -> Option<(&RequestId, &[u8])> {
        match (&self.id, &self.method) {
            (Some(MessageId::Is(id)), Some(method)) if !self.has_outcome => Some((id, method)),
            _ => None,
        }
    }

    /// The id of the request that the line answers; `None` if the line is no answer.
    pub(super) fn answered_id(&self) -> Option<&MessageId> {
        if !self.is_object() || self.method.is_some() && !self.has_outcome {
            return None;
        }
        match self.id.as_ref().unwrap_or(&MessageId::Missing) {
            // A process may write other JSON to its output, so without an id the line must look like an answer.
            MessageId::Missing | MessageId::Other if !self.has_version || !self.has_outcome => None,
            _ if !self.has_version && !self.has_outcome => None,
            id => Some(id),
        }
    }
}
