//! Lays an approval request out as rows of a screen. Each item has its own rows behind a label, so no value can look
//! like a part of the request. The arguments of the model come first, in bold letters.
//!
//! ```text
//!     tool | bash
//!      arg | command: ls | wc -l
//! defaults | timeout_seconds: 30, all: false
//!      why | it declares `read, write, network, mutate`
//!      [a] | exactly this call of bash
//! ```
//!
//! A text that is long, has several lines or is not ASCII gets its own rows and a row with its size:
//!
//! ```text
//!      arg | content
//!     size | 41 characters, 2 lines
//!     text | a first line,
//!          | and a second one,
//!          : which goes on here
//! ```
//!
//! A colon in the name of an argument is escaped, so the first colon always ends the name.

use serde_json::Value;

use super::{
    letter::script,
    units::{TextUnit, units},
};
use harness_core::{
    journal::{Decider, Reason},
    message::Arguments,
    policy::ApprovalRequest,
    tool::Preview,
};

/// The number of columns of a label (`LABEL`), of a label with its bar (`MARGIN`), and of the narrowest screen
/// (`NARROWEST`).
const LABEL: usize = 8;
const MARGIN: usize = LABEL + 3;
pub(super) const NARROWEST: usize = MARGIN + 1 + 24;

/// A run of more empty lines than this is shown as a count.
const EMPTY_LINES: usize = 3;

/// The size of a text is shown unless the text has one line and at most this number of characters.
const SHORT: usize = 60;

/// For a request with more arguments than this, the number of arguments is shown.
const COUNTED: usize = 8;

/// How a row is drawn. Colours are not used, because another program may have changed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowStyle {
    Plain,
    /// An argument that the model gave.
    Given,
    Added,
    Removed,
}

/// One row of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScreenRow {
    pub(super) text: String,
    pub(super) style: RowStyle,
}

/// The rows of a request, for a screen of `columns` columns, which must be at least [`NARROWEST`].
pub(super) fn rows(
    question: &ApprovalRequest,
    chat: Option<&str>,
    columns: usize,
) -> Vec<ScreenRow> {
    let mut sheet = RowSheet::new(columns);
    sheet.head(question, chat);
    sheet.arguments(&question.arguments);
    sheet.defaults(&question.defaults);
    sheet.surroundings(question);
    if let Some(preview) = &question.preview {
        sheet.preview(preview);
    }
    for (place, scope) in question.scopes.iter().enumerate() {
        sheet.line(&format!("[{}]", key(place)), scope.shown());
    }
    sheet.rows
}

/// The key that answers *always* for this scope.
pub(super) fn key(scope: usize) -> String {
    if scope == 0 { "a".to_owned() } else { scope.to_string() }
}

pub(super) struct RowSheet {
    pub(super) rows: Vec<ScreenRow>,
    /// The number of cells behind the bar.
    room: usize,
}

impl RowSheet {
    /// Creates an empty sheet for a screen of `columns` columns.
    pub(super) fn new(columns: usize) -> Self {
        Self { rows: Vec::new(), room: columns.saturating_sub(MARGIN + 1) }
    }

    fn head(&mut self, question: &ApprovalRequest, chat: Option<&str>) {
        if let Some(chat) = chat {
            self.line("chat", chat);
        }
        if let Some(person) = &question.person {
            self.line("person", person);
        }
        for agent in &question.agents {
            self.line("agent", agent);
        }
        self.line("tool", &question.tool);
        if let Some(title) = &question.title {
            self.line("titled", title);
        }
    }

    /// Adds the reasons of the request, the declared side effects, and the folder.
    fn surroundings(&mut self, question: &ApprovalRequest) {
        for change in &question.changes {
            self.line("changed", change);
        }
        for Reason { by, text, .. } in &question.reasons {
            match by {
                Decider::SideEffects => self.line("why", text),
                by => self.line("why", &format!("{}: {text}", who(by))),
            }
        }
        // A reason from the side effects may already name all declared effects.
        let declared = question.effects.to_string();
        let is_named = |reason: &Reason| {
            reason.by == Decider::SideEffects && reason.text.contains(&format!("`{declared}`"))
        };
        if !question.reasons.iter().any(is_named) {
            self.line("declares", &declared);
        }
        if let Some(folder) = &question.folder {
            match folder.to_str() {
                Some(folder) => self.line("folder", folder),
                None => self.line("folder", &format!("not UTF-8: {folder:?}")),
            }
        }
    }

    /// Adds the arguments that the model gave.
    fn arguments(&mut self, arguments: &Arguments) {
        let mut values = Vec::new();
        for (name, value) in arguments.iter() {
            flatten(token(name), value, &mut values);
        }
        match values.len() {
            0 => self.line("args", "none"),
            1..=COUNTED => {}
            many => self.line("args", &format!("{many} values")),
        }
        for (path, value) in &values {
            self.value("arg", path, value, RowStyle::Given);
        }
    }

