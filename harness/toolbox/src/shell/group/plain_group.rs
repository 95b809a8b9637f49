//! A command as a direct child of the program, without a supervisor.

use std::{
    io,
    os::unix::process::CommandExt as _,
    process::{Child, Command, ExitStatus},
};

use rustix::process::{Pid, Signal, kill_process_group};

use super::{CommandSpec, OutputPipes, reaped};
#[cfg(target_os = "linux")]
use super::{processes, traces::ProcessTraces};
use harness_core::watchdog::{Watchdog, exited};

/// A shell that leads its own process group.
///
/// On Linux, [`ProcessTraces`] find a process that leaves the group. Other systems cannot find such a process.
#[derive(Debug)]
pub(super) struct PlainGroup {
    leader: Child,
    id: Pid,
    #[cfg(target_os = "linux")]
    traces: ProcessTraces,
    watchdog: Option<Watchdog>,
}

impl PlainGroup {
    pub(super) fn start(spec: &CommandSpec<'_>) -> io::Result<(Self, OutputPipes)> {
        let mut bash = Command::new("bash");
        bash.arg("-c").arg(spec.command).env_clear().envs(spec.variables.iter().cloned());
        if let Some(folder) = spec.folder {
            bash.current_dir(folder);
        }
        #[cfg(target_os = "linux")]
        let mut traces = ProcessTraces::new();
        #[cfg(target_os = "linux")]
        let watchdog = Watchdog::start(Some(traces.mark()))?;
        #[cfg(not(target_os = "linux"))]
        let watchdog = Watchdog::start(None)?;
        #[cfg(target_os = "linux")]
        bash.envs([traces.variable()]);
        let pipes = OutputPipes::on(&mut bash)?;
        let leader = bash.process_group(0).spawn()?;
        let id = Pid::from_child(&leader);
        #[cfg(target_os = "linux")]
        traces.begin(id, &pipes);
        let this = Self {
            leader,
            id,
            #[cfg(target_os = "linux")]
            traces,
            watchdog: Some(watchdog),
        };
        Ok((this, pipes))
    }

    /// Passes the group id to the watchdog. The command already runs by then.
    ///
    /// # Errors
    /// Fails if another process has killed the watchdog.
    pub(super) fn watch(&mut self) -> io::Result<()> {
        match &mut self.watchdog {
            Some(watchdog) => watchdog.watch(self.id),
            None => Ok(()),
        }
    }

    /// Waits until the shell has ended. The shell is not reaped here, so its id stays in use, and no other group can
    /// get this id.
    pub(super) async fn ended(&self) {
        exited(self.id).await;
    }

    /// Kills the remaining processes and reaps the shell.
    pub(super) fn end(&mut self) -> Option<ExitStatus> {
        if let Some(watchdog) = self.watchdog.take() {
            // Processes that have left the group can be found only while their parents live.
            #[cfg(target_os = "linux")]
            processes::end_all(|| {
                let group = Pid::as_raw(Some(self.id));
                self.traces.find(|process| process.group == group)
            });
            // The kill fails only if the group has no process left.
            let _ = kill_process_group(self.id, Signal::KILL);
            drop(watchdog);
        }
        reaped(&mut self.leader)
    }
}
