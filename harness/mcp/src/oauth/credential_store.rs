//! The store for credentials, and the lock for changing the grant of a server.

use std::{
    collections::HashMap,
    fmt,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use secrecy::{ExposeSecret, SecretString};
use tokio::{
    sync::{OwnedMutexGuard, oneshot, watch},
    task::JoinSet,
    time::timeout,
};

use super::{
    AuthError,
    grant::{TokenError, TokenGrant},
};
use harness_core::{
    error::{Error, ErrorKind},
    unwind::{Shielded, caught},
};

/// The time limit for a call of the program's store.
const STORE: Duration = Duration::from_secs(10);

/// The future of a call of [`McpCredentialStore`].
pub type McpCredentialsFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// The credentials for one server: tokens, and the registration to which they belong. The whole text is a secret.
#[derive(Clone)]
pub struct McpCredentials(SecretString);

/// Shows only the name of the type, because the content is secret.
impl fmt::Debug for McpCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("McpCredentials(..)")
    }
}

impl McpCredentials {
    /// Restores credentials from the text that [`expose_text`](Self::expose_text) returned.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(SecretString::from(text.into()))
    }

    /// The text to store. Only this program should be able to read the stored text.
    pub fn expose_text(&self) -> &str {
        self.0.expose_secret()
    }
}

/// A store for credentials with one entry for each server, for example a key ring or a file. Each call may take up to
/// ten seconds.
///
/// ```
/// use std::{collections::HashMap, sync::Mutex};
///
/// use harness::mcp::{McpAuth, McpCredentials, McpCredentialsFuture, McpCredentialStore};
///
/// #[derive(Default)]
/// struct Memory(Mutex<HashMap<String, McpCredentials>>);
///
/// impl McpCredentialStore for Memory {
///     fn load<'a>(&'a self, server: &'a str) -> McpCredentialsFuture<'a, Option<McpCredentials>> {
///         let found = self.0.lock().ok().and_then(|known| known.get(server).cloned());
///         Box::pin(async move { Ok(found) })
///     }
///
///     fn save<'a>(&'a self, server: &'a str, grant: McpCredentials) -> McpCredentialsFuture<'a, ()> {
///         if let Ok(mut known) = self.0.lock() {
///             known.insert(server.to_owned(), grant);
///         }
///         Box::pin(async { Ok(()) })
///     }
/// }
///
/// let auth = McpAuth::new().credential_store(Memory::default());
/// # let _ = auth;
/// ```
///
/// Return errors of [`ErrorKind::Journal`](harness_core::error::ErrorKind::Journal), with the underlying error as the
/// cause:
///
/// ```
/// use harness::{Error, ErrorKind, mcp::McpCredentials};
///
/// fn read(path: &std::path::Path) -> Result<Option<McpCredentials>, Error> {
///     match std::fs::read_to_string(path) {
///         Ok(text) => Ok(Some(McpCredentials::from_text(text))),
///         Err(err) if err.kind() == std::io::ErrorKind::NotFound => Ok(None),
///         Err(err) => {
///             let why = format!("what was granted cannot be read from `{}`", path.display());
///             Err(Error::new(ErrorKind::Journal, why).with_source(err))
///         }
///     }
/// }
/// # let _ = read;
/// ```
pub trait McpCredentialStore: Send + Sync {
    /// Reads the credentials for the server at this URL; `None` if the store has none for this server.
    ///
    /// # Errors
    /// Fails if the credentials cannot be read. In that case, no request is sent to the server.
    fn load<'a>(&'a self, server: &'a str) -> McpCredentialsFuture<'a, Option<McpCredentials>>;

    /// Stores the credentials for the server at this URL, in place of earlier credentials.
    ///
    /// # Errors
    /// Fails if the credentials cannot be stored. The connection reports this error once, and keeps the credentials in
    /// memory.
    fn save<'a>(&'a self, server: &'a str, grant: McpCredentials) -> McpCredentialsFuture<'a, ()>;
}

/// The grant for one server, shared by all connections. Only the holder of the lock may request a new grant.
#[derive(Clone, Default)]
pub(super) struct GrantSlot {
    memory: Arc<tokio::sync::Mutex<CachedGrant>>,
    /// The number of refusals by persons.
    noes: Arc<AtomicU64>,
}

/// The lock on the grant of a server. The holder of the lock may request a new grant.
pub(super) struct GrantLock {
    /// `None` while a token is requested. Stays `None` if the request is stopped before its end.
    memory: Option<OwnedMutexGuard<CachedGrant>>,
    slot: GrantSlot,
    /// The number of refusals when the wait for the lock began.
    noes: u64,
}

impl GrantSlot {
    /// The number of refusals by persons so far.
    pub(super) fn noes(&self) -> u64 {
        self.noes.load(Ordering::Relaxed)
    }

    /// Waits for the lock.
    pub(super) async fn hold(self) -> GrantLock {
        let noes = self.noes();
        let memory = Some(Arc::clone(&self.memory).lock_owned().await);
        GrantLock { memory, slot: self, noes }
    }
}

impl GrantLock {
    /// The last known grant.
    pub(super) fn grant(&self) -> Option<&TokenGrant> {
        self.memory.as_ref()?.grant.as_ref()
    }

