//! Guardrails: what a run may spend, and when it goes in circles. The limits are a setting; what
//! holds them is a fold over the facts of a run, so that it cannot miss one.

mod budget;
mod fold;
mod guardrails;
mod prices;
mod repeats;

pub use self::{
    budget::{Budget, Left, Spent},
    fold::{Guard, LimitReached, Warning},
    guardrails::Guardrails,
    prices::{Price, Prices},
};
