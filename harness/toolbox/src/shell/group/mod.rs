//! A process group: a process and everything that the process starts. The whole group ends together.

#[cfg(target_os = "linux")]
mod order;
mod plain_group;
#[cfg(target_os = "linux")]
mod processes;
#[cfg(target_os = "linux")]
mod supervised_group;
#[cfg(target_os = "linux")]
pub(super) mod supervisor;
#[cfg(target_os = "linux")]
mod traces;

use std::{
    ffi::OsString,
    io,
    os::fd::OwnedFd,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use tokio::process::{ChildStderr, ChildStdout};

/// The environment variable that marks the processes of a command. If a command runs inside another command, the value
/// contains the marks of both commands.
pub(super) const VARIABLE: &str = "HARNESS_COMMAND";

/// The maximum number of checks whether a killed process is dead. The checks are a millisecond apart.
const LOOKS: usize = 100;

/// Whether this program can be started again as a supervisor, and can see the processes to supervise.
#[cfg(target_os = "linux")]
pub(super) fn can_be_supervised() -> bool {
    processes::can_be_seen() && std::fs::read_link(supervised_group::PROGRAM).is_ok()
}

/// The command to run.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommandSpec<'s> {
    pub(super) command: &'s str,
    /// The folder in which the command starts; `None` for the program's current folder.
    pub(super) folder: Option<&'s Path>,
    /// The complete environment of the command.
    pub(super) variables: &'s [(OsString, OsString)],
}

/// A command and everything that it has started. Dropping this value kills all these processes.
#[derive(Debug)]
pub(super) struct ProcessGroup(GroupKind);

#[derive(Debug)]
enum GroupKind {
    Plain(plain_group::PlainGroup),
    #[cfg(target_os = "linux")]
    Supervised(supervised_group::SupervisedGroup),
}

impl ProcessGroup {
    pub(super) fn start(spec: &CommandSpec<'_>) -> io::Result<(Self, OutputPipes)> {
        #[cfg(target_os = "linux")]
        if super::supervise::is_on() {
            let (supervised, pipes) = supervised_group::SupervisedGroup::start(spec)?;
            return Ok((Self(GroupKind::Supervised(supervised)), pipes));
        }
        let (plain, pipes) = plain_group::PlainGroup::start(spec)?;
        Ok((Self(GroupKind::Plain(plain)), pipes))
    }

    /// Makes the watchdog watch the command, which already runs.
    ///
    /// # Errors
    /// Fails if no watchdog watches the command. The caller then has to end the command.
    pub(super) fn watch(&mut self) -> io::Result<()> {
        match &mut self.0 {
            GroupKind::Plain(plain) => plain.watch(),
            #[cfg(target_os = "linux")]
            GroupKind::Supervised(_) => Ok(()),
        }
    }

    /// Waits until the command has ended. The status is `None` if another process has reaped the command or has killed
    /// the supervisor.
    ///
    /// # Errors
    /// Fails if the command was not started.
    pub(super) async fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        match &mut self.0 {
            GroupKind::Plain(plain) => {
                plain.ended().await;
                Ok(plain.end())
            }
            #[cfg(target_os = "linux")]
            GroupKind::Supervised(supervised) => supervised.ended().await,
        }
    }

    /// Waits until the supervisor has ended the remaining processes. Without a supervisor, does not wait.
    pub(super) async fn close(&mut self) {
        match &mut self.0 {
            GroupKind::Plain(_) => {}
            #[cfg(target_os = "linux")]
            GroupKind::Supervised(supervised) => supervised.close().await,
        }
    }

    /// Kills the remaining processes and reaps the child.
    pub(super) fn end(&mut self) {
        match &mut self.0 {
            GroupKind::Plain(plain) => _ = plain.end(),
            #[cfg(target_os = "linux")]
            GroupKind::Supervised(supervised) => _ = supervised.end(),
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.end();
    }
}

/// The pipes for standard output and standard error of a child.
#[derive(Debug)]
pub(super) struct OutputPipes {
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

impl OutputPipes {
    /// Connects a command to the pipes, without input. Everything that can fail or panic, for example in a runtime
    /// without IO, happens here, before the command runs.
    fn on(command: &mut Command) -> io::Result<Self> {
        let (stdout, to_stdout) = io::pipe()?;
        let (stderr, to_stderr) = io::pipe()?;
        command.stdin(Stdio::null()).stdout(to_stdout).stderr(to_stderr);
        Ok(Self {
            stdout: ChildStdout::from_std(OwnedFd::from(stdout).into())?,
            stderr: ChildStderr::from_std(OwnedFd::from(stderr).into())?,
        })
    }

    /// The names of the pipes in `/proc`.
    #[cfg(target_os = "linux")]
    fn proc_names(&self) -> Vec<std::path::PathBuf> {
        let ends = [rustix::fs::fstat(&self.stdout), rustix::fs::fstat(&self.stderr)];
        ends.into_iter().flatten().map(|end| format!("pipe:[{}]", end.st_ino).into()).collect()
    }
}

/// Reaps a child that will die soon. Returns `None` if other code has reaped the child, or if it does not die in time.
fn reaped(child: &mut Child) -> Option<ExitStatus> {
    for _ in 0..LOOKS {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(Duration::from_millis(1)),
            Ok(status) => return status,
            Err(_) => return None,
        }
    }
    None
}
