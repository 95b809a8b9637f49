//! Requests streams of server-sent events, and passes their events on. The SDK's own reader ends a stream at lines that
//! the standard ignores.

use std::{collections::VecDeque, future, sync::Arc};

use futures_util::{StreamExt as _, stream};
use reqwest::{Client, Response, StatusCode};
use rmcp::transport::{
    common::client_side_sse::BoxedSseResponse,
    streamable_http_client::{AuthRequiredError, HttpStatusError, InsufficientScopeError},
};
use sse_stream::{Error, Sse};

use harness_core::sse::SseParser;

use super::post::{EVENTS, HttpError, RequestHeaders, challenge, has_type, unexpected, wait, with};

/// The events of a response. If an event is larger than `most` bytes, the stream passes on `end` in place of the event,
/// and then ends. If `end` is `None`, the stream stays open without further events.
pub(super) fn events(answer: Response, most: usize, end: Option<String>) -> BoxedSseResponse {
    let answer = Some(answer);
    let reader = EventReader { answer, end, events: EventBuffer::new(most), is_exceeded: false };
    stream::unfold(reader, |mut reader| async { Some((reader.next().await?, reader)) }).boxed()
}

struct EventReader {
    answer: Option<Response>,
    end: Option<String>,
    events: EventBuffer,
    /// Whether an event was too large.
    is_exceeded: bool,
}

impl EventReader {
    async fn next(&mut self) -> Option<Result<Sse, Error>> {
        loop {
            if let Some(event) = self.events.read.pop_front() {
                return Some(Ok(event));
            }
            if std::mem::take(&mut self.is_exceeded) {
                self.answer = None;
                return match self.end.take() {
                    Some(end) => Some(Ok(Sse::default().data(end.trim()))),
                    // If the stream ended here, the SDK would request the same event again.
                    None => future::pending().await,
                };
            }
            match self.answer.as_mut()?.chunk().await {
                Ok(Some(piece)) => self.is_exceeded = self.events.push(&piece).is_err(),
                Ok(None) => self.answer = None,
                // A broken stream ends like a complete stream: the SDK then resumes the stream after the wait that the
                // server has set. After an error, the SDK would resume at once, again and again.
                Err(_) => self.answer = None,
            }
        }
    }
}

/// The events of a stream that are parsed and not yet passed on.
struct EventBuffer {
    parser: SseParser,
    /// The last values of `id` and `retry` that were passed on.
    told: (Option<Vec<u8>>, Option<u64>),
    read: VecDeque<Sse>,
}

impl EventBuffer {
    fn new(most: usize) -> Self {
        Self { parser: SseParser::new(most), told: (None, None), read: VecDeque::new() }
    }

    /// Parses the events in a chunk. New values of `id` and `retry` without data are passed on as an event too, because
    /// the SDK needs them to resume a stream.
    ///
    /// # Errors
    /// Fails if an event is too large. Do not call this method after a failure.
    fn push(&mut self, piece: &[u8]) -> Result<(), harness_core::error::Error> {
        let Self { parser, told, read } = self;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let result = parser.push(piece, |record| {
            told.0 = record.id.map(<[u8]>::to_vec);
            read.push_back(Sse {
                event: Some(text(record.event)).filter(|event| !event.is_empty()),
                data: Some(text(record.data)),
                id: record.id.map(text),
                retry: None,
            });
            Ok(())
        });
        let now = (parser.last_id().map(<[u8]>::to_vec), parser.retry());
        if *told != now {
            let id = now.0.as_deref().map(text);
            read.push_back(Sse { id, retry: now.1, ..Sse::default() });
            *told = now;
        }
        result
    }
}

/// A request for a stream of events.
pub(super) struct StreamRequest {
    pub(super) uri: Arc<str>,
    pub(super) session: Option<Arc<str>>,
    /// The id of the event after which the stream is resumed.
    pub(super) last: Option<String>,
    pub(super) token: Option<String>,
    pub(super) headers: RequestHeaders,
    pub(super) most: usize,
    /// The data to pass on in place of an event that is too large.
    pub(super) end: Option<String>,
}

