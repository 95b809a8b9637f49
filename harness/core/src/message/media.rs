//! The files in a message: pictures, audio and documents.

use std::{borrow::Cow, fmt, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::safe_text::{address, in_line};
use crate::error::{Error, ErrorKind};

/// A file in a message or in a result: bytes with a media type, a text, a URL that the vendor fetches, or the id of a
/// file that the vendor stores. Clones share the content.
///
/// The block or part that contains the file determines how the file is used, for example
/// [`Block::Document`](super::Block::Document). `Block::from(media)` and `ToolContent::from(media)` choose the block or
/// part by the media type.
///
/// The JSON form is `{"mime": "image/png", "data": "<base64>"}`, `{"mime": "text/plain", "text": ".."}`,
/// `{"url": "https://.."}` or `{"file": "<id>", "provider": "anthropic"}`, with `name` and `uri` if they are set.
///
/// ```
/// use harness::{Block, Media, Message, Role};
///
/// let report = Media::from_bytes("application/pdf", b"%PDF-1.7 ..").with_name("report.pdf");
/// let asked = Message::new(Role::User, [Block::text("What does it say?"), Block::Document(report)]);
/// # assert_eq!(asked.blocks().len(), 2);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Media(Arc<MediaInner>);

#[derive(Clone, PartialEq, Eq, Hash)]
struct MediaInner {
    source: MediaSource,
    name: Option<String>,
    uri: Option<String>,
}

/// Where the content of a file is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MediaSource {
    /// The content is in memory, as base64.
    Data {
        /// The media type.
        mime: String,
        /// The base64 text.
        data: String,
    },
    /// The content is in memory, as text.
    Text {
        /// The media type.
        mime: String,
        /// The text.
        text: String,
    },
    /// The vendor fetches the content from this URL.
    Url(String),
    /// The vendor stores the content.
    File {
        /// The vendor's id of the file.
        id: String,
        /// The name of the provider whose vendor stores the file.
        provider: String,
    },
}

/// How a file is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MediaKind {
    /// A picture.
    Image,
    /// Sound.
    Audio,
    /// A document.
    Document,
}

impl MediaKind {
    /// The kind for a media type. Anything but a picture or audio is a document.
    fn of(mime: Option<&str>) -> Self {
        match mime.unwrap_or_default().split('/').next() {
            Some("image") => Self::Image,
            Some("audio") => Self::Audio,
            _ => Self::Document,
        }
    }

    /// The noun for this kind in texts for the model.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Image => "picture",
            Self::Audio => "sound",
            Self::Document => "document",
        }
    }
}

impl Media {
    fn of(source: MediaSource) -> Self {
        Self(Arc::new(MediaInner { source, name: None, uri: None }))
    }

    /// A file from its bytes. UTF-8 bytes with a text media type are kept as text.
    pub fn from_bytes(mime: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        let (mime, bytes) = (mime.into(), bytes.as_ref());
        match std::str::from_utf8(bytes).ok().filter(|_| is_text(&mime)) {
            Some(text) => Self::from_text(mime, text),
            None => Self::of(MediaSource::Data { mime, data: STANDARD.encode(bytes) }),
        }
    }

    /// A file from base64, without a copy. Content with a text media type is decoded and kept as in
    /// [`from_bytes`](Self::from_bytes).
    ///
    /// # Errors
    /// [`ErrorKind::Transcript`] if `data` is not base64 with padding and without line breaks.
    pub fn from_base64(mime: impl Into<String>, data: impl Into<String>) -> Result<Self, Error> {
        let (mime, data) = (mime.into(), data.into());
        if is_text(&mime) {
            return Ok(Self::from_bytes(mime, decoded(&data)?));
        }
        if !is_base64(&data) {
            decoded(&data)?;
        }
        Ok(Self::of(MediaSource::Data { mime, data }))
    }

    /// A text file, such as `text/markdown`.
    pub fn from_text(mime: impl Into<String>, text: impl Into<String>) -> Self {
        Self::of(MediaSource::Text { mime: mime.into(), text: text.into() })
    }

    /// A file that the vendor fetches from an `https` URL.
    pub fn from_url(url: impl Into<String>) -> Self {
        Self::of(MediaSource::Url(url.into()))
    }

