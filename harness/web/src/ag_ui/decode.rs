//! Reads a `RunAgentInput`.

use serde::Deserialize;
use serde_json::Value;

use crate::{
    ClientAnswer, ClientDecision, ClientInput, ClientRequest,
    request::{file_block, remote_file, text, user_message, wrong},
};
use harness_core::{
    error::Error,
    message::{Block, Media, Message},
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RunAgentInput {
    thread_id: String,
    run_id: String,
    messages: Vec<Value>,
    #[serde(default)]
    resume: Option<Vec<Value>>,
}

/// Reads the body of a request. If the newest message is one of the user, it is what the user says, instead of answers;
/// otherwise the answers are those in `resume`. Tools, context and state of the client are not read.
///
/// # Errors
/// Fails with [`ErrorKind::Configuration`](harness_core::error::ErrorKind) if the body is no `RunAgentInput`, and if the message
/// is empty or has a file that cannot be read.
pub fn decode_request(body: &[u8]) -> Result<ClientRequest, Error> {
    let input: RunAgentInput = serde_json::from_slice(body)
        .map_err(|error| wrong(format!("the body is no `RunAgentInput`: {error}")))?;
    let RunAgentInput { thread_id, run_id, messages, resume } = input;
    let resume = resume.unwrap_or_default();
    let shown = messages.iter().filter_map(|message| message.get("toolCalls")?.as_array());
    let calls = shown.flatten().filter_map(|call| text(call, "id").map(str::to_owned)).collect();
    let input = match messages.last() {
        // The calls that wait were shown after what the user has said before.
        Some(last) if text(last, "role") == Some("user") => {
            ClientInput::Message(decode_message(last)?)
        }
        _ => ClientInput::Answers(resume.iter().flat_map(decode_answers).collect()),
    };
    Ok(ClientRequest { conversation: thread_id, run: Some(run_id), calls, input })
}

fn decode_message(message: &Value) -> Result<Message, Error> {
    let mut blocks = Vec::new();
    let content = message.get("content");
    blocks.extend(content.and_then(Value::as_str).filter(|it| !it.is_empty()).map(Block::text));
    for part in content.and_then(Value::as_array).into_iter().flatten() {
        match text(part, "type") {
            Some("text") => {
                blocks.extend(text(part, "text").filter(|it| !it.is_empty()).map(Block::text));
            }
            Some("image" | "audio" | "document") => blocks.push(file(part)?),
            other => {
                let other = other.unwrap_or_default();
                return Err(wrong(format!("a part `{other}` of a message cannot be sent")));
            }
        }
    }
    user_message(blocks)
}

fn file(part: &Value) -> Result<Block, Error> {
    let source = part.get("source").unwrap_or(&Value::Null);
    let value = text(source, "value").unwrap_or_default();
    let mime = text(source, "mimeType").or(text(part, "type")).unwrap_or_default();
    let media = match text(source, "type") {
        Some("data") => Media::from_base64(mime, value)?,
        _ => remote_file(value)?,
    };
    Ok(file_block(media, mime))
}

/// What an entry of `resume` can mean. Which of it counts, the call says that waits.
fn decode_answers(entry: &Value) -> Vec<ClientAnswer> {
    let Some(id) = text(entry, "interruptId") else { return Vec::new() };
    let deny = |reason: Option<&str>| ClientDecision::Deny { reason: reason.map(str::to_owned) };
    let payload = entry.get("payload");
    let decisions = match (text(entry, "status"), payload) {
        (Some("cancelled"), _) => vec![deny(None)],
        (Some("resolved"), Some(payload)) => {
            let decision = match payload.get("approved").and_then(Value::as_bool) {
                Some(true) => Some(ClientDecision::Approve),
                Some(false) => Some(deny(text(payload, "reason"))),
                None => None,
            };
            // A form may have a field of this name, and a denial fits a form, too.
            std::iter::once(ClientDecision::Answer(payload.clone())).chain(decision).collect()
        }
        _ => Vec::new(),
    };
    decisions.into_iter().map(|decision| ClientAnswer::new(id, decision)).collect()
}
