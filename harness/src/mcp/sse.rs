//! Reads the events of a stream, and asks for a stream of them. The SDK's own reader ends a stream at lines that the standard
//! ignores.
//!
//! Source: <https://html.spec.whatwg.org/multipage/server-sent-events.html>, section 9.2.6.

use std::{collections::VecDeque, future, sync::Arc};

use futures_util::{StreamExt as _, stream};
use reqwest::{Client, Response, StatusCode};
use rmcp::transport::{
    common::client_side_sse::BoxedSseResponse,
    streamable_http_client::{AuthRequiredError, HttpStatusError, InsufficientScopeError},
};
use sse_stream::{Error, Sse};

use super::post::{EVENTS, Failed, Headers, challenge, has_type, unexpected, wait, with};

/// The events of an answer. In place of one that is too large, `end` is read, and then the stream ends; without an `end`,
/// nothing more comes.
pub(super) fn events(answer: Response, most: usize, end: Option<String>) -> BoxedSseResponse {
    let answer = Some(answer);
    let reader = Reader { answer, end, lines: Lines::new(most) };
    stream::unfold(reader, |mut reader| async { Some((reader.next().await?, reader)) }).boxed()
}

struct Reader {
    answer: Option<Response>,
    end: Option<String>,
    lines: Lines,
}

impl Reader {
    async fn next(&mut self) -> Option<Result<Sse, Error>> {
        loop {
            if let Some(event) = self.lines.events.pop_front() {
                return Some(Ok(event));
            }
            if std::mem::take(&mut self.lines.is_exceeded) {
                self.answer = None;
                return match self.end.take() {
                    Some(end) => Some(Ok(Sse::default().data(end.trim()))),
                    // At the end of the stream, the server would be asked for the event again.
                    None => future::pending().await,
                };
            }
            match self.answer.as_mut()?.chunk().await {
                Ok(Some(piece)) => self.lines.read(&piece),
                Ok(None) => self.answer = None,
                Err(err) => {
                    self.answer = None;
                    return Some(Err(Error::Body(Box::new(err))));
                }
            }
        }
    }
}

/// The lines of a stream, and the events that they are.
struct Lines {
    most: usize,
    /// The current line, of which a comment is not kept.
    line: Vec<u8>,
    is_first: bool,
    is_after_return: bool,
    /// The current event.
    event: Option<Sse>,
    /// The size of the current event so far, without comments.
    size: usize,
    /// Whether an event was larger than `most`. Nothing is read any more.
    is_exceeded: bool,
    events: VecDeque<Sse>,
}

impl Lines {
    fn new(most: usize) -> Self {
        Self {
            most,
            line: Vec::new(),
            is_first: true,
            is_after_return: false,
            event: None,
            size: 0,
            is_exceeded: false,
            events: VecDeque::new(),
        }
    }

    fn read(&mut self, mut piece: &[u8]) {
        while let Some((first, rest)) = piece.split_first() {
            // Two bytes may end one line.
            if std::mem::take(&mut self.is_after_return) && *first == b'\n' {
                piece = rest;
                continue;
            }
            let end = memchr::memchr2(b'\n', b'\r', piece);
            let (part, rest) = piece.split_at(end.unwrap_or(piece.len()));
            self.keep(part);
            if self.is_exceeded {
                return;
            }
            piece = rest;
            if let Some((end, rest)) = rest.split_first() {
                self.is_after_return = *end == b'\r';
                self.end_line();
                piece = rest;
            }
        }
    }

    /// Counts a part of a line, and keeps it.
    fn keep(&mut self, part: &[u8]) {
        if self.line.first().or(part.first()) == Some(&b':') {
            self.line = vec![b':'];
            return;
        }
        self.size = self.size.saturating_add(part.len());
        self.is_exceeded = self.size > self.most;
        if !self.is_exceeded {
            self.line.extend_from_slice(part);
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = match std::mem::take(&mut self.is_first) {
            true => line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line),
            false => &line,
        };
        if line.is_empty() {
            self.size = 0;
            self.events.extend(self.event.take());
            return;
        }
        // A line without a colon is a field without a value.
        let (name, value) = match memchr::memchr(b':', line) {
            Some(0) => return,
            Some(at) => {
                (line.get(..at).unwrap_or_default(), line.get(at + 1..).unwrap_or_default())
            }
            None => (line, &[][..]),
        };
        self.size = self.size.saturating_add(1);
        self.is_exceeded = self.size > self.most;
        let value = value.strip_prefix(b" ").unwrap_or(value);
        self.field(name, value);
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        let text = String::from_utf8_lossy(value);
        let mut event = self.event.take().unwrap_or_default();
        match name {
            b"data" => match &mut event.data {
                Some(data) => data.extend(["\n", &text]),
                None => event.data = Some(text.into_owned()),
            },
            b"event" => event.event = Some(text.into_owned()),
            b"id" if !value.contains(&0) => event.id = Some(text.into_owned()),
            b"retry" => {
                let wait = text.trim();
                let is_number = wait.bytes().all(|byte| byte.is_ascii_digit());
                let wait = wait.parse().ok().filter(|_| is_number);
                event.retry = wait.or(event.retry);
            }
            _ => {}
        }
        self.event = Some(event).filter(|event| *event != Sse::default());
    }
}

