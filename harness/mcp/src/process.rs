//! A server that is a child process: its start, its environment, its output and its end.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    path::PathBuf,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{ChildStdin, ChildStdout},
    sync::watch,
    task::AbortHandle,
    time::timeout,
};

use harness_core::secret::CUT;
#[cfg(unix)]
use harness_core::watchdog::{Watchdog, exited, look};

/// The environment variables that a child inherits. These variables contain no keys.
const INHERITED: [&str; 6] = ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];

/// The number of lines that are kept of a child's standard error, and (`KEPT_LINE`) the bytes that are kept of each
/// line.
const KEPT_LINES: usize = 50;
const KEPT_LINE: usize = 500;

/// The number of lines that an error shows, and (`SHOWN_BYTES`) their total size in bytes.
const SHOWN_LINES: usize = 20;
const SHOWN_BYTES: usize = 4 << 10;

/// The maximum wait for the rest of a child's standard error before an error is returned. Another task may still be
/// reading this output after the child has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How long a child may take to end, first after its input was closed and then after a signal.
const GRACE: Duration = Duration::from_secs(2);

/// The settings with which a child is started.
#[derive(Clone)]
pub(super) struct ServerCommand {
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
    pub(super) variables: BTreeMap<String, String>,
    pub(super) folder: Option<PathBuf>,
}

/// Omits the values of variables.
impl fmt::Debug for ServerCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerCommand")
            .field("program", &self.program)
            .field("variables", &self.variables.keys())
            .finish_non_exhaustive()
    }
}

impl ServerCommand {
    /// Starts the child as the leader of a new process group.
    ///
    /// # Errors
    /// Fails with the reason as text.
    pub(super) fn start(&self) -> Result<(ServerProcess, ChildStdout, ChildStdin), String> {
        if let Some(folder) = self.folder.as_ref().filter(|folder| !folder.is_dir()) {
            let folder = folder.display().to_string();
            return Err(format!(
                "the folder `{}` does not exist or is not a folder; set another one by `folder`, or by `cwd` in a file",
                folder.escape_debug()
            ));
        }
        self.spawn().map_err(|err| {
            let program = self.program.escape_debug();
            let way_out = match err.kind() {
                std::io::ErrorKind::NotFound => "; install it, or name it by its whole path",
                std::io::ErrorKind::PermissionDenied => "; name a file that may be executed",
                _ => "",
            };
            format!("the program `{program}`: {err}{way_out}")
        })
    }

    fn spawn(&self) -> std::io::Result<(ServerProcess, ChildStdout, ChildStdin)> {
        let inherited = INHERITED.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)));
        let mut command = tokio::process::Command::new(&self.program);
        command.args(&self.arguments).env_clear().envs(inherited).envs(&self.variables);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        #[cfg(unix)]
        command.process_group(0);
        #[cfg(unix)]
        let mut watchdog = Watchdog::start(None).ok();
        let mut child = command.spawn()?;
        #[cfg(unix)]
        if let (Some(dog), Some(leader)) = (&mut watchdog, leader(&child)) {
            // If the watchdog fails, the server still ends when its input ends.
            let _ = dog.watch(leader);
        }
        let pipes = (child.stdout.take(), child.stdin.take(), child.stderr.take());
        let (Some(output), Some(input), Some(errors)) = pipes else {
            return Err(std::io::Error::other("the child has no pipes"));
        };
        let stderr_tail = StderrTail::default();
        let reader = tokio::spawn(stderr_tail.clone().read(errors)).abort_handle();
        let child = ServerProcess {
            #[cfg(unix)]
            _watchdog: watchdog,
            child,
            stderr_tail,
            reader,
        };
        Ok((child, output, input))
    }
}

/// The last lines of a child's standard error.
#[derive(Clone, Default)]
pub(super) struct StderrTail {
    lines: Arc<Mutex<VecDeque<String>>>,
    /// Whether the standard error was read to its end.
    ended: watch::Sender<bool>,
}

impl StderrTail {
    /// Reads to the end, so that a full pipe never blocks the child.
    async fn read(self, mut from: impl AsyncRead + Unpin) {
        let mut line = Vec::new();
        let mut piece = [0; 4096];
        while let Ok(read @ 1..) = from.read(&mut piece).await {
            for byte in piece.iter().take(read) {
                match byte {
                    b'\n' => self.keep(&std::mem::take(&mut line)),
                    // The rest of a long line is ignored.
                    _ if line.len() < KEPT_LINE => line.push(*byte),
                    _ => {}
                }
            }
        }
        self.keep(&line);
        self.ended.send_replace(true);
    }

