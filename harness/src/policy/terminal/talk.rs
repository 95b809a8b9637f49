//! A talk with a person at a terminal: it writes and reads until the question is answered or withdrawn. From that
//! moment on it neither writes to the terminal nor takes a key from it.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::{
    fs::OFlags,
    io::Errno,
    termios::{LocalModes, QueueSelector, isatty, tcflush, tcgetattr, tcgetpgrp, tcgetwinsize},
};

/// The pause before the next try if a terminal has no key or accepts no more text.
const PAUSE: Duration = Duration::from_millis(50);

/// The number of bytes that are written at once. Withdrawing a question waits at most for this many.
const PIECE: usize = 4096;

/// The longest typed line in bytes; the rest is ignored.
const LINE: usize = 4096;

/// The size that is assumed for a terminal of unknown size.
const SIZE: Size = Size { columns: 80, rows: 24 };

/// Identifies a terminal, whatever name it was opened by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Identity {
    /// The terminal that controls this process: `/dev/tty` is another name of it.
    Controlling,
    /// Another terminal, by the number of its device.
    Device(u64),
}

/// An open terminal. Reading and writing never block.
#[derive(Debug)]
pub(super) struct Terminal {
    file: File,
    pub(super) identity: Identity,
}

impl Terminal {
    pub(super) fn open(device: &Path) -> io::Result<Self> {
        // It must not become the terminal that controls this process.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(flags.bits().cast_signed())
            .open(device)?;
        if !isatty(&file) {
            return Err(io::Error::other("it is not a terminal"));
        }
        let identity = match tcgetpgrp(&file) {
            Err(Errno::NOTTY) => Identity::Device(file.metadata()?.rdev()),
            Ok(_) | Err(_) => Identity::Controlling,
        };
        Ok(Self { file, identity })
    }
}

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// Why a talk ended without an answer.
#[derive(Debug)]
pub(super) enum Ended {
    TakenBack,
    Failed(io::Error),
}

impl From<Errno> for Ended {
    fn from(err: Errno) -> Self {
        Self::Failed(err.into())
    }
}

#[derive(Debug)]
pub(super) struct Talk {
    terminal: Terminal,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Whether the question has not been withdrawn or answered.
    live: bool,
    /// Whether anything of the question is on the screen.
    on_screen: bool,
}

impl Talk {
    pub(super) fn new(terminal: Terminal) -> Self {
        let state = State { live: true, on_screen: false };
        Self { terminal, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Ends the talk: from now on nothing is written or read. Returns whether anything was on the screen while the
    /// talk still went on.
    pub(super) fn end(&self, last_words: &[u8]) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let was_seen = state.live && state.on_screen;
        state.live = false;
        if was_seen {
            // The part that the terminal does not accept at once is dropped, since this function must not wait.
            let _ = (&self.terminal.file).write(last_words);
        }
        self.changed.notify_all();
        was_seen
    }

    /// Writes all bytes.
    pub(super) fn write(&self, bytes: &[u8]) -> Result<(), Ended> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let mut state = self.state()?;
            state.on_screen = true;
            let piece = rest.get(..PIECE).unwrap_or(rest);
            match (&self.terminal.file).write(piece) {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(err) => self.pause(state, err)?,
            }
        }
        Ok(())
    }

    /// Drops the keys that were pressed until now.
    pub(super) fn forget_keys(&self) -> Result<(), Ended> {
        let _state = self.state()?;
        // In a background process this stops the program until it is in the foreground again, as a read would. If
        // the process cannot be stopped, the read reports the error.
        let _ = tcflush(&self.terminal.file, QueueSelector::IFlush);
        Ok(())
    }

    /// Whether the terminal was closed at its other end.
    pub(super) fn is_gone(&self) -> bool {
        tcgetattr(&self.terminal.file).is_err()
    }

    pub(super) fn size(&self) -> Size {
        match tcgetwinsize(&self.terminal.file) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                Size { columns: size.ws_col.into(), rows: size.ws_row.into() }
            }
            Ok(_) | Err(_) => SIZE,
        }
    }

    /// The next typed line, or `None` at the end of the input. It also works if another part of the program has
    /// switched off line mode and echo.
    pub(super) fn line(&self) -> Result<Option<String>, Ended> {
        let mut line = Vec::new();
        loop {
            let keys = self.keys()?;
            if keys.is_empty() {
                return Ok(None);
            }
            let echoes = tcgetattr(&self.terminal.file)
                .is_ok_and(|modes| modes.local_modes.contains(LocalModes::ECHO));
            for key in keys {
                let echo: &[u8] = match key {
                    // Keys after the end of the line were pressed before its answer was seen, so they are dropped.
                    b'\r' | b'\n' => {
                        if !echoes {
                            self.write(b"\r\n")?;
                        }
                        return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
                    }
                    // Ctrl-C and Ctrl-D, in a mode in which the terminal does not handle them.
                    0x03 | 0x04 => return Ok(None),
                    0x08 | 0x7f => match line.pop() {
                        Some(_) => b"\x08 \x08",
                        None => b"",
                    },
                    _ if line.len() == LINE => b"",
                    _ => {
                        line.push(key);
                        if matches!(key, b' '..=b'~') { &[key] } else { b"?" }
                    }
                };
                if !echoes {
                    self.write(echo)?;
                }
            }
        }
    }

    /// The keys that were pressed: at least one, or none at the end of the input.
    fn keys(&self) -> Result<Vec<u8>, Ended> {
        let mut keys = vec![0; LINE];
        loop {
            let state = self.state()?;
            match (&self.terminal.file).read(&mut keys) {
                Ok(read) => {
                    keys.truncate(read);
                    return Ok(keys);
                }
                Err(err) => self.pause(state, err)?,
            }
        }
    }

    /// The state, unless the question was withdrawn. The holder of the guard has the terminal to itself.
    fn state(&self) -> Result<MutexGuard<'_, State>, Ended> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.live { Ok(state) } else { Err(Ended::TakenBack) }
    }

    /// Waits a moment if the terminal was not ready, or until the question is withdrawn.
    fn pause(&self, state: MutexGuard<'_, State>, err: io::Error) -> Result<(), Ended> {
        match err.kind() {
            io::ErrorKind::Interrupted => Ok(()),
            io::ErrorKind::WouldBlock => {
                let (state, _) =
                    self.changed.wait_timeout(state, PAUSE).unwrap_or_else(PoisonError::into_inner);
                if state.live { Ok(()) } else { Err(Ended::TakenBack) }
            }
            _ => Err(Ended::Failed(err)),
        }
    }
}
