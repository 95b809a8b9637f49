//! The process of the test itself: it starts the children, kills them, and checks the result.

use std::{
    collections::BTreeSet,
    env, fs,
    io::{BufRead as _, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    Crashtest,
    check::{ConversationCounts, EndedConversation, UndisturbedRun, check},
    log::{CrashLog, LogEntry, read},
    plan::{KillPlan, PlannedKill},
    report::CrashReport,
    test_process::{BEGINS, ORDER, ProcessOrder},
};

/// The number of consecutive failed processes after which the conversation is stuck.
const TRIES: u32 = 3;

/// The interval at which the parent checks whether a child has ended.
const LOOKS: Duration = Duration::from_millis(1);

/// Runs the test.
///
/// # Errors
/// Fails if the test cannot be run at all.
pub(super) fn run(mut test: Crashtest) -> Result<CrashReport, String> {
    if let Some(kills) = env::var("HARNESS_KILLS").ok().filter(|kills| !kills.is_empty()) {
        test.kills =
            kills.parse().map_err(|err| format!("`HARNESS_KILLS={kills}` is no number: {err}"))?;
    }
    let name = test.name.clone().or_else(|| {
        let name = thread::current().name().map(str::to_owned);
        name.filter(|name| name != "main" && !name.starts_with("tokio-"))
    });
    let name = name.ok_or(
        "this thread has no name of a test, so the binary cannot be started for this test alone; \
         say the name with `Crashtest::test_name`",
    )?;
    let folder = TemporaryFolder::new()?;
    let parent = ParentProcess { test, name, folder };
    let first = parent.play(u32::MAX, &[])?;
    if let Some(why) = first.stuck {
        return Err(format!("not all messages are answered when nobody disturbs: {why}"));
    }
    parent.kill_all(&first)
}

struct ParentProcess {
    test: Crashtest,
    name: String,
    folder: TemporaryFolder,
}

/// The results so far, shared by the threads of the test.
#[derive(Default)]
struct ResultsSoFar {
    report: CrashReport,
    points: BTreeSet<u32>,
    failed: Option<String>,
}

impl ParentProcess {
    /// Runs one conversation after the other until enough processes were killed.
    fn kill_all(&self, first: &EndedConversation) -> Result<CrashReport, String> {
        let points = points(&first.log);
        let took = points.last().copied().unwrap_or(0);
        let plan = KillPlan { seed: self.test.seed, points, took };
        let undisturbed = UndisturbedRun::of(first);
        let found = Mutex::new(ResultsSoFar::default());
        let (next, enough) = (AtomicU32::new(0), AtomicBool::new(self.test.kills == 0));
        {
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.report.findings = check(first, &undisturbed).0;
            found.report.seed = self.test.seed;
            found.report.points = u32::try_from(plan.points.len()).unwrap_or(u32::MAX);
        }
        let play = || {
            while !enough.load(Ordering::SeqCst) {
                let number = next.fetch_add(1, Ordering::SeqCst);
                let kills = plan.kills(number);
                let played = self.play(number, &kills);
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                match played {
                    Ok(ended) => found.take(&ended, &kills, &undisturbed),
                    Err(why) => found.failed = Some(why),
                }
                // Ends the test if a plan hardly kills any process. Otherwise the test would never end.
                let vain = number > 100 && found.report.kills() < number / 10;
                if vain || found.failed.is_some() || found.report.kills() >= self.test.kills {
                    enough.store(true, Ordering::SeqCst);
                }
            }
        };
        let at_once = thread::available_parallelism().map_or(1, |cores| cores.get().min(8));
        thread::scope(|scope| {
            for _ in 0..at_once {
                scope.spawn(play);
            }
        });
        let ResultsSoFar { mut report, points, failed } =
            found.into_inner().unwrap_or_else(PoisonError::into_inner);
        report.points_reached = u32::try_from(points.len()).unwrap_or(u32::MAX);
        failed.map_or(Ok(report), Err)
    }

    /// Runs one conversation: its first processes are killed as planned, one after the other, and the following
    /// processes run to the end.
    fn play(&self, number: u32, kills: &[PlannedKill]) -> Result<EndedConversation, String> {
        let base = self.folder.0.join(number.to_string());
        let (folder, log) = (base.join("folder"), base.join("log"));
        fs::create_dir_all(&folder).map_err(|err| format!("{}: {err}", folder.display()))?;
        let mut kills = kills.iter();
        let (mut life, mut failed, mut stuck) = (0, 0, None);
        loop {
            let kill = kills.next();
            let (point, delay) = match kill {
                Some(PlannedKill::At { point, delay }) => (Some(*point), *delay),
                Some(PlannedKill::After(_)) | None => (None, 0),
            };
            let order = ProcessOrder {
                folder: folder.clone(),
                log: log.clone(),
                conversation: self.folder.conversation(number),
                life,
                kill: point,
                delay,
                looks: kill.is_none() && life == 0,
            };
            let after = match kill {
                Some(PlannedKill::After(time)) => Some(*time),
                Some(PlannedKill::At { .. }) | None => None,
            };
            let process = ChildProcess::start(&self.test, &self.name, &order)?;
            let (end, said) = process.wait(after, self.test.patience)?;
            let unread = |err| format!("the log cannot be read: {err}");
            let notes = read(&log).map_err(unread)?;
            if !notes.contains(&LogEntry::Life { number: life }) {
                // A process that is killed from outside may have written nothing.
                if !matches!(end, ProcessEnd::Killed(_)) {
                    return Err(format!(
                        "the binary was started again for the test `{}`, and did not come to its \
                         crash test ({end:?}); say the name of the test with `Crashtest::test_name`:\n\
                         {said}",
                        self.name
                    ));
                }
            }
            life += 1;
            match end {
                ProcessEnd::Killed(after) => {
                    let micros = u64::try_from(after.as_micros()).unwrap_or(u64::MAX);
                    let noted = LogEntry::KilledAfter { micros };
                    let log = CrashLog::open(&log).and_then(|log| log.note(&noted));
                    log.map_err(|err| format!("the log cannot be written: {err}"))?;
                }
                ProcessEnd::ByItself if matches!(notes.last(), Some(LogEntry::Done {})) => break,
                // The process has killed itself.
                ProcessEnd::ByItself if has_killed_itself(&notes) => {}
                ProcessEnd::ByItself => {
                    failed += 1;
                    let why = notes.iter().rev().find_map(|noted| match noted {
                        LogEntry::Failed { why } => Some(why.clone()),
                        _ => None,
                    });
                    if failed >= TRIES {
                        let why = why.unwrap_or_else(|| format!("the process fell:\n{said}"));
                        stuck = Some(format!("after {failed} tries: {why}"));
                        break;
                    }
                }
                ProcessEnd::TooLong => {
                    let time = self.test.patience;
                    stuck = Some(format!("a process did not come to its end in {time:?}:\n{said}"));
                    break;
                }
            }
        }
        let log = read(&log).map_err(|err| format!("the log cannot be read: {err}"))?;
        let world = self.test.observe.as_ref().map(|observe| observe(&folder));
        // The folder may be in use for a moment longer. The parent folder is removed at the end of the test.
        let _ = fs::remove_dir_all(&base);
        Ok(EndedConversation { log, world, stuck })
    }
}

/// Whether the last process has killed itself.
fn has_killed_itself(notes: &[LogEntry]) -> bool {
    let since = notes.iter().rev().take_while(|noted| !matches!(noted, LogEntry::Life { .. }));
    since.into_iter().any(|noted| matches!(noted, LogEntry::Kills { .. }))
}

impl ResultsSoFar {
    fn take(
        &mut self,
        ended: &EndedConversation,
        kills: &[PlannedKill],
        undisturbed: &UndisturbedRun,
    ) {
        let (findings, counts) = check(ended, undisturbed);
        let ConversationCounts { in_doubt, busy, conflicts, failures } = counts;
        let report = &mut self.report;
        report.conversations += 1;
        report.in_doubt += in_doubt;
        report.busy += busy;
        report.conflicts += conflicts;
        report.failures += failures;
        report.findings.extend(findings);
        for noted in &ended.log {
            match noted {
                LogEntry::Kills { .. } => report.kills_at_points += 1,
                LogEntry::KilledAfter { .. } => report.kills_from_outside += 1,
                _ => {}
            }
        }
        let first_ended = ended.log.iter().find(|noted| {
            matches!(
                noted,
                LogEntry::Kills { .. } | LogEntry::KilledAfter { .. } | LogEntry::Done {}
            )
        });
        if let (Some(PlannedKill::At { point, .. }), Some(LogEntry::Kills { .. })) =
            (kills.first(), first_ended)
        {
            self.points.insert(*point);
        }
    }
}

/// When the process reached each point, in microseconds after its start.
fn points(log: &[LogEntry]) -> Vec<u64> {
    let points = log.iter().filter_map(|noted| match noted {
        LogEntry::Point { at, .. } => Some(*at),
        _ => None,
    });
    points.collect()
}

/// A folder that is removed when this value is dropped.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new() -> Result<Self, String> {
        let name = format!("harness-crashtest-{}-{:016x}", std::process::id(), fastrand::u64(..));
        let path = env::temp_dir().join(name);
        fs::create_dir(&path).map_err(|err| format!("{}: {err}", path.display()))?;
        Ok(Self(path))
    }

    /// The unique name of the conversation with this number.
    fn conversation(&self, number: u32) -> String {
        let folder = self.0.file_name().unwrap_or_default().to_string_lossy();
        format!("{folder}-{number}")
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug)]
enum ProcessEnd {
    ByItself,
    /// The parent killed the process, this long after its start.
    Killed(Duration),
    TooLong,
}

