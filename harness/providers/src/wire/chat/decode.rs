//! Converts the stream of chunks into events. `calls` assigns fragments to calls, and `thought` finds thinking.

use std::borrow::Cow;

use super::{
    Origin, ThinkTags, WIRE,
    calls::AnswerCalls,
    chunk::{CallDelta, ChatChunk, ChunkChoice, ChunkDelta},
    common_event::ChunkContents,
    media::AnswerMedia,
    thought::{AnswerThinking, ThinkTagSplitter},
};
use crate::wire::{
    decoder::{Decoder, Dialect, EventSink, EventText, not_understood},
    delta_fast_path::VaryingPlaces,
    fault,
    json_walk::JsonWalk,
    reader, surrogates,
    tolerant::{
        ObjectMembers, RawJson, TolerantCount, TolerantObject, TolerantText, join, text_in,
    },
};
use harness_core::{
    error::{Error, ErrorKind},
    provider::{ResponseSizeLimits, StopReason, Usage, VendorPart, WantedItem},
};

/// Options for reading the answers of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeOptions {
    /// Whether the text of an answer contains thinking.
    pub think_tags: ThinkTags,
    /// Whether an answer without a stop reason is complete when the server sends `[DONE]`. Most servers always send a
    /// stop reason, so a missing stop reason means that the answer broke off.
    pub done_is_enough: bool,
    /// The server and model of the answer. Use the same value as in [`Options`](super::Options): the library sends a
    /// server's data only to the same server and model.
    pub origin: Origin,
}

/// A decoder for one answer.
pub fn decoder(limits: ResponseSizeLimits, reading: DecodeOptions) -> Decoder<ChatAnswer> {
    let DecodeOptions { think_tags, done_is_enough, origin } = reading;
    let splitter = ThinkTagSplitter::new(think_tags);
    let calls = AnswerCalls::of(origin);
    Decoder::with(ChatAnswer { splitter, done_is_enough, calls, ..ChatAnswer::default() }, limits)
}

/// The block number of the text. Thinking has the number before it, and calls have the numbers after it.
const TEXT: u32 = 1;
const FIRST_CALL: u32 = 2;
const OTHER_CALLS: u32 = u32::MAX;

/// The type of a chunk.
const CHUNK: &[u8] = b"chat.completion.chunk";

/// A note for the error of a server that never sends a stop reason.
const NEVER_SAYS_WHY: &str = "if this server never gives one, `done_is_enough(true)` of the provider's builder takes \
                              `[DONE]` as the end of an answer";

/// The stop reasons that are failures.
const FAILURES: [&str; 2] = ["error", "insufficient_system_resource"];

/// The state of an arriving answer.
#[derive(Debug, Default)]
pub struct ChatAnswer {
    started: bool,
    splitter: Option<ThinkTagSplitter>,
    done_is_enough: bool,
    thought: AnswerThinking,
    calls: AnswerCalls,
    media: AnswerMedia,
    /// The number of bytes of text so far. Some servers repeat the whole text in each chunk.
    said: usize,
    refused: bool,
    /// The type of the first call that is not a function call, and the fragments of such calls (`others`).
    wanted: Option<WantedItem>,
    others: Vec<String>,
    finish: Option<String>,
    usage: Usage,
}

/// A chunk that contains only text, or only thinking.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PlainChunk {
    Words,
    /// The name of the field with the thinking.
    Thought(&'static str),
}

impl Dialect for ChatAnswer {
    type Delta = PlainChunk;

