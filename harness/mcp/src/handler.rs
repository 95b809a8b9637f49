//! Handles the messages that a server sends by itself: progress, changes of its tools, and questions to a person.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    elicitation::ElicitationHandler, known_secrets::KnownSecrets, stdout_filter::UNREADABLE,
};
use harness_core::tool::Progress;
use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, CustomRequest, CustomResult, ElicitRequestParams,
        ElicitResult, ElicitationCapability, ErrorCode, FormElicitationCapability, Implementation,
        ProgressNotificationParam, ProgressToken, ProtocolVersion,
    },
    service::{NotificationContext, RequestContext},
};

/// The maximum number of progress reports kept for calls that are not yet registered with their token.
const EARLY: usize = 64;

/// The maximum length, in bytes, of the message of a kept report. A longer message is left out.
const EARLY_BYTES: usize = 4096;

/// The calls that receive progress reports.
#[derive(Clone, Default)]
pub(super) struct ProgressListeners(Arc<Mutex<ProgressState>>);

#[derive(Default)]
struct ProgressState {
    calls: HashMap<ProgressToken, (f64, Progress)>,
    /// Reports that arrived before their calls were registered.
    early: VecDeque<ProgressNotificationParam>,
}

impl ProgressListeners {
    /// Passes reports with this token to `progress` until the returned value is dropped.
    pub(super) fn watch(&self, token: &ProgressToken, progress: &Progress) -> ProgressSubscription {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.calls.insert(token.clone(), (f64::NEG_INFINITY, progress.clone()));
        let early = std::mem::take(&mut all.early);
        let (own, others): (VecDeque<_>, VecDeque<_>) =
            early.into_iter().partition(|report| report.progress_token == *token);
        all.early = others;
        drop(all);
        own.into_iter().for_each(|report| self.deliver(report));
        ProgressSubscription { reports: self.clone(), token: token.clone() }
    }

    fn deliver(&self, mut report: ProgressNotificationParam) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((last, progress)) = all.calls.get_mut(&report.progress_token) else {
            if all.early.len() == EARLY {
                all.early.pop_front();
            }
            // A long message is left out and not cut, because half a secret would not be recognized.
            let small = |message: &String| message.len() <= EARLY_BYTES;
            report.message = report.message.filter(small);
            all.early.push_back(report);
            return;
        };
        // Each report is handled in a task of its own, so an older report may arrive later. Older reports and NaN are
        // ignored.
        if report.progress > *last {
            *last = report.progress;
            let progress = progress.clone();
            // The program's function is called without the lock.
            drop(all);
            progress.report(words(&report));
        }
    }
}

fn words(report: &ProgressNotificationParam) -> String {
    let ProgressNotificationParam { progress, total, message, .. } = report;
    let total = total.map(|total| format!(" of {total}")).unwrap_or_default();
    let message = message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
    format!("{progress}{total}{message}")
}

/// The call receives progress reports until this value is dropped.
pub(super) struct ProgressSubscription {
    reports: ProgressListeners,
    token: ProgressToken,
}

impl Drop for ProgressSubscription {
    fn drop(&mut self) {
        let mut all = self.reports.0.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = all.calls.remove(&self.token);
        drop(all);
        drop(gone);
    }
}

/// Handles the messages that one server sends by itself.
#[derive(Clone)]
pub(super) struct ServerEventHandler {
    pub(super) server: String,
    pub(super) reports: ProgressListeners,
    /// Whether the server has announced a change of its tools. `changed` is for the program, which can list the tools
    /// again. `stale` is for this session, which lists the tools again before the next call.
    pub(super) changed: Arc<AtomicBool>,
    pub(super) stale: Arc<AtomicBool>,
    pub(super) elicitation: ElicitationHandler,
    /// The secrets to remove from the server's messages before the model reads them.
    pub(super) secrets: KnownSecrets,
}

impl fmt::Debug for ServerEventHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerEventHandler").field("server", &self.server).finish_non_exhaustive()
    }
}

impl ServerEventHandler {
    /// Records that the server has announced a change of its tools.
    pub(super) fn tools_changed(&self) {
        self.changed.store(true, Ordering::Relaxed);
        self.stale.store(true, Ordering::Relaxed);
    }
}

impl ClientHandler for ServerEventHandler {
    fn get_info(&self) -> ClientConfig {
        let mut able = ClientCapabilities::default();
        if self.elicitation.is_available() {
            let forms = ElicitationCapability::new().with_form(FormElicitationCapability::new());
            able.elicitation = Some(forms);
        }
        let this = Implementation::new("harness", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(able, this).with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    async fn on_progress(
        &self,
        report: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.reports.deliver(report);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tools_changed();
    }

    // The client has not declared this capability, so the request must be refused. The default implementation would
    // return an empty list.
    #[expect(deprecated, reason = "servers ask for it still")]
    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        Err(ErrorData::method_not_found::<rmcp::model::ListRootsRequestMethod>())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        Err(match request.method.as_str() {
            UNREADABLE => ErrorData::invalid_request("the request cannot be read", None),
            _ => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None),
        })
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(self.elicitation.answer(request).await)
    }
}
