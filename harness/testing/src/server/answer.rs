//! One answer of the loopback server: its content, how it is sent, and its faults. `connection` sends
//! it over a socket.

use std::{fmt, time::Duration};

use serde_json::Value;

use crate::Gate;

/// A place in an answer: before anything is sent, or after a number of bytes of the body.
///
/// A number is a place in the body: `answer.cut_at(120)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Point {
    /// Before the status line.
    BeforeHead,
    /// After the head and this many bytes of the body, or at its end if it is shorter.
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
    /// Sorted by place, and at one place in the order in which they were added.
    pub(super) marks: Vec<(Point, AnswerMark)>,
}

/// How the client learns where the body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyFraming {
    Length,
    Chunked,
    UntilClosed,
}

/// What happens at a place.
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

    /// A stream of server-sent events with status 200, in chunks as vendors send it.
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

    /// Sends the body in chunks, so that the client notices a body that is cut off.
    #[must_use]
    pub fn chunked(mut self) -> Self {
        self.framing = BodyFraming::Chunked;
        self
    }

    /// Sends the length of the body first, so that the client notices a body that is cut off. This
    /// is the default of a body that is sent in one piece.
    #[must_use]
    pub fn with_length(mut self) -> Self {
        self.framing = BodyFraming::Length;
        self
    }

    /// Ends the body by closing the connection, so that a body that is cut off looks complete.
    #[must_use]
    pub fn until_closed(mut self) -> Self {
        self.framing = BodyFraming::UntilClosed;
        self
    }

    /// Closes the connection when the answer is complete, without announcing it in the head. Servers
    /// do this whose worker serves one request, and all servers after a while. A client that kept
    /// the connection notices it with its next request. Add the header `connection: close` to
    /// announce it.
    #[must_use]
    pub fn then_close(mut self) -> Self {
        self.closes = true;
        self
    }

    /// Sends the body in pieces of `size` bytes, with a pause after each except the last. Each piece
    /// is a packet (and a chunk) of its own. A size of 0 counts as 1.
    #[must_use]
    pub fn in_pieces(mut self, bytes: usize, pause: Duration) -> Self {
        self.piece = Some((bytes.max(1), pause));
        self
    }

    /// Leaves out the rest of the body from this byte on, and still ends the body properly, as a
    /// proxy does that has lost its upstream server. Compare [`cut_at`](Self::cut_at).
    #[must_use]
    pub fn end_at(mut self, byte: usize) -> Self {
        self.body.truncate(byte);
        self
    }

    /// Pauses at this place.
    #[must_use]
    pub fn pause_at(self, place: impl Into<Point>, time: Duration) -> Self {
        self.mark(place, AnswerMark::Pause(time))
    }

    /// Waits at this place until the test opens the gate.
    #[must_use]
    pub fn wait_at(self, place: impl Into<Point>, gate: &Gate) -> Self {
        self.mark(place, AnswerMark::Wait(gate.clone()))
    }

    /// Sends nothing more from this place on, and keeps the connection open.
    #[must_use]
    pub fn stall_at(self, place: impl Into<Point>) -> Self {
        self.mark(place, AnswerMark::Stall)
    }

    /// Closes the connection at this place, without ending the answer.
    #[must_use]
    pub fn cut_at(self, place: impl Into<Point>) -> Self {
        self.mark(place, AnswerMark::Cut)
    }

    /// Resets the connection (TCP RST) at this place. Bytes that were sent before may not arrive,
    /// because the reset can overtake them.
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
