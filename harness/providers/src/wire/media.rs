//! Decides which files can be sent. A refused file stays in the conversation, and would make every later request fail.
//! So a line of text replaces a file that the model, the protocol or the vendor does not accept. In the user's newest
//! message, such a file is an error before the request.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use harness_core::{
    error::{Error, ErrorKind},
    message::{
        Media, MediaKind, MediaSource, Message, ToolContent, ToolResult, in_line, is_base64,
    },
    models::{CacheLife, Model, Models, SchemaAnswers, Thinking},
    provider::Effort,
    secret::beginning,
};

/// The provider, the model, and the model's entry in the table of models: the accepted kinds of files, and the options.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCapabilities {
    provider: String,
    model: String,
    known: Model,
}

impl ModelCapabilities {
    /// The capabilities of this model at this provider. `provider` is the provider's
    /// [`name`](harness_core::provider::Provider::name). A request contains the id of a file only if this provider's
    /// vendor stores the file.
    pub fn of(provider: impl Into<String>, model: impl Into<String>, models: &Models) -> Self {
        let (provider, model) = (provider.into(), model.into());
        let known = models.find(&provider, &model);
        Self { provider, model, known }
    }

    /// The name of the provider.
    pub(super) fn provider(&self) -> &str {
        &self.provider
    }

    /// The name of the model.
    pub(super) fn model(&self) -> &str {
        &self.model
    }

    /// How requests set the lifetime of the vendor's prompt cache; `None` if unknown.
    pub(super) fn cache_life(&self) -> Option<CacheLife> {
        self.known.cache_life
    }

    /// Whether the model is known to accept documents.
    pub(super) fn documents(&self) -> bool {
        self.known.documents == Some(true)
    }

    /// When the vendor can enforce a schema for the model's answer; `None` if unknown.
    pub(super) fn schema_answers(&self) -> Option<SchemaAnswers> {
        self.known.schema_answers
    }

    /// Whether the model may think; `false` only for a model that is known never to think.
    pub(super) fn thinks(&self) -> bool {
        self.known.thinking != Some(Thinking::Never)
    }

    /// The model's entry in the table of models, with unknown values taken from `base`.
    pub(super) fn known_over(&self, base: Model) -> Model {
        self.known.over(base)
    }

    /// Whether a request may force a call; `true` if unknown.
    pub(super) fn may_force_tools(&self) -> bool {
        self.known.forced_tools != Some(false)
    }

    /// The effort to send if the program wants `effort`. For a model that cannot stop thinking, `Off` becomes the
    /// model's lowest level.
    pub(super) fn effort(&self, effort: Effort) -> Effort {
        match self.known.efforts {
            Some(levels) if effort == Effort::Off && !levels.contains(&Effort::Off) => {
                levels.first().copied().unwrap_or(effort)
            }
            _ => effort,
        }
    }

    /// Whether a request can add changed instructions and tools after the existing messages. `is_own`: the model's
    /// vendor runs the server.
    pub(crate) fn appends_changes(&self, is_own: bool) -> bool {
        let Model { binds_reasoning, appends_changes, .. } = self.known;
        binds_reasoning == Some(true) && appends_changes.unwrap_or(is_own)
    }

    /// A text that changes whenever these capabilities change the bytes of a message.
    pub(super) fn form(&self) -> String {
        let Model { images, documents, audio, .. } = self.known;
        format!("{images:?} {documents:?} {audio:?} {:?}", (&self.provider, &self.model))
    }
}

/// The kinds of files that a protocol can carry, and their sizes.
pub(super) struct CarriedFiles {
    /// Audio, as WAV or MP3.
    pub(super) audio: bool,
    /// Other picture formats than PNG, JPEG, GIF and WebP.
    pub(super) other_pictures: bool,
    /// Pictures that the vendor stores, by their id.
    pub(super) picture_files: bool,
    /// Documents by URL.
    pub(super) document_urls: bool,
    /// Office documents.
    pub(super) office: bool,
    /// The maximum size of a picture, in base64 characters.
    pub(super) picture_size: usize,
    /// The maximum size of a document or of audio, in base64 characters.
    pub(super) size: usize,
}

/// The recipient of a request: the model, and the limits of the protocol.
#[derive(Clone, Copy)]
pub(super) struct Recipient<'a> {
    pub(super) takes: &'a ModelCapabilities,
    pub(super) places: &'a CarriedFiles,
}

