//! The connection to one server, shared by its tools: the current session, and how a new session is started.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    error::Error as _,
    fmt, io,
    sync::{
        Arc, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use rmcp::{
    RoleClient,
    service::{ClientInitializeError, ClientServiceExt as _, RunningService},
    transport::{async_rw::AsyncRwTransport, streamable_http_client::StreamableHttpError},
};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep, sleep_until, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    McpVersion,
    elicitation::{ElicitationHandler, OnElicitation},
    handler::{ProgressListeners, ServerEventHandler},
    http::ServerAddress,
    http_client::SessionState,
    known_secrets::KnownSecrets,
    oauth::Authorization,
    pending_requests::{PendingRequests, StdinRecorder},
    process::{ServerCommand, ServerProcess},
    session::{ClientSession, LAST_WORDS},
    stdout_filter::{StdoutFilter, StrayLines, UNREAD},
    tool_list::{self, ToolListing},
    version::is_newer,
};
use harness_core::{
    error::{Error, ErrorKind},
    http_client::through_proxy,
    message::is_unseen,
    secret::{Secrets, beginning},
};

/// The time limit for the start of a server.
const START: Duration = Duration::from_secs(30);

/// The maximum number of starts in a row without an answered call.
const STARTS: u32 = 5;

/// The wait before the second start in a row. The wait doubles before each further start.
const WAIT: Duration = Duration::from_millis(250);

/// The maximum length of a server's text in an error, in bytes.
const SHOWN: usize = 500;

/// Where a server is: a child process or an address.
#[derive(Clone, Debug)]
pub(super) enum ServerEndpoint {
    /// A child process.
    Command(ServerCommand),
    /// A server at a URL, over HTTP.
    Address(ServerAddress),
}

pub(super) struct ServerConnection {
    pub(super) name: String,
    endpoint: ServerEndpoint,
    /// The version that the program has set, or the version with which an earlier session was started.
    version: OnceLock<McpVersion>,
    pub(super) elicitation: ElicitationHandler,
    /// The secrets to remove from errors.
    secrets: Secrets,
    /// The secrets to remove from answers.
    pub(super) known: KnownSecrets,
    changed: Arc<AtomicBool>,
    /// The definitions of the tools when the program last listed them.
    read: std::sync::Mutex<BTreeMap<String, String>>,
    /// The number of starts since a call was last answered.
    starts: AtomicU32,
    state: Mutex<SessionSlot>,
    /// Cancelled when the program closes the connection. The cancellation also ends a start that is running for a call.
    closed: CancellationToken,
}

#[derive(Default)]
struct SessionSlot {
    session: Option<Arc<ClientSession>>,
    /// Lost sessions at a URL, in which calls may still run.
    old: Vec<Weak<ClientSession>>,
    /// The earliest time for the next start.
    not_before: Option<Instant>,
}

