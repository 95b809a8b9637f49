//! Where what was granted is kept, and who may change it.

use std::{
    collections::HashMap,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use secrecy::{ExposeSecret, SecretString};
use tokio::time::timeout;

use super::{Fault, grant::Grant};
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
pub(super) type Slot = Arc<tokio::sync::Mutex<Memory>>;

/// What was granted last, and what the program's store had then.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) grant: Option<Grant>,
    /// The text that was read from the store or kept there last. If it is still the same, nobody else has changed it, and
    /// what is in memory is not older.
    stored: Option<SecretString>,
}

/// What was granted, in memory and in the program's store.
#[derive(Default)]
pub(super) struct Kept {
    program: Option<Box<dyn McpGrants>>,
    slots: Mutex<HashMap<String, Slot>>,
}

impl Kept {
    pub(super) fn new(program: impl McpGrants + 'static) -> Self {
        Self { program: Some(Box::new(program)), slots: Mutex::default() }
    }

    /// That of a server.
    pub(super) fn slot(&self, server: &str) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(server.to_owned()).or_default())
    }

    /// What is granted now. Another process may have changed it.
    pub(super) async fn load(&self, server: &str, memory: &mut Memory) -> Result<(), Fault> {
        let Some(program) = &self.program else { return Ok(()) };
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

    /// Keeps it. In memory it is kept anyway.
    pub(super) async fn save(
        &self,
        server: &str,
        memory: &mut Memory,
        grant: Grant,
    ) -> Result<(), Fault> {
        let text = serde_json::to_string(&grant);
        memory.grant = Some(grant);
        let Some(program) = &self.program else { return Ok(()) };
        let text = text.map_err(|err| (ErrorKind::Protocol, err.to_string()))?;
        let kept = McpGrant::from_text(text);
        let saving = caught(|| program.save(server, kept.clone()));
        ended("keep", saving.map(Shielded::new)).await?;
        memory.stored = Some(kept.0);
        Ok(())
    }
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
