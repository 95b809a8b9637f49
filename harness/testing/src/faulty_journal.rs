//! A journal with scripted or random failures, for tests of code that uses a journal.

use std::{
    collections::BTreeMap,
    fmt,
    future::pending,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use harness_core::{
    error::{Error, ErrorKind},
    journal::{
        ConversationPage, ConversationQuery, Envelope, Head, Incarnation, Journal, JournalFuture,
        Lease, Metadata, StoredFacts,
    },
};

/// A method of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum JournalCall {
    /// [`Journal::read`].
    Read,
    /// [`Journal::append`].
    Append,
    /// [`Journal::hold`].
    Hold,
    /// [`Journal::describe`].
    Describe,
    /// [`Journal::list`].
    List,
    /// [`Journal::delete`].
    Delete,
    /// [`Journal::fork`].
    Fork,
    /// [`Journal::write_spill`].
    WriteSpill,
    /// [`Journal::read_spill`].
    ReadSpill,
    /// [`Journal::delete_spill`].
    DeleteSpill,
}

/// A failure of a journal call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JournalFault {
    /// The call returns an error and has no effect.
    FailBefore,
    /// The call returns an error although it took effect, as if the response were lost.
    FailAfter,
    /// The call has no effect and never returns.
    StopBefore,
    /// The call takes effect and never returns.
    StopAfter,
    /// The call is executed twice and returns the second result. If the call is an append, the
    /// second result is a conflict with the caller's own facts.
    Repeat,
    /// The call is executed after this time on tokio's clock.
    Delay(Duration),
}

impl JournalFault {
    /// All failures that let the call return. The delay is 10 ms.
    pub const ANSWERED: [Self; 4] =
        [Self::FailBefore, Self::FailAfter, Self::Repeat, Self::Delay(Duration::from_millis(10))];
}

/// Counts the calls of a [`FaultyJournal`], including failed calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalCounts {
    /// Calls of [`Journal::read`].
    pub reads: u64,
    /// Calls of [`Journal::append`].
    pub appends: u64,
    /// The number of facts in all appends.
    pub facts: u64,
    /// The size of all appended facts as JSON text, in bytes.
    pub bytes: u64,
    /// The number of calls of all methods.
    pub calls: u64,
    /// The number of calls with a failure.
    pub faults: u64,
}

/// Wraps a journal, adds scripted or random failures, and counts the calls. Clones share the
/// journal, the failures and the counts, so a test can give one clone to the program and read the
/// counts from another.
///
/// ```
/// use harness::{
///     ErrorKind, Message,
///     journal::{Envelope, Fact, Head, Journal, MemoryJournal},
///     testing::{FaultyJournal, JournalCall, JournalFault},
/// };
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let journal = FaultyJournal::new(MemoryJournal::new());
/// // The answer to the second append is lost.
/// journal.fail(JournalCall::Append, 1, JournalFault::FailAfter);
///
/// let fact = Envelope::of(&Fact::UserSaid { message: Message::user("Hello"), limits: None }, 0)?;
/// let head = journal.append("chat", Head::default(), &[fact.clone()]).await?;
/// let error = journal.append("chat", head, &[fact]).await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Journal);
/// assert_eq!(journal.read("chat", 0).await?.facts.len(), 2);
/// assert_eq!(journal.counts().appends, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FaultyJournal<J> {
    inner: J,
    state: Arc<Mutex<FaultyState>>,
}

#[derive(Default)]
struct FaultyState {
    script: BTreeMap<(JournalCall, u64), JournalFault>,
    chance: Option<RandomFaults>,
    called: BTreeMap<JournalCall, u64>,
    counts: JournalCounts,
}

struct RandomFaults {
    random: fastrand::Rng,
    rate: f64,
    faults: Vec<JournalFault>,
}

impl<J: Clone> Clone for FaultyJournal<J> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), state: Arc::clone(&self.state) }
    }
}

impl<J: Journal> FaultyJournal<J> {
    /// Wraps a journal. Initially, no call fails.
    pub fn new(inner: J) -> Self {
        Self { inner, state: Arc::default() }
    }

    /// Sets the failure of one call. `number` is the position of the call, from 0, among all calls of this method since
    /// the journal was wrapped.
    pub fn fail(&self, call: JournalCall, number: u64, fault: JournalFault) {
        self.state().script.insert((call, number), fault);
    }

    /// Gives random failures to later calls. The same calls in the same order get the same
    /// failures. At a rate of 0 no call fails, at 1 every call fails. Failures that were set with
    /// [`fail`](Self::fail) have precedence.
    pub fn fail_by_chance(
        &self,
        seed: u64,
        rate: f64,
        faults: impl IntoIterator<Item = JournalFault>,
    ) {
        let random = fastrand::Rng::with_seed(seed);
        self.state().chance =
            Some(RandomFaults { random, rate, faults: faults.into_iter().collect() });
    }

    /// Removes all failures, scripted and random.
    pub fn mend(&self) {
        let mut state = self.state();
        state.script.clear();
        state.chance = None;
    }

    /// The counts of the calls so far.
    pub fn counts(&self) -> JournalCounts {
        self.state().counts
    }

    /// The wrapped journal.
    pub fn inner(&self) -> &J {
        &self.inner
    }

