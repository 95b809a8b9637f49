//! The people who decide about calls and answer them: in the run, in the chat, or by an inbox.

use std::{
    sync::{Arc, Mutex},
    time::SystemTime,
};

use fastrand::Rng;
use harness::{
    agent::{OpenCall, Settlement},
    journal::Awaited,
    policy::{Approval, ApprovalDecision, ApprovalRequest, Approver},
};

use crate::{
    program::{Version, said_outside},
    world::World,
};

/// A person whom a version of the program asks.
#[derive(Clone)]
pub(crate) struct Person {
    rng: Arc<Mutex<Rng>>,
    /// All that was ever answered.
    pub(crate) said: Arc<Mutex<Vec<(String, Approval)>>>,
}

impl Person {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        Self { rng: Arc::new(Mutex::new(rng.fork())), said: Arc::default() }
    }

    /// An answer that was given before, to whatever question.
    pub(crate) fn earlier(&self) -> Option<(String, Approval)> {
        let said = self.said.lock().expect("unpoisoned");
        self.rng.lock().expect("unpoisoned").choice(&*said).cloned()
    }

    /// An answer that decides.
    pub(crate) fn decides(&self, question: &ApprovalRequest) -> Approval {
        let mut rng = self.rng.lock().expect("unpoisoned");
        let approval = match rng.u8(..6) {
            0 => question.no("no"),
            1 => question.always(),
            2 => question.always_for(&question.scopes[rng.usize(..question.scopes.len())]),
            _ => question.yes(),
        };
        let said = (question.conversation.clone(), approval.clone());
        self.said.lock().expect("unpoisoned").push(said);
        approval
    }

    fn answers(&self, question: &ApprovalRequest, world: &World) -> Approval {
        let chance = self.rng.lock().expect("unpoisoned").u8(..10);
        match chance {
            0..5 => self.decides(question),
            5..8 => question.later(None),
            8 => {
                world.is_over(&question.nonce);
                question.later(Some(SystemTime::UNIX_EPOCH))
            }
            _ => match self.earlier() {
                // It was given for another question, so it counts for nothing.
                Some((_, approval)) => approval,
                None => question.no("no"),
            },
        }
    }

    /// Asks this person in the runs of this version.
    pub(crate) fn approver(&self, version: &Version, world: &World) -> impl Approver + use<> {
        let (person, version, world) = (self.clone(), version.clone(), world.clone());
        move |question: ApprovalRequest| {
            world.asks(&question, version.definition(&question.tool));
            world.count("questions");
            if !version.can_run(&question.tool, &question.arguments) {
                world.breaks(format!("asked about a call that cannot run: {question:?}"));
            }
            let approval = person.answers(&question, &world);
            world.notes(|| {
                format!(
                    "asked {} of {}: {:?}",
                    question.call, question.conversation, approval.answer
                )
            });
            if approval.question == question.id() {
                world.decides(&approval);
                if !matches!(approval.answer, ApprovalDecision::Later { .. }) {
                    world.is_over(&question.nonce);
                }
            }
            async move {
                tokio::task::yield_now().await;
                approval
            }
        }
    }

    /// What somebody says of a call that waits for a result or an answer, and whether it has happened.
    pub(crate) fn settles(&self, open: &OpenCall) -> Option<(Settlement, bool)> {
        let chance = self.rng.lock().expect("unpoisoned").u8(..6);
        // What only changes something returns nothing private.
        let said = if open.call.name() == "order" { "ordered".to_owned() } else { said_outside() };
        match &open.wait.as_ref()?.awaited {
            Awaited::Answer { .. } => Some((open.answered(said), false)),
            Awaited::Result => Some(match chance {
                0 => (open.failed(said), true),
                1 => (open.not_happened(), false),
                _ => (open.succeeded(said), true),
            }),
            _ => None,
        }
    }
}
