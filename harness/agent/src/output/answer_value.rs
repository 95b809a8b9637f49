//! Finds the one JSON value of an answer in the text of a model. The value may be the whole text, have
//! sentences before or after it, or be in a code block or between special tokens of a template.

use serde_json::{Deserializer, Value};

use harness_core::{
    message::{in_line, is_strict},
    secret::beginning,
};

/// How many bytes of a value are quoted in a fault.
const QUOTED: usize = 120;

/// The highest number of bytes that the search reads without finding a value, as a multiple of the length of
/// the text.
const WORK: usize = 64;

/// The tags around reasoning in a text.
const THOUGHTS: [[&str; 2]; 4] = [
    ["<think>", "</think>"],
    ["<thinking>", "</thinking>"],
    ["<thought>", "</thought>"],
    ["[THINK]", "[/THINK]"],
];

/// Special tokens of templates that some servers leave at the ends of a text. Tokens of the form `<|name|>` are
/// not in this list.
const MARKS: [&str; 9] =
    ["<s>", "</s>", "<bos>", "<eos>", "<end_of_turn>", "[INST]", "[/INST]", "[BOS]", "[EOS]"];

/// Finds the only value in the answer that `fits` accepts, or returns everything that is wrong. The first of
/// `words` is the whole text. If the text has several parts, the last of `words` is the last part.
pub(crate) fn find_value(
    words: &[String],
    fits: impl Fn(Value) -> Result<Value, Vec<String>>,
) -> Result<Value, Vec<String>> {
    let mut found = ValueCandidates::default();
    let texts: Vec<&str> = words.iter().map(|text| without_marks(text)).collect();
    match *texts {
        [] => {}
        [all] => {
            if !found.read_whole(all, &fits) {
                found.scan(all, &fits);
            }
        }
        // The earlier parts may be an introduction. Then the last part alone is the answer.
        [all, .., last] => {
            let is_whole = found.read_whole(last, &fits);
            if is_whole || !found.read_whole(all, &fits) {
                found.scan(all, &fits);
            }
        }
    }
    found.only()
}

#[derive(Default)]
struct ValueCandidates {
    /// Up to two different values that fit, each with its text.
    fitting: Vec<(Value, String)>,
    /// The faults of the last value that does not fit.
    faults: Vec<String>,
    /// The parse error of the last object or list that was cut off or is not valid JSON. Without such an object
    /// or list, the parse error of the whole text.
    wrong: Option<String>,
}

impl ValueCandidates {
    /// Returns the only value that was found, or everything that is wrong.
    fn only(self) -> Result<Value, Vec<String>> {
        let Self { mut fitting, faults, wrong } = self;
        if let [(_, one), (_, other), ..] = &*fitting {
            let quoted = |text: &str| format!("`{}`", in_line(&beginning(text, QUOTED)));
            return Err(vec![format!(
                "the answer has two different values that both fit, {} and {}: write only the one that counts",
                quoted(one),
                quoted(other)
            )]);
        }
        match fitting.pop() {
            Some((value, _)) => Ok(value),
            None if !faults.is_empty() => Err(faults),
            None => Err(vec![wrong.unwrap_or_else(|| "the answer is empty".to_owned())]),
        }
    }

    /// Reads the whole text as one value. Returns whether the text is one value.
    fn read_whole(
        &mut self,
        text: &str,
        fits: impl Fn(Value) -> Result<Value, Vec<String>>,
    ) -> bool {
        if text.is_empty() {
            return false;
        }
        match serde_json::from_str::<Value>(text) {
            Ok(value) => {
                self.add(value, text, fits);
                true
            }
            Err(err) => {
                self.wrong.get_or_insert_with(|| no_value(&err));
                false
            }
        }
    }

    fn add(
        &mut self,
        value: Value,
        text: &str,
        fits: impl Fn(Value) -> Result<Value, Vec<String>>,
    ) {
        if !is_strict(text) {
            self.wrong = Some(
                "the answer is JSON that some parsers reject: it has a duplicate member, a member with a \
                 private name of the JSON reader or a number out of range, or is nested too deep"
                    .to_owned(),
            );
            return;
        }
        // Some models write the value as a string that contains JSON.
        let inner = value.as_str().map(without_marks).filter(|inner| is_strict(inner));
        let inner = inner.and_then(|inner| serde_json::from_str::<Value>(inner).ok());
        let fitting = fits(value).or_else(|faults| match inner {
            Some(inner) => fits(inner),
            None => Err(faults),
        });
        match fitting {
            Ok(value) if self.fitting.len() < 2 => {
                if self.fitting.iter().all(|(known, _)| *known != value) {
                    self.fitting.push((value, text.to_owned()));
                }
            }
            Ok(_) => {}
            Err(faults) => self.faults = faults,
        }
    }

