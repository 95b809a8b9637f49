//! A small shell process that kills a child process when the program ends for any reason. The watchdog notices the end
//! of the program because its standard input is closed then.

use std::{
    io::{self, Write as _},
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
};

use rustix::process::Pid;

/// `$1` is the mark that the processes have in their environment, or missing. The first line of standard input is the
/// process group. The script kills processes with the mark until it finds none. Without `/proc`, `grep` finds no file
/// and the search ends.
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
    /// Fails if the line cannot be written to the watchdog, except if the watchdog was killed.
    pub fn watch(&mut self, group: Pid) -> io::Result<()> {
        let Some(line) = &mut self.0.stdin else { return Ok(()) };
        // A broken pipe means that the watchdog was killed.
        writeln!(line, "{group}")
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Kill the watchdog before its standard input is closed, because it takes closed input for the end of the
        // program.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
