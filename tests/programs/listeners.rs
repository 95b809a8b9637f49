//! A program listens to its traces.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use harness::{
    Agent, CallOutcome, Guardrails, SideEffect, SideEffects, Tool,
    testing::{ScriptedProvider, reply},
    trace::{EndedCall, Happened, RunListener, Trace, TraceListener, TraceScope},
};
use serde_json::json;

/// Writes down what it is told.
#[derive(Clone, Default)]
struct Notebook {
    lines: Arc<Mutex<Vec<String>>>,
    /// How many scopes the thread is in.
    depth: Arc<AtomicUsize>,
    panics_at_turn: bool,
}

impl Notebook {
    fn note(&self, line: impl Into<String>) {
        self.lines.lock().expect("lines").push(line.into());
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("lines").clone()
    }
}

impl TraceListener for Notebook {
    fn listen(&self, _: &Trace) -> Box<dyn RunListener> {
        Box::new(self.clone())
    }
}

impl RunListener for Notebook {
    fn happened(&mut self, what: &Happened) {
        match what {
            Happened::TurnStarted { .. } if self.panics_at_turn => panic!("a listener's fault"),
            Happened::TurnStarted { .. } => self.note("turn"),
            Happened::ModelReplied { text, .. } => self.note(format!("model: {text}")),
            Happened::RunEnded { .. } => self.note("ended"),
            _ => {}
        }
    }

    fn call_scope(&mut self, call: &str) -> Option<Box<dyn TraceScope>> {
        Some(Box::new(CallNotes { call: call.to_owned(), notebook: self.clone() }))
    }
}

struct CallNotes {
    call: String,
    notebook: Notebook,
}

impl TraceScope for CallNotes {
    fn enter(&self) {
        self.notebook.depth.fetch_add(1, Ordering::SeqCst);
    }

    fn leave(&self) {
        self.notebook.depth.fetch_sub(1, Ordering::SeqCst);
    }

    fn ended(&mut self, mut end: EndedCall<'_>) {
        assert_eq!(end.outcome(), Some(CallOutcome::Succeeded));
        self.notebook.note(format!("{} ended: {:?}", self.call, end.text()));
    }
}

impl Drop for CallNotes {
    fn drop(&mut self) {
        self.notebook.note(format!("{} dropped", self.call));
    }
}

/// A tool that waits, and then says in how many scopes it runs; when it is dropped it writes that down.
fn depth(notebook: &Notebook, wait: Duration) -> Tool {
    struct Dropped(Notebook);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.note(format!("tool dropped at {}", self.0.depth.load(Ordering::SeqCst)));
        }
    }
    let schema = json!({"type": "object", "properties": {}});
    let notebook = notebook.clone();
    let effects = SideEffects::of(&[SideEffect::Write]);
    Tool::new("depth", "Says how deep it is.", schema, effects, move |_, _| {
        let notebook = Dropped(notebook.clone());
        Box::pin(async move {
            tokio::time::sleep(wait).await;
            Ok(format!("{} hunter2", notebook.0.depth.load(Ordering::SeqCst)).into())
        })
    })
}

fn agent(notebook: &Notebook, trace: Trace, wait: Duration) -> Agent {
    let model = ScriptedProvider::new([
        reply().call_with_id("c1", "depth", json!({})),
        reply().text("Done, hunter2."),
    ]);
    let agent = Agent::builder(model).tools([depth(notebook, wait)]).secret("hunter2");
    agent
        .guardrails(Guardrails::default().time(Duration::from_secs(60)))
        .trace(trace)
        .build()
        .expect("one")
}

#[tokio::test(start_paused = true)]
async fn a_listener_gets_the_events_without_secrets_and_a_call_runs_in_its_scope() {
    for (content, text) in [(false, "None"), (true, r#"Some("1 [secret]")"#)] {
        let notebook = Notebook::default();
        let trace = Trace::off().listener(notebook.clone()).content_in_spans(content);
        let agent = agent(&notebook, trace, Duration::from_millis(5));
        agent.run("How deep?").await.expect("an answer");
        let ended = format!("c1 ended: {text}");
        assert_eq!(
            notebook.lines(),
            [
                "turn",
                "model: ",
                "tool dropped at 1",
                &ended,
                "c1 dropped",
                "turn",
                "model: Done, [secret].",
                "ended"
            ]
        );
        assert_eq!(notebook.depth.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn the_scope_of_a_stopped_call_is_dropped_behind_the_call() {
    let notebook = Notebook::default();
    let trace = Trace::off().listener(notebook.clone());
    let agent = agent(&notebook, trace, Duration::from_secs(600));
    agent.run("How deep?").await.expect_err("stopped");
    assert_eq!(notebook.lines(), ["turn", "model: ", "tool dropped at 1", "c1 dropped", "ended"]);
    assert_eq!(notebook.depth.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_panics_gets_no_more_of_the_run_and_the_run_continues() {
    let notebook = Notebook { panics_at_turn: true, ..Notebook::default() };
    let agent =
        agent(&notebook, Trace::default().listener(notebook.clone()), Duration::from_millis(5));
    let reply = agent.run("How deep?").await.expect("an answer");
    assert_eq!(reply.text(), "Done, hunter2.");
    assert!(reply.trace().to_string().contains("model -> \"Done, [secret].\""));
    assert_eq!(notebook.lines(), ["tool dropped at 0"]);
}
