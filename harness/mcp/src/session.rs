//! One session with a server. A session ends when its process, its stream or its id is lost.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::OptionFuture;
use rmcp::{
    RoleClient,
    model::{
        CancelledNotificationParam, ClientRequest, ProtocolVersion, RequestId, ServerCapabilities,
        ServerNotification, SubscriptionFilter,
    },
    service::{Peer, PeerRequestOptions, RunningService, ServiceError},
};
use serde_json::Value;
use tokio::{
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot,
    },
    task::AbortHandle,
    time::{Instant, timeout},
};

use super::{
    handler::ServerEventHandler,
    http_client::SessionState,
    pending_requests::PendingRequests,
    process::{ServerProcess, StderrTail},
};

/// How long the remaining output of an ended process is read.
pub(super) const LAST_WORDS: Duration = Duration::from_millis(250);

/// How long a server at a URL may take to end a session.
const FAREWELL: Duration = Duration::from_secs(2);

/// How long a server may take to agree to report changes.
const LISTEN: Duration = Duration::from_secs(5);

/// How long the first list of tools waits until the server agrees to report changes. If the server agrees later, the
/// tools are listed again.
const FIRST: Duration = Duration::from_millis(500);

/// The maximum age of a list of tools if the server does not report changes.
const FRESH: Duration = Duration::from_secs(60);

/// A session. Dropping a session ends its process and its tasks.
pub(super) struct ClientSession {
    /// `None` after the session was closed.
    service: Mutex<Option<RunningService<RoleClient, ServerEventHandler>>>,
    peer: Peer<RoleClient>,
    handler: ServerEventHandler,
    child: Mutex<Option<ServerProcess>>,
    said: StderrTail,
    /// The unanswered requests to a process.
    open: PendingRequests,
    /// Sends the ids of requests whose callers no longer wait.
    unwanted: UnboundedSender<RequestId>,
    teller: AbortHandle,
    /// Ends the session when its process ends, even if another process holds the pipes.
    watcher: Option<AbortHandle>,
    /// Whether the session was lost.
    lost: AtomicBool,
    /// The state learned from the HTTP responses of a server at a URL.
    session_state: Arc<SessionState>,
    listed: Mutex<ToolDefinitions>,
    /// The task that receives changes of the tools, from servers that report them only to subscribers.
    listener: Mutex<Option<AbortHandle>>,
    /// The state of the subscription to changes of the tools.
    listening: Arc<ChangeSubscription>,
    /// Whether the server took longer than [`FIRST`] to agree to report changes. If so, later lists do not wait for the
    /// agreement.
    is_slow: AtomicBool,
}

/// The state of the subscription to changes of the tools.
#[derive(Default)]
struct ChangeSubscription {
    /// Whether the subscription was requested and has not ended.
    is_open: AtomicBool,
    /// Whether the server has agreed to report changes.
    is_agreed: AtomicBool,
}

/// The last list of the server's tools.
#[derive(Default)]
struct ToolDefinitions {
    /// A hash of each tool's definition, by name.
    definitions: BTreeMap<String, String>,
    /// The time until which the list is valid, if the server does not report changes.
    until: Option<Instant>,
}

