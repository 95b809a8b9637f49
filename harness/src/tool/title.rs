//! What a tool by hand may be called where people read it before they allow a call, and what may be its output
//! schema.

use serde_json::Value;

/// So many letters of a title fit on a line.
const MOST: usize = 100;

/// What is wrong with the title and the output schema that were set on the tool of this name.
pub(super) fn fault(name: &str, title: Option<&str>, schema: Option<&Value>) -> Option<String> {
    if title.is_some_and(|title| !is_plain(title)) {
        return Some(format!(
            "the title of the tool `{name}` is not one line of text: give `Tool::with_title` up to {MOST} \
             letters without line breaks, control characters and invisible ones, or leave it out"
        ));
    }
    schema.filter(|schema| !schema.is_object()).map(|_| {
        format!(
            "the output schema of the tool `{name}` is no JSON Schema: give `Tool::with_output_schema` \
             an object such as `{{\"type\": \"object\"}}`"
        )
    })
}

/// Whether a title is one line of words that look as they are.
pub(super) fn is_plain(title: &str) -> bool {
    !title.trim().is_empty()
        && title.chars().count() <= MOST
        && !title.chars().any(|letter| letter.is_control() || is_unseen(letter))
}

/// Whether a letter ends a line, turns the direction, or is not seen. Those that join and part the letters of
/// words and the pictures of people are none of them.
fn is_unseen(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{180e}'
            | '\u{200b}'
            | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}
