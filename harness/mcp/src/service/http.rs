//! A service over streamable HTTP.

use std::{
    borrow::Cow,
    convert::Infallible,
    fmt,
    pin::{Pin, pin},
    sync::Arc,
    task,
    time::Duration,
};

use ::http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode,
    header::{CONTENT_TYPE, HOST, RETRY_AFTER},
    request::Parts,
};
use bytes::{Buf as _, Bytes};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::{body::Incoming, service::service_fn};
use rmcp::{
    ServerHandler,
    model::JsonRpcError,
    transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService},
};
use serde::{Deserialize, de::IgnoredAny};
use tokio::{
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{
    McpService,
    connections::{ConnectionLimit, HttpConnection, TimedSocket, UnreadResponse},
    pipes::{ambiguous, refused, too_many},
    service_handler::ServiceHandler,
    sessions::ServiceSessions,
};
use harness_core::error::Error;

/// The maximum number of concurrent requests of [`McpService::serve_http`]. Requests that only listen do not count.
const REQUESTS: usize = 256;

/// The maximum number of requests that only listen to the service's messages.
const LISTENING: usize = 512;

/// The maximum number of accepted messages above the limits for requests. Only messages that may end requests are
/// accepted: the end of a session, notifications, and responses of the client.
const ENDING: usize = 16;

/// The maximum number of connections. The limit is above the limits for requests, so that further requests get an error
/// response.
const CONNECTIONS: usize = REQUESTS + LISTENING + 64;

/// The time limit for receiving the head of a request.
const HEAD: Duration = Duration::from_secs(10);

/// The time limit for receiving the body of a request. Without this limit, clients that never complete a body would
/// hold all connections for ever.
const BODY: Duration = Duration::from_secs(30);

/// The memory for all bodies that are being read, in KiB. The first [`SMALL`] bytes of each body do not count.
const READING: usize = 128 * 1024;

/// The number of bytes of a body that need no share of [`READING`]. So small requests are read even while slow clients
/// send large requests.
const SMALL: usize = 64 * 1024;

/// The memory for all parsed requests that have not ended, in KiB.
const PARSED: usize = 256 * 1024;

/// The number of copies of a request's text in memory. The body is the first copy. Parsing, checks and calls copy the
/// strings of the request.
const COPIES: usize = 4;

/// The memory that one value of a request needs while it is parsed, in bytes. The types of the SDK copy a value several
/// times.
const VALUE: usize = 300;

/// The maximum memory of a request that starts a session, in bytes. The limit is separate, because a session keeps the
/// client's description of itself until the session ends.
const BEGINNING: usize = 256 * 1024;

/// The size of a connection's buffer, in bytes: enough for the head of a request and for small messages.
const BUFFER: usize = 64 * 1024;

type HttpAnswer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// An MCP service over streamable HTTP, for a program's own HTTP server: a [`tower_service::Service`] over requests of
/// the crate `http` with any body. The program provides TLS, authorisation and the path.
///
/// With axum, `Router::new().route_service("/mcp", service.http()?)`; with hyper,
/// `hyper_util::service::TowerToHyperService::new(service.http()?)`.
///
/// Clones serve the same sessions. When the last clone is dropped, all sessions end and their calls are stopped.
pub struct McpHttp<H> {
    inner: StreamableHttpService<Arc<ServiceHandler<H>>, ServiceSessions>,
    sessions: Arc<ServiceSessions>,
    /// The maximum size of a request's body, in bytes.
    request: usize,
    reading: Arc<Semaphore>,
    parsed: Arc<Semaphore>,
    _end: Arc<tokio_util::sync::DropGuard>,
}

impl<H> Clone for McpHttp<H> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            sessions: Arc::clone(&self.sessions),
            request: self.request,
            reading: Arc::clone(&self.reading),
            parsed: Arc::clone(&self.parsed),
            _end: Arc::clone(&self._end),
        }
    }
}

impl<H> fmt::Debug for McpHttp<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpHttp").finish_non_exhaustive()
    }
}

