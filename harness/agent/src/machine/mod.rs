//! The loop as a pure machine: it folds facts and decides the next action.

mod action;
mod apply;
pub(crate) mod call_states;
mod clearing;
pub(crate) mod folding;
mod given;
mod indexes;
#[expect(clippy::module_inception, reason = "the file is named after the one type in it")]
mod machine;
mod outcome;
pub(crate) mod prefix;
mod provenance;
#[cfg(test)]
mod random_edits;
mod schedule;
mod sent;
mod stated;
mod window;
pub use self::{action::Action, machine::Machine, outcome::Outcome, provenance::Provenance};
pub(crate) use self::{
    clearing::{SentFile, SentFiles},
    provenance::AnswerProvenances,
    window::{ContextView, MeasuredRequest},
};
