//! The citations, pictures and audio of an answer.

use std::collections::HashSet;

use super::{
    WIRE,
    chunk::{AudioDelta, ChunkDelta},
};
use crate::wire::{
    citations,
    decoder::EventSink,
    media::{begin_of, sound},
    names,
    tolerant::{ObjectMembers, RawJson, TolerantText, text_of},
};
use harness_core::{
    error::Error,
    message::{self, Citation},
    provider::VendorPart,
};

/// The block number of the audio. Pictures have the numbers below this number.
const AUDIO: u32 = u32::MAX - 1;

/// The sources, the pictures and the audio of one answer.
#[derive(Debug, Default)]
pub(super) struct AnswerMedia {
    /// The annotations of the text as JSON, unchanged.
    annotations: Vec<String>,
    /// The sources of the answer, without repeats. Each chunk repeats all sources so far, outside of the choices.
    sources: Vec<Citation>,
    pictures: u32,
    /// Hashes of pictures, annotations and sources so far, because some servers repeat them.
    seen: HashSet<u64>,
    /// The last lists of sources, as JSON. Servers repeat these long lists in each chunk, and the decoder does not
    /// parse an equal list again.
    pub(super) last_found: Vec<u8>,
    pub(super) last_urls: Vec<u8>,
    audio: Option<Box<AnswerAudio>>,
}

/// The audio of an arriving answer.
#[derive(Debug, Default)]
struct AnswerAudio {
    id: String,
    /// The data in base64. If the audio is too large, the answer continues without audio.
    data: String,
    is_too_large: bool,
    transcript: String,
    expires_at: Option<u64>,
}

impl AnswerAudio {
    fn has_content(&self) -> bool {
        !self.id.is_empty() || !self.data.is_empty() || !self.transcript.is_empty()
    }

    /// The audio, if there is data, and the vendor's JSON about the audio.
    fn parts(self) -> (Option<message::Media>, String) {
        let Self { id, data, is_too_large: _, transcript, expires_at } = self;
        let sound = Some(data).filter(|data| !data.is_empty());
        let sound = sound.and_then(|data| message::Media::from_base64(format(&data), data).ok());
        let audio = serde_json::json!({
            "id": id, "transcript": transcript, "expires_at": expires_at,
        });
        (sound, serde_json::json!({ "audio": audio }).to_string())
    }
}

/// The media type of audio, from its first bytes. Audio in streams is 16-bit samples without a header.
///
/// Source: <https://platform.openai.com/docs/guides/audio> (`pcm16`, 24 kHz, little-endian).
fn format(data: &str) -> &'static str {
    match sound(&begin_of(data)) {
        Some("wav") => "audio/wav",
        Some(_) => "audio/mpeg",
        None => "audio/pcm",
    }
}

impl AnswerMedia {
    /// Adds the sources in a chunk, outside of the choices: search results and URLs.
    pub(super) fn sources(
        &mut self,
        found: &[RawJson<'_>],
        urls: &[TolerantText<'_>],
        out: &mut EventSink,
    ) -> Result<(), Error> {
        for json in found {
            if let Some(source) = citations::citation(json.get()) {
                self.source(source, out)?;
            }
        }
        for url in urls {
            let mut source = Citation::default();
            source.url = url.owned();
            self.source(source, out)?;
        }
        Ok(())
    }

    fn source(&mut self, source: Citation, out: &mut EventSink) -> Result<(), Error> {
        let Some(url) = &source.url else { return Ok(()) };
        if self.seen.insert(names::hash(&format!("source {url}"))) {
            out.source(url)?;
            self.sources.push(source);
        }
        Ok(())
    }

    /// Adds the citations, pictures and audio of a delta. `text` is the block number of the text.
    pub(super) fn push(
        &mut self,
        delta: &ChunkDelta<'_>,
        text: u32,
        out: &mut EventSink,
    ) -> Result<(), Error> {
        for json in &delta.annotations.0 {
            if self.seen.insert(names::hash(json.get())) {
                out.source(json.get())?;
                self.annotations.push(json.get().to_owned());
                out.citation(text, json.get())?;
            }
        }
        for json in &delta.images.0 {
            let members = ObjectMembers::of(json.get());
            let url = match members.get("image_url") {
                Some(inner) if inner.starts_with('{') => {
                    text_of(ObjectMembers::of(inner).get("url"))
                }
                inner => text_of(inner.or_else(|| members.get("url"))),
            };
            let Some(image) = citations::image(&url) else { continue };
            if self.seen.insert(names::hash(&url)) {
                out.part()?;
                self.pictures = self.pictures.saturating_add(1);
                out.image(AUDIO.saturating_sub(self.pictures), image)?;
            }
        }
        match &delta.audio.0 {
            Some(audio) => self.sound(audio, text, out),
            None => Ok(()),
        }
    }

    fn sound(
        &mut self,
        audio: &AudioDelta<'_>,
        text: u32,
        out: &mut EventSink,
    ) -> Result<(), Error> {
        let sound = self.audio.get_or_insert_default();
        if sound.id.is_empty() {
            sound.id = audio.id.owned().unwrap_or_default();
        }
        sound.is_too_large |= sound.data.len().saturating_add(audio.data.len()) > out.room() / 2;
        match sound.is_too_large {
            true => sound.data = String::new(),
            false => sound.data.push_str(&audio.data),
        }
        sound.transcript.push_str(&audio.transcript);
        sound.expires_at = audio.expires_at.0.or(sound.expires_at);
        // The transcript of the audio is the text of the answer.
        out.text(text, &*audio.transcript)
    }

    /// Emits the sources and the audio. Returns the annotations for the vendor data of the text.
    pub(super) fn finish(
        &mut self,
        text: u32,
        out: &mut EventSink,
    ) -> Result<Option<String>, Error> {
        // Annotations name the same sources. So these sources are emitted only without annotations.
        let sources = std::mem::take(&mut self.sources).into_iter();
        for source in sources.filter(|_| self.annotations.is_empty()) {
            out.cited(text, source)?;
        }
        if let Some(sound) = self.audio.take().filter(|sound| sound.has_content()) {
            let (sound, json) = sound.parts();
            let size = sound.as_ref().map_or(0, message::Media::room);
            if let Some(sound) = sound.filter(|_| size <= out.room()) {
                out.audio(AUDIO, sound)?;
            }
            if json.len() <= out.room() {
                out.vendor(AUDIO, VendorPart::Opaque, WIRE, json)?;
            }
        }
        let annotations = std::mem::take(&mut self.annotations);
        Ok((!annotations.is_empty()).then(|| format!("[{}]", annotations.join(","))))
    }
}
