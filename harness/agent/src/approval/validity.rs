//! Whether earlier decisions about calls still hold, and which calls may run again.

use super::policy::repeat_of;
use crate::conversation::state::ConversationState;
use harness_core::{
    error::Error,
    journal::{Fact, Repeat},
    message::ToolCall,
    tool::Tool,
};

/// The ids of calls that were repeatable when they were allowed, but are not repeatable any more. These calls
/// may have run already.
pub(crate) fn doubtful_calls(state: &ConversationState) -> Vec<String> {
    let lost = state.machine.to_repeat();
    let repeats = |call: &&ToolCall| {
        let granted = state.machine.approved(call.id());
        granted.is_some_and(|granted| granted.repeat != Repeat::Never)
    };
    let doubtful = lost.filter(repeats).filter(|call| !may_repeat_call(state, call));
    doubtful.map(|call| call.id().to_owned()).collect()
}

/// Whether the approval of a call still holds. The tool must still have the declaration that was approved. If
/// the call was allowed `before` this run, the rules of this run must allow it too.
pub(crate) fn approval_holds(state: &ConversationState, call: &ToolCall, before: bool) -> bool {
    let Some(approved) = state.machine.approved(call.id()) else { return false };
    let policy = state.approval_policy(&state.agent);
    let is_elsewhere = state.approvals.calls_from_previous_process.contains(call.id());
    policy.is_within(call, approved)
        && (!before || policy.still_allows(call, approved))
        && !(is_elsewhere && policy.is_denied(call, approved))
}

/// Whether the program gets this call, because its tool is external.
pub(crate) fn is_run_by_program(state: &ConversationState, call: &ToolCall) -> bool {
    let approved = state.machine.approved(call.id());
    approved.is_some_and(|it| state.approval_policy(&state.agent).is_for_program(call, it))
}

/// Whether a call that has possibly run already may run again. Both the tool and the approval of the call must
/// allow a second run.
pub(crate) fn may_repeat_call(state: &ConversationState, call: &ToolCall) -> bool {
    let in_journal = state.is_in_journal();
    let repeats = |tool: &Tool| repeat_of(tool, in_journal) != Repeat::Never && !tool.is_external();
    state.tools().get(call.name()).is_some_and(repeats) && approval_holds(state, call, false)
}

/// Records calls as in doubt if they were repeatable in an earlier process but are not repeatable now. The run
/// continues only after the outcomes of these calls are known.
pub(crate) fn doubt_answered(state: &mut ConversationState) -> Result<(), Error> {
    let doubtful = doubtful_calls(state);
    match doubtful.is_empty() {
        true => Ok(()),
        false => state.record(&Fact::Reopened { doubtful }),
    }
}
