//! For servers that require alternating turns of the user and the model: Mistral's, and local ones
//! whose template for the model requires it. After a stopped run, a user message may follow another
//! one or the results of tools, and such a server refuses the conversation with status 400.
//! Requests then contain a short message of the other side in between; the transcript is not
//! changed.
//!
//! The other wires do not need it. Messages merges consecutive messages of one side
//! (<https://docs.claude.com/en/api/messages>), and results are user messages there. Responses has
//! items instead of turns. A local server with these protocols fills its template itself; if the
//! template refuses, use Chat Completions for the same model.

use super::encode::{PLACES, has_content, is_written};
use crate::wire::{
    json::{comma, raw},
    media::{ModelCapabilities, Recipient},
};
use harness_core::{
    error::Error,
    message::{Message, Messages, Role},
    provider::BodyDraft,
};

/// The message between two messages that cannot follow each other. It is always the same, so that a
/// request begins with the bytes of the previous one.
const OF_MODEL: &str = r#"{"role":"assistant","content":"OK."}"#;
const OF_PERSON: &str = r#"{"role":"user","content":"Go on."}"#;

/// Writes the message that is needed between these messages and one with this role.
pub(super) fn bridge(out: &mut BodyDraft, before: &Messages, role: Role, to: Recipient<'_>) {
    let between = match (last(before, to), role) {
        (Some(Role::User | Role::Tool), Role::User) => OF_MODEL,
        (Some(Role::Assistant) | None, Role::Assistant) => OF_PERSON,
        _ => return,
    };
    comma(out);
    raw(out, between);
}

/// Writes the message that is needed before the files of tools, which are sent as a user message.
pub(super) fn bridge_results(out: &mut BodyDraft) {
    comma(out);
    raw(out, OF_MODEL);
}

/// Whether a conversation can only be sent with extra messages, because its roles do not alternate.
pub(crate) fn needs_bridge(messages: &Messages, takes: &ModelCapabilities) -> bool {
    let to = Recipient { takes, places: &PLACES };
    let mut out = BodyDraft::default();
    for (at, message) in messages.iter().enumerate() {
        let before = &messages.range(..at);
        match message.role() {
            role @ (Role::User | Role::Assistant) if is_sent(message) => {
                bridge(&mut out, before, role, to);
            }
            Role::Tool if to.is_sent_as_file(message) => return true,
            _ => {}
        }
        if out.len() > 0 {
            return true;
        }
    }
    false
}

/// The role of the last message that is sent of these.
fn last(messages: &Messages, to: Recipient<'_>) -> Option<Role> {
    let last = messages.iter().rev().find(|message| is_sent(message))?;
    Some(match last.role() {
        Role::Tool if to.is_sent_as_file(last) => Role::User,
        role => role,
    })
}

fn is_sent(message: &Message) -> bool {
    match message.role() {
        Role::User => has_content(message),
        Role::Assistant => is_written(message),
        Role::Tool => true,
    }
}

/// Whether a server has refused a conversation because two messages cannot follow each other. The
/// error contains the text of its template.
///
/// Mistral: `Unexpected role 'user' after role 'tool'`, code 3230. Models' templates, with vLLM,
/// llama.cpp and others: `Conversation roles must alternate user/assistant/user/assistant/..`, with
/// status 400 or 500. Perplexity: `user or tool message(s) should alternate with assistant
/// message(s)`, and `user and assistant roles should be alternating`. DeepSeek: `does not support
/// successive user or assistant messages`.
pub(crate) fn is_alternation_required(err: &Error) -> bool {
    let words = err.message().to_ascii_lowercase();
    let says = |part: &str| words.contains(part);
    let both = (says("user") && says("assistant")) || says("between user and model");
    let alternates = words.match_indices("alternat").any(|(at, _)| {
        // "Alternative" has another meaning.
        words.get(at..).is_some_and(|word| !word.starts_with("alternativ"))
    });
    let alternate = alternates && (both || says("roles must") || says("roles should"));
    let unexpected =
        (says("unexpected role '") && says("after role")) || err.code() == Some("3230");
    let successive = says("successive user or assistant");
    matches!(err.status(), Some(400 | 422 | 500)) && (alternate || unexpected || successive)
}
