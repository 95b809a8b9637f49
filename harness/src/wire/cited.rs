//! Citations and pictures of an answer, in the shapes in which vendors send them.

use std::ops::Range;

use super::{
    halves,
    tolerant::{Count, Members, text_of},
};
use crate::message::{Citation, Media};

/// The citation that this JSON is, if it names a source. Chat Completions wraps its members in one that
/// is called as its type.
pub(super) fn citation(json: &str) -> Option<Citation> {
    let outer = Members::of(json);
    let kind = text_of(outer.get("type"));
    let inner = outer.get(&kind).filter(|inner| inner.starts_with('{')).map(Members::of);
    let members = inner.unwrap_or(outer);
    let text = |names: &[&str]| {
        let found = names.iter().map(|name| text_of(members.get(name)));
        let found = found.map(|text| halves::joined(&text).into_owned());
        found.into_iter().find(|text| !text.is_empty())
    };
    let range = |start: &str, end: &str| -> Option<Range<u64>> {
        let count = |name| serde_json::from_str::<Count>(members.get(name)?).ok()?.0;
        Some(count(start)?..count(end)?)
    };
    let in_source = [
        ("start_char_index", "end_char_index"),
        ("start_page_number", "end_page_number"),
        ("start_block_index", "end_block_index"),
    ];
    let citation = Citation {
        kind: Some(kind).filter(|kind| !kind.is_empty()),
        url: text(&["url", "source"]),
        title: text(&["title", "document_title", "filename"]),
        file: text(&["file_id"]),
        quote: text(&["cited_text", "content", "snippet"]),
        in_answer: range("start_index", "end_index"),
        in_source: in_source.iter().find_map(|(start, end)| range(start, end)),
    };
    citation.names_source().then_some(citation)
}

/// Whether the vendor may take this back as a citation of its own: an object of some type. Requests with
/// anything else in their place are refused, and each later one with them.
pub(super) fn goes_back(json: &str) -> bool {
    json.starts_with('{') && !text_of(Members::of(json).get("type")).is_empty()
}

/// The picture at this address, which may hold the picture itself.
pub(super) fn image(url: &str) -> Option<Media> {
    let url = url.trim();
    let Some(rest) = after(url, "data:") else {
        let is_on_the_web = ["https:", "http:"].iter().any(|scheme| after(url, scheme).is_some());
        return is_on_the_web.then(|| Media::from_url(url));
    };
    let (mime, data) = rest.split_once(";base64,").filter(|(_, data)| !data.is_empty())?;
    after(mime, "image/")?;
    Media::from_base64(mime, data).ok()
}

/// What follows this beginning, whether its letters are large or small.
fn after<'a>(text: &'a str, beginning: &str) -> Option<&'a str> {
    let (first, rest) = text.split_at_checked(beginning.len())?;
    first.eq_ignore_ascii_case(beginning).then_some(rest)
}
