//! Supports servers that require alternating turns of user and model: Mistral's servers, and local servers with such a
//! chat template. After a stopped run, a user message may follow another user message or results of tools. These
//! servers refuse such a conversation with status 400. So a request for these servers contains a short extra message
//! between the two messages. The transcript is not changed.
//!
//! The other protocols need no extra messages. The Messages API merges consecutive messages of one role
//! (<https://docs.claude.com/en/api/messages>), and treats results as user messages. The Responses API has items
//! instead of turns. The template of a local server may still refuse the conversation. In that case, use Chat
//! Completions for the model.

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

/// The extra messages. The texts never change, so that each request begins with the bytes of the previous request.
const OF_MODEL: &str = r#"{"role":"assistant","content":"OK."}"#;
const OF_PERSON: &str = r#"{"role":"user","content":"Go on."}"#;

/// Writes an extra message if the server does not accept a message with `role` after the last message of `before`.
pub(super) fn bridge(out: &mut BodyDraft, before: &Messages, role: Role, to: Recipient<'_>) {
    let between = match (last(before, to), role) {
        (Some(Role::User | Role::Tool), Role::User) => OF_MODEL,
        (Some(Role::Assistant) | None, Role::Assistant) => OF_PERSON,
        _ => return,
    };
    comma(out);
    raw(out, between);
}

/// Writes the extra message between results and the user message with their files.
pub(super) fn bridge_results(out: &mut BodyDraft) {
    comma(out);
    raw(out, OF_MODEL);
}

/// Whether the conversation needs extra messages, because its roles do not alternate.
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

/// The role of the last message of `messages` in the request. Results with files count as a user message.
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

/// Whether the server has refused a conversation with roles that do not alternate. The error contains a text of the
/// server's template.
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
