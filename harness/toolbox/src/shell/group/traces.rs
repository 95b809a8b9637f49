//! The traces of a command. They identify processes of the command that have left its group or lost their parents. Such
//! processes are started by `timeout`, by jobs of `set -m`, or as daemons.

use std::{ffi::OsString, path::PathBuf};

use rustix::process::Pid;

use super::{
    OutputPipes, VARIABLE,
    processes::{self, SystemProcess, add_descendants},
};

/// The traces of one command: a mark in the environment, and its output pipes.
#[derive(Debug)]
pub(super) struct ProcessTraces {
    mark: String,
    /// The names of the output pipes in `/proc`.
    outputs: Vec<PathBuf>,
    /// When the first process of the command was started, in ticks. Older processes are not examined.
    since: u64,
}

impl ProcessTraces {
    pub(super) fn new() -> Self {
        let mark = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        Self { mark, outputs: Vec::new(), since: 0 }
    }

    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    /// The environment variable with the mark. The command must get this variable when it starts.
    pub(super) fn variable(&self) -> (OsString, OsString) {
        let mut value = std::env::var_os(VARIABLE).unwrap_or_default();
        if !value.is_empty() {
            value.push(",");
        }
        value.push(&self.mark);
        (VARIABLE.into(), value)
    }

    /// Records the first process and the output pipes.
    pub(super) fn begin(&mut self, first: Pid, pipes: &OutputPipes) {
        self.since = processes::started(first);
        self.outputs = pipes.proc_names();
    }

    /// All processes that have a trace or are `known`, and all their descendants, but never the program itself.
    pub(super) fn find(&self, known: impl Fn(&SystemProcess) -> bool) -> Vec<SystemProcess> {
        let all = processes::all(self.since);
        let me = rustix::process::getpid();
        let is_ours = |process: &SystemProcess| {
            known(process) || self.has_mark(process.pid) || self.has_output(process.pid)
        };
        let others = all.iter().filter(|process| process.pid != me);
        let mut found = others.filter(|process| is_ours(process)).copied().collect();
        add_descendants(&mut found, &all);
        found
    }

    /// Whether the process has the mark. A process that has cleared or overwritten its environment has no mark.
    fn has_mark(&self, pid: Pid) -> bool {
        // The environment of other users' processes cannot be read. Such processes do not belong to the command.
        std::fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|all| memchr::memmem::find(&all, self.mark.as_bytes()).is_some())
    }

    /// Whether standard output or standard error of the process is an output pipe of the command.
    fn has_output(&self, pid: Pid) -> bool {
        (1..=2).any(|fd| {
            std::fs::read_link(format!("/proc/{pid}/fd/{fd}"))
                .is_ok_and(|name| self.outputs.contains(&name))
        })
    }
}
