//! Handles what a server may send by itself: progress, changes of its tools, and questions to a person.

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

/// The number of reports that are kept for calls that do not know their own token yet.
const EARLY: usize = 64;

/// The longest message, in bytes, of such a report; a longer one is left out.
const EARLY_BYTES: usize = 4096;

/// The calls that receive progress reports.
#[derive(Clone, Default)]
pub(super) struct ProgressListeners(Arc<Mutex<ProgressState>>);

#[derive(Default)]
struct ProgressState {
    calls: HashMap<ProgressToken, (f64, Progress)>,
    /// Reports that came before their calls knew their tokens.
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
            // It is not cut, since half a secret would not be recognized.
            let small = |message: &String| message.len() <= EARLY_BYTES;
            report.message = report.message.filter(small);
            all.early.push_back(report);
            return;
        };
        // Each report is handled in a task of its own, so an older one can come later and is ignored. NaN is
        // ignored too.
        if report.progress > *last {
            *last = report.progress;
            let progress = progress.clone();
            // The program's watcher is called without the lock.
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

/// A call receives reports as long as this value exists.
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

/// Receives what one server sends by itself.
#[derive(Clone)]
pub(super) struct ServerEventHandler {
    pub(super) server: String,
    pub(super) reports: ProgressListeners,
    /// Whether the server has said that its tools have changed. `changed` is for the program, which can list them
    /// again; `stale` is for this session, which does so before the next call.
    pub(super) changed: Arc<AtomicBool>,
    pub(super) stale: Arc<AtomicBool>,
    pub(super) elicitation: ElicitationHandler,
    /// What the model must not read in what the server says.
    pub(super) secrets: KnownSecrets,
}

impl fmt::Debug for ServerEventHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerEventHandler").field("server", &self.server).finish_non_exhaustive()
    }
}

impl ServerEventHandler {
    /// Notes that the server has said that its tools have changed.
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

    // A capability that was not declared must be refused: without this, the answer would be an empty list.
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