    fn read(&mut self, event: &str, data: &str, out: &mut EventSink) -> Result<bool, Error> {
        if data.trim() == "[DONE]" {
            if self.done_is_enough {
                self.finish.get_or_insert_default();
            }
            return self.done(out).map(|()| true).map_err(|error| match error.kind() {
                ErrorKind::CutOff => error.with_note(NEVER_SAYS_WHY),
                _ => error,
            });
        }
        // Google sends errors inside a list.
        if data.trim_start().starts_with('[') {
            let unknown = || Error::new(ErrorKind::Protocol, data.trim());
            return Err(fault::in_json(data).unwrap_or_else(unknown));
        }
        let chunk = match reader::from_str::<ChatChunk<'_>>(data) {
            Ok(chunk) => chunk,
            Err(err) if event == "error" => return Err(fault::in_event(data).with_source(err)),
            Err(err) => return Err(not_understood(data, err)),
        };
        if let Some(err) = failure(event, data, &chunk) {
            return Err(err);
        }
        // The first chunk may contain only the verdict of the content filter on the prompt. Such a chunk does not start
        // the answer.
        let named = chunk.id.some().is_some() || chunk.model.some().is_some();
        if !self.started && (named || !chunk.choices.0.is_empty()) {
            self.started = true;
            out.started(chunk.id.owned(), chunk.model.owned());
        }
        self.media.sources(&chunk.search_results.0, &chunk.citations.0, out)?;
        let usage = chunk.usage.0.or_else(|| chunk.x_groq.0.and_then(|groq| groq.usage.0));
        if let Some(usage) = usage {
            self.usage.update(&usage.known());
            out.usage(self.usage);
        }
        for choice in &chunk.choices.0 {
            if choice.index.0.unwrap_or(0) == 0 {
                self.choice(choice, data, out)?;
            }
        }
        if &*chunk.object == "chat.completion" && self.finish.is_some() {
            // The server sent the answer as one object rather than as a stream.
            self.done(out)?;
        }
        Ok(true)
    }

    fn read_common(&mut self, data: &[u8], out: &mut EventSink) -> Option<Result<bool, Error>> {
        let mut said = ChunkContents::default();
        said.read(data, self.started, &self.media)?;
        if !said.finish.is_empty() && FAILURES.contains(&said.finish.trim()) {
            return None;
        }
        Some(self.read_contents(said, out).map(|()| true))
    }

    fn delta(&self, data: &str, places: &mut VaryingPlaces) -> Option<PlainChunk> {
        let (mut said, mut choices) = (None, 0);
        JsonWalk::new(data.as_bytes()).object(|walk, name| match name {
            b"choices" => walk.list(|walk| {
                choices += 1;
                walk.object(|walk, name| match name {
                    b"delta" => walk.object(|walk, name| {
                        let more = match name {
                            b"content" => PlainChunk::Words,
                            b"reasoning_content" => PlainChunk::Thought("reasoning_content"),
                            b"reasoning" => PlainChunk::Thought("reasoning"),
                            b"role" => return walk.skip(),
                            _ => return walk.literal("null"),
                        };
                        walk.literal("null").or_else(|| walk.same(b"\"\"")).or_else(|| {
                            said = Some(more);
                            places.text(walk)
                        })
                    }),
                    b"index" => (walk.number()? == 0).then_some(()),
                    b"finish_reason" | b"native_finish_reason" | b"message" => walk.literal("null"),
                    _ => walk.skip(),
                })
            }),
            b"id"
            | b"model"
            | b"created"
            | b"system_fingerprint"
            | b"service_tier"
            | b"provider"
            | b"obfuscation"
            | b"p" => places.any(walk),
            b"object" => (walk.plain()? == CHUNK).then_some(()),
            _ => walk.literal("null"),
        })?;
        said.filter(|_| self.started && choices == 1)
    }

    fn again(
        &mut self,
        more: PlainChunk,
        text: Cow<'_, str>,
        out: &mut EventSink,
    ) -> Option<Result<(), Error>> {
        Some(match more {
            PlainChunk::Words => self.words(text, out),
            PlainChunk::Thought(field) => self.thought.push_field(field, text, out),
        })
    }

    fn has_stopped(&self) -> bool {
        self.finish.is_some()
    }

    fn end(&mut self, out: &mut EventSink) -> Result<(), Error> {
        // The stop reason ends the answer, because some servers send no `[DONE]`.
        self.done(out)
    }
}