impl<H: ServerHandler> McpService<H> {
    /// Creates the service for a program's own HTTP server.
    ///
    /// # Errors
    /// Fails if a tool is not valid, if two tools have the same name, if a value that a tool needs is missing, or if a
    /// setting is not valid.
    pub fn http(self) -> Result<McpHttp<H>, Error> {
        let end = CancellationToken::new();
        let config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(self.settings.hosts.clone())
            .with_allowed_origins(self.settings.origins.clone())
            // Without this call, an empty list would allow all origins.
            .enforce_origin_validation()
            .with_max_request_body_bytes(self.settings.request)
            .with_cancellation_token(end.clone());
        let request = self.settings.request;
        let sessions = Arc::new(ServiceSessions::new(self.settings.resuming));
        let serving = Arc::new(self.serving()?);
        let start = move || Ok(Arc::clone(&serving));
        Ok(McpHttp {
            inner: StreamableHttpService::new(start, Arc::clone(&sessions), config),
            sessions,
            request,
            reading: Arc::new(Semaphore::new(READING)),
            parsed: Arc::new(Semaphore::new(PARSED)),
            _end: Arc::new(end.drop_guard()),
        })
    }

    /// Serves clients over HTTP at the path `/mcp` of this listener, until the future is dropped. There is no TLS and
    /// no authentication, so listen only on a local address such as `127.0.0.1:8080`.
    ///
    /// The service handles 256 requests at the same time, and 512 further requests that only listen, such as
    /// `subscriptions/listen`. Further requests get status 503, but a client can always end a session or cancel a call.
    /// If there are too many connections, the connection that has waited longest for a complete request is closed. The
    /// service disconnects a client that reads nothing of its answer for 30 seconds. If more than 64 MiB of answers are
    /// unread, the service disconnects such clients earlier.
    ///
    /// # Errors
    /// Fails for the same reasons as [`http`](Self::http). If a connection cannot be accepted, the service continues.
    pub async fn serve_http(self, listener: TcpListener) -> Result<(), Error> {
        let (places, http) = (RequestSlots::new(REQUESTS, LISTENING, ENDING), self.http()?);
        let connections = ConnectionLimit::new(CONNECTIONS);
        let mut tasks = JoinSet::new();
        loop {
            while tasks.try_join_next().is_some() {}
            let Ok((socket, _)) = listener.accept().await else {
                // All file descriptors may be in use. Closing a connection frees a descriptor.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let Some(connection) = connections.enter().await else { return Ok(()) };
            // Without this option, a small answer can wait 40 ms for the client's acknowledgement of the previous
            // answer. If the option cannot be set, answers are only slower.
            let _ = socket.set_nodelay(true);
            let routed = Arc::new(RoutedService {
                http: http.clone(),
                places: places.clone(),
                connection: connection.clone(),
            });
            let service = service_fn(move |request: Request<Incoming>| {
                let routed = Arc::clone(&routed);
                async move { Ok::<_, Infallible>(routed.answer(request).await) }
            });
            tasks.spawn(async move {
                let io = hyper_util::rt::TokioIo::new(TimedSocket::new(socket));
                let mut server = hyper::server::conn::http1::Builder::new();
                server.timer(hyper_util::rt::TokioTimer::new()).header_read_timeout(HEAD);
                server.max_buf_size(BUFFER);
                // An error concerns only this client.
                let serving = server.serve_connection(io, service);
                tokio::select! {
                    _ = serving => {}
                    () = connection.wait_for_eviction() => {}
                }
            });
        }
    }
}

impl<H, B> tower_service::Service<Request<B>> for McpHttp<H>
where
    H: ServerHandler,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: fmt::Display,
{
    type Response = HttpAnswer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<HttpAnswer, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> task::Poll<Result<(), Infallible>> {
        task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            Ok(match service.read(body).await {
                Ok(body) => service.answer(head, body).await,
                Err(refused) => *refused,
            })
        })
    }
}

