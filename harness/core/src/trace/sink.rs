//! The destination of traces, and the trace of one run.

use std::{fmt, fs::OpenOptions, io::Write, path::Path, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    Redaction, Redactor, RunListener, TraceEvent, TraceListener, line_writer::LineWriter, pretty,
};
use crate::{
    error::{Error, ErrorKind},
    secret::Secrets,
};

/// The destination of the traces of an agent's runs, and the rules for redacting secrets. Clones write to the same
/// destination.
///
/// By default, a trace is only kept in memory and returned with the reply. If a writer blocks, fails or panics, lines
/// are lost and the run continues.
///
/// ```
/// use harness::{Agent, testing::{ScriptedProvider, reply}, trace::{self, Redaction, Trace}};
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let path = std::env::temp_dir().join(format!("harness-runs-{}.jsonl", std::process::id()));
/// let trace = Trace::default().redaction(Redaction::default().name("iban")).to_file(&path)?;
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
    redaction: Redaction,
    pub(super) known: Secrets,
    pub(super) began: Instant,
    content: bool,
    listener: Option<Arc<dyn TraceListener>>,
    lines: Option<Arc<LineWriter>>,
}

impl Default for Trace {
    fn default() -> Self {
        Self {
            on: true,
            redaction: Redaction::default(),
            known: Secrets::default(),
            began: Instant::now(),
            content: false,
            listener: None,
            lines: None,
        }
    }
}

impl Trace {
    /// Turns tracing off: nothing is kept or written.
    pub fn off() -> Self {
        Self { on: false, ..Self::default() }
    }

    /// Sets what is treated as secret, in addition to the registered secrets.
    #[must_use]
    pub fn redaction(mut self, redaction: Redaction) -> Self {
        self.redaction = redaction;
        self
    }

    /// Sends all events to this listener, even if the trace is [off](Self::off). If no listener is set and the feature
    /// `otel` is enabled, runs create OpenTelemetry's spans and metrics.
    #[must_use]
    pub fn listener(mut self, listener: impl TraceListener + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// Sets this listener, unless the program has already set a listener.
    #[doc(hidden)]
    pub fn or_listener(mut self, listener: impl TraceListener + 'static) -> Self {
        self.listener.get_or_insert_with(|| Arc::new(listener));
        self
    }

    /// Also puts content into OpenTelemetry's spans, without secrets: text, arguments, results, reasons of denials, and
    /// errors of servers, tools and journals. By default, spans contain only numbers, kinds, ids and names.
    ///
    /// An id or name from a model or a server must be 1 to 128 printable ASCII characters without spaces. Otherwise,
    /// the span contains `_OTHER`. A tool that does not exist is reported as `unknown_tool`. At most 100 different
    /// model names of responses are reported.
    #[must_use]
    pub fn content_in_spans(mut self, on: bool) -> Self {
        self.content = on;
        self
    }

    /// Whether [`content_in_spans`](Self::content_in_spans) is set. A [`TraceListener`] can read this setting.
    pub fn has_content_in_spans(&self) -> bool {
        self.content
    }

    /// The same redaction for a trace that is made from facts: it is kept in memory, and nobody else gets it.
    pub(super) fn kept_only(&self) -> Self {
        Self { on: true, listener: None, lines: None, ..self.clone() }
    }

    pub(super) fn listen(&self) -> Option<Box<dyn RunListener>> {
        self.listener.as_ref().map(|listener| listener.listen(self))
    }

    /// Also hides these secrets.
    #[doc(hidden)]
    pub fn knowing(mut self, secrets: &Secrets) -> Self {
        self.known = self.known.and(secrets);
        self
    }

    /// Also hides what the other trace hides.
    #[doc(hidden)]
    pub fn hiding_also(&self, other: &Self) -> Self {
        let redaction = self.redaction.and(&other.redaction);
        Self { redaction, ..self.clone() }.knowing(&other.known)
    }

    pub(super) fn redactor(&self) -> Redactor {
        Redactor::new(&self.redaction, &self.known)
    }

    /// Also appends the trace to this file, as JSON lines. Each line is written before the run continues, so that a
    /// killed process loses no line. A file that is not regular, such as a named pipe, is written as with
    /// [`to_writer`](Self::to_writer). For a file on a network drive that may hang, call `to_writer` yourself. On Unix,
    /// only the owner may read a new file.
    ///
    /// # Errors
    /// Fails if the file cannot be opened for writing. If a later write fails, the run continues, no further line is
    /// written, and [`problem`](Self::problem) returns the reason.
    pub fn to_file(mut self, path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(|err| {
            let path = path.display();
            let message = format!("the trace cannot be written to {path}: {err}");
            Error::new(ErrorKind::Configuration, message).with_source(err)
        })?;
        self.lines = Some(Arc::new(LineWriter::to_file(file)));
        Ok(self)
    }

    /// Also writes the trace to this writer, as JSON lines. A thread calls `write_all` and `flush` for each line, so
    /// the writer may block. Up to 8 MiB of lines wait in memory. Further lines are dropped, and an event
    /// [`LinesLost`](super::Happened::LinesLost) states their number. After a failure or panic, the writer gets no
    /// further line, and [`problem`](Self::problem) returns the reason.
    ///
    /// Dropping the last clone of the trace waits up to one second for the last lines. To wait longer, call
    /// [`flush`](Self::flush) first.
    #[must_use]
    pub fn to_writer(mut self, writer: impl Write + Send + 'static) -> Self {
        self.lines = Some(Arc::new(LineWriter::to_writer(writer)));
        self
    }

    /// Blocks the thread until all lines are written, at most for `within`. Returns whether all lines are written. With
    /// [`to_file`](Self::to_file) and a regular file, returns immediately.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use harness::trace::Trace;
    ///
    /// let trace = Trace::default().to_writer(std::io::stderr());
    /// assert!(trace.flush(Duration::from_secs(1)));
    /// ```
    pub fn flush(&self, within: Duration) -> bool {
        self.lines.as_ref().is_none_or(|lines| lines.flush(within))
    }

    /// The reason why the library no longer writes the trace. `None` if no write has failed.
    pub fn problem(&self) -> Option<String> {
        self.lines.as_ref()?.problem()
    }

    pub(super) fn write(&self, event: &TraceEvent) {
        if let Some(lines) = &self.lines {
            lines.write(event);
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

/// The trace of one run. `Display` formats the run as text. Clones share the events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunTrace(pub(super) Arc<Vec<TraceEvent>>);

impl RunTrace {
    /// The events, in order. Empty if tracing is [off](Trace::off).
    pub fn events(&self) -> &[TraceEvent] {
        &self.0
    }
}

impl fmt::Display for RunTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&pretty(&self.0))
    }
}
