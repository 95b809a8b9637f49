//! The log of the processes of a crash test. Each line is written before or after the event, and is in
//! the file if the process is killed right after.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::Path,
};

use serde::{Deserialize, Serialize};

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "it", rename_all = "snake_case")]
pub(super) enum LogEntry {
    /// A process has begun.
    Life { number: u32 },
    /// It has come to a point at which it can be killed, so many microseconds after it began.
    Point { number: u32, name: String, at: u64 },
    /// It kills itself here.
    Kills { name: String },
    /// It was killed from outside, so many microseconds after it began.
    KilledAfter { micros: u64 },
    /// These facts were in the journal, each an envelope as JSON.
    Seen {
        /// The conversation, if it is that of an agent which a call runs.
        #[serde(default)]
        of: Option<String>,
        facts: Vec<String>,
    },
    /// The journal has said that it has appended these facts after so many.
    Appended {
        #[serde(default)]
        of: Option<String>,
        after: u64,
        facts: Vec<String>,
    },
    /// The code of a tool is about to run.
    Began {
        #[serde(default)]
        of: Option<String>,
        call: String,
        tool: String,
        key: String,
        reads: bool,
    },
    /// The code of a tool has returned.
    Ended {
        #[serde(default)]
        of: Option<String>,
        call: String,
        how: CallReturn,
    },
    /// A tool has said what became of a call.
    Found {
        #[serde(default)]
        of: Option<String>,
        call: String,
        happened: bool,
    },
    /// What is seen of the world was not the same after a call of a tool that declares to read.
    Changed { call: String, tool: String, effects: Vec<String> },
    /// `send` or `resume` has returned: so many facts there were then, and this is a hash of what was
    /// said.
    Returned { facts: u64, said: u64, text: String },
    /// The conversation was open elsewhere.
    Busy {},
    /// Somebody else had gone on with the conversation.
    Conflict {},
    /// The process ends by itself, since this has failed.
    Failed { why: String },
    /// All messages are answered.
    Done {},
}

impl LogEntry {
    /// The conversation that it tells of, if it is that of an agent which a call runs.
    pub(super) fn of_agent(&self) -> Option<&str> {
        match self {
            Self::Seen { of, .. }
            | Self::Appended { of, .. }
            | Self::Began { of, .. }
            | Self::Ended { of, .. }
            | Self::Found { of, .. } => of.as_deref(),
            _ => None,
        }
    }
}

/// How a call of a tool has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CallReturn {
    Well,
    Failed,
    /// It has asked something, so it has changed nothing.
    Asks,
}

/// The file of one conversation that is killed again and again.
#[derive(Debug)]
pub(super) struct CrashLog(File);

impl CrashLog {
    /// Opens it. A last line of which a process was killed in the middle is taken off.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let written = std::fs::read(path)?;
        let whole = written.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if whole < written.len() {
            file.set_len(whole as u64)?;
        }
        Ok(Self(file))
    }

    /// Writes a line, in one piece.
    pub(super) fn note(&self, noted: &LogEntry) -> io::Result<()> {
        let mut line = serde_json::to_vec(noted)?;
        line.push(b'\n');
        (&self.0).write_all(&line)
    }
}

/// Reads what was written. A last line that is not whole was not written.
pub(super) fn read(path: &Path) -> io::Result<Vec<LogEntry>> {
    let text = match std::fs::read(path) {
        Ok(written) => String::from_utf8_lossy(&written).into_owned(),
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(err) => return Err(err),
    };
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| serde_json::from_str(line).map_err(io::Error::from)).collect()
}