impl<H: ServerHandler> McpHttp<H> {
    /// Reads a body, or returns the error response.
    async fn read<B>(&self, body: B) -> Result<Bytes, Box<HttpAnswer>>
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: fmt::Display,
    {
        let reading = async {
            let mut body = pin!(body);
            let (mut read, mut share) = (Vec::<u8>::new(), None::<OwnedSemaphorePermit>);
            while let Some(frame) = body.frame().await {
                let broken = |_| {
                    boxed_text_answer(StatusCode::BAD_REQUEST, "the body of the request broke off")
                };
                let Ok(mut data) = frame.map_err(broken)?.into_data() else { continue };
                let bytes = read.len().saturating_add(data.remaining());
                if bytes > self.request {
                    let why = "the body of the request is too large";
                    return Err(boxed_text_answer(StatusCode::PAYLOAD_TOO_LARGE, why));
                }
                if bytes > read.capacity() {
                    let capacity = read.capacity().saturating_mul(2).max(bytes).min(self.request);
                    let held = share.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
                    let needed = (capacity.saturating_sub(SMALL) / 1024).min(READING);
                    let more = share_of(&self.reading, needed.saturating_sub(held))
                        .ok_or_else(|| Box::new(busy("large requests")))?;
                    match &mut share {
                        Some(share) => share.merge(more),
                        None => share = Some(more),
                    }
                    read.reserve_exact(capacity.saturating_sub(read.len()));
                }
                while data.has_remaining() {
                    let part = data.chunk();
                    read.extend_from_slice(part);
                    let length = part.len();
                    data.advance(length);
                }
            }
            read.shrink_to_fit();
            Ok(Bytes::from(read))
        };
        tokio::time::timeout(BODY, reading).await.unwrap_or_else(|_| {
            let why = "the body of the request did not come in time";
            Err(boxed_text_answer(StatusCode::REQUEST_TIMEOUT, why))
        })
    }

    async fn answer(&self, mut head: Parts, body: Bytes) -> HttpAnswer {
        if !has_one_host(&head) {
            return text_answer(StatusCode::BAD_REQUEST, "the request names two hosts");
        }
        let memory = match too_many(&body) {
            Ok(values) => {
                let text = body.len().saturating_mul(COPIES);
                text.saturating_add(values.saturating_mul(VALUE))
            }
            Err(refused) => return unreadable(Some(refused)),
        };
        if memory > BEGINNING && is_initialize(&body) {
            let why = "the request that begins a session is too large";
            return text_answer(StatusCode::PAYLOAD_TOO_LARGE, why);
        }
        // The share is stored in the request, so the memory is released when the last part of the request is dropped.
        match share_of(&self.parsed, (memory / 1024).min(PARSED)) {
            Some(share) => head.extensions.insert(Arc::new(share)),
            None => return busy("large requests"),
        };
        // The body is checked for every media type, because other JSON parsers may read the body differently.
        if let Some(refused) = ambiguous(&body) {
            return unreadable(Some(refused));
        }
        let is_over = head.method == Method::GET && is_over(&head.headers, &self.sessions);
        let is_json = is_json(&head.headers);
        let request = Request::from_parts(head, Full::new(body.clone()));
        let answer = self.inner.handle(request).await;
        if is_over && answer.status() == StatusCode::OK {
            return text_answer(StatusCode::GONE, "the answer is not kept any more");
        }
        if is_json && answer.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            return unreadable(refused(&body));
        }
        answer.map(|body| body.boxed_unsync())
    }
}

/// Takes a share of the memory for all requests, in KiB; `None` if there is not enough.
fn share_of(memory: &Arc<Semaphore>, size: usize) -> Option<OwnedSemaphorePermit> {
    let size = u32::try_from(size).unwrap_or(u32::MAX);
    Arc::clone(memory).try_acquire_many_owned(size).ok()
}

fn boxed_text_answer(status: StatusCode, why: &'static str) -> Box<HttpAnswer> {
    Box::new(text_answer(status, why))
}

