//! A talk with a person at a terminal: it writes and reads until the question is answered or withdrawn. From that
//! moment on it neither writes to the terminal nor takes a key from it.

use std::{
    io::{self, Read as _, Write as _},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::{
    io::Errno,
    termios::{LocalModes, QueueSelector, tcflush, tcgetattr, tcgetwinsize},
};
use tokio::time::Instant;

use super::{device::OpenTerminal, holder::TerminalHolder};

/// The pause before the next try if a terminal has no key or accepts no more text.
const PAUSE: Duration = Duration::from_millis(50);

/// The shortest time from when a question is drawn until an answer to it counts. Who has just answered another
/// question may press the same keys again before this one is read.
const READING: Duration = Duration::from_secs(1);

/// The number of bytes that are written at once. Withdrawing a question waits at most for this many.
const PIECE: usize = 4096;

/// For how long a process leaves the terminal to others after a question of its own: they look for it at each
/// [`PAUSE`].
const YIELD: Duration = Duration::from_millis(150);

/// The longest typed line in bytes; the rest is ignored.
const LINE: usize = 4096;

/// The size that is assumed for a terminal of unknown size.
const SIZE: TerminalSize = TerminalSize { columns: 80, rows: 24 };

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TerminalSize {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// Why a talk ended without an answer.
#[derive(Debug)]
pub(super) enum TalkEnd {
    TakenBack,
    Failed(io::Error),
}

impl From<Errno> for TalkEnd {
    fn from(err: Errno) -> Self {
        Self::Failed(err.into())
    }
}

#[derive(Debug)]
pub(super) struct TerminalTalk {
    terminal: OpenTerminal,
    state: Mutex<TalkState>,
    changed: Condvar,
}

#[derive(Debug)]
struct TalkState {
    /// Whether the question has not been withdrawn or answered.
    live: bool,
    /// Whether anything of the question is on the screen.
    on_screen: bool,
    /// Whether somebody else has written to the terminal since the page was begun.
    covered: bool,
}

/// What was typed while a question was being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StrayInput {
    Nothing,
    /// Keys, which were dropped.
    Keys,
    /// The end of the input.
    End,
}

impl TerminalTalk {
    pub(super) fn new(terminal: OpenTerminal) -> Self {
        let state = TalkState { live: true, on_screen: false, covered: false };
        Self { terminal, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits until no other process asks at this terminal. If this process has asked there in the last moments, others
    /// come first.
    pub(super) fn claim(&self, released: Option<std::time::Instant>) -> Result<(), TalkEnd> {
        let not_ready = || io::Error::from(io::ErrorKind::WouldBlock);
        while released.is_some_and(|released| released.elapsed() < YIELD) {
            self.pause(self.state()?, not_ready())?;
        }
        let mut holder = TerminalHolder::default();
        // Stopping a process in the background must not happen with the state locked.
        loop {
            if self.terminal.lock().map_err(TalkEnd::Failed)? {
                // If the question was withdrawn meanwhile, nobody unlocks the terminal any more.
                return self.state().map(drop).inspect_err(|_| self.terminal.unlock());
            }
            holder.note_waiting(&self.terminal.file);
            self.pause(self.state()?, not_ready())?;
        }
    }

    /// Ends the talk: from now on nothing is written or read, and other processes may ask. Returns whether anything was on the screen while the
    /// talk still went on.
    pub(super) fn end(&self, last_words: &[u8]) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let was_seen = state.live && state.on_screen;
        state.live = false;
        if was_seen {
            // The part that the terminal does not accept at once is dropped, since this function must not wait.
            let _ = (&self.terminal.file).write(last_words);
        }
        self.terminal.unlock();
        self.changed.notify_all();
        was_seen
    }

    /// Writes a page, which begins with an empty screen.
    pub(super) fn write_page(&self, bytes: &[u8]) -> Result<(), TalkEnd> {
        let mut state = self.state()?;
        self.terminal.was_written();
        state.covered = false;
        drop(state);
        self.write(bytes)
    }

    /// Writes all bytes.
    pub(super) fn write(&self, bytes: &[u8]) -> Result<(), TalkEnd> {
        self.put(bytes).map(drop)
    }

    /// Writes a prompt, and drops what was typed before it stood there whole.
    pub(super) fn write_prompt(&self, bytes: &[u8]) -> Result<(), TalkEnd> {
        self.forget_keys()?;
        if self.put(bytes)? {
            self.forget_keys()?;
        }
        Ok(())
    }

    /// Writes all bytes. Returns whether the terminal made it wait.
    fn put(&self, bytes: &[u8]) -> Result<bool, TalkEnd> {
        let mut rest = bytes;
        let mut waited = false;
        while !rest.is_empty() {
            let mut state = self.state()?;
            state.on_screen = true;
            state.covered |= self.terminal.was_written();
            let piece = rest.get(..PIECE).unwrap_or(rest);
            let written = (&self.terminal.file).write(piece);
            // Of this one the system tells, too.
            self.terminal.was_written();
            match written {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(err) => {
                    waited = true;
                    self.pause(state, err)?;
                }
            }
        }
        Ok(waited)
    }

    /// Whether somebody else has written to the terminal since the page was begun: the person may have answered what
    /// stands there now.
    pub(super) fn is_covered(&self) -> Result<bool, TalkEnd> {
        let mut state = self.state()?;
        state.covered |= self.terminal.was_written();
        Ok(state.covered)
    }

    /// Gives the person the time to read the page that was written, and drops what is typed meanwhile. It returns early
    /// if there is something.
    pub(super) fn let_read(&self) -> Result<StrayInput, TalkEnd> {
        self.forget_keys()?;
        let drawn = Instant::now();
        let mut keys = [0; LINE];
        while drawn.elapsed() < READING {
            let state = self.state()?;
            match (&self.terminal.file).read(&mut keys) {
                Ok(0) => return Ok(StrayInput::End),
                Ok(read) => {
                    let keys = keys.get(..read).unwrap_or_default();
                    let ends = keys.iter().any(|key| is_end(*key));
                    return Ok(if ends { StrayInput::End } else { StrayInput::Keys });
                }
                Err(err) => self.pause(state, err)?,
            }
        }
        // A line that was begun in this time is not passed on before it is ended.
        self.forget_keys()?;
        Ok(StrayInput::Nothing)
    }

    /// Drops the keys that were pressed until now.
    pub(super) fn forget_keys(&self) -> Result<(), TalkEnd> {
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

    pub(super) fn size(&self) -> TerminalSize {
        match tcgetwinsize(&self.terminal.file) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                TerminalSize { columns: size.ws_col.into(), rows: size.ws_row.into() }
            }
            Ok(_) | Err(_) => SIZE,
        }
    }

    /// The next typed line, or `None` at the end of the input. It also works if another part of the program has
    /// switched off line mode and echo.
    pub(super) fn line(&self) -> Result<Option<String>, TalkEnd> {
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
                    key if is_end(key) => return Ok(None),
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
    fn keys(&self) -> Result<Vec<u8>, TalkEnd> {
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
    fn state(&self) -> Result<MutexGuard<'_, TalkState>, TalkEnd> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.live { Ok(state) } else { Err(TalkEnd::TakenBack) }
    }

    /// Waits a moment if the terminal was not ready, or until the question is withdrawn.
    fn pause(&self, state: MutexGuard<'_, TalkState>, err: io::Error) -> Result<(), TalkEnd> {
        match err.kind() {
            io::ErrorKind::Interrupted => Ok(()),
            io::ErrorKind::WouldBlock => {
                let (state, _) =
                    self.changed.wait_timeout(state, PAUSE).unwrap_or_else(PoisonError::into_inner);
                if state.live { Ok(()) } else { Err(TalkEnd::TakenBack) }
            }
            _ => Err(TalkEnd::Failed(err)),
        }
    }
}

/// Ctrl-C and Ctrl-D, in a mode in which the terminal does not handle them.
fn is_end(key: u8) -> bool {
    matches!(key, 0x03 | 0x04)
}
