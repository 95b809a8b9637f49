//! The sessions of a service over HTTP.

use std::{
    collections::HashMap,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task,
    time::Duration,
};

use futures_core::Stream;
use futures_util::{StreamExt as _, stream};
use rmcp::{
    model::{ClientJsonRpcMessage, GetExtensions as _, JsonRpcMessage, ServerJsonRpcMessage},
    transport::streamable_http_server::{
        SessionId, SessionManager,
        session::{
            ServerSseMessage,
            local::{
                LocalSessionHandle, LocalSessionManager, LocalSessionManagerError, SessionTransport,
            },
        },
    },
};
use tokio::sync::watch;

use super::{
    answer_cache::AnswerCache,
    in_flight::{InFlight, UniqueIdTransport},
};

/// The maximum number of open sessions. A session ends five minutes after its last request. A session without a running
/// call ends earlier if a new session needs its slot.
const SESSIONS: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct ServiceSessions {
    local: LocalSessionManager,
    open: Mutex<SessionTable>,
    answers: AnswerCache,
}

#[derive(Debug, Default)]
struct SessionTable {
    sessions: HashMap<SessionId, SessionEntry>,
    /// The number of requests so far.
    requests: u64,
}

#[derive(Debug, Default)]
struct SessionEntry {
    /// The number of the session's last request.
    last: u64,
    flight: InFlight,
    /// Maps the number of each open answer stream to the count of the client's streams.
    ways: HashMap<u64, Weak<watch::Sender<usize>>>,
}

/// Why there is no session.
#[derive(Debug)]
pub(super) enum SessionError {
    /// No session has this id.
    Unknown,
    /// The maximum number of sessions is reached, and all sessions have running calls.
    Full,
    Local(LocalSessionManagerError),
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("there is no such session"),
            Self::Full => f.write_str("too many sessions have calls that run; try again later"),
            Self::Local(err) => err.fmt(f),
        }
    }
}

impl std::error::Error for SessionError {}

impl<E: Into<LocalSessionManagerError>> From<E> for SessionError {
    fn from(err: E) -> Self {
        Self::Local(err.into())
    }
}

/// The count of the streams on which the client of a request listens.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientStreams(Arc<watch::Sender<usize>>);

impl ClientStreams {
    fn attend(&self) -> OpenStream {
        self.0.send_modify(|streams| *streams = streams.saturating_add(1));
        OpenStream(self.clone())
    }

    /// Waits until the client has had no stream for `time`.
    pub(super) async fn lost(&self, time: Duration) {
        let mut streams = self.0.subscribe();
        loop {
            // `wait_for` fails only without a sender, and this value holds the sender.
            let _ = streams.wait_for(|streams| *streams == 0).await;
            let back = streams.wait_for(|streams| *streams > 0);
            if tokio::time::timeout(time, back).await.is_err() {
                return;
            }
        }
    }
}

struct OpenStream(ClientStreams);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.0.send_modify(|streams| *streams = streams.saturating_sub(1));
    }
}

type MessageStream = Pin<Box<dyn Stream<Item = ServerSseMessage> + Send + Sync>>;

/// A stream of messages to a client, which keeps `attended` until the stream is dropped. `attended` is `None` if the
/// stream does not belong to a request.
fn message_stream(
    messages: impl Stream<Item = ServerSseMessage> + Send + Sync + 'static,
    attended: Option<OpenStream>,
) -> MessageStream {
    Box::pin(messages.inspect(move |_| _ = &attended))
}

impl ServiceSessions {
    /// Creates sessions whose answers are kept for this time, for clients that reconnect.
    pub(super) fn new(resuming: Duration) -> Self {
        Self { answers: AnswerCache::new(resuming), ..Self::default() }
    }

    fn lock(&self) -> MutexGuard<'_, SessionTable> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session to close for a new session: the session with the oldest last request and no running call. `None` if
    /// a slot is free.
    fn oldest(&self) -> Result<Option<SessionId>, SessionError> {
        let open = self.lock();
        if open.sessions.len() < SESSIONS {
            return Ok(None);
        }
        let idle = open.sessions.iter().filter(|(_, session)| session.flight.is_empty());
        let oldest = idle.min_by_key(|(_, session)| session.last);
        oldest.map(|(id, _)| Some(id.clone())).ok_or(SessionError::Full)
    }