impl fmt::Debug for ServerConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConnection")
            .field("name", &self.name)
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl ServerConnection {
    pub(super) fn new(
        name: String,
        endpoint: ServerEndpoint,
        on_elicitation: Option<Arc<OnElicitation>>,
        version: Option<McpVersion>,
    ) -> Self {
        let mut secrets = Secrets::default();
        let known: Vec<String> = match &endpoint {
            ServerEndpoint::Command(command) => command.variables.values().cloned().collect(),
            ServerEndpoint::Address(address) => address.secrets(),
        };
        for value in &known {
            // The value may be `Bearer`, followed by the key.
            secrets = secrets.with(value);
            if let Some((_, key)) = value.trim().split_once(' ') {
                secrets = secrets.with(key);
            }
            // The output of a process is read line by line, so each line of the value counts as a secret.
            for line in value.lines() {
                secrets = secrets.with(line);
            }
        }
        Self {
            elicitation: ElicitationHandler::new(&name, on_elicitation),
            name,
            known: KnownSecrets::of(&endpoint),
            endpoint,
            version: version.map(OnceLock::from).unwrap_or_default(),
            secrets,
            changed: Arc::default(),
            read: std::sync::Mutex::default(),
            starts: AtomicU32::new(0),
            state: Mutex::default(),
            closed: CancellationToken::new(),
        }
    }

    /// Formats a text of the server for errors: without secrets and control characters, and shortened.
    pub(super) fn shown(&self, text: &str) -> String {
        let text = self.secrets.hide(text);
        let text = match self.authorization() {
            Some(authorization) => Cow::Owned(authorization.secrets().hide(&text).into_owned()),
            None => text,
        };
        harmless(&beginning(&text, SHOWN))
    }

    /// The authorization, if the program has set one.
    pub(super) fn authorization(&self) -> Option<&Authorization> {
        match &self.endpoint {
            ServerEndpoint::Address(address) => address.authorization.as_deref(),
            ServerEndpoint::Command(_) => None,
        }
    }

    /// Makes sure that there is a valid token, if the server requires a token.
    async fn authorized(&self) -> Result<(), Error> {
        let Some(authorization) = self.authorization() else { return Ok(()) };
        authorization.ready().await.map_err(|(kind, why)| {
            self.error(
                kind,
                format!("cannot be used without an authorization: {}", self.shown(&why)),
            )
        })
    }

    /// Whether the server has refused a request and a new token may help.
    fn is_refused(&self) -> bool {
        self.authorization().is_some_and(Authorization::is_refused)
    }

    /// The last output of the session's process.
    pub(super) async fn last_output(&self, session: &ClientSession) -> String {
        harmless(&self.secrets.hide(&session.last_output().await))
    }

    pub(super) fn has_changed(&self) -> bool {
        self.changed.load(Ordering::Relaxed)
    }

    /// Records that a call was answered.
    pub(super) fn answered(&self) {
        self.starts.store(0, Ordering::Relaxed);
        if let Some(authorization) = self.authorization() {
            authorization.answered();
        }
    }

    /// Starts the first session, and lists the tools of the server.
    pub(super) async fn begin(&self) -> Result<ToolListing, Error> {
        // Starting a session and listing tools have no side effects, so both may be repeated.
        loop {
            self.authorized().await?;
            let mut state = self.state.lock().await;
            match self.open().await {
                Ok((session, listing)) => {
                    state.session = Some(session);
                    *self.read() = listing.definitions();
                    return Ok(listing);
                }
                Err(_) if self.is_refused() => {}
                Err(err) => return Err(err),
            }
        }
    }

    /// A session to which a call can be sent: the current one, or a new one.
    ///
    /// # Errors
    /// Fails if no session can be started. In that case, nothing was sent for the call.
    pub(super) async fn session(&self) -> Result<Arc<ClientSession>, Error> {
        loop {
            // The token is obtained before the state is locked, so that the program can close the connection during the
            // wait for a person.
            self.authorized().await?;
            let session = tokio::select! {
                biased;
                () = self.closed.cancelled() => {
                    return Err(self.error(ErrorKind::Closed, "was closed by the program"));
                }
                session = self.session_now() => session,
            };
            match session {
                Err(_) if self.is_refused() => {}
                session => return session,
            }
        }
    }

    async fn session_now(&self) -> Result<Arc<ClientSession>, Error> {
        let mut state = self.state.lock().await;
        if let Some(session) = state.session.as_ref().filter(|session| session.is_alive()) {
            let session = Arc::clone(session);
            self.refresh(&session).await?;
            return Ok(session);
        }
        let starts = self.starts.load(Ordering::Relaxed);
        if starts >= STARTS {
            let why = format!(
                "is gone: it was started again {STARTS} times and answered no call; connect to it anew"
            );
            return Err(self.error(ErrorKind::Connect, why));
        }
        if let Some(then) = state.not_before {
            sleep_until(then).await;
        }
        self.starts.store(starts + 1, Ordering::Relaxed);
        state.not_before = Some(Instant::now() + WAIT * 2_u32.pow(starts));
        if let Some(old) = state.session.take() {
            if old.has_process() {
                // The old process must end before the new process starts.
                old.close().await;
            } else {
                // The old session ends with the last call that runs in it.
                state.old.retain(|old| old.strong_count() > 0);
                state.old.push(Arc::downgrade(&old));
            }
        }
        let (session, listing) = self.open().await?;
        state.session = Some(Arc::clone(&session));
        // After a new start, a server may have other tools without announcing a change.
        if listing.definitions() != *self.read() {
            self.tell_of_change();
        }
        Ok(session)
    }

    /// Lists the server's tools again if the server has announced a change. If the server does not announce changes,
    /// lists the tools again if the list is old.
    async fn refresh(&self, session: &ClientSession) -> Result<(), Error> {
        let stale = &*session.handler().stale;
        let was = stale.swap(false, Ordering::AcqRel);
        if !was && !session.is_old() {
            return Ok(());
        }
        let mut unread = UnreadChanges { news: [stale], was: [true] };
        session.listen().await;
        let before = session.definitions();
        self.list_of(session).await?;
        unread.was = [false];
        if session.definitions() != before {
            self.tell_of_change();
        }
        Ok(())
    }

    fn read(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the server's tools differ from the tools that the program has listed.
    pub(super) fn tell_of_change(&self) {
        self.changed.store(true, Ordering::Relaxed);
    }

    /// Lists the tools again.
    pub(super) async fn list(&self) -> Result<ToolListing, Error> {
        let session = self.session().await?;
        // The flags are reset before the list is read, so that later changes set them again.
        let news = [&*self.changed, &*session.handler().stale];
        let was = news.map(|news| news.swap(false, Ordering::AcqRel));
        let mut unread = UnreadChanges { news, was };
        let listing = self.list_of(&session).await?;
        unread.was = [false; 2];
        *self.read() = listing.definitions();
        Ok(listing)
    }

    async fn list_of(&self, session: &ClientSession) -> Result<ToolListing, Error> {
        let listing = match tool_list::read(session).await {
            Ok(listing) => listing,
            Err(failed) => return Err(self.unread(session, failed).await),
        };
        session.define(listing.definitions(), listing.fresh);
        Ok(listing)
    }

    /// The error for a list that could not be read.
    pub(super) async fn unread(
        &self,
        session: &ClientSession,
        (kind, why): (ErrorKind, String),
    ) -> Error {
        if kind == ErrorKind::Connect {
            // The connection is broken, so the next caller starts a new session.
            session.lose();
        }
        self.error(kind, format!("{}{}", self.shown(&why), self.last_output(session).await))
    }

    /// Ends the connection for good.
    pub(super) async fn close(&self) {
        self.closed.cancel();
        if let Some(authorization) = self.authorization() {
            authorization.close().await;
        }
        let mut state = self.state.lock().await;
        let old = std::mem::take(&mut state.old);
        let old = old.iter().filter_map(Weak::upgrade);
        let all = state.session.take().into_iter().chain(old);
        join_all(all.map(|session| async move { session.close().await })).await;
    }

    pub(super) fn error(&self, kind: ErrorKind, why: impl fmt::Display) -> Error {
        Error::new(kind, format!("the MCP server `{}` {why}", self.name))
    }

    async fn open(&self) -> Result<(Arc<ClientSession>, ToolListing), Error> {
        let handler = ServerEventHandler {
            server: self.name.clone(),
            reports: ProgressListeners::default(),
            changed: Arc::clone(&self.changed),
            stale: Arc::default(),
            elicitation: self.elicitation.clone(),
            secrets: self.known.clone(),
        };
        let until = Instant::now() + START;
        let (service, child, session_state, open) = match self.version.get() {
            Some(version) => self.start(handler, *version, until).await.map_err(|it| it.0)?,
            // Nearly all servers accept this version. A server that does not accept this version refuses it at once.
            None => match self.start(handler.clone(), McpVersion::V2025_11_25, until).await {
                Ok(started) => started,
                Err((_, true)) => {
                    let started = self.start(handler, McpVersion::V2026_07_28, until).await;
                    let started = started.map_err(|it| it.0)?;
                    // No other task can have set the version, because a session is started only under the lock of the
                    // state.
                    let _ = self.version.set(McpVersion::V2026_07_28);
                    started
                }
                Err((err, false)) => return Err(err),
            },
        };
        let session = ClientSession::new(service, child, session_state, open);
        session.listen().await;
        let listing = self.list_of(&session).await?;
        Ok((Arc::new(session), listing))
    }

    /// Starts the server, and a session in this version. The error includes whether a newer version may work.
    async fn start(
        &self,
        handler: ServerEventHandler,
        version: McpVersion,
        until: Instant,
    ) -> Result<StartedServer, (Error, bool)> {
        let mode = version.lifecycle();
        let wrong = |why: String| (self.error(ErrorKind::Configuration, why), false);
        let (mut session_state, mut strange) =
            (Arc::<SessionState>::default(), StrayLines::default());
        let open = PendingRequests::default();
        let (served, child) = match &self.endpoint {
            ServerEndpoint::Command(command) => {
                let (child, output, input) =
                    command.start().map_err(|why| wrong(format!("cannot be started: {why}")))?;
                let output = StdoutFilter::new(output, open.clone());
                let input = StdinRecorder::new(input, open.clone());
                strange = output.strange();
                let transport = AsyncRwTransport::new(output, input);
                let served = handler.serve_with_lifecycle(transport, mode);
                let ended = child.ended();
                let ended = async {
                    ended.await;
                    // Meanwhile, another task reads the rest of the process's output.
                    sleep(LAST_WORDS).await;
                };
                let served = tokio::select! {
                    biased;
                    served = timeout_at(until, served) => served,
                    // Another process may keep the pipes open, so the end of the process ends the wait.
                    () = ended => Ok(Err(ClientInitializeError::ConnectionClosed(String::new()))),
                };
                (served, Some(child))
            }
            ServerEndpoint::Address(address) => {
                let transport = address.transport().map_err(|err| {
                    wrong(format!("at `{}` cannot be used: {err}", self.at(address)))
                })?;
                session_state = transport.1;
                let served = handler.serve_with_lifecycle(transport.0, mode);
                (timeout_at(until, served).await, None)
            }
        };
        let said = || {
            let said = child.as_ref().map(|child| child.last_output().shown()).unwrap_or_default();
            harmless(&self.secrets.hide(&said))
        };
        match served {
            Ok(Ok(service)) => Ok((service, child, session_state, open)),
            Ok(Err(err)) => {
                let has_answered = matches!(err, ClientInitializeError::JsonRpcError(_));
                let mut how = String::new();
                if let Some(child) = child.as_ref().filter(|_| !has_answered) {
                    ((), how) = tokio::join!(child.last_output().last_words(), child.how_ended());
                }
                let why = session_state.take_refusal().unwrap_or_else(|| why(&err));
                let way_out = self.way_out(&one_line(&why));
                let why = one_line(&self.shown(&why));
                let why = format!("did not begin a session: {why}{how}{way_out}{}", said());
                Err((self.error(ErrorKind::Connect, why), is_newer(&err)))
            }
            Err(_) => {
                let strange = strange.known().map(|(count, first)| {
                    let first = one_line(&self.shown(&first));
                    let lines = if count == 1 {
                        "line that is no message"
                    } else {
                        "lines that are no messages, first"
                    };
                    format!("; it has written {count} {lines} of the protocol: `{first}`")
                });
                let strange = strange.unwrap_or_default();
                let why = format!(
                    "did not begin a session{} within {} s{strange}{}",
                    self.through_proxy(),
                    START.as_secs(),
                    said()
                );
                Err((self.error(ErrorKind::Timeout, why), false))
            }
        }
    }

    /// Formats a URL for errors.
    fn at(&self, address: &ServerAddress) -> String {
        one_line(&self.shown(&address.shown()))
    }

    /// What the user can do if a server at a URL does not start a session.
    fn way_out(&self, why: &str) -> String {
        let ServerEndpoint::Address(address) = &self.endpoint else { return String::new() };
        let at = self.at(address);
        let through = self.through_proxy();
        match why {
            _ if why.starts_with(UNREACHED) => {
                format!("; see that the server runs, and that its address is `{at}`")
            }
            _ if ["HTTP 404", "HTTP 405", "content type"].iter().any(|sign| why.contains(sign)) => {
                format!("; is the path of `{at}` that of the MCP server?")
            }
            // The answer may come from the proxy instead of the server.
            _ if !through.is_empty() && !why.contains(&through) => {
                format!("; requests to `{at}` go{through}")
            }
            _ => String::new(),
        }
    }

    /// Names the proxy for requests to the server, for errors.
    fn through_proxy(&self) -> String {
        let ServerEndpoint::Address(address) = &self.endpoint else { return String::new() };
        self.shown(&address.through_proxy())
    }
}

/// A running service, its process if it has one, the state learned from HTTP responses, and the unanswered requests to
/// a process.
type StartedServer = (
    RunningService<RoleClient, ServerEventHandler>,
    Option<ServerProcess>,
    Arc<SessionState>,
    PendingRequests,
);

/// Announced changes whose flags were reset before the list was read. Dropping this value restores the flags, unless
/// the list was read completely.
struct UnreadChanges<'a, const N: usize> {
    news: [&'a AtomicBool; N],
    was: [bool; N],
}

impl<const N: usize> Drop for UnreadChanges<'_, N> {
    fn drop(&mut self) {
        for (news, was) in self.news.iter().zip(self.was) {
            news.fetch_or(was, Ordering::AcqRel);
        }
    }
}