impl ChatAnswer {
    fn read_contents(&mut self, said: ChunkContents<'_>, out: &mut EventSink) -> Result<(), Error> {
        if !self.started && (said.has_choice || !said.id.is_empty() || !said.model.is_empty()) {
            self.started = true;
            out.started(TolerantText(said.id).owned(), TolerantText(said.model).owned());
        }
        if let Some((json, found)) = said.found {
            self.media.sources(&found, &[], out)?;
            json.clone_into(&mut self.media.last_found);
        }
        if let Some((json, urls)) = said.urls {
            self.media.sources(&[], &urls, out)?;
            json.clone_into(&mut self.media.last_urls);
        }
        if let Some(usage) = said.usage.or(said.groq_usage) {
            self.usage.update(&usage.known());
            out.usage(self.usage);
        }
        if said.thought.is_some() || !said.details.is_empty() {
            self.thought.push(said.thought, said.details, out)?;
        }
        self.words(said.words, out)?;
        for part in said.parts {
            self.part(part, out)?;
        }
        if let Some(call) = &said.call {
            self.calls.push(call, FIRST_CALL, out)?;
        }
        match said.finish.trim() {
            "" => {}
            reason => self.finish = Some(reason.to_owned()),
        }
        Ok(())
    }

    fn choice(
        &mut self,
        choice: &ChunkChoice<'_>,
        data: &str,
        out: &mut EventSink,
    ) -> Result<(), Error> {
        match (&choice.delta.0, &choice.message.0) {
            (Some(delta), _) => self.delta(delta, out)?,
            (None, Some(message)) => self.message(message, out)?,
            (None, None) => {}
        }
        match choice.finish_reason.trim() {
            "" => {}
            reason if FAILURES.contains(&reason) => {
                let words = format!(
                    "the server gave up in the middle of the answer, with the stop reason `{reason}`"
                );
                return Err(fault::in_json(data)
                    .unwrap_or_else(|| Error::new(ErrorKind::Api, words).with_code(reason)));
            }
            reason => self.finish = Some(reason.to_owned()),
        }
        Ok(())
    }

    fn delta(&mut self, delta: &ChunkDelta<'_>, out: &mut EventSink) -> Result<(), Error> {
        let details = delta.reasoning_details.0.iter().map(|json| json.get());
        let details = details.filter(|json| json.starts_with('{'));
        let details = details.map(|json| (json.len(), ObjectMembers::of(json)));
        self.thought.push(AnswerThinking::found(delta), details, out)?;
        self.words(&*delta.content.text, out)?;
        for part in &delta.content.list {
            self.part(*part, out)?;
        }
        if let Some(refusal) = delta.refusal.some() {
            self.refused = true;
            out.text(TEXT, refusal)?;
        }
        self.media.push(delta, TEXT, out)?;
        for call in &delta.tool_calls.0 {
            match other_than_function(call) {
                Some(kind) => self.other_call(kind, call, out)?,
                None => self.calls.push(call, FIRST_CALL, out)?,
            }
        }
        if let Some(function) = &delta.function_call.0 {
            // An older form of a call, without an id.
            let arguments = function.arguments.clone();
            let name = function.name.clone();
            let function = TolerantObject(Some(super::chunk::FunctionDelta { name, arguments }));
            let call =
                CallDelta { index: TolerantCount(Some(0)), function, ..CallDelta::default() };
            self.calls.push(&call, FIRST_CALL, out)?;
        }
        Ok(())
    }

