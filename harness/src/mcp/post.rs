//! Sends one message to a server at an address, and reads the HTTP answer. The SDK's own client waits for the end of a body,
//! also for that of a refusal, which need not come.

use std::{
    borrow::Cow,
    collections::HashMap,
    io,
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::StreamExt as _;
use http_body::{Body, Frame};
use reqwest::{
    Client, Response, StatusCode,
    header::{
        ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
        WWW_AUTHENTICATE,
    },
};
use rmcp::{
    model::{ClientJsonRpcMessage, ClientRequest, ErrorData, RequestId, ServerJsonRpcMessage},
    transport::streamable_http_client::{
        AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpError,
        StreamableHttpPostResponse, StreamableHttpResponseLimits,
    },
};
use sse_stream::SseStream;
use tokio::time::{Instant, timeout_at};

use super::{lines, list};
use crate::secret::beginning;

/// How long the body of a refusal is read. What has come by then is its text.
const REFUSAL: Duration = Duration::from_secs(5);

/// The number of bytes of a body that an error shows, at most.
const SHOWN: usize = 256;

/// The headers that only the protocol sets.
const RESERVED: [&str; 3] = ["accept", SESSION, "last-event-id"];
const SESSION: &str = "mcp-session-id";

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

type Failed = StreamableHttpError<reqwest::Error>;

/// One message to a server.
pub(super) struct Post {
    pub(super) uri: Arc<str>,
    pub(super) message: ClientJsonRpcMessage,
    pub(super) session: Option<Arc<str>>,
    pub(super) token: Option<String>,
    pub(super) headers: HashMap<HeaderName, HeaderValue>,
    pub(super) limits: StreamableHttpResponseLimits,
}

impl Post {
    /// Sends it, once.
    pub(super) async fn send(self, client: &Client) -> Result<StreamableHttpPostResponse, Failed> {
        let Self { uri, message, session, token, headers, limits } = self;
        let mut request = client.post(&*uri).header(ACCEPT, format!("{EVENTS}, {JSON}"));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if !headers.contains_key(&CONTENT_TYPE) {
            request = request.header(CONTENT_TYPE, JSON);
        }
        for (name, value) in headers {
            if RESERVED.contains(&name.as_str()) {
                return Err(Failed::ReservedHeaderConflict(name.to_string()));
            }
            request = request.header(name, value);
        }
        let has_session = session.is_some();
        if let Some(session) = session {
            request = request.header(SESSION, &*session);
        }
        let answer = request.body(serde_json::to_vec(&message)?).send().await?;
        read(answer, &message, has_session, limits).await
    }
}

async fn read(
    mut answer: Response,
    message: &ClientJsonRpcMessage,
    has_session: bool,
    limits: StreamableHttpResponseLimits,
) -> Result<StreamableHttpPostResponse, Failed> {
    use StreamableHttpPostResponse::{Accepted, Json, Sse};

    let status = answer.status();
    let challenge = challenge(answer.headers());
    match (status, challenge) {
        (StatusCode::UNAUTHORIZED, Some(challenge)) => {
            return Err(Failed::AuthRequired(AuthRequiredError::new(challenge)));
        }
        (StatusCode::FORBIDDEN, Some(challenge)) => {
            let refused = InsufficientScopeError::new(challenge, None);
            return Err(Failed::InsufficientScope(refused));
        }
        (StatusCode::ACCEPTED | StatusCode::NO_CONTENT, _) => return Ok(Accepted),
        (StatusCode::NOT_FOUND, _) if has_session => return Err(Failed::SessionExpired),
        _ => {}
    }
    let header = |name: HeaderName| {
        let value = answer.headers().get(name).map(HeaderValue::as_bytes);
        value.map(|value| String::from_utf8_lossy(value).into_owned())
    };
    let kind = header(CONTENT_TYPE);
    let is = |wanted: &str| {
        let essence = kind.as_deref().and_then(|kind| kind.split(';').next());
        essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case(wanted))
    };
    let is_empty = header(CONTENT_LENGTH).is_some_and(|length| length.trim() == "0");
    let id = header(HeaderName::from_static(SESSION));
    let request = match message {
        ClientJsonRpcMessage::Request(request) => Some(request),
        _ => None,
    };
    if !status.is_success() {
        return refused(
            answer,
            request.map(|it| (&it.id, &it.request)),
            is(JSON),
            has_session,
            limits,
        )
        .await
        .map(|answer| Json(answer, id));
    }
    // Nothing is to come, whatever the server says.
    if request.is_none() && (is_empty || !is(EVENTS) && !is(JSON)) {
        return Ok(Accepted);
    }
    if is(EVENTS) {
        let end = request.map(|request| lines::too_large(&request.id)).unwrap_or_default();
        let body = Bounded {
            body: Some(answer.into()),
            most: limits.max_sse_event_size,
            event: 0,
            is_at_start: true,
            is_comment: false,
            is_after_return: false,
            end,
        };
        return Ok(Sse(SseStream::new(body).boxed(), id));
    }
    if !is(JSON) {
        return Err(Failed::UnexpectedContentType(kind));
    }
    let most = limits.max_json_response_size;
    let mut body = Vec::new();
    while let Some(piece) = answer.chunk().await? {
        if body.len().saturating_add(piece.len()) > most {
            return Err(Failed::ResponseBodyTooLarge { max_size: most });
        }
        body.extend_from_slice(&piece);
    }
    if matches!(request.map(|it| &it.request), Some(ClientRequest::ListToolsRequest(_))) {
        body = list::plain(&body).unwrap_or(body);
    }
    match lines::message(&mut body) {
        Ok(answer) => Ok(Json(answer, id)),
        Err(_) if request.is_none() => Ok(Accepted),
        Err(err) => {
            let text = String::from_utf8_lossy(&body);
            let text = beginning(&text, SHOWN);
            Err(unexpected(format!("a body that is no message of JSON-RPC 2.0: {err}: {text}")))
        }
    }
}

