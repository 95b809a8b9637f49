//! The reasons why a vendor refuses to make or to accept its own summary.

use crate::error::Error;

/// The ends of a vendor's error codes for a refused summary request or a refused summary, each with
/// the reason as text.
///
/// Source: <https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand>.
const CODES: [(&str, &str); 9] = [
    ("block_ambiguous", "the request holds more than one summary of the vendor's own"),
    ("block_misplaced", "something stands before the vendor's own summary"),
    ("content_mismatch", "the vendor's own summary is not the one that the vendor has made"),
    ("signature_invalid", "the vendor does not know the signature of its own summary"),
    (
        "incomplete_turn",
        "a call has no result yet, so the vendor does not summarize the conversation",
    ),
    ("nothing_to_summarize", "the vendor finds nothing to summarize"),
    ("too_many_tool_references", "the vendor finds too many references to tools for a summary"),
    ("tool_changes_mismatch", "the tools have changed since the vendor's own summary was made"),
    ("unavailable", "the vendor makes and reads no summaries at the moment"),
];

/// The reason why a vendor refused to make a summary, or refused a summary that the same vendor had
/// made. `None` if the error's code is not known.
#[doc(hidden)]
pub fn why(error: &Error) -> Option<&'static str> {
    let code = error.code()?.strip_prefix("compaction_")?;
    CODES.iter().find_map(|(end, why)| code.ends_with(end).then_some(*why))
}

#[cfg(test)]
mod tests {
    use super::{CODES, why};
    use crate::error::{Error, ErrorKind};

    #[test]
    fn each_code_is_told_in_words_of_its_own() {
        for (end, words) in CODES {
            let error = Error::new(ErrorKind::Api, "no").with_code(format!("compaction_{end}"));
            assert_eq!(why(&error), Some(words));
        }
        let other = Error::new(ErrorKind::Api, "no").with_code("invalid_request_error");
        assert_eq!(why(&other), None);
    }
}
