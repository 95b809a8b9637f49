//! An answer of the loopback server: its content, its timing and its failures.

use std::{fmt, time::Duration};

use serde_json::Value;

use crate::Gate;

/// A position in an answer: before anything is sent, or after a number of bytes of the body.
///
/// A number converts to a position in the body: `answer.cut_at(120)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Point {
    /// Before the status line.
    BeforeHead,
    /// After the head and this many bytes of the body. In a shorter body, this position is the end.
    Byte(usize),
}

impl From<usize> for Point {
    fn from(byte: usize) -> Self {
        Self::Byte(byte)
    }
}

/// One answer of a [`LoopbackServer`](super::LoopbackServer).
///
/// ```
/// use std::time::Duration;
///
/// use harness::testing::{Answer, Point};
/// use serde_json::json;
///
/// let plain = Answer::json(200, &json!({"ok": true})).header("x-request-id", "req_1");
/// let slow = Answer::sse("data: 1\n\ndata: 2\n\n").in_pieces(3, Duration::from_millis(5));
/// let torn = Answer::sse("data: 1\n\ndata: 2\n\n").cut_at(12);
/// let mute = Answer::empty(200).stall_at(Point::BeforeHead);
/// # let _ = (plain, slow, torn, mute);
/// ```
#[derive(Clone)]
pub struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    pub(super) framing: BodyFraming,
    pub(super) piece: Option<(usize, Duration)>,
    pub(super) closes: bool,
    /// Sorted by position. Marks at the same position have the order in which they were added.
    pub(super) marks: Vec<(Point, AnswerMark)>,
}

/// How the end of the body is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyFraming {
    Length,
    Chunked,
    UntilClosed,
}

/// What happens at a position in the answer.
#[derive(Clone, Debug)]
pub(super) enum AnswerMark {
    Pause(Duration),
    Wait(Gate),
    Stall,
    Cut,
    Reset,
}

impl Answer {
    /// An answer without a body.
    pub fn empty(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
            framing: BodyFraming::Length,
            piece: None,
            closes: false,
            marks: Vec::new(),
        }
    }

    /// An answer with this body and this content type.
    pub fn bytes(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let mut answer = Self::empty(status).header("content-type", content_type);
        answer.body = body.into();
        answer
    }

    /// An answer with this JSON as its body.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::bytes(status, "application/json", body.to_string())
    }

    /// A stream of server-sent events with status 200. Like vendors, it uses chunked transfer encoding.
    pub fn sse(body: impl Into<Vec<u8>>) -> Self {
        Self::bytes(200, "text/event-stream; charset=utf-8", body).chunked()
    }

    /// Sets the status.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Uses chunked transfer encoding, so that a client notices a truncated body.
    #[must_use]
    pub fn chunked(mut self) -> Self {
        self.framing = BodyFraming::Chunked;
        self
    }

    /// Sends a `content-length`, so that a client notices a truncated body. This is the default, except for
    /// [`sse`](Self::sse).
    #[must_use]
    pub fn with_length(mut self) -> Self {
        self.framing = BodyFraming::Length;
        self
    }

    /// Marks the end of the body by closing the connection, so that a truncated body looks complete.
    #[must_use]
    pub fn until_closed(mut self) -> Self {
        self.framing = BodyFraming::UntilClosed;
        self
    }

    /// Closes the connection after the complete answer, without an announcement in the head. Some servers close a
    /// connection after each request, and all servers close a connection after some time. A client that keeps
    /// connections notices the close when it sends its next request. To announce the close, add the header `connection:
    /// close`.
    #[must_use]
    pub fn then_close(mut self) -> Self {
        self.closes = true;
        self
    }

    /// Sends the body in pieces of `bytes` bytes, each in its own packet (and chunk), with a pause after each piece
    /// except the last. A size of 0 counts as 1.
    #[must_use]
    pub fn in_pieces(mut self, bytes: usize, pause: Duration) -> Self {
        self.piece = Some((bytes.max(1), pause));
        self
    }

    /// Truncates the body at this byte, and ends the answer properly, like a proxy that has lost its upstream server.
    /// Compare [`cut_at`](Self::cut_at).
    #[must_use]
    pub fn end_at(mut self, byte: usize) -> Self {
        self.body.truncate(byte);
        self
    }

    /// Pauses at this position.
    #[must_use]
    pub fn pause_at(self, place: impl Into<Point>, time: Duration) -> Self {
        self.mark(place, AnswerMark::Pause(time))
    }

    /// Waits at this position until the test opens the gate.
    #[must_use]
    pub fn wait_at(self, place: impl Into<Point>, gate: &Gate) -> Self {
        self.mark(place, AnswerMark::Wait(gate.clone()))
    }

    /// Sends nothing after this position, and keeps the connection open.
    #[must_use]
    pub fn stall_at(self, place: impl Into<Point>) -> Self {
        self.mark(place, AnswerMark::Stall)
    }

    /// Closes the connection at this position, without ending the answer properly.
    #[must_use]
    pub fn cut_at(self, place: impl Into<Point>) -> Self {
        self.mark(place, AnswerMark::Cut)
    }

    /// Resets the connection (TCP RST) at this position. Bytes before this position may not arrive, because the reset
    /// can overtake them.
    #[must_use]
    pub fn reset_at(self, place: impl Into<Point>) -> Self {
        self.mark(place, AnswerMark::Reset)
    }

    fn mark(mut self, place: impl Into<Point>, mark: AnswerMark) -> Self {
        let place = place.into();
        let at = self.marks.partition_point(|(other, _)| *other <= place);
        self.marks.insert(at, (place, mark));
        self
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} bytes", self.status, self.body.len())?;
        self.marks.iter().try_for_each(|(place, mark)| write!(f, ", {mark:?} at {place:?}"))
    }
}
