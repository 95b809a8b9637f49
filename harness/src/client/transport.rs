//! The one socket: sends a body, reads the answer through a wire's decoder, and keeps the clocks.

use std::{collections::VecDeque, convert::Infallible, fmt, sync::Once, time::Duration};

use futures_util::{FutureExt as _, StreamExt as _, stream};
use reqwest::{
    Response,
    header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::{Instant, timeout_at};

use super::{Clocks, failure};
use crate::{
    error::{Error, ErrorKind},
    provider::{EventStream, StreamEvent},
    wire::{Decoder, Dialect, Encoded, fault},
};

/// An error's body is read up to this many bytes.
const ERROR_BODY: usize = 256 * 1024;

/// An error's body is waited for so long: its status is known already.
const ERROR_TIME: Duration = Duration::from_secs(10);

/// An answer in one piece is read up to this many bytes.
const WHOLE_BODY: usize = 64 * 1024 * 1024;

/// What follows a complete answer is read up to this many bytes and this long, so that the
/// connection can be used again.
const REST: (usize, Duration) = (64 * 1024, Duration::from_millis(100));

/// One question, ready to be sent.
pub(super) struct Question {
    pub(super) url: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Encoded,
}

/// The connections to one provider.
#[derive(Clone)]
pub(super) struct Transport {
    client: reqwest::Client,
    clocks: Clocks,
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("clocks", &self.clocks).finish_non_exhaustive()
    }
}

impl Transport {
    pub(super) fn build(clocks: Clocks) -> Result<Self, Error> {
        install_tls();
        let client = reqwest::Client::builder()
            // The policy above sees every try.
            .retry(reqwest::retry::never())
            // A key is not carried to another address.
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(clocks.connect)
            .build()
            .map_err(|err| {
                Error::new(ErrorKind::Configuration, "the HTTP client cannot be set up")
                    .because(err)
            })?;
        Ok(Self { client, clocks })
    }

