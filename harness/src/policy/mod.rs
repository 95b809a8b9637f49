//! What is refused and what is asked first. A policy decides and never acts.

mod approver;
mod permissions;

pub use self::{
    approver::{Approval, ApprovalQuestion, Approver},
    permissions::{Permissions, Verdict},
};