/// The challenges of all headers, each on a line. Their texts may have any bytes.
///
/// Source: RFC 9110, sections 5.5 and 11.6.1.
fn challenge(headers: &HeaderMap) -> Option<String> {
    let challenges = headers.get_all(WWW_AUTHENTICATE).iter();
    let challenges = challenges.map(|header| String::from_utf8_lossy(header.as_bytes()));
    challenges.map(Cow::into_owned).reduce(|all, next| format!("{all}\n{next}"))
}

/// Reads a refusal: an error of the protocol, or the status with the text.
async fn refused(
    mut answer: Response,
    request: Option<(&RequestId, &ClientRequest)>,
    is_json: bool,
    has_session: bool,
    limits: StreamableHttpResponseLimits,
) -> Result<ServerJsonRpcMessage, Failed> {
    let status = answer.status();
    let is_busy = status == StatusCode::TOO_MANY_REQUESTS;
    let of_status = (is_busy || status.is_server_error())
        .then(|| Failed::from(HttpStatusError::new(status.as_u16(), wait(answer.headers()))));
    if let Some(error) = of_status.filter(|_| is_busy || !is_json) {
        return Err(error);
    }
    let is_unauthorized = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let is_message = is_json && !is_unauthorized;
    let most = match is_message {
        true => limits.max_json_response_size,
        false => limits.max_error_response_size,
    };
    let until = Instant::now() + REFUSAL;
    let mut body = Vec::new();
    // A body that breaks off, or does not end in time, is read as far as it has come.
    while body.len() < most
        && let Ok(Ok(Some(piece))) = timeout_at(until, answer.chunk()).await
    {
        let room = most - body.len();
        body.extend_from_slice(piece.get(..room).unwrap_or(&piece));
    }
    let error = match lines::message(&mut body) {
        Ok(ServerJsonRpcMessage::Error(error)) if is_message => Some(error),
        _ => None,
    };
    let text = String::from_utf8_lossy(&body);
    let text = beginning(&text, limits.max_error_response_size);
    // A server that knows no `server/discover` refuses it in many ways.
    if let Some((id, ClientRequest::DiscoverRequest(_))) = request
        && !has_session
        && status.is_client_error()
        && !is_unauthorized
    {
        let why = || {
            let why = format!("server/discover rejected with HTTP {status}: {text}");
            ErrorData::invalid_request(why, None)
        };
        let error = error.map_or_else(why, |error| error.error);
        return Ok(ServerJsonRpcMessage::error(error, Some(id.clone())));
    }
    match error {
        Some(error) => Ok(ServerJsonRpcMessage::Error(error)),
        None if status.is_server_error() => {
            Err(HttpStatusError::new(status.as_u16(), wait(answer.headers())).into())
        }
        None => Err(unexpected(format!("HTTP {status}: {text}"))),
    }
}

