//! What is refused, what is asked first, and what ends a run. A policy decides and never acts.

mod approver;
mod guard;
mod permissions;
#[cfg(all(unix, feature = "terminal"))]
mod terminal;

#[cfg(all(unix, feature = "terminal"))]
pub use self::terminal::TerminalApprover;
pub use self::{
    approver::{Approval, ApprovalQuestion, Approver},
    guard::{Budget, Guard, Guardrails, Left, LimitReached, Price, Prices, Spent, Warning},
    permissions::{Permissions, Verdict},
};