    /// Stores a fragment of a call that is not a function call.
    fn other_call(
        &mut self,
        kind: &str,
        call: &CallDelta<'_>,
        out: &mut EventSink,
    ) -> Result<(), Error> {
        self.wanted.get_or_insert(WantedItem::new(kind));
        let input = call.custom.map_or("null", RawJson::get);
        let (id, kind) = (serde_json::json!(call.id.0), serde_json::json!(kind));
        let json = format!(r#"{{"id":{id},"type":{kind},"custom":{input}}}"#);
        out.kept(&json)?;
        self.others.push(json);
        Ok(())
    }

    /// Reads a message in place of a delta. The message contains the whole text so far.
    fn message(&mut self, message: &ChunkDelta<'_>, out: &mut EventSink) -> Result<(), Error> {
        if self.said == 0 && self.calls.is_empty() {
            self.delta(message, out)?;
            self.said = surrogates::without_last(&message.content.text).len();
            return Ok(());
        }
        // A first surrogate at the end is left out, because the next message contains the whole character.
        let all = surrogates::without_last(&message.content.text);
        self.words(all.get(self.said..).unwrap_or_default(), out)
    }

    fn part(&mut self, part: RawJson<'_>, out: &mut EventSink) -> Result<(), Error> {
        let members = ObjectMembers::of(part.get());
        if self.thought.push_part(&members, out)? {
            return Ok(());
        }
        self.words(members.get("text").map(text_in).unwrap_or_default(), out)
    }

    fn words(&mut self, text: impl EventText, out: &mut EventSink) -> Result<(), Error> {
        if text.as_ref().is_empty() {
            return Ok(());
        }
        self.said = self.said.saturating_add(text.as_ref().len());
        let thought = &mut self.thought;
        match &mut self.splitter {
            None => out.text(TEXT, text),
            Some(splitter) => splitter.push(text.as_ref(), |thinking, text| match thinking {
                true => thought.push_text(text, out),
                false => out.text(TEXT, text),
            }),
        }
    }

    /// Ends the answer. Fails if there is no stop reason.
    fn done(&mut self, out: &mut EventSink) -> Result<(), Error> {
        let Some(reason) = self.finish.take() else {
            return Err(Error::new(
                ErrorKind::CutOff,
                "the answer ended before it was complete: it has no stop reason",
            ));
        };
        if let Some(splitter) = &mut self.splitter {
            let thought = &mut self.thought;
            splitter.finish(|thinking, text| match thinking {
                true => thought.push_text(text, out),
                false => out.text(TEXT, text),
            })?;
        }
        self.thought.finish(out)?;
        let annotations = self.media.finish(TEXT, out)?;
        let refused = self.refused.then_some(("refusal", "true"));
        let annotations = annotations.as_deref().map(|list| ("annotations", list));
        if let Some(kept) = join(refused.into_iter().chain(annotations)) {
            out.vendor(TEXT, VendorPart::Text, WIRE, kept)?;
        }
        let stop = match reason.as_str() {
            "length" | "max_tokens" | "model_length" | "abort" => StopReason::Truncated,
            "content_filter" => StopReason::Refused,
            _ if self.refused => StopReason::Refused,
            // The remaining stop reasons do not matter, only the calls: many servers send `stop` with calls, and some
            // servers send another reason without calls.
            _ if self.wanted.is_some() => {
                self.wanted.map_or(StopReason::Complete, StopReason::Unsupported)
            }
            _ if self.calls.is_empty() => StopReason::Complete,
            _ => StopReason::ToolCalls,
        };
        if !self.others.is_empty() {
            let json = format!(r#"{{"tool_calls":[{}]}}"#, self.others.join(","));
            out.vendor(OTHER_CALLS, VendorPart::Opaque, WIRE, json)?;
        }
        self.calls.finish(stop == StopReason::Truncated, out)?;
        out.completed(stop, self.usage);
        Ok(())
    }
}

/// The type of a call that is not a function call; `None` for a function call.
pub(super) fn other_than_function<'a>(call: &'a CallDelta<'_>) -> Option<&'a str> {
    match (call.function.0.is_some(), call.custom, call.kind.trim()) {
        (true, ..) | (false, None, "" | "function") => None,
        (false, Some(_), "") => Some("custom"),
        (false, _, kind) => Some(kind),
    }
}

/// The error in place of a chunk, or in a chunk with choices.
fn failure(event: &str, data: &str, chunk: &ChatChunk<'_>) -> Option<Error> {
    let names_one = chunk.error.is_some_and(|json| fault::is_told(json.get()))
        || event == "error"
        || &*chunk.object == "error"
        || (chunk.detail.is_some() && chunk.choices.0.is_empty());
    names_one.then(|| fault::in_event(data))
}
