//! The next step of a run: the action of the machine, after the limits and the rules of the run were checked.

use crate::{
    Action, Outcome,
    compaction::context_edit::{ContextEdit, due_context_edit},
    conversation::state::ConversationState,
};
use harness_core::{journal::InterruptCause, message::ToolCall};

/// The next step of a run: the machine's [`Action`], after the limits were checked.
pub(crate) enum RunStep {
    /// Stop the run for this cause.
    Stop(InterruptCause),
    /// Edit the context, so that the next request fits into the window.
    Move(ContextEdit),
    /// Send the next request to the model.
    Ask,
    /// Decide about these calls, one after the other.
    Decide {
        /// The calls to decide.
        calls: Vec<ToolCall>,
        /// The calls that exceed the largest number of calls in one answer. They do not run.
        surplus: Vec<ToolCall>,
    },
    /// Run these calls. They may run at the same time.
    Run(Vec<ToolCall>),
    /// Wait until the running calls have their results.
    AwaitResults,
    /// Find out the outcomes of these calls.
    FindOut(Vec<ToolCall>),
    /// End the run for now: its calls wait for answers from outside of the run.
    AwaitAnswers,
    /// Check the answer against the requirements of the program.
    Check,
    /// Record the results of calls that will not run or were stopped.
    Settle,
    /// The run has ended.
    Finish(Outcome),
}

/// Returns the next step: the machine decides the action, and the guard stops the run instead if a limit is
/// reached.
pub(crate) fn next_step(state: &mut ConversationState) -> RunStep {
    let machine = &state.machine;
    let next = machine.next();
    let is_going = !matches!(next, Action::AwaitUser | Action::Settle | Action::Finish(_));
    if let Some(call) = machine.denied().filter(|_| is_going).map(str::to_owned)
        && state.must_stop_on_denial()
    {
        return RunStep::Stop(InterruptCause::Denial { call });
    }
    let ConversationState { machine, spending, agent, .. } = state;
    let guard = spending.guard();
    let goes_on = matches!(next, Action::Decide(_) | Action::RunCalls(_) | Action::FindOut(_));
    if let Some(reached) = goes_on.then(|| guard.before_going_on()).flatten() {
        return RunStep::Stop(reached.into());
    }
    match next {
        Action::CallProvider => {
            let (name, model) = agent.provider_and_model();
            match guard.before_turn(name, model) {
                Some(reached) => RunStep::Stop(reached.into()),
                None => due_context_edit(state).map_or(RunStep::Ask, RunStep::Move),
            }
        }
        Action::Decide(mut calls) => {
            let (decided, all) = machine.decided();
            let may = guard.of_one_answer(all).saturating_sub(decided).min(calls.len());
            let surplus = calls.split_off(may);
            match guard.before_calls(calls.len()) {
                Some(reached) => RunStep::Stop(reached.into()),
                None => RunStep::Decide { calls, surplus },
            }
        }
        Action::RunCalls(calls) => match guard.before_running(&calls) {
            Some(reached) => RunStep::Stop(reached.into()),
            None => RunStep::Run(calls),
        },
        Action::AwaitResults => RunStep::AwaitResults,
        Action::FindOut(calls) => RunStep::FindOut(calls),
        Action::AwaitAnswers => RunStep::AwaitAnswers,
        Action::CheckAnswer => RunStep::Check,
        Action::Settle => RunStep::Settle,
        Action::Finish(outcome) => RunStep::Finish(outcome),
        // Unreachable: a run begins with a message.
        Action::AwaitUser => RunStep::Stop(InterruptCause::Program),
    }
}
