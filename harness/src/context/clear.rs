//! Decides which results and arguments are cleared, and what is sent in their place.

use serde_json::Value;

use super::window::percent;
use crate::{
    journal::{ClearedArguments, ClearedResult},
    message::{Arguments, Block, Message, Messages, ToolCall, ToolContent, ToolResult},
    provider::tokens_of,
    tool::{READ_RESULT, name_of_arguments},
};

/// The percentage of the window, at the end of the conversation, in which nothing is cleared: the
/// model is working on it.
const TAIL: u8 = 15;

/// The index of the first message whose results are not cleared. The last message is never cleared,
/// since the model has not read it yet.
pub(crate) fn tail(sent: &Messages, window: u64) -> usize {
    let room = percent(window, TAIL);
    let mut tokens: u64 = 0;
    let stays = sent.iter().rev().take_while(|message| {
        tokens = tokens.saturating_add(tokens_of(message));
        tokens <= room
    });
    sent.len().saturating_sub(stays.count().max(1))
}

/// The line that is sent in place of a result, and how many tokens it saves. `None` if it saves too
/// little. `at` is the index in the transcript of the message that has the result; the call is in
/// the message before it.
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
    let size = match files {
        0 => format!("{bytes} bytes"),
        1 => format!("{bytes} bytes of text and a file"),
        files => format!("{bytes} bytes of text and {files} files"),
    };
    let how = match kept_as(result) {
        Some(names) => format!("The whole is kept as {names}, which `{READ_RESULT}` reads."),
        None => format!("Call `{tool}` again if you need it."),
    };
    let text = format!("[The result of `{tool}`, {size}, was left out to save room. {how}]");
    let as_message = |text: &str| tokens_of(&Message::user(text));
    let was = tokens_of(&Message::results_of(asked, [result.clone()]));
    let saved = was.checked_sub(as_message(&text)).filter(|saved| *saved >= LEAST)?;
    Some((ClearedResult::new(result.call_id(), text), saved))
}

/// The names under which the whole texts of a result are kept, each in backticks.
pub(super) fn kept_as(result: &ToolResult) -> Option<String> {
    let names: Vec<String> = result.wholes().iter().map(|name| format!("`{name}`")).collect();
    let (last, others) = names.split_last()?;
    match others {
        [] => Some(last.clone()),
        others => Some(format!("{} and {last}", others.join(", "))),
    }
}

/// An argument with more bytes than this is long. The arguments of a call are long if all of them
/// together have more bytes.
pub(crate) const LONG: usize = 400;

/// The arguments that are sent in place of those of this call, and how many tokens they save. Each
/// long argument is replaced by a line. The call is given by the index of its message and its
/// number in that message. A call that its vendor has signed is never changed.
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
            *value = Value::String(format!("[{bytes}{LEFT_OUT}{name}`.]"));
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

/// The part of the line between the argument's size and the name under which it can be read.
const LEFT_OUT: &str = " bytes stood here, and were left out to save room: `read_result` reads these arguments whole as `";

/// Finds an argument that repeats the line for a cleared argument, anywhere in a text or a name. Returns the name of the
/// argument and the name in the line. A model that sees such lines in its earlier calls may take them for what it wrote
/// there, and write them again as a part of a text, in JSON in a string, or with other spaces and marks.
pub(crate) fn copied_line(arguments: &Arguments) -> Option<(String, String)> {
    let line = folded(LEFT_OUT);
    let line = line.trim();
    let copies =
        |name: &str, value: &Value| line_in_text(name, line).or_else(|| line_in(value, line));
    arguments.iter().find_map(|(name, value)| Some((name.clone(), copies(name, value)?)))
}

/// Whether a call or a text of these messages has the line for a cleared argument, such as in a conversation that begins
/// with what was sent in another one.
pub(crate) fn has_line(messages: &Messages) -> bool {
    let line = folded(LEFT_OUT);
    let copies = |text: &str| line_in_text(text, line.trim()).is_some();
    messages.iter().flat_map(Message::blocks).any(|block| match block {
        Block::ToolCall(call) => copies(call.arguments()),
        Block::Text(text) => copies(text.text()),
        _ => false,
    })
}

fn line_in(value: &Value, line: &str) -> Option<String> {
    match value {
        Value::String(text) => line_in_text(text, line),
        Value::Array(items) => items.iter().find_map(|item| line_in(item, line)),
        Value::Object(members) => {
            let of = |(name, value): (&String, &Value)| {
                line_in_text(name, line).or_else(|| line_in(value, line))
            };
            members.iter().find_map(of)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// The name in the first such line of a text.
fn line_in_text(text: &str, line: &str) -> Option<String> {
    if text.len() < line.len() {
        return None;
    }
    let text = folded(text);
    text.split(line).skip(1).find_map(|rest| {
        let name = rest.trim_start().split(' ').next()?;
        let (message, call) = name.strip_prefix("a-")?.split_once('-')?;
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
        (is_number(message) && is_number(call)).then(|| name.to_owned())
    })
}

/// The words of a text in lower case, one space between them: neither spaces nor marks hide the line.
fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for it in text.chars() {
        match it {
            _ if it.is_ascii_alphanumeric() || it == '-' => folded.push(it.to_ascii_lowercase()),
            _ if folded.ends_with(' ') => {}
            _ => folded.push(' '),
        }
    }
    folded
}

/// A line has to save at least this many tokens.
const LEAST: u64 = 20;
