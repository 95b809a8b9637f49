//! A test that kills the process of an agent again and again, and looks at what is left.

mod check;
mod life;
mod log;
mod parent;
mod plan;
mod report;
mod story;
mod watched;

use std::{
    fmt,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use self::{life::Order, watched::Observe};
pub use self::{
    life::crash_point,
    report::{CrashFinding, CrashReport, Harm},
};
use crate::{agent::Agent, error::Error, journal::Journal};

type Open = dyn Fn(PathBuf) -> Pin<Box<dyn Future<Output = Result<Arc<dyn Journal>, Error>> + Send>>
    + Send
    + Sync;
type Build = dyn Fn(&Path) -> Result<Agent, Error> + Send + Sync;

/// So many processes are killed unless it is set.
const KILLS: u32 = 60;

/// Kills the process of an agent again and again, at every point and at random instants, lets another
/// process go on each time, and looks at what is left: nothing may be lost, nothing may happen twice,
/// nothing that the model is told may be untrue, and the conversation must come to its end.
///
/// It is a test of your own agent, with your own tools and your own journal:
///
/// ```no_run
/// # fn model() -> harness::testing::ScriptedProvider { harness::testing::ScriptedProvider::new([]) }
/// # fn journal_in(_: std::path::PathBuf) -> harness::journal::MemoryJournal { Default::default() }
/// # fn pay(_: &std::path::Path) -> harness::Tool { unimplemented!() }
/// use harness::{Agent, testing::Crashtest};
///
/// #[test]
/// # fn of_the_test_binary() {}
/// fn no_payment_is_lost_or_made_twice() {
///     Crashtest::new(
///         |folder| async move { Ok(journal_in(folder.join("chats"))) },
///         |folder| Agent::builder(model()).tools([pay(folder)]).build(),
///     )
///     .send("Pay Ada 10 euros.")
///     .observe(|folder| {
///         let ledger = std::fs::read_to_string(folder.join("ledger")).unwrap_or_default();
///         ledger.lines().map(str::to_owned).collect()
///     })
///     .run()
///     .assert_clean();
/// }
/// # no_payment_is_lost_or_made_twice();
/// ```
///
/// # How it works
///
/// The test starts its own binary again for this one test, as a child with the environment variable
/// `HARNESS_CRASHTEST`, and [`run`](Self::run) does not return there: the child opens the journal and
/// the conversation in a folder of its own, says what is still to be said, and resumes what was going
/// on. It is killed by itself (`abort`) before, inside and after each append, each call of a tool and
/// each answer of the model, while the journal and the conversation are opened, after `send` has
/// returned, and at each [`crash_point`]; or from outside (`kill -9`) after a random time. The next
/// child goes on, and may be killed, too, before the last one comes to the end. It works with
/// `cargo test` and with `cargo nextest`, in a `#[test]` or a `#[tokio::test]`. Write one crash test a
/// test: what the test does before it is done in each child, too.
///
/// The model must answer by what it reads, since each child has a new one: see
/// [`ScriptedProvider::answering`](super::ScriptedProvider::answering). All messages must be answered
/// when nobody disturbs, which is tried first.
///
/// # What it finds
///
/// - [`Harm::Lost`]: a fact that the journal said it had appended, or that `send` had returned, is not
///   there for the next process.
/// - [`Harm::Repeated`]: the code of a call that may not be repeated has begun twice, an idempotent one
///   had another key the second time, or [`observe`](Self::observe) sees an effect more often than
///   without kills.
/// - [`Harm::Untrue`]: the model was told that a call had not started, had succeeded or had failed, and
///   it was not so; or a call ran before the journal had the fact that it starts.
/// - [`Harm::Undeclared`]: a call of a tool that declares to read has changed what `observe` sees.
/// - [`Harm::Stuck`]: the conversation could not go on, or a call has no end.
///
/// Whether an idempotent call really is one, and whether a tool that declares to read really only
/// reads, is seen by [`observe`](Self::observe) alone: without it, the test knows only when the code of
/// a tool begins and returns.
///
/// Processes are killed, and not the machine: what a program has written with `write` and not synced
/// survives here, and may not survive the end of the power.
pub struct Crashtest {
    open: Arc<Open>,
    agent: Arc<Build>,
    observe: Option<Arc<Observe>>,
    messages: Vec<String>,
    environment: Vec<(String, String)>,
    name: Option<String>,
    kills: u32,
    seed: u64,
    patience: Duration,
}

impl Crashtest {
    /// Tests the agent that `agent` builds, with the journal that `open` opens. Both get a folder that
    /// the processes of one conversation share: what the tools change belongs there, and a journal in
    /// files, too. A journal on a server can be the same for all: each conversation has another name.
    pub fn new<J, F>(
        open: impl Fn(PathBuf) -> F + Send + Sync + 'static,
        agent: impl Fn(&Path) -> Result<Agent, Error> + Send + Sync + 'static,
    ) -> Self
    where
        J: Journal + 'static,
        F: Future<Output = Result<J, Error>> + Send + 'static,
    {
        let open = Arc::new(move |folder| -> Pin<Box<dyn Future<Output = _> + Send>> {
            let opening = open(folder);
            Box::pin(async move { Ok(Arc::new(opening.await?) as Arc<dyn Journal>) })
        });
        Self {
            open,
            agent: Arc::new(agent),
            observe: None,
            messages: Vec::new(),
            environment: Vec::new(),
            name: None,
            kills: KILLS,
            seed: 0,
            patience: Duration::from_secs(60),
        }
    }

    /// Adds a message of the user. Each is said when the one before is answered.
    #[must_use]
    pub fn send(mut self, message: impl Into<String>) -> Self {
        self.messages.push(message.into());
        self
    }

    /// Says how the world is seen: one text for each effect that is there, such as the lines of a
    /// ledger. An effect that is there more often than when nobody disturbs was repeated. If the text
    /// has the call's [idempotency key](crate::ToolContext::idempotency_key) in it, it is also seen
    /// whether a call that the model was told of has had its effect.
    #[must_use]
    pub fn observe(
        mut self,
        observe: impl Fn(&Path) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        self.observe = Some(Arc::new(observe));
        self
    }

    /// Sets how many processes are killed, 60 unless set. The environment variable `HARNESS_KILLS`
    /// counts more than this.
    #[must_use]
    pub fn kills(mut self, kills: u32) -> Self {
        self.kills = kills;
        self
    }

    /// Sets what chance begins with: where processes are killed, and after how long. With the same
    /// seed it is the same, but for what happens meanwhile, which only the system knows.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets how long one process may take, 60 s unless set. One that takes longer is stuck.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets an environment variable of the children: the address of a server that the test has started,
    /// for one, and that they are not to start again.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Sets the name of the test, such as `payments::no_payment_is_lost`, where the thread that calls
    /// [`run`](Self::run) is not the one that the test runs in.
    #[must_use]
    pub fn test_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Runs it and says what was found. In a child it does what it is told, and does not return.
    ///
    /// # Panics
    /// Panics if the test cannot be run: the binary cannot be started again, or the messages are not
    /// all answered when nobody disturbs.
    #[expect(clippy::panic, reason = "a test that cannot be run fails by panicking")]
    pub fn run(self) -> CrashReport {
        if let Some(order) = Order::of_this_process() {
            life::live(&self, order);
        }
        match parent::run(self) {
            Ok(report) => report,
            Err(why) => panic!("the crash test cannot be run: {why}"),
        }
    }
}

impl fmt::Debug for Crashtest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crashtest")
            .field("messages", &self.messages)
            .field("kills", &self.kills)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}
