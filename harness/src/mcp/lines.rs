//! Filters the lines that a process writes before the protocol reads them: an answer that cannot be read is replaced by an
//! error with the same id, so that its request ends at once.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use rmcp::model::{ErrorCode, ServerJsonRpcMessage};
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::io::{AsyncRead, ReadBuf};

/// The code of the error that replaces an answer that cannot be read. No server uses it.
pub(super) const UNREAD: ErrorCode = ErrorCode(i32::MIN);

/// The longest line, in bytes.
const MOST: usize = 16 << 20;

/// The nesting depth that `serde_json` refuses.
const TOO_DEEP: usize = 128;

/// The number of bytes of a member's name and of a value that are examined.
const LOOKED_AT: usize = 128;

/// The number of bytes that are kept of a line that is not a message.
const KEPT: usize = 200;

/// The lines of a process, without answers that cannot be read.
pub(super) struct Lines<R> {
    from: R,
    line: Vec<u8>,
    /// Whether the line is longer than [`MOST`]: it is then examined but not kept.
    is_long: bool,
    scan: Scan,
    /// The complete lines that the protocol may read, and how much of them it has read.
    ready: Vec<u8>,
    given: usize,
    strange: Strange,
}

/// The lines that are not messages.
#[derive(Clone, Default)]
pub(super) struct Strange(Arc<Mutex<(usize, String)>>);

impl Strange {
    fn note(&self, line: &[u8]) {
        let line = line.get(..KEPT).unwrap_or(line);
        let line = String::from_utf8_lossy(line).trim().to_owned();
        if line.is_empty() {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.0 = known.0.saturating_add(1);
        if known.0 == 1 {
            known.1 = line;
        }
    }

    /// The number of these lines, and the first one.
    pub(super) fn known(&self) -> Option<(usize, String)> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (known.0 > 0).then(|| known.clone())
    }
}

impl<R> Lines<R> {
    pub(super) fn new(from: R) -> Self {
        Self {
            from,
            line: Vec::new(),
            is_long: false,
            scan: Scan::default(),
            ready: Vec::new(),
            given: 0,
            strange: Strange::default(),
        }
    }

    pub(super) fn strange(&self) -> Strange {
        self.strange.clone()
    }

    /// Adds a part of one line.
    fn take(&mut self, part: &[u8]) {
        self.scan.read(part);
        if self.line.len().saturating_add(part.len()) > MOST {
            self.is_long = true;
            self.line = Vec::new();
        }
        if !self.is_long {
            self.line.extend_from_slice(part);
        }
        if part.ends_with(b"\n") {
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let scan = std::mem::take(&mut self.scan);
        let is_long = std::mem::take(&mut self.is_long);
        if scan.is_object != Some(true) {
            self.strange.note(&line);
        }
        let fault = match scan.answers() {
            None => None,
            Some(_) if is_long => Some(format!("it has more than {} MiB", MOST >> 20)),
            Some(_) if scan.deepest >= TOO_DEEP => {
                Some(format!("it is nested deeper than {} levels", TOO_DEEP - 1))
            }
            Some(_) if !scan.is_readable(&line) => {
                Some("it is no message of JSON-RPC 2.0".to_owned())
            }
            Some(_) => None,
        };
        match (fault, scan.answers()) {
            (Some(why), Some(id)) => {
                let why = format!("the answer came and cannot be read: {why}");
                let error = json!({"code": UNREAD.0, "message": why});
                let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}\n");
                self.ready.extend_from_slice(line.as_bytes());
            }
            // A line that is too long was not kept.
            _ if is_long => {}
            _ => self.ready.extend_from_slice(&line),
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Lines<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            let left = this.ready.get(this.given..).unwrap_or_default();
            if !left.is_empty() {
                let taken = left.len().min(to.remaining());
                to.put_slice(left.get(..taken).unwrap_or_default());
                this.given += taken;
                if this.given == this.ready.len() {
                    (this.ready, this.given) = (Vec::new(), 0);
                }
                return Poll::Ready(Ok(()));
            }
            let mut piece = [0; 8 << 10];
            let mut read = ReadBuf::new(&mut piece);
            ready!(Pin::new(&mut this.from).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                // A line without its end is incomplete.
                return Poll::Ready(Ok(()));
            }
            for part in read.filled().split_inclusive(|byte| *byte == b'\n') {
                this.take(part);
            }
        }
    }
}

/// The properties of a line that are found without keeping it: its depth and the members of the message.
#[derive(Default)]
struct Scan {
    /// Whether the line is an object; `None` before its first byte.
    is_object: Option<bool>,
    depth: usize,
    deepest: usize,
    in_string: bool,
    is_escaped: bool,
    /// The name of the current member of the message, and the beginning of the current word.
    name: Vec<u8>,
    word: Vec<u8>,
    id: Option<String>,
    has_method: bool,
    has_version: bool,
    has_result: bool,
    has_error: bool,
}

