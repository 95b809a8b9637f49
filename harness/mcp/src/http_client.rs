//! The HTTP client below the protocol: it adds the token to each request, sends each request once, and decides which
//! HTTP responses end a request or the session.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use reqwest::{Client, header::HeaderName};
use rmcp::{
    model::{
        ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode, ErrorData,
        ProtocolVersion, RequestId, ServerJsonRpcMessage, ServerResult,
    },
    transport::{
        common::client_side_sse::BoxedSseResponse,
        streamable_http_client::{
            AuthRequiredError, StreamableHttpClient, StreamableHttpPostResponse,
            StreamableHttpResponseLimits,
        },
    },
};

use sse_stream::Sse;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use harness_core::message::count_values;

use super::{
    oauth::Authorization,
    pending_requests::{PendingRequests, RequestKind},
    post::{HttpError, PostRequest, RequestHeaders},
    server_connection::sources,
    sse_messages,
    sse_stream::StreamRequest,
    stdout_filter::{self, VALUES},
};

/// The minimum wait, in milliseconds, before an ended stream is requested again, even if the server asks for a shorter
/// wait.
const REST: u64 = 500;

/// A stream that ends before this time counts as short. Each further short stream in a row increases the wait before
/// the next stream.
const LONG_LIVED: Duration = Duration::from_secs(30);

/// The maximum number of tool names that are kept of one list.
const LISTED: usize = 4096;

/// The maximum number of responses to the server's requests that are sent at the same time. Further responses are
/// dropped, because a server may send requests without end.
const ANSWERS: usize = 64;

/// The time limit for sending a response to a request of the server, or the notification that a call is cancelled.
const TELLING: Duration = Duration::from_secs(10);

/// The maximum number of streams whose last event id is kept, and (`EVENT`) the maximum length of this id in bytes.
const LAST: usize = 256;
const EVENT: usize = 4096;

/// An HTTP client that adds the token to its requests, if the program has set an authorization.
#[derive(Clone)]
pub(super) struct McpHttpClient {
    client: Client,
    authorization: Option<Arc<Authorization>>,
    session_state: Arc<SessionState>,
    /// Limits the responses to the server that are being sent.
    answers: Arc<Semaphore>,
}

/// State from a server's responses: whether its session has expired, the tools that it has listed, and the events after
/// which its streams can be resumed.
#[derive(Default)]
pub(super) struct SessionState {
    /// Whether the server no longer knows the session.
    is_expired: AtomicBool,
    /// The number of running requests.
    running: AtomicUsize,
    /// The names of the listed tools. The SDK drops some tools from a list.
    listed: Mutex<Vec<String>>,
    /// For each stream that may be resumed, the last event with an id.
    last: Mutex<VecDeque<LastEvent>>,
    empty: Mutex<VecDeque<EmptyStreams>>,
    /// Why the server has refused the message that completes the start of a session.
    refusal: Mutex<Option<String>>,
    /// Cancelled when the session ends.
    ended: CancellationToken,
}

/// Counts the streams in a row that ended without a message, for one request or for the general stream.
struct EmptyStreams {
    request: Option<RequestId>,
    times: u32,
    /// When the last counted stream began.
    begun: Instant,
}

struct LastEvent {
    event: String,
    request: RequestInfo,
}

impl SessionState {
    pub(super) fn is_expired(&self) -> bool {
        self.is_expired.load(Ordering::Relaxed)
    }

