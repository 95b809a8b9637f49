//! The sources of the model's text.

use std::ops::Range;

use serde::{Deserialize, Deserializer, Serialize};

/// A source that the vendor gives for text of the model. What the vendor does not give is `None`.
///
/// Sources: [citations](https://docs.claude.com/en/docs/build-with-claude/citations) of Messages,
/// annotations of [Responses](https://platform.openai.com/docs/api-reference/responses/object) and of
/// [Chat Completions](https://platform.openai.com/docs/api-reference/chat/object).
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
    /// The kind of citation in the vendor's words, such as `url_citation` or `char_location`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The URL of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The name of the source: the title of a page or a document, or the name of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The id of the source, if it is a file stored by the vendor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// A quotation from the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
    /// The cited part of the model's text, in characters as the vendor counts them. Without it, the
    /// citation is about the whole block.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "range")]
    pub in_answer: Option<Range<u64>>,
    /// The cited part of the source, in the unit of its [`kind`](Self::kind): characters, pages or
    /// blocks.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "range")]
    pub in_source: Option<Range<u64>>,
}

impl Citation {
    /// Whether it identifies a source.
    pub fn has_source(&self) -> bool {
        let Self { kind: _, url, title, file, quote, in_answer: _, in_source: _ } = self;
        [url, title, file, quote].into_iter().any(Option::is_some)
    }

    /// Its approximate size in bytes.
    pub fn size(&self) -> usize {
        let Self { kind, url, title, file, quote, in_answer: _, in_source: _ } = self;
        let texts = [kind, url, title, file, quote].into_iter().flatten();
        texts.map(String::len).fold(64, usize::saturating_add)
    }
}

/// A range. Other members, which a later version may write beside it, are ignored.
fn range<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Range<u64>>, D::Error> {
    #[derive(Deserialize)]
    struct Ends {
        start: u64,
        end: u64,
    }

    let ends = Option::<Ends>::deserialize(from)?;
    Ok(ends.map(|Ends { start, end }| start..end))
}
