//! The loop as a pure machine: a fold of facts that says what comes next.

pub(crate) mod call_states;
mod clearing;
mod ends;
pub(crate) mod folding;
mod given;
#[expect(clippy::module_inception, reason = "the file is named after the one type in it")]
mod machine;
mod provenance;
mod schedule;
mod stated;
mod window;
pub(crate) use self::{
    clearing::{SentFile, SentFiles},
    provenance::AnswerProvenances,
    window::{ContextView, MeasuredRequest},
};
pub use self::{
    machine::{Action, Machine},
    provenance::Provenance,
};