    /// The names of the tools listed since the last call of this function.
    pub(super) fn take_listed(&self) -> Vec<String> {
        std::mem::take(&mut *self.listed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the reason why there is no session although the server answered the first request.
    pub(super) fn take_refusal(&self) -> Option<String> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Marks the session as ended. No more messages are sent for the session.
    pub(super) fn stop(&self) {
        self.ended.cancel();
    }

    /// Counts a request that is being sent.
    pub(super) fn begin(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request as ended, because its answer came or the caller no longer waits.
    pub(super) fn end(&self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
    }

    /// Records that the session may have expired. The refusal of one request is no proof, so nothing is recorded while
    /// other requests run in the session.
    fn expire(&self, request: &RequestInfo) {
        if self.running.load(Ordering::Relaxed) <= usize::from(request.id.is_some()) {
            self.is_expired.store(true, Ordering::Relaxed);
        }
    }

    fn last(&self) -> MutexGuard<'_, VecDeque<LastEvent>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the last event of the stream that answers this request.
    fn note_event(&self, request: &RequestInfo, event: &str) {
        let mut last = self.last();
        last.retain(|last| last.request.id != request.id);
        if last.len() == LAST {
            last.pop_front();
        }
        if event.len() <= EVENT {
            last.push_back(LastEvent { event: event.to_owned(), request: request.clone() });
        }
    }

    fn empty(&self) -> MutexGuard<'_, VecDeque<EmptyStreams>> {
        self.empty.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The wait before the next stream for this request, in addition to the SDK's wait. Without this wait, a server
    /// that ends each stream at once would get a request each second until the session or the call ends.
    fn rest(&self, request: Option<&RequestId>) -> Duration {
        let mut empty = self.empty();
        let now = Instant::now();
        let known = empty.iter().position(|it| it.request.as_ref() == request);
        let times = match known.and_then(|at| empty.remove(at)) {
            Some(before) if now - before.begun < LONG_LIVED => before.times.saturating_add(1),
            _ => 0,
        };
        // A call waits for its answer, so its stream is requested again sooner than the general stream.
        let most = if request.is_some() { 3 } else { 5 };
        let wait = Duration::from_secs((1 << times.min(most)) - 1);
        if empty.len() == LAST {
            empty.pop_front();
        }
        empty.push_back(EmptyStreams { request: request.cloned(), times, begun: now + wait });
        wait
    }

    /// Records that a stream for this request contained a message.
    fn spoke(&self, request: Option<&RequestId>) {
        self.empty().retain(|it| it.request.as_ref() != request);
    }

    /// Forgets the streams of this request.
    pub(super) fn is_over(&self, request: &RequestId) {
        self.spoke(Some(request));
        self.last().retain(|last| last.request.id.as_ref() != Some(request));
    }

    /// The request whose response stream contained this event; `None` if several streams have an event with this id.
    fn resumed(&self, event: &str) -> Option<RequestInfo> {
        let last = self.last();
        let mut found = last.iter().filter(|last| last.event == event);
        found.next().filter(|_| found.next().is_none()).map(|last| last.request.clone())
    }

    fn note(&self, message: &ServerJsonRpcMessage) {
        if let ServerJsonRpcMessage::Response(response) = message
            && let ServerResult::ListToolsResult(page) = &response.result
        {
            let names = page.tools.iter().map(|tool| tool.name.to_string());
            let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
            let room = LISTED.saturating_sub(listed.len());
            listed.extend(names.take(room));
        }
    }
}

impl McpHttpClient {
    pub(super) fn new(client: Client, authorization: Option<Arc<Authorization>>) -> Self {
        let answers = Arc::new(Semaphore::new(ANSWERS));
        Self { client, authorization, session_state: Arc::default(), answers }
    }

    pub(super) fn session_state(&self) -> Arc<SessionState> {
        Arc::clone(&self.session_state)
    }

    /// The answer to a request. Fails if the HTTP response ended without an answer to this request.
    fn answer(
        &self,
        request: &RequestInfo,
        answer: Result<StreamableHttpPostResponse, HttpError>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        use StreamableHttpPostResponse::Json;
        use rmcp::model::JsonRpcMessage::{Error, Response};

        let expire = || {
            if request.has_session {
                self.session_state.expire(request);
            }
        };
        match answer {
            // The response is an error with another id, or without an id.
            Ok(Json(Error(err), session)) if !request.is(err.id.as_ref()) => {
                if request.begins {
                    return Ok(Json(
                        ServerJsonRpcMessage::error(err.error, request.id.clone()),
                        session,
                    ));
                }
                // Some servers answer a request in an unknown session with an error that has another id or no id.
                expire();
                let ErrorData { code, message, .. } = err.error;
                let why =
                    format!("an error with another id or without one: {message} (code {})", code.0);
                Err(HttpError::UnexpectedServerResponse(why.into()))
            }
            Ok(StreamableHttpPostResponse::Accepted) if request.id.is_some() => {
                Err(HttpError::UnexpectedServerResponse(
                    "a status that says that there is no answer".into(),
                ))
            }
            Ok(Json(Response(other), _)) if !request.is(Some(&other.id)) => {
                Err(HttpError::UnexpectedServerResponse("the answer to another request".into()))
            }
            // The response is complete, so the answer to the request will not come.
            Ok(Json(other, _)) if request.id.is_some() && !is_answer(&other) => {
                Err(HttpError::UnexpectedServerResponse("no answer, but another message".into()))
            }
            Ok(Json(Error(err), session)) => {
                if is_session_unknown(&err.error) {
                    expire();
                }
                Ok(Json(Error(err), session))
            }
            Ok(Json(answer, session)) => {
                self.session_state.note(&answer);
                Ok(Json(answer, session))
            }
            Ok(StreamableHttpPostResponse::Sse(stream, session)) => {
                let stream = self.readable_events(request, stream);
                Ok(StreamableHttpPostResponse::Sse(stream, session))
            }
            Err(HttpError::UnexpectedServerResponse(text)) => {
                if text.starts_with("HTTP 400") {
                    expire();
                }
                Err(HttpError::UnexpectedServerResponse(text))
            }
            answer => answer,
        }
    }

    /// The events that answer a request, in a form that the protocol's code can read.
    fn readable_events(&self, request: &RequestInfo, stream: BoxedSseResponse) -> BoxedSseResponse {
        let kind = match request {
            RequestInfo { begins: true, .. } => RequestKind::Session,
            RequestInfo { lists: true, .. } => RequestKind::Tools,
            _ => RequestKind::Other,
        };
        let open = PendingRequests::of(request.id.clone().map(|id| (id, kind)));
        let (session_state, request) = (self.session_state(), request.clone());
        let (seen, own) = (self.session_state(), request.clone());
        let forgets = request.has_session && !request.begins;
        let look = move |message: &str| {
            if count_values(message.as_bytes()) > VALUES {
                return;
            }
            if request.lists
                && let Ok(message) = serde_json::from_str(message)
            {
                session_state.note(&message);
            }
            if let Some(id) = request.id.as_ref().filter(|_| forgets)
                && let Ok(ServerJsonRpcMessage::Error(err)) = serde_json::from_str(message)
            {
                let is_own = err.id.as_ref().is_some_and(|it| it.to_string() == id.to_string());
                if err.id.is_none() || is_own && is_session_unknown(&err.error) {
                    session_state.expire(&request);
                }
            }
        };
        let events = stream.flat_map(move |event| {
            if let Ok(Sse { id: Some(id), .. }) = &event {
                seen.note_event(&own, id);
            }
            let events = match event {
                Ok(mut event) => match words(&mut event) {
                    Some(data) => {
                        seen.spoke(own.id.as_ref());
                        let messages = sse_messages::messages(data, &open);
                        messages.iter().for_each(|message| look(message));
                        let read = sse_messages::read(messages, &open).into_iter();
                        if let Some(id) = own.id.as_ref().filter(|id| !open.has(id)) {
                            seen.is_over(id);
                        }
                        let read = read.map(|data| event.clone().data(data));
                        // An event without data still has the id from which the stream can be resumed.
                        [event.clone()].into_iter().chain(read).map(Ok).collect()
                    }
                    None => vec![Ok(event)],
                },
                Err(err) => vec![Err(err)],
            };
            stream::iter(events)
        });
        events.boxed()
    }

    /// Sends a message that gets no answer, in a task of its own, so that a slow server does not delay other messages.
    fn tell(&self, post: PostRequest) {
        let is_cancelled = is_cancellation(&post.message);
        let place = Arc::clone(&self.answers).try_acquire_owned();
        if place.is_err() && !is_cancelled {
            return;
        }
        let place = place.ok().filter(|_| !is_cancelled);
        let (way, ended) = (self.clone(), self.session_state.ended.clone());
        tokio::spawn(async move {
            let request = RequestInfo::of(&post.message, post.session.is_some());
            let told = tokio::select! {
                () = ended.cancelled() => return,
                told = timeout(TELLING, way.deliver(post)) => told,
            };
            if let Ok(Err(HttpError::SessionExpired)) = told {
                way.session_state.expire(&request);
            }
            drop(place);
        });
    }

    async fn deliver(
        &self,
        mut post: PostRequest,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let token = self.token(&post.uri).await;
        post.token.clone_from(&token);
        let request = RequestInfo::of(&post.message, post.session.is_some());
        let newer = is_newer(&post.headers);
        let answer = self.answer(&request, post.send(&self.client).await);
        let answer = answer.map(|answer| match answer {
            StreamableHttpPostResponse::Sse(stream, session) => {
                StreamableHttpPostResponse::Sse(rested(stream, newer), session)
            }
            answer => answer,
        });
        self.noted(token, answer)
    }

    /// Returns `answer`. If the server has refused this token, the authorization is notified first.
    fn noted<T>(
        &self,
        token: Option<String>,
        answer: Result<T, HttpError>,
    ) -> Result<T, HttpError> {
        let Some(authorization) = &self.authorization else { return answer };
        match answer {
            Err(HttpError::AuthRequired(err)) => {
                authorization.refused(401, &err.www_authenticate_header, token.as_deref());
                Err(HttpError::AuthRequired(err))
            }
            Err(HttpError::InsufficientScope(err)) => {
                authorization.refused(403, &err.www_authenticate_header, token.as_deref());
                Err(HttpError::InsufficientScope(err))
            }
            // The refusal has no header with a challenge.
            Err(HttpError::UnexpectedServerResponse(text)) if text.starts_with("HTTP 401") => {
                authorization.refused(401, "", token.as_deref());
                Err(HttpError::AuthRequired(AuthRequiredError::new(String::new())))
            }
            answer => answer,
        }
    }

    /// The token for this server. A token that is about to expire is renewed first.
    async fn token(&self, uri: &str) -> Option<String> {
        self.authorization.as_ref()?.token(uri).await
    }
}

/// The parts of a request that are compared with its response.
#[derive(Clone)]
struct RequestInfo {
    /// `None` for a message that gets no answer.
    id: Option<RequestId>,
    /// Whether this is the first request of a session, or of a connection without sessions.
    begins: bool,
    has_session: bool,
    /// Whether the request lists the tools.
    lists: bool,
}

impl RequestInfo {
    fn of(message: &ClientJsonRpcMessage, has_session: bool) -> Self {
        let ClientJsonRpcMessage::Request(request) = message else {
            return Self { id: None, begins: false, has_session, lists: false };
        };
        let begins = matches!(
            request.request,
            ClientRequest::InitializeRequest(_) | ClientRequest::DiscoverRequest(_)
        );
        let lists = matches!(request.request, ClientRequest::ListToolsRequest(_));
        Self { id: Some(request.id.clone()), begins, has_session, lists }
    }

    /// Whether an answer with this id belongs to the request. Some servers return a numeric id as text.
    fn is(&self, id: Option<&RequestId>) -> bool {
        let Some(own) = &self.id else { return true };
        id.is_some_and(|id| id.to_string() == own.to_string())
    }
}

/// Takes the data out of an event, if the event is a message and not blank.
fn words(event: &mut Sse) -> Option<String> {
    let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
    let is_blank = event.data.as_ref().is_none_or(|data| data.trim().is_empty());
    event.data.take().filter(|_| is_message && !is_blank)
}

fn is_cancellation(message: &ClientJsonRpcMessage) -> bool {
    let ClientJsonRpcMessage::Notification(told) = message else { return false };
    matches!(told.notification, ClientNotification::CancelledNotification(_))
}

fn is_answer(message: &ServerJsonRpcMessage) -> bool {
    matches!(message, ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_))
}

/// Whether an error with the id of the request means that the session is unknown. The code alone is ambiguous, so the
/// text counts too.
fn is_session_unknown(err: &ErrorData) -> bool {
    let codes = [ErrorCode(-32_000), ErrorCode(-32_001), ErrorCode::INVALID_REQUEST];
    codes.contains(&err.code) && err.message.to_ascii_lowercase().contains("session")
}

impl StreamableHttpClient for McpHttpClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        custom_headers: RequestHeaders,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let limits = StreamableHttpResponseLimits::default();
        let (session, headers) = (session_id, custom_headers);
        let post = PostRequest { uri, message, session, token: None, headers, limits };
        let is_answer = matches!(
            post.message,
            ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_)
        );
        if is_answer || is_cancellation(&post.message) {
            self.tell(post);
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let is_begun = matches!(post.message, ClientJsonRpcMessage::Notification(_));
        let answer = self.deliver(post).await;
        if let (true, Err(err)) = (is_begun, &answer) {
            let mut refusal =
                self.session_state.refusal.lock().unwrap_or_else(PoisonError::into_inner);
            *refusal = Some(sources(err));
        }
        answer
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _: Option<String>,
        custom_headers: RequestHeaders,
    ) -> Result<(), HttpError> {
        let token = self.token(&uri).await;
        self.client.delete_session(uri, session_id, token, custom_headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _: Option<String>,
        custom_headers: RequestHeaders,
    ) -> Result<BoxedSseResponse, HttpError> {
        if is_newer(&custom_headers) {
            return Err(HttpError::ServerDoesNotSupportSse);
        }
        let resumed = last_event_id.as_deref().and_then(|event| self.session_state.resumed(event));
        let none = RequestInfo { id: None, begins: false, has_session: true, lists: false };
        let request = resumed.unwrap_or(none);
        let (session, last, headers) = (session_id, last_event_id, custom_headers);
        sleep(self.session_state.rest(request.id.as_ref())).await;
        let token = self.token(&uri).await;
        let end = request.id.as_ref().map(stdout_filter::too_large);
        let given = token.clone();
        let most = StreamableHttpResponseLimits::default().max_sse_event_size;
        let get = StreamRequest { uri, session, last, token, headers, most, end };
        let answer = self.noted(given, get.send(&self.client).await);
        let stream = match (answer, &request.id) {
            (Err(failed), Some(id)) => self.refused(id, failed)?,
            (answer, _) => answer?,
        };
        Ok(rested(self.readable_events(&request, stream), false))
    }
}

impl McpHttpClient {
    /// Ends a request whose stream the server refuses to continue. Other failures are returned, and the SDK tries
    /// again.
    fn refused(&self, id: &RequestId, failed: HttpError) -> Result<BoxedSseResponse, HttpError> {
        let why = match &failed {
            HttpError::AuthRequired(_) => "HTTP 401",
            HttpError::InsufficientScope(_) => "HTTP 403",
            HttpError::UnexpectedServerResponse(text) if text.starts_with("HTTP 4") => text,
            _ => return Err(failed),
        };
        // With these statuses, the server may not have closed the previous stream yet, so the SDK tries again.
        if ["HTTP 408", "HTTP 409", "HTTP 425"].iter().any(|again| why.starts_with(again)) {
            return Err(failed);
        }
        if why.starts_with("HTTP 404") {
            self.session_state.is_expired.store(true, Ordering::Relaxed);
        }
        let end = Sse::default().data(stdout_filter::lost(id, why).trim());
        Ok(stream::iter([Ok(end)]).boxed())
    }
}

/// Whether the request uses a version without GET, in which no stream can be resumed.
///
/// Source: <https://modelcontextprotocol.io/specification/2026-07-28/changelog>.
fn is_newer(headers: &RequestHeaders) -> bool {
    let version = headers.get(&HeaderName::from_static("mcp-protocol-version"));
    version.is_some_and(|version| version == ProtocolVersion::V_2026_07_28.as_str())
}

/// Sets a minimum wait before the SDK resumes this stream. In version 2026-07-28 of the protocol (`is_newer`), no
/// stream can be resumed. So the ids are removed from the events, because the SDK resumes only a stream with ids.
fn rested(stream: BoxedSseResponse, is_newer: bool) -> BoxedSseResponse {
    let rested = stream.map(move |event| {
        event.map(|mut event| {
            event.retry = event.retry.map(|wanted| wanted.max(REST));
            event.id = event.id.filter(|_| !is_newer);
            event
        })
    });
    rested.boxed()
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt as _, stream};
    use rmcp::transport::common::client_side_sse::BoxedSseResponse;

