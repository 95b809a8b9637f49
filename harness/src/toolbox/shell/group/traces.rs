//! What a command leaves on each of its processes, so that those are found that have left its
//! group or have lost their parents: `timeout`, jobs of `set -m`, and daemons do.

use std::{ffi::OsString, path::PathBuf};

use rustix::process::Pid;

use super::{
    Pipes, VARIABLE,
    processes::{self, Process, add_descendants},
};

/// A mark in the environment, and the outputs of the command.
#[derive(Debug)]
pub(super) struct Traces {
    mark: String,
    /// What the outputs are called in `/proc`.
    outputs: Vec<PathBuf>,
    /// When the first process of the command was started: nobody who is older is looked at.
    since: u64,
}

impl Traces {
    pub(super) fn new() -> Self {
        let mark = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        Self { mark, outputs: Vec::new(), since: 0 }
    }

    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    /// The variable that the command is to be started with.
    pub(super) fn variable(&self) -> (OsString, OsString) {
        let mut value = std::env::var_os(VARIABLE).unwrap_or_default();
        if !value.is_empty() {
            value.push(",");
        }
        value.push(&self.mark);
        (VARIABLE.into(), value)
    }

    /// Takes note of the first process and the outputs.
    pub(super) fn begin(&mut self, first: Pid, pipes: &Pipes) {
        self.since = processes::started(first);
        self.outputs = pipes.names();
    }

    /// All that has a trace or is `known` otherwise, and all that descends from it; never the
    /// program itself.
    pub(super) fn find(&self, known: impl Fn(&Process) -> bool) -> Vec<Process> {
        let all = processes::all(self.since);
        let me = rustix::process::getpid();
        let is_ours = |process: &Process| {
            known(process) || self.has_mark(process.pid) || self.has_output(process.pid)
        };
        let others = all.iter().filter(|process| process.pid != me);
        let mut found = others.filter(|process| is_ours(process)).copied().collect();
        add_descendants(&mut found, &all);
        found
    }

    /// One that has cleared or overwritten its environment has it no more.
    fn has_mark(&self, pid: Pid) -> bool {
        // Processes of others cannot be read, and are none of ours.
        std::fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|all| memchr::memmem::find(&all, self.mark.as_bytes()).is_some())
    }

    /// Whether its standard output or its standard error is one of the command.
    fn has_output(&self, pid: Pid) -> bool {
        (1..=2).any(|fd| {
            std::fs::read_link(format!("/proc/{pid}/fd/{fd}"))
                .is_ok_and(|name| self.outputs.contains(&name))
        })
    }
}
