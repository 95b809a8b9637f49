//! Sends one message to a server at a URL, and reads the HTTP response. The SDK's own client waits for the end of each
//! body, even the body of a refusal, but a server may never end the body.

use std::{borrow::Cow, collections::HashMap, sync::Arc, time::Duration};

use reqwest::{
    Client, RequestBuilder, Response, StatusCode,
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
use tokio::time::{Instant, timeout_at};

use super::{sse_stream, stdout_filter, tool_list};
use harness_core::secret::beginning;

/// How long the body of a refusal is read. The error contains the text that has arrived by then.
const REFUSAL: Duration = Duration::from_secs(5);

/// The maximum length of a body's text in an error, in bytes.
const SHOWN: usize = 256;

/// The headers that only the protocol may set.
const RESERVED: [&str; 3] = ["accept", SESSION, "last-event-id"];
const SESSION: &str = "mcp-session-id";

pub(super) const JSON: &str = "application/json";
pub(super) const EVENTS: &str = "text/event-stream";

pub(super) type RequestHeaders = HashMap<HeaderName, HeaderValue>;
pub(super) type HttpError = StreamableHttpError<reqwest::Error>;

/// One message to a server, and the data for its HTTP request.
pub(super) struct PostRequest {
    pub(super) uri: Arc<str>,
    pub(super) message: ClientJsonRpcMessage,
    pub(super) session: Option<Arc<str>>,
    pub(super) token: Option<String>,
    pub(super) headers: RequestHeaders,
    pub(super) limits: StreamableHttpResponseLimits,
}

impl PostRequest {
    /// Sends the message, once.
    pub(super) async fn send(
        self,
        client: &Client,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let Self { uri, message, session, token, headers, limits } = self;
        let mut request = client.post(&*uri);
        if !headers.contains_key(&CONTENT_TYPE) {
            request = request.header(CONTENT_TYPE, JSON);
        }
        let has_session = session.is_some();
        let request = with(request, session, token, headers)?;
        let answer = request.body(serde_json::to_vec(&message)?).send().await?;
        read(answer, &message, has_session, limits).await
    }
}

/// Adds the headers that all requests share.
pub(super) fn with(
    request: RequestBuilder,
    session: Option<Arc<str>>,
    token: Option<String>,
    headers: RequestHeaders,
) -> Result<RequestBuilder, HttpError> {
    let mut request = request.header(ACCEPT, format!("{EVENTS}, {JSON}"));
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    for (name, value) in headers {
        if RESERVED.contains(&name.as_str()) {
            return Err(HttpError::ReservedHeaderConflict(name.to_string()));
        }
        request = request.header(name, value);
    }
    if let Some(session) = session {
        request = request.header(SESSION, &*session);
    }
    Ok(request)
}

/// Whether a body has this media type.
pub(super) fn has_type(headers: &HeaderMap, wanted: &str) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let kind = String::from_utf8_lossy(kind.unwrap_or_default());
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(wanted))
}

