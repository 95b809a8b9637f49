//! Running text of others on a terminal.

use super::letter::{Looks, acts, looks};

/// More marks in a row are spelled out: a pile of them covers other rows.
const MARKS: usize = 4;

/// The text of a model, a tool or a server as it may be written to a terminal: everything is spelled
/// out (`\u{1b}`) that a terminal would obey, that a person would not see, or that changes the order of
/// the text around it.
///
/// Use it for whatever a program prints that it did not write itself. Line breaks and tabs stay, and
/// so do letters of every script, spaces of every width and the joiners inside of emoji. It is made
/// for text that is read as it comes, also piece by piece; what is to be approved is shown more
/// strictly by `TerminalApprover`.
///
/// ```
/// use harness::policy::visible;
///
/// assert_eq!(visible("Grüße 👩‍🚀,\n\tcafé"), "Grüße 👩‍🚀,\n\tcafé");
/// assert_eq!(visible("\u{1b}[8mhidden\r\u{202e}"), r"\u{1b}[8mhidden\u{d}\u{202e}");
/// ```
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut marks = 0;
    let mut before = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        marks = if looks(c) == Looks::Mark { marks + 1 } else { 0 };
        let stays = match c {
            '\n' | '\t' => true,
            '\r' => rest.peek() == Some(&'\n'),
            // Joiners and variation selectors inside of emoji and of words of some scripts.
            '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}' => joins(before, c),
            _ => !acts(c) && marks <= MARKS,
        };
        if stays {
            shown.push(c);
        } else {
            shown.extend(c.escape_unicode());
        }
        before = Some(c);
    }
    shown
}

/// Whether a joiner or a variation selector has something before it to which it belongs. At the
/// beginning of a piece that stands in the piece before.
fn joins(before: Option<char>, c: char) -> bool {
    match before {
        None => true,
        Some(before @ ('\u{fe0e}' | '\u{fe0f}')) => c == '\u{200d}' && before != c,
        Some(before) => {
            let keycap = matches!(before, '0'..='9' | '#' | '*');
            keycap || !before.is_ascii() && (looks(before) != Looks::Hidden || !acts(before))
        }
    }
}
