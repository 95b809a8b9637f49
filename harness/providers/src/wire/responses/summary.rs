//! Requests, checks and reuses the vendor's own summary.
//!
//! The summary is a list of items from the vendor: the unchanged messages of the user, and one encrypted item for
//! everything else. Each later request begins with this unchanged list.
//!
//! Source: <https://platform.openai.com/docs/guides/compaction>.

use serde_json::Map;

use super::{
    Options, SUMMARY, WIRE,
    encode::{PLACES, encode_message},
    tools::{LoadedTools, addition},
};
use crate::wire::{
    Encoded, cache,
    encoded::{MessageEncoding, PrefixStability, conversation, thinking_from},
    json::JsonBody,
    media::Recipient,
    optional::OptionalMember,
    prefix,
    tolerant::{ObjectMembers, RawJson, elements, text_of},
};
use harness_core::{error::Error, provider::Request};

/// The type of the encrypted item, which replaces everything except the user's messages.
const ITEM: &str = "compaction";

/// Encodes the body of a request for a summary. Leaves out the settings for answers, because the vendor creates no
/// answer.
///
/// # Errors
/// - [`ErrorKind::Transcript`](harness_core::error::ErrorKind::Transcript): no message of the conversation can be sent.
/// - [`ErrorKind::Content`](harness_core::error::ErrorKind::Content): the user's last message contains a file that this
///   recipient does not accept.
pub fn encode_summary(request: &Request<'_>, options: &Options) -> Result<Encoded, Error> {
    let Options { model, settings, takes, refused, .. } = options;
    let nothing = Map::new();
    let mut body = JsonBody::new(&nothing, &[], *refused)?;
    body.value("model", model);
    cache::write(&mut body, request, settings, takes);
    body.maybe("instructions", request.system().filter(|system| !system.trim().is_empty()));
    let thinking_from = thinking_from(request, settings, false);
    let strict = settings.strict_tools.unwrap_or(false);
    let is = format!("{WIRE} {thinking_from}{}", prefix::form(request, strict));
    let form = MessageEncoding { is, mark: None };
    let to = Recipient { takes, places: &PLACES };
    // The vendor summarizes texts, and this request has no tools.
    let loaded = LoadedTools::default();
    conversation(body, "input", b"", form, request, to, &|out, before, message| {
        encode_message(out, before, message, before.len() >= thinking_from, &loaded, to);
        if let Some(added) = prefix::behind(request, message) {
            addition(out, added, strict, !refused.has(OptionalMember::Strict));
        }
        PrefixStability::Always
    })
}

/// Checks the items of the vendor's summary. Returns the JSON that stores these items, or the reason why the summary is
/// not usable.
pub(super) fn of_output(output: &[RawJson<'_>]) -> Result<String, String> {
    let mut summaries = 0_usize;
    for (at, item) in output.iter().enumerate() {
        let members = ObjectMembers::of(item.get());
        let text = |name| text_of(members.get(name));
        match text("type").as_str() {
            ITEM if text("encrypted_content").is_empty() => {
                return Err("the vendor's own summary is empty".to_owned());
            }
            ITEM if at.saturating_add(1) < output.len() => {
                return Err("the vendor's own summary is not the last item that it gave".to_owned());
            }
            ITEM => summaries = summaries.saturating_add(1),
            "message" if text("role") != "user" => {
                let role = text("role");
                return Err(format!("words of `{role}` stand before the vendor's own summary"));
            }
            "function_call"
            | "custom_tool_call"
            | "function_call_output"
            | "custom_tool_call_output" => {
                return Err("a call stands before the vendor's own summary".to_owned());
            }
            // The user's messages and items of unknown types need no check.
            _ => {}
        }
    }
    if summaries == 0 {
        return Err("the vendor gave items without a summary of its own".to_owned());
    }
    let items: Vec<&str> = output.iter().map(|item| item.get()).collect();
    Ok(format!(r#"{{"object":"{SUMMARY}","output":[{}]}}"#, items.join(",")))
}

/// The items of a summary; `None` if `json` is not a summary.
pub(super) fn items(json: &str) -> Option<Vec<&str>> {
    if !json.contains(SUMMARY) {
        return None;
    }
    let members = ObjectMembers::of(json);
    (text_of(members.get("object")) == SUMMARY)
        .then(|| elements(members.get("output").unwrap_or_default()))
}
