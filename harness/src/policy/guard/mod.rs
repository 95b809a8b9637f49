//! What a run may spend, and when it goes in circles. The limits are a setting; what holds them is
//! a fold over the facts of a run, so that it cannot miss one.

mod budget;
mod chain;
mod fold;
mod guardrails;
mod limits;
mod node;
mod repeats;
mod sum;

pub use self::{
    budget::{Budget, Left, Spent},
    fold::{Guard, LimitReached, Warning},
    guardrails::Guardrails,
    limits::Limits,
};
