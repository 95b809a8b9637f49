//! The only HTTP client: sends a request body, and returns the answer. `answer` reads the streams.

use std::{
    fmt, io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http_body::Frame;
use reqwest::{
    StatusCode,
    header::{
        ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION,
    },
};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{
    Timeouts, address,
    answer::{AnswerBody, AnswerStream, SILENCE, broken, root},
    connection, credentials, failure,
    in_flight_request::{InFlightRequest, StopFlag},
    recorder::{ExchangeRecord, RecordFile, Tap},
    response_kind::{self, ResponseKind},
    server_quirks::{RequestTraits, ServerQuirk, ServerQuirks},
    timeouts::after,
    tls,
};
use crate::wire::{
    self, AnswerDecoder, Encoded, ModelCapabilities, fault, optional::MemberRefusal,
};
use harness_core::{
    error::{Error, ErrorKind},
    http_client::through_proxy,
    policy::{RetryLoop, RetryPolicy},
    provider::{EventStream, Request, Settings, StreamEvent},
    secret::{CUT, Secrets, beginning},
};

/// The maximum size of the body of an error response, in bytes.
const ERROR_BODY: usize = 256 * 1024;

/// The maximum time to wait for the body of an error response. The status is known before the body.
const ERROR_TIME: Duration = Duration::from_secs(10);

/// The maximum number of bytes that are read to detect the format of a body. A server may first send many bytes without
/// content, such as empty lines.
const FIRST_BYTES: usize = 64 * 1024;

/// The maximum number of times that one request is changed after a refusal. A server may refuse one member after the
/// other.
const LESSONS: usize = 8;

/// The maximum size of an answer that is no stream, in bytes.
const WHOLE_BODY: usize = 64 * 1024 * 1024;

/// What the transport needs from the provider of one vendor.
pub(super) trait HttpVendor: Sync {
    /// The HTTP request that asks the model.
    fn question(&self, request: &Request<'_>) -> Result<HttpRequest, Error>;

    /// A decoder for the answer to this request.
    fn decoder(&self, request: &Request<'_>) -> Box<dyn AnswerDecoder>;
}

/// One request, ready to be sent.
pub(super) struct HttpRequest {
    /// The URL of the request; `None` for the URL of the transport.
    pub(super) url: Option<String>,
    pub(super) headers: HeaderMap,
    pub(super) body: Encoded,
}

impl HttpRequest {
    /// Prepares the request for sending. The request is sent at the first poll, and stopped when `stop` is cancelled.
    fn of(
        self,
        transport: &HttpTransport,
        client: &reqwest::Client,
        stop: Option<&CancellationToken>,
        record: &dyn Fn(&str, &HeaderMap) -> Option<ExchangeRecord>,
    ) -> InFlightRequest {
        let Self { url, mut headers, body } = self;
        headers.insert(CONTENT_LENGTH, body.size().into());
        let (request, record) = match &url {
            None => (client.post(transport.endpoint.clone()), record(&transport.url, &headers)),
            Some(url) => (client.post(url), record(&address::shown(url), &headers)),
        };
        let mut record = record.map(Box::new);
        let stopped = StopFlag::default();
        let mut body = StreamedBody::new(body, stopped.clone());
        body.record = record.as_mut().and_then(|record| record.request());
        let body = reqwest::Body::wrap(body);
        InFlightRequest::new(request.headers(headers).body(body).send(), stop, stopped, record)
    }
}

/// The connections to one provider, and its retry policy.
#[derive(Clone)]
pub(super) struct HttpTransport {
    client: reqwest::Client,
    timeouts: Timeouts,
    /// How long the server may be silent after the stop reason before an answer ends.
    silence: Duration,
    /// The URL of requests.
    endpoint: reqwest::Url,
    /// The URL of requests, in the form that errors show.
    url: Arc<str>,
    /// How errors describe the proxy between the client and the server.
    proxy: Option<Arc<str>>,
    /// The secrets that are removed from every error.
    secrets: Secrets,
    retry: RetryLoop,
    tap: Option<Tap>,
    /// A note for errors with status 404.
    not_found: Option<&'static str>,
}

impl fmt::Debug for HttpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport")
            .field("clocks", &self.timeouts)
            .field("retry", &self.retry.policy)
            .finish_non_exhaustive()
    }
}

impl HttpTransport {
    /// Prepares connections to the server at `url`.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] if `url` is not the URL of an HTTP server, or if TLS or the HTTP client cannot be
    /// set up.
    pub(super) fn build(url: &str, timeouts: Timeouts, secrets: Secrets) -> Result<Self, Error> {
        address::check(url)
            .map_err(|why| Error::new(ErrorKind::Configuration, why).cleaned(&secrets))?;
        let client = connection::keeping(timeouts.connect, tls::shared()?).map_err(|err| {
            Error::new(ErrorKind::Configuration, "the HTTP client cannot be set up")
                .with_source(err)
                .cleaned(&secrets)
        })?;
        let retry = RetryLoop::new(RetryPolicy::default());
        let endpoint = reqwest::Url::parse(url.trim()).map_err(|err| {
            Error::new(ErrorKind::Configuration, "the base URL cannot be read").with_source(err)
        })?;
        let proxy = Some(through_proxy(&endpoint));
        let proxy = proxy.filter(|text| !text.is_empty()).map(Arc::from);
        let url = address::shown(url).into();
        let silence = SILENCE;
        Ok(Self {
            client,
            timeouts,
            silence,
            endpoint,
            url,
            proxy,
            secrets,
            retry,
            tap: None,
            not_found: None,
        })
    }

    pub(super) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    pub(super) fn with_retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = RetryLoop::new(policy);
        self
    }

    /// Sets how long the server may be silent after the stop reason before an answer ends.
    pub(super) fn with_silence(mut self, silence: Option<Duration>) -> Self {
        self.silence = silence.unwrap_or(self.silence);
        self
    }

    /// Adds `note` to errors with status 404.
    pub(super) fn with_note_if_not_found(mut self, note: Option<&'static str>) -> Self {
        self.not_found = note;
        self
    }

    pub(super) fn with_tap(mut self, tap: Tap) -> Self {
        self.tap = Some(tap);
        self
    }

    /// Sends the request, retries it as the policy allows, and reads the answer. Nothing happens before the first poll.
    ///
    /// Some properties of a server become known only by its refusals: see [`ServerQuirks`].
    pub(super) fn ask<'a>(
        &'a self,
        request: Request<'a>,
        vendor: &'a dyn HttpVendor,
        (lessons, takes): (&'a ServerQuirks, &'a ModelCapabilities),
    ) -> EventStream<'a> {
        self.retry.stream(request, move |request| {
            let settings = request.settings();
            let answer = async move {
                let mut learnt: Vec<ServerQuirk> = Vec::new();
                let mut failed: Option<Error> = None;
                loop {
                    let mut sent = lessons.sent(&request);
                    let err = match self.wait_for_start(&request, vendor, &mut sent).await {
                        Err(err) => err,
                        Ok(answer) => {
                            let secrets = self.secrets_with(request.settings());
                            let mut ahead = lessons.take_untold(&secrets);
                            let is_refusal = |it| matches!(it, &ServerQuirk::Thinking(_));
                            if let Some(err) =
                                failed.as_ref().filter(|_| learnt.iter().any(is_refusal))
                            {
                                let cause = secrets.hide(&err.to_string()).into_owned();
                                ahead.push(StreamEvent::ReasoningRefused { cause });
                            }
                            return Ok(answer.behind(ahead));
                        }
                    };
                    let told = lessons.learn(&request, takes, sent, &err);
                    if let (None, Some(before)) = (&told, &failed) {
                        lessons.forget_vain(&learnt, before.last(), &err);
                    }
                    let advice = match told {
                        Some(_) => None,
                        None => MemberRefusal::of(&err).and_then(|refusal| {
                            let body = vendor.question(&request).ok()?.body;
                            refusal.advice(|member| body.has(member))
                        }),
                    };
                    let err = match advice {
                        Some(advice) => err.with_note(advice),
                        None => err,
                    };
                    let err = match failed.take() {
                        None => err,
                        Some(first) => first.with_later(err),
                    };
                    match told {
                        Some((lesson, true)) if learnt.len() < LESSONS => {
                            learnt.push(lesson);
                            failed = Some(err);
                        }
                        // The server refuses the changed request too, so the lessons did not help.
                        Some(_) => {
                            lessons.forget(&learnt);
                            return Err(err);
                        }
                        None => return Err(err),
                    }
                }
            };
            // Data that only the request needed is freed when the answer begins.
            let answer = stream::once(Box::pin(answer));
            Box::pin(answer.try_flatten().map_err(move |err| {
                // The program itself causes errors of configuration or content, so these errors do not name the
                // server's URL.
                let is_ours = err.is_configuration() || err.is_content();
                let err = if is_ours { err } else { err.with_url(&self.url, self.proxy.as_ref()) };
                let err = match self.not_found {
                    Some(note) if err.status() == Some(404) => err.with_note(note),
                    _ => err,
                };
                err.cleaned(&self.secrets_with(settings))
            }))
        })
    }

    /// Sends the request once, and waits for the first event. A router may accept a request that the server behind the
    /// router then refuses. The router reports this refusal in the stream, so the first event can be an error.
    async fn wait_for_start(
        &self,
        request: &Request<'_>,
        vendor: &dyn HttpVendor,
        sent: &mut RequestTraits,
    ) -> Result<Box<AnswerStream>, Error> {
        self.send(request, vendor, sent).await?.wait_for_start().await
    }

    /// Sends the request once.
    async fn send(
        &self,
        request: &Request<'_>,
        vendor: &dyn HttpVendor,
        sent: &mut RequestTraits,
    ) -> Result<Box<AnswerStream>, Error> {
        let whole = after(self.timeouts.whole_call);
        let until = after(self.timeouts.first_event).min(whole);
        let ran_out = |_| self.timeouts.ran_out(whole, 0);
        let record = |url: &str, headers: &HeaderMap| {
            let tap = self.tap.as_ref()?;
            tap.begin(url, headers, self.secrets_with(request.settings()))
        };
        let asked = vendor.question(request)?;
        sent.optional = asked.body.sent();
        let mut line = asked.of(self, &self.client, request.stop(), &record);
        let head = timeout_at(until, connection::send(line.head())).await.map_err(ran_out)?;
        let reconnects = request.reconnects().unwrap_or(self.retry.policy.reconnect);
        let (status, headers) = match head {
            Ok(head) => head,
            Err(lost) if lost.on_kept && reconnects => {
                let client = tls::shared()
                    .ok()
                    .and_then(|tls| connection::fresh(self.timeouts.connect, tls).ok());
                let Some(client) = client else { return Err(self.not_sent(lost.error)) };
                line = vendor.question(request)?.of(self, &client, request.stop(), &record);
                let sent = timeout_at(until, line.head()).await.map_err(ran_out)?;
                sent.map_err(|err| self.not_sent(err))?
            }
            Err(lost) => return Err(self.not_sent(lost.error)),
        };
        let until = if status.is_success() { until } else { until.min(after(ERROR_TIME)) };
        let mut body = Vec::new();
        if status.is_success() {
            let form = self.first(&mut line, &mut body, until, whole).await;
            match form.map_err(|err| failure::with_headers(err, &headers))? {
                ResponseKind::Events if response_kind::compression(&headers).is_none() => {
                    let rest = stream::poll_fn(move |context| line.poll_chunk(context));
                    let body: AnswerBody = Box::pin(stream::iter([Ok(body.into())]).chain(rest));
                    let decoder = vendor.decoder(request);
                    let answer = AnswerStream::new(
                        decoder,
                        Some(body),
                        &headers,
                        self.timeouts,
                        until,
                        whole,
                    );
                    return Ok(answer.with_silence(self.silence));
                }
                ResponseKind::Json if response_kind::compression(&headers).is_none() => {}
                ResponseKind::Events
                | ResponseKind::Json
                | ResponseKind::Other
                | ResponseKind::Undecided => {
                    let err = response_kind::foreign(
                        status.as_u16(),
                        &headers,
                        &self.hidden(&body, request.settings()),
                    );
                    return Err(failure::with_headers(err, &headers));
                }
            }
        }
        let read = self.whole_body(line, status, &mut body, until, whole).await;
        read.map_err(|err| failure::with_headers(err, &headers))?;
        if status.is_success() {
            if let Some(err) = fault::in_success(&body) {
                return Err(failure::with_headers(err, &headers));
            }
            let mut decoder = vendor.decoder(request);
            decoder.push_whole(&body).map_err(|err| match err.kind() {
                ErrorKind::CutOff | ErrorKind::Protocol => response_kind::foreign(
                    status.as_u16(),
                    &headers,
                    &self.hidden(&body, request.settings()),
                )
                .with_source(err),
                _ => err,
            })?;
            return Ok(AnswerStream::new(decoder, None, &headers, self.timeouts, until, whole));
        }
        let mut err = match response_kind::compression(&headers) {
            Some(encoding) => {
                let err = Error::new(ErrorKind::Api, response_kind::compressed(encoding));
                failure::with_headers(err.with_status(status.as_u16()), &headers)
            }
            None => failure::of_answer(
                status.as_u16(),
                &headers,
                self.hidden(&body, request.settings()).as_bytes(),
            ),
        };
        if status.is_redirection() {
            let to = headers.get(LOCATION).and_then(|to| to.to_str().ok()).map(address::shown);
            let to = to.map(|to| format!(" to `{}`", beginning(&to, 300))).unwrap_or_default();
            err = Error::new(
                ErrorKind::Api,
                format!(
                    "the server redirects{to}, and a key is not sent to another address: set \
                     the base URL to the server's address"
                ),
            )
            .with_status(status.as_u16())
            .with_source(err);
        }
        Err(err)
    }

    /// The secrets to remove from errors of a request with these settings.
    fn secrets_with(&self, settings: Option<&Settings>) -> Secrets {
        let own = settings.map(|settings| credentials::of_settings(settings, Vec::new()));
        let own = own.unwrap_or_default();
        if own.is_empty() { self.secrets.clone() } else { self.secrets.clone().and(&own) }
    }

    /// The text of a body with its secrets removed. Secrets are removed before a part of the text is quoted, because
    /// half a key would not be recognized. If the text ends with the beginning of a key, that beginning is replaced
    /// too, because the end of the body may be cut off.
    fn hidden(&self, body: &[u8], settings: Option<&Settings>) -> String {
        let text = format!("{}{CUT}", String::from_utf8_lossy(body));
        let secrets = self.secrets_with(settings);
        let hidden = secrets.hide(&text);
        hidden.strip_suffix(CUT).unwrap_or(&hidden).to_owned()
    }

    /// Reads the beginning of a successful response until the bytes show its format.
    async fn first(
        &self,
        line: &mut InFlightRequest,
        body: &mut Vec<u8>,
        until: Instant,
        whole: Instant,
    ) -> Result<ResponseKind, Error> {
        loop {
            let came = timeout_at(until, line.chunk()).await;
            let came = came.map_err(|_| self.timeouts.ran_out(whole, 0))?.map_err(broken)?;
            let Some(bytes) = came else { return Ok(ResponseKind::Undecided) };
            body.extend_from_slice(&bytes);
            match ResponseKind::of(body) {
                ResponseKind::Undecided if body.len() < FIRST_BYTES => {}
                form => return Ok(form),
            }
        }
    }

    /// Reads the body of a response that is no stream. An incomplete body of an error response is accepted, because the
    /// status matters most.
    async fn whole_body(
        &self,
        mut line: InFlightRequest,
        status: StatusCode,
        body: &mut Vec<u8>,
        until: Instant,
        whole: Instant,
    ) -> Result<(), Error> {
        let is_answer = status.is_success();
        loop {
            match timeout_at(until, line.chunk()).await {
                Ok(Ok(Some(bytes))) => body.extend_from_slice(&bytes),
                Ok(Ok(None)) => return Ok(()),
                Ok(Err(_)) | Err(_) if !is_answer => return Ok(()),
                Ok(Err(err)) => return Err(broken(err)),
                Err(_) => return Err(self.timeouts.ran_out(whole, 0)),
            }
            if !is_answer && body.len() > ERROR_BODY {
                return Ok(());
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
                format!("the server was not reached within {:?}", self.timeouts.connect),
            )
            .with_source(err);
        }
        if err.is_builder() {
            let text = format!("the request cannot be made: {}", root(&err));
            return Error::new(ErrorKind::Configuration, text).with_source(err);
        }
        let what = match err.is_connect() {
            true => "the server was not reached",
            false => "the connection broke before an answer began",
        };
        let is_refused = harness_core::tls::has_refused_certificate(&err);
        let error =
            Error::new(ErrorKind::Connect, format!("{what}: {}", root(&err))).with_source(err);
        // Another try would get the same certificate.
        if is_refused { error.with_should_retry(false) } else { error }
    }
}

