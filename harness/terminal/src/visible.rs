//! Makes streamed text from outside safe for a terminal.

use super::letter::{CharacterLook, is_unsafe, look_of};

/// The maximum number of marks in a row that are not escaped. More marks would cover other rows.
const MARKS: usize = 4;

/// Returns the text of a model, a tool or a server in a form that can be written to a terminal. Characters that control
/// a terminal, are invisible, or reorder the text around them are escaped (`\u{1b}`). Feature `terminal`.
///
/// Use this function for every text from outside that a program prints. Line breaks, tabs, letters of every script,
/// spaces of every width and the joiners inside emoji stay unchanged. A program can pass a text in several pieces. For
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
            // Joiners and variation selectors are allowed inside emoji, and inside words of some scripts.
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

/// Whether a joiner or a variation selector follows a suitable character. At the beginning of a piece, this character
/// may be in the previous piece.
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
