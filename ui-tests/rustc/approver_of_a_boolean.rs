//! An approver that answers with a boolean, at once and later, and a value that is none.
//!
//! - at `|_: Question| true`: make the answer from the question: `|question: Question| async move { question.yes() }`
//! - at `|_: Question| async { true }`: make the answer from the question
//! - at `true`: an approver is a function that answers a question

use harness::{agent::AgentBuilder, policy::Question};

fn at_once(builder: AgentBuilder) -> AgentBuilder { builder.approver(|_: Question| true) }
fn later(builder: AgentBuilder) -> AgentBuilder { builder.approver(|_: Question| async { true }) }
fn value(builder: AgentBuilder) -> AgentBuilder { builder.approver(true) }

fn main() {}
