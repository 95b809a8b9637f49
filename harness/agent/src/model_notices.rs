//! The texts that the program itself tells the model: about a reply that broke off, an answer that
//! was rejected, and calls that did not run or did not end.

use crate::{Outcome, machine::call_states::AfterCalls};
use harness_core::{
    journal::{Awaited, Limit},
    message::{CallOutcome, ToolResult},
    tool::SideEffects,
};

/// The text for the model after its reply broke off.
pub(super) const GO_ON: &str = "Your reply above was cut off before it was complete. Go on from where it \
                     breaks off, without repeating what is there.";

/// The text for the model about a call that was stopped while it ran.
pub(super) fn stopped_notice(effects: SideEffects) -> (CallOutcome, String) {
    if effects.is_read_only() {
        let text = "This call was stopped while it ran. It only reads, so nothing has changed.";
        (CallOutcome::StoppedReading, text.to_owned())
    } else {
        let text = "This call was stopped while it ran: it may have partly run. Check what it did \
                    before you repeat it.";
        (CallOutcome::InDoubt, text.to_owned())
    }
}

/// The text for the model about a call that ran in a process that is gone.
pub(super) fn lost_notice(effects: SideEffects) -> (CallOutcome, String) {
    let ended = "The program that ran this call ended before the call had";
    if effects.is_read_only() {
        let text = format!("{ended}. It only reads, so nothing has changed.");
        (CallOutcome::StoppedReading, text)
    } else {
        let text =
            format!("{ended}: it may have partly run. Check what it did before you repeat it.");
        (CallOutcome::InDoubt, text)
    }
}

/// The text for the model about a call that was handed to the program or has asked a question, and
/// was not answered.
pub(super) fn unanswered_notice(awaited: &Awaited) -> (CallOutcome, String) {
    let how = match awaited {
        Awaited::Answer { .. } => "This call has asked something, and was not answered",
        _ => "This call was handed to the program, which has given no result",
    };
    let text = format!("{how}: it may have partly run. Check what it did before you repeat it.");
    (CallOutcome::InDoubt, text)
}

/// The text for the model about a call that waited for somebody who has not answered in time.
pub(super) fn nobody_answered() -> (CallOutcome, String) {
    let text = "Nobody has answered this call in the time that there was: it may have partly run. Check what it did \
                before you repeat it.";
    (CallOutcome::InDoubt, text.to_owned())
}

/// The text for the model about a call that was not allowed.
pub(super) fn denial_notice(reason: &str) -> String {
    format!("This call was not allowed, so it did not run: {reason}")
}

/// The text for the model about a call that has ended after it had been stopped.
pub(super) fn late_end(tool: &str, result: &ToolResult) -> String {
    let id = result.call_id();
    let how = match result.outcome() {
        CallOutcome::Succeeded => "It ran to its end. Its result:",
        CallOutcome::InDoubt => "It may have partly run: check what it did. What is known:",
        _ => "It failed:",
    };
    format!("[{}. {how}\n{}]", ended_call(tool, id), result.as_text())
}

/// How each text about a late end begins.
pub(super) const NEWS: &str = "[From the program: the call `";

/// The same for one call, without the bracket.
pub(super) fn ended_call(tool: &str, call: &str) -> String {
    format!("From the program: the call `{call}` of `{tool}`, which was still running, has ended")
}

pub(super) fn unrun_reason(then: AfterCalls) -> String {
    if let AfterCalls::End(Outcome::Limit(Limit::UnknownCost)) = then {
        return "nobody knows what the run costs, and that is refused".to_owned();
    }
    if let AfterCalls::End(Outcome::Limit(limit)) = then {
        return format!("the run has reached its limit of {limit}");
    }
    if let AfterCalls::End(Outcome::Unsupported(item)) = then {
        return format!("the reply asked for `{item}`, too, which the program cannot execute");
    }
    let why = match then {
        AfterCalls::End(Outcome::Truncated) => "the reply that asked for it was cut off",
        AfterCalls::End(Outcome::Refused) => "the reply that asked for it was refused",
        AfterCalls::End(Outcome::Failed) => "the run failed first",
        AfterCalls::End(Outcome::Denied) => "another call was denied first",
        AfterCalls::Ask | AfterCalls::End(_) => "the run was stopped first",
    };
    why.to_owned()
}

/// How many faults of one answer the model is told.
pub(super) const FAULTS_TOLD: usize = 20;

/// The text for the model about an answer that was rejected.
pub(super) fn not_accepted(faults: &[String]) -> String {
    let mut words = "Your answer was not accepted:".to_owned();
    for fault in faults.iter().take(FAULTS_TOLD) {
        words.push_str("\n- ");
        words.push_str(fault);
    }
    if let Some(more @ 1..) = faults.len().checked_sub(FAULTS_TOLD) {
        words.push_str(&format!("\n- and {more} more"));
    }
    words.push_str(
        "\nGive the whole answer again, in the form that was asked for, and nothing else.",
    );
    words
}
