//! A mark in the environment of a command, by which those of its processes are found that have
//! left its group: `timeout`, jobs of `set -m`, and daemons do.

use std::ffi::OsString;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The variable. Its value lists the marks of all commands around, so that a command inside a
/// command has both.
pub(super) const VARIABLE: &str = "HARNESS_COMMAND";

/// How often is looked again for what was started while looking.
const ROUNDS: usize = 10;

#[derive(Debug)]
pub(super) struct Mark(String);

impl Mark {
    pub(super) fn new() -> Self {
        Self(format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..)))
    }

    /// What the variable is set to.
    pub(super) fn value(&self) -> OsString {
        let mut value = std::env::var_os(VARIABLE).unwrap_or_default();
        if !value.is_empty() {
            value.push(",");
        }
        value.push(&self.0);
        value
    }

    /// Kills every process that has the mark. One that has cleared its environment is not found.
    pub(super) fn kill_all(&self) {
        let mut killed = Vec::new();
        for _ in 0..ROUNDS {
            let before = killed.len();
            for pid in processes() {
                if !killed.contains(&pid) && self.is_on(pid) && self.kill(pid) {
                    killed.push(pid);
                }
            }
            if killed.len() == before {
                return;
            }
        }
    }

    fn is_on(&self, pid: Pid) -> bool {
        // Processes of others cannot be read, and are none of ours.
        std::fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|all| memchr::memmem::find(&all, self.0.as_bytes()).is_some())
    }

    fn kill(&self, pid: Pid) -> bool {
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
        // The id may be another's by now; the opened process stays the same one.
        self.is_on(pid) && pidfd_send_signal(&process, Signal::KILL).is_ok()
    }
}

fn processes() -> impl Iterator<Item = Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}
