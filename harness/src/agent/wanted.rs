//! What the answer of a run is to be, as the facts say it, and how often the model has missed it.

use std::{iter, sync::Arc};

use crate::{
    journal::{AnswerCheck, WantedAnswer},
    provider::AnswerSchema,
};

/// The name of the tool that takes the answer.
const NAME: &str = "final_answer";

/// What the answer of a run is to be, and what became of its answers so far.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) answer: Arc<WantedAnswer>,
    /// The number of the message that asks for it.
    asked_at: usize,
    /// How many answers did not fit the schema, and how many the program did not accept, that had another try.
    pub(super) rejected: [u32; 2],
    /// What was wrong with the last one.
    pub(super) faults: Vec<String>,
    /// Whether the last words of the model are an answer that was not looked at.
    pub(super) unchecked: bool,
}

impl Wanted {
    pub(super) fn new(answer: &WantedAnswer, asked_at: usize) -> Self {
        let answer = Arc::new(answer.clone());
        Self { answer, asked_at, rejected: [0, 0], faults: Vec::new(), unchecked: false }
    }

    /// How often the model may answer anew after this check.
    pub(super) fn tries_left(&self, by: AnswerCheck) -> u32 {
        let (tries, [schema, verifier]) = (&self.answer, self.rejected);
        match by {
            AnswerCheck::Schema => tries.tries.saturating_sub(schema),
            AnswerCheck::Verifier => {
                tries.verifications.unwrap_or_default().saturating_sub(verifier)
            }
        }
    }

    /// What a provider is told of it, with a name that no tool has.
    pub(super) fn told(&self, is_tool: impl Fn(&str) -> bool) -> Option<AnswerSchema> {
        let schema = self.answer.schema.clone()?;
        let names = iter::once(NAME.to_owned());
        let mut names = names.chain((2_u32..).map(|number| format!("{NAME}_{number}")));
        let name = names.find(|name| !is_tool(name))?;
        Some(AnswerSchema::new(name, schema, self.asked_at))
    }

    /// An answer was not accepted, and another try follows.
    pub(super) fn reject(&mut self, by: AnswerCheck, faults: &[String]) {
        let [schema, verifier] = &mut self.rejected;
        let count = match by {
            AnswerCheck::Schema => schema,
            AnswerCheck::Verifier => verifier,
        };
        *count = count.saturating_add(1);
        self.faults = faults.to_vec();
    }
}
