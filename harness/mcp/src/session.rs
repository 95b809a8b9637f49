//! One session with a server: from its start to the loss of its process, its stream or its id.

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

/// How long the output of a process may be read after its end.
pub(super) const LAST_WORDS: Duration = Duration::from_millis(250);

/// The time that a server at an address has to hear of the end of a session.
const FAREWELL: Duration = Duration::from_secs(2);

/// The time that a server has to agree to report changes.
const LISTEN: Duration = Duration::from_secs(5);

/// How long the first list of the tools waits for this agreement. A server that agrees later is asked for its tools
/// again.
const FIRST: Duration = Duration::from_millis(500);

/// The longest time for which a list of tools is valid, if the server does not report changes.
const FRESH: Duration = Duration::from_secs(60);

/// A session. Its process and its tasks end with it.
pub(super) struct ClientSession {
    /// `None` after the session was closed.
    service: Mutex<Option<RunningService<RoleClient, ServerEventHandler>>>,
    peer: Peer<RoleClient>,
    handler: ServerEventHandler,
    child: Mutex<Option<ServerProcess>>,
    said: StderrTail,
    /// The requests to a process that have no answer.
    open: PendingRequests,
    /// Requests that nobody waits for any more.
    unwanted: UnboundedSender<RequestId>,
    teller: AbortHandle,
    /// Ends the session with its process, even if another process holds the pipes.
    watcher: Option<AbortHandle>,
    /// Whether the session is lost.
    lost: AtomicBool,
    /// What is seen in the answers of a server at an address.
    session_state: Arc<SessionState>,
    listed: Mutex<ToolDefinitions>,
    /// Receives changes of the tools, from servers that have to be asked for them.
    listener: Mutex<Option<AbortHandle>>,
    /// The state of this subscription.
    listening: Arc<ChangeSubscription>,
    /// Whether the server took longer than [`FIRST`] to agree, so that later lists do not wait for it.
    is_slow: AtomicBool,
}

/// The state of the subscription to changes of the tools.
#[derive(Default)]
struct ChangeSubscription {
    /// Whether the server was asked for changes, and the answer to this request has not ended.
    is_open: AtomicBool,
    /// Whether the server has agreed to report changes.
    is_agreed: AtomicBool,
}

/// The list of the server's tools.
#[derive(Default)]
struct ToolDefinitions {
    /// A hash of each tool's description, by name.
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
                // The output of the process is read first.
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

    /// How the process has ended and its last output, to be appended to an error's text. If the session has ended, the rest
    /// of the output is read first.
    pub(super) async fn last_output(&self) -> String {
        let mut how = String::new();
        if self.has_process() && !self.is_alive() {
            ((), how) = tokio::join!(self.said.last_words(), self.how_ended());
        }
        format!("{how}{}", self.said.shown())
    }

    /// See [`ServerProcess::how_ended`]. It is empty for a server at an address.
    fn how_ended(&self) -> impl Future<Output = String> + Send + use<> {
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = child.as_ref().map(ServerProcess::how_ended);
        async { OptionFuture::from(ended).await.unwrap_or_default() }
    }

    /// Whether a call can be sent.
    pub(super) fn is_alive(&self) -> bool {
        let is_lost = self.lost.load(Ordering::Relaxed) || self.session_state.is_expired();
        !is_lost && !self.peer().is_transport_closed()
    }

    pub(super) fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// The names of all tools that were listed since this was asked last, if the server is at an address.
    pub(super) fn take_listed(&self) -> Vec<String> {
        self.session_state.take_listed()
    }

    fn listed(&self) -> std::sync::MutexGuard<'_, ToolDefinitions> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the current descriptions of the tools, and the time for which the server says that they are valid.
    pub(super) fn define(&self, definitions: BTreeMap<String, String>, fresh: Option<Duration>) {
        let until = Some(Instant::now() + fresh.unwrap_or(FRESH).min(FRESH));
        *self.listed() = ToolDefinitions { definitions, until };
    }