    /// Waits until the standard error was read to its end, but at most a second, because other processes may still hold
    /// the pipe.
    pub(super) async fn last_words(&self) {
        let mut ended = self.ended.subscribe();
        let _ = timeout(LAST_WORDS, ended.wait_for(|ended| *ended)).await;
    }

    fn keep(&self, line: &[u8]) {
        let mut kept = String::from_utf8_lossy(line).trim().to_owned();
        if line.len() == KEPT_LINE {
            // With this mark, the filter for secrets also hides the beginning of a secret at the cut.
            kept.push_str(CUT);
        }
        let line = kept;
        if line.is_empty() {
            return;
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// The last lines, formatted for the end of an error's text; empty if there are no lines.
    pub(super) fn shown(&self) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = 0;
        let mut last: Vec<&str> = lines
            .iter()
            .rev()
            .take(SHOWN_LINES)
            .map(String::as_str)
            .take_while(|line| {
                bytes += line.len();
                bytes <= SHOWN_BYTES
            })
            .collect();
        if last.is_empty() {
            return String::new();
        }
        last.reverse();
        format!("\nIts standard error ends with:\n{}", last.join("\n"))
    }
}

/// A running child, and all processes that it has started and that are still in its group. Dropping this value kills
/// all these processes.
pub(super) struct ServerProcess {
    /// Kills the group if the program dies. The watchdog ends before the id of the group can be reused.
    #[cfg(unix)]
    _watchdog: Option<Watchdog>,
    child: tokio::process::Child,
    stderr_tail: StderrTail,
    reader: AbortHandle,
}

impl ServerProcess {
    pub(super) fn last_output(&self) -> &StderrTail {
        &self.stderr_tail
    }

    /// Waits until the leader has ended, after the caller has closed its input. A leader that does not end in time gets
    /// a signal. The rest of the group ends when this value is dropped.
    pub(super) async fn end(self) {
        if !self.wait_for_exit().await {
            self.signal(false);
            self.wait_for_exit().await;
        }
    }

    /// Waits for the leader's end within the grace period, and returns whether it has ended. The leader is not reaped,
    /// so that its group id stays in use.
    async fn wait_for_exit(&self) -> bool {
        timeout(GRACE, self.ended()).await.is_ok()
    }

    #[cfg(unix)]
    fn group(&self) -> Option<rustix::process::Pid> {
        leader(&self.child)
    }

    /// Waits until the leader has ended, even if other processes of its group still run.
    #[cfg(unix)]
    pub(super) fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let leader = self.group();
        async move {
            if let Some(leader) = leader {
                exited(leader).await;
            }
        }
    }

    /// How the leader has ended, as text for the end of an error. Empty if the leader does not end within a second.
    #[cfg(unix)]
    pub(super) fn how_ended(&self) -> impl Future<Output = String> + Send + use<> {
        let (leader, ended) = (self.group(), self.ended());
        async move {
            let has_ended = timeout(LAST_WORDS, ended).await.is_ok();
            let words = leader.filter(|_| has_ended).and_then(how_ended);
            words.map(|words| format!("; its process has ended ({words})")).unwrap_or_default()
        }
    }

    #[cfg(not(unix))]
    pub(super) fn how_ended(&self) -> impl Future<Output = String> + Send + use<> {
        std::future::ready(String::new())
    }

    #[cfg(not(unix))]
    pub(super) fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        std::future::pending()
    }

    #[cfg(unix)]
    fn signal(&self, kill: bool) {
        use rustix::process::{Signal, kill_process_group};

        let signal = if kill { Signal::KILL } else { Signal::TERM };
        if let Some(group) = self.group() {
            // The signal fails only if the group has no process left.
            let _ = kill_process_group(group, signal);
        }
    }

    #[cfg(not(unix))]
    fn signal(&self, _: bool) {}
}

#[cfg(unix)]
fn leader(child: &tokio::process::Child) -> Option<rustix::process::Pid> {
    rustix::process::Pid::from_raw(i32::try_from(child.id()?).ok()?)
}

#[cfg(unix)]
fn how_ended(leader: rustix::process::Pid) -> Option<String> {
    let end = look(leader).ok().flatten()?;
    let status = end.exit_status().map(|status| format!("exit status {status}"));
    status.or_else(|| Some(format!("signal {}", end.terminating_signal()?)))
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.signal(true);
        // Without process groups, only the leader is killed.
        let _ = self.child.start_kill();
        self.reader.abort();
    }
}
