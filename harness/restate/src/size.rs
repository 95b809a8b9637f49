//! Limits the data that the engine gets. The engine sends each step in one message, and also sends all facts of a
//! conversation in one message. Such a message may have at most 32 MB. The engine retries larger messages endlessly.

use harness::journal::Envelope;

use serde::Serialize;

use crate::protocol::{Command, Input};

/// The maximum size of one step, in bytes of JSON: a quarter of the largest message of the engine.
const LARGEST: usize = 8 << 20;
/// The maximum size of all facts of a conversation, in bytes of JSON. The engine sends all facts in one message. The
/// limit leaves room in this message for the facts of a stop.
pub(crate) const MOST: usize = 28 << 20;
/// The maximum size of all facts after a decision or an outcome for a call was added. This limit is larger than
/// [`MOST`], because there are few decisions and outcomes.
pub(crate) const MOST_WITH_ANSWERS: usize = 30 << 20;

pub(crate) fn size(facts: &[Envelope]) -> usize {
    serde_json::to_vec(facts).map_or(usize::MAX, |json| json.len())
}

/// Fails if a step is larger than the engine accepts, or if the conversation is full.
pub(crate) fn check_size(facts: &[Envelope], kept: usize, most: usize) -> Result<(), String> {
    let bytes = size(facts);
    if bytes > LARGEST {
        return Err(format!(
            "a step came to {bytes} bytes, and the engine is given {LARGEST} at most: send less at once, and let \
             tools put what is large into a store of their own and return where it is"
        ));
    }
    if !facts.is_empty() && kept.saturating_add(bytes) > most {
        return Err(format!(
            "the conversation has {kept} bytes of facts and would get {bytes} more, and the engine is given {most} at \
             most: go on in another conversation"
        ));
    }
    Ok(())
}

/// Fails if a message is larger than the maximum size of a step.
pub(crate) fn check_message(input: &Input) -> Result<(), String> {
    sent("a message", input, LARGEST)
}

/// Fails if a command for a call is larger than a message of the engine.
pub(crate) fn check_command(command: &Command) -> Result<(), String> {
    sent("what is said about a call", command, MOST_WITH_ANSWERS)
}

fn sent(what: &str, value: &impl Serialize, most: usize) -> Result<(), String> {
    match serde_json::to_vec(value).map_or(usize::MAX, |json| json.len()) {
        bytes if bytes <= most => Ok(()),
        bytes => Err(format!("{what} has {bytes} bytes, and the engine is given {most} at most")),
    }
}
