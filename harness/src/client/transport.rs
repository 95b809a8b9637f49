//! The one socket: sends a body, and hands on what answers it. How a stream is read is in `answer`.

use std::{
    convert::Infallible,
    fmt, mem,
    pin::Pin,
    sync::{
        Once,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
    vec,
};

use bytes::Bytes;
use futures_util::{TryStreamExt as _, stream};
use http_body::Frame;
use reqwest::{
    Response,
    header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::{Instant, timeout_at};

use super::{
    Clocks,
    answer::{Answer, Body, broken},
    clocks::after,
    connection, credentials, failure,
};
use crate::{
    error::{Error, ErrorKind},
    policy::{Retry, RetryPolicy},
    provider::{EventStream, Request},
    secret::Secrets,
    wire::{Decoder, Dialect, Encoded, fault},
};

/// An error's body is read up to this many bytes.
const ERROR_BODY: usize = 256 * 1024;

/// An error's body is waited for so long: its status is known already.
const ERROR_TIME: Duration = Duration::from_secs(10);

/// An answer in one piece is read up to this many bytes.
const WHOLE_BODY: usize = 64 * 1024 * 1024;

/// What a provider may learn of its server from a refusal. The question is another one then, and is asked
/// once more at once; the refusal is not counted as a try.
#[derive(Clone, Copy)]
pub(super) struct Lesson<'a> {
    /// Whether it was learnt.
    pub(super) learnt: &'a AtomicBool,
    /// Whether this refusal of this request tells it.
    pub(super) tells: fn(&Request<'_>, &Error) -> bool,
}

/// One question, ready to be sent.
pub(super) struct Question {
    pub(super) url: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Encoded,
}

impl Question {
    /// Sends it. Nothing happens before the first poll.
    fn of(self, client: &reqwest::Client) -> impl Future<Output = reqwest::Result<Response>> {
        let Self { url, mut headers, body } = self;
        headers.insert(CONTENT_LENGTH, body.size().into());
        let body = reqwest::Body::wrap(Pieces(body.into_pieces().into_iter()));
        client.post(&url).headers(headers).body(body).send()
    }
}

/// The connections to one provider, and how often it is asked.
#[derive(Clone)]
pub(super) struct Transport {
    client: reqwest::Client,
    clocks: Clocks,
    /// What no error may say.
    secrets: Secrets,
    retry: Retry,
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport")
            .field("clocks", &self.clocks)
            .field("retry", &self.retry.policy)
            .finish_non_exhaustive()
    }
}

impl Transport {
    pub(super) fn build(clocks: Clocks, secrets: Secrets) -> Result<Self, Error> {
        install_tls();
        let client = connection::keeping(clocks.connect).map_err(|err| {
            Error::new(ErrorKind::Configuration, "the HTTP client cannot be set up")
                .because(err)
                .cleaned(&secrets)
        })?;
        Ok(Self { client, clocks, secrets, retry: Retry::new(RetryPolicy::default()) })
    }

    pub(super) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    pub(super) fn with_retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = Retry::new(policy);
        self
    }

    /// Asks, as often as the policy allows, and reads the answer. Nothing happens before the first
    /// poll.
    ///
    /// What the server wants of a request may be known only by what it refuses: see [`Lesson`].
    pub(super) fn ask<'a, D: Dialect + Send + 'a>(
        &'a self,
        request: Request<'a>,
        question: impl Fn(&Request<'a>) -> Result<Question, Error> + Copy + Send + Sync + 'a,
        decoder: impl Fn() -> Decoder<D> + Copy + Send + 'a,
        lesson: Option<Lesson<'a>>,
    ) -> EventStream<'a> {
        self.retry.stream(request, move |request| {
            let answer = async move {
                let open = lesson.filter(|lesson| !lesson.learnt.load(Ordering::Relaxed));
                let answer = self.send(request.clone(), question, decoder).await;
                match (answer, open) {
                    (Err(err), Some(lesson)) if (lesson.tells)(&request, &err) => {
                        lesson.learnt.store(true, Ordering::Relaxed);
                        let again = self.send(request, question, decoder).await;
                        again.map_err(|later| err.followed_by(later))
                    }
                    (answer, _) => answer,
                }
            };
            // What was needed to ask is given back when the answer begins.
            let answer = stream::once(Box::pin(answer));
            Box::pin(answer.try_flatten().map_err(|err| err.cleaned(&self.secrets)))
        })
    }

    /// Asks once.
    async fn send<'a, D: Dialect>(
        &self,
        request: Request<'a>,
        question: impl Fn(&Request<'a>) -> Result<Question, Error>,
        decoder: impl Fn() -> Decoder<D>,
    ) -> Result<Answer<D>, Error> {
        let whole = after(self.clocks.whole_call);
        let until = after(self.clocks.first_event).min(whole);
        let ran_out = |_| self.clocks.ran_out(whole, 0);
        let sending = connection::send(question(&request)?.of(&self.client));
        let sent = timeout_at(until, sending).await.map_err(ran_out)?;
        let reconnects = request.reconnects().unwrap_or(self.retry.policy.reconnect);
        let mut response = match sent {
            Ok(response) => response,
            Err(lost) if lost.on_kept && reconnects => {
                let client = connection::fresh(self.clocks.connect);
                let client = client.map_err(|_| self.not_sent(lost.error))?;
                let sending = question(&request)?.of(&client);
                let sent = timeout_at(until, sending).await.map_err(ran_out)?;
                sent.map_err(|err| self.not_sent(err))?
            }
            Err(lost) => return Err(self.not_sent(lost.error)),
        };
        let status = response.status();
        let is_json = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.to_ascii_lowercase().contains("json"));
        let headers = mem::take(response.headers_mut());
        if status.is_success() && !is_json {
            let body: Body = Box::pin(stream::unfold(response, async |mut response| {
                response.chunk().await.transpose().map(|came| (came, response))
            }));
            return Ok(Answer::new(decoder(), Some(body), &headers, self.clocks, until, whole));
        }
        let until = if status.is_success() { until } else { until.min(after(ERROR_TIME)) };
        let body = self.whole_body(response, until, whole).await;
        let body = body.map_err(|err| failure::with_headers(err, &headers))?;
        if status.is_success() {
            if let Some(err) = fault::in_success(&body) {
                return Err(failure::with_headers(err, &headers));
            }
            let mut decoder = decoder();
            decoder.push_whole(&body).map_err(|err| match err.kind() {
                ErrorKind::Interrupted => unstreamed().because(err),
                _ => err,
            })?;
            return Ok(Answer::new(decoder, None, &headers, self.clocks, until, whole));
        }
        // What a server says is quoted in part, and half a key would not be known as one any more.
        let body = self.secrets.hide(&String::from_utf8_lossy(&body)).into_owned();
        let mut err = failure::of_answer(status.as_u16(), &headers, body.as_bytes());
        if status.is_redirection() {
            err = err.because("the address redirects elsewhere, and a key is not carried there");
        }
        Err(err)
    }

    /// The body of an answer that is no stream. Of an error, what does not come any more is left
    /// out: the status says what matters.
    async fn whole_body(
        &self,
        mut response: Response,
        until: Instant,
        whole: Instant,
    ) -> Result<Vec<u8>, Error> {
        let is_answer = response.status().is_success();
        let mut body = Vec::new();
        loop {
            match timeout_at(until, response.chunk()).await {
                Ok(Ok(Some(bytes))) => body.extend_from_slice(&bytes),
                Ok(Ok(None)) => return Ok(body),
                Ok(Err(_)) | Err(_) if !is_answer => return Ok(body),
                Ok(Err(err)) => return Err(broken(err)),
                Err(_) => return Err(self.clocks.ran_out(whole, 0)),
            }
            if !is_answer && body.len() > ERROR_BODY {
                return Ok(body);
            }
            if is_answer && body.len() > WHOLE_BODY {
                return Err(Error::new(
                    ErrorKind::TooLarge,
                    "the answer in one piece is too large",
                ));
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
}

/// A success that is neither a stream nor an answer in one piece.
fn unstreamed() -> Error {
    Error::new(
        ErrorKind::Protocol,
        "the server answered with JSON that is no answer: does the address lead to a server that \
         speaks this protocol?",
    )
}

/// What is sent, as it was put together.
struct Pieces(vec::IntoIter<Bytes>);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.next().map(|piece| Ok(Frame::data(piece))))
    }
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
        let mut value: HeaderValue = value.parse().map_err(|_| wrong())?;
        value.set_sensitive(credentials::is_secret_header(name.as_str()));
        headers.insert(name, value);
    }
    Ok(headers)
}