/// A file in the form for a request.
#[derive(Debug)]
pub(super) enum FilePart<'a> {
    Image(Cow<'a, Media>),
    /// Audio in base64, and the name of its format.
    Audio {
        data: &'a str,
        format: &'static str,
    },
    Document(Cow<'a, Media>),
    /// A text document.
    Text(Cow<'a, Media>),
}

/// The media type of a picture, from its first bytes; `None` for a format that some vendors refuse.
///
/// Source: <https://docs.anthropic.com/en/docs/build-with-claude/vision>.
fn picture(file: &[u8]) -> Option<&'static str> {
    match file {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// The format of audio, from its first bytes; `None` if the format is unknown.
///
/// Source: <https://platform.openai.com/docs/guides/audio> (the chat models accept `wav` and `mp3`).
pub(super) fn sound(file: &[u8]) -> Option<&'static str> {
    match file {
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..] => Some("wav"),
        [b'I', b'D', b'3', ..] => Some("mp3"),
        // An MPEG frame of layer III with a valid bit rate. Raw samples rarely look like such a frame.
        [0xff, 0xe2 | 0xe3 | 0xf2 | 0xf3 | 0xfa | 0xfb, rate, ..]
            if rate & 0xf0 != 0xf0 && rate & 0x0c != 0x0c =>
        {
            Some("mp3")
        }
        _ => None,
    }
}

/// The media types of office documents that the vendor reads as text.
///
/// Source: <https://platform.openai.com/docs/guides/pdf-files>.
const OFFICE: [&str; 8] = [
    "application/msword",
    "application/rtf",
    "application/vnd.ms-excel",
    "application/vnd.ms-powerpoint",
    "application/vnd.oasis.opendocument.text",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
];

/// The number of base64 characters that the library decodes to recognize the format of a file.
const BEGINNING: usize = 16;

/// The maximum length, in bytes, of the name of a file in a message to the model.
const TOLD: usize = 100;

impl Recipient<'_> {
    /// The file in the form for a request, or the reason why no request can contain the file.
    pub(super) fn part<'m>(
        &self,
        kind: MediaKind,
        media: &'m Media,
    ) -> Result<FilePart<'m>, Cow<'static, str>> {
        let known = &self.takes.known;
        match kind {
            MediaKind::Image if known.images == Some(false) => Err(self.model_takes_no("pictures")),
            MediaKind::Image => self.picture(media),
            MediaKind::Document if media.text().is_some_and(|text| text.trim().is_empty()) => {
                Err(EMPTY.into())
            }
            MediaKind::Document if media.text().is_some() => {
                Ok(FilePart::Text(Cow::Borrowed(media)))
            }
            MediaKind::Document => match (media.data_as_text(), known.documents) {
                (Some(text), _) => Ok(FilePart::Text(Cow::Owned(text))),
                (None, Some(true)) => self.document(media),
                (None, Some(false)) => Err(self.model_takes_no("documents")),
                (None, None) => Err(self.nobody_knows("documents")),
            },
            MediaKind::Audio if !self.places.audio => {
                Err("this protocol has no place for sound".into())
            }
            MediaKind::Audio => match known.audio {
                Some(true) => self.sound(media),
                Some(false) => Err(self.model_takes_no("sound")),
                None => Err(self.nobody_knows("sound")),
            },
        }
    }

    fn model_takes_no(&self, what: &str) -> Cow<'static, str> {
        format!("the model `{}` takes no {what}", beginning(&self.takes.model, TOLD)).into()
    }

    fn nobody_knows(&self, what: &str) -> Cow<'static, str> {
        let model = beginning(&self.takes.model, TOLD);
        format!("it is not known whether the model `{model}` takes {what}").into()
    }

    fn picture<'m>(&self, media: &'m Media) -> Result<FilePart<'m>, Cow<'static, str>> {
        let begin = match media.source() {
            MediaSource::Url(url) => {
                return on_the_web(url).map(|()| FilePart::Image(Cow::Borrowed(media)));
            }
            MediaSource::File { .. } if !self.places.picture_files => {
                return Err("this protocol takes no pictures by the id of a file".into());
            }
            MediaSource::File { provider, id } => {
                return self.kept_by(provider, id).map(|()| FilePart::Image(Cow::Borrowed(media)));
            }
            MediaSource::Data { data, .. } => {
                check_size(data.len(), self.places.picture_size)?;
                begin_of(data)
            }
            MediaSource::Text { text, .. } => {
                text.as_bytes().get(..BEGINNING.min(text.len())).unwrap_or_default().to_vec()
            }
        };
        let mime = media.mime().unwrap_or_default();
        let is_sound = media.base64().is_none_or(is_base64);
        match picture(&begin).filter(|_| is_sound) {
            Some(kind) if kind == mime && media.base64().is_some() => {
                Ok(FilePart::Image(Cow::Borrowed(media)))
            }
            Some(kind) => Ok(FilePart::Image(Cow::Owned(media.with_mime(kind)))),
            None if self.places.other_pictures && is_sound && is_of_another_kind(mime) => {
                match media.size() {
                    Some(0) | None => Err(EMPTY.into()),
                    Some(_) if media.base64().is_some() => {
                        Ok(FilePart::Image(Cow::Borrowed(media)))
                    }
                    Some(_) => Ok(FilePart::Image(Cow::Owned(media.with_mime(mime)))),
                }
            }
            None => Err(format!(
                "it was given as `{}` and holds no PNG, JPEG, GIF or WebP file",
                beginning(mime, TOLD)
            )
            .into()),
        }
    }

    fn document<'m>(&self, media: &'m Media) -> Result<FilePart<'m>, Cow<'static, str>> {
        let MediaSource::Data { mime, data } = media.source() else {
            return match media.source() {
                MediaSource::Url(_) if !self.places.document_urls => {
                    Err("this protocol takes no documents by their address".into())
                }
                MediaSource::Url(url) => {
                    on_the_web(url).map(|()| FilePart::Document(Cow::Borrowed(media)))
                }
                MediaSource::File { provider, id } => {
                    self.kept_by(provider, id).map(|()| FilePart::Document(Cow::Borrowed(media)))
                }
                MediaSource::Data { .. } | MediaSource::Text { .. } => {
                    Ok(FilePart::Text(Cow::Borrowed(media)))
                }
            };
        };
        check_size(data.len(), self.places.size)?;
        if !is_base64(data) {
            return Err("its data is not base64".into());
        }
        let is_pdf = begin_of(data).starts_with(b"%PDF");
        let known = mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match is_pdf {
            true if mime == "application/pdf" => Ok(FilePart::Document(Cow::Borrowed(media))),
            true => Ok(FilePart::Document(Cow::Owned(media.with_mime("application/pdf")))),
            false if self.places.office && OFFICE.contains(&&*known) => {
                Ok(FilePart::Document(Cow::Borrowed(media)))
            }
            false => {
                let office =
                    if self.places.office { ", no document of an office program" } else { "" };
                let given = beginning(mime, TOLD);
                Err(format!("it was given as `{given}` and is no PDF file{office} and no text")
                    .into())
            }
        }
    }

    fn sound<'m>(&self, media: &'m Media) -> Result<FilePart<'m>, Cow<'static, str>> {
        let MediaSource::Data { mime, data } = media.source() else {
            return Err("this protocol takes sound only by its bytes".into());
        };
        check_size(data.len(), self.places.size)?;
        if !is_base64(data) {
            return Err("its data is not base64".into());
        }
        match sound(&begin_of(data)) {
            Some(format) => Ok(FilePart::Audio { data, format }),
            None => {
                let given = beginning(mime, TOLD);
                Err(format!("it was given as `{given}` and holds no WAV or MP3 file").into())
            }
        }
    }

    /// Checks that the file with this id is stored at this provider's vendor.
    fn kept_by(&self, provider: &str, id: &str) -> Result<(), Cow<'static, str>> {
        if provider == self.takes.provider {
            let is_id = |id: &str| !id.is_empty() && !id.contains(is_no_part_of_an_address);
            return is_id(id).then_some(()).ok_or_else(|| "the id of the file is none".into());
        }
        let (of, asked) = (beginning(provider, TOLD), beginning(&self.takes.provider, TOLD));
        Err(format!("it is a file of the provider `{of}`, and the provider `{asked}` is asked")
            .into())
    }

    /// The file in the form for a request, or the line that replaces the file. The same file always gets the same line.
    pub(super) fn part_or_line<'m>(
        &self,
        kind: MediaKind,
        media: &'m Media,
    ) -> Result<FilePart<'m>, String> {
        self.part(kind, media).map_err(|why| line(kind, media, &why))
    }

    /// Checks the files of the user's newest message.
    ///
    /// # Errors
    /// [`ErrorKind::Content`] for the first file that cannot be sent.
    pub(super) fn check(&self, message: &Message) -> Result<(), Error> {
        for (kind, media) in message.blocks().iter().filter_map(|block| block.media()) {
            if let Err(why) = self.part(kind, media) {
                return Err(self.fault(kind, media, &why));
            }
        }
        Ok(())
    }

    /// The error: the file, the reason, and what the user can do. Its note says what the program can do.
    fn fault(&self, kind: MediaKind, media: &Media, why: &str) -> Error {
        let told = media.summary_line(kind);
        let asked = self.takes.known;
        let (ability, way_out) = match kind {
            MediaKind::Image => {
                (asked.images, "send it as a PNG, JPEG, GIF or WebP file, or ask another model")
            }
            MediaKind::Audio => (asked.audio, "send it in words, or ask a model that takes sound"),
            // A model that accepts documents may accept the bytes of this document.
            MediaKind::Document
                if asked.documents == Some(true)
                    && matches!(media.source(), MediaSource::Url(_) | MediaSource::File { .. }) =>
            {
                (asked.documents, "send its bytes or its text, or ask another model")
            }
            MediaKind::Document => (asked.documents, "send its text, or ask a model that takes it"),
        };
        let text = format!("nothing was sent: the message holds a {told}, and {why}; {way_out}");
        let error = Error::new(ErrorKind::Content, text);
        match (kind, ability) {
            (MediaKind::Image, _) | (_, Some(true)) => error,
            (MediaKind::Audio, _) if !self.places.audio => error,
            _ => error.with_note(
                "if this model takes it, say so with `models(..)` of the provider's builder",
            ),
        }
    }

    /// Whether at least one file in the results of this message is sent as a file rather than as text.
    pub(super) fn is_sent_as_file(&self, message: &Message) -> bool {
        message.results().any(|result| self.shown(result.content()).next().is_some())
    }

    /// The files of a result, without the files that are sent as text.
    pub(super) fn shown<'m>(
        &self,
        content: &'m [ToolContent],
    ) -> impl Iterator<Item = FilePart<'m>> + use<'_, 'm> {
        content.iter().filter_map(|part| {
            let (kind, media) = part.media()?;
            self.part(kind, media).ok().filter(|part| !matches!(part, FilePart::Text(_)))
        })
    }

    /// The text of a part of a result; `None` if the part is sent as a file.
    pub(super) fn words<'m>(&self, part: &'m ToolContent) -> Option<Cow<'m, str>> {
        if let ToolContent::Text(text) = part {
            return Some(Cow::Borrowed(text));
        }
        let Some((kind, media)) = part.media() else { return part.to_text().map(Cow::Owned) };
        match self.part_or_line(kind, media) {
            Ok(FilePart::Text(text)) => text.to_text().map(Cow::Owned),
            Ok(_) => None,
            Err(line) => Some(Cow::Owned(line)),
        }
    }

    /// The text of a result, in parts. A line of text replaces each file that cannot be sent.
    pub(super) fn text<'m>(&self, result: &'m ToolResult) -> Vec<Cow<'m, str>> {
        result.content().iter().filter_map(|part| self.words(part)).collect()
    }
}

