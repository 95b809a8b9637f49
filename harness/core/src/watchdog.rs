//! A small shell process that kills a child process when the program dies for any reason: the end
//! of its standard input then shows that the program is gone.

use std::{
    io::{self, Write as _},
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
};

use rustix::process::Pid;

/// `$1` is the mark, if there is one. The first line of the input is the process group. The script
/// searches for processes with the mark until there are none; without `/proc`, `grep` finds no file
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

/// Killed when it is dropped, because there is nothing left to watch then.
#[derive(Debug)]
pub struct Watchdog(Child);

impl Watchdog {
    /// Starts watching all processes with the mark in their environment, and later the process
    /// group that [`watch`](Self::watch) names.
    ///
    /// # Errors
    /// Fails if `/bin/sh` cannot be started.
    pub fn start(mark: Option<&str>) -> io::Result<Self> {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", SCRIPT, "sh"]).args(mark);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // It must not be found by the mark, nor be stopped together with the program's process
        // group.
        let path = std::env::var_os("PATH");
        shell.env_clear().envs(path.map(|path| ("PATH", path))).current_dir("/").process_group(0);
        shell.spawn().map(Self).map_err(|err| {
            io::Error::other(format!("its watchdog, a `/bin/sh`, cannot be started: {err}"))
        })
    }

    /// Kills this group of processes when the program dies.
    ///
    /// # Errors
    /// Fails if the watchdog takes no more lines, for another reason than that somebody has killed it.
    pub fn watch(&mut self, group: Pid) -> io::Result<()> {
        let Some(line) = &mut self.0.stdin else { return Ok(()) };
        // A broken pipe means that somebody has killed it.
        writeln!(line, "{group}")
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Killed before its input is closed, which it would take for the death of the program.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
