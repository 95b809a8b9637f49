//! A test that kills the process of an agent again and again, and checks the result.

mod check;
mod history;
mod log;
mod parent;
mod plan;
mod report;
mod test_process;
mod watched;

use std::{
    fmt,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

pub use self::{
    report::{CrashFinding, CrashReport, Harm},
    test_process::crash_point,
};
use self::{test_process::ProcessOrder, watched::ObserveWorld};
use harness_agent::Agent;
use harness_core::{error::Error, journal::Journal};

type OpenJournal = dyn Fn(PathBuf) -> Pin<Box<dyn Future<Output = Result<Arc<dyn Journal>, Error>> + Send>>
    + Send
    + Sync;
type BuildAgent = dyn Fn(&Path) -> Result<Agent, Error> + Send + Sync;

/// The default number of processes that are killed.
const KILLS: u32 = 60;

/// Kills the process of an agent again and again, at every point and at random instants, continues in another process
/// each time, and checks the result: nothing may be lost, nothing may happen twice, nothing false may be reported to
/// the model, and the conversation must end.
///
/// Test your own agent with your own tools and your own journal:
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
/// `HARNESS_CRASHTEST`. In the child, [`run`](Self::run) does not return: the child opens the journal and the
/// conversation in its own folder, resumes the interrupted run, and sends the remaining messages. The child kills
/// itself (`abort`) before, inside and after each append, each call of a tool and each answer of the model, while
/// journal and conversation are opened, after `send` has returned, and at each [`crash_point`]. Or the test kills the
/// child from outside (`kill -9`) after a random time. The next child continues and may be killed, too, until a child
/// reaches the end. This works with `cargo test` and with `cargo nextest`, in a `#[test]` or a `#[tokio::test]`. Write
/// only one crash test in each test function, because each child also runs the code before it.
///
/// The model must choose its answer by the request alone, because each child creates a new model: see
/// [`ScriptedProvider::answering`](harness_testing::ScriptedProvider::answering). Without kills, all messages must be
/// answered. The test checks this first.
///
/// # What it finds
///
/// - [`Harm::Lost`]: the next process does not find a fact that the journal had confirmed, or an answer that `send` had
///   returned.
/// - [`Harm::Repeated`]: the code of a call that must not be repeated has begun twice, an idempotent call had another
///   key the second time, or [`observe`](Self::observe) returns an effect more often than without kills.
/// - [`Harm::Untrue`]: the model was told that a call had not started, had succeeded or had failed, and this was false;
///   or a call ran before the journal had the fact of its start.
/// - [`Harm::Undeclared`]: a call of a tool that declares only `read` has changed what `observe` returns.
/// - [`Harm::Stuck`]: the conversation could not continue, or a call has no end.
///
/// Only [`observe`](Self::observe) can show that an idempotent call is not idempotent, or that a tool which declares
/// `read` changes something. Without that function, the test observes only the beginning and the return of the tool
/// code.
///
/// The test kills processes and not the machine: data that a program has written with `write` and not synced survives
/// this test, but may not survive a power failure.
pub struct Crashtest {
    open: Arc<OpenJournal>,
    agent: Arc<BuildAgent>,
    observe: Option<Arc<ObserveWorld>>,
    messages: Vec<String>,
    environment: Vec<(String, String)>,
    name: Option<String>,
    kills: u32,
    seed: u64,
    patience: Duration,
}

impl Crashtest {
    /// Tests the agent that `agent` builds, with the journal that `open` opens. Both functions get a folder that all
    /// processes of one conversation share. Use this folder for files that the tools change and for a journal in files.
    /// A journal on a server may be the same for all conversations, because each conversation has a unique name.
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

    /// Adds a message of the user. The test sends the message after the previous message is answered.
    #[must_use]
    pub fn send(mut self, message: impl Into<String>) -> Self {
        self.messages.push(message.into());
        self
    }

    /// Sets the function that returns all effects so far, one text for each, such as the lines of a ledger. An effect
    /// that occurs more often than without kills was repeated. If the text of an effect contains the call's
    /// [idempotency key](harness_core::tool::ToolContext::idempotency_key), the test also checks what the model was
    /// told: if the model was told that the call had its effect, the effect must exist.
    #[must_use]
    pub fn observe(
        mut self,
        observe: impl Fn(&Path) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        self.observe = Some(Arc::new(observe));
        self
    }

    /// Sets how many processes are killed. Default: 60. The environment variable `HARNESS_KILLS` takes precedence.
    #[must_use]
    pub fn kills(mut self, kills: u32) -> Self {
        self.kills = kills;
        self
    }

    /// Sets the seed that decides where and when processes are killed. The same seed creates the same plan, but the
    /// timing of the system still differs.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets how long one process may take. Default: 60 s. A process that takes longer is stuck.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets an environment variable of the children, such as the address of a server that the test has started and that
    /// the children must not start again.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Sets the name of the test, such as `payments::no_payment_is_lost`. The name is needed if [`run`](Self::run) is
    /// called outside of the thread that runs the test function.
    #[must_use]
    pub fn test_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Runs the test and returns its findings. In a child, this method runs the child's part and does not return.
    ///
    /// # Panics
    /// Panics if the test cannot be run: the binary cannot be started again, or not all messages are
    /// answered without kills.
    #[expect(clippy::panic, reason = "a test that cannot be run fails by panicking")]
    pub fn run(self) -> CrashReport {
        if let Some(order) = ProcessOrder::of_this_process() {
            test_process::live(&self, order);
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
