//! A terminal: its identity, a lock that lets only one process use it at a time, and reports of writes by other
//! programs.

use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
    sync::OnceLock,
};

use rustix::{
    fd::AsFd,
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
    process::getpgrp,
    termios::{Action, isatty, tcflow, tcgetpgrp, ttyname},
};

/// The name by which each process can open its controlling terminal.
const ALIAS: &str = "/dev/tty";

/// Identifies a terminal, independently of the name under which it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TerminalId {
    /// The controlling terminal of this process, which can also be opened as `/dev/tty`.
    Controlling,
    /// Another terminal, identified by its device number.
    Device(u64),
}

/// An open terminal. Reads and writes never block.
#[derive(Debug)]
pub(super) struct OpenTerminal {
    pub(super) file: File,
    pub(super) identity: TerminalId,
    /// Created only after the lock is taken: the system allows few watches, and many requests may wait for the lock.
    watch: OnceLock<Option<WriteWatch>>,
}

impl OpenTerminal {
    pub(super) fn open(device: &Path) -> io::Result<Self> {
        let named = open(device)?;
        if !isatty(&named) {
            return Err(io::Error::other("it is not a terminal"));
        }
        let identity = match controls(&named) {
            true => TerminalId::Controlling,
            false => TerminalId::Device(named.metadata()?.rdev()),
        };
        // The alias is one file for all terminals of the machine, so locking it would lock all of them.
        let file = match is_alias(&named) {
            true => controlling_terminal().unwrap_or(named),
            false => named,
        };
        Ok(Self { file, identity, watch: OnceLock::new() })
    }

    /// Locks the terminal for this process. Returns `false` while another process holds the lock. The system releases
    /// the lock when the process ends or crashes.
    pub(super) fn lock(&self) -> io::Result<bool> {
        let front = tcgetpgrp(&self.file);
        if self.identity == TerminalId::Controlling && front.is_ok_and(|front| front != getpgrp()) {
            // In a background process, `tcflow` stops the process until it is in the foreground, or fails. Otherwise, a
            // stopped process could hold the lock, and the foreground process would wait for the stopped process.
            tcflow(&self.file, Action::OOn)?;
        }
        match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(false),
            // Some systems cannot lock devices. On these systems, requests of several processes may overlap.
            Ok(()) | Err(_) => {
                self.watch.get_or_init(|| WriteWatch::of(&self.file, self.identity));
                Ok(true)
            }
        }
    }

    pub(super) fn unlock(&self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }

    /// Whether any process has written to the terminal since the last call of this function. Always `false` on systems
    /// that do not report writes.
    pub(super) fn was_written(&self) -> bool {
        self.watch.get().and_then(Option::as_ref).is_some_and(WriteWatch::has_seen)
    }
}

fn open(device: &Path) -> io::Result<File> {
    // Opening must not make this terminal the controlling terminal of the process.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    OpenOptions::new().read(true).write(true).custom_flags(flags.bits().cast_signed()).open(device)
}

/// Whether this terminal is the controlling terminal of this process.
fn controls(terminal: &File) -> bool {
    !matches!(tcgetpgrp(terminal), Err(Errno::NOTTY))
}

fn is_alias(terminal: &File) -> bool {
    let number = |it: fs::Metadata| it.rdev();
    terminal.metadata().map(number).ok() == fs::metadata(ALIAS).map(number).ok()
}

/// Opens the controlling terminal of this process by its device name instead of `/dev/tty`.
fn controlling_terminal() -> Option<File> {
    let streams = [name_of(io::stdin()), name_of(io::stdout()), name_of(io::stderr())];
    let names = streams.into_iter().flatten().chain(name_in_proc());
    names.filter_map(|name| open(&name).ok()).find(|it| isatty(it) && controls(it) && !is_alias(it))
}

fn name_of(stream: impl AsFd) -> Option<PathBuf> {
    let name = ttyname(stream, Vec::new()).ok()?;
    Some(OsStr::from_bytes(name.as_bytes()).into())
}

/// Finds the controlling terminal's name in `/proc`, for a process whose standard streams are all redirected.
fn name_in_proc() -> Option<PathBuf> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in parentheses, may contain spaces.
    let (_, stat) = stat.rsplit_once(')')?;
    let number: u64 = stat.split_ascii_whitespace().nth(4)?.parse().ok()?;
    let minor = (number & 0xff) | ((number >> 12) & 0xf_ff00);
    match (number >> 8) & 0xfff {
        136 => Some(format!("/dev/pts/{minor}").into()),
        4 if minor < 64 => Some(format!("/dev/tty{minor}").into()),
        _ => None,
    }
}

/// Reports whether a terminal was written to.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct WriteWatch(File);

#[cfg(target_os = "linux")]
impl WriteWatch {
    fn of(terminal: &File, identity: TerminalId) -> Option<Self> {
        use std::os::fd::AsRawFd as _;

        use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};

        let watch = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        let opened = format!("/proc/self/fd/{}", terminal.as_raw_fd());
        add_watch(&watch, opened, WatchFlags::MODIFY).ok()?;
        if identity == TerminalId::Controlling {
            // The system reports writes through the alias separately. These reports include the writes of processes
            // that have another terminal.
            let _ = add_watch(&watch, ALIAS, WatchFlags::MODIFY);
        }
        Some(Self(watch.into()))
    }

    fn has_seen(&self) -> bool {
        use std::io::Read as _;

        let mut seen = false;
        let mut events = [0; 4096];
        while (&self.0).read(&mut events).is_ok_and(|read| read > 0) {
            seen = true;
        }
        seen
    }
}

#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
enum WriteWatch {}

#[cfg(not(target_os = "linux"))]
impl WriteWatch {
    fn of(_: &File, _: TerminalId) -> Option<Self> {
        None
    }

    fn has_seen(&self) -> bool {
        match *self {}
    }
}
