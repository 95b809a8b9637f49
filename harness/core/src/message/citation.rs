//! The sources that the model's text cites.

use std::ops::Range;

use serde::{Deserialize, Deserializer, Serialize};

/// A source that the vendor gives for a part of the model's text. Members that the vendor leaves out are `None`.
///
/// Documentation: [citations](https://docs.claude.com/en/docs/build-with-claude/citations) of Messages, annotations of
/// [Responses](https://platform.openai.com/docs/api-reference/responses/object) and of [Chat
/// Completions](https://platform.openai.com/docs/api-reference/chat/object).
///
/// ```
/// use harness::{Block, Message};
///
/// fn sources(message: &Message) -> Vec<String> {
///     let texts = message.blocks().iter().filter_map(|block| match block {
///         Block::Text(text) => Some(text),
///         _ => None,
///     });
///     let cited = texts.flat_map(|text| text.citations());
///     cited.filter_map(|citation| citation.url.clone()).collect()
/// }
/// assert!(sources(&Message::user("Hello")).is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Citation {
    /// The vendor's name for the kind of citation, such as `url_citation` or `char_location`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The URL of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The name of the source: the title of a page or a document, or the name of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The id of the source, if the source is a file that the vendor stores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// A quotation from the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
    /// The part of the model's text to which this citation belongs, in characters as the vendor counts them. `None`
    /// means the whole block.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "range")]
    pub in_answer: Option<Range<u64>>,
    /// The cited part of the source. The unit (characters, pages or blocks) depends on the [`kind`](Self::kind).
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "range")]
    pub in_source: Option<Range<u64>>,
}

impl Citation {
    /// Whether the citation names a source: by URL, title, file or quotation.
    pub fn has_source(&self) -> bool {
        let Self { kind: _, url, title, file, quote, in_answer: _, in_source: _ } = self;
        [url, title, file, quote].into_iter().any(Option::is_some)
    }

    /// The approximate size of the citation in bytes.
    pub fn size(&self) -> usize {
        let Self { kind, url, title, file, quote, in_answer: _, in_source: _ } = self;
        let texts = [kind, url, title, file, quote].into_iter().flatten();
        texts.map(String::len).fold(64, usize::saturating_add)
    }
}

/// Reads a range, and ignores unknown members, which a later version may add.
fn range<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Range<u64>>, D::Error> {
    #[derive(Deserialize)]
    struct Ends {
        start: u64,
        end: u64,
    }

    let ends = Option::<Ends>::deserialize(from)?;
    Ok(ends.map(|Ends { start, end }| start..end))
}
