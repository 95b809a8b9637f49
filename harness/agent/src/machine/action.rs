//! The action that the state machine of a run wants next.

use super::outcome::Outcome;
use harness_core::message::ToolCall;

/// The next thing to do in a conversation. A [`Machine`](crate::Machine) only says what it is, and
/// [`Steps::act`](crate::Steps::act) does it.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Nothing, until the user says something.
    AwaitUser,
    /// Ask the model to go on.
    CallProvider,
    /// Decide which of these calls may run.
    Decide(Vec<ToolCall>),
    /// Run these calls; those of one batch may run at the same time.
    RunCalls(Vec<ToolCall>),
    /// Nothing, until the calls that run have their results. For [`Steps`](crate::Steps), calls have
    /// started; this action runs them to their ends, or records that they had started elsewhere.
    AwaitResults,
    /// Find out what became of these calls, which had started in a process that did not see their
    /// end, and record a result for each of them.
    FindOut(Vec<ToolCall>),
    /// Nothing in this run: calls wait until somebody outside of it decides or answers.
    AwaitAnswers,
    /// Check whether the model's answer is what the program [wanted](harness_core::journal::WantedAnswer).
    CheckAnswer,
    /// Record the facts of [`Machine::settlement`](crate::Machine::settlement): the results of calls that will not run or were stopped.
    Settle,
    /// The run is over.
    Finish(Outcome),
}
