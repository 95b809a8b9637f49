//! A dialogue with a person at a terminal. After the request is answered or withdrawn, the dialogue neither writes to
//! the terminal nor reads keys.

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

/// The pause before the next attempt, if a terminal has no key or accepts no more text.
const PAUSE: Duration = Duration::from_millis(50);

/// The minimum time between the drawing of a request and an accepted answer. A person who has just answered another
/// request may press the same keys again before reading the new request.
const READING: Duration = Duration::from_secs(1);

/// The maximum number of bytes in one write. A withdrawal waits for at most one write.
const PIECE: usize = 4096;

/// The time for which a process leaves the terminal to other processes after a request has ended. The other processes
/// try to lock the terminal once every [`PAUSE`].
const YIELD: Duration = Duration::from_millis(150);

/// The maximum number of bytes in a typed line. Further bytes are ignored.
const LINE: usize = 4096;

/// The assumed size of a terminal whose size is unknown.
const SIZE: TerminalSize = TerminalSize { columns: 80, rows: 24 };

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TerminalSize {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// Why a dialogue ended without an answer.
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
    /// Whether the request is neither withdrawn nor answered.
    live: bool,
    /// Whether any part of the request is on the screen.
    on_screen: bool,
    /// Whether another program has written to the terminal since the page was begun.
    covered: bool,
}

/// The input during the time for reading a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StrayInput {
    Nothing,
    /// The person pressed keys. The keys were dropped.
    Keys,
    /// The input has ended.
    End,
}

impl TerminalTalk {
    pub(super) fn new(terminal: OpenTerminal) -> Self {
        let state = TalkState { live: true, on_screen: false, covered: false };
        Self { terminal, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits until no other process uses this terminal. If this process has just released the terminal, other processes
    /// come first.
    pub(super) fn claim(&self, released: Option<std::time::Instant>) -> Result<(), TalkEnd> {
        let not_ready = || io::Error::from(io::ErrorKind::WouldBlock);
        while released.is_some_and(|released| released.elapsed() < YIELD) {
            self.pause(self.state()?, not_ready())?;
        }
        let mut holder = TerminalHolder::default();
        // `lock` stops a background process, so the state is not locked during this call.
        loop {
            if self.terminal.lock().map_err(TalkEnd::Failed)? {
                // If the request was withdrawn during `lock`, `end` has already run, so the terminal is unlocked here.
                return self.state().map(drop).inspect_err(|_| self.terminal.unlock());
            }
            holder.note_waiting(&self.terminal.file);
            self.pause(self.state()?, not_ready())?;
        }
    }

    /// Ends the dialogue. After this call, the dialogue writes and reads nothing, and other processes may use the
    /// terminal. Returns whether this call ended a running dialogue with something on the screen.
    pub(super) fn end(&self, last_words: &[u8]) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let was_seen = state.live && state.on_screen;
        state.live = false;
        if was_seen {
            // The part that the terminal does not accept at once is dropped, because this function must not wait.
            let _ = (&self.terminal.file).write(last_words);
        }
        self.terminal.unlock();
        self.changed.notify_all();
        was_seen
    }

    /// Writes a page. A page begins with an empty screen.
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

    /// Writes a prompt, and drops all keys that were pressed before the prompt was complete.
    pub(super) fn write_prompt(&self, bytes: &[u8]) -> Result<(), TalkEnd> {
        self.forget_keys()?;
        if self.put(bytes)? {
            self.forget_keys()?;
        }
        Ok(())
    }

    /// Writes all bytes. Returns whether the function had to wait for the terminal.
    fn put(&self, bytes: &[u8]) -> Result<bool, TalkEnd> {
        let mut rest = bytes;
        let mut waited = false;
        while !rest.is_empty() {
            let mut state = self.state()?;
            state.on_screen = true;
            state.covered |= self.terminal.was_written();
            let piece = rest.get(..PIECE).unwrap_or(rest);
            let written = (&self.terminal.file).write(piece);
            // The system reports this program's own write too, so the report is consumed here.
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

    /// Whether another program has written to the terminal since the page was begun. The person may have answered the
    /// text of the other program.
    pub(super) fn is_covered(&self) -> Result<bool, TalkEnd> {
        let mut state = self.state()?;
        state.covered |= self.terminal.was_written();
        Ok(state.covered)
    }

    /// Gives the person time to read the page. A key pressed during this time is dropped and ends the time early.
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
        // In line mode, a terminal passes on only complete lines. So this call drops the unfinished line.
        self.forget_keys()?;
        Ok(StrayInput::Nothing)
    }

    /// Drops all earlier keys.
    pub(super) fn forget_keys(&self) -> Result<(), TalkEnd> {
        let _state = self.state()?;
        // In a background process, `tcflush` stops the program until it is in the foreground again, just as a read
        // would. If the process cannot be stopped, the next read reports the error.
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

    /// The next typed line, or `None` at the end of the input. This function also works in a terminal without line mode
    /// and echo.
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
                    // Keys after the end of the line are dropped: the person pressed them before the effect of the line
                    // was visible.
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

    /// Waits for keys. The result is empty only at the end of the input.
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

    /// Locks the state, unless the request was withdrawn. Only the holder of the guard uses the terminal.
    fn state(&self) -> Result<MutexGuard<'_, TalkState>, TalkEnd> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.live { Ok(state) } else { Err(TalkEnd::TakenBack) }
    }

    /// Waits a short time for the terminal. Returns early if the request is withdrawn.
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

/// Whether the key is Ctrl-C or Ctrl-D. In some modes, the terminal does not handle these keys.
fn is_end(key: u8) -> bool {
    matches!(key, 0x03 | 0x04)
}
