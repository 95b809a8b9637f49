//! Checks whether a journal keeps the promises of [`Journal`], and reports the broken promises.

mod checks;
mod delete;
mod dropped;
mod facts;
mod fork;
mod heads;
mod hold;
mod listing;
mod races;
mod spills;

use std::{fmt, sync::Arc, time::Duration};

use self::checks::{CheckedStore, JournalCheck};
use harness_core::{error::Error, journal::Journal};

/// The time limit of one check. Some checks write 16 MB, or a thousand conversations.
const PATIENCE: Duration = Duration::from_secs(300);

/// Checks all promises of a [`Journal`], on one store that is opened twice.
///
/// `open` must open the same store each time: the same file, or a clone of the same journal in memory.
/// Nothing else may use the store meanwhile. The store need not be empty, because the checks create
/// conversations with random names. Most of these conversations stay in the store.
///
/// The checks need a runtime whose clock is not paused, because a check that takes longer than five minutes counts as
/// broken. The checks do not test whether facts survive the end of the process: use a [`Crashtest`](super::Crashtest)
/// for that.
///
/// ```
/// use harness::{journal::MemoryJournal, testing::journal_conformance};
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let journal = MemoryJournal::new();
/// journal_conformance(async || Ok(journal.clone())).await.assert_kept();
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
pub async fn journal_conformance<J>(open: impl AsyncFn() -> Result<J, Error>) -> Conformance
where
    J: Journal + 'static,
{
    let mut report = Conformance { kept: Vec::new(), broken: Vec::new() };
    let (one, two) = match (open().await, open().await) {
        (Ok(one), Ok(two)) => (one, two),
        (Err(error), _) | (_, Err(error)) => {
            report.broken.push(("opening the store twice", error.to_string()));
            return report;
        }
    };
    let store = CheckedStore::new(Arc::new(one), Arc::new(two));
    let groups = [
        facts::CHECKS,
        races::CHECKS,
        heads::CHECKS,
        hold::CHECKS,
        listing::CHECKS,
        delete::CHECKS,
        fork::CHECKS,
        dropped::CHECKS,
        spills::CHECKS,
    ];
    for JournalCheck { promise, check } in groups.into_iter().flatten() {
        match tokio::time::timeout(PATIENCE, check(&store)).await {
            Ok(Ok(())) => report.kept.push(promise),
            Ok(Err(fault)) => report.broken.push((promise, fault)),
            Err(_) => report.broken.push((promise, format!("no answer within {PATIENCE:?}"))),
        }
    }
    report
}

/// The result of [`journal_conformance`]. Its text lists the broken promises.
#[derive(Clone, Debug)]
pub struct Conformance {
    kept: Vec<&'static str>,
    broken: Vec<(&'static str, String)>,
}

impl Conformance {
    /// The promises that were kept.
    pub fn kept(&self) -> &[&'static str] {
        &self.kept
    }

    /// The promises that were broken, each with what the check observed.
    pub fn broken(&self) -> &[(&'static str, String)] {
        &self.broken
    }

    /// Checks that no promise was broken.
    ///
    /// # Panics
    /// Panics with the list of broken promises if there is one.
    #[track_caller]
    #[expect(clippy::panic, reason = "an assertion fails by panicking")]
    pub fn assert_kept(&self) {
        if !self.broken.is_empty() {
            panic!("{self}");
        }
    }
}

impl fmt::Display for Conformance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.kept.len() + self.broken.len();
        write!(f, "the journal keeps {} of {all} promises", self.kept.len())?;
        for (promise, fault) in &self.broken {
            write!(f, "\n- {promise}: {fault}")?;
        }
        Ok(())
    }
}
