//! Reads the citations and pictures of an answer from the vendors' formats.

use std::ops::Range;

use super::{
    reader, surrogates,
    tolerant::{ObjectMembers, TolerantCount, text_of},
};
use harness_core::message::{Citation, Media};

/// The citation in this JSON; `None` if the JSON names no source. Chat Completions puts the members into an inner
/// object that is named like the citation's type.
pub(super) fn citation(json: &str) -> Option<Citation> {
    let outer = ObjectMembers::of(json);
    let kind = text_of(outer.get("type"));
    let inner = outer.get(&kind).filter(|inner| inner.starts_with('{')).map(ObjectMembers::of);
    let members = inner.unwrap_or(outer);
    let text = |names: &[&str]| {
        let found = names.iter().map(|name| text_of(members.get(name)));
        let found = found.map(|text| surrogates::joined(&text).into_owned());
        found.into_iter().find(|text| !text.is_empty())
    };
    let range = |start: &str, end: &str| -> Option<Range<u64>> {
        let count = |name| reader::from_str::<TolerantCount>(members.get(name)?).ok()?.0;
        Some(count(start)?..count(end)?)
    };
    let in_source = [
        ("start_char_index", "end_char_index"),
        ("start_page_number", "end_page_number"),
        ("start_block_index", "end_block_index"),
    ];
    let mut citation = Citation::default();
    citation.kind = Some(kind).filter(|kind| !kind.is_empty());
    citation.url = text(&["url", "source"]);
    citation.title = text(&["title", "document_title", "filename"]);
    citation.file = text(&["file_id"]);
    citation.quote = text(&["cited_text", "content", "snippet"]);
    citation.in_answer = range("start_index", "end_index");
    citation.in_source = in_source.iter().find_map(|(start, end)| range(start, end));
    citation.has_source().then_some(citation)
}

/// Whether a request can contain the JSON as a citation. The vendor refuses all requests with a citation that is not an
/// object with a type.
pub(super) fn is_returnable(json: &str) -> bool {
    json.starts_with('{') && !text_of(ObjectMembers::of(json).get("type")).is_empty()
}

/// The picture at this URL. A data URL contains the picture itself.
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

/// The rest of `text` after `beginning`, in any letter case. `None` if `text` does not begin with `beginning`.
fn after<'a>(text: &'a str, beginning: &str) -> Option<&'a str> {
    let (first, rest) = text.split_at_checked(beginning.len())?;
    first.eq_ignore_ascii_case(beginning).then_some(rest)
}
