//! A person who is asked about calls.

use std::sync::{Arc, Mutex};

use harness::policy::{Approval, ApprovalRequest};

/// What a person was asked.
pub type Asked = Arc<Mutex<Vec<ApprovalRequest>>>;

/// A person who answers each question in the same way.
pub fn person(
    answer: impl Fn(&ApprovalRequest) -> Approval + Clone + Send + Sync + 'static,
) -> (Asked, impl harness::policy::Approver) {
    let asked = Asked::default();
    let seen = Arc::clone(&asked);
    let approver = move |question: ApprovalRequest| {
        let answer = answer(&question);
        seen.lock().expect("unpoisoned").push(question);
        async move { answer }
    };
    (asked, approver)
}