/// The maximum number of pieces that are written in a row. Without a limit, a fast server would keep the thread busy
/// until the whole body is sent, and the run could not be stopped before.
const IN_A_ROW: u32 = 8;

/// A request body that is written piece by piece on demand, until the request is stopped.
struct StreamedBody {
    body: wire::BodyPieces,
    /// The number of bytes still to be written.
    left: usize,
    in_a_row: u32,
    stopped: StopFlag,
    home: BufferPool,
    record: Option<RecordFile>,
}

impl StreamedBody {
    fn new(body: Encoded, stopped: StopFlag) -> Self {
        let (left, body) = (body.size(), body.into_pieces());
        Self { body, left, in_a_row: 0, stopped, home: BufferPool::default(), record: None }
    }
}

/// The buffers of sent pieces. They are reused because they are still in the processor's cache.
type BufferPool = Arc<Mutex<Vec<Vec<u8>>>>;

/// A piece that is being sent. When dropped, it returns its buffer to the pool.
struct SentPiece {
    bytes: Vec<u8>,
    length: usize,
    home: BufferPool,
}

impl AsRef<[u8]> for SentPiece {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

impl Drop for SentPiece {
    fn drop(&mut self) {
        let mut home = self.home.lock().unwrap_or_else(PoisonError::into_inner);
        home.push(std::mem::take(&mut self.bytes));
    }
}

impl http_body::Body for StreamedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Self { body, left, in_a_row, stopped, home, record } = &mut *self;
        if *left == 0 {
            return Poll::Ready(None);
        }
        if stopped.is_set() {
            // An incomplete body makes the connection unusable, so the client closes it.
            return Poll::Ready(Some(Err(io::Error::other("the request was stopped"))));
        }
        if *in_a_row == IN_A_ROW {
            *in_a_row = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        *in_a_row += 1;
        let used = home.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut bytes = used.unwrap_or_else(|| vec![0; body.room()]);
        let length = body.write(&mut bytes);
        *left = left.saturating_sub(length);
        if let Some(record) = record {
            record.write(bytes.get(..length).unwrap_or_default());
        }
        let piece = SentPiece { bytes, length, home: Arc::clone(home) };
        Poll::Ready((length > 0).then(|| Ok(Frame::data(Bytes::from_owner(piece)))))
    }
}

