//! One child process of a crash test: it continues the conversation, and kills itself at a given point.

use std::{
    path::PathBuf,
    process::abort,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::{
    Crashtest,
    log::{CrashLog, LogEntry},
    watched::{WatchedJournal, watched_agent},
};
use harness_agent::{Action, Agent, Chat, Machine, Outcome};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{Envelope, Fact, Journal},
};

/// The environment variable with the order for a child process, as JSON.
pub(super) const ORDER: &str = "HARNESS_CRASHTEST";

/// The line that a child prints when it starts, so that the parent can kill the child a given time later.
pub(super) const BEGINS: &str = "harness-crashtest-begins";

/// How often one process opens a conversation again after other processes have continued it.
const OPENINGS: u32 = 10;

/// The order for one child process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ProcessOrder {
    /// The folder of the agent.
    pub(super) folder: PathBuf,
    pub(super) log: PathBuf,
    /// The name of the conversation. The name is unique, because conversations may share a journal.
    pub(super) conversation: String,
    pub(super) life: u32,
    /// The number of the point at which the process kills itself.
    pub(super) kill: Option<u32>,
    /// The microseconds between the point `kill` and the kill itself. Only for points at which an operation is going on.
    pub(super) delay: u64,
    /// Whether effects are observed before and after each call that only reads.
    pub(super) looks: bool,
}

impl ProcessOrder {
    /// The order for this process; `None` if it is no child of a crash test.
    pub(super) fn of_this_process() -> Option<Self> {
        serde_json::from_str(&std::env::var(ORDER).ok()?).ok()
    }
}

/// The state of this process, if it is a child of a crash test.
static LIFE: OnceLock<Arc<TestProcess>> = OnceLock::new();

/// Names a point at which a [`Crashtest`](super::Crashtest) kills the process. Call this function in a tool, for
/// example between two effects. It does nothing outside of a crash test.
pub fn crash_point(name: &str) {
    if let Some(life) = LIFE.get() {
        life.point(name);
    }
}

#[derive(Debug)]
pub(super) struct TestProcess {
    order: ProcessOrder,
    log: CrashLog,
    began: Instant,
    passed: AtomicU32,
}

impl TestProcess {
    pub(super) fn order(&self) -> &ProcessOrder {
        &self.order
    }

    pub(super) fn note(&self, noted: &LogEntry) {
        if let Err(err) = self.log.note(noted) {
            // Without its log, the test cannot know what the process does.
            eprintln!("the crash test cannot write its log: {err}");
            std::process::exit(3);
        }
    }

    /// Reaches a point. Ends the process there if the order names this point.
    pub(super) fn point(&self, name: &str) {
        if self.pass_point(name) {
            abort();
        }
    }

    /// Begins a point with a duration. If the order names this point, the process ends after the delay, and at the
    /// latest in [`LastingPoint::over`].
    pub(super) fn lasting(&self, name: &str) -> LastingPoint {
        let ends = self.pass_point(name);
        if ends {
            let delay = Duration::from_micros(self.order.delay);
            thread::spawn(move || {
                thread::sleep(delay);
                abort();
            });
        }
        LastingPoint { ends }
    }

    fn pass_point(&self, name: &str) -> bool {
        let number = self.passed.fetch_add(1, Ordering::SeqCst);
        let at = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.note(&LogEntry::Point { number, name: name.to_owned(), at });
        let ends = self.order.kill == Some(number);
        if ends {
            self.note(&LogEntry::Kills { name: name.to_owned() });
        }
        ends
    }
}

/// A point with a duration, during which the process may end.
#[must_use = "it says when it is over"]
pub(super) struct LastingPoint {
    ends: bool,
}

impl LastingPoint {
    pub(super) fn over(self) {
        if self.ends {
            abort();
        }
    }
}

/// Executes the order, and ends the process.
pub(super) fn live(test: &Crashtest, order: ProcessOrder) -> ! {
    let log = match CrashLog::open(&order.log) {
        Ok(log) => log,
        Err(err) => {
            eprintln!("the crash test cannot open its log: {err}");
            std::process::exit(3);
        }
    };
    let life = TestProcess { order, log, began: Instant::now(), passed: AtomicU32::new(0) };
    let life = Arc::clone(LIFE.get_or_init(|| Arc::new(life)));
    end_with_parent();
    life.note(&LogEntry::Life { number: life.order.life });
    println!("\n{BEGINS}");
    let ended = thread::scope(|scope| {
        // The work has its own thread, because the test may run in a runtime that this work would block.
        let runs = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .map_err(|err| {
                    Error::new(ErrorKind::Configuration, "no runtime").with_source(err)
                })?;
            let ended = runtime.block_on(continue_conversation(test, &life));
            runtime.shutdown_background();
            ended
        });
        runs.join().unwrap_or_else(|_| Err(Error::new(ErrorKind::Panicked, "it panicked")))
    });
    match ended {
        Ok(()) => std::process::exit(0),
        Err(err) => {
            life.note(&LogEntry::Failed { why: error_text(&err) });
            std::process::exit(2);
        }
    }
}

/// Ends this process when the parent ends. The parent keeps the other end of standard input open until then.
fn end_with_parent() {
    thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        abort();
    });
}