    /// The descriptions of the server's tools, as they were listed last.
    pub(super) fn definitions(&self) -> BTreeMap<String, String> {
        self.listed().definitions.clone()
    }

    /// Whether the server describes this tool in this way; `None` if it does not have the tool.
    pub(super) fn describes(&self, tool: &str, definition: &str) -> Option<bool> {
        self.listed().definitions.get(tool).map(|known| known == definition)
    }

    /// Whether the tools may have changed without a report of the server.
    pub(super) fn is_old(&self) -> bool {
        let tells = match self.has_no_session() {
            true => self.listening.is_agreed.load(Ordering::Relaxed),
            false => self.can_report_changes(),
        };
        !tells && self.listed().until.is_none_or(|until| Instant::now() >= until)
    }

    /// Whether the version of the protocol is one without sessions, in which a server reports nothing unless it is
    /// asked.
    fn has_no_session(&self) -> bool {
        let said = self.peer().peer_info();
        said.is_some_and(|said| said.protocol_version == ProtocolVersion::V_2026_07_28)
    }

    /// Whether the server says that it reports changes of its tools.
    fn can_report_changes(&self) -> bool {
        let said = self.peer().peer_info();
        let tools = said.as_ref().and_then(|said| said.capabilities.tools.as_ref());
        tools.is_some_and(|tools| tools.list_changed == Some(true))
    }

    /// Asks the server to report changes of its tools, if it has to be asked, and waits a moment until it agrees.
    /// Without this the tools are listed again after some time: see [`is_old`](Self::is_old).
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
            // The order matters: a task that finds the list old must also find that no subscription is open.
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

    /// Whether the server has said that it has resources, and whether it has prompts.
    pub(super) fn has_resources_and_prompts(&self) -> (bool, bool) {
        let said = self.peer().peer_info();
        let able = said.as_ref().map(|said| &said.capabilities);
        let has = |offers: fn(&ServerCapabilities) -> bool| able.is_some_and(offers);
        (has(|able| able.resources.is_some()), has(|able| able.prompts.is_some()))
    }

    /// Sends a request that changes nothing, and returns the answer as JSON, whatever it is.
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

    /// A request that is about to be sent. It is counted among those that run.
    pub(super) fn begin_request(&self) -> RunningRequest<'_> {
        self.session_state.begin();
        RunningRequest { session: self, request: None }
    }

    /// Whether the server is a process.
    pub(super) fn has_process(&self) -> bool {
        self.watcher.is_some()
    }

    /// Tells the server that this request is not waited for any more.
    fn let_go(&self, call: RequestId) {
        self.open.cancelled(&call);
        self.session_state.is_over(&call);
        // It fails only if the session has ended.
        let _ = self.unwanted.send(call);
    }

    /// Ends the session: closes the connection and gives the process time to end by itself, and a server at an address
    /// time to hear of it.
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

/// A request that runs. Dropped before the answer has come, it tells the server that the request is not waited for any more.
pub(super) struct RunningRequest<'s> {
    session: &'s ClientSession,
    request: Option<RequestId>,
}

impl RunningRequest<'_> {
    pub(super) fn sent(&mut self, request: &RequestId) {
        self.request = Some(request.clone());
    }

    /// The request has ended, with or without an answer.
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

/// Tells the server which calls are not waited for any more. It ends with the session.
async fn tell(peer: Peer<RoleClient>, mut calls: UnboundedReceiver<RequestId>) {
    while let Some(call) = calls.recv().await {
        let reason = Some("the call was stopped".to_owned());
        let cancelled = CancelledNotificationParam::new(Some(call), reason);
        if peer.notify_cancelled(cancelled).await.is_err() && peer.is_transport_closed() {
            break;
        }
    }
}

/// Asks the server to report changes of its tools, signals when the server agrees, and passes on the reports until
/// the subscription ends. If nobody waits for the agreement any more, the tools were listed before it and may have
/// changed since.
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
