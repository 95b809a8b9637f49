//! A trace is written beside the run: a writer that blocks, is slow, fails or panics delays
//! nothing, and the missing lines are reported.

use std::{
    fs,
    io::{self, Write},
    process::{Command, Stdio},
    sync::{
        Arc, Condvar, Mutex,
        mpsc::{Receiver, Sender, channel},
    },
    time::Duration,
};

use harness::{
    Agent, CancellationToken, Tool,
    testing::{ScriptedProvider, reply},
    trace::{self, Happened, Trace},
};
use serde_json::json;

use crate::probe::{Log, READ, Work, tool};

const PATIENCE: Duration = Duration::from_secs(60);

/// A writer that takes nothing until the gate is open, and keeps what it takes.
#[derive(Clone, Default)]
struct Gated(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    open: bool,
    waits: bool,
    dropped: bool,
    taken: Vec<u8>,
}

impl Gated {
    fn open(&self) {
        self.0.0.lock().expect("unpoisoned").open = true;
        self.0.1.notify_all();
    }

    /// Waits until this is so.
    fn until(&self, is_so: impl Fn(&State) -> bool) {
        let state = self.0.0.lock().expect("unpoisoned");
        let (_state, waited) = self
            .0
            .1
            .wait_timeout_while(state, PATIENCE, |state| !is_so(state))
            .expect("unpoisoned");
        assert!(!waited.timed_out(), "it never was");
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.0.lock().expect("unpoisoned").taken.clone()).expect("UTF-8")
    }
}

/// What the trace owns of it.
struct Writer(Gated);

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Gated(shared) = &self.0;
        let mut state = shared.0.lock().expect("unpoisoned");
        state.waits = true;
        shared.1.notify_all();
        let mut state = shared.1.wait_while(state, |state| !state.open).expect("unpoisoned");
        state.taken.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.0.0.lock().expect("unpoisoned").dropped = true;
        self.0.0.1.notify_all();
    }
}

fn look() -> Tool {
    tool("look", READ, &Log::default(), Work::Steps(0))
}

fn agent(trace: &Trace) -> Agent {
    let model = ScriptedProvider::answering(|request| match request.results().next() {
        None => reply().call("look", json!({})),
        Some(_) => reply().text("Done."),
    });
    Agent::builder(model).tools([look()]).trace(trace.clone()).build().expect("an agent")
}

#[tokio::test]
async fn a_writer_that_blocks_holds_up_no_run_and_no_stop() {
    let gated = Gated::default();
    let trace = Trace::default().to_writer(Writer(gated.clone()));
    // The run ends while the writer takes nothing at all.
    let first = agent(&trace).run("Go.").await.expect("an answer");
    gated.until(|state| state.waits);
    assert!(!trace.flush(Duration::ZERO), "nothing is written yet");
    assert_eq!(gated.text(), "");

    let token = CancellationToken::new();
    let model = ScriptedProvider::new([reply().text("I think").stall()]);
    let stalls = Agent::builder(model).trace(trace.clone()).build().expect("an agent");
    let (run, stop) = (stalls.run("Go.").cancel_with(token.clone()), async { token.cancel() });
    let (stopped, ()) = tokio::join!(run.into_future(), stop);
    let stopped = stopped.expect_err("it was stopped");

    gated.open();
    assert!(trace.flush(PATIENCE), "{:?}", trace.problem());
    let events = trace::read(&gated.text()).expect("events");
    assert_eq!(events, [first.trace().events(), stopped.trace().events()].concat());
}

#[tokio::test]
async fn lines_for_which_there_is_no_room_are_counted_and_told() {
    let gated = Gated::default();
    let trace = Trace::default().to_writer(Writer(gated.clone()));
    let words = "x".repeat(1024 * 1024);
    let long = |text: String| {
        let model = ScriptedProvider::new([reply().text(text)]);
        Agent::builder(model).trace(trace.clone()).build().expect("an agent")
    };
    let mut all = 0;
    for _ in 0..13 {
        all += long(words.clone()).run("Go.").await.expect("an answer").trace().events().len();
    }
    // Nothing comes after what was lost, and it is told all the same.
    gated.open();
    assert!(trace.flush(PATIENCE), "{:?}", trace.problem());
    let written = trace::read(&gated.text()).expect("events");
    let lost: u64 = written
        .iter()
        .map(|event| match event.what {
            Happened::LinesLost { lines } => lines,
            _ => 0,
        })
        .sum();
    let told = written.iter().filter(|event| matches!(event.what, Happened::LinesLost { .. }));
    let told = told.count();
    assert!((3..13).contains(&lost), "some megabytes wait, not all: {lost} of {all}");
    assert_eq!(written.len() - told + usize::try_from(lost).expect("few"), all);
    assert!(gated.text().len() < 16 * 1024 * 1024, "{}", gated.text().len());
    let shown = trace::pretty(&written);
    assert!(shown.contains("events are missing here"), "{shown}");

    // What is lost is told where it is missing, and what comes later is there.
    let more = long("Hello.".into()).run("Go.").await.expect("an answer");
    assert!(trace.flush(PATIENCE));
    let again = trace::read(&gated.text()).expect("events");
    assert_eq!(&again[written.len()..], more.trace().events());
}

