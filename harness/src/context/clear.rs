//! Which results and arguments are cleared, and what is sent in their place.

use serde_json::Value;

use super::window::percent;
use crate::{
    journal::{ClearedArguments, ClearedResult},
    message::{Arguments, Block, Message, Messages, ToolCall, ToolContent, ToolResult},
    provider::tokens_of,
    tool::{READ_RESULT, name_in, name_of_arguments},
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

/// An argument of more bytes is long, and so are the arguments of a call that have more together.
pub(crate) const LONG: usize = 400;

/// The arguments that are sent in the place of those of the call of this place, and how many tokens fewer they have. A
/// line stands for each long one. A call that its vendor has signed stays as it came.
pub(crate) fn clear_arguments(
    (message, number): (usize, usize),
    call: &ToolCall,
) -> Option<(ClearedArguments, u64)> {
    if call.vendor().is_some_and(|data| data.json().contains("ignature\"")) {
        return None;
    }
    let mut arguments = call.decoded().ok()?.into_map();
    let name = name_of_arguments(message, number);
    for value in arguments.values_mut() {
        let bytes = match &*value {
            Value::String(text) => text.len(),
            other => other.to_string().len(),
        };
        if bytes > LONG {
            *value = Value::String(format!("[{bytes}{LEFT_OUT}{name}{END}"));
        }
    }
    let text = Value::Object(arguments).to_string();
    let as_call = |text: &str| {
        let call = ToolCall::new(call.id(), call.name(), text).with_vendor(call.vendor().cloned());
        tokens_of(&Message::assistant([Block::ToolCall(call)]))
    };
    let saved = as_call(call.arguments()).checked_sub(as_call(&text));
    let saved = saved.filter(|saved| *saved >= LEAST)?;
    let place = |place: usize| u64::try_from(place).unwrap_or(u64::MAX);
    Some((ClearedArguments::new(place(message), place(number), text), saved))
}

/// What stands in the line for an argument between its size and the name by which it is read.
const LEFT_OUT: &str = " bytes stood here, and were left out to save room: `read_result` reads these arguments whole as `";

/// How that line ends.
const END: &str = "`.]";

/// The argument of a call that gives the line for an argument of an earlier call, and the name in the line. A model that
/// reads such lines in what it has called may believe that they are what it wrote.
pub(crate) fn copied_line(arguments: &Arguments) -> Option<(String, String)> {
    arguments.iter().find_map(|(name, value)| Some((name.clone(), line_in(value)?.to_owned())))
}

fn line_in(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => {
            let text = text.trim().strip_prefix('[')?.strip_suffix(END)?;
            let (bytes, name) = text.split_once(LEFT_OUT)?;
            let is_line =
                bytes.bytes().all(|it| it.is_ascii_digit()) && !name.contains(char::is_whitespace);
            is_line.then_some(name)
        }
        Value::Array(items) => items.iter().find_map(line_in),
        Value::Object(members) => members.values().find_map(line_in),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// So many tokens are worth a line.
const LEAST: u64 = 20;