/// The response to a request for which no slot or memory is free.
fn busy(what: &str) -> HttpAnswer {
    let why = format!("too many {what} are served; try again later");
    let mut answer = text_answer(StatusCode::SERVICE_UNAVAILABLE, why);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

/// Whether the request names at most one host. With two hosts, the service could check one host, while a proxy uses the
/// other.
///
/// Source: RFC 9112, section 3.2.
fn has_one_host(head: &Parts) -> bool {
    let mut hosts = head.headers.get_all(HOST).iter();
    let (host, another) = (hosts.next(), hosts.next());
    let meant = head.uri.authority();
    let differs = host.zip(meant).is_some_and(|(host, meant)| {
        !host.as_bytes().eq_ignore_ascii_case(meant.as_str().as_bytes())
    });
    another.is_none() && !differs
}

/// Whether the request asks for the rest of a stream that has ended. The SDK would answer with an empty stream, and the
/// client would ask again.
fn is_over(headers: &HeaderMap, sessions: &ServiceSessions) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let asked = text("mcp-session-id").zip(text("last-event-id"));
    asked.is_some_and(|(session, event)| sessions.is_over(session, event))
}

/// Whether the body is declared to be JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// The response to a body that is no message, with status 400
/// (<https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server>).
fn unreadable(refused: Option<Box<JsonRpcError>>) -> HttpAnswer {
    let told = refused.and_then(|refused| serde_json::to_vec(&refused).ok());
    let mut answer = text_answer(StatusCode::BAD_REQUEST, told.unwrap_or_default());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

#[derive(Clone)]
struct RequestSlots {
    requests: Arc<Semaphore>,
    listening: Arc<Semaphore>,
    ending: Arc<Semaphore>,
}

impl RequestSlots {
    fn new(requests: usize, listening: usize, ending: usize) -> Self {
        let places = |number| Arc::new(Semaphore::new(number));
        let (requests, listening) = (places(requests), places(listening));
        Self { requests, listening, ending: places(ending) }
    }

    /// Takes the slot for a request, if one is free. Requests that only listen have their own slots: their streams can
    /// stay open for days, and must not take the slot of a call.
    fn of(&self, head: &Parts) -> Option<OwnedSemaphorePermit> {
        let method = head.headers.get("mcp-method");
        let listens = head.method == Method::GET
            || method.is_some_and(|method| method == "subscriptions/listen");
        let places = if listens { &self.listening } else { &self.requests };
        Arc::clone(places).try_acquire_owned().ok()
    }

    /// Takes a reserved slot for a request that found no free slot. Only a request that may free a slot gets a reserved
    /// slot: the end of a session, or a message that needs no answer.
    fn of_ending(&self, method: &Method, body: &[u8]) -> Option<OwnedSemaphorePermit> {
        let ends = match *method {
            Method::DELETE => true,
            Method::POST => needs_no_answer(body),
            _ => false,
        };
        Arc::clone(&self.ending).try_acquire_owned().ok().filter(|_| ends)
    }
}

/// Whether a body is a notification, or a response to a request of the service.
fn needs_no_answer(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Members {
        method: Option<IgnoredAny>,
        id: Option<IgnoredAny>,
        result: Option<IgnoredAny>,
        error: Option<IgnoredAny>,
    }
    let Ok(Members { method, id, result, error }) = serde_json::from_slice(body) else {
        return false;
    };
    match method {
        Some(_) => id.is_none(),
        None => result.is_some() || error.is_some(),
    }
}

/// Whether a body is the request that starts a session.
fn is_initialize(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Members<'b> {
        #[serde(borrow)]
        method: Cow<'b, str>,
    }
    serde_json::from_slice::<Members<'_>>(body).is_ok_and(|it| it.method == "initialize")
}

/// A response body that keeps its slot until the response was sent.
struct SlottedBody {
    body: UnsyncBoxBody<Bytes, Infallible>,
    unread: UnreadResponse,
    _place: OwnedSemaphorePermit,
}

