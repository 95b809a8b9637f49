//! Summaries of long conversations, and large results that are kept whole.

use harness::testing::RecordedRequest;

/// A summary of the right form, with these words under each heading.
pub fn summary(words: &str) -> String {
    let headings = ["Goals", "Decisions", "Open work", "Names and ids", "Tried and failed"];
    headings.map(|heading| format!("## {heading}\n- {words}\n")).concat()
}

/// Whether the model is asked for a summary.
pub fn asks(request: &RecordedRequest) -> bool {
    request.last_text().contains("Sum it up now")
}

/// The name by which the whole is kept.
#[track_caller]
pub fn name_in(text: &str) -> String {
    let name = text.split("is kept as `").nth(1).and_then(|rest| rest.split('`').next());
    name.unwrap_or_else(|| panic!("no name in {} bytes: {:.300}", text.len(), text)).to_owned()
}
