//! Where what was granted is kept, and who may change it.

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
    Fault,
    grant::{Grant, Ungranted},
};
use crate::{
    error::{Error, ErrorKind},
    unwind::{Shielded, caught},
};

/// How long the program's store may take.
const STORE: Duration = Duration::from_secs(10);

/// What a call of [`McpGrants`] comes to.
pub type McpGrantFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// What was granted for one server: tokens, and the registration that they belong to. Its text is a secret as a whole.
#[derive(Clone)]
pub struct McpGrant(SecretString);

/// Without the text.
impl fmt::Debug for McpGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("McpGrant(..)")
    }
}

impl McpGrant {
    /// One that was kept as [`expose_text`](Self::expose_text) gave it.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(SecretString::from(text.into()))
    }

    /// The text that is to be kept, where only this program can read it.
    pub fn expose_text(&self) -> &str {
        self.0.expose_secret()
    }
}

/// A store of what was granted, one for each server: a key ring, a file, a table. Each call may take ten seconds.
///
/// ```
/// use std::{collections::HashMap, sync::Mutex};
///
/// use harness::mcp::{McpAuth, McpGrant, McpGrantFuture, McpGrants};
///
/// #[derive(Default)]
/// struct Memory(Mutex<HashMap<String, McpGrant>>);
///
/// impl McpGrants for Memory {
///     fn load<'a>(&'a self, server: &'a str) -> McpGrantFuture<'a, Option<McpGrant>> {
///         let found = self.0.lock().ok().and_then(|known| known.get(server).cloned());
///         Box::pin(async move { Ok(found) })
///     }
///
///     fn save<'a>(&'a self, server: &'a str, grant: McpGrant) -> McpGrantFuture<'a, ()> {
///         if let Ok(mut known) = self.0.lock() {
///             known.insert(server.to_owned(), grant);
///         }
///         Box::pin(async { Ok(()) })
///     }
/// }
///
/// let auth = McpAuth::new().grants(Memory::default());
/// # let _ = auth;
/// ```
///
/// An error of a store is of [`ErrorKind::Journal`](crate::ErrorKind::Journal), with what has happened as its cause:
///
/// ```
/// use harness::{Error, ErrorKind, mcp::McpGrant};
///
/// fn read(path: &std::path::Path) -> Result<Option<McpGrant>, Error> {
///     match std::fs::read_to_string(path) {
///         Ok(text) => Ok(Some(McpGrant::from_text(text))),
///         Err(err) if err.kind() == std::io::ErrorKind::NotFound => Ok(None),
///         Err(err) => {
///             let why = format!("what was granted cannot be read from `{}`", path.display());
///             Err(Error::new(ErrorKind::Journal, why).because(err))
///         }
///     }
/// }
/// # let _ = read;
/// ```
pub trait McpGrants: Send + Sync {
    /// Reads what is kept for the server at this address.
    ///
    /// # Errors
    /// Fails if it cannot be read. Then nothing is sent to the server.
    fn load<'a>(&'a self, server: &'a str) -> McpGrantFuture<'a, Option<McpGrant>>;

    /// Keeps this for the server at this address, in place of what was kept before.
    ///
    /// # Errors
    /// Fails if it cannot be kept. This is told once; the connection goes on with what it was granted.
    fn save<'a>(&'a self, server: &'a str, grant: McpGrant) -> McpGrantFuture<'a, ()>;
}

/// What was granted for one server. Whoever holds it may ask for something new.
#[derive(Clone, Default)]
pub(super) struct Slot {
    memory: Arc<tokio::sync::Mutex<Memory>>,
    /// How often a person has said no.
    noes: Arc<AtomicU64>,
}

/// The right to ask for something new for a server, and what is known of it.
pub(super) struct Held {
    /// It is elsewhere while a token is asked for, and never comes back where the connection has ended meanwhile.
    memory: Option<OwnedMutexGuard<Memory>>,
    slot: Slot,
    /// How many noes there were before it was waited for.
    noes: u64,
}

impl Slot {
    /// Waits for it.
    pub(super) async fn hold(self) -> Held {
        let noes = self.noes.load(Ordering::Relaxed);
        let memory = Some(Arc::clone(&self.memory).lock_owned().await);
        Held { memory, slot: self, noes }
    }
}

impl Held {
    /// What was granted last.
    pub(super) fn grant(&self) -> Option<&Grant> {
        self.memory.as_ref()?.grant.as_ref()
    }