impl Body for SlottedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        // The connection polls for the next part after it has sent nearly all of the previous part.
        self.unread.sent();
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if let task::Poll::Ready(Some(Ok(frame))) = &frame {
            self.unread.add_part(frame.data_ref().map_or(0, Bytes::len));
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The text for a person who opens the path `/`.
const FRONT: &str = "Tools for clients of the Model Context Protocol are served at /mcp of this address. Give a \
                     client that whole address, such as http://127.0.0.1:8080/mcp. A browser shows nothing there.\n";

/// A service at the path `/mcp`, for one connection.
struct RoutedService<H> {
    http: McpHttp<H>,
    places: RequestSlots,
    connection: HttpConnection,
}

impl<H: ServerHandler> RoutedService<H> {
    async fn answer<B>(&self, request: Request<B>) -> HttpAnswer
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: fmt::Display,
    {
        match request.uri().path() {
            "/mcp" => {}
            // A person has opened the address.
            "/" => return text_answer(StatusCode::OK, FRONT),
            _ => return text_answer(StatusCode::NOT_FOUND, "the path is /mcp"),
        }
        let (head, body) = request.into_parts();
        // The body is read first: if a connection is closed with an unread body, the client can lose the response.
        let body = match self.http.read(body).await {
            Ok(body) => body,
            Err(refused) => return *refused,
        };
        let place = self.places.of(&head);
        let place = place.or_else(|| self.places.of_ending(&head.method, &body));
        let Some(place) = place else { return busy("requests") };
        let unread = self.connection.begin_request();
        let answer = self.http.answer(head, body).await;
        answer.map(|body| SlottedBody { body, unread, _place: place }.boxed_unsync())
    }
}

fn text_answer(status: StatusCode, text: impl Into<Bytes>) -> HttpAnswer {
    let mut answer = Response::new(Full::new(text.into()).boxed_unsync());
    *answer.status_mut() = status;
    answer
}

#[cfg(test)]
mod tests {
    use tower_service::Service as _;

    use super::*;
    use harness_macros::tools;

    /// A body that never continues.
    struct Stalled;

    impl Body for Stalled {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut task::Context<'_>,
        ) -> task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            task::Poll::Pending
        }
    }

    async fn status<B>(request: Request<B>) -> u16
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: fmt::Display,
    {
        let mut service = McpService::new(tools![]).http().unwrap();
        service.call(request).await.unwrap().status().as_u16()
    }

    fn post(host: &str) -> ::http::request::Builder {
        Request::post("/mcp")
            .header("host", host)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
    }

    /// A body that is sent only in part.
    struct Half(Option<Bytes>);

    impl Body for Half {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut task::Context<'_>,
        ) -> task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match self.0.take() {
                Some(half) => task::Poll::Ready(Some(Ok(Frame::data(half)))),
                None => task::Poll::Pending,
            }
        }
    }

    #[tokio::test]
    async fn bodies_that_are_read_share_one_memory_and_small_ones_need_no_part_of_it() {
        let http = McpService::new(tools![]).http().unwrap();
        let mut reading = Vec::new();
        let mut begin = async |bytes: usize| {
            let half = Half(Some(Bytes::from(vec![b' '; bytes])));
            let http = http.clone();
            let mut read = Box::pin(async move { http.read(half).await });
            match futures_util::poll!(&mut read) {
                task::Poll::Ready(Err(refused)) => Some(refused.status().as_u16()),
                task::Poll::Ready(Ok(_)) => None,
                task::Poll::Pending => {
                    reading.push(read);
                    None
                }
            }
        };
        let large = 4 << 20;
        for _ in 0..READING * 1024 / large {
            assert_eq!(begin(large).await, None);
        }
        assert_eq!((begin(large).await, begin(SMALL).await), (Some(503), None));
        drop(reading);
        assert_eq!(http.reading.available_permits(), READING);
    }

    #[tokio::test]
    async fn requests_that_are_parsed_share_one_memory() {
        let http = McpService::new(tools![]).http().unwrap();
        let body = Bytes::from(format!("[{}0]", "0,".repeat(90_000)));
        let status = async || {
            let (head, ()) = post("127.0.0.1").body(()).unwrap().into_parts();
            http.answer(head, body.clone()).await.status().as_u16()
        };
        let all = Arc::clone(&http.parsed)
            .try_acquire_many_owned(u32::try_from(PARSED).unwrap() - 1024)
            .unwrap();
        assert_eq!(status().await, 503);
        drop(all);
        assert_eq!(status().await, 400);
        assert_eq!(http.parsed.available_permits(), PARSED);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_whose_rest_never_comes_is_given_up() {
        assert_eq!(status(post("127.0.0.1").body(Stalled).unwrap()).await, 408);
    }

    #[tokio::test]
    async fn a_request_without_a_place_is_refused_and_listening_takes_no_place_of_a_call() {
        let places = RequestSlots::new(1, 1, 1);
        let http = McpService::new(tools![]).http().unwrap();
        let connection = ConnectionLimit::new(1).enter().await.unwrap();
        let service = RoutedService { http, places: places.clone(), connection };
        let post = || post("127.0.0.1").body(Full::new(Bytes::from_static(b"{}"))).unwrap();
        let head = |request: Request<Full<Bytes>>| request.into_parts().0;
        let get =
            || Request::get("/mcp").header("host", "127.0.0.1").body(Full::default()).unwrap();
        let listen = || {
            let mut listen = post();
            listen.headers_mut().insert("mcp-method", "subscriptions/listen".parse().unwrap());
            listen
        };
        let status = async |request| service.answer(request).await.status().as_u16();
        let call = places.of(&head(post())).unwrap();
        assert_eq!(status(post()).await, 503);
        assert_ne!(status(get()).await, 503);
        let stream = places.of(&head(get())).unwrap();
        assert_eq!(status(get()).await, 503);
        assert_eq!(status(listen()).await, 503);
        drop(call);
        assert_eq!(status(post()).await, 400);
        drop(stream);
        // The response keeps the slot until the response is dropped.
        let answer = service.answer(post()).await;
        assert!(places.of(&head(post())).is_none());
        drop(answer);
        assert!(places.of(&head(post())).is_some());
    }

    #[tokio::test]
    async fn what_may_end_a_request_has_a_few_places_of_its_own() {
        let places = RequestSlots::new(0, 0, 1);
        let ends = |method: &Method, body: &str| places.of_ending(method, body.as_bytes());
        let told = r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#;
        for (method, body, is_taken) in [
            (Method::DELETE, "", true),
            (Method::POST, told, true),
            (Method::POST, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, true),
            (Method::POST, r#"{"jsonrpc":"2.0","id":1,"error":{}}"#, true),
            (Method::POST, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, false),
            (Method::POST, r#"{"jsonrpc":"2.0","id":1,"method":"m","result":{}}"#, false),
            (Method::POST, r#"{"id":null,"id":1,"method":"tools/call"}"#, false),
            (Method::POST, "{}", false),
            (Method::POST, "[]", false),
            (Method::POST, "", false),
            (Method::GET, told, false),
        ] {
            assert_eq!(ends(&method, body).is_some(), is_taken, "{method} {body}");
        }
        let place = ends(&Method::DELETE, "");
        assert!(place.is_some() && ends(&Method::DELETE, "").is_none());
    }

    #[tokio::test]
    async fn a_request_that_names_two_hosts_is_refused() {
        let body = || Full::new(Bytes::from_static(b"{}"));
        let two = post("127.0.0.1").header("host", "evil.example").body(body()).unwrap();
        assert_eq!(status(two).await, 400);
        let meant = post("127.0.0.1").uri("http://evil.example/mcp").body(body()).unwrap();
        assert_eq!(status(meant).await, 400);
        // The service accepts the host here, and refuses only the body.
        let one = post("127.0.0.1").uri("http://127.0.0.1/mcp").body(body()).unwrap();
        assert_eq!(status(one).await, 400);
    }
}
