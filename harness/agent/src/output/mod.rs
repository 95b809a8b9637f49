//! Typed answers: the form that the program wants, how a value is found in the text of a model, and verifiers.

pub(crate) mod answer_check;
pub(crate) mod answer_value;
pub(crate) mod answer_view;
pub(crate) mod requirement;
pub(crate) mod spec;
pub(crate) mod tool_text;
pub(crate) mod typed;
pub(crate) mod verifier;
