//! Finds the process that holds a terminal, so that a waiting process can name it.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::MetadataExt as _,
    time::{Duration, Instant},
};

use rustix::fs::{major, minor};

/// The minimum time between two searches for the holder.
const PAUSE: Duration = Duration::from_secs(1);

/// Reports on standard error when a stopped process (Ctrl-Z) holds the terminal. No other process can use the terminal
/// until the stopped process continues or ends.
#[derive(Default)]
pub(super) struct TerminalHolder {
    looked: Option<Instant>,
    told: Option<u32>,
}

impl TerminalHolder {
    /// If a stopped process holds the terminal, reports this process.
    pub(super) fn note_waiting(&mut self, terminal: &File) {
        if self.looked.replace(Instant::now()).is_some_and(|last| last.elapsed() < PAUSE) {
            return;
        }
        let stopped = stopped(terminal);
        if let Some(pid) = stopped.filter(|pid| self.told.replace(*pid) != Some(*pid)) {
            let _ = writeln!(
                io::stderr(),
                "\r\na question waits: process {pid} asks at this terminal and is stopped; continue it with `fg` or \
                 `kill -CONT {pid}`, or end it\r"
            );
        }
    }
}

/// Finds the stopped process that holds the lock of this terminal. Only Linux lists the holders of locks.
fn stopped(terminal: &File) -> Option<u32> {
    let file = terminal.metadata().ok()?;
    let place = format!("{:02x}:{:02x}:{}", major(file.dev()), minor(file.dev()), file.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let held = locks.lines().filter(|lock| lock.contains(" FLOCK ") && lock.contains(&place));
    let mut pids = held.filter_map(|lock| {
        let mut words = lock.split_ascii_whitespace().skip_while(|word| *word != "FLOCK");
        let pid = words.nth(3)?;
        (words.next() == Some(&*place)).then(|| pid.parse().ok())?
    });
    pids.find(|pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, state)| state.trim_start().starts_with('T'))
    })
}
