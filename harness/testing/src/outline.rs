//! Formats a conversation as text, so that a test can compare it as one value.

use harness_core::message::{Block, CallOutcome, Media, Message, Role};

/// Formats a conversation as text with one line per block, so that a test can compare the whole
/// conversation. Ids and times are left out, because they differ between runs.
///
/// ```
/// use harness::{Block, CallOutcome, Message, Role, ToolCall, ToolResult, testing::outline};
///
/// let said = [
///     Message::user("Oslo?"),
///     Message::assistant([
///         Block::text("Let me see."),
///         Block::ToolCall(ToolCall::new("call_1", "weather", r#"{"city":"Oslo"}"#)),
///     ]),
///     Message::new(
///         Role::Tool,
///         [Block::ToolResult(ToolResult::new("call_1", CallOutcome::Succeeded, ["4 °C".into()]))],
///     ),
/// ];
/// let expected = r#"
/// user: Oslo?
/// assistant: Let me see.
/// assistant: call weather {"city":"Oslo"}
/// tool: succeeded: 4 °C
/// "#;
/// assert_eq!(outline(&said), expected.trim_start());
/// ```
pub fn outline<'a>(messages: impl IntoIterator<Item = &'a Message>) -> String {
    let mut lines = String::new();
    for message in messages {
        for block in message.blocks() {
            lines.push_str(speaker(message.role()));
            lines.push_str(": ");
            lines.push_str(&line(block));
            lines.push('\n');
        }
    }
    lines
}

fn speaker(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

fn line(block: &Block) -> String {
    match block {
        Block::Text(text) => text.text().to_owned(),
        Block::Image(media) => format!("image {}", what(media)),
        Block::Audio(media) => format!("audio {}", what(media)),
        Block::Document(media) => format!("document {}", what(media)),
        Block::ToolCall(call) if call.arguments().is_empty() => format!("call {}", call.name()),
        Block::ToolCall(call) => format!("call {} {}", call.name(), call.arguments()),
        Block::ToolResult(result) => {
            format!("{}: {}", outcome(result.outcome()), result.to_text())
        }
        Block::Reasoning(thought) => format!("thinks {}", thought.text()),
        Block::Vendor(data) => format!("{} data {}", data.wire(), data.json()),
    }
}

/// The name of a file, or else its URL, its id or its media type.
fn what(media: &Media) -> &str {
    let id = media.file_id().map(|(id, _)| id);
    media.name().or(media.url()).or(id).or(media.mime()).unwrap_or_default()
}

fn outcome(outcome: CallOutcome) -> &'static str {
    match outcome {
        CallOutcome::Succeeded => "succeeded",
        CallOutcome::Failed => "failed",
        CallOutcome::Denied => "denied",
        CallOutcome::NotStarted => "not started",
        CallOutcome::StoppedReading => "stopped reading",
        CallOutcome::InDoubt => "in doubt",
        CallOutcome::StillRunning => "still running",
    }
}