    /// Whether the stream of this event sends nothing more: the request has ended, and its answer is no longer kept.
    pub(super) fn is_over(&self, id: &str, event: &str) -> bool {
        let Some(stream) = stream_of(event) else { return false };
        let id = SessionId::from(id);
        // A request counts as open until its answer is in the cache.
        let is_open = match self.lock().sessions.get(&id) {
            Some(session) => session.flight.is_open(stream),
            None => return false,
        };
        !is_open && self.answers.after(&id, stream, event).is_none()
    }

    async fn handle(&self, id: &SessionId) -> Result<LocalSessionHandle, SessionError> {
        self.local.sessions.read().await.get(id).cloned().ok_or(SessionError::Unknown)
    }
}

/// The number of the stream to which the event belongs. Event ids have the form `EVENT/STREAM`.
fn stream_of(event: &str) -> Option<u64> {
    event.split_once('/').and_then(|(_, number)| number.parse().ok())
}

impl SessionManager for ServiceSessions {
    type Error = SessionError;
    type Transport = UniqueIdTransport<SessionTransport>;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionError> {
        while let Some(oldest) = self.oldest()? {
            self.close_session(&oldest).await?;
        }
        let (id, pipes) = self.local.create_session().await?;
        let flight = InFlight::of(id.clone(), self.answers.clone());
        let mut open = self.lock();
        open.requests = open.requests.saturating_add(1);
        let session =
            SessionEntry { last: open.requests, flight: flight.clone(), ..SessionEntry::default() };
        open.sessions.insert(id.clone(), session);
        Ok((id, UniqueIdTransport::new(pipes, flight)))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionError> {
        Ok(self.local.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionError> {
        let mut open = self.lock();
        open.requests = open.requests.saturating_add(1);
        let now = open.requests;
        let session = open.sessions.get_mut(id);
        Ok(session.map(|session| session.last = now).is_some())
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionError> {
        self.lock().sessions.remove(id);
        self.answers.forget(id);
        Ok(self.local.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let way = ClientStreams::default();
        let handle = self.handle(id).await?;
        let flight = self.lock().sessions.get(id).ok_or(SessionError::Unknown)?.flight.clone();
        if let JsonRpcMessage::Request(request) = &mut message {
            if let Err(why) = flight.enter(request) {
                let refused = JsonRpcMessage::error(why, Some(request.id.clone()));
                let refused = ServerSseMessage::from_message(refused);
                return Ok(message_stream(stream::iter([refused]), None));
            }
            request.request.extensions_mut().insert(way.clone());
        }
        let asked = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let mut receiver = handle.establish_request_wise_channel().await?;
        if let (Some(asked), Some(stream)) = (&asked, receiver.http_request_id) {
            flight.answered_on(asked, stream);
        }
        let attended = way.attend();
        if let (Some(number), Some(session)) =
            (receiver.http_request_id, self.lock().sessions.get_mut(id))
        {
            session.ways.retain(|_, way| way.strong_count() > 0);
            session.ways.insert(number, Arc::downgrade(&way.0));
        }
        handle.push_message(message, receiver.http_request_id).await?;
        let (answers, id, number) = (self.answers.clone(), id.clone(), receiver.http_request_id);
        let messages = stream::poll_fn(move |context| {
            let message = receiver.inner.poll_recv(context);
            if let (task::Poll::Ready(Some(message)), Some(number)) = (&message, number) {
                answers.set_event(&id, number, message);
            }
            message
        });
        Ok(message_stream(messages, Some(attended)))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionError> {
        Ok(self.local.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        Ok(message_stream(self.local.create_standalone_stream(id).await?, None))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let number = stream_of(&last_event);
        let way = number.and_then(|number: u64| {
            self.lock().sessions.get(id).and_then(|session| session.ways.get(&number)?.upgrade())
        });
        // The SDK sends nothing more for an answered request.
        if let Some(kept) = number.and_then(|number| self.answers.after(id, number, &last_event)) {
            return Ok(message_stream(stream::iter(kept), None));
        }
        let messages = self.local.resume(id, last_event).await?;
        Ok(message_stream(messages, way.map(|way| ClientStreams(way).attend())))
    }
}
