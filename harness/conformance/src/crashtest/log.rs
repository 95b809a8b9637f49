//! The log of the processes of a crash test. Each line is written before or after its event, and is in the file even if
//! the process is killed directly afterwards.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::Path,
};

use serde::{Deserialize, Serialize};

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "it", rename_all = "snake_case")]
pub(super) enum LogEntry {
    /// A process has started.
    Life { number: u32 },
    /// The process has reached a point at which it can be killed, `at` microseconds after its start.
    Point { number: u32, name: String, at: u64 },
    /// The process kills itself here.
    Kills { name: String },
    /// The process was killed from outside, `micros` microseconds after its start.
    KilledAfter { micros: u64 },
    /// The journal contained these facts, each as the JSON of an envelope.
    Seen {
        /// The id of the conversation, if it belongs to an agent that a call runs.
        #[serde(default)]
        of: Option<String>,
        facts: Vec<String>,
    },
    /// The journal has confirmed that it has appended these facts after the first `after` facts.
    Appended {
        #[serde(default)]
        of: Option<String>,
        after: u64,
        facts: Vec<String>,
    },
    /// The tool code is about to run.
    Began {
        #[serde(default)]
        of: Option<String>,
        call: String,
        tool: String,
        key: String,
        reads: bool,
    },
    /// The tool code has returned.
    Ended {
        #[serde(default)]
        of: Option<String>,
        call: String,
        how: CallReturn,
    },
    /// A tool has reported whether a call had its effect.
    Found {
        #[serde(default)]
        of: Option<String>,
        call: String,
        happened: bool,
    },
    /// The observed effects changed during a call of a tool that declares only `read`.
    Changed { call: String, tool: String, effects: Vec<String> },
    /// `send` or `resume` has returned. `facts` is the number of facts at that time, and `said` is a hash of the
    /// conversation.
    Returned { facts: u64, said: u64, text: String },
    /// Another process held the conversation.
    Busy {},
    /// Another process has continued the conversation.
    Conflict {},
    /// The process ends itself, because this error occurred.
    Failed { why: String },
    /// All messages are answered.
    Done {},
}

impl LogEntry {
    /// The conversation of this entry, if it belongs to an agent that a call runs.
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

/// How the tool code has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CallReturn {
    Well,
    Failed,
    /// The tool asked a question, so the call has changed nothing.
    Asks,
}

/// The log file of one conversation whose processes are killed.
#[derive(Debug)]
pub(super) struct CrashLog(File);

impl CrashLog {
    /// Opens the log. Removes an incomplete last line: a process was killed while it wrote this line.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let written = std::fs::read(path)?;
        let whole = written.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if whole < written.len() {
            file.set_len(whole as u64)?;
        }
        Ok(Self(file))
    }

    /// Writes a line in one write.
    pub(super) fn note(&self, noted: &LogEntry) -> io::Result<()> {
        let mut line = serde_json::to_vec(noted)?;
        line.push(b'\n');
        (&self.0).write_all(&line)
    }
}

/// Reads the log. An incomplete last line is ignored.
pub(super) fn read(path: &Path) -> io::Result<Vec<LogEntry>> {
    let text = match std::fs::read(path) {
        Ok(written) => String::from_utf8_lossy(&written).into_owned(),
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(err) => return Err(err),
    };
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| serde_json::from_str(line).map_err(io::Error::from)).collect()
}
