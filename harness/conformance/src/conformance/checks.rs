//! The common parts of all checks: the store, unique names and facts, and helpers for comparing results.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use harness_core::{
    error::{Error, ErrorKind},
    journal::{Envelope, FORMAT, Head, Incarnation, Journal, WriterId},
};

/// The result of a check. If the promise is broken, the error says what the check observed.
pub(super) type CheckResult = Result<(), String>;

/// One promise of a journal, and its check.
pub(super) struct JournalCheck {
    pub(super) promise: &'static str,
    pub(super) check: for<'a> fn(&'a CheckedStore) -> BoxFuture<'a, CheckResult>,
}

/// A list of [`JournalCheck`]s: each is a promise and the function that checks it.
macro_rules! checks {
    ($($promise:literal => $check:ident,)*) => {
        &[$($crate::conformance::checks::JournalCheck {
            promise: $promise,
            check: |store| Box::pin($check(store)),
        }),*]
    };
}
pub(super) use checks;

/// The store under test, opened twice, and a random prefix for the names of this run.
pub(super) struct CheckedStore {
    pub(super) one: Arc<dyn Journal>,
    pub(super) two: Arc<dyn Journal>,
    run: String,
}

impl CheckedStore {
    pub(super) fn new(one: Arc<dyn Journal>, two: Arc<dyn Journal>) -> Self {
        Self { one, two, run: WriterId::random().to_string() }
    }

    /// A conversation name that no other check and no other run uses.
    pub(super) fn name(&self, of: &str) -> String {
        format!("{}-{of}", self.run)
    }

    /// Creates a conversation with `count` facts, and returns its name.
    pub(super) async fn filled(&self, of: &str, count: usize) -> Result<String, String> {
        let name = self.name(of);
        self.one.append(&name, Head::default(), &batch(of, count)).await.seen("append")?;
        Ok(name)
    }

    /// The head that a conversation had after `count` facts. If the conversation never had `count` facts, returns an
    /// invented head with this number of facts.
    pub(super) async fn head_at(&self, name: &str, count: u64) -> Result<Head, String> {
        let read = self.one.read(name, 0).await.seen("read")?;
        Ok(read.head_at(count).unwrap_or(Head { facts: count, ..read.head }))
    }

    /// The incarnation of the conversation that has this name now.
    pub(super) async fn incarnation(&self, name: &str) -> Result<Incarnation, String> {
        let head = self.one.read(name, 0).await.seen("read")?.head;
        head.incarnation.ok_or_else(|| format!("`{name}` exists, and has no incarnation"))
    }

    /// Checks that a conversation has exactly these facts, through both handles.
    pub(super) async fn has(&self, name: &str, wanted: &[Envelope]) -> CheckResult {
        for (handle, journal) in [("the first", &self.one), ("the second", &self.two)] {
            let read = journal.read(name, 0).await.seen("read")?.facts;
            same(&read, wanted).map_err(|fault| format!("`{name}` in {handle} handle: {fault}"))?;
        }
        Ok(())
    }
}

/// A fact with this text. Its writer is a random id, which no running process has.
pub(super) fn fact(text: impl Into<Arc<str>>) -> Envelope {
    Envelope::stored(FORMAT, "0.0.1", WriterId::random(), 1_700_000_000_000, 5, text)
}

/// `count` facts that differ from all other facts, because their text contains `of`.
pub(super) fn batch(of: &str, count: usize) -> Vec<Envelope> {
    let text = |n| serde_json::json!({"fact": "checked", "of": of, "n": n}).to_string();
    (0..count).map(|n| fact(text(n))).collect()
}

/// Compares two lists of facts. The error describes the first difference.
pub(super) fn same(read: &[Envelope], wanted: &[Envelope]) -> CheckResult {
    if let Some(at) = read.iter().zip(wanted).position(|(read, wanted)| read != wanted)
        && let (Some(read), Some(wanted)) = (read.get(at), wanted.get(at))
    {
        return Err(format!("fact {at} is {}, and {} was written", short(read), short(wanted)));
    }
    ensure(read.len() == wanted.len(), || {
        format!("{} facts were read, and there should be {}", read.len(), wanted.len())
    })
}

/// The beginning of the debug text of a fact.
fn short(fact: &Envelope) -> String {
    let printed = format!("{fact:?}");
    match printed.char_indices().nth(300) {
        Some((end, _)) => format!("{}..", printed.get(..end).unwrap_or_default()),
        None => printed,
    }
}

pub(super) fn ensure(is: bool, fault: impl FnOnce() -> String) -> CheckResult {
    if is { Ok(()) } else { Err(fault()) }
}

/// Checks that a call failed with this kind of error.
pub(super) fn refused<T>(what: &str, result: Result<T, Error>, kind: ErrorKind) -> CheckResult {
    match result {
        Ok(_) => Err(format!("{what} succeeded, and {kind:?} was due")),
        Err(error) => ensure(error.kind() == kind, || {
            format!("{what} failed with {:?} ({error}), and {kind:?} was due", error.kind())
        }),
    }
}

/// Describes a failed call as text.
pub(super) trait OrSeen<T> {
    /// The value, or an error text that names this call.
    fn seen(self, what: &str) -> Result<T, String>;
}

impl<T> OrSeen<T> for Result<T, Error> {
    fn seen(self, what: &str) -> Result<T, String> {
        self.map_err(|error| format!("{what} failed: {error}"))
    }
}