impl StreamRequest {
    pub(super) async fn send(self, client: &Client) -> Result<BoxedSseResponse, HttpError> {
        let Self { uri, session, last, token, headers, most, end } = self;
        let mut request = with(client.get(&*uri), session, token, headers)?;
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let answer = request.send().await?;
        let status = answer.status();
        match (status, challenge(answer.headers())) {
            (StatusCode::METHOD_NOT_ALLOWED, _) => Err(HttpError::ServerDoesNotSupportSse),
            (StatusCode::UNAUTHORIZED, Some(challenge)) => {
                Err(HttpError::AuthRequired(AuthRequiredError::new(challenge)))
            }
            (StatusCode::FORBIDDEN, Some(challenge)) => {
                Err(HttpError::InsufficientScope(InsufficientScopeError::new(challenge, None)))
            }
            _ if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() => {
                Err(HttpStatusError::new(status.as_u16(), wait(answer.headers())).into())
            }
            _ if !status.is_success() => Err(unexpected(format!("HTTP {status}"))),
            _ if !has_type(answer.headers(), EVENTS) => Err(HttpError::UnexpectedContentType(None)),
            _ => Ok(events(answer, most, end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        pin::Pin,
        task::{Context, Poll},
    };

    use bytes::Bytes;
    use http_body::{Body, Frame};
    use hyper::http;

    use super::*;

    /// The events in a text that arrives in two chunks.
    fn read(text: &str, at: usize, most: usize) -> (Vec<Sse>, bool) {
        let (first, second) = text.as_bytes().split_at(at);
        let mut events = EventBuffer::new(most);
        let is_exceeded = events.push(first).and_then(|()| events.push(second)).is_err();
        (events.read.into(), is_exceeded)
    }

    #[test]
    fn an_event_has_a_size_and_a_comment_has_none() {
        for end in ["\n", "\r", "\r\n"] {
            let event = format!("data: 1234567890{end}{end}");
            let comments = format!(": {}{end}{event}", "x".repeat(100));
            let large = format!("{event}data: {}{end}{end}{event}", "x".repeat(30));
            for (text, count, exceeds) in [
                (&event.repeat(9), 9, false),
                (&comments, 1, false),
                (&comments.repeat(9), 9, false),
                (&large, 1, true),
                (&"x".repeat(31), 0, true),
                (&format!("data:{end}").repeat(40), 0, true),
            ] {
                for at in 0..=text.len() {
                    let (events, is_exceeded) = read(text, at, 30);
                    assert_eq!((events.len(), is_exceeded), (count, exceeds), "{text:?} {at}");
                }
            }
        }
    }

    /// A body that breaks off after one event.
    struct Broken(Option<&'static [u8]>);

    impl Body for Broken {
        type Data = Bytes;
        type Error = io::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
            let event = self.0.take().map(|event| Frame::data(Bytes::from_static(event)));
            Poll::Ready(Some(event.ok_or_else(|| io::ErrorKind::ConnectionReset.into())))
        }
    }

    /// After an error, the SDK would request the rest at once, again and again.
    #[tokio::test]
    async fn a_stream_that_breaks_off_ends_without_an_error() {
        let body = reqwest::Body::wrap(Broken(Some(b"id: 7\nretry: 60000\ndata: a\n\ndata: b\n")));
        let answer = Response::from(http::Response::new(body));
        let read: Vec<_> = events(answer, 1000, None).collect().await;
        let read: Vec<Sse> = read.into_iter().map(Result::unwrap).collect();
        assert_eq!(read, [Sse::default().data("a").id("7"), Sse::default().id("7").retry(60_000)]);
    }

    #[test]
    fn fields_are_read_as_the_standard_says() {
        let data = |text: &str| Sse::default().data(text);
        let by = |text: &str, id: &str| data(text).id(id);
        for (text, expected) in [
            ("\u{feff}data: a\n\n", vec![data("a")]),
            ("\u{feff}\n\ndata:  a\ndata\ndata:b: c\n\n", vec![data(" a\n\nb: c")]),
            ("\u{feff}: \u{feff}data: a\n\ndata: b\n\n", vec![data("b")]),
            ("id: 1\ndata: a\n\ndata: b\n\n", vec![by("a", "1"), by("b", "1")]),
            ("data: a\nid: 1\n\nid: 2\ndata: b\n\n", vec![by("a", "1"), by("b", "2")]),
            ("id: 1\nid: 2\n\n", vec![Sse::default().id("2")]),
            // An incomplete event has no id, because it is requested again.
            ("data: a\n\nid: 1\ndata: b\n", vec![data("a")]),
            ("data: a\n\nid: 1\n", vec![data("a")]),
            ("retry: 7\nretry: +8\nretry: x\nretry\n\n", vec![Sse::default().retry(7)]),
            ("retry: 99999999999999999999\n\nother: x\n\nother\n\n : x\n\n", vec![]),
            ("id: a\u{0}b\n\n{\"a\": 1}\n\n:\n\n: x\n\n", vec![]),
            ("event: a\nevent: b\ndata: c\n\n", vec![data("c").event("b")]),
            ("data: a\n\ndata: b\n", vec![data("a")]),
        ] {
            for at in 0..=text.len() {
                assert_eq!(read(text, at, 1000), (expected.clone(), false), "{text:?} {at}");
            }
        }
    }
}