    use super::{super::http::client, *};

    /// Status 404 means that the session is unknown, even while other requests run in the session.
    #[tokio::test]
    async fn a_stream_that_is_not_found_ends_its_session() {
        for (status, is_expired) in [("404 Not Found", true), ("400 Bad Request", false)] {
            let way = McpHttpClient::new(client().expect("a client"), None);
            way.session_state.running.store(3, Ordering::Relaxed);
            let refused = HttpError::UnexpectedServerResponse(format!("HTTP {status}").into());
            let stream = way.refused(&RequestId::Number(7), refused).expect("its end");
            let ends: Vec<_> = stream.collect().await;
            let end = ends[0].as_ref().expect("an event").data.as_deref().expect("a message");
            assert!(end.contains(status) && end.contains("\"id\":7"), "{end}");
            assert_eq!(way.session_state.is_expired(), is_expired, "{status}");
        }
    }

    /// The id and the wait of an event after `rested` has processed it.
    async fn read(id: &str, retry: Option<u64>, is_newer: bool) -> (Option<String>, Option<u64>) {
        let stream: BoxedSseResponse = stream::iter([Ok(Default::default())]).boxed();
        let id = id.to_owned();
        let stream = stream.map(move |event| {
            event.map(|mut event| {
                (event.id, event.retry) = (Some(id.clone()), retry);
                event
            })
        });
        let mut rested = rested(stream.boxed(), is_newer);
        let event = rested.next().await.expect("an event").expect("no error");
        (event.id, event.retry)
    }