impl ClientSession {
    pub(super) fn new(
        service: RunningService<RoleClient, ServerEventHandler>,
        child: Option<ServerProcess>,
        session_state: Arc<SessionState>,
        open: PendingRequests,
    ) -> Self {
        let (unwanted, calls) = unbounded_channel();
        let teller = tokio::spawn(tell(service.peer().clone(), calls)).abort_handle();
        let watcher = child.as_ref().map(|child| {
            let (ended, end) = (child.ended(), service.cancellation_token());
            let watch = async move {
                ended.await;
                // Meanwhile, another task reads the rest of the process's output.
                tokio::time::sleep(LAST_WORDS).await;
                end.cancel();
            };
            tokio::spawn(watch).abort_handle()
        });
        let said = child.as_ref().map(|child| child.last_output().clone()).unwrap_or_default();
        let (peer, handler) = (service.peer().clone(), service.service().clone());
        Self {
            service: Mutex::new(Some(service)),
            peer,
            handler,
            child: Mutex::new(child),
            said,
            open,
            unwanted,
            teller,
            watcher,
            lost: AtomicBool::new(false),
            session_state,
            listed: Mutex::default(),
            listener: Mutex::default(),
            listening: Arc::default(),
            is_slow: AtomicBool::new(false),
        }
    }

    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        &self.peer
    }

    pub(super) fn handler(&self) -> &ServerEventHandler {
        &self.handler
    }

    /// How the process has ended, and its last output, as text for the end of an error. If the session has ended, the
    /// output is first read to its end.
    pub(super) async fn last_output(&self) -> String {
        let mut how = String::new();
        if self.has_process() && !self.is_alive() {
            ((), how) = tokio::join!(self.said.last_words(), self.how_ended());
        }
        format!("{how}{}", self.said.shown())
    }

    /// How the process has ended: see [`ServerProcess::how_ended`]. Empty for a server at a URL.
    fn how_ended(&self) -> impl Future<Output = String> + Send + use<> {
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = child.as_ref().map(ServerProcess::how_ended);
        async { OptionFuture::from(ended).await.unwrap_or_default() }
    }

    /// Whether a call can be sent in this session.
    pub(super) fn is_alive(&self) -> bool {
        let is_lost = self.lost.load(Ordering::Relaxed) || self.session_state.is_expired();
        !is_lost && !self.peer().is_transport_closed()
    }

    pub(super) fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// The names of all tools listed since the last call of this function, for a server at a URL.
    pub(super) fn take_listed(&self) -> Vec<String> {
        self.session_state.take_listed()
    }

    fn listed(&self) -> std::sync::MutexGuard<'_, ToolDefinitions> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the current definitions of the tools. `fresh` is how long the definitions are valid according to the
    /// server.
    pub(super) fn define(&self, definitions: BTreeMap<String, String>, fresh: Option<Duration>) {
        let until = Some(Instant::now() + fresh.unwrap_or(FRESH).min(FRESH));
        *self.listed() = ToolDefinitions { definitions, until };
    }

    /// The definitions of the server's tools in the last list.
    pub(super) fn definitions(&self) -> BTreeMap<String, String> {
        self.listed().definitions.clone()
    }

    /// Whether the tool has this definition; `None` if the server does not have the tool.
    pub(super) fn describes(&self, tool: &str, definition: &str) -> Option<bool> {
        self.listed().definitions.get(tool).map(|known| known == definition)
    }

    /// Whether the tools may have changed without a report from the server.
    pub(super) fn is_old(&self) -> bool {
        let tells = match self.has_no_session() {
            true => self.listening.is_agreed.load(Ordering::Relaxed),
            false => self.can_report_changes(),
        };
        !tells && self.listed().until.is_none_or(|until| Instant::now() >= until)
    }

    /// Whether the version of the protocol has no sessions. In a version without sessions, a server reports changes
    /// only to subscribers.
    fn has_no_session(&self) -> bool {
        let said = self.peer().peer_info();
        said.is_some_and(|said| said.protocol_version == ProtocolVersion::V_2026_07_28)
    }

    /// Whether the server declares that it reports changes of its tools.
    fn can_report_changes(&self) -> bool {
        let said = self.peer().peer_info();
        let tools = said.as_ref().and_then(|said| said.capabilities.tools.as_ref());
        tools.is_some_and(|tools| tools.list_changed == Some(true))
    }

    /// Subscribes to changes of the tools, if the server reports them only to subscribers, and waits a moment for the
    /// server's agreement. Without an agreement, the tools are listed again after some time: see
    /// [`is_old`](Self::is_old).
    pub(super) async fn listen(&self) {
        if !self.has_no_session() || !self.can_report_changes() {
            return;
        }
        if self.listening.is_open.swap(true, Ordering::Relaxed) {
            return;
        }
        let (agrees, agreed) = oneshot::channel();
        let (peer, handler) = (self.peer().clone(), self.handler().clone());
        let listening = Arc::clone(&self.listening);
        let hearing = async move {
            hear(peer, &handler, &listening.is_agreed, agrees).await;
            // The order of the two stores matters: a task that finds the list old must also find the subscription
            // closed.
            let was_agreed = listening.is_agreed.swap(false, Ordering::Relaxed);
            listening.is_open.store(false, Ordering::Release);
            if was_agreed {
                handler.stale.store(true, Ordering::Release);
            }
        };
        let task = tokio::spawn(hearing).abort_handle();
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        if !self.is_slow.load(Ordering::Relaxed) && timeout(FIRST, agreed).await.is_err() {
            self.is_slow.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the server declares resources, and whether it declares prompts.
    pub(super) fn has_resources_and_prompts(&self) -> (bool, bool) {
        let said = self.peer().peer_info();
        let able = said.as_ref().map(|said| &said.capabilities);
        let has = |offers: fn(&ServerCapabilities) -> bool| able.is_some_and(offers);
        (has(|able| able.resources.is_some()), has(|able| able.prompts.is_some()))
    }

    /// Sends a request without side effects, and returns any answer as JSON.
    pub(super) async fn ask(&self, request: ClientRequest) -> Result<Value, ServiceError> {
        let options = PeerRequestOptions::no_options();
        let mut waiting = self.begin_request();
        let sent = self.peer().send_request_with_option(request, options).await?;
        waiting.sent(&sent.id);
        let answer = sent.await_response().await;
        waiting.ended();
        let answer = answer?;
        let mut answer =
            serde_json::to_value(answer).map_err(|_| ServiceError::UnexpectedResponse)?;
        self.handler.secrets.hide(&mut answer);
        Ok(answer)
    }

    /// Counts a request that is about to be sent as running.
    pub(super) fn begin_request(&self) -> RunningRequest<'_> {
        self.session_state.begin();
        RunningRequest { session: self, request: None }
    }

    /// Whether the server is a process.
    pub(super) fn has_process(&self) -> bool {
        self.watcher.is_some()
    }

    /// Tells the server that the caller no longer waits for this request.
    fn let_go(&self, call: RequestId) {
        self.open.cancelled(&call);
        self.session_state.is_over(&call);
        // Sending fails only if the session has ended.
        let _ = self.unwanted.send(call);
    }

    /// Ends the session: closes the connection, and waits for the process to end by itself, or for the server at a URL
    /// to end the session.
    pub(super) async fn close(&self) {
        self.lose();
        self.session_state.stop();
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner).take();
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner).take();
        let hears = OptionFuture::from(service.map(|mut service| async move {
            let _ = service.close_with_timeout(FAREWELL).await;
        }));
        tokio::join!(hears, OptionFuture::from(child.map(ServerProcess::end)));
    }
}

