//! What the answer of a run is to be, as the facts say it, and how often the model has missed it.

use std::sync::Arc;

use crate::journal::WantedAnswer;

/// What the answer of a run is to be, and what became of its answers so far.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) answer: Arc<WantedAnswer>,
    /// How many answers were not accepted and had another try.
    pub(super) rejected: u32,
    /// What was wrong with the last one.
    pub(super) faults: Vec<String>,
    /// Whether the last words of the model are an answer that was not looked at.
    pub(super) unchecked: bool,
}

impl Wanted {
    pub(super) fn new(answer: &WantedAnswer) -> Self {
        let answer = Arc::new(answer.clone());
        Self { answer, rejected: 0, faults: Vec::new(), unchecked: false }
    }

    /// How often the model may answer anew.
    pub(super) fn tries_left(&self) -> u32 {
        self.answer.tries.saturating_sub(self.rejected)
    }

    /// An answer was not accepted, and another try follows.
    pub(super) fn reject(&mut self, faults: &[String]) {
        self.rejected = self.rejected.saturating_add(1);
        self.faults = faults.to_vec();
    }
}