    /// A person has said no.
    pub(super) fn was_denied(&self) {
        self.slot.noes.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a person has said no while it was waited for: the same question is not asked again.
    pub(super) fn is_denied(&self) -> bool {
        self.slot.noes.load(Ordering::Relaxed) != self.noes
    }
}

/// What was granted last, and what the program's store had then.
#[derive(Default)]
pub(super) struct Memory {
    grant: Option<Grant>,
    /// The text that was read from the store or kept there last. If it is still the same, nobody else has changed it, and
    /// what is in memory is not older.
    stored: Option<SecretString>,
}

/// What was granted, in memory and in the program's store.
#[derive(Default)]
pub(super) struct Kept {
    program: Option<Arc<dyn McpGrants>>,
    slots: Mutex<HashMap<String, Slot>>,
    /// Tokens that are asked for. They end with this.
    asked: Mutex<JoinSet<()>>,
    /// How many they are.
    running: watch::Sender<usize>,
}

/// One of them.
struct Running(watch::Sender<usize>);

impl Running {
    fn new(all: &watch::Sender<usize>) -> Self {
        all.send_modify(|count| *count = count.saturating_add(1));
        Self(all.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

impl Kept {
    pub(super) fn new(program: impl McpGrants + 'static) -> Self {
        Self { program: Some(Arc::new(program)), ..Self::default() }
    }

    /// That of a server.
    pub(super) fn slot(&self, server: &str) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.entry(server.to_owned()).or_default().clone()
    }

    /// What is granted now. Another process may have changed it.
    pub(super) async fn load(&self, server: &str, held: &mut Held) -> Result<(), Fault> {
        let (Some(program), Some(memory)) = (&self.program, held.memory.as_mut()) else {
            return Ok(());
        };
        let loading = caught(|| program.load(server));
        if let Some(kept) = ended("read", loading.map(Shielded::new)).await? {
            let known = memory.stored.as_ref().map(ExposeSecret::expose_secret);
            if known != Some(kept.expose_text()) {
                // What cannot be read is of another version: it is as good as nothing.
                memory.grant = serde_json::from_str(kept.expose_text()).ok();
                memory.stored = Some(kept.0);
            }
        }
        Ok(())
    }

    /// Asks for a token, and keeps what comes, also if nobody waits for it any more: by asking, what there was before may
    /// be spent. Says, too, whether it could be kept.
    pub(super) async fn ask(
        &self,
        server: &str,
        held: &mut Held,
        asking: impl Future<Output = Result<Option<Grant>, Ungranted>> + Send + 'static,
    ) -> Result<Option<(Grant, Result<(), Fault>)>, Ungranted> {
        let lost = || {
            let why = "what was asked for a token has ended without one".to_owned();
            Ungranted::Failed((ErrorKind::Closed, why))
        };
        let mut memory = held.memory.take().ok_or_else(lost)?;
        let (program, server) = (self.program.clone(), server.to_owned());
        let (tells, told) = oneshot::channel();
        {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            while asked.try_join_next().is_some() {}
            let running = Running::new(&self.running);
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

impl Kept {
    /// Waits for all tokens that are asked for: each has its limits of time.
    pub(super) async fn settled(&self) {
        let _ = self.running.subscribe().wait_for(|count| *count == 0).await;
    }
}

/// Keeps it. In memory it is kept anyway.
async fn save(
    program: Option<&dyn McpGrants>,
    server: &str,
    memory: &mut Memory,
    grant: &Grant,
) -> Result<(), Fault> {
    let mut grant = grant.clone();
    // The program's own secret is not kept.
    if grant.client.redirect.is_none() {
        grant.client.secret = None;
    }
    let text = serde_json::to_string(&grant);
    memory.grant = Some(grant);
    let Some(program) = program else { return Ok(()) };
    let text = text.map_err(|err| (ErrorKind::Protocol, err.to_string()))?;
    let kept = McpGrant::from_text(text);
    let saving = caught(|| program.save(server, kept.clone()));
    ended("keep", saving.map(Shielded::new)).await?;
    memory.stored = Some(kept.0);
    Ok(())
}

/// What the program's store says, if it says something.
async fn ended<T>(
    what: &str,
    call: Result<Shielded<McpGrantFuture<'_, T>>, impl fmt::Display>,
) -> Result<T, Fault> {
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
