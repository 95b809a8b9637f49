//! Requests approvals and values from the person at the terminal, and shows text from outside safely.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "no panic is reachable from a model, a server, a file or a user"
)]

#[cfg(unix)]
mod approver;
#[cfg(unix)]
mod device;
#[cfg(unix)]
mod field;
#[cfg(unix)]
mod form;
#[cfg(unix)]
mod holder;
#[cfg_attr(not(unix), expect(dead_code, reason = "only `approver` uses the rest"))]
mod letter;
#[cfg(unix)]
mod pages;
#[cfg(unix)]
mod reset;
#[cfg(unix)]
mod secrets;
#[cfg(unix)]
mod sheet;
#[cfg(unix)]
mod standing;
#[cfg(unix)]
mod talk;
#[cfg(test)]
mod tests;
#[cfg(unix)]
mod turns;
#[cfg(unix)]
mod units;
mod visible;

pub use self::visible::visible;
#[cfg(unix)]
pub use self::{
    approver::TerminalApprover,
    form::{Filled, TerminalForm},
};
