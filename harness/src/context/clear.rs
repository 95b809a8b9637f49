//! Which results are cleared, and what is sent in their place.

use super::window::percent;
use crate::{
    journal::ClearedResult,
    message::{Message, Messages, ToolContent, ToolResult},
    provider::tokens_of,
    tool::{READ_RESULT, name_in},
};

/// So many percent of the window at its end stay as they are: what the model works on.
const TAIL: u8 = 15;

/// The message from which on results stay: the last message always does, since the model has not read it.
pub(crate) fn tail(sent: &Messages, window: u64) -> usize {
    let room = percent(window, TAIL);
    let mut tokens: u64 = 0;
    let stays = sent.iter().rev().take_while(|message| {
        tokens = tokens.saturating_add(tokens_of(message));
        tokens <= room
    });
    sent.len().saturating_sub(stays.count().max(1))
}

/// The line that is sent in the place of a result, and how many tokens fewer it has. Of results that are hardly
/// longer there is none. `at` is the place of the result in the transcript, in the message after its call.
pub(crate) fn clear(
    all: &Messages,
    at: usize,
    result: &ToolResult,
) -> Option<(ClearedResult, u64)> {
    let asked = all.get(at.checked_sub(1)?)?;
    let tool = asked.calls().find(|call| call.id() == result.call_id())?.name();
    let bytes: usize =
        result.content().iter().filter_map(ToolContent::to_text).map(|it| it.len()).sum();
    let files = result.content().iter().filter(|part| part.media().is_some()).count();
    let kept = result.content().iter().find_map(|part| match part {
        ToolContent::Text(text) => name_in(text),
        _ => None,
    });
    let size = match files {
        0 => format!("{bytes} bytes"),
        1 => format!("{bytes} bytes of text and a file"),
        files => format!("{bytes} bytes of text and {files} files"),
    };
    let how = match kept {
        Some(name) => format!("The whole is kept as `{name}`, which `{READ_RESULT}` reads."),
        None => format!("Call `{tool}` again if you need it."),
    };
    let text = format!("[The result of `{tool}`, {size}, was left out to save room. {how}]");
    let as_message = |text: &str| tokens_of(&Message::user(text));
    let was = tokens_of(&Message::results_of(asked, [result.clone()]));
    let saved = was.checked_sub(as_message(&text)).filter(|saved| *saved >= LEAST)?;
    Some((ClearedResult::new(result.call_id(), text), saved))
}

/// So many tokens are worth a line.
const LEAST: u64 = 20;
