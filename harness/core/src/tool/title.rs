//! Checks the title and the output schema of a tool. People read the title before they allow a call.

use serde_json::Value;

use crate::message::is_unseen;

/// The maximum number of characters in a title, so that it fits on one line.
const MOST: usize = 100;

/// The fault of the title or of the output schema of the tool `name`; `None` if both are correct.
pub(super) fn fault(name: &str, title: Option<&str>, schema: Option<&Value>) -> Option<String> {
    if title.is_some_and(|title| !is_plain(title)) {
        return Some(format!(
            "the title of the tool `{name}` is not one line of text: give `Tool::with_title` up to {MOST} \
             letters without line breaks, control characters and invisible ones, or leave it out"
        ));
    }
    schema.filter(|schema| !schema.is_object()).map(|_| {
        format!(
            "the output schema of the tool `{name}` is not a JSON Schema: give `Tool::with_output_schema` \
             an object such as `{{\"type\": \"object\"}}`"
        )
    })
}

/// Whether a title is one line of visible text.
pub(super) fn is_plain(title: &str) -> bool {
    // A title that consists only of joiners and variation selectors is not visible either.
    let is_seen = |letter: char| {
        !letter.is_whitespace()
            && !matches!(letter, '\u{200c}'..='\u{200d}' | '\u{fe0e}'..='\u{fe0f}')
    };
    title.chars().any(is_seen)
        && title.chars().count() <= MOST
        && !title.chars().any(|letter| letter.is_control() || is_unseen(letter))
}