impl Scan {
    fn read(&mut self, mut part: &[u8]) {
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
        // Spaces and a byte order mark may precede the message.
        if self.is_object.is_none()
            && !byte.is_ascii_whitespace()
            && !b"\xef\xbb\xbf".contains(&byte)
        {
            self.is_object = Some(byte == b'{');
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
                // A whole number or text.
                let value = String::from_utf8(value).ok();
                let value = value.filter(|value| {
                    let read = serde_json::from_str::<serde_json::Value>(value);
                    read.is_ok_and(|id| id.is_string() || id.is_number())
                });
                self.id = value;
            }
            b"\"method\"" => self.has_method = true,
            b"\"jsonrpc\"" => self.has_version = value == b"\"2.0\"",
            b"\"result\"" => self.has_result = true,
            b"\"error\"" => self.has_error = true,
            _ => {}
        }
    }

    /// The id of the request that the line answers, if it is an answer.
    fn answers(&self) -> Option<&str> {
        self.id.as_deref().filter(|_| !self.has_method && self.is_object == Some(true))
    }

    /// Whether the protocol can read the line.
    fn is_readable(&self, line: &[u8]) -> bool {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        let Ok(line) = std::str::from_utf8(line) else { return false };
        // A result may be any value.
        match self.has_version && self.has_result && !self.has_error {
            true => serde_json::from_str::<IgnoredAny>(line).is_ok(),
            false => serde_json::from_str::<ServerJsonRpcMessage>(line).is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    /// Reads a text that arrives in two pieces.
    async fn read(text: &[u8], at: usize) -> (String, Option<(usize, String)>) {
        let (first, second) = text.split_at(at);
        let mut lines = Lines::new(first.chain(second));
        let strange = lines.strange();
        let mut all = Vec::new();
        lines.read_to_end(&mut all).await.expect("no pipe fails");
        (String::from_utf8_lossy(&all).into_owned(), strange.known())
    }

    #[tokio::test]
    async fn what_can_be_read_is_passed_on_as_it_is() {
        let text = concat!(
            "Listening on port 3000\n\n",
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"} \\\" , id: \\\\\"}}\n",
            "\u{feff} {\"jsonrpc\": \"2.0\", \"id\": \"x\", \"error\": {\"code\": 1, \"message\": \"m\"}}\r\n",
            "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"odd\",\"params\":7}\n",
            "{\"id\":null,\"result\":1}\n[1]\n{\n",
        );
        for at in 0..=text.len() {
            let (read, strange) = read(text.as_bytes(), at).await;
            assert_eq!(read, text, "{at}");
            assert_eq!(strange, Some((2, "Listening on port 3000".to_owned())), "{at}");
        }
    }

    #[tokio::test]
    async fn an_answer_that_cannot_be_read_says_so_by_its_id() {
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        for (line, id) in [
            (format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{deep}}}"), "7"),
            (format!("{{\"result\":{deep},\"id\":\"a\\\"b\",\"jsonrpc\":\"2.0\"}}"), "\"a\\\"b\""),
            ("{\"id\":7,\"result\":{}}".to_owned(), "7"),
            ("{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{]}".to_owned(), "7"),
            ("{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":\"no\"}".to_owned(), "7"),
        ] {
            for at in 0..=line.len() {
                let (read, _) = read(format!("{line}\n").as_bytes(), at).await;
                let expected = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":");
                assert!(read.starts_with(&expected), "{line}: {read}");
                assert!(read.ends_with("}}\n") && read.lines().count() == 1, "{read}");
                let message = serde_json::from_str::<ServerJsonRpcMessage>(&read);
                assert!(matches!(message, Ok(ServerJsonRpcMessage::Error(_))), "{read}");
            }
        }
        let bytes = b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"\xff\"}\n";
        assert!(read(bytes, 3).await.0.contains("cannot be read"));
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_dropped_and_answered_for_by_its_id() {
        let long = "x".repeat(MOST);
        let next = "{\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{}}\n";
        for (line, said) in [
            (
                format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"{long}\"}}\n"),
                "more than 16 MiB",
            ),
            (format!("{{\"result\":\"{long}\",\"id\":7}}\n"), "more than 16 MiB"),
            (format!("{{\"method\":\"m\",\"id\":7,\"params\":\"{long}\"}}\n"), ""),
            (format!("{long}x\n"), ""),
        ] {
            let (read, _) = read(format!("{line}{next}").as_bytes(), 9).await;
            assert!(read.ends_with(next) && read.contains(said), "{}", read.len());
            assert_eq!(read.len() > next.len(), !said.is_empty());
            assert!(read.len() < 300);
        }
    }
}
