//! Tools that record their real effects, so that a test can compare them with what is reported.

use std::sync::{Arc, Mutex};

use harness::{SideEffect, SideEffects, Tool, ToolContext, ToolError, ToolOutput, testing::Gate};
use serde_json::{Map, Value, json};

pub const READ: SideEffects = SideEffects::of(&[SideEffect::Read]);
pub const WRITE: SideEffects = SideEffects::of(&[SideEffect::Write]);
pub const MUTATE: SideEffects = SideEffects::of(&[SideEffect::Mutate]);

/// What tools did, in order: `begin NAME`, `end NAME`.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().expect("no test panics while it writes").clone()
    }

    pub fn has(&self, line: &str) -> bool {
        self.lines().iter().any(|written| written == line)
    }

    pub fn note(&self, line: String) {
        self.0.lock().expect("no test panics while it writes").push(line);
    }
}

/// What a tool does between its beginning and its end.
#[derive(Clone)]
pub enum Work {
    /// Gives way to others so many times.
    Steps(usize),
    /// Is busy for ever, as with a channel that is never empty.
    Hasty,
    /// Waits at a gate.
    Gate(Gate),
    Fails,
    Panics,
}

/// A tool that writes down its beginning and its end and says `NAME is done`.
pub fn tool(name: &'static str, effects: SideEffects, log: &Log, work: Work) -> Tool {
    let log = log.clone();
    let run = move |_: ToolContext, _: Map<String, Value>| {
        let (log, work) = (log.clone(), work.clone());
        let future = async move {
            log.note(format!("begin {name}"));
            match work {
                Work::Steps(steps) => {
                    for _ in 0..steps {
                        tokio::task::yield_now().await;
                    }
                }
                Work::Hasty => loop {
                    tokio::task::consume_budget().await;
                },
                Work::Gate(gate) => gate.pass().await,
                Work::Fails => return Err(ToolError::new(format!("{name} cannot"))),
                Work::Panics => panic!("{name} fell"),
            }
            log.note(format!("end {name}"));
            Ok(ToolOutput::from(format!("{name} is done")))
        };
        Box::pin(future) as harness::tool::ToolFuture
    };
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    Tool::new(name, "Does its work.", schema, effects, run)
}

/// A tool that takes anything and writes down what it was called with.
pub fn takes_all(name: &'static str, effects: SideEffects, log: &Log) -> Tool {
    let log = log.clone();
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": true});
    Tool::new(name, "Does its work.", schema, effects, move |_, arguments| {
        log.note(format!("{name} {}", Value::Object(arguments)));
        Box::pin(async { Ok("done".into()) })
    })
}