/// A child process, which ends when the parent closes the child's standard input.
struct ChildProcess {
    child: Child,
    began: mpsc::Receiver<()>,
    said: mpsc::Receiver<String>,
}

impl ChildProcess {
    fn start(test: &Crashtest, name: &str, order: &ProcessOrder) -> Result<Self, String> {
        let binary = env::current_exe().map_err(|err| format!("where is this binary? {err}"))?;
        let order = serde_json::to_string(order).map_err(|err| err.to_string())?;
        let mut command = Command::new(&binary);
        command.args(["--exact", name, "--nocapture", "--include-ignored", "--test-threads=1"]);
        command.envs(test.environment.iter().map(|(name, value)| (name, value)));
        command.env(ORDER, order).env("RUST_BACKTRACE", "0");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.spawn().map_err(|err| format!("{}: {err}", Path::display(&binary)))?;
        let (tell_began, began) = mpsc::channel();
        let (tell_said, said) = mpsc::channel();
        if let Some(out) = child.stdout.take() {
            read_output(out, tell_said.clone(), Some(tell_began));
        }
        if let Some(err) = child.stderr.take() {
            read_output(err, tell_said, None);
        }
        Ok(Self { child, began, said })
    }

    /// Waits until the child has ended. Returns how it ended, and the end of its output.
    fn wait(
        mut self,
        kill: Option<Duration>,
        patience: Duration,
    ) -> Result<(ProcessEnd, String), String> {
        let failed = |err: std::io::Error| format!("a process cannot be waited for: {err}");
        let until = Instant::now() + patience;
        let kill_at = kill.and_then(|time| {
            self.began.recv_timeout(patience).ok()?;
            Some((time, Instant::now() + time))
        });
        let end = loop {
            if self.child.try_wait().map_err(failed)?.is_some() {
                break ProcessEnd::ByItself;
            }
            let now = Instant::now();
            if let Some((time, at)) = kill_at
                && now >= at
            {
                self.child.kill().map_err(failed)?;
                let status = self.child.wait().map_err(failed)?;
                // The process may have ended by itself just before the kill.
                break if status.success() {
                    ProcessEnd::ByItself
                } else {
                    ProcessEnd::Killed(time)
                };
            }
            if now >= until {
                break ProcessEnd::TooLong;
            }
            let next =
                kill_at.map_or(LOOKS, |(_, at)| at.saturating_duration_since(now).min(LOOKS));
            thread::sleep(next);
        };
        let _ = self.child.kill();
        let _ = self.child.wait();
        let said: Vec<String> = self.said.iter().collect();
        let last = said.get(said.len().saturating_sub(40)..).unwrap_or_default();
        Ok((end, last.join("\n")))
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the output of a process until its end, and reports when the process has started.
fn read_output(
    out: impl Read + Send + 'static,
    tell: mpsc::Sender<String>,
    began: Option<mpsc::Sender<()>>,
) {
    thread::spawn(move || {
        let mut lines = BufReader::new(out).split(b'\n');
        while let Some(Ok(line)) = lines.next() {
            let line = String::from_utf8_lossy(&line).into_owned();
            if line == BEGINS {
                // The receiver may have been dropped.
                let _ = began.as_ref().map(|began| began.send(()));
            } else if tell.send(line).is_err() {
                return;
            }
        }
    });
}
