//! The traces of a command on each of its processes, by which processes are found that have left its group or have
//! lost their parents, as `timeout`, jobs of `set -m`, and daemons do.

use std::{ffi::OsString, path::PathBuf};

use rustix::process::Pid;

use super::{
    OutputPipes, VARIABLE,
    processes::{self, SystemProcess, add_descendants},
};

/// The traces: a mark in the environment, and the outputs of the command.
#[derive(Debug)]
pub(super) struct ProcessTraces {
    mark: String,
    /// The names of the outputs in `/proc`.
    outputs: Vec<PathBuf>,
    /// When the first process of the command was started: older processes are not looked at.
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

    /// The variable with which the command has to be started.
    pub(super) fn variable(&self) -> (OsString, OsString) {
        let mut value = std::env::var_os(VARIABLE).unwrap_or_default();
        if !value.is_empty() {
            value.push(",");
        }
        value.push(&self.mark);
        (VARIABLE.into(), value)
    }

    /// Notes the first process and the outputs.
    pub(super) fn begin(&mut self, first: Pid, pipes: &OutputPipes) {
        self.since = processes::started(first);
        self.outputs = pipes.proc_names();
    }

    /// All processes that have a trace or are `known` otherwise, and all their descendants; never the program
    /// itself.
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

    /// A process that has cleared or overwritten its environment does not have the mark any more.
    fn has_mark(&self, pid: Pid) -> bool {
        // Processes of other users cannot be read, and they do not belong to the command.
        std::fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|all| memchr::memmem::find(&all, self.mark.as_bytes()).is_some())
    }

    /// Whether standard output or standard error of the process is an output of the command.
    fn has_output(&self, pid: Pid) -> bool {
        (1..=2).any(|fd| {
            std::fs::read_link(format!("/proc/{pid}/fd/{fd}"))
                .is_ok_and(|name| self.outputs.contains(&name))
        })
    }
}
