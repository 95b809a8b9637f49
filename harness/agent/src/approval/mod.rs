//! Approval of calls: which calls may run, approval requests to people, and decisions and answers from outside
//! of a run.

mod grant;
mod open_call;
mod policy;
mod resolution;
mod validity;

pub use self::{
    grant::Grant,
    open_call::{OpenCall, Settlement},
};
pub(super) use self::{
    open_call::{in_doubt, is_over, waiting},
    policy::{ApprovalOutcome, ApprovalPolicy, ApprovalState, repeat_of},
    resolution::{CallResolution, ResolvedCall},
    validity::{
        approval_holds, doubt_answered, doubtful_calls, is_run_by_program, may_repeat_call,
    },
};