    /// Adds every object and list in the text, and every value that stands alone in a code block or after the
    /// reasoning. Values inside the reasoning are left out.
    fn scan(&mut self, text: &str, fits: impl Fn(Value) -> Result<Value, Vec<String>>) {
        let (mut at, mut line_begins) = (0, true);
        let mut work = text.len().saturating_mul(WORK);
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty() && work > 0) {
            let begun = line_begins;
            line_begins = false;
            if let Some(length) = thinking(rest, at == 0) {
                // In some templates the opening tag is part of the prompt. Then everything before the closing
                // tag was reasoning.
                if !THOUGHTS.iter().any(|[begin, _]| rest.starts_with(begin)) {
                    (self.fitting, self.faults) = (Vec::new(), Vec::new());
                }
                work = work.saturating_sub(rest.len());
                at += length;
                let behind = without_marks(text.get(at..).unwrap_or_default());
                if self.read_whole(behind, &fits) {
                    return;
                }
                continue;
            }
            if let Some(fence) = CodeFence::of(rest).filter(|_| begun) {
                work = work.saturating_sub(fence.length);
                match fence.value() {
                    Some((value, inside)) => {
                        self.add(value, inside, &fits);
                        at += fence.length;
                        line_begins = true;
                    }
                    None => at += fence.ticks,
                }
                continue;
            }
            if rest.starts_with(['{', '[']) {
                let mut values = Deserializer::from_str(rest).into_iter::<Value>();
                match values.next() {
                    Some(Ok(value)) => {
                        let length = values.byte_offset().max(1);
                        self.add(value, rest.get(..length).unwrap_or_default(), &fits);
                        at += length;
                        continue;
                    }
                    Some(Err(err)) => {
                        let read = read_before(rest, &err);
                        work = work.saturating_sub(read);
                        if rest.starts_with("{\"") || err.is_eof() {
                            self.wrong = Some(no_value(&err));
                        }
                        // This value is not valid JSON. Neither its parts nor the values in its comments are
                        // the answer.
                        if is_value_start(rest) {
                            let end = find_closing_bracket(rest);
                            work = work.saturating_sub(end.unwrap_or(rest.len()));
                            let behind = || (2..read).rev().find(|at| rest.is_char_boundary(*at));
                            at += end.or_else(behind).unwrap_or(1);
                            continue;
                        }
                    }
                    None => {}
                }
            }
            let Some(letter) = rest.chars().next() else { return };
            line_begins = letter == '\n' || (begun && letter.is_whitespace());
            at += letter.len_utf8();
        }
    }
}

/// Whether an object or a list seems to begin here. Other text in braces does not count.
fn is_value_start(text: &str) -> bool {
    let inside = text.get(1..).unwrap_or_default().trim_start();
    let is_list = text.starts_with('[') && inside.starts_with(['{', '[']);
    inside.starts_with('"') || is_list
}

/// The position after the closing bracket that belongs to the bracket at the beginning of the text.
fn find_closing_bracket(text: &str) -> Option<usize> {
    let (mut open, mut in_string, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => open += 1,
            b'}' | b']' if !in_string => {
                open -= 1;
                if open == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

fn no_value(err: &serde_json::Error) -> String {
    format!("the answer is not one JSON value: {err}")
}

/// The approximate number of bytes that were read before this error.
fn read_before(text: &str, err: &serde_json::Error) -> usize {
    let before = text.split_inclusive('\n').take(err.line().saturating_sub(1));
    before.map(str::len).sum::<usize>().saturating_add(err.column()).saturating_add(1)
}

/// The length of the reasoning, or of a closing tag, at the beginning of `rest`. Without a closing tag, an
/// opening tag counts only at the beginning of the text, and the whole text is reasoning.
fn thinking(rest: &str, is_beginning: bool) -> Option<usize> {
    if !rest.starts_with(['<', '[']) {
        return None;
    }
    THOUGHTS.iter().find_map(|[begin, end]| {
        if rest.starts_with(end) {
            return Some(end.len());
        }
        let inside = rest.strip_prefix(begin)?;
        match inside.find(end) {
            Some(at) => Some(begin.len() + at + end.len()),
            None => Some(if is_beginning { rest.len() } else { begin.len() }),
        }
    })
}

/// A code block of Markdown at the beginning of a text.
struct CodeFence<'a> {
    inside: &'a str,
    ticks: usize,
    /// The number of bytes of the whole block.
    length: usize,
}

impl<'a> CodeFence<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let mark = text.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let ticks = text.bytes().take_while(|byte| char::from(*byte) == mark).count();
        let (first, rest) = text.split_once('\n')?;
        if ticks < 3 || first.get(ticks..)?.contains('`') {
            return None;
        }
        let opening = first.len() + 1;
        let mut inside = 0;
        for line in rest.split_inclusive('\n') {
            let end = line.trim();
            let behind = end.trim_start_matches(mark);
            let is_end = end.len() - behind.len() >= ticks;
            if is_end && (behind.is_empty() || without_marks(behind).is_empty()) {
                let length = opening + inside + line.len();
                return Some(Self { inside: rest.get(..inside)?, ticks, length });
            }
            inside += line.len();
        }
        // The code block has no end.
        Some(Self { inside: rest, ticks, length: text.len() })
    }

    /// The value and its text, if the code block contains only one value.
    fn value(&self) -> Option<(Value, &'a str)> {
        let inside = without_marks(self.inside);
        Some((serde_json::from_str(inside).ok()?, inside))
    }
}

/// The text without white space, byte order marks and special tokens at its ends.
fn without_marks(text: &str) -> &str {
    let mut rest = text;
    loop {
        let before = rest.len();
        rest = rest.trim().trim_matches('\u{feff}');
        for mark in MARKS {
            rest = rest.strip_prefix(mark).unwrap_or(rest);
            rest = rest.strip_suffix(mark).unwrap_or(rest);
        }
        for [open, close] in [["<|", "|>"], ["<｜", "｜>"]] {
            let first = rest.strip_prefix(open).and_then(|rest| rest.split_once(close));
            if let Some((_, behind)) = first.filter(|(name, _)| is_name(name)) {
                rest = behind;
            }
            let last = rest.strip_suffix(close).and_then(|rest| rest.rsplit_once(open));
            if let Some((before, _)) = last.filter(|(_, name)| is_name(name)) {
                rest = before;
            }
        }
        if rest.len() == before {
            return rest;
        }
    }
}

/// Whether this text may be the name of a special token.
fn is_name(name: &str) -> bool {
    let may = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '▁');
    name.len() < 64 && name.chars().all(may)
}
