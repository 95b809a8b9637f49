//! One session with a server: from its start to the loss of its process, stream or number.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rmcp::{
    RoleClient,
    model::{CancelledNotificationParam, ClientRequest, RequestId, ServerCapabilities},
    service::{Peer, RunningService, ServiceError},
};
use serde_json::Value;
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::AbortHandle,
};

use super::{
    handler::Handler,
    process::{Child, Said},
};

/// How long what a process has written may be read after its end.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// A session. Its process and its tasks end with it.
pub(super) struct Session {
    service: RunningService<RoleClient, Handler>,
    child: Mutex<Option<Child>>,
    said: Said,
    /// Calls that nobody waits for any more.
    unwanted: UnboundedSender<RequestId>,
    teller: AbortHandle,
    /// Ends the session with its process, though another one holds the pipes.
    watcher: Option<AbortHandle>,
    /// Whether the server does not know the session any more.
    lost: AtomicBool,
    /// What the server said of each of its tools, as a hash.
    definitions: Mutex<BTreeMap<String, String>>,
}

impl Session {
    pub(super) fn new(service: RunningService<RoleClient, Handler>, child: Option<Child>) -> Self {
        let (unwanted, calls) = unbounded_channel();
        let teller = tokio::spawn(tell(service.peer().clone(), calls)).abort_handle();
        let watcher = child.as_ref().map(|child| {
            let (ended, end) = (child.ended(), service.cancellation_token());
            let watch = async move {
                ended.await;
                // What it has written is read first.
                tokio::time::sleep(LAST_WORDS).await;
                end.cancel();
            };
            tokio::spawn(watch).abort_handle()
        });
        let said = child.as_ref().map(|child| child.said().clone()).unwrap_or_default();
        Self {
            service,
            child: Mutex::new(child),
            said,
            unwanted,
            teller,
            watcher,
            lost: AtomicBool::new(false),
            definitions: Mutex::default(),
        }
    }

    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    pub(super) fn handler(&self) -> &Handler {
        self.service.service()
    }

    /// What the process has said last, as the end of an error's text.
    pub(super) fn said(&self) -> String {
        self.said.shown()
    }

    /// Whether a call can be sent.
    pub(super) fn is_alive(&self) -> bool {
        !self.lost.load(Ordering::Relaxed) && !self.peer().is_transport_closed()
    }

    pub(super) fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Keeps what the server says of its tools now.
    pub(super) fn define(&self, definitions: BTreeMap<String, String>) {
        *self.definitions.lock().unwrap_or_else(PoisonError::into_inner) = definitions;
    }

    /// Whether the server describes this tool in this way, if it has the tool at all.
    pub(super) fn describes(&self, tool: &str, definition: &str) -> Option<bool> {
        let definitions = self.definitions.lock().unwrap_or_else(PoisonError::into_inner);
        definitions.get(tool).map(|known| known == definition)
    }

    /// Whether the server has said that it has resources, and prompts.
    pub(super) fn offers(&self) -> (bool, bool) {
        let said = self.peer().peer_info();
        let able = said.as_ref().map(|said| &said.capabilities);
        let has = |offers: fn(&ServerCapabilities) -> bool| able.is_some_and(offers);
        (has(|able| able.resources.is_some()), has(|able| able.prompts.is_some()))
    }

    /// Asks for something that changes nothing, and reads the answer as JSON, whatever it is.
    pub(super) async fn ask(&self, request: ClientRequest) -> Result<Value, ServiceError> {
        let answer = self.peer().send_request(request).await?;
        serde_json::to_value(answer).map_err(|_| ServiceError::UnexpectedResponse)
    }

    /// Tells the server that nobody waits for this call any more.
    pub(super) fn let_go(&self, call: RequestId) {
        // It fails only if the session has ended.
        let _ = self.unwanted.send(call);
    }

    /// Ends it: closes the connection and gives the process time to end by itself.
    pub(super) async fn close(&self) {
        self.lose();
        self.service.cancellation_token().cancel();
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(child) = child {
            child.end().await;
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.teller.abort();
        if let Some(watcher) = &self.watcher {
            watcher.abort();
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("alive", &self.is_alive()).finish_non_exhaustive()
    }
}

/// Tells the server which calls nobody waits for. It ends with the session.
async fn tell(peer: Peer<RoleClient>, mut calls: UnboundedReceiver<RequestId>) {
    while let Some(call) = calls.recv().await {
        let reason = Some("the call was stopped".to_owned());
        if peer.notify_cancelled(CancelledNotificationParam::new(Some(call), reason)).await.is_err()
        {
            break;
        }
    }
}