fn wait(headers: &HeaderMap) -> Option<String> {
    let wait = headers.get(RETRY_AFTER).and_then(|wait| wait.to_str().ok());
    wait.map(str::to_owned)
}

fn unexpected(why: impl Into<String>) -> Failed {
    Failed::UnexpectedServerResponse(why.into().into())
}

/// The body of an event stream. It ends at an event that is too large, with the event `end` in its place.
struct Bounded {
    body: Option<reqwest::Body>,
    most: usize,
    /// The size of the current event so far, without comments.
    event: usize,
    is_at_start: bool,
    is_comment: bool,
    is_after_return: bool,
    end: String,
}

impl Bounded {
    /// Counts the bytes of events; returns whether an event is too large.
    fn is_exceeded_by(&mut self, piece: &[u8]) -> bool {
        for byte in piece {
            // Two bytes may end one line.
            let is_second = std::mem::replace(&mut self.is_after_return, *byte == b'\r');
            if is_second && *byte == b'\n' {
                continue;
            }
            let ends_line = matches!(byte, b'\n' | b'\r');
            match (ends_line, self.is_at_start) {
                // An empty line ends an event.
                (true, true) => self.event = 0,
                (false, true) => self.is_comment = *byte == b':',
                _ => {}
            }
            if !self.is_comment {
                self.event += 1;
            }
            self.is_at_start = ends_line;
            if self.event > self.most {
                return true;
            }
        }
        false
    }
}

impl Body for Bounded {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        let frame = task::ready!(Pin::new(body).poll_frame(context));
        Poll::Ready(frame.map(|frame| {
            let frame = frame.map_err(io::Error::other)?;
            if frame.data_ref().is_some_and(|piece| this.is_exceeded_by(piece)) {
                this.body = None;
                let end = format!("\n\ndata: {}\n\n", this.end.trim());
                return Ok(Frame::data(end.into()));
            }
            Ok(frame)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounded(most: usize) -> Bounded {
        Bounded {
            body: None,
            most,
            event: 0,
            is_at_start: true,
            is_comment: false,
            is_after_return: false,
            end: String::new(),
        }
    }

    #[test]
    fn the_lines_of_one_event_count_together_and_comments_do_not() {
        for end in ["\n", "\r", "\r\n"] {
            let line = format!("data: 12345{end}");
            let event = format!("{line}{line}{end}");
            let events = event.repeat(9);
            let comments = format!(": {}{end}{event}", "x".repeat(100));
            for (text, is_exceeded) in
                [(&events, false), (&comments, false), (&format!("{line}{line}{line}"), true)]
            {
                for at in 0..=text.len() {
                    let (first, second) = text.as_bytes().split_at(at);
                    let mut body = bounded(30);
                    let exceeds = body.is_exceeded_by(first) || body.is_exceeded_by(second);
                    assert_eq!(exceeds, is_exceeded, "{text:?} {at}");
                }
            }
        }
    }
}
