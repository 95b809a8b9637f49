//! The unanswered requests of one session, whose ids must differ.

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rmcp::{
    ErrorData, RoleServer,
    model::{
        ClientJsonRpcMessage, ClientNotification, ClientRequest, GetExtensions as _,
        JsonRpcMessage, JsonRpcRequest, RequestId, ServerJsonRpcMessage,
    },
    transport::{Transport, streamable_http_server::SessionId},
};

use super::answer_cache::AnswerCache;

/// The unanswered requests of one session.
#[derive(Clone, Default)]
pub(super) struct InFlight {
    open: Arc<Mutex<HashMap<RequestId, FlightState>>>,
    /// The id of the session, and the cache of answers for clients that reconnect.
    answers: Option<(SessionId, AnswerCache)>,
}

/// The state of a request. A cancelled request gets no answer, so the client can use its id again after the request has
/// ended.
#[derive(Clone, Copy, Default)]
struct FlightState {
    cancelled: bool,
    ended: bool,
    /// The number of the stream on which the client waits for the answer.
    stream: Option<u64>,
}

/// A mark on a request. The request has ended when the last clone of the mark is dropped.
#[derive(Clone)]
struct FlightMark(Arc<MarkedRequest>);

struct MarkedRequest {
    id: RequestId,
    of: InFlight,
    /// Whether the session has read the request. Only then does the session answer it.
    is_read: AtomicBool,
}

impl Drop for MarkedRequest {
    fn drop(&mut self) {
        let mut open = self.of.lock();
        let Some(state) = open.get_mut(&self.id) else { return };
        state.ended = true;
        if state.cancelled || !self.is_read.load(Ordering::Relaxed) {
            open.remove(&self.id);
        }
    }
}

impl InFlight {
    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, FlightState>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tracks the requests of this session, and caches their answers.
    pub(super) fn of(session: SessionId, answers: AnswerCache) -> Self {
        Self { answers: Some((session, answers)), ..Self::default() }
    }

    /// Records on which stream the client waits for the answer to this request.
    pub(super) fn answered_on(&self, id: &RequestId, stream: u64) {
        if let Some(state) = self.lock().get_mut(id) {
            state.stream = Some(stream);
        }
    }

    /// Records the answer to a request.
    fn end_request(&self, id: &RequestId, answer: &ServerJsonRpcMessage) {
        let mut open = self.lock();
        let stream = open.get(id).and_then(|state| state.stream);
        if let (Some(stream), Some((session, answers))) = (stream, &self.answers) {
            answers.keep(session, stream, answer);
        }
        open.remove(id);
    }

    /// Whether a client still waits on this stream for an answer.
    pub(super) fn is_open(&self, stream: u64) -> bool {
        self.lock().values().any(|state| state.stream == Some(stream))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Adds a request, or returns the error for an id that belongs to an unanswered request. A client must not use an
    /// id twice in a session (<https://modelcontextprotocol.io/specification/2025-11-25/basic#requests>), because the
    /// client could not tell the two answers apart.
    pub(super) fn enter(
        &self,
        request: &mut JsonRpcRequest<ClientRequest>,
    ) -> Result<(), ErrorData> {
        let extensions = request.request.extensions_mut();
        if extensions.get::<FlightMark>().is_some() {
            return Ok(());
        }
        let id = request.id.clone();
        let mut open = self.lock();
        if open.contains_key(&id) {
            let why = format!(
                "nothing was run: a request with the id {id} has no answer yet; give each request of a session an \
                 id of its own"
            );
            return Err(ErrorData::invalid_request(why, None));
        }
        open.insert(id.clone(), FlightState::default());
        drop(open);
        let marked = MarkedRequest { id, of: self.clone(), is_read: AtomicBool::new(false) };
        request.request.extensions_mut().insert(FlightMark(Arc::new(marked)));
        Ok(())
    }

    fn cancel(&self, id: &RequestId) {
        let mut open = self.lock();
        let Some(state) = open.get_mut(id) else { return };
        state.cancelled = true;
        if state.ended {
            open.remove(id);
        }
    }
}

/// A transport that refuses a request whose id belongs to an unanswered request.
pub(super) struct UniqueIdTransport<T> {
    inner: T,
    open: InFlight,
    /// The pending answer to a refused request. The answer is stored here, because `receive` may be cancelled at any
    /// time.
    refusal: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<T> UniqueIdTransport<T> {
    pub(super) fn new(inner: T, open: InFlight) -> Self {
        Self { inner, open, refusal: None }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for UniqueIdTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        match &message {
            JsonRpcMessage::Response(answer) => self.open.end_request(&answer.id, &message),
            JsonRpcMessage::Error(answer) => {
                if let Some(id) = &answer.id {
                    self.open.end_request(id, &message);
                }
            }
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => {}
        }
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if let Some(refusal) = &mut self.refusal {
                refusal.await;
                self.refusal = None;
            }
            let mut message = self.inner.receive().await?;
            match &mut message {
                JsonRpcMessage::Request(request) => {
                    if let Err(why) = self.open.enter(request) {
                        let refused = JsonRpcMessage::error(why, Some(request.id.clone()));
                        let sending = self.inner.send(refused);
                        // Sending fails only if the client is gone. The next read then also fails.
                        self.refusal = Some(Box::pin(async { drop(sending.await) }));
                        continue;
                    }
                    if let Some(mark) = request.request.extensions().get::<FlightMark>() {
                        mark.0.is_read.store(true, Ordering::Relaxed);
                    }
                }
                JsonRpcMessage::Notification(told) => {
                    if let ClientNotification::CancelledNotification(told) = &told.notification
                        && let Some(id) = &told.params.request_id
                    {
                        self.open.cancel(id);
                    }
                }
                JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
            }
            return Some(message);
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), T::Error>> + Send {
        self.inner.close()
    }
}

impl fmt::Debug for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InFlight").field(&self.lock().len()).finish()
    }
}
