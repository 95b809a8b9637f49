//! The names of the conversations of agents that calls run.

use std::collections::HashSet;

use hmac_sha256::Hash as Sha256;

use crate::conversation::durable::guarded;
use harness_core::{
    error::Error,
    journal::{ConversationQuery, Journal, check_id},
};

/// The name of the conversation of a call's agent. Every process computes the same name. `number` counts the
/// agents of the call from 0.
pub(crate) fn name_of_agent(parent: &str, call: &str, number: u32) -> String {
    // An id is replaced by its hash if the id is a number or begins like a hash. So two agents never have the
    // same name, whatever ids the server uses.
    let is_taken = call.bytes().all(|byte| byte.is_ascii_digit()) || call.starts_with(HASHED);
    let call = match is_taken || call.contains('/') || check_id(call).is_err() {
        true => hashed_name(call),
        false => call.to_owned(),
    };
    let name = match number {
        0 => format!("{parent}/{call}"),
        number => format!("{parent}/{call}/{}", number.saturating_add(1)),
    };
    match check_id(&name) {
        Ok(()) => name,
        Err(_) => hashed_name(&name),
    }
}

/// The beginning of a hashed name.
const HASHED: &str = "agent-";

/// A name of fixed length for a name that is too long or has invalid characters.
fn hashed_name(name: &str) -> String {
    let digest = Sha256::hash(name.as_bytes());
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{HASHED}{hex}")
}

/// The names of the conversations in the journal that belong to this call's agents.
pub(crate) async fn agents_of_call(
    journal: &dyn Journal,
    parent: &str,
    call: &str,
) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for name in (0..).map(|number| name_of_agent(parent, call, number)) {
        // Only the head is needed. No fact has this number, so no fact is read.
        if guarded(|| journal.read(&name, u64::MAX)).await?.head.incarnation.is_none() {
            break;
        }
        names.push(name);
    }
    Ok(names)
}

/// The names of the conversations that have `parent` as their parent in the journal.
pub(crate) async fn conversations_below(
    journal: &dyn Journal,
    parent: &str,
) -> Result<HashSet<String>, Error> {
    let (mut names, mut listing) =
        (HashSet::new(), ConversationQuery::new().parent(parent).limit(1000));
    loop {
        let page = guarded(|| journal.list(&listing)).await?;
        listing = listing.after(&page);
        names.extend(page.conversations.into_iter().map(|it| it.id));
        if page.next.is_none() {
            return Ok(names);
        }
    }
}
