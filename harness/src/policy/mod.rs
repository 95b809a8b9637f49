//! Policies: what is retried, denied and asked about, and what ends a run. A policy decides and never acts; the
//! provider wrappers in this module carry out what it decides.
#![doc = ""]
#![doc = include_str!("../../guide/failing-network.md")]
#![doc = ""]
#![doc = include_str!("../../guide/guardrails.md")]

mod approver;
mod data_flow;
mod fallback;
mod guard;
mod pace;
mod permissions;
mod relay;
mod retry;
mod retry_function;
mod retry_provider;
mod retry_statuses;
#[cfg(feature = "terminal")]
mod terminal;
mod throttle;

#[cfg(feature = "terminal")]
pub use self::terminal::visible;
#[cfg(all(unix, feature = "terminal"))]
pub use self::terminal::{Filled, TerminalApprover, TerminalForm};
pub use self::{
    approver::{
        Approval, ApprovalDecision, ApprovalFuture, ApprovalRequest, ApprovalRequestId, Approver,
    },
    data_flow::{DataFlowPolicy, Taint},
    fallback::FallbackProvider,
    guard::{Budget, BudgetRemaining, BudgetUsage, Guardrails, LimitReached, Limits},
    permissions::{Permissions, PolicyDecision, ProposedCall, RuleDecision},
    retry::{GiveUp, RetryBudget, RetryPolicy, RetryScope, RetryVerdict},
    retry_provider::RetryProvider,
    retry_statuses::RetryStatuses,
    throttle::ThrottledProvider,
};
pub(crate) use self::{
    data_flow::TaintTracker,
    guard::{AgentSums, LimitWarning, RunGuard, rest_of, unknown_spent},
    retry_provider::RetryLoop,
};