async fn read(
    mut answer: Response,
    message: &ClientJsonRpcMessage,
    has_session: bool,
    limits: StreamableHttpResponseLimits,
) -> Result<StreamableHttpPostResponse, HttpError> {
    use StreamableHttpPostResponse::{Accepted, Json, Sse};

    let status = answer.status();
    let challenge = challenge(answer.headers());
    match (status, challenge) {
        (StatusCode::UNAUTHORIZED, Some(challenge)) => {
            return Err(HttpError::AuthRequired(AuthRequiredError::new(challenge)));
        }
        (StatusCode::FORBIDDEN, Some(challenge)) => {
            let refused = InsufficientScopeError::new(challenge, None);
            return Err(HttpError::InsufficientScope(refused));
        }
        (StatusCode::ACCEPTED | StatusCode::NO_CONTENT, _) => return Ok(Accepted),
        (StatusCode::NOT_FOUND, _) if has_session => return Err(HttpError::SessionExpired),
        _ => {}
    }
    let header = |name: HeaderName| {
        let value = answer.headers().get(name).map(HeaderValue::as_bytes);
        value.map(|value| String::from_utf8_lossy(value).into_owned())
    };
    let (is_events, is_json) =
        (has_type(answer.headers(), EVENTS), has_type(answer.headers(), JSON));
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
            is_json,
            has_session,
            limits,
        )
        .await
        .map(|answer| Json(answer, id));
    }
    // The message gets no answer, regardless of the status.
    if request.is_none() && (is_empty || !is_events && !is_json) {
        return Ok(Accepted);
    }
    if is_events {
        let end = request.map(|request| stdout_filter::too_large(&request.id)).unwrap_or_default();
        return Ok(Sse(sse_stream::events(answer, limits.max_sse_event_size, Some(end)), id));
    }
    if !is_json {
        return Err(HttpError::UnexpectedContentType(header(CONTENT_TYPE)));
    }
    let most = limits.max_json_response_size;
    let mut body = Vec::new();
    while let Some(piece) = answer.chunk().await? {
        if body.len().saturating_add(piece.len()) > most {
            return Err(HttpError::ResponseBodyTooLarge { max_size: most });
        }
        body.extend_from_slice(&piece);
    }
    if matches!(request.map(|it| &it.request), Some(ClientRequest::ListToolsRequest(_))) {
        body = tool_list::plain(&body).unwrap_or(body);
    }
    match stdout_filter::message(&mut body) {
        Ok(answer) => Ok(Json(answer, id)),
        Err(_) if request.is_none() => Ok(Accepted),
        Err(err) => {
            let text = String::from_utf8_lossy(&body);
            let text = beginning(&text, SHOWN);
            Err(unexpected(format!("a body that is no message of JSON-RPC 2.0: {err}: {text}")))
        }
    }
}

/// The challenges of all `WWW-Authenticate` headers, one on each line. The texts of the challenges may contain any
/// bytes.
///
/// Source: RFC 9110, sections 5.5 and 11.6.1.
pub(super) fn challenge(headers: &HeaderMap) -> Option<String> {
    let challenges = headers.get_all(WWW_AUTHENTICATE).iter();
    let challenges = challenges.map(|header| String::from_utf8_lossy(header.as_bytes()));
    challenges.map(Cow::into_owned).reduce(|all, next| format!("{all}\n{next}"))
}

/// Reads a refusal: an error of the protocol, or otherwise the status and the text of the body.
async fn refused(
    mut answer: Response,
    request: Option<(&RequestId, &ClientRequest)>,
    is_json: bool,
    has_session: bool,
    limits: StreamableHttpResponseLimits,
) -> Result<ServerJsonRpcMessage, HttpError> {
    let status = answer.status();
    let is_busy = status == StatusCode::TOO_MANY_REQUESTS;
    let of_status = (is_busy || status.is_server_error())
        .then(|| HttpError::from(HttpStatusError::new(status.as_u16(), wait(answer.headers()))));
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
    // If the body breaks off or does not end in time, only the received part is used.
    while body.len() < most
        && let Ok(Ok(Some(piece))) = timeout_at(until, answer.chunk()).await
    {
        let room = most - body.len();
        body.extend_from_slice(piece.get(..room).unwrap_or(&piece));
    }
    let error = match stdout_filter::message(&mut body) {
        Ok(ServerJsonRpcMessage::Error(error)) if is_message => Some(error),
        _ => None,
    };
    let text = String::from_utf8_lossy(&body);
    let text = beginning(&text, limits.max_error_response_size);
    // Servers that do not know `server/discover` refuse it with many different statuses.
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

pub(super) fn wait(headers: &HeaderMap) -> Option<String> {
    let wait = headers.get(RETRY_AFTER).and_then(|wait| wait.to_str().ok());
    wait.map(str::to_owned)
}

pub(super) fn unexpected(why: impl Into<String>) -> HttpError {
    HttpError::UnexpectedServerResponse(why.into().into())
}
