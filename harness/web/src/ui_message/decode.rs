//! Reads the request of `DefaultChatTransport`.

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
struct RequestBody {
    id: String,
    messages: Vec<Value>,
    trigger: Option<String>,
    message_id: Option<String>,
}

/// Reads the body of a request. If the newest message is one of the user, it is what the user says; otherwise the request has
/// answers to calls that wait.
///
/// # Errors
/// Fails with [`ErrorKind::Configuration`](harness_core::error::ErrorKind) if the body is none of `DefaultChatTransport`, if the
/// message is empty or has a file that cannot be read, and if the client asks for another answer to an earlier message
/// (`regenerate`) or changes one (`sendMessage` with a `messageId`), since what was said stays said.
pub fn decode_request(body: &[u8]) -> Result<ClientRequest, Error> {
    let body: RequestBody = serde_json::from_slice(body)
        .map_err(|error| wrong(format!("the body is no request of `useChat`: {error}")))?;
    let RequestBody { id: conversation, messages, trigger, message_id } = body;
    if trigger.as_deref() == Some("regenerate-message") {
        return Err(wrong("an answer cannot be made again: send another message"));
    }
    let is_role = |message: &Value, role: &str| text(message, "role") == Some(role);
    // The answers of one message can be sent while there is a later message, which was sent before.
    let continues = messages.iter().any(|message| {
        is_role(message, "assistant")
            && message_id.is_some()
            && text(message, "id") == message_id.as_deref()
    });
    let input = match messages.last() {
        Some(last) if is_role(last, "user") && !continues => {
            // A new message comes without this id.
            if message_id.is_some() {
                return Err(wrong("a message cannot be changed: send another message"));
            }
            ClientInput::Message(decode_message(last)?)
        }
        _ => {
            let of_model = messages.iter().filter(|message| is_role(message, "assistant"));
            ClientInput::Answers(of_model.flat_map(parts).filter_map(answer).collect())
        }
    };
    Ok(ClientRequest { conversation, run: None, input })
}

fn parts(message: &Value) -> impl Iterator<Item = &Value> {
    message.get("parts").and_then(Value::as_array).into_iter().flatten()
}

fn decode_message(message: &Value) -> Result<Message, Error> {
    let mut blocks = Vec::new();
    for part in parts(message) {
        match text(part, "type") {
            Some("text") => {
                blocks.extend(text(part, "text").filter(|it| !it.is_empty()).map(Block::text))
            }
            Some("file") => blocks.push(file(part)?),
            _ => {}
        }
    }
    user_message(blocks)
}

fn file(part: &Value) -> Result<Block, Error> {
    let mime = text(part, "mediaType").unwrap_or_default();
    let url = text(part, "url").unwrap_or_default();
    let (media, mime) = match url.strip_prefix("data:").and_then(|it| it.split_once(";base64,")) {
        Some((own, data)) => {
            let mime = if mime.is_empty() { own } else { mime };
            (Media::from_base64(mime, data)?, mime)
        }
        None => (remote_file(url)?, mime),
    };
    let named = text(part, "filename").map(|name| media.clone().with_name(name));
    Ok(file_block(named.unwrap_or(media), mime))
}

/// The answer that a part of a tool has. Whether it answers anything is seen when it is recorded.
fn answer(part: &Value) -> Option<ClientAnswer> {
    match text(part, "state")? {
        "approval-responded" => {
            let approval = part.get("approval")?;
            let decision = match approval.get("approved")?.as_bool()? {
                true => ClientDecision::Approve,
                false => {
                    ClientDecision::Deny { reason: text(approval, "reason").map(str::to_owned) }
                }
            };
            Some(ClientAnswer::new(text(approval, "id")?, decision))
        }
        "output-available" => {
            let output = part.get("output")?;
            let decision = ClientDecision::Answer(output.get("answer")?.clone());
            Some(ClientAnswer::new(text(output, "form")?, decision))
        }
        _ => None,
    }
}
