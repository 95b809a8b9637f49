//! Policies: which requests are retried, which calls are denied or need an approval, and which limit ends a run. A
//! policy only decides. The provider wrappers in this module carry out the decisions.

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
mod throttle;

pub use self::retry_provider::RetryLoop;
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
#[doc(hidden)]
pub use self::{
    data_flow::TaintTracker,
    guard::{AgentSums, LimitWarning, RunGuard, rest_of, unknown_spent},
};
