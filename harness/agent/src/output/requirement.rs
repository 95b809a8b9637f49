//! The recorded form of the answer that a run wants, and the number of rejected answers.

use std::{iter, sync::Arc};

use harness_core::{
    journal::{AnswerCheck, WantedAnswer},
    provider::OutputSchema,
};

/// The name of the tool by which the model gives its answer.
const NAME: &str = "final_answer";

/// The wanted form of a run's answer, and the rejections so far.
#[derive(Clone, Debug)]
pub(crate) struct OutputRequirement {
    pub(crate) answer: Arc<WantedAnswer>,
    /// The index of the message that asks for this answer.
    asked_at: usize,
    /// How many answers were rejected while another attempt was left. The first number is for the schema, the
    /// second for the verifier.
    pub(crate) rejected: [u32; 2],
    /// The faults of the last rejected answer.
    pub(crate) faults: Vec<String>,
    /// Whether the model's last message is an answer that was not checked yet.
    pub(crate) unchecked: bool,
}

impl OutputRequirement {
    pub(crate) fn new(answer: &WantedAnswer, asked_at: usize) -> Self {
        let answer = Arc::new(answer.clone());
        Self { answer, asked_at, rejected: [0, 0], faults: Vec::new(), unchecked: false }
    }

    /// How often the model may still answer again if this check rejects the answer.
    pub(crate) fn tries_left(&self, by: AnswerCheck) -> u32 {
        let (tries, [schema, verifier]) = (&self.answer, self.rejected);
        match by {
            AnswerCheck::Schema => tries.tries.saturating_sub(schema),
            AnswerCheck::Verifier => {
                tries.verifications.unwrap_or_default().saturating_sub(verifier)
            }
        }
    }

    /// The form of the answer for the provider, with a tool name that no other tool has.
    pub(crate) fn answer_schema(&self, is_tool: impl Fn(&str) -> bool) -> Option<OutputSchema> {
        let schema = self.answer.schema.clone()?;
        let names = iter::once(NAME.to_owned());
        let mut names = names.chain((2_u32..).map(|number| format!("{NAME}_{number}")));
        let name = names.find(|name| !is_tool(name))?;
        Some(OutputSchema::new(name, schema, self.asked_at))
    }

    /// Records that an answer was rejected. The model answers again.
    pub(crate) fn reject(&mut self, by: AnswerCheck, faults: &[String]) {
        let [schema, verifier] = &mut self.rejected;
        let count = match by {
            AnswerCheck::Schema => schema,
            AnswerCheck::Verifier => verifier,
        };
        *count = count.saturating_add(1);
        self.faults = faults.to_vec();
    }
}
