//! Writes the lines of a trace without delaying a run. A write to a regular file does not block, so the run writes the
//! line itself. For all other writers, a thread writes the lines.

use std::{
    collections::VecDeque,
    fs::File,
    io::Write,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use super::{Happened, TraceEvent};
use crate::unwind::{caught, dropped};

/// The limits for the lines that wait for a slow writer: their total bytes, and their number.
const WAITING: (usize, usize) = (8 * 1024 * 1024, 10_000);

/// The maximum time that dropping a trace waits for the trace's last lines.
const LAST: Duration = Duration::from_secs(1);

/// A destination of trace lines.
pub(super) enum LineWriter {
    /// A regular file. The operating system has each line when [`write`](Self::write) returns, so a killed process
    /// loses no line.
    File(Mutex<DirectFile>),
    Queue(LineQueue),
}

/// A file, and its first write error. After an error, nothing more is written.
pub(super) struct DirectFile {
    file: File,
    problem: Option<String>,
}

impl LineWriter {
    /// Writes to a regular file directly. Writes to a file that can block, such as a pipe, through a thread.
    pub(super) fn to_file(file: File) -> Self {
        match file.metadata().is_ok_and(|about| about.is_file()) {
            true => Self::File(Mutex::new(DirectFile { file, problem: None })),
            false => Self::to_writer(file),
        }
    }

    /// Writes through a thread.
    pub(super) fn to_writer(writer: impl Write + Send + 'static) -> Self {
        Self::Queue(LineQueue::new(Box::new(writer)))
    }

    /// Writes an event to the file, or queues it for the thread.
    pub(super) fn write(&self, event: &TraceEvent) {
        // Serialization cannot fail, because an event contains only texts and numbers.
        let Some(line) = line(event) else { return };
        match self {
            Self::File(direct) => {
                let DirectFile { file, problem } = &mut *lock(direct);
                if problem.is_none() {
                    *problem = file.write_all(line.as_bytes()).err().map(|err| err.to_string());
                }
            }
            Self::Queue(queue) => queue.push(event, line),
        }
    }

    /// Waits, at most for `within`, until all lines are written. Returns whether all lines are written.
    pub(super) fn flush(&self, within: Duration) -> bool {
        match self {
            Self::File(direct) => lock(direct).problem.is_none(),
            Self::Queue(queue) => queue.shared.idle(within) && self.problem().is_none(),
        }
    }

    /// The first write error. After this error, nothing more is written.
    pub(super) fn problem(&self) -> Option<String> {
        match self {
            Self::File(direct) => lock(direct).problem.clone(),
            Self::Queue(queue) => lock(&queue.shared.state).problem.clone(),
        }
    }
}

fn line(event: &TraceEvent) -> Option<String> {
    serde_json::to_string(event).ok().map(|json| json + "\n")
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The queue of lines for a writer, and the thread that writes the lines. Dropping the queue ends the thread.
pub(super) struct LineQueue {
    shared: Arc<SharedQueue>,
}

#[derive(Default)]
struct SharedQueue {
    state: Mutex<QueueState>,
    /// Signalled after each change of the queue: a line was added or written, or the queue was closed.
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    lines: VecDeque<String>,
    bytes: usize,
    /// The event with the number of missing lines, until the queue has room for the event.
    lost: Option<TraceEvent>,
    /// Whether the thread is writing a line.
    busy: bool,
    /// Whether no more lines will be added.
    closed: bool,
    problem: Option<String>,
}

impl LineQueue {
    fn new(writer: Box<dyn Write + Send>) -> Self {
        let shared = Arc::new(SharedQueue::default());
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("harness-trace".to_owned());
        if let Err(err) = thread.spawn(move || of_thread.hand_over(writer)) {
            lock(&shared.state).problem = Some(format!("no thread could be started: {err}"));
        }
        Self { shared }
    }

    fn push(&self, event: &TraceEvent, line: String) {
        let mut state = lock(&self.shared.state);
        if state.problem.is_some() {
            return;
        }
        let room = state.lines.len() < WAITING.1
            && (state.lines.is_empty() || state.bytes.saturating_add(line.len()) <= WAITING.0);
        match room {
            true => {
                state.tell_of_lost();
                state.add(line);
            }
            false => state.lose(event),
        }
        drop(state);
        self.shared.changed.notify_all();
    }
}

impl QueueState {
    fn add(&mut self, line: String) {
        self.bytes = self.bytes.saturating_add(line.len());
        self.lines.push_back(line);
    }

    /// Counts a line that does not fit into the queue.
    fn lose(&mut self, event: &TraceEvent) {
        let TraceEvent { v, run, at_us, what: _ } = event;
        let before = match &self.lost {
            Some(TraceEvent { what: Happened::LinesLost { lines }, .. }) => *lines,
            _ => 0,
        };
        let what = Happened::LinesLost { lines: before.saturating_add(1) };
        self.lost = Some(TraceEvent { v: *v, run: run.clone(), at_us: *at_us, what });
    }

    /// Queues the event with the number of missing lines, if there is one.
    fn tell_of_lost(&mut self) {
        if let Some(line) = self.lost.take().as_ref().and_then(line) {
            self.add(line);
        }
    }
}

impl Drop for LineQueue {
    fn drop(&mut self) {
        lock(&self.shared.state).closed = true;
        self.shared.changed.notify_all();
        if !self.shared.idle(LAST) {
            // The writer blocks. After the writer's call returns, the thread finds no line and ends.
            let mut state = lock(&self.shared.state);
            state.lines.clear();
            state.lost = None;
        }
    }
}

impl SharedQueue {
    /// The main function of the thread.
    fn hand_over(&self, mut writer: Box<dyn Write + Send>) {
        while let Some(line) = self.next() {
            let written = caught(|| {
                writer.write_all(line.as_bytes())?;
                writer.flush()
            });
            let problem = match written {
                Ok(Ok(())) => None,
                Ok(Err(err)) => Some(err.to_string()),
                Err(panicked) => Some(format!("the writer {panicked}")),
            };
            let over = problem.is_some();
            self.done(problem);
            if over {
                break;
            }
        }
        dropped(writer);
    }

    /// Waits for the next line. `None` if the queue is closed and empty.
    fn next(&self) -> Option<String> {
        let mut state = lock(&self.state);
        loop {
            if state.lines.is_empty() {
                state.tell_of_lost();
            }
            if let Some(line) = state.lines.pop_front() {
                state.bytes = state.bytes.saturating_sub(line.len());
                state.busy = true;
                return Some(line);
            }
            if state.closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, problem: Option<String>) {
        let mut state = lock(&self.state);
        state.busy = false;
        if problem.is_some() {
            // Nothing is written after a failure, because a reader would not notice a gap in the trace.
            (state.lines, state.bytes, state.lost) = (VecDeque::new(), 0, None);
            state.problem = problem;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits, at most for `within`, until all lines are written. Returns whether all lines are written.
    fn idle(&self, within: Duration) -> bool {
        let until = Instant::now().checked_add(within);
        let mut state = lock(&self.state);
        while state.busy || !state.lines.is_empty() || state.lost.is_some() {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let left = left.unwrap_or(LAST);
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}
