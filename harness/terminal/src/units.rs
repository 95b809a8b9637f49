//! Text in a form for a person: visible characters are unchanged, and all other characters are escaped. The original
//! text can be restored from this form.
//!
//! The escaped form is unambiguous: `\u{1b}` is a character by its number, `\{3000 spaces}` is a run of one character,
//! and a backslash that could be read as the beginning of such an escape is written as `\u{5c}`.

use std::{collections::BTreeSet, fmt};

use super::letter::{CharacterLook, carries_marks, is_letter, look_alike, look_of};

/// A run of more spaces than this is shown as a count.
const SPACES: usize = 16;

/// A run of more equal escaped characters than this is shown as a count.
const SAME: usize = 3;

/// The marks of a letter are escaped if the letter has more marks than this.
const MARKS: usize = 3;

/// A piece of a line. A line can be broken between two pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextUnit {
    /// A visible character, and the number of its cells.
    Plain(char, usize),
    /// A mark that is drawn onto the previous letter.
    Mark(char),
    /// A character that is shown as its number.
    Escaped(char),
    /// A run of one character, and its length.
    Run(char, usize),
    /// A number of empty lines.
    EmptyLines(usize),
}

impl fmt::Display for TextUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Plain(c, _) | Self::Mark(c) => write!(f, "{c}"),
            Self::Escaped(c) => write!(f, "{}", c.escape_unicode()),
            Self::Run(' ', times) => write!(f, "\\{{{times} spaces}}"),
            Self::Run('\t', times) => write!(f, "\\{{{times} tabs}}"),
            Self::Run(c, times) => write!(f, "\\{{{times}*{}}}", c.escape_unicode()),
            Self::EmptyLines(lines) => write!(f, "\\{{{lines} empty lines}}"),
        }
    }
}

impl TextUnit {
    /// The maximum number of cells that the unit takes.
    pub(super) fn cells(self) -> usize {
        match self {
            Self::Plain(_, cells) => cells,
            Self::Mark(_) => 1,
            Self::Escaped(_) | Self::Run(..) | Self::EmptyLines(_) => self.to_string().len(),
        }
    }

    /// Whether the unit is an escaped character or a run.
    pub(super) fn is_spelled_out(self) -> bool {
        matches!(self, Self::Escaped(_) | Self::Run(..))
    }
}

/// The units of one line without line breaks.
pub(super) fn units(line: &str) -> Vec<TextUnit> {
    let line: Vec<char> = line.chars().collect();
    let mixed = mixed(&line);
    let ends_visibly = line.iter().rposition(|c| *c != ' ').map_or(0, |last| last + 1);
    let mut units = Vec::with_capacity(line.len());
    let mut at = 0;
    while let Some(&c) = line.get(at) {
        let rest = line.get(at..).unwrap_or_default();
        let plain = match look_of(c) {
            CharacterLook::Plain(_) if c == '\\' && is_escape_start(rest) => None,
            CharacterLook::Plain(_) if mixed.get(at) == Some(&true) => None,
            CharacterLook::Plain(_) if c == ' ' && (at >= ends_visibly || is_wide(rest)) => None,
            CharacterLook::Plain(cells) => Some(TextUnit::Plain(c, cells)),
            CharacterLook::Mark => can_take_mark(&units).then_some(TextUnit::Mark(c)),
            CharacterLook::Hidden => None,
        };
        let unit = plain.unwrap_or_else(|| spelled_out(rest, c));
        at += if let TextUnit::Run(_, times) = unit { times } else { 1 };
        units.push(unit);
    }
    units
}

/// The unit for an escaped character. Equal characters after it are in the same unit.
fn spelled_out(rest: &[char], c: char) -> TextUnit {
    let fewest = if matches!(c, ' ' | '\t') { 2 } else { SAME + 1 };
    let same = rest.iter().take_while(|other| **other == c).count();
    if same < fewest { TextUnit::Escaped(c) } else { TextUnit::Run(c, same) }
}

/// Whether the next spaces are too many for a person to count.
fn is_wide(rest: &[char]) -> bool {
    rest.iter().take(SPACES + 1).take_while(|c| **c == ' ').count() > SPACES
}

/// Whether a backslash could be read as the beginning of `\u{..}` or `\{..}`.
fn is_escape_start(rest: &[char]) -> bool {
    matches!(rest, ['\\', '{', ..] | ['\\', 'u', '{', ..])
}

/// Whether a mark after these units is drawn onto a visible letter that does not have too many marks.
fn can_take_mark(units: &[TextUnit]) -> bool {
    let marks = units.iter().rev().take_while(|unit| matches!(unit, TextUnit::Mark(_))).count();
    let before = units.len().checked_sub(marks + 1).and_then(|at| units.get(at));
    marks < MARKS && matches!(before, Some(TextUnit::Plain(c, _)) if carries_marks(*c))
}

/// Marks the non-ASCII characters in words that mix letters of several scripts, such as a Cyrillic `а` among Latin
/// letters.
fn mixed(line: &[char]) -> Vec<bool> {
    let mut mixed = vec![false; line.len()];
    if line.iter().all(char::is_ascii) {
        return mixed;
    }
    let in_word = |c: char| is_letter(c) || look_of(c) == CharacterLook::Mark;
    let mut at = 0;
    while at < line.len() {
        let word = line.get(at..).unwrap_or_default();
        let length = word.iter().take_while(|c| in_word(**c)).count();
        let word = word.get(..length).unwrap_or_default();
        let scripts: BTreeSet<_> = word.iter().filter_map(|c| look_alike(*c)).collect();
        if scripts.len() > 1 {
            for (is_mixed, c) in mixed.iter_mut().skip(at).zip(word) {
                *is_mixed = !c.is_ascii();
            }
        }
        at += length.max(1);
    }
    mixed
}
