//! Selects the results and arguments to clear, and makes their replacements.

use memchr::memmem;
use serde_json::Value;

use super::window::percent;
use crate::{
    journal::{ClearedArguments, ClearedResult},
    message::{Arguments, Block, Message, Messages, ToolCall, ToolContent, ToolResult},
    provider::tokens_of,
    tool::{LEFT_OUT, READ_RESULT, name_of_arguments},
};

/// The size of the last part of the conversation, in percent of the window. Nothing is cleared in this part, because
/// the model is working with it.
const TAIL: u8 = 15;

/// The index of the first message whose results are not cleared. The last message is never cleared, because the model
/// has not read it yet.
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

/// The placeholder line that replaces a result, and the number of tokens that the line saves. `None` if the line saves
/// too little. `at` is the index, in the transcript, of the message with the result; the call is in the message before.
/// `sent` is the result as it is currently sent, possibly without some files.
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

/// The names under which the full texts of a result are stored, each in backticks. `None` if there are none.
#[doc(hidden)]
pub fn kept_as(result: &ToolResult) -> Option<String> {
    let names: Vec<String> = result.wholes().iter().map(|name| format!("`{name}`")).collect();
    let (last, others) = names.split_last()?;
    match others {
        [] => Some(last.clone()),
        others => Some(format!("{} and {last}", others.join(", "))),
    }
}

/// The size in bytes above which an argument is long. The arguments of a call are long if their total size is above
/// this value.
#[doc(hidden)]
pub const LONG: usize = 400;

/// The replacement for the arguments of a call, and the number of tokens that the replacement saves. A placeholder line
/// replaces each long argument. `message` is the index of the call's message, `number` the number of the call in that
/// message. A call that the vendor signed is never changed.
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

/// An argument into which the model copied a placeholder line.
#[doc(hidden)]
#[derive(Debug)]
pub struct CopiedLine {
    pub argument: String,
    /// The name of the full arguments in the placeholder line, if the model copied the name completely.
    pub name: Option<String>,
}

/// Finds an argument that contains a copy of a placeholder line, in a name or anywhere in a text. A model that sees
/// placeholder lines in its earlier calls may mistake these lines for its own text and repeat them: inside a longer
/// text, in a JSON string, shortened, or with changed spaces and punctuation.
#[doc(hidden)]
pub fn copied_line(arguments: &Arguments) -> Option<CopiedLine> {
    arguments.iter().find_map(|(argument, value)| {
        let name = line_in_text(argument).or_else(|| line_in(value))?;
        Some(CopiedLine { argument: argument.clone(), name })
    })
}

/// Whether a call or a text of these messages contains a placeholder line for arguments. For example, a conversation
/// can begin with messages from another conversation, which has already cleared their arguments.
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

/// Finds a placeholder line in a text. The outer `Option` is `None` if there is no such line. The inner `Option` is
/// `None` if the name in the line is incomplete. Three phrases identify a line: a number and *bytes stood here* in
/// brackets; *bytes stood here* before *were left out*; and *left out to save room* before the name of the stored
/// arguments.
fn line_in_text(text: &str) -> Option<Option<String>> {
    if !may_have_line(text) {
        return None;
    }
    let words = folded(text);
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

/// Whether a text can contain a placeholder line, because it contains *stood* or *left*. This is a quick check, so that
/// [`folded`] reads only few texts.
fn may_have_line(text: &str) -> bool {
    let mut text = text.to_ascii_lowercase();
    if !text.is_ascii() {
        text.retain(|it| !is_invisible(it));
    }
    ["stood", "left"].iter().any(|word| memmem::find(text.as_bytes(), word.as_bytes()).is_some())
}

/// Whether a text contains a size in brackets, such as *[1206 bytes stood here]*.
fn is_bracketed(text: &str) -> bool {
    text.split('[').skip(1).any(|part| {
        let Some((size, rest)) = part.split_once(" bytes stood here") else { return false };
        let is_size = !size.is_empty()
            && size.bytes().all(|it| matches!(it, b'0'..=b'9' | b',' | b'.' | b'_'));
        is_size && matches!(rest.chars().next(), None | Some(']' | ',' | '.' | ';'))
    })
}

const BYTES: &str = "bytes";

/// Whether a word is *bytes*, possibly with a number directly before it.
fn is_bytes(word: &str) -> bool {
    word.strip_suffix(BYTES).is_some_and(|before| before.bytes().all(|it| it.is_ascii_digit()))
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|it| it.is_ascii_digit())
}

/// The index of the last of the `wanted` words, if all of them follow the word at `at` in order. Before each wanted
/// word, one other short word is allowed, such as a line number or a remainder of markup.
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

/// Reads the name of the full arguments from the words of a placeholder line.
fn name_in(words: &[&str]) -> Option<String> {
    let names = words.iter().take(NAME_AFTER).enumerate().filter(|(_, word)| **word == "whole");
    names.map(|(at, _)| words.get(at..).unwrap_or_default()).find_map(|words| match words {
        ["whole", "as", "a", message, call, ..] if is_number(message) && is_number(call) => {
            Some(format!("a-{message}-{call}"))
        }
        _ => None,
    })
}

/// The maximum number of words between the beginning of a placeholder line and the name in it.
const NAME_AFTER: usize = 30;

/// The words of a text in lower case, separated by single spaces, so that spaces, punctuation and escapes cannot hide a
/// placeholder line.
fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(it) = rest.chars().next() {
        let mut size = it.len_utf8();
        match it {
            _ if is_invisible(it) => {}
            _ if it.is_ascii_alphanumeric() => folded.push(it.to_ascii_lowercase()),
            _ => {
                if let '\\' | '&' | '<' | '%' = it {
                    let space = SPACES.iter().find(|space| rest.starts_with(**space));
                    size = space.map_or(size, |it| it.len());
                }
                if !folded.ends_with(' ') {
                    folded.push(' ');
                }
            }
        }
        rest = rest.get(size..).unwrap_or_default();
    }
    folded
}

/// Whether a character is invisible, so that it could split a word.
fn is_invisible(it: char) -> bool {
    matches!(it, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}')
}

/// The forms in which JSON strings, HTML and URLs contain spaces and line breaks.
const SPACES: [&str; 9] =
    ["\\n", "\\r", "\\t", "\\u0020", "&nbsp;", "&#32;", "&#x20;", "<br>", "%20"];

/// The minimum number of tokens that a replacement must save.
const LEAST: u64 = 20;
