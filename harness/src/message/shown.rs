//! What others have written, such as the name of a file, as it may stand in a line that people and models read.

use std::borrow::Cow;

/// The text on one line and between backticks: what ends a line, turns the direction or is not seen is a space, and
/// a backtick is an apostrophe. Else the name of a file could end its own line and begin another one.
pub(crate) fn in_line(text: &str) -> Cow<'_, str> {
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

/// An address without what may be secret in it: user, password, query and what comes after `#`. Of one that has no
/// `://`, such as `data:..`, or that cannot be read, only the scheme.
pub(crate) fn address(url: &str) -> String {
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
    // A password with a slash in it: what seems to be its port is none.
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

/// Whether a letter ends a line, turns the direction, is not seen, or is none that all see alike. Those that join and
/// part the letters of words and the pictures of people are none of them.
///
/// Source: `Default_Ignorable_Code_Point` and `Bidi_Control` of Unicode 16, without the two joiners and the
/// variation selectors of pictures; lines and paragraphs, the blank of Braille, annotations, private use, and what
/// is no letter.
pub(crate) fn is_unseen(letter: char) -> bool {
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