    /// A file that was uploaded to a vendor. `provider` is the [name](crate::provider::Provider::name) of the provider
    /// for that vendor, such as `anthropic`. Other vendors cannot read the file.
    pub fn from_file_id(provider: impl Into<String>, id: impl Into<String>) -> Self {
        Self::of(MediaSource::File { id: id.into(), provider: provider.into() })
    }

    /// The same file with a name, such as `report.pdf`. The model reads the name.
    #[must_use]
    pub fn with_name(self, name: impl Into<String>) -> Self {
        self.changed(|inner| inner.name = Some(name.into()))
    }

    /// The same file with a URI that identifies it, such as the URI of a resource. The URI is never fetched. The URI of
    /// a text file is sent to the model.
    #[must_use]
    pub fn with_uri(self, uri: impl Into<String>) -> Self {
        self.changed(|inner| inner.uri = Some(uri.into()))
    }

    fn changed(mut self, change: impl FnOnce(&mut MediaInner)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// The same bytes with another media type. A file that is not in memory is returned unchanged.
    pub fn with_mime(&self, mime: &str) -> Self {
        let data = match &self.0.source {
            MediaSource::Data { data, .. } => data.clone(),
            MediaSource::Text { text, .. } => STANDARD.encode(text),
            MediaSource::Url(_) | MediaSource::File { .. } => return self.clone(),
        };
        let source = MediaSource::Data { mime: mime.to_owned(), data };
        Self(Arc::new(MediaInner { source, name: self.0.name.clone(), uri: self.0.uri.clone() }))
    }

    /// Converts a file with a text media type from base64 to text. Files that other programs have saved may contain
    /// text as base64. `None` for any other file.
    pub fn data_as_text(&self) -> Option<Self> {
        let data = self.base64().filter(|_| self.mime().is_some_and(is_text))?;
        let text = String::from_utf8(decoded(data).ok()?).ok()?;
        Some(self.with_text(text)).filter(|file| file.size() > Some(0))
    }

    /// The same file with another text as its content.
    pub fn with_text(&self, text: String) -> Self {
        let mime = self.mime().unwrap_or_default().to_owned();
        self.clone().changed(|inner| inner.source = MediaSource::Text { mime, text })
    }

    /// A copy of the file in which `change` has replaced the name, the URI, the media type and the text. A text for
    /// which `change` returns `None` stays. Bytes, URL and file id are not changed.
    pub(crate) fn reworded(&self, change: impl Fn(&str) -> Option<String>) -> Self {
        let MediaInner { source, name, uri } = &*self.0;
        let changed = |text: &Option<String>| text.as_deref().and_then(&change);
        let (new_name, new_uri) = (changed(name), changed(uri));
        let new_mime = self.mime().and_then(&change);
        let new_text = self.text().and_then(&change);
        if [&new_name, &new_uri, &new_mime, &new_text].iter().all(|new| new.is_none()) {
            return self.clone();
        }
        let source = match source {
            MediaSource::Data { mime, data } => MediaSource::Data {
                mime: new_mime.unwrap_or_else(|| mime.clone()),
                data: data.clone(),
            },
            MediaSource::Text { mime, text } => MediaSource::Text {
                mime: new_mime.unwrap_or_else(|| mime.clone()),
                text: new_text.unwrap_or_else(|| text.clone()),
            },
            source => source.clone(),
        };
        let (name, uri) = (new_name.or_else(|| name.clone()), new_uri.or_else(|| uri.clone()));
        Self(Arc::new(MediaInner { source, name, uri }))
    }

    /// Where the content of the file is.
    pub fn source(&self) -> &MediaSource {
        &self.0.source
    }

    fn kind(&self) -> MediaKind {
        MediaKind::of(self.mime())
    }

    /// The media type exactly as it was set, such as `image/png`, if the file is in memory.
    pub fn mime(&self) -> Option<&str> {
        match &self.0.source {
            MediaSource::Data { mime, .. } | MediaSource::Text { mime, .. } => Some(mime),
            MediaSource::Url(_) | MediaSource::File { .. } => None,
        }
    }

    /// The bytes of the file, if they are in memory.
    ///
    /// # Errors
    /// [`ErrorKind::Transcript`] if the data is not base64, which is possible for data from a saved transcript.
    pub fn bytes(&self) -> Result<Option<Cow<'_, [u8]>>, Error> {
        match &self.0.source {
            MediaSource::Data { data, .. } => decoded(data).map(|bytes| Some(Cow::Owned(bytes))),
            MediaSource::Text { text, .. } => Ok(Some(Cow::Borrowed(text.as_bytes()))),
            MediaSource::Url(_) | MediaSource::File { .. } => Ok(None),
        }
    }

