//! What a server may send by itself: progress, that its tools have changed, and questions to a person.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
        ElicitationCapability, FormElicitationCapability, Implementation,
        ProgressNotificationParam, ProgressToken, ProtocolVersion,
    },
    service::{NotificationContext, RequestContext},
};
use serde_json::{Map, Value};

use crate::tool::Progress;

/// Reports that are kept for calls that do not know their own token yet.
const EARLY: usize = 64;

/// A form that a server wants a person to fill in: see [`on_form`](super::McpServerBuilder::on_form).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct McpForm {
    /// The name that the program has given to the server.
    pub server: String,
    /// What the server asks, in its own words.
    pub message: String,
    /// JSON Schema of what is to be filled in: an object whose properties are texts, numbers, truth values and
    /// choices.
    pub schema: Value,
}

/// What a person says to a [`McpForm`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum McpAnswer {
    /// The form, filled in.
    Accept(Map<String, Value>),
    /// The person does not want to give it.
    Decline,
    /// The person has put the question aside.
    Cancel,
}

/// Asks a person.
pub(super) type OnForm =
    dyn Fn(McpForm) -> Pin<Box<dyn Future<Output = McpAnswer> + Send>> + Send + Sync;

/// Which calls hear of progress.
#[derive(Clone, Default)]
pub(super) struct Reports(Arc<Mutex<Watched>>);

#[derive(Default)]
struct Watched {
    calls: HashMap<ProgressToken, (f64, Progress)>,
    /// Came before their calls knew their tokens.
    early: VecDeque<ProgressNotificationParam>,
}

impl Reports {
    /// Reports of this token go to `progress` until the returned value is dropped.
    pub(super) fn watch(&self, token: &ProgressToken, progress: &Progress) -> Watching {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.calls.insert(token.clone(), (f64::NEG_INFINITY, progress.clone()));
        let early = std::mem::take(&mut all.early);
        let (own, others): (VecDeque<_>, VecDeque<_>) =
            early.into_iter().partition(|report| report.progress_token == *token);
        all.early = others;
        drop(all);
        own.into_iter().for_each(|report| self.came(report));
        Watching { reports: self.clone(), token: token.clone() }
    }

    fn came(&self, report: ProgressNotificationParam) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((last, progress)) = all.calls.get_mut(&report.progress_token) else {
            if all.early.len() == EARLY {
                all.early.pop_front();
            }
            all.early.push_back(report);
            return;
        };
        // Each report is handled in a task of its own, so an old one can come last. A number that is none
        // does not rise.
        if report.progress > *last {
            *last = report.progress;
            let progress = progress.clone();
            // The watcher of the program is called without the lock.
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

/// Reports go to a call as long as this is there.
pub(super) struct Watching {
    reports: Reports,
    token: ProgressToken,
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut all = self.reports.0.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = all.calls.remove(&self.token);
        drop(all);
        drop(gone);
    }
}

/// Hears what one server sends by itself.
#[derive(Clone)]
pub(super) struct Handler {
    pub(super) server: String,
    pub(super) reports: Reports,
    pub(super) changed: Arc<AtomicBool>,
    pub(super) on_form: Option<Arc<OnForm>>,
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Handler {
    /// What the person says; a person who cannot be asked declines.
    pub(super) async fn answer(&self, request: ElicitRequestParams) -> ElicitResult {
        let declined = ElicitResult::new(ElicitationAction::Decline);
        let (
            Some(hook),
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. },
        ) = (&self.on_form, request)
        else {
            return declined;
        };
        let Ok(schema) = serde_json::to_value(&requested_schema) else { return declined };
        let form = McpForm { server: self.server.clone(), message, schema };
        match hook(form).await {
            McpAnswer::Accept(filled) => {
                ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(filled))
            }
            McpAnswer::Decline => declined,
            McpAnswer::Cancel => ElicitResult::new(ElicitationAction::Cancel),
        }
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut able = ClientCapabilities::default();
        if self.on_form.is_some() {
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
        self.reports.came(report);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.store(true, Ordering::Relaxed);
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(self.answer(request).await)
    }
}
