//! The next action of a run, as the machine decides it.

use super::outcome::Outcome;
use harness_core::message::ToolCall;

/// The next action in a conversation. A [`Machine`](crate::Machine) only decides the action.
/// [`Steps::act`](crate::Steps::act) carries out the action.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Wait until the user sends a message.
    AwaitUser,
    /// Send the next request to the model.
    CallProvider,
    /// Decide which of these calls may run.
    Decide(Vec<ToolCall>),
    /// Run these calls. They may run at the same time.
    RunCalls(Vec<ToolCall>),
    /// Wait until the running calls have their results. [`Steps`](crate::Steps) runs the started calls to their
    /// ends, or records that the process that started the calls has ended.
    AwaitResults,
    /// Find out the outcomes of these calls, and record a result for each call. The process that ran these
    /// calls ended before the calls did.
    FindOut(Vec<ToolCall>),
    /// Wait for decisions or answers from outside of the run.
    AwaitAnswers,
    /// Check whether the model's answer is what the program [wanted](harness_core::journal::WantedAnswer).
    CheckAnswer,
    /// Record the facts of [`Machine::settlement`](crate::Machine::settlement): the results of calls that will
    /// not run or were stopped.
    Settle,
    /// The run has ended.
    Finish(Outcome),
}