/// The headers of every request. Without `accept-encoding`, the server could use any compression.
pub(super) fn json_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers
}

/// A header with a secret value. The value is marked as sensitive, so it is not printed.
pub(super) fn secret_header(prefix: &str, key: &SecretString) -> Result<HeaderValue, Error> {
    let mut value =
        HeaderValue::from_str(&format!("{prefix}{}", key.expose_secret())).map_err(|_| {
            Error::new(
                ErrorKind::Configuration,
                "the key contains a character that is not allowed in a header, perhaps a line break",
            )
        })?;
    value.set_sensitive(true);
    Ok(value)
}

/// The headers that the program has set.
pub(super) fn headers(own: &[(String, String)]) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    for (name, value) in own {
        let wrong = || {
            Error::new(
                ErrorKind::Configuration,
                format!("`{name}` with its value is not a valid header"),
            )
        };
        let name: HeaderName = name.parse().map_err(|_| wrong())?;
        let mut value: HeaderValue = value.parse().map_err(|_| wrong())?;
        value.set_sensitive(harness_core::secret::is_secret_name(name.as_str()));
        headers.insert(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use std::{
        pin::Pin,
        task::{Context, Poll, Waker},
    };

    use http_body::Body as _;

    use super::{IN_A_ROW, StopFlag, StreamedBody};
    use crate::wire::{Encoded, chat};
    use harness_core::{
        message::{Message, Transcript},
        provider::Request,
    };

    fn body(size: usize) -> Encoded {
        let mut said = Transcript::default();
        said.push(Message::user("x".repeat(size))).unwrap();
        let request = Request::new(&said).unwrap();
        chat::encode_pieces(&request, &chat::Options::new("m")).unwrap()
    }

    /// The size of the next piece in bytes; `None` if the body waits, and `0` at its end.
    fn next(pieces: &mut StreamedBody) -> Option<Result<usize, String>> {
        match Pin::new(pieces).poll_frame(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => None,
            Poll::Ready(None) => Some(Ok(0)),
            Poll::Ready(Some(Ok(frame))) => Some(Ok(frame.into_data().unwrap().len())),
            Poll::Ready(Some(Err(err))) => Some(Err(err.to_string())),
        }
    }

    #[test]
    fn others_have_a_turn_after_some_pieces_and_all_is_written() {
        let body = body(5_000_000);
        let size = body.size();
        let mut pieces = StreamedBody::new(body, StopFlag::default());
        let (mut written, mut in_a_row, mut pauses) = (0, 0, 0);
        loop {
            match next(&mut pieces) {
                None => (in_a_row, pauses) = (0, pauses + 1),
                Some(piece) => match piece.unwrap() {
                    0 => break,
                    length => (written, in_a_row) = (written + length, in_a_row + 1),
                },
            }
            assert!(in_a_row <= IN_A_ROW);
        }
        assert_eq!(written, size);
        assert!(pauses > 10, "{pauses} pauses");
    }

    #[test]
    fn nothing_more_is_written_once_the_request_is_stopped() {
        let stopped = StopFlag::default();
        let mut pieces = StreamedBody::new(body(100_000), stopped.clone());
        assert!(next(&mut pieces).unwrap().unwrap() > 0);
        stopped.set();
        assert_eq!(next(&mut pieces), Some(Err("the request was stopped".to_owned())));
    }

    #[test]
    fn a_body_that_is_written_is_whole_also_if_the_request_is_stopped_then() {
        let stopped = StopFlag::default();
        let mut pieces = StreamedBody::new(body(10), stopped.clone());
        assert!(next(&mut pieces).unwrap().unwrap() > 0);
        stopped.set();
        assert_eq!(next(&mut pieces), Some(Ok(0)));
    }
}
