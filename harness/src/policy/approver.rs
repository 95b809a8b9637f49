//! Who is asked before a call runs.

use std::{future::Future, pin::Pin};

use crate::{message::ToolCall, tool::SideEffects};

/// What a person is asked: may exactly this call run?
#[derive(Clone, Copy, Debug)]
pub struct ApprovalQuestion<'a> {
    /// The call, with the arguments as they will run.
    pub call: &'a ToolCall,
    /// What its tool declares.
    pub effects: SideEffects,
}

/// What was answered. It holds for exactly the call that was asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approval {
    /// It may run.
    Yes,
    /// It may run, and so may every later call of the same tool in this conversation.
    Always,
    /// It may not; the reason is for the model.
    No(String),
}

/// Who is asked before a call runs: a terminal, a web page, a chat.
///
/// A function from the question to a future is one:
///
/// ```
/// use harness::policy::{Approval, ApprovalQuestion, Approver};
///
/// fn cautious() -> impl Approver {
///     |question: ApprovalQuestion<'_>| {
///         let small = question.call.arguments().len() < 100;
///         async move { if small { Approval::Yes } else { Approval::No("too long".into()) } }
///     }
/// }
/// # let _ = cautious();
/// ```
pub trait Approver: Send + Sync {
    /// Asks. Dropping the future takes the question back.
    fn ask<'a>(
        &'a self,
        question: ApprovalQuestion<'a>,
    ) -> Pin<Box<dyn Future<Output = Approval> + Send + 'a>>;
}

impl<F, A> Approver for F
where
    F: Fn(ApprovalQuestion<'_>) -> A + Send + Sync,
    A: Future<Output = Approval> + Send + 'static,
{
    fn ask<'a>(
        &'a self,
        question: ApprovalQuestion<'a>,
    ) -> Pin<Box<dyn Future<Output = Approval> + Send + 'a>> {
        Box::pin(self(question))
    }
}