    fn state(&self) -> MutexGuard<'_, FaultyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes a call with its failure, if one is set. A call is counted when it is first polled.
    fn call<'a, T: 'a>(
        &'a self,
        call: JournalCall,
        facts: &'a [Envelope],
        ask: impl Fn() -> JournalFuture<'a, T> + Send + 'a,
    ) -> JournalFuture<'a, T> {
        Box::pin(async move {
            let fault = self.state().draw(call, facts);
            let failed = |done: &str| {
                let words = format!("a call of the journal failed, {done} it was done");
                Err(Error::new(ErrorKind::Journal, words))
            };
            match fault {
                None => ask().await,
                Some(JournalFault::FailBefore) => failed("before"),
                Some(JournalFault::FailAfter) => {
                    drop(ask().await);
                    failed("after")
                }
                Some(JournalFault::StopBefore) => pending().await,
                Some(JournalFault::StopAfter) => {
                    drop(ask().await);
                    pending().await
                }
                Some(JournalFault::Repeat) => {
                    drop(ask().await);
                    ask().await
                }
                Some(JournalFault::Delay(time)) => {
                    tokio::time::sleep(time).await;
                    ask().await
                }
            }
        })
    }
}

impl FaultyState {
    /// Counts a call, and returns its failure.
    fn draw(&mut self, call: JournalCall, facts: &[Envelope]) -> Option<JournalFault> {
        let called = self.called.entry(call).or_default();
        let number = *called;
        *called += 1;
        self.counts.calls += 1;
        match call {
            JournalCall::Read => self.counts.reads += 1,
            JournalCall::Append => self.counts.appends += 1,
            JournalCall::Hold
            | JournalCall::Describe
            | JournalCall::List
            | JournalCall::Delete
            | JournalCall::Fork
            | JournalCall::WriteSpill
            | JournalCall::ReadSpill
            | JournalCall::DeleteSpill => {}
        }
        self.counts.facts += facts.len() as u64;
        self.counts.bytes += facts.iter().map(|fact| fact.fact.len() as u64).sum::<u64>();
        let scripted = self.script.get(&(call, number)).copied();
        let fault = scripted.or_else(|| self.chance.as_mut().and_then(RandomFaults::draw));
        self.counts.faults += u64::from(fault.is_some());
        fault
    }
}

impl RandomFaults {
    fn draw(&mut self) -> Option<JournalFault> {
        let fails = self.random.f64() < self.rate;
        fails.then(|| self.random.choice(self.faults.iter()).copied()).flatten()
    }
}

impl<J: Journal> Journal for FaultyJournal<J> {
    fn system(&self) -> &str {
        self.inner.system()
    }

    fn read<'a>(&'a self, conversation: &'a str, from: u64) -> JournalFuture<'a, StoredFacts> {
        self.call(JournalCall::Read, &[], move || self.inner.read(conversation, from))
    }

    fn append<'a>(
        &'a self,
        conversation: &'a str,
        after: Head,
        facts: &'a [Envelope],
    ) -> JournalFuture<'a, Head> {
        self.call(JournalCall::Append, facts, move || self.inner.append(conversation, after, facts))
    }

    fn hold<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, Lease> {
        self.call(JournalCall::Hold, &[], move || self.inner.hold(conversation))
    }

    fn describe<'a>(
        &'a self,
        conversation: &'a str,
        metadata: &'a Metadata,
    ) -> JournalFuture<'a, ()> {
        self.call(JournalCall::Describe, &[], move || self.inner.describe(conversation, metadata))
    }

    fn list<'a>(&'a self, listing: &'a ConversationQuery) -> JournalFuture<'a, ConversationPage> {
        self.call(JournalCall::List, &[], move || self.inner.list(listing))
    }

    fn delete<'a>(&'a self, conversation: &'a str) -> JournalFuture<'a, bool> {
        self.call(JournalCall::Delete, &[], move || self.inner.delete(conversation))
    }

    fn fork<'a>(&'a self, from: &'a str, at: Head, to: &'a str) -> JournalFuture<'a, Head> {
        self.call(JournalCall::Fork, &[], move || self.inner.fork(from, at, to))
    }

    fn can_keep_spills(&self) -> bool {
        self.inner.can_keep_spills()
    }

    fn write_spill<'a>(
        &'a self,
        conversation: &'a str,
        incarnation: Incarnation,
        name: &'a str,
        chunk: u64,
        bytes: &'a [u8],
    ) -> JournalFuture<'a, ()> {
        let write = move || self.inner.write_spill(conversation, incarnation, name, chunk, bytes);
        self.call(JournalCall::WriteSpill, &[], write)
    }

    fn read_spill<'a>(
        &'a self,
        conversation: &'a str,
        name: &'a str,
        chunk: u64,
    ) -> JournalFuture<'a, Option<Vec<u8>>> {
        let read = move || self.inner.read_spill(conversation, name, chunk);
        self.call(JournalCall::ReadSpill, &[], read)
    }

    fn delete_spill<'a>(
        &'a self,
        conversation: &'a str,
        incarnation: Incarnation,
        name: &'a str,
    ) -> JournalFuture<'a, ()> {
        let delete = move || self.inner.delete_spill(conversation, incarnation, name);
        self.call(JournalCall::DeleteSpill, &[], delete)
    }
}

impl<J: fmt::Debug> fmt::Debug for FaultyJournal<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("FaultyJournal")
            .field("inner", &self.inner)
            .field("counts", &state.counts)
            .finish_non_exhaustive()
    }
}
