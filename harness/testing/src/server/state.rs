//! The state that the server, its connections and the test share: the script, the received
//! requests, and the open connections.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use harness_core::unwind::caught;
use serde_json::json;
use tokio::sync::watch;

use super::{answer::Answer, received::ReceivedRequest};

/// Which side closed a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosedBy {
    /// The client closed the connection, because it had its answer or stopped waiting for the
    /// answer.
    Client,
    /// The server closed the connection, because of the script or because the server stopped.
    Server,
}

type DecideAnswer = dyn FnMut(&ReceivedRequest) -> Answer + Send;

pub(super) enum ServerScript {
    Written(VecDeque<Answer>),
    Decided(Box<DecideAnswer>),
}

/// The observed traffic, for which a test can wait.
#[derive(Default)]
pub(super) struct ObservedTraffic {
    pub(super) requests: Vec<ReceivedRequest>,
    /// For each connection, in order of acceptance: which side closed it, or `None` if it is open.
    pub(super) connections: Vec<Option<ClosedBy>>,
    /// Faults that the script did not request.
    pub(super) faults: Vec<String>,
}

pub(super) struct ServerState {
    script: Mutex<ServerScript>,
    pub(super) seen: watch::Sender<ObservedTraffic>,
}

impl ServerState {
    pub(super) fn new(script: ServerScript) -> Self {
        Self { script: Mutex::new(script), seen: watch::Sender::default() }
    }

    /// Registers a new connection and returns its number.
    pub(super) fn opened(&self) -> usize {
        let mut number = 0;
        self.seen.send_modify(|seen| {
            number = seen.connections.len();
            seen.connections.push(None);
        });
        number
    }

    /// Records which side closed a connection. Only the first call for a connection counts.
    pub(super) fn closed(&self, connection: usize, by: ClosedBy) {
        self.seen.send_modify(|seen| {
            if let Some(closed @ None) = seen.connections.get_mut(connection) {
                *closed = Some(by);
            }
        });
    }

    pub(super) fn fault(&self, fault: String) {
        self.seen.send_modify(|seen| seen.faults.push(fault));
    }

    /// Records the request, and takes the answer from the script.
    pub(super) fn answer(&self, request: ReceivedRequest) -> Answer {
        let answer = {
            let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
            match &mut *script {
                ServerScript::Written(left) => left.pop_front().ok_or_else(|| {
                    format!("nothing is left in the script for {} {}", request.method, request.path)
                }),
                // A failed assertion in the test's closure panics here. `assert_finished` reports
                // it.
                ServerScript::Decided(decide) => caught(|| decide(&request))
                    .map_err(|panic| format!("what decides the answers {panic}")),
            }
        };
        self.seen.send_modify(|seen| seen.requests.push(request));
        answer.unwrap_or_else(|fault| {
            // All vendors' errors have this format, and no client retries status 400.
            let error = json!({"type": "script", "message": fault.clone()});
            self.fault(fault);
            Answer::json(400, &json!({"type": "error", "error": error}))
        })
    }

    /// The fault to report at the end of a test, if there is one.
    pub(super) fn final_fault(&self) -> Option<String> {
        let faults = self.seen.borrow().faults.clone();
        if !faults.is_empty() {
            return Some(faults.join("\n"));
        }
        match &*self.script.lock().unwrap_or_else(PoisonError::into_inner) {
            ServerScript::Written(left) if !left.is_empty() => {
                let asked = self.seen.borrow().requests.len();
                let mut fault =
                    format!("the loopback server was asked {asked} times. Never answered:");
                for (answer, number) in left.iter().zip(asked + 1..) {
                    fault.push_str(&format!("\n  answer {number}: {answer:?}"));
                }
                Some(fault)
            }
            ServerScript::Written(_) | ServerScript::Decided(_) => None,
        }
    }
}