impl Drop for ClientSession {
    fn drop(&mut self) {
        self.session_state.stop();
        self.teller.abort();
        if let Some(watcher) = &self.watcher {
            watcher.abort();
        }
        if let Some(listener) = &*self.listener.lock().unwrap_or_else(PoisonError::into_inner) {
            listener.abort();
        }
    }
}

/// A running request. If this value is dropped before the answer, the server is notified that the caller no longer
/// waits.
pub(super) struct RunningRequest<'s> {
    session: &'s ClientSession,
    request: Option<RequestId>,
}

impl RunningRequest<'_> {
    pub(super) fn sent(&mut self, request: &RequestId) {
        self.request = Some(request.clone());
    }

    /// Marks the request as ended, with or without an answer.
    pub(super) fn ended(mut self) {
        self.request = None;
    }
}

impl Drop for RunningRequest<'_> {
    fn drop(&mut self) {
        self.session.session_state.end();
        if let Some(request) = self.request.take() {
            self.session.let_go(request);
        }
    }
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSession").field("alive", &self.is_alive()).finish_non_exhaustive()
    }
}

/// Sends a cancellation for each request whose caller no longer waits. Ends with the session.
async fn tell(peer: Peer<RoleClient>, mut calls: UnboundedReceiver<RequestId>) {
    while let Some(call) = calls.recv().await {
        let reason = Some("the call was stopped".to_owned());
        let cancelled = CancelledNotificationParam::new(Some(call), reason);
        if peer.notify_cancelled(cancelled).await.is_err() && peer.is_transport_closed() {
            break;
        }
    }
}

/// Subscribes to changes of the server's tools, signals when the server agrees, and passes on the reports until the
/// subscription ends. If the server agrees late, the caller has already listed the tools. The tools may have changed
/// since then, so the list is marked as stale.
async fn hear(
    peer: Peer<RoleClient>,
    handler: &ServerEventHandler,
    is_agreed: &AtomicBool,
    agrees: oneshot::Sender<()>,
) {
    let wanted = SubscriptionFilter::builder().tools_list_changed().build();
    let Ok(Ok(mut subscription)) = timeout(LISTEN, peer.listen(wanted)).await else { return };
    if subscription.acknowledged().tools_list_changed != Some(true) {
        return;
    }
    is_agreed.store(true, Ordering::Relaxed);
    if agrees.send(()).is_err() {
        handler.stale.store(true, Ordering::Relaxed);
    }
    while let Ok(Some(told)) = subscription.next().await {
        if matches!(told, ServerNotification::ToolListChangedNotification(_)) {
            handler.tools_changed();
        }
    }
}