    /// Records that a person has refused.
    pub(super) fn was_denied(&self) {
        self.slot.noes.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a person has refused while this connection waited for the lock. If so, the person is not asked again.
    pub(super) fn is_denied(&self) -> bool {
        self.has_refused_since(self.noes)
    }

    /// Whether a person has refused since the number of refusals was `noes`.
    pub(super) fn has_refused_since(&self, noes: u64) -> bool {
        self.slot.noes() != noes
    }
}

/// The last known grant, and the text that was last read from or written to the store.
#[derive(Default)]
pub(super) struct CachedGrant {
    grant: Option<TokenGrant>,
    /// The text that was last read from or written to the store. While the store contains this text, the grant in
    /// memory is current.
    stored: Option<SecretString>,
}

/// All grants, in memory and in the program's store.
#[derive(Default)]
pub(super) struct GrantCache {
    program: Option<Arc<dyn McpCredentialStore>>,
    slots: Mutex<HashMap<String, GrantSlot>>,
    /// The running token requests. Dropping the set stops the requests.
    asked: Mutex<JoinSet<()>>,
    /// The number of running token requests.
    running: watch::Sender<usize>,
}

/// Counts as a running token request until dropped.
struct RunningTokenRequest(watch::Sender<usize>);

impl RunningTokenRequest {
    fn new(all: &watch::Sender<usize>) -> Self {
        all.send_modify(|count| *count = count.saturating_add(1));
        Self(all.clone())
    }
}

impl Drop for RunningTokenRequest {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

impl GrantCache {
    pub(super) fn new(program: impl McpCredentialStore + 'static) -> Self {
        Self { program: Some(Arc::new(program)), ..Self::default() }
    }

    /// The shared slot of a server, created if it is new.
    pub(super) fn slot(&self, server: &str) -> GrantSlot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.entry(server.to_owned()).or_default().clone()
    }

    /// Reads the current grant from the store, because another process may have changed it.
    pub(super) async fn load(&self, server: &str, held: &mut GrantLock) -> Result<(), AuthError> {
        let (Some(program), Some(memory)) = (&self.program, held.memory.as_mut()) else {
            return Ok(());
        };
        let loading = caught(|| program.load(server));
        if let Some(kept) = ended("read", loading.map(Shielded::new)).await? {
            let known = memory.stored.as_ref().map(ExposeSecret::expose_secret);
            if known != Some(kept.expose_text()) {
                // A text that cannot be parsed, for example from another version, counts as no grant.
                memory.grant = serde_json::from_str(kept.expose_text()).ok();
                memory.stored = Some(kept.0);
            }
        }
        Ok(())
    }

    /// Requests a token and stores it, even if the caller stops waiting: the request may invalidate the earlier grant.
    /// Also returns whether the token was stored.
    pub(super) async fn ask(
        &self,
        server: &str,
        held: &mut GrantLock,
        asking: impl Future<Output = Result<Option<TokenGrant>, TokenError>> + Send + 'static,
    ) -> Result<Option<(TokenGrant, Result<(), AuthError>)>, TokenError> {
        let lost = || {
            let why = "what was asked for a token has ended without one".to_owned();
            TokenError::Failed((ErrorKind::Closed, why))
        };
        let mut memory = held.memory.take().ok_or_else(lost)?;
        let (program, server) = (self.program.clone(), server.to_owned());
        let (tells, told) = oneshot::channel();
        {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            while asked.try_join_next().is_some() {}
            let running = RunningTokenRequest::new(&self.running);
            asked.spawn(async move {
                let _running = running;
                let answer = match asking.await {
                    Ok(Some(grant)) => {
                        let kept = save(program.as_deref(), &server, &mut memory, &grant).await;
                        Ok(Some((grant, kept)))
                    }
                    Ok(None) => Ok(None),
                    Err(failed) => Err(failed),
                };
                let _ = tells.send((memory, answer));
            });
        }
        let (memory, answer) = told.await.map_err(|_| lost())?;
        held.memory = Some(memory);
        answer
    }
}

impl GrantCache {
    /// Waits for all running token requests. Each request has its own time limits.
    pub(super) async fn settled(&self) {
        let _ = self.running.subscribe().wait_for(|count| *count == 0).await;
    }
}

/// Keeps a grant in memory, and writes it to the store.
async fn save(
    program: Option<&dyn McpCredentialStore>,
    server: &str,
    memory: &mut CachedGrant,
    grant: &TokenGrant,
) -> Result<(), AuthError> {
    let mut grant = grant.clone();
    // The client secret comes from the program's settings and is not stored.
    if grant.client.redirect.is_none() {
        grant.client.secret = None;
    }
    let text = serde_json::to_string(&grant);
    memory.grant = Some(grant);
    let Some(program) = program else { return Ok(()) };
    let text = text.map_err(|err| (ErrorKind::Protocol, err.to_string()))?;
    let kept = McpCredentials::from_text(text);
    let saving = caught(|| program.save(server, kept.clone()));
    ended("keep", saving.map(Shielded::new)).await?;
    memory.stored = Some(kept.0);
    Ok(())
}

/// The result of a call of the program's store. Fails if the call panics or exceeds the time limit.
async fn ended<T>(
    what: &str,
    call: Result<Shielded<McpCredentialsFuture<'_, T>>, impl fmt::Display>,
) -> Result<T, AuthError> {
    let wrong =
        |kind, why: String| (kind, format!("its store cannot {what} what was granted: {why}"));
    let call = call.map_err(|panicked| wrong(ErrorKind::Panicked, panicked.to_string()))?;
    match timeout(STORE, call).await {
        Ok(Ok(Ok(value))) => Ok(value),
        Ok(Ok(Err(err))) => Err(wrong(ErrorKind::Configuration, err.to_string())),
        Ok(Err(panicked)) => Err(wrong(ErrorKind::Panicked, panicked.to_string())),
        Err(_) => {
            let why = format!("it has not answered within {} s", STORE.as_secs());
            Err(wrong(ErrorKind::Timeout, why))
        }
    }
}
