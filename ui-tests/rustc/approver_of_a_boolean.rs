//! An approver that answers with a boolean, at once and later, and a value that is none.
//!
//! - at `|_: ApprovalRequest| true`: make the answer from the question: `|question: ApprovalRequest| async move { question.yes() }`
//! - at `|_: ApprovalRequest| async { true }`: make the answer from the question
//! - at `true`: an approver is a function that answers a question

use harness::{agent::AgentBuilder, policy::ApprovalRequest};

fn at_once(builder: AgentBuilder) -> AgentBuilder { builder.approver(|_: ApprovalRequest| true) }
fn later(builder: AgentBuilder) -> AgentBuilder { builder.approver(|_: ApprovalRequest| async { true }) }
fn value(builder: AgentBuilder) -> AgentBuilder { builder.approver(true) }

fn main() {}