    /// The bytes in base64, if they are in memory and not kept as [text](Self::text).
    pub fn base64(&self) -> Option<&str> {
        match &self.0.source {
            MediaSource::Data { data, .. } => Some(data),
            MediaSource::Text { .. } | MediaSource::Url(_) | MediaSource::File { .. } => None,
        }
    }

    /// The text of a text file in memory; `None` for any other file.
    pub fn text(&self) -> Option<&str> {
        match &self.0.source {
            MediaSource::Text { text, .. } => Some(text),
            MediaSource::Data { .. } | MediaSource::Url(_) | MediaSource::File { .. } => None,
        }
    }

    /// The URL that the vendor fetches.
    pub fn url(&self) -> Option<&str> {
        match &self.0.source {
            MediaSource::Url(url) => Some(url),
            MediaSource::Data { .. } | MediaSource::Text { .. } | MediaSource::File { .. } => None,
        }
    }

    /// The id of the file, and the name of the provider whose vendor stores it.
    pub fn file_id(&self) -> Option<(&str, &str)> {
        match &self.0.source {
            MediaSource::File { id, provider } => Some((id, provider)),
            MediaSource::Data { .. } | MediaSource::Text { .. } | MediaSource::Url(_) => None,
        }
    }

    /// The name of the file.
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// The URI that identifies the file.
    pub fn uri(&self) -> Option<&str> {
        self.0.uri.as_deref()
    }

    /// The size of the file in bytes, if it is in memory.
    pub fn size(&self) -> Option<usize> {
        match &self.0.source {
            MediaSource::Data { data, .. } => {
                let padding = data.bytes().rev().take_while(|byte| *byte == b'=').count();
                Some((data.len() / 4 * 3).saturating_sub(padding))
            }
            MediaSource::Text { text, .. } => Some(text.len()),
            MediaSource::Url(_) | MediaSource::File { .. } => None,
        }
    }

    /// The approximate size of the file's JSON form, in bytes.
    pub fn room(&self) -> usize {
        match &self.0.source {
            MediaSource::Data { mime, data } => mime.len().saturating_add(data.len()),
            MediaSource::Text { mime, text } => mime.len().saturating_add(text.len()),
            MediaSource::Url(url) => url.len(),
            MediaSource::File { id, provider } => id.len().saturating_add(provider.len()),
        }
    }

    /// The text that the model gets for a text file in memory: a line with the name, the URI and the media type, then
    /// the text of the file.
    pub fn to_text(&self) -> Option<String> {
        let text = self.text()?;
        let from = [self.name(), self.uri()].into_iter().flatten();
        let from = from.map(|from| format!("`{}`", in_line(from))).collect::<Vec<_>>().join(", ");
        let mime = in_line(self.mime().filter(|mime| !mime.is_empty()).unwrap_or("text"));
        Some(match from.is_empty() {
            true => format!("[A document, {mime}:]\n{text}"),
            false => format!("[The document {from}, {mime}:]\n{text}"),
        })
    }

    /// One line with the kind, name, media type and size. The line does not contain the content, or the parts of a URL
    /// that may be secret.
    pub fn summary_line(&self, kind: MediaKind) -> String {
        let mut told = kind.noun().to_owned();
        let short = |text: &str| in_line(short(text)).into_owned();
        let uri = || self.uri().map(address);
        let name = self.name().map(str::to_owned).or_else(uri);
        told.extend(name.map(|name| format!(" `{}`", short(&name))));
        told.extend(self.mime().map(|mime| format!(", {}", short(mime))));
        told.extend(self.size().map(|size| format!(", {size} bytes")));
        told.extend(self.url().map(|url| format!(", at {}", short(&address(url)))));
        told.extend(self.file_id().map(|(id, of)| format!(", {} of {}", short(id), short(of))));
        told
    }
}