/// The reason why the session could not be started. The text contains no names of Rust types.
fn why(err: &ClientInitializeError) -> String {
    match err {
        ClientInitializeError::JsonRpcError(err) if err.code == UNREAD => err.message.to_string(),
        ClientInitializeError::JsonRpcError(err) => {
            format!("{} (code {})", err.message, err.code.0)
        }
        ClientInitializeError::TransportError { error, .. } => sources(&*error.error),
        ClientInitializeError::ConnectionClosed(_) => "it has closed the connection".to_owned(),
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            "it supports no version of the protocol that this library supports".to_owned()
        }
        _ => "it has answered with an unexpected message".to_owned(),
    }
}

/// Replaces control characters and invisible characters in a text, except line ends.
fn harmless(text: &str) -> String {
    text.replace(|c: char| (c.is_control() || is_unseen(c)) && c != '\n', " ")
}

/// Puts a text on one line, because it may come from the server.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The beginning of the error for a server that cannot be reached.
const UNREACHED: &str = "it cannot be reached";

/// The text of an error, with its sources.
pub(super) fn sources(err: &(dyn std::error::Error + 'static)) -> String {
    if let Some(StreamableHttpError::Client(err)) =
        err.downcast_ref::<StreamableHttpError<reqwest::Error>>()
    {
        // The error's own text is only the URL. The source of the error contains the reason.
        let what = if err.is_connect() { UNREACHED } else { "the request has failed" };
        let through = err.url().map(through_proxy).unwrap_or_default();
        return match err.source() {
            Some(below) => format!("{what}{through}: {}", sources(below)),
            None => format!("{what}{through}: {err}"),
        };
    }
    if let Some(err) = err.downcast_ref::<io::Error>()
        && err.kind() == io::ErrorKind::BrokenPipe
    {
        return "it does not read its input any more".to_owned();
    }
    let mut text = err.to_string();
    let mut below = err.source();
    for _ in 0..8 {
        let Some(err) = below else { break };
        let more = err.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        below = err.source();
    }
    text
}
