//! What is repeated, refused and asked first, and what ends a run. A policy decides and never acts;
//! the providers around a provider do what it says.
#![doc = ""]
#![doc = include_str!("../../guide/failing-network.md")]
#![doc = ""]
#![doc = include_str!("../../guide/guardrails.md")]

mod approver;
mod fallback;
mod guard;
mod pace;
mod permissions;
mod relay;
mod retry;
mod retry_provider;
#[cfg(all(unix, feature = "terminal"))]
mod terminal;
mod throttle;

#[cfg(all(unix, feature = "terminal"))]
pub use self::terminal::TerminalApprover;
pub use self::{
    approver::{Approval, ApprovalQuestion, Approver},
    fallback::FallbackProvider,
    guard::{Budget, Guard, Guardrails, Left, LimitReached, Price, Prices, Spent, Warning},
    permissions::{Permissions, Verdict},
    retry::{GiveUp, RetryPolicy, RetryVerdict},
    retry_provider::RetryProvider,
    throttle::ThrottledProvider,
};
