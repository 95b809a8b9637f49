//! How much the engine is given: it sends a step, and all facts of a conversation, as one message of 32 MB at most, and
//! asks again and again for what is larger.

use harness::journal::Envelope;

use serde::Serialize;

use crate::protocol::{Command, Input};

/// What one step may come to, in bytes of JSON: a quarter of what the engine takes as one message.
const LARGEST: usize = 8 << 20;
/// What all facts of a conversation may have, in bytes of JSON: the engine sends them as one message, in which there
/// is room left to stop what goes on.
pub(crate) const MOST: usize = 28 << 20;
/// The same for what is said about calls, of which there are few.
pub(crate) const MOST_WITH_ANSWERS: usize = 30 << 20;

pub(crate) fn size(facts: &[Envelope]) -> usize {
    serde_json::to_vec(facts).map_or(usize::MAX, |json| json.len())
}

/// Fails if a step came to more than the engine takes, or the conversation is full.
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

/// Fails if a message is larger than what any step may come to.
pub(crate) fn check_message(input: &Input) -> Result<(), String> {
    sent("a message", input, LARGEST)
}

/// Fails if what is said about a call is larger than what the engine takes as one message.
pub(crate) fn check_command(command: &Command) -> Result<(), String> {
    sent("what is said about a call", command, MOST_WITH_ANSWERS)
}

fn sent(what: &str, value: &impl Serialize, most: usize) -> Result<(), String> {
    match serde_json::to_vec(value).map_or(usize::MAX, |json| json.len()) {
        bytes if bytes <= most => Ok(()),
        bytes => Err(format!("{what} has {bytes} bytes, and the engine is given {most} at most")),
    }
}
