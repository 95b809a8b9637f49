//! What is refused and what is asked first. A policy decides and never acts.

mod approver;
mod permissions;
#[cfg(all(unix, feature = "terminal"))]
mod terminal;

#[cfg(all(unix, feature = "terminal"))]
pub use self::terminal::TerminalApprover;
pub use self::{
    approver::{Approval, ApprovalQuestion, Approver},
    permissions::{Permissions, Verdict},
};