    #[tokio::test]
    async fn a_server_is_not_asked_again_without_a_rest() {
        for (wanted, waits) in
            [(Some(0), Some(REST)), (Some(1), Some(REST)), (Some(700), Some(700)), (None, None)]
        {
            let (id, retry) = read("7", wanted, false).await;
            assert_eq!((id.as_deref(), retry), (Some("7"), waits));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_ends_its_streams_at_once_is_asked_less_and_less_often() {
        let waits =
            async |session_state: &SessionState, request: Option<&RequestId>, open: Duration| {
                let mut waits = Vec::new();
                for _ in 0..7 {
                    let wait = session_state.rest(request);
                    waits.push(wait.as_secs());
                    tokio::time::advance(wait + open).await;
                }
                waits
            };
        let (session_state, call) = (SessionState::default(), RequestId::Number(7));
        let short = Duration::from_secs(1);
        assert_eq!(waits(&session_state, None, short).await, [0, 1, 3, 7, 15, 31, 31]);
        assert_eq!(waits(&session_state, Some(&call), short).await, [0, 1, 3, 7, 7, 7, 7]);
        // After a message, or after a stream that was open for long, the waits begin again at zero.
        session_state.spoke(Some(&call));
        assert_eq!(session_state.rest(Some(&call)), Duration::ZERO);
        assert_eq!(waits(&session_state, None, LONG_LIVED).await, [0; 7]);
    }

    #[tokio::test]
    async fn no_event_of_the_newer_version_has_a_number_behind_which_it_goes_on() {
        assert_eq!(read("7", None, true).await, (None, None));
    }
}