#[tokio::test]
async fn a_writer_that_panics_or_fails_ends_no_run_and_is_asked_no_more() {
    struct Panics(Sender<()>);
    impl Write for Panics {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            let _ = self.0.send(());
            panic!("no paper");
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("still no paper");
        }
    }
    let (asked, times): (_, Receiver<()>) = channel();
    let trace = Trace::default().to_writer(Panics(asked));
    for _ in 0..2 {
        let reply = agent(&trace).run("Go.").await.expect("an answer");
        assert_eq!(reply.trace().events().len(), 11, "in memory it is whole");
        assert!(!trace.flush(PATIENCE), "it has failed");
    }
    assert_eq!(trace.problem().as_deref(), Some("the writer panicked: no paper"));
    drop(trace);
    assert_eq!(times.iter().count(), 1);
}

#[tokio::test]
async fn the_thread_ends_with_the_trace_and_the_last_lines_are_written_first() {
    let gated = Gated::default();
    let trace = Trace::default().to_writer(Writer(gated.clone()));
    gated.open();
    let events = agent(&trace).run("Go.").await.expect("an answer").trace().events().to_vec();
    let clone = trace.clone();
    drop(trace);
    let more = agent(&clone).run("Go.").await.expect("an answer").trace().events().to_vec();
    // The last clone: all lines are there when this returns.
    drop(clone);
    assert_eq!(trace::read(&gated.text()).expect("events"), [events, more].concat());
    gated.until(|state| state.dropped);

    // A writer that does not come back is left behind, and ends when it does.
    let stuck = Gated::default();
    let trace = Trace::default().to_writer(Writer(stuck.clone()));
    agent(&trace).run("Go.").await.expect("an answer");
    stuck.until(|state| state.waits);
    drop(trace);
    stuck.open();
    stuck.until(|state| state.dropped);
    assert_eq!(stuck.text().lines().count(), 1, "what nobody waits for is not written");
}

/// A pipe that nobody reads takes 64 KiB; then whoever writes to it waits.
#[cfg(unix)]
#[tokio::test]
async fn a_file_that_is_a_pipe_holds_up_no_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&path).status().expect("mkfifo is there");
    assert!(made.success());
    // It opens the pipe, and reads it only when it is told to.
    let copy = folder.path().join("copy");
    let mut reader = Command::new("sh")
        .args(["-c", "exec 3<\"$0\"; read go; cat <&3 >\"$1\""])
        .args([&path, &copy])
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell");
    let trace = Trace::default().to_file(&path).expect("a pipe");
    let model = ScriptedProvider::new([reply().text("x".repeat(500_000))]);
    let agent = Agent::builder(model).trace(trace.clone()).build().expect("an agent");
    let events = agent.run("Go.").await.expect("an answer").trace().events().to_vec();
    assert!(!trace.flush(Duration::ZERO), "the pipe is full");
    writeln!(reader.stdin.take().expect("its input"), "go").expect("it listens");
    assert!(trace.flush(PATIENCE), "{:?}", trace.problem());
    drop((agent, trace));
    assert!(reader.wait().expect("its end").success());
    let read = fs::read_to_string(copy).expect("a copy");
    assert_eq!(trace::read(&read).expect("events"), events);
}

/// A process that is killed in the middle of a call leaves every line before it.
#[tokio::test]
async fn a_line_in_a_file_is_there_before_the_run_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("runs.jsonl");
    let trace = Trace::default().to_file(&path).expect("a file");
    let seen: Arc<Mutex<Vec<usize>>> = Arc::default();
    let (kept, file) = (Arc::clone(&seen), path.clone());
    let run = agent(&trace);
    let ended = run
        .run("Go.")
        .on_event(move |_| {
            let lines = fs::read_to_string(&file).expect("a file").lines().count();
            kept.lock().expect("unpoisoned").push(lines);
        })
        .await
        .expect("an answer");
    let seen = seen.lock().expect("unpoisoned").clone();
    assert!(seen.is_sorted() && seen.starts_with(&[1, 2]), "{seen:?}");
    assert_eq!(seen.last(), Some(&ended.trace().events().len()));
    assert!(trace.flush(Duration::ZERO), "there is nothing to wait for");
}