/// The beginning of a text from outside, at most 200 bytes.
fn short(text: &str) -> &str {
    let end = (0..=text.len().min(200)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

/// Shows the kind, media type and size, without the content and without the parts of a URL that may be secret.
impl fmt::Debug for Media {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Media({})", self.summary_line(self.kind()))
    }
}

/// Whether a media type is a text type.
///
/// Source of the list: the suffixes of RFC 6839, and types that servers and tools treat as text.
fn is_text(mime: &str) -> bool {
    const TYPES: [&str; 9] =
        ["json", "xml", "yaml", "x-yaml", "toml", "javascript", "x-sh", "sql", "x-ndjson"];
    let mime = mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let of_program = mime.strip_prefix("application/").unwrap_or_default();
    mime.starts_with("text/")
        || TYPES.contains(&of_program)
        || ["+json", "+xml", "+yaml"].iter().any(|suffix| of_program.ends_with(suffix))
}

fn decoded(data: &str) -> Result<Vec<u8>, Error> {
    STANDARD.decode(data).map_err(|err| {
        Error::new(ErrorKind::Transcript, format!("the data of a file is not base64: {err}"))
            .with_source(err)
    })
}

/// Whether a text is base64 with padding, the form that all vendors accept.
pub fn is_base64(data: &str) -> bool {
    let letters = data.strip_suffix("==").or_else(|| data.strip_suffix('=')).unwrap_or(data);
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    data.len().is_multiple_of(4) && letters.bytes().all(is_letter)
}

impl From<Media> for super::Block {
    /// Makes a block of the media type's kind: a picture, audio or a document. A file without a media type becomes a
    /// document.
    fn from(media: Media) -> Self {
        match media.kind() {
            MediaKind::Image => Self::Image(media),
            MediaKind::Audio => Self::Audio(media),
            MediaKind::Document => Self::Document(media),
        }
    }
}

impl From<Media> for super::ToolContent {
    /// Makes a part of the media type's kind: a picture, audio or a document. A file without a media type becomes a
    /// document.
    fn from(media: Media) -> Self {
        match media.kind() {
            MediaKind::Image => Self::Image(media),
            MediaKind::Audio => Self::Audio(media),
            MediaKind::Document => Self::Document(media),
        }
    }
}

/// The saved form of a file. Serializing borrows the content instead of copying it.
#[derive(Serialize, Deserialize)]
struct SavedMedia<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mime: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    provider: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uri: Option<Cow<'a, str>>,
}

impl Serialize for Media {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mime = self.mime().map(Cow::Borrowed);
        let (name, uri) = (self.name().map(Cow::Borrowed), self.uri().map(Cow::Borrowed));
        let (mut data, mut text, mut url, mut file, mut provider) = (None, None, None, None, None);
        match self.source() {
            MediaSource::Data { data: of, .. } => data = Some(Cow::Borrowed(of.as_str())),
            MediaSource::Text { text: of, .. } => text = Some(Cow::Borrowed(of.as_str())),
            MediaSource::Url(of) => url = Some(Cow::Borrowed(of.as_str())),
            MediaSource::File { id, provider: of } => {
                file = Some(Cow::Borrowed(id.as_str()));
                provider = Some(Cow::Borrowed(of.as_str()));
            }
        }
        SavedMedia { mime, data, text, url, file, provider, name, uri }.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Media {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        SavedMedia::deserialize(from)?.media().map_err(D::Error::custom)
    }
}

impl SavedMedia<'_> {
    fn media(self) -> Result<Media, &'static str> {
        let Self { mime, data, text, url, file, provider, name, uri } = self;
        let mime = mime.map(Cow::into_owned);
        let typed =
            |mime: Option<String>| mime.ok_or("a file with `data` or `text` needs a `mime`");
        let source = match (data, text, url, file) {
            (Some(data), None, None, None) => {
                MediaSource::Data { mime: typed(mime)?, data: data.into_owned() }
            }
            (None, Some(text), None, None) => {
                MediaSource::Text { mime: typed(mime)?, text: text.into_owned() }
            }
            (None, None, Some(url), None) => MediaSource::Url(url.into_owned()),
            (None, None, None, Some(id)) => {
                let provider = provider
                    .ok_or("a file with an id needs a `provider`, whose vendor stores it")?;
                MediaSource::File { id: id.into_owned(), provider: provider.into_owned() }
            }
            _ => return Err("a file needs exactly one of `data`, `text`, `url` and `file`"),
        };
        let (name, uri) = (name.map(Cow::into_owned), uri.map(Cow::into_owned));
        Ok(Media(Arc::new(MediaInner { source, name, uri })))
    }
}
