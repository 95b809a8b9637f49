//! Shows the effect of a write for an approval: the difference between the old and the new text. The same two texts
//! always give the same preview, so that previews can be compared.

use std::fmt::Write as _;

use hmac_sha256::Hash as Sha256;
use similar::TextDiff;

use harness_core::tool::Preview;

/// The maximum size of a compared file, in bytes. For a larger file, only size and hash are shown.
pub(super) const MAX_FILE: u64 = 1024 * 1024;
/// The maximum number of differing lines. Comparing more lines takes long, and nobody reads the result.
const MAX_LINES: usize = 4_000;
/// The approximate maximum size of a preview, in bytes.
const MAX_TEXT: usize = 64 * 1024;

/// The current content of the path.
#[derive(Debug)]
pub(super) enum OldContent {
    Nothing,
    Bytes(Vec<u8>),
    /// The content was not read. The preview shows the time of the last change instead.
    Unread {
        bytes: u64,
        changed: String,
        why: &'static str,
    },
}

/// The difference in the unified format, after a line about the old content. If the old text is not shown completely,
/// the hash in this line identifies it.
pub(super) fn difference(path: &str, old: &OldContent, new: &str) -> Preview {
    let (was, text) = match old {
        OldContent::Nothing => ("a new file".to_owned(), Some("")),
        OldContent::Bytes(bytes) => {
            (format!("replaces {}", what(bytes)), std::str::from_utf8(bytes).ok())
        }
        OldContent::Unread { bytes, changed, why } => {
            (format!("replaces {bytes} bytes, {why}, last changed {changed}"), None)
        }
    };
    let small = |text: &str| text.len() as u64 <= MAX_FILE;
    match text.filter(|text| small(text) && small(new) && differing(text, new) <= MAX_LINES) {
        Some(text) => {
            let from = if matches!(old, OldContent::Nothing) { "/dev/null" } else { path };
            let lines = TextDiff::from_lines(text, new);
            let lines = lines.unified_diff().context_radius(3).header(from, path).to_string();
            let lines = match old {
                OldContent::Nothing if lines.is_empty() => "it is empty\n".to_owned(),
                _ if lines.is_empty() => "the text stays the same\n".to_owned(),
                _ => lines,
            };
            Preview::Diff(cut(format!("{was}\n{lines}")))
        }
        None => Preview::Text(format!(
            "{was}, by {}; it cannot be shown line by line",
            what(new.as_bytes())
        )),
    }
}

/// The size and the hash of these bytes, as text.
fn what(bytes: &[u8]) -> String {
    let mut hash = String::new();
    for byte in Sha256::hash(bytes).iter().take(16) {
        let _ = write!(hash, "{byte:02x}");
    }
    format!("{} bytes (SHA-256 {hash}..)", bytes.len())
}

/// The number of lines in both texts together, without the equal lines at the beginning and at the end.
fn differing(old: &str, new: &str) -> usize {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = |(a, b): &(&&str, &&str)| a == b;
    let first = old.iter().zip(&new).take_while(same).count();
    let shorter = old.len().min(new.len()) - first;
    let last = old.iter().rev().zip(new.iter().rev()).take(shorter).take_while(same).count();
    old.len() + new.len() - 2 * (first + last)
}

fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        let end = (0..=MAX_TEXT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        let rest = text.split_off(end);
        let _ = write!(text, "\n[... {} bytes of the difference are not shown ...]\n", rest.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_with_what_is_around_it() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let Preview::Diff(shown) =
            difference("a.txt", &OldContent::Bytes(old.into()), &old.replace('5', "five"))
        else {
            panic!("a difference")
        };
        let (first, rest) = shown.split_once('\n').unwrap();
        assert!(first.starts_with("replaces 18 bytes (SHA-256 "), "{first}");
        assert_eq!(
            rest,
            "--- a.txt\n+++ a.txt\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
        );
        let new = difference("a.txt", &OldContent::Nothing, "x");
        let empty = difference("a.txt", &OldContent::Nothing, "");
        assert_eq!(empty, Preview::Diff("a new file\nit is empty\n".to_owned()));
        let expected = "a new file\n--- /dev/null\n+++ a.txt\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n";
        assert_eq!(new, Preview::Diff(expected.to_owned()));
        let Preview::Diff(same) = difference("a.txt", &OldContent::Bytes(old.into()), old) else {
            panic!("a difference")
        };
        assert!(same.ends_with("\nthe text stays the same\n"), "{same}");
    }

    #[test]
    fn what_cannot_be_shown_is_told_apart_all_the_same() {
        let many =
            |word: &str| -> String { (0..3_000).map(|it| format!("{word}{it}\n")).collect() };
        let unread =
            |changed: &str| OldContent::Unread { bytes: 7, changed: changed.into(), why: "which" };
        let texts = [
            difference("a", &OldContent::Bytes(b"\xff".to_vec()), "x"),
            difference("a", &OldContent::Bytes(b"\xfe".to_vec()), "x"),
            difference("a", &OldContent::Bytes(many("a").into()), &many("b")),
            difference("a", &OldContent::Bytes(many("c").into()), &many("b")),
            difference("a", &OldContent::Bytes(many("c").into()), &many("d")),
            difference("a", &OldContent::Nothing, &"x".repeat(2 * 1024 * 1024)),
            difference("a", &unread("1"), "x"),
            difference("a", &unread("2"), "x"),
        ];
        for (at, text) in texts.iter().enumerate() {
            let Preview::Text(shown) = text else { panic!("words: {text:?}") };
            assert!(shown.contains("cannot be shown line by line") && shown.len() < 300, "{shown}");
            assert_eq!(texts.iter().position(|other| other == text), Some(at));
        }
        // Only a part of a long difference is shown. The hash identifies the rest.
        let long = |end: &str| -> String {
            (0..1_500)
                .map(|it| format!("{it}{}\n", "x".repeat(100)))
                .chain([end.to_owned()])
                .collect()
        };
        let cut = |end| difference("a", &OldContent::Bytes(long(end).into()), "");
        let (one, other) = (cut("1"), cut("2"));
        assert!(one.text().len() < 70_000 && one.text().contains("are not shown"));
        assert_ne!(one, other);
    }

    #[test]
    fn only_what_differs_counts() {
        let long: String = (0..10_000).map(|it| format!("{it}\n")).collect();
        assert_eq!(differing(&long, &long.replace("\n5000\n", "\nx\n")), 2);
        assert_eq!(differing("", "a\nb\n"), 2);
        assert_eq!(differing("a\na\n", "a\n"), 1);
        assert_eq!(differing("a\n", "a\n"), 0);
    }
}
