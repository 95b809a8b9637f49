//! Makes text from outside, such as the name of a file, safe for one line that people and models
//! read.

use std::borrow::Cow;

/// The text in a form that is safe on one line and between backticks. Line breaks, characters that
/// change the writing direction and invisible characters become spaces, and backticks become
/// apostrophes. Otherwise a file name could end its line and forge the next line.
pub fn in_line(text: &str) -> Cow<'_, str> {
    let breaks = |letter: char| letter == '`' || letter.is_control() || is_unseen(letter);
    if !text.contains(breaks) {
        return Cow::Borrowed(text);
    }
    let plain = |letter| match letter {
        '`' => '\'',
        letter if breaks(letter) => ' ',
        letter => letter,
    };
    Cow::Owned(text.chars().map(plain).collect())
}

/// The URL without the parts that may be secret: user, password, query and fragment. If the URL has no `://`, such as
/// `data:..`, only the scheme is kept. If the host cannot be read, the result is the scheme and `[secret]`.
pub(super) fn address(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return match url.split_once(':') {
            Some((scheme, _)) => format!("{scheme}:.."),
            None => without_query(url).into_owned(),
        };
    };
    let end = rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = match authority.rsplit_once('@') {
        Some((_, host)) => Cow::Owned(format!("[secret]@{host}")),
        None => Cow::Borrowed(authority),
    };
    // If the port is not a number, the URL was split inside a password that contains a slash.
    let port = host.rsplit_once(':').map(|(_, port)| port).filter(|_| !host.ends_with(']'));
    if port.is_some_and(|port| !port.bytes().all(|digit| digit.is_ascii_digit())) {
        return format!("{scheme}://[secret]");
    }
    format!("{scheme}://{host}{}", without_query(path))
}

fn without_query(path: &str) -> Cow<'_, str> {
    match path.find(['?', '#']).map(|at| path.split_at(at)) {
        Some((path, hidden)) => {
            Cow::Owned(format!("{path}{}[secret]", hidden.get(..1).unwrap_or_default()))
        }
        None => Cow::Borrowed(path),
    }
}

/// Whether a character breaks a line, changes the writing direction, is invisible, or has no
/// standard appearance. The joiners of letters and emoji do not count, because words need them.
///
/// Source: `Default_Ignorable_Code_Point` and `Bidi_Control` of Unicode 16, without the two joiners
/// and the emoji variation selectors; line and paragraph separators, the blank Braille pattern,
/// annotation characters, private use, and noncharacters.
pub fn is_unseen(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'
            | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{e000}'..='\u{f8ff}'
            | '\u{fdd0}'..='\u{fdef}'
            | '\u{fe00}'..='\u{fe0d}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{10ffff}'
    ) || u32::from(letter) & 0xfffe == 0xfffe
}
