//! Where a trace goes, and the trace of one run.

use std::{
    fmt,
    fs::OpenOptions,
    io::Write,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::time::Instant;

use super::{Secrets, TraceEvent, pretty, spans::Spans};
use crate::error::{Error, ErrorKind};

/// Where the traces of an agent's runs go, and what must not be in them. A clone writes to the same
/// place.
///
/// By default a trace is only kept in memory, with the reply.
///
/// ```
/// use harness::{Agent, testing::{ScriptedProvider, reply}, trace::{self, Secrets, Trace}};
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// # let path = std::env::temp_dir().join(format!("harness-runs-{}.jsonl", std::process::id()));
/// let trace = Trace::default().secrets(Secrets::default().name("iban")).to_file(&path)?;
/// let model = ScriptedProvider::new([reply().text("Hello.")]);
/// Agent::builder(model).trace(trace).build()?.run("Say hello.").await?;
///
/// let events = trace::read(&std::fs::read_to_string(&path)?)?;
/// assert!(trace::pretty(&events).contains("model -> \"Hello.\""));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Trace {
    pub(super) on: bool,
    pub(super) secrets: Secrets,
    pub(super) began: Instant,
    #[cfg(feature = "otel")]
    content: bool,
    lines: Option<Arc<Mutex<Lines>>>,
}

struct Lines {
    writer: Box<dyn Write + Send>,
    problem: Option<String>,
}

impl Default for Trace {
    fn default() -> Self {
        Self {
            on: true,
            secrets: Secrets::default(),
            began: Instant::now(),
            lines: None,
            #[cfg(feature = "otel")]
            content: false,
        }
    }
}

impl Trace {
    /// Keeps and writes nothing.
    pub fn off() -> Self {
        Self { on: false, ..Self::default() }
    }

    /// Sets what must not be in it.
    #[must_use]
    pub fn secrets(mut self, secrets: Secrets) -> Self {
        self.secrets = secrets;
        self
    }

    /// Also puts words into OpenTelemetry's spans: what was said, arguments and results, without
    /// what is secret. They are left out unless this says so.
    #[cfg(feature = "otel")]
    #[must_use]
    pub fn content_in_spans(mut self, on: bool) -> Self {
        self.content = on;
        self
    }

    pub(super) fn spans(&self) -> Spans {
        #[cfg(feature = "otel")]
        let spans = Spans::new(self.content);
        #[cfg(not(feature = "otel"))]
        let spans = Spans;
        spans
    }

    /// Also writes it to the end of this file, as JSON lines, each line at once.
    ///
    /// # Errors
    /// Fails if the file cannot be opened for writing. If a line cannot be written later, the run
    /// goes on, no further line is written, and [`problem`](Self::problem) says why.
    pub fn to_file(self, path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(|err| {
            let path = path.display();
            let message = format!("the trace cannot be written to {path}: {err}");
            Error::new(ErrorKind::Configuration, message).because(err)
        })?;
        Ok(self.to_writer(file))
    }

    /// Also writes it here, as JSON lines. Each line is one call of `write_all` and one of
    /// `flush`.
    #[must_use]
    pub fn to_writer(mut self, writer: impl Write + Send + 'static) -> Self {
        let lines = Lines { writer: Box::new(writer), problem: None };
        self.lines = Some(Arc::new(Mutex::new(lines)));
        self
    }

    /// Why it is no longer written, if that is so.
    pub fn problem(&self) -> Option<String> {
        let lines = self.lines.as_ref()?;
        lines.lock().unwrap_or_else(PoisonError::into_inner).problem.clone()
    }

    pub(super) fn write(&self, event: &TraceEvent) {
        let Some(lines) = &self.lines else { return };
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.problem.is_some() {
            return;
        }
        let written = serde_json::to_string(event).map_err(std::io::Error::from).and_then(|line| {
            lines.writer.write_all(format!("{line}\n").as_bytes())?;
            lines.writer.flush()
        });
        if let Err(err) = written {
            lines.problem = Some(err.to_string());
        }
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace")
            .field("on", &self.on)
            .field("written", &self.lines.is_some())
            .finish_non_exhaustive()
    }
}

/// The trace of one run. Printed, it reads like the run itself. A clone is one pointer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunTrace(pub(super) Arc<Vec<TraceEvent>>);

impl RunTrace {
    /// What happened, in order. There is nothing if the trace is [off](Trace::off).
    pub fn events(&self) -> &[TraceEvent] {
        &self.0
    }
}

impl fmt::Display for RunTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&pretty(&self.0))
    }
}
