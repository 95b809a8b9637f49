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

/// The destination of the traces of an agent's runs, and the redaction of secrets. A clone writes to
/// the same destination.
///
/// By default a trace is only kept in memory, with the reply. No run waits for a writer: a writer that
/// blocks, fails or panics loses lines, and the run continues.
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
    known: Secrets,
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
    /// Keeps and writes nothing.
    pub fn off() -> Self {
        Self { on: false, ..Self::default() }
    }

    /// Sets what is treated as secret in addition to the secrets that the library knows.
    #[must_use]
    pub fn redaction(mut self, redaction: Redaction) -> Self {
        self.redaction = redaction;
        self
    }

    /// Sends everything that happens to this listener, also if the trace is [off](Self::off). Without
    /// one, and with the feature `otel`, runs make OpenTelemetry's spans and metrics.
    #[must_use]
    pub fn listener(mut self, listener: impl TraceListener + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// This listener, unless the program has set one.
    #[doc(hidden)]
    pub fn or_listener(mut self, listener: impl TraceListener + 'static) -> Self {
        self.listener.get_or_insert_with(|| Arc::new(listener));
        self
    }

    /// Also puts words into OpenTelemetry's spans, without secrets: text, arguments, results, the reasons
    /// of denials, and the errors of servers, tools and journals, which can quote all of these. The
    /// default is to leave them out: then a span has numbers, kinds, ids and names.
    ///
    /// Ids and names that a model or a server has given have at most 128 characters, or are `_OTHER`. A
    /// tool that the model made up is `unknown_tool`, and the models of answers are told apart up to 100.
    #[must_use]
    pub fn content_in_spans(mut self, on: bool) -> Self {
        self.content = on;
        self
    }

    /// Whether [`content_in_spans`](Self::content_in_spans) is set. A [`TraceListener`] asks for it.
    pub fn has_content_in_spans(&self) -> bool {
        self.content
    }

    pub(super) fn listen(&self) -> Option<Box<dyn RunListener>> {
        self.listener.as_ref().map(|listener| listener.listen(self))
    }

    /// Hides these secrets, too.
    #[doc(hidden)]
    pub fn knowing(mut self, secrets: &Secrets) -> Self {
        self.known = self.known.and(secrets);
        self
    }

    pub(super) fn redactor(&self) -> Redactor {
        Redactor::new(&self.redaction, &self.known)
    }

    /// Also appends the trace to this file, as JSON lines. The operating system has each line before
    /// the run continues, so that a process that is killed loses none. Other kinds of files, such as a
    /// named pipe, are written as by [`to_writer`](Self::to_writer); use `to_writer` yourself for a file
    /// on a network that may hang. On Unix, only the owner may read a file that is created here.
    ///
    /// # Errors
    /// Fails if the file cannot be opened for writing. If a line cannot be written later, the run
    /// continues, no further line is written, and [`problem`](Self::problem) returns the reason.
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

    /// Also writes the trace to this writer, as JSON lines. Each line is one call of `write_all` and one
    /// of `flush`, on a thread of the trace, so the writer may block: up to 8 MiB of lines wait for it.
    /// Lines for which there is no room are dropped, and an event
    /// [`LinesLost`](super::Happened::LinesLost) has their number. A writer that fails or panics gets no
    /// further line, and [`problem`](Self::problem) returns the reason.
    ///
    /// Dropping the last clone of the trace waits up to one second for the last lines. Before that,
    /// [`flush`](Self::flush) waits for them.
    #[must_use]
    pub fn to_writer(mut self, writer: impl Write + Send + 'static) -> Self {
        self.lines = Some(Arc::new(LineWriter::to_writer(writer)));
        self
    }

    /// Waits until all lines so far are written, at most for this time, and returns whether they are.
    /// It blocks the thread meanwhile. With [`to_file`](Self::to_file) it returns at once.
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

    /// The reason why the trace is no longer written, if there is one.
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

/// The trace of one run. Its `Display` shows the run as text. A clone is one pointer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunTrace(pub(super) Arc<Vec<TraceEvent>>);

impl RunTrace {
    /// The events, in order. It is empty if the trace is [off](Trace::off).
    pub fn events(&self) -> &[TraceEvent] {
        &self.0
    }
}

impl fmt::Display for RunTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&pretty(&self.0))
    }
}
