//! Decides which results and arguments are cleared, and what is sent in their place.

use serde_json::Value;

use super::window::percent;
use crate::{
    journal::{ClearedArguments, ClearedResult},
    message::{Arguments, Block, Message, Messages, ToolCall, ToolContent, ToolResult},
    provider::tokens_of,
    tool::{LEFT_OUT, READ_RESULT, name_of_arguments},
};

/// The percentage of the window, at the end of the conversation, in which nothing is cleared: the
/// model is working on it.
const TAIL: u8 = 15;

/// The index of the first message whose results are not cleared. The last message is never cleared,
/// since the model has not read it yet.
#[doc(hidden)]
pub fn tail(sent: &Messages, window: u64) -> usize {
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
/// the message before it. `sent` is the result as it is sent now: some of its files may be left out.
#[doc(hidden)]
pub fn clear(
    all: &Messages,
    at: usize,
    result: &ToolResult,
    sent: &ToolResult,
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
    let was = tokens_of(&Message::results_of(asked, [sent.clone()]));
    let saved = was.checked_sub(as_message(&text)).filter(|saved| *saved >= LEAST)?;
    Some((ClearedResult::new(result.call_id(), text), saved))
}

/// The names under which the whole texts of a result are kept, each in backticks.
#[doc(hidden)]
pub fn kept_as(result: &ToolResult) -> Option<String> {
    let names: Vec<String> = result.wholes().iter().map(|name| format!("`{name}`")).collect();
    let (last, others) = names.split_last()?;
    match others {
        [] => Some(last.clone()),
        others => Some(format!("{} and {last}", others.join(", "))),
    }
}

/// An argument with more bytes than this is long. The arguments of a call are long if all of them
/// together have more bytes.
#[doc(hidden)]
pub const LONG: usize = 400;

/// The arguments that are sent in place of those of this call, and how many tokens they save. Each
/// long argument is replaced by a line. The call is given by the index of its message and its
/// number in that message. A call that its vendor has signed is never changed.
#[doc(hidden)]
pub fn clear_arguments(
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

/// An argument that repeats the line for a cleared argument.
#[doc(hidden)]
#[derive(Debug)]
pub struct CopiedLine {
    pub argument: String,
    /// The name in the line, if it is whole.
    pub name: Option<String>,
}

/// Finds an argument that repeats the line for a cleared argument, anywhere in a text or a name. A model that sees such
/// lines in its earlier calls may take them for what it wrote there, and write them again as a part of a text, in JSON
/// in a string, shorter, or with other spaces and marks.
#[doc(hidden)]
pub fn copied_line(arguments: &Arguments) -> Option<CopiedLine> {
    arguments.iter().find_map(|(argument, value)| {
        let name = line_in_text(argument).or_else(|| line_in(value))?;
        Some(CopiedLine { argument: argument.clone(), name })
    })
}

/// Whether a call or a text of these messages has the line for a cleared argument, such as in a conversation that begins
/// with what was sent in another one.
#[doc(hidden)]
pub fn has_line(messages: &Messages) -> bool {
    messages.iter().flat_map(Message::blocks).any(|block| match block {
        Block::ToolCall(call) => line_in_text(call.arguments()).is_some(),
        Block::Text(text) => line_in_text(text.text()).is_some(),
        _ => false,
    })
}

fn line_in(value: &Value) -> Option<Option<String>> {
    match value {
        Value::String(text) => line_in_text(text),
        Value::Array(items) => items.iter().find_map(line_in),
        Value::Object(members) => {
            members.iter().find_map(|(name, value)| line_in_text(name).or_else(|| line_in(value)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// The name in the first such line of a text, if there is a line and its name is whole. A line is known by the words
/// *bytes stood here* if they stand in brackets after a number or before *were left out*, and by *left out to save room*
/// before the name of arguments.
fn line_in_text(text: &str) -> Option<Option<String>> {
    let words = folded(text);
    if !words.contains("stood") && !words.contains("left out") {
        return None;
    }
    let words: Vec<&str> = words.split_ascii_whitespace().collect();
    let rest = |at: usize| words.get(at..).unwrap_or_default();
    let places = || words.iter().enumerate();
    let by_size = places().filter(|(_, word)| is_bytes(word)).find_map(|(at, _)| {
        let end = follow(&words, at, &["stood", "here"])?;
        let left_out = |and: &[&str]| follow(&words, end, and).is_some();
        let is_it = left_out(&["and", "were", "left", "out"]) || left_out(&["were", "left", "out"]);
        is_it.then(|| name_in(rest(end)))
    });
    let by_name = || {
        places().filter(|(_, word)| **word == "left").find_map(|(at, _)| {
            let end = follow(&words, at, &["out", "to", "save", "room"])?;
            name_in(rest(end)).map(Some)
        })
    };
    by_size.or_else(by_name).or_else(|| is_bracketed(text).then_some(None))
}

/// Whether a text has a size in brackets, such as *[1206 bytes stood here]*.
fn is_bracketed(text: &str) -> bool {
    text.split('[').skip(1).any(|part| {
        let Some((size, rest)) = part.split_once(" bytes stood here") else { return false };
        let is_size = !size.is_empty()
            && size.bytes().all(|it| matches!(it, b'0'..=b'9' | b',' | b'.' | b'_'));
        is_size && matches!(rest.chars().next(), None | Some(']' | ',' | '.' | ';'))
    })
}

const BYTES: &str = "bytes";

/// Whether a word is *bytes*, maybe with a number before it.
fn is_bytes(word: &str) -> bool {
    word.strip_suffix(BYTES).is_some_and(|before| before.bytes().all(|it| it.is_ascii_digit()))
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|it| it.is_ascii_digit())
}

/// The place of the last of these words, if they follow the one at `at` with at most one short word between two of them,
/// such as the number of a line or what is left of markup.
fn follow(words: &[&str], at: usize, wanted: &[&str]) -> Option<usize> {
    wanted.iter().try_fold(at, |at, wanted| {
        let next = at.saturating_add(1);
        let is_next = |at: usize| words.get(at).is_some_and(|word| word == wanted);
        let between = || words.get(next).is_some_and(|word| word.len() <= 4);
        match is_next(next) {
            true => Some(next),
            false => Some(next.saturating_add(1)).filter(|at| between() && is_next(*at)),
        }
    })
}

/// The name that a line gives, in the words after its beginning.
fn name_in(words: &[&str]) -> Option<String> {
    let names = words.iter().take(NAME_AFTER).enumerate().filter(|(_, word)| **word == "whole");
    names.map(|(at, _)| words.get(at..).unwrap_or_default()).find_map(|words| match words {
        ["whole", "as", "a", message, call, ..] if is_number(message) && is_number(call) => {
            Some(format!("a-{message}-{call}"))
        }
        _ => None,
    })
}

/// In how many words after the beginning of a line its name is looked for.
const NAME_AFTER: usize = 30;

/// The words of a text in lower case, one space between them: neither spaces, marks nor escapes hide the line.
fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(it) = rest.chars().next() {
        let mut size = it.len_utf8();
        match it {
            // They are not seen.
            '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' => {}
            _ if it.is_ascii_alphanumeric() => folded.push(it.to_ascii_lowercase()),
            _ => {
                size = SPACES
                    .iter()
                    .find(|space| rest.starts_with(**space))
                    .map_or(size, |it| it.len());
                if !folded.ends_with(' ') {
                    folded.push(' ');
                }
            }
        }
        rest = rest.get(size..).unwrap_or_default();
    }
    folded
}

/// How spaces and line breaks are written in JSON that is in a string, in HTML and in URLs.
const SPACES: [&str; 9] =
    ["\\n", "\\r", "\\t", "\\u0020", "&nbsp;", "&#32;", "&#x20;", "<br>", "%20"];

/// A line has to save at least this many tokens.
const LEAST: u64 = 20;