    /// Asks, and reads the answer. Nothing happens before the first poll.
    pub(super) fn ask<'a, D: Dialect + Send + 'a>(
        &'a self,
        question: Result<Question, Error>,
        decoder: Decoder<D>,
    ) -> EventStream<'a> {
        let state = State::Ask(Box::new(question), decoder);
        let heard = stream::unfold(state, |state| self.step(state));
        // One step reads what one piece of the answer says: hundreds of events when they come fast.
        Box::pin(heard.flat_map(|Heard { events, failed }| {
            stream::iter(events.into_iter().map(Ok).chain(failed.map(Err)))
        }))
    }

    async fn step<D: Dialect>(&self, mut state: State<D>) -> Option<(Heard, State<D>)> {
        loop {
            state = match state {
                State::Ask(question, mut decoder) => {
                    match self.send(*question, &mut decoder).await {
                        Ok(reading) => State::Read(Box::new(reading), decoder),
                        Err(err) => return Some((Heard::nothing_but(err), State::Done)),
                    }
                }
                State::Read(mut reading, mut decoder) => {
                    let failed = self.read(&mut reading, &mut decoder).await.err();
                    let events = decoder.take_events();
                    if decoder.is_complete() {
                        reading.glance();
                        return Some((Heard { events, failed: None }, State::Rest(reading)));
                    }
                    if failed.is_some() {
                        return Some((Heard { events, failed }, State::Done));
                    }
                    if !events.is_empty() {
                        return Some((Heard { events, failed }, State::Read(reading, decoder)));
                    }
                    State::Read(reading, decoder)
                }
                State::Rest(reading) => {
                    reading.drain().await;
                    return None;
                }
                State::Done => return None,
            };
        }
    }

    async fn send<D: Dialect>(
        &self,
        question: Result<Question, Error>,
        decoder: &mut Decoder<D>,
    ) -> Result<Reading, Error> {
        let Question { url, mut headers, body } = question?;
        headers.insert(CONTENT_LENGTH, body.size().into());
        let pieces = body.into_pieces().into_iter().map(Ok::<_, Infallible>);
        let body = reqwest::Body::wrap_stream(stream::iter(pieces));
        let whole = after(self.clocks.whole_call);
        let until = after(self.clocks.first_event).min(whole);
        let request = self.client.post(&url).headers(headers).body(body);
        let response = match timeout_at(until, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(err)) => return Err(self.not_sent(err)),
            Err(_) => return Err(self.ran_out(whole, 0)),
        };
        let status = response.status();
        let is_json = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.to_ascii_lowercase().contains("json"));
        let headers = response.headers().clone();
        if status.is_success() && !is_json {
            let response = Some(response);
            return Ok(Reading { response, headers, until, whole, rest: 0 });
        }
        let until = if status.is_success() { until } else { until.min(after(ERROR_TIME)) };
        let body = whole_body(response, until).await?;
        if status.is_success() {
            if let Some(err) = fault::in_success(&body) {
                return Err(failure::with_headers(err, &headers));
            }
            decoder.push_whole(&body).map_err(|err| match err.kind() {
                ErrorKind::Interrupted => unstreamed().because(err),
                _ => err,
            })?;
            return Ok(Reading { response: None, headers, until, whole, rest: 0 });
        }
        let mut err = failure::of_answer(status.as_u16(), &headers, &body);
        if status.is_redirection() {
            err = err.because("the address redirects elsewhere, and a key is not carried there");
        }
        Err(err)
    }

    /// Reads the next bytes into the decoder.
    async fn read<D: Dialect>(
        &self,
        reading: &mut Reading,
        decoder: &mut Decoder<D>,
    ) -> Result<(), Error> {
        let Some(response) = &mut reading.response else {
            decoder.finish()?;
            return Ok(());
        };
        match timeout_at(reading.until, response.chunk()).await {
            Ok(Ok(Some(bytes))) => {
                let heard = decoder.heard();
                let result = decoder.push(&bytes);
                if decoder.heard() > heard {
                    reading.until = after(self.clocks.between_events).min(reading.whole);
                }
                result.map_err(|err| reading.told(err))
            }
            Ok(Ok(None)) => {
                reading.response = None;
                decoder.finish().map_err(|err| reading.told(err))
            }
            Ok(Err(err)) => {
                reading.response = None;
                // What came is whole if it says so; only then the broken end does not matter.
                match decoder.finish() {
                    Ok(()) => Ok(()),
                    Err(_) => Err(reading.told(
                        Error::new(
                            ErrorKind::Interrupted,
                            "the connection broke before the answer was complete",
                        )
                        .because(err.without_url()),
                    )),
                }
            }
            Err(_) => {
                reading.response = None;
                Err(reading.told(self.ran_out(reading.whole, decoder.heard())))
            }
        }
    }

    fn not_sent(&self, err: reqwest::Error) -> Error {
        let err = err.without_url();
        if err.is_timeout() {
            return Error::new(
                ErrorKind::Timeout,
                format!("the server was not reached within {:?}", self.clocks.connect),
            )
            .because(err);
        }
        if err.is_builder() {
            return Error::new(
                ErrorKind::Configuration,
                "the request cannot be made: is the base URL an `http` or `https` address?",
            )
            .because(err);
        }
        Error::new(ErrorKind::Connect, "the server was not reached, or it closed the connection")
            .because(err)
    }

    /// The error of the clock that ran out.
    fn ran_out(&self, whole: Instant, heard: u64) -> Error {
        let Clocks { connect: _, first_event, between_events, whole_call } = self.clocks;
        let words = match heard {
            _ if Instant::now() >= whole => {
                format!("the answer was not complete after {whole_call:?}")
            }
            0 => format!("the server said nothing for {first_event:?}"),
            _ => format!("the answer stopped coming: no event for {between_events:?}"),
        };
        Error::new(ErrorKind::Timeout, words)
    }
}

enum State<D> {
    Ask(Box<Result<Question, Error>>, Decoder<D>),
    Read(Box<Reading>, Decoder<D>),
    Rest(Box<Reading>),
    Done,
}