/// An error with its causes, as text.
pub(super) fn error_text(err: &Error) -> String {
    let mut told = err.to_string();
    let mut cause = std::error::Error::source(err);
    while let Some(next) = cause {
        let next_told = next.to_string();
        if !told.contains(&next_told) {
            told = format!("{told}: {next_told}");
        }
        cause = next.source();
    }
    told
}

/// Continues the conversation until all messages are answered.
async fn continue_conversation(test: &Crashtest, life: &Arc<TestProcess>) -> Result<(), Error> {
    let ProcessOrder { folder, conversation, .. } = &life.order;
    let opening = life.lasting("while the journal is opened");
    let journal = (test.open)(folder.clone()).await?;
    opening.over();
    let seen = texts(&journal.read(conversation, 0).await?.facts)?;
    life.note(&LogEntry::Seen { of: None, facts: seen });
    let agent = (test.agent)(folder)?;
    let observe = test.observe.clone().filter(|_| life.order.looks);
    let agent = watched_agent(agent, life, observe.as_ref())?;
    let journal = WatchedJournal::new(journal, Arc::clone(life));
    let mut failed = None;
    for _ in 0..OPENINGS {
        match talks(test, life, &agent, &journal).await {
            Err(error) if error.is_conflict() => {
                life.note(&LogEntry::Conflict {});
                failed = Some(error);
            }
            Err(error) => return Err(error),
            Ok(()) => {
                let seen = texts(&journal.read(conversation, 0).await?.facts)?;
                life.note(&LogEntry::Seen { of: None, facts: seen });
                life.note(&LogEntry::Done {});
                return Ok(());
            }
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Opens the conversation, and sends the remaining messages.
async fn talks(
    test: &Crashtest,
    life: &TestProcess,
    agent: &Agent,
    journal: &WatchedJournal,
) -> Result<(), Error> {
    let mut chat = opened(test, life, agent, journal).await?;
    life.point("after the conversation was opened");
    let (mut said, mut is_answered) =
        current_state(&journal.read(&life.order.conversation, 0).await?.facts)?;
    loop {
        let message = test.messages.get(said).filter(|_| said == 0 || is_answered);
        let ended = match message {
            Some(message) => {
                said += 1;
                chat.send(message.as_str()).await
            }
            None if said == 0 || is_answered => return Ok(()),
            None => chat.resume().await,
        };
        match ended {
            Ok(reply) => {
                life.note(&returned(&chat, reply.text())?);
                life.point("after `send` has returned");
                is_answered = true;
            }
            Err(stopped) => {
                let why = format!("the run was stopped ({}): {stopped}", stopped.outcome());
                let error = match stopped.error() {
                    Some(error) => Error::new(error.kind(), why),
                    None => Error::new(ErrorKind::Transcript, why),
                };
                // Unless the journal failed, it must contain the text that the stopped run has returned.
                if !matches!(error.kind(), ErrorKind::Journal | ErrorKind::Conflict) {
                    life.note(&returned(&chat, stopped.text())?);
                    life.point("after `send` has returned that the run was stopped");
                }
                return Err(error);
            }
        }
    }
}

/// Opens the conversation. For a moment after the end of a process, the journal may still report that the process holds
/// the conversation.
async fn opened(
    test: &Crashtest,
    life: &TestProcess,
    agent: &Agent,
    journal: &WatchedJournal,
) -> Result<Chat, Error> {
    let until = Instant::now() + test.patience / 2;
    let mut told = false;
    loop {
        match agent.open(journal, &life.order.conversation).await {
            Err(error) if error.is_busy() && Instant::now() < until => {
                if !told {
                    life.note(&LogEntry::Busy {});
                    told = true;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            opened => return opened,
        }
    }
}

/// The number of messages of the user in these facts, and whether the last message is answered.
fn current_state(facts: &[Envelope]) -> Result<(usize, bool), Error> {
    let mut machine = Machine::new();
    let mut said = 0;
    for fact in facts {
        let entry = fact.fact()?;
        said += usize::from(matches!(entry, Fact::UserSaid { .. }));
        machine.apply(&entry)?;
    }
    Ok((said, machine.next() == Action::Finish(Outcome::Answered)))
}

fn returned(chat: &Chat, text: impl Into<String>) -> Result<LogEntry, Error> {
    let said = hash(chat.transcript())?;
    Ok(LogEntry::Returned { facts: chat.facts(), said, text: text.into() })
}

/// A hash of the conversation, the same in every process.
pub(super) fn hash(transcript: &harness_core::message::Transcript) -> Result<u64, Error> {
    use std::hash::{DefaultHasher, Hasher as _};
    let text = serde_json::to_vec(transcript).map_err(no_json)?;
    let mut hasher = DefaultHasher::new();
    hasher.write(&text);
    Ok(hasher.finish())
}

/// Facts as JSON, for comparison.
pub(super) fn texts(facts: &[Envelope]) -> Result<Vec<String>, Error> {
    facts.iter().map(|fact| serde_json::to_string(fact).map_err(no_json)).collect()
}

fn no_json(err: serde_json::Error) -> Error {
    Error::new(ErrorKind::Journal, "it cannot be written as JSON").with_source(err)
}
