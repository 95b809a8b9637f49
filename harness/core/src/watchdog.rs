//! A small shell process that kills a child process when the program ends for any reason. When the program ends, the
//! watchdog's standard input is closed, and the watchdog reads the end of the input.
//! [`exited`] and [`look`] tell when a child has ended.

use std::{
    io::{self, Write as _},
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, WaitId, WaitIdOptions, WaitIdStatus, waitid};
use tokio::signal::unix::{SignalKind, signal};

/// Reads the id of a process group from the first line of standard input, and kills this group when the input ends. If
/// `$1` is given, the script also kills all processes with this text in their environment, in at most 20 rounds.
/// Without `/proc`, `grep` finds no file and the search ends.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
read -r group
while read -r line; do :; done
[ -n "$group" ] && kill -KILL "-$group"
[ -n "$1" ] || exit 0
rounds=0
while [ $rounds -lt 20 ]; do
    rounds=$((rounds + 1))
    hit=
    for file in $(grep -lsF -e "$1" /proc/[0-9]*/environ); do
        id=${file#/proc/}
        kill -KILL "${id%/environ}" && hit=1
    done
    [ -z "$hit" ] && break
done
"#;

/// The watchdog process. Dropping this value kills the process, because nothing is left to watch.
#[derive(Debug)]
pub struct Watchdog(Child);

impl Watchdog {
    /// Starts a watchdog for all processes that have the mark in their environment. [`watch`](Self::watch) adds a
    /// process group later.
    ///
    /// # Errors
    /// Fails if `/bin/sh` cannot be started.
    pub fn start(mark: Option<&str>) -> io::Result<Self> {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", SCRIPT, "sh"]).args(mark);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // The watchdog must not carry the mark itself, and must not receive signals that are sent to the program's
        // process group. So the environment is cleared and the watchdog gets its own process group.
        let path = std::env::var_os("PATH");
        shell.env_clear().envs(path.map(|path| ("PATH", path))).current_dir("/").process_group(0);
        shell.spawn().map(Self).map_err(|err| {
            io::Error::other(format!("its watchdog, a `/bin/sh`, cannot be started: {err}"))
        })
    }

    /// Kills this process group when the program ends.
    ///
    /// # Errors
    /// Fails if the line cannot be written to the watchdog.
    pub fn watch(&mut self, group: Pid) -> io::Result<()> {
        let Some(line) = &mut self.0.stdin else { return Ok(()) };
        // If the watchdog was killed, this write fails with a broken pipe.
        writeln!(line, "{group}")
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Kill the watchdog before its standard input is closed: for the watchdog, closed input means that the program
        // has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a child has ended, without reaping it. Returns at once if other code has reaped the child.
pub async fn exited(child: Pid) {
    // Listening starts before the first check, so that the end of the child is not missed.
    let mut child_ended = signal(SignalKind::child()).ok();
    while let Ok(None) = look(child) {
        match &mut child_ended {
            Some(child_ended) => _ = child_ended.recv().await,
            None => std::future::pending().await,
        }
    }
}

/// The exit status of a child; `None` if the child has not ended. The child is not reaped.
///
/// # Errors
/// Fails if other code has reaped the child.
pub fn look(child: Pid) -> rustix::io::Result<Option<WaitIdStatus>> {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    waitid(WaitId::Pid(child), look)
}
