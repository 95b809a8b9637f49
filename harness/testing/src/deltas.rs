//! Splits the answer of a simulated model into several deltas, at positions that the code under
//! test must not depend on.

/// Splits a text into words, and a single word into two halves.
pub(super) fn of_words(text: &str) -> Vec<String> {
    let words: Vec<String> = text.split_inclusive(' ').map(str::to_owned).collect();
    if words.len() == 1 { of_length(text, text.chars().count().div_ceil(2)) } else { words }
}

/// Splits the JSON text of arguments at arbitrary characters.
pub(super) fn of_json(text: &str) -> Vec<String> {
    of_length(text, 7.min(text.chars().count().div_ceil(2)))
}

fn of_length(text: &str, length: usize) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(length.max(1)).map(String::from_iter).collect()
}

#[cfg(test)]
mod tests {
    use super::{of_json, of_words};

    #[test]
    fn nothing_is_lost_and_nothing_is_empty() {
        for text in ["", "a", "Cold.", "Let me see. ", "æøå and 日本語", "  two  spaces "] {
            for pieces in [of_words(text), of_json(text)] {
                assert_eq!(pieces.concat(), text);
                assert!(pieces.iter().all(|piece| !piece.is_empty()), "{pieces:?}");
                assert!(pieces.len() > 1 || text.len() < 2, "{text:?} comes in one piece");
            }
        }
    }
}