    /// Adds the defaults that the tool uses. Short defaults are joined on one line.
    fn defaults(&mut self, defaults: &Arguments) {
        let mut together = Vec::new();
        let mut long = Vec::new();
        for (name, value) in defaults.iter() {
            let shown = value.to_string();
            match size(&shown, &[]) {
                None => {
                    if !together.is_empty() {
                        together.extend(sign(','));
                    }
                    together.extend(name_of(&token(name)));
                    together.extend(sign(':'));
                    together.extend(units(&shown));
                }
                Some(_) => flatten(token(name), value, &mut long),
            }
        }
        if !together.is_empty() {
            self.put("defaults", together, RowStyle::Plain);
        }
        for (path, value) in &long {
            self.value("default", path, value, RowStyle::Plain);
        }
    }

    /// Adds a value without inner values. A short value is shown behind its name, and a longer text on its own rows.
    fn value(&mut self, label: &str, path: &str, value: &Value, style: RowStyle) {
        let (label, shown) = match value {
            Value::String(text) => {
                if size(text, &[]).is_some() {
                    self.put(label, name_of(path), style);
                    return self.text("text", text, |_| style);
                }
                (label, text.clone())
            }
            Value::Array(_) | Value::Object(_) => ("empty", value.to_string()),
            Value::Number(_) => ("number", value.to_string()),
            Value::Bool(_) => ("boolean", value.to_string()),
            Value::Null => ("null", value.to_string()),
        };
        let mut row = name_of(path);
        row.extend(sign(':'));
        row.extend(units(&shown));
        self.put(label, row, style);
    }

    fn preview(&mut self, preview: &Preview) {
        match preview {
            Preview::Text(text) => self.text("preview", text, |_| RowStyle::Plain),
            Preview::Diff(diff) => self.text("diff", diff, |line| match line.chars().next() {
                Some('+') => RowStyle::Added,
                Some('-') => RowStyle::Removed,
                _ => RowStyle::Plain,
            }),
        }
    }

    /// Adds an ASCII text of this program on rows without a bar. Rows with values always have a bar.
    pub(super) fn own(&mut self, words: &str) {
        let rows = broken(words, self.room + MARGIN + 1);
        self.rows.extend(rows.into_iter().map(|text| ScreenRow { text, style: RowStyle::Plain }));
    }

    /// Adds a text as one line, with all line breaks escaped.
    pub(super) fn line(&mut self, label: &str, text: &str) {
        self.put(label, units(text), RowStyle::Plain);
    }

    /// Adds a text with any number of lines, and its size unless the text is short.
    pub(super) fn text(&mut self, label: &str, text: &str, style: impl Fn(&str) -> RowStyle) {
        let lines: Vec<(Vec<TextUnit>, RowStyle)> =
            lines(text).into_iter().map(|(units, line)| (units, style(line))).collect();
        if let Some(size) = size(text, &lines) {
            self.line("size", &size);
        }
        let mut label = label;
        for (units, style) in lines {
            self.put(label, units, style);
            label = "";
        }
    }

    /// Adds one line behind its bar. Its continuation rows have a colon instead of the bar.
    fn put(&mut self, label: &str, units: Vec<TextUnit>, style: RowStyle) {
        for (place, text) in wrapped(units, self.room).into_iter().enumerate() {
            let (label, bar) = if place == 0 { (label, '|') } else { ("", ':') };
            let space = if text.is_empty() { "" } else { " " };
            let text = format!("{label:>LABEL$} {bar}{space}{text}");
            self.rows.push(ScreenRow { text, style });
        }
    }
}

/// Breaks a text into rows. The last column stays free, and the last row has room for a space at its end.
pub(super) fn broken(words: &str, columns: usize) -> Vec<String> {
    let room = columns.saturating_sub(2).max(1);
    let mut rows = vec![String::new()];
    for word in words.split(' ') {
        match rows.last_mut() {
            Some(row) if row.is_empty() => row.push_str(word),
            Some(row) if row.len() + 1 + word.len() <= room => {
                row.push(' ');
                row.push_str(word);
            }
            _ => rows.push(word.to_owned()),
        }
    }
    rows
}

/// Collects all values without inner values, each with its JSON pointer.
fn flatten<'v>(pointer: String, value: &'v Value, into: &mut Vec<(String, &'v Value)>) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            for (place, item) in items.iter().enumerate() {
                flatten(format!("{pointer}/{place}"), item, into);
            }
        }
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                flatten(format!("{pointer}/{}", token(name)), member, into);
            }
        }
        _ => into.push((pointer, value)),
    }
}

/// The name of an argument, with all colons escaped. An unescaped colon would look like the end of the name.
fn name_of(path: &str) -> Vec<TextUnit> {
    let mut name = units(path);
    for unit in &mut name {
        if let TextUnit::Plain(c @ ':', _) = *unit {
            *unit = TextUnit::Escaped(c);
        }
    }
    name
}