const EMPTY: &str = "it is empty";

/// The name for a document. Some vendors require a name. The name is never empty, and is cut to 200 bytes.
pub(super) fn file_name(media: &Media) -> Cow<'_, str> {
    const SENT: usize = 200;
    let given = media.name().filter(|name| !name.trim().is_empty());
    given.map_or("document.pdf".into(), |name| in_line(&beginning(name, SENT)).into_owned().into())
}

/// The line of text that replaces a file.
pub(super) fn line(kind: MediaKind, media: &Media, why: &str) -> String {
    let name = media.name().or(media.uri());
    let name = name.map(|name| format!(" named `{}`", in_line(&beginning(name, TOLD))));
    let a = match kind {
        MediaKind::Image => "A picture",
        MediaKind::Audio => "A sound",
        MediaKind::Document => "A document",
    };
    format!("[{a}{} stood here that cannot be shown: {why}.]", name.unwrap_or_default())
}

pub(super) fn begin_of(data: &str) -> Vec<u8> {
    let begin = data.get(..BEGINNING.min(data.len())).unwrap_or_default();
    STANDARD.decode(begin).unwrap_or_default()
}

fn check_size(size: usize, most: usize) -> Result<(), Cow<'static, str>> {
    match size {
        0 => Err(EMPTY.into()),
        size if size <= most => Ok(()),
        size => Err(format!("it has {size} bytes in base64, and the maximum is {most}").into()),
    }
}

fn on_the_web(url: &str) -> Result<(), Cow<'static, str>> {
    let begins = |scheme: &str| {
        url.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
    };
    let has_host = || {
        let host = url.split_once("://").map_or("", |(_, rest)| rest);
        !host.is_empty() && !host.starts_with(['/', '?', '#'])
    };
    match begins("https://") || begins("http://") {
        true if url.contains(is_no_part_of_an_address) => {
            Err("its address holds a space or a control character".into())
        }
        true if !has_host() => Err("its address names no host".into()),
        true => Ok(()),
        false => Err("its address begins with neither `https://` nor `http://`".into()),
    }
}

fn is_no_part_of_an_address(letter: char) -> bool {
    letter.is_whitespace() || letter.is_control()
}

/// Whether only some servers accept this picture format, such as `image/heic`. Vector graphics do not count, because no
/// model reads vector graphics.
fn is_of_another_kind(mime: &str) -> bool {
    let known = ["png", "jpeg", "jpg", "gif", "webp", "svg+xml"];
    let is_plain = |name: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b".+-".contains(&byte);
        !name.is_empty() && name.bytes().all(is_part)
    };
    mime.strip_prefix("image/").is_some_and(|name| is_plain(name) && !known.contains(&name))
}
