//! All texts that the loop itself sends to a model. They are about cut-off replies, rejected answers, calls that
//! did not run or did not end, agents that are tools, and parts that were left out. `harness-core` has the texts
//! of tools and summaries.

use crate::{Outcome, machine::call_states::AfterCalls};
use harness_core::{
    journal::{Awaited, LimitKind},
    message::{CallOutcome, ToolResult},
    policy::ApprovalRequest,
    provider::WantedItem,
    tool::{COPIED, READ_RESULT, RUNS_ON, SideEffects},
    unwind::Panicked,
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

/// The text for the model about a call that was running when its process ended.
pub(super) fn lost_notice(effects: SideEffects) -> (CallOutcome, String) {
    let ended = "A restart interrupted this call";
    if effects.is_read_only() {
        let text = format!("{ended}. It only reads, so nothing has changed.");
        (CallOutcome::StoppedReading, text)
    } else {
        let text =
            format!("{ended}: it may have partly run. Check what it did before you repeat it.");
        (CallOutcome::InDoubt, text)
    }
}

/// The text for the model about a call without an answer: the call was handed to the program, or its tool has
/// asked a question.
pub(super) fn unanswered_notice(awaited: &Awaited) -> (CallOutcome, String) {
    let how = match awaited {
        Awaited::Answer { .. } => "This call has asked something, and was not answered",
        _ => "This call was handed on, and no result has come back",
    };
    let text = format!("{how}: it may have partly run. Check what it did before you repeat it.");
    (CallOutcome::InDoubt, text)
}

/// The text for the model about a waiting call whose deadline has passed.
pub(super) fn nobody_answered() -> (CallOutcome, String) {
    let text = "Nobody has answered this call in the time that there was: it may have partly run. Check what it did \
                before you repeat it.";
    (CallOutcome::InDoubt, text.to_owned())
}

/// The text for the model about a call that was not allowed.
pub(super) fn denial_notice(reason: &str) -> String {
    format!("This call was not allowed, so it did not run: {reason}")
}

/// The text for the model about a call that has ended now, after the library had asked it to stop.
pub(super) fn late_end(tool: &str, result: &ToolResult) -> String {
    let id = result.call_id();
    let how = match result.outcome() {
        CallOutcome::Succeeded => "It ran to its end. Its result:",
        CallOutcome::InDoubt => "It may have partly run: check what it did. What is known:",
        _ => "It failed:",
    };
    format!("[{}. {how}\n{}]", ended_call(tool, id), result.as_text())
}

/// The beginning of each text about a call that has ended after it was stopped.
pub(super) const NEWS: &str = "[From the program: the call `";

/// The beginning of the text about a call that has ended after it was stopped, without the opening bracket of
/// [`NEWS`].
pub(super) fn ended_call(tool: &str, call: &str) -> String {
    format!("From the program: the call `{call}` of `{tool}`, which was still running, has ended")
}

pub(super) fn unrun_reason(then: AfterCalls) -> String {
    if let AfterCalls::End(Outcome::Limit(LimitKind::UnknownCost)) = then {
        return "nobody knows what the run costs, and that is refused".to_owned();
    }
    if let AfterCalls::End(Outcome::Limit(limit)) = then {
        return format!("the run has reached its limit of {limit}");
    }
    if let AfterCalls::End(Outcome::Unsupported(item)) = then {
        return format!("the reply asked for `{item}`, too, which cannot be executed here");
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

/// How many faults of one answer the model gets at most.
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

/// The text that gives the model instructions that have changed during the conversation.
pub(super) fn new_instructions(system: &str) -> String {
    format!("From here on, these instructions hold in place of all earlier ones:\n\n{system}")
}

/// The text for the model about an item of its reply that the program cannot execute.
pub(super) fn unsupported_notice(item: WantedItem) -> String {
    format!(
        "The program could not execute the `{item}` of your reply, and nothing of it has happened. Go on without it."
    )
}

/// The text for the model about a call that did not start, and why.
pub(super) fn not_started_notice(why: &str) -> String {
    format!("This call was not started: {why}. Nothing of it has happened.")
}

/// The text for the model about a call that did not start, because the model's answer has too many calls.
pub(super) fn surplus_notice(most: usize) -> String {
    format!(
        "This call was not started: your answer asked for more than the {most} calls that run \
         of one answer. Nothing of it has happened. Ask for it in your next answer if it \
         is still needed."
    )
}

/// The text for the model about a call that did not start, because an equal call still runs. The library has
/// asked that call to stop.
pub(super) fn repeated_notice(other: &str) -> String {
    format!(
        "This call was not started: the call `{other}` does the same, was told to stop and may \
         still be running. Nothing of this call has happened. You will be told when `{other}` has \
         ended; look then at what it did."
    )
}

/// The text for the model about a call that still runs after the library has asked it to stop.
pub(super) fn still_running_notice() -> String {
    format!("This call was told to stop. {RUNS_ON}")
}

/// The text for the model about a call whose outcome the tool could not find out.
pub(super) fn unfound_notice(effects: SideEffects, why: &str) -> (CallOutcome, String) {
    let (outcome, text) = lost_notice(effects);
    (outcome, format!("{text} Its tool could not find out what became of it: {why}"))
}

/// The text before the result of a repeated call. The call may already have run in an earlier process.
pub(super) fn run_again_notice(effects: SideEffects) -> (CallOutcome, String) {
    let (outcome, text) = lost_notice(effects);
    (outcome, format!("{text} It was to run again, and this came of it:"))
}

/// The text with the output that a stopped call made before the stop.
pub(super) fn output_notice(output: &str) -> String {
    format!("Its output until then:\n{output}")
}

/// The text for the model about a call that repeats the placeholder of a cleared argument. With `name`, the
/// tool `read_result` can read the arguments of the earlier call.
pub(super) fn copied_line_notice(argument: &str, name: Option<&str>) -> String {
    let reads = match name {
        Some(name) => format!("; `{READ_RESULT}` reads those of the earlier call as `{name}`"),
        None => String::new(),
    };
    format!(
        "{COPIED}`{argument}` has words of the line that stands in the record of an earlier call in the place of what \
         was left out there. Nothing of this call has happened. Give the argument itself{reads}. If these very words are \
         meant, give them in two calls, a part of them in each. To find such a line in a file, give only the end of it."
    )
}

/// Why files were left out: a request cannot have more files of this type.
pub(super) const TOO_MANY: &str = "a request takes no more of them";

pub(super) const TOO_LARGE: &str = "the server takes none of this size or form";

/// The line that replaces files of the user that were left out.
pub(super) fn left_out_of_user(why: &str) -> String {
    format!("[A file of the user was left out here, because {why}. Ask for it if you need it.]")
}

/// The line that replaces files of a result that were left out. If `tool` is set, the line says that the model
/// can call `tool` again.
pub(super) fn left_out_of_result(count: usize, why: &str, tool: Option<&str>) -> String {
    let them = if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
    let again = tool
        .map(|tool| format!(" Call `{tool}` again if you need more of it."))
        .unwrap_or_default();
    format!("[{them} of this result were left out, because {why}.{again}]")
}

/// The reason of a denial if nobody has decided about the call before the deadline.
pub(super) const NOBODY_DECIDED: &str = "nobody has decided about it in the time that there was";

/// The reason of a denial if the approval was for another call.
pub(super) const OTHER_APPROVAL: &str =
    "the approval was given for another call, so it does not count";

/// The reason of a denial if the approver has panicked.
pub(super) fn approver_panicked(panicked: &Panicked) -> String {
    format!("who was to be asked about it {panicked}")
}

/// The reason of a denial if there is no approver. Lists why the call needs a person's approval.
pub(super) fn nobody_to_ask(question: &ApprovalRequest) -> String {
    let reasons = question.reasons.iter().map(|reason| reason.text.as_str());
    let mut why: Vec<&str> = reasons.collect();
    why.extend(question.changes.iter().map(String::as_str));
    format!(
        "`{}` needs a person's approval ({}), and there is nobody to ask",
        question.tool,
        why.join("; ")
    )
}

/// The text for an answer whose check fails without a reason.
pub(super) const OBJECTION: &str = "the program does not accept it";

/// The text for an answer whose check asks a person a question.
pub(super) fn question_in_check(tool: &str) -> String {
    format!(
        "the tool `{tool}` asks a person a question, which it cannot do while it checks an answer"
    )
}

/// The description of the only argument of a tool that runs an agent.
pub(super) const AGENT_TASK: &str = "What the agent is to do, with all that it must know for it: it sees nothing of this conversation.";

/// The text for the model about a call whose agent has given no answer.
pub(super) fn agent_stopped(stopped: &str, outcome: Outcome, last_words: &str) -> String {
    let mut text = format!("the agent came to no answer: {stopped}");
    if outcome == Outcome::Waiting {
        text.push_str(
            ". In this agent, a person can decide or answer only while it runs, and not later",
        );
    }
    if !last_words.is_empty() {
        text.push_str(&format!(". Its last words:\n{last_words}"));
    }
    text
}

/// The text for the model about a call of an agent whose conversation was deleted while the agent waited.
pub(super) fn deleted_agent_notice(effects: SideEffects) -> (CallOutcome, String) {
    let (outcome, truth) = match effects.is_read_only() {
        true => (CallOutcome::StoppedReading, "It only reads, so nothing has changed."),
        false => (
            CallOutcome::InDoubt,
            "It may have partly run: check what it did before you repeat it.",
        ),
    };
    (outcome, format!("The agent cannot go on: its conversation was deleted. {truth}"))
}