/// A separator of this program between two values, followed by a space.
fn sign(sign: char) -> [TextUnit; 2] {
    [TextUnit::Plain(sign, 1), TextUnit::Plain(' ', 1)]
}

/// Escapes a name as a part of a JSON pointer.
fn token(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Splits a text into lines. Each line has its units and its original text. Many empty lines in a row become one unit.
fn lines(text: &str) -> Vec<(Vec<TextUnit>, &str)> {
    let mut lines = Vec::new();
    let mut rest = text.split('\n').peekable();
    while let Some(line) = rest.next() {
        if !line.is_empty() {
            lines.push((units(line), line));
            continue;
        }
        let mut empty = 1;
        while rest.next_if(|line| line.is_empty()).is_some() {
            empty += 1;
        }
        if empty > EMPTY_LINES {
            lines.push((vec![TextUnit::EmptyLines(empty)], ""));
        } else {
            lines.extend((0..empty).map(|_| (Vec::new(), "")));
        }
    }
    lines
}

/// The size of a text, as text; `None` if the text is short, has one line and is all ASCII.
fn size(text: &str, lines: &[(Vec<TextUnit>, RowStyle)]) -> Option<String> {
    let characters = text.chars().count();
    let foreign = text.chars().filter(|c| !c.is_ascii()).count();
    if (1..=SHORT).contains(&characters) && !text.contains('\n') && foreign == 0 {
        return None;
    }
    let counted = |count: usize, word: &str| {
        let ending = if count == 1 { "" } else { "s" };
        format!("{count} {word}{ending}")
    };
    let mut size = counted(characters, "character");
    if text.contains('\n') {
        size += &format!(", {}", counted(text.split('\n').count(), "line"));
    }
    if foreign > 0 {
        size += &format!(", {foreign} not ASCII");
        let mut scripts: Vec<&str> = Vec::new();
        for name in text.chars().filter(|c| !c.is_ascii()).filter_map(script) {
            if !scripts.contains(&name) {
                scripts.push(name);
            }
        }
        if !scripts.is_empty() {
            size += &format!(" ({})", scripts.join(", "));
        }
    }
    let spelled = lines.iter().flat_map(|(units, _)| units).filter(|unit| unit.is_spelled_out());
    match spelled.count() {
        0 => {}
        spelled => size += &format!(", {spelled} spelled out"),
    }
    Some(size)
}

/// Breaks a line into rows of `room` cells. Spaces at the end of a row and at the beginning of the next row are
/// escaped, because a person would not see spaces at the end of a row.
fn wrapped(units: Vec<TextUnit>, room: usize) -> Vec<String> {
    let mut rows = Vec::new();
    let mut row: Vec<TextUnit> = Vec::new();
    let mut used = 0;
    let mut units = units.into_iter().peekable();
    while let Some(unit) = units.next() {
        // A mark stays in the row of its letter.
        let mut piece = vec![unit];
        while let Some(mark) = units.next_if(|unit| matches!(unit, TextUnit::Mark(_))) {
            piece.push(mark);
        }
        let cells: usize = piece.iter().map(|unit| unit.cells()).sum();
        while used + cells > room && !row.is_empty() {
            let spaces = row.iter().rev().take_while(|unit| is_space(**unit)).count();
            row.truncate(row.len() - spaces);
            if !row.is_empty() {
                rows.push(text(&row));
            }
            row = match spaces {
                0 => Vec::new(),
                1 => vec![TextUnit::Escaped(' ')],
                spaces => vec![TextUnit::Run(' ', spaces)],
            };
            used = row.iter().map(|unit| unit.cells()).sum();
        }
        if row.is_empty() && !rows.is_empty() && is_space(unit) {
            piece = vec![TextUnit::Escaped(' ')];
        }
        used += piece.iter().map(|unit| unit.cells()).sum::<usize>();
        row.append(&mut piece);
    }
    rows.push(text(&row));
    rows
}

fn is_space(unit: TextUnit) -> bool {
    matches!(unit, TextUnit::Plain(' ', _))
}

fn text(units: &[TextUnit]) -> String {
    units.iter().map(TextUnit::to_string).collect()
}

/// The source of an approval request, as text.
fn who(by: &Decider) -> String {
    match by {
        Decider::SideEffects => "what the tool declares".to_owned(),
        Decider::ToolName => "the program, by the tool's name".to_owned(),
        Decider::Rule { name } => format!("the rule `{name}`"),
        Decider::Review => "the tool's own review".to_owned(),
        Decider::DataFlow => "the data flow policy".to_owned(),
        Decider::Program => "the program".to_owned(),
        Decider::Unrecorded
        | Decider::Person { .. }
        | Decider::Always { .. }
        | Decider::Nobody
        | Decider::Expired
        | Decider::Call
        | Decider::Fault => "the library".to_owned(),
    }
}