/// A request for a stream of events.
pub(super) struct Get {
    pub(super) uri: Arc<str>,
    pub(super) session: Option<Arc<str>>,
    /// The id of the event after which the stream goes on.
    pub(super) last: Option<String>,
    pub(super) token: Option<String>,
    pub(super) headers: Headers,
    pub(super) most: usize,
    /// What is read in place of an event that is too large.
    pub(super) end: Option<String>,
}

impl Get {
    pub(super) async fn send(self, client: &Client) -> Result<BoxedSseResponse, Failed> {
        let Self { uri, session, last, token, headers, most, end } = self;
        let mut request = with(client.get(&*uri), session, token, headers)?;
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let answer = request.send().await?;
        let status = answer.status();
        match (status, challenge(answer.headers())) {
            (StatusCode::METHOD_NOT_ALLOWED, _) => Err(Failed::ServerDoesNotSupportSse),
            (StatusCode::UNAUTHORIZED, Some(challenge)) => {
                Err(Failed::AuthRequired(AuthRequiredError::new(challenge)))
            }
            (StatusCode::FORBIDDEN, Some(challenge)) => {
                Err(Failed::InsufficientScope(InsufficientScopeError::new(challenge, None)))
            }
            _ if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() => {
                Err(HttpStatusError::new(status.as_u16(), wait(answer.headers())).into())
            }
            _ if !status.is_success() => Err(unexpected(format!("HTTP {status}"))),
            _ if !has_type(answer.headers(), EVENTS) => Err(Failed::UnexpectedContentType(None)),
            _ => Ok(events(answer, most, end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read of a text that arrives in two pieces.
    fn read(text: &str, at: usize, most: usize) -> (Vec<Sse>, bool) {
        let (first, second) = text.as_bytes().split_at(at);
        let mut lines = Lines::new(most);
        lines.read(first);
        if !lines.is_exceeded {
            lines.read(second);
        }
        (lines.events.into(), lines.is_exceeded)
    }

    #[test]
    fn the_lines_of_one_event_count_together_and_comments_do_not() {
        for end in ["\n", "\r", "\r\n"] {
            let line = format!("data: 12345{end}");
            let event = format!("{line}{line}{end}");
            let events = event.repeat(9);
            let comments = format!(": {}{end}{event}", "x".repeat(100));
            for (text, count, exceeds) in [
                (&events, 9, false),
                (&comments, 1, false),
                (&format!("{line}{line}{line}"), 0, true),
                (&"x".repeat(31), 0, true),
                (&format!("data:{end}").repeat(9), 0, true),
            ] {
                for at in 0..=text.len() {
                    let (events, is_exceeded) = read(text, at, 30);
                    assert_eq!((events.len(), is_exceeded), (count, exceeds), "{text:?} {at}");
                    for event in events {
                        assert_eq!(event, Sse::default().data("12345\n12345"), "{text:?} {at}");
                    }
                }
            }
        }
    }

    #[test]
    fn fields_are_read_as_the_standard_says() {
        let data = |text: &str| Sse::default().data(text);
        for (text, expected) in [
            ("\u{feff}data: a\n\n", vec![data("a")]),
            ("\u{feff}\n\ndata:  a\ndata\ndata:b: c\n\n", vec![data(" a\n\nb: c")]),
            ("data\n\nid\n\n", vec![data(""), Sse::default().id("")]),
            ("retry: 7\nretry: +8\nretry: x\nretry\n\n", vec![Sse::default().retry(7)]),
            ("retry: 99999999999999999999\n\nother: x\n\nother\n\n : x\n\n", vec![]),
            ("id: a\u{0}b\n\n{\"a\": 1}\n\n:\n\n: x\n\n", vec![]),
            ("event: a\nevent: b\nid: 1\nid: 2\n\n", vec![Sse::default().event("b").id("2")]),
            ("data: a\n\ndata: b\n", vec![data("a")]),
        ] {
            for at in 0..=text.len() {
                assert_eq!(read(text, at, 1000), (expected.clone(), false), "{text:?} {at}");
            }
        }
    }
}
