//! Makes streamed text from outside safe for a terminal.

use super::letter::{CharacterLook, is_unsafe, look_of};

/// If there are more marks in a row than this, they are escaped, because a pile of marks covers other rows.
const MARKS: usize = 4;

/// Returns the text of a model, a tool or a server in a form that can be written to a terminal. Characters that a
/// terminal obeys, that a person cannot see, or that change the order of the text around them are escaped (`\u{1b}`).
/// Feature `terminal`.
///
/// Use this function for every text that a program prints and did not write itself. Line breaks and tabs stay, and so
/// do letters of every script, spaces of every width and the joiners inside emoji. The text may come in pieces. For
/// text that a person has to approve, `TerminalApprover` is stricter.
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
        marks = if look_of(c) == CharacterLook::Mark { marks + 1 } else { 0 };
        let stays = match c {
            '\n' | '\t' => true,
            '\r' => rest.peek() == Some(&'\n'),
            // Joiners and variation selectors belong inside emoji, and inside words of some scripts.
            '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}' => joins(before, c),
            _ => !is_unsafe(c) && marks <= MARKS,
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

/// Whether a joiner or a variation selector follows a character to which it belongs. At the beginning of a piece, that
/// character may be in the previous piece.
fn joins(before: Option<char>, c: char) -> bool {
    match before {
        None => true,
        Some(before @ ('\u{fe0e}' | '\u{fe0f}')) => c == '\u{200d}' && before != c,
        Some(before) => {
            let keycap = matches!(before, '0'..='9' | '#' | '*');
            keycap
                || !before.is_ascii()
                    && (look_of(before) != CharacterLook::Hidden || !is_unsafe(before))
        }
    }
}
