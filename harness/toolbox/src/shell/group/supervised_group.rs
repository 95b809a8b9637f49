//! The program's side of a supervised command.

use std::{
    io,
    os::{
        fd::OwnedFd,
        unix::{net, process::CommandExt as _, process::ExitStatusExt as _},
    },
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{io::AsyncWriteExt as _, net::UnixStream};

use super::{
    CommandSpec, OutputPipes,
    order::{CommandOrder, SupervisorReport},
    processes, reaped,
    supervisor::{ARGUMENT, NAME},
    traces::ProcessTraces,
};
use harness_core::watchdog::exited;

/// The program's own file, even if it was deleted or replaced.
pub(super) const PROGRAM: &str = "/proc/self/exe";

/// The pause between two checks.
const BREATH: Duration = Duration::from_millis(1);
/// The maximum number of pauses until a supervisor without a report has ended.
const SHORT: u32 = 100;
/// The maximum number of pauses until a supervisor has ended, because it may have to kill thousands of processes.
const LONG: u32 = 20_000;
/// The maximum number of times that a supervisor is continued after a stop signal.
const HALTS: u32 = 100;

/// A supervisor: a process that runs the program's own executable for this command. When its socket closes, the
/// supervisor kills all processes that it has started, and ends.
#[derive(Debug)]
pub(super) struct SupervisedGroup {
    supervisor: Child,
    id: Pid,
    line: Option<UnixStream>,
    order: Vec<u8>,
    /// Finds the processes of a command that has killed its supervisor.
    traces: ProcessTraces,
    /// The remaining number of pauses (`patience`), and the remaining number of times that a stopped supervisor is
    /// continued (`halts`).
    patience: u32,
    halts: u32,
    is_over: bool,
}

impl SupervisedGroup {
    pub(super) fn start(spec: &CommandSpec<'_>) -> io::Result<(Self, OutputPipes)> {
        let mut traces = ProcessTraces::new();
        let mut variables = spec.variables.to_vec();
        variables.push(traces.variable());
        let folder = spec.folder.map(Into::into);
        let order = CommandOrder { folder, command: spec.command.into(), variables }.to_bytes()?;

        let failed = |err| io::Error::other(format!("its supervisor cannot be started: {err}"));
        let (ours, theirs) = net::UnixStream::pair().map_err(failed)?;
        ours.set_nonblocking(true).map_err(failed)?;
        let line = Some(UnixStream::from_std(ours).map_err(failed)?);
        let mut program = Command::new(PROGRAM);
        program.arg0(NAME).arg(ARGUMENT).env_clear();
        // Some programs cannot start without this variable, so the supervisor gets it. It is the only variable that the
        // command can find in the environment of its parent.
        let libraries = std::env::var_os("LD_LIBRARY_PATH");
        program.envs(libraries.map(|libraries| ("LD_LIBRARY_PATH", libraries)));
        let pipes = OutputPipes::on(&mut program).map_err(failed)?;
        program.stdin(Stdio::from(OwnedFd::from(theirs)));
        let supervisor = program.spawn().map_err(failed)?;
        let id = Pid::from_child(&supervisor);
        traces.begin(id, &pipes);
        let (patience, halts, is_over) = (SHORT, HALTS, false);
        Ok((Self { supervisor, id, line, order, traces, patience, halts, is_over }, pipes))
    }

    /// Sends the order, and waits until everything has ended.
    ///
    /// # Errors
    /// Fails if the command was not started.
    pub(super) async fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.reported().await?;
        exited(self.id).await;
        Ok(status)
    }

    async fn reported(&mut self) -> io::Result<Option<ExitStatus>> {
        let Some(line) = &mut self.line else { return Ok(None) };
        // If this write fails, reading the report fails too.
        let _ = line.write_all(&self.order).await;
        match SupervisorReport::read(line).await {
            Ok(SupervisorReport::Begins) => self.patience = LONG,
            Ok(SupervisorReport::NotStarted(_) | SupervisorReport::Ended(_)) | Err(_) => {
                return Err(self.did_not_begin());
            }
        }
        match SupervisorReport::read(line).await {
            Ok(SupervisorReport::NotStarted(error)) => Err(io::Error::from_raw_os_error(error)),
            Ok(SupervisorReport::Ended(status)) => Ok(Some(ExitStatus::from_raw(status))),
            // The command or another process has killed the supervisor.
            Ok(SupervisorReport::Begins) | Err(_) => Ok(None),
        }
    }

    fn did_not_begin(&mut self) -> io::Error {
        let status = match self.end() {
            Some(status) => status.to_string(),
            None => "it could not be killed".to_owned(),
        };
        io::Error::other(format!(
            "its supervisor, this program started again, did not begin ({status}); the program \
             must call `harness::toolbox::supervise` in the first line of `main`"
        ))
    }

    /// Lets the supervisor kill all remaining processes, and waits for the supervisor without blocking the thread.
    pub(super) async fn close(&mut self) {
        self.line = None;
        loop {
            tokio::select! {
                biased;
                () = exited(self.id) => return,
                () = tokio::time::sleep(BREATH) => {}
            }
            if !self.is_at_work() {
                return;
            }
        }
    }

    /// Lets the supervisor kill all remaining processes, and reaps the supervisor. If the supervisor cannot kill the
    /// processes, this process kills them.
    pub(super) fn end(&mut self) -> Option<ExitStatus> {
        self.line = None;
        let mut looked = self.supervisor.try_wait();
        if std::mem::replace(&mut self.is_over, true) {
            return looked.ok().flatten();
        }
        while matches!(looked, Ok(None)) && self.is_at_work() {
            std::thread::sleep(BREATH);
            looked = self.supervisor.try_wait();
        }
        if let Ok(Some(status)) = looked
            && status.success()
        {
            return Some(status);
        }
        // Until the supervisor is reaped, no other process can get its id.
        let lives = matches!(looked, Ok(None));
        processes::end_all(|| self.traces.find(|process| lives && process.pid == self.id));
        looked.ok().flatten().or_else(|| reaped(&mut self.supervisor))
    }

    /// Whether to wait one more pause for the supervisor. Killing the supervisor too early would spare processes that
    /// it has not found yet. A supervisor that was stopped by a signal is continued.
    fn is_at_work(&mut self) -> bool {
        let Some(left) = self.patience.checked_sub(1) else { return false };
        self.patience = left;
        match processes::state(self.id) {
            Some(b'T') => match self.halts.checked_sub(1) {
                Some(left) => {
                    self.halts = left;
                    // The signal fails only if the process has ended.
                    let _ = kill_process(self.id, Signal::CONT);
                    true
                }
                None => false,
            },
            // A debugger has stopped the supervisor.
            Some(b't') => false,
            _ => true,
        }
    }
}