/// What was heard at once: events, and what failed after them.
struct Heard {
    events: VecDeque<StreamEvent>,
    failed: Option<Error>,
}

impl Heard {
    fn nothing_but(err: Error) -> Self {
        Self { events: VecDeque::new(), failed: Some(err) }
    }
}

/// An answer that is being read.
struct Reading {
    response: Option<Response>,
    headers: HeaderMap,
    /// When the next event must be here.
    until: Instant,
    /// When all of it must be here.
    whole: Instant,
    /// Bytes read after the end of the answer.
    rest: usize,
}

impl Reading {
    /// An error inside the stream, with the id under which the vendor knows the answer.
    fn told(&self, err: Error) -> Error {
        if err.request_id().is_some() {
            return err;
        }
        let id = ["request-id", "x-request-id"].iter().find_map(|name| self.headers.get(*name));
        match id.and_then(|id| id.to_str().ok()) {
            Some(id) => err.with_request_id(id),
            None => err,
        }
    }

    /// Takes what is there already of the rest, without waiting: mostly that is the end, and the
    /// connection is free again although nobody polls on.
    fn glance(&mut self) {
        while let Some(response) = &mut self.response {
            match response.chunk().now_or_never() {
                Some(Ok(Some(bytes))) if self.rest < REST.0 => {
                    self.rest = self.rest.saturating_add(bytes.len());
                }
                Some(_) => self.response = None,
                None => return,
            }
        }
    }

    /// Reads the rest, so that the connection can be used again; not for ever.
    async fn drain(mut self: Box<Self>) {
        let until = Instant::now() + REST.1;
        while let Some(response) = &mut self.response {
            match timeout_at(until, response.chunk()).await {
                Ok(Ok(Some(bytes))) if self.rest < REST.0 => {
                    self.rest = self.rest.saturating_add(bytes.len());
                }
                _ => self.response = None,
            }
        }
    }
}

/// The moment when this time is over. A time without end is one that nobody lives to see.
fn after(time: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    Instant::now() + time.min(CENTURY)
}

/// The body of an answer that is no stream. What does not come any more is left out: the status
/// says what matters.
async fn whole_body(mut response: Response, until: Instant) -> Result<Vec<u8>, Error> {
    let limit = if response.status().is_success() { WHOLE_BODY } else { ERROR_BODY };
    let mut body = Vec::new();
    while let Ok(Ok(Some(bytes))) = timeout_at(until, response.chunk()).await {
        body.extend_from_slice(&bytes);
        if body.len() > limit && !response.status().is_success() {
            break;
        }
        if body.len() > limit {
            return Err(Error::new(ErrorKind::TooLarge, "the answer in one piece is too large"));
        }
    }
    Ok(body)
}

/// A success that is neither a stream nor an answer in one piece.
fn unstreamed() -> Error {
    Error::new(
        ErrorKind::Protocol,
        "the server answered with JSON that is no answer: does the address lead to a server that \
         speaks this protocol?",
    )
}

/// The TLS provider must be there before the first client is made.
fn install_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Failing means that the program has chosen one already, which is its right.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// What every request says of its body.
pub(super) fn json_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers
}

/// A header whose value is secret and does not print.
pub(super) fn secret_header(prefix: &str, key: &SecretString) -> Result<HeaderValue, Error> {
    let mut value =
        HeaderValue::from_str(&format!("{prefix}{}", key.expose_secret())).map_err(|_| {
            Error::new(
                ErrorKind::Configuration,
                "the key holds a character that cannot stand in a header: a line break, perhaps",
            )
        })?;
    value.set_sensitive(true);
    Ok(value)
}

/// The user's own headers.
pub(super) fn headers(own: &[(String, String)]) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    for (name, value) in own {
        let wrong = || {
            Error::new(
                ErrorKind::Configuration,
                format!("`{name}` with the value given for it is no valid header"),
            )
        };
        let name: HeaderName = name.parse().map_err(|_| wrong())?;
        headers.insert(name, value.parse().map_err(|_| wrong())?);
    }
    Ok(headers)
}
