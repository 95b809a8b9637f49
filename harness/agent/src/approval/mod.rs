//! Approval of calls: what may run, what a person is asked, and what others decide or answer.

mod grant;
mod open_call;
mod policy;
mod resolution;

pub use self::{
    grant::Grant,
    open_call::{OpenCall, Settlement},
};
pub(super) use self::{
    open_call::{is_over, open_calls},
    policy::{ApprovalOutcome, ApprovalPolicy, repeat_of},
    resolution::{CallResolution, ResolvedCall},
};
