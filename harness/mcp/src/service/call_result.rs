//! Converts the result of a call into the protocol's format.

use rmcp::model::{
    CallToolResponse, CallToolResult, ContentBlock, MetaObject, Resource, ResourceContents,
};
use serde_json::Value;

use super::tool_descriptions;
use crate::{IN_DOUBT, OUTCOME};
use harness_core::{
    message::{CallOutcome, Media, ToolContent, ToolResult},
    tool::Tool,
};

/// The error result of a call that did not complete.
pub(super) fn failed(why: String) -> CallToolResponse {
    CallToolResult::error(vec![ContentBlock::text(why)]).into()
}

/// The result of a call that was told to stop and has not ended. A client that reconnects gets this result.
pub(super) fn stopped(tool: &Tool) -> CallToolResponse {
    let why = "The client has cancelled the call, or was away for too long, so the call was told to stop.";
    let truth = match tool.side_effects().is_read_only() {
        true => "It only reads, so nothing has changed.",
        false => {
            "It may still run. It may have partly run: check what it did before you repeat it."
        }
    };
    let answer = CallToolResult::error(vec![ContentBlock::text(format!("{why} {truth}"))]);
    if tool.side_effects().is_read_only() { answer.into() } else { in_doubt(answer) }
}

/// Marks a result with [`OUTCOME`] as in doubt.
fn in_doubt(mut answer: CallToolResult) -> CallToolResponse {
    let outcome = [(OUTCOME.to_owned(), IN_DOUBT.into())].into_iter().collect();
    answer.meta = Some(MetaObject(outcome));
    answer.into()
}

/// The result of a call that has ended. Results above `most` bytes are replaced by a text.
pub(super) fn answer(tool: &Tool, result: &ToolResult, most: usize) -> CallToolResponse {
    let content = result.content();
    let structure = structure(tool, result);
    let size = content.iter().map(size).fold(0, usize::saturating_add);
    let size = size.saturating_add(structure.map_or(0, |value| value.to_string().len()));
    let may_have_run = matches!(result.outcome(), CallOutcome::InDoubt | CallOutcome::StillRunning);
    if size > most {
        let ran = match result.is_error() {
            _ if may_have_run => "may have partly run",
            true => "failed",
            false => "ran to its end",
        };
        let why = format!(
            "the tool {ran}, and what it hands over has {size} bytes, more than the {most} that this server sends"
        );
        let answer = CallToolResult::error(vec![ContentBlock::text(why)]);
        return if may_have_run { in_doubt(answer) } else { answer.into() };
    }
    let mut blocks: Vec<ContentBlock> =
        content.iter().enumerate().map(|(at, part)| block(result.call_id(), at, part)).collect();
    if result.is_error() {
        let answer = CallToolResult::error(blocks);
        return if may_have_run { in_doubt(answer) } else { answer.into() };
    }
    // Clients refuse a successful result if the tool declares structured content and the result has none.
    if structure.is_none() && tool_descriptions::structure(tool).is_some() {
        let why = "The tool ran to its end. What it hands over does not have the structure that it declares: ";
        let why = format!("{why}it is larger than this server's limit, or other content.");
        blocks.insert(0, ContentBlock::text(why));
        return CallToolResult::error(blocks).into();
    }
    let mut answer = CallToolResult::success(blocks);
    answer.structured_content = structure.cloned();
    answer.into()
}

/// The value for the declared output schema: the tool's value, or else its only JSON part. `None` if the tool declares
/// no such schema.
fn structure<'r>(tool: &Tool, result: &'r ToolResult) -> Option<&'r Value> {
    tool_descriptions::structure(tool)?;
    match (result.value(), result.content()) {
        _ if result.is_error() => None,
        (Some(value), _) => Some(value),
        (None, [ToolContent::Json(value)]) => Some(value),
        _ => None,
    }
}

/// The approximate size of a part in bytes.
fn size(part: &ToolContent) -> usize {
    let of =
        |media: &Media| media.base64().or(media.text()).map_or(0, str::len).saturating_add(100);
    match part {
        ToolContent::Text(text) => text.len(),
        ToolContent::Json(value) => value.to_string().len(),
        ToolContent::Image(media) | ToolContent::Audio(media) | ToolContent::Document(media) => {
            of(media)
        }
        ToolContent::Link(link) => link.uri().len().saturating_add(link.name().len()),
    }
}

fn block(call: &str, at: usize, part: &ToolContent) -> ContentBlock {
    match part {
        ToolContent::Text(text) => ContentBlock::text(text),
        ToolContent::Json(value) => ContentBlock::text(value.to_string()),
        ToolContent::Image(media) => {
            file(media, part, |data, mime| ContentBlock::image(data, mime))
        }
        ToolContent::Audio(media) => {
            file(media, part, |data, mime| ContentBlock::audio(data, mime))
        }
        ToolContent::Document(media) => {
            // A resource needs a URI, but a document may have no URI.
            let uri = media.uri().map_or_else(|| format!("harness:{call}/{at}"), str::to_owned);
            let contents = match (media.text(), media.base64()) {
                (Some(text), _) => ResourceContents::text(text, uri),
                (None, Some(data)) => ResourceContents::blob(data, uri),
                (None, None) => return elsewhere(media, part),
            };
            match media.mime().filter(|mime| !mime.is_empty()) {
                Some(mime) => ContentBlock::resource(contents.with_mime_type(mime)),
                None => ContentBlock::resource(contents),
            }
        }
        ToolContent::Link(link) => {
            let mut resource = Resource::new(link.uri(), link.name());
            if let Some(description) = link.description() {
                resource = resource.with_description(description);
            }
            if let Some(mime) = link.mime() {
                resource = resource.with_mime_type(mime);
            }
            ContentBlock::resource_link(resource)
        }
    }
}

/// The content block for a file: its bytes, or a link.
fn file(
    media: &Media,
    part: &ToolContent,
    block: impl FnOnce(&str, &str) -> ContentBlock,
) -> ContentBlock {
    match (media.base64(), media.mime()) {
        (Some(data), Some(mime)) => block(data, mime),
        _ => elsewhere(media, part),
    }
}

/// A file without its bytes: a link, or else a text that describes the file.
fn elsewhere(media: &Media, part: &ToolContent) -> ContentBlock {
    match media.url() {
        Some(url) => ContentBlock::resource_link(Resource::new(url, media.name().unwrap_or(url))),
        None => {
            let told =
                part.media().map(|(kind, media)| media.summary_line(kind)).unwrap_or_default();
            ContentBlock::text(format!("[{told}, is not here]"))
        }
    }
}
